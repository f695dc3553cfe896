"""Notebooks and courses for the tests of grading, small ones of their own and copies of the real one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
sys.path.append(str(ROOT / "labs"))  # last: the installed package and its metadata come first
LAB = "lab01_vanilla_rnn"
MASTERS = sorted((ROOT / "labs" / "source").glob("lab[0-9]*/*.ipynb"))

IMPORTS = """import jax
import jax.numpy as jnp
from unrolled.checks import vanilla_rnn as check
from unrolled.vanilla_rnn import Model, Params"""

STEP = """def step(params, alpha, h, x):
    ### BEGIN SOLUTION: write h_t, an array (H,).
    z = jnp.tanh(params.W @ h + params.U @ x + params.b)
    return (1 - alpha) * h + alpha * z
    ### END SOLUTION"""

HORIZON = """def horizon(m, level):
    ### BEGIN SOLUTION: return a whole number.
    below = m < level
    return jnp.where(below.any(), jnp.argmax(below), len(m))
    ### END SOLUTION"""


def released(path):
    """Where the student copy of a master stands."""
    return ROOT / "labs" / "release" / path.parent.name / path.name


def marks(name, **settings):
    """The metadata of nbgrader."""
    return {"nbgrader": {"grade": False, "grade_id": name, "locked": False, "schema_version": 3, "solution": False, "task": False} | settings}


def code(name, source, tags=(), outputs=(), **settings):
    cell = new_code_cell(source, id=name, metadata=marks(name, **settings) if settings else {}, outputs=list(outputs))
    if tags:
        cell.metadata["tags"] = list(tags)
    return cell


def text(name, source, **settings):
    return new_markdown_cell(source, id=name, metadata=marks(name, **settings) if settings else {})


def solution(name, source, **settings):
    return code(name, source, solution=True, **settings)


def checked(name, *functions, points=2):
    """A test cell, as in a master: visible checks, and hidden ones in their region."""
    visible = [f"check.{function}({function})" for function in functions]
    hidden = [f"check.{function}({function}, hidden=True)" for function in functions]
    lines = [*visible, "### BEGIN HIDDEN TESTS", *hidden, "### END HIDDEN TESTS"]
    return code(name, "\n".join(lines), grade=True, locked=True, points=points)


def small():
    """A master with two exercises that are checked, and one that is marked by hand."""
    return new_notebook(cells=[
        code("imports", IMPORTS, tags=["setup"], locked=True),
        solution("step", STEP), checked("step-check", "step"),
        code("step-figure", "step(*undefined)", locked=True),
        solution("horizon", HORIZON), checked("horizon-check", "horizon", points=3),
        solution("open", "### BEGIN SOLUTION: try something.\n1 + 1\n### END SOLUTION", grade=True, points=4),
        text("open-answer", "### BEGIN SOLUTION: say what you tried.\nAn addition.\n### END SOLUTION", solution=True, grade=True, points=1),
    ])  # fmt: skip


def course(folder, master=None):
    """A copy of the course in a folder, with a master of its own in place of the real one if one is given. Returns its labs/."""
    labs = Path(folder) / "labs"
    (Path(folder) / "book").mkdir(parents=True)
    shutil.copytree(ROOT / "book" / "_ext", Path(folder) / "book" / "_ext", ignore=shutil.ignore_patterns("__pycache__"))
    made = ("__pycache__", "*.egg-info", "release", "submitted", "autograded", "feedback", "gradebook.db*")
    shutil.copytree(ROOT / "labs", labs, ignore=shutil.ignore_patterns(*made))
    if master is not None:
        import notebooks

        shutil.rmtree(labs / "source")
        (labs / "source" / LAB).mkdir(parents=True)
        (labs / "source" / LAB / f"{LAB}.ipynb").write_text(notebooks.text(notebooks.normal(master)), encoding="utf-8")
    return labs


def nbgrader(labs, *words, seed="autumn", fails=False):
    """Runs a command of nbgrader in a course, as an instructor does; returns what it said."""
    environment = {name: value for name, value in os.environ.items() if name != "UNROLLED_SEED"}
    if seed:
        environment["UNROLLED_SEED"] = seed
    done = subprocess.run([sys.executable, "-m", "nbgrader", *words], cwd=labs, env=environment, capture_output=True, text=True)
    assert bool(done.returncode) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def points(labs):
    """The points of every student for every graded cell, as {student: {cell: points}}; None where a person has to mark."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{labs / 'gradebook.db'}") as gradebook:
        return {submission.student.id: {grade.name: grade.auto_score for book in submission.notebooks for grade in book.grades}
                for submission in gradebook.assignment_submissions(LAB)}
