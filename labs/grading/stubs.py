"""What `nbgrader generate_assignment` calls: the student copy, made from a master.

Trusts the master. What it takes out, solutions, outputs and hidden tests, is in no cell of the copy; tests/test_release.py
looks for it there and in whatever else is published.
"""

import json
import re
import sys
from pathlib import Path

from nbgrader import utils
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor

from grading import parent

sys.path.append(str(Path(__file__).resolve().parents[2] / "book" / "_ext"))
import notebooks  # noqa: E402

PICTURE = re.compile(r"\]\(output:([\w-]+)\)")
REGION = re.compile(r"^([ \t]*)### BEGIN SOLUTION(.*)\n(?:.*\n)*?[ \t]*### END SOLUTION[ \t]*$", re.MULTILINE)
DEFINITION = re.compile(r"^([ \t]*)def (\w+)", re.MULTILINE)


def name_of(cell):
    return cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id")


class Tests(NbGraderPreprocessor):
    """Reads the test cells as grading will, so that a mistake in one is found when the student copy is made."""

    def preprocess(self, nb, resources):
        _, checks = parent.lab(resources["nbgrader"]["assignment"])
        for cell in filter(parent.is_test, nb.cells):
            try:
                parent.tests(cell.source, checks)
            except (ValueError, SyntaxError) as problem:
                raise ValueError(f"Cell {name_of(cell)}: {problem}") from None
        return nb, resources


class Pictures(NbGraderPreprocessor):
    """Puts the pictures of the master's outputs where a text asks for them: `![what is seen](output:cell-id)`."""

    def preprocess(self, nb, resources):
        pictures = {cell.get("id"): picture(cell) for cell in nb.cells}
        for cell in nb.cells:
            if cell.cell_type == "markdown":
                for name in PICTURE.findall(cell.source):
                    if not pictures.get(name):
                        raise ValueError(f"Cell {name_of(cell)} shows the output of the cell {name}, which "
                                         f"{'has no picture: run the master' if name in pictures else 'is not there'}.")
                cell.source = PICTURE.sub(lambda match: f"](data:image/png;base64,{pictures[match[1]]})", cell.source)
        return nb, resources


def picture(cell):
    """The first PNG among a cell's outputs, in base 64, or ""."""
    found = [output.data["image/png"] for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    return "".join(found[0].split()) if found else ""


class Stubs(ClearSolutions):
    """Puts a stub in the place of each solution; what it asks for is the text after `### BEGIN SOLUTION: `."""

    def preprocess_cell(self, cell, resources, cell_index):
        cell.source, count = REGION.subn(lambda match: stub(match, cell), cell.source)
        if "BEGIN SOLUTION" in cell.source or "END SOLUTION" in cell.source:
            raise ValueError(f"Cell {name_of(cell)}: a solution has a beginning or an end alone. "
                             "Expected a line ### BEGIN SOLUTION: what to write, and a line ### END SOLUTION.")
        if bool(count) != bool(utils.is_solution(cell)):
            problem = "has a solution and is not marked as one" if count else "is marked as a solution and has none"
            raise ValueError(f"Cell {name_of(cell)} {problem}.")
        return cell, resources


def stub(match, cell):
    """What stands in the place of a solution: an error that says what to write and where, or, in a text, the words alone."""
    indentation, words = match[1], match[2].removeprefix(":").strip()
    if not words:
        raise ValueError(f"Cell {name_of(cell)}: the solution does not say what to write. Expected ### BEGIN SOLUTION: what to write.")
    if cell.cell_type == "markdown":
        return f"*{words[0].upper()}{words[1:]}*"
    around = [name for depth, name in DEFINITION.findall(match.string[:match.start()]) if len(depth) < len(indentation)]
    words = f"{around[-1]}: {words}" if around else words
    return f"{indentation}raise NotImplementedError({json.dumps(words, ensure_ascii=False)})"


class NormalForm(NbGraderPreprocessor):
    """Writes the copy in the normal form of the course's notebooks, without outputs. Comes last."""

    def preprocess(self, nb, resources):
        return notebooks.normal(nb, executed=False), resources
