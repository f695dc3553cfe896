"""What surrounds the course: versions, commands, workflows, licences, and that the documents speak of things that exist."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
SETS = ("site", "colab", "newest")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PROMISED = {
    "colab": {"jax": "0.7.2", "jaxlib": "0.7.2", "flax": "0.11.2", "optax": "0.2.8", "orbax-checkpoint": "0.12.4", "numpy": "2.1.3", "scipy": "1.16.3",
              "matplotlib": "3.10.0", "ipywidgets": "7.7.1", "ipython": "7.34.0", "ipykernel": "6.17.1"},
    "newest": {"jax": "0.12.0.1", "flax": "0.12.12"},
    "site": {"jax": "0.10.2", "flax": "0.12.8", "jupyter-book": "1.0.4.post1"},
}  # fmt: skip
NOT_COLABS = {"jaxtyping"}


def versions(name):
    """A set of versions, as {package: version}."""
    lines = (ROOT / f"tests/constraints/{name}.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(package): version for package, version in pairs}


# ---------------------------------------------------------------- versions


@pytest.mark.parametrize("name", SETS)
def test_set_is_exact_and_names_no_place(name):
    lines = (ROOT / f"tests/constraints/{name}.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.]+", line) for line in lines[1:])
    assert "unrolled" not in versions(name)


@pytest.mark.parametrize("name", SETS)
def test_set_has_the_promised_versions_and_all_that_is_needed(name):
    found = versions(name)
    assert {package: found[package] for package in PROMISED[name]} == PROMISED[name]
    needed = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]
    if name == "site":
        needed = needed + [name for extra in ("site", "browser", "grading", "peers") for name in PROJECT["optional-dependencies"][extra]]
    for requirement in map(Requirement, needed):
        if name == "colab" and requirement.name in NOT_COLABS:
            assert requirement.name not in found
        else:
            assert found[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_package_sets_no_upper_bound():
    for requirement in map(Requirement, PROJECT["dependencies"]):
        assert {bound.operator for bound in requirement.specifier} <= {">="}, requirement
        assert not requirement.url
    assert PROJECT["requires-python"] == ">=3.11"


def installed():
    """The public versions of what is installed, without what packages bring within themselves: the wheel of torch 2.13.0+cpu is one of torch 2.13.0."""
    return {canonicalize_name(item.name): Version(item.version).public for item in importlib.metadata.distributions(path=[sysconfig.get_path("purelib")])}


def set_in_use():
    (name,) = [name for name in SETS if versions(name)["jax"] == installed()["jax"]]
    return versions(name)


def test_installed_versions_are_those_of_a_set():
    promised = {package: Version(version).public for package, version in set_in_use().items()}
    assert {package: version for package, version in installed().items() if promised.get(package, version) != version} == {}


def test_peers_are_there_where_they_are_promised():
    """Elsewhere tests against them are skipped, so here none may be absent."""
    promised = {Requirement(name).name for name in PROJECT["optional-dependencies"]["peers"]} & set(set_in_use())
    assert promised <= set(installed()), "make test and make test-fast bring them"
    for name in promised:
        subprocess.run([sys.executable, "-c", f"import importlib.util as u; assert u.find_spec('{name}')"], check=True)


def test_package_holds_all_modules_and_results_and_nothing_else():
    files = {str(path) for path in importlib.metadata.files("unrolled") if not re.search(r"^__editable__|\.dist-info/|\.pyc$", str(path))}
    modules = {str(path.relative_to(ROOT / "labs")) for path in (ROOT / "labs/unrolled").rglob("*.py")}
    results = {f"unrolled/results/{path.name}" for path in (ROOT / "book/_results").iterdir()}
    assert modules and results
    assert files in (set(), modules | results)  # an editable installation lists none


def test_package_names_all_its_folders():
    folders = {".".join(path.parent.relative_to(ROOT / "labs").parts) for path in (ROOT / "labs/unrolled").rglob("__init__.py")}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert set(settings["packages"]) == folders | {"unrolled.results"}
    assert {path.parent for path in (ROOT / "labs/unrolled").rglob("*.py")} == {ROOT.joinpath("labs", *folder.split(".")) for folder in folders}


# ---------------------------------------------------------------- commands


def commands():
    """The commands of the Makefile."""
    return set(re.findall(r"(?m)^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8")))


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", ".ci/run", ".github/workflows/ci.yml", ".github/workflows/publish.yml"])
def test_commands_in_documents_exist(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    named = set(re.findall(r"(?m)(?:`|^|run: |PYTHON=[\w.]+ )make (?:PYTHON=\S+ )?([a-z][a-z-]*)|^leg ([a-z-]+)$", text))
    for matrix in re.findall(r"command: \[(.*)\]", text):
        named |= {(command, "") for command in matrix.split(", ")}
    assert named and {one or other for one, other in named} <= commands()


def test_make_lists_its_commands():
    listed = subprocess.run(["make", "--no-print-directory", "-C", ROOT], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"(?m)^make ([a-z-]+)", listed)) == commands() - {"help"}


def test_makefile_says_what_repo_needs():
    answer = subprocess.run(["make", "-n", "-W", "requirements.txt", "-C", ROOT, "repo"], capture_output=True, text=True)
    assert answer.returncode != 0 and "make repo URL=https://github.com/owner/name" in answer.stderr
    assert "Setting up" not in answer.stdout, "an environment is made before the question"


def test_ci_script_is_sound():
    assert os.access(ROOT / ".ci/run", os.X_OK)
    subprocess.run(["bash", "-n", ROOT / ".ci/run"], check=True)
    assert re.findall(r"(?m)^leg ((?:test|book)[a-z-]*)", (ROOT / ".ci/run").read_text()) == ["book", "test", "test-colab", "test-newest"]


def test_old_python_is_told_so(monkeypatch):
    import interpreter

    interpreter.check()
    monkeypatch.setattr(interpreter, "OLDEST", (99, 0))
    with pytest.raises(SystemExit, match="needs Python"):
        interpreter.check()


def test_interpreter_is_found_or_named(monkeypatch, tmp_path):
    import interpreter

    mine = "{}.{}".format(*sys.version_info)
    assert interpreter.version(interpreter.find(mine)) == sys.version_info[:2]
    (tmp_path / "python9.9").write_text("#!/bin/sh\nexit 127\n")  # as pyenv's shims do for a version that is not chosen
    (tmp_path / "python9.9").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="No Python 9.9 here"):
        interpreter.find("9.9")


def test_browser_is_the_named_one(monkeypatch, tmp_path):
    import browser

    (tmp_path / "google-chrome").write_text("#!/bin/sh\n")
    (tmp_path / "google-chrome").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    assert browser.find() == str(tmp_path / "google-chrome")
    monkeypatch.setenv("CHROMIUM", "no-such-browser")
    with pytest.raises(SystemExit, match="no-such-browser"):
        browser.find()


# ---------------------------------------------------------------- workflows


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("schema", ["vendor.github-workflows", "vendor.citation-file-format"])
def test_files_for_github_are_valid(schema):
    pytest.importorskip("check_jsonschema", reason="the schemas are in the site's environment")
    files = WORKFLOWS if "workflows" in schema else [ROOT / "CITATION.cff"]
    subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files], check=True, capture_output=True)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_has_least_rights_and_named_versions(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        rights = job.get("permissions", {})
        assert rights in ({}, {"pages": "write", "id-token": "write"}, {"contents": "write"}), name
        assert "uses" in job or job["timeout-minutes"] <= 60, name
        for step in job.get("steps", []):
            assert "uses" not in step or re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]), step


def git(folder, *words):
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_script_that_fills_the_branch_adds_commits_and_keeps_old_ones(tmp_path):
    workflow = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8"))
    script = workflow["jobs"]["colab"]["steps"][-1]["run"]
    git(tmp_path, "init", "--quiet", "--bare", "origin")
    git(tmp_path, "clone", "--quiet", "origin", "main")
    (tmp_path / "main/README.md").write_text("the course")
    (tmp_path / "main/.gitignore").write_text("_build/\n*.ipynb\n")
    git(tmp_path / "main", "add", "--all")
    git(tmp_path / "main", "commit", "--quiet", "-m", "first")
    git(tmp_path / "main", "push", "--quiet", "origin", "HEAD:main")
    for count, names in enumerate((["01", "02"], ["01"], ["01"]), 1):
        work = tmp_path / f"work{count}"
        git(tmp_path, "clone", "--quiet", "--branch", "main", "origin", work.name)
        (work / "_build/colab/book").mkdir(parents=True)
        for name in names:
            (work / f"_build/colab/book/{name}.ipynb").write_text(f"{name}, {min(count, 2)}")
        subprocess.run(["bash", "-e", "-c", script], cwd=work, check=True, capture_output=True)
        held = git(tmp_path / "origin", "ls-tree", "-r", "--name-only", "colab").split()
        assert held == [f"book/{name}.ipynb" for name in names]
        assert git(tmp_path / "origin", "rev-list", "--count", "colab").strip() == str(min(count, 2))


# ---------------------------------------------------------------- documents


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_between_documents_resolve(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    text = re.sub(r"(?ms)^(`{3,4}).*?^\1$", "", text)
    text = re.sub(r"`[^`]*`|``.*?``", "", text)
    for target in re.findall(r"\]\(([^)\s#]+)\)", text):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_places_in_contributing_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Where things are")[1].split("**One idea")[0]
    places = re.findall(r"`([\w./]+)`", text)
    assert len(places) > 8
    assert not [place for place in places if not any((ROOT / folder / place).exists() for folder in ("", "book"))]


def test_licences_are_there_and_say_who():
    for name, words in {"LICENSE": "MIT License", "LICENSE-text": "Creative Commons Attribution 4.0 International"}.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert words in text and "Copyright (c) 2026 The Unrolled authors" in text
    for folder in (ROOT / "book/_static").iterdir():
        if folder.is_dir() and any(folder.rglob("*.woff2")):
            assert (folder / "LICENSE").exists() and f"book/_static/{folder.name}/" in (ROOT / "LICENSE-text").read_text(encoding="utf-8")


def test_citation_has_the_version_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["version"]


def test_nothing_ignored_is_needed():
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git repository")
    ignored = git(ROOT, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "book", "tests", "labs").split()
    assert not [name for name in ignored if not re.search(r"__pycache__|\.egg-info|\.ipynb_checkpoints|\.pytest_cache|\.hypothesis", name)]
