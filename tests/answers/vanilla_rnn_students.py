"""Answers to lab 1 by nine imagined students: each wrong in another way."""
import jax
import jax.numpy as jnp
import numpy as np

from answers import Answers
from unrolled.vanilla_rnn import Model, Params

wrong, right = Answers(), Answers()


# ---------------------------------------------------------------- right answers

@right("step", "as a student may write it")
def right_step(params, alpha, h, x):
    z = jnp.tanh(params.W @ h + params.U @ x + params.b)
    return (1 - alpha) * h + alpha * z


@right("run", "as a student may write it")
def right_run(model, alpha, h0, x):
    def advance(h, x_t):
        h = right_step(model.rnn, alpha, h, x_t)
        return h, model.V @ h + model.c

    last, y = jax.lax.scan(advance, h0, x)
    return y, last


def forward(model, alpha, h0, x):
    """The states before each step, the z_t and the states after each step, each (T, H)."""
    def advance(h, x_t):
        z = jnp.tanh(model.rnn.W @ h + model.rnn.U @ x_t + model.rnn.b)
        new = (1 - alpha) * h + alpha * z
        return new, (h, z, new)

    return jax.lax.scan(advance, h0, x)[1]


def collect(a_bar, error, before, after, x):
    """The gradients of all weights from those by the arguments of tanh, (T, H), and by the outputs, (T, K)."""
    return Model(Params(a_bar.T @ before, a_bar.T @ x, a_bar.sum(0)), error.T @ after, error.sum(0))


@right("bptt", "as a student may write it")
def right_bptt(model, alpha, h0, x, target):
    before, z, after = forward(model, alpha, h0, x)
    error = after @ model.V.T + model.c - target

    def back(handed, at):
        error_t, z_t = at
        h_bar = model.V.T @ error_t + handed
        a_bar = alpha * (1 - z_t**2) * h_bar
        return (1 - alpha) * h_bar + model.rnn.W.T @ a_bar, a_bar

    _, a_bar = jax.lax.scan(back, jnp.zeros_like(h0), (error, z), reverse=True)
    return collect(a_bar, error, before, after, x)


@right("push", "as a student may write it")
def right_push(params, alpha, h0, x, v):
    def advance(carry, x_t):
        h, v = jax.jvp(lambda h: right_step(params, alpha, h, x_t), carry[:1], carry[1:])
        return (h, v), v

    return jax.lax.scan(advance, (h0, v), x)[1]


def push_all(params, alpha, h0, x):
    """The responses to all unit vectors: which unit was pushed, which step, which unit answers, (H, T, H)."""
    return jax.vmap(lambda v: right_push(params, alpha, h0, x, v))(jnp.eye(len(h0)))


@right("memory", "as a student may write it")
def right_memory(params, alpha, h0, x):
    return jnp.sqrt((push_all(params, alpha, h0, x)**2).sum(-1).mean(0))


@right("horizon", "as a student may write it")
def right_horizon(m, level):
    below = np.asarray(m) < level
    return int(np.argmax(below)) if below.any() else len(below)


def tree_norm(tree):
    """The length of all arrays of a tree together, ()."""
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))


@right("clip", "as a student may write it")
def right_clip(gradients, limit):
    norm = tree_norm(gradients)
    factor = jnp.where(norm > limit, limit / norm, 1.0)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0.0), gradients), norm


def half_squares(y, target):
    """The loss of a piece of a sequence, ()."""
    return 0.5 * jnp.sum((y - target)**2)


@right("truncated", "as a student may write it")
def right_truncated(model, alpha, h0, x, target, k):
    def loss(model):
        h, total = h0, 0.0
        for start in range(0, len(x), k):
            block = slice(start, start + k)
            y, h = right_run(model, alpha, jax.lax.stop_gradient(h), x[block])
            total += half_squares(y, target[block])
        return total

    return jax.grad(loss)(model)


def mean_tree(tree):
    """The mean over the leading axis of every array."""
    return jax.tree.map(lambda leaf: leaf.mean(0), tree)


def difference(tree, other):
    """One tree minus another."""
    return jax.tree.map(jnp.subtract, tree, other)


@right("bias", "as a student may write it")
def right_bias(truncated, full):
    mean = mean_tree(full)
    return tree_norm(difference(mean_tree(truncated), mean)) / tree_norm(mean)


# ---------------------------------------------------------------- 1: the leaky step

@wrong("step", "Swapped the two shares: alpha is what is written, not what is kept.")
def step_shares_swapped(params, alpha, h, x):
    z = jnp.tanh(params.W @ h + params.U @ x + params.b)
    return alpha * h + (1 - alpha) * z


@wrong("step", "Rewrote the mix as a move from h towards z, with the wrong sign: the state moves away from z.")
def step_moves_away(params, alpha, h, x):
    z = jnp.tanh(params.W @ h + params.U @ x + params.b)
    return h - alpha * (z - h)


@wrong("step", "Took the decay of continuous time, exp(-alpha), where the formula has 1 - alpha.")
def step_exponential_decay(params, alpha, h, x):
    keep = jnp.exp(-alpha)
    z = jnp.tanh(params.W @ h + params.U @ x + params.b)
    return keep * h + (1 - keep) * z


@wrong("step", "Wrote the rate model of neuroscience: tanh acts on the old state before W, not on the whole sum.")
def step_rate_model(params, alpha, h, x):
    drive = params.W @ jnp.tanh(h) + params.U @ x + params.b
    return (1 - alpha) * h + alpha * drive


@wrong("step", "Mixed before the tanh instead of after it, so that the old state is squashed as well.")
def step_mixed_inside(params, alpha, h, x):
    a = params.W @ h + params.U @ x + params.b
    return jnp.tanh((1 - alpha) * h + alpha * a)


@wrong("step", "Let the state leak first and gave W what was left of it; W reads the full h_{t-1}.")
def step_leaks_first(params, alpha, h, x):
    h = (1 - alpha) * h
    z = jnp.tanh(params.W @ h + params.U @ x + params.b)
    return h + alpha * z


@wrong("step", "Multiplied from the left as in row-vector notation: that applies the transpose of W.")
def step_row_vectors(params, alpha, h, x):
    z = jnp.tanh(h @ params.W + x @ params.U.T + params.b)
    return (1 - alpha) * h + alpha * z


@wrong("step", "Closed the bracket too early: the bias is added after the tanh.")
def step_bias_outside(params, alpha, h, x):
    z = jnp.tanh(params.W @ h + params.U @ x) + params.b
    return (1 - alpha) * h + alpha * z


@wrong("step", "Returned the pair that scan wants of its body; asked is h_t alone.")
def step_returns_pair(params, alpha, h, x):
    z = jnp.tanh(params.W @ h + params.U @ x + params.b)
    h = (1 - alpha) * h + alpha * z
    return h, h


# ---------------------------------------------------------------- 2: a whole sequence

@wrong("run", "Used vmap over time: every step starts from h0, and nothing is handed on.")
def run_vmap_over_time(model, alpha, h0, x):
    h = jax.vmap(lambda x_t: right_step(model.rnn, alpha, h0, x_t))(x)
    return h @ model.V.T + model.c, h[-1]


@wrong("run", "Applied the leak a second time around a step that leaks already.")
def run_leaks_twice(model, alpha, h0, x):
    def advance(h, x_t):
        h = (1 - alpha) * h + alpha * right_step(model.rnn, alpha, h, x_t)
        return h, model.V @ h + model.c

    last, y = jax.lax.scan(advance, h0, x)
    return y, last


@wrong("run", "Read out the state before the step: y_t belongs to the state just written.")
def run_reads_old_state(model, alpha, h0, x):
    def advance(h, x_t):
        y = model.V @ h + model.c
        return right_step(model.rnn, alpha, h, x_t), y

    last, y = jax.lax.scan(advance, h0, x)
    return y, last


@wrong("run", "Counted h_0 among the states that answer: T + 1 outputs instead of T.")
def run_answers_at_start(model, alpha, h0, x):
    states = [h0]
    for x_t in x:
        states.append(right_step(model.rnn, alpha, states[-1], x_t))
    return jnp.stack(states) @ model.V.T + model.c, states[-1]


@wrong("run", "Used t = 1, ..., T of the formula as Python indices: x_1 is never read, and x_T twice.")
def run_indices_from_one(model, alpha, h0, x):
    h, outputs = h0, []
    for t in range(1, len(x) + 1):
        h = right_step(model.rnn, alpha, h, x[t])
        outputs.append(model.V @ h + model.c)
    return jnp.stack(outputs), h


@wrong("run", "Read out z_t, the share newly written, instead of the state h_t.")
def run_reads_z(model, alpha, h0, x):
    def advance(h, x_t):
        z = jnp.tanh(model.rnn.W @ h + model.rnn.U @ x_t + model.rnn.b)
        return (1 - alpha) * h + alpha * z, model.V @ z + model.c

    last, y = jax.lax.scan(advance, h0, x)
    return y, last


@wrong("run", "Squashed the outputs with tanh: the readout is linear, and only the cell has a tanh.")
def run_squashed_outputs(model, alpha, h0, x):
    def advance(h, x_t):
        h = right_step(model.rnn, alpha, h, x_t)
        return h, jnp.tanh(model.V @ h + model.c)

    last, y = jax.lax.scan(advance, h0, x)
    return y, last


@wrong("run", "Passed on what scan returns, in the order of scan: the last state first.")
def run_order_of_scan(model, alpha, h0, x):
    def advance(h, x_t):
        h = right_step(model.rnn, alpha, h, x_t)
        return h, model.V @ h + model.c

    return jax.lax.scan(advance, h0, x)


@wrong("run", "Began with a state of zeros, although h0 is an argument: nobody could go on from h_T.")
def run_from_zeros(model, alpha, h0, x):
    return right_run(model, alpha, jnp.zeros_like(h0), x)


# ---------------------------------------------------------------- 3: backpropagation through time

@wrong("bptt", "Sent only what came from later along the direct way, and left out this step's own error.")
def bptt_direct_way_incomplete(model, alpha, h0, x, target):
    before, z, after = forward(model, alpha, h0, x)
    error = after @ model.V.T + model.c - target

    def back(handed, at):
        error_t, z_t = at
        h_bar = model.V.T @ error_t + handed
        a_bar = alpha * (1 - z_t**2) * h_bar
        return (1 - alpha) * handed + model.rnn.W.T @ a_bar, a_bar

    _, a_bar = jax.lax.scan(back, jnp.zeros_like(h0), (error, z), reverse=True)
    return collect(a_bar, error, before, after, x)


@wrong("bptt", "Multiplied by alpha twice on the way through W: it is part of the derivative by a_t already.")
def bptt_alpha_twice(model, alpha, h0, x, target):
    before, z, after = forward(model, alpha, h0, x)
    error = after @ model.V.T + model.c - target

    def back(handed, at):
        error_t, z_t = at
        h_bar = model.V.T @ error_t + handed
        a_bar = alpha * (1 - z_t**2) * h_bar
        return (1 - alpha) * h_bar + alpha * (model.rnn.W.T @ a_bar), a_bar

    _, a_bar = jax.lax.scan(back, jnp.zeros_like(h0), (error, z), reverse=True)
    return collect(a_bar, error, before, after, x)


@wrong("bptt", "Started the sweep with the last error and added it again at the last step: it counts twice.")
def bptt_last_error_twice(model, alpha, h0, x, target):
    before, z, after = forward(model, alpha, h0, x)
    error = after @ model.V.T + model.c - target

    def back(handed, at):
        error_t, z_t = at
        h_bar = model.V.T @ error_t + handed
        a_bar = alpha * (1 - z_t**2) * h_bar
        return (1 - alpha) * h_bar + model.rnn.W.T @ a_bar, a_bar

    _, a_bar = jax.lax.scan(back, model.V.T @ error[-1], (error, z), reverse=True)
    return collect(a_bar, error, before, after, x)


@wrong("bptt", "Took the slope as 1 - tanh(z)^2, although z is already the value of tanh.")
def bptt_tanh_of_tanh(model, alpha, h0, x, target):
    before, z, after = forward(model, alpha, h0, x)
    error = after @ model.V.T + model.c - target

    def back(handed, at):
        error_t, z_t = at
        h_bar = model.V.T @ error_t + handed
        a_bar = alpha * (1 - jnp.tanh(z_t)**2) * h_bar
        return (1 - alpha) * h_bar + model.rnn.W.T @ a_bar, a_bar

    _, a_bar = jax.lax.scan(back, jnp.zeros_like(h0), (error, z), reverse=True)
    return collect(a_bar, error, before, after, x)


@wrong("bptt", "Used alpha in what is handed back, and forgot it in the derivatives by W, U and b.")
def bptt_weights_without_alpha(model, alpha, h0, x, target):
    before, z, after = forward(model, alpha, h0, x)
    error = after @ model.V.T + model.c - target

    def back(handed, at):
        error_t, z_t = at
        h_bar = model.V.T @ error_t + handed
        a_bar = (1 - z_t**2) * h_bar
        return (1 - alpha) * h_bar + alpha * (model.rnn.W.T @ a_bar), a_bar

    _, a_bar = jax.lax.scan(back, jnp.zeros_like(h0), (error, z), reverse=True)
    return collect(a_bar, error, before, after, x)


@wrong("bptt", "Put zeros in front of the states to shift them, where h0 belongs: the first share of dW is lost.")
def bptt_zeros_for_start(model, alpha, h0, x, target):
    _, z, after = forward(model, alpha, h0, x)
    before = jnp.concatenate([jnp.zeros((1, len(h0))), after[:-1]])
    error = after @ model.V.T + model.c - target

    def back(handed, at):
        error_t, z_t = at
        h_bar = model.V.T @ error_t + handed
        a_bar = alpha * (1 - z_t**2) * h_bar
        return (1 - alpha) * h_bar + model.rnn.W.T @ a_bar, a_bar

    _, a_bar = jax.lax.scan(back, jnp.zeros_like(h0), (error, z), reverse=True)
    return collect(a_bar, error, before, after, x)


@wrong("bptt", "Returned the transpose of dW; W is square, and so no shape gives it away.")
def bptt_dw_transposed(model, alpha, h0, x, target):
    (dW, dU, db), dV, dc = right_bptt(model, alpha, h0, x, target)
    return Model(Params(dW.T, dU, db), dV, dc)


@wrong("bptt", "Turned time round by hand for the sweep, and did not turn its result round again.")
def bptt_result_still_reversed(model, alpha, h0, x, target):
    before, z, after = forward(model, alpha, h0, x)
    error = after @ model.V.T + model.c - target

    def back(handed, at):
        error_t, z_t = at
        h_bar = model.V.T @ error_t + handed
        a_bar = alpha * (1 - z_t**2) * h_bar
        return (1 - alpha) * h_bar + model.rnn.W.T @ a_bar, a_bar

    _, a_bar = jax.lax.scan(back, jnp.zeros_like(h0), (error[::-1], z[::-1]))
    return collect(a_bar, error, before, after, x)


@wrong("bptt", "Went back through W itself: the way back is through its transpose.")
def bptt_back_through_w(model, alpha, h0, x, target):
    before, z, after = forward(model, alpha, h0, x)
    error = after @ model.V.T + model.c - target

    def back(handed, at):
        error_t, z_t = at
        h_bar = model.V.T @ error_t + handed
        a_bar = alpha * (1 - z_t**2) * h_bar
        return (1 - alpha) * h_bar + model.rnn.W @ a_bar, a_bar

    _, a_bar = jax.lax.scan(back, jnp.zeros_like(h0), (error, z), reverse=True)
    return collect(a_bar, error, before, after, x)


# ---------------------------------------------------------------- 4: a product without the matrix

@wrong("push", "Took vjp, which multiplies by the transposed Jacobian: that pulls back instead of pushing forward.")
def push_by_vjp(params, alpha, h0, x, v):
    def advance(carry, x_t):
        h, v = carry
        h, pull = jax.vjp(lambda h: right_step(params, alpha, h, x_t), h)
        v, = pull(v)
        return (h, v), v

    return jax.lax.scan(advance, (h0, v), x)[1]


@wrong("push", "Pushed the same v through every single Jacobian: the product over the steps never builds up.")
def push_v_not_carried(params, alpha, h0, x, v):
    def advance(h, x_t):
        return jax.jvp(lambda h: right_step(params, alpha, h, x_t), (h,), (v,))

    return jax.lax.scan(advance, h0, x)[1]


@wrong("push", "Recorded the direction before each step: v_0, ..., v_{T-1} instead of v_1, ..., v_T.")
def push_one_step_early(params, alpha, h0, x, v):
    def advance(carry, x_t):
        h, v = carry
        return jax.jvp(lambda h: right_step(params, alpha, h, x_t), (h,), (v,)), v

    return jax.lax.scan(advance, (h0, v), x)[1]


@wrong("push", "Took the Jacobian of step t at the new state h_t; it belongs to the state the step starts from.")
def push_at_new_state(params, alpha, h0, x, v):
    def advance(carry, x_t):
        h, v = carry
        h = right_step(params, alpha, h, x_t)
        _, v = jax.jvp(lambda h: right_step(params, alpha, h, x_t), (h,), (v,))
        return (h, v), v

    return jax.lax.scan(advance, (h0, v), x)[1]


@wrong("push", "Carried v along and left the state at h0, so that every Jacobian is taken at the start.")
def push_state_stands_still(params, alpha, h0, x, v):
    def advance(v, x_t):
        _, v = jax.jvp(lambda h: right_step(params, alpha, h, x_t), (h0,), (v,))
        return v, v

    return jax.lax.scan(advance, v, x)[1]


@wrong("push", "Differentiated by hand and lost the direct way: the share (1 - alpha) v is missing.")
def push_without_direct_way(params, alpha, h0, x, v):
    def advance(carry, x_t):
        h, v = carry
        z = jnp.tanh(params.W @ h + params.U @ x_t + params.b)
        v = alpha * (1 - z**2) * (params.W @ v)
        return ((1 - alpha) * h + alpha * z, v), v

    return jax.lax.scan(advance, (h0, v), x)[1]


@wrong("push", "Divided differences by a step of 1e-8, which single precision rounds away.")
def push_step_rounded_away(params, alpha, h0, x, v):
    def states(h0):
        def advance(h, x_t):
            h = right_step(params, alpha, h, x_t)
            return h, h

        return jax.lax.scan(advance, h0, x)[1]

    return (states(h0 + 1e-8 * v) - states(h0)) / 1e-8


@wrong("push", "Moved the start by all of v and took the difference: no small change, and not of first order.")
def push_by_whole_v(params, alpha, h0, x, v):
    h, moved, differences = h0, h0 + v, []
    for x_t in x:
        h = right_step(params, alpha, h, x_t)
        moved = right_step(params, alpha, moved, x_t)
        differences.append(moved - h)
    return jnp.stack(differences)


@wrong("push", "Scaled W by the slopes before multiplying: this is the forbidden (H, H) matrix under another name.")
def push_scales_w(params, alpha, h0, x, v):
    def advance(carry, x_t):
        h, v = carry
        z = jnp.tanh(params.W @ h + params.U @ x_t + params.b)
        v = (1 - alpha) * v + alpha * ((1 - z**2)[:, None] * params.W) @ v
        return ((1 - alpha) * h + alpha * z, v), v

    return jax.lax.scan(advance, (h0, v), x)[1]


# ---------------------------------------------------------------- 5: the memory of three starts

@wrong("memory", "Averaged the lengths; asked is the root of the mean of their squares.")
def memory_mean_of_lengths(params, alpha, h0, x):
    return jnp.linalg.norm(push_all(params, alpha, h0, x), axis=-1).mean(0)


@wrong("memory", "Took the spectral norm: how the luckiest direction fares, not all of them on average.")
def memory_best_direction(params, alpha, h0, x):
    jacobians = push_all(params, alpha, h0, x).transpose(1, 2, 0)
    return jnp.linalg.norm(jacobians, ord=2, axis=(1, 2))


@wrong("memory", "Averaged the directions first and pushed their one mean: answers that cancel there should not.")
def memory_one_mean_direction(params, alpha, h0, x):
    v = jnp.ones_like(h0) / jnp.sqrt(len(h0))
    return jnp.linalg.norm(right_push(params, alpha, h0, x, v), axis=-1)


@wrong("memory", "Divided by H outside the root, where the mean is inside.")
def memory_h_outside_root(params, alpha, h0, x):
    return jnp.sqrt((push_all(params, alpha, h0, x)**2).sum((0, 2))) / len(h0)


@wrong("memory", "Divided by the number of steps instead of the number of directions: len(x) is T.")
def memory_divides_by_steps(params, alpha, h0, x):
    return jnp.sqrt((push_all(params, alpha, h0, x)**2).sum((0, 2)) / len(x))


@wrong("memory", "Multiplied the memories of single steps: the size of a product is not the product of the sizes.")
def memory_product_of_steps(params, alpha, h0, x):
    def advance(h, x_t):
        single = right_memory(params, alpha, h, x_t[None])[0]
        return right_step(params, alpha, h, x_t), single

    return jnp.cumprod(jax.lax.scan(advance, h0, x)[1])


@wrong("memory", "Looked only at how each unit answers to its own push, which is the diagonal of the Jacobian.")
def memory_own_unit_only(params, alpha, h0, x):
    own = jnp.diagonal(push_all(params, alpha, h0, x), axis1=0, axis2=2)
    return jnp.sqrt((own**2).mean(-1))


@wrong("memory", "Used the standard deviation, which takes off the mean response first.")
def memory_spread(params, alpha, h0, x):
    return jnp.sqrt((push_all(params, alpha, h0, x).std(0)**2).sum(-1))


@wrong("memory", "Divided by the first entry, as if memory had to begin at 1: what step 1 loses is hidden.")
def memory_relative_to_first(params, alpha, h0, x):
    m = right_memory(params, alpha, h0, x)
    return m / m[0]


# ---------------------------------------------------------------- 5: the horizon

@wrong("horizon", "Wrote `argmax or T` for never: a first entry below the level gives 0, and becomes T as well.")
def horizon_zero_is_false(m, level):
    return int(np.argmax(np.asarray(m) < level)) or len(m)


@wrong("horizon", "Looked for a crossing between neighbours: an array that starts below the level has none there.")
def horizon_needs_a_crossing(m, level):
    for t in range(1, len(m)):
        if m[t - 1] >= level and m[t] < level:
            return t
    return len(m)


@wrong("horizon", "Counted the longest stretch not below the level, wherever it lies; asked is the first.")
def horizon_longest_stretch(m, level):
    longest = current = 0
    for value in np.asarray(m):
        current = current + 1 if value >= level else 0
        longest = max(longest, current)
    return longest


@wrong("horizon", "Waited until m stays below the level for good, although it had been below before.")
def horizon_for_good(m, level):
    kept = np.flatnonzero(np.asarray(m) >= level)
    return int(kept[-1]) + 1 if len(kept) else 0


@wrong("horizon", "Searched by bisection, as if m could only fall: a memory may rise again.")
def horizon_by_bisection(m, level):
    return len(m) - int(np.searchsorted(np.asarray(m)[::-1], level))


@wrong("horizon", "Interpolated to where a line meets the level; asked is a whole number of steps.")
def horizon_interpolated(m, level):
    t = right_horizon(m, level)
    if t in (0, len(m)):
        return t
    return t - 1 + float((m[t - 1] - level) / (m[t - 1] - m[t]))


@wrong("horizon", "Stopped at an entry equal to the level, which still counts as memory.")
def horizon_stops_at_level(m, level):
    return int(np.cumprod(np.asarray(m) > level).sum())


@wrong("horizon", "Returned the lag of the first entry below the level: the steps before it are one fewer.")
def horizon_names_the_lag(m, level):
    return min(right_horizon(m, level) + 1, len(m))


@wrong("horizon", "Took the entry nearest to the level, whichever side it is on.")
def horizon_nearest_entry(m, level):
    return int(np.argmin(np.abs(np.asarray(m) - level)))


# ---------------------------------------------------------------- 6: clipping

@wrong("clip", "Divided by the norm to get a direction first: for a gradient of zeros that is 0/0.")
def clip_direction_first(gradients, limit):
    norm = tree_norm(gradients)
    clipped = jax.tree.map(lambda g: g / norm * jnp.minimum(norm, limit), gradients)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g, 0.0), clipped), norm


@wrong("clip", "Multiplied by 0 to get zeros: infinity and NaN times 0 are NaN.")
def clip_times_zero(gradients, limit):
    norm = tree_norm(gradients)
    factor = jnp.where(norm > limit, limit / norm, 1.0)
    factor = jnp.where(jnp.isfinite(norm), factor, 0.0)
    return jax.tree.map(lambda g: g * factor, gradients), norm


@wrong("clip", "Replaced the bad entries by zeros and took the step with the rest; it is to be skipped.")
def clip_repairs_entries(gradients, limit):
    repaired = jax.tree.map(lambda g: jnp.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0), gradients)
    return right_clip(repaired, limit)


@wrong("clip", "Used ord=2, which for a matrix is its largest singular value, not its length.")
def clip_singular_value(gradients, limit):
    lengths = [jnp.linalg.norm(leaf, ord=2) for leaf in jax.tree.leaves(gradients)]
    norm = jnp.linalg.norm(jnp.stack(lengths))
    factor = jnp.where(norm > limit, limit / norm, 1.0)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0.0), gradients), norm


@wrong("clip", "Emptied only the arrays with a bad entry, and let the others take their step.")
def clip_skips_single_arrays(gradients, limit):
    sound = jax.tree.map(lambda g: jnp.where(jnp.isfinite(g).all(), g, 0.0), gradients)
    return right_clip(sound, limit)[0], tree_norm(gradients)


@wrong("clip", "Returned the norm after clipping, which never tells how long the gradient was.")
def clip_norm_afterwards(gradients, limit):
    clipped, norm = right_clip(gradients, limit)
    return clipped, jnp.where(jnp.isfinite(norm), tree_norm(clipped), norm)


@wrong("clip", "Looked for NaN alone: an infinite entry times limit / infinity is a NaN as well.")
def clip_nan_alone(gradients, limit):
    norm = tree_norm(gradients)
    factor = jnp.where(norm > limit, limit / norm, 1.0)
    return jax.tree.map(lambda g: jnp.where(jnp.isnan(norm), 0.0, g * factor), gradients), norm


@wrong("clip", "Added up the lengths of the arrays instead of their squares.")
def clip_sum_of_lengths(gradients, limit):
    norm = sum(jnp.sqrt(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(gradients))
    factor = jnp.where(norm > limit, limit / norm, 1.0)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0.0), gradients), norm


@wrong("clip", "Scaled every gradient to the limit: short ones are made longer, where they should stay as they are.")
def clip_lengthens(gradients, limit):
    norm = tree_norm(gradients)
    factor = jnp.where(norm > 0, limit / norm, 1.0)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0.0), gradients), norm


# ---------------------------------------------------------------- 7: truncated backpropagation

@wrong("truncated", "Read k as the number of blocks; it is their length.")
def truncated_k_blocks(model, alpha, h0, x, target, k):
    length = -(-len(x) // k)
    return right_truncated(model, alpha, h0, x, target, length)


@wrong("truncated", "Let every loss look back k steps from where it is: a sliding window instead of blocks.")
def truncated_sliding_window(model, alpha, h0, x, target, k):
    before, _, _ = forward(model, alpha, h0, x)

    def loss(model):
        total = 0.0
        for t in range(len(x)):
            first = max(0, t - k + 1)
            h = before[first]
            for s in range(first, t + 1):
                h = right_step(model.rnn, alpha, h, x[s])
            total += half_squares(model.V @ h + model.c, target[t])
        return total

    return jax.grad(loss)(model)


@wrong("truncated", "Filled the last block up with zeros, and counted the losses of steps that do not exist.")
def truncated_padded(model, alpha, h0, x, target, k):
    missing = -len(x) % k
    x, target = (jnp.pad(array, ((0, missing), (0, 0))) for array in (x, target))
    return right_truncated(model, alpha, h0, x, target, k)


@wrong("truncated", "Cut with dynamic_slice, which moves a last block that does not fit back over earlier steps.")
def truncated_overlapping_end(model, alpha, h0, x, target, k):
    k = min(k, len(x))

    def loss(model):
        def block(h, start):
            x_block = jax.lax.dynamic_slice_in_dim(x, start, k)
            target_block = jax.lax.dynamic_slice_in_dim(target, start, k)
            y, h = right_run(model, alpha, jax.lax.stop_gradient(h), x_block)
            return h, half_squares(y, target_block)

        return jax.lax.scan(block, h0, jnp.arange(0, len(x), k))[1].sum()

    return jax.grad(loss)(model)


@wrong("truncated", "Counted the blocks from the end: the first one is the shorter one, and not the last.")
def truncated_from_the_end(model, alpha, h0, x, target, k):
    first = len(x) % k
    blocks = [slice(0, first)] if first else []
    blocks += [slice(start, start + k) for start in range(first, len(x), k)]

    total, h = jax.tree.map(jnp.zeros_like, model), h0
    for block in blocks:
        gradient = right_bptt(model, alpha, h, x[block], target[block])
        total = jax.tree.map(jnp.add, total, gradient)
        _, h = right_run(model, alpha, h, x[block])
    return total


@wrong("truncated", "Cut after the first step of a block instead of before it: what the weights do there is lost.")
def truncated_first_step_lost(model, alpha, h0, x, target, k):
    def loss(model):
        h, total = h0, 0.0
        for t in range(len(x)):
            h = right_step(model.rnn, alpha, h, x[t])
            if t % k == 0:
                h = jax.lax.stop_gradient(h)
            total += half_squares(model.V @ h + model.c, target[t])
        return total

    return jax.grad(loss)(model)


@wrong("truncated", "Started every block at h0 again: the derivative is cut, but the state must be handed on.")
def truncated_state_not_handed_on(model, alpha, h0, x, target, k):
    gradients = [right_bptt(model, alpha, h0, x[start:start + k], target[start:start + k])
                 for start in range(0, len(x), k)]
    return jax.tree.map(lambda *leaves: sum(leaves), *gradients)


@wrong("truncated", "Cut before step k instead of after it: the first block has k - 1 steps.")
def truncated_cut_too_early(model, alpha, h0, x, target, k):
    def loss(model):
        h, total = h0, 0.0
        for t in range(len(x)):
            if (t + 1) % k == 0:
                h = jax.lax.stop_gradient(h)
            h = right_step(model.rnn, alpha, h, x[t])
            total += half_squares(model.V @ h + model.c, target[t])
        return total

    return jax.grad(loss)(model)


@wrong("truncated", "Averaged the gradients of the blocks, which are to be added up.")
def truncated_mean_of_blocks(model, alpha, h0, x, target, k):
    blocks = -(-len(x) // k)
    return jax.tree.map(lambda g: g / blocks, right_truncated(model, alpha, h0, x, target, k))


# ---------------------------------------------------------------- 8: the bias of truncation

@wrong("bias", "Never took the mean: over all examples in one long vector, noise counts as bias.")
def bias_without_mean(truncated, full):
    return tree_norm(difference(truncated, full)) / tree_norm(full)


@wrong("bias", "Measured only the error along the full gradient; an error at right angles to it counts too.")
def bias_along_gradient(truncated, full):
    mean = mean_tree(full)
    error = difference(mean_tree(truncated), mean)
    along = sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(error), jax.tree.leaves(mean)))
    return jnp.abs(along) / tree_norm(mean)**2


@wrong("bias", "Averaged the squares within each array, so that small arrays weigh as much as large ones.")
def bias_arrays_weigh_alike(truncated, full):
    def size(tree):
        return jnp.sqrt(sum(jnp.mean(leaf**2) for leaf in jax.tree.leaves(tree)))

    mean = mean_tree(full)
    return size(difference(mean_tree(truncated), mean)) / size(mean)


@wrong("bias", "Divided by the mean length of the full gradients instead of the length of their mean.")
def bias_by_mean_length(truncated, full):
    error = difference(mean_tree(truncated), mean_tree(full))
    return tree_norm(error) / jax.vmap(tree_norm)(full).mean()


@wrong("bias", "Compared the lengths of the two means: two vectors of one length may point anywhere.")
def bias_difference_of_lengths(truncated, full):
    short, whole = tree_norm(mean_tree(truncated)), tree_norm(mean_tree(full))
    return jnp.abs(short - whole) / whole


@wrong("bias", "Took the share of the truncated gradient; the measure is the full one.")
def bias_by_truncated(truncated, full):
    mean = mean_tree(truncated)
    return tree_norm(difference(mean, mean_tree(full))) / tree_norm(mean)


@wrong("bias", "Computed the ratio for each example and averaged the ratios: errors can no longer cancel.")
def bias_mean_of_ratios(truncated, full):
    one = lambda truncated, full: tree_norm(difference(truncated, full)) / tree_norm(full)
    return jax.vmap(one)(truncated, full).mean()


@wrong("bias", "Took the mean over all axes, so that each array shrinks to one number.")
def bias_mean_over_everything(truncated, full):
    short, whole = (jax.tree.map(jnp.mean, tree) for tree in (truncated, full))
    return tree_norm(difference(short, whole)) / tree_norm(whole)


@wrong("bias", "Added up the lengths of the arrays; one long vector has the root of the sum of all squares.")
def bias_sum_of_lengths(truncated, full):
    def size(tree):
        return sum(jnp.sqrt(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(tree))

    mean = mean_tree(full)
    return size(difference(mean_tree(truncated), mean)) / size(mean)
