"""The training loop: independent runs, fresh data, the same numbers every time."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unrolled import train

TRUE = jnp.array([1.0, -2.0, 3.0])
KEYS = jax.random.split(jax.random.key(0), 3)
STEPS = 2 * train.CHUNK + 50  # not a whole number of chunks
ADAM, DESCENT = train.adam(0.1, STEPS), optax.sgd(0.01)


def init(key):
    return {"w": jax.random.normal(key, (3,))}


def sample(key):
    x = jax.random.normal(key, (8, 3))
    return x, x @ TRUE


def loss(params, batch):
    x, y = batch
    return ((x @ params["w"] - y) ** 2).mean()


STARTS = train.stack(*(init(jax.random.fold_in(key, 1)) for key in KEYS))


def part(runs):
    """The starts of some of the runs."""
    return jax.tree.map(lambda leaf: leaf[runs], STARTS)


@pytest.fixture(scope="module")
def trained():
    return train.fit(STARTS, loss, sample, KEYS, STEPS, ADAM)


def test_fit_learns(trained):
    params, losses = jax.tree.map(np.asarray, trained)
    assert params["w"].shape == (3, 3) and losses.shape == (3, STEPS)
    assert np.allclose(params["w"], TRUE, atol=0.02)
    assert (losses > 0).all() and (losses[:, -1] < 1e-3 * losses[:, 0]).all()


def test_runs_differ_and_data_are_fresh(trained):
    _, losses = trained
    assert len(np.unique(np.asarray(losses[:, 0]))) == 3
    frozen = train.fit(part(slice(1)), loss, sample, KEYS[:1], 5, optax.sgd(0.0))[1]
    assert len(np.unique(np.asarray(frozen))) == 5


def test_first_loss_is_that_of_the_start():
    expected = jax.jit(lambda: loss(part(0), sample(jax.random.fold_in(KEYS[0], 0))))()
    assert train.fit(STARTS, loss, sample, KEYS, 3, DESCENT)[1][0, 0] == pytest.approx(float(expected), rel=1e-5)


def test_the_same_key_gives_the_same_data():
    same = jnp.stack([KEYS[0]] * 3)
    losses = train.fit(train.stack(part(0), part(0), part(1)), loss, sample, same, 3, DESCENT)[1]
    assert np.allclose(losses[0], losses[1], rtol=1e-5) and not np.allclose(losses[0], losses[2], rtol=1e-2)


def test_fit_equals_a_plain_loop():
    differentiate = jax.jit(lambda params, step: jax.value_and_grad(loss)(params, sample(jax.random.fold_in(KEYS[1], step))))
    params, losses = part(1), []
    for step in range(3):
        cost, gradient = differentiate(params, step)
        params = jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient)
        losses.append(float(cost))
    ours, our_losses = train.fit(STARTS, loss, sample, KEYS, 3, DESCENT)
    assert np.allclose(our_losses[1], losses, rtol=1e-4) and np.allclose(ours["w"][1], params["w"], atol=1e-5)


def test_a_run_is_the_same_alone_or_among_others(trained):
    params, losses = train.fit(part(slice(1, 2)), loss, sample, KEYS[1:2], STEPS, ADAM)
    assert np.allclose(losses[0], trained[1][1], rtol=1e-3, atol=1e-6)
    assert np.allclose(params["w"][0], trained[0]["w"][1], atol=1e-4)


def test_same_keys_same_numbers(trained):
    again = train.fit(STARTS, loss, sample, KEYS, STEPS, ADAM)
    assert (again[1] == trained[1]).all() and (again[0]["w"] == trained[0]["w"]).all()


def test_same_functions_compile_once():
    train.fit(STARTS, loss, sample, KEYS, 3, DESCENT)
    before = train.advance._cache_size()
    train.fit({"w": jnp.zeros((3, 3))}, loss, sample, KEYS, 3, DESCENT)
    assert train.advance._cache_size() == before


@pytest.mark.parametrize("value, shown", [("1", False), ("0", True)])
def test_progress_bar_is_absent_in_static_mode(monkeypatch, capsys, value, shown):
    monkeypatch.setenv("UNROLLED_STATIC", value)
    train.fit(STARTS, loss, sample, KEYS, 3, DESCENT)
    printed = capsys.readouterr()
    assert printed.out == "" and bool(printed.err) is shown


@pytest.mark.parametrize("clip, expected", [(1.0, (0.6, 0.8)), (100.0, (30.0, 40.0))])
def test_adam_clips_the_norm_of_all_parameters_together(clip, expected):
    gradient = {"a": np.array([30.0], np.float32), "b": np.array([40.0], np.float32)}  # norm 50
    optimizer = train.adam(0.1, 10, clip)
    state = jax.jit(lambda: optimizer.update(gradient, optimizer.init(gradient))[1])()
    moment = optax.tree_utils.tree_get(state, "mu")
    assert (moment["a"][0] / 0.1, moment["b"][0] / 0.1) == pytest.approx(expected)
    square = optax.tree_utils.tree_get(state, "nu")
    assert square["a"][0] / 0.01 == pytest.approx(expected[0] ** 2, rel=1e-4)  # beta_2 = 0.99


def test_adam_warms_up_and_falls_to_three_per_cent():
    optimizer = train.adam(0.1, 100)

    def update(state, gradient):
        change, state = optimizer.update(gradient, state)
        return state, -change

    sizes = np.asarray(jax.jit(lambda: jax.lax.scan(update, optimizer.init(jnp.zeros(())), jnp.ones(101))[1])())
    assert sizes[0] == 0 and np.argmax(sizes) == 10
    assert max(sizes) == pytest.approx(0.1, rel=1e-3) and sizes[100] == pytest.approx(0.003, rel=1e-3)


def test_adam_takes_a_single_step():
    train.fit(part(slice(1)), loss, sample, KEYS[:1], 1, train.adam(0.1, 1))


@pytest.mark.parametrize("wrong, error, message", [
    (lambda: train.fit(STARTS, 3, sample, KEYS, 1, optax.sgd(1.0)), TypeError, "fit: loss is 3, of type int. Expected a function"),
    (lambda: train.fit(part(0), loss, sample, KEYS[:2], 1, optax.sgd(1.0)), ValueError,
     r"fit: params has an array of shape \(3,\). Expected a leading axis of R = 2 runs \(taken from keys\): write .*train.stack"),
    (lambda: train.fit(STARTS, loss, sample, KEYS[0], 1, optax.sgd(1.0)), ValueError, r"fit: keys .*\(R,\).*jax.random.split"),
    (lambda: train.fit(STARTS, loss, sample, [1, 2], 1, optax.sgd(1.0)), TypeError, "fit: keys is of type list.*jax.random.split"),
    (lambda: train.fit(STARTS, loss, sample, KEYS, 0, optax.sgd(1.0)), ValueError, "fit: steps = 0. Expected at least 1"),
    (lambda: train.fit(STARTS, loss, sample, KEYS, 1, "adam"), TypeError, "fit: optimizer is 'adam'.*make one with optax"),
    (lambda: train.fit(STARTS, lambda params, batch: batch[1], sample, KEYS, 1, optax.sgd(1.0)), ValueError,
     r"fit: loss has shape \(8,\). Expected one number"),
    (lambda: train.fit(STARTS, lambda params, batch: (0.0, batch), sample, KEYS, 1, optax.sgd(1.0)), TypeError,
     "fit: loss returns .*Expected one floating-point number"),
    (lambda: train.fit(STARTS, lambda params, batch: None, sample, KEYS, 1, optax.sgd(1.0)), TypeError, "fit: loss returns None"),
    (lambda: train.fit({}, loss, sample, KEYS, 1, optax.sgd(1.0)), ValueError, "fit: params is {}.*nothing to train"),
    (lambda: train.fit({"w": jnp.ones((3, 3), int)}, loss, sample, KEYS, 1, optax.sgd(1.0)), TypeError,
     "fit: params has an array of dtype int32"),
    (lambda: train.stack(), ValueError, "stack: the runs have the forms none"),
    (lambda: train.stack(part(0), {"w": jnp.ones(2)}), ValueError, r"stack: .*\(2,\).*\(3,\).*stack\(run_1, run_2\)"),
    (lambda: train.adam(0.0, 10), ValueError, "adam: rate = 0.0. Expected a finite number above 0"),
    (lambda: train.adam(0.1, -1), ValueError, "adam: steps = -1. Expected at least 1"),
    (lambda: train.adam(0.1, 10, 0), ValueError, "adam: clip = 0. Expected a finite number above 0"),
])
def test_wrong_use(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()
