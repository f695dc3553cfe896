"""The parent of a grading: asks the child for answers, one case at a time, and judges them here.

Trusts the checks, the test cells as the gradebook has them, and the seed. Trusts nothing that comes from the child: an
answer is arrays or a text, it counts if it carries the token of the request and stands right before the judge, and its
absence is a fail. What a child says about a hidden case is not passed on, since it could say the case.
"""

import ast
import contextlib
import importlib
import logging
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import unrolled
from grading import stage, wire
from unrolled.checks import Check

LABS = Path(__file__).resolve().parents[1]
PACKAGE = Path(unrolled.__file__).resolve().parent
SCRATCH = "unrolled-child-"
HIDDEN = "the answer is right on the visible cases, and fails with an error on a hidden one. Try other sizes and values."
OTHER_FORM = "the answer is right on the visible cases, and has another form or shape on a hidden one. Try other sizes and values."
FORM = re.compile("shape|returned|result")  # a message with numbers that the child chose, which could spell a hidden input
GONE = (OSError, EOFError, wire.Malformed, wire.Silent)


class Limits(NamedTuple):
    """How long the child may take, in seconds: to start, for one cell, for one call."""

    start: float = 60.0
    cell: float = 60.0
    call: float = 20.0


class Lost(Exception):
    """The child hangs, is dead, or answers with what is no answer."""


class Ended(Lost):
    """The child is dead, or answers with what is no answer."""


# ---------------------------------------------------------------- the notebook


def lab(assignment):
    """The slug and the checks, by name, of an assignment such as "lab01_vanilla_rnn".

    Raises:
        ValueError: there is no module of checks for it.
    """
    slug = assignment.partition("_")[2]
    try:
        module = importlib.import_module(f"unrolled.checks.{slug}")
    except ImportError:
        raise ValueError(f"The assignment {assignment} has no checks. Expected them in unrolled/checks/{slug or '…'}.py, "
                         "and an assignment that is called labNN_ and then that name.") from None
    return slug, {name: check for name, check in vars(module).items() if isinstance(check, Check)}


def is_test(cell):
    """Whether a cell is a test cell: graded, and not for the student to write."""
    marks = cell.metadata.get("nbgrader", {})
    return bool(cell.cell_type == "code" and marks.get("grade") and not marks.get("solution"))


def is_run(cell):
    """Whether grading runs a cell, if a test follows: the student's own, and locked ones with the tag `setup`."""
    marks = cell.metadata.get("nbgrader", {})
    locked = marks.get("locked") and not marks.get("solution")
    return cell.cell_type == "code" and not is_test(cell) and (not locked or "setup" in (cell.metadata.get("tags") or []))


def tests(source, checks):
    """What a test cell asks, as (check, name of the function), each once.

    Raises:
        ValueError: it holds something else than lines like `check.step(step)` and `check.step(step, hidden=True)`.
    """
    found = {}
    for statement in ast.parse(source).body:
        match statement:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name("check"), name), [ast.Name(function)], [] | [ast.keyword("hidden", ast.Constant(True))])):
                if name not in checks:
                    raise ValueError(f"There is no check {name}. Expected one of {', '.join(sorted(checks))}.")
                found[checks[name], function] = None
            case _:
                raise ValueError(f"{ast.unparse(statement)!r} stands in a test cell. Expected lines like check.step(step) alone.")
    if not found:
        raise ValueError("A test cell has no test. Expected lines like check.step(step).")
    return list(found)


def grade(notebook, assignment, seed, limits=Limits(), root=LABS):
    """Runs a submission and judges it: every test cell gets one output, an error or a line that says that it passed.

    Args:
        notebook: the submission, with test cells as the gradebook has them. It is changed.
        assignment: its name, such as "lab01_vanilla_rnn".
        seed: the instructor's, a text; the hidden cases follow from it.
        limits: how long the child may take.
        root: the folder of the course.
    """
    slug, checks = lab(assignment)
    with tempfile.TemporaryDirectory(prefix=SCRATCH, ignore_cleanup_errors=True) as folder:
        allowed = set().union(*(check.allowed for check in checks.values()))
        forbidden = set().union(*(check.forbidden for check in checks.values()))
        stage.stage(f"{folder}/staged", PACKAGE, slug, allowed, checks)
        child = Child(folder, sorted(map(name_of, forbidden)), closed(root, folder), limits)
        with contextlib.closing(child):
            last = max((place for place, cell in enumerate(notebook.cells) if is_test(cell)), default=-1)
            for cell in notebook.cells[:last + 1]:
                if is_test(cell):
                    cell.outputs = [output(*settled(child, tests(cell.source, checks), seed))]
                    child.inherited = True
                elif is_run(cell):
                    child.run(cell.source)
    return notebook


def output(text, passed):
    """The output of a test cell. nbgrader gives no points where it is an error, and all where it is not."""
    from nbformat.v4 import new_output

    if passed:
        return new_output("stream", name="stdout", text=f"{text}\n")
    return new_output("error", ename="Wrong", evalue=text, traceback=[f"Not yet. {text}"])


# ---------------------------------------------------------------- judging


def settled(child, tests, seed):
    """What is said of a test cell: what a child says that served another exercise before is not held against an answer."""
    served = child.served
    text, passed = outcome(child, tests, seed)
    if not passed and served and child.process is not None:
        child.close()
        text, passed = outcome(child, tests, seed)
    child.served = True
    return text, passed


def outcome(child, tests, seed):
    """What is said of a test cell, and whether it is passed: all its checks, on the visible cases and on the hidden ones."""
    for check, function in tests:
        for hidden in (False, True):
            for inputs in check.draw(seed if hidden else None):
                if problem := judged(child, check, function, inputs, hidden):
                    return f"{check.name}: {problem}", False
    return "\n".join(f"{check.name}: visible and hidden checks passed." for check, _ in tests), True


def judged(child, check, function, inputs, hidden):
    """What is wrong with the answer to one case, or ""."""
    try:
        result, error = child.call(function, check, inputs)
    except Lost as problem:
        return str(problem)
    if error:
        return HIDDEN if hidden else clean(error)
    leaves = jax.tree.leaves(result)
    if not leaves or not all(isinstance(leaf, np.ndarray) for leaf in leaves):
        return "the result is not made of arrays."
    try:
        problem = check.verdict(inputs, result)
        return OTHER_FORM if hidden and FORM.search(problem) else problem
    except Exception:
        logging.getLogger(__name__).exception("The judge of %s failed; the answer counts as wrong. See whether it should.", check.name)
        return "the result has another form than it should."


def clean(text, most=1000):
    """A text of the child's, without control characters, and not too long."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text[:most])


# ---------------------------------------------------------------- the child


class Child:
    """A process that runs a submission. When it is lost, it is started again, and runs again what it had run.

    Raises:
        RuntimeError: the first child does not start, which is no fault of the submission.
    """

    def __init__(self, folder, forbidden, closed, limits):
        self.folder, self.limits = folder, limits
        self.settings = {"forbidden": forbidden, "closed": closed}
        self.cells = []
        self.served = False  # whether the present process has served an exercise before
        self.inherited = False  # whether it has served an exercise before, which may have left something behind
        try:
            self.begin()
        except Lost as problem:
            raise RuntimeError(f"The process that is to run the submission does not start: {problem}") from None

    def begin(self):
        self.process, self.request, self.reply = start(self.folder)
        self.served = False
        self.exchange(self.settings, self.limits.start)

    def run(self, source):
        """Runs a cell; errors in it are the student's affair. A cell by which the child is lost is not run again."""
        with contextlib.suppress(Lost):
            self.ask({"source": source}, self.limits.cell)
            self.cells.append(source)

    def call(self, function, check, inputs):
        """The result of a function of the submission for one case, and "" or the error that it raised.

        Raises:
            Lost: there is no answer.
        """
        forbidden = sorted(map(name_of, check.forbidden))
        asked = {"call": (function, check.call.__name__, tuple(inputs), sorted(check.allowed), forbidden)}
        return self.ask(asked, self.limits.call)

    def ask(self, asked, seconds):
        """Sends a request, and waits for the answer to it; once more to a new child, if the first after another exercise is lost."""
        inherited, self.inherited = self.inherited, False
        try:
            return self.ask_once(asked, seconds)
        except Ended:
            if not inherited:
                raise
        return self.ask_once(asked, seconds)

    def ask_once(self, asked, seconds):
        if self.process is None:
            self.begin()
            for source in self.cells:
                self.exchange({"source": source}, self.limits.cell)
        return self.exchange(asked, seconds)

    def exchange(self, asked, seconds):
        try:
            return self.trade(asked, seconds)
        except GONE as problem:
            self.close()
            if isinstance(problem, wire.Silent):
                raise Lost(f"no answer came in {seconds:.0f} seconds. Does a loop go on for ever?") from None
            raise Ended("the program ended, or wrote where it should not, before an answer came.") from None

    def trade(self, asked, seconds):
        token = secrets.token_hex(8)
        wire.send(self.request, {"token": token, **asked}, seconds)
        answer = wire.receive(self.reply, seconds)
        match answer:
            case {"token": str(name), "result": result, "error": str(error)} if name == token and len(answer) == 3:
                return result, error
        raise wire.Malformed("no answer to the request")

    def close(self):
        """Ends the child, and what it has started in its group."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.request)
        os.close(self.reply)
        self.process = None


def start(folder):
    """Starts a child: the one place where a sandbox would stand around it. Returns the process and two pipes."""
    theirs, ours = os.pipe()
    reply, answers = os.pipe()
    packages = [place for place in sys.path if Path(place).name in ("site-packages", "dist-packages")]
    staged, scratch = f"{folder}/staged", f"{folder}/scratch"
    os.makedirs(scratch, exist_ok=True)
    command = [sys.executable, "-I", "-S", "-B", f"{staged}/child.py", staged, str(theirs), str(answers), *packages]
    environment = {"HOME": scratch, "JAX_PLATFORMS": "cpu", "LANG": "C.UTF-8", "MPLBACKEND": "agg", "PATH": "", "TMPDIR": scratch}
    process = subprocess.Popen(command, env=environment, cwd=scratch, pass_fds=(theirs, answers), start_new_session=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    os.close(theirs)
    os.close(answers)
    os.set_blocking(ours, False)
    return process, ours, reply


def closed(root, folder):
    """The places whose files a child shall not open: the course, what stands beside this folder, the real package, /proc."""
    packages = [place for place in map(Path, sys.path) if place.name in ("site-packages", "dist-packages")]
    installed = [file for place in packages for pattern in ("unrolled*", "__editable__*") for file in place.glob(pattern)]
    places = {path.resolve() for path in [Path(root), LABS, *LABS.parent.iterdir(), *Path.home().iterdir(), PACKAGE, *installed]}
    needed = [Path(place).resolve() for place in (folder, sys.prefix, sys.base_prefix, *packages)]
    return ["/proc", *sorted(str(place) for place in places if not any(other.is_relative_to(place) for other in needed))]


def name_of(function):
    """A function of another package as "module:name", by which the child finds it again.

    Raises:
        ValueError: it can't be found by that name.
    """
    module, name = function.__module__, function.__name__
    if getattr(sys.modules.get(module), name, None) is not function:
        raise ValueError(f"A check forbids {module}.{name}, which is not found under that name.")
    return f"{module}:{name}"
