"""Answers to exercises 1 to 4 of lab 1: wrong ones with the mistake that each makes, and right ones in other forms."""
import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from answers import Answers
from unrolled.vanilla_rnn import Model, Params

wrong, right = Answers(), Answers()


# Right helpers, which the answers below bend or build on.

def written(params, h, x):
    """z_t, (H,)."""
    return jnp.tanh(params.W @ h + params.U @ x + params.b)


def right_step(params, alpha, h, x):
    """h_t, (H,)."""
    return (1 - alpha) * h + alpha * written(params, h, x)


def right_states(params, alpha, h0, x):
    """h_1, ..., h_T, (T, H)."""
    def one(h, x):
        h = right_step(params, alpha, h, x)
        return h, h
    return jax.lax.scan(one, h0, x)[1]


def right_run(model, alpha, h0, x):
    """The outputs, (T, K), and the last state, (H,)."""
    def one(h, x):
        h = right_step(model.rnn, alpha, h, x)
        return h, model.V @ h + model.c
    last, y = jax.lax.scan(one, h0, x)
    return y, last


def loss(model, alpha, h0, x, target):
    """The loss of exercise 3."""
    return 0.5 * jnp.sum((right_run(model, alpha, h0, x)[0] - target) ** 2)


def forward(model, alpha, h0, x):
    """The states before each step, what each step writes, the states after it, and the outputs."""
    h = right_states(model.rnn, alpha, h0, x)
    before = jnp.concatenate([h0[None], h[:-1]])
    z = jax.vmap(written, (None, 0, 0))(model.rnn, before, x)
    return before, z, h, h @ model.V.T + model.c


def sweep(direct, z, one):
    """Runs `one`, which makes (handed back, kept) from hbar_t and z_t, from the last step to the first."""
    def back(later, now):
        direct, z = now
        return one(direct + later, z)
    return jax.lax.scan(back, jnp.zeros_like(direct[0]), (direct, z), reverse=True)[1]


def right_back(params, alpha):
    """The right argument `one` of `sweep`: it keeps abar_t."""
    def one(hbar, z):
        abar = alpha * (1 - z**2) * hbar
        return (1 - alpha) * hbar + params.W.T @ abar, abar
    return one


def gather(abar, before, x, error, h):
    """The sums over all steps, as a Model."""
    return Model(Params(abar.T @ before, abar.T @ x, abar.sum(0)), error.T @ h, error.sum(0))


def right_bptt(model, alpha, h0, x, target):
    """The derivatives of the loss of exercise 3, as a Model."""
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, z, right_back(model.rnn, alpha))
    return gather(abar, before, x, error, h)


def bptt_with(one):
    """An answer to exercise 3 that goes back one step as `one(params, alpha, hbar, z)` says; else right."""
    def bptt(model, alpha, h0, x, target):
        before, z, h, y = forward(model, alpha, h0, x)
        error = y - target
        abar = sweep(error @ model.V, z, functools.partial(one, model.rnn, alpha))
        return gather(abar, before, x, error, h)
    return bptt


def push_with(one):
    """An answer to exercise 4 that moves v one step on as `one(params, alpha, z, v)` says; else right."""
    def push(params, alpha, h0, x, v):
        def forth(carry, x):
            h, v = carry
            z = written(params, h, x)
            v = one(params, alpha, z, v)
            return ((1 - alpha) * h + alpha * z, v), v
        return jax.lax.scan(forth, (h0, v), x)[1]
    return push


# Exercise 1, wrong.

@wrong("step", "alpha and 1 - alpha have changed places")
def step_swapped(params, alpha, h, x):
    return alpha * h + (1 - alpha) * written(params, h, x)


@wrong("step", "this is the chapter's step: alpha isn't used at all")
def step_without_leak(params, alpha, h, x):
    return written(params, h, x)


@wrong("step", "what is kept of the old state is missing: only alpha z_t is returned")
def step_nothing_kept(params, alpha, h, x):
    return alpha * written(params, h, x)


@wrong("step", "the old state is kept whole, not 1 - alpha of it")
def step_all_kept(params, alpha, h, x):
    return h + alpha * written(params, h, x)


@wrong("step", "the new part is added whole, not alpha of it")
def step_all_written(params, alpha, h, x):
    return (1 - alpha) * h + written(params, h, x)


@wrong("step", "the leak is inside tanh, where it mixes the old state with the argument")
def step_leak_inside(params, alpha, h, x):
    return jnp.tanh((1 - alpha) * h + alpha * (params.W @ h + params.U @ x + params.b))


@wrong("step", "tanh is taken of the argument scaled by alpha")
def step_alpha_inside(params, alpha, h, x):
    return (1 - alpha) * h + jnp.tanh(alpha * (params.W @ h + params.U @ x + params.b))


@wrong("step", "the whole new state goes through a second tanh")
def step_second_tanh(params, alpha, h, x):
    return jnp.tanh(right_step(params, alpha, h, x))


@wrong("step", "W is transposed: h @ W sums over the wrong axis")
def step_transposed(params, alpha, h, x):
    return (1 - alpha) * h + alpha * jnp.tanh(h @ params.W + params.U @ x + params.b)


@wrong("step", "* for @: only the diagonal of the product remains")
def step_diagonal(params, alpha, h, x):
    return (1 - alpha) * h + alpha * jnp.tanh(jnp.diag(params.W * h) + params.U @ x + params.b)


@wrong("step", "the bias is forgotten")
def step_without_bias(params, alpha, h, x):
    return (1 - alpha) * h + alpha * jnp.tanh(params.W @ h + params.U @ x)


@wrong("step", "the bias is added outside tanh")
def step_bias_outside(params, alpha, h, x):
    return (1 - alpha) * h + alpha * (jnp.tanh(params.W @ h + params.U @ x) + params.b)


@wrong("step", "the input is forgotten")
def step_without_input(params, alpha, h, x):
    return (1 - alpha) * h + alpha * jnp.tanh(params.W @ h + params.b)


@wrong("step", "the recurrent term is forgotten; the old state enters by the leak alone")
def step_without_recurrence(params, alpha, h, x):
    return (1 - alpha) * h + alpha * jnp.tanh(params.U @ x + params.b)


@wrong("step", "the recurrent term reads the share that was kept, not the old state")
def step_leak_first(params, alpha, h, x):
    h = (1 - alpha) * h
    return h + alpha * written(params, h, x)


@wrong("step", "another nonlinearity: the logistic function for tanh")
def step_logistic(params, alpha, h, x):
    return (1 - alpha) * h + alpha * jax.nn.sigmoid(params.W @ h + params.U @ x + params.b)


@wrong("step", "no nonlinearity: tanh is left out")
def step_linear(params, alpha, h, x):
    return (1 - alpha) * h + alpha * (params.W @ h + params.U @ x + params.b)


@wrong("step", "the alpha of the example, 0.25, stands in the code")
def step_fixed_alpha(params, alpha, h, x):
    return right_step(params, 0.25, h, x)


@wrong("step", "it returns z_t, too, and not the new state alone")
def step_pair(params, alpha, h, x):
    return right_step(params, alpha, h, x), written(params, h, x)


@wrong("step", "the new state is a column, (H, 1)")
def step_column(params, alpha, h, x):
    return right_step(params, alpha, h, x)[:, None]


@wrong("step", "columns and rows are broadcast against each other, and an (H, H) array comes out")
def step_broadcast(params, alpha, h, x):
    z = jnp.tanh(params.W @ h[:, None] + params.U @ x[:, None] + params.b[:, None])
    return (1 - alpha) * h + alpha * z


@wrong("step", "squeeze takes the only axis away where there is one unit")
def step_squeezed(params, alpha, h, x):
    return right_step(params, alpha, h, x).squeeze()


@wrong("step", "it returns the change of the state, not the state")
def step_change(params, alpha, h, x):
    return right_step(params, alpha, h, x) - h


@wrong("step", "the function is without a return")
def step_none(params, alpha, h, x):
    right_step(params, alpha, h, x)


@wrong("step", "the units are summed up into one number")
def step_sum(params, alpha, h, x):
    return right_step(params, alpha, h, x).sum()


@wrong("step", "the values are rounded to the two digits that the example shows")
def step_rounded(params, alpha, h, x):
    return jnp.round(right_step(params, alpha, h, x), 2)


# Exercise 1, right.

@right("step", "as the formula stands")
def step_plain(params, alpha, h, x):
    z = jnp.tanh(params.W @ h + params.U @ x + params.b)
    return (1 - alpha) * h + alpha * z


@right("step", "the old state, moved by alpha towards z_t")
def step_moved(params, alpha, h, x):
    return h + alpha * (written(params, h, x) - h)


@right("step", "rows for columns: h @ W.T")
def step_rows(params, alpha, h, x):
    return (1 - alpha) * h + alpha * jnp.tanh(h @ params.W.T + x @ params.U.T + params.b)


@right("step", "one matrix for state, input and a constant 1")
def step_one_matrix(params, alpha, h, x):
    weights = jnp.hstack([params.W, params.U, params.b[:, None]])
    z = jnp.tanh(weights @ jnp.concatenate([h, x, jnp.ones(1)]))
    return (1 - alpha) * h + alpha * z


@right("step", "einsum, with the params unpacked")
def step_einsum(params, alpha, h, x):
    W, U, b = params
    z = jnp.tanh(jnp.einsum("ij,j->i", W, h) + jnp.einsum("id,d->i", U, x) + b)
    return h - alpha * h + alpha * z


@right("step", "tanh by way of the logistic function")
def step_by_logistic(params, alpha, h, x):
    a = params.W @ h + params.U @ x + params.b
    return (1 - alpha) * h + alpha * (2 * jax.nn.sigmoid(2 * a) - 1)


@right("step", "vmap over the units")
def step_vmapped(params, alpha, h, x):
    def unit(w, u, b, old):
        return (1 - alpha) * old + alpha * jnp.tanh(w @ h + u @ x + b)
    return jax.vmap(unit)(params.W, params.U, params.b, h)


@right("step", "jitted")
@jax.jit
def step_jitted(params, alpha, h, x):
    return right_step(params, alpha, h, x)


@right("step", "NumPy in float64")
def step_numpy(params, alpha, h, x):
    W, U, b, h, x = (np.asarray(array, np.float64) for array in (*params, h, x))
    return (1 - alpha) * h + alpha * np.tanh(W @ h + U @ x + b)


@right("step", "NumPy in float64, handed back as a JAX array")
def step_numpy_and_back(params, alpha, h, x):
    return jnp.asarray(step_numpy(params, alpha, h, x))


right("step", "a lambda")(lambda p, alpha, h, x: (1 - alpha) * h + alpha * jnp.tanh(p.W @ h + p.U @ x + p.b))


def step_of(nonlinearity, params, alpha, h, x):
    return (1 - alpha) * h + alpha * nonlinearity(params.W @ h + params.U @ x + params.b)


right("step", "functools.partial of a helper that takes the nonlinearity")(functools.partial(step_of, jnp.tanh))


# Exercise 2, wrong.

@wrong("run", "the network starts from zero, not from h0")
def run_from_zero(model, alpha, h0, x):
    return right_run(model, alpha, jnp.zeros_like(h0), x)


@wrong("run", "the output is read before the state is written, from h_{t-1}")
def run_old_state(model, alpha, h0, x):
    before, _, h, _ = forward(model, alpha, h0, x)
    return before @ model.V.T + model.c, h[-1]


@wrong("run", "the two results have changed places")
def run_swapped(model, alpha, h0, x):
    return right_run(model, alpha, h0, x)[::-1]


@wrong("run", "all states are returned where the last one is asked for")
def run_all_states(model, alpha, h0, x):
    return right_run(model, alpha, h0, x)[0], right_states(model.rnn, alpha, h0, x)


@wrong("run", "the last output is returned in place of the last state")
def run_last_output(model, alpha, h0, x):
    y, _ = right_run(model, alpha, h0, x)
    return y, y[-1]


@wrong("run", "the states are returned in place of the outputs")
def run_states_for_outputs(model, alpha, h0, x):
    h = right_states(model.rnn, alpha, h0, x)
    return h, h[-1]


@wrong("run", "only the outputs are returned; the last state is missing")
def run_outputs_alone(model, alpha, h0, x):
    return right_run(model, alpha, h0, x)[0]


@wrong("run", "only the output of the last step is returned")
def run_one_output(model, alpha, h0, x):
    y, h = right_run(model, alpha, h0, x)
    return y[-1], h


@wrong("run", "the bias of the output is forgotten")
def run_without_c(model, alpha, h0, x):
    h = right_states(model.rnn, alpha, h0, x)
    return h @ model.V.T, h[-1]


@wrong("run", "alpha is lost on the way: every step is the chapter's")
def run_without_leak(model, alpha, h0, x):
    return right_run(model, 1.0, h0, x)


@wrong("run", "the state isn't carried on: every step starts from h0")
def run_no_carry(model, alpha, h0, x):
    h = jax.vmap(lambda x: right_step(model.rnn, alpha, h0, x))(x)
    return h @ model.V.T + model.c, h[-1]


@wrong("run", "the output is read from z_t, not from the state")
def run_reads_z(model, alpha, h0, x):
    _, z, h, _ = forward(model, alpha, h0, x)
    return z @ model.V.T + model.c, h[-1]


@wrong("run", "z_t is carried on in place of h_t, so that the leak acts for one step only")
def run_carries_z(model, alpha, h0, x):
    def one(h, x):
        return written(model.rnn, h, x), model.V @ right_step(model.rnn, alpha, h, x) + model.c
    h, y = jax.lax.scan(one, h0, x)
    return y, h


@wrong("run", "the outputs go through tanh; the readout is linear")
def run_tanh_readout(model, alpha, h0, x):
    y, h = right_run(model, alpha, h0, x)
    return jnp.tanh(y), h


@wrong("run", "the outputs leak, too")
def run_leaky_output(model, alpha, h0, x):
    y, h = right_run(model, alpha, h0, x)
    return alpha * y, h


@wrong("run", "the sequence is read from its end")
def run_reversed(model, alpha, h0, x):
    return right_run(model, alpha, h0, x[::-1])


@wrong("run", "the outputs were put in front of the list, and come out in the wrong order")
def run_outputs_reversed(model, alpha, h0, x):
    y, h = right_run(model, alpha, h0, x)
    return y[::-1], h


@wrong("run", "the initial state is read out, too: T + 1 outputs")
def run_one_too_many(model, alpha, h0, x):
    y, h = right_run(model, alpha, h0, x)
    return jnp.concatenate([(model.V @ h0 + model.c)[None], y]), h


@wrong("run", "the loop ends one step early, and the last input isn't read")
def run_one_too_few(model, alpha, h0, x):
    h, y = h0, []
    for t in range(len(x) - 1):
        h = right_step(model.rnn, alpha, h, x[t])
        y.append(model.V @ h + model.c)
    return jnp.stack(y), h


@wrong("run", "step t reads the input of step t - 1: the index starts at -1")
def run_late_input(model, alpha, h0, x):
    return right_run(model, alpha, h0, jnp.roll(x, 1, axis=0))


@wrong("run", "the state before the last is returned as the last")
def run_penultimate(model, alpha, h0, x):
    before, _, _, y = forward(model, alpha, h0, x)
    return y, before[-1]


@wrong("run", "the state that came in is returned as the last")
def run_returns_start(model, alpha, h0, x):
    return right_run(model, alpha, h0, x)[0], h0


@wrong("run", "the outputs are stacked along the wrong axis: (K, T)")
def run_columns(model, alpha, h0, x):
    y, h = right_run(model, alpha, h0, x)
    return y.T, h


@wrong("run", "the last state keeps a time axis: (1, H)")
def run_extra_axis(model, alpha, h0, x):
    return right_run(model, alpha, h0, x)[0], right_states(model.rnn, alpha, h0, x)[-1:]


@wrong("run", "squeeze takes the axis of the outputs away where there is one of them")
def run_squeezed(model, alpha, h0, x):
    y, h = right_run(model, alpha, h0, x)
    return y.squeeze(), h


@wrong("run", "the outputs are summed up along the way")
def run_sums_outputs(model, alpha, h0, x):
    y, h = right_run(model, alpha, h0, x)
    return jnp.cumsum(y, axis=0), h


@wrong("run", "scan hands back (carry, stacked), and the stacked states are called the last one")
def run_scan_confused(model, alpha, h0, x):
    def one(h, x):
        h = right_step(model.rnn, alpha, h, x)
        return h, h
    states, last = jax.lax.scan(one, h0, x)
    return states @ model.V.T + model.c, last


@wrong("run", "the state is reset to h0 after half of the sequence")
def run_two_halves(model, alpha, h0, x):
    half = len(x) // 2
    first, _ = right_run(model, alpha, h0, x[:half])
    second, h = right_run(model, alpha, h0, x[half:])
    return jnp.concatenate([first, second]), h


@wrong("run", "the results come as a dictionary, not as two things")
def run_dictionary(model, alpha, h0, x):
    y, h = right_run(model, alpha, h0, x)
    return {"y": y, "h": h}


# Exercise 2, right.

@right("run", "scan over the states, readout of all at once")
def run_scan(model, alpha, h0, x):
    def one(h, x):
        h = right_step(model.rnn, alpha, h, x)
        return h, h
    last, h = jax.lax.scan(one, h0, x)
    return jnp.einsum("kh,th->tk", model.V, h) + model.c, last


@right("run", "scan with the readout inside")
def run_scan_readout(model, alpha, h0, x):
    def one(h, x):
        h = right_step(model.rnn, alpha, h, x)
        return h, model.V @ h + model.c
    return jax.lax.scan(one, h0, x)[::-1]


@right("run", "a Python loop")
def run_loop(model, alpha, h0, x):
    h, y = h0, []
    for now in x:
        h = right_step(model.rnn, alpha, h, now)
        y.append(model.V @ h + model.c)
    return jnp.stack(y), h


@right("run", "jitted, and returned as a list")
def run_jitted(model, alpha, h0, x):
    return list(jax.jit(right_run)(model, alpha, h0, x))


@right("run", "NumPy in float64")
def run_numpy(model, alpha, h0, x):
    (W, U, b), V, c, h, x = jax.tree.map(lambda array: np.asarray(array, np.float64), (*model, h0, x))
    y = np.zeros((len(x), len(c)))
    for t in range(len(x)):
        h = (1 - alpha) * h + alpha * np.tanh(W @ h + U @ x[t] + b)
        y[t] = V @ h + c
    return y, h


@right("run", "fori_loop that fills an array")
def run_fori(model, alpha, h0, x):
    def one(t, carry):
        h, y = carry
        h = right_step(model.rnn, alpha, h, x[t])
        return h, y.at[t].set(model.V @ h + model.c)
    h, y = jax.lax.fori_loop(0, len(x), one, (h0, jnp.zeros((len(x), len(model.c)))))
    return y, h


@right("run", "what the inputs contribute is computed before the scan; the readout is vmapped")
def run_inputs_first(model, alpha, h0, x):
    W, U, b = model.rnn
    def one(h, drive):
        h = h + alpha * (jnp.tanh(W @ h + drive) - h)
        return h, h
    last, h = jax.lax.scan(one, h0, x @ U.T + b)
    return jax.vmap(lambda h: model.V @ h + model.c)(h), last


@right("run", "two halves, the second from where the first stopped")
def run_halves(model, alpha, h0, x):
    half = len(x) // 2
    first, h = right_run(model, alpha, h0, x[:half])
    second, h = right_run(model, alpha, h, x[half:])
    return jnp.concatenate([first, second]), h


def run_of(step, model, alpha, h0, x):
    states = [h0]
    for now in x:
        states.append(step(model.rnn, alpha, states[-1], now))
    return jnp.stack(states[1:]) @ model.V.T + model.c, states[-1]


right("run", "functools.partial of a helper that takes the step")(functools.partial(run_of, step_moved))
right("run", "a lambda around a helper")(lambda model, alpha, h0, x: run_of(right_step, model, alpha, h0, x))


# Exercise 3, wrong.

wrong("bptt", "the direct way is forgotten: nothing is handed back times 1 - alpha")(bptt_with(
    lambda p, alpha, hbar, z: (p.W.T @ (alpha * (1 - z**2) * hbar), alpha * (1 - z**2) * hbar)))

wrong("bptt", "the way through W and tanh is forgotten: only the leak hands back")(bptt_with(
    lambda p, alpha, hbar, z: ((1 - alpha) * hbar, alpha * (1 - z**2) * hbar)))

wrong("bptt", "abar lacks the factor alpha")(bptt_with(
    lambda p, alpha, hbar, z: ((1 - alpha) * hbar + p.W.T @ ((1 - z**2) * hbar), (1 - z**2) * hbar)))

wrong("bptt", "alpha is in abar, but missing in what goes back through W")(bptt_with(
    lambda p, alpha, hbar, z: ((1 - alpha) * hbar + p.W.T @ ((1 - z**2) * hbar), alpha * (1 - z**2) * hbar)))

wrong("bptt", "alpha counts twice on the way back through W")(bptt_with(
    lambda p, alpha, hbar, z: ((1 - alpha) * hbar + alpha**2 * (p.W.T @ ((1 - z**2) * hbar)),
                               alpha * (1 - z**2) * hbar)))

wrong("bptt", "the direct way hands everything back, without the factor 1 - alpha")(bptt_with(
    lambda p, alpha, hbar, z: (hbar + p.W.T @ (alpha * (1 - z**2) * hbar), alpha * (1 - z**2) * hbar)))

wrong("bptt", "the direct way hands abar back, as if it went through tanh")(bptt_with(
    lambda p, alpha, hbar, z: ((1 - alpha) * alpha * (1 - z**2) * hbar + p.W.T @ (alpha * (1 - z**2) * hbar),
                               alpha * (1 - z**2) * hbar)))

wrong("bptt", "alpha and 1 - alpha have changed places in the sweep")(bptt_with(
    lambda p, alpha, hbar, z: (alpha * hbar + p.W.T @ ((1 - alpha) * (1 - z**2) * hbar),
                               (1 - alpha) * (1 - z**2) * hbar)))

wrong("bptt", "W for its transpose on the way back")(bptt_with(
    lambda p, alpha, hbar, z: ((1 - alpha) * hbar + p.W @ (alpha * (1 - z**2) * hbar), alpha * (1 - z**2) * hbar)))

wrong("bptt", "hbar goes back through W without the slope of tanh")(bptt_with(
    lambda p, alpha, hbar, z: ((1 - alpha) * hbar + alpha * (p.W.T @ hbar), alpha * (1 - z**2) * hbar)))

wrong("bptt", "the slope multiplies after W transposed, not before")(bptt_with(
    lambda p, alpha, hbar, z: ((1 - alpha) * hbar + alpha * (1 - z**2) * (p.W.T @ hbar), alpha * (1 - z**2) * hbar)))

wrong("bptt", "the slope is 1 - z, without the square")(bptt_with(
    lambda p, alpha, hbar, z: ((1 - alpha) * hbar + p.W.T @ (alpha * (1 - z) * hbar), alpha * (1 - z) * hbar)))

wrong("bptt", "tanh is applied to z once more before the slope is taken")(bptt_with(
    lambda p, alpha, hbar, z: ((1 - alpha) * hbar + p.W.T @ (alpha * (1 - jnp.tanh(z)**2) * hbar),
                               alpha * (1 - jnp.tanh(z)**2) * hbar)))

wrong("bptt", "the derivatives of the weights are formed with hbar, not with abar")(bptt_with(
    lambda p, alpha, hbar, z: ((1 - alpha) * hbar + p.W.T @ (alpha * (1 - z**2) * hbar), hbar)))

wrong("bptt", "nothing is handed back: every step is differentiated on its own")(bptt_with(
    lambda p, alpha, hbar, z: (jnp.zeros_like(hbar), alpha * (1 - z**2) * hbar)))


@wrong("bptt", "the slope is taken at the state, 1 - h**2, as in the plain cell")
def bptt_slope_of_state(model, alpha, h0, x, target):
    before, _, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, h, right_back(model.rnn, alpha))
    return gather(abar, before, x, error, h)


@wrong("bptt", "the slope of the step before is used: z is one index off")
def bptt_slope_shifted(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, jnp.roll(z, 1, axis=0), right_back(model.rnn, alpha))
    return gather(abar, before, x, error, h)


@wrong("bptt", "dW is formed with h_t, not with h_{t-1}")
def bptt_new_state(model, alpha, h0, x, target):
    _, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, z, right_back(model.rnn, alpha))
    return gather(abar, h, x, error, h)


@wrong("bptt", "dW is formed with z_{t-1}, what was written, not with the state that W reads")
def bptt_writes_for_states(model, alpha, h0, x, target):
    _, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, z, right_back(model.rnn, alpha))
    return gather(abar, jnp.concatenate([h0[None], z[:-1]]), x, error, h)


@wrong("bptt", "dV is formed with h_{t-1}, not with h_t")
def bptt_old_state_read(model, alpha, h0, x, target):
    before, z, _, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, z, right_back(model.rnn, alpha))
    return gather(abar, before, x, error, before)


@wrong("bptt", "dV is formed with z_t, as if the readout saw what was written")
def bptt_reads_z(model, alpha, h0, x, target):
    before, z, _, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, z, right_back(model.rnn, alpha))
    return gather(abar, before, x, error, z)


@wrong("bptt", "dW is transposed: the outer product has its factors in the wrong order")
def bptt_transposed(model, alpha, h0, x, target):
    (dW, dU, db), dV, dc = right_bptt(model, alpha, h0, x, target)
    return Model(Params(dW.T, dU, db), dV, dc)


@wrong("bptt", "dU and dV are transposed")
def bptt_rectangles_transposed(model, alpha, h0, x, target):
    (dW, dU, db), dV, dc = right_bptt(model, alpha, h0, x, target)
    return Model(Params(dW, dU.T, db), dV.T, dc)


@wrong("bptt", "only the loss of the last step counts")
def bptt_last_loss(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = (y - target).at[:-1].set(0)
    abar = sweep(error @ model.V, z, right_back(model.rnn, alpha))
    return gather(abar, before, x, error, h)


@wrong("bptt", "the sweep starts from the last loss, and the losses of the other steps reach V and c only")
def bptt_last_loss_swept(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    direct = (error @ model.V).at[:-1].set(0)
    return gather(sweep(direct, z, right_back(model.rnn, alpha)), before, x, error, h)


@wrong("bptt", "the last loss counts twice: as the start of the sweep, and as its own step")
def bptt_last_loss_twice(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    direct = (error @ model.V).at[-1].multiply(2)
    return gather(sweep(direct, z, right_back(model.rnn, alpha)), before, x, error, h)


@wrong("bptt", "dV and dc are taken from the last step only")
def bptt_readout_of_last(model, alpha, h0, x, target):
    _, _, h, y = forward(model, alpha, h0, x)
    error = y - target
    return right_bptt(model, alpha, h0, x, target)._replace(V=jnp.outer(error[-1], h[-1]), c=error[-1])


@wrong("bptt", "a factor 2: the half in front of the square is forgotten")
def bptt_doubled(model, alpha, h0, x, target):
    return jax.tree.map(lambda d: 2 * d, right_bptt(model, alpha, h0, x, target))


@wrong("bptt", "the mean over the steps in place of their sum")
def bptt_mean(model, alpha, h0, x, target):
    return jax.tree.map(lambda d: d / len(x), right_bptt(model, alpha, h0, x, target))


@wrong("bptt", "the sign is wrong: target minus output")
def bptt_negative(model, alpha, h0, x, target):
    return jax.tree.map(jnp.negative, right_bptt(model, alpha, h0, x, target))


@wrong("bptt", "the targets aren't subtracted: the derivative of half the squared output")
def bptt_without_target(model, alpha, h0, x, target):
    return right_bptt(model, alpha, h0, x, jnp.zeros_like(target))


@wrong("bptt", "the network is run from zero, not from h0")
def bptt_from_zero(model, alpha, h0, x, target):
    return right_bptt(model, alpha, jnp.zeros_like(h0), x, target)


@wrong("bptt", "h0 is replaced by zeros in dW, so that the first step adds nothing to it")
def bptt_h0_forgotten(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, z, right_back(model.rnn, alpha))
    return gather(abar, before.at[0].set(0), x, error, h)


@wrong("bptt", "the sweep ends at step 2: step 1 adds nothing to the weights of the recurrence")
def bptt_first_step_forgotten(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, z, right_back(model.rnn, alpha))
    return gather(abar.at[0].set(0), before, x, error, h)


@wrong("bptt", "the sweep runs from the first step to the last: reverse=True is forgotten")
def bptt_forwards(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep((error @ model.V)[::-1], z[::-1], right_back(model.rnn, alpha))[::-1]
    return gather(abar, before, x, error, h)


@wrong("bptt", "the reversed sweep isn't turned round again before it meets states and inputs")
def bptt_not_turned(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, z, right_back(model.rnn, alpha))[::-1]
    return gather(abar, before, x, error, h)


@wrong("bptt", "the plain cell's derivatives: alpha is 1 in the run and in the sweep")
def bptt_without_leak(model, alpha, h0, x, target):
    return right_bptt(model, 1.0, h0, x, target)


@wrong("bptt", "the run is leaky, the sweep is that of the plain cell")
def bptt_plain_sweep(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, z, right_back(model.rnn, 1.0))
    return gather(abar, before, x, error, h)


@wrong("bptt", "db is the derivative of the argument at the last step, not the sum over all")
def bptt_bias_unsummed(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, z, right_back(model.rnn, alpha))
    gradient = gather(abar, before, x, error, h)
    return gradient._replace(rnn=gradient.rnn._replace(b=abar[-1]))


@wrong("bptt", "dU is formed with the input of the step before")
def bptt_late_input(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, z, right_back(model.rnn, alpha))
    return gather(abar, before, jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]]), error, h)


@wrong("bptt", "the contributions of the steps aren't added up: every array has a leading axis T")
def bptt_unsummed(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    abar = sweep(error @ model.V, z, right_back(model.rnn, alpha))
    outer = jax.vmap(jnp.outer)
    return Model(Params(outer(abar, before), outer(abar, x), abar), outer(error, h), error)


@wrong("bptt", "dU and dW have changed places in Params")
def bptt_order(model, alpha, h0, x, target):
    (dW, dU, db), dV, dc = right_bptt(model, alpha, h0, x, target)
    return Model(Params(dU, dW, db), dV, dc)


@wrong("bptt", "the derivatives come as a flat tuple, not in the form of the model")
def bptt_flat(model, alpha, h0, x, target):
    return tuple(jax.tree.leaves(right_bptt(model, alpha, h0, x, target)))


@wrong("bptt", "the loss is returned, too")
def bptt_with_loss(model, alpha, h0, x, target):
    return loss(model, alpha, h0, x, target), right_bptt(model, alpha, h0, x, target)


@wrong("bptt", "it makes a step of gradient descent and returns the new model")
def bptt_descends(model, alpha, h0, x, target):
    return jax.tree.map(lambda w, d: w - 0.1 * d, model, right_bptt(model, alpha, h0, x, target))


@wrong("bptt", "dc and db are forgotten: zeros stand in their place")
def bptt_without_biases(model, alpha, h0, x, target):
    (dW, dU, db), dV, dc = right_bptt(model, alpha, h0, x, target)
    return Model(Params(dW, dU, jnp.zeros_like(db)), dV, jnp.zeros_like(dc))


@wrong("bptt", "differences with a step of 0.01 in place of derivatives")
def bptt_differences(model, alpha, h0, x, target):
    flat, unravel = jax.flatten_util.ravel_pytree(model)
    cost = lambda flat: loss(unravel(flat), alpha, h0, x, target)
    return unravel(jax.vmap(lambda e: (cost(flat + 0.01 * e) - cost(flat)) / 0.01)(jnp.eye(len(flat))))


@wrong("bptt", "jax.grad answers, which is refused here")
def bptt_by_grad(model, alpha, h0, x, target):
    return jax.grad(loss)(model, alpha, h0, x, target)


@wrong("bptt", "jax.value_and_grad answers, jitted, which is refused here")
def bptt_by_value_and_grad(model, alpha, h0, x, target):
    return jax.jit(jax.value_and_grad(loss))(model, alpha, h0, x, target)[1]


@wrong("bptt", "jax.vjp of the run answers, which is refused here")
def bptt_by_vjp(model, alpha, h0, x, target):
    y, back = jax.vjp(lambda model: right_run(model, alpha, h0, x)[0], model)
    return back(y - target)[0]


@wrong("bptt", "jax.jacrev answers, which is refused here")
def bptt_by_jacrev(model, alpha, h0, x, target):
    return jax.jacrev(lambda model: loss(model, alpha, h0, x, target))(model)


@wrong("bptt", "jax.jacfwd answers, which is refused here")
def bptt_by_jacfwd(model, alpha, h0, x, target):
    return jax.jacfwd(lambda model: loss(model, alpha, h0, x, target))(model)


@wrong("bptt", "the sweep is by hand, but every step in it is differentiated by jax.vjp, which is refused here")
def bptt_steps_by_vjp(model, alpha, h0, x, target):
    before, _, h, y = forward(model, alpha, h0, x)
    error = y - target
    later, total = jnp.zeros_like(h0), jax.tree.map(jnp.zeros_like, model.rnn)
    for t in reversed(range(len(x))):
        back = jax.vjp(lambda params, h: right_step(params, alpha, h, x[t]), model.rnn, before[t])[1]
        share, later = back(later + model.V.T @ error[t])
        total = jax.tree.map(jnp.add, total, share)
    return Model(total, error.T @ h, error.sum(0))


@wrong("bptt", "the slope of tanh is asked of jax.grad, which is refused here")
def bptt_slope_by_grad(model, alpha, h0, x, target):
    before, _, h, y = forward(model, alpha, h0, x)
    error = y - target
    slope = jax.vmap(jax.vmap(jax.grad(jnp.tanh)))(before @ model.rnn.W.T + x @ model.rnn.U.T + model.rnn.b)
    def one(hbar, slope):
        abar = alpha * slope * hbar
        return (1 - alpha) * hbar + model.rnn.W.T @ abar, abar
    return gather(sweep(error @ model.V, slope, one), before, x, error, h)


@wrong("bptt", "jax.linearize of the loss, asked for every weight in turn: a relative of jax.grad")
def bptt_by_linearize(model, alpha, h0, x, target):
    flat, unravel = jax.flatten_util.ravel_pytree(model)
    _, product = jax.linearize(lambda flat: loss(unravel(flat), alpha, h0, x, target), flat)
    return unravel(jax.vmap(product)(jnp.eye(len(flat))))


# Exercise 3, right.

@right("bptt", "scan in reverse, sums as matrix products")
def bptt_scan(model, alpha, h0, x, target):
    return right_bptt(model, alpha, h0, x, target)


@right("bptt", "a Python loop that adds outer products")
def bptt_loop(model, alpha, h0, x, target):
    (W, U, b), V, c = model
    h, steps = h0, []
    for now in x:
        z = jnp.tanh(W @ h + U @ now + b)
        steps.append((h, z, (1 - alpha) * h + alpha * z))
        h = steps[-1][-1]
    dW, dU, db, dV, dc = (jnp.zeros_like(array) for array in (W, U, b, V, c))
    later = jnp.zeros_like(h0)
    for t in reversed(range(len(x))):
        before, z, h = steps[t]
        error = V @ h + c - target[t]
        dV, dc = dV + jnp.outer(error, h), dc + error
        hbar = V.T @ error + later
        abar = alpha * (1 - z**2) * hbar
        dW, dU, db = dW + jnp.outer(abar, before), dU + jnp.outer(abar, x[t]), db + abar
        later = W.T @ abar + (1 - alpha) * hbar
    return Model(Params(dW, dU, db), dV, dc)


@right("bptt", "NumPy in float64")
def bptt_numpy(model, alpha, h0, x, target):
    (W, U, b), V, c, h0, x, target = jax.tree.map(lambda array: np.asarray(array, np.float64),
                                                  (*model, h0, x, target))
    T = len(x)
    h, z = np.zeros((T + 1, len(b))), np.zeros((T, len(b)))
    h[0] = h0
    for t in range(T):
        z[t] = np.tanh(W @ h[t] + U @ x[t] + b)
        h[t + 1] = (1 - alpha) * h[t] + alpha * z[t]
    error = h[1:] @ V.T + c - target
    abar, later = np.zeros_like(z), 0.0
    for t in range(T - 1, -1, -1):
        hbar = error[t] @ V + later
        abar[t] = alpha * (1 - z[t] ** 2) * hbar
        later = (1 - alpha) * hbar + abar[t] @ W
    return Model(Params(abar.T @ h[:-1], abar.T @ x, abar.sum(0)), error.T @ h[1:], error.sum(0))


@right("bptt", "jitted, the sequences turned round for a scan from the front")
@jax.jit
def bptt_turned(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    def back(later, now):
        direct, z = now
        hbar = direct + later
        abar = alpha * (1 - z) * (1 + z) * hbar
        return hbar - alpha * hbar + abar @ model.rnn.W, abar
    abar = jax.lax.scan(back, jnp.zeros_like(h0), ((error @ model.V)[::-1], z[::-1]))[1][::-1]
    return gather(abar, before, x, error, h)


@right("bptt", "the gradient is summed in the carry of the scan")
def bptt_carried(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    def back(carry, now):
        later, total = carry
        before, z, h, error, x = now
        hbar = model.V.T @ error + later
        abar = alpha * (1 - z**2) * hbar
        share = Model(Params(jnp.outer(abar, before), jnp.outer(abar, x), abar), jnp.outer(error, h), error)
        return ((1 - alpha) * hbar + model.rnn.W.T @ abar, jax.tree.map(jnp.add, total, share)), None
    start = jnp.zeros_like(h0), jax.tree.map(jnp.zeros_like, model)
    (_, total), _ = jax.lax.scan(back, start, (before, z, h, y - target, x), reverse=True)
    return total


@right("bptt", "explicit Jacobians, multiplied for every pair of steps")
def bptt_jacobians(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error, H = y - target, len(h0)
    J = (1 - alpha) * jnp.eye(H) + alpha * (1 - z**2)[:, :, None] * model.rnn.W
    hbar = []
    for t in range(len(x)):
        total, product = jnp.zeros(H), jnp.eye(H)
        for later in range(t, len(x)):
            product = J[later] @ product if later > t else product
            total = total + product.T @ model.V.T @ error[later]
        hbar.append(total)
    return gather(alpha * (1 - z**2) * jnp.stack(hbar), before, x, error, h)


@right("bptt", "an associative scan over the affine maps of the sweep, and einsum")
def bptt_associative(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error = y - target
    J = (1 - alpha) * jnp.eye(len(h0)) + alpha * (1 - z**2)[:, :, None] * model.rnn.W
    back = jnp.concatenate([J[1:], jnp.zeros_like(J[:1])]).swapaxes(1, 2)
    def compose(later, now):
        return now[0] @ later[0], jnp.einsum("tij,tj->ti", now[0], later[1]) + now[1]
    hbar = jax.lax.associative_scan(compose, (back, error @ model.V), reverse=True)[1]
    abar = alpha * (1 - z**2) * hbar
    dW, dU = jnp.einsum("ti,tj->ij", abar, before), jnp.einsum("ti,td->id", abar, x)
    return Model(Params(dW, dU, abar.sum(0)), jnp.einsum("tk,th->kh", error, h), error.sum(0))


@right("bptt", "fori_loop from the last index down")
def bptt_fori(model, alpha, h0, x, target):
    before, z, h, y = forward(model, alpha, h0, x)
    error, T = y - target, len(x)
    def back(i, carry):
        later, abar = carry
        t = T - 1 - i
        later, now = right_back(model.rnn, alpha)(model.V.T @ error[t] + later, z[t])
        return later, abar.at[t].set(now)
    abar = jax.lax.fori_loop(0, T, back, (jnp.zeros_like(h0), jnp.zeros_like(z)))[1]
    return gather(abar, before, x, error, h)


def bptt_of(run_forward, model, alpha, h0, x, target):
    before, z, h, y = run_forward(model, alpha, h0, x)
    hbar = sweep((y - target) @ model.V, z, lambda hbar, z: (right_back(model.rnn, alpha)(hbar, z)[0], hbar))
    return gather(alpha * (1 - z**2) * hbar, before, x, y - target, h)


right("bptt", "functools.partial of a helper; the sweep keeps hbar")(functools.partial(bptt_of, forward))

right("bptt", "a closure around one step back")(bptt_with(
    lambda p, alpha, hbar, z: right_back(p, alpha)(hbar, z)))


# Exercise 4, wrong.

wrong("push", "the direct way is forgotten: v only goes through W and tanh")(push_with(
    lambda p, alpha, z, v: alpha * (1 - z**2) * (p.W @ v)))

wrong("push", "the factor alpha is missing on the way through W")(push_with(
    lambda p, alpha, z, v: (1 - alpha) * v + (1 - z**2) * (p.W @ v)))

wrong("push", "the Jacobian of the plain cell: alpha isn't in it")(push_with(
    lambda p, alpha, z, v: (1 - z**2) * (p.W @ v)))

wrong("push", "the direct way passes v on whole, without the factor 1 - alpha")(push_with(
    lambda p, alpha, z, v: v + alpha * (1 - z**2) * (p.W @ v)))

wrong("push", "the slope multiplies v before W, not after")(push_with(
    lambda p, alpha, z, v: (1 - alpha) * v + alpha * (p.W @ ((1 - z**2) * v))))

wrong("push", "the slope of tanh is left out, as if the network were linear")(push_with(
    lambda p, alpha, z, v: (1 - alpha) * v + alpha * (p.W @ v)))

wrong("push", "the transpose of W: the product is J^T v, that of the sweep back")(push_with(
    lambda p, alpha, z, v: (1 - alpha) * v + alpha * ((1 - z**2) * (v @ p.W))))

wrong("push", "v itself is stepped through tanh, which isn't a derivative")(push_with(
    lambda p, alpha, z, v: (1 - alpha) * v + alpha * jnp.tanh(p.W @ v)))

wrong("push", "the slope is taken at the share written, 1 - (alpha z)**2")(push_with(
    lambda p, alpha, z, v: (1 - alpha) * v + alpha * (1 - (alpha * z)**2) * (p.W @ v)))

wrong("push", "v is brought back to length 1 at every step")(push_with(
    lambda p, alpha, z, v: (lambda w: w / jnp.linalg.norm(w))((1 - alpha) * v + alpha * (1 - z**2) * (p.W @ v))))

wrong("push", "the Jacobian is formed as a matrix, diagonal times W, which is refused")(push_with(
    lambda p, alpha, z, v: ((1 - alpha) * jnp.eye(len(v)) + alpha * jnp.diag(1 - z**2) @ p.W) @ v))

wrong("push", "W is scaled row by row before it meets v: an (H, H) array, which is refused")(push_with(
    lambda p, alpha, z, v: (1 - alpha) * v + (alpha * (1 - z**2)[:, None] * p.W) @ v))


def right_push(params, alpha, h0, x, v):
    """v_1, ..., v_T, (T, H)."""
    return jax.jvp(lambda h: right_states(params, alpha, h, x), (h0,), (v,))[1]


@wrong("push", "the slope is taken at the state, 1 - h**2")
def push_slope_of_state(params, alpha, h0, x, v):
    def forth(carry, x):
        h, v = carry
        h = right_step(params, alpha, h, x)
        v = (1 - alpha) * v + alpha * (1 - h**2) * (params.W @ v)
        return (h, v), v
    return jax.lax.scan(forth, (h0, v), x)[1]


@wrong("push", "the Jacobian is taken at the new state: h is overwritten before jvp")
def push_late_state(params, alpha, h0, x, v):
    def forth(carry, x):
        h, v = carry
        h = right_step(params, alpha, h, x)
        v = jax.jvp(lambda h: right_step(params, alpha, h, x), (h,), (v,))[1]
        return (h, v), v
    return jax.lax.scan(forth, (h0, v), x)[1]


@wrong("push", "the state isn't carried on: every Jacobian is taken at h0")
def push_state_fixed(params, alpha, h0, x, v):
    def forth(v, x):
        v = jax.jvp(lambda h: right_step(params, alpha, h, x), (h0,), (v,))[1]
        return v, v
    return jax.lax.scan(forth, v, x)[1]


@wrong("push", "v isn't carried on: every step pushes the first v")
def push_v_fixed(params, alpha, h0, x, v):
    def forth(h, x):
        return jax.jvp(lambda h: right_step(params, alpha, h, x), (h,), (v,))
    return jax.lax.scan(forth, h0, x)[1]


@wrong("push", "the leak always keeps a share of the first v, not of the last one")
def push_leaks_first(params, alpha, h0, x, v):
    def forth(carry, x):
        h, now = carry
        z = written(params, h, x)
        now = (1 - alpha) * v + alpha * (1 - z**2) * (params.W @ now)
        return ((1 - alpha) * h + alpha * z, now), now
    return jax.lax.scan(forth, (h0, v), x)[1]


@wrong("push", "v is recorded before it is pushed: v_0 to v_{T-1}")
def push_one_early(params, alpha, h0, x, v):
    return jnp.concatenate([v[None], right_push(params, alpha, h0, x, v)[:-1]])


@wrong("push", "v_0 is returned, too: T + 1 rows")
def push_one_too_many(params, alpha, h0, x, v):
    return jnp.concatenate([v[None], right_push(params, alpha, h0, x, v)])


@wrong("push", "only v_T is returned")
def push_last(params, alpha, h0, x, v):
    return right_push(params, alpha, h0, x, v)[-1]


@wrong("push", "the states are returned: jvp hands back f(h) first, and then the product")
def push_states(params, alpha, h0, x, v):
    return jax.jvp(lambda h: right_states(params, alpha, h, x), (h0,), (v,))[0]


@wrong("push", "all that jvp hands back is returned: states and products")
def push_pair(params, alpha, h0, x, v):
    return jax.jvp(lambda h: right_states(params, alpha, h, x), (h0,), (v,))


@wrong("push", "h_t + v_t, the state moved, in place of how far it moves")
def push_moved_state(params, alpha, h0, x, v):
    return right_states(params, alpha, h0, x) + right_push(params, alpha, h0, x, v)


@wrong("push", "the lengths of the v_t, as the example prints them, not the v_t")
def push_lengths(params, alpha, h0, x, v):
    return jnp.linalg.norm(right_push(params, alpha, h0, x, v), axis=1)


@wrong("push", "the v_t stand in columns: (H, T)")
def push_columns(params, alpha, h0, x, v):
    return right_push(params, alpha, h0, x, v).T


@wrong("push", "the v_t are returned from the last to the first")
def push_reversed(params, alpha, h0, x, v):
    return right_push(params, alpha, h0, x, v)[::-1]


@wrong("push", "the Jacobians are applied in the wrong order, that of the last step first")
def push_wrong_order(params, alpha, h0, x, v):
    h = jnp.concatenate([h0[None], right_states(params, alpha, h0, x)[:-1]])
    def forth(v, now):
        v = jax.jvp(lambda h: right_step(params, alpha, h, now[1]), (now[0],), (v,))[1]
        return v, v
    return jax.lax.scan(forth, v, (h[::-1], x[::-1]))[1]


@wrong("push", "v is swept back by jax.vjp: the transposed Jacobians, from the last step")
def push_by_vjp(params, alpha, h0, x, v):
    h = jnp.concatenate([h0[None], right_states(params, alpha, h0, x)[:-1]])
    def back(v, now):
        v = jax.vjp(lambda h: right_step(params, alpha, h, now[1]), now[0])[1](v)[0]
        return v, v
    return jax.lax.scan(back, v, (h, x), reverse=True)[1]


@wrong("push", "the whole v is added to h0 and the runs are subtracted: a difference, not a derivative")
def push_difference(params, alpha, h0, x, v):
    return right_states(params, alpha, h0 + v, x) - right_states(params, alpha, h0, x)


@wrong("push", "a difference quotient with a step of 0.1 in place of the derivative")
def push_quotient(params, alpha, h0, x, v):
    return (right_states(params, alpha, h0 + 0.1 * v, x) - right_states(params, alpha, h0, x)) / 0.1


@wrong("push", "the inputs are moved, too: jvp gets a direction of ones for x")
def push_moves_input(params, alpha, h0, x, v):
    run = lambda h, x: right_states(params, alpha, h, x)
    return jax.jvp(run, (h0, x), (v, jnp.ones_like(x)))[1]


@wrong("push", "primal and tangent have changed places in jvp")
def push_jvp_swapped(params, alpha, h0, x, v):
    return jax.jvp(lambda h: right_states(params, alpha, h, x), (v,), (h0,))[1]


@wrong("push", "the start is taken to be zero, not h0")
def push_from_zero(params, alpha, h0, x, v):
    return right_push(params, alpha, jnp.zeros_like(h0), x, v)


@wrong("push", "the v_t are summed up along the way")
def push_summed(params, alpha, h0, x, v):
    return jnp.cumsum(right_push(params, alpha, h0, x, v), axis=0)


@wrong("push", "alpha is lost on the way: the states and the Jacobians are the plain cell's")
def push_without_leak(params, alpha, h0, x, v):
    return right_push(params, 1.0, h0, x, v)


@wrong("push", "jax.jacfwd forms the Jacobian of every step, which is refused")
def push_by_jacfwd(params, alpha, h0, x, v):
    def forth(carry, x):
        h, v = carry
        v = jax.jacfwd(lambda h: right_step(params, alpha, h, x))(h) @ v
        return (right_step(params, alpha, h, x), v), v
    return jax.lax.scan(forth, (h0, v), x)[1]


@wrong("push", "jax.jacrev forms the Jacobian of all states, (T, H, H), which is refused")
def push_by_jacrev(params, alpha, h0, x, v):
    return jax.jacrev(lambda h: right_states(params, alpha, h, x))(h0) @ v


@wrong("push", "the product of all Jacobians is carried on, an (H, H) array, and v comes last")
def push_product(params, alpha, h0, x, v):
    h, product, pushed = h0, jnp.eye(len(h0)), []
    for now in x:
        z = written(params, h, now)
        product = (1 - alpha) * product + alpha * (1 - z**2)[:, None] * (params.W @ product)
        h = (1 - alpha) * h + alpha * z
        pushed.append(product @ v)
    return jnp.stack(pushed)


@wrong("push", "all unit vectors are pushed and combined with the entries of v: an (H, H) array at every step")
def push_unit_vectors(params, alpha, h0, x, v):
    pushed = jax.vmap(lambda e: right_push(params, alpha, h0, x, e))(jnp.eye(len(v)))
    return jnp.einsum("i,ith->th", v, pushed)


# Exercise 4, right. All can be traced, and none forms an (H, H) array.

@right("push", "jvp of the step inside a scan")
def push_scan(params, alpha, h0, x, v):
    def forth(carry, x):
        h, v = jax.jvp(lambda h: right_step(params, alpha, h, x), (carry[0],), (carry[1],))
        return (h, v), v
    return jax.lax.scan(forth, (h0, v), x)[1]


@right("push", "jvp of the whole run")
def push_whole(params, alpha, h0, x, v):
    return jax.jvp(lambda h: right_states(params, alpha, h, x), (h0,), (v,))[1]


@right("push", "the derivative by hand")
def push_by_hand(params, alpha, h0, x, v):
    def forth(carry, x):
        h, v = carry
        z = jnp.tanh(params.W @ h + params.U @ x + params.b)
        v = v + alpha * ((1 - z**2) * (params.W @ v) - v)
        return (h + alpha * (z - h), v), v
    return jax.lax.scan(forth, (h0, v), x)[1]


@right("push", "a Python loop over jvp of a functools.partial")
def push_loop(params, alpha, h0, x, v):
    h, pushed = h0, []
    for now in x:
        h, v = jax.jvp(functools.partial(right_step, params, alpha, x=now), (h,), (v,))
        pushed.append(v)
    return jnp.stack(pushed)


@right("push", "jax.linearize of every step")
def push_linearize(params, alpha, h0, x, v):
    def forth(carry, x):
        h, product = jax.linearize(lambda h: right_step(params, alpha, h, x), carry[0])
        v = product(carry[1])
        return (h, v), v
    return jax.lax.scan(forth, (h0, v), x)[1]


@right("push", "jitted, by hand, with einsum")
@jax.jit
def push_jitted(params, alpha, h0, x, v):
    def forth(carry, x):
        h, v = carry
        z = jnp.tanh(jnp.einsum("ij,j->i", params.W, h) + params.U @ x + params.b)
        v = (1 - alpha) * v + alpha * (1 - z) * (1 + z) * jnp.einsum("ij,j->i", params.W, v)
        return ((1 - alpha) * h + alpha * z, v), v
    return jax.lax.scan(forth, (h0, v), x)[1]


@right("push", "by hand, vmapped over the units")
def push_units(params, alpha, h0, x, v):
    def forth(carry, x):
        h, v = carry
        def unit(w, u, b, old, moved):
            z = jnp.tanh(w @ h + u @ x + b)
            return (1 - alpha) * old + alpha * z, (1 - alpha) * moved + alpha * (1 - z**2) * (w @ v)
        h, v = jax.vmap(unit)(*params, h, v)
        return (h, v), v
    return jax.lax.scan(forth, (h0, v), x)[1]


@right("push", "fori_loop that fills an array")
def push_fori(params, alpha, h0, x, v):
    def forth(t, carry):
        h, v, pushed = carry
        h, v = jax.jvp(lambda h: right_step(params, alpha, h, x[t]), (h,), (v,))
        return h, v, pushed.at[t].set(v)
    return jax.lax.fori_loop(0, len(x), forth, (h0, v, jnp.zeros((len(x), len(h0)))))[2]


@right("push", "the states first, the slopes of all steps at once, then a scan over v alone")
def push_slopes_first(params, alpha, h0, x, v):
    before = jnp.concatenate([h0[None], right_states(params, alpha, h0, x)[:-1]])
    z = jax.vmap(written, (None, 0, 0))(params, before, x)
    def forth(v, slope):
        v = (1 - alpha) * v + alpha * slope * (params.W @ v)
        return v, v
    return jax.lax.scan(forth, v, 1 - z**2)[1]


@right("push", "jvp by state and input, the input with direction zero")
def push_zero_input(params, alpha, h0, x, v):
    run = lambda h, x: right_states(params, alpha, h, x)
    return jax.jvp(run, (h0, x), (v, jnp.zeros_like(x)))[1]


@right("push", "the derivative by the size of the change: jvp along a line through h0")
def push_along_line(params, alpha, h0, x, v):
    line = lambda size: right_states(params, alpha, h0 + size * v, x)
    return jax.jvp(line, (0.0,), (1.0,))[1]


right("push", "a lambda")(lambda p, a, h0, x, v: jax.jvp(lambda h: right_states(p, a, h, x), (h0,), (v,))[1])

right("push", "a closure around one step")(push_with(
    lambda p, alpha, z, v: (1 - alpha) * v + alpha * (1 - z**2) * (p.W @ v)))
