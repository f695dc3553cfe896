"""The identities of chapter 2: our cells = PyTorch's = Flax's = loops in NumPy, the conventions of each library, and what the gates keep."""

import functools
import inspect
import itertools
import os
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from unrolled import gates, runtime, vanilla_rnn
from unrolled.gates import CoupledParams, GRUParams, LSTMParams, LSTMState, MGUParams, PeepholeParams

needs_float64 = pytest.mark.skipif(not runtime.has_float64(), reason="a TPU only emulates float64")
slow = pytest.mark.slow
STEPS = {"LSTM": gates.lstm_step, "GRU": gates.gru_step}
KINDS = list(STEPS)
GRU_FIRST = ["GRU", pytest.param("LSTM", marks=slow)]


@pytest.fixture(scope="module")
def torch():
    """PyTorch, on one thread. Where `make` has to bring it, test_packaging fails if it is absent."""
    torch = pytest.importorskip("torch", reason="only the site's set has PyTorch")
    torch.set_num_threads(1)
    return torch


@pytest.fixture(scope="module")
def keras(tmp_path_factory):
    """Keras on JAX. It writes its settings into a folder, which is not the user's here."""
    os.environ["KERAS_BACKEND"] = "jax"
    os.environ["KERAS_HOME"] = str(tmp_path_factory.mktemp("keras"))
    return pytest.importorskip("keras", reason="only the site's set has Keras")


def error(ours, exact):
    """The largest error of any array in a tree, relative to that array's largest entry; nought has to be nought."""
    pairs = zip(map(np.asarray, jax.tree.leaves(ours)), map(np.asarray, jax.tree.leaves(exact)), strict=True)
    return max(np.abs(a - b).max() / (np.abs(b).max() or np.finfo(float).tiny) for a, b in pairs)


def draw(kind, H, D, seed=0):
    """Draws weights of one cell, each entry from U(-1/√H, 1/√H), no bias zero; float64 within `runtime.float64`."""
    random = np.random.default_rng([seed, H, D])
    k = {"MGU": 2, "GRU": 3, "coupled": 3}.get(kind, 4)
    extra = {"GRU": [(H,)], "peephole": [(3, H)]}.get(kind, [])
    arrays = [jnp.asarray(random.uniform(-1, 1, shape) / np.sqrt(H)) for shape in [(k, H, H), (k, H, D), (k, H), *extra]]
    return {"LSTM": LSTMParams, "GRU": GRUParams, "coupled": CoupledParams, "peephole": PeepholeParams, "MGU": MGUParams}[kind](*arrays)


def draw_arrays(*shapes, seed=1):
    """Draws normal arrays; float64 within `runtime.float64`."""
    random = np.random.default_rng(seed)
    return [jnp.asarray(random.normal(size=shape)) for shape in shapes]


# ---------------------------------------------------------------- PyTorch


SIZES = [  # T, B, D, H, layers, directions, whether the starts are given
    (9, 3, 2, 5, 1, 2, True),
    (1, 1, 1, 1, 1, 1, False), (1, 1, 3, 4, 3, 2, True), (12, 1, 1, 1, 1, 2, True), (7, 3, 2, 5, 2, 2, False), (20, 2, 4, 6, 2, 1, True),
    *((*sizes, bool(given)) for given, sizes in enumerate(np.random.default_rng(0).integers(1, [12, 5, 8, 12, 4, 3], size=(2, 6)).tolist())),
]  # fmt: skip
by_sizes = pytest.mark.parametrize("T, B, D, H, layers, directions, given", [SIZES[0], *(pytest.param(*sizes, marks=slow) for sizes in SIZES[1:])])


def array(tensor):
    return tensor.detach().numpy()


def as_layers(kind, states, directions):
    """PyTorch's states, each (layers · directions, B, H), in the form that `run` takes."""
    cells = [LSTMState(*pair) if kind == "LSTM" else pair[0] for pair in zip(*map(array, states))]
    return [tuple(cells[first:first + directions]) for first in range(0, len(cells), directions)]


def summed_twice(gradient):
    """The gradient of PyTorch's weights from that of ours: both of two biases that are added have that of the sum."""
    arrays = gates.to_torch(gradient)
    for name in [name for name in arrays if name.startswith("bias_hh")]:
        shared = arrays[name.replace("hh", "ih")]
        alone = len(shared) // 3 if isinstance(gradient[0][0], GRUParams) else 0
        added = len(shared) - alone
        arrays[name] = np.concatenate([shared[:added], arrays[name][added:]])
    return arrays


def with_torch(torch, kind, T, B, D, H, layers, directions, given, dtype):
    """Outputs, last states and gradients of the loss Σ c ⊙ output + Σ d ⊙ last states: ours, and PyTorch's."""
    torch.manual_seed(0)
    module = getattr(torch.nn, kind)(D, H, layers, bidirectional=directions == 2, batch_first=True, dtype=dtype)
    draw = lambda *shape: torch.randn(*shape, dtype=dtype, requires_grad=True)
    x, states = draw(B, T, D), [draw(layers * directions, B, H) for _ in range(2 if kind == "LSTM" else 1)]
    output, last = module(x, (tuple(states) if kind == "LSTM" else states[0]) if given else None)
    last = list(last) if kind == "LSTM" else [last]
    c, d = draw(*output.shape), [draw(*state.shape) for state in last]
    sum((one * other).sum() for one, other in zip([c, *d], [output, *last])).backward()
    form = lambda states: as_layers(kind, states, directions)
    exact = {"output": array(output), "last": form(last), "x": array(x.grad)}
    exact |= {"weights": {name: array(parameter.grad) for name, parameter in module.named_parameters()}}
    exact |= {"start": form([state.grad for state in states])} if given else {}

    def loss(layers, x, start):
        output, last = jax.vmap(lambda x, start: gates.run(STEPS[kind], layers, x, start))(x, start)
        terms = jax.tree.map(lambda one, other: (one * other).sum(), [array(c), form(d)], [output, last])
        return sum(jax.tree.leaves(terms)), (output, last)

    compiled = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True))
    (_, (output, last)), gradients = compiled(gates.from_torch(module.state_dict()), array(x), form(states) if given else None)
    ours = {"output": output, "last": last, "weights": summed_twice(gradients[0]), "x": gradients[1]}
    return ours | ({"start": gradients[2]} if given else {}), exact


@pytest.mark.parametrize("kind", KINDS)
@by_sizes
def test_equals_torch_in_float32(torch, kind, T, B, D, H, layers, directions, given):
    """States are below 1 and sums are not: the error is relative to the largest entry, or to 1 where that is less."""
    ours, exact = with_torch(torch, kind, T, B, D, H, layers, directions, given, torch.float32)
    assert jax.tree.structure(ours) == jax.tree.structure(exact)
    close = lambda one, other: np.abs(one - other).max() <= 1e-6 * max(1, np.abs(other).max())
    assert all(jax.tree.leaves(jax.tree.map(close, ours, exact)))


@slow
@needs_float64
@pytest.mark.parametrize("kind", KINDS)
@by_sizes
def test_equals_torch_in_float64(torch, kind, T, B, D, H, layers, directions, given):
    with runtime.float64():
        assert error(*with_torch(torch, kind, T, B, D, H, layers, directions, given, torch.float64)) <= 1e-12


@pytest.mark.parametrize("kind", GRU_FIRST)
def test_padding_equals_packed_sequences_of_torch(torch, kind):
    T, H, lengths = 6, 4, [6, 1, 4]
    torch.manual_seed(1)
    module = getattr(torch.nn, kind)(3, H, bidirectional=True, batch_first=True)
    x = torch.randn(len(lengths), T, 3)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    output, last = module(packed)
    output, _ = torch.nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
    valid = np.arange(T) < np.array(lengths)[:, None]
    layers = gates.from_torch(module.state_dict())
    read = jax.jit(jax.vmap(lambda x, valid: gates.run(STEPS[kind], layers, x, valid=valid)))
    ours, ours_last = read(np.where(valid[..., None], x.numpy(), np.nan), valid)
    assert error(ours_last, as_layers(kind, last if kind == "LSTM" else [last], 2)) <= 1e-6
    assert error(np.where(valid[..., None], ours, 0), array(output)) <= 1e-6


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_torch_to_ours_and_back_is_the_same_module(torch, kind, bias):
    make = lambda: getattr(torch.nn, kind)(3, 4, 2, bidirectional=True, bias=bias)
    module, again = make(), make()
    arrays = gates.to_torch(gates.from_torch(module.state_dict()))
    assert not bias or {name: a.shape for name, a in arrays.items()} == {name: tuple(a.shape) for name, a in module.state_dict().items()}
    again.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in module.state_dict()})
    x = torch.randn(5, 2, 3)
    assert error(array(again(x)[0]), array(module(x)[0])) <= 1e-6
    assert bias or all((a == 0).all() for name, a in arrays.items() if name.startswith("bias"))


@pytest.mark.parametrize("kind", KINDS)
def test_ours_to_torch_and_back_changes_nothing(kind):
    layers = [(draw(kind, 4, 3, 0), draw(kind, 4, 3, 1)), (draw(kind, 4, 8, 2), draw(kind, 4, 8, 3))]
    back = gates.from_torch(gates.to_torch(layers))
    assert jax.tree.structure(back) == jax.tree.structure(layers) and error(back, layers) == 0


def names(rows, H=4, D=3, end="_l0"):
    shapes = {"weight_ih": (rows, D), "weight_hh": (rows, H), "bias_ih": (rows,), "bias_hh": (rows,)}
    return {name + end: np.ones(shape, np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("arrays, message", [
    ({}, "from_torch: the names given are none. Expected those of torch.nn.LSTM or"),
    ({"kernel": np.ones(3)}, "names given are kernel.*without kernel: give module.state_dict"),
    (names(16) | {"weight_hr_l0": np.ones((2, 4))}, "without weight_hr_l0"),  # an LSTM with proj_size
    ({f"lstm.{name}": a for name, a in names(16).items()}, "without lstm.weight_ih_l0"),
    ({name: a for name, a in names(16).items() if name != "weight_ih_l0"}, "weight_ih_l0 is missing. Expected the weights of every"),
    (names(16) | names(16, end="_l2"), "weight_ih_l1 and weight_hh_l1 is missing"),
    (names(16) | names(16, end="_l0_reverse") | names(16, D=8, end="_l1"), "weight_ih_l1_reverse and weight_hh_l1_reverse is missing"),
    (names(4), r"weight_hh_l0 has shape \(4, 4\). Expected \(4H, H\), an LSTM, or \(3H, H\), a GRU: a plain torch.nn.RNN"),
])  # fmt: skip
def test_wrong_weights_of_torch(arrays, message):
    with pytest.raises(ValueError, match=message):
        gates.from_torch(arrays)


def test_modules_of_torch_that_have_no_place_here(torch):
    for module in (torch.nn.RNN(3, 4), torch.nn.LSTM(3, 4, proj_size=2), torch.nn.GRUCell(3, 4), torch.nn.Linear(3, 4)):
        with pytest.raises(ValueError, match="from_torch: "):
            gates.from_torch(module.state_dict())


# ---------------------------------------------------------------- Flax


LINEN = [("LSTM", linen.LSTMCell), ("LSTM", linen.OptimizedLSTMCell), ("GRU", linen.GRUCell)]
NNX = [("LSTM", nnx.LSTMCell), ("LSTM", nnx.OptimizedLSTMCell), ("GRU", nnx.GRUCell)]
FAST = (linen.GRUCell, nnx.GRUCell, nnx.OptimizedLSTMCell)
by_cell = lambda cells: pytest.mark.parametrize(
    "kind, cell", [pytest.param(kind, cell, id=cell.__name__, marks=() if cell in FAST else slow) for kind, cell in cells])


@functools.partial(jax.jit, static_argnums=0)
def read_batch(kind, params, x, start):
    return jax.vmap(lambda x, start: gates.run(STEPS[kind], [(params,)], x, [(start,)]))(x, start)


def ours_and_carry(kind, params, B=3, T=7):
    """A batch of sequences, starts in Flax's order, and what ours makes of them: all hidden states, the last in Flax's order."""
    H, D = params.U.shape[1:]
    x, h, c = draw_arrays((B, T, D), (B, H), (B, H))
    start = LSTMState(h, c) if kind == "LSTM" else h
    h_t, [(last,)] = read_batch(kind, params, x, start)
    swap = lambda state: (state.c, state.h) if kind == "LSTM" else state
    return x, swap(start), (swap(last), h_t)


@by_cell(LINEN)
def test_equals_linen(kind, cell):
    params = draw(kind, 5, 3)
    x, carry, ours = ours_and_carry(kind, params)
    tree = gates.to_linen(params)
    rnn = linen.RNN(cell(5), return_carry=True)
    assert error(ours, jax.jit(rnn.apply)({"params": {"cell": tree}}, x, initial_carry=carry)) <= 1e-6
    own = jax.jit(cell(5).init)(jax.random.key(0), carry, x[:, 0])["params"]
    assert jax.tree.map(jnp.shape, tree) == jax.tree.map(jnp.shape, own)
    assert error(gates.to_linen(gates.from_linen(own)), own) == 0 and error(gates.from_linen(tree), params) == 0


@by_cell(NNX)
def test_equals_nnx(kind, cell):
    params = draw(kind, 5, 3)
    params = params._replace(b_n=jnp.zeros(5)) if kind == "GRU" else params
    x, carry, ours = ours_and_carry(kind, params)
    module = cell(3, 5, rngs=nnx.Rngs(0))
    gates.to_nnx(params, module)
    rnn = nnx.RNN(module, return_carry=True, rngs=nnx.Rngs(0))
    assert error(ours, nnx.jit(lambda rnn, x, carry: rnn(x, initial_carry=carry))(rnn, x, carry)) <= 1e-6
    assert jax.tree.structure(gates.from_nnx(module)) == jax.tree.structure(params) and error(gates.from_nnx(module), params) == 0
    fresh = cell(3, 5, rngs=nnx.Rngs(1))
    gates.to_nnx(gates.from_nnx(fresh), module)
    assert error(nnx.state(module, nnx.Param), nnx.state(fresh, nnx.Param)) == 0


def test_gru_of_nnx_has_no_place_for_the_bias_within_the_reset():
    cell = nnx.GRUCell(3, 5, rngs=nnx.Rngs(0))
    before = jax.tree.map(np.array, nnx.state(cell, nnx.Param))
    with pytest.raises(ValueError, match=r"to_nnx: params.b_n is not zero, and nnx.GRUCell has no bias .* Expected b_n = 0"):
        gates.to_nnx(draw("GRU", 5, 3), cell)
    assert error(nnx.state(cell, nnx.Param), before) == 0, "the cell was changed before the refusal"


unhooked = inspect.unwrap  # without the checks that conftest adds


def shell(cell, D, H):
    """A cell of Flax whose weights have shapes alone."""
    return nnx.eval_shape(lambda: cell(D, H, rngs=nnx.Rngs(0)))


@pytest.mark.parametrize("wrong, kind, message", [
    (lambda: gates.from_linen({}), ValueError, "from_linen: the names given are none"),
    (lambda: gates.from_linen({"cell": {}}), ValueError, "names given are cell. Expected those of an LSTM, ii to ho, or of a GRU, ir to hn"),
    (lambda: gates.from_linen({"i": {}, "h": {}}), ValueError, "from_linen: the names given are i, h"),  # a SimpleCell
    (lambda: gates.from_nnx(shell(nnx.SimpleCell, 3, 4)), TypeError, "from_nnx: cell is of type SimpleCell"),
    (lambda: gates.from_nnx(nnx.RNN(shell(nnx.GRUCell, 3, 4))), TypeError, "cell is of type RNN.*rnn.cell"),
    (lambda: gates.to_nnx(draw("LSTM", 4, 3), shell(nnx.GRUCell, 3, 4)), TypeError, "type GRUCell. Expected nnx.LSTMCell or"),
    (lambda: gates.to_nnx(draw("GRU", 4, 3), shell(nnx.LSTMCell, 3, 4)), TypeError, "type LSTMCell. Expected nnx.GRUCell"),
    (lambda: gates.to_nnx(draw("LSTM", 4, 3), shell(nnx.LSTMCell, 3, 5)), ValueError, "3 inputs and 5 units. Expected 3 and 4"),
    (lambda: unhooked(gates.to_nnx)(draw("MGU", 4, 3), None), TypeError, "to_nnx: params is of type MGUParams"),
    (lambda: unhooked(gates.to_linen)(draw("coupled", 4, 3)), TypeError, "to_linen: params is of type CoupledParams. Expected LSTMParams or"),
    (lambda: gates.to_torch([(draw("peephole", 4, 3),)]), TypeError, "to_torch: params is of type PeepholeParams"),
])  # fmt: skip
def test_wrong_cells(wrong, kind, message):
    with pytest.raises(kind, match=message):
        wrong()


# ---------------------------------------------------------------- loops in NumPy, gate by gate


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def affine(params, gate, h, x):
    return params.W[gate] @ h + params.U[gate] @ x + params.b[gate]


def slow_lstm(p, h, c, x):
    i, f, o = (sigmoid(affine(p, gate, h, x)) for gate in (0, 1, 3))
    c = f * c + i * np.tanh(affine(p, 2, h, x))
    return o * np.tanh(c), c


def slow_coupled(p, h, c, x):
    f, o = sigmoid(affine(p, 0, h, x)), sigmoid(affine(p, 2, h, x))
    c = f * c + (1 - f) * np.tanh(affine(p, 1, h, x))
    return o * np.tanh(c), c


def slow_peephole(p, h, c, x):
    i, f = sigmoid(affine(p, 0, h, x) + p.P[0] * c), sigmoid(affine(p, 1, h, x) + p.P[1] * c)
    c = f * c + i * np.tanh(affine(p, 2, h, x))
    return sigmoid(affine(p, 3, h, x) + p.P[2] * c) * np.tanh(c), c


def slow_gru(p, h, x):
    r, z = sigmoid(affine(p, 0, h, x)), sigmoid(affine(p, 1, h, x))
    n = np.tanh(p.U[2] @ x + p.b[2] + r * (p.W[2] @ h + p.b_n))
    return (z * h + (1 - z) * n,)


def slow_gru_before(p, h, x):
    r, z = sigmoid(affine(p, 0, h, x)), sigmoid(affine(p, 1, h, x))
    n = np.tanh(affine(p, 2, r * h, x) + p.b_n)
    return (z * h + (1 - z) * n,)


def slow_mgu(p, h, x):
    f = sigmoid(affine(p, 0, h, x))
    return ((1 - f) * h + f * np.tanh(affine(p, 1, f * h, x)),)


CELLS = [  # kind of weights, our step, the slow one
    ("LSTM", gates.lstm_step, slow_lstm), ("coupled", gates.coupled_step, slow_coupled), ("peephole", gates.peephole_step, slow_peephole),
    ("GRU", gates.gru_step, slow_gru), ("GRU", gates.gru_before_step, slow_gru_before), ("MGU", gates.mgu_step, slow_mgu),
]  # fmt: skip
by_step = pytest.mark.parametrize("kind, step, slow_step", CELLS, ids=[step.__name__ for _, step, _ in CELLS])


def first_state(params):
    """A start that is not zero, in the form that the cell carries."""
    zero = gates.zero_state(params)
    return jax.tree.unflatten(jax.tree.structure(zero), draw_arrays(*(leaf.shape for leaf in jax.tree.leaves(zero)), seed=2))


@needs_float64
@by_step
@pytest.mark.parametrize("T, H, D", [(5, 4, 3), *(pytest.param(*sizes, marks=slow) for sizes in [(1, 1, 1), (1, 6, 2), (17, 1, 3), (30, 9, 1)])])
def test_cell_equals_loop_in_numpy(kind, step, slow_step, T, H, D):
    with runtime.float64():
        params, (x,) = draw(kind, H, D), draw_arrays((T, D))
        start = first_state(params)
        both = jax.jit(lambda p, x, s: [gates.unroll(step, p, x, s, reverse=reverse) for reverse in (False, True)])(params, x, start)
        params, x = jax.tree.map(np.asarray, (params, x))
        for ours, times in zip(both, (range(T), reversed(range(T)))):
            state, ours = jax.tree.leaves(start), jax.tree.leaves(ours)
            for t in times:
                state = slow_step(params, *map(np.asarray, state), x[t])
                assert error([leaf[t] for leaf in ours], list(state)) <= 1e-12


@needs_float64
def test_vanilla_cell_runs_in_the_same_way():
    with runtime.float64():
        params = vanilla_rnn.Params(*draw_arrays((4, 4), (4, 3), (4,)))
        (x,) = draw_arrays((6, 3))
        assert error(gates.unroll(vanilla_rnn.step, params, x), vanilla_rnn.unroll(params, jnp.zeros(4), x)) <= 1e-12


@slow
@needs_float64
def test_relatives_are_what_they_are_called():
    with runtime.float64():
        H, D = 5, 3
        lstm, gru = draw("LSTM", H, D), draw("GRU", H, D)
        h, c, x = draw_arrays((H,), (H,), (D,))
        state = LSTMState(h, c)
        blind = PeepholeParams(*lstm, jnp.zeros((3, H)))
        assert error(gates.peephole_step(blind, state, x), gates.lstm_step(lstm, state, x)) <= 1e-12
        seeing = blind._replace(P=jnp.ones((3, H)))
        assert error(gates.peephole_step(seeing, state, x), gates.lstm_step(lstm, state, x)) > 1e-3
        coupled = CoupledParams(*(stacked[1:] for stacked in lstm))
        mirrored = LSTMParams(*(stacked.at[0].set(-stacked[1]) for stacked in lstm))  # σ(-a) = 1 - σ(a)
        assert error(gates.coupled_step(coupled, state, x), gates.lstm_step(mirrored, state, x)) <= 1e-12
        mgu = draw("MGU", H, D)
        tied = GRUParams(*(jnp.stack([stacked[0], -stacked[0], stacked[1]]) for stacked in mgu), jnp.zeros(H))  # r = f, z = 1 - f
        assert error(gates.mgu_step(mgu, h, x), gates.gru_before_step(tied, h, x)) <= 1e-12


@slow
@needs_float64
def test_place_of_the_reset_matters_unless_reset_and_product_commute():
    with runtime.float64():
        H, D = 5, 3
        params = draw("GRU", H, D)._replace(b_n=jnp.zeros(H))
        h, x = draw_arrays((H,), (D,))
        both = lambda params: (gates.gru_before_step(params, h, x), gates.gru_step(params, h, x))
        assert error(*both(params)) > 1e-3
        diagonal = params._replace(W=params.W.at[2].set(jnp.diag(h)))
        assert error(*both(diagonal)) <= 1e-12
        one_for_all = [stacked.at[0].set(stacked[0, :1]) for stacked in params[:3]]  # the same r in all units
        assert error(*both(GRUParams(*one_for_all, params.b_n))) <= 1e-12
        inside = draw("GRU", H, D, seed=1).b_n  # after the product the reset acts on b_n too
        assert error(*both(diagonal._replace(b_n=inside))) > 1e-3


# ---------------------------------------------------------------- along a sequence


@by_step
def test_no_start_is_a_start_of_zeros(kind, step, slow_step):
    params, (x,) = draw(kind, 4, 3), draw_arrays((3, 3))
    zeros = LSTMState(jnp.zeros(4), jnp.zeros(4)) if kind in ("LSTM", "coupled", "peephole") else jnp.zeros(4)
    without, given = jax.jit(lambda zeros: (gates.unroll(step, params, x), gates.unroll(step, params, x, zeros)))(zeros)
    assert jax.tree.structure(without) == jax.tree.structure(given) == jax.tree.structure(zeros) and error(without, given) == 0


@slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_step_one_sequence(kind):
    params, (x,) = draw(kind, 4, 3), draw_arrays((1, 1, 3))
    alone = gates.unroll(STEPS[kind], params, x[0])
    assert error(jax.tree.map(lambda s: s[0], alone), STEPS[kind](params, gates.zero_state(params), x[0, 0])) <= 1e-6
    assert error(gates.unroll(STEPS[kind], params, x[0], reverse=True), alone) <= 1e-6
    batch = jax.vmap(lambda x: gates.unroll(STEPS[kind], params, x))(x)
    assert error(jax.tree.map(lambda s: s[0], batch), alone) <= 1e-6


@pytest.mark.parametrize("kind", GRU_FIRST)
def test_sequences_of_a_batch_do_not_meet(kind):
    params, (x,) = draw(kind, 4, 3), draw_arrays((3, 5, 3))
    read = lambda x: gates.unroll(STEPS[kind], params, x)
    batch, alone = jax.jit(lambda x: (jax.vmap(read)(x), read(x[1])))(x)
    assert error(jax.tree.map(lambda s: s[1], batch), alone) <= 1e-6


PADDINGS = {"middle": [1, 0, 0, 1, 1, 0, 1], "end": [1, 1, 1, 1, 0, 0, 0], "start": [0, 0, 1, 1, 1, 1, 1], "all": [0] * 7, "none": [1] * 7}


def losses(step, params, x, start, valid=None):
    """The hidden states of both directions, the last states, and a loss of the last states."""
    h, last = gates.run(step, [params], x, [start], valid)
    return sum(jnp.sin(leaf).sum() for leaf in jax.tree.leaves(last)), (h, last)


@pytest.mark.parametrize("kind", GRU_FIRST)
@jax.debug_nans(True)
def test_padding_changes_neither_states_nor_gradients(kind):
    H, D, T, step = 4, 3, 7, STEPS[kind]
    params = draw(kind, H, D, 0), draw(kind, H, D, 1)
    start = tuple(first_state(one) for one in params)
    (x,) = draw_arrays((T, D), seed=3)
    compiled = jax.jit(jax.value_and_grad(lambda *a: losses(step, *a), argnums=(0, 1, 2), has_aux=True))
    for place, marks in PADDINGS.items():
        valid = np.array(marks, bool)
        padded = np.where(valid[:, None], x, np.float32("nan"))
        (_, (h, last)), (by_params, by_x, by_start) = compiled(params, padded, start, valid)
        (_, (h_other, last_other)), others = compiled(params, jnp.where(valid[:, None], x, 7.0), start, valid)
        assert error((h, last, by_params, by_x, by_start), (h_other, last_other, *others)) == 0, place
        assert (np.asarray(by_x)[~valid] == 0).all(), place
        if place == "all":
            assert error(last, [start]) == 0 and (np.asarray(by_params[0].W) == 0).all()
            h_start = jnp.concatenate([s.h if kind == "LSTM" else s for s in start])
            assert (h == h_start).all() and error(by_start, jax.tree.map(jnp.cos, start)) <= 1e-6
            continue
        for t in np.flatnonzero(~valid):  # a padded step hands the state on, in either direction
            assert t == 0 or (h[t, :H] == h[t - 1, :H]).all(), place
            assert t == T - 1 or (h[t, H:] == h[t + 1, H:]).all(), place
        if place == "middle":
            (_, (h_short, last_short)), short = compiled(params, x[valid], start, None)
            assert error((h[valid], last), (h_short, last_short)) <= 1e-6, place
            assert error((by_params, by_x[valid], by_start), short) <= 1e-6, place


def test_run_wants_as_many_starts_as_cells():
    params = draw("GRU", 4, 3)
    with pytest.raises(ValueError, match="shorter"):
        gates.run(gates.gru_step, [(params, params)], jnp.ones((2, 3)), [(jnp.zeros(4),)])


# ---------------------------------------------------------------- what is kept, and what comes back


LENGTHS = [(6, 3), *(pytest.param(*sizes, marks=slow) for sizes in [(1, 1), (40, 5)])]  # T, H


@needs_float64
@pytest.mark.parametrize("T, H", LENGTHS)
def test_forget_product_equals_a_loop(T, H):
    with runtime.float64():
        f = np.random.default_rng(0).uniform(size=(T, H))
        products = gates.forget_product(f)
        assert products.shape == (T + 1, H)
        for k in range(T + 1):
            expected = np.ones(H)
            for t in range(k, T):  # row t holds step t + 1
                expected = expected * f[t]
            assert error(products[k], expected) <= 1e-12


@needs_float64
@pytest.mark.parametrize("T, H", LENGTHS)
def test_last_state_of_a_gru_is_a_weighted_mean(T, H):
    with runtime.float64():
        params, (h0, x) = draw("GRU", H, 2), draw_arrays((H,), (T, 2))
        h = jax.jit(lambda: gates.unroll(gates.gru_step, params, x, h0))()
        before = jnp.concatenate([h0[None], h[:-1]])
        r, z, n = jax.jit(jax.vmap(lambda h, x: gates.gru_gates(params, h, x)))(before, x)
        weights = jax.jit(gates.gru_weights)(z)
        assert error((weights * jnp.concatenate([h0[None], n])).sum(axis=0), h[-1]) <= 1e-12
        assert error(weights.sum(axis=0), np.ones(H)) <= 1e-12 and (weights > 0).all()


@slow
@needs_float64
@pytest.mark.parametrize("T, H", LENGTHS)
def test_last_cell_of_an_lstm_is_a_sum_of_what_the_forget_gates_left(T, H):
    with runtime.float64():
        params, (h0, c0, x) = draw("LSTM", H, 2), draw_arrays((H,), (H,), (T, 2))
        states = gates.unroll(gates.lstm_step, params, x, LSTMState(h0, c0))
        before = jnp.concatenate([h0[None], states.h[:-1]]), jnp.concatenate([c0[None], states.c[:-1]])
        i, f, g, o = jax.vmap(lambda h, c, x: gates.lstm_gates(params, LSTMState(h, c), x))(*before, x)
        written = jnp.concatenate([c0[None], i * g])
        assert error((gates.forget_product(f) * written).sum(axis=0), states.c[-1]) <= 1e-12
        assert error(o * jnp.tanh(states.c), states.h) <= 1e-12


@slow
@needs_float64
@pytest.mark.parametrize("T, H", LENGTHS)
def test_derivatives_of_the_last_cell_equal_autodiff(T, H):
    with runtime.float64():
        params, (h0, c0, x) = draw("LSTM", H, 2), draw_arrays((H,), (H,), (T, 2))
        start = LSTMState(h0, c0)
        states = jax.tree.map(lambda s, s_t: jnp.concatenate([s[None], s_t]), start, gates.unroll(gates.lstm_step, params, x, start))
        ours = gates.cell_derivatives(params, start, x)
        assert ours.shape == (T + 1, H, H) and (ours[T] == np.eye(H)).all()
        for k in {0, T // 2, T - 1}:
            last = lambda c: gates.unroll(gates.lstm_step, params, x[k:], LSTMState(states.h[k], c)).c[-1]
            assert error(ours[k], jax.jit(jax.jacrev(last))(states.c[k])) <= 1e-12
        f = jax.vmap(lambda h, c, x: gates.lstm_gates(params, LSTMState(h, c), x).f)(states.h[:-1], states.c[:-1], x)
        direct = jax.vmap(jnp.diag)(gates.forget_product(f))
        assert error(ours[T - 1], direct[T - 1]) <= 1e-12
        assert T < 3 or error(ours[0], direct[0]) > 1e-3, "no path by way of h"


@slow
@needs_float64
def test_where_only_the_output_gate_reads_h_the_derivative_is_the_product_of_the_forget_gates():
    with runtime.float64():
        params, (h0, c0, x) = draw("LSTM", 4, 2), draw_arrays((4,), (4,), (9, 2))
        params = params._replace(W=params.W.at[:3].set(0))
        f = jax.nn.sigmoid(x @ params.U[1].T + params.b[1])
        assert error(gates.cell_derivatives(params, LSTMState(h0, c0), x), jax.vmap(jnp.diag)(gates.forget_product(f))) <= 1e-12


@slow
@needs_float64
@pytest.mark.parametrize("T, H", LENGTHS)
def test_with_gates_and_candidate_fixed_the_derivative_is_the_product_of_the_forget_gates(T, H):
    with runtime.float64():
        params, (h0, c0, x) = draw("LSTM", H, 2), draw_arrays((H,), (H,), (T, 2))

        def last(c0, fixed):
            """c_T, and the forget gates; the parts of the cell in `fixed` pass no derivative on."""
            state, forget = LSTMState(h0, c0), []
            for x_t in x:
                read = gates.lstm_gates(params, state, x_t)
                forget.append(read.f)
                i, f, g, o = (jax.lax.stop_gradient(part) if name in fixed else part for name, part in zip("ifgo", read))
                c = f * state.c + i * g
                state = LSTMState(o * jnp.tanh(c), c)
            return state.c, jnp.stack(forget)

        direct, f = jax.jacobian(last, has_aux=True)(c0, "ifgo")
        assert error(direct, jnp.diag(gates.forget_product(f)[0])) <= 1e-12
        gates_fixed, _ = jax.jacobian(last, has_aux=True)(c0, "ifo")
        assert T == 1 or error(gates_fixed, direct) > 1e-6, "the candidate is a way too"


@slow
@pytest.mark.parametrize("H, scale", [(1, 1), (6, 1), (6, 50)])
def test_state_of_a_gru_stays_between_minus_one_and_one(H, scale):
    params, (h0, x) = draw("GRU", H, 2), draw_arrays((H,), (40, 2))
    params = jax.tree.map(lambda leaf: scale * leaf, params)
    for step in (gates.gru_step, gates.gru_before_step):
        h = gates.unroll(step, params, scale * x, jnp.tanh(h0))
        assert jnp.abs(h).max() <= 1


@slow
@needs_float64
@pytest.mark.parametrize("T, H", LENGTHS)
def test_update_gate_of_the_other_sign_is_the_same_gru(T, H):
    with runtime.float64():
        params, (h0, x) = draw("GRU", H, 2), draw_arrays((H,), (T, 2))
        sign = jnp.array([1.0, -1.0, 1.0])
        negated = params._replace(W=params.W * sign[:, None, None], U=params.U * sign[:, None, None], b=params.b * sign[:, None])

        def other(params, h, x):
            r, z, n = gates.gru_gates(params, h, x)
            return (1 - z) * h + z * n

        assert error(gates.unroll(other, negated, x, h0), gates.unroll(gates.gru_step, params, x, h0)) <= 1e-12


@needs_float64
def test_forget_bias_of_a_time_constant():
    with runtime.float64():
        tau = 1 + jnp.exp(draw_arrays((200,))[0])
        f = jax.nn.sigmoid(jnp.log(tau - 1))
        assert error(f, 1 - 1 / tau) <= 1e-12 and error(1 / (1 - f), tau) <= 1e-12


# ---------------------------------------------------------------- first weights, and modules that hold them


@slow
@pytest.mark.parametrize("H", [1, 7])
def test_first_weights(H):
    key = jax.random.key(0)
    for init, count in ((gates.init_lstm, 4), (gates.init_gru, 3)):
        drawn = jax.jit(lambda key: [init(key, 3, H, recurrent=kind) for kind in ("uniform", "orthogonal", "identity")])(key)
        uniform, orthogonal, identity = jax.tree.map(np.asarray, drawn)
        assert [leaf.shape for leaf in uniform[:3]] == [(count, H, H), (count, H, 3), (count, H)]
        for leaf in (uniform.W, uniform.U, np.delete(uniform.b, 1, axis=0), *uniform[3:]):
            assert (np.abs(leaf) <= H**-0.5 * (1 + 1e-6)).all() and len(np.unique(leaf)) == leaf.size, "two gates share their weights"
        assert np.allclose(orthogonal.W @ orthogonal.W.transpose(0, 2, 1), np.eye(H), atol=1e-5) and (identity.W == np.eye(H)).all()
        assert (orthogonal.U == uniform.U).all() and (orthogonal.b == uniform.b).all()


@slow
def test_forget_bias_is_set():
    init = jax.jit(lambda key: [gates.init_lstm(key, 2, 3), gates.init_lstm(key, 2, 3, forget=-2.5), gates.init_lstm(key, 2, 3, forget=0.0)])
    drawn = jax.tree.map(np.asarray, init(jax.random.key(0)))
    assert [params.b[1].tolist() for params in drawn] == [[1.0] * 3, [-2.5] * 3, [0.0] * 3]
    assert all((params.b[[0, 2, 3]] == drawn[0].b[[0, 2, 3]]).all() and (params.W == drawn[0].W).all() for params in drawn)


by_module = pytest.mark.parametrize("kind, module", [("LSTM", gates.LSTM), ("GRU", gates.GRU)], ids=KINDS)


@slow
@by_module
def test_module_is_run_on_its_layers(kind, module):
    model = module(3, 4, layers=2, both=True, rngs=nnx.Rngs(0))
    again, other = module(3, 4, layers=2, both=True, rngs=nnx.Rngs(0)), module(3, 4, layers=2, both=True, rngs=nnx.Rngs(1))
    assert error(again.layers, model.layers) == 0 and error(other.layers, model.layers) > 0
    assert [[params.U.shape[1:] for params in directions] for directions in model.layers] == [[(4, 3)] * 2, [(4, 8)] * 2]
    (x,) = draw_arrays((5, 3))
    valid = jnp.array([True, True, False, True, True])
    start = jax.tree.map(lambda params: first_state(params), model.layers, is_leaf=lambda leaf: hasattr(leaf, "W"))
    expected = jax.jit(lambda layers: gates.run(STEPS[kind], layers, x, start, valid))(model.layers)
    ours = nnx.jit(lambda model, x: model(x, start, valid))(model, x)
    assert ours[0].shape == (5, 8) and jax.tree.structure(ours) == jax.tree.structure(expected) and error(ours, expected) <= 1e-6


@slow
@by_module
def test_module_splits_merges_and_differentiates(kind, module):
    model = module(3, 4, rngs=nnx.Rngs(0))
    (x,) = draw_arrays((5, 3))
    expected = jax.jit(jax.grad(lambda layers: gates.run(STEPS[kind], layers, x)[0].sum()))(model.layers)
    graph, state = nnx.split(model)
    gradient = nnx.jit(nnx.grad(lambda model: model(x)[0].sum()))(model)
    assert error(nnx.merge(graph, gradient).layers, expected) <= 1e-6
    assert len(jax.tree.leaves(nnx.state(model, nnx.Param))) == len(jax.tree.leaves(model.layers))
    doubled = nnx.merge(graph, jax.tree.map(lambda leaf: 2 * leaf, state))
    assert error(doubled.layers, jax.tree.map(lambda leaf: 2 * leaf, model.layers)) == 0
    assert error(doubled(x), gates.run(STEPS[kind], doubled.layers, x)) <= 1e-6
    nnx.update(model, state)
    batch = jax.vmap(lambda x: model(x)[0])(jnp.stack([x, -x]))
    assert error(batch[0], model(x)[0]) <= 1e-6


def test_layers_hold_what_comes_from_elsewhere():
    params = draw("GRU", 4, 3)
    model = gates.Layers(gates.gru_step, gates.from_torch(gates.to_torch([(params,)])))
    (x,) = draw_arrays((5, 3))
    assert error(model(x), gates.run(gates.gru_step, [(params,)], x)) <= 1e-6


@slow
def test_forget_bias_of_a_module():
    model = gates.LSTM(3, 4, layers=2, forget=2.0, rngs=nnx.Rngs(0))
    assert all((params.b[1] == 2).all() for (params,) in model.layers)


# ---------------------------------------------------------------- the conventions of each library, row by row


class Library(NamedTuple):
    """One cell of a library: its fresh parameters under its own names, and a step that takes them."""

    arrays: dict[str, np.ndarray]
    step: Callable  # (arrays, carry, x) -> (output, carry), the carry a tuple in the library's own order


def torch_cell(torch, kind, D, H):
    module = getattr(torch.nn, kind)(D, H)
    tensor = lambda values: torch.from_numpy(np.array(values, np.float32))

    def step(arrays, carry, x):
        module.load_state_dict({name: tensor(values) for name, values in arrays.items()})
        carry = tuple(tensor(state)[None] for state in carry)
        output, carry = module(tensor(x)[None], carry if kind == "LSTM" else carry[0])
        return array(output)[0], tuple(array(state)[0] for state in (carry if kind == "LSTM" else (carry,)))

    return Library({name: array(values) for name, values in module.state_dict().items()}, step)


def linen_cell(cell, D, H):
    carry = jnp.zeros(H) if cell is linen.GRUCell else (jnp.zeros(H), jnp.zeros(H))
    tree = jax.jit(cell(H).init)(jax.random.key(0), carry, jnp.zeros(D))["params"]

    def step(arrays, carry, x):
        tree = {}
        for name, values in arrays.items():
            tree.setdefault(name.split("/")[0], {})[name.split("/")[1]] = values
        carry, output = cell(H).apply({"params": tree}, carry[0] if cell is linen.GRUCell else carry, x)
        return output, (carry,) if cell is linen.GRUCell else carry

    return Library({f"{layer}/{name}": np.asarray(values) for layer, inner in tree.items() for name, values in inner.items()}, step)


def nnx_cell(cell, D, H):
    module = nnx.jit(lambda rngs: cell(D, H, rngs=rngs))(nnx.Rngs(0))
    paths = {"/".join(path): path for path, _ in nnx.to_flat_state(nnx.state(module, nnx.Param))}
    place = lambda path: getattr(getattr(module, path[0]), path[1])

    def step(arrays, carry, x):
        for name, values in arrays.items():
            place(paths[name])[...] = jnp.asarray(values)
        carry, output = module(carry[0] if cell is nnx.GRUCell else carry, x)
        return output, (carry,) if cell is nnx.GRUCell else carry

    return Library({name: np.array(place(path)[...]) for name, path in paths.items()}, step)


def keras_cell(keras, kind, D, H, **options):
    keras.utils.set_random_seed(0)
    cell = getattr(keras.layers, f"{kind}Cell")(H, **options)
    cell.build((None, D))

    def step(arrays, carry, x):
        for weight in cell.weights:
            weight.assign(arrays[weight.name])
        output, carry = cell(jnp.asarray(x)[None], [jnp.asarray(state)[None] for state in carry])
        return output[0], tuple(state[0] for state in carry)

    return Library({weight.name: np.asarray(weight.value) for weight in cell.weights}, step)


def our_cell(kind, D, H):
    init = {"LSTM": gates.init_lstm, "GRU": gates.init_gru}[kind]
    params = jax.jit(lambda key: init(key, D, H))(jax.random.key(0))

    def step(arrays, carry, x):
        state = LSTMState(*carry) if kind == "LSTM" else carry[0]
        state = STEPS[kind](type(params)(**arrays), state, x)
        return (state.h, tuple(state)) if kind == "LSTM" else (state, (state,))

    return Library({name: np.asarray(values) for name, values in params._asdict().items()}, step)


LSTMS = ["PyTorch", "Linen", "Linen, optimized", "NNX", "NNX, optimized", "Keras", "ours"]
GRUS = ["PyTorch", "Linen", "NNX", "Keras", "Keras, before", "ours"]
FLAX = {"Linen": (linen_cell, {"LSTM": linen.LSTMCell, "GRU": linen.GRUCell}), "Linen, optimized": (linen_cell, {"LSTM": linen.OptimizedLSTMCell}),
        "NNX": (nnx_cell, {"LSTM": nnx.LSTMCell, "GRU": nnx.GRUCell}), "NNX, optimized": (nnx_cell, {"LSTM": nnx.OptimizedLSTMCell})}  # fmt: skip
MADE = {}


def columns(lstm=(), gru=()):
    """The columns of a row, for each kind of cell that has one; PyTorch's takes no time."""
    cells = [("LSTM", name) for name in lstm] + [("GRU", name) for name in gru]
    return pytest.mark.parametrize("kind, name", [cell if "PyTorch" in cell[1] else pytest.param(*cell, marks=slow) for cell in cells])


def library(request, name, kind, D, H):
    """The cell of a column of the table, made once."""
    if (name, kind, D, H) not in MADE:
        MADE[name, kind, D, H] = make(request, name, kind, D, H)
    return MADE[name, kind, D, H]


def make(request, name, kind, D, H):
    if name in FLAX:
        to_library, cells = FLAX[name]
        return to_library(cells[kind], D, H)
    if name == "PyTorch":
        return torch_cell(request.getfixturevalue("torch"), kind, D, H)
    if "Keras" in name:
        options = {"reset_after": name == "Keras"} if kind == "GRU" else {}
        return keras_cell(request.getfixturevalue("keras"), kind, D, H, **options)
    return our_cell(kind, D, H)


def filled(arrays):
    """Random numbers in the place of all parameters, so that no bias is zero."""
    random = np.random.default_rng(0)
    return {name: random.normal(size=values.shape).astype(np.float32) for name, values in arrays.items()}


def blocks(name, kind, arrays):
    """W, U, the bias on the input's side and that on the other, one block a gate, in the order in which the library has them."""
    count = {"LSTM": 4, "GRU": 3}[kind]
    split = lambda kernel: np.stack(np.split(kernel.T, count))
    if name == "PyTorch":
        W, U = (np.stack(np.split(arrays[f"weight_{side}h_l0"], count)) for side in "hi")
        return W, U, *(arrays[f"bias_{side}h_l0"].reshape(count, -1) for side in "ih")
    if name.startswith("Linen") or (name == "NNX" and kind == "LSTM"):
        letters = {"LSTM": ["i", "f_" if name == "NNX" else "f", "g", "o"], "GRU": ["r", "z", "n"]}[kind]
        layer = lambda side, letter: side + (letter if side == "i" else letter[0])
        W, U = (np.stack([arrays[f"{layer(side, letter)}/kernel"].T for letter in letters]) for side in "hi")
        zero = np.zeros(W.shape[1], np.float32)
        return W, U, *(np.stack([arrays.get(f"{layer(side, letter)}/bias", zero) for letter in letters]) for side in "ih")
    if name.startswith("NNX"):
        W, U = split(arrays["dense_h/kernel"]), split(arrays["dense_i/kernel"])
        zero = np.zeros(W.shape[0] * W.shape[1], np.float32)
        return W, U, *(arrays.get(f"dense_{side}/bias", zero).reshape(count, -1) for side in "ih")
    if name.startswith("Keras"):
        both = arrays["bias"] if arrays["bias"].ndim == 2 else np.stack([arrays["bias"], 0 * arrays["bias"]])
        return split(arrays["recurrent_kernel"]), split(arrays["kernel"]), *both.reshape(2, count, -1)
    inside = np.zeros_like(arrays["b"])
    if kind == "GRU":
        inside[2] = arrays["b_n"]
    return arrays["W"], arrays["U"], arrays["b"], inside


def orders_that_fit(library, name, kind, letters, slow_step):
    """The orders of the gates in which a slow step, given the library's blocks, gives what the library gives."""
    arrays = filled(library.arrays)
    W, U, b_x, b_h = blocks(name, kind, arrays)
    h, c, x = (np.asarray(one) for one in draw_arrays((4,), (4,), (3,)))
    output, _ = library.step(arrays, (h,) if kind == "GRU" else (h, c) if name in ("PyTorch", "Keras", "ours") else (c, h), x)
    fit = []
    for order in itertools.permutations(letters):
        place = [order.index(letter) for letter in letters]
        if kind == "LSTM":
            expected = slow_step(LSTMParams(W[place], U[place], (b_x + b_h)[place]), h, c, x)[0]
        else:
            b = b_x[place] + b_h[place] * np.array([[1], [1], [0]])
            expected = slow_step(GRUParams(W[place], U[place], b, b_h[place][2]), h, x)[0]
        if np.allclose(output, expected, atol=1e-5):
            fit.append("".join(order))
    return fit


@columns(lstm=LSTMS)
def test_row_gate_order_of_the_lstm(request, kind, name):
    assert orders_that_fit(library(request, name, kind, 3, 4), name, "LSTM", "ifgo", slow_lstm) == ["ifgo"]


@columns(gru=GRUS)
def test_row_gate_order_of_the_gru(request, kind, name):
    slow_step = slow_gru_before if name == "Keras, before" else slow_gru
    assert orders_that_fit(library(request, name, kind, 3, 4), name, "GRU", "rzn", slow_step) == ["zrn" if "Keras" in name else "rzn"]


@columns(gru=GRUS)
def test_row_place_of_the_reset(request, kind, name):
    cell = library(request, name, kind, 3, 4)
    fits = [slow_step for slow_step in (slow_gru, slow_gru_before) if orders_that_fit(cell, name, "GRU", "rzn", slow_step)]
    assert fits == [slow_gru_before if name == "Keras, before" else slow_gru]


@columns(gru=GRUS)
def test_row_update_gate_is_the_share_of_the_old(request, kind, name):
    """With the update gate open wide the state stays."""
    cell = library(request, name, kind, 3, 4)
    arrays = {key: np.zeros_like(values) for key, values in cell.arrays.items()}
    _, _, bias, _ = blocks(name, "GRU", arrays)
    z = 0 if "Keras" in name else 1
    key = {"PyTorch": "bias_ih_l0", "Linen": "iz/bias", "NNX": "dense_i/bias", "ours": "b"}.get(name, "bias")
    flat = arrays[key].reshape(-1)
    flat[:] = 30.0 if name == "Linen" else np.repeat(np.arange(flat.size // 4) == z, 4) * 30.0
    assert bias.shape == (3, 4)
    h = np.linspace(-0.9, 0.9, 4, dtype=np.float32)
    assert np.allclose(cell.step(arrays, (h,), np.ones(3, np.float32))[0], h, atol=1e-6)


def shapes_of_biases(cell, H, part="bias"):
    return {name: values.shape for name, values in cell.arrays.items() if name.startswith("b") or name.endswith(part)}


@columns(lstm=LSTMS)
def test_row_biases_of_the_lstm(request, kind, name):
    H = 4
    per_gate = {f"h{gate}/bias": (H,) for gate in "ifgo"}
    expected = {"PyTorch": {"bias_ih_l0": (4 * H,), "bias_hh_l0": (4 * H,)}, "Linen": per_gate, "Linen, optimized": per_gate, "NNX": per_gate,
                "NNX, optimized": {"dense_h/bias": (4 * H,)}, "Keras": {"bias": (4 * H,)}, "ours": {"b": (4, H)}}  # fmt: skip
    assert shapes_of_biases(library(request, name, kind, 3, H), H) == expected[name]


@columns(gru=GRUS)
def test_row_biases_of_the_gru(request, kind, name):
    H = 4
    expected = {"PyTorch": {"bias_ih_l0": (3 * H,), "bias_hh_l0": (3 * H,)}, "Linen": {f"{layer}/bias": (H,) for layer in ("ir", "iz", "in", "hn")},
                "NNX": {"dense_i/bias": (3 * H,)}, "Keras": {"bias": (2, 3 * H)}, "Keras, before": {"bias": (3 * H,)},
                "ours": {"b": (3, H), "b_n": (H,)}}  # fmt: skip
    assert shapes_of_biases(library(request, name, kind, 3, H), H) == expected[name]


@columns(LSTMS, GRUS)
def test_row_shapes_of_the_weights(request, kind, name):
    D, H, k = 3, 4, {"LSTM": 4, "GRU": 3}[kind]
    arrays = library(request, name, kind, D, H).arrays
    shapes = {values.shape for key, values in arrays.items() if "bias" not in key and key not in ("b", "b_n")}
    fused, apart = {(D, k * H), (H, k * H)}, {(D, H), (H, H)}
    expected = {"PyTorch": {(k * H, D), (k * H, H)}, "Linen": apart, "Linen, optimized": apart, "NNX": apart if kind == "LSTM" else fused,
                "NNX, optimized": fused, "Keras": fused, "Keras, before": fused, "ours": {(k, H, D), (k, H, H)}}  # fmt: skip
    assert shapes == expected[name]


@columns(lstm=LSTMS)
def test_row_first_bias_of_the_forget_gate(request, kind, name):
    D, H = 100, 64
    _, _, b_x, b_h = blocks(name, kind, library(request, name, kind, D, H).arrays)
    f = (b_x + b_h)[1]
    if name == "PyTorch":
        assert 1 / H**0.5 < np.abs(f).max() < 2 / H**0.5 and np.abs(f).min() < 0.5 / H**0.5  # the sum of two from U(-1/√H, 1/√H)
    else:
        assert (f == (1 if name in ("Keras", "ours") else 0)).all()


@columns(LSTMS, GRUS)
def test_row_first_weights_of_the_input(request, kind, name):
    """Uniform numbers fill their range, with a deviation of range / √3; those of lecun_normal are cut at 2.27 of their deviation, 1/√D."""
    D, H = 100, 64
    _, U, _, _ = blocks(name, kind, library(request, name, kind, D, H).arrays)
    if "Linen" in name or "NNX" in name:
        assert U.std() == pytest.approx(D**-0.5, rel=0.03) and 2.1 < np.abs(U).max() * D**0.5 < 2.28
    else:
        limit = (6 / (D + len(U) * H)) ** 0.5 if "Keras" in name else H**-0.5  # glorot_uniform of the fused matrix (D, kH)
        assert U.std() == pytest.approx(limit / 3**0.5, rel=0.03) and 0.99 * limit < np.abs(U).max() <= limit * (1 + 1e-6)


@columns(LSTMS, GRUS)
def test_row_first_weights_of_the_recurrence(request, kind, name):
    D, H = 100, 64
    W, _, _, _ = blocks(name, kind, library(request, name, kind, D, H).arrays)
    each = all(np.allclose(block @ block.T, np.eye(H), atol=1e-4) for block in W)
    together = np.allclose(sum(block.T @ block for block in W), np.eye(H), atol=1e-4)  # the rows of the fused matrix (H, kH)
    uniform = W.std() * (3 * H) ** 0.5 == pytest.approx(1, rel=0.05) and np.abs(W).max() <= H**-0.5 * (1 + 1e-6)
    gatewise = "Linen" in name or (name == "NNX" and kind == "LSTM")
    assert (each, together, bool(uniform)) == (gatewise, not gatewise and name not in ("PyTorch", "ours"), name in ("PyTorch", "ours"))


@columns(lstm=LSTMS)
def test_row_order_of_the_carry(request, kind, name):
    cell = library(request, name, kind, 3, 4)
    output, carry = cell.step(filled(cell.arrays), tuple(map(np.asarray, draw_arrays((4,), (4,)))), np.ones(3, np.float32))
    place = [bool(np.allclose(output, state)) for state in carry]
    assert place == ([False, True] if "Linen" in name or "NNX" in name else [True, False])


@columns(*[["PyTorch", "PyTorch, batch_first", "Linen", "NNX", "NNX, time_major", "Keras", "ours"]] * 2)
def test_row_layout_of_a_sequence(request, kind, name):
    """A change at the very first place is felt along the axis of time, and nowhere else."""
    D, H, shape = 2, 4, (3, 5)
    if name.startswith("PyTorch"):
        torch = request.getfixturevalue("torch")
        module = getattr(torch.nn, kind)(D, H, batch_first="batch" in name)
        read = lambda x: array(module(torch.from_numpy(np.array(x)))[0])
    elif name == "Linen":
        rnn = linen.RNN({"LSTM": linen.LSTMCell, "GRU": linen.GRUCell}[kind](H))
        variables = jax.jit(rnn.init)(jax.random.key(0), jnp.zeros((*shape, D)))
        read = jax.jit(lambda x: rnn.apply(variables, x))
    elif name.startswith("NNX"):
        cell = {"LSTM": nnx.LSTMCell, "GRU": nnx.GRUCell}[kind](D, H, rngs=nnx.Rngs(0))
        read = nnx.RNN(cell, time_major="time" in name, rngs=nnx.Rngs(0))
    elif name == "Keras":
        read = getattr(request.getfixturevalue("keras").layers, kind)(H, return_sequences=True)
    else:
        module = {"LSTM": gates.LSTM, "GRU": gates.GRU}[kind](D, H, rngs=nnx.Rngs(0))
        read = lambda x: jax.vmap(module)(x)[0]
    (x,) = draw_arrays((*shape, D))
    felt = (np.asarray(read(x)) != np.asarray(read(x.at[0, 0].add(1.0)))).any(axis=2)
    time_first = name in ("PyTorch", "NNX, time_major")
    assert felt.shape == shape and felt.sum() == shape[0 if time_first else 1] and (felt[:, 0] if time_first else felt[0]).all()


@slow
def test_papers_gru_equals_that_of_keras_with_the_reset_before_the_product(request):
    cell = library(request, "Keras, before", "GRU", 3, 4)
    arrays = filled(cell.arrays)
    W, U, b, _ = (stacked[[1, 0, 2]] for stacked in blocks("Keras, before", "GRU", arrays))
    h, x = draw_arrays((4,), (3,))
    ours = gates.gru_before_step(GRUParams(*map(jnp.asarray, (W, U, b)), jnp.zeros(4)), h, x)
    assert error(ours, cell.step(arrays, (h,), x)[0]) <= 1e-6


@slow
@pytest.mark.parametrize("kind", KINDS)
def test_equals_keras(request, kind):
    cell = library(request, "Keras", kind, 3, 4)
    arrays = filled(cell.arrays)
    W, U, b_x, b_h = blocks("Keras", kind, arrays)
    h, c, x = draw_arrays((4,), (4,), (3,))
    if kind == "LSTM":
        ours, carry = gates.lstm_step(LSTMParams(W, U, b_x), LSTMState(h, c), x).h, (h, c)
    else:
        W, U, b_x, b_h = (stacked[[1, 0, 2]] for stacked in (W, U, b_x, b_h))
        b_x[:2] += b_h[:2]
        ours, carry = gates.gru_step(GRUParams(W, U, b_x, b_h[2]), h, x), (h,)
    assert error(ours, cell.step(arrays, carry, x)[0]) <= 1e-6


# ---------------------------------------------------------------- how many parameters


def count(make):
    """The number of parameters of what a function makes, in a form without numbers."""
    return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(make)))


def count_nnx(make):
    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(nnx.eval_shape(make), nnx.Param)))


@pytest.mark.parametrize("D, H, table", [
    (3, 5, [45, 200, 180, 150, 140, 135]), pytest.param(1, 1, None, marks=slow), pytest.param(4, 9, None, marks=slow),
])  # fmt: skip
def test_parameter_counts(D, H, table):
    """Those of this module and of Flax; the formulas give the chapter's table at D = 3, H = 5."""
    vanilla = D * H + H**2 + H
    lstm_two, lstm, gru_two, gru_inner, gru = 4 * (vanilla + H), 4 * vanilla, 3 * (vanilla + H), 3 * vanilla + H, 3 * vanilla
    assert table in (None, [vanilla, lstm_two, lstm, gru_two, gru_inner, gru])
    key, h, x = jax.random.key(0), jnp.zeros(H), jnp.zeros(D)
    ours = [count(lambda: init(key, D, H)) for init in (vanilla_rnn.init, gates.init_lstm, gates.init_gru)]
    assert ours == [vanilla, lstm, gru_inner]
    assert [count_nnx(lambda: module(D, H, rngs=nnx.Rngs(0))) for module in (gates.LSTM, gates.GRU)] == [lstm, gru_inner]
    in_linen = [(linen.SimpleCell, h), (linen.LSTMCell, (h, h)), (linen.OptimizedLSTMCell, (h, h)), (linen.GRUCell, h)]
    assert [count(lambda: cell(H).init(key, carry, x)) for cell, carry in in_linen] == [vanilla, lstm, lstm, gru_inner]
    in_nnx = [nnx.SimpleCell, nnx.LSTMCell, nnx.OptimizedLSTMCell, nnx.GRUCell]
    assert [count_nnx(lambda: cell(D, H, rngs=nnx.Rngs(0))) for cell in in_nnx] == [vanilla, lstm, lstm, gru]
    relatives = {"coupled": 3 * vanilla, "peephole": 4 * vanilla + 3 * H, "MGU": 2 * vanilla}
    assert {kind: sum(leaf.size for leaf in draw(kind, H, D)) for kind in relatives} == relatives


@pytest.mark.parametrize("D, H", [(3, 5), (1, 1), (4, 9)])
def test_parameter_counts_of_torch(torch, D, H):
    """Two biases a gate, where one is enough."""
    counts = [sum(values.numel() for values in getattr(torch.nn, kind)(D, H).parameters()) for kind in ("RNN", "LSTM", "GRU")]
    assert counts == [factor * (D * H + H**2 + 2 * H) for factor in (1, 4, 3)]


@slow
@pytest.mark.parametrize("D, H", [(3, 5), (1, 1), (4, 9)])
def test_parameter_counts_of_keras(keras, D, H):
    cells = [("SimpleRNN", {}), ("LSTM", {}), ("GRU", {}), ("GRU", {"reset_after": False})]
    counts = [sum(values.size for values in keras_cell(keras, kind, D, H, **options).arrays.values()) for kind, options in cells]
    vanilla = D * H + H**2 + H
    assert counts == [vanilla, 4 * vanilla, 3 * (vanilla + H), 3 * vanilla]
