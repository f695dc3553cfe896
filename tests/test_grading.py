"""Grading: what is right passes, what is wrong does not, and no trick of the submission makes a mark."""

import copy
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import course
import numpy as np
import pytest
from attacks import ATTACKS, BLIND, KILLERS, START, killer
from course import LAB, checked, code, solution
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from nbformat.v4 import new_notebook

from grading import parent, stage, wire
from unrolled.checks import Wrong
from unrolled.checks import vanilla_rnn as checks
from unrolled.vanilla_rnn import Model, Params

QUICK = parent.Limits(cell=4.0, call=4.0)
SEED = "autumn"


def messages(notebook):
    """What is said of every test cell: "" where it is passed."""
    return {cell.metadata.nbgrader.grade_id: cell.outputs[0].get("evalue", "") for cell in notebook.cells if parent.is_test(cell)}


def graded(*cells, seed=SEED, limits=QUICK):
    return messages(parent.grade(new_notebook(cells=[code("imports", course.IMPORTS, tags=["setup"], locked=True), *cells]), LAB, seed, limits))


def named(source, name):
    """What the check of the leaky step says of a wrong answer, called here."""
    names = {}
    exec(f"{START}\n{source}", names)
    with pytest.raises(Wrong) as problem:
        checks.step(names[name])
    return str(problem.value)


# ---------------------------------------------------------------- the wire


NUMBERS = st.sampled_from([dtype.newbyteorder("=") for dtype in wire.DTYPES.values()])
LEAVES = arrays.arrays(NUMBERS, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
PLAIN = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text()
TREES = st.recursive(LEAVES | PLAIN, lambda parts: st.lists(parts, max_size=3) | st.lists(parts, max_size=3).map(tuple)
                     | st.dictionaries(st.text(), parts, max_size=3) | st.builds(Params, parts, parts, parts), max_leaves=8)  # fmt: skip


def split(message):
    header, data = wire.LENGTHS.unpack(message[:wire.LENGTHS.size])
    assert len(message) == wire.LENGTHS.size + header + data
    return message[wire.LENGTHS.size:][:header], message[wire.LENGTHS.size + header:]


def same(one, other):
    if isinstance(one, np.ndarray):
        return type(other) is np.ndarray and one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, (tuple, list)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return type(other) is dict and list(one) == list(other) and all(map(same, one.values(), other.values()))
    return type(one) is type(other) and (one == other or one != one and other != other)


@given(TREES)
@settings(deadline=None, max_examples=40)
def test_trees_come_through_the_wire(tree):
    classes = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in (Params, Model)}
    assert same(tree, wire.decode(*split(wire.encode(tree)), classes.__getitem__))


def test_trees_come_through_a_pipe():
    ours, theirs = os.pipe()
    wire.send(theirs, {"a": np.arange(5.0)}, 1)
    assert same(wire.receive(ours, 1), {"a": np.arange(5.0)})
    with pytest.raises(wire.Silent):
        wire.receive(ours, 0.01)
    os.write(theirs, b"\0\0")
    os.close(theirs)
    with pytest.raises(EOFError):
        wire.receive(ours, 1)
    os.close(ours)


@pytest.mark.parametrize("tree, words", [
    (np.array([print]), "dtype object"), (np.array(["a"]), "dtype <U1"), (np.array(1j), "complex"), (print, "of type builtin"),
    ({1: 2}, "keys"), (np.broadcast_to(np.zeros(1), (2**30,)), "bytes"), ([np.zeros(2**22)] * 3, "bytes"), (np.zeros(1, "f4,i4"), "dtype"),
])  # fmt: skip
def test_what_is_no_number_is_not_sent(tree, words):
    with pytest.raises(ValueError, match=words):
        wire.encode(tree)


@pytest.mark.parametrize("header, data", [
    ({"array": ["object", 1]}, b"\0" * 8), ({"array": ["|O", 1]}, b"\0" * 8), ({"array": ["float32", 2]}, b"\0" * 4), ({"array": ["float32", 1]}, b"\0" * 8),
    ({"array": ["float32", -1]}, b""), ({"array": ["float32", 2**62]}, b""), ({"array": ["float32", *[2**26] * 9]}, b""), ({"array": ["float32", 1.0]}, b"\0" * 4),
    ({"array": ["float32", True]}, b"\0" * 4), ({"array": ["bool", 1]}, b"\2"), ({"array": []}, b""), ({"array": ["int8"] + [1] * 40}, b"\0"),
    ({"named": "os:system", "parts": [{"plain": "true"}]}, b""), ({"plain": [1]}, b""), ({"plain": 1, "list": []}, b""), ({"pickle": "x"}, b""), ({}, b""),
    ([], b""), (3, b""), ({"dict": [[1, {"plain": 1}]]}, b""), ({"dict": 3}, b""), ({"tuple": [3]}, b""), ({"array": {"float32": 1}}, b"\0" * 4),
])  # fmt: skip
def test_malformed_messages_are_refused(header, data):
    with pytest.raises(wire.Malformed):
        wire.decode(json.dumps(header).encode(), data)


def test_a_header_that_is_no_text_or_has_no_end_is_refused():
    for header in (b"\xff\xfe", b"[" * 100_000, b'{"tuple":[' * 100_000, b"1" * 10_000, b"\x80\x04N.", b""):
        with pytest.raises(wire.Malformed):
            wire.decode(header, b"")


@given(st.binary(max_size=60))
@settings(deadline=None, max_examples=40)
def test_no_bytes_do_harm(garbage):
    try:
        wire.decode(garbage, b"")
    except wire.Malformed:
        pass


@pytest.mark.parametrize("header, data", [(2**31, 0), (0, 2**63), (wire.MOST_HEADER + 1, 0), (0, wire.MOST_DATA + 1)])
def test_absurd_sizes_are_refused_before_they_are_read(header, data):
    ours, theirs = os.pipe()
    os.write(theirs, struct.pack(">IQ", header, data))
    with pytest.raises(wire.Malformed, match="a message of"):
        wire.receive(ours, 1)
    os.close(ours)
    os.close(theirs)


def test_wire_and_child_import_nothing_that_unpickles():
    for name in ("wire.py", "child.py", "parent.py"):
        assert not {"pickle", "marshal", "allow_pickle", "eval("} & set((parent.LABS / "grading" / name).read_text(encoding="utf-8").split())


# ---------------------------------------------------------------- the staged package


SOURCE = '''
"""A module."""
import os
from math import pi
TAU: float = 2 * pi
_HALF = 0.5
def area(r):
    return _square(r) * TAU * _HALF
def _square(r):
    return r * r
def volume(r):
    return area(r) * r
class Shape:
    pass
'''


def test_what_is_allowed_is_kept_with_what_it_needs():
    names = {}
    exec(stage.cut(SOURCE, "round", {"area"}) + stage.NO_NAME.format(module="round"), names)
    assert names["area"](1.0) == pytest.approx(np.pi) and "volume" not in names and "Shape" not in names
    with pytest.raises(ImportError, match="this lab does not allow unrolled.round.volume: write it yourself"):
        names["__getattr__"]("volume")


def test_an_allowed_name_that_needs_another_is_an_error_of_the_lab():
    with pytest.raises(ValueError, match="allows unrolled.round.volume, which needs area"):
        stage.cut(SOURCE, "round", {"volume"})
    with pytest.raises(ValueError, match="allows mass of unrolled.round, which is not there"):
        stage.cut(SOURCE, "round", {"mass"})


def test_the_staged_package_has_what_the_lab_allows_and_no_judge(tmp_path):
    stage.stage(tmp_path, parent.PACKAGE, "vanilla_rnn", checks.ALLOWED, {"step", "run"})
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import unrolled
from unrolled import explore, plots, runtime, tasks, train, vanilla_rnn
from unrolled.checks import vanilla_rnn as check
from unrolled.vanilla_rnn import Model, Params, init
check.step(print)
assert unrolled.__file__.startswith({str(tmp_path)!r})
for name in ("unrolled.vanilla_rnn.predict", "unrolled.checks.compare.difference", "unrolled.checks.vanilla_rnn.forward"):
    module, _, last = name.rpartition(".")
    try:
        getattr(__import__(module, fromlist=[last]), last)
    except ImportError as problem:
        print(problem)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["step: not checked here.", "this lab does not allow unrolled.vanilla_rnn.predict: write it yourself",
                                        "this lab does not allow unrolled.checks.compare: write it yourself",
                                        "this lab does not allow unrolled.checks.vanilla_rnn.forward: write it yourself"]  # fmt: skip
    texts = "".join(path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.py"))
    assert "def refuse(" in texts and not re.search(r"def (unroll|step\(params|bptt|draw\(self|difference)", texts)


# ---------------------------------------------------------------- what a test cell asks


def test_test_cells_are_read_and_not_run():
    tests = parent.tests("check.step(step)\ncheck.horizon(mine)\ncheck.step(step, hidden=True)  # again", vars(checks))
    assert [(check.name, function) for check, function in tests] == [("step", "step"), ("horizon", "mine")]


@pytest.mark.parametrize("source, words", [
    ("assert step(1) == 1", "Expected lines like"), ("check.step(lambda: 0)", "Expected lines like"), ("check.walk(step)", "no check walk"),
    ("", "has no test"), ("# check.step(step)", "has no test"), ("check.step(step, hidden=False)", "Expected lines like"), ("check = 3", "Expected lines"),
    ("other.step(step)", "Expected lines"), ("check.step(step, step)", "Expected lines"), ("check.step(step).x", "Expected lines"),
])  # fmt: skip
def test_other_lines_in_a_test_cell_are_errors(source, words):
    _, known = parent.lab(LAB)
    with pytest.raises(ValueError, match=words):
        parent.tests(source, known)


def test_a_lab_without_checks_is_an_error():
    slug, known = parent.lab(LAB)
    assert slug == "vanilla_rnn" and {"step", "run", "bptt"} <= set(known)
    with pytest.raises(ValueError, match="has no checks. Expected them in unrolled/checks/walking.py"):
        parent.lab("lab99_walking")


# ---------------------------------------------------------------- right and wrong submissions


def test_right_answers_pass_and_wrong_ones_are_named():
    wrong = course.STEP.replace("(1 - alpha) * h + ", "").replace("step", "wrong")
    loud = course.STEP + "\nraise ValueError('loud' * 10**6)"
    said = graded(solution("step", loud), checked("step-check", "step"), solution("wrong", wrong),
                  code("wrong-check", "check.step(wrong)", grade=True, locked=True, points=2), code("figure", "def step(*inputs): 0", locked=True),
                  code("magic", "%matplotlib inline\n!true\nimport time"), code("timed", "%%time\n" + course.HORIZON), checked("horizon-check", "horizon"),
                  code("again", "check.step(step)", grade=True, locked=True, points=2))  # fmt: skip
    assert said == {"step-check": "", "wrong-check": named(wrong, "wrong"), "horizon-check": "", "again": ""}


def test_errors_of_a_cell_or_a_call_are_told_and_stay_where_they_are():
    said = graded(code("broken", "x = 1 +"), code("raises", "y = 1 / 0"), checked("step-check", "step"), solution("horizon", course.HORIZON),
                  checked("horizon-check", "horizon"), solution("step", "def step(*inputs):\n    raise NotImplementedError('step: write h_t.')"),
                  code("again", "check.step(step)", grade=True, locked=True, points=2))  # fmt: skip
    assert said == {"step-check": "step: there is no function step. Does its cell run without an error?", "horizon-check": "",
                    "again": "step: NotImplementedError: step: write h_t."}  # fmt: skip


def hard_coded(name):
    """The source of an answer that knows the visible cases of `step`, and these alone."""
    table = {inputs[2].tobytes(): checks.forward(inputs[0], inputs[1], inputs[2], inputs[3][None])[0].tolist() for inputs in checks.step.draw()}
    return (f"import numpy as np\nTABLE = {table!r}\ndef {name}(params, alpha, h, x):\n    key = np.asarray(h).tobytes()\n"
            "    return np.array(TABLE.get(key, [0.0] * len(h)))\n")  # fmt: skip


def test_the_seed_changes_the_hidden_cases():
    first, second = (checks.step.draw(seed) for seed in (SEED, "spring"))
    assert not np.array_equal(first[0][2], second[0][2])


def test_an_answer_for_the_visible_cases_alone_fails_and_does_not_tell_the_hidden_ones(capsys):
    names = {}
    exec(hard_coded("step"), names)
    checks.step(names["step"])
    assert "visible checks passed" in capsys.readouterr().out
    tells = hard_coded("tells").replace("TABLE.get(key, [0.0] * len(h))", "TABLE[key]")
    said = graded(solution("step", hard_coded("step")), checked("step-check", "step"), solution("tells", tells),
                  code("tells-check", "check.step(tells)", grade=True, locked=True, points=2), solution("right", course.STEP),
                  code("right-check", "check.step(step)", grade=True, locked=True, points=2), seed="spring")  # fmt: skip
    assert said["step-check"].startswith("step: h_t is zero") and said["tells-check"] == f"step: {parent.HIDDEN}" and said["right-check"] == ""


@pytest.mark.slow
@pytest.mark.parametrize("path", course.MASTERS, ids=lambda path: path.stem)
def test_the_labs_own_solutions_pass_under_any_seed_and_the_stubs_under_none(path):
    import notebooks

    for seed in ("autumn", "spring"):
        said = messages(parent.grade(notebooks.read(path), path.stem, seed))
        assert said and not any(said.values()), said
    said = messages(parent.grade(notebooks.read(course.released(path)), path.stem, "autumn"))
    assert all("NotImplementedError" in message for message in said.values()), said


# ---------------------------------------------------------------- attacks


@pytest.fixture(scope="module")
def attacked():
    """What is said of all attacks, in one submission, and of a right answer after them."""
    cells = [code("start", f"{START}\nLABS = {str(parent.LABS)!r}")]
    for name, (source, _) in BLIND.items():
        cells += [code(name, source), code(f"{name}-check", f"check.{name}({name})", grade=True, locked=True, points=2)]
    for number, attack in enumerate(ATTACKS.values()):
        cells += [code(f"attack-{number}", attack.source.replace("answer", f"answer_{number}")),
                  code(f"test-{number}", f"check.step(answer_{number})", grade=True, locked=True, points=2)]  # fmt: skip
    before = os.environ.get("UNROLLED_SEED")
    os.environ["UNROLLED_SEED"] = SEED
    try:
        return graded(*cells, code("right-check", "check.step(right)", grade=True, locked=True, points=2),
                      solution("horizon", course.HORIZON), checked("horizon-check", "horizon"))  # fmt: skip
    finally:
        os.environ.pop("UNROLLED_SEED") if before is None else os.environ.update(UNROLLED_SEED=before)


@pytest.mark.slow
@pytest.mark.parametrize("number, name", list(enumerate(ATTACKS)), ids=list(ATTACKS))
def test_attack_gains_nothing(number, name, attacked):
    message = ATTACKS[name].message
    assert attacked[f"test-{number}"] == (f"step: {message}" if message else named("", "wrong"))


@pytest.mark.slow
@pytest.mark.parametrize("name", BLIND)
def test_what_an_answer_may_not_use_is_seen_by_other_eyes(name, attacked):
    assert BLIND[name][1] in attacked[f"{name}-check"]


@pytest.mark.slow
def test_attacks_leave_other_exercises_alone(attacked):
    assert attacked["right-check"] == "" and attacked["horizon-check"] == ""


@pytest.mark.slow
@pytest.mark.parametrize("usual", ["assertion", "notebook"])
def test_attacks_get_past_a_usual_grader(usual):
    names = [name for name, attack in ATTACKS.items() if attack.works == usual]
    done = subprocess.run([sys.executable, "-W", "ignore", course.ROOT / "tests" / "attacks.py", usual, *names], capture_output=True, text=True,
                          env=os.environ | {"UNROLLED_SEED": SEED})  # fmt: skip
    assert names and done.stdout.splitlines() == names, done.stderr


@pytest.mark.slow
def test_attacks_would_be_seen_to_work():
    """Where nothing is kept from the child, the same attack makes the mark: the right answer is what it gives then."""
    honest = code("start", START), code("attack", ATTACKS["the seed in the environment"].source + "\nos.environ['UNROLLED_SEED'] = 'known'")
    assert graded(*honest, code("test", "check.step(answer)", grade=True, locked=True, points=2)) == {"test": ""}


@pytest.mark.slow
def test_a_lost_child_costs_its_own_exercise_alone():
    cells = [code("start", START)]
    for number, (action, _) in enumerate(KILLERS.values()):
        cells += [code(f"killer-{number}", killer(f"killer_{number}", action)),
                  code(f"test-{number}", f"check.step(killer_{number})", grade=True, locked=True, points=2),
                  code(f"right-{number}", "check.step(right)", grade=True, locked=True, points=2)]  # fmt: skip
    said = graded(*cells)
    assert {name: said[f"test-{number}"] for number, name in enumerate(KILLERS)} == {
        name: f"step: {message.format(QUICK.call)}" if message else named("", "wrong") for name, (_, message) in KILLERS.items()}  # fmt: skip
    assert not any(said[f"right-{number}"] for number in range(len(KILLERS)))


@pytest.mark.slow
def test_a_cell_by_which_the_child_is_lost_is_skipped():
    cells = [code("start", START), code("step", course.STEP)]
    cells += [code(f"killer-{number}", action.replace("*inputs", "")) for number, (action, _) in enumerate(KILLERS.values()) if number < 6]
    cells += [checked("step-check", "step"), code("exit", "import sys; sys.exit(0)"), solution("horizon", course.HORIZON), checked("horizon-check", "horizon")]
    assert graded(*cells) == {"step-check": "", "horizon-check": ""}


def test_a_child_that_does_not_start_is_no_fault_of_the_submission(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="does not start"):
        graded(solution("step", course.STEP), checked("step-check", "step"))


def test_the_course_and_the_package_are_closed_and_what_the_child_needs_is_not(tmp_path):
    places = parent.closed(tmp_path / "course", tmp_path / "child")
    assert {"/proc", str(tmp_path / "course"), str(parent.LABS), str(parent.PACKAGE), str(parent.LABS.parent / "tests")} <= set(places)
    assert not [place for place in places if any(Path(needed).is_relative_to(place) for needed in (tmp_path / "child", np.__file__))]


@pytest.mark.slow
def test_no_child_is_left(attacked):
    processes = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in processes.splitlines() if parent.SCRATCH in line and line.split()[0] == str(os.getpid())]


# ---------------------------------------------------------------- nbgrader


@pytest.fixture(scope="module")
def classroom(tmp_path_factory):
    """A course with a small master, and its submissions graded by nbgrader. Returns its labs/ and what nbgrader said."""
    pytest.importorskip("nbgrader", reason="nbgrader is in the site's environment")
    import notebooks

    labs = course.course(tmp_path_factory.mktemp("course"), course.small())
    course.nbgrader(labs, "generate_assignment", LAB)
    untouched = notebooks.read(labs / "release" / LAB / f"{LAB}.ipynb")

    def hand_in(student, change):
        submission = copy.deepcopy(untouched)
        cells = {cell.id: cell for cell in submission.cells}
        submission.cells = change(cells, submission.cells) or submission.cells
        place = labs / "submitted" / student / LAB
        place.mkdir(parents=True)
        (place / f"{LAB}.ipynb").write_text(notebooks.text(submission), encoding="utf-8")

    def answer(**sources):
        def change(cells, _):
            for name, source in sources.items():
                cells[name.replace("_", "-")].source = source
        return change

    def edited(cells, order):
        answer(horizon=course.HORIZON)(cells, order)
        cells["step-check"].source = "print('step: visible and hidden checks passed.')"

    def deleted(cells, order):
        answer(horizon=course.HORIZON)(cells, order)
        return [cell for cell in order if cell.id != "step-check"]

    def remarked(cells, order):
        answer(horizon=course.HORIZON)(cells, order)
        cells["step-check"].metadata["nbgrader"] |= {"points": 100, "solution": True, "grade_id": "step-check"}
        cells["horizon-check"].metadata["nbgrader"] |= {"points": 200, "locked": False}
        cells["step"].metadata["nbgrader"]["grade_id"] = "unknown"
        cells["step-figure"].metadata["nbgrader"] = "nonsense"

    def doubled(cells, order):
        answer(horizon=course.HORIZON)(cells, order)
        again = copy.deepcopy(cells["step-check"])
        again.id, again.source, again.cell_type = "again", "Passed.", "markdown"
        del again["outputs"], again["execution_count"]
        return [*order, again]

    def pretended(cells, order):
        from nbformat.v4 import new_output

        cells["step-check"].outputs = [new_output("execute_result", data={"text/plain": "2"}, execution_count=1)]
        cells["open"].outputs = [new_output("stream", text="kept")]
        cells["open"].source = "print('kept')"

    hand_in("right", answer(step=course.STEP, horizon=course.HORIZON, open="2 + 2", open_answer="More."))
    hand_in("untouched", answer())
    hand_in("half", answer(horizon=course.HORIZON))
    hand_in("visible", answer(step=hard_coded("step"), horizon=course.HORIZON))
    for name, change in {"edited": edited, "deleted": deleted, "remarked": remarked, "doubled": doubled, "pretended": pretended}.items():
        hand_in(name, change)
    return labs, course.nbgrader(labs, "autograde", LAB)


@pytest.mark.slow
@pytest.mark.parametrize("student, step, horizon, by_hand", [
    ("right", 2, 3, None), ("untouched", 0, 0, 0), ("half", 0, 3, 0), ("visible", 0, 3, 0), ("edited", 0, 3, 0), ("deleted", 0, 3, 0),
    ("remarked", 0, 3, 0), ("doubled", 0, 3, 0), ("pretended", 0, 0, None),
])  # fmt: skip
def test_points_are_what_is_owed(student, step, horizon, by_hand, classroom):
    points = course.points(classroom[0])[student]
    assert points["step-check"] == step and points["horizon-check"] == horizon
    assert points["open"] == by_hand


@pytest.mark.slow
def test_outputs_of_the_student_are_kept_and_those_of_tests_are_ours(classroom):
    import notebooks

    graded = notebooks.read(classroom[0] / "autograded" / "pretended" / LAB / f"{LAB}.ipynb")
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in graded.cells}
    assert cells["open"].outputs[0].text == "kept"
    assert [output.evalue for output in cells["step-check"].outputs] == ["step: NotImplementedError: step: write h_t, an array (H,)."]


@pytest.mark.slow
def test_feedback_names_the_mistake_and_no_seed(classroom):
    labs = classroom[0]
    course.nbgrader(labs, "generate_feedback", LAB)
    page = (labs / "feedback" / "visible" / LAB / f"{LAB}.html").read_text(encoding="utf-8")
    assert "step: h_t is zero" in page and "visible and hidden checks passed" in page and SEED not in page


@pytest.mark.slow
def test_nothing_is_graded_without_a_seed(classroom):
    labs = classroom[0]
    before = course.points(labs)["right"]
    said = course.nbgrader(labs, "autograde", LAB, "--student=right", "--force", seed="", fails=True)
    assert "There is no seed for the hidden cases" in said and "UNROLLED_SEED=" in said
    assert not (labs / "autograded" / "right" / LAB).exists() and course.points(labs)["right"] == before
    course.nbgrader(labs, "autograde", LAB, "--student=right", "--force", "--Grade.seed=spring", seed="")
    assert course.points(labs)["right"] == before


def test_a_hidden_input_is_not_spelt_in_a_shape():
    source = (f"{START}\ncount = []\ndef step(*inputs):\n    count.append(1)\n"
              "    return right(*inputs) if len(count) < 6 else jnp.zeros((3, 777))")  # fmt: skip
    said = graded(code("step", source), checked("step-check", "step"))
    assert said["step-check"] == f"step: {parent.OTHER_FORM}"


def test_what_an_exercise_leaves_behind_is_not_held_against_the_next():
    spoilt = "def horizon(m, level):\n    jax.config.update('jax_transfer_guard', 'disallow')\n    return -1"
    said = graded(code("start", f"{START}\nimport jax\n{spoilt}"), checked("horizon-check", "horizon"),
                  code("step", "step = right"), checked("step-check", "step"))  # fmt: skip
    assert said["horizon-check"] and said["step-check"] == ""


def test_an_empty_array_is_not_summed_to_a_large_one():
    header = json.dumps({"array": ["float32", 0, 2**14, 2**13]}).encode()
    with pytest.raises(wire.Malformed, match="too large a shape"):
        wire.decode(header, b"")


def test_tags_may_be_none():
    cell = code("given", "pass", locked=True)
    cell.metadata["tags"] = None
    assert not parent.is_run(cell)
