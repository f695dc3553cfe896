"""The student copies: made from the masters and from nothing else, with stubs that speak, and without what is kept from students."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import course
import leaks
import pytest
from course import LAB, MASTERS, ROOT, checked, code, released, solution, text
from nbformat.v4 import new_notebook, new_output

SEED = "a seed that is kept from students"
# Lines of solutions that a chapter's own function has too are no secret.
SECRETS = leaks.kept(MASTERS, SEED, "".join(path.read_text(encoding="utf-8") for path in (ROOT / "labs" / "unrolled").glob("*.py")))
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def copy_of(cells):
    """The student copy of a small master with the given cells, made by our preprocessors and nbgrader's."""
    pytest.importorskip("nbgrader", reason="nbgrader is in the site's environment")
    from nbgrader import preprocessors

    from grading import stubs

    notebook, resources = new_notebook(cells=cells), {"nbgrader": {"assignment": LAB, "notebook": LAB, "student": "."}}
    for step in (stubs.Tests, stubs.Pictures, stubs.Stubs, preprocessors.ClearOutput, preprocessors.ClearHiddenTests, stubs.NormalForm):
        notebook, resources = step().preprocess(notebook, resources)
    return {cell.id: cell for cell in notebook.cells}


# ---------------------------------------------------------------- as committed


def test_there_are_labs():
    assert MASTERS


@pytest.mark.slow
def test_student_copies_are_what_nbgrader_and_make_release_make(tmp_path):
    pytest.importorskip("nbgrader", reason="nbgrader is in the site's environment")
    labs = course.course(tmp_path)
    committed = {path: released(path).read_bytes() for path in MASTERS}
    made = {path: labs / "release" / path.parent.name / path.name for path in MASTERS}
    for path in MASTERS:
        course.nbgrader(labs, "generate_assignment", path.parent.name, seed=SEED)
        assert made[path].read_bytes() == committed[path], f"{released(path)} is not what its master gives: make release"
        made[path].unlink()
    assert (labs / "gradebook.db").exists()
    (labs / "gradebook.db").unlink()

    (tmp_path / "tests" / "constraints").mkdir(parents=True)
    for name in ("Makefile", "requirements.txt", "pyproject.toml", "tests/constraints/site.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    (tmp_path / ".venv" / "installed").touch()
    subprocess.run(["make", "-C", tmp_path, "release"], check=True, capture_output=True)
    assert {path: made[path].read_bytes() for path in MASTERS} == committed
    assert {path.name for path in labs.iterdir()} == {"grading", "nbgrader_config.py", "release", "source", "unrolled"}


@pytest.mark.parametrize("path", MASTERS, ids=lambda path: path.stem)
def test_student_copy_is_in_the_normal_form_and_complete(path):
    import notebooks

    copy, master = notebooks.read(released(path)), notebooks.read(path)
    assert released(path).read_text(encoding="utf-8") == notebooks.text(notebooks.normal(copy, executed=False))
    assert [cell.id for cell in copy.cells] == [cell.id for cell in master.cells]
    for cell, stub in zip(master.cells, copy.cells):
        if cell.metadata.get("nbgrader", {}).get("solution") and cell.cell_type == "code":
            words = re.findall(r"### BEGIN SOLUTION: (.*)", cell.source)
            assert words and stub.source.count("raise NotImplementedError(") == len(words), cell.id
            assert all(json.dumps(word, ensure_ascii=False)[1:-1] in stub.source for word in words), cell.id
    assert "output:" not in "".join(cell.source for cell in copy.cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("path", MASTERS, ids=lambda path: path.stem)
def test_checksums_of_the_student_copy_are_right(path):
    pytest.importorskip("nbgrader", reason="nbgrader is in the site's environment")
    import notebooks
    from nbgrader.utils import compute_checksum

    marked = [cell for cell in notebooks.read(released(path)).cells if "nbgrader" in cell.metadata]
    assert marked and not [cell.id for cell in marked if cell.metadata.nbgrader.checksum != compute_checksum(cell)]


def test_what_a_class_leaves_behind_is_not_committed():
    for name in ("gradebook.db", "submitted/ann/x.ipynb", "autograded/x.ipynb", "feedback/x.html", "grades.csv"):
        assert subprocess.run(["git", "check-ignore", "-q", f"labs/{name}"], cwd=ROOT).returncode == 0, name


def test_grading_has_its_exact_versions():
    named = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]["grading"]
    versions = (ROOT / "tests/constraints/site.txt").read_text(encoding="utf-8").splitlines()
    assert named == ["nbgrader"] and "nbgrader==0.9.6" in versions
    assert "grading" in (ROOT / "requirements.txt").read_text(encoding="utf-8")


# ---------------------------------------------------------------- stubs and pictures


def test_a_stub_says_what_to_write():
    answer = text("answer", "### BEGIN SOLUTION: say why.\nSo.\n### END SOLUTION", solution=True, grade=True, points=1)
    cells = copy_of([solution("step", course.STEP), checked("step-check", "step"), answer])
    assert cells["step"].source == 'def step(params, alpha, h, x):\n    raise NotImplementedError("step: write h_t, an array (H,).")'
    assert cells["step-check"].source == "check.step(step)"
    assert cells["answer"].source == "*Say why.*"
    with pytest.raises(NotImplementedError, match="^step: write h_t, an array"):
        exec(cells["step"].source + "\nstep(1, 2, 3, 4)", {})


def test_a_cell_may_have_several_stubs_and_quotes_in_them():
    source = ('A = 1\ndef one():\n    def inner():\n        pass\n    ### BEGIN SOLUTION: return "a" \\ b.\n    return 1\n    ### END SOLUTION\n\n\n'
              "def two():\n    ### BEGIN SOLUTION: return 2.\n    def three():\n        return 2\n    return three()\n    ### END SOLUTION\n\n"
              "### BEGIN SOLUTION: call both.\none()\n### END SOLUTION")  # fmt: skip
    cells = copy_of([solution("two", source)])
    names = {}
    with pytest.raises(NotImplementedError, match="^call both.$"):
        exec(cells["two"].source, names)
    with pytest.raises(NotImplementedError) as problem:
        names["one"]()
    assert str(problem.value) == 'one: return "a" \\ b.' and names["A"] == 1
    with pytest.raises(NotImplementedError, match="^two: return 2.$"):
        names["two"]()


BEGIN = "### BEGIN SOLUTION: write h_t, an array (H,)."


@pytest.mark.parametrize("cell, words", [
    (solution("step", course.STEP.replace(BEGIN, "### BEGIN SOLUTION")), "Cell step: the solution does not say what to write"),
    (solution("step", course.STEP.replace("    ### END SOLUTION", "")), "Cell step: a solution has a beginning or an end alone"),
    (solution("step", course.STEP.replace(BEGIN, "")), "Cell step: a solution has a beginning or an end alone"),
    (solution("step", "def step(): 0"), "Cell step is marked as a solution and has none"),
    (text("why", "Because.", solution=True), "Cell why is marked as a solution"),
    (code("step", course.STEP, locked=True), "Cell step has a solution and is not marked"),
    (code("step", course.STEP), "Cell step has a solution and is not marked"),
    (code("step-check", "assert step() == 0", grade=True, locked=True, points=1), "Cell step-check: .*Expected lines like check.step"),
    (code("step-check", "check.stop(step)", grade=True, locked=True, points=1), "Cell step-check: There is no check stop"),
    (text("figure", "![seen](output:nowhere)"), "Cell figure shows the output of the cell nowhere, which is not there"),
    (text("figure", "![seen](output:figure)"), "Cell figure shows the output of the cell figure, which has no picture: run the master"),
])  # fmt: skip
def test_mistakes_in_a_master_name_the_cell(cell, words):
    with pytest.raises(ValueError, match=words):
        copy_of([cell])


def test_the_expected_picture_stands_beside_the_stub_and_outputs_are_gone():
    picture = new_output("display_data", data={"image/png": PIXEL[:40] + "\n" + PIXEL[40:], "text/plain": "seen"})
    cells = copy_of([text("task", "See ![a curve that falls](output:drawn), and ![again](output:drawn)."),
                     code("drawn", "draw()", outputs=[new_output("stream", text="first"), picture], locked=True)])  # fmt: skip
    uri = f"data:image/png;base64,{PIXEL}"
    assert cells["task"].source == f"See ![a curve that falls]({uri}), and ![again]({uri})."
    assert cells["drawn"].outputs == []


# ---------------------------------------------------------------- leaks


def test_every_solution_has_a_line_that_would_be_found():
    import notebooks

    for path in MASTERS:
        for cell in notebooks.read(path).cells:
            if leaks.REGION.search(cell.source) and cell.cell_type == "code":
                assert any(words.endswith(f" of {cell.id}") for words in SECRETS.values()), cell.id


@pytest.mark.parametrize("path", MASTERS, ids=lambda path: path.stem)
def test_no_leak_in_the_student_copy(path):
    assert list(leaks.leaks(path, SECRETS)), "the master itself must be found to hold them"
    assert not list(leaks.leaks(released(path).parent, SECRETS))


@pytest.mark.site
def test_no_leak_in_the_colab_copies(tmp_path):
    colab = pytest.importorskip("colab", reason="the site's environment makes the copies")
    made = colab.make(tmp_path, "0" * 40, colab.load())
    assert made and not list(leaks.leaks(tmp_path, SECRETS))


@pytest.mark.site
def test_no_leak_in_the_site():
    site = ROOT / "_build" / "html"
    assert site.is_dir(), "build the site first: make book"
    assert not list(leaks.leaks(site, SECRETS))


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The wheel and the source archive, built from what is or may be committed, with an instructor's seed in the environment."""
    def run(*command, **settings):
        return subprocess.run(command, check=True, capture_output=True, text=True, **settings).stdout

    folder = tmp_path_factory.mktemp("packed")
    for name in filter(None, run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")):
        if (ROOT / name).is_file():
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "tree" / name)
    run(sys.executable, "-m", "pip", "install", "-q", "--target", folder / "setuptools", "setuptools>=77")
    environment = os.environ | {"PYTHONPATH": str(folder / "setuptools"), "UNROLLED_SEED": SEED}
    for kind in ("sdist", "wheel"):
        build = f"from setuptools import build_meta; build_meta.build_{kind}({str(folder / 'made')!r})"
        run(sys.executable, "-W", "ignore", "-c", build, cwd=folder / "tree", env=environment)
    (wheel,), (archive,) = (folder / "made").glob("*.whl"), (folder / "made").glob("*.tar.gz")
    return wheel, archive


@pytest.mark.slow
def test_no_leak_in_what_is_packed(packed):
    for path in packed:
        assert not list(leaks.leaks(path, SECRETS))


@pytest.mark.slow
def test_packages_hold_the_package_alone(packed):
    wheel, archive = packed
    with zipfile.ZipFile(wheel) as file:
        assert {name.split("/")[0] for name in file.namelist()} == {"unrolled", "unrolled-0.1.0.dist-info"}
        assert {name.removeprefix("unrolled/") for name in file.namelist() if name.endswith(".py")} == {
            str(path.relative_to(ROOT / "labs/unrolled")) for path in (ROOT / "labs/unrolled").rglob("*.py")}  # fmt: skip
    with tarfile.open(archive) as file:
        places = {"/".join(name.split("/")[1:3]) for name in file.getnames()}
        assert {place for place in places if place.startswith("labs/")} <= {"labs/unrolled", "labs/unrolled.egg-info"}
        assert {place for place in places if place.startswith(("tests", "book"))} <= {"book", "book/_results"}


def planted(kind, secret, folder):
    """A file of one kind of artefact, or a folder, in which a secret line stands as it would there."""
    notebook = json.dumps({"cells": [{"source": ["def step():\n", f"        {secret}\n"], "outputs": []}]})
    spans = re.sub(r"(\w+|[^\w\s])", r'<span class="n">\1</span>', secret.replace("&", "&amp;").replace("<", "&lt;"))
    contents = {"release": ("a.ipynb", notebook), "colab": ("copy.ipynb", notebook), "page": ("page.html", f"<pre>{spans}</pre>"),
                "script": ("searchindex.js", f"Search.setIndex({json.dumps({'text': 'a' + chr(10) + secret})})")}  # fmt: skip
    if kind in contents:
        name, content = contents[kind]
        (folder / name).write_text(content, encoding="utf-8")
    elif kind == "wheel":
        with zipfile.ZipFile(folder / "unrolled.whl", "w") as file:
            file.writestr("unrolled/extra.py", f"def extra():\n\t{secret}\n")
    else:
        with tarfile.open(folder / "unrolled.tar.gz", "w:gz") as file:
            member = tarfile.TarInfo("unrolled/labs/source.ipynb")
            member.size = len(notebook.encode())
            file.addfile(member, io.BytesIO(notebook.encode()))
    return folder


@pytest.mark.parametrize("kind", ["release", "colab", "page", "script", "wheel", "sdist"])
@pytest.mark.parametrize("what", ["a line of the solution", "a hidden test", "the seed", "### BEGIN SOLUTION: x", "### BEGIN HIDDEN TESTS"])
def test_a_planted_leak_is_found(kind, what, tmp_path):
    lines = {"a line of the solution": "h_bar = V.T @ y_bar_t + from_later", "a hidden test": "check.step(step, hidden=True)", "the seed": SEED}
    secret = lines.get(what, what)
    assert what not in lines or SECRETS[leaks.squeezed(secret)].startswith(what)
    found = list(leaks.leaks(planted(kind, secret, tmp_path), SECRETS))
    assert found and all(what in words or "BEGIN" in words for words in found)
    assert not list(leaks.leaks(planted(kind, "y = x + 1", tmp_path), SECRETS))
