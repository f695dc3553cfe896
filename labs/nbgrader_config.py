"""The course for nbgrader: `cd labs`, then any of its commands.

nbgrader's own steps, with four of ours where the student copy is made and two where a submission is graded; see
grading/__init__.py. A submission is not run in this process, nor in a kernel that could see the tests.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # nbgrader calls alembic by its name

from nbgrader import preprocessors as nbgrader  # noqa: E402

from grading import autograde, stubs  # noqa: E402

c = get_config()  # noqa: F821

c.GenerateAssignment.preprocessors = [
    stubs.Tests,
    stubs.Pictures,
    stubs.Stubs,
    nbgrader.ClearOutput,
    nbgrader.CheckCellMetadata,
    nbgrader.ComputeChecksums,
    nbgrader.SaveCells,
    nbgrader.ClearHiddenTests,
    nbgrader.ClearMarkScheme,
    nbgrader.ComputeChecksums,
    nbgrader.CheckCellMetadata,
    stubs.NormalForm,
]

# No ClearOutput: what the student saw stays, for whoever marks the open exercise by hand.
c.Autograde.sanitize_preprocessors = [
    autograde.Restore,
    nbgrader.OverwriteKernelspec,
    nbgrader.OverwriteCells,
    nbgrader.CheckCellMetadata,
]
c.OverwriteCells.add_missing_cells = True

c.Autograde.autograde_preprocessors = [
    autograde.Grade,  # in place of Execute
    nbgrader.LimitOutput,
    nbgrader.SaveAutoGrades,
    nbgrader.AssignLatePenalties,
    nbgrader.CheckCellMetadata,
]
