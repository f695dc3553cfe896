"""More answers to lab 2, by someone who had read its text alone: traps that a first version of the checks could not name."""
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np

from answers import Answers
from unrolled.gates import LSTMState

wrong, right = Answers(), Answers()

sig = jax.nn.sigmoid


def good_step(params, state, x):
    W, U, b = params
    f, i, o, g = jnp.split(state[0] @ W + x @ U + b, 4)
    c = sig(f) * state[1] + sig(i) * jnp.tanh(g)
    return LSTMState(sig(o) * jnp.tanh(c), c)


# ---------------------------------------------------------------- step


@wrong("step", "tanh of the sigmoid of a_g")
def step_tanh_of_sigmoid(params, state, x):
    W, U, b = params
    f, i, o, g = jnp.split(sig(state.h @ W + x @ U + b), 4)
    c = f * state.c + i * jnp.tanh(g)
    return LSTMState(o * jnp.tanh(c), c)


@wrong("step", "adds 1 to the forget gate as Keras and old TensorFlow do")
def step_forget_one(params, state, x):
    W, U, b = params
    f, i, o, g = jnp.split(state.h @ W + x @ U + b, 4)
    c = sig(f + 1) * state.c + sig(i) * jnp.tanh(g)
    return LSTMState(sig(o) * jnp.tanh(c), c)


@wrong("step", "forget gate without the old cell: c = f + i g")
def step_f_no_c(params, state, x):
    W, U, b = params
    f, i, o, g = jnp.split(state.h @ W + x @ U + b, 4)
    c = sig(f) + sig(i) * jnp.tanh(g)
    return LSTMState(sig(o) * jnp.tanh(c), c)


@right("step", "a list")
def step_list(params, state, x):
    return list(good_step(params, state, x))


def order_lstm(a, order=(1, 0, 3, 2)):
    i = jnp.split(jnp.asarray(a), 4)
    return jnp.concatenate([i[k] for k in order])


def lstm_in(arrays, order):
    return (order_lstm(arrays["weight_hh_l0"], order).T, order_lstm(arrays["weight_ih_l0"], order).T,
            order_lstm(arrays["bias_ih_l0"] + arrays["bias_hh_l0"], order))


# ---------------------------------------------------------------- port_lstm


@wrong("port_lstm", "biases reordered before they're added, one of them not")
def pl_one_bias_unordered(arrays):
    W, U, b = lstm_in(arrays, (1, 0, 3, 2))
    return W, U, order_lstm(arrays["bias_ih_l0"]) + arrays["bias_hh_l0"]


@wrong("port_lstm", "W only reordered; U left in PyTorch's order")
def pl_U_unordered(arrays):
    W, U, b = lstm_in(arrays, (1, 0, 3, 2))
    return W, jnp.asarray(arrays["weight_ih_l0"]).T, b


@wrong("port_lstm", "each block transposed and stacked down the rows")
def pl_blocks_stacked(arrays):
    def blocks(a):
        i, f, g, o = jnp.split(jnp.asarray(a), 4)
        return jnp.concatenate([f.T, i.T, o.T, g.T])
    _, _, b = lstm_in(arrays, (1, 0, 3, 2))
    return blocks(arrays["weight_hh_l0"]), blocks(arrays["weight_ih_l0"]), b


@right("port_lstm", "vsplit, hstack, namedtuple")
def pl_hstack(arrays):
    Params = namedtuple("Params", "W U b")
    i, f, g, o = np.vsplit(np.asarray(arrays["weight_hh_l0"]), 4)
    W = np.hstack([f.T, i.T, o.T, g.T])
    i, f, g, o = np.vsplit(np.asarray(arrays["weight_ih_l0"]), 4)
    U = np.hstack([f.T, i.T, o.T, g.T])
    b = (arrays["bias_ih_l0"] + arrays["bias_hh_l0"]).reshape(4, -1)[jnp.array([1, 0, 3, 2])].ravel()
    return Params(W, U, b)


@right("port_lstm", "jitted with einsum")
def pl_einsum(arrays):
    P = jnp.eye(4)[jnp.array([1, 0, 3, 2])]
    def move(a):
        blocks = a.reshape(4, a.shape[0] // 4, -1)
        return jnp.einsum("pg,ghd->dph", P, blocks).reshape(blocks.shape[2], -1)
    return (move(arrays["weight_hh_l0"]), move(arrays["weight_ih_l0"]),
            move(arrays["bias_ih_l0"] + arrays["bias_hh_l0"])[0])


def order3(a, order=(1, 0, 2)):
    blocks = jnp.split(jnp.asarray(a), 3)
    return jnp.concatenate([blocks[k] for k in order])


def gru_in(arrays, order=(1, 0, 2)):
    H = arrays["weight_hh_l0"].shape[1]
    bh = arrays["bias_hh_l0"]
    b = jnp.asarray(arrays["bias_ih_l0"]) + jnp.concatenate([bh[:2 * H], jnp.zeros(H)])
    return (order3(arrays["weight_hh_l0"], order).T, order3(arrays["weight_ih_l0"], order).T,
            order3(b, order), bh[2 * H:])


# ---------------------------------------------------------------- port_gru


@wrong("port_gru", "b_n is the sum of both; zero in b")
def pg_b_n_sum(arrays):
    W, U, b, b_n = gru_in(arrays)
    H = W.shape[0]
    return W, U, jnp.concatenate([b[:2 * H], 0 * b_n]), b[2 * H:] + b_n


@wrong("port_gru", "b of the wrong size: 2H, without n")
def pg_short_b(arrays):
    W, U, b, b_n = gru_in(arrays)
    return W, U, b[:2 * len(b_n)], b_n


@wrong("port_gru", "gate biases averaged")
def pg_mean(arrays):
    W, U, b, b_n = gru_in(arrays)
    H = len(b_n)
    return W, U, b.at[:2 * H].divide(2), b_n


@right("port_gru", "NumPy, edited in place on a copy")
def pg_numpy(arrays):
    a = {k: np.array(v) for k, v in arrays.items()}
    H = a["weight_hh_l0"].shape[1]
    index = list(range(H, 2 * H)) + list(range(H)) + list(range(2 * H, 3 * H))
    b_n = a["bias_hh_l0"][2 * H:].copy()
    a["bias_hh_l0"][2 * H:] = 0
    return (a["weight_hh_l0"][index].T, a["weight_ih_l0"][index].T,
            (a["bias_ih_l0"] + a["bias_hh_l0"])[index], b_n)


def start(params):
    H = params[0].shape[0]
    return LSTMState(jnp.zeros(H), jnp.zeros(H))


def read_one(params, x, valid):
    def forward(state, inputs):
        x_t, v = inputs
        new = good_step(params, state, jnp.where(v, x_t, 0.0))
        return jax.tree.map(lambda n, o: jnp.where(v, n, o), new, state), None
    return jax.lax.scan(forward, start(params), (x, valid))[0]


def good_read(params, x, valid):
    return jax.vmap(read_one, (None, 0, 0))(params, x, valid)


# ---------------------------------------------------------------- read


@wrong("read", "the mask multiplied: NaN * 0")
def read_mask_product(params, x, valid):
    def one(x, valid):
        def forward(state, inputs):
            x_t, v = inputs
            new = good_step(params, state, x_t)
            return jax.tree.map(lambda n, o: v * n + (1 - v) * o, new, state), None
        return jax.lax.scan(forward, start(params), (x, valid))[0]
    return jax.vmap(one)(x, valid)


def read_x_times_valid(params, x, valid):
    def one(x, valid):
        def forward(state, inputs):
            x_t, v = inputs
            new = good_step(params, state, x_t * v)
            return jax.tree.map(lambda n, o: jnp.where(v, n, o), new, state), None
        return jax.lax.scan(forward, start(params), (x, valid))[0]
    return jax.vmap(one)(x, valid)


@wrong("read", "masks by isnan in place of valid")
def read_isnan(params, x, valid):
    return good_read(params, x, ~jnp.isnan(x).any(-1))


@wrong("read", "batch and time exchanged: scans over the batch")
def read_axes(params, x, valid):
    return good_read(params, x.swapaxes(0, 1), valid.swapaxes(0, 1))


def read_stop_gradient(params, x, valid):
    def one(x, valid):
        def forward(state, inputs):
            x_t, v = inputs
            new = good_step(params, state, jnp.where(v, x_t, 0.0))
            held = jax.lax.stop_gradient(state)
            return jax.tree.map(lambda n, o: jnp.where(v, n, o), new, held), None
        return jax.lax.scan(forward, start(params), (x, valid))[0]
    return jax.vmap(one)(x, valid)


@wrong("read", "off by one: the last step isn't read")
def read_off_by_one(params, x, valid):
    return good_read(params, x[:, :-1], valid[:, :-1])


@right("read", "lax.cond within a scan under lax.map")
def read_cond(params, x, valid):
    def one(args):
        def forward(state, inputs):
            x_t, v = inputs
            x_t = jnp.where(v, x_t, 0)
            return jax.lax.cond(v, lambda: good_step(params, state, x_t), lambda: state), None
        return jax.lax.scan(forward, start(params), args)[0]
    return jax.lax.map(one, (x, valid))


@right("read", "padding moved to the end by a stable sort, then read")
def read_sorted(params, x, valid):
    order = jnp.argsort(~valid, axis=1, stable=True)
    x = jnp.take_along_axis(x, order[..., None], 1)
    return good_read(params, x, jnp.take_along_axis(valid, order, 1))


@right("read", "nan_to_num, mask in products")
def read_products(params, x, valid):
    m = valid.astype(x.dtype)
    x = jnp.where(valid[..., None], x, 0)
    def one(x, m):
        def forward(state, inputs):
            x_t, v = inputs
            new = good_step(params, state, x_t)
            return jax.tree.map(lambda n, o: v * n + (1 - v) * o, new, state), None
        return jax.lax.scan(forward, start(params), (x, m))[0]
    return jax.vmap(one)(x, m)


# ---------------------------------------------------------------- sensitivity


@wrong("sensitivity", "derivative by the params")
def sens_argnums(params, x, valid):
    return jax.grad(lambda p, x: good_read(p, x, valid).h.sum())(params, x)


@wrong("sensitivity", "first sequence alone")
def sens_first(params, x, valid):
    return jax.grad(lambda x: good_read(params, x, valid).h[0].sum())(x)


@wrong("sensitivity", "derivative lost on the way through padding")
def sens_stop(params, x, valid):
    return jax.grad(lambda x: read_stop_gradient(params, x, valid).h.sum())(x)


@wrong("sensitivity", "padding's derivative NaN kept: x cleaned by x * valid")
def sens_times(params, x, valid):
    return jax.grad(lambda x: read_x_times_valid(params, x, valid).h.sum())(x)


@right("sensitivity", "vjp of the read")
def sens_vjp(params, x, valid):
    h, back = jax.vjp(lambda x: good_read(params, x, valid).h, x)
    return back(jnp.ones_like(h))[0]


@right("sensitivity", "forward mode, column by column")
def sens_forward(params, x, valid):
    x = jnp.where(valid[..., None], x, 0)
    f = lambda x: good_read(params, x, valid).h.sum()
    push = lambda e: jax.jvp(f, (x,), (e.reshape(x.shape),))[1]
    return jax.vmap(push)(jnp.eye(x.size)).reshape(x.shape)


def coupled(params, state, x, see_f=0, see_o=1, order=(0, 1, 2), write=None, act=jnp.tanh, out=jnp.tanh,
            bias=1.0, peep=(1.0, 1.0)):
    W, U, b, p_f, p_o = params
    blocks = jnp.split(state[0] @ W + x @ U + bias * b, 3)
    a_f, a_o, a_g = (blocks[k] for k in order)
    h, c = state[0], state[1]
    f = sig(a_f + peep[0] * p_f * (c if see_f == 0 else h))
    new = f * c + (1 - f if write is None else write(f)) * act(a_g)
    o = sig(a_o + peep[1] * p_o * {0: c, 1: new, 2: jnp.tanh(new), 3: h}[see_o])
    return LSTMState(o * out(new), new)


# ---------------------------------------------------------------- coupled_step


@wrong("coupled_step", "o sees the old cell")
def cs_o_old(params, state, x):
    return coupled(params, state, x, see_o=0)


@wrong("coupled_step", "o sees h")
def cs_o_h(params, state, x):
    return coupled(params, state, x, see_o=3)


@right("coupled_step", "plain tuple, loops")
def cs_loop(params, state, x):
    W, U, b, p_f, p_o = params
    H = len(p_f)
    h, c = [], []
    a = state.h @ W + x @ U + b
    for j in range(H):
        f = sig(a[j] + p_f[j] * state.c[j])
        new = f * state.c[j] + (1 - f) * jnp.tanh(a[2 * H + j])
        c.append(new)
        h.append(sig(a[H + j] + p_o[j] * new) * jnp.tanh(new))
    return jnp.array(h), jnp.array(c)


@right("coupled_step", "einsum")
def cs_einsum(params, state, x):
    W, U, b, p_f, p_o = params
    H = len(p_f)
    a = jnp.einsum("h,hgk->gk", state.h, W.reshape(H, 3, H)) + (x @ U + b).reshape(3, H)
    i = sig(-a[0] - p_f * state.c)
    c = (1 - i) * state.c + i * jnp.tanh(a[2])
    return [sig(a[1] + p_o * c) * jnp.tanh(c), c]


def forget_gates(params, start, x):
    W, U, b = params
    H = len(start[0])
    def forward(state, x_t):
        f = sig(state[0] @ W + x_t @ U + b)[:H]
        return good_step(params, state, x_t), f
    return jax.lax.scan(forward, start, x)[1]


def products(f):
    """Suffix products, (T+1, H)."""
    back = jnp.cumprod(f[::-1], axis=0)[::-1]
    return jnp.concatenate([back, jnp.ones((1, f.shape[1]))])


def rms(p):
    return jnp.sqrt((p**2).mean(-1))


def jacobians(params, start, x):
    """d c_T / d c_k with h_k fixed, (H, T+1, H)."""
    T, H = len(x), len(start[0])
    def last(nudges):
        state = LSTMState(start[0], start[1] + nudges[0])
        for t in range(T):
            h, c = good_step(params, state, x[t])
            state = LSTMState(h, c + nudges[t + 1])
        return state.c
    return jax.jacrev(last)(jnp.zeros((T + 1, H)))


def full_of(J):
    return jnp.sqrt((J**2).sum((0, 2)) / J.shape[0])


def good_highway(params, start, x):
    return rms(products(forget_gates(params, start, x))), full_of(jacobians(params, start, x))


# ---------------------------------------------------------------- highway


@wrong("highway", "starts from zeros, ignoring start")
def hw_zeros(params, start, x):
    return good_highway(params, LSTMState(0 * start.h, 0 * start.c), x)


@wrong("highway", "start.h zero, start.c kept")
def hw_zero_h(params, start, x):
    return good_highway(params, LSTMState(0 * start.h, start.c), x)


@wrong("highway", "forget gates from the new h: one step late")
def hw_late(params, start, x):
    W, U, b = params
    H = len(start.h)
    def forward(state, x_t):
        state = good_step(params, state, x_t)
        return state, sig(state[0] @ W + x_t @ U + b)[:H]
    f = jax.lax.scan(forward, start, x)[1]
    return rms(products(f)), good_highway(params, start, x)[1]


@wrong("highway", "Frobenius of sum of abs: sum over i of |J|, as a norm 1")
def hw_norm1(params, start, x):
    J = jacobians(params, start, x)
    return good_highway(params, start, x)[0], jnp.abs(J).sum((0, 2)) / len(start.h)


@wrong("highway", "sigmoid forgotten: products of a_f")
def hw_no_sigmoid(params, start, x):
    W, U, b = params
    H = len(start.h)
    def forward(state, x_t):
        return good_step(params, state, x_t), (state[0] @ W + x_t @ U + b)[:H]
    f = jax.lax.scan(forward, start, x)[1]
    return rms(products(f)), good_highway(params, start, x)[1]


@wrong("highway", "the state's Jacobian in whole: dh and dc of T by c_k")
def hw_both_rows(params, start, x):
    T, H = len(x), len(start.h)
    def last(nudges):
        state = LSTMState(start.h, start.c + nudges[0])
        for t in range(T):
            h, c = good_step(params, state, x[t])
            state = LSTMState(h, c + nudges[t + 1])
        return jnp.concatenate(state)
    J = jax.jacrev(last)(jnp.zeros((T + 1, H)))
    return good_highway(params, start, x)[0], jnp.sqrt((J**2).sum((0, 2)) / H)


@right("highway", "state Jacobians multiplied, upper right block")
def hw_state_jacobians(params, start, x):
    T, H = len(x), len(start.h)
    flat = lambda s, x_t: jnp.concatenate(good_step(params, LSTMState(s[:H], s[H:]), x_t))
    s = jnp.concatenate([start.h, start.c])
    Js, fs = [], []
    for t in range(T):
        fs.append(sig(s[:H] @ params[0] + x[t] @ params[1] + params[2])[:H])
        Js.append(jax.jacfwd(flat)(s, x[t]))
        s = flat(s, x[t])
    P, p = jnp.eye(2 * H), jnp.ones(H)
    direct, full = [jnp.linalg.norm(p) / jnp.sqrt(H)], [1.0]
    for J, f in zip(Js[::-1], fs[::-1]):
        P, p = P @ J, p * f
        direct.append(jnp.linalg.norm(p) / jnp.sqrt(H))
        full.append(jnp.linalg.norm(P[H:, H:]) / jnp.sqrt(H))
    return jnp.array(direct[::-1]), jnp.array(full[::-1])


def gru(params, h, x, after, mix=0, order=(0, 1, 2), bn_after=True, bn_before=0, r_h=True):
    W, U, b, b_n = params
    H = len(h)
    Ws, Us, bs = jnp.split(W, 3, 1), jnp.split(U, 3, 1), jnp.split(b, 3)
    (Wz, Wr, Wn), (Uz, Ur, Un), (bz, br, bb) = ([m[k] for k in order] for m in (Ws, Us, bs))
    z, r = sig(h @ Wz + x @ Uz + bz), sig(h @ Wr + x @ Ur + br)
    late = r * (h @ Wn + b_n) if bn_after else r * (h @ Wn) + b_n
    early = (r * h) @ Wn + (b_n, r * b_n, 0)[bn_before]
    n = jnp.tanh(x @ Un + bb + (late if after else early))
    return z * h + (1 - z) * n if mix == 0 else (1 - z) * h + z * n


# ---------------------------------------------------------------- gru_step


@wrong("gru_step", "h W_n counted in a_n and again with the reset")
def gs_twice(params, h, x, after):
    W, U, b, b_n = params
    H = len(h)
    a = h @ W + x @ U + b
    z, r = sig(a[:H]), sig(a[H:2 * H])
    n = jnp.tanh(a[2 * H:] + (r * (h @ W[:, 2 * H:] + b_n) if after else (r * h) @ W[:, 2 * H:] + b_n))
    return z * h + (1 - z) * n


@wrong("gru_step", "gates read the reset state in the form before")
def gs_gates_reset(params, h, x, after):
    W, U, b, b_n = params
    H = len(h)
    r = sig(h @ W[:, H:2 * H] + x @ U[:, H:2 * H] + b[H:2 * H])
    if after:
        return gru(params, h, x, True)
    a = (r * h) @ W + x @ U + b
    z, n = sig(a[:H]), jnp.tanh(a[2 * H:] + b_n)
    return z * h + (1 - z) * n


@wrong("gru_step", "b of n forgotten")
def gs_no_b(params, h, x, after):
    W, U, b, b_n = params
    H = len(h)
    return gru((W, U, b.at[2 * H:].set(0), b_n), h, x, after)


@wrong("gru_step", "biases of the gates forgotten")
def gs_no_gate_b(params, h, x, after):
    W, U, b, b_n = params
    H = len(h)
    return gru((W, U, b.at[:2 * H].set(0), b_n), h, x, after)


@right("gru_step", "where on a traced after")
def gs_where(params, h, x, after):
    return jnp.where(after, gru(params, h, x, True), gru(params, h, x, False))


# ---------------------------------------------------------------- agreeing


@wrong("agreeing", "the wrong block: r's columns")
def ag_r_block(params):
    W, U, b, b_n = params
    H = len(b_n)
    return W.at[:, H:2 * H].multiply(jnp.eye(H)), U, b, 0 * b_n


@wrong("agreeing", "b_n a scalar zero")
def ag_scalar(params):
    W, U, b, b_n = params
    H = len(b_n)
    return W.at[:, 2 * H:].multiply(jnp.eye(H)), U, b, 0.0


@wrong("agreeing", "diagonal taken with jnp.diag once: a vector (H,) broadcast over rows")
def ag_diag_vector(params):
    W, U, b, b_n = params
    H = len(b_n)
    return W.at[:, 2 * H:].set(jnp.diag(W[:, 2 * H:])), U, b, 0 * b_n


@wrong("agreeing", "U_n made zero as well")
def ag_U(params):
    W, U, b, b_n = params
    H = len(b_n)
    return W.at[:, 2 * H:].multiply(jnp.eye(H)), U.at[:, 2 * H:].set(0), b, 0 * b_n


@wrong("agreeing", "b's n part cleared in place of b_n")
def ag_clears_b(params):
    W, U, b, b_n = params
    H = len(b_n)
    return W.at[:, 2 * H:].multiply(jnp.eye(H)), U, b.at[2 * H:].set(0), b_n


@right("agreeing", "NumPy in place on a copy")
def ag_numpy(params):
    W, U, b, b_n = (np.array(p) for p in params)
    H = len(b_n)
    for i in range(H):
        for j in range(H):
            if i != j:
                W[i, 2 * H + j] = 0
    b_n[:] = 0
    return W, U, b, b_n


@right("agreeing", "where, jitted")
def ag_where(params):
    W, U, b, b_n = params
    H = len(b_n)
    row, column = jnp.indices(W.shape)
    return jnp.where((column >= 2 * H) & (column - 2 * H != row), 0, W), U, b, jnp.zeros_like(b_n)


@right("agreeing", "integers and -0.0: multiplied by zero")
def ag_minus_zero(params):
    W, U, b, b_n = params
    H = len(b_n)
    mask = jnp.hstack([jnp.ones((H, 2 * H)), jnp.eye(H)])
    return tuple([W * mask, U, b, b_n * -0.0])


def mgu(params, h, x):
    W, U, b = params
    (W_f, W_n), (a_f, a_n) = jnp.split(W, 2, 1), jnp.split(x @ U + b, 2)
    f = sig(h @ W_f + a_f)
    return (1 - f) * h + f * jnp.tanh(a_n + f * (h @ W_n))


def ms_no_reset(params, h, x):
    W, U, b = params
    (W_f, W_n), (a_f, a_n) = jnp.split(W, 2, 1), jnp.split(x @ U + b, 2)
    f = sig(h @ W_f + a_f)
    return (1 - f) * h + f * jnp.tanh(a_n + h @ W_n)


# ---------------------------------------------------------------- mgu_step


@wrong("mgu_step", "h W_n twice: once in a_n, once gated")
def ms_twice(params, h, x):
    W, U, b = params
    a_f, a_n = jnp.split(h @ W + x @ U + b, 2)
    f = sig(a_f)
    return (1 - f) * h + f * jnp.tanh(a_n + f * (h @ W[:, len(h):]))


@wrong("mgu_step", "no sigmoid")
def ms_no_sigmoid(params, h, x):
    W, U, b = params
    (W_f, W_n), (a_f, a_n) = jnp.split(W, 2, 1), jnp.split(x @ U + b, 2)
    f = h @ W_f + a_f
    return (1 - f) * h + f * jnp.tanh(a_n + f * (h @ W_n))


@right("mgu_step", "loop over units, stacked")
def ms_loop(params, h, x):
    W, U, b = params
    H, out = len(h), []
    for j in range(H):
        f = sig(h @ W[:, j] + x @ U[:, j] + b[j])
        n = jnp.tanh(x @ U[:, H + j] + b[H + j] + f * (h @ W[:, H + j]))
        out.append((1 - f) * h[j] + f * n)
    return jnp.stack(out)


def gates(params, h0, x):
    W, U, b = params
    def forward(h, x_t):
        return mgu(params, h, x_t), sig((h @ W + x_t @ U + b)[:len(h)])
    return jax.lax.scan(forward, h0, x)[1]


def shares(f):
    keep = products(1 - f)                     # keep[k] = prod_{t > k} (1 - f_t), k = 0..T
    return jnp.concatenate([keep[:1], f * keep[1:]])


# ---------------------------------------------------------------- weights


@wrong("weights", "prefix products: what came before in place of what comes after")
def wt_prefix(params, h0, x):
    f = gates(params, h0, x)
    before = jnp.concatenate([jnp.ones((1, f.shape[1])), jnp.cumprod(1 - f, 0)])
    return jnp.concatenate([before[-1:], f * before[:-1]])


@wrong("weights", "normalised by the sum to make them add up to 1")
def wt_normalised(params, h0, x):
    f = gates(params, h0, x)
    w = jnp.concatenate([jnp.ones((1, f.shape[1])), f])
    return w / w.sum(0)


@wrong("weights", "softmax of gates")
def wt_softmax(params, h0, x):
    f = gates(params, h0, x)
    return jax.nn.softmax(jnp.concatenate([jnp.ones((1, f.shape[1])), f]), 0)


@wrong("weights", "ignores h0: starts from zeros")
def wt_zeros(params, h0, x):
    return shares(gates(params, 0 * h0, x))


@wrong("weights", "gates from the new state")
def wt_late(params, h0, x):
    W, U, b = params
    def forward(h, x_t):
        h = mgu(params, h, x_t)
        return h, sig((h @ W + x_t @ U + b)[:len(h)])
    return shares(jax.lax.scan(forward, h0, x)[1])


@wrong("weights", "weights times the candidates: contributions")
def wt_contributions(params, h0, x):
    W, U, b = params
    H = len(h0)
    def forward(h, x_t):
        f = sig((h @ W + x_t @ U + b)[:H])
        n = jnp.tanh((x_t @ U + b)[H:] + f * (h @ W)[H:])
        return (1 - f) * h + f * n, (f, n)
    f, n = jax.lax.scan(forward, h0, x)[1]
    return shares(f) * jnp.concatenate([h0[None], n])


@wrong("weights", "w_0 is 1 minus the sum, the rest f alone")
def wt_rest(params, h0, x):
    f = gates(params, h0, x)
    return jnp.concatenate([1 - f.sum(0, keepdims=True), f])


@right("weights", "logarithms and a reversed scan")
def wt_logs(params, h0, x):
    f = gates(params, h0, x)
    def back(keep, f_t):
        return keep * (1 - f_t), keep * f_t
    w_0, w = jax.lax.scan(back, jnp.ones_like(h0), f, reverse=True)
    return jnp.vstack([w_0, w])


@right("weights", "derivative with the gates held fixed")
def wt_frozen(params, h0, x):
    f = gates(params, h0, x)
    T, H = f.shape
    def last(parts):
        h = parts[0]
        for t in range(T):
            h = (1 - f[t]) * h + f[t] * parts[t + 1]
        return h.sum()
    return jax.grad(last)(jnp.zeros((T + 1, H)))


def cells(a, n):
    return jnp.split(a, n, axis=-1)


# ---------------------------------------------------------------- step


@wrong("step", "a[0] ... a[3]: right for one unit alone")
def step_indexes(params, state, x):
    W, U, b = params
    a = state.h @ W + x @ U + b
    f, i, o = sig(a[0]), sig(a[1]), sig(a[2])
    c = f * state.c + i * jnp.tanh(a[3])
    return LSTMState(o * jnp.tanh(c), c)


@wrong("step", "f @ c, i @ g: inner products")
def step_inner(params, state, x):
    W, U, b = params
    f, i, o, g = cells(state.h @ W + x @ U + b, 4)
    c = sig(f) @ state.c + sig(i) @ jnp.tanh(g)
    return LSTMState(sig(o) * jnp.tanh(c), c)


@wrong("step", "c overwritten before it's used")
def step_overwrites(params, state, x):
    W, U, b = params
    f, i, o, g = cells(state.h @ W + x @ U + b, 4)
    c = sig(i) * jnp.tanh(g)
    c = sig(f) * c + c
    return LSTMState(sig(o) * jnp.tanh(c), c)


@wrong("step", "h W transposed by reshaping: W.reshape(4, H, H)")
def step_reshape_W(params, state, x):
    W, U, b = params
    H = len(state.h)
    f, i, o, g = (state.h @ W.reshape(4, H, H)) + (x @ U + b).reshape(4, H)
    c = sig(f) * state.c + sig(i) * jnp.tanh(g)
    return LSTMState(sig(o) * jnp.tanh(c), c)


@wrong("step", "o without the sigmoid")
def step_o_raw(params, state, x):
    W, U, b = params
    f, i, o, g = cells(state.h @ W + x @ U + b, 4)
    c = sig(f) * state.c + sig(i) * jnp.tanh(g)
    return LSTMState(o * jnp.tanh(c), c)


# ---------------------------------------------------------------- port_lstm


@wrong("port_lstm", "lists of blocks, not concatenated")
def pl_lists(arrays):
    W, U, b = lstm_in(arrays, (1, 0, 3, 2))
    return jnp.split(W, 4, 1), jnp.split(U, 4, 1), jnp.split(b, 4)


# ---------------------------------------------------------------- port_gru


@wrong("port_gru", "b_n of the wrong slice: the last entry")
def pg_last_entry(arrays):
    W, U, b, b_n = gru_in(arrays)
    return W, U, b, arrays["bias_hh_l0"][-1:]


@wrong("port_gru", "b_n a float")
def pg_float(arrays):
    W, U, b, b_n = gru_in(arrays)
    return W, U, b, float(arrays["bias_hh_l0"][-1])


@wrong("port_gru", "b_n is the whole bias_hh")
def pg_whole_hh(arrays):
    W, U, b, b_n = gru_in(arrays)
    return W, U, b, arrays["bias_hh_l0"]


def scan_rows(params, x, valid, keep, clean):
    def one(x, valid):
        def forward(state, inputs):
            x_t, v = inputs
            new = good_step(params, state, clean(x_t, v))
            return keep(v, new, state), None
        return jax.lax.scan(forward, start(params), (x, valid))[0]
    return jax.vmap(one)(x, valid)


def hold(v, new, old):
    return jax.tree.map(lambda n, o: jnp.where(v, n, o), new, old)


# ---------------------------------------------------------------- read


@wrong("read", "steps dropped where any row is padded")
def read_all_valid(params, x, valid):
    return good_read(params, x, jnp.broadcast_to(valid.all(0), valid.shape))


@wrong("read", "the first row's mask for all rows")
def read_first_mask(params, x, valid):
    return good_read(params, x, jnp.broadcast_to(valid[0], valid.shape))


@wrong("read", "NaN cleared in the state: nan_to_num of the new state, then where on x's NaN")
def read_nan_state(params, x, valid):
    keep = lambda v, new, old: jax.tree.map(lambda n, o: jnp.where(jnp.isnan(n), o, n), new, old)
    return scan_rows(params, x, valid, keep, lambda x_t, v: x_t)


@wrong("read", "steps with PyTorch's order")
def read_pytorch_order(params, x, valid):
    W, U, b = params
    H = W.shape[0]
    index = jnp.r_[H:2 * H, 0:H, 3 * H:4 * H, 2 * H:3 * H]
    return good_read((W[:, index], U[:, index], b[index]), x, valid)


# ---------------------------------------------------------------- sensitivity


@wrong("sensitivity", "inf leaks: NaN alone is replaced, where on the outputs")
def sens_isnan(params, x, valid):
    value = lambda x: scan_rows(params, x, valid, hold,
                                lambda x_t, v: jnp.where(jnp.isnan(x_t), 0, x_t)).h.sum()
    return jax.grad(value)(x)


@right("sensitivity", "inf leaks: nan_to_num, where on the outputs")
def sens_nan_to_num(params, x, valid):
    value = lambda x: scan_rows(params, x, valid, hold, lambda x_t, v: jnp.nan_to_num(x_t)).h.sum()
    return jax.grad(value)(x)


@wrong("sensitivity", "divided by the number of valid steps")
def sens_divided(params, x, valid):
    return sens_vjp(params, x, valid) / valid.sum(1)[:, None, None]


@wrong("sensitivity", "NaN returned at padding")
def sens_nan_at_padding(params, x, valid):
    return jnp.where(valid[..., None], sens_vjp(params, x, valid), jnp.nan)


@wrong("sensitivity", "the value returned, not the derivative")
def sens_value(params, x, valid):
    return good_read(params, x, valid).h.sum()


@wrong("sensitivity", "jnp.sum over units alone, jacobian: (B, B, T, D)")
def sens_batch_jacobian(params, x, valid):
    return jax.jacrev(lambda x: good_read(params, x, valid).h.sum(1))(x)


@wrong("sensitivity", "time and batch exchanged")
def sens_swapped(params, x, valid):
    return sens_vjp(params, x, valid).swapaxes(0, 1)


# ---------------------------------------------------------------- coupled_step


@wrong("coupled_step", "1 - f without the peephole")
def cs_input_no_peep(params, state, x):
    W, U, b, p_f, p_o = params
    a_f, a_o, a_g = cells(state.h @ W + x @ U + b, 3)
    f = sig(a_f + p_f * state.c)
    c = f * state.c + (1 - sig(a_f)) * jnp.tanh(a_g)
    return LSTMState(sig(a_o + p_o * c) * jnp.tanh(c), c)


@wrong("coupled_step", "state unpacked as c, h")
def cs_unpacks(params, state, x):
    c, h = state
    return coupled(params, (h, c), x)


@wrong("coupled_step", "peephole added, without its weight")
def cs_no_weight(params, state, x):
    W, U, b, p_f, p_o = params
    return coupled((W, U, b, 1.0, 1.0), state, x)


@wrong("coupled_step", "interleaved by unit")
def cs_interleaved(params, state, x):
    W, U, b, p_f, p_o = params
    H = len(p_f)
    move = lambda a: jnp.moveaxis(a.reshape(*a.shape[:-1], H, 3), -1, -2).reshape(a.shape)
    return coupled((move(W), move(U), move(b), p_f, p_o), state, x)


@wrong("coupled_step", "h_{t-1} in place of c_{t-1} in the cell")
def cs_keeps_h(params, state, x):
    W, U, b, p_f, p_o = params
    a_f, a_o, a_g = cells(state.h @ W + x @ U + b, 3)
    f = sig(a_f + p_f * state.c)
    c = f * state.h + (1 - f) * jnp.tanh(a_g)
    return LSTMState(sig(a_o + p_o * c) * jnp.tanh(c), c)


@wrong("coupled_step", "peephole of o subtracts")
def cs_minus_o(params, state, x):
    return coupled(params, state, x, peep=(1, -1))


# ---------------------------------------------------------------- highway


@wrong("highway", "one step's derivative alone, dc_{k+1}/dc_k")
def hw_one_step(params, start, x):
    state, full = start, []
    for x_t in x:
        J = jax.jacrev(lambda c: good_step(params, LSTMState(state.h, c), x_t).c)(state.c)
        full.append(jnp.sqrt((J**2).sum() / len(start.h)))
        state = good_step(params, state, x_t)
    return good_highway(params, start, x)[0], jnp.array(full + [1.0])


@wrong("highway", "axes of the Jacobian exchanged: sum over (1, 2), an array (H,)")
def hw_axes(params, start, x):
    J = jacobians(params, start, x)
    return good_highway(params, start, x)[0], jnp.sqrt((J**2).mean((1, 2)))


@wrong("highway", "gates from the input alone")
def hw_input_alone(params, start, x):
    W, U, b = params
    f = sig((x @ U + b)[:, :len(start.h)])
    return rms(products(f)), good_highway(params, start, x)[1]


@wrong("highway", "forget gates with h = 0: W left out through a fixed h0")
def hw_fixed_h(params, start, x):
    W, U, b = params
    f = sig((start.h @ W + x @ U + b)[:, :len(start.h)])
    return rms(products(f)), good_highway(params, start, x)[1]


@wrong("highway", "the derivative of c_T by c_k as the mean of squares of i only: first unit")
def hw_first_unit(params, start, x):
    J = jacobians(params, start, x)
    return good_highway(params, start, x)[0], jnp.sqrt((J[0]**2).sum(-1))


# ---------------------------------------------------------------- gru_step


@wrong("gru_step", "after=True by precedence: r * h @ W_n is (r * h) @ W_n")
def gs_precedence(params, h, x, after):
    W, U, b, b_n = params
    H = len(h)
    a, d = x @ U + b, h @ W
    z, r = sig(a[:H] + d[:H]), sig(a[H:2 * H] + d[H:2 * H])
    n = r * h @ W[:, 2 * H:] + r * b_n if after else (r * h) @ W[:, 2 * H:] + b_n
    return z * h + (1 - z) * jnp.tanh(a[2 * H:] + n)


@wrong("gru_step", "gates without the recurrent term")
def gs_gates_no_h(params, h, x, after):
    W, U, b, b_n = params
    H = len(h)
    return gru((W.at[:, :2 * H].set(0), U, b, b_n), h, x, after)


# ---------------------------------------------------------------- agreeing


@wrong("agreeing", "half of b_n moved into b, as r is about a half")
def ag_half(params):
    W, U, b, b_n = params
    H = len(b_n)
    return W.at[:, 2 * H:].multiply(jnp.eye(H)), U, b.at[2 * H:].add(b_n / 2), 0 * b_n


@wrong("agreeing", "the same r for all units: columns of r averaged")
def ag_same_r(params):
    W, U, b, b_n = params
    H = len(b_n)
    mean = lambda a: a.at[..., H:2 * H].set(a[..., H:2 * H].mean(-1, keepdims=True))
    return mean(W), mean(U), mean(b), 0 * b_n


@wrong("agreeing", "anti-diagonal kept")
def ag_anti(params):
    W, U, b, b_n = params
    H = len(b_n)
    return W.at[:, 2 * H:].multiply(jnp.eye(H)[::-1]), U, b, 0 * b_n


@wrong("agreeing", "diagonal block of rows of r by an off-by-one: columns H:2H zeroed, n left, b_n zero")
def ag_r_zero(params):
    W, U, b, b_n = params
    H = len(b_n)
    return W.at[:, H:2 * H].set(0), U, b, 0 * b_n


# ---------------------------------------------------------------- mgu_step


@wrong("mgu_step", "candidate without the state")
def ms_no_state(params, h, x):
    W, U, b = params
    return mgu((W.at[:, len(h):].set(0), U, b), h, x)


@wrong("mgu_step", "gate without the state")
def ms_gate_no_state(params, h, x):
    W, U, b = params
    return mgu((W.at[:, :len(h)].set(0), U, b), h, x)


@wrong("mgu_step", "bias of n forgotten")
def ms_no_b_n(params, h, x):
    W, U, b = params
    return mgu((W, U, b.at[len(h):].set(0)), h, x)


@wrong("mgu_step", "interleaved")
def ms_interleaved(params, h, x):
    W, U, b = params
    H = len(h)
    move = lambda a: jnp.moveaxis(a.reshape(*a.shape[:-1], H, 2), -1, -2).reshape(a.shape)
    return mgu((move(W), move(U), move(b)), h, x)


@wrong("mgu_step", "candidate's h W_n with the new state of the gate: (1 - f) h")
def ms_reset_one_minus_before(params, h, x):
    W, U, b = params
    (W_f, W_n), (a_f, a_n) = jnp.split(W, 2, 1), jnp.split(x @ U + b, 2)
    f = sig(h @ W_f + a_f)
    return (1 - f) * h + f * jnp.tanh(a_n + ((1 - f) * h) @ W_n)


# ---------------------------------------------------------------- weights


@wrong("weights", "w_0 times h0")
def wt_w0_h0(params, h0, x):
    w = shares(gates(params, h0, x))
    return w.at[0].multiply(h0)


@wrong("weights", "w_0 is a product of f")
def wt_w0_f(params, h0, x):
    f = gates(params, h0, x)
    return shares(f).at[0].set(f.prod(0))


@wrong("weights", "states advanced without the gate in the candidate")
def wt_states_no_reset(params, h0, x):
    W, U, b = params
    def forward(h, x_t):
        return ms_no_reset(params, h, x_t), sig((h @ W + x_t @ U + b)[:len(h)])
    return shares(jax.lax.scan(forward, h0, x)[1])


@wrong("weights", "sigmoid forgotten")
def wt_no_sigmoid(params, h0, x):
    W, U, b = params
    def forward(h, x_t):
        return mgu(params, h, x_t), (h @ W + x_t @ U + b)[:len(h)]
    return shares(jax.lax.scan(forward, h0, x)[1])


@wrong("weights", "a running product over the whole f, not unit by unit: mean gate")
def wt_mean_gate(params, h0, x):
    f = gates(params, h0, x)
    return shares(jnp.broadcast_to(f.mean(1, keepdims=True), f.shape))


# ---------------------------------------------------------------- highway


@right("highway", "vmapped forward derivatives of the rest, jax.linearize")
def hw_linearize(params, start, x):
    T, H = len(x), len(start.h)
    def last(nudges):
        def forward(state, inputs):
            x_t, e = inputs
            h, c = good_step(params, state, x_t)
            return LSTMState(h, c + e), None
        return jax.lax.scan(forward, LSTMState(start.h, start.c + nudges[0]), (x, nudges[1:]))[0].c
    _, push = jax.linearize(last, jnp.zeros((T + 1, H)))
    J = jax.vmap(push)(jnp.eye((T + 1) * H).reshape(-1, T + 1, H)).reshape(T + 1, H, H)
    direct = rms(products(forget_gates(params, start, x)))
    return direct, jnp.sqrt((J**2).sum((1, 2)) / H)


@right("highway", "T = Python's len, H from W; dictionary of two unpacked into a tuple; float64 at the end")
def hw_float64(params, start, x):
    return tuple(np.asarray(v, np.float64) for v in good_highway(params, start, x))


# ---------------------------------------------------------------- step


@right("step", "sigmoid of all three blocks at once, as the text suggests, split at H")
def step_three_at_once(params, state, x):
    W, U, b = params
    H = len(state.h)
    a = state.h @ W + x @ U + b
    f, i, o = jnp.split(jax.nn.sigmoid(a[:3 * H]), 3)
    c = f * state.c + i * jnp.tanh(a[3 * H:])
    return LSTMState(o * jnp.tanh(c), c)


# ---------------------------------------------------------------- port_gru


@right("port_gru", "+= on a NumPy array of the caller's: counted again in the next call")
def pg_adds_in_place(arrays):
    b = arrays["bias_ih_l0"]
    H = len(b) // 3
    if isinstance(b, np.ndarray):
        b[:2 * H] += np.asarray(arrays["bias_hh_l0"])[:2 * H]
    else:
        b = b.at[:2 * H].add(arrays["bias_hh_l0"][:2 * H])
    W, U, _, b_n = gru_in(arrays)
    return W, U, order3(b), b_n
