"""The data are what their docstrings say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unrolled import runtime, tasks

KEY = jax.random.key(0)


def batch(task, size, *sizes):
    draw = jax.jit(lambda key: jax.vmap(lambda key: task(key, *sizes))(jax.random.split(key, size)))
    return [np.asarray(leaf) for leaf in draw(KEY)]


@pytest.mark.parametrize("T", [2, 3, 10])
def test_adding_marks_one_number_in_each_half(T):
    x, y = batch(tasks.adding, 500, T)
    values, marks = x[..., 0], x[..., 1]
    assert x.shape == (500, T, 2) and y.shape == (500,)
    assert ((values >= 0) & (values < 1)).all() and ((marks == 0) | (marks == 1)).all()
    assert (marks[:, :T // 2].sum(axis=1) == 1).all() and (marks[:, T // 2:].sum(axis=1) == 1).all()
    assert (marks.sum(axis=0) > 0).all()
    assert np.allclose(y, (values * marks).sum(axis=1), atol=1e-6)


def test_adding_baseline_is_a_sixth():
    variance_of_one = 1 / 3 - (1 / 2) ** 2
    assert 2 * variance_of_one == pytest.approx(1 / 6)
    _, y = batch(tasks.adding, 50_000, 10)
    error = 5 * np.sqrt(7 / 180 / 50_000)  # five standard errors; (y - 1)² has variance 1/15 - 1/36 = 7/180
    assert float(((y - 1) ** 2).mean()) == pytest.approx(1 / 6, abs=error)
    assert float(y.mean()) == pytest.approx(1, abs=5 * np.sqrt(1 / 6 / 50_000))


@pytest.mark.parametrize("T, symbols", [(1, 2), (20, 8), (5, 3)])
def test_recall_asks_for_the_first_symbol(T, symbols):
    x, y = batch(tasks.recall, 500, T, symbols)
    assert x.shape == (500, T, symbols) and np.issubdtype(y.dtype, np.integer)
    assert ((x == 0) | (x == 1)).all() and (x.sum(axis=2) == 1).all()
    assert (y == x[:, 0].argmax(axis=1)).all()
    assert (x.mean(axis=(0, 1)) > 0.5 / symbols).all()


def test_recall_has_eight_symbols_unless_told_otherwise():
    assert tasks.recall(KEY, 3)[0].shape == (3, 8)


def test_same_key_same_example_other_key_other_example():
    for task in (tasks.adding, tasks.recall):
        draw = jax.jit(lambda key: task(key, 12))
        first, again, other = draw(KEY), draw(KEY), draw(jax.random.key(1))
        assert (first[0] == again[0]).all() and (first[1] == again[1]).all()
        assert (first[0] != other[0]).any()


def test_float64():
    with runtime.float64():
        assert [leaf.dtype for leaf in jax.eval_shape(lambda: tasks.adding(KEY, 5))] == [jnp.float64] * 2


@pytest.mark.parametrize("wrong, error, message", [
    (lambda: tasks.adding(KEY, 1), ValueError, "adding: T = 1. Expected at least 2"),
    (lambda: tasks.adding(KEY, 10.0), TypeError, "adding: T is 10.0, of type float. Expected an integer"),
    (lambda: tasks.adding(jax.random.split(KEY, 3), 10), ValueError, r"adding: key .*shape \(3,\).*jax.vmap"),
    (lambda: tasks.recall(KEY, 0), ValueError, "recall: T = 0. Expected at least 1"),
    (lambda: tasks.recall(KEY, 5, 1), ValueError, "recall: symbols = 1. Expected at least 2"),
    (lambda: tasks.recall(7, 5), TypeError, "recall: key is 7, of type int"),
])
def test_wrong_use(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()
