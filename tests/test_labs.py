"""The form of the labs: clean masters, exercises with all their parts, and student copies that hold what a student needs."""

import base64
import copy
import importlib
import re
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest

from unrolled.checks import Check

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import notebooks  # noqa: E402
import test_notebooks as chapter  # noqa: E402
from test_notebooks import code_cells, text_cells  # noqa: E402

MASTERS = sorted((ROOT / "labs" / "source").glob("lab[0-9]*/lab[0-9]*.ipynb"))
RELEASED = sorted((ROOT / "labs" / "release").glob("lab[0-9]*/lab[0-9]*.ipynb"))

HEAD = re.compile(r"## Exercise (?P<number>\d+): (?P<title>.+)\n\n\*Difficulty (?P<difficulty>[123](?: of 3, open)?)(?: of 3)? · "
                  r"(?P<minutes>\d+) minutes · (?P<points>\d+) points(?P<by_hand>, marked by hand)?\*\n")
ROW = re.compile(r"^\| (\d+) \| (.+?) \| ([123](?:, open)?) \| (\d+) \| (\d+) \|$", re.MULTILINE)
RUBRIC = re.compile(r"^\| (\d+) \| \S.* \|$", re.MULTILINE)
EXPECTED = re.compile(r"\*\*A right answer gives\*\* (?:`([^`]+)`|(-?\d+(?:\.\d+)?))")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]*)\)")
BEGINNING = re.compile(r"^[ \t]*### BEGIN SOLUTION(?:: *(\S.*))?$", re.MULTILINE)
MYST = re.compile(r"^ {0,3}(?:`{3,}\{|:{3,})|\{[a-zA-Z][\w:.+-]*\}`|^\([\w-]+\)=|\$\$ *\([\w-]+\)|\]\(#|\[\^|^\{[.#%]|^%|\]\{\.", re.MULTILINE)
KINDS = {  # grade, solution, locked
    (False, False, True): "given",
    (False, True, False): "solution",
    (True, False, True): "check",
    (True, True, False): "by hand",
}  # fmt: skip
MINUTES, EXERCISES, PICTURE_BYTES = range(60, 121), range(7, 10), 20_000


class Exercise(NamedTuple):
    """An exercise: what its head says, and its cells."""

    number: int
    title: str
    difficulty: str
    minutes: int
    points: int
    open: bool
    cells: list

    def of(self, *kinds):
        return [cell for cell in self.cells if kind(cell) in kinds]

    @property
    def text(self):
        return "\n\n".join(cell.source for cell in self.cells if not kind(cell))


def settings(cell):
    return cell.metadata.get("nbgrader", {})


def kind(cell):
    """What a cell is to nbgrader; "" for one that it does not know, such as a text."""
    return KINDS.get(tuple(settings(cell).get(key) for key in ("grade", "solution", "locked")), "")


def exercises(notebook):
    """The exercises of a lab. A section whose head is not that of an exercise is none."""
    sections = [[]]
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("## "):
            sections.append([])
        sections[-1].append(cell)
    found = []
    for cells in sections:
        if cells and (head := HEAD.match(cells[0].source)):
            difficulty = head["difficulty"].replace(" of 3", "")
            found.append(Exercise(int(head["number"]), head["title"], difficulty, int(head["minutes"]), int(head["points"]), bool(head["by_hand"]), cells))
    return found


def checks_of(path):
    """The checks of the lab at a path, by name."""
    module = importlib.import_module(f"unrolled.checks.{path.stem.split('_', 1)[1]}")
    return {name: value for name, value in vars(module).items() if isinstance(value, Check)}


def longest(cell):
    """As in a chapter, but for solutions: one may take a page of code, or the text that a student may write."""
    answer = kind(cell) in ("solution", "by hand")
    return (200 if cell.cell_type == "markdown" else 40) if answer else chapter.longest(cell)


def frame_faults(notebook, checks):
    """What is wrong with a lab as a whole, as sentences."""
    found = exercises(notebook)
    heads = sum(cell.source.startswith("## Exercise") for cell in text_cells(notebook))
    if heads != len(found):
        yield f"{heads - len(found)} of {heads} heads are not of the form of an exercise's"
    if [exercise.number for exercise in found] != list(range(1, len(found) + 1)) or len(found) not in EXERCISES:
        yield f"exercises {[exercise.number for exercise in found]}"
    if (minutes := sum(exercise.minutes for exercise in found)) not in MINUTES:
        yield f"{minutes} minutes"
    if [exercise.open for exercise in found] != [False] * (len(found) - 1) + [True]:
        yield "the last exercise, and no other, is marked by hand"
    rows = ROW.findall(text_of(notebook).split("\n## ")[0])
    if [(row[0], row[1].lower(), *row[2:]) for row in rows] != [(str(e.number), e.title.lower(), e.difficulty, str(e.minutes), str(e.points)) for e in found]:
        yield "the table of exercises is not what their heads say"
    if not any(chapter.INTERACTIVE in output.get("data", {}).get("text/html", "") for cell in code_cells(notebook) for output in cell.outputs):
        yield "no interactive figure"
    if unused := set(checks) - set(re.findall(r"(?m)^check\.(\w+)\(", "\n".join(cell.source for cell in code_cells(notebook)))):
        yield f"checks that no exercise uses: {sorted(unused)}"


def text_of(notebook):
    return "\n\n".join(cell.source for cell in text_cells(notebook))


def cell_faults(notebook):
    """What is wrong with the cells of a lab besides what must hold in every notebook."""
    code = code_cells(notebook)
    if "setup" not in code[1].metadata.get("tags", []) or kind(code[1]) != "given":
        yield "the imports are not a given cell with the tag setup"
    for cell in [*code[1:], *(cell for cell in text_cells(notebook) if settings(cell))]:
        wanted = {"cell_type", "checksum", "grade", "grade_id", "locked", "schema_version", "solution", "task"} | ({"points"} if settings(cell).get("grade") else set())
        if not kind(cell) or settings(cell).get("task") or {*settings(cell), "cell_type", "checksum"} != wanted:
            yield f"{cell.id}: not nbgrader's metadata of a given, solution or check cell"
        if settings(cell).get("grade_id") != cell.id:
            yield f"{cell.id}: the grade_id is not the cell's id"
        if bool(BEGINNING.search(cell.source)) != (kind(cell) in ("solution", "by hand")):
            yield f"{cell.id}: a solution in a cell that is none, or none in a cell that is one"
        if not all(BEGINNING.findall(cell.source)):
            yield f"{cell.id}: a solution that does not say what to write"
    for cell in text_cells(notebook):
        if found := MYST.search(cell.source):
            yield f"{cell.id}: {found[0]!r}, which is not plain Markdown"


def exercise_faults(exercise, checks):
    """What an exercise lacks, as sentences."""
    yield from (f"exercise {exercise.number}: {problem}" for problem in (by_hand_faults(exercise) if exercise.open else checked_faults(exercise, checks)))
    if (points := sum(settings(cell).get("points", 0) for cell in exercise.cells)) != exercise.points:
        yield f"exercise {exercise.number}: its cells give {points} points, its head {exercise.points}"


def checked_faults(exercise, checks):
    """What an exercise with a check lacks."""
    code = "\n".join(cell.source for cell in exercise.of("solution"))
    asked = re.findall(r"(?m)^def (\w+)", code)
    if not asked or len(asked) != len(BEGINNING.findall(code)):
        yield "not one solution for each of its functions"
    for name in asked:
        if not re.search(rf"\*\*Write\*\*.*`{name}`", exercise.text):
            yield f"the text does not ask for {name}"
    tests = exercise.of("check")
    if len(tests) != 1:
        yield f"{len(tests)} check cells"
    for cell in tests:
        names = re.findall(r"(?m)^check\.(\w+)\(\w+\)$", cell.source)
        lines = [*(f"check.{name}({name})" for name in names), "### BEGIN HIDDEN TESTS",
                 *(f"check.{name}({name}, hidden=True)" for name in names), "### END HIDDEN TESTS"]  # fmt: skip
        if cell.source.splitlines() != lines:
            yield "a check cell that is not one line for each check, and the same lines as hidden tests"
        if sorted(names) != sorted(asked):
            yield f"it asks for {asked} and checks {names}"
        yield from (f"there is no check {name}" for name in names if name not in checks)
    yield from expectation_faults(exercise)


def expectation_faults(exercise):
    """What is wrong with the number or the figure that a right answer gives."""
    given = {cell.id: cell for cell in exercise.of("given")}
    said = "".join(output.get("text", "") for cell in given.values() for output in cell.outputs)
    drawn = {name for name, cell in given.items() if any("image/png" in output.get("data", {}) for output in cell.outputs)}
    numbers = [number or plain for number, plain in EXPECTED.findall(exercise.text)]
    pictures = PICTURE.findall(exercise.text)
    if len(numbers) > 1 or not numbers + pictures or "**A right answer gives**" not in exercise.text:
        yield "not one number or figure that a right answer gives"
    for number in numbers:
        if number not in said:
            yield f"a right answer does not give {number!r} in any of its cells"
    for words, place in pictures:
        if place.removeprefix("output:") not in drawn:
            yield f"no given cell draws the picture {place!r}"
        if len(words) < 20:
            yield "a picture without a description"


def by_hand_faults(exercise):
    """What an exercise that is marked by hand lacks."""
    if [cell.cell_type for cell in exercise.of("by hand")] != ["code", "markdown"] or exercise.of("check"):
        yield "not one code cell and one text cell that are marked by hand"
    rubric = exercise.text.partition("| points | for |\n")[2]
    if sum(map(int, RUBRIC.findall(rubric))) != exercise.points:
        yield "a rubric whose points are not the exercise's"


def faults(notebook, checks):
    """All that is wrong with a master, as sentences."""
    yield from chapter.cleanliness(notebook, longest)
    yield from frame_faults(notebook, checks)
    yield from cell_faults(notebook)
    for exercise in exercises(notebook):
        yield from exercise_faults(exercise, checks)


def release_faults(notebook, master):
    """All that is wrong with a student copy, as sentences."""
    if [cell.id for cell in notebook.cells] != [cell.id for cell in master.cells]:
        yield "not the cells of the master"
    for cell in code_cells(notebook):
        if cell.outputs or cell.execution_count:
            yield f"{cell.id}: outputs"
    everything = "\n".join(cell.source for cell in notebook.cells)
    if re.search(r"###|hidden=|\(output:", everything):
        yield "a region, a hidden test or a picture that is not there"
    for solution in (cell for cell in master.cells if kind(cell) in ("solution", "by hand")):
        for words in BEGINNING.findall(solution.source):
            if words.replace('"', "'").rstrip(".").lower() not in everything.lower():
                yield f"{solution.id}: no stub that says {words!r}"
    pictures = PICTURE.findall(everything)
    if len(pictures) != len(PICTURE.findall(text_of(master))):
        yield "not the pictures of the master"
    for words, place in pictures:
        head, _, data = place.partition(",")
        if head != "data:image/png;base64" or not base64.b64decode(data).startswith(b"\x89PNG"):
            yield f"a picture at {place[:30]!r}"
        if len(data) >= PICTURE_BYTES:
            yield f"a picture of {len(data)} bytes"
        if len(words) < 20:
            yield "a picture without a description"


# ---------------------------------------------------------------- the labs


def test_every_lab_has_a_master_and_a_student_copy():
    assert MASTERS and [path.stem for path in MASTERS] == [path.stem for path in RELEASED]
    assert all(path.parent.name == path.stem for path in MASTERS + RELEASED)


@pytest.mark.parametrize("path", MASTERS, ids=lambda path: path.stem)
def test_master_is_clean_and_whole(path):
    notebook = notebooks.read(path)
    nbformat.validate(notebook)
    assert list(faults(notebook, checks_of(path))) == []


@pytest.mark.parametrize("path", MASTERS, ids=lambda path: path.stem)
def test_master_is_in_the_normal_form(path):
    assert notebooks.text(notebooks.normal(notebooks.read(path))) == path.read_bytes().decode(), "make execute writes it"


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_student_copy_holds_what_a_student_needs(path):
    notebook = notebooks.read(path)
    nbformat.validate(notebook)
    assert list(release_faults(notebook, notebooks.read(ROOT / "labs" / "source" / path.parent.name / path.name))) == []
    assert notebooks.text(notebooks.normal(notebook, executed=False)) == path.read_bytes().decode(), "make release writes it"


# ---------------------------------------------------------------- the example of CONTRIBUTING.md


def test_smallest_exercise_is_an_exercise(tmp_path):
    notebook = chapter.example("The smallest exercise", "The smallest check")
    for cell in notebook.cells:
        cell["id"] = settings(cell).get("grade_id", "text")
    (judge,) = [cell.source for cell in chapter.example("The smallest check", "Editing a notebook").cells]
    imports = nbformat.v4.new_code_cell(f"import types\nimport jax.numpy as jnp\n{judge}\ncheck = types.SimpleNamespace(running_sum=running_sum)", id="imports")
    notebook.cells.insert(0, imports)
    executed = notebooks.normal(notebooks.execute(notebook, tmp_path))
    (exercise,) = exercises(executed)
    assert list(exercise_faults(exercise, {"running_sum"})) == []
    assert executed.cells[-1].outputs[0].text == "running_sum: visible checks passed.\nrunning_sum: hidden checks passed.\n"


# ---------------------------------------------------------------- each fault is found


@pytest.fixture(scope="module")
def masters():
    return {path: notebooks.read(path) for path in MASTERS[:1]}


def change(pattern, words, count=1):
    """A change of the first cell in which a pattern is found."""
    def apply(notebook):
        cell = next(cell for cell in notebook.cells if re.search(pattern, cell.source, re.MULTILINE))
        cell.source = re.sub(pattern, words, cell.source, count=count, flags=re.MULTILINE)
    return apply


def mark(wanted, key, value):
    """A change of nbgrader's metadata in the first cell of a kind."""
    def apply(notebook):
        settings(next(cell for cell in notebook.cells if kind(cell) == wanted))[key] = value
    return apply


def drop(wanted, place=0):
    """A lab without one of its cells of a kind."""
    def apply(notebook):
        notebook.cells.remove([cell for cell in notebook.cells if kind(cell) == wanted][place])
    return apply


def untag(notebook):
    code_cells(notebook)[1].metadata.pop("tags")


def silence(notebook):
    for cell in code_cells(notebook):
        cell.outputs = []


FAULTS = {
    "not executed in order": lambda notebook: code_cells(notebook)[2].update(execution_count=9),
    "not the start-up cell": change(r"^runtime\.start\(\)", ""),
    "a text of 200 words": lambda notebook: text_cells(notebook)[0].update(source="word " * 200),
    "code of 41 lines": lambda notebook: exercises(notebook)[0].of("solution")[0].update(source="x\n" * 41),
    "code of 26 lines": lambda notebook: exercises(notebook)[0].of("given")[0].update(source="x\n" * 26),
    "1 of ": change(r"minutes · 2 points", "minutes, 2 points"),
    "exercises [1, 2, 2": change(r"^## Exercise 3:", "## Exercise 2:"),
    "240 minutes": change(r"5 minutes ·", "125 minutes ·"),
    "the last exercise, and no other": change(r", marked by hand\*", "*"),
    "the table of exercises is not": change(r"^\| 1 \| The leaky", "| 1 | A leaky"),
    "no interactive figure": silence,
    "checks that no exercise uses: ['step']": change(r"^check\.step\(step.*$", "", 2),
    "not a given cell with the tag setup": untag,
    "not nbgrader's metadata": mark("check", "task", True),
    "the grade_id is not": mark("solution", "grade_id", "other"),
    "a solution in a cell that is none": change(r"^one_unit", "### BEGIN SOLUTION: x\none_unit"),
    "does not say what to write": change(r"BEGIN SOLUTION:.*$", "BEGIN SOLUTION"),
    "':::', which is not plain": change(r"^With ", "::: note\n\nWith "),
    "'{eq}`', which is not plain": change(r"^With ", "With {eq}`eq-a` "),
    "give 3 points, its head 2": mark("check", "points", 3),
    "not one solution for each": drop("solution"),
    "does not ask for step": change(r"\*\*Write\*\* `step`", "Write `step`"),
    "0 check cells": drop("check"),
    "not one line for each check": change(r", hidden=True\)", ")"),
    "and checks ['run']": change(r"check\.step\(step", "check.run(run", 2),
    "there is no check leap": change(r"check\.step\(step", "check.leap(leap", 2),
    "not one number or figure": change(r"\*\*A right answer gives\*\* ", "It gives "),
    "a right answer does not give '0.58'": change(r"gives\*\* 0\.59", "gives** 0.58"),
    "no given cell draws": change(r"\(output:[\w-]+\)", "(output:elsewhere)"),
    "a picture without a description": change(r"!\[[^\]]+\]", "![x]"),
    "one code cell and one text cell": drop("by hand", -1),
    "a rubric whose points": change(r"^\| 4 \| three seeds", "| 5 | three seeds"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_a_master_is_found(masters, fault):
    for path, master in masters.items():
        notebook = copy.deepcopy(master)
        FAULTS[fault](notebook)
        assert any(fault in found for found in faults(notebook, checks_of(path)))


def put_output(notebook):
    code_cells(notebook)[1].outputs = [nbformat.v4.new_output("stream", text="x")]


RELEASE_FAULTS = {
    "not the cells of the master": lambda notebook: notebook.cells.pop(),
    "imports: outputs": put_output,
    "a region, a hidden test": change(r"^check\.step\(step\)", "check.step(step)\ncheck.step(step, hidden=True)"),
    "no stub that says": change(r"raise NotImplementedError\(\"step.*$", "pass"),
    "not the pictures": change(r"!\[", "["),
    "a picture at 'output:x'": change(r"\]\(data:[^)]*\)", "](output:x)"),
    "a picture of 20": change(r"\]\((data:[^)]*)\)", lambda match: f"]({match[1]}{'A' * (20_004 - len(match[1]) + len('data:image/png;base64,'))})"),
    "a picture without a description": change(r"!\[[^\]]+\]", "![x]"),
}  # fmt: skip


@pytest.mark.parametrize("fault", RELEASE_FAULTS)
def test_each_fault_of_a_student_copy_is_found(masters, fault):
    for path, master in masters.items():
        notebook = notebooks.read(ROOT / "labs" / "release" / path.parent.name / path.name)
        RELEASE_FAULTS[fault](notebook)
        assert any(fault in found for found in release_faults(notebook, master))
