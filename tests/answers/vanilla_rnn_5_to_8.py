"""Answers to exercises 5 to 8 of lab 1: wrong ones with the mistake that each makes, and right ones in other forms."""
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from answers import Answers
from unrolled.vanilla_rnn import Model, Params

wrong, right = Answers(), Answers()


# Right helpers.

def right_step(params, alpha, h, x):
    """The leaky step."""
    return (1 - alpha) * h + alpha * jnp.tanh(params.W @ h + params.U @ x + params.b)


def right_states(params, alpha, h0, x):
    """h_1, ..., h_T, (T, H)."""
    def body(h, x):
        h = right_step(params, alpha, h, x)
        return h, h
    return jax.lax.scan(body, h0, x)[1]


def right_push(params, alpha, h0, x, v):
    """v_1, ..., v_T, (T, H)."""
    return jax.jvp(lambda h0: right_states(params, alpha, h0, x), (h0,), (v,))[1]


def right_pushed(params, alpha, h0, x):
    """The responses to all unit vectors, (H, T, H): which vector, lag, unit."""
    return jax.vmap(lambda v: right_push(params, alpha, h0, x, v))(jnp.eye(len(h0)))


def right_jacobians(params, alpha, h0, x):
    """J_1, ..., J_T, (T, H, H), each of one step."""
    before = jnp.concatenate([h0[None], right_states(params, alpha, h0, x)[:-1]])
    return jax.vmap(jax.jacfwd(lambda h, x: right_step(params, alpha, h, x)))(before, x)


def right_norm(tree):
    """The length over all arrays together, ()."""
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))


def right_scale(tree, factor):
    """The tree, times a number."""
    return jax.tree.map(lambda leaf: leaf * factor, tree)


def right_add(a, b):
    """The sum of two trees."""
    return jax.tree.map(jnp.add, a, b)


def right_block(model, alpha, h, x, target):
    """The loss of one block that starts from h, and its last state."""
    states = right_states(model.rnn, alpha, h, x)
    return 0.5 * jnp.sum((states @ model.V.T + model.c - target) ** 2), states[-1]


def right_block_gradient(model, alpha, h, x, target):
    """The gradient of one block, whose first state is a constant, and its last state."""
    return jax.grad(right_block, has_aux=True)(model, alpha, h, x, target)


def right_cut_loss(model, alpha, h0, x, target, cut):
    """The loss of the whole sequence; no derivative passes into the state before step t where cut[t], (T,)."""
    def body(h, inputs):
        x, target, cut = inputs
        h = right_step(model.rnn, alpha, jnp.where(cut, jax.lax.stop_gradient(h), h), x)
        return h, 0.5 * jnp.sum((model.V @ h + model.c - target) ** 2)
    return jax.lax.scan(body, h0, (x, target, cut))[1].sum()


def right_mean(tree):
    """The mean over the leading axis of each array."""
    return jax.tree.map(lambda leaf: leaf.mean(0), tree)


def right_rows(tree):
    """All entries of each example in one long vector, (B, N)."""
    return jnp.concatenate([leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(tree)], axis=1)


# Exercise 5, memory: wrong.

@wrong("memory", "the root is missing: the mean square is returned")
def memory_without_root(params, alpha, h0, x):
    return (right_pushed(params, alpha, h0, x) ** 2).sum(2).mean(0)


@wrong("memory", "the squares are summed over the directions, not averaged: 1/H is missing")
def memory_without_mean(params, alpha, h0, x):
    return jnp.sqrt((right_pushed(params, alpha, h0, x) ** 2).sum((0, 2)))


@wrong("memory", "the mean is over the units as well: divided by H², not by H")
def memory_mean_over_units(params, alpha, h0, x):
    return jnp.sqrt((right_pushed(params, alpha, h0, x) ** 2).mean((0, 2)))


@wrong("memory", "the lengths are averaged, not their squares")
def memory_mean_of_lengths(params, alpha, h0, x):
    return jnp.linalg.norm(right_pushed(params, alpha, h0, x), axis=2).mean(0)


@wrong("memory", "the responses are averaged before their length is taken: directions cancel")
def memory_of_mean_direction(params, alpha, h0, x):
    return jnp.linalg.norm(right_pushed(params, alpha, h0, x).mean(0), axis=1)


@wrong("memory", "a single direction is pushed, the diagonal one")
def memory_of_one_direction(params, alpha, h0, x):
    v = jnp.ones(len(h0)) / jnp.sqrt(len(h0))
    return jnp.linalg.norm(right_push(params, alpha, h0, x, v), axis=1)


@wrong("memory", "a single random direction is pushed, and taken for the mean over all")
def memory_of_random_direction(params, alpha, h0, x):
    v = jax.random.normal(jax.random.key(0), h0.shape)
    return jnp.linalg.norm(right_push(params, alpha, h0, x, v / jnp.linalg.norm(v)), axis=1)


@wrong("memory", "the vector of ones, of length √H, is pushed in place of the unit vectors")
def memory_of_ones(params, alpha, h0, x):
    return jnp.linalg.norm(right_push(params, alpha, h0, x, jnp.ones(len(h0))), axis=1)


@wrong("memory", "the largest response is returned (the spectral norm), not the mean one")
def memory_largest(params, alpha, h0, x):
    return jax.vmap(lambda J: jnp.linalg.norm(J, 2))(right_pushed(params, alpha, h0, x).transpose(1, 2, 0))


@wrong("memory", "only each unit's response to itself is counted, the diagonal of the Jacobian")
def memory_diagonal(params, alpha, h0, x):
    diagonal = jnp.diagonal(right_pushed(params, alpha, h0, x), axis1=0, axis2=2)
    return jnp.sqrt((diagonal**2).mean(1))


@wrong("memory", "the axis of time is summed over: one number per direction, (H,)")
def memory_sums_over_time(params, alpha, h0, x):
    return jnp.sqrt((right_pushed(params, alpha, h0, x) ** 2).sum(1).mean(0))


@wrong("memory", "the Jacobians of single steps are measured, not their product")
def memory_of_single_steps(params, alpha, h0, x):
    return jnp.sqrt((right_jacobians(params, alpha, h0, x) ** 2).sum((1, 2)) / len(h0))


@wrong("memory", "the lengths of single Jacobians are multiplied in place of the matrices")
def memory_product_of_lengths(params, alpha, h0, x):
    return jnp.cumprod(jnp.sqrt((right_jacobians(params, alpha, h0, x) ** 2).sum((1, 2)) / len(h0)))


@wrong("memory", "the Jacobians are multiplied in the wrong order: J_1 ... J_t")
def memory_wrong_order(params, alpha, h0, x):
    def body(product, J):
        product = product @ J
        return product, product
    products = jax.lax.scan(body, jnp.eye(len(h0)), right_jacobians(params, alpha, h0, x))[1]
    return jnp.sqrt((products**2).sum((1, 2)) / len(h0))


@wrong("memory", "the clock runs backwards: the response of h_T to h_{T-1}, h_{T-2}, ..., not that of h_t to h_0")
def memory_from_the_end(params, alpha, h0, x):
    def body(product, J):
        product = product @ J
        return product, product
    products = jax.lax.scan(body, jnp.eye(len(h0)), right_jacobians(params, alpha, h0, x)[::-1])[1]
    return jnp.sqrt((products**2).sum((1, 2)) / len(h0))


@wrong("memory", "the state is not carried on: every Jacobian is taken at h_0")
def memory_state_forgotten(params, alpha, h0, x):
    def body(vs, x):
        vs = jax.vmap(lambda v: jax.jvp(lambda h: right_step(params, alpha, h, x), (h0,), (v,))[1])(vs)
        return vs, jnp.sqrt((vs**2).sum(1).mean())
    return jax.lax.scan(body, jnp.eye(len(h0)), x)[1]


@wrong("memory", "the network is started at zero, not at h0")
def memory_start_forgotten(params, alpha, h0, x):
    return jnp.sqrt((right_pushed(params, alpha, jnp.zeros_like(h0), x) ** 2).sum(2).mean(0))


@wrong("memory", "the leak is forgotten: the plain cell of the chapter")
def memory_plain_cell(params, alpha, h0, x):
    return jnp.sqrt((right_pushed(params, 1.0, h0, x) ** 2).sum(2).mean(0))


@wrong("memory", "the direct way is missing in the Jacobian: only the way through W and tanh is kept")
def memory_without_direct_way(params, alpha, h0, x):
    direct = (1 - alpha) * jnp.eye(len(h0))

    def body(product, J):
        product = (J - direct) @ product
        return product, jnp.sqrt((product**2).sum() / len(h0))
    return jax.lax.scan(body, jnp.eye(len(h0)), right_jacobians(params, alpha, h0, x))[1]


@wrong("memory", "the slope of tanh is taken from the state: 1 - h² for 1 - z²")
def memory_slope_of_state(params, alpha, h0, x):
    def body(carry, x):
        h, product = carry
        h = right_step(params, alpha, h, x)
        product = (1 - alpha) * product + alpha * (1 - h**2)[:, None] * (params.W @ product)
        return (h, product), jnp.sqrt((product**2).sum() / len(h0))
    return jax.lax.scan(body, (h0, jnp.eye(len(h0))), x)[1]


@wrong("memory", "the slope stands on the wrong side of W: columns are scaled, not rows")
def memory_slope_on_columns(params, alpha, h0, x):
    def body(carry, x):
        h, product = carry
        z = jnp.tanh(params.W @ h + params.U @ x + params.b)
        product = ((1 - alpha) * jnp.eye(len(h)) + alpha * params.W * (1 - z**2)) @ product
        return ((1 - alpha) * h + alpha * z, product), jnp.sqrt((product**2).sum() / len(h0))
    return jax.lax.scan(body, (h0, jnp.eye(len(h0))), x)[1]


@wrong("memory", "tanh is left out: powers of the linear part, whatever the states are")
def memory_linear(params, alpha, h0, x):
    J = (1 - alpha) * jnp.eye(len(h0)) + alpha * params.W

    def body(product, _):
        product = J @ product
        return product, jnp.sqrt((product**2).sum() / len(h0))
    return jax.lax.scan(body, jnp.eye(len(h0)), None, length=len(x))[1]


@wrong("memory", "lag 0 is returned as well: T + 1 entries")
def memory_with_lag_zero(params, alpha, h0, x):
    return jnp.append(1.0, jnp.sqrt((right_pushed(params, alpha, h0, x) ** 2).sum(2).mean(0)))


@wrong("memory", "one step late: m_0, ..., m_{T-1}")
def memory_one_late(params, alpha, h0, x):
    return jnp.append(1.0, jnp.sqrt((right_pushed(params, alpha, h0, x) ** 2).sum(2).mean(0)))[:-1]


@wrong("memory", "divided by its first entry, so that it starts at 1")
def memory_normalised(params, alpha, h0, x):
    m = jnp.sqrt((right_pushed(params, alpha, h0, x) ** 2).sum(2).mean(0))
    return m / m[0]


@wrong("memory", "only the last one is returned, m_T")
def memory_last_only(params, alpha, h0, x):
    J = jax.jacfwd(lambda h0: right_states(params, alpha, h0, x)[-1])(h0)
    return jnp.sqrt((J**2).sum() / len(h0))


@wrong("memory", "the start is moved by whole unit vectors: a difference, not a derivative")
def memory_by_large_differences(params, alpha, h0, x):
    moved = jax.vmap(lambda v: right_states(params, alpha, h0 + v, x))(jnp.eye(len(h0)))
    return jnp.sqrt(((moved - right_states(params, alpha, h0, x)) ** 2).sum(2).mean(0))


@wrong("memory", "the size of the states is measured, not their response")
def memory_of_states(params, alpha, h0, x):
    return jnp.sqrt((right_states(params, alpha, h0, x) ** 2).mean(1))


@wrong("memory", "the response to the first input is measured, not that to the start")
def memory_of_input(params, alpha, h0, x):
    J = jax.jacfwd(lambda first: right_states(params, alpha, h0, x.at[0].set(first)))(x[0])
    return jnp.sqrt((J**2).sum((1, 2)) / len(h0))


# Exercise 5, memory: right.

@right("memory", "unit vectors pushed by vmap of jvp")
def memory_vmap(params, alpha, h0, x):
    return jnp.sqrt((right_pushed(params, alpha, h0, x) ** 2).sum(2).mean(0))


@right("memory", "a Python loop over the unit vectors")
def memory_loop(params, alpha, h0, x):
    squares = 0.0
    for v in np.eye(len(h0), dtype=np.float32):
        squares += jnp.linalg.norm(right_push(params, alpha, h0, x, jnp.asarray(v)), axis=1) ** 2
    return (squares / len(h0)) ** 0.5


@right("memory", "forward mode over all states, jitted")
@jax.jit
def memory_jacfwd(params, alpha, h0, x):
    J = jax.jacfwd(lambda h0: right_states(params, alpha, h0, x))(h0)
    return jnp.sqrt(jnp.einsum("tij,tij->t", J, J) / h0.size)


@right("memory", "reverse mode over all states")
def memory_jacrev(params, alpha, h0, x):
    J = jax.jacrev(functools.partial(right_states, params, alpha, x=x))(h0)
    return jnp.linalg.norm(J, axis=(1, 2)) / jnp.sqrt(len(h0))


@right("memory", "one scan that carries the product of the Jacobians, written out")
def memory_scan(params, alpha, h0, x):
    def body(carry, x):
        h, product = carry
        z = jnp.tanh(params.W @ h + params.U @ x + params.b)
        product = (1 - alpha) * product + alpha * (1 - z**2)[:, None] * (params.W @ product)
        return ((1 - alpha) * h + alpha * z, product), jnp.sqrt(jnp.trace(product @ product.T) / len(h0))
    return jax.lax.scan(body, (h0, jnp.eye(len(h0))), x)[1]


@right("memory", "NumPy in float64")
def memory_numpy(params, alpha, h0, x):
    W, U, b = (np.asarray(array, np.float64) for array in params)
    h, product, m = np.asarray(h0, np.float64), np.eye(len(h0)), []
    for x_t in np.asarray(x, np.float64):
        z = np.tanh(W @ h + U @ x_t + b)
        product = ((1 - alpha) * np.eye(len(h)) + alpha * np.diag(1 - z**2) @ W) @ product
        h = (1 - alpha) * h + alpha * z
        m.append(np.sqrt((product**2).sum() / len(h)))
    return np.array(m)


@right("memory", "from the singular values of the products")
def memory_singular_values(params, alpha, h0, x):
    products = jax.lax.associative_scan(lambda a, b: b @ a, right_jacobians(params, alpha, h0, x))
    return jnp.sqrt((jnp.linalg.svd(products, compute_uv=False) ** 2).mean(1))


@right("memory", "another orthonormal basis than the unit vectors")
def memory_other_basis(params, alpha, h0, x):
    basis = jnp.linalg.qr(jax.random.normal(jax.random.key(0), (len(h0), len(h0))))[0]
    _, linear = jax.linearize(lambda h0: right_states(params, alpha, h0, x), h0)
    return jnp.sqrt((jax.vmap(linear)(basis) ** 2).sum(2).mean(0))


right("memory", "a lambda")(
    lambda params, alpha, h0, x: jnp.sqrt(jnp.mean(jnp.sum(right_pushed(params, alpha, h0, x) ** 2, -1), 0)))


# Exercise 5, horizon: wrong.

@wrong("horizon", "0 where the memory never falls below the level: argmax finds nothing")
def horizon_argmax(m, level):
    return int(np.argmax(np.asarray(m) < level))


@wrong("horizon", "entries equal to the level do not count as memory")
def horizon_equal_is_below(m, level):
    below = np.asarray(m) <= level
    return int(below.argmax()) if below.any() else len(m)


@wrong("horizon", "one too many: the step that falls below is counted")
def horizon_counts_the_fall(m, level):
    below = np.asarray(m) < level
    return int(below.argmax()) + 1 if below.any() else len(m)


@wrong("horizon", "one too few: the index of the last step above")
def horizon_last_index_above(m, level):
    below = np.asarray(m) < level
    return max(int(below.argmax()) - 1, 0) if below.any() else len(m)


@wrong("horizon", "all entries above the level are counted, also those after the first fall")
def horizon_counts_all(m, level):
    return int((np.asarray(m) >= level).sum())


@wrong("horizon", "the last step above the level is sought, not the first below")
def horizon_last_above(m, level):
    above = np.flatnonzero(np.asarray(m) >= level)
    return int(above[-1]) + 1 if len(above) else 0


@wrong("horizon", "T - 1 where it never falls below: the last index, not the number of steps")
def horizon_last_index(m, level):
    below = np.asarray(m) < level
    return int(below.argmax()) if below.any() else len(m) - 1


@wrong("horizon", "T + 1 where it never falls below")
def horizon_beyond_the_end(m, level):
    below = np.asarray(m) < level
    return int(below.argmax()) if below.any() else len(m) + 1


@wrong("horizon", "-1 where it never falls below")
def horizon_minus_one(m, level):
    return next((t for t, value in enumerate(np.asarray(m)) if value < level), -1)


@wrong("horizon", "infinity where it never falls below")
def horizon_infinite(m, level):
    return next((t for t, value in enumerate(np.asarray(m)) if value < level), np.inf)


@wrong("horizon", "nothing is returned where it never falls below")
def horizon_none(m, level):
    for t, value in enumerate(np.asarray(m)):
        if value < level:
            return t


@wrong("horizon", "the level is taken as a share of the first entry")
def horizon_relative(m, level):
    return next((t for t, value in enumerate(np.asarray(m)) if value < level * m[0]), len(m))


@wrong("horizon", "the array is taken to hold squares: its root is compared with the level")
def horizon_of_root(m, level):
    return next((t for t, value in enumerate(np.sqrt(np.asarray(m))) if value < level), len(m))


@wrong("horizon", "the first entry is skipped: the search begins at the second")
def horizon_skips_first(m, level):
    return next((t for t in range(1, len(m)) if m[t] < level), len(m))


@wrong("horizon", "the last entry is skipped: a fall at the very end is not seen")
def horizon_skips_last(m, level):
    return next((t for t in range(len(m) - 1) if m[t] < level), len(m))


@wrong("horizon", "a crossing between two entries is sought: a memory that begins below the level has none")
def horizon_needs_a_crossing(m, level):
    m = np.asarray(m)
    crossings = np.flatnonzero((m[:-1] >= level) & (m[1:] < level))
    return int(crossings[0]) + 1 if len(crossings) else len(m)


@wrong("horizon", "the entry closest to the level is sought")
def horizon_closest(m, level):
    return int(np.abs(np.asarray(m) - level).argmin())


@wrong("horizon", "the first entry above the level is sought, not the first below")
def horizon_first_above(m, level):
    return next((t for t, value in enumerate(np.asarray(m)) if value >= level), len(m))


@wrong("horizon", "the memory at the fall is returned, not the number of steps")
def horizon_returns_value(m, level):
    return next((value for value in np.asarray(m) if value < level), len(m))


@wrong("horizon", "a binary search that takes the memory to fall throughout")
def horizon_searchsorted(m, level):
    return int(np.searchsorted(-np.asarray(m), -np.asarray(m).dtype.type(level), side="right"))


@wrong("horizon", "the smallest entry is sought, whatever the level")
def horizon_minimum(m, level):
    return int(np.argmin(np.asarray(m))) if np.min(np.asarray(m)) < level else len(m)


@wrong("horizon", "extrapolated from the first entry, as if the memory fell by the same factor at every step")
def horizon_extrapolated(m, level):
    factor = float(m[0])
    if factor >= 1:
        return len(m)
    return min(int(math.log(level) / math.log(factor)), len(m))


@wrong("horizon", "all steps below the level are counted: the complement")
def horizon_counts_below(m, level):
    return int((np.asarray(m) < level).sum())


@wrong("horizon", "a mask over time is returned, (T,), not a number")
def horizon_mask(m, level):
    return jnp.cumprod(jnp.asarray(m) >= level)


# Exercise 5, horizon: right.

@right("horizon", "argmax, and T where there is none")
def horizon_where(m, level):
    below = jnp.asarray(m) < level
    return jnp.where(below.any(), below.argmax(), len(m))


@right("horizon", "a sum of running products, jitted")
@jax.jit
def horizon_cumprod(m, level):
    return jnp.cumprod(m >= level).sum()


@right("horizon", "a Python loop")
def horizon_loop(m, level):
    steps = 0
    while steps < len(m) and m[steps] >= level:
        steps += 1
    return steps


@right("horizon", "a sentinel at the end")
def horizon_sentinel(m, level):
    return int(np.append(np.asarray(m) < level, True).argmax())


@right("horizon", "the first index, or T")
def horizon_flatnonzero(m, level):
    indices = np.flatnonzero(np.asarray(m) < level)
    return indices[0] if indices.size else len(m)


@right("horizon", "a running conjunction in NumPy")
def horizon_accumulate(m, level):
    return int(np.logical_and.accumulate(np.asarray(m) >= level).sum())


@right("horizon", "a binary search in the running minimum")
def horizon_running_minimum(m, level):
    lowest = np.minimum.accumulate(np.asarray(m))
    return int(np.searchsorted(-lowest, -lowest.dtype.type(level), side="right"))


@right("horizon", "a scan that carries a flag")
def horizon_scan(m, level):
    def body(carry, value):
        steps, alive = carry
        alive = alive & (value >= level)
        return (steps + alive, alive), None
    return jax.lax.scan(body, (0, True), jnp.asarray(m))[0][0]


@right("horizon", "the smallest index below, T added")
def horizon_min(m, level):
    steps = jnp.arange(len(m))
    return jnp.min(jnp.where(jnp.asarray(m) < level, steps, len(m)), initial=len(m))


right("horizon", "a lambda with next")(
    lambda m, level: next((t for t, value in enumerate(np.asarray(m)) if value < level), len(m)))


# Exercise 6, clip: wrong.

@wrong("clip", "each array is clipped by its own norm")
def clip_by_array(gradients, limit):
    norm = right_norm(gradients)
    clipped = jax.tree.map(lambda g: g * jnp.minimum(1, limit / jnp.maximum(right_norm(g), 1e-30)), gradients)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g, 0), clipped), norm


@wrong("clip", "each entry is clipped: the direction changes")
def clip_by_entry(gradients, limit):
    norm = right_norm(gradients)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), jnp.clip(g, -limit, limit), 0), gradients), norm


@wrong("clip", "the root is missing in the norm")
def clip_without_root(gradients, limit):
    norm = sum(jnp.sum(g**2) for g in jax.tree.leaves(gradients))
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@wrong("clip", "absolute values are added up in place of squares")
def clip_sum_of_absolutes(gradients, limit):
    norm = sum(jnp.sum(jnp.abs(g)) for g in jax.tree.leaves(gradients))
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@wrong("clip", "the largest entry is taken for the norm")
def clip_by_largest(gradients, limit):
    norm = jnp.max(jnp.stack([jnp.max(jnp.abs(g)) for g in jax.tree.leaves(gradients)]))
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@wrong("clip", "the norms of the arrays are added up: the root is taken before the sum")
def clip_sum_of_norms(gradients, limit):
    norm = sum(right_norm(g) for g in jax.tree.leaves(gradients))
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@wrong("clip", "the squares are averaged over the entries, not summed")
def clip_root_mean_square(gradients, limit):
    norm = jnp.sqrt((ravel_pytree(gradients)[0] ** 2).mean())
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@wrong("clip", "the norm is that of the first array alone")
def clip_norm_of_first(gradients, limit):
    norm = right_norm(jax.tree.leaves(gradients)[0])
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@wrong("clip", "short gradients are made longer: always scaled to the limit")
def clip_always(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.where(norm > 0, limit / norm, 1)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@wrong("clip", "the larger of 1 and the ratio is taken, not the smaller")
def clip_max(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.where(norm > 0, jnp.maximum(1, limit / norm), 1)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@wrong("clip", "the ratio is upside down: norm over limit")
def clip_upside_down(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.minimum(1, norm / limit)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@wrong("clip", "a long gradient is shortened to length 1, not to the limit")
def clip_to_one(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.where(norm > limit, 1 / norm, 1)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@wrong("clip", "a gradient over the limit is thrown away, not shortened")
def clip_skips_long(gradients, limit):
    norm = right_norm(gradients)
    return jax.tree.map(lambda g: jnp.where(norm <= limit, g, 0), gradients), norm


@wrong("clip", "the norm after clipping is returned")
def clip_norm_after(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.minimum(1, limit / norm)
    clipped = jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients)
    return clipped, right_norm(clipped)


@wrong("clip", "the factor is returned in place of the norm")
def clip_returns_factor(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), factor


@wrong("clip", "0/0 for a gradient of zeros: it is first divided by its norm")
def clip_zero_by_zero(gradients, limit):
    norm = right_norm(gradients)
    clipped = jax.tree.map(lambda g: g / norm * jnp.minimum(norm, limit), gradients)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g, 0), clipped), norm


@wrong("clip", "a small number saves the zeros, and is returned as part of their norm")
def clip_norm_of_zeros(gradients, limit):
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradients)) + 1e-4)
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@wrong("clip", "infinite entries and NaN are forgotten")
def clip_not_finite_forgotten(gradients, limit):
    norm = right_norm(gradients)
    return right_scale(gradients, jnp.minimum(1, limit / norm)), norm


@wrong("clip", "infinity times zero: the broken gradient is scaled by 0, which leaves NaN")
def clip_times_zero(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.where(jnp.isfinite(norm), jnp.minimum(1, limit / norm), 0)
    return right_scale(gradients, factor), norm


@wrong("clip", "only NaN is looked for: an infinite entry becomes NaN")
def clip_nan_only(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isnan(norm), 0, g * factor), gradients), norm


@wrong("clip", "only infinity is looked for: NaN passes")
def clip_infinity_only(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isinf(norm), 0, g * factor), gradients), norm


@wrong("clip", "only the arrays that are broken become zeros, the others pass")
def clip_zeros_in_broken_arrays(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.where(jnp.isfinite(norm), jnp.minimum(1, limit / norm), 1)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(g).all(), g * factor, 0), gradients), norm


@wrong("clip", "only the broken entries become zeros, and the rest is clipped by what is left")
def clip_repairs_entries(gradients, limit):
    repaired = jax.tree.map(lambda g: jnp.where(jnp.isfinite(g), g, 0), gradients)
    return right_scale(repaired, jnp.minimum(1, limit / right_norm(repaired))), right_norm(gradients)


@wrong("clip", "the norm of a broken gradient is returned as 0, not as it is")
def clip_norm_repaired(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.minimum(1, limit / norm)
    clipped = jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients)
    return clipped, jnp.where(jnp.isfinite(norm), norm, 0)


@wrong("clip", "a broken gradient is returned as a single 0, not as a tree of zeros")
def clip_zero_not_tree(gradients, limit):
    norm = right_norm(gradients)
    if not jnp.isfinite(norm):
        return 0.0, norm
    return right_scale(gradients, jnp.minimum(1, limit / norm)), norm


@wrong("clip", "a list of arrays is returned: the form of the tree is lost")
def clip_list(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.minimum(1, limit / norm)
    return [jnp.where(jnp.isfinite(norm), g * factor, 0) for g in jax.tree.leaves(gradients)], norm


@wrong("clip", "one long vector is returned, not the tree")
def clip_vector(gradients, limit):
    vector, _ = ravel_pytree(gradients)
    norm = jnp.linalg.norm(vector)
    return jnp.where(jnp.isfinite(norm), vector * jnp.minimum(1, limit / norm), 0), norm


@wrong("clip", "the norm is missing in what is returned")
def clip_tree_only(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients)


@wrong("clip", "the two results are in the wrong order")
def clip_swapped(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.minimum(1, limit / norm)
    return norm, jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients)


@wrong("clip", "the norm has the shape (1,), not ()")
def clip_norm_in_array(gradients, limit):
    norm = right_norm(gradients).reshape(1)
    factor = jnp.minimum(1, limit / norm[0])
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm[0]), g * factor, 0), gradients), norm


@wrong("clip", "matrices are measured by their largest singular value")
def clip_spectral(gradients, limit):
    leaves = jax.tree.leaves(gradients)
    norm = jnp.sqrt(sum((jnp.linalg.norm(g, 2) if g.ndim == 2 else right_norm(g)) ** 2 for g in leaves))
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@wrong("clip", "each row is clipped on its own")
def clip_by_row(gradients, limit):
    norm = right_norm(gradients)

    def by_row(g):
        length = jnp.linalg.norm(jnp.atleast_1d(g), axis=-1, keepdims=True).reshape(g.shape[:-1] + (1,) * (g.ndim > 0))
        return jnp.where(jnp.isfinite(norm), g * jnp.minimum(1, limit / jnp.maximum(length, 1e-30)), 0)
    return jax.tree.map(by_row, gradients), norm


# Exercise 6, clip: right.

@right("clip", "the formula, and where")
def clip_where(gradients, limit):
    norm = right_norm(gradients)
    factor = jnp.minimum(1, limit / norm)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g * factor, 0), gradients), norm


@right("clip", "optax.global_norm, and the larger of norm and limit below the line")
def clip_global_norm(gradients, limit):
    norm = optax.global_norm(gradients)
    clipped = jax.tree.map(lambda g: g * limit / jnp.maximum(norm, limit), gradients)
    return jax.tree.map(lambda g: jnp.where(jnp.isfinite(norm), g, jnp.zeros_like(g)), clipped), norm


@right("clip", "optax.clip_by_global_norm")
def clip_optax(gradients, limit):
    transformation = optax.clip_by_global_norm(limit)
    clipped, _ = transformation.update(gradients, transformation.init(gradients))
    norm = optax.global_norm(gradients)
    return optax.tree.where(jnp.isfinite(norm), clipped, optax.tree.zeros_like(clipped)), norm


@right("clip", "one long vector and back, jitted")
@jax.jit
def clip_ravelled(gradients, limit):
    vector, back = ravel_pytree(gradients)
    norm = jnp.sqrt(vector @ vector)
    return back(jnp.where(jnp.isfinite(norm), vector / jnp.maximum(1, norm / limit), 0)), norm


@right("clip", "three cases with if")
def clip_cases(gradients, limit):
    norm = right_norm(gradients)
    if not jnp.isfinite(norm):
        return jax.tree.map(jnp.zeros_like, gradients), norm
    if norm <= limit:
        return gradients, norm
    return jax.tree.map(functools.partial(jnp.multiply, limit / norm), gradients), norm


@right("clip", "NumPy in float64")
def clip_numpy(gradients, limit):
    leaves, form = jax.tree.flatten(gradients)
    leaves = [np.asarray(leaf, np.float64) for leaf in leaves]
    norm = np.sqrt(np.sum([np.sum(leaf**2) for leaf in leaves]))
    if np.isfinite(norm):
        leaves = [leaf * limit / max(norm, limit) for leaf in leaves]
    else:
        leaves = [np.zeros_like(leaf) for leaf in leaves]
    return jax.tree.unflatten(form, leaves), norm


@right("clip", "lax.cond")
def clip_cond(gradients, limit):
    norm = jnp.sqrt(jax.tree.reduce(lambda total, g: total + jnp.vdot(g, g), gradients, 0.0))
    zeros = jax.tree.map(jnp.zeros_like, gradients)
    shorter = right_scale(gradients, jnp.where(norm > limit, limit / norm, 1.0))
    return jax.lax.cond(jnp.isfinite(norm), lambda: shorter, lambda: zeros), norm


@right("clip", "a Python loop over the arrays")
def clip_loop(gradients, limit):
    leaves, form = jax.tree.flatten(gradients)
    squares = 0.0
    for leaf in leaves:
        squares = squares + (leaf * leaf).sum()
    norm = squares**0.5
    clipped = [jnp.select([~jnp.isfinite(norm), norm > limit], [0.0, leaf / norm * limit], leaf) for leaf in leaves]
    return form.unflatten(clipped), norm


# Exercise 7, truncated: wrong.

@wrong("truncated", "nothing is cut: the whole gradient")
def truncated_never(model, alpha, h0, x, target, k):
    return jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.zeros(len(x), bool))


@wrong("truncated", "cut at every step, whatever k is")
def truncated_everywhere(model, alpha, h0, x, target, k):
    return jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.ones(len(x), bool))


@wrong("truncated", "cut one step too early: the first block has k - 1 steps")
def truncated_one_early(model, alpha, h0, x, target, k):
    return jax.grad(right_cut_loss)(model, alpha, h0, x, target, (jnp.arange(len(x)) + 1) % k == 0)


@wrong("truncated", "cut one step too late: the first block has k + 1 steps")
def truncated_one_late(model, alpha, h0, x, target, k):
    return jax.grad(right_cut_loss)(model, alpha, h0, x, target, (jnp.arange(len(x)) - 1) % k == 0)


@wrong("truncated", "blocks of k + 1 steps")
def truncated_longer_blocks(model, alpha, h0, x, target, k):
    return jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.arange(len(x)) % (k + 1) == 0)


@wrong("truncated", "the blocks are counted from the end: the short one comes first")
def truncated_from_the_end(model, alpha, h0, x, target, k):
    return jax.grad(right_cut_loss)(model, alpha, h0, x, target, (len(x) - jnp.arange(len(x))) % k == 0)


@wrong("truncated", "k is taken for the number of blocks, not for their length")
def truncated_into_k_blocks(model, alpha, h0, x, target, k):
    length = math.ceil(len(x) / k)
    return jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.arange(len(x)) % length == 0)


@wrong("truncated", "cut once only, after the first k steps")
def truncated_once(model, alpha, h0, x, target, k):
    return jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.arange(len(x)) == k)


@wrong("truncated", "each block starts again from h0: the state is not handed on")
def truncated_from_h0(model, alpha, h0, x, target, k):
    total = jax.tree.map(jnp.zeros_like, model)
    for i in range(0, len(x), k):
        total = right_add(total, right_block_gradient(model, alpha, h0, x[i:i + k], target[i:i + k])[0])
    return total


@wrong("truncated", "each block after the first starts from zero: the state is not handed on")
def truncated_from_zero(model, alpha, h0, x, target, k):
    total, h = jax.tree.map(jnp.zeros_like, model), h0
    for i in range(0, len(x), k):
        total = right_add(total, right_block_gradient(model, alpha, h, x[i:i + k], target[i:i + k])[0])
        h = jnp.zeros_like(h0)
    return total


@wrong("truncated", "h0 is forgotten: the first block starts from zero")
def truncated_without_h0(model, alpha, h0, x, target, k):
    total, h = jax.tree.map(jnp.zeros_like, model), jnp.zeros_like(h0)
    for i in range(0, len(x), k):
        gradient, h = right_block_gradient(model, alpha, h, x[i:i + k], target[i:i + k])
        total = right_add(total, gradient)
    return total


@wrong("truncated", "the state handed on is one step old: the last but one of the block")
def truncated_old_state(model, alpha, h0, x, target, k):
    total, h = jax.tree.map(jnp.zeros_like, model), h0
    for i in range(0, len(x), k):
        total = right_add(total, right_block_gradient(model, alpha, h, x[i:i + k], target[i:i + k])[0])
        states = right_states(model.rnn, alpha, h, x[i:i + k])
        h = jnp.concatenate([h[None], states])[-2]
    return total


@wrong("truncated", "the last block is dropped where it is shorter")
def truncated_drops_the_rest(model, alpha, h0, x, target, k):
    total, h = jax.tree.map(jnp.zeros_like, model), h0
    for i in range(len(x) // k):
        block = slice(i * k, (i + 1) * k)
        gradient, h = right_block_gradient(model, alpha, h, x[block], target[block])
        total = right_add(total, gradient)
    return total


@wrong("truncated", "the last block is filled up with zeros, and the steps that do not exist count in the loss")
def truncated_padded(model, alpha, h0, x, target, k):
    rest = -len(x) % k
    x, target = (jnp.pad(array, ((0, rest), (0, 0))) for array in (x, target))
    return jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.arange(len(x)) % k == 0)


@wrong("truncated", "blocks overlap by one step, which counts twice")
def truncated_overlapping(model, alpha, h0, x, target, k):
    total, h = jax.tree.map(jnp.zeros_like, model), h0
    for i in range(0, len(x), k):
        gradient = right_block_gradient(model, alpha, h, x[i:i + k + 1], target[i:i + k + 1])[0]
        total = right_add(total, gradient)
        h = right_states(model.rnn, alpha, h, x[i:i + k])[-1]
    return total


@wrong("truncated", "the gradients of the blocks are averaged, not added up")
def truncated_mean_of_blocks(model, alpha, h0, x, target, k):
    gradient = jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.arange(len(x)) % k == 0)
    return right_scale(gradient, 1 / math.ceil(len(x) / k))


@wrong("truncated", "only the gradient of the last block is returned: the sum is overwritten")
def truncated_last_block(model, alpha, h0, x, target, k):
    h = h0
    for i in range(0, len(x), k):
        gradient, h = right_block_gradient(model, alpha, h, x[i:i + k], target[i:i + k])
    return gradient


@wrong("truncated", "only the first k steps are looked at")
def truncated_first_block(model, alpha, h0, x, target, k):
    return right_block_gradient(model, alpha, h0, x[:k], target[:k])[0]


@wrong("truncated", "only the last k steps are differentiated, as if the sequence were cut once")
def truncated_last_steps(model, alpha, h0, x, target, k):
    h = jnp.concatenate([h0[None], right_states(model.rnn, alpha, h0, x)])[max(len(x) - k, 0)]
    return right_block_gradient(model, alpha, h, x[-k:], target[-k:])[0]


@wrong("truncated", "a sliding window: the loss of each step looks back k steps, across the beginning of its block")
def truncated_sliding(model, alpha, h0, x, target, k):
    states = jnp.concatenate([h0[None], right_states(model.rnn, alpha, h0, x)])

    def loss(model, t):
        begin = max(t - k + 1, 0)
        last = right_states(model.rnn, alpha, states[begin], x[begin:t + 1])[-1]
        return 0.5 * jnp.sum((model.V @ last + model.c - target[t]) ** 2)
    total = jax.tree.map(jnp.zeros_like, model)
    for t in range(len(x)):
        total = right_add(total, jax.grad(loss)(model, t))
    return total


@wrong("truncated", "the loss is averaged over the steps, not summed")
def truncated_mean_over_time(model, alpha, h0, x, target, k):
    gradient = jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.arange(len(x)) % k == 0)
    return right_scale(gradient, 1 / len(x))


@wrong("truncated", "the half is missing in the loss")
def truncated_without_half(model, alpha, h0, x, target, k):
    gradient = jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.arange(len(x)) % k == 0)
    return right_scale(gradient, 2.0)


@wrong("truncated", "only the last step of each block has a loss")
def truncated_loss_at_ends(model, alpha, h0, x, target, k):
    def loss(model, h, x, target):
        last = right_states(model.rnn, alpha, h, x)[-1]
        return 0.5 * jnp.sum((model.V @ last + model.c - target[-1]) ** 2), last
    total, h = jax.tree.map(jnp.zeros_like, model), h0
    for i in range(0, len(x), k):
        gradient, h = jax.grad(loss, has_aux=True)(model, h, x[i:i + k], target[i:i + k])
        total = right_add(total, gradient)
    return total


@wrong("truncated", "only the way through W is cut: the direct way leads on into the block before")
def truncated_direct_way_left(model, alpha, h0, x, target, k):
    def loss(model):
        (W, U, b), h, total = model.rnn, h0, 0.0
        for t in range(len(x)):
            seen = jax.lax.stop_gradient(h) if t % k == 0 else h
            h = (1 - alpha) * h + alpha * jnp.tanh(W @ seen + U @ x[t] + b)
            total += 0.5 * jnp.sum((model.V @ h + model.c - target[t]) ** 2)
        return total
    return jax.grad(loss)(model)


@wrong("truncated", "only the direct way is cut: the way through W leads on into the block before")
def truncated_way_through_w_left(model, alpha, h0, x, target, k):
    def loss(model):
        (W, U, b), h, total = model.rnn, h0, 0.0
        for t in range(len(x)):
            kept = jax.lax.stop_gradient(h) if t % k == 0 else h
            h = (1 - alpha) * kept + alpha * jnp.tanh(W @ h + U @ x[t] + b)
            total += 0.5 * jnp.sum((model.V @ h + model.c - target[t]) ** 2)
        return total
    return jax.grad(loss)(model)


@wrong("truncated", "the last state of a block is cut before it is read out, so its loss does not reach the cell")
def truncated_cut_before_output(model, alpha, h0, x, target, k):
    def loss(model):
        h, total = h0, 0.0
        for t in range(len(x)):
            h = right_step(model.rnn, alpha, h, x[t])
            if (t + 1) % k == 0:
                h = jax.lax.stop_gradient(h)
            total += 0.5 * jnp.sum((model.V @ h + model.c - target[t]) ** 2)
        return total
    return jax.grad(loss)(model)


@wrong("truncated", "the weights are cut with the state: at the first step of a block W, U and b are constants")
def truncated_weights_cut(model, alpha, h0, x, target, k):
    def loss(model):
        h, total = h0, 0.0
        for t in range(len(x)):
            h = right_step(model.rnn, alpha, h, x[t])
            if t % k == 0:
                h = jax.lax.stop_gradient(h)
            total += 0.5 * jnp.sum((model.V @ h + model.c - target[t]) ** 2)
        return total
    return jax.grad(loss)(model)


@wrong("truncated", "the leak is forgotten: the plain cell of the chapter")
def truncated_plain_cell(model, alpha, h0, x, target, k):
    return jax.grad(right_cut_loss)(model, 1.0, h0, x, target, jnp.arange(len(x)) % k == 0)


@wrong("truncated", "the output's bias c is forgotten")
def truncated_without_c(model, alpha, h0, x, target, k):
    model = model._replace(c=jnp.zeros_like(model.c))
    return jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.arange(len(x)) % k == 0)


@wrong("truncated", "the weights are updated after each block: the gradients belong to different weights")
def truncated_with_updates(model, alpha, h0, x, target, k):
    total, h = jax.tree.map(jnp.zeros_like, model), h0
    for i in range(0, len(x), k):
        gradient, h = right_block_gradient(model, alpha, h, x[i:i + k], target[i:i + k])
        total = right_add(total, gradient)
        model = jax.tree.map(lambda weight, g: weight - 0.1 * g, model, gradient)
    return total


@wrong("truncated", "every k-th step goes into a block: strides, not neighbours")
def truncated_strides(model, alpha, h0, x, target, k):
    total, h, blocks = jax.tree.map(jnp.zeros_like, model), h0, math.ceil(len(x) / k)
    for i in range(blocks):
        gradient, h = right_block_gradient(model, alpha, h, x[i::blocks], target[i::blocks])
        total = right_add(total, gradient)
    return total


@wrong("truncated", "the gradients of the blocks are stacked, not added up")
def truncated_stacked(model, alpha, h0, x, target, k):
    gradients, h = [], h0
    for i in range(0, len(x), k):
        gradient, h = right_block_gradient(model, alpha, h, x[i:i + k], target[i:i + k])
        gradients.append(gradient)
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *gradients)


@wrong("truncated", "only the derivatives of the cell are returned, those of V and c are missing")
def truncated_params_only(model, alpha, h0, x, target, k):
    return jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.arange(len(x)) % k == 0).rnn


@wrong("truncated", "the loss is returned as well")
def truncated_with_loss(model, alpha, h0, x, target, k):
    return jax.value_and_grad(right_cut_loss)(model, alpha, h0, x, target, jnp.arange(len(x)) % k == 0)


@wrong("truncated", "the gradient is returned with the wrong sign, as a step downhill")
def truncated_negative(model, alpha, h0, x, target, k):
    return right_scale(jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.arange(len(x)) % k == 0), -1.0)


# Exercise 7, truncated: right.

@right("truncated", "a loop over the blocks")
def truncated_blocks(model, alpha, h0, x, target, k):
    total, h = jax.tree.map(jnp.zeros_like, model), h0
    for i in range(0, len(x), k):
        gradient, h = right_block_gradient(model, alpha, h, x[i:i + k], target[i:i + k])
        total = right_add(total, gradient)
    return total


@right("truncated", "one scan with a mask, jitted")
@functools.partial(jax.jit, static_argnames="k")
def truncated_mask(model, alpha, h0, x, target, k):
    return jax.grad(right_cut_loss)(model, alpha, h0, x, target, jnp.arange(len(x)) % k == 0)


@right("truncated", "one Python loop over the steps")
def truncated_steps(model, alpha, h0, x, target, k):
    def loss(model):
        h, total = h0, 0.0
        for t in range(len(x)):
            if t % k == 0:
                h = jax.lax.stop_gradient(h)
            h = right_step(model.rnn, alpha, h, x[t])
            total += optax.l2_loss(model.V @ h + model.c, target[t]).sum()
        return total
    return jax.grad(loss)(model)


@right("truncated", "the first block, and the rest by recursion")
def truncated_recursive(model, alpha, h0, x, target, k):
    gradient, h = right_block_gradient(model, alpha, h0, x[:k], target[:k])
    if len(x) <= k:
        return gradient
    return right_add(gradient, truncated_recursive(model, alpha, h, x[k:], target[k:], k))


@right("truncated", "all states first, then all blocks at once by vmap; the last is filled up, and masked")
def truncated_vmap(model, alpha, h0, x, target, k):
    starts = jnp.concatenate([h0[None], right_states(model.rnn, alpha, h0, x)])[:-1:k]

    def blocks(array):
        return jnp.pad(array, ((0, -len(x) % k), (0, 0))).reshape(-1, k, array.shape[1])

    def loss(model, start, x, target, real):
        y = right_states(model.rnn, alpha, start, x) @ model.V.T + model.c
        return 0.5 * jnp.sum(real * (y - target) ** 2)
    real = blocks(jnp.ones((len(x), 1)))
    gradients = jax.vmap(jax.grad(loss), (None, 0, 0, 0, 0))(model, starts, blocks(x), blocks(target), real)
    return jax.tree.map(lambda leaf: leaf.sum(0), gradients)


@right("truncated", "a sweep back by hand, as a scan with a mask and einsum")
def truncated_by_hand(model, alpha, h0, x, target, k):
    (W, U, b), V, c = model
    states = right_states(model.rnn, alpha, h0, x)
    before = jnp.concatenate([h0[None], states[:-1]])
    z = jnp.tanh(before @ W.T + x @ U.T + b)
    error = states @ V.T + c - target

    def body(handed_back, inputs):
        error, z, inside = inputs
        dh = V.T @ error + handed_back
        da = alpha * (1 - z**2) * dh
        return inside * (W.T @ da + (1 - alpha) * dh), da
    inside = jnp.arange(len(x)) % k != 0
    _, da = jax.lax.scan(body, jnp.zeros_like(h0), (error, z, inside), reverse=True)
    dW, dU = jnp.einsum("ti,tj->ij", da, before), jnp.einsum("ti,tj->ij", da, x)
    return Model(Params(dW, dU, da.sum(0)), jnp.einsum("ti,tj->ij", error, states), error.sum(0))


@right("truncated", "NumPy in float64, by hand; not under vmap")
def truncated_numpy(model, alpha, h0, x, target, k):
    (W, U, b), V, c = jax.tree.map(lambda array: np.asarray(array, np.float64), model)
    x, target = np.asarray(x, np.float64), np.asarray(target, np.float64)
    hs, zs = [np.asarray(h0, np.float64)], []
    for x_t in x:
        zs.append(np.tanh(W @ hs[-1] + U @ x_t + b))
        hs.append((1 - alpha) * hs[-1] + alpha * zs[-1])
    dW, dU, db, dV, dc = (np.zeros_like(array) for array in (W, U, b, V, c))
    dh = np.zeros_like(b)
    for t in reversed(range(len(x))):
        error = V @ hs[t + 1] + c - target[t]
        dh = dh + V.T @ error
        da = alpha * (1 - zs[t] ** 2) * dh
        dW, dU, db = dW + np.outer(da, hs[t]), dU + np.outer(da, x[t]), db + da
        dV, dc = dV + np.outer(error, hs[t + 1]), dc + error
        dh = np.zeros_like(b) if t % k == 0 else (1 - alpha) * dh + W.T @ da
    return Model(Params(dW, dU, db), dV, dc)


@right("truncated", "the sum of the blocks' losses, differentiated once; a helper from functools.partial")
def truncated_sum_of_losses(model, alpha, h0, x, target, k):
    def loss(model):
        block, h, total = functools.partial(right_block, model, alpha), h0, 0.0
        for x_block, target_block in zip(*(jnp.split(array, list(range(k, len(x), k))) for array in (x, target))):
            part, h = block(jax.lax.stop_gradient(h), x_block, target_block)
            total += part
        return total
    return jax.grad(loss)(model)


right("truncated", "a lambda")(
    lambda model, alpha, h0, x, target, k: jax.grad(
        lambda model: right_cut_loss(model, alpha, h0, x, target, np.arange(len(x)) % k == 0))(model))


# Exercise 8, bias: wrong.

@wrong("bias", "the examples' own ratios are averaged: noise does not cancel")
def bias_mean_of_ratios(truncated, full):
    t, f = right_rows(truncated), right_rows(full)
    return (jnp.linalg.norm(t - f, axis=1) / jnp.linalg.norm(f, axis=1)).mean()


@wrong("bias", "the lengths of the differences are averaged, not the differences")
def bias_mean_of_lengths(truncated, full):
    t, f = right_rows(truncated), right_rows(full)
    return jnp.linalg.norm(t - f, axis=1).mean() / jnp.linalg.norm(f.mean(0))


@wrong("bias", "below the line the lengths are averaged, not the gradients")
def bias_mean_length_below(truncated, full):
    t, f = right_rows(truncated), right_rows(full)
    return jnp.linalg.norm((t - f).mean(0)) / jnp.linalg.norm(f, axis=1).mean()


@wrong("bias", "one number per example, (B,): no mean is taken")
def bias_per_example(truncated, full):
    t, f = right_rows(truncated), right_rows(full)
    return jnp.linalg.norm(t - f, axis=1) / jnp.linalg.norm(f, axis=1)


@wrong("bias", "no mean is taken: the length over all examples and entries together")
def bias_over_everything(truncated, full):
    return right_norm(jax.tree.map(jnp.subtract, truncated, full)) / right_norm(full)


@wrong("bias", "only the first example is looked at")
def bias_first_example(truncated, full):
    t, f = right_rows(truncated)[0], right_rows(full)[0]
    return jnp.linalg.norm(t - f) / jnp.linalg.norm(f)


@wrong("bias", "a share of the truncated gradient, not of the whole one")
def bias_share_of_truncated(truncated, full):
    t, f = right_mean(truncated), right_mean(full)
    return right_norm(jax.tree.map(jnp.subtract, t, f)) / right_norm(t)


@wrong("bias", "not divided by the length of the whole gradient")
def bias_absolute(truncated, full):
    return right_norm(jax.tree.map(jnp.subtract, right_mean(truncated), right_mean(full)))


@wrong("bias", "the roots are missing: a ratio of squares")
def bias_of_squares(truncated, full):
    t, f = right_rows(truncated).mean(0), right_rows(full).mean(0)
    return jnp.sum((t - f) ** 2) / jnp.sum(f**2)


@wrong("bias", "the root is missing above the line only")
def bias_one_root(truncated, full):
    t, f = right_rows(truncated).mean(0), right_rows(full).mean(0)
    return jnp.sum((t - f) ** 2) / jnp.linalg.norm(f)


@wrong("bias", "the difference of the lengths, not the length of the difference")
def bias_difference_of_lengths(truncated, full):
    t, f = right_norm(right_mean(truncated)), right_norm(right_mean(full))
    return jnp.abs(t - f) / f


@wrong("bias", "the ratio of the two lengths")
def bias_ratio_of_lengths(truncated, full):
    return right_norm(right_mean(truncated)) / right_norm(right_mean(full))


@wrong("bias", "the angle is measured, as 1 - cosine: a gradient that is only too short has no bias")
def bias_cosine(truncated, full):
    t, f = right_rows(truncated).mean(0), right_rows(full).mean(0)
    return 1 - t @ f / (jnp.linalg.norm(t) * jnp.linalg.norm(f))


@wrong("bias", "one ratio per array, and then their mean")
def bias_mean_over_arrays(truncated, full):
    ratios = jax.tree.map(lambda t, f: right_norm(t - f) / right_norm(f), right_mean(truncated), right_mean(full))
    return jnp.stack(jax.tree.leaves(ratios)).mean()


@wrong("bias", "one ratio per array, in a tree")
def bias_tree(truncated, full):
    return jax.tree.map(lambda t, f: right_norm(t - f) / right_norm(f), right_mean(truncated), right_mean(full))


@wrong("bias", "the lengths of the arrays are added up: the root is taken before the sum")
def bias_sum_of_array_lengths(truncated, full):
    t, f = jax.tree.leaves(right_mean(truncated)), jax.tree.leaves(right_mean(full))
    return sum(right_norm(a - b) for a, b in zip(t, f)) / sum(right_norm(b) for b in f)


@wrong("bias", "only the first array is looked at")
def bias_first_array(truncated, full):
    t, f = jax.tree.leaves(truncated)[0].mean(0), jax.tree.leaves(full)[0].mean(0)
    return right_norm(t - f) / right_norm(f)


@wrong("bias", "each entry is divided by its own entry of the whole gradient")
def bias_per_entry(truncated, full):
    t, f = right_rows(truncated).mean(0), right_rows(full).mean(0)
    return jnp.linalg.norm((t - f) / f)


@wrong("bias", "absolute values are added up in place of squares")
def bias_of_absolutes(truncated, full):
    t, f = right_rows(truncated).mean(0), right_rows(full).mean(0)
    return jnp.abs(t - f).sum() / jnp.abs(f).sum()


@wrong("bias", "the largest entry is taken for the length")
def bias_of_largest(truncated, full):
    t, f = right_rows(truncated).mean(0), right_rows(full).mean(0)
    return jnp.abs(t - f).max() / jnp.abs(f).max()


@wrong("bias", "the mean is over the last axis, not over the examples")
def bias_wrong_axis(truncated, full):
    t, f = (jax.tree.map(lambda leaf: leaf.mean(-1), tree) for tree in (truncated, full))
    return right_norm(jax.tree.map(jnp.subtract, t, f)) / right_norm(f)


@wrong("bias", "each array is averaged to one number, over all its axes")
def bias_all_axes(truncated, full):
    t, f = (jnp.stack([leaf.mean() for leaf in jax.tree.leaves(tree)]) for tree in (truncated, full))
    return jnp.linalg.norm(t - f) / jnp.linalg.norm(f)


@wrong("bias", "above the line a sum over the examples, below it a mean")
def bias_sum_above(truncated, full):
    t, f = right_rows(truncated), right_rows(full)
    return jnp.linalg.norm((t - f).sum(0)) / jnp.linalg.norm(f.mean(0))


@wrong("bias", "the noise is measured: the spread of the differences over the examples")
def bias_spread(truncated, full):
    t, f = right_rows(truncated), right_rows(full)
    return jnp.linalg.norm((t - f).std(0)) / jnp.linalg.norm(f.mean(0))


@wrong("bias", "absolute differences are averaged, so that opposite errors do not cancel")
def bias_absolute_differences(truncated, full):
    t, f = right_rows(truncated), right_rows(full)
    return jnp.linalg.norm(jnp.abs(t - f).mean(0)) / jnp.linalg.norm(f.mean(0))


@wrong("bias", "each example's gradient is brought to length 1 before the mean")
def bias_of_directions(truncated, full):
    t, f = (rows / jnp.linalg.norm(rows, axis=1, keepdims=True) for rows in map(right_rows, (truncated, full)))
    return jnp.linalg.norm((t - f).mean(0)) / jnp.linalg.norm(f.mean(0))


@wrong("bias", "the median of the examples in place of their mean")
def bias_median(truncated, full):
    t, f = (jnp.median(right_rows(tree), axis=0) for tree in (truncated, full))
    return jnp.linalg.norm(t - f) / jnp.linalg.norm(f)


@wrong("bias", "the vector of relative differences is returned, not its length")
def bias_vector(truncated, full):
    t, f = right_rows(truncated).mean(0), right_rows(full).mean(0)
    return (t - f) / jnp.linalg.norm(f)


@wrong("bias", "the result has the shape (1,), not ()")
def bias_in_array(truncated, full):
    t, f = right_rows(truncated).mean(0), right_rows(full).mean(0)
    return jnp.linalg.norm(t - f, keepdims=True) / jnp.linalg.norm(f)


@wrong("bias", "the output's arrays V and c are left out, and no tree but a Model is understood")
def bias_of_cell(truncated, full):
    t, f = right_mean(truncated.rnn), right_mean(full.rnn)
    return right_norm(jax.tree.map(jnp.subtract, t, f)) / right_norm(f)


# Exercise 8, bias: right.

@right("bias", "means of trees, and a norm over all arrays")
def bias_trees(truncated, full):
    t, f = right_mean(truncated), right_mean(full)
    return right_norm(jax.tree.map(jnp.subtract, t, f)) / right_norm(f)


@right("bias", "optax.global_norm of the mean difference, jitted")
@jax.jit
def bias_global_norm(truncated, full):
    difference = jax.tree.map(lambda t, f: (t - f).mean(axis=0), truncated, full)
    return optax.global_norm(difference) / optax.global_norm(right_mean(full))


@right("bias", "one long vector per example, by vmap of ravel_pytree")
def bias_ravelled(truncated, full):
    t, f = (jax.vmap(lambda tree: ravel_pytree(tree)[0])(tree) for tree in (truncated, full))
    return jnp.linalg.norm(t.mean(0) - f.mean(0)) / jnp.linalg.norm(f.mean(0))


@right("bias", "sums in place of means: B cancels")
def bias_sums(truncated, full):
    t, f = (jnp.einsum("bn->n", right_rows(tree)) for tree in (truncated, full))
    return jnp.sqrt(jnp.sum((t - f) ** 2) / jnp.sum(f**2))


@right("bias", "NumPy in float64; not under vmap")
def bias_numpy(truncated, full):
    t, f = (np.concatenate([np.asarray(leaf, np.float64).mean(0).ravel() for leaf in jax.tree.leaves(tree)])
            for tree in (truncated, full))
    return np.linalg.norm(t - f) / np.linalg.norm(f)


@right("bias", "a Python loop over the arrays")
def bias_loop(truncated, full):
    above = below = 0.0
    for t, f in zip(jax.tree.leaves(truncated), jax.tree.leaves(full)):
        above += jnp.sum((jnp.mean(t, 0) - jnp.mean(f, 0)) ** 2)
        below += jnp.sum(jnp.mean(f, 0) ** 2)
    return jnp.sqrt(above) / jnp.sqrt(below)


@right("bias", "a running sum over the examples by scan")
def bias_scan(truncated, full):
    zeros = jax.tree.map(lambda leaf: jnp.zeros_like(leaf[0]), (truncated, full))
    (t, f), _ = jax.lax.scan(lambda total, pair: (right_add(total, pair), None), zeros, (truncated, full))
    return right_norm(jax.tree.map(jnp.subtract, t, f)) / right_norm(f)


@right("bias", "the gradients scaled first: the length of a difference of shares")
def bias_of_shares(truncated, full):
    t, f = (ravel_pytree(right_mean(tree))[0] for tree in (truncated, full))
    length = jnp.linalg.norm(f)
    return optax.safe_norm(t / length - f / length, 0.0)


right("bias", "a lambda, and functools.partial for the mean")(
    lambda truncated, full: (lambda t, f: jnp.linalg.norm(t - f) / jnp.linalg.norm(f))(
        *map(functools.partial(jnp.mean, axis=0), map(right_rows, (truncated, full)))))
