"""What `nbgrader autograde` calls: one preprocessor before the submission is read, and one in place of running it here.

Trusts the gradebook, which `nbgrader generate_assignment` has filled from the master. Trusts nothing in the submitted
file: which cells are graded, for how much, and what test cells hold is taken from the gradebook.
"""

import os

from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Float, Unicode

from grading import parent


class Restore(NbGraderPreprocessor):
    """Gives each cell that the gradebook knows the type and the marks that it has there, whatever the file says of them.

    Of copies of a cell the last one counts, as in nbgrader's DeduplicateIds, which leaves cells that OverwriteCells can't read.
    """

    def preprocess(self, nb, resources):
        place = resources["nbgrader"]
        with Gradebook(place["db_url"]) as gradebook:
            known = gradebook.find_notebook(place["notebook"], place["assignment"])
            points = {cell.name: cell.max_score for cell in known.grade_cells}
            solutions = {cell.name for cell in known.solution_cells}
            sources = {cell.name: (cell.cell_type, cell.locked) for cell in known.source_cells}
        for cell in reversed(nb.cells):
            marks = cell.metadata.pop("nbgrader", None)
            name = marks.get("grade_id") if isinstance(marks, dict) else None
            if isinstance(name, str) and name in sources:
                kind, locked = sources.pop(name)
                retype(cell, kind)
                cell.metadata["nbgrader"] = {"grade": name in points, "grade_id": name, "locked": locked, "schema_version": 3,
                                             "solution": name in solutions, "task": False}  # fmt: skip
                if name in points:
                    cell.metadata["nbgrader"]["points"] = points[name]
        return nb, resources


def retype(cell, kind):
    """Makes a cell one of another type, without outputs."""
    if cell.cell_type != kind:
        for part in ("attachments", "execution_count", "outputs"):
            cell.pop(part, None)
        cell.cell_type = kind
        if kind == "code":
            cell.update(execution_count=None, outputs=[])


class Grade(NbGraderPreprocessor):
    """Runs the submission in a child and judges its answers, in place of nbgrader's Execute."""

    seed = Unicode(help="What the hidden cases follow from; any text, kept from students. UNROLLED_SEED is taken where it is empty.").tag(config=True)
    cell_seconds = Float(parent.Limits().cell, help="How long one cell of a submission may run.").tag(config=True)
    call_seconds = Float(parent.Limits().call, help="How long one call of a student's function may take.").tag(config=True)

    def preprocess(self, nb, resources):
        seed = self.seed or os.environ.get("UNROLLED_SEED", "")
        if not seed:
            raise ValueError("There is no seed for the hidden cases. Choose a text, keep it from students, and set it: "
                             "UNROLLED_SEED=… nbgrader autograde …, or c.Grade.seed = '…' in nbgrader_config.py.")
        limits = parent.Limits(cell=self.cell_seconds, call=self.call_seconds)
        return parent.grade(nb, resources["nbgrader"]["assignment"], seed, limits, root=os.getcwd()), resources
