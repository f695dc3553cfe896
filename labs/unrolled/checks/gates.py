"""Checks of lab 2, on gated cells whose weights stand side by side in columns.

    a = h_{t-1} W + x_t U + b, cut into blocks: f, i, o, g for the LSTM, f, o, g with coupled gates, z, r, n for the GRU, f, n
    for the minimal gated unit

Right results come from slow loops over the equations in NumPy, and from finite differences of them. The result of a
mistake comes from the same loop with that mistake in it.
"""

import functools
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np

from unrolled.checks import check
from unrolled.checks.compare import close, difference
from unrolled.gates import LSTMState

# What lab 2 may use of the package: all but the functions that it asks for.
ALLOWED = {"explore", "plots", "runtime", "shapes", "tasks", "train", "gates.LSTMState", "vanilla_rnn.Params", "vanilla_rnn.init"}

exercise = functools.partial(check, allowed=ALLOWED)


# ---------------------------------------------------------------- cases

SIZES = ((4, 3), (3, 3), (1, 1), (5, 1))  # H, D


def drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def weights_of(rng: np.random.Generator, blocks: int, H: int, D: int) -> tuple:
    """Random W (H, blocks H), U (D, blocks H) and b (blocks H,); no bias is zero."""
    return drawn(rng, H, blocks * H) / np.float32(H**0.5), drawn(rng, D, blocks * H), drawn(rng, blocks * H)


def state_of(rng: np.random.Generator, H: int) -> LSTMState:
    return LSTMState(np.tanh(drawn(rng, H)), drawn(rng, H))


# ---------------------------------------------------------------- the slow cells


def sigma(a: Any) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


def blocks(params: tuple, h: Any, x: Any, order: str, others: str = "") -> list:
    """The blocks of h W + x U + b, named by `others` in the order in which they stand, and returned in `order`."""
    with np.errstate(invalid="ignore"):  # a padded input may be anything
        a = h @ params[0] + x @ params[1] + params[2]
    found = dict(zip(others or order, np.split(a, len(order))))
    return [found[name] for name in order]


def lstm(params: tuple, state: tuple, x: Any, others: str = "", gate: Callable = sigma, candidate: Callable = np.tanh,
         keep: Callable = lambda f, i, g, c: f * c + i * g, show: Callable = lambda o, new, old: o * np.tanh(new)) -> tuple:  # fmt: skip
    """h_t and c_t of exercise 1, in pieces that can be replaced."""
    h, c = state
    f, i, o, g = blocks(params, h, x, "fiog", others)
    new = keep(gate(f), gate(i), candidate(g), c)
    return show(gate(o), new, c), new


def with_weights(params: tuple, *, W: Any = None, U: Any = None, b: Any = None) -> tuple:
    changed = (params[0] if W is None else W, params[1] if U is None else U, params[2] if b is None else b)
    return changed + params[3:]


def orders(right: str, make: Callable, of: str) -> dict[str, Callable]:
    """A mistake for every other order of the columns."""
    spelled = ", ".join
    return {f"the columns of {of} are taken in the order {spelled(wrong)}: they stand in the order {spelled(right)}.":
            functools.partial(make, "".join(wrong)) for wrong in permutations(right) if "".join(wrong) != right}  # fmt: skip


# ---------------------------------------------------------------- 1: the LSTM in another order


def lstm_steps(rng: np.random.Generator) -> list:
    return [(weights_of(rng, 4, H, D), state_of(rng, H), drawn(rng, D)) for H, D in SIZES]


@exercise(lstm_steps)
def step(inputs: tuple, outputs: Any) -> str:
    params, (h, c), x = inputs
    W, U, b = params
    state = (h, c)
    right = lstm(params, state, x)
    other = functools.partial(lstm, params, state, x)
    raw_o = blocks(params, h, x, "fiog")[2]
    interleaved = lambda array: array.reshape(*array.shape[:-1], len(h), 4).swapaxes(-1, -2).reshape(array.shape)
    return difference(outputs, right, "h_t (H); c_t (H)", {
        "the order is PyTorch's, i, f, g, o: here the columns stand in the order f, i, o, g.": lambda: other("ifgo"),
        **orders("fiog", other, "the products"),
        "tanh is missing on the cell: h_t = o tanh(c_t).": lambda: other(show=lambda o, new, old: o * new),
        "h_t is read from the old cell: h_t = o tanh(c_t).": lambda: other(show=lambda o, new, old: o * np.tanh(old)),
        "h_t is read from the cell with the logistic function: h_t = o tanh(c_t).": lambda: other(show=lambda o, new, old: o * sigma(new)),
        "the output gate stands inside tanh: h_t = o tanh(c_t).": lambda: other(show=lambda o, new, old: np.tanh(o * new)),
        "the output gate is not used: h_t = o tanh(c_t).": lambda: other(show=lambda o, new, old: np.tanh(new)),
        "tanh is missing on the candidate g.": lambda: other(candidate=lambda a: a),
        "the candidate g goes through the logistic function: it is a tanh.": lambda: other(candidate=sigma),
        "the gates go through tanh: they are between 0 and 1, by the logistic function.": lambda: other(gate=np.tanh),
        "the gates are not squashed: each goes through the logistic function.": lambda: other(gate=lambda a: a),
        "the forget gate is turned round: f is the share that is kept.": lambda: other(keep=lambda f, i, g, c: (1 - f) * c + i * g),
        "the input gate is not used: c_t = f c_{t-1} + i g.": lambda: other(keep=lambda f, i, g, c: f * c + g),
        "the forget gate is not used: c_t = f c_{t-1} + i g.": lambda: other(keep=lambda f, i, g, c: c + i * g),
        "1 - f stands for the input gate: here it is a gate of its own.": lambda: other(keep=lambda f, i, g, c: f * c + (1 - f) * g),
        "what is written is missing from the cell: c_t = f c_{t-1} + i g.": lambda: other(keep=lambda f, i, g, c: f * c),
        "the old cell is missing: c_t = f c_{t-1} + i g.": lambda: other(keep=lambda f, i, g, c: i * g),
        "the cell goes through tanh before it is handed on: c_t has no tanh, h_t has.":
            lambda: other(keep=lambda f, i, g, c: np.tanh(f * c + i * g), show=lambda o, new, old: o * new),
        "the cell goes through tanh on the way to c_t: only h_t has a tanh.":
            lambda: other(keep=lambda f, i, g, c: np.tanh(f * c + i * g)),
        "h and c of the state have changed places: state.h comes first.": lambda: lstm(params, (c, h), x),
        "h_t and c_t have changed places: return LSTMState(h, c).": lambda: right[::-1],
        "the old cell is returned in place of c_t.": lambda: (right[0], c),
        "h_t is returned twice: the second is c_t.": lambda: (right[0], right[0]),
        "tanh(c_t) is returned in place of c_t.": lambda: (right[0], np.tanh(right[1])),
        "the bias b is missing.": lambda: lstm(with_weights(params, b=0 * b), state, x),
        "the bias b is added twice: it belongs to the sum of both products.": lambda: lstm(with_weights(params, b=2 * b), state, x),
        "the input term x U is missing.": lambda: lstm(params, state, 0 * x),
        "the recurrent term h W is missing.": lambda: lstm(with_weights(params, W=0 * W), state, x),
        "the recurrent term reads the cell: it reads h.": lambda: lstm(params, (c, c), x),
        "the columns are cut unit by unit: the first H columns are all of f, the next H all of i.":
            lambda: lstm(tuple(map(interleaved, params)), state, x),
        "the forget gate stands alone: it multiplies the old cell.": lambda: other(keep=lambda f, i, g, c: f + i * g),
        "the candidate goes through the logistic function and tanh: tanh alone.": lambda: other(candidate=lambda a: np.tanh(sigma(a))),
        "the output gate is not squashed: it goes through the logistic function.": lambda: (raw_o * np.tanh(right[1]), right[1]),
        "1 is added to the forget gate, as some libraries do: it is in b already, if at all.":
            lambda: lstm(with_weights(params, b=b + np.repeat([1, 0, 0, 0], len(h))), state, x),
        "the gates are multiplied with @: entry by entry, f * c and i * g.": lambda: other(keep=lambda f, i, g, c: f @ c + i @ g),
        "the cell is overwritten before the step is done: c_t uses the old one.": lambda: other(keep=lambda f, i, g, c: f * (i * g) + i * g),
        "single entries are taken for the blocks: the first H columns are all of f.":
            lambda: lstm(tuple(np.repeat(a[..., :4], len(h), axis=-1) for a in params), state, x) if len(h) > 1 else -1.0,
        "W is reshaped to four blocks, which mixes its rows: the blocks stand side by side, W[:, :H] is the first.":
            lambda: lstm(with_weights(params, W=np.hstack(W.reshape(4, len(h), len(h)))), state, x),
        "the blocks of W are transposed: h W is the product wanted, with h on the left.":
            lambda: lstm(with_weights(params, W=np.hstack([block.T for block in np.hsplit(W, 4)])), state, x),
        "h_t alone is returned: return LSTMState(h, c).": lambda: right[0],
    })  # fmt: skip


# ---------------------------------------------------------------- 2: weights from PyTorch


def torch_arrays(gates: int) -> Callable:
    """Cases: the arrays of a cell under PyTorch's names, rows stacked."""
    def cases(rng: np.random.Generator) -> list:
        shapes = lambda H, D: {"weight_ih_l0": (H, D), "weight_hh_l0": (H, H), "bias_ih_l0": (H,), "bias_hh_l0": (H,)}
        return [({name: drawn(rng, gates * rows, *columns) for name, (rows, *columns) in shapes(H, D).items()},) for H, D in SIZES]
    return cases


def ported(arrays: dict, theirs: str, ours: str) -> tuple:
    """W, U and both biases with the blocks moved from one order to the other, and transposed."""
    def move(rows: Any) -> np.ndarray:
        found = dict(zip(theirs, np.split(rows, len(theirs))))
        return np.concatenate([found[name] for name in ours]).T

    return tuple(move(arrays[name]) for name in ("weight_hh_l0", "weight_ih_l0", "bias_ih_l0", "bias_hh_l0"))


def blockwise(matrix: np.ndarray, count: int) -> np.ndarray:
    """Blocks beside each other that were stacked and not transposed."""
    return np.hstack(np.vsplit(matrix.T, count))


def layouts(arrays: dict, theirs: str, ours: str, make: Callable) -> dict[str, Callable]:
    """Mistakes in moving the blocks, common to both cells; `make` adds the biases."""
    order = lambda wrong: make(*ported(arrays, theirs, wrong), wrong)
    W, U, b_x, b_h = ported(arrays, theirs, ours)
    count, (H, D) = len(ours), (len(W), len(U))
    theirs_spelled, ours_spelled = ", ".join(theirs), ", ".join(ours)
    whole = lambda: make(arrays["weight_hh_l0"], arrays["weight_ih_l0"], arrays["bias_ih_l0"], arrays["bias_hh_l0"])
    return {
        f"the blocks still stand in PyTorch's order, {theirs_spelled}: move them into the order {ours_spelled}.": lambda: order(theirs),
        "nothing is transposed or moved: the kernels are (H, ...) and (D, ...), in another order.": whole,
        "the kernels are not transposed: W is (H, ...), U is (D, ...).": lambda: make(W.T, U.T, b_x, b_h),
        "W is not transposed: PyTorch computes W h, and we h W.": lambda: make(W.T, U, b_x, b_h),
        "U is not transposed: PyTorch computes U x, and we x U.": lambda: make(W, U.T, b_x, b_h),
        "each block of W has the right place, and is not transposed.": lambda: make(blockwise(W, count), U, b_x, b_h),
        "W is reshaped, not transposed: reshape keeps the entries in their order.":
            lambda: make(W.T.reshape(H, count * H), U, b_x, b_h),
        "the kernels are reshaped, not transposed: reshape keeps the entries in their order.":
            lambda: make(W.T.reshape(H, count * H), U.T.reshape(D, count * H), b_x, b_h),
        "W and U have changed places: W comes from weight_hh_l0.": lambda: make(U, W, b_x, b_h),
        "the kernels are in our order, and the biases in PyTorch's.":
            lambda: make(W, U, *(ported(arrays, theirs, theirs)[2:])),
        "the biases are in our order, and the kernels in PyTorch's.":
            lambda: make(*(ported(arrays, theirs, theirs)[:2]), b_x, b_h),
        "one of the two biases still stands in PyTorch's order: move both before they are added.":
            lambda: make(W, U, b_x, ported(arrays, theirs, theirs)[3]),
        "one of the biases still stands in PyTorch's order: move both before they are added.":
            lambda: make(W, U, ported(arrays, theirs, theirs)[2], b_h),
        "W and the biases are in our order, and U in PyTorch's.": lambda: make(W, ported(arrays, theirs, theirs)[1], b_x, b_h),
        "the transposed blocks are stacked, one below the other: they stand side by side, with axis=1.":
            lambda: make(np.vstack(np.hsplit(W, count)), np.vstack(np.hsplit(U, count)), b_x, b_h),
        "U and the biases are in our order, and W in PyTorch's.": lambda: make(ported(arrays, theirs, theirs)[0], U, b_x, b_h),
        **orders(ours, order, "the result"),
    }  # fmt: skip


@exercise(torch_arrays(4))
def port_lstm(inputs: tuple, outputs: Any) -> str:
    (arrays,) = inputs
    make = lambda W, U, b_x, b_h, order="fiog": (W, U, b_x + b_h)
    W, U, b_x, b_h = ported(arrays, "ifgo", "fiog")
    return difference(outputs, make(W, U, b_x, b_h), "W (H, 4H); U (D, 4H); b (4H)", {
        "one of the two biases is lost: b is their sum, and bias_hh_l0 is missing.": lambda: (W, U, b_x),
        "one of the two biases is lost: b is their sum, and bias_ih_l0 is missing.": lambda: (W, U, b_h),
        "a bias is added twice: b is bias_ih_l0 + bias_hh_l0.": lambda: (W, U, b_x + 2 * b_h),
        "bias_ih_l0 is added twice: b is bias_ih_l0 + bias_hh_l0.": lambda: (W, U, 2 * b_x + b_h),
        "the sum of the biases is doubled: b is bias_ih_l0 + bias_hh_l0.": lambda: (W, U, 2 * (b_x + b_h)),
        "the biases are averaged: b is their sum.": lambda: (W, U, (b_x + b_h) / 2),
        "the biases are multiplied: b is their sum.": lambda: (W, U, b_x * b_h),
        "the biases are subtracted: b is their sum.": lambda: (W, U, b_x - b_h),
        "both biases are returned: the cell of exercise 1 has one, their sum.": lambda: (W, U, b_x, b_h),
        "the biases stand one after the other: b is their sum, (4H,).": lambda: (W, U, np.concatenate([b_x, b_h])),
        "U comes before W: return W, U, b.": lambda: (U, W, b_x + b_h),
        "1 is added to the forget bias, as libraries do at the start: these weights are trained.":
            lambda: (W, U, b_x + b_h + np.repeat([1, 0, 0, 0], len(W))),
        **layouts(arrays, "ifgo", "fiog", make),
    })  # fmt: skip


@exercise(torch_arrays(3))
def port_gru(inputs: tuple, outputs: Any) -> str:
    (arrays,) = inputs
    W, U, b_x, b_h = ported(arrays, "rzn", "zrn")
    H = len(W)
    gates = np.repeat([1, 1, 0], H)  # where both biases are added

    def make(W: Any, U: Any, b_x: Any, b_h: Any, order: str = "zrn") -> tuple:
        """The result, with b_hn kept apart; the blocks stand in an order that may be wrong."""
        is_n = np.repeat([name == "n" for name in order], H)
        return W, U, np.where(is_n, b_x, b_x + b_h), b_h[is_n]

    bias = lambda b, b_n: (W, U, b, b_n)
    return difference(outputs, make(W, U, b_x, b_h), "W (H, 3H); U (D, 3H); b (3H); b_n (H)", {
        "b_hn is added on the input's side, and b_n is zero: the reset gate multiplies b_hn, so it can't be added to b.":
            lambda: bias(b_x + b_h, 0 * b_h[2 * H:]),
        "b_hn counts twice: it is b_n, and it is added to b too.": lambda: bias(b_x + b_h, b_h[2 * H:]),
        "b_hn is lost: it is b_n.": lambda: bias(b_x + gates * b_h, 0 * b_h[2 * H:]),
        "b_n is the sum of the candidate's biases: it is b_hn alone, and b_in stays in b.":
            lambda: bias(b_x + gates * b_h, (b_x + b_h)[2 * H:]),
        "both biases of the candidate stand in b and in b_n: b_in belongs to b, b_hn to b_n.":
            lambda: bias(b_x + b_h, (b_x + b_h)[2 * H:]),
        "the candidate's biases have changed places: b holds b_in, b_n is b_hn.":
            lambda: bias(np.where(gates, b_x + b_h, b_h), b_x[2 * H:]),
        "b_in is missing from b.": lambda: bias(gates * (b_x + b_h), b_h[2 * H:]),
        "the biases of the gates are not added: for z and r, b is the sum of both.": lambda: bias(b_x, b_h[2 * H:]),
        "b_hr and b_hz alone stand in b: for z and r, b is the sum of both biases.":
            lambda: bias(np.where(gates, b_h, b_x), b_h[2 * H:]),
        "b_n is the sum of the candidate's biases, and b has none of them: it is b_hn alone, and b_in stays in b.":
            lambda: bias(gates * (b_x + b_h), (b_x + b_h)[2 * H:]),
        "the biases of the gates are averaged: for z and r, b is their sum.":
            lambda: bias(b_x * np.where(gates, 0.5, 1) + gates * b_h / 2, b_h[2 * H:]),
        "b_n is one number: it is a vector, (H,).": lambda: bias(b_x + gates * b_h, b_h[-1]) if H > 1 else -1.0,
        "b_n is the hidden side's bias of another block: it is that of n.": lambda: bias(b_x + gates * b_h, b_h[:H]),
        "b_n is the bias of r on the hidden side: it is that of n.": lambda: bias(b_x + gates * b_h, b_h[H:2 * H]),
        "b_n is the whole bias_hh_l0: it is its last part, that of n, and the rest is added to b.": lambda: bias(b_x, b_h),
        "b_n is the whole bias_hh_l0: it is its last part, that of n.": lambda: bias(b_x + gates * b_h, b_h),
        "b_n is missing: return W, U, b, b_n.": lambda: (W, U, b_x + gates * b_h),
        "b_n is missing, and b holds all biases: the reset gate multiplies b_hn, so it can't be added to b.": lambda: (W, U, b_x + b_h),
        "b is the pair of both biases: one bias b (3H,), and b_n (H,).": lambda: (W, U, np.stack([b_x, b_h])),
        "U comes before W: return W, U, b, b_n.": lambda: (U, W, *make(W, U, b_x, b_h)[2:]),
        "the sign of z is turned: z is the share of the old state in both forms.":
            lambda: tuple(array * np.repeat([-1, 1, 1], H) for array in make(W, U, b_x, b_h)[:3]) + (b_h[2 * H:],),
        **layouts(arrays, "rzn", "zrn", make),
    })  # fmt: skip


# ---------------------------------------------------------------- 3: padding


def padded(rng: np.random.Generator) -> list:
    """Batches (params, x, valid): padding at the ends, at the start, within, everywhere and nowhere, of numbers and of NaN."""
    def case(valid: list, H: int, D: int, fill: float) -> tuple:
        valid = np.array(valid, bool)
        x = drawn(rng, *valid.shape, D)
        return weights_of(rng, 4, H, D), np.where(valid[..., None] | (fill == 0), x, np.float32(fill)), valid

    return [
        case([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [0, 1, 1, 0, 1]], 4, 2, 0.0),  # 0: the padding keeps the numbers that were drawn
        case([[1, 1, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]], 3, 3, np.nan),
        case([[0], [1]], 1, 1, np.nan),
        case([[0, 1, 1, 0, 0, 0, 0]], 3, 2, np.inf),
    ]


def kept_old(new: tuple, old: tuple, valid: bool) -> tuple:
    return new if valid else old


def reading(params: tuple, x: Any, valid: Any, choose: Callable = kept_old, fill: float | None = None) -> np.ndarray:
    """All states of a batch, (2, B, T, H): h and c after each step; `choose` says what stands after a padded one."""
    zero = np.zeros(len(params[0]))
    rows = []
    for x_row, valid_row in zip(x, valid):
        state, states = (zero, zero), []
        for x_t, valid_t in zip(x_row, valid_row):
            new = lstm(params, state, x_t if valid_t or fill is None else np.full_like(x_t, fill))
            state = choose(new, state, bool(valid_t))
            states.append(state)
        rows.append(states)
    return np.array(rows).transpose(2, 0, 1, 3)


def last(states: np.ndarray) -> tuple:
    return states[0][:, -1], states[1][:, -1]


def at_the_count(params: tuple, x: Any, valid: Any) -> tuple:
    """The states of an unmasked run at the place that the number of valid steps names."""
    states = reading(params, x, np.ones_like(valid))
    places = np.maximum(valid.sum(axis=1).astype(int), 1) - 1
    return tuple(part[np.arange(len(x)), places] for part in states)


def until_padding(valid: Any) -> np.ndarray:
    return np.cumprod(valid, axis=1)


def chained(params: tuple, x: Any, valid: Any) -> tuple:
    """The last states of rows that are read one after the other, without a new start."""
    B, T, D = x.shape
    states = reading(params, x.reshape(1, B * T, D), valid.reshape(1, B * T))
    return tuple(part[0].reshape(B, T, -1)[:, -1] for part in states)


@exercise(padded)
def read(inputs: tuple, outputs: Any) -> str:
    params, x, valid = inputs
    everything = reading(params, x, valid)
    right = last(everything)
    other = lambda **changes: last(reading(params, x, valid, **changes))
    zeroed = lambda new, old, ok: new if ok else (0 * new[0], 0 * new[1])
    part = lambda keep_h: lambda new, old, ok: new if ok else ((old[0], new[1]) if keep_h else (new[0], old[1]))
    h_zero = lambda new, old, ok: new if ok else (0 * old[0], old[1])
    c_zero = lambda new, old, ok: new if ok else (old[0], 0 * old[1])
    broken = same_shapes(outputs, right) and not all(np.isfinite(a).all() for a in outputs)
    T = x.shape[1]
    first_mask, all_mask = (np.broadcast_to(mask, valid.shape) for mask in (valid[:1], valid.min(axis=0, keepdims=True)))
    masked = valid[:, -1:]
    return difference(outputs, right, "h (B, H); c (B, H)", {
        "what stands in the padding comes through as NaN: 0 times NaN is NaN. Choose with jnp.where in place of multiplying.":
            lambda: outputs if broken else -1.0,
        "padding is read like any input: where valid is False, the state passes as it was, whatever x holds.":
            lambda: other(choose=lambda new, old, ok: new),
        "the padded inputs are set to zero and then read: an input of zero moves the state too. Keep the old state.":
            lambda: other(choose=lambda new, old, ok: new, fill=0.0),
        "padding zeroes the state: the state passes as it was.": lambda: other(choose=zeroed),
        "valid is turned round: True is a step that counts.": lambda: last(reading(params, x, 1 - valid)),
        "padding keeps h and updates c: both pass as they were.": lambda: other(choose=part(True)),
        "padding keeps c and updates h: both pass as they were.": lambda: other(choose=part(False)),
        "padding keeps h and updates c from an input of zero: both pass as they were.": lambda: other(choose=part(True), fill=0.0),
        "padding keeps c and updates h from an input of zero: both pass as they were.": lambda: other(choose=part(False), fill=0.0),
        "padding zeroes h: both pass as they were.": lambda: other(choose=h_zero),
        "padding zeroes c: both pass as they were.": lambda: other(choose=c_zero),
        "the last state is multiplied by the mask: where the last step is padding, return the state before.":
            lambda: (right[0] * masked, right[1] * masked),
        "h is multiplied by the mask: where the last step is padding, return the state before.": lambda: (right[0] * masked, right[1]),
        "this is the state of the step that the number of valid steps names: padding may also stand at the start and within.":
            lambda: at_the_count(params, x, valid),
        "reading stops at the first padding: valid steps after it count.": lambda: last(reading(params, x, until_padding(valid))),
        "a row goes on from the state of the row before: every sequence starts from zeros.": lambda: chained(params, x, valid),
        "the sequences are read from their ends.": lambda: last(reading(params, x[:, ::-1], valid[:, ::-1])),
        "the last step is not read: t runs from 1 to T.": lambda: last(reading(params, x[:, :-1], valid[:, :-1])) if T > 1 else -1.0,
        "the first sequence's mask serves all of them: each has its own.": lambda: last(reading(params, x, first_mask)),
        "a step is dropped in all sequences as soon as one of them is padded there: each has its own mask.":
            lambda: last(reading(params, x, all_mask)),
        "the mask comes one step late: valid[:, t] belongs to x[:, t].": lambda: last(reading(params, x, np.roll(valid, 1, axis=1))),
        "the last step is read even where it is padding: the state passes as it was.":
            lambda: last(reading(params, x, np.concatenate([valid[:, :-1], np.ones_like(valid[:, :1])], axis=1))),
        "batch and time have changed places: x is (B, T, D), and valid is (B, T).":
            lambda: last(reading(params, x.swapaxes(0, 1), valid.T)),
        "the step takes the columns in PyTorch's order, i, f, g, o: they stand in the order f, i, o, g.":
            lambda: last(reading(tuple(map(as_ifgo, params)), x, valid)),
        "all states are returned: return the last ones.": lambda: tuple(everything),
        "h alone is returned: return LSTMState(h, c).": lambda: right[0],
        "h and c have changed places.": lambda: right[::-1],
        "the state of the first sequence alone is returned: one for each row of the batch.": lambda: (right[0][0], right[1][0]),
        "the states are averaged over the batch: one for each row.": lambda: (right[0].mean(axis=0), right[1].mean(axis=0)),
        "the states are transposed: the batch is the first axis.": lambda: (right[0].T, right[1].T),
        "the sequences start from ones: they start from zeros.": lambda: last(from_ones(params, x, valid)),
    })  # fmt: skip


def as_ifgo(array: np.ndarray) -> np.ndarray:
    """Columns that, read in the order f, i, o, g, give what a reader of i, f, g, o takes them for."""
    first, second, third, fourth = np.split(array, 4, axis=-1)
    return np.concatenate([second, first, fourth, third], axis=-1)


def from_ones(params: tuple, x: Any, valid: Any) -> np.ndarray:
    """The states of sequences that start from ones."""
    ones, rows = np.ones(len(params[0])), []
    for x_row, valid_row in zip(x, valid):
        state = (ones, ones)
        for x_t, valid_t in zip(x_row, valid_row):
            state = kept_old(lstm(params, state, x_t), state, bool(valid_t))
        rows.append([state])
    return np.array(rows).transpose(2, 0, 1, 3)


def slope(number: Callable, x: np.ndarray, where: np.ndarray, nudge: float = 1e-5) -> np.ndarray:
    """The derivative of a number with respect to the entries of x at the steps `where`, by central differences; zero elsewhere."""
    found = np.zeros(x.shape)
    for place in np.argwhere(where):
        for unit in range(x.shape[-1]):
            moved = [x.copy(), x.copy()]
            for sign, copy in zip((1, -1), moved):
                copy[(*place, unit)] += sign * nudge
            found[(*place, unit)] = (number(moved[0]) - number(moved[1])) / (2 * nudge)
    return found


@exercise(padded)
def sensitivity(inputs: tuple, outputs: Any) -> str:
    params, x, valid = inputs
    finite = np.isfinite(x).all()
    of = lambda number, where=valid, **changes: slope(lambda x: number(reading(params, x, valid, **changes)), x, where)
    h_last = lambda states: states[0][:, -1].sum()
    right = of(h_last)
    given = outputs if isinstance(outputs, np.ndarray) else np.array(np.nan)
    broken = given.shape == right.shape and np.isnan(given).any()
    silent = np.isnan(x).any(axis=(1, 2))[:, None, None]
    before = np.flip(np.cumsum(np.flip(~(valid > 0), 1), 1), 1)[..., None] > 0  # some later step is padding
    plain = lambda new, old, ok: new
    every = np.ones_like(valid)
    unread = lambda **changes: of(h_last, every, **changes) if finite else -1.0
    return difference(outputs, right, "the derivative (B, T, D)", {
        "the derivative is NaN at the padding alone: it is zero there.": lambda: np.where(valid[..., None] > 0, right, np.nan),
        "the derivative is NaN although the state is right: a choice after the step, or a product with the mask, lets 0 times NaN through. "
        "Replace padded inputs by jnp.where before the step too.": lambda: outputs if broken else -1.0,
        "the NaN is replaced after the fact, and steps before the padding have lost their derivative: keep it out of the step.":
            lambda: np.where(before, 0, right) if not finite else -1.0,
        "sequences with NaN in their padding have lost all their derivatives: keep the NaN out of the step.":
            lambda: np.where(silent, 0, right) if not finite else -1.0,
        "padding is read like any input: its derivative is zero, and the state passes as it was.": lambda: unread(choose=plain),
        "padded inputs are set to zero and then read: the state passes as it was.": lambda: of(h_last, choose=plain, fill=0.0),
        "padding zeroes the state: the state passes as it was.":
            lambda: of(h_last, choose=lambda new, old, ok: new if ok else (0 * new[0], 0 * new[1]), fill=0.0),
        "this is the derivative of c: differentiate the sum of h.": lambda: of(lambda states: states[1][:, -1].sum()),
        "this is the derivative of h and c together: differentiate the sum of h.": lambda: of(lambda states: states[:, :, -1].sum()),
        "steps before a padded one have lost their derivative: the old state passes, and its derivative with it.": lambda: np.where(before, 0, right),
        "batch and time have changed places: x is (B, T, D).": lambda: right.swapaxes(0, 1),
        "the value is returned: its derivative with respect to x is wanted.": lambda: h_last(reading(params, x, valid)),
        "this is the derivative with respect to params: differentiate with respect to x.":
            lambda: outputs if same_shapes(outputs, params) else -1.0,
        "only the first sequence has a derivative: differentiate the sum over the batch.": lambda: right * (np.arange(len(x)) == 0)[:, None, None],
        "the derivative is divided by the number of valid steps: differentiate the plain sum.":
            lambda: right / np.maximum(valid.sum(axis=1), 1)[:, None, None],
        "the mean of h is differentiated: differentiate the sum over units and batch.": lambda: right / (len(x) * len(params[0])),
        "the mean over the units is differentiated: differentiate their sum.": lambda: right / len(params[0]),
        "the mean over the batch is differentiated: differentiate the sum.": lambda: right / len(x),
        "the squares of h are differentiated: differentiate the sum of h.": lambda: of(lambda states: (states[0][:, -1] ** 2).sum()),
        "half the squares of h are differentiated: differentiate the sum of h.": lambda: of(lambda states: (states[0][:, -1] ** 2).sum() / 2),
        "the states of all steps are differentiated: the last one alone.": lambda: of(lambda states: states[0].sum()),
        "only the first unit is differentiated: the sum over all.": lambda: of(lambda states: states[0][:, -1, 0].sum()),
        "absolute values are returned: return the derivative with its sign.": lambda: np.abs(right),
        "squares are returned: return the derivative itself.": lambda: right**2,
        "this is the derivative times the input: return the derivative itself.": lambda: right * np.where(valid[..., None] > 0, x, 0),
        "one length for each step is returned: return the derivative itself.": lambda: np.linalg.norm(right, axis=2),
        "the derivatives of the inputs of a step are added up: return each.": lambda: right.sum(axis=2),
        "the derivatives are added up over the batch: return each.": lambda: right.sum(axis=0),
        "valid is turned round: True is a step that counts.":
            lambda: slope(lambda x: h_last(reading(params, x, 1 - valid)), x, 1 - valid) if finite else -1.0,
        "reading stops at the first padding: valid steps after it count.":
            lambda: slope(lambda x: h_last(reading(params, x, until_padding(valid))), x, until_padding(valid)),
        "the last step alone has a derivative: earlier steps reach h_T through the states.":
            lambda: right * (np.arange(x.shape[1]) == x.shape[1] - 1)[:, None],
        "this is the state, not its derivative.": lambda: last(reading(params, x, valid))[0],
    })  # fmt: skip


# ---------------------------------------------------------------- 4: coupled gates with peepholes


def coupled(params: tuple, state: tuple, x: Any, others: str = "", see_f: Callable = lambda p, c, h: p * c, see_o: Callable = lambda p, new, old: p * new,
            keep: Callable = lambda f, g, c: f * c + (1 - f) * g, show: Callable = lambda o, new: o * np.tanh(new),
            candidate: Callable = np.tanh) -> tuple:  # fmt: skip
    """h_t and c_t of exercise 4, in pieces that can be replaced."""
    (h, c), (*_, p_f, p_o) = state, params
    f, o, g = blocks(params, h, x, "fog", others)
    new = keep(sigma(f + see_f(p_f, c, h)), candidate(g), c)
    return show(sigma(o + see_o(p_o, new, c)), new), new


def coupled_steps(rng: np.random.Generator) -> list:
    return [((*weights_of(rng, 3, H, D), drawn(rng, H), drawn(rng, H)), state_of(rng, H), drawn(rng, D)) for H, D in SIZES]


@exercise(coupled_steps)
def coupled_step(inputs: tuple, outputs: Any) -> str:
    params, (h, c), x = inputs
    W, U, b, p_f, p_o = params
    other = functools.partial(coupled, params, (h, c), x)
    right = other()
    outside = lambda: cell_outside(params, (h, c), x)
    f_blind = sigma(blocks(params, h, x, "fog")[0])
    return difference(outputs, right, "h_t (H); c_t (H)", {
        "the output gate sees the old cell: its peephole looks at c_t, which is there by then.": lambda: other(see_o=lambda p, new, old: p * old),
        "the input gate is f: coupled gates write 1 - f.": lambda: other(keep=lambda f, g, c: f * c + f * g),
        "the input gate is missing: coupled gates write (1 - f) g.": lambda: other(keep=lambda f, g, c: f * c + g),
        "f and 1 - f have changed places: f is the share that is kept.": lambda: other(keep=lambda f, g, c: (1 - f) * c + f * g),
        "the old cell is kept whole: it is multiplied by f.": lambda: other(keep=lambda f, g, c: c + (1 - f) * g),
        "both peepholes are missing.": lambda: coupled((W, U, b, 0 * p_f, 0 * p_o), (h, c), x),
        "the peephole of the forget gate is missing.": lambda: coupled((W, U, b, 0 * p_f, p_o), (h, c), x),
        "the peephole of the output gate is missing.": lambda: coupled((W, U, b, p_f, 0 * p_o), (h, c), x),
        "p_f and p_o have changed places.": lambda: coupled((W, U, b, p_o, p_f), (h, c), x),
        "p_f serves both gates: the output gate has p_o.": lambda: coupled((W, U, b, p_f, p_f), (h, c), x),
        "the peephole of the forget gate looks at h: it looks at c_{t-1}.": lambda: other(see_f=lambda p, c, h: p * h),
        "both peepholes look at h: they look at the cell.":
            lambda: other(see_f=lambda p, c, h: p * h, see_o=lambda p, new, old: p * h),
        "the peepholes look at tanh of the cell: they look at the cell itself.":
            lambda: other(see_f=lambda p, c, h: p * np.tanh(c), see_o=lambda p, new, old: p * np.tanh(new)),
        "the output gate's peephole looks at tanh(c_t): it looks at c_t.": lambda: other(see_o=lambda p, new, old: p * np.tanh(new)),
        "the peephole of the forget gate is a sum over all cells: each unit sees its own, p_f * c.": lambda: other(see_f=lambda p, c, h: p @ c),
        "both peepholes are sums over all cells: each unit sees its own, p * c.":
            lambda: other(see_f=lambda p, c, h: p @ c, see_o=lambda p, new, old: p @ new),
        "a peephole stands outside of the logistic function: it is part of the gate's argument.": outside,
        "the candidate has a peephole: only the gates see the cell.": lambda: coupled_candidate(params, (h, c), x),
        "tanh is missing on the cell: h_t = o tanh(c_t).": lambda: other(show=lambda o, new: o * new),
        "the output gate is not used: h_t = o tanh(c_t).": lambda: other(show=lambda o, new: np.tanh(new)),
        "tanh is missing on the candidate g.": lambda: other(candidate=lambda a: a),
        "the candidate g goes through the logistic function: it is a tanh.": lambda: other(candidate=sigma),
        "the output gate's peephole looks at h: it looks at c_t.": lambda: other(see_o=lambda p, new, old: p * h),
        "h stands in place of the cell: c_t = f c_{t-1} + (1 - f) g.": lambda: other(keep=lambda f, g, c: f * h + (1 - f) * g),
        "h and c of the state have changed places: state.h comes first.": lambda: coupled(params, (c, h), x),
        "1 - f is formed without the peephole: it is 1 less the same f.": lambda: other(keep=lambda f, g, c: f * c + (1 - f_blind) * g),
        "the peepholes have no weight: they are p_f * c and p_o * c.": lambda: other(see_f=lambda p, c, h: c, see_o=lambda p, new, old: new),
        "the peephole of the forget gate is subtracted: it is added.": lambda: other(see_f=lambda p, c, h: -p * c),
        "the peephole of the output gate is subtracted: it is added.": lambda: other(see_o=lambda p, new, old: -p * new),
        "the columns are cut unit by unit: the first H columns are all of f, the next H all of o.":
            lambda: coupled((*(a.reshape(*a.shape[:-1], len(h), 3).swapaxes(-1, -2).reshape(a.shape) for a in (W, U, b)), p_f, p_o), (h, c), x),
        "the bias b is missing.": lambda: coupled(with_weights(params, b=0 * b), (h, c), x),
        "the input term x U is missing.": lambda: coupled(params, (h, c), 0 * x),
        "the recurrent term h W is missing.": lambda: coupled(with_weights(params, W=0 * W), (h, c), x),
        "h_t and c_t have changed places: return LSTMState(h, c).": lambda: right[::-1],
        "the old cell is returned in place of c_t.": lambda: (right[0], c),
        "h_t alone is returned: return LSTMState(h, c).": lambda: right[0],
        **orders("fog", other, "the products"),
    })  # fmt: skip


def cell_outside(params: tuple, state: tuple, x: Any) -> tuple:
    """Peepholes that are added to the gates after the logistic function."""
    (h, c), (*_, p_f, p_o) = state, params
    f, o, g = blocks(params, h, x, "fog")
    f = sigma(f) + p_f * c
    new = f * c + (1 - f) * np.tanh(g)
    return (sigma(o) + p_o * new) * np.tanh(new), new


def coupled_candidate(params: tuple, state: tuple, x: Any) -> tuple:
    """A candidate that sees the old cell too."""
    (h, c), (*_, p_f, p_o) = state, params
    f, o, g = blocks(params, h, x, "fog")
    f = sigma(f + p_f * c)
    new = f * c + (1 - f) * np.tanh(g + p_f * c)
    return sigma(o + p_o * new) * np.tanh(new), new


# ---------------------------------------------------------------- 5: the highway


def sequences(rng: np.random.Generator) -> list:
    """Cells (params, start, x) with a sequence; one unit and one step among them."""
    return [(weights_of(rng, 4, H, D), state_of(rng, H), drawn(rng, T, D)) for T, H, D in ((6, 4, 2), (4, 1, 1), (1, 3, 2))]


def gates_along(params: tuple, state: tuple, x: Any) -> tuple:
    """The states h and c from 0 to T, (T+1, H) each, and the gates f and i at steps 1 to T, (T, H) each."""
    states, f, i = [state], [], []
    for x_t in x:
        opened = blocks(params, states[-1][0], x_t, "fiog")
        f.append(sigma(opened[0]))
        i.append(sigma(opened[1]))
        states.append(lstm(params, states[-1], x_t))
    h, c = (np.array(part) for part in zip(*states))
    return h, c, np.array(f), np.array(i)


def jacobians(params: tuple, state: tuple, x: Any, of: int = 1, by: int = 1, together: bool = False, nudge: float = 1e-5) -> np.ndarray:
    """∂c_T/∂c_k for k = 0, ..., T by central differences, (T+1, H, H); `of` and `by` choose h (0) or c (1).

    Of a step's state the other half is held fixed, or, `together`, h_k moves along as o_k tanh(c_k) does.
    """
    h, c, _, _ = gates_along(params, state, x)
    H, found = h.shape[1], []
    for k in range(len(x) + 1):
        columns = []
        for unit in np.eye(H):
            ends = []
            for sign in (1, -1):
                moved = [h[k].copy(), c[k].copy()]
                moved[by] = moved[by] + sign * nudge * unit
                if together and k:
                    moved[0] = h[k] / np.tanh(c[k]) * np.tanh(moved[1])
                for x_t in x[k:]:
                    moved = lstm(params, tuple(moved), x_t)
                ends.append(moved[of])
            columns.append((ends[0] - ends[1]) / (2 * nudge))
        found.append(np.stack(columns, axis=1))
    return np.array(found)


def later(f: np.ndarray) -> np.ndarray:
    """The products f_T ⊙ ··· ⊙ f_{k+1}, (T+1, H)."""
    return np.array([f[k:].prod(axis=0) for k in range(len(f) + 1)])


def rms(rows: np.ndarray) -> np.ndarray:
    """The root of the mean square of each row."""
    return np.sqrt((rows**2).mean(axis=1))


def from_zeros(params: tuple, start: tuple, x: Any) -> tuple:
    """Direct and full from another start."""
    J = jacobians(params, start, x)
    return rms(later(gates_along(params, start, x)[2])), np.sqrt((J**2).sum(axis=(1, 2)) / J.shape[1])


@exercise(sequences)
def highway(inputs: tuple, outputs: Any) -> str:
    params, start, x = inputs
    h, _, f, i = gates_along(params, start, x)
    (W, U, b), from_x = params, x @ params[1][:, :f.shape[1]] + params[2][:f.shape[1]]
    J = jacobians(params, start, x)
    H, T = f.shape[1], len(x)
    size = lambda J: np.sqrt((J**2).sum(axis=(1, 2)) / H)
    direct, full = rms(later(f)), size(J)
    other = lambda **changes: size(jacobians(params, start, x, **changes))
    return difference(outputs, (direct, full), "direct (T+1); full (T+1)", {
        "full holds the direct way alone: c_k also reaches c_T through h and the gates.": lambda: (direct, direct),
        "direct holds all ways: it is the product of the forget gates alone.": lambda: (full, full),
        "direct and full have changed places.": lambda: (full, direct),
        "the products in direct are one step off: f_k itself is in that of k, which begins with f_{k+1}.":
            lambda: (np.concatenate([rms(later(f))[:1], rms(later(f))[:-1]]), full),
        "the products in direct stop one step early: they go to f_T.":
            lambda: (rms(np.array([f[k:T - 1].prod(axis=0) for k in range(T + 1)])), full),
        "the products in direct run from the start, f_1 to f_k: they run from k + 1 to T.":
            lambda: (rms(np.array([f[:k].prod(axis=0) for k in range(T + 1)])), full),
        "direct runs backwards: entry k belongs to c_k, so that the last one is 1.": lambda: (direct[::-1], full),
        "both run backwards: entry k belongs to c_k, so that the last one is 1.": lambda: (direct[::-1], full[::-1]),
        "full runs backwards: entry k belongs to c_k, so that the last one is 1.": lambda: (direct, full[::-1]),
        "direct multiplies input gates: the forget gates are wanted.": lambda: (rms(later(i)), full),
        "direct holds single gates, not their products.": lambda: (rms(np.concatenate([f, np.ones((1, H))])), full),
        "direct adds up the gates: multiply them.": lambda: (rms(np.array([f[k:].sum(axis=0) for k in range(T + 1)])), full),
        "direct is a plain mean over the units: take the root of the mean square.": lambda: (later(f).mean(axis=1), full),
        "direct averages the gates before it multiplies them: multiply unit by unit.":
            lambda: (np.array([rms(f)[k:].prod() for k in range(T + 1)]), full),
        "direct is the mean square: take its root.": lambda: (direct**2, full),
        "the root is missing in both.": lambda: (direct**2, full**2),
        "the root is missing in full.": lambda: (direct, full**2),
        "direct is a length: divide by the root of H.": lambda: (direct * H**0.5, full),
        "full is a length: divide by the root of H.": lambda: (direct, full * H**0.5),
        "both are lengths: divide by the root of H.": lambda: (direct * H**0.5, full * H**0.5),
        "full is divided by H: by its root.": lambda: (direct, full / H**0.5),
        "in full h_k moves along with c_k: it is held fixed, so that c_k alone moves.": lambda: (direct, other(together=True)),
        "full is the derivative of h_T: differentiate c_T.": lambda: (direct, other(of=0)),
        "full is the derivative with respect to h_k: differentiate with respect to c_k.": lambda: (direct, other(by=0)),
        "the first state is taken to be zero: the sequence begins at start.": lambda: from_zeros(params, (0 * start[0], 0 * start[1]), x),
        "the first h is taken to be zero: the sequence begins at start.": lambda: from_zeros(params, (0 * start[0], start[1]), x),
        "the forget gates read the new h: f_t reads h_{t-1}.": lambda: (rms(later(sigma(h[1:] @ W[:, :H] + from_x))), full),
        "the forget gates read the input alone: f_t reads h_{t-1} too.": lambda: (rms(later(sigma(np.zeros((T, H)) + from_x))), full),
        "every forget gate reads the first h: f_t reads h_{t-1}.": lambda: (rms(later(sigma(h[:1] @ W[:, :H] + from_x))), full),
        "the forget gates are not squashed: f is sigma(a_f).": lambda: (rms(later(h[:-1] @ W[:, :H] + from_x)), full),
        "direct is the largest product over the units: take the root of the mean square.": lambda: (later(f).max(axis=1), full),
        "full is the derivative over one step: c_T by c_k is wanted.": lambda: (direct, rms(np.concatenate([f, np.ones((1, H))]))),
        "full counts h_T and c_T: differentiate c_T alone.": lambda: (direct, np.sqrt(full**2 + other(of=0)**2)),
        "full is a sum of absolute values: take the root of the sum of squares, over H.": lambda: (direct, np.abs(J).sum(axis=(1, 2)) / H),
        "full looks at the first unit alone: all entries of the derivative count.": lambda: (direct, np.sqrt((J[:, 0] ** 2).sum(axis=1))),
        "full is the largest singular value: take the root of the mean over all units.": lambda: (direct, np.linalg.norm(J, 2, axis=(1, 2))),
        "full looks at the diagonal alone: all entries of the derivative count.": lambda: (direct, rms(np.diagonal(J, axis1=1, axis2=2))),
        "full is the sum over the units of c_T, differentiated: square every entry, then add up.": lambda: (direct, rms(J.sum(axis=1))),
        "full holds the ways through the gates alone: add the direct one.":
            lambda: (direct, size(J - later(f)[:, :, None] * np.eye(H))),
        "the first entry is missing: k runs from 0.": lambda: (direct[1:], full[1:]),
        "the last entry is missing: k runs up to T, where both are 1.": lambda: (direct[:-1], full[:-1]),
        "direct has no entry for k = T, where the product is empty and 1.": lambda: (direct[:-1], full),
        "the products themselves are returned: one number for each k.": lambda: (later(f), J),
        "direct holds the products: one number for each k.": lambda: (later(f), full),
        "full holds the derivatives: one number for each k.": lambda: (direct, J),
    })  # fmt: skip


# ---------------------------------------------------------------- 6: where the reset gate stands


def gru(params: tuple, h: Any, x: Any, after: bool, others: str = "", inner: Callable | None = None,
        mix: Callable = lambda z, n, h: z * h + (1 - z) * n, candidate: Callable = np.tanh) -> np.ndarray:  # fmt: skip
    """h_t of exercise 6, in pieces that can be replaced."""
    W, U, b, b_n = params
    place = dict(zip(others or "zrn", range(3)))
    block = lambda array, name: np.split(array, 3, axis=-1)[place[name]]
    z, r = (sigma(h @ block(W, name) + x @ block(U, name) + block(b, name)) for name in "zr")
    W_n, from_x = block(W, "n"), x @ block(U, "n") + block(b, "n")
    if inner is None:
        inner = lambda r, h, W_n, b_n: r * (h @ W_n + b_n) if after else (r * h) @ W_n + b_n
    return mix(z, candidate(from_x + inner(r, h, W_n, b_n)), h)


def gru_params(rng: np.random.Generator, H: int, D: int) -> tuple:
    return *weights_of(rng, 3, H, D), drawn(rng, H)


def gru_steps(rng: np.random.Generator) -> list:
    return [(gru_params(rng, H, D), drawn(rng, H), drawn(rng, D), after) for H, D in SIZES for after in (True, False)]


@exercise(gru_steps)
def gru_step(inputs: tuple, outputs: Any) -> str:
    params, h, x, after = inputs
    W, U, b, b_n = params
    H = len(h)
    other = functools.partial(gru, params, h, x, after)
    r_outside = lambda r, h, W_n, b_n: r * (h @ W_n) + b_n
    return difference(outputs, other(), "h_t (H)", {
        "the reset gate acts before the product, on h: with after=True it multiplies h W_n + b_n."
        if after else "the reset gate acts after the product: with after=False it multiplies h.": lambda: gru(params, h, x, not after),
        "b_n stands outside the reset gate: with after=True the gate multiplies h W_n + b_n.": lambda: other(inner=r_outside) if after else -1.0,
        "b_n is multiplied by the reset gate: with after=False it is not.":
            lambda: other(inner=lambda r, h, W_n, b_n: (r * h) @ W_n + r * b_n) if not after else -1.0,
        "b_n is added to h before the product: it belongs after it.":
            lambda: other(inner=lambda r, h, W_n, b_n: (r * (h + b_n)) @ W_n) if not after else -1.0,
        "b_n is missing.": lambda: gru((W, U, b, 0 * b_n), h, x, after),
        "b_n is added twice.": lambda: gru((W, U, b, 2 * b_n), h, x, after),
        "z points the other way: it is the share of the old state.": lambda: other(mix=lambda z, n, h: (1 - z) * h + z * n),
        "the order is PyTorch's, r, z, n: here the columns stand in the order z, r, n.": lambda: other("rzn"),
        "the reset gate is not used.": lambda: other(inner=lambda r, h, W_n, b_n: h @ W_n + b_n),
        "the reset gate is turned round: r multiplies, not 1 - r.":
            lambda: other(inner=lambda r, h, W_n, b_n: (1 - r) * (h @ W_n + b_n) if after else ((1 - r) * h) @ W_n + b_n),
        "the reset gate multiplies the input's part too: it multiplies h W_n + b_n alone.":
            lambda: other(inner=lambda r, h, W_n, b_n: (r - 1) * (x @ U[:, 2 * H:] + b[2 * H:]) + r * (h @ W_n + b_n)),
        "the reset gate multiplies the bias of the input's side too: it multiplies h W_n + b_n alone.":
            lambda: other(inner=lambda r, h, W_n, b_n: (r - 1) * b[2 * H:] + r * (h @ W_n + b_n)),
        "the reset gate acts twice, on h and on the product.": lambda: other(inner=lambda r, h, W_n, b_n: r * ((r * h) @ W_n + b_n)),
        "z acts as the reset gate: r does.": lambda: z_for_r(params, h, x, after),
        "h W_n counts twice: once behind the reset gate, and once more.":
            lambda: other(inner=lambda r, h, W_n, b_n: h @ W_n + (r * (h @ W_n + b_n) if after else (r * h) @ W_n + b_n)),
        "r * h @ W_n is (r * h) @ W_n, for * and @ are taken from the left: write r * (h @ W_n + b_n).":
            lambda: other(inner=lambda r, h, W_n, b_n: (r * h) @ W_n + r * b_n) if after else -1.0,
        "the gates read r h: they read h.": lambda: gates_reset(params, h, x, after),
        "the part of n in b is missing.": lambda: gru((W, U, b * np.repeat([1, 1, 0], H), b_n), h, x, after),
        "the bias b of the gates is missing.": lambda: gru((W, U, b * np.repeat([0, 0, 1], H), b_n), h, x, after),
        "the gates do not read h: they do, by their columns of W.": lambda: gru((W * np.repeat([0, 0, 1], H), U, b, b_n), h, x, after),
        "tanh is missing on the candidate.": lambda: other(candidate=lambda a: a),
        "the candidate goes through the logistic function: it is a tanh.": lambda: other(candidate=sigma),
        "the old state is missing: h_t = z h_{t-1} + (1 - z) n.": lambda: other(mix=lambda z, n, h: (1 - z) * n),
        "the candidate is added whole: h_t = z h_{t-1} + (1 - z) n.": lambda: other(mix=lambda z, n, h: z * h + n),
        "the candidate alone is returned: h_t = z h_{t-1} + (1 - z) n.": lambda: other(mix=lambda z, n, h: n),
        "the state that is mixed is r h: h_t = z h_{t-1} + (1 - z) n.": lambda: reset_state(params, h, x, after),
        "the bias b is missing.": lambda: gru((W, U, 0 * b, b_n), h, x, after),
        "the input term x U is missing.": lambda: gru(params, h, 0 * x, after),
        "the recurrent term h W is missing.": lambda: gru((0 * W, U, b, b_n), h, x, after),
        "W_n is transposed: h W_n, with h on the left.":
            lambda: gru((np.hstack([W[:, :2 * H], W[:, 2 * H:].T]), U, b, b_n), h, x, after),
        "only the diagonal of W_n is used: h @ W_n is a matrix product.":
            lambda: gru((np.hstack([W[:, :2 * H], np.diag(np.diag(W[:, 2 * H:]))]), U, b, b_n), h, x, after),
        **orders("zrn", other, "the products"),
    })  # fmt: skip


def opened(params: tuple, h: Any, x: Any) -> tuple:
    """The gates z and r of a GRU."""
    z, r, _ = np.split(h @ params[0] + x @ params[1] + params[2], 3)
    return sigma(z), sigma(r)


def z_for_r(params: tuple, h: Any, x: Any, after: bool) -> np.ndarray:
    """A GRU whose update gate resets too."""
    z, _ = opened(params, h, x)
    return gru(params, h, x, after, inner=lambda r, h, W_n, b_n: z * (h @ W_n + b_n) if after else (z * h) @ W_n + b_n)


def gates_reset(params: tuple, h: Any, x: Any, after: bool) -> np.ndarray:
    """A GRU whose update gate reads r h."""
    _, r = opened(params, h, x)
    z, _ = opened(params, r * h, x)
    return gru(params, h, x, after, mix=lambda _, n, h: z * h + (1 - z) * n)


def reset_state(params: tuple, h: Any, x: Any, after: bool) -> np.ndarray:
    """A GRU that mixes with r h in place of h."""
    _, r = opened(params, h, x)
    return gru(params, h, x, after, mix=lambda z, n, h: z * r * h + (1 - z) * n)


@exercise(lambda rng: [(gru_params(rng, H, D),) for H, D in SIZES])
def agreeing(inputs: tuple, outputs: Any) -> str:
    ((W, U, b, b_n),) = inputs
    H = len(b_n)
    gates, W_n = W[:, :2 * H], W[:, 2 * H:]
    diagonal = np.diag(np.diag(W_n))
    with_n = lambda W_n, b_n=0 * b_n, b=b: (np.hstack([gates, W_n]), U, b, b_n)
    right = with_n(diagonal)
    block = lambda array: [np.diag(np.diag(part)) for part in np.hsplit(array, 3)]
    n_bias = np.concatenate([np.zeros(2 * H), b_n])
    if problem := difference(outputs, right, "W (H, 3H); U (D, 3H); b (3H); b_n (H)", {
        "b_n is still there: after the product r multiplies it, before the product it does not, so it has to be zero.":
            lambda: with_n(diagonal, b_n),
        "W_n still mixes the units: r_i multiplies the whole sum over j in one form, and r_j each term in the other.": lambda: with_n(W_n),
        "nothing is changed.": lambda: with_n(W_n, b_n),
        "W_n is zero: the two agree, and more is changed than has to be. A unit may read itself.": lambda: with_n(0 * W_n),
        "W_n is the identity: the two agree, and more is changed than has to be. The diagonal may stay as it is.": lambda: with_n(np.eye(H)),
        "W_n has one number all along its diagonal: the two agree, and more is changed than has to be.":
            lambda: with_n(np.diag(W_n).mean() * np.eye(H)),
        "b_n is moved into b: the two agree, and b is changed, which need not be.": lambda: with_n(diagonal, b=b + n_bias),
        "the diagonal is taken away, and the rest is kept: keep the diagonal.": lambda: with_n(W_n - diagonal),
        "the diagonal is taken away, and the rest is kept: keep the diagonal. b_n has to be zero.": lambda: with_n(W_n - diagonal, b_n),
        "a triangle of W_n is kept: its entries off the diagonal still mix the units.": lambda: with_n(np.triu(W_n)),
        "the lower triangle of W_n is kept: its entries off the diagonal still mix the units.": lambda: with_n(np.tril(W_n)),
        "the symmetric part of W_n is kept: its entries off the diagonal still mix the units.": lambda: with_n((W_n + W_n.T) / 2),
        "the block of z is made diagonal: that of n is meant, the last H columns.":
            lambda: (np.hstack([np.diag(np.diag(W[:, :H])), W[:, H:]]), U, b, 0 * b_n),
        "the block of r is made diagonal: that of n is meant, the last H columns.":
            lambda: (np.hstack([W[:, :H], np.diag(np.diag(W[:, H:2 * H])), W_n]), U, b, 0 * b_n),
        "the block of r is zero: that of n is meant, the last H columns.": lambda: (np.hstack([W[:, :H], 0 * W_n, W_n]), U, b, 0 * b_n),
        "each column of n holds one number, that of the diagonal: off the diagonal zeros are wanted.": lambda: with_n(0 * W_n + np.diag(W_n)),
        "U_n is zero too: it may stay.": lambda: (right[0], U * np.repeat([1, 1, 0], H), b, 0 * b_n),
        "the part of n in b is zero, and b_n is kept: b_n has to be zero, and b may stay.":
            lambda: with_n(diagonal, b_n, np.concatenate([b[:2 * H], 0 * b_n])),
        "half of b_n is moved into b: b may stay.": lambda: with_n(diagonal, b=b + n_bias / 2),
        "the other diagonal is kept: unit i reads itself at W_n[i, i].": lambda: with_n(W_n * np.eye(H)[::-1]),
        "all blocks of W are made diagonal: the gates may read all units.": lambda: (np.hstack(block(W)), U, b, 0 * b_n),
        "all blocks of W are made diagonal: the gates may read all units. b_n has to be zero.": lambda: (np.hstack(block(W)), U, b, b_n),
        "all of W is zero: the gates may read all units, and the diagonal of W_n may stay.": lambda: (0 * W, U, b, 0 * b_n),
        "the reset gate is changed: change W_n and b_n alone.":
            lambda: outputs if same_shapes(outputs, right) and not (close(outputs[2][H:2 * H], b[H:2 * H]) and close(outputs[1][:, H:2 * H], U[:, H:2 * H])) else -1.0,
        "the diagonal is returned as a vector: W stays (H, 3H).": lambda: (np.diag(W_n), U, b, 0 * b_n),
        "W_n alone is returned in place of W: return all of W, (H, 3H).": lambda: (diagonal, U, b, 0 * b_n),
        "the bias b is zero: it may stay.": lambda: with_n(diagonal, b=0 * b),
        "b_n is zero, and so is the candidate's part of b: that may stay.":
            lambda: with_n(diagonal, b=np.concatenate([b[:2 * H], 0 * b_n])),
    }):  # fmt: skip
        return problem + apart(outputs, right, H)
    return ""


def same_shapes(given: Any, right: tuple) -> bool:
    """Whether a result is a tuple of arrays of the right shapes."""
    return isinstance(given, tuple) and [getattr(a, "shape", None) for a in given] == [a.shape for a in right]


def apart(outputs: Any, right: tuple, H: int) -> str:
    """What the two forms of the GRU do with weights that are not the right ones, in words."""
    if not same_shapes(outputs, right):
        return ""
    rng = np.random.default_rng(0)
    trials = [(rng.normal(size=H), rng.normal(size=len(right[1]))) for _ in range(5)]
    with np.errstate(all="ignore"):
        agree = all(close(gru(outputs, h, x, True), gru(outputs, h, x, False)) for h, x in trials)
    return " (The two forms agree with these weights.)" if agree else " (The two forms differ with these weights.)"


# ---------------------------------------------------------------- 7: the minimal gated unit and its weights


def mgu(params: tuple, h: Any, x: Any, others: str = "", inner: Callable = lambda f, h, W_n, from_x: f * (h @ W_n) + from_x,
        mix: Callable = lambda f, n, h: (1 - f) * h + f * n, candidate: Callable = np.tanh) -> np.ndarray:  # fmt: skip
    """h_t of exercise 7, in pieces that can be replaced."""
    f, n = (dict(zip(others or "fn", range(2)))[name] for name in "fn")
    W, U, b = (np.split(array, 2, axis=-1) for array in params)
    gate = sigma(h @ W[f] + x @ U[f] + b[f])
    return mix(gate, candidate(inner(gate, h, W[n], x @ U[n] + b[n])), h)


@exercise(lambda rng: [(weights_of(rng, 2, H, D), drawn(rng, H), drawn(rng, D)) for H, D in SIZES])
def mgu_step(inputs: tuple, outputs: Any) -> str:
    params, h, x = inputs
    W, U, b = params
    H = len(h)
    other = functools.partial(mgu, params, h, x)
    return difference(outputs, other(), "h_t (H)", {
        "f multiplies h before the product, as in the chapter: here it multiplies h W_n.":
            lambda: other(inner=lambda f, h, W_n, from_x: (f * h) @ W_n + from_x),
        "f points the other way: it is the share of the new.": lambda: other(mix=lambda f, n, h: f * h + (1 - f) * n),
        "the columns are taken in the order n, f: f comes first.": lambda: other("nf"),
        "f does not act within the candidate: it multiplies h W_n too.": lambda: other(inner=lambda f, h, W_n, from_x: h @ W_n + from_x),
        "within the candidate 1 - f acts: f does.": lambda: other(inner=lambda f, h, W_n, from_x: (1 - f) * (h @ W_n) + from_x),
        "f multiplies the input's part of the candidate too: it multiplies h W_n alone.":
            lambda: other(inner=lambda f, h, W_n, from_x: f * (h @ W_n + from_x)),
        "f multiplies the bias of the candidate too: it multiplies h W_n alone.":
            lambda: other(inner=lambda f, h, W_n, from_x: f * (h @ W_n + b[H:]) + from_x - b[H:]),
        "tanh is missing on the candidate.": lambda: other(candidate=lambda a: a),
        "the candidate goes through the logistic function: it is a tanh.": lambda: other(candidate=sigma),
        "the old state is missing: h_t = (1 - f) h_{t-1} + f n.": lambda: other(mix=lambda f, n, h: f * n),
        "the old state is kept whole: h_t = (1 - f) h_{t-1} + f n.": lambda: other(mix=lambda f, n, h: h + f * n),
        "the candidate is added whole: h_t = (1 - f) h_{t-1} + f n.": lambda: other(mix=lambda f, n, h: (1 - f) * h + n),
        "the candidate alone is returned: h_t = (1 - f) h_{t-1} + f n.": lambda: other(mix=lambda f, n, h: n),
        "both shares are f: h_t = (1 - f) h_{t-1} + f n.": lambda: other(mix=lambda f, n, h: f * h + f * n),
        "the bias b is missing.": lambda: mgu((W, U, 0 * b), h, x),
        "h W_n counts twice: once behind the gate, and once more.": lambda: other(inner=lambda f, h, W_n, from_x: (1 + f) * (h @ W_n) + from_x),
        "the gate is not squashed: f is sigma(a_f).": lambda: mgu_raw(params, h, x),
        "the bias of the candidate is missing.": lambda: mgu((W, U, np.concatenate([b[:H], 0 * b[H:]])), h, x),
        "the candidate does not read h: it reads f (h W_n).": lambda: other(inner=lambda f, h, W_n, from_x: from_x),
        "the gate does not read h: a_f has the term h W_f.": lambda: mgu((W * np.repeat([0, 1], H), U, b), h, x),
        "before the product 1 - f multiplies h: after it f does.": lambda: other(inner=lambda f, h, W_n, from_x: ((1 - f) * h) @ W_n + from_x),
        "the columns are cut unit by unit: the first H columns are all of f, the next H all of n.":
            lambda: mgu(tuple(a.reshape(*a.shape[:-1], H, 2).swapaxes(-1, -2).reshape(a.shape) for a in params), h, x),
        "the bias of the gate is missing.": lambda: mgu((W, U, np.concatenate([0 * b[:H], b[H:]])), h, x),
        "the input term x U is missing.": lambda: mgu((W, 0 * U, b), h, x),
        "the recurrent term h W is missing.": lambda: mgu((0 * W, U, b), h, x),
        "the blocks of W are transposed: h W is the product wanted, with h on the left.":
            lambda: mgu((np.hstack([block.T for block in np.hsplit(W, 2)]), U, b), h, x),
        "f is returned too: return h_t alone.": lambda: (other(), sigma((h @ W + x @ U + b)[:H])),
    })  # fmt: skip


def mgu_raw(params: tuple, h: Any, x: Any) -> np.ndarray:
    """h_t of exercise 7 with a gate that is not squashed."""
    (W_f, W_n), (f, from_x) = np.split(params[0], 2, axis=-1), np.split(x @ params[1] + params[2], 2)
    f = h @ W_f + f
    return (1 - f) * h + f * np.tanh(from_x + f * (h @ W_n))


def mgu_sequences(rng: np.random.Generator) -> list:
    return [(weights_of(rng, 2, H, D), drawn(rng, H), drawn(rng, T, D)) for T, H, D in ((6, 4, 2), (8, 3, 3), (5, 1, 1), (1, 3, 2))]


def shares(f: np.ndarray) -> np.ndarray:
    """The weights w_0, ..., w_T that gates f_1, ..., f_T give, (T+1, H), by a loop that hands all of them on."""
    w = [np.ones(f.shape[1])]
    for f_t in f:
        w = [(1 - f_t) * w_i for w_i in w] + [f_t]
    return np.array(w)


@exercise(mgu_sequences)
def weights(inputs: tuple, outputs: Any) -> str:
    params, h0, x = inputs
    H, T = len(h0), len(x)

    def gates(start: np.ndarray = h0, **pieces: Any) -> np.ndarray:
        states = [start]
        for x_t in x:
            states.append(mgu(params, states[-1], x_t, **pieces))
        return np.array([sigma((h @ params[0] + x_t @ params[1] + params[2])[:H]) for h, x_t in zip(states, x)])

    f, states = gates(), np.array(along(params, h0, x))
    right, candidates = shares(f), (states[1:] - (1 - f) * states[:-1]) / f
    share, last_one = np.concatenate([np.ones((1, H)), f]), np.ones((1, H))
    products = lambda g: np.array([g[k:].prod(axis=0) for k in range(T + 1)])  # over the steps after k
    without_state = np.array([sigma((x_t @ params[1] + params[2])[:H]) for x_t in x])
    from_start = np.array([sigma((h0 @ params[0] + x_t @ params[1] + params[2])[:H]) for x_t in x])
    problem = difference(outputs, right, "w (T+1, H)", {
        "the share of the new and of the old have changed places: f is the share of the new.": lambda: shares(1 - f),
        "the products are one step off: 1 - f_i itself is in that of candidate i, which begins with 1 - f_{i+1}.":
            lambda: share * np.concatenate([products(1 - f)[:1], products(1 - f)[:-1]]),
        "the products stop one step early: they go to 1 - f_T.":
            lambda: share * products((1 - f)[:-1]),
        "the products run over the steps before each candidate: they run over the steps after it.":
            lambda: share * np.array([np.ones(H), *((1 - f)[:k].prod(axis=0) for k in range(T))]),
        "the products run over all steps up to each candidate: they run over the steps after it.":
            lambda: share * np.array([(1 - f)[:k].prod(axis=0) for k in range(T + 1)]),
        "the share f_i of the candidate itself is missing: w_i = f_i times what is kept of it later.": lambda: products(1 - f),
        "what later steps keep is missing: w_i is f_i times all later 1 - f.": lambda: np.concatenate([right[:1], f]),
        "what later steps keep is missing, for the start too: w_i is f_i times all later 1 - f.": lambda: share,
        "later steps keep 1 - f: here they keep f.": lambda: share * products(f),
        "the weight of the start is missing: w_0 is the product of all 1 - f.": lambda: right[1:],
        "the start has weight zero: w_0 is the product of all 1 - f.": lambda: np.concatenate([0 * right[:1], right[1:]]),
        "the start has weight one: w_0 is the product of all 1 - f.": lambda: np.concatenate([last_one, right[1:]]),
        "w runs backwards: w_0 belongs to h_0, w_T to the last candidate.": lambda: right[::-1],
        "the candidates run backwards: w_1 belongs to the first, w_T to the last.": lambda: np.concatenate([right[:1], right[1:][::-1]]),
        "the weight of the start stands last: it comes first.": lambda: np.concatenate([right[1:], right[:1]]),
        "the weights are averaged over the units: each unit has its own.": lambda: right.mean(axis=1),
        "w is transposed: the steps are the first axis.": lambda: right.T,
        "the gates do not see the state: f_t reads h_{t-1} and x_t.": lambda: shares(without_state),
        "every gate reads the start h0: f_t reads h_{t-1}.": lambda: shares(from_start),
        "the gates come from the chapter's cell, where f multiplies h before the product.":
            lambda: shares(gates(inner=lambda f, h, W_n, from_x: (f * h) @ W_n + from_x)),
        "the gates come from a cell whose f is the share of the old.": lambda: shares(gates(mix=lambda f, n, h: f * h + (1 - f) * n)),
        "these are the gates: the weights are products of them.": lambda: f,
        "the candidates are multiplied in: return the weights alone.": lambda: right * np.concatenate([h0[None], candidates]),
        "the start h0 is multiplied in: w_0 is the product alone.": lambda: np.concatenate([right[:1] * h0, right[1:]]),
        "the start is taken to be zero: the gates begin at h0.": lambda: shares(gates(start=0 * h0)),
        "the gates read the new state: f_t reads h_{t-1}.": lambda: shares(sigma((states[1:] @ params[0] + x @ params[1] + params[2])[:, :H])),
        "the gates are not squashed: f is sigma(a_f).": lambda: shares((states[:-1] @ params[0] + x @ params[1] + params[2])[:, :H]),
        "w_0 is a product of f: it is the product of all 1 - f.": lambda: np.concatenate([f.prod(axis=0, keepdims=True), right[1:]]),
        "w_0 is 1 less all f: it is the product of all 1 - f, and the others shrink too.":
            lambda: np.concatenate([1 - f.sum(axis=0, keepdims=True), f]),
        "the gates are averaged over the units: each unit has its own.": lambda: shares(f.mean(axis=1, keepdims=True) + 0 * f),
        "the products run over the steps before each candidate, which is left to itself: they run over the steps after it.":
            lambda: np.concatenate([right[:1], f * np.array([(1 - f)[:k].prod(axis=0) for k in range(T)])]),
        "the gates are divided by their sum: the weights are products of gates.": lambda: share / share.sum(axis=0),
        "a softmax of the gates is taken: the weights are products of gates.": lambda: np.exp(share) / np.exp(share).sum(axis=0),
        "the states go on without the gate in the candidate: f multiplies h W_n.":
            lambda: shares(gates(inner=lambda f, h, W_n, from_x: h @ W_n + from_x)),
        "a softmax is taken over the steps: the weights add up to 1 by themselves.":
            lambda: np.exp(right) / np.exp(right).sum(axis=0),
        "the weights are divided by their sum once more, over the wrong axis: they add up to 1 over the steps.":
            lambda: right / right.sum(axis=1, keepdims=True),
        "the second block of columns is taken for the gate: f comes first.":
            lambda: shares(np.array([sigma((h @ params[0] + x_t @ params[1] + params[2])[H:]) for h, x_t in zip(along(params, h0, x), x)])),
        "the sequence is read from its end.": lambda: shares(gates_of_reversed(params, h0, x)),
    })  # fmt: skip
    if problem and isinstance(outputs, np.ndarray) and outputs.shape == right.shape and not close(outputs.sum(axis=0), np.ones(H)):
        problem += " For each unit the weights must add up to 1, and these do not."
    return problem


def along(params: tuple, h: Any, x: Any) -> list:
    """The states h_0, ..., h_T of exercise 7."""
    states = [h]
    for x_t in x:
        states.append(mgu(params, states[-1], x_t))
    return states


def gates_of_reversed(params: tuple, h0: Any, x: Any) -> np.ndarray:
    """The gates of a sequence that is read from its end."""
    return np.array([sigma((h @ params[0] + x_t @ params[1] + params[2])[: len(h0)]) for h, x_t in zip(along(params, h0, x[::-1]), x[::-1])])
