"""The repository's address: it stands once, all else agrees with it, and one command moves everything to a fork and back."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import address  # noqa: E402

HERE = address.current()
FORK = address.Address("Some-One", "a.fork")
NOTEBOOKS = [*(ROOT / "book").glob("[0-9]*.ipynb"), *(ROOT / "labs").glob("source/*/*.ipynb"), *(ROOT / "labs").glob("release/*/*.ipynb")]
STRANGER = address.Address("no-" + "body", "else" + "where")  # written out nowhere, so that the way back is exact


def test_address_makes_the_others():
    fork = address.parse("https://github.com/Some-One/a.fork")
    assert fork == FORK
    assert fork.url == "https://github.com/Some-One/a.fork"
    assert fork.site == "https://some-one.github.io/a.fork/"
    assert fork.install() == "unrolled @ git+https://github.com/Some-One/a.fork"
    assert fork.install("0123") == "unrolled @ git+https://github.com/Some-One/a.fork@0123"
    assert fork.colab("book/01.ipynb") == "https://colab.research.google.com/github/Some-One/a.fork/blob/colab/book/01.ipynb"
    assert address.Address("me", "me.github.io").site == "https://me.github.io/"


@pytest.mark.parametrize("url", ["https://github.com/me/fork.git", "https://github.com/me/fork/", " https://github.com/me/fork\n"])
def test_address_in_other_spellings(url):
    assert address.parse(url) == address.Address("me", "fork")


@pytest.mark.parametrize("url", ["", "me/fork", "https://github.com/me", "https://gitlab.com/me/fork", "https://github.com/me/fork/tree/main", "git@github.com:me/fork"])
def test_no_address_is_an_error_that_says_what_is_expected(url):
    with pytest.raises(ValueError, match=r"is not the address.*Expected: https://github.com/owner/name"):
        address.parse(url)


def test_everything_agrees_with_the_configuration():
    configuration = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert configuration["html"]["baseurl"] == HERE.site
    assert project["urls"] == {"Homepage": HERE.site, "Repository": HERE.url}
    assert (citation["repository-code"], citation["url"]) == (HERE.url, HERE.site)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert HERE.site in readme and HERE.install() in readme
    assert HERE.colab("book/01_vanilla_rnn.ipynb") in readme
    for path in NOTEBOOKS:
        assert HERE.install() in "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][1]["source"]), path.name


def test_no_other_repository_is_named_in_an_install_line_or_a_launch_link():
    for path, text in address.files():
        if path == Path(__file__):
            continue
        for found in re.findall(r"git\+https://github\.com/([\w.-]+/[\w-]+)|colab\.research\.google\.com/github/([\w.-]+/[\w.-]+)", text):
            slug = found[0] or found[1]
            assert slug in (HERE.slug, "me/fork", "owner/name"), f"{path}: {slug}"


def test_files_are_text_and_none_is_built_or_vendored():
    names = {str(path.relative_to(ROOT)) for path, _ in address.files()}
    assert {"_config.yml", "README.md", "pyproject.toml", ".ci/run", ".github/workflows/ci.yml", "book/_ext/address.py"} <= names
    assert not [name for name in names if name.startswith((".venv", ".git/", "_build")) or "katex" in name or name.endswith(".woff2")]


def test_what_students_handed_in_is_not_touched(tmp_path):
    for name in ("labs/submitted/a/lab", "labs/autograded/a/lab", "labs/feedback/a/lab", "labs/release/lab"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "lab.ipynb").write_text("{}")
    assert [path.relative_to(tmp_path) for path, _ in address.files(tmp_path)] == [Path("labs/release/lab/lab.ipynb")]


@pytest.fixture
def repository(tmp_path):
    """A copy of what the address can stand in."""
    for path, _ in address.files():
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return tmp_path


def contents(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def test_to_a_fork_and_back_gives_the_same_bytes(repository):
    before = contents(repository)
    changed = {str(path) for path in address.move(STRANGER, repository)}
    assert {"_config.yml", "README.md", "CITATION.cff", "pyproject.toml", "CONTRIBUTING.md"} <= changed
    assert {str(path.relative_to(ROOT)) for path in NOTEBOOKS} <= changed and len(NOTEBOOKS) >= 3
    assert address.current(repository) == STRANGER
    assert not [path for path, text in address.files(repository) if address.mentions(text, HERE)]
    assert not [path for path, text in address.files(repository) if HERE.owner in text]
    moved = contents(repository)
    assert {name for name in before if before[name] != moved[name]} == changed
    assert address.move(STRANGER, repository) == []
    assert contents(repository) == moved
    address.move(HERE, repository)
    assert contents(repository) == before


def test_only_whole_names_are_replaced():
    old, new = address.Address("an", "x"), address.Address("b", "y")
    text = "https://github.com/an/x an/x. an/x-ray man/x https://an.github.io/x/ (an/x.git)"
    assert address.point(text, old, new) == "https://github.com/b/y b/y. an/x-ray man/x https://b.github.io/y/ (b/y.git)"


def test_command_refuses_what_is_no_address():
    answer = subprocess.run([sys.executable, ROOT / "book/_ext/address.py", "me/fork"], capture_output=True, text=True)
    assert answer.returncode == 1 and "Expected: https://github.com/owner/name" in answer.stderr
