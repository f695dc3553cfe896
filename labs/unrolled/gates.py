"""Recurrent cells with gates: the LSTM, the GRU and their relatives, and their weights in other libraries (chapter 2)."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.nn import sigmoid
from jaxtyping import Array, Bool, Float, Key

from unrolled import vanilla_rnn
from unrolled.shapes import Size, checked
from unrolled.vanilla_rnn import Recurrent

# ---------------------------------------------------------------- the LSTM


class LSTMParams(NamedTuple):
    """The weights of an LSTM: rows i, f, g, o for the input gate, forget gate, candidate and output gate."""

    W: Float[Array, "4 H H"]
    U: Float[Array, "4 H D"]
    b: Float[Array, "4 H"]


class LSTMState(NamedTuple):
    """What an LSTM carries: the hidden state h, which is seen, and the cell c, which keeps."""

    h: Float[Array, "H"]
    c: Float[Array, "H"]


class LSTMGates(NamedTuple):
    """The three gates i, f, o, between 0 and 1, and the candidate g, between -1 and 1."""

    i: Float[Array, "H"]
    f: Float[Array, "H"]
    g: Float[Array, "H"]
    o: Float[Array, "H"]


@checked
def lstm_gates(params: LSTMParams, state: LSTMState, x: Float[Array, "D"]) -> LSTMGates:
    """Opens the gates, and forms the candidate, from the input and the hidden state.

        i_t = σ(W_i h_{t-1} + U_i x_t + b_i), f_t and o_t alike;  g_t = tanh(W_g h_{t-1} + U_g x_t + b_g)

    Args:
        params: W (4, H, H), U (4, H, D) and b (4, H), in the order i, f, g, o.
        state: h_{t-1} and c_{t-1}, (H,) each.
        x: the input x_t, (D,).

    Returns:
        i_t, f_t, g_t and o_t, (H,) each.

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape.

    Source: torch.nn.LSTM, which adds two biases where one is enough.
    """
    i, f, g, o = params.W @ state.h + params.U @ x + params.b
    return LSTMGates(sigmoid(i), sigmoid(f), jnp.tanh(g), sigmoid(o))


@checked
def lstm_step(params: LSTMParams, state: LSTMState, x: Float[Array, "D"]) -> LSTMState:
    """Takes the LSTM one time step further.

        c_t = f_t ⊙ c_{t-1} + i_t ⊙ g_t,  h_t = o_t ⊙ tanh(c_t)

    Args:
        params: W (4, H, H), U (4, H, D) and b (4, H), in the order i, f, g, o.
        state: h_{t-1} and c_{t-1}, (H,) each.
        x: the input x_t, (D,).

    Returns:
        h_t and c_t, (H,) each.

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape.

    Source: Hochreiter and Schmidhuber, Long short-term memory, 1997; the forget gate f: Gers, Schmidhuber and
    Cummins, Learning to forget, 2000.
    """
    i, f, g, o = lstm_gates(params, state, x)
    c = f * state.c + i * g
    return LSTMState(o * jnp.tanh(c), c)


# ---------------------------------------------------------------- the GRU


class GRUParams(NamedTuple):
    """The weights of a GRU: rows r, z, n for the reset gate, update gate and candidate; b_n lies within the reset."""

    W: Float[Array, "3 H H"]
    U: Float[Array, "3 H D"]
    b: Float[Array, "3 H"]
    b_n: Float[Array, "H"]


class GRUGates(NamedTuple):
    """The reset gate r and the update gate z, between 0 and 1, and the candidate n, between -1 and 1."""

    r: Float[Array, "H"]
    z: Float[Array, "H"]
    n: Float[Array, "H"]


@checked
def gru_gates(params: GRUParams, h: Float[Array, "H"], x: Float[Array, "D"]) -> GRUGates:
    """Opens the gates and forms the candidate; the reset gate acts on W_n h_{t-1}.

        r_t = σ(W_r h_{t-1} + U_r x_t + b_r), z_t alike;  n_t = tanh(U_n x_t + b_n + r_t ⊙ (W_n h_{t-1} + b_n'))

    Args:
        params: W (3, H, H), U (3, H, D) and b (3, H), in the order r, z, n, and b_n' as b_n, (H,).
        h: the state h_{t-1}, (H,).
        x: the input x_t, (D,).

    Returns:
        r_t, z_t and n_t, (H,) each.

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape.

    Source: torch.nn.GRU.
    """
    (h_r, h_z, h_n), (x_r, x_z, x_n) = params.W @ h, params.U @ x + params.b
    r, z = sigmoid(h_r + x_r), sigmoid(h_z + x_z)
    return GRUGates(r, z, jnp.tanh(x_n + r * (h_n + params.b_n)))


@checked
def gru_step(
    params: GRUParams, h: Float[Array, "H"], x: Float[Array, "D"]
) -> Float[Array, "H"]:
    """Takes the GRU one time step further; z is the share of the old state.

        h_t = z_t ⊙ h_{t-1} + (1 - z_t) ⊙ n_t

    Args:
        params: W (3, H, H), U (3, H, D) and b (3, H), in the order r, z, n, and b_n (H,).
        h: the state h_{t-1}, (H,).
        x: the input x_t, (D,).

    Returns:
        The state h_t, (H,).

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape.

    Source: Cho et al., Learning phrase representations using RNN encoder-decoder, 2014, with the reset gate where
    torch.nn.GRU has it.
    """
    r, z, n = gru_gates(params, h, x)
    return z * h + (1 - z) * n


# ---------------------------------------------------------------- relatives


class CoupledParams(NamedTuple):
    """The weights of an LSTM whose input gate is 1 - f: rows f, g, o."""

    W: Float[Array, "3 H H"]
    U: Float[Array, "3 H D"]
    b: Float[Array, "3 H"]


class PeepholeParams(NamedTuple):
    """The weights of an LSTM whose gates see the cell: rows i, f, g, o, and P with rows i, f, o."""

    W: Float[Array, "4 H H"]
    U: Float[Array, "4 H D"]
    b: Float[Array, "4 H"]
    P: Float[Array, "3 H"]


class MGUParams(NamedTuple):
    """The weights of a minimal gated unit: rows f, n for its one gate and the candidate."""

    W: Float[Array, "2 H H"]
    U: Float[Array, "2 H D"]
    b: Float[Array, "2 H"]


@checked
def coupled_step(
    params: CoupledParams, state: LSTMState, x: Float[Array, "D"]
) -> LSTMState:
    """Takes an LSTM one step further that writes as much as it forgets.

        c_t = f_t ⊙ c_{t-1} + (1 - f_t) ⊙ g_t,  h_t = o_t ⊙ tanh(c_t)

    Args:
        params: W (3, H, H), U (3, H, D) and b (3, H), in the order f, g, o.
        state: h_{t-1} and c_{t-1}, (H,) each.
        x: the input x_t, (D,).

    Returns:
        h_t and c_t, (H,) each.

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape.

    Source: Greff et al., LSTM: a search space odyssey, 2015, variant CIFG.
    """
    f, g, o = params.W @ state.h + params.U @ x + params.b
    f, g, o = sigmoid(f), jnp.tanh(g), sigmoid(o)
    c = f * state.c + (1 - f) * g
    return LSTMState(o * jnp.tanh(c), c)


@checked
def peephole_step(
    params: PeepholeParams, state: LSTMState, x: Float[Array, "D"]
) -> LSTMState:
    """Takes an LSTM one step further whose gates see the cell: i and f the old, o the new.

        i_t = σ(… + p_i ⊙ c_{t-1}),  f_t = σ(… + p_f ⊙ c_{t-1}),  o_t = σ(… + p_o ⊙ c_t)

    The dots stand for W h_{t-1} + U x_t + b; the rest is as in `lstm_step`.

    Args:
        params: W (4, H, H), U (4, H, D) and b (4, H), in the order i, f, g, o, and P (3, H), in the order i, f, o.
        state: h_{t-1} and c_{t-1}, (H,) each.
        x: the input x_t, (D,).

    Returns:
        h_t and c_t, (H,) each.

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape.

    Source: Gers and Schmidhuber, Recurrent nets that time and count, 2000.
    """
    i, f, g, o = params.W @ state.h + params.U @ x + params.b
    p_i, p_f, p_o = params.P
    c = sigmoid(f + p_f * state.c) * state.c + sigmoid(i + p_i * state.c) * jnp.tanh(g)
    return LSTMState(sigmoid(o + p_o * c) * jnp.tanh(c), c)


@checked
def gru_before_step(
    params: GRUParams, h: Float[Array, "H"], x: Float[Array, "D"]
) -> Float[Array, "H"]:
    """Takes a GRU one step further whose reset gate acts on h, before the product.

        n_t = tanh(U_n x_t + b_n + W_n (r_t ⊙ h_{t-1}) + b_n')

    The gates, and what is done with n_t, are those of `gru_step`.

    Args:
        params: W (3, H, H), U (3, H, D) and b (3, H), in the order r, z, n, and b_n' as b_n, (H,).
        h: the state h_{t-1}, (H,).
        x: the input x_t, (D,).

    Returns:
        The state h_t, (H,).

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape.

    Source: Cho et al., 2014, equation 8.
    """
    r, z, _ = gru_gates(params, h, x)
    n = jnp.tanh(params.W[2] @ (r * h) + params.b_n + params.U[2] @ x + params.b[2])
    return z * h + (1 - z) * n


@checked
def mgu_step(
    params: MGUParams, h: Float[Array, "H"], x: Float[Array, "D"]
) -> Float[Array, "H"]:
    """Takes a minimal gated unit one step further; f is the share of the new.

        f_t = σ(W_f h_{t-1} + U_f x_t + b_f),  n_t = tanh(W_n (f_t ⊙ h_{t-1}) + U_n x_t + b_n)
        h_t = (1 - f_t) ⊙ h_{t-1} + f_t ⊙ n_t

    Args:
        params: W (2, H, H), U (2, H, D) and b (2, H), in the order f, n.
        h: the state h_{t-1}, (H,).
        x: the input x_t, (D,).

    Returns:
        The state h_t, (H,).

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape.

    Source: Zhou et al., Minimal gated unit for recurrent neural networks, 2016.
    """
    (W_f, W_n), (from_f, from_n) = params.W, params.U @ x + params.b
    f = sigmoid(W_f @ h + from_f)
    return (1 - f) * h + f * jnp.tanh(W_n @ (f * h) + from_n)


# ---------------------------------------------------------------- along a sequence


def zero_state(params: Any) -> Any:
    """The state that a cell starts from where none is given: zeros, in the form that the cell carries.

    Args:
        params: the weights of one of the cells of this module, or of `vanilla_rnn`.

    Returns:
        An LSTMState where the cell has one, an array (H,) elsewhere.
    """
    zeros = jnp.zeros(params.W.shape[-1], params.W.dtype)
    return LSTMState(zeros, zeros) if isinstance(params, (LSTMParams, CoupledParams, PeepholeParams)) else zeros


@checked
def unroll(
    step: Callable, params: Any, x: Float[Array, "T D"], start: Any = None,
    valid: Bool[Array, "T"] | None = None, reverse: bool = False,
) -> Any:
    """Runs a cell along a sequence; where valid is False the state passes unchanged.

        s_t = step(params, s_{t-1}, x_t) where valid_t, and s_{t-1} elsewhere, for t = 1, ..., T

    What stands in a padded input, NaN included, reaches neither the states nor a gradient.

    Args:
        step: (params, state, input (D,)) -> state; any cell of this module, or `vanilla_rnn.step`.
        params: its weights.
        x: the inputs x_1, ..., x_T, (T, D).
        start: the state s_0; zeros if None.
        valid: False for padding, (T,); if None, there is none.
        reverse: whether to go from x_T to x_1. Then s_{T+1} is the start and s_t follows s_{t+1}.

    Returns:
        The states s_1, ..., s_T: a state whose arrays have a leading axis T.

    Raises:
        TypeError, ValueError: an argument is not of the right form, or T is 0.
    """
    if start is None:
        start = zero_state(params)
    if valid is None:
        inputs, advance = x, step
    else:
        inputs = (jnp.where(valid[:, None], x, 0), valid)

        def advance(params, state, now):
            x_t, valid_t = now
            new = step(params, state, x_t)
            return jax.tree.map(lambda new, old: jnp.where(valid_t, new, old), new, state)

    def forward(state, now):
        state = advance(params, state, now)
        return state, state

    return jax.lax.scan(forward, start, inputs, reverse=reverse)[1]


@checked
def run(
    step: Callable, layers: Any, x: Float[Array, "T D"], start: Any = None, valid: Bool[Array, "T"] | None = None,
) -> tuple[Array, Any]:
    """Runs layers on top of each other, each forward in time, or forward and backward.

    A layer reads the hidden states of the layer below, both directions side by side.

    Args:
        step: the step of all cells, as in `unroll`.
        layers: for each layer, a tuple of the weights of its cells: one, or one a direction.
        x: the inputs x_1, ..., x_T, (T, D).
        start: the first states, in the form of layers; zeros if None.
        valid: False for padding, (T,); if None, there is none.

    Returns:
        The hidden states of the last layer, (T, H) or (T, 2H), and the last states of all cells, in the form of
        layers; the last state of a backward cell is that at step 1.

    Raises:
        TypeError, ValueError: an argument is not of the right form, or T is 0.

    Source: torch.nn.LSTM with num_layers and bidirectional; Schuster and Paliwal, Bidirectional recurrent neural
    networks, 1997.
    """
    last = []
    for number, directions in enumerate(layers):
        starts = [None] * len(directions) if start is None else start[number]
        states = [unroll(step, params, x, first, valid, reverse=backward == 1)
                  for backward, (params, first) in enumerate(zip(directions, starts, strict=True))]
        x = jnp.concatenate([s.h if isinstance(s, LSTMState) else s for s in states], axis=1)
        last.append(tuple(jax.tree.map(lambda s, end=end: s[end], s) for s, end in zip(states, (-1, 0))))
    return x, last


# ---------------------------------------------------------------- what is kept, and what comes back


@checked
def forget_product(f: Float[Array, "T H"]) -> Float[Array, "T+1 H"]:
    """Multiplies the forget gates after each step: what c_T keeps of c_k directly.

        f_T ⊙ f_{T-1} ⊙ ··· ⊙ f_{k+1} for k = 0, ..., T

    Args:
        f: the forget gates f_1, ..., f_T, (T, H).

    Returns:
        The products, (T+1, H): entry k belongs to c_k, so the last one is 1.

    Raises:
        TypeError, ValueError: f is not an array of numbers of the right shape, or T is 0.
    """
    products = jnp.cumprod(f[::-1], axis=0)[::-1]
    return jnp.concatenate([products, jnp.ones_like(f[:1])])


@checked
def cell_derivatives(
    params: LSTMParams, start: LSTMState, x: Float[Array, "T D"]
) -> Float[Array, "T+1 H H"]:
    """Differentiates the last cell c_T by every c_k, h_k held fixed, along all paths.

        ∂c_T/∂c_k = the block (c, c) of J_T J_{T-1} ··· J_{k+1},  J_t = ∂(h_t, c_t)/∂(h_{t-1}, c_{t-1})

    For one step it is diag(f_T). Over more steps, for k < T - 1, paths by way of h come in, through the candidate and the gates.

    Args:
        params: W (4, H, H), U (4, H, D) and b (4, H).
        start: h_0 and c_0, (H,) each.
        x: the inputs x_1, ..., x_T, (T, D).

    Returns:
        The derivatives, (T+1, H, H): entry k is ∂c_T/∂c_k, so the last one is the identity.

    Raises:
        TypeError, ValueError: an argument is not an array of numbers of the right shape, or T is 0.
    """
    def forward(state, x_t):
        step = lambda state: lstm_step(params, state, x_t)
        return step(state), jax.jacfwd(step)(state)

    _, J = jax.lax.scan(forward, start, x)

    def back(later, J_t):
        by_h, by_c = later  # ∂c_T/∂h_t and ∂c_T/∂c_t
        now = by_h @ J_t.h.h + by_c @ J_t.c.h, by_h @ J_t.h.c + by_c @ J_t.c.c
        return now, now[1]

    identity = jnp.eye(len(start.c), dtype=start.c.dtype)
    last = (jnp.zeros_like(identity), identity)
    _, derivatives = jax.lax.scan(back, last, J, reverse=True)
    return jnp.concatenate([derivatives, identity[None]])


@checked
def gru_weights(z: Float[Array, "T H"]) -> Float[Array, "T+1 H"]:
    """Writes the last state of a GRU as a weighted sum of its start and its candidates.

        h_T = w_0 ⊙ h_0 + Σ_i w_i ⊙ n_i,  w_0 = z_T ⊙ ··· ⊙ z_1,  w_i = z_T ⊙ ··· ⊙ z_{i+1} ⊙ (1 - z_i)

    Args:
        z: the update gates z_1, ..., z_T, (T, H).

    Returns:
        The weights w_0, ..., w_T, (T+1, H); for each unit they add up to 1.

    Raises:
        TypeError, ValueError: z is not an array of numbers of the right shape, or T is 0.

    Source: after Ogun, From GRU to transformer, 2020, an early version of which has other products.
    """
    kept = forget_product(z)
    return jnp.concatenate([kept[:1], (1 - z) * kept[1:]])


# ---------------------------------------------------------------- first weights, and modules that hold them


@checked
def init_lstm(
    key: Key[Array, ""], D: Size, H: Size, forget: float = 1.0, recurrent: Recurrent = "uniform"
) -> LSTMParams:
    """Draws the weights of an LSTM, each gate as `vanilla_rnn.init` draws a cell; the forget bias is set.

        U, b ~ Uniform(-1/√H, 1/√H),  W as `recurrent` says,  b_f = forget

    Args:
        key: a random key.
        D: the number of inputs.
        H: the number of units.
        forget: the bias of the forget gate; 0 keeps half at every step, 1 about three quarters.
        recurrent: "uniform", "orthogonal" or "identity", for the matrix of each gate.

    Returns:
        W (4, H, H), U (4, H, D) and b (4, H).

    Raises:
        TypeError: key is not a random key, or D or H is not an integer.
        ValueError: D or H is below 1, or recurrent is none of the three.

    Source: the forget bias of 1: Jozefowicz, Zaremba and Sutskever, An empirical exploration of recurrent network
    architectures, 2015.
    """
    W, U, b = jax.vmap(lambda key: vanilla_rnn.init(key, D, H, recurrent))(jax.random.split(key, 4))
    return LSTMParams(W, U, b.at[1].set(forget))


@checked
def init_gru(key: Key[Array, ""], D: Size, H: Size, recurrent: Recurrent = "uniform") -> GRUParams:
    """Draws the weights of a GRU, each gate as `vanilla_rnn.init` draws a cell.

        U, b, b_n ~ Uniform(-1/√H, 1/√H),  W as `recurrent` says

    Args:
        key: a random key.
        D: the number of inputs.
        H: the number of units.
        recurrent: "uniform", "orthogonal" or "identity", for the matrix of each gate.

    Returns:
        W (3, H, H), U (3, H, D), b (3, H) and b_n (H,).

    Raises:
        TypeError: key is not a random key, or D or H is not an integer.
        ValueError: D or H is below 1, or recurrent is none of the three.
    """
    *keys, key_n = jax.random.split(key, 4)
    W, U, b = jax.vmap(lambda key: vanilla_rnn.init(key, D, H, recurrent))(jnp.stack(keys))
    return GRUParams(W, U, b, vanilla_rnn.init(key_n, D, H).b)


class Layers(nnx.Module):
    """Layers of one kind of cell, in one direction or two: a shell that holds their weights as `nnx.Param`s.

    Args:
        step: the step of all cells, as in `unroll`.
        layers: the weights, in the form that `run` takes, `from_torch` returns and `to_torch` accepts.
    """

    def __init__(self, step: Callable, layers: list[tuple]):
        self.step = step
        self.weights = nnx.data(jax.tree.map(nnx.Param, list(layers)))

    @property
    def layers(self) -> list[tuple]:
        """The weights as plain arrays, in the form that `run` takes."""
        return jax.tree.map(lambda param: param[...], list(self.weights), is_leaf=lambda leaf: isinstance(leaf, nnx.Param))

    def __call__(self, x: Array, start: Any = None, valid: Array | None = None) -> tuple[Array, Any]:
        """Reads one sequence, (T, D), as `run` does; `jax.vmap` reads a batch."""
        return run(self.step, self.layers, x, start, valid)


class LSTM(Layers):
    """LSTM layers with weights drawn by `init_lstm`: `LSTM(D=2, H=32, rngs=nnx.Rngs(0))`.

    Args:
        D: the number of inputs.
        H: the number of units of each cell.
        layers: the number of layers.
        both: whether each layer also has a cell that reads backward.
        forget: the bias of the forget gates at the start.
        rngs: the random numbers, `nnx.Rngs(0)`.
    """

    def __init__(self, D: int, H: int, *, layers: int = 1, both: bool = False, forget: float = 1.0, rngs: nnx.Rngs):
        super().__init__(lstm_step, _draw(lambda key, D: init_lstm(key, D, H, forget), D, H, layers, both, rngs))


class GRU(Layers):
    """GRU layers with weights drawn by `init_gru`: `GRU(D=2, H=32, rngs=nnx.Rngs(0))`.

    Args:
        D: the number of inputs.
        H: the number of units of each cell.
        layers: the number of layers.
        both: whether each layer also has a cell that reads backward.
        rngs: the random numbers, `nnx.Rngs(0)`.
    """

    def __init__(self, D: int, H: int, *, layers: int = 1, both: bool = False, rngs: nnx.Rngs):
        super().__init__(gru_step, _draw(lambda key, D: init_gru(key, D, H), D, H, layers, both, rngs))


def _draw(init: Callable, D: int, H: int, layers: int, both: bool, rngs: nnx.Rngs) -> list[tuple]:
    """The first weights of a stack of layers, in the form that `run` takes."""
    directions = 2 if both else 1
    return [tuple(init(rngs.params(), width) for _ in range(directions))
            for width in [D] + [directions * H] * (layers - 1)]


# ---------------------------------------------------------------- weights of other libraries


def from_torch(arrays: Mapping[str, Any]) -> list[tuple]:
    """Takes the weights of `torch.nn.LSTM` or `torch.nn.GRU`, all layers and directions.

    PyTorch stacks the gates in the order i, f, g, o, or r, z, n, and has two biases a gate; they are added, except
    that of the GRU's candidate which the reset gate multiplies. A module without biases gives zeros.

    Args:
        arrays: its `state_dict()`, or NumPy arrays under the same names: weight_ih_l0 (4H, D), weight_hh_l0 (4H, H),
            bias_ih_l0 and bias_hh_l0 (4H,), the names of other layers, and those that end in _reverse.

    Returns:
        For each layer a tuple with the weights of its cells, LSTMParams or GRUParams: what `run` and `Layers` take.

    Raises:
        ValueError: a name is missing or unknown, or a shape is that of no LSTM or GRU.

    Source: torch/nn/modules/rnn.py of PyTorch.
    """
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    unknown = [name for name in arrays if not re.fullmatch(r"(weight|bias)_[ih]h_l\d+(_reverse)?", name)]
    if unknown or "weight_hh_l0" not in arrays:
        raise ValueError(f"from_torch: the names given are {', '.join(arrays) or 'none'}. Expected those of torch.nn.LSTM or "
                         f"torch.nn.GRU, weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 and so on"
                         f"{', without ' + ', '.join(unknown) if unknown else ''}: give module.state_dict().")
    layers = 1 + max(int(re.search(r"_l(\d+)", name)[1]) for name in arrays)
    ends = ["", "_reverse"] if "weight_hh_l0_reverse" in arrays else [""]
    return [tuple(_from_torch(arrays, f"_l{layer}{end}") for end in ends) for layer in range(layers)]


def _from_torch(arrays: Mapping[str, np.ndarray], end: str) -> LSTMParams | GRUParams:
    """The weights of one cell, whose names end in `end`."""
    missing = [name + end for name in ("weight_ih", "weight_hh") if name + end not in arrays]
    if missing:
        raise ValueError(f"from_torch: {' and '.join(missing)} is missing. Expected the weights of every layer and direction: "
                         "give module.state_dict().")
    W, U = arrays["weight_hh" + end], arrays["weight_ih" + end]
    rows, H = W.shape
    if rows not in (3 * H, 4 * H):
        raise ValueError(f"from_torch: weight_hh{end} has shape {W.shape}. Expected (4H, H), an LSTM, or (3H, H), a GRU: "
                         "a plain torch.nn.RNN and an LSTM with proj_size have no place here.")
    gates = rows // H
    zero = np.zeros(rows, W.dtype)
    b_x, b_h = (jnp.asarray(arrays.get(name + end, zero).reshape(gates, H)) for name in ("bias_ih", "bias_hh"))
    W, U = jnp.asarray(W.reshape(gates, H, H)), jnp.asarray(U.reshape(gates, H, -1))
    return LSTMParams(W, U, b_x + b_h) if gates == 4 else GRUParams(W, U, b_x.at[:2].add(b_h[:2]), b_h[2])


def to_torch(layers: list[tuple]) -> dict[str, np.ndarray]:
    """Gives weights back under PyTorch's names, for `load_state_dict` after `torch.from_numpy`.

    Args:
        layers: for each layer a tuple with the weights of its cells, LSTMParams or GRUParams.

    Returns:
        NumPy arrays under the names of the state_dict; bias_hh is zero but for the GRU's b_n.

    Raises:
        TypeError: a cell is neither.
    """
    arrays = {}
    for layer, directions in enumerate(layers):
        for params, end in zip(directions, (f"_l{layer}", f"_l{layer}_reverse")):
            _check_kind("to_torch", params)
            b_h = jnp.zeros_like(params.b) if isinstance(params, LSTMParams) else jnp.zeros_like(params.b).at[2].set(params.b_n)
            stacked = {"weight_ih": params.U, "weight_hh": params.W, "bias_ih": params.b, "bias_hh": b_h}
            arrays |= {name + end: np.asarray(array.reshape(-1, *array.shape[2:])) for name, array in stacked.items()}
    return arrays


def from_linen(tree: Mapping[str, Any]) -> LSTMParams | GRUParams:
    """Takes the weights of a Flax Linen `LSTMCell`, `OptimizedLSTMCell` or `GRUCell`.

    Linen has a Dense layer for each gate and side, with transposed kernels: ii, if, ig, io on the input's side and
    hi, hf, hg, ho with the biases on the other; or ir, iz, in with biases, and hr, hz, and hn with the bias b_n.

    Args:
        tree: its parameters, `variables["params"]`.

    Returns:
        LSTMParams or GRUParams.

    Raises:
        ValueError: the names are those of no LSTM or GRU.

    Source: flax/linen/recurrent.py.
    """
    if set(tree) == {side + gate for side in "ih" for gate in "ifgo"}:
        order, with_bias = "ifgo", "h"
    elif set(tree) == {side + gate for side in "ih" for gate in "rzn"}:
        order, with_bias = "rzn", "i"
    else:
        raise ValueError(f"from_linen: the names given are {', '.join(tree) or 'none'}. Expected those of an LSTM, ii to ho, or of "
                         "a GRU, ir to hn: give variables[\"params\"] of the cell.")
    W, U = (jnp.stack([jnp.asarray(tree[side + gate]["kernel"]).T for gate in order]) for side in "hi")
    b = jnp.stack([jnp.asarray(tree[with_bias + gate]["bias"]) for gate in order])
    return LSTMParams(W, U, b) if order == "ifgo" else GRUParams(W, U, b, jnp.asarray(tree["hn"]["bias"]))


def to_linen(params: LSTMParams | GRUParams) -> dict[str, dict[str, Array]]:
    """Gives weights in the form of Linen: cell.apply({"params": to_linen(params)}, …).

    Args:
        params: LSTMParams or GRUParams.

    Returns:
        Kernels and biases under Linen's names.

    Raises:
        TypeError: params is neither.
    """
    _check_kind("to_linen", params)
    order, with_bias = ("ifgo", "h") if isinstance(params, LSTMParams) else ("rzn", "i")
    tree = {}
    for gate, W, U, b in zip(order, params.W, params.U, params.b):
        tree |= {"h" + gate: {"kernel": W.T}, "i" + gate: {"kernel": U.T}}
        tree[with_bias + gate]["bias"] = b
    if isinstance(params, GRUParams):
        tree["hn"]["bias"] = params.b_n
    return tree


def from_nnx(cell: nnx.Module) -> LSTMParams | GRUParams:
    """Takes the weights of an `nnx.LSTMCell`, `nnx.OptimizedLSTMCell` or `nnx.GRUCell`.

    The first has a Linear for each gate and side; the others have one kernel a side, (D, 4H) or (D, 3H), with the
    gates side by side in our order. The GRU has biases on the input's side alone, so b_n is zero.

    Args:
        cell: the cell.

    Returns:
        LSTMParams or GRUParams.

    Raises:
        TypeError: cell is none of the three.

    Source: flax/nnx/nn/recurrent.py.
    """
    if isinstance(cell, nnx.LSTMCell):
        U, W = (jnp.stack([linear.kernel[...].T for linear in side]) for side in _linears(cell))
        return LSTMParams(W, U, jnp.stack([linear.bias[...] for linear in _linears(cell)[1]]))
    if not isinstance(cell, (nnx.OptimizedLSTMCell, nnx.GRUCell)):
        raise TypeError(f"from_nnx: cell is of type {type(cell).__name__}. Expected nnx.LSTMCell, nnx.OptimizedLSTMCell or "
                        "nnx.GRUCell: give the cell itself, for example rnn.cell.")
    H = cell.hidden_features
    U, W = (dense.kernel[...].T.reshape(-1, H, dense.kernel.shape[0]) for dense in (cell.dense_i, cell.dense_h))
    if isinstance(cell, nnx.OptimizedLSTMCell):
        return LSTMParams(W, U, cell.dense_h.bias[...].reshape(4, H))
    return GRUParams(W, U, cell.dense_i.bias[...].reshape(3, H), jnp.zeros(H, W.dtype))


def to_nnx(params: LSTMParams | GRUParams, cell: nnx.Module) -> None:
    """Writes weights into an `nnx.LSTMCell`, `nnx.OptimizedLSTMCell` or `nnx.GRUCell`, in place.

    Args:
        params: LSTMParams or GRUParams.
        cell: a cell of the same kind and sizes.

    Raises:
        TypeError: the cell is not of the kind of params.
        ValueError: the sizes differ; or the cell is an `nnx.GRUCell`, which has no place for b_n, and b_n is not zero.

    Source: flax/nnx/nn/recurrent.py.
    """
    _check_kind("to_nnx", params)
    lstm = isinstance(params, LSTMParams)
    if not isinstance(cell, (nnx.LSTMCell, nnx.OptimizedLSTMCell) if lstm else nnx.GRUCell):
        expected = "nnx.LSTMCell or nnx.OptimizedLSTMCell" if lstm else "nnx.GRUCell"
        raise TypeError(f"to_nnx: cell is of type {type(cell).__name__}. Expected {expected}, since params are "
                        f"{type(params).__name__}: make such a cell.")
    sizes, (_, H, D) = (cell.in_features, cell.hidden_features), params.U.shape
    if sizes != (D, H):
        raise ValueError(f"to_nnx: the cell has {sizes[0]} inputs and {sizes[1]} units. Expected {D} and {H}, those of params: "
                         f"write nnx.{type(cell).__name__}({D}, {H}, rngs=nnx.Rngs(0)).")
    if not lstm and np.any(np.asarray(params.b_n)):
        raise ValueError("to_nnx: params.b_n is not zero, and nnx.GRUCell has no bias within the reset gate, so it can't hold these "
                         "weights. Expected b_n = 0: use flax.linen.GRUCell, torch.nn.GRU or gates.gru_step, or train with b_n at 0.")
    if isinstance(cell, nnx.LSTMCell):
        for linears, stacked in zip(_linears(cell), (params.U, params.W)):
            for linear, M in zip(linears, stacked):
                linear.kernel[...] = M.T
        for linear, bias in zip(_linears(cell)[1], params.b):
            linear.bias[...] = bias
    else:
        cell.dense_i.kernel[...] = params.U.reshape(-1, D).T
        cell.dense_h.kernel[...] = params.W.reshape(-1, H).T
        (cell.dense_h if lstm else cell.dense_i).bias[...] = params.b.reshape(-1)


def _linears(cell: nnx.LSTMCell) -> tuple[list, list]:
    """The layers of an `nnx.LSTMCell` in our order, those for the input and those for the hidden state."""
    return [cell.ii, cell.if_, cell.ig, cell.io], [cell.hi, cell.hf, cell.hg, cell.ho]


def _check_kind(function: str, params: Any) -> None:
    if not isinstance(params, (LSTMParams, GRUParams)):
        raise TypeError(f"{function}: params is of type {type(params).__name__}. Expected LSTMParams or GRUParams: other cells have no "
                        "counterpart there.")
