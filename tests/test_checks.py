"""The frame of the checks: how an answer is called, compared and refused, and what a student reads."""

import functools
import json
import re
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unrolled import train, vanilla_rnn
from unrolled.checks import Check, Wrong, calls, check
from unrolled.checks import gates as lab_2
from unrolled.checks import vanilla_rnn as lab_1
from unrolled.checks.compare import difference, same

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = {"tasks", "vanilla_rnn.init"}


@check(lambda rng: [(rng.normal(size=T).astype(np.float32), 2) for T in (4, 1)], allowed=ALLOWED)
def scaled(inputs, outputs):
    x, factor = inputs
    return difference(outputs, factor * x, "y (T)", {"the factor is added": lambda: factor + x})


# ---------------------------------------------------------------- a check


def test_a_right_answer_passes(capsys):
    scaled(lambda x, factor: factor * x)
    assert capsys.readouterr().out == "scaled: visible checks passed.\n"
    scaled(lambda x, factor: factor * x, hidden=True)
    assert capsys.readouterr().out == "scaled: hidden checks passed.\n"


def test_a_wrong_answer_is_named_and_passes_nothing(capsys):
    with pytest.raises(Wrong, match="^scaled: the factor is added$"):
        scaled(lambda x, factor: factor + x)
    assert capsys.readouterr().out == ""


def test_a_student_reads_the_message_alone():
    assert Wrong("W is transposed.")._render_traceback_() == ["Not yet. W is transposed."]


def test_a_later_case_is_described():
    with pytest.raises(Wrong, match=r"\(1 of the cases passed; here the inputs are \(1,\), 2\.\)"):
        scaled(lambda x, factor: factor * x if len(x) > 1 else x)


def test_an_error_in_the_answer_stays_the_students_own():
    def unfinished(x, factor):
        raise NotImplementedError("scaled: write y, (T,).")

    with pytest.raises(NotImplementedError, match="write y") as raised:
        scaled(unfinished)
    assert [entry.name for entry in raised.traceback[-2:]] == ["__call__", "unfinished"]


def test_visible_cases_are_the_same_for_all_and_hidden_ones_follow_the_seed(monkeypatch):
    assert same(scaled.draw(), scaled.draw()) and same(scaled.draw("autumn"), scaled.draw("autumn"))
    assert not same(scaled.draw(), scaled.draw("autumn")) and not same(scaled.draw("autumn"), scaled.draw("spring"))
    seen = []

    def spy(x, factor):
        seen.append(np.asarray(x))
        return factor * x

    monkeypatch.setenv("UNROLLED_SEED", "autumn")
    scaled(spy, hidden=True)
    assert same(seen, [x for x, _ in scaled.draw("autumn")])


def test_checks_of_one_seed_differ():
    other = scaled._replace(name="other")
    assert not same(scaled.draw("autumn"), other.draw("autumn"))


def test_the_judge_sees_double_precision():
    kinds = []

    def judge(inputs, outputs):
        kinds.append((inputs[0].dtype, outputs.dtype, type(inputs[1])))
        return ""

    Check("spy", scaled.cases, judge, frozenset())(lambda x, factor: x)
    assert set(kinds) == {(np.dtype("float64"), np.dtype("float64"), int)}


# ---------------------------------------------------------------- what a function may be and return


def given(function, call=calls.value, allowed=ALLOWED, forbidden=frozenset(), inputs=(np.ones(3, np.float32),)):
    return calls.perform(call, function, inputs, allowed, forbidden)


@pytest.mark.parametrize("result, words", [
    (None, "is None. Does the function end with `return`"),
    ([1.0, None], r"result\[1\] is None"),
    ("0.5", "is of type str. Expected an array"),
    ((jnp.ones(2), None), r"result\[1\] is None"),
    (vanilla_rnn.Params(None, 1, 2), r"result\.W is None"),
    ({"W": "x"}, r"result\['W'\] is of type str"),
    (np.array([1j]), "dtype complex128. Expected real numbers"),
    (np.array([None]), "dtype object. Expected real numbers"),
])  # fmt: skip
def test_what_is_no_array_is_named(result, words):
    with pytest.raises(Wrong, match=words):
        given(lambda x: result)


@pytest.mark.parametrize("result", [1, 0.5, True, np.float64(2), np.ones(2), jnp.ones(2, jnp.bfloat16), {"a": (1, np.zeros(2))}])
def test_arrays_of_any_kind_are_taken(result):
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(given(lambda x: result)))


def test_a_call_in_place_of_a_function_is_named():
    with pytest.raises(Wrong, match="Give its name without brackets"):
        given(jnp.ones(3))


def test_arrays_arrive_as_those_of_jax():
    assert isinstance(given(lambda x: float(isinstance(x, jax.Array))), np.ndarray)
    assert given(lambda x: float(isinstance(x, jax.Array))) == 1


# ---------------------------------------------------------------- what a function may use


def direct(x):
    return vanilla_rnn.unroll(None, x, x)


def helper(x):
    return direct(x)


def by_gradient(x):
    return jax.grad(jnp.sum)(x)


def deep(x):
    return jax.vmap(lambda row: (lambda: jax.lax.map(jax.grad(jnp.sin), row))())(x)


def imports_inside(x):
    from unrolled.vanilla_rnn import unroll as mine

    return mine(None, x, x)


closed_over = (lambda unroll: lambda x: unroll(None, x, x))(vanilla_rnn.unroll)


@pytest.mark.parametrize("function", [vanilla_rnn.unroll, direct, helper, jax.jit(helper), functools.partial(helper), closed_over, imports_inside,
                                      functools.partial(vanilla_rnn.unroll, None), lambda x, unroll=vanilla_rnn.unroll: x])  # fmt: skip
def test_a_function_of_the_package_that_answers_is_refused(function):
    with pytest.raises(Wrong, match=r"unrolled\.vanilla_rnn\.unroll answers in your place"):
        given(function)


@pytest.mark.parametrize("function", [by_gradient, jax.jit(by_gradient), jax.grad(jnp.sum), deep])
def test_a_forbidden_function_is_refused_and_allowed_elsewhere(function):
    if function is not deep:
        given(function)
    with pytest.raises(Wrong, match="grad answers in your place|asks for it by hand"):
        given(function, forbidden=calls.AUTODIFF)


def test_allowed_names_pass():
    key = jax.random.key(0)
    assert given(lambda x: vanilla_rnn.init(key, 2, 3).W).shape == (3, 3)


# ---------------------------------------------------------------- the traced call


def shapes(function, *inputs):
    return {tuple(int(n) for n in row if n >= 0) for row in calls.traced(function, *map(jnp.asarray, inputs))[1]}


def test_the_traced_call_sees_into_loops_and_compiled_functions():
    def loop(x):
        inner = jax.jit(lambda row: jnp.outer(row, row).sum(axis=0))
        return jax.lax.scan(lambda carry, row: (carry + inner(row), 0.0), jnp.zeros(3), x)[0]

    found = shapes(loop, np.ones((5, 3), np.float32))
    assert (3, 3) in found and (3,) in found
    assert (3, 3) not in shapes(lambda x: x @ jnp.ones(3), np.ones((5, 3), np.float32))


def test_the_traced_program_is_the_one_that_is_run():
    def two_faced(x):
        return x if isinstance(x, jax.core.Tracer) else x + 1

    assert (calls.traced(two_faced, jnp.zeros(3))[0] == 0).all()
    with pytest.raises(Wrong, match="in a callback"):
        given(lambda x: jax.pure_callback(np.sin, x, x), call=calls.traced)


def test_a_name_of_the_students_own_is_no_forbidden_function():
    def grad(x):
        return x

    given(lambda x: grad(x).sum() + jnp.ones((2, 2)).T.sum(), forbidden=calls.AUTODIFF)


def test_a_function_that_cannot_be_traced_is_told_why():
    with pytest.raises(Wrong, match="jnp in place of NumPy"):
        given(lambda x: np.asarray(x) + 1, call=calls.traced)
    with pytest.raises(Wrong, match="Python numbers"):
        given(lambda x: float(x[0]), call=calls.traced)


# ---------------------------------------------------------------- words for a difference

RIGHT = np.array([[1.0, 2.0], [3.0, 5.0], [8.0, 13.0], [21.0, 34.0]])
SQUARE = np.array([[1.0, 2.0], [3.0, 5.0]])


@pytest.mark.parametrize("given, right, words", [
    (RIGHT + 1e-5, RIGHT, "^$"),
    (RIGHT.astype(np.float32), RIGHT, "^$"),
    (RIGHT @ SQUARE, RIGHT, "right shape and wrong values"),
    (-RIGHT, RIGHT, "wrong sign"),
    (0.25 * RIGHT, RIGHT, "the right one times a number"),
    (0.5 * RIGHT, RIGHT, "half of what it should be"),
    (np.cumsum(RIGHT, axis=0), RIGHT, "summed up along the rows"),
    (1.01 * RIGHT + 0.1, RIGHT, "not far from"),
    (1.001 * RIGHT + 0.01, RIGHT, "right to two digits"),
    (RIGHT[1:3, 0], RIGHT[:, 0], "a part of what is wanted"),
    (RIGHT.ravel(), RIGHT[0], "wanted is a part of it"),
    (np.array(7.0), RIGHT[0], "One number is not enough"),
    (SQUARE.T, SQUARE, "transposed"),
    (RIGHT.T, RIGHT, r"shape \(2, 4\). Expected \(4, 2\). It is transposed"),
    (2 * RIGHT.T, RIGHT, "It may be transposed"),
    (RIGHT[:3], RIGHT, "The last row is missing"),
    (RIGHT[1:], RIGHT, "The first row is missing"),
    (RIGHT[-1], RIGHT, "last row alone"),
    (np.linalg.norm(RIGHT, axis=1), RIGHT, "lengths of its rows"),
    (RIGHT[:, :, None] * [0.25, 0.75], RIGHT, "An axis is left"),
    (RIGHT.sum(axis=0), RIGHT, "An axis is summed over"),
    (RIGHT[None], RIGHT, "axis of length 1"),
    (RIGHT[::-1], RIGHT, "runs backwards"),
    (np.concatenate([RIGHT[:1], RIGHT[:-1]]), RIGHT, "one step late"),
    (np.concatenate([RIGHT[1:], RIGHT[-1:]]), RIGHT, "one step early"),
    (0 * RIGHT, RIGHT, "zero everywhere"),
    (RIGHT * np.array([1, np.nan]), RIGHT, "not a number"),
    (RIGHT * np.array([1, np.inf]), RIGHT, "infinite"),
    (RIGHT * np.array([[1], [1], [2], [1.5]]), RIGHT, "right in its first rows"),
    (RIGHT * np.array([[1], [3], [2], [1.5]]), RIGHT, "handed on from step to step"),
    (RIGHT * np.array([[9], [5], [1], [1]]), RIGHT, "right in its last rows"),
])  # fmt: skip
def test_a_difference_is_named(given, right, words):
    found = difference(calls.arrays(given), right, "y (T, K)")
    assert re.search(words, found)


def test_the_form_of_several_results_is_named():
    pair = (RIGHT, RIGHT[0])
    names = "y (T, K); h (H)"
    assert difference(pair, pair, names) == ""
    assert "a part of the result is missing: return 2 things" in difference(RIGHT, pair, names)
    assert "the function returned one array" in difference(RIGHT @ SQUARE, pair, names)
    assert "another order" in difference(pair[::-1], pair, names)
    assert "something besides" in difference((*pair, pair), pair, names)
    assert "not stand in the form" in difference({"y": RIGHT, "z": RIGHT[0]}, pair, names)
    assert difference((2 * RIGHT, 3 * RIGHT[0]), pair, names) == "y is twice what it should be. h is wrong too."
    assert "result 1 is a Python list" in difference(((*RIGHT,), RIGHT[0]), pair, names)
    assert "the result is a Python list" in difference((*RIGHT,), RIGHT, "y (T, K)")
    assert "one array of shape (10,): return 2 of them" in difference(np.arange(10.0), pair, names)
    assert "result 1 is 2 results: join" not in difference(((RIGHT, SQUARE), RIGHT[0]), pair, names)
    assert "result 1 is a list of 2: join them to one array" in difference(((RIGHT, SQUARE), RIGHT[0]), pair, names)
    assert difference((RIGHT, 2 * RIGHT[0]), pair, names) == "h is twice what it should be. y is right."


def test_mistakes_are_tried_in_order_and_only_when_needed():
    def never():
        raise AssertionError("a mistake was computed for a right answer")

    assert difference(RIGHT, RIGHT, "y (T, K)", {"never": never}) == ""
    assert difference(-RIGHT, RIGHT, "y (T, K)", {"first": lambda: 0 * RIGHT, "second": lambda: -RIGHT, "third": lambda: -RIGHT}) == "second"


def test_infinite_values_can_be_right():
    assert difference(np.array([np.inf, 1.0]), np.array([np.inf, 1.0]), "y (T)") == ""
    assert difference(np.array([-np.inf, 1.0]), np.array([np.inf, 1.0]), "y (T)") != ""
    assert difference(np.array(np.nan), np.array(np.nan), "the norm ()") == ""


# ---------------------------------------------------------------- the example of CONTRIBUTING.md


def blocks(title, until, kind):
    """The code blocks of one kind in a section of CONTRIBUTING.md."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split(f"\n## {until}\n")[0]
    return re.findall(rf"(?ms)^```{kind}\n(.*?)\n```$", section)


def test_smallest_exercise_and_check(capsys):
    (source,) = blocks("The smallest check", "Editing a notebook", "python")
    notebook = {"jnp": jnp, "check": types.SimpleNamespace()}
    exec(source, vars(notebook["check"]))
    solution, number, checks = blocks("The smallest exercise", "The smallest check", "python")
    for cell in (solution, number, checks):
        exec(cell, notebook)
    assert capsys.readouterr().out.splitlines() == ["1 3 6", "running_sum: visible checks passed.", "running_sum: hidden checks passed."]
    for words, answer in {"sum of all entries": lambda x: jnp.full(len(x), x.sum()), "left out": lambda x: jnp.cumsum(x) - x}.items():
        with pytest.raises(Wrong, match=words):
            notebook["check"].running_sum(answer)
    kinds = [json.loads(block)["nbgrader"] for block in blocks("The smallest exercise", "The smallest check", "json")]
    assert [(kind["solution"], kind["locked"], kind["grade"]) for kind in kinds] == [(True, False, False), (False, True, False), (False, True, True)]


# ---------------------------------------------------------------- lab 1, where a list of answers says nothing

JUNK = {"nothing": (), "an empty array": np.zeros(0), "empty rows": np.zeros((0, 3)), "NaN": np.nan, "a huge number": 1e300,
        "ragged": (np.zeros(2), (np.zeros(3), 1.0)), "a dictionary": {"W": np.zeros((2, 2))}, "many axes": np.zeros((1,) * 9),
        "three numbers": (1, 2, 3)}  # fmt: skip
LAB_1 = {name: check for name, check in vars(lab_1).items() if isinstance(check, Check)}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("bptt", "truncated"))) for name in LAB_1])
def test_a_judge_rejects_junk_in_words(name):
    inputs = LAB_1[name].draw()[0]
    for junk in JUNK.values():
        result = calls.arrays(junk)
        for outputs in [result] + [(result, np.zeros((1, 8), int))] * (name == "push"):
            assert LAB_1[name].verdict(inputs, outputs)


@pytest.mark.parametrize("name", [name for name, check in vars(lab_2).items() if isinstance(check, Check)])
def test_a_judge_of_lab_2_rejects_junk_in_words(name):
    judged = getattr(lab_2, name)
    for inputs in judged.draw()[:2]:
        for junk in JUNK.values():
            assert judged.verdict(inputs, calls.arrays(junk))


def transposed_step(params, alpha, h, x):
    return (1 - alpha) * h + alpha * jnp.tanh(h @ params.W.T + x @ params.U.T + params.b)


def pushed(params, alpha, h0, x, v):
    h, rows = h0, []
    for x_t in x:
        h, v = jax.jvp(lambda h: transposed_step(params, alpha, h, x_t), (h,), (v,))
        rows.append(v)
    return jnp.stack(rows)


def trained(model, alpha, h0, x, target):
    optimizer = optax.sgd(1.0)
    cost = lambda model, batch: lab_1.cost(model, alpha, h0, x, target)
    after = train.update(cost, optimizer, model, optimizer.init(model), 0)[0]
    return jax.tree.map(jnp.subtract, model, after)


def test_a_transposed_view_of_the_weights_is_no_matrix_formed():
    lab_1.push(pushed)


def test_the_training_loop_does_not_differentiate_by_hand():
    with pytest.raises(Wrong, match=r"unrolled\.\S+ answers in your place"):
        lab_1.bptt(trained)


def test_seeds_change_every_answer_of_the_horizon():
    answers = np.array([[next((t for t in range(len(m)) if m[t] < level), len(m)) for m, level in lab_1.horizon.draw(str(seed))] for seed in range(30)])
    assert all(len(set(column)) > 1 for number, column in enumerate(answers.T) if number not in (3, 5))  # of which one is 0, one 1 by design
