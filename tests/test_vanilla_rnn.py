"""The identities of chapter 1: loop = scan, hand-written gradients = `jax.grad`, and the initialisations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from unrolled import runtime, vanilla_rnn
from unrolled.vanilla_rnn import Params

random = np.random.default_rng(0)
SIZES = [(1, 1, 1, 1), (1, 4, 3, 2), (6, 1, 2, 1), *random.integers(2, 12, size=(3, 4)).tolist()]  # T, H, D, B
needs_float64 = pytest.mark.skipif(not runtime.has_float64(), reason="a TPU only emulates float64")


def draw(T, H, D, B):
    """Draws weights with a non-zero bias, and a batch of first states, inputs and loss weights."""
    random = np.random.default_rng([T, H, D, B])
    shapes = [(H, H), (H, D), (H,), (B, H), (B, T, D), (B, T, H)]
    W, U, b, h0, x, c = (jnp.asarray(random.normal(size=shape) / np.sqrt(H)) for shape in shapes)
    return Params(W, U, b), h0, x, c


def relative(ours, exact):
    """The largest error of any array in a tree, relative to that array's largest entry."""
    pairs = zip(map(np.asarray, jax.tree.leaves(ours)), map(np.asarray, jax.tree.leaves(exact)), strict=True)
    return max(np.abs(a - b).max() / np.abs(b).max() for a, b in pairs)


def loop_and_scan(params, h0, x, c):
    """The states of a batch of sequences, by the Python loop and by `jax.lax.scan`."""
    unrolls = (vanilla_rnn.unroll_loop, vanilla_rnn.unroll)
    return jax.jit(lambda *batch: [jax.vmap(unroll, (None, 0, 0))(*batch) for unroll in unrolls])(params, h0, x)


@needs_float64
@pytest.mark.parametrize("sizes", SIZES)
def test_loop_equals_scan_in_float64(sizes):
    with runtime.float64():
        assert relative(*loop_and_scan(*draw(*sizes))) <= 1e-13


@pytest.mark.parametrize("sizes", SIZES[:2] + SIZES[-1:])
def test_loop_equals_scan_in_float32(sizes):
    assert relative(*loop_and_scan(*draw(*sizes))) <= 1e-5


def gradients(params, h0, x, c):
    """Both gradients of the loss Σ_t Σ c_t sin(h_t), for every sequence of a batch: ours, and jax.grad's."""
    def loss_of_states(h, c):
        return (c * jnp.sin(h)).sum()

    def ours(h0, x, c):
        g = jax.grad(loss_of_states)(vanilla_rnn.unroll(params, h0, x), c)
        return vanilla_rnn.bptt(params, h0, x, g)

    def exact(h0, x, c):
        return jax.grad(lambda p, h0: loss_of_states(vanilla_rnn.unroll(p, h0, x), c), argnums=(0, 1))(params, h0)

    return jax.jit(lambda *batch: (jax.vmap(ours)(*batch), jax.vmap(exact)(*batch)))(h0, x, c)


@needs_float64
@pytest.mark.parametrize("sizes", SIZES)
def test_bptt_equals_grad_in_float64(sizes):
    with runtime.float64():
        assert relative(*gradients(*draw(*sizes))) <= 1e-10


@pytest.mark.parametrize("sizes", SIZES[:2] + SIZES[-1:])
def test_bptt_equals_grad_in_float32(sizes):
    assert relative(*gradients(*draw(*sizes))) <= 1e-4


@needs_float64
def test_bptt_equals_grad_over_many_steps():
    with runtime.float64():
        assert relative(*gradients(*draw(T=200, H=16, D=2, B=1))) <= 1e-10


def test_bptt_without_batch_and_on_numpy_arrays():
    params, h0, x, c = draw(3, 2, 4, 1)
    by_hand = vanilla_rnn.bptt(*jax.tree.map(np.asarray, (params, h0[0], x[0], c[0])))
    exact = jax.jit(jax.grad(lambda p, h: (c[0] * vanilla_rnn.unroll(p, h, x[0])).sum(), (0, 1)))(params, h0[0])
    assert relative(by_hand, exact) <= 1e-4


@needs_float64
@pytest.mark.parametrize("sizes", SIZES)
def test_jacobians_equal_autodiff(sizes):
    def both(params, h0, x):
        """One Jacobian, the product over all steps and that over the later half: ours, and by autodiff."""
        def last(h, x):
            return vanilla_rnn.unroll(params, h, x)[-1]

        h = vanilla_rnn.unroll(params, h0, x)
        products, k = vanilla_rnn.jacobian_products(params, h), len(x) // 2
        h_k = jnp.concatenate([h0[None], h])[k]
        ours = vanilla_rnn.jacobian(params, h[0]), products[0], products[k]
        return products, ours, (jax.jacobian(last)(h0, x[:1]), jax.jacobian(last)(h0, x), jax.jacobian(last)(h_k, x[k:]))

    with runtime.float64():
        params, h0, x, _ = draw(*sizes)
        products, ours, exact = jax.jit(both)(params, h0[0], x[0])
        T, H = sizes[:2]
        assert relative(ours, exact) <= 1e-10
        assert products.shape == (T + 1, H, H) and (np.asarray(products[T]) == np.eye(H)).all()


def test_step_equals_flax():
    params, h0, x, _ = draw(1, 5, 3, 1)
    cell = nnx.SimpleCell(3, 5, rngs=nnx.Rngs(0))
    cell.dense_h.kernel[...], cell.dense_i.kernel[...] = params.W.T, params.U.T
    cell.dense_i.bias[...] = params.b
    assert np.allclose(cell(h0[0], x[0, 0])[1], vanilla_rnn.step(params, h0[0], x[0, 0]), atol=1e-6)


@pytest.mark.parametrize("H", [1, 7])
def test_initialisations(H):
    key = jax.random.key(3)
    kinds = ("uniform", "orthogonal", "identity")
    drawn = jax.jit(lambda key: [vanilla_rnn.init(key, 4, H, kind) for kind in kinds])(key)
    uniform, orthogonal, identity = jax.tree.map(np.asarray, drawn)
    assert [leaf.shape for leaf in uniform] == [(H, H), (H, 4), (H,)]
    for leaf in [*uniform, orthogonal.U, identity.b]:
        assert (np.abs(leaf) <= H**-0.5 * (1 + 1e-6)).all() and (leaf != 0).any()
    assert np.allclose(orthogonal.W @ orthogonal.W.T, np.eye(H), atol=1e-5)
    assert (identity.W == np.eye(H)).all()
    for other in (orthogonal, identity):
        assert (other.U == uniform.U).all() and (other.b == uniform.b).all()


def test_uniform_fills_its_range():
    W = np.asarray(jax.jit(lambda: vanilla_rnn.init(jax.random.key(0), 1, 64).W)())
    assert abs(float(W.mean())) < 0.004 and abs(float(W.std()) - 64**-0.5 / 3**0.5) < 0.002
    assert W.max() > 0.99 / 8 and W.min() < -0.99 / 8


def test_weights_are_drawn_independently():
    model = vanilla_rnn.init_model(jax.random.key(0), 1, 400, 1)
    drawn = np.stack([model.rnn.W[0], model.rnn.U[:, 0], model.rnn.b, model.V[0]]) * 400**0.5
    assert np.abs(np.corrcoef(drawn) - np.eye(4)).max() < 0.25
    assert (np.abs(drawn) <= 1 + 1e-6).all() and (drawn.max(axis=1) > 0.95).all() and (drawn.min(axis=1) < -0.95).all()


@pytest.mark.parametrize("H, rho", [(1, 0.5), (5, 1), (64, 1.5)])
def test_gaussian_has_the_spectral_radius(H, rho):
    matrices = [vanilla_rnn.gaussian(jax.random.key(seed), H, rho) for seed in range(4)]
    eigenvalues = [np.linalg.eigvals(W) for W in matrices]
    for W, values in zip(matrices, eigenvalues):
        assert W.shape == (H, H) and np.abs(values).max() == pytest.approx(rho, rel=1e-5)
    leading = [values[np.abs(values).argmax()] for values in eigenvalues]
    assert H == 1 or any(abs(value.imag) > 0.1 for value in leading)  # the radius is not that of the real parts


def test_model_answers_from_the_last_state():
    model = vanilla_rnn.init_model(jax.random.key(0), 2, 5, 3, "orthogonal")
    x = jax.random.normal(jax.random.key(1), (4, 2))
    assert [leaf.shape for leaf in jax.tree.leaves(model)] == [(5, 5), (5, 2), (5,), (3, 5), (3,)]
    assert jnp.allclose(model.rnn.W @ model.rnn.W.T, jnp.eye(5), atol=1e-5)
    model = model._replace(c=jnp.array([1.0, 2.0, 3.0]))
    last = vanilla_rnn.unroll_loop(model.rnn, jnp.zeros(5), x)[-1]
    assert jnp.allclose(vanilla_rnn.predict(model, x), model.V @ last + model.c, atol=1e-6)


KEY = jax.random.key(0)
PARAMS = Params(jnp.ones((3, 3)), jnp.ones((3, 2)), jnp.ones(3))
H0, X = jnp.zeros(3), jnp.ones((4, 2))


@pytest.mark.parametrize("wrong, error, message", [
    (lambda: vanilla_rnn.unroll(PARAMS, H0, [[1.0, 2.0]]), TypeError, "unroll: x is of type list.*jnp.asarray"),
    (lambda: vanilla_rnn.unroll(PARAMS, H0, X[:0]), ValueError, r"unroll: x .*shape \(0, 2\).*at least one time step"),
    (lambda: vanilla_rnn.unroll_loop(PARAMS, H0, X[:, :1]), ValueError, "unroll_loop: x .*D is 1 in x and 2 in params.U"),
    (lambda: vanilla_rnn.unroll(PARAMS, jnp.zeros(4), X), ValueError, "unroll: h0 .*H is 4 in h0 and 3 in params.W"),
    (lambda: vanilla_rnn.step(PARAMS, H0, X), ValueError, r"step: x .*shape \(4, 2\).*Expected .*shape \(D,\)"),
    (lambda: vanilla_rnn.bptt(PARAMS, H0, X, jnp.ones((5, 3))), ValueError, "bptt: g .*T is 5 in g and 4 in x"),
    (lambda: vanilla_rnn.unroll(tuple(PARAMS), H0, X), TypeError, r"params is of type tuple.*Params\(W=..., U=..., b=...\)"),
    (lambda: vanilla_rnn.init(KEY, 2, 3, "gaussian"), ValueError, "recurrent = 'gaussian'.*'uniform', 'orthogonal', 'identity'"),
    (lambda: vanilla_rnn.init(KEY, 2, 0), ValueError, "init: H = 0. Expected at least 1"),
    (lambda: vanilla_rnn.init(0, 2, 3), TypeError, "init: key is 0, of type int.*jax.random.key"),
    (lambda: vanilla_rnn.gaussian(KEY, 3, 0), ValueError, "gaussian: rho = 0. Expected a finite number above 0"),
    (lambda: vanilla_rnn.gaussian(KEY, 3, -1.0), ValueError, "gaussian: rho = -1.0"),
    (lambda: jax.jit(lambda key: vanilla_rnn.gaussian(key, 3, 1.0))(KEY), TypeError, "gaussian: called inside jax.jit"),
    (lambda: jax.jit(lambda rho: vanilla_rnn.gaussian(KEY, 3, rho))(1.0), TypeError, "gaussian: called inside jax.jit"),
    (lambda: vanilla_rnn.predict(PARAMS, X), TypeError, "predict: model is of type Params. Expected Model"),
    (lambda: vanilla_rnn.jacobian_products(PARAMS, jnp.ones((4, 2))), ValueError, "H is 2 in h and 3 in params.W"),
])
def test_wrong_use(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()
