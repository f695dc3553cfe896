"""Answers to lab 2: wrong ones with the mistake that each makes, and right ones in other forms."""
import jax
import jax.numpy as jnp
import numpy as np

from answers import Answers
from unrolled.gates import LSTMState

wrong, right = Answers(), Answers()
sigmoid = jax.nn.sigmoid


def columns(params, h, x, order):
    """The blocks of h W + x U + b, by name."""
    W, U, b = params[:3]
    return dict(zip(order, jnp.split(h @ W + x @ U + b, len(order))))


# ---------------------------------------------------------------- 1: the LSTM in another order


def lstm(params, state, x, order="fiog"):
    a = columns(params, state.h, x, order)
    c = sigmoid(a["f"]) * state.c + sigmoid(a["i"]) * jnp.tanh(a["g"])
    return LSTMState(sigmoid(a["o"]) * jnp.tanh(c), c)


def step_with(cell, hidden=lambda o, c, old: o * jnp.tanh(c)):
    """An answer that forms the cell as `cell(f, i, g, c)` says, and the hidden state as `hidden(o, c, old)` says."""
    def step(params, state, x):
        a = columns(params, state.h, x, "fiog")
        c = cell(sigmoid(a["f"]), sigmoid(a["i"]), jnp.tanh(a["g"]), state.c)
        return LSTMState(hidden(sigmoid(a["o"]), c, state.c), c)
    return step


plain_cell = lambda f, i, g, c: f * c + i * g
wrong("step", "the order of PyTorch")(lambda params, state, x: lstm(params, state, x, "ifgo"))
wrong("step", "the order o, f, i, g")(lambda params, state, x: lstm(params, state, x, "ofig"))
wrong("step", "f and i have changed places")(lambda params, state, x: lstm(params, state, x, "ifog"))
wrong("step", "no tanh on the cell")(step_with(plain_cell, lambda o, c, old: o * c))
wrong("step", "h is read from the old cell")(step_with(plain_cell, lambda o, c, old: o * jnp.tanh(old)))
wrong("step", "no output gate")(step_with(plain_cell, lambda o, c, old: jnp.tanh(c)))
wrong("step", "1 - f keeps")(step_with(lambda f, i, g, c: (1 - f) * c + i * g))
wrong("step", "1 - f for i")(step_with(lambda f, i, g, c: f * c + (1 - f) * g))
wrong("step", "no input gate")(step_with(lambda f, i, g, c: f * c + g))
wrong("step", "tanh on the way to c")(step_with(lambda f, i, g, c: jnp.tanh(f * c + i * g)))
wrong("step", "c before h")(lambda params, state, x: lstm(params, state, x)[::-1])
wrong("step", "h alone")(lambda params, state, x: lstm(params, state, x).h)
wrong("step", "the state is unpacked as c, h")(lambda params, state, x: lstm(params, LSTMState(state.c, state.h), x))
wrong("step", "no bias")(lambda params, state, x: lstm((*params[:2], 0 * params[2]), state, x))
wrong("step", "the bias twice, once for each product")(lambda params, state, x: lstm((*params[:2], 2 * params[2]), state, x))
wrong("step", "the old cell is returned")(lambda params, state, x: LSTMState(lstm(params, state, x).h, state.c))


@wrong("step", "all four blocks go through the logistic function")
def step_all_sigma(params, state, x):
    f, i, o, g = jnp.split(sigmoid(state.h @ params[0] + x @ params[1] + params[2]), 4)
    c = f * state.c + i * g
    return LSTMState(o * jnp.tanh(c), c)


@wrong("step", "reshape cuts unit by unit")
def step_interleaved(params, state, x):
    f, i, o, g = (state.h @ params[0] + x @ params[1] + params[2]).reshape(-1, 4).T
    c = sigmoid(f) * state.c + sigmoid(i) * jnp.tanh(g)
    return LSTMState(sigmoid(o) * jnp.tanh(c), c)


right("step", "as the equations stand")(lstm)
right("step", "a tuple for the state")(lambda params, state, x: tuple(lstm(params, state, x)))
right("step", "jitted")(jax.jit(lstm))


@right("step", "one matrix for state, input and 1")
def step_one_matrix(params, state, x):
    W, U, b = params
    a = jnp.concatenate([state.h, x, jnp.ones(1)]) @ jnp.vstack([W, U, b])
    f, i, o, g = a.reshape(4, -1)
    c = sigmoid(f) * state.c + sigmoid(i) * jnp.tanh(g)
    return LSTMState(sigmoid(o) * jnp.tanh(c), c)


@right("step", "slices and einsum, tanh for the logistic function")
def step_slices(params, state, x):
    W, U, b = params
    H = len(state.h)
    part = lambda k: (jnp.einsum("j,jk->k", state.h, W[:, k * H:(k + 1) * H]) + jnp.einsum("d,dk->k", x, U[:, k * H:(k + 1) * H])
                      + b[k * H:(k + 1) * H])
    half = lambda a: 0.5 + 0.5 * jnp.tanh(a / 2)
    c = half(part(0)) * state.c + half(part(1)) * jnp.tanh(part(3))
    return LSTMState(half(part(2)) * jnp.tanh(c), c)


@right("step", "NumPy in float64")
def step_numpy(params, state, x):
    W, U, b, h, c, x = (np.asarray(array, np.float64) for array in (*params, *state, x))
    f, i, o, g = np.split(h @ W + x @ U + b, 4)
    logistic = lambda a: 1 / (1 + np.exp(-a))
    c = logistic(f) * c + logistic(i) * np.tanh(g)
    return logistic(o) * np.tanh(c), c


# ---------------------------------------------------------------- 2: weights from PyTorch


def moved(rows, theirs, ours):
    found = dict(zip(theirs, jnp.split(rows, len(theirs))))
    return jnp.concatenate([found[name] for name in ours]).T


def port(theirs, ours, biases, arrays):
    """W, U, and what `biases` makes of both biases, which are in our order."""
    W, U, b_x, b_h = (moved(arrays[name], theirs, ours) for name in ("weight_hh_l0", "weight_ih_l0", "bias_ih_l0", "bias_hh_l0"))
    return (W, U, *biases(b_x, b_h))


def port_lstm_with(biases, theirs="ifgo", ours="fiog"):
    return lambda arrays: port(theirs, ours, biases, arrays)


added = lambda b_x, b_h: (b_x + b_h,)
wrong("port_lstm", "bias_hh is lost")(port_lstm_with(lambda b_x, b_h: (b_x,)))
wrong("port_lstm", "bias_ih is lost")(port_lstm_with(lambda b_x, b_h: (b_h,)))
wrong("port_lstm", "bias_hh is added twice")(port_lstm_with(lambda b_x, b_h: (b_x + b_h + b_h,)))
wrong("port_lstm", "the mean of the biases")(port_lstm_with(lambda b_x, b_h: ((b_x + b_h) / 2,)))
wrong("port_lstm", "both biases are returned")(port_lstm_with(lambda b_x, b_h: (b_x, b_h)))
wrong("port_lstm", "the biases one after the other")(port_lstm_with(lambda b_x, b_h: (jnp.concatenate([b_x, b_h]),)))
wrong("port_lstm", "the order is left as it was")(port_lstm_with(added, ours="ifgo"))
wrong("port_lstm", "only f and i are exchanged")(port_lstm_with(added, ours="figo"))
wrong("port_lstm", "nothing is transposed, the order is right")(lambda arrays: tuple(part.T for part in port("ifgo", "fiog", added, arrays)))
wrong("port_lstm", "W and U are exchanged")(lambda arrays: (lambda W, U, b: (U, W, b))(*port("ifgo", "fiog", added, arrays)))
wrong("port_lstm", "the bias keeps PyTorch's order")(
    lambda arrays: (*port("ifgo", "fiog", added, arrays)[:2], arrays["bias_ih_l0"] + arrays["bias_hh_l0"]))


@wrong("port_lstm", "reshape for transpose")
def port_lstm_reshaped(arrays):
    W, U, b = port("ifgo", "fiog", added, arrays)
    return W.T.reshape(W.shape), U.T.reshape(U.shape), b


right("port_lstm", "by name")(port_lstm_with(added))
right("port_lstm", "a list of three")(lambda arrays: list(port("ifgo", "fiog", added, arrays)))
right("port_lstm", "moved the other way, which is the same exchange of neighbours")(port_lstm_with(added, theirs="fiog", ours="ifgo"))
right("port_lstm", "jitted")(jax.jit(port_lstm_with(added)))


@right("port_lstm", "an index of columns")
def port_lstm_index(arrays):
    H = arrays["weight_hh_l0"].shape[1]
    place = (jnp.array([1, 0, 3, 2])[:, None] * H + jnp.arange(H)).ravel()
    b = arrays["bias_ih_l0"] + arrays["bias_hh_l0"]
    return arrays["weight_hh_l0"].T[:, place], arrays["weight_ih_l0"].T[:, place], b[place]


@right("port_lstm", "NumPy and hstack")
def port_lstm_numpy(arrays):
    parts = {name: np.split(np.asarray(array), 4) for name, array in arrays.items()}
    stack = lambda name: np.hstack([parts[name][k].T for k in (1, 0, 3, 2)])
    return stack("weight_hh_l0"), stack("weight_ih_l0"), stack("bias_ih_l0") + stack("bias_hh_l0")


def gru_biases(b_x, b_h):
    H = len(b_x) // 3
    return b_x.at[:2 * H].add(b_h[:2 * H]), b_h[2 * H:]


def port_gru_with(biases=gru_biases, theirs="rzn", ours="zrn"):
    return lambda arrays: port(theirs, ours, biases, arrays)


third = lambda b: jnp.split(b, 3)[2]
wrong("port_gru", "b_hn is added on the input's side, b_n is zero")(port_gru_with(lambda b_x, b_h: (b_x + b_h, 0 * third(b_h))))
wrong("port_gru", "b_hn counts twice")(port_gru_with(lambda b_x, b_h: (b_x + b_h, third(b_h))))
wrong("port_gru", "b_hn is lost")(port_gru_with(lambda b_x, b_h: (gru_biases(b_x, b_h)[0], 0 * third(b_h))))
wrong("port_gru", "b_n is b_in + b_hn")(port_gru_with(lambda b_x, b_h: (gru_biases(b_x, b_h)[0], third(b_x + b_h))))
wrong("port_gru", "the biases of the gates are not added")(port_gru_with(lambda b_x, b_h: (b_x, third(b_h))))
wrong("port_gru", "b_n is all of bias_hh")(port_gru_with(lambda b_x, b_h: (b_x, b_h)))
wrong("port_gru", "three results, with all biases in b")(port_gru_with(lambda b_x, b_h: (b_x + b_h,)))
wrong("port_gru", "b_n is the bias of z")(port_gru_with(lambda b_x, b_h: (gru_biases(b_x, b_h)[0], jnp.split(b_h, 3)[0])))
wrong("port_gru", "the order is left as it was")(port_gru_with(ours="rzn"))
wrong("port_gru", "the order n, z, r")(port_gru_with(lambda b_x, b_h: (b_x.at[len(b_x) // 3:].add(b_h[len(b_x) // 3:]), jnp.split(b_h, 3)[0]), ours="nzr"))
wrong("port_gru", "the kernels are not transposed")(
    lambda arrays: (lambda W, U, b, b_n: (W.T, U.T, b, b_n))(*port("rzn", "zrn", gru_biases, arrays)))
wrong("port_gru", "a pair of biases, as another library has it")(port_gru_with(lambda b_x, b_h: (jnp.stack([b_x, b_h]),)))
wrong("port_gru", "the sign of z is turned")(
    lambda arrays: (lambda W, U, b, b_n: (W.at[:, :len(W)].multiply(-1), U.at[:, :len(W)].multiply(-1), b.at[:len(W)].multiply(-1), b_n))(
        *port("rzn", "zrn", gru_biases, arrays)))

right("port_gru", "by name")(port_gru_with())
right("port_gru", "a list of four")(lambda arrays: list(port("rzn", "zrn", gru_biases, arrays)))
right("port_gru", "jitted")(jax.jit(port_gru_with()))


@right("port_gru", "an index of columns and a mask")
def port_gru_index(arrays):
    H = arrays["weight_hh_l0"].shape[1]
    place = jnp.concatenate([jnp.arange(H, 2 * H), jnp.arange(H), jnp.arange(2 * H, 3 * H)])
    b_h = arrays["bias_hh_l0"]
    b = arrays["bias_ih_l0"] + jnp.where(jnp.arange(3 * H) < 2 * H, b_h, 0)
    return arrays["weight_hh_l0"].T[:, place], arrays["weight_ih_l0"].T[:, place], b[place], b_h[2 * H:]


@right("port_gru", "NumPy and hstack")
def port_gru_numpy(arrays):
    parts = {name: np.split(np.asarray(array), 3) for name, array in arrays.items()}
    stack = lambda name: np.hstack([parts[name][k].T for k in (1, 0, 2)])
    b_x, b_h = parts["bias_ih_l0"], parts["bias_hh_l0"]
    return stack("weight_hh_l0"), stack("weight_ih_l0"), np.hstack([b_x[1] + b_h[1], b_x[0] + b_h[0], b_x[2]]), b_h[2]


# ---------------------------------------------------------------- 3: padding


def zeros_of(params):
    zero = jnp.zeros(len(params[0]))
    return LSTMState(zero, zero)


def where(ok, new, old):
    return jax.tree.map(lambda a, b: jnp.where(ok, a, b), new, old)


def reader(choose=where, clean=lambda ok, x: jnp.where(ok, x, 0.0), start=zeros_of):
    """An answer that takes inputs as `clean(ok, x)` and keeps states as `choose(ok, new, old)`."""
    def read(params, x, valid):
        def forward(state, now):
            x_t, ok = now
            return choose(ok, lstm(params, state, clean(ok, x_t)), state), None
        return jax.vmap(lambda *row: jax.lax.scan(forward, start(params), row)[0])(x, valid)
    return read


def slopes(read, of=lambda state: state.h.sum()):
    return lambda params, x, valid: jax.grad(lambda x: of(read(params, x, valid)))(x)


right_read = reader()
as_it_is = lambda ok, x: x
new_state = lambda ok, new, old: new
zeroing = lambda ok, new, old: where(ok, new, LSTMState(0 * old.h, 0 * old.c))


def read_loop(params, x, valid):
    rows = []
    for row, marks in zip(x, valid):
        state = zeros_of(params)
        for x_t, ok in zip(row, marks):
            if ok:
                state = lstm(params, state, x_t)
        rows.append(state)
    return LSTMState(jnp.stack([s.h for s in rows]), jnp.stack([s.c for s in rows]))


def read_counted(params, x, valid):
    """Takes the state at the place that the number of valid steps names."""
    def one(x, valid):
        def forward(state, x_t):
            state = lstm(params, state, x_t)
            return state, state
        states = jax.lax.scan(forward, zeros_of(params), x)[1]
        return jax.tree.map(lambda s: s[jnp.maximum(valid.sum(), 1) - 1], states)
    return jax.vmap(one)(x, valid)


wrong("read", "padding is read like any input")(reader(new_state, as_it_is))
wrong("read", "padding is set to zero and read")(reader(new_state))
wrong("read", "padding zeroes the state")(reader(zeroing))
wrong("read", "the mask is turned round")(lambda params, x, valid: right_read(params, jnp.where(jnp.isfinite(x), x, 0), ~valid))
wrong("read", "only h is kept")(reader(lambda ok, new, old: LSTMState(jnp.where(ok, new.h, old.h), new.c)))
wrong("read", "only c is kept")(reader(lambda ok, new, old: LSTMState(new.h, jnp.where(ok, new.c, old.c))))
wrong("read", "the mask is multiplied, with NaN in the padding")(
    reader(lambda ok, new, old: jax.tree.map(lambda a, b: ok * a + (1 - ok) * b, new, old), as_it_is))
wrong("read", "the last state is multiplied by the mask")(
    lambda params, x, valid: jax.tree.map(lambda s: s * valid[:, -1:], right_read(params, x, valid)))
wrong("read", "padding is expected at the end")(read_counted)
wrong("read", "reading stops at the first padding")(lambda params, x, valid: right_read(params, x, jnp.cumprod(valid, axis=1) > 0))
wrong("read", "h and c have changed places")(lambda params, x, valid: right_read(params, x, valid)[::-1])
wrong("read", "h alone")(lambda params, x, valid: right_read(params, x, valid).h)
wrong("read", "read from the end")(lambda params, x, valid: right_read(params, x[:, ::-1], valid[:, ::-1]))
wrong("read", "a start of ones")(reader(start=lambda params: jax.tree.map(jnp.ones_like, zeros_of(params))))
wrong("read", "the mean over the batch")(lambda params, x, valid: jax.tree.map(lambda s: s.mean(axis=0), right_read(params, x, valid)))

right("read", "scan and where")(right_read)
right("read", "a where after the step alone, which is right in value")(reader(clean=as_it_is))
right("read", "a loop that passes over padding")(read_loop)
right("read", "jitted")(jax.jit(right_read))
right("read", "lax.cond")(lambda params, x, valid: LSTMState(*map(jnp.stack, zip(*[jax.lax.scan(
    lambda s, now: (jax.lax.cond(now[1], lambda s: lstm(params, s, now[0]), lambda s: s, s), None),
    zeros_of(params), row)[0] for row in zip(x, valid)]))))

nan_slopes = slopes(reader(clean=as_it_is))
wrong("sensitivity", "where after the step alone")(nan_slopes)
wrong("sensitivity", "NaN is replaced after the fact")(lambda params, x, valid: jnp.nan_to_num(nan_slopes(params, x, valid)))
wrong("sensitivity", "padding is read like any input")(slopes(reader(new_state, as_it_is)))
wrong("sensitivity", "padding is set to zero and read")(slopes(reader(new_state)))
wrong("sensitivity", "padding zeroes the state")(slopes(reader(zeroing)))
wrong("sensitivity", "c is differentiated")(slopes(right_read, lambda state: state.c.sum()))
wrong("sensitivity", "h and c are differentiated")(slopes(right_read, lambda state: state.c.sum() + state.h.sum()))
wrong("sensitivity", "the mean is differentiated")(slopes(right_read, lambda state: state.h.mean()))
wrong("sensitivity", "squares are differentiated")(slopes(right_read, lambda state: (state.h**2).sum()))
wrong("sensitivity", "absolute values")(lambda params, x, valid: jnp.abs(slopes(right_read)(params, x, valid)))
wrong("sensitivity", "lengths")(lambda params, x, valid: jnp.linalg.norm(slopes(right_read)(params, x, valid), axis=2))
wrong("sensitivity", "a sum over the inputs of a step")(lambda params, x, valid: slopes(right_read)(params, x, valid).sum(axis=2))
wrong("sensitivity", "padding is expected at the end")(lambda params, x, valid: slopes(right_read)(params, x, jnp.cumprod(valid, axis=1) > 0))

right("sensitivity", "grad")(slopes(right_read))
right("sensitivity", "a loop that passes over padding")(slopes(read_loop))
right("sensitivity", "vjp")(lambda params, x, valid: jax.vjp(lambda x: right_read(params, x, valid).h, x)[1](
    jnp.ones((len(x), len(params[0]))))[0])
right("sensitivity", "jacrev, summed")(lambda params, x, valid: jax.jacrev(lambda x: right_read(params, x, valid).h)(x).sum(axis=(0, 1)))
right("sensitivity", "row by row")(lambda params, x, valid: jnp.stack([
    slopes(right_read)(params, row[None], marks[None])[0] for row, marks in zip(x, valid)]))


# ---------------------------------------------------------------- 4: coupled gates with peepholes


def coupled_with(see_f=lambda p, c, h: p * c, see_o=lambda p, c, old, h: p * c, cell=lambda f, g, c: f * c + (1 - f) * g,
                 hidden=lambda o, c: o * jnp.tanh(c), order="fog"):  # fmt: skip
    def step(params, state, x):
        *_, p_f, p_o = params
        a = columns(params, state.h, x, order)
        f = sigmoid(a["f"] + see_f(p_f, state.c, state.h))
        c = cell(f, jnp.tanh(a["g"]), state.c)
        return LSTMState(hidden(sigmoid(a["o"] + see_o(p_o, c, state.c, state.h)), c), c)
    return step


coupled = coupled_with()
wrong("coupled_step", "the output gate sees the old cell")(coupled_with(see_o=lambda p, c, old, h: p * old))
wrong("coupled_step", "f writes")(coupled_with(cell=lambda f, g, c: f * c + f * g))
wrong("coupled_step", "no input gate")(coupled_with(cell=lambda f, g, c: f * c + g))
wrong("coupled_step", "f and 1 - f have changed places")(coupled_with(cell=lambda f, g, c: (1 - f) * c + f * g))
wrong("coupled_step", "no peepholes")(coupled_with(lambda p, c, h: 0, lambda p, c, old, h: 0))
wrong("coupled_step", "no peephole of f")(coupled_with(lambda p, c, h: 0))
wrong("coupled_step", "no peephole of o")(coupled_with(see_o=lambda p, c, old, h: 0))
wrong("coupled_step", "the peepholes have changed places")(lambda params, state, x: coupled((*params[:3], params[4], params[3]), state, x))
wrong("coupled_step", "the peepholes see h")(coupled_with(lambda p, c, h: p * h, lambda p, c, old, h: p * h))
wrong("coupled_step", "the peepholes see tanh of the cell")(
    coupled_with(lambda p, c, h: p * jnp.tanh(c), lambda p, c, old, h: p * jnp.tanh(c)))
wrong("coupled_step", "the peepholes sum over the cells")(coupled_with(lambda p, c, h: p @ c, lambda p, c, old, h: p @ c))
wrong("coupled_step", "the order f, g, o")(coupled_with(order="fgo"))
wrong("coupled_step", "no tanh on the cell")(coupled_with(hidden=lambda o, c: o * c))
wrong("coupled_step", "h alone")(lambda params, state, x: coupled(params, state, x).h)
wrong("coupled_step", "c before h")(lambda params, state, x: coupled(params, state, x)[::-1])

right("coupled_step", "by name")(coupled)
right("coupled_step", "moved towards g")(coupled_with(cell=lambda f, g, c: g + f * (c - g)))
right("coupled_step", "jitted")(jax.jit(coupled))
right("coupled_step", "a tuple")(lambda params, state, x: tuple(coupled(params, state, x)))


@right("coupled_step", "NumPy in float64")
def coupled_numpy(params, state, x):
    W, U, b, p_f, p_o, h, c, x = (np.asarray(array, np.float64) for array in (*params, *state, x))
    f, o, g = np.split(h @ W + x @ U + b, 3)
    keep = 1 / (1 + np.exp(-f - p_f * c))
    c = keep * c + (1 - keep) * np.tanh(g)
    return np.tanh(c) / (1 + np.exp(-o - p_o * c)), c


# ---------------------------------------------------------------- 5: the highway


def forget_gates(params, start, x):
    def forward(state, x_t):
        return lstm(params, state, x_t), sigmoid(columns(params, state.h, x_t, "fiog")["f"])
    return jax.lax.scan(forward, start, x)[1]


def tails(params, start, x):
    """The states 0 to T."""
    states = [start]
    for x_t in x:
        states.append(lstm(params, states[-1], x_t))
    return states


def last_by(params, x, of=lambda state: state.c):
    """From a state, what `of` reads after the inputs x."""
    def end(h, c):
        state = LSTMState(h, c)
        for x_t in x:
            state = lstm(params, state, x_t)
        return of(state)
    return end


def jacobians(params, start, x, by=1, of=lambda state: state.c):
    return jnp.stack([jax.jacfwd(last_by(params, x[k:], of), argnums=by)(*state) for k, state in enumerate(tails(params, start, x))])


def products(f):
    return jnp.stack([jnp.prod(f[k:], axis=0) for k in range(len(f) + 1)])


rms = lambda rows: jnp.sqrt((rows**2).mean(axis=1))
size = lambda J: jnp.sqrt((J**2).sum(axis=(1, 2)) / J.shape[1])


def highway_with(direct=lambda f: rms(products(f)), full=lambda J, f: size(J), **settings):
    def highway(params, start, x):
        f = forget_gates(params, start, x)
        return direct(f), full(jacobians(params, start, x, **settings), f)
    return highway


right_highway = highway_with()
wrong("highway", "full is the direct way")(highway_with(full=lambda J, f: rms(products(f))))
wrong("highway", "f_k is in the product")(highway_with(lambda f: jnp.concatenate([rms(products(f))[:1], rms(products(f))[:-1]])))
wrong("highway", "products from the start")(highway_with(lambda f: rms(jnp.concatenate([jnp.ones_like(f[:1]), jnp.cumprod(f, axis=0)]))))
wrong("highway", "direct runs backwards")(highway_with(lambda f: rms(products(f))[::-1]))
wrong("highway", "both run backwards")(lambda *inputs: tuple(part[::-1] for part in right_highway(*inputs)))
wrong("highway", "a plain mean")(highway_with(lambda f: products(f).mean(axis=1)))
wrong("highway", "no root")(lambda *inputs: tuple(part**2 for part in right_highway(*inputs)))
wrong("highway", "not divided by H")(highway_with(full=lambda J, f: jnp.sqrt((J**2).sum(axis=(1, 2)))))
wrong("highway", "the derivative of h_T")(highway_with(of=lambda state: state.h))
wrong("highway", "the derivative by h_k")(highway_with(by=0))
wrong("highway", "the largest singular value")(highway_with(full=lambda J, f: jnp.linalg.norm(J, ord=2, axis=(1, 2))))
wrong("highway", "the diagonal alone")(highway_with(full=lambda J, f: rms(jnp.diagonal(J, axis1=1, axis2=2))))
wrong("highway", "the sum of c_T is differentiated")(highway_with(full=lambda J, f: rms(J.sum(axis=1))))
wrong("highway", "changed places")(lambda *inputs: right_highway(*inputs)[::-1])
wrong("highway", "the last entry is missing")(lambda *inputs: tuple(part[:-1] for part in right_highway(*inputs)))
wrong("highway", "single gates")(highway_with(lambda f: rms(jnp.concatenate([f, jnp.ones_like(f[:1])]))))


@wrong("highway", "h moves along with c")
def highway_together(params, start, x):
    def end(nudges):
        state = LSTMState(start.h, start.c + nudges[0])
        for x_t, nudge in zip(x, nudges[1:]):
            a = columns(params, state.h, x_t, "fiog")
            c = sigmoid(a["f"]) * state.c + sigmoid(a["i"]) * jnp.tanh(a["g"]) + nudge
            state = LSTMState(sigmoid(a["o"]) * jnp.tanh(c), c)
        return state.c
    J = jax.jacrev(end)(jnp.zeros((len(x) + 1, len(start.h)))).transpose(1, 0, 2)
    return right_highway(params, start, x)[0], size(J)


right("highway", "a tail for every k")(right_highway)
right("highway", "jitted")(jax.jit(right_highway))
right("highway", "a list")(lambda *inputs: list(right_highway(*inputs)))
right("highway", "lengths, divided by the root of H")(highway_with(
    lambda f: jnp.linalg.norm(products(f), axis=1) / f.shape[1] ** 0.5,
    lambda J, f: jnp.linalg.norm(J, axis=(1, 2)) / f.shape[1] ** 0.5))


@right("highway", "products of the Jacobians of single steps")
def highway_products(params, start, x):
    H = len(start.h)
    by_h, by_c, full = jnp.zeros((H, H)), jnp.eye(H), [1.0]
    for state, x_t in list(zip(tails(params, start, x), x))[::-1]:
        J = jax.jacrev(lambda s, x_t=x_t: lstm(params, s, x_t))(state)
        by_h, by_c = by_h @ J.h.h + by_c @ J.c.h, by_h @ J.h.c + by_c @ J.c.c
        full.append(jnp.linalg.norm(by_c) / H**0.5)
    return rms(products(forget_gates(params, start, x))), jnp.array(full[::-1])


# ---------------------------------------------------------------- 6: where the reset gate stands


def gru_with(inner=None, mix=lambda z, n, h: z * h + (1 - z) * n, order="zrn", candidate=jnp.tanh):
    def step(params, h, x, after):
        W, U, b, b_n = params
        cut = lambda array: dict(zip(order, jnp.split(array, 3, axis=-1)))
        from_x, W = cut(x @ U + b), cut(W)
        z, r = (sigmoid(h @ W[name] + from_x[name]) for name in "zr")
        after_it = lambda: r * (h @ W["n"] + b_n)
        before_it = lambda: (r * h) @ W["n"] + b_n
        inside = inner(r, h, W["n"], b_n, after) if inner else (after_it() if after else before_it())
        return mix(z, candidate(from_x["n"] + inside), h)
    return step


gru = gru_with()
wrong("gru_step", "the switch is the wrong way round")(lambda params, h, x, after: gru(params, h, x, not after))
wrong("gru_step", "always after")(lambda params, h, x, after: gru(params, h, x, True))
wrong("gru_step", "always before")(lambda params, h, x, after: gru(params, h, x, False))
wrong("gru_step", "b_n outside the reset")(gru_with(lambda r, h, W, b, after: r * (h @ W) + b if after else (r * h) @ W + b))
wrong("gru_step", "b_n reset before too")(gru_with(lambda r, h, W, b, after: r * (h @ W + b) if after else (r * h) @ W + r * b))
wrong("gru_step", "b_n is missing")(lambda params, h, x, after: gru((*params[:3], 0 * params[3]), h, x, after))
wrong("gru_step", "z is the share of the new")(gru_with(mix=lambda z, n, h: (1 - z) * h + z * n))
wrong("gru_step", "the order r, z, n")(gru_with(order="rzn"))
wrong("gru_step", "no reset gate")(gru_with(lambda r, h, W, b, after: h @ W + b))
wrong("gru_step", "reset twice")(gru_with(lambda r, h, W, b, after: r * ((r * h) @ W + b)))
wrong("gru_step", "no tanh")(gru_with(candidate=lambda a: a))
wrong("gru_step", "the candidate alone")(gru_with(mix=lambda z, n, h: n))
wrong("gru_step", "the old state is missing")(gru_with(mix=lambda z, n, h: (1 - z) * n))
right("gru_step", "by name")(gru)
right("gru_step", "moved towards n")(gru_with(mix=lambda z, n, h: n + z * (h - n)))
right("gru_step", "jitted with a static switch")(jax.jit(gru, static_argnums=3))
right("gru_step", "where for the switch")(gru_with(lambda r, h, W, b, after: jnp.where(after, r * (h @ W + b), (r * h) @ W + b)))
right("gru_step", "a diagonal matrix for the gate")(
    gru_with(lambda r, h, W, b, after: jnp.diag(r) @ (W.T @ h + b) if after else W.T @ jnp.diag(r) @ h + b))


def agreeing_with(change, keep_bias=False):
    def agreeing(params):
        W, U, b, b_n = params
        H = len(b_n)
        return jnp.hstack([W[:, :2 * H], change(W[:, 2 * H:])]), U, b, b_n if keep_bias else 0 * b_n
    return agreeing


diagonal = lambda W: jnp.diag(jnp.diag(W))
wrong("agreeing", "b_n stays")(agreeing_with(diagonal, keep_bias=True))
wrong("agreeing", "W_n stays")(agreeing_with(lambda W: W))
wrong("agreeing", "nothing is changed")(lambda params: params)
wrong("agreeing", "W_n is zero")(agreeing_with(lambda W: 0 * W))
wrong("agreeing", "W_n is the identity")(agreeing_with(lambda W: jnp.eye(len(W))))
wrong("agreeing", "the upper triangle")(agreeing_with(jnp.triu))
wrong("agreeing", "all but the diagonal")(agreeing_with(lambda W: W - diagonal(W)))
wrong("agreeing", "all blocks diagonal")(lambda params: (
    jnp.hstack([diagonal(block) for block in jnp.hsplit(params[0], 3)]), *params[1:3], 0 * params[3]))
wrong("agreeing", "b_n is moved into b")(lambda params: (
    agreeing_with(diagonal)(params)[0], params[1], params[2].at[2 * len(params[3]):].add(params[3]), 0 * params[3]))
wrong("agreeing", "the gate of r is opened by its bias")(lambda params: (
    params[0], params[1], params[2].at[len(params[3]):2 * len(params[3])].set(100.0), params[3]))
wrong("agreeing", "W_n alone")(lambda params: (diagonal(params[0][:, 2 * len(params[0]):]), *params[1:3], 0 * params[3]))
right("agreeing", "diag of diag")(agreeing_with(diagonal))
right("agreeing", "times eye")(agreeing_with(lambda W: W * jnp.eye(len(W))))
right("agreeing", "where")(agreeing_with(lambda W: jnp.where(jnp.eye(len(W), dtype=bool), W, 0)))
right("agreeing", "jitted")(jax.jit(agreeing_with(diagonal)))
right("agreeing", "a list")(lambda params: list(agreeing_with(diagonal)(params)))


# ---------------------------------------------------------------- 7: the minimal gated unit


def mgu_with(inner=lambda f, h, W, a: f * (h @ W) + a, mix=lambda f, n, h: (1 - f) * h + f * n, order="fn", candidate=jnp.tanh):
    def step(params, h, x):
        W, from_x = (dict(zip(order, jnp.split(array, 2, axis=-1))) for array in (params[0], x @ params[1] + params[2]))
        f = sigmoid(h @ W["f"] + from_x["f"])
        return mix(f, candidate(inner(f, h, W["n"], from_x["n"])), h)
    return step


mgu = mgu_with()
wrong("mgu_step", "f before the product")(mgu_with(lambda f, h, W, a: (f * h) @ W + a))
wrong("mgu_step", "f is the share of the old")(mgu_with(mix=lambda f, n, h: f * h + (1 - f) * n))
wrong("mgu_step", "the order n, f")(mgu_with(order="nf"))
wrong("mgu_step", "f does not reset")(mgu_with(lambda f, h, W, a: h @ W + a))
wrong("mgu_step", "1 - f resets")(mgu_with(lambda f, h, W, a: (1 - f) * (h @ W) + a))
wrong("mgu_step", "f multiplies the input's part")(mgu_with(lambda f, h, W, a: f * (h @ W + a)))
wrong("mgu_step", "no tanh")(mgu_with(candidate=lambda a: a))
wrong("mgu_step", "the old state is missing")(mgu_with(mix=lambda f, n, h: f * n))
wrong("mgu_step", "the candidate is added whole")(mgu_with(mix=lambda f, n, h: (1 - f) * h + n))
wrong("mgu_step", "no bias")(lambda params, h, x: mgu((*params[:2], 0 * params[2]), h, x))
right("mgu_step", "by name")(mgu)
right("mgu_step", "moved towards n")(mgu_with(mix=lambda f, n, h: h + f * (n - h)))
right("mgu_step", "jitted")(jax.jit(mgu))
right("mgu_step", "einsum")(mgu_with(lambda f, h, W, a: jnp.einsum("i,ij,j->j", h, W, f) + a))
right("mgu_step", "the tanh by way of the logistic function")(mgu_with(candidate=lambda a: 2 * sigmoid(2 * a) - 1))


def mgu_gates(params, h0, x, step=mgu, order=0):
    def forward(h, x_t):
        return step(params, h, x_t), sigmoid(jnp.split(h @ params[0] + x_t @ params[1] + params[2], 2)[order])
    return jax.lax.scan(forward, h0, x)[1]


def weights_with(make, **settings):
    return lambda params, h0, x: make(mgu_gates(params, h0, x, **settings))


def shares(f):
    return jnp.concatenate([jnp.ones_like(f[:1]), f]) * products(1 - f)


ones_first = lambda f: jnp.concatenate([jnp.ones_like(f[:1]), f])
wrong("weights", "f and 1 - f have changed places")(weights_with(lambda f: shares(1 - f)))
wrong("weights", "1 - f_i is in the product of i")(
    weights_with(lambda f: ones_first(f) * jnp.concatenate([products(1 - f)[:1], products(1 - f)[:-1]])))
wrong("weights", "the products run from the start")(
    weights_with(lambda f: ones_first(f) * jnp.concatenate([jnp.ones_like(f[:1]), jnp.cumprod(1 - f, axis=0)])))
wrong("weights", "the share of the candidate is missing")(weights_with(lambda f: products(1 - f)))
wrong("weights", "nothing is lost later")(weights_with(lambda f: jnp.concatenate([products(1 - f)[:1], f])))
wrong("weights", "no weight of the start")(weights_with(lambda f: shares(f)[1:]))
wrong("weights", "the weights run backwards")(weights_with(lambda f: shares(f)[::-1]))
wrong("weights", "the start stands last")(weights_with(lambda f: jnp.roll(shares(f), -1, axis=0)))
wrong("weights", "the mean over the units")(weights_with(lambda f: shares(f).mean(axis=1)))
wrong("weights", "transposed")(weights_with(lambda f: shares(f).T))
wrong("weights", "the gates alone")(weights_with(lambda f: f))
wrong("weights", "a softmax on top")(weights_with(lambda f: jax.nn.softmax(shares(f), axis=0)))
wrong("weights", "the chapter's cell")(weights_with(shares, step=mgu_with(lambda f, h, W, a: (f * h) @ W + a)))
wrong("weights", "the block of n for the gate")(weights_with(shares, order=1))
wrong("weights", "gates without a state")(lambda params, h0, x: shares(sigmoid((x @ params[1] + params[2])[:, :len(h0)])))
right("weights", "products of later gates")(weights_with(shares))
right("weights", "jitted")(jax.jit(weights_with(shares)))


@right("weights", "a list that every step multiplies")
def weights_loop(params, h0, x):
    w = [jnp.ones_like(h0)]
    for f in mgu_gates(params, h0, x):
        w = [(1 - f) * before for before in w] + [f]
    return jnp.stack(w)


@right("weights", "a scan from the end")
def weights_back(params, h0, x):
    def back(kept, f):
        return kept * (1 - f), kept * f
    start, w = jax.lax.scan(back, jnp.ones_like(h0), mgu_gates(params, h0, x), reverse=True)
    return jnp.concatenate([start[None], w])


@right("weights", "differences of what is kept")
def weights_differences(params, h0, x):
    kept = products(1 - mgu_gates(params, h0, x))
    return jnp.concatenate([kept[:1], jnp.diff(kept, axis=0)])
