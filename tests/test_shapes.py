"""What is wrong with an argument is said before anything is computed: which, what it was, what was expected."""

import inspect
from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array, Bool, Float, Int, Key

from unrolled import runtime
from unrolled.shapes import AtLeast, Positive, Size, checked


class Pair(NamedTuple):
    M: Float[Array, "H H"]
    v: Float[Array, "H"]


@checked
def weigh(pair: Pair, x: Float[Array, "T H"], scale: Positive = 1.0):
    """Adds up."""
    return scale * (x @ pair.M + pair.v).sum()


@checked
def choose(key: Key[Array, ""], i: Int[Array, "T"], n: Size, m: Annotated[int, AtLeast(2)] = 2,
           how: Literal["this", "that"] = "this"):
    return how, n, m


@checked
def call(keys: Key[Array, "R"], function: Callable, optimizer: optax.GradientTransformation):
    return optimizer


class Stacked(NamedTuple):
    M: Float[Array, "4 H H"]
    v: Float[Array, "2 3"]


@checked
def gate(stacked: Stacked, valid: Bool[Array, "T"] | None = None, x: Float[Array, "T H"] | None = None, pair: Pair | None = None,
         scale: Positive | None = None, n: Size | None = None):
    """Returns what is optional."""
    return valid, x, pair, scale, n


STACKED = Stacked(jnp.ones((4, 3, 3)), jnp.ones((2, 3)))
PAIR = Pair(jnp.ones((3, 3)), jnp.ones(3))
X = jnp.ones((4, 3))
KEY = jax.random.key(0)
I = jnp.arange(2)

WRONG = [
    (lambda: weigh(PAIR, [[1.0, 2.0, 3.0]]), TypeError,
     ["weigh: x is of type list", "shape (T, H) with H = 3 (taken from pair.M)", "jnp.asarray(x, float)"]),
    (lambda: weigh(PAIR, 1.0), TypeError, ["x is 1.0, of type float, not an array", "jnp.asarray(x, float)"]),
    (lambda: weigh(PAIR, X[0]), ValueError, ["x is an array of dtype float32 and shape (3,)", "(T, H)", "add the missing axis"]),
    (lambda: weigh(PAIR, X[None]), ValueError, ["x", "shape (1, 4, 3)", "(T, H)", "jax.vmap"]),
    (lambda: weigh(PAIR, X[:, :2]), ValueError, ["x", "shape (4, 2)", "H is 2 in x and 3 in pair.M"]),
    (lambda: weigh(PAIR, X[:0]), ValueError, ["x", "shape (0, 3)", "at least one time step", "T = 0"]),
    (lambda: weigh(PAIR, X[:, :0]), ValueError, ["x", "shape (4, 0)", "at least one entry", "H = 0"]),
    (lambda: weigh(PAIR, X.astype(int)), TypeError, ["x", "dtype int32", "floating-point numbers", "x.astype(float)"]),
    (lambda: weigh(PAIR, X.astype(jnp.float16)), TypeError,
     ["x", "dtype float16", "pair.M has dtype float32", "x.astype(pair.M.dtype)"]),
    (lambda: weigh(PAIR._replace(M=X), X), ValueError, ["pair.M", "shape (4, 3)", "(H, H)", "pair.M must be square"]),
    (lambda: weigh(PAIR._replace(v=[1, 2, 3]), X), TypeError, ["pair.v is of type list", "jnp.asarray(pair.v, float)"]),
    (lambda: weigh((1, 2), X), TypeError, ["pair is of type tuple", "Expected Pair", "M=..., v=..."]),
    (lambda: weigh(X, X), TypeError, ["pair is an array of dtype float32 and shape (4, 3)", "Expected Pair"]),
    (lambda: weigh(PAIR, X, 0.0), ValueError, ["scale = 0.0", "above 0"]),
    (lambda: weigh(PAIR, X, float("nan")), ValueError, ["scale = nan", "finite number above 0"]),
    (lambda: weigh(PAIR, X, "two"), TypeError, ["scale is 'two', of type str", "number above 0"]),
    (lambda: weigh(PAIR, X, X[0]), TypeError, ["scale is an array", "number above 0"]),
    (lambda: weigh(PAIR, X, jnp.array(1j)), TypeError, ["scale is an array of dtype complex64", "number above 0"]),
    (lambda: weigh(PAIR, X, True), TypeError, ["scale is True, of type bool", "number above 0"]),
    (lambda: weigh(PAIR, None), TypeError, ["x is of type NoneType", "give x an array of numbers"]),
    (lambda: weigh(PAIR, np.array([["a"]])), TypeError, ["x is an array of dtype <U1", "give x an array of numbers"]),
    (lambda: weigh(PAIR, np.ma.ones((4, 3))), TypeError, ["x is an array of masked dtype float64", "not an array of JAX"]),
    (lambda: weigh(PAIR, X + 1j), TypeError, ["x is an array of dtype complex64", "give x an array of real numbers"]),
    (lambda: weigh(PAIR, KEY), TypeError, ["x is an array of dtype key<fry>", "give x an array of real numbers"]),
    (lambda: weigh(PAIR), TypeError, ["missing a required argument: 'x'", "Expected the arguments pair, x, scale"]),
    (lambda: weigh(PAIR, y=X), TypeError, ["Expected the arguments pair, x, scale", "y is not one of them"]),
    (lambda: choose(0, I, 1), TypeError, ["key is 0, of type int", "random keys of shape ()", "jax.random.key(0)"]),
    (lambda: choose(jnp.array([0, 1], jnp.uint32), I, 1), TypeError, ["key", "dtype uint32", "jax.random.key(0)"]),
    (lambda: choose(jax.random.split(KEY, 2), I, 1), ValueError, ["key", "shape (2,)", "shape ()", "jax.vmap"]),
    (lambda: choose(KEY, I.astype(float), 1), TypeError, ["i", "dtype float32", "integers of shape (T,)", "i.astype(int)"]),
    (lambda: choose(KEY, I, 0), ValueError, ["n = 0", "at least 1"]),
    (lambda: choose(KEY, I, 2.0), TypeError, ["n is 2.0, of type float", "integer of at least 1"]),
    (lambda: choose(KEY, I, True), TypeError, ["n is True, of type bool", "integer"]),
    (lambda: choose(KEY, I, 1, 1), ValueError, ["m = 1", "at least 2"]),
    (lambda: choose(KEY, I, 1, how="other"), ValueError, ["how = 'other'", "'this', 'that'"]),
    (lambda: gate(STACKED._replace(M=jnp.ones((3, 3, 3)))), ValueError,
     ["stacked.M is an array of dtype float32 and shape (3, 3, 3)", "shape (4, H, H)", "an axis has length 3 in place of 4"]),
    (lambda: gate(STACKED._replace(M=jnp.ones((4, 3, 2)))), ValueError, ["stacked.M", "H stands for 3 and for 2", "must be square"]),
    (lambda: gate(STACKED._replace(v=jnp.ones((2, 0)))), ValueError, ["stacked.v", "(2, 3)", "an axis has length 0 in place of 3"]),
    (lambda: gate(STACKED._replace(v=jnp.ones(3))), ValueError, ["stacked.v", "(2, 3)", "add the missing axis"]),
    (lambda: gate(None), TypeError, ["stacked is of type NoneType", "Expected Stacked"]),
    (lambda: gate(STACKED, jnp.ones(4)), TypeError, ["valid", "dtype float32", "truth values of shape (T,)", "valid.astype(bool)"]),
    (lambda: gate(STACKED, [True]), TypeError, ["valid is of type list", "jnp.asarray(valid, bool)"]),
    (lambda: gate(STACKED, jnp.ones(5, bool), X), ValueError, ["x", "T is 4 in x and 5 in valid"]),
    (lambda: gate(STACKED, None, X[:, :2]), ValueError, ["x", "H is 2 in x and 3 in stacked.M"]),
    (lambda: gate(STACKED, pair=(1, 2)), TypeError, ["pair is of type tuple", "Expected Pair"]),
    (lambda: gate(STACKED, scale=0.0), ValueError, ["scale = 0.0", "above 0"]),
    (lambda: gate(STACKED, n=0), ValueError, ["n = 0", "at least 1"]),
    (lambda: call(KEY, abs, optax.sgd(1.0)), ValueError, ["keys", "shape ()", "(R,)", "jax.random.split"]),
    (lambda: call(KEY[None], 3, optax.sgd(1.0)), TypeError, ["function is 3, of type int", "Expected a function"]),
    (lambda: call(KEY[None], abs, "adam"), TypeError, ["optimizer is 'adam', of type str", "optax"]),
]


@pytest.mark.parametrize("wrong, error, parts", WRONG)
def test_wrong_argument(wrong, error, parts):
    with pytest.raises(error) as caught:
        wrong()
    message = str(caught.value)
    assert message.startswith(("weigh: ", "choose: ", "call: ", "gate: "))
    for part in parts:
        assert part in message, f"{part!r} is not in {message!r}"


def test_signature_and_docstring_stay():
    assert list(inspect.signature(weigh).parameters) == ["pair", "x", "scale"]
    assert (weigh.__name__, weigh.__doc__) == ("weigh", "Adds up.")


def test_numpy_arrays_are_taken():
    expected = weigh(PAIR, X)
    assert weigh(Pair(np.ones((3, 3)), np.ones(3)), np.ones((4, 3))) == expected
    assert weigh(pair=PAIR, x=np.ones((4, 3), np.float32), scale=np.float32(1)) == expected
    assert weigh(PAIR, X, np.array(1.0)) == expected


def test_what_is_right_passes_unchanged():
    optimizer = optax.sgd(1.0)
    assert call(KEY[None], abs, optimizer) is optimizer
    assert choose(KEY, I, np.int64(3), 2, "that") == ("that", 3, 2)


def test_what_is_optional_may_be_none_or_absent():
    assert gate(STACKED) == gate(STACKED, None, None, None) == (None,) * 5
    valid = jnp.ones(4, bool)
    given = (valid, X, PAIR, 2.0, 3)
    assert all(one is other for one, other in zip(gate(STACKED, *given), given, strict=True))
    assert isinstance(gate(STACKED, np.ones(4, bool))[0], jax.Array)


def test_works_under_transformations():
    def total(x):
        return weigh(PAIR, x)

    batch = jnp.stack([X, 2 * X])
    one_by_one = jnp.stack([total(x) for x in batch])
    assert jnp.allclose(jax.jit(jax.vmap(total))(batch), one_by_one)
    assert jnp.allclose(jax.lax.scan(lambda carry, x: (carry, total(x)), 0, batch)[1], one_by_one)
    assert jnp.allclose(jax.grad(total)(X), PAIR.M.sum(axis=1))
    assert jnp.allclose(jax.vmap(weigh, (None, None, 0))(PAIR, X, jnp.array([1.0, 2.0])), one_by_one[0] * jnp.array([1, 2]))


def test_a_wrong_shape_is_reported_under_transformations():
    with pytest.raises(ValueError, match="H is 2 in x and 3 in pair.M"):
        jax.jit(jax.vmap(lambda x: weigh(PAIR, x)))(jnp.ones((5, 4, 2)))


def test_float64_is_one_dtype_too():
    with runtime.float64():
        pair = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), PAIR)
        assert weigh(pair, X.astype(jnp.float64)).dtype == jnp.float64
        with pytest.raises(TypeError, match="x is an array of dtype float32"):
            weigh(pair, X)
