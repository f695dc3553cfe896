"""Checks of lab 1, on the gradients of a leaky recurrent network.

    z_t = tanh(W h_{t-1} + U x_t + b),  h_t = (1 - α) h_{t-1} + α z_t,  y_t = V h_t + c

Right results come from slow loops over this equation, from finite differences of them, and from `jax.grad`. The
result of a mistake comes from the same loop with that mistake in it.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unrolled import runtime
from unrolled.checks import calls, check
from unrolled.checks.compare import difference
from unrolled.vanilla_rnn import Model, Params

# What lab 1 may use of the package: all but the functions that it asks for.
ALLOWED = {"explore", "plots", "runtime", "shapes", "tasks", "train",
           "vanilla_rnn.Params", "vanilla_rnn.Model", "vanilla_rnn.init", "vanilla_rnn.init_model", "vanilla_rnn.gaussian"}  # fmt: skip

exercise = functools.partial(check, allowed=ALLOWED)


# ---------------------------------------------------------------- cases


def networks(rng: np.random.Generator) -> list:
    """Random networks (model, alpha, h0, x): one unit, one step and no leak among them; no bias and no start is zero."""
    return [network(rng, *sizes) for sizes in ((6, 3, 4, 2, 0.3), (7, 2, 5, 3, 0.6), (5, 1, 1, 1, 0.4), (1, 2, 3, 1, 0.7), (6, 4, 3, 2, 1.0))]


def network(rng: np.random.Generator, T: int, D: int, H: int, K: int, alpha: float) -> tuple:
    """A random network and a sequence for it; with T other than 1, its length and its leak are varied a little."""
    T += int(rng.integers(3)) if T > 1 else 0
    alpha = alpha if alpha == 1 else round(alpha + float(rng.uniform(-0.1, 0.1)), 3)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    params = Params(W=draw(H, H) / np.float32(H**0.5), U=draw(H, D), b=draw(H))
    return Model(params, V=draw(K, H), c=draw(K)), alpha, draw(H), draw(T, D)


def with_targets(rng: np.random.Generator) -> list:
    return [(*case, rng.normal(size=(len(case[3]), len(case[0].c))).astype(np.float32)) for case in networks(rng)]


# ---------------------------------------------------------------- the slow loop


def forward(params: Params, alpha: float, h: Any, x: Any) -> np.ndarray:
    """The states h_1, ..., h_T, (T, H)."""
    states = []
    for x_t in x:
        h = (1 - alpha) * h + alpha * np.tanh(params.W @ h + params.U @ x_t + params.b)
        states.append(h)
    return np.stack(states)


# ---------------------------------------------------------------- 1: one step


@exercise(lambda rng: [(model.rnn, alpha, h0, x[0]) for model, alpha, h0, x in networks(rng)])
def step(inputs: tuple, outputs: Any) -> str:
    (W, U, b), alpha, h, x = inputs
    z = np.tanh(W @ h + U @ x + b)
    right = (1 - alpha) * h + alpha * z
    return difference(outputs, right, "h_t (H)", {
        "the leak is missing: this is the cell of chapter 1, tanh alone.": lambda: z,
        "alpha and 1 - alpha have changed places.": lambda: alpha * h + (1 - alpha) * z,
        "the old state is added whole: it has to be multiplied by 1 - alpha.": lambda: h + alpha * z,
        "tanh is not multiplied by alpha.": lambda: (1 - alpha) * h + z,
        "the old state is missing outside tanh.": lambda: alpha * z,
        "the bias b is missing.": lambda: (1 - alpha) * h + alpha * np.tanh(W @ h + U @ x),
        "the bias b stands outside tanh.": lambda: (1 - alpha) * h + alpha * (np.tanh(W @ h + U @ x) + b),
        "the bias b is subtracted.": lambda: (1 - alpha) * h + alpha * np.tanh(W @ h + U @ x - b),
        "W is transposed: W @ h, not h @ W.": lambda: (1 - alpha) * h + alpha * np.tanh(W.T @ h + U @ x + b),
        "W is not used.": lambda: (1 - alpha) * h + alpha * np.tanh(h + U @ x + b),
        "the recurrent term W h is missing.": lambda: (1 - alpha) * h + alpha * np.tanh(U @ x + b),
        "the input term U x is missing.": lambda: (1 - alpha) * h + alpha * np.tanh(W @ h + b),
        "tanh is missing.": lambda: (1 - alpha) * h + alpha * (W @ h + U @ x + b),
        "tanh is taken of the whole sum: the old state leaks outside of it.":
            lambda: np.tanh((1 - alpha) * h + alpha * (W @ h + U @ x + b)),
        "tanh is taken of the whole sum, and of its second part before: it belongs to W h + U x + b alone.":
            lambda: np.tanh(right),
        "this is the logistic function in place of tanh.": lambda: (1 - alpha) * h + alpha / (1 + np.exp(-(W @ h + U @ x + b))),
        "this is ReLU in place of tanh.": lambda: (1 - alpha) * h + alpha * np.maximum(W @ h + U @ x + b, 0),
        "alpha stands inside tanh.": lambda: (1 - alpha) * h + np.tanh(alpha * (W @ h + U @ x + b)),
        "the result is z, before the leak, with the leak inside tanh.": lambda: np.tanh(W @ ((1 - alpha) * h) + alpha * (U @ x) + b),
    })  # fmt: skip


# ---------------------------------------------------------------- 2: a whole sequence


@exercise(networks)
def run(inputs: tuple, outputs: Any) -> str:
    (params, V, c), alpha, h0, x = inputs
    h = forward(params, alpha, h0, x)
    before = np.concatenate([h0[None], h[:-1]])
    read = lambda states: states @ V.T + c
    zero = forward(params, alpha, 0 * h0, x)
    backwards = forward(params, alpha, h0, x[::-1])
    alone = np.stack([forward(params, alpha, h0, x_t[None])[0] for x_t in x])
    vanilla = forward(params, 1.0, h0, x)
    return difference(outputs, (read(h), h[-1]), "y (T, K); h_T (H)", {
        "the outputs are read from h_{t-1}, the state before the step: y_t = V h_t + c.": lambda: (read(before), h[-1]),
        "h0 is not used: the first state is zero.": lambda: (read(zero), zero[-1]),
        "c is missing from the outputs.": lambda: (h @ V.T, h[-1]),
        "the outputs go through tanh: they are linear in h_t.": lambda: (np.tanh(read(h)), h[-1]),
        "the outputs go through a softmax: they are linear in h_t.": lambda: (np.asarray(jax.nn.softmax(read(h))), h[-1]),
        "the sequence is read from its end to its start.": lambda: (read(backwards)[::-1], backwards[-1]),
        "the sequence is read from its end to its start, and the outputs are not turned round.": lambda: (read(backwards), backwards[-1]),
        "the second result is h_1: return the last state.": lambda: (read(h), h[0]),
        "the second result is h_{T-1}: return the state after the last step.": lambda: (read(h), before[-1]),
        "the second result is h0, the start: return the last state.": lambda: (read(h), h0),
        "the second result is the last output: return the last state.": lambda: (read(h), read(h)[-1]),
        "every step starts from h0: the state is not handed on.": lambda: (read(alone), alone[-1]),
        "the leak is not used: alpha seems to be 1.": lambda: (read(vanilla), vanilla[-1]),
        "all states are returned: the second result is the last one alone.": lambda: (read(h), h),
        "the first result are the states: the outputs are y_t = V h_t + c.": lambda: (h, h[-1]),
        "the outputs come out in reverse order.": lambda: (read(h)[::-1], h[-1]),
        "only the last output is returned: y holds one row for each step.": lambda: (read(h)[-1], h[-1]),
    })  # fmt: skip


# ---------------------------------------------------------------- 3, 7: gradients of the loop


def loss(model: Model, alpha: float, h0: Any, x: Any, target: Any) -> float:
    """Σ_t ½ ‖y_t - target_t‖²."""
    y = forward(model.rnn, alpha, h0, x) @ model.V.T + model.c
    return 0.5 * float(((y - target) ** 2).sum())


def slopes(function: Callable, model: Model, nudge: float = 1e-5) -> Model:
    """The derivative of a number with respect to every entry of a model, by central differences."""
    leaves, form = jax.tree.flatten(model)
    bars = [np.zeros(leaf.shape) for leaf in leaves]
    for leaf, bar in zip(leaves, bars):
        for place in np.ndindex(leaf.shape):
            middle, values = leaf[place], []
            for leaf[place] in (middle + nudge, middle - nudge):
                values.append(function(model))
            leaf[place] = middle
            bar[place] = (values[0] - values[1]) / (2 * nudge)
    return jax.tree.unflatten(form, bars)


def altered(function: Callable, derivative: Callable) -> Callable:
    """The function, with other derivatives: `derivative` takes its arguments and the derivative of what it returns."""
    changed = jax.custom_vjp(function)
    changed.defvjp(lambda *arguments: (function(*arguments), arguments), lambda arguments, bar: derivative(*arguments, bar))
    return changed


def same(state: Any, t: int) -> Any:
    return state


def cut(state: Any, t: int) -> Any:
    """The state, with no derivative going through it."""
    return jax.lax.stop_gradient(state)


def cost(model: Model, alpha: float, h: Any, x: Any, target: Any, *, nudge: Any = None, leak: Callable = same, recurrent: Callable = same,
         squash: Callable = lambda a, h: jnp.tanh(a), product: Callable = jnp.matmul,
         blend: Callable = lambda alpha, h, z: (1 - alpha) * h + alpha * z, counts: Callable = lambda t: 1.0) -> Any:  # fmt: skip
    """The loss Σ_t ½ ‖y_t - target_t‖² of the slow loop, in pieces that can be replaced.

    `nudge` is added to the argument of tanh: the derivative with respect to it is ā_t.
    """
    (W, U, b), V, c = model
    total = 0.0
    for t in range(len(x)):
        a = product(W, recurrent(h, t)) + U @ x[t] + b + (0 if nudge is None else nudge[t])
        h = blend(alpha, leak(h, t), squash(a, h))
        total += counts(t) * 0.5 * jnp.sum((V @ h + c - target[t]) ** 2)
    return total


def gradient(inputs: tuple, **pieces: Any) -> Any:
    """The derivative of the loss with respect to every weight, (W, U, b), V, c."""
    model, alpha, *rest = inputs
    with runtime.float64():
        double = jax.tree.map(jnp.asarray, (model, *rest))
        return jax.tree.map(np.asarray, jax.grad(lambda model: cost(model, alpha, *double[1:], **pieces))(double[0]))


def arguments_bar(inputs: tuple) -> np.ndarray:
    """The total derivative of the loss with respect to the argument of tanh at every step, (T, H)."""
    model, alpha, h0, x, target = inputs
    with runtime.float64():
        zero = jnp.zeros((len(x), len(h0)))
        return np.asarray(jax.grad(lambda nudge: cost(model, alpha, h0, x, target, nudge=nudge))(zero))


def other_sums(inputs: tuple, change: Callable) -> Any:
    """The gradient, with the sums over time that make dL/dW, dL/dU and dL/db changed."""
    model, alpha, h0, x, target = inputs
    h = forward(model.rnn, alpha, h0, x)
    right = gradient(inputs)
    W, U, b = change(arguments_bar(inputs), h0, h, x)
    return right._replace(rnn=Params(W, U, b))


def scaled(tree: Any, factor: float) -> Any:
    return jax.tree.map(lambda leaf: factor * leaf, tree)


def added(trees: list) -> Any:
    return jax.tree.map(lambda *leaves: sum(leaves), *trees)


NAMES = "dL/dW (H, H); dL/dU (H, D); dL/db (H); dL/dV (K, H); dL/dc (K)"


@exercise(with_targets, forbidden=calls.AUTODIFF)
def bptt(inputs: tuple, outputs: Any) -> str:
    model, alpha, h0, x, target = inputs
    T, K = target.shape
    right = slopes(lambda model: loss(model, *inputs[1:]), model)
    wrong = functools.partial(gradient, inputs)
    slope = lambda formula: altered(lambda a, h: jnp.tanh(a), lambda a, h, bar: (formula(a, h) * bar, jnp.zeros_like(h)))
    blend = lambda old, new: altered(lambda alpha, h, z: (1 - alpha) * h + alpha * z,
                                     lambda alpha, h, z, bar: (jnp.zeros_like(alpha), old(alpha) * bar, new(alpha) * bar))
    untransposed = altered(jnp.matmul, lambda W, h, bar: (jnp.outer(bar, h), W @ bar))
    after = lambda a, h: (1 - alpha) * h + alpha * jnp.tanh(a)
    outer = lambda a_bar, h: a_bar.T @ h
    one = lambda alpha: 1.0 + 0 * alpha
    before = lambda h0, h: np.concatenate([h0[None], h[:-1]])
    mistakes = {
        "the sign is wrong: the derivative of the loss with respect to y_t is y_t - target_t.": lambda: scaled(right, -1),
        "everything is twice as large: the loss has a factor 1/2, whose square cancels the 2.": lambda: scaled(right, 2),
        "everything is half as large: differentiating 1/2 (y_t - target_t)^2 gives y_t - target_t.": lambda: scaled(right, 0.5),
        "everything is divided by T: the loss is a sum over the steps, not a mean.": lambda: scaled(right, 1 / T),
        "everything is divided by T K: the loss is a sum, not a mean.": lambda: scaled(right, 1 / (T * K)),
        "everything is divided by K: the loss is a sum over the outputs, not a mean.": lambda: scaled(right, 1 / K),
        "only the immediate derivatives are there: no step hears of later ones. Hand h_bar_t back to step t - 1.":
            lambda: wrong(leak=cut, recurrent=cut),
        "the way back through the leak is missing: h_{t-1} reaches h_t through W and, times 1 - alpha, directly.": lambda: wrong(leak=cut),
        "the way back through W is missing: h_{t-1} reaches h_t directly and through W.": lambda: wrong(recurrent=cut),
        "the slope of tanh is taken from h_t: it is 1 - z_t^2, and with a leak z_t is not h_t.": lambda: wrong(squash=slope(lambda a, h: 1 - after(a, h) ** 2)),
        "the slope of tanh is taken from h_{t-1}: it is 1 - z_t^2.": lambda: wrong(squash=slope(lambda a, h: 1 - h**2)),
        "the slope of tanh is missing.": lambda: wrong(squash=slope(lambda a, h: jnp.ones_like(a))),
        "the slope of tanh is 1 - tanh^2, and here it is 1 - a_t^2, without tanh.": lambda: wrong(squash=slope(lambda a, h: 1 - a**2)),
        "the slope of tanh is 1 - tanh^2, and here it is 1 - tanh, without the square.": lambda: wrong(squash=slope(lambda a, h: 1 - jnp.tanh(a))),
        "this slope is that of the logistic function: tanh has 1 - z_t^2.":
            lambda: wrong(squash=slope(lambda a, h: jnp.tanh(a) * (1 - jnp.tanh(a)))),
        "W is not transposed on the way back: a derivative goes back through W^T.": lambda: wrong(product=untransposed),
        "W is not transposed on the way back, and the way through the leak is missing.": lambda: wrong(product=untransposed, leak=cut),
        "alpha is missing: the derivative with respect to z_t is alpha times that with respect to h_t.":
            lambda: wrong(blend=blend(lambda alpha: 1 - alpha, one)),
        "alpha is missing, and so is the way back through the leak: this is the sweep of the cell without leak.":
            lambda: wrong(blend=blend(lambda alpha: 0 * alpha, one)),
        "the derivative that goes back through the leak is not multiplied by 1 - alpha.": lambda: wrong(blend=blend(one, lambda alpha: alpha)),
        "alpha and 1 - alpha have changed places on the way back.": lambda: wrong(blend=blend(lambda alpha: alpha, lambda alpha: 1 - alpha)),
        "only the last step has a loss here: every step has one, so g_t is added at every step.": lambda: wrong(counts=lambda t: float(t == T - 1)),
        "only the first step has a loss here: every step has one.": lambda: wrong(counts=lambda t: float(t == 0)),
        "the last step's loss is missing: start the sweep at t = T.": lambda: wrong(counts=lambda t: float(t < T - 1)),
        "h0 is not used: the first state is zero.": lambda: gradient((model, alpha, 0 * h0, x, target)),
        "dL/dW pairs a_bar_t with h_t: W is multiplied by the state before, h_{t-1}.":
            lambda: other_sums(inputs, lambda a_bar, h0, h, x: (outer(a_bar, h), outer(a_bar, x), a_bar.sum(0))),
        "the term of step 1 is missing from dL/dW: its state before is h0.":
            lambda: other_sums(inputs, lambda a_bar, h0, h, x: (outer(a_bar[1:], h[:-1]), outer(a_bar, x), a_bar.sum(0))),
        "the term of step 1 in dL/dW takes zero for the state before: it is h0.":
            lambda: other_sums(inputs, lambda a_bar, h0, h, x: (outer(a_bar, before(0 * h0, h)), outer(a_bar, x), a_bar.sum(0))),
        "dL/dW, dL/dU and dL/db hold the term of step 1 alone: add up the terms of all steps.":
            lambda: other_sums(inputs, lambda a_bar, h0, h, x: (outer(a_bar[:1], h0[None]), outer(a_bar[:1], x[:1]), a_bar[0])),
        "dL/dW, dL/dU and dL/db hold the term of step T alone: add up the terms of all steps.":
            lambda: other_sums(inputs, lambda a_bar, h0, h, x: (outer(a_bar[-1:], before(h0, h)[-1:]), outer(a_bar[-1:], x[-1:]), a_bar[-1])),
        "dL/dW, dL/dU and dL/db are divided by T: add up the terms, without a mean.":
            lambda: other_sums(inputs, lambda a_bar, h0, h, x: scaled((outer(a_bar, before(h0, h)), outer(a_bar, x), a_bar.sum(0)), 1 / T)),
    }  # fmt: skip
    error = forward(model.rnn, alpha, h0, x) @ model.V.T + model.c - target
    states = forward(model.rnn, alpha, h0, x)
    mistakes |= {
        "dL/dV pairs the error of step t with h_{t-1}: y_t is read from h_t.": lambda: right._replace(V=error.T @ before(h0, states)),
        "dL/dV and dL/dc hold the last step alone: add up all steps.": lambda: right._replace(V=np.outer(error[-1], states[-1]), c=error[-1]),
        "dL/dV and dL/dc hold the first step alone: add up all steps.": lambda: right._replace(V=np.outer(error[0], states[0]), c=error[0]),
        "dL/dV and dL/dc are divided by T: add up the terms, without a mean.": lambda: right._replace(V=right.V / T, c=right.c / T),
    }
    return difference(outputs, right, NAMES, mistakes)


@exercise(lambda rng: [(*case, k) for case, k in zip(with_targets(rng), (4, 2, 1, 3, 20))])
def truncated(inputs: tuple, outputs: Any) -> str:
    *inputs, k = inputs
    model, alpha, h0, x, target = inputs
    T = len(x)
    blocks = [slice(first, first + k) for first in range(0, T, k)]
    starts = [h0, *forward(model.rnn, alpha, h0, x)]
    right = added([slopes(lambda model: loss(model, alpha, starts[block.start], x[block], target[block]), model) for block in blocks])
    at = lambda hits: dict(leak=lambda h, t: cut(h, t) if hits(t) else h, recurrent=lambda h, t: cut(h, t) if hits(t) else h)
    whole = T // k * k
    pieces = lambda blocks, start: [gradient((model, alpha, start(block), x[block], target[block])) for block in blocks]
    within = lambda k, trees: scaled(added(trees), 1 / k)
    return difference(outputs, right, NAMES, {
        "this is the whole gradient: nothing is cut between the blocks. Stop it with jax.lax.stop_gradient.": lambda: gradient(inputs),
        "every step is cut off from the one before: cut only where a block begins.": lambda: gradient(inputs, **at(lambda t: True)),
        "every block starts from h0: the state is carried from one block to the next, only the derivative is cut.":
            lambda: added(pieces(blocks, lambda block: h0)),
        "every block starts from a state of zeros: the state is carried from one block to the next, only the derivative is cut.":
            lambda: added([*pieces(blocks[:1], lambda block: h0), *pieces(blocks[1:], lambda block: 0 * h0)]),
        "the last, shorter block is missing.": lambda: added(pieces(blocks[:T // k], lambda block: starts[block.start])) if whole else scaled(right, 0),
        "the blocks are averaged: add their gradients up.": lambda: scaled(right, 1 / len(blocks)),
        "everything is divided by T: the loss is a sum over the steps, not a mean.": lambda: scaled(right, 1 / T),
        "everything is divided by k: the loss is a sum over the steps, not a mean.": lambda: within(k, [right]),
        "each block's loss is divided by its own length: the loss is a sum over the steps, not a mean.":
            lambda: added([scaled(tree, 1 / len(x[block])) for block, tree in zip(blocks, pieces(blocks, lambda block: starts[block.start]))]),
        "only the last block counts here: every step has a loss.": lambda: pieces(blocks[-1:], lambda block: starts[block.start])[0],
        "only the first block counts here: every step has a loss.": lambda: pieces(blocks[:1], lambda block: h0)[0],
        "the blocks are counted from the end: the first one begins at step 1.": lambda: gradient(inputs, **at(lambda t: (T - t) % k == 0)),
        "the cut is one step late: step k + 1 is the first of the second block.": lambda: gradient(inputs, **at(lambda t: t % k == 1 % k and t > 0 or t == 0)),
        "the cut is one step early: step k belongs to the first block.": lambda: gradient(inputs, **at(lambda t: (t + 1) % k == 0)),
        "the loss is counted at the last step of each block alone: every step has a loss.":
            lambda: gradient(inputs, **at(lambda t: t % k == 0), counts=lambda t: float((t + 1) % k == 0 or t == T - 1)),
        "only the last step of the sequence has a loss here: every step has one.":
            lambda: gradient(inputs, **at(lambda t: t % k == 0), counts=lambda t: float(t == T - 1)),
        "the way through the leak is not cut: stop the whole state between two blocks.":
            lambda: gradient(inputs, recurrent=lambda h, t: cut(h, t) if t % k == 0 else h),
        "the way through the leak is the only one that is cut: stop the whole state between two blocks.":
            lambda: gradient(inputs, leak=lambda h, t: cut(h, t) if t % k == 0 else h),
        "everything is twice as large: the loss has a factor 1/2.": lambda: scaled(right, 2),
        "the sign is wrong.": lambda: scaled(right, -1),
    })  # fmt: skip


# ---------------------------------------------------------------- 4, 5: how far a change is felt


def step_jacobians(params: Params, alpha: float, h0: Any, x: Any) -> np.ndarray:
    """∂h_t/∂h_{t-1} at the states that are visited, (T, H, H), by central differences."""
    before = np.concatenate([h0[None], forward(params, alpha, h0, x)[:-1]])
    nudges = 1e-5 * np.eye(len(h0))
    move = lambda h, x_t, e: (forward(params, alpha, h + e, x_t[None])[0] - forward(params, alpha, h - e, x_t[None])[0]) / 2e-5
    return np.stack([np.stack([move(h, x_t, e) for e in nudges], axis=1) for h, x_t in zip(before, x)])


def carried(factors: Any, v: Any) -> np.ndarray:
    """J_1 v, J_2 J_1 v, ..., (T, H) or (T, H, H)."""
    results = []
    for factor in factors:
        v = factor @ v
        results.append(v)
    return np.stack(results)


def unit(v: Any) -> Any:
    return v / np.linalg.norm(v)


@exercise(lambda rng: [(model.rnn, alpha, h0, x, rng.normal(size=h0.shape).astype(np.float32)) for model, alpha, h0, x in networks(rng)], call=calls.traced)
def push(inputs: tuple, outputs: Any) -> str:
    if not isinstance(outputs, tuple) or len(outputs) != 2:
        return "the function could not be traced by JAX."
    params, alpha, h0, x, v = inputs
    outputs, shapes = outputs
    J = step_jacobians(params, alpha, h0, x)
    H = len(h0)
    states = forward(params, alpha, h0, x)
    right = carried(J, v)
    leakless = J - (1 - alpha) * np.eye(H)
    problem = difference(outputs, right, "the pushed vectors (T, H)", {
        "these are the states h_t: return the second result of jax.jvp, the tangent.": lambda: states,
        "every step starts from v again: push on what came out of the step before.": lambda: np.stack([J_t @ v for J_t in J]),
        "this is the product with the transposed Jacobians: jax.jvp pushes forwards, jax.vjp pulls back.":
            lambda: carried(np.swapaxes(J, 1, 2), v),
        "every step is differentiated at h0: hand the new state on, as well as the new vector.":
            lambda: carried(step_jacobians_at(params, alpha, h0, x), v),
        "every step is differentiated at the new state h_t: it starts from h_{t-1}.":
            lambda: carried(step_jacobians_from(params, alpha, states, x), v),
        "the leak is missing: the Jacobian has the part 1 - alpha on its diagonal.": lambda: carried(leakless, v),
        "the leak is missing, and so is alpha: this is the Jacobian of the cell of chapter 1.": lambda: carried(leakless / alpha, v),
        "the vector is scaled to length 1 at every step: do not scale it.":
            lambda: np.stack([unit(row) for row in right]),
        "v itself is the first row: the first row is J_1 v.": lambda: np.stack([v, *right[:-1]]),
        "the steps are taken from the last to the first.": lambda: carried(J[::-1], v),
        "the steps are taken from the last to the first, with transposed Jacobians: this is the sweep back.":
            lambda: carried(np.swapaxes(J, 1, 2)[::-1], v),
        "v is added to the states: this is the state that follows from h0 + v, and not its derivative.": lambda: forward(params, alpha, h0 + v, x),
        "this is the difference of two runs, from h0 + v and from h0: the derivative is wanted, for v that is arbitrarily small.":
            lambda: forward(params, alpha, h0 + v, x) - states,
    })  # fmt: skip
    formed = [shape for shape in np.asarray(shapes, int).tolist() if shape.count(H) >= 2 and max(H, 2) == H]
    if not problem and formed:
        return (f"the values are right, but an array of shape {tuple(n for n in formed[0] if n >= 0)} is formed on the way, with H = {H}. "
                "jax.jvp gives the product without the matrix.")
    return problem


def step_jacobians_at(params: Params, alpha: float, h0: Any, x: Any) -> np.ndarray:
    return np.stack([step_jacobians(params, alpha, h0, x_t[None])[0] for x_t in x])


def step_jacobians_from(params: Params, alpha: float, states: Any, x: Any) -> np.ndarray:
    return np.stack([step_jacobians(params, alpha, h, x_t[None])[0] for h, x_t in zip(states, x)])


@exercise(lambda rng: [(model.rnn, alpha, h0, x) for model, alpha, h0, x in networks(rng)])
def memory(inputs: tuple, outputs: Any) -> str:
    params, alpha, h0, x = inputs
    H = len(h0)
    J = step_jacobians(params, alpha, h0, x)
    products = carried(J, np.eye(H))
    frobenius = lambda matrices: np.linalg.norm(matrices, axis=(1, 2))
    return difference(outputs, frobenius(products) / H**0.5, "m (T)", {
        "the division by the root of H is missing.": lambda: frobenius(products),
        "the sum of squares is divided by H, and no root is taken.": lambda: frobenius(products) ** 2 / H,
        "the sum of squares is not divided by H, and no root is taken.": lambda: frobenius(products) ** 2,
        "the norm is divided by H: divide by its root.": lambda: frobenius(products) / H,
        "the norm is divided by H, as a mean over all H^2 entries does: divide the sum of squares by H.": lambda: frobenius(products) / H,
        "this is the largest singular value: the mean over all directions is wanted.": lambda: np.linalg.norm(products, 2, axis=(1, 2)),
        "this is the spectral radius: a norm is wanted.": lambda: np.abs(np.linalg.eigvals(products)).max(axis=1),
        "this is the mean of the lengths: it should be the root of the mean of their squares.":
            lambda: np.linalg.norm(products, axis=1).mean(axis=1),
        "the lengths are taken of the rows, and averaged: take the root of the mean of the squares.":
            lambda: np.linalg.norm(products, axis=2).mean(axis=1),
        "these are the single steps: multiply the Jacobians up.": lambda: frobenius(J) / H**0.5,
        "these are lags counted back from the last step: m_t is the response of h_t to h_0.":
            lambda: frobenius(carried(np.swapaxes(J, 1, 2)[::-1], np.eye(H))) / H**0.5,
        "this is one direction alone, that of all ones: take all unit vectors.": lambda: np.linalg.norm(products @ np.ones(H), axis=1) / H**0.5,
        "the response to the first unit alone: take all unit vectors.": lambda: np.linalg.norm(products[:, :, 0], axis=1),
        "lag 0 is in the first place: m_1 is the response of h_1.": lambda: np.concatenate([[1.0], frobenius(products)[:-1] / H**0.5]),
        "the sum of the absolute entries is taken: take squares.": lambda: np.abs(products).sum(axis=(1, 2)) / H**0.5,
    })  # fmt: skip


def responses(rng: np.random.Generator) -> list:
    """Measured memories: one that falls, one that never does, one that is below from the start, one that rises again."""
    fall = np.exp(-np.arange(1, 31) / rng.uniform(4, 9))
    bump = fall + 0.5 * (np.arange(30) > 25)
    cases = [(fall, 0.1), (fall, 0.5), (fall + 1, 0.1), (fall / 20, 0.1), (bump, 0.1), (np.array([0.3]), 0.2), (np.array([1.0, 0.25, 0.5]), 0.25)]
    return [(m.astype(np.float32), level) for m, level in cases]


@exercise(responses)
def horizon(inputs: tuple, outputs: Any) -> str:
    m, level = inputs
    below = [t for t in range(len(m)) if m[t] < level]
    right = below[0] if below else len(m)
    strict = [t for t in range(len(m)) if m[t] <= level]
    last = max([t for t in range(len(m)) if m[t] >= level], default=-1)
    return difference(outputs, right, "the horizon ()", {
        "the memory never falls below the level here: the horizon is then T.": lambda: 0 if not below else -1,
        "the memory is below the level from the first step: the horizon is then 0.": lambda: len(m) if right == 0 else -1,
        "the memory rises above the level again later: the horizon ends where it first falls below.":
            lambda: (m >= level).sum() if (m >= level).sum() > right else last + 1 if last + 1 > right else -1,
        "this is one too many: it counts the first step below the level too.": lambda: right + 1,
        "this is one too few.": lambda: right - 1,
        "an entry equal to the level counts as memory: compare with <.": lambda: strict[0] if strict and strict[0] < right else -1,
        "this is the number of steps below the level: count those before the first of them.": lambda: len(below),
    })  # fmt: skip


# ---------------------------------------------------------------- 6: clipping


def gradients(rng: np.random.Generator) -> list:
    """Gradients to be clipped and not to be clipped, zero, infinite, and not a number."""
    grown = lambda size: jax.tree.map(lambda leaf: np.float32(size) * leaf, network(rng, 3, 3, 4, 2, 0.5)[0])
    zero = grown(0)
    broken = [grown(1)._replace(c=np.array([value, 1.0], np.float32)) for value in (np.inf, np.nan)]
    return [(grown(2), 1.0), (grown(30), 5.0), (grown(0.01), 1.0), (zero, 1.0), *((tree, 1.0) for tree in broken)]


@exercise(gradients)
def clip(inputs: tuple, outputs: Any) -> str:
    gradient, limit = inputs
    leaves = jax.tree.leaves(gradient)
    size = np.sqrt(sum((leaf**2).sum() for leaf in leaves))
    finite = np.isfinite(size)
    factor = min(1.0, limit / size) if finite and size > 0 else float(finite)
    shrunk = lambda factor: jax.tree.map(lambda leaf: factor * leaf if finite else 0 * np.nan_to_num(leaf, posinf=0), gradient)
    right = (shrunk(factor), size)
    each = lambda leaf: leaf * min(1.0, limit / max(np.linalg.norm(leaf), 1e-30))
    anyway = shrunk(limit / size if size > 0 else 1.0)
    total = sum(np.linalg.norm(leaf) for leaf in leaves)
    zeroed = jax.tree.map(lambda leaf: np.zeros_like(leaf), gradient)
    names = "W (H, H); U (H, D); b (H); V (K, H); c (K); the norm ()"
    problem = difference(outputs, right, names, {
        "each array is clipped by a norm of its own: one norm, over all of them, keeps the direction.": lambda: (jax.tree.map(each, gradient), size),
        "each entry is clipped: scale the whole gradient, so that its direction is kept.":
            lambda: (jax.tree.map(lambda leaf: np.clip(leaf, -limit, limit), gradient), size),
        "a gradient below the limit is changed: clipping only ever shortens.": lambda: (anyway, size) if size <= limit else (zeroed, -1.0),
        "the gradient is scaled to length 1 and not to the limit.": lambda: (shrunk(1 / size if size > limit else 1.0), size) if size > 0 else (zeroed, -1.0),
        "the norm is its square: take the root.": lambda: (right[0], size**2),
        "the root is missing from the norm, here and in the scaling.":
            lambda: (shrunk(min(1.0, limit / size**2) if size > 0 else 1.0), size**2),
        "the norm returned is that after clipping: return the norm before.": lambda: (right[0], min(size, limit)),
        "the norm is a sum of the arrays' norms: sum the squares, then take the root.":
            lambda: (shrunk(min(1.0, limit / total) if total > 0 else 1.0), total),
        "the gradient is multiplied by the limit, or by the norm: multiply by limit / norm.": lambda: (shrunk(min(limit, size)), size),
        "gradients above the limit are set to zero: shorten them.": lambda: (shrunk(0.0 if size > limit else 1.0), size),
        "nothing is clipped.": lambda: (gradient, size),
        "the norm is that of the largest entry: take the root of the sum of squares.":
            lambda: (shrunk(min(1.0, limit / top)) if (top := max(np.abs(leaf).max() for leaf in leaves)) > 0 else gradient, top),
    })  # fmt: skip
    if not problem:
        return ""
    if not finite and not jax.tree.all(jax.tree.map(lambda leaf: bool((leaf == 0).all()), outputs[0])):
        return "a gradient with an infinite entry or a NaN is passed on: return zeros in its place, so that the step is skipped."
    if not finite:
        return "the norm of a gradient that is not finite is returned as it is, infinite or NaN."
    if size == 0:
        return f"a gradient of zeros comes out changed, or its norm does: {problem} Does limit / 0 occur?"
    return problem


# ---------------------------------------------------------------- 8: bias


def batches(rng: np.random.Generator) -> list:
    """Pairs of gradients of B examples each: unlike, alike in the mean alone, and equal."""
    draw = lambda B, spread: [jax.tree.map(lambda *leaves: np.stack(leaves), *(network(rng, 3, 2, 3, 2, 0.5)[0] for _ in range(B))) for _ in range(2)]
    (a, b), (c, d), (e, _) = draw(5, 1), draw(7, 1), draw(4, 1)
    mirrored = jax.tree.map(lambda leaf: leaf[::-1], c)
    return [(a, b), (jax.tree.map(lambda leaf: 0.5 * leaf, d), d), (mirrored, c), (e, e)]


@exercise(batches)
def bias(inputs: tuple, outputs: Any) -> str:
    cut, full = inputs
    flat = lambda tree: np.concatenate([leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(tree)], axis=1)
    cut, full = flat(cut), flat(full)
    norm = np.linalg.norm
    mean = lambda rows: rows.mean(axis=0)
    return difference(outputs, norm(mean(cut) - mean(full)) / norm(mean(full)), "the bias ()", {
        "the norm is taken of each example before the mean, so that errors in opposite directions no longer cancel: "
        "take the mean over the batch first, then the norm.": lambda: norm(cut - full, axis=1).mean() / norm(mean(full)),
        "each example is compared by itself and the ratios are averaged: take the mean over the batch first.":
            lambda: (norm(cut - full, axis=1) / norm(full, axis=1)).mean(),
        "the norms are averaged and then divided: take the mean over the batch first, then the norm.":
            lambda: norm(cut - full, axis=1).mean() / norm(full, axis=1).mean(),
        "the norms of the single gradients stand in the denominator: it is the norm of their mean.":
            lambda: norm(mean(cut) - mean(full)) / norm(full, axis=1).mean(),
        "the division by the norm of the mean full gradient is missing.": lambda: norm(mean(cut) - mean(full)),
        "it is divided by the norm of the truncated gradient: divide by that of the full one.":
            lambda: norm(mean(cut) - mean(full)) / max(norm(mean(cut)), 1e-30),
        "this is the difference of the norms: take the norm of the difference.": lambda: abs(norm(mean(cut)) - norm(mean(full))) / norm(mean(full)),
        "this is the ratio of the norms: take the norm of the difference.": lambda: norm(mean(cut)) / norm(mean(full)),
        "this is the square: take the root.": lambda: (norm(mean(cut) - mean(full)) / norm(mean(full))) ** 2,
        "this is the cosine between the two: the relative length of the difference is wanted.":
            lambda: mean(cut) @ mean(full) / (norm(mean(cut)) * norm(mean(full))),
        "the norm is taken over the whole batch at once: take the mean over the batch first.": lambda: norm(cut - full) / norm(full),
        "the sums of absolute entries are taken: take squares.": lambda: np.abs(mean(cut) - mean(full)).sum() / np.abs(mean(full)).sum(),
    })  # fmt: skip
