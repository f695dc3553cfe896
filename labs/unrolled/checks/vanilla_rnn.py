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
from unrolled.checks.compare import close, difference
from unrolled.vanilla_rnn import Model, Params

# What lab 1 may use of the package: all but the functions that it asks for.
ALLOWED = {"explore", "plots", "runtime", "shapes", "tasks", "train",
           "vanilla_rnn.Params", "vanilla_rnn.Model", "vanilla_rnn.init", "vanilla_rnn.init_model", "vanilla_rnn.gaussian"}  # fmt: skip

exercise = functools.partial(check, allowed=ALLOWED)


# ---------------------------------------------------------------- cases


def networks(rng: np.random.Generator) -> list:
    """Random networks (model, alpha, h0, x): one unit, one step and no leak among them; no bias and no start is zero."""
    sizes = ((6, 2, 4, 3, 0.3), (7, 3, 5, 2, 0.6), (5, 1, 1, 1, 0.4), (1, 2, 3, 1, 0.7), (6, 4, 3, 2, 1.0))  # T, D, H, K, alpha
    return [network(rng, *size) for size in sizes]


def network(rng: np.random.Generator, T: int, D: int, H: int, K: int, alpha: float) -> tuple:
    """A random network and a sequence for it; a length other than 1 and a leak other than 1 are varied a little."""
    T += int(rng.integers(3)) if T > 1 else 0
    alpha = alpha if alpha == 1 else round(alpha + float(rng.uniform(-0.1, 0.1)), 3)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    params = Params(W=draw(H, H) / np.float32(H**0.5), U=draw(H, D), b=draw(H))
    return Model(params, V=draw(K, H), c=draw(K)), alpha, draw(H), draw(T, D)


def aimed(rng: np.random.Generator, case: tuple) -> tuple:
    """A network and a sequence, with a target for each step."""
    model, _, _, x = case
    return (*case, rng.normal(size=(len(x), len(model.c))).astype(np.float32))


def with_targets(rng: np.random.Generator) -> list:
    return [aimed(rng, case) for case in networks(rng)]


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
    a = W @ h + U @ x + b
    z = np.tanh(a)
    leak = lambda z: (1 - alpha) * h + alpha * z
    right = leak(z)
    return difference(outputs, right, "h_t (H)", {
        "the leak is missing: this is the cell of chapter 1, tanh alone.": lambda: z,
        "alpha and 1 - alpha have changed places.": lambda: alpha * h + (1 - alpha) * z,
        "the old state is added whole: it has to be multiplied by 1 - alpha.": lambda: h + alpha * z,
        "the new part is added whole: it has to be multiplied by alpha.": lambda: (1 - alpha) * h + z,
        "neither part has its factor.": lambda: h + z,
        "the old state is missing outside tanh: only alpha z_t is there.": lambda: alpha * z,
        "this is the change of the state: add the old state.": lambda: right - h,
        "the bias b is missing.": lambda: leak(np.tanh(a - b)),
        "the bias b stands outside tanh.": lambda: leak(np.tanh(a - b) + b),
        "the bias b stands outside tanh and outside the leak.": lambda: leak(np.tanh(a - b)) + b,
        "the bias b is subtracted.": lambda: leak(np.tanh(a - 2 * b)),
        "W is transposed: W @ h, not h @ W.": lambda: leak(np.tanh(W.T @ h + U @ x + b)),
        "only the diagonal of W is used: W @ h is a matrix product, W * h is not.":
            lambda: leak(np.tanh(np.diag(W) * h + U @ x + b)),
        "W is not used.": lambda: leak(np.tanh(h + U @ x + b)),
        "the recurrent term W h is missing.": lambda: leak(np.tanh(U @ x + b)),
        "the input term U x is missing.": lambda: leak(np.tanh(W @ h + b)),
        "U x stands outside tanh.": lambda: leak(np.tanh(W @ h + b) + U @ x),
        "W reads the share that was kept, (1 - alpha) h: it reads the old state h.":
            lambda: leak(np.tanh(W @ ((1 - alpha) * h) + U @ x + b)),
        "tanh is missing.": lambda: leak(a),
        "the leak stands inside tanh: it belongs outside of it.": lambda: np.tanh((1 - alpha) * h + alpha * a),
        "the new state goes through a second tanh.": lambda: np.tanh(right),
        "alpha stands inside tanh: it multiplies z_t.": lambda: (1 - alpha) * h + np.tanh(alpha * a),
        "alpha stands inside tanh as well as outside of it.": lambda: leak(np.tanh(alpha * a)),
        "this is the logistic function in place of tanh.": lambda: leak(1 / (1 + np.exp(-a))),
        "this is ReLU in place of tanh.": lambda: leak(np.maximum(a, 0)),
        "the state moves away from z_t: h + alpha (z - h), not h - alpha (z - h).": lambda: h - alpha * (z - h),
        "exp(-alpha) stands where 1 - alpha should, as for a leak in continuous time.":
            lambda: np.exp(-alpha) * h + (1 - np.exp(-alpha)) * z,
        "exp(-alpha) stands where 1 - alpha should, and alpha is kept: a mixture of two leaks.":
            lambda: np.exp(-alpha) * h + alpha * z,
        "tanh is taken of the old state, before W: it is taken of the whole sum.": lambda: leak(W @ np.tanh(h) + U @ x + b),
        "alpha = 0.25 of the example is written into the function: use the argument.": lambda: 0.75 * h + 0.25 * z,
    })  # fmt: skip


# ---------------------------------------------------------------- 2: a whole sequence


@exercise(networks)
def run(inputs: tuple, outputs: Any) -> str:
    (params, V, c), alpha, h0, x = inputs
    h = forward(params, alpha, h0, x)
    before = np.concatenate([h0[None], h[:-1]])
    z = (h - (1 - alpha) * before) / alpha
    read = lambda states: states @ V.T + c
    other = lambda **changes: forward(**{"params": params, "alpha": alpha, "h": h0, "x": x, **changes})
    alone = lambda: np.concatenate([other(x=x_t[None]) for x_t in x])
    plain = lambda states: (read(states), states[-1])
    return difference(outputs, plain(h), "y (T, K); h_T (H)", {
        "the outputs are read from h_{t-1}, the state before the step: y_t = V h_t + c.": lambda: (read(before), h[-1]),
        "the outputs are read from z_t: y_t = V h_t + c.": lambda: (read(z), h[-1]),
        "the states are returned in place of the outputs: y_t = V h_t + c.": lambda: (h, h[-1]),
        "h0 is not used: the first state is zero.": lambda: plain(other(h=0 * h0)),
        "c is missing from the outputs.": lambda: (h @ V.T, h[-1]),
        "the outputs go through tanh: they are linear in h_t.": lambda: (np.tanh(read(h)), h[-1]),
        "the outputs go through a softmax: they are linear in h_t.": lambda: (np.asarray(jax.nn.softmax(read(h))), h[-1]),
        "the outputs are multiplied by alpha: only the state leaks.": lambda: (alpha * read(h), h[-1]),
        "the outputs leak: only the state does.": lambda: (leaky(read(h), alpha), h[-1]),
        "the sequence is read from its end to its start.": lambda: (read(other(x=x[::-1]))[::-1], other(x=x[::-1])[-1]),
        "the sequence is read from its end to its start, and the outputs are not turned round.": lambda: plain(other(x=x[::-1])),
        "step t reads the input of step t - 1, and step 1 that of step T.": lambda: plain(other(x=np.roll(x, 1, axis=0))),
        "step t reads the input of step t - 1, and step 1 reads zeros.":
            lambda: plain(other(x=np.concatenate([0 * x[:1], x[:-1]]))),
        "only the last output is returned: y holds one row for each step.": lambda: (read(h)[-1], h[-1]),
        "scan hands back what is carried first and what is stacked second: their names have changed places.":
            lambda: (read(h)[-1], h),
        "all states are returned: the second result is the last one alone.": lambda: (read(h), h),
        "the second result is h_1: return the last state.": lambda: (read(h), h[0]),
        "the second result is h_{T-1}: return the state after the last step.": lambda: (read(h), before[-1]),
        "the second result is h0, the start: return the last state.": lambda: (read(h), h0),
        "the second result is the last output: return the last state.": lambda: (read(h), read(h)[-1]),
        "every step starts from h0: the state is not handed on.": lambda: plain(alone()),
        "the leak is not used: alpha seems to be 1.": lambda: plain(other(alpha=1.0)),
        "what is handed on is z_t and not h_t, so that the leak acts for one step only.":
            lambda: plain(handing_z_on(params, alpha, h0, x)[0]),
        "what is handed on, and returned, is z_t and not h_t, so that the leak acts for one step only.":
            lambda: (read(handing_z_on(params, alpha, h0, x)[0]), handing_z_on(params, alpha, h0, x)[1]),
        "the state starts from h0 again in the middle of the sequence.":
            lambda: plain(np.concatenate([other(x=x[: len(x) // 2]), other(x=x[len(x) // 2 :])]) if len(x) > 1 else h),
        "the last input is not read, and the last output is missing.": lambda: plain(h[:-1]) if len(x) > 1 else (0.0, 0.0),
        "the leak is applied a second time, around a step that leaks already.": lambda: plain(forward(params, alpha**2, h0, x)),
        "the first input is never read: step t reads x_t, which is row t - 1 of x.":
            lambda: plain(other(x=np.concatenate([x[1:], x[-1:]]))),
        "c is added up from step to step: it belongs to each output by itself.":
            lambda: (h @ V.T + c * np.arange(1, len(h) + 1)[:, None], h[-1]),
        "h0 is read out too: the outputs begin with that of h_1.": lambda: (read(np.concatenate([h0[None], h])), h[-1]),
    })  # fmt: skip


def leaky(y: np.ndarray, alpha: float) -> np.ndarray:
    """Outputs of which each keeps a share of the one before."""
    kept = [alpha * y[0]]
    for y_t in y[1:]:
        kept.append((1 - alpha) * kept[-1] + alpha * y_t)
    return np.stack(kept)


def handing_z_on(params: Params, alpha: float, h: Any, x: Any) -> tuple:
    """The states of a loop that hands z_t on in place of h_t, and the last z_t."""
    states = []
    for x_t in x:
        z = np.tanh(params.W @ h + params.U @ x_t + params.b)
        states.append((1 - alpha) * h + alpha * z)
        h = z
    return np.stack(states), h


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


def times(factor: float | int) -> Callable:
    """A state as it is; the derivative that goes back through it is multiplied by a factor."""
    return altered(lambda h: h, lambda h, bar: (factor * bar,))


cut = jax.lax.stop_gradient


def cost(model: Model, alpha: float, h: Any, x: Any, target: Any, *, nudges: Any = None,
         leak: Callable = lambda h, t, z: h, recurrent: Callable = lambda h, t: h, read: Callable = lambda h, t: h,
         squash: Callable = lambda a, h, t: jnp.tanh(a), product: Callable = lambda W, h, rest: W @ h + rest,
         blend: Callable = lambda alpha, h, z: (1 - alpha) * h + alpha * z, counts: Callable = lambda t: 1.0) -> Any:  # fmt: skip
    """The loss of the slow loop, in pieces that can be replaced by others with the same values and wrong derivatives.

    `nudges` are added to the argument of tanh and to the state: the derivatives with respect to them are ā_t and h̄_t.
    """
    (W, U, b), V, c = model
    total = 0.0
    for t in range(len(x)):
        a = product(W, recurrent(h, t), U @ x[t] + b) + (0 if nudges is None else nudges[0][t])
        z = squash(a, h, t)
        h = blend(alpha, leak(h, t, z), z) + (0 if nudges is None else nudges[1][t])
        total += counts(t) * 0.5 * jnp.sum((V @ read(h, t) + c - target[t]) ** 2)
    return total


def gradient(inputs: tuple, **pieces: Any) -> Any:
    """The derivative of the loss with respect to every weight, as `jax.grad` finds it through the pieces."""
    model, alpha, *rest = inputs
    with runtime.float64():
        model, *rest = jax.tree.map(jnp.asarray, (model, *rest))
        return jax.tree.map(np.asarray, jax.grad(lambda model: cost(model, alpha, *rest, **pieces))(model))


def totals(inputs: tuple, **pieces: Any) -> tuple:
    """The total derivatives of the loss with respect to the argument of tanh and to the state, ā and h̄, (T, H) each."""
    model, alpha, h0, x, target = inputs
    with runtime.float64():
        zero = jnp.zeros((len(x), len(h0)))
        bars = jax.grad(lambda nudges: cost(model, alpha, h0, x, target, nudges=nudges, **pieces))((zero, zero))
    return tuple(map(np.asarray, bars))


def paired(right: Model, a_bar: Any, before: Any, x: Any) -> Model:
    """The gradient with its sums over time made from other rows."""
    return right._replace(rnn=Params(a_bar.T @ before, a_bar.T @ x, a_bar.sum(axis=0)))


def forwards(inputs: tuple) -> np.ndarray:
    """The ā of a sweep from the first step to the last."""
    model, alpha, h0, x, target = inputs
    a_bar, h_bar = totals(inputs)
    errors = forward(model.rnn, alpha, h0, x) @ model.V.T + model.c - target
    handed, rows = 0.0, []
    for J, ratio, error in zip(step_jacobians(model.rnn, alpha, h0, x), a_bar / h_bar, errors):
        now = model.V.T @ error + handed
        handed = J.T @ now
        rows.append(ratio * now)
    return np.stack(rows)


def without_own_error(inputs: tuple) -> np.ndarray:
    """The ā of a sweep back in which a step's own error takes the way through W alone."""
    model, alpha, h0, x, target = inputs
    a_bar, h_bar = totals(inputs)
    errors = forward(model.rnn, alpha, h0, x) @ model.V.T + model.c - target
    handed, rows = 0.0, []
    for J, ratio, error in zip(step_jacobians(model.rnn, alpha, h0, x)[::-1], (a_bar / h_bar)[::-1], errors[::-1]):
        own = model.V.T @ error
        rows.append(ratio * (own + handed))
        handed = J.T @ (own + handed) - (1 - alpha) * own
    return np.stack(rows[::-1])


def scaled(tree: Any, factor: float | int) -> Any:
    return jax.tree.map(lambda leaf: factor * leaf, tree)


def added(trees: list) -> Any:
    return jax.tree.map(lambda *leaves: sum(leaves), *trees)


def descended(model: Model, right: Model, given: Any) -> Any:
    """The model after a step downhill, with the rate that explains what was returned best."""
    ours, theirs = jax.tree.leaves(right), jax.tree.leaves(given)
    if [leaf.shape for leaf in ours] != [leaf.shape for leaf in theirs]:
        return right
    moved = [weight - leaf for weight, leaf in zip(jax.tree.leaves(model), theirs)]
    rate = sum(float((a * b).sum()) for a, b in zip(moved, ours)) / sum(float((b * b).sum()) for b in ours)
    return jax.tree.map(lambda weight, slope: weight - rate * slope, model, right)


def nearest(tries: list, given: Any) -> Any:
    """The one of several trees that comes nearest to what was returned."""
    leaves = jax.tree.leaves(given)
    if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in jax.tree.leaves(tries[0])]:
        return tries[0]
    return min(tries, key=lambda tree: sum(float(np.abs(a - b).sum()) for a, b in zip(leaves, jax.tree.leaves(tree))))


def later(x: np.ndarray) -> np.ndarray:
    """Each row one place later, zeros in the first."""
    return np.concatenate([0 * x[:1], x[:-1]])


NAMES = "dL/dW (H, H); dL/dU (H, D); dL/db (H); dL/dV (K, H); dL/dc (K)"


def wrong_totals(inputs: tuple, right: Model, given: Any) -> dict[str, Callable]:
    """Mistakes in the loss and in its sum over the steps, common to the exercises that return a gradient."""
    model, *_, target = inputs
    T, K = target.shape
    return {
        "the sign is wrong: the derivative of the loss with respect to y_t is y_t - target_t.": lambda: scaled(right, -1),
        "everything is twice as large: the loss has a factor 1/2.": lambda: scaled(right, 2),
        "everything is half as large: differentiating 1/2 (y_t - target_t)^2 gives y_t - target_t.": lambda: scaled(right, 0.5),
        "everything is divided by T: the loss is a sum over the steps, not a mean.": lambda: scaled(right, 1 / T),
        "everything is divided by T K: the loss is a sum, not a mean.": lambda: scaled(right, 1 / (T * K)),
        "everything is divided by K: the loss is a sum over the outputs, not a mean.": lambda: scaled(right, 1 / K),
        "this is the model after a step downhill: return the gradient itself.": lambda: descended(model, right, given),
    }


@exercise(with_targets, allowed=ALLOWED - {"train"}, forbidden=calls.AUTODIFF)
def bptt(inputs: tuple, outputs: Any) -> str:
    model, alpha, h0, x, target = inputs
    T = len(x)
    right = slopes(lambda model: loss(model, *inputs[1:]), model)
    h = forward(model.rnn, alpha, h0, x)
    before = np.concatenate([h0[None], h[:-1]])
    z = (h - (1 - alpha) * before) / alpha
    error = h @ model.V.T + model.c - target
    wrong = functools.partial(gradient, inputs)
    slope = lambda formula: altered(lambda a, h, t: jnp.tanh(a), lambda a, h, t, bar: (formula(a, h, t) * bar, jnp.zeros_like(h), None))
    blend = lambda old, new: altered(lambda alpha, h, z: (1 - alpha) * h + alpha * z,
                                     lambda alpha, h, z, bar: (None, old * bar, new * bar))
    steep = lambda W, h, rest: 1 - jnp.tanh(W @ h + rest) ** 2
    product = lambda back: altered(lambda W, h, rest: W @ h + rest, lambda W, h, rest, bar: (jnp.outer(bar, h), back(W, h, rest, bar), bar))
    through_tanh = lambda factor: altered(lambda h, z: h, lambda h, z, bar: (factor * (1 - z**2) * bar, jnp.zeros_like(z)))
    sums = lambda change: paired(right, *change(*totals(inputs)))
    first, last = slice(0, 1), slice(T - 1, T)
    problem = difference(outputs, right, NAMES, wrong_totals(inputs, right, outputs) | {
        "only the immediate derivatives are there: no step hears of later ones. Hand h_bar_t back to step t - 1.":
            lambda: wrong(leak=lambda h, t, z: cut(h), recurrent=lambda h, t: cut(h)),
        "the direct way back is missing: h_{t-1} reaches h_t through W and, times 1 - alpha, directly.":
            lambda: wrong(leak=lambda h, t, z: cut(h)),
        "the way back through W is missing: h_{t-1} reaches h_t directly and through W.":
            lambda: wrong(recurrent=lambda h, t: cut(h)),
        "the slope of tanh is taken from h_t: it is 1 - z_t^2, and with a leak z_t is not h_t.":
            lambda: wrong(squash=slope(lambda a, before, t: 1 - ((1 - alpha) * before + alpha * jnp.tanh(a)) ** 2)),
        "the slope of tanh is taken from h_{t-1}: it is 1 - z_t^2.":
            lambda: wrong(squash=slope(lambda a, before, t: 1 - before**2)),
        "the slope of tanh is missing.": lambda: wrong(squash=slope(lambda a, before, t: jnp.ones_like(a))),
        "the slope of tanh is 1 - tanh^2, and here it is 1 - a_t^2, without tanh.":
            lambda: wrong(squash=slope(lambda a, before, t: 1 - a**2)),
        "the slope of tanh is 1 - tanh^2, and here it is 1 - tanh, without the square.":
            lambda: wrong(squash=slope(lambda a, before, t: 1 - jnp.tanh(a))),
        "tanh is applied once more to z_t before the slope is taken: it is 1 - z_t^2.":
            lambda: wrong(squash=slope(lambda a, before, t: 1 - jnp.tanh(jnp.tanh(a)) ** 2)),
        "the slope of tanh belongs to another step: step t has 1 - z_t^2.":
            lambda: wrong(squash=slope(lambda a, before, t: 1 - jnp.asarray(np.roll(z, 1, axis=0))[t] ** 2)),
        "the slope of tanh belongs to step t + 1: step t has 1 - z_t^2.":
            lambda: wrong(squash=slope(lambda a, before, t: 1 - jnp.asarray(np.roll(z, -1, axis=0))[t] ** 2)),
        "this slope is that of the logistic function: tanh has 1 - z_t^2.":
            lambda: wrong(squash=slope(lambda a, before, t: jnp.tanh(a) * (1 - jnp.tanh(a)))),
        "W is not transposed on the way back: a derivative goes back through W^T.":
            lambda: wrong(product=product(lambda W, h, rest, bar: W @ bar)),
        "h_bar goes back through W without the slope of tanh: a_bar does.":
            lambda: wrong(product=product(lambda W, h, rest, bar: W.T @ (bar / steep(W, h, rest)))),
        "the slope of tanh is multiplied after W^T: on the way back it comes first.":
            lambda: wrong(product=product(lambda W, h, rest, bar: steep(W, h, rest) * (W.T @ (bar / steep(W, h, rest))))),
        "alpha is missing: the derivative with respect to z_t is alpha times that with respect to h_t.":
            lambda: wrong(blend=blend(1 - alpha, 1.0)),
        "alpha is missing from what goes back through W.": lambda: wrong(recurrent=lambda h, t: times(1 / alpha)(h)),
        "alpha counts twice in what goes back through W.": lambda: wrong(recurrent=lambda h, t: times(alpha)(h)),
        "alpha is missing from the sums of dL/dW, dL/dU and dL/db.": lambda: sums(lambda a_bar, h_bar: (a_bar / alpha, before, x)),
        "alpha counts twice in dL/dW, dL/dU and dL/db.": lambda: sums(lambda a_bar, h_bar: (a_bar * alpha, before, x)),
        "alpha is missing, and so is the direct way back: this is the sweep of the cell without leak.":
            lambda: wrong(blend=blend(0.0, 1.0)),
        "the leak is missing, on the way forward and back: alpha seems to be 1.": lambda: gradient((model, 1.0, h0, x, target)),
        "what goes back on the direct way is not multiplied by 1 - alpha.": lambda: wrong(blend=blend(1.0, alpha)),
        "what goes back on the direct way is multiplied by alpha: by 1 - alpha.": lambda: wrong(blend=blend(alpha, alpha)),
        "what goes back on the direct way is multiplied by alpha and the slope of tanh: it does not pass through tanh.":
            lambda: wrong(leak=lambda h, t, z: through_tanh(alpha)(h, z)),
        "what goes back on the direct way is multiplied by the slope of tanh: it does not pass through tanh.":
            lambda: wrong(leak=lambda h, t, z: through_tanh(1.0)(h, z)),
        "the error of the step itself does not go back on the direct way: 1 - alpha multiplies the whole h_bar_t.":
            lambda: paired(right, without_own_error(inputs), before, x),
        "alpha and 1 - alpha have changed places on the way back.": lambda: wrong(blend=blend(alpha, 1 - alpha)),
        "only the last step has a loss here: every step has one, and adds its own derivative to h_bar_t.":
            lambda: wrong(counts=lambda t: float(t == T - 1)),
        "the loss of the last step alone goes back into the cell: every step adds its own derivative to h_bar_t.":
            lambda: wrong(read=lambda h, t: h if t == T - 1 else cut(h)),
        "the loss of the last step goes back into the cell twice: the sweep starts from zero.":
            lambda: wrong(read=lambda h, t: times(2)(h) if t == T - 1 else h),
        "the loss of the last step does not go back into the cell.": lambda: wrong(read=lambda h, t: cut(h) if t == T - 1 else h),
        "only the first step has a loss here: every step has one.": lambda: wrong(counts=lambda t: float(t == 0)),
        "the last step's loss is missing: start the sweep at t = T.": lambda: wrong(counts=lambda t: float(t < T - 1)),
        "the targets are not subtracted: the error is y_t - target_t.": lambda: gradient((model, alpha, h0, x, 0 * target)),
        "h0 is not used: the first state is zero.": lambda: gradient((model, alpha, 0 * h0, x, target)),
        "the sweep runs from the first step to the last: it runs back from the last.":
            lambda: paired(right, forwards(inputs), before, x),
        "the sweep's rows are in reverse order where they meet states and inputs: turn them round.":
            lambda: sums(lambda a_bar, h_bar: (a_bar[::-1], before, x)),
        "dL/dW, dL/dU and dL/db are made from h_bar: they need a_bar, behind the slope of tanh.":
            lambda: sums(lambda a_bar, h_bar: (h_bar, before, x)),
        "dL/dW, dL/dU and dL/db are made from h_bar times alpha: they need a_bar, behind the slope of tanh.":
            lambda: sums(lambda a_bar, h_bar: (alpha * h_bar, before, x)),
        "dL/dW pairs a_bar_t with h_t: W is multiplied by the state before, h_{t-1}.":
            lambda: sums(lambda a_bar, h_bar: (a_bar, h, x)),
        "dL/dW pairs a_bar_t with z_{t-1}: W is multiplied by the state h_{t-1}.":
            lambda: sums(lambda a_bar, h_bar: (a_bar, np.concatenate([h0[None], z[:-1]]), x)),
        "dL/dW pairs a_bar_t with z_t: W is multiplied by the state before, h_{t-1}.":
            lambda: sums(lambda a_bar, h_bar: (a_bar, z, x)),
        "h0 is missing from dL/dW: the state before step 1 is h0.": lambda: sums(lambda a_bar, h_bar: (a_bar, later(h), x)),
        "dL/dU pairs a_bar_t with x_{t-1}: step t reads x_t.": lambda: sums(lambda a_bar, h_bar: (a_bar, before, later(x))),
        "dL/dU pairs a_bar_t with x_{t-1}, and a_bar_1 with x_T: step t reads x_t.":
            lambda: sums(lambda a_bar, h_bar: (a_bar, before, np.roll(x, 1, axis=0))),
        "step 1 is missing from dL/dW, dL/dU and dL/db.": lambda: sums(lambda a_bar, h_bar: (a_bar[1:], before[1:], x[1:])),
        "step T is missing from dL/dW, dL/dU and dL/db.": lambda: sums(lambda a_bar, h_bar: (a_bar[:-1], before[:-1], x[:-1])),
        "dL/dW, dL/dU and dL/db hold the term of step 1 alone: add up the terms of all steps.":
            lambda: sums(lambda a_bar, h_bar: (a_bar[first], before[first], x[first])),
        "dL/dW, dL/dU and dL/db hold the term of step T alone: add up the terms of all steps.":
            lambda: sums(lambda a_bar, h_bar: (a_bar[last], before[last], x[last])),
        "dL/db is the term of one step: add up the terms of all.":
            lambda: nearest([right._replace(rnn=right.rnn._replace(b=row)) for row in totals(inputs)[0]], outputs),
        "dL/dW, dL/dU and dL/db are divided by T: add up the terms, without a mean.":
            lambda: right._replace(rnn=scaled(right.rnn, 1 / T)),
        "dL/dV pairs the error of step t with h_{t-1}: y_t is read from h_t.": lambda: right._replace(V=error.T @ before),
        "dL/dV pairs the error of step t with z_t: y_t is read from h_t.": lambda: right._replace(V=error.T @ z),
        "dL/dV and dL/dc hold the last step alone: add up all steps.":
            lambda: right._replace(V=np.outer(error[-1], h[-1]), c=error[-1]),
        "dL/dV and dL/dc hold the first step alone: add up all steps.":
            lambda: right._replace(V=np.outer(error[0], h[0]), c=error[0]),
        "dL/dV and dL/dc are divided by T: add up the terms, without a mean.": lambda: right._replace(V=right.V / T, c=right.c / T),
    })  # fmt: skip
    if "wrong values" in problem:
        problem += " No single known mistake gives this; there may be two. Is it right with alpha = 1, and with one step?"
    return problem


def blocked(rng: np.random.Generator) -> list:
    """Networks of one size, with blocks that do not divide T and that do, of one step, and longer than the sequence."""
    cases = []
    for T, alpha, k in ((12, 0.5, 5), (6, 0.7, 2), (4, 1.0, 1), (5, 0.3, 9)):
        model, alpha, h0, x = network(rng, T, 2, 4, 5, alpha)
        cases.append((*aimed(rng, (model, alpha, h0, x[:T])), k))
    return cases


@exercise(blocked)
def truncated(inputs: tuple, outputs: Any) -> str:
    inputs, k = inputs[:-1], inputs[-1]
    model, alpha, h0, x, target = inputs
    T = len(x)
    starts = [h0, *forward(model.rnn, alpha, h0, x)]
    blocks = lambda length: [slice(first, first + length) for first in range(0, T, length)]
    block_gradient = lambda block, start, model=model: slopes(lambda model: loss(model, alpha, start, x[block], target[block]), model)
    right = added([block_gradient(block, starts[block.start]) for block in blocks(k)])
    begin = lambda hits: dict(leak=lambda h, t, z: cut(h) if hits(t) else h, recurrent=lambda h, t: cut(h) if hits(t) else h)
    wrong = lambda hits=lambda t: t % k == 0, **pieces: gradient(inputs, **{**begin(hits), **pieces})
    from_zero = (model, alpha, 0 * h0, x, target)

    def padded():
        extra = lambda rows: np.pad(rows, ((0, -T % k), (0, 0)))
        return gradient((model, alpha, h0, extra(x), extra(target)), **begin(lambda t: t % k == 0))

    def overlapping():
        return added([block_gradient(slice(block.start, block.stop + 1), starts[block.start]) for block in blocks(k)])

    def moved_back():
        h, parts = h0, []
        for block in blocks(k):
            block = slice(max(min(block.start, T - k), 0), max(min(block.stop, T), k))
            parts.append(block_gradient(block, h))
            h = forward(model.rnn, alpha, h, x[block])[-1]
        return added(parts)

    def sliding():
        looks = [(max(t - k + 1, 0), t) for t in range(T)]
        return added([slopes(lambda model: loss(model, alpha, starts[first], x[first : t + 1], target[first : t + 1])
                             - (loss(model, alpha, starts[first], x[first:t], target[first:t]) if t > first else 0.0), model) for first, t in looks])

    def one_state_old():
        h, parts = h0, []
        for block in blocks(k):
            parts.append(block_gradient(block, h))
            h = [h, *forward(model.rnn, alpha, h, x[block])][-2]
        return added(parts)

    def strided():
        h, parts, count = h0, [], len(blocks(k))
        for place in range(count):
            parts.append(block_gradient(slice(place, None, count), h))
            h = forward(model.rnn, alpha, h, x[place::count])[-1]
        return added(parts)

    def frozen():
        a_bar, _ = totals(inputs, **begin(lambda t: t % k == 0))
        kept = np.arange(T) % k > 0
        return paired(right, a_bar[kept], np.stack(starts[:-1])[kept], x[kept])

    def updated():
        tries = []
        for rate in (1.0, 0.5, 0.1, 0.05, 0.01, 0.001):
            now, parts = model, []
            for block in blocks(k):
                parts.append(block_gradient(block, starts[0] if not parts else h, now))
                h = forward(now.rnn, alpha, h0 if len(parts) == 1 else h, x[block])[-1]
                now = jax.tree.map(lambda weight, slope: weight - rate * slope, now, parts[-1])
            tries.append(added(parts))
        return nearest(tries, outputs)

    return difference(outputs, right, NAMES, wrong_totals(inputs, right, outputs) | {
        "this is the whole gradient: nothing is cut between the blocks. Stop it with jax.lax.stop_gradient.":
            lambda: gradient(inputs),
        "every step is cut off from the one before: cut only where a block begins.": lambda: wrong(lambda t: True),
        "every block starts from h0: the state is carried from one block to the next, only the derivative is cut.":
            lambda: added([block_gradient(block, h0) for block in blocks(k)]),
        "every block starts from a state of zeros: the state is carried from one block to the next, only the derivative is cut.":
            lambda: added([block_gradient(block, (block.start == 0) * h0) for block in blocks(k)]),
        "every block, the first too, starts from a state of zeros: the state is carried on, only the derivative is cut.":
            lambda: added([block_gradient(block, 0 * h0) for block in blocks(k)]),
        "h0 is not used: the first state is zero.": lambda: gradient(from_zero, **begin(lambda t: t % k == 0)),
        "the state that is handed on is one step old: hand on the last state of the block.": one_state_old,
        "the last, shorter block is missing.":
            lambda: added([block_gradient(block, starts[block.start]) for block in blocks(k)[: T // k]] or [scaled(right, 0)]),
        "the last block is filled up, and the steps that do not exist count in the loss.": padded,
        "the blocks overlap by one step, which counts twice.": overlapping,
        "the last block is moved back to have k steps, over steps that count already: it is shorter.": moved_back,
        "the blocks are averaged: add their gradients up.": lambda: scaled(right, 1 / len(blocks(k))),
        "everything is divided by k: the loss is a sum over the steps, not a mean.": lambda: scaled(right, 1 / k),
        "each block's loss is divided by its own length: the loss is a sum over the steps, not a mean.":
            lambda: added([scaled(block_gradient(block, starts[block.start]), 1 / len(x[block])) for block in blocks(k)]),
        "only the last block counts here: every step has a loss.":
            lambda: block_gradient(blocks(k)[-1], starts[blocks(k)[-1].start]),
        "only the first block counts here: every step has a loss.": lambda: block_gradient(slice(0, k), h0),
        "only the last k steps are differentiated: every block is.":
            lambda: block_gradient(slice(max(T - k, 0), T), starts[max(T - k, 0)]),
        "the loss of each step looks back k steps, across the beginning of its block: nothing crosses it.": sliding,
        "the cut is one step early: step k belongs to the first block.": lambda: wrong(lambda t: (t + 1) % k == 0),
        "the cut is one step late: step k + 1 is the first of the second block.": lambda: wrong(lambda t: (t - 1) % k == 0),
        "the blocks are counted from the end: the first one begins at step 1.": lambda: wrong(lambda t: (T - t) % k == 0),
        "the blocks have k + 1 steps.": lambda: wrong(lambda t: t % (k + 1) == 0),
        "the blocks have k - 1 steps.": lambda: wrong(lambda t: t % max(k - 1, 1) == 0),
        "k is taken for the number of blocks: it is their length.": lambda: wrong(lambda t: t % -(-T // k) == 0),
        "there is one cut only, after the first k steps: cut at the beginning of every block.": lambda: wrong(lambda t: t == k),
        "each block holds every so many steps, and not steps that follow each other.": strided,
        "the loss is counted at the last step of each block alone: every step has a loss.":
            lambda: wrong(counts=lambda t: float((t + 1) % k == 0 or t == T - 1)),
        "only the last step of the sequence has a loss here: every step has one.":
            lambda: wrong(counts=lambda t: float(t == T - 1)),
        "the direct way is not cut: stop the whole state between two blocks.": lambda: wrong(leak=lambda h, t, z: h),
        "the direct way is the only one that is cut: stop the whole state between two blocks.":
            lambda: wrong(recurrent=lambda h, t: h),
        "the last state of a block is cut before it is read out: cut it after.":
            lambda: wrong(read=lambda h, t: cut(h) if (t + 1) % k == 0 or t == T - 1 else h),
        "the last state of a whole block is cut before it is read out: cut it after.":
            lambda: wrong(read=lambda h, t: cut(h) if (t + 1) % k == 0 else h),
        "the weights are cut too: at the first step of a block they count like at any other.": frozen,
        "the leak is missing: alpha seems to be 1.": lambda: gradient((model, 1.0, h0, x, target), **begin(lambda t: t % k == 0)),
        "c is missing from the outputs.":
            lambda: gradient((model._replace(c=0 * model.c), *inputs[1:]), **begin(lambda t: t % k == 0)),
        "the targets are not subtracted: the error is y_t - target_t.":
            lambda: gradient((model, alpha, h0, x, 0 * target), **begin(lambda t: t % k == 0)),
        "the weights are changed after each block: all gradients belong to the weights that were given.":
            updated,
    })  # fmt: skip


# ---------------------------------------------------------------- 4, 5: how far a change is felt


def step_jacobians(params: Params, alpha: float, h0: Any, x: Any, at: Any = None) -> np.ndarray:
    """∂h_t/∂h_{t-1} at the states that are visited, or at others, (T, H, H), by central differences."""
    before = np.concatenate([h0[None], forward(params, alpha, h0, x)[:-1]]) if at is None else at
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


def wrong_jacobians(params: Params, alpha: float, h0: Any, x: Any) -> dict[str, Callable]:
    """For each mistake in the derivative of a step, a function that returns the Jacobians of all steps with it, (T, H, H)."""
    W, H = params.W, len(h0)
    J, one = step_jacobians(params, alpha, h0, x), np.eye(H)
    inner = (J - (1 - alpha) * one) / alpha  # of z_t
    h = forward(params, alpha, h0, x)
    before = np.concatenate([h0[None], h[:-1]])
    z = (h - (1 - alpha) * before) / alpha
    rows = lambda slope: (1 - alpha) * one + alpha * slope[:, :, None] * W
    back = np.swapaxes(J, 1, 2)
    return {
        "the leak is missing: the derivative of a step has the part 1 - alpha on its diagonal.": lambda: alpha * inner,
        "the leak is missing, and so is alpha: this is the derivative of the cell of chapter 1.": lambda: inner,
        "alpha is missing on the way through W.": lambda: (1 - alpha) * one + inner,
        "the direct way is not multiplied by 1 - alpha.": lambda: one + alpha * inner,
        "neither way has its factor, 1 - alpha or alpha.": lambda: one + inner,
        "alpha and 1 - alpha have changed places.": lambda: alpha * one + (1 - alpha) * inner,
        "the slope of tanh is missing: this is the linear network.": lambda: np.stack([(1 - alpha) * one + alpha * W] * len(x)),
        "the slope of tanh stands on the wrong side of W: it multiplies rows.":
            lambda: (1 - alpha) * one + alpha * W * (1 - z**2)[:, None, :],
        "the slope of tanh is taken from h_t: it is 1 - z_t^2.": lambda: rows(1 - h**2),
        "the slope of tanh is taken from h_{t-1}: it is 1 - z_t^2.": lambda: rows(1 - before**2),
        "the slope of tanh is taken from alpha z_t: it is 1 - z_t^2.": lambda: rows(1 - (alpha * z) ** 2),
        "the slope of tanh is 1 - z_t, without the square: it is 1 - z_t^2.": lambda: rows(1 - z),
        "W is transposed.": lambda: (1 - alpha) * one + alpha * (1 - z**2)[:, :, None] * W.T,
        "these are transposed Jacobians: jax.jvp pushes forwards, jax.vjp pulls back.": lambda: back,
        "these are transposed Jacobians, taken from the last step to the first: this is the sweep back.": lambda: back[::-1],
        "the steps are taken from the last to the first.": lambda: J[::-1],
        "every step is differentiated at h0: hand the new state on.": lambda: step_jacobians(params, alpha, h0, x, [h0] * len(x)),
        "every step is differentiated at the new state h_t: it starts from h_{t-1}.":
            lambda: step_jacobians(params, alpha, h0, x, h),
        "h0 is not used: the first state is zero.": lambda: step_jacobians(params, alpha, 0 * h0, x),
        "the leak is missing, in the states and in the derivative: alpha seems to be 1.":
            lambda: step_jacobians(params, 1.0, h0, x),
    }


def directed(rng: np.random.Generator) -> list:
    """Networks, each with a direction in which its start is moved."""
    return [(model.rnn, alpha, h0, x, rng.normal(size=h0.shape).astype(np.float32)) for model, alpha, h0, x in networks(rng)]


@exercise(directed, call=calls.traced)
def push(inputs: tuple, outputs: Any) -> str:
    if not isinstance(outputs, tuple) or len(outputs) != 2 or not isinstance(outputs[1], np.ndarray) or outputs[1].ndim != 2:
        return "the call did not return a result and the shapes on the way to it."
    params, alpha, h0, x, v = inputs
    outputs, shapes = outputs
    H = len(h0)
    J = step_jacobians(params, alpha, h0, x)
    right = carried(J, v)
    states = forward(params, alpha, h0, x)
    ways = {words: functools.partial(lambda make: carried(make(), v), make) for words, make in wrong_jacobians(params, alpha, h0, x).items()}
    moved = lambda size: forward(params, alpha, h0 + size * v, x)

    def leaking_v():
        now, rows = v, []
        for J_t in J:
            now = (1 - alpha) * v + (J_t - (1 - alpha) * np.eye(H)) @ now
            rows.append(now)
        return np.stack(rows)

    def stepped():
        now, rows = v, []
        for _ in x:
            now = (1 - alpha) * now + alpha * np.tanh(params.W @ now)
            rows.append(now)
        return np.stack(rows)

    def moving_inputs():
        both = lambda size: forward(params, alpha, h0 + size * v, x + size)
        return (both(1e-5) - both(-1e-5)) / 2e-5

    problem = difference(outputs, right, "v_t (T, H)", {
        "these are the states h_t: return the second result of jax.jvp, the tangent.": lambda: states,
        "this is what jax.jvp returns, states and tangents: return the tangents alone.": lambda: (states, right),
        "v_t is added to the state h_t: return v_t alone.": lambda: states + right,
        "every step starts from v again: push on what came out of the step before.": lambda: J @ v,
        "the leak keeps a share of the first v: it keeps a share of what came out of the step before.": leaking_v,
        "the vector is scaled to length 1 at every step: do not scale it.":
            lambda: right / np.linalg.norm(right, axis=1, keepdims=True),
        "v itself is the first row: the first row is J_1 v.": lambda: np.stack([v, *right[:-1]]),
        "v itself is stepped through tanh: its derivative is wanted.": stepped,
        "the point and the direction have changed places in jax.jvp: the state comes first.":
            lambda: carried(step_jacobians(params, alpha, v, x), h0),
        "the inputs are moved too: only h_0 moves.": moving_inputs,
        "this is the state that follows from h0 + v, and not its derivative.": lambda: moved(1),
        "this is the difference of two runs, from h0 + v and from h0: the derivative is wanted, for v that is arbitrarily small.":
            lambda: moved(1) - states,
        "these are the pulled vectors of the sweep back: jax.jvp pushes forwards.": lambda: ways_back(J, v),
    } | ways)  # fmt: skip
    unlike = problem.endswith(("wrong values.", "zero everywhere."))
    if unlike and ((outputs == 0).mean() > 0.2 or np.abs(outputs).max() > 10 * np.abs(right).max()):
        return f"{problem} Is it a difference quotient with a step so small that rounding swallows it?"
    formed = [shape for shape in np.asarray(shapes, int).tolist() if shape.count(H) >= 2 and H > 1]
    if not problem and formed:
        return (f"the values are right, but an array of shape {tuple(n for n in formed[0] if n >= 0)} is formed on the way, with H = {H}. "
                "jax.jvp gives the product without the matrix.")
    return problem


def ways_back(J: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The vectors of a sweep back from the last step: row t is J_tᵀ ··· J_Tᵀ v."""
    return carried(np.swapaxes(J, 1, 2)[::-1], v)[::-1]


@exercise(lambda rng: [(model.rnn, alpha, h0, x) for model, alpha, h0, x in networks(rng)])
def memory(inputs: tuple, outputs: Any) -> str:
    params, alpha, h0, x = inputs
    H = len(h0)
    J = step_jacobians(params, alpha, h0, x)
    products = carried(J, np.eye(H))
    norms = np.linalg.norm
    frobenius = lambda matrices: norms(matrices, axis=(1, 2))
    right = frobenius(products) / H**0.5
    states = forward(params, alpha, h0, x)
    ways = {words: functools.partial(lambda make: frobenius(carried(make(), np.eye(H))) / H**0.5, make)
            for words, make in wrong_jacobians(params, alpha, h0, x).items()}
    moved = lambda: np.stack([forward(params, alpha, h0 + e, x) for e in np.eye(H)]) - states

    def input_response():
        nudge = lambda i: 1e-5 * np.eye(x.shape[1])[i] * (np.arange(len(x)) == 0)[:, None]
        columns = [(forward(params, alpha, h0, x + nudge(i)) - forward(params, alpha, h0, x - nudge(i))) / 2e-5 for i in range(x.shape[1])]
        return norms(np.stack(columns), axis=(0, 2))

    problem = difference(outputs, right, "m (T)", {
        "the division by the root of H is missing.": lambda: frobenius(products),
        "no root is taken.": lambda: right**2,
        "the sum of squares is not divided by H, and no root is taken.": lambda: frobenius(products) ** 2,
        "the norm is divided by H, so the mean is over all H^2 entries or stands outside the root: divide the sum of squares by H.":
            lambda: frobenius(products) / H,
        "the sum of squares is divided by T, the number of steps: divide by H, the number of directions.":
            lambda: frobenius(products) / len(x) ** 0.5,
        "this is the spread of the responses, with their mean taken off: take the mean of the squares.":
            lambda: norms(products - products.mean(axis=2, keepdims=True), axis=(1, 2)) / H**0.5,
        "this is the largest singular value: the mean over all directions is wanted.": lambda: norms(products, 2, axis=(1, 2)),
        "this is the spectral radius: a norm is wanted.": lambda: np.abs(np.linalg.eigvals(products)).max(axis=1),
        "this is the mean of the lengths: take the root of the mean of their squares.":
            lambda: norms(products, axis=1).mean(axis=1),
        "this is the mean of the lengths of the rows: take the root of the mean of the squares.":
            lambda: norms(products, axis=2).mean(axis=1),
        "the responses are averaged before their length is taken, so that directions cancel: square first.":
            lambda: norms(products.mean(axis=2), axis=1),
        "the responses are added up before their length is taken, so that directions cancel: square first.":
            lambda: norms(products.sum(axis=2), axis=1),
        "this is one direction alone, that of all ones: take all unit vectors.":
            lambda: norms(products.sum(axis=2), axis=1) / H**0.5,
        "only the response of each unit to itself is counted: take all entries.":
            lambda: norms(np.diagonal(products, axis1=1, axis2=2), axis=1) / H**0.5,
        "this is the response to the first unit alone: take all unit vectors.": lambda: norms(products[:, :, 0], axis=1),
        "the sum over time is taken too, or in place of that over units: m has one entry for each step.":
            lambda: norms(products, axis=(0, 1)) / H**0.5,
        "the sum over time is taken too, or in place of that over units: m has an entry for each step.":
            lambda: (products**2).sum(axis=0).mean(axis=0) ** 0.5,
        "the sum over time is taken too, or in place of that over the units: m has one entry for each step.":
            lambda: (products**2).sum(axis=0).mean(axis=1) ** 0.5,
        "these are the single steps: multiply the Jacobians up.": lambda: frobenius(J) / H**0.5,
        "the norms of the single steps are multiplied: multiply the Jacobians, then take the norm.":
            lambda: np.cumprod(frobenius(J) / H**0.5),
        "the Jacobians are multiplied in the wrong order: J_t comes from the left.":
            lambda: frobenius(carried(np.swapaxes(J, 1, 2), np.eye(H))) / H**0.5,
        "these are lags counted back from the last step: m_t is the response of h_t to h_0.":
            lambda: frobenius(ways_back(J, np.eye(H)))[::-1] / H**0.5,
        "lag 0 is in the first place: m_1 is the response of h_1.": lambda: np.concatenate([[1.0], right[:-1]]),
        "everything is divided by the first entry: m_1 need not be 1.": lambda: right / right[0],
        "the start is moved by whole unit vectors: the derivative is wanted, for a change that is arbitrarily small.":
            lambda: norms(moved(), axis=(0, 2)) / H**0.5,
        "this is the size of the states: their response to a change of h_0 is wanted.": lambda: norms(states, axis=1) / H**0.5,
        "this is the length of the states: their response to a change of h_0 is wanted.": lambda: norms(states, axis=1),
        "this is the response to the first input: h_0 is changed, and x is not.": lambda: input_response() / H**0.5,
        "this is the response to the first input: h_0 is changed and x is not.": lambda: input_response() / x.shape[1] ** 0.5,
        "the sum of absolute entries is taken: take squares.": lambda: np.abs(products).sum(axis=(1, 2)) / H**0.5,
    } | ways)  # fmt: skip
    bounds = np.linalg.svd(products, compute_uv=False)
    if problem.endswith("wrong values.") and H > 1 and ((outputs <= bounds[:, 0] + 1e-4) & (outputs >= bounds[:, -1] - 1e-4)).all():
        return f"{problem} Each entry could be the response to a single direction: take the mean over all unit vectors."
    return problem


def responses(rng: np.random.Generator) -> list:
    """Measured memories: falling unevenly, never falling, below from the start, rising again, falling at the end, and at the level."""
    count = lambda least: int(rng.integers(least, least + 3))
    fall = np.exp(-np.arange(1, 25 + count(0)) / rng.uniform(4, 9))
    high = lambda count: np.sort(rng.uniform(0.5, 0.9, count))[::-1]
    ragged = np.concatenate([high(count(2)), rng.uniform(0.97, 1.03) * np.array([10, 5, 6, 19, 3, 2, 1, 1.5, 2, 3, 1.5, 2]) / 100])
    uneven = np.concatenate([np.full(count(4), 0.6), fall])
    again = np.concatenate([high(count(2)), [0.05], high(count(3)), [0.02]])
    late = np.append(high(count(2)), 0.1)
    level = 2.0 ** -count(1)  # exact in binary
    equal = np.concatenate([np.ones(count(1)), [level, 2 * level, level / 2]])
    cases = [(ragged, 0.2), (uneven, 0.2), (fall + 1, 0.1), (fall / 20, 0.1), (again, 0.1), (np.array([0.3]), 0.2), (late, 0.3), (equal, level)]
    return [(m.astype(np.float32), level) for m, level in cases]


def longest(hits: Any) -> int:
    """The length of the longest run of True."""
    return max(map(len, "".join("1" if hit else " " for hit in hits).split()), default=0)


@exercise(responses)
def horizon(inputs: tuple, outputs: Any) -> str:
    m, level = inputs
    T = len(m)
    given = float(outputs) if isinstance(outputs, np.ndarray) and outputs.ndim == 0 else np.nan
    first = lambda hits, otherwise: next((t for t in range(T) if hits(m[t])), otherwise)
    right = first(lambda value: value < level, T)
    never, at_once = right == T, right == 0
    above = [t for t in range(T) if m[t] >= level]
    unless = lambda value: value if value != right else -7.5  # a mistake that does not show in this case explains nothing
    return difference(outputs, right, "the horizon ()", {
        "where the memory never falls below the level, the horizon is T.": lambda: given if never and given in (0, -1) else -7.5,
        "where the memory never falls below the level, the horizon is T, not infinite.": lambda: np.inf if never else -7.5,
        "where the memory never falls below the level, the horizon is T, the number of steps, not the last index.":
            lambda: T - 1 if never else -7.5,
        "where the memory never falls below the level, the horizon is T: T + 1 is one too many.": lambda: T + 1 if never else -7.5,
        "the memory is below the level from the first step: the horizon is then 0.":
            lambda: given if at_once and given in (T, 1, T - 1) else -7.5,
        "all entries above the level are counted, also those after the first fall.": lambda: unless(len(above)),
        "the memory rises above the level again later: the horizon ends where it first falls below.":
            lambda: unless(above[-1] + 1 if above else 0),
        "this is where the memory rises again: the first entry below the level is wanted, and this is the first one that is not.":
            lambda: unless(first(lambda value: value >= level, T)),
        "an entry equal to the level counts as memory: compare with <.": lambda: unless(first(lambda value: value <= level, T)),
        "the last entry is not looked at.": lambda: T if right == T - 1 else -7.5,
        "the first entry is not looked at.": lambda: unless(next((t for t in range(1, T) if m[t] < level), T)) if at_once else -7.5,
        "this is one too many: the step that falls below is counted too.": lambda: right + 1,
        "this is one too few.": lambda: right - 1,
        "this is the number of steps below the level: count those before the first of them.": lambda: unless(T - len(above)),
        "this is the longest stretch above the level: the one at the beginning is wanted.": lambda: unless(longest(m >= level)),
        "the horizon is a whole number of steps: nothing is read off between two of them.":
            lambda: given if given % 1 and abs(given - right) < 1.5 else -7.5,
        "this is the place of the smallest entry: the first one below the level is wanted.": lambda: unless(int(np.argmin(m))),
        "this is the place of the entry nearest to the level: the first one below it is wanted.":
            lambda: unless(int(np.abs(m - level).argmin())),
        "this is an entry of m: the number of steps is wanted.":
            lambda: next((value for value in m if abs(value - given) < 1e-6), -7.5),
        "the level is taken as a share of the first entry: compare with the level itself.":
            lambda: unless(first(lambda value: value < level * m[0], T)),
        "the root of m is compared with the level: compare m itself.": lambda: unless(first(lambda value: value**0.5 < level, T)),
        "the square of m is compared with the level: compare m itself.": lambda: unless(first(lambda value: value**2 < level, T)),
        "this is a line drawn through the first entry on a logarithmic scale: m need not fall by the same factor at every step. Compare its entries.":
            lambda: unless(min(int(np.log(level) / np.log(m[0])), T) if m[0] < 1 else T),
        "this finds one entry below the level, and not the first: m need not fall throughout, so a binary search can miss.":
            lambda: next((t for t in range(right + 1, T) if t == given and m[t] < level), -7.5),
    })  # fmt: skip


# ---------------------------------------------------------------- 6: clipping


def gradients(rng: np.random.Generator) -> list:
    """Gradients to be clipped and not to be clipped, zero, infinite, and not a number; a Model and a dictionary."""
    grown = lambda size: jax.tree.map(lambda leaf: np.float32(size) * leaf, network(rng, 3, 3, 4, 2, 0.5)[0])
    broken = [grown(1)._replace(c=np.array([value, 1.0], np.float32)) for value in (np.inf, np.nan)]
    other = {"U": grown(2).rnn.U, "head": {"V": grown(1).V}}
    return [(grown(2), 0.7), (grown(30), 5.0), (other, 2.5), (grown(0.01), 1.0), (grown(0), 1.0), *((tree, 1.0) for tree in broken)]


@exercise(gradients)
def clip(inputs: tuple, outputs: Any) -> str:
    gradient, limit = inputs
    leaves = jax.tree.leaves(gradient)
    size = np.sqrt(sum((leaf**2).sum() for leaf in leaves))
    finite = bool(np.isfinite(size))
    zero = jax.tree.map(np.zeros_like, gradient)
    shrunk = lambda factor: jax.tree.map(lambda leaf: factor * leaf, gradient) if finite else zero
    factor = min(1.0, limit / size) if finite and size > 0 else 1.0
    right = (shrunk(factor), size)
    by = lambda norm: (shrunk(min(1.0, limit / norm) if norm > 0 else 1.0), norm)
    flat = np.concatenate([leaf.ravel() for leaf in leaves])
    norms = [np.linalg.norm(leaf) for leaf in leaves]
    each = lambda leaf, axis=None: leaf * np.minimum(1.0, limit / np.maximum(np.linalg.norm(leaf, axis=axis, keepdims=True), 1e-30))
    model = "W (H, H); U (H, D); b (H); V (K, H); c (K); the norm ()"
    names = model if len(leaves) == 5 else "; ".join([*(f"array {count} of the tree" for count in range(1, len(leaves) + 1)), "the norm ()"])
    named = outputs if isinstance(outputs, tuple) and len(outputs) == 2 else (None, None)
    number = isinstance(named[1], np.ndarray) and named[1].ndim == 0
    return difference(outputs, right, names, {
        "each array is clipped by a norm of its own: one norm, over all of them, keeps the direction.":
            lambda: (jax.tree.map(each, gradient), size),
        "each row is clipped by itself: one norm, over all arrays, keeps the direction.":
            lambda: (jax.tree.map(lambda leaf: each(leaf, -1), gradient), size),
        "each entry is clipped: scale the whole gradient, so that its direction is kept.":
            lambda: (jax.tree.map(lambda leaf: np.clip(leaf, -limit, limit), gradient), size),
        "a gradient below the limit is changed: clipping only ever shortens.":
            lambda: (shrunk(limit / size), size) if 0 < size <= limit else (zero, -1.0),
        "long gradients are not shortened: multiply by the smaller of 1 and limit / norm.":
            lambda: (gradient, size) if finite and size > limit else (zero, -1.0),
        "the gradient is scaled to length 1 and not to the limit.":
            lambda: (shrunk(1 / size if size > limit else 1.0), size) if size > 0 else (zero, -1.0),
        "the gradient is multiplied by the limit: by limit / norm.": lambda: (shrunk(min(1.0, limit)), size),
        "the root is missing from the norm.": lambda: by(size**2),
        "the norm that is returned is its square: take the root.": lambda: (right[0], size**2),
        "the norm returned is that after clipping: return the norm before.": lambda: (right[0], min(size, limit)),
        "the factor is returned in place of the norm.": lambda: (right[0], factor),
        "the norms of the arrays are added up: add up their squares, then take the root.": lambda: by(sum(norms)),
        "absolute entries are added up: add up squares, then take the root.": lambda: by(np.abs(flat).sum()),
        "the squares are averaged: add them up.": lambda: by((flat**2).mean() ** 0.5),
        "this norm is the largest entry: take the root of the sum of squares.": lambda: by(np.abs(flat).max()),
        "this norm is the largest of the arrays' norms: take the root of the sum of all squares.": lambda: by(max(norms)),
        "the norm is that of the first array alone.": lambda: by(norms[0]),
        "the norm is that of the last array alone.": lambda: by(norms[-1]),
        "matrices are measured by their largest singular value: take the root of the sum of squares.":
            lambda: by(sum(np.linalg.norm(leaf, 2) ** 2 for leaf in leaves) ** 0.5) if finite else (zero, -1.0),
        "gradients above the limit are set to zero: shorten them.": lambda: (shrunk(0.0 if size > limit else 1.0), size),
        "the norm is missing: return the clipped tree and the norm.": lambda: right[0],
        "the two results have changed places: the clipped tree comes first.": lambda: right[::-1],
        "the tree has lost its form: return the arrays in the form in which they came (jax.tree.map keeps it).":
            lambda: (tuple(jax.tree.leaves(right[0])), size),
        "the tree has become one long vector: return the arrays in the form in which they came.":
            lambda: (np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(right[0])]), size),
        "for a gradient that is not finite a single 0 is returned: return a tree of zeros.":
            lambda: (0.0, size) if not finite else -1.0,
        "the norm of a gradient that is not finite is returned as it is, infinite or NaN.":
            lambda: (zero, named[1]) if not finite and number else -1.0,
        "something is added to the norm, or to its square: return the norm itself.":
            lambda: (named[0], named[1]) if finite and number and 0 < named[1] - size < 0.2 and nearly(named[0], right[0]) else -1.0,
        "a gradient of zeros becomes NaN: 0/0 arises. Divide by something that is not 0 where the norm is.":
            lambda: (jax.tree.map(lambda leaf: np.nan * leaf, gradient), 0.0) if size == 0 else -1.0,
        "a gradient with an infinite entry or a NaN is passed on, whole or in part: return zeros in all arrays, so that the step is skipped.":
            lambda: outputs if not finite and same_form(outputs, right) else -1.0,
    })  # fmt: skip


def nearly(given: Any, right: Any) -> bool:
    """Whether two trees agree to about a tenth."""
    return same_form(given, right) and all(close(a, b, 0.1) for a, b in zip(jax.tree.leaves(given), jax.tree.leaves(right)))


def same_form(given: Any, right: Any) -> bool:
    return jax.tree.map(np.shape, given) == jax.tree.map(np.shape, calls.arrays(right))


# ---------------------------------------------------------------- 8: bias


def batches(rng: np.random.Generator) -> list:
    """Pairs of gradients of B examples each: unlike, shorter, alike in the mean alone, and equal."""
    draw = lambda B: [jax.tree.map(lambda *leaves: np.stack(leaves), *(network(rng, 3, 2, 3, 2, 0.5)[0] for _ in range(B))) for _ in range(2)]
    (a, b), (c, d), (e, _) = draw(5), draw(7), draw(4)
    return [(a, b), (jax.tree.map(lambda leaf: 0.5 * leaf, d), d), (jax.tree.map(lambda leaf: leaf[::-1], c), c), (e, e)]


@exercise(batches)
def bias(inputs: tuple, outputs: Any) -> str:
    flat = lambda tree: np.concatenate([leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(tree)], axis=1)
    short, full = map(flat, inputs)
    norm = np.linalg.norm
    mean = lambda rows: rows.mean(axis=0)
    apart = short - full
    right = norm(mean(apart)) / norm(mean(full))
    leaves = list(zip(*map(jax.tree.leaves, inputs)))
    lengths = lambda pick: [norm(pick(a, b)) for a, b in leaves]
    lengths_per_entry = lambda pick: [norm(pick(a, b)) / a[0].size ** 0.5 for a, b in leaves]
    above, below = lengths(lambda a, b: mean(a - b)), lengths(lambda a, b: mean(b))
    unit = lambda rows: rows / norm(rows, axis=1, keepdims=True)
    cosine = lambda: mean(short) @ mean(full) / (norm(mean(short)) * norm(mean(full)))
    return difference(outputs, right, "the bias ()", {
        "each example is compared by itself, so that errors in opposite directions do not cancel: take the mean over the batch first.":
            lambda: (norm(apart, axis=1) / norm(full, axis=1)).mean(),
        "the lengths of the differences are averaged, so that errors in opposite directions do not cancel: take the mean over the batch first.":
            lambda: norm(apart, axis=1).mean() / norm(mean(full)),
        "the lengths are averaged, above and below: take the mean over the batch first.":
            lambda: norm(apart, axis=1).mean() / norm(full, axis=1).mean(),
        "absolute differences are averaged, so that errors in opposite directions do not cancel: average the differences themselves.":
            lambda: norm(mean(np.abs(apart))) / norm(mean(full)),
        "absolute differences are averaged, and absolute gradients: average them with their signs.":
            lambda: norm(mean(np.abs(apart))) / norm(mean(np.abs(full))),
        "one number for each example is returned: take the mean over the batch first.":
            lambda: norm(apart, axis=1) / norm(full, axis=1),
        "the lengths of the single gradients are averaged below the line: it is the length of their mean.":
            lambda: norm(mean(apart)) / norm(full, axis=1).mean(),
        "the length is taken over the whole batch at once: take the mean over the batch first.": lambda: norm(apart) / norm(full),
        "the examples are added up above the line and averaged below: average both.":
            lambda: norm(apart.sum(axis=0)) / norm(mean(full)),
        "the examples are averaged above the line and added up below: average both.":
            lambda: norm(mean(apart)) / norm(full.sum(axis=0)),
        "the median of the examples is taken: take their mean.":
            lambda: norm(np.median(short, axis=0) - np.median(full, axis=0)) / norm(np.median(full, axis=0)),
        "only the first example is looked at: take the mean over the batch.": lambda: norm(apart[0]) / norm(full[0]),
        "each gradient is brought to length 1 before the mean: average the gradients as they are.":
            lambda: norm(mean(unit(short) - unit(full))) / norm(mean(unit(full))),
        "this is the spread over the examples, that is noise: bias is the length of the mean difference.":
            lambda: norm(apart.std(axis=0)) / norm(mean(full)),
        "the division by the length of the mean full gradient is missing.": lambda: norm(mean(apart)),
        "it is divided by the length of the truncated gradient: divide by that of the full one.":
            lambda: norm(mean(apart)) / norm(mean(short)),
        "it is divided by the length of the mean of both: divide by that of the full one.":
            lambda: 2 * norm(mean(apart)) / norm(mean(short + full)),
        "it is divided by the sum of both lengths: divide by that of the full one.":
            lambda: norm(mean(apart)) / (norm(mean(short)) + norm(mean(full))),
        "this is the difference of the lengths: take the length of the difference.":
            lambda: abs(norm(mean(short)) - norm(mean(full))) / norm(mean(full)),
        "this is the difference of the lengths, with its sign: take the length of the difference.":
            lambda: (norm(mean(short)) - norm(mean(full))) / norm(mean(full)),
        "this is the difference of the lengths, with its sign turned: take the length of the difference.":
            lambda: (norm(mean(full)) - norm(mean(short))) / norm(mean(full)),
        "this is the ratio of the lengths: take the length of the difference.": lambda: norm(mean(short)) / norm(mean(full)),
        "this is 1 minus the ratio: take the length of the difference.": lambda: 1 - right,
        "the roots are missing: this is a ratio of squares.": lambda: right**2,
        "the root is missing above the line.": lambda: norm(mean(apart)) ** 2 / norm(mean(full)),
        "the root is missing below the line.": lambda: norm(mean(apart)) / norm(mean(full)) ** 2,
        "this is the cosine of the angle between the two: the length of the difference is wanted.": cosine,
        "this is 1 minus the cosine of the angle between the two: the length of the difference is wanted.": lambda: 1 - cosine(),
        "this is the angle between the two: the length of the difference is wanted.": lambda: np.arccos(np.clip(cosine(), -1, 1)),
        "each array has a ratio of its own, and they are averaged: one length, over all arrays, above and below.":
            lambda: np.mean(np.divide(above, below)),
        "each array has a ratio of its own, and they are added up: one length, over all arrays, above and below.":
            lambda: np.sum(np.divide(above, below)),
        "each array has a ratio of its own: one length, over all arrays, above and below.":
            lambda: jax.tree.unflatten(jax.tree.structure(inputs[0]), list(np.divide(above, below))),
        "the lengths of the arrays are added up: add up their squares, then take the root.": lambda: sum(above) / sum(below),
        "only the first array is looked at: all arrays count.": lambda: above[0] / below[0],
        "only the weights of the cell are looked at: V and c count too.": lambda: norm(above[:3]) / norm(below[:3]),
        "only the part of the difference along the full gradient is measured: take the length of all of it.":
            lambda: abs(mean(apart) @ mean(full)) / norm(mean(full)) ** 2,
        "the squares are averaged within each array, so that small arrays weigh as much as large ones: add them up.":
            lambda: norm(lengths_per_entry(lambda a, b: mean(a - b))) / norm(lengths_per_entry(lambda a, b: mean(b))),
        "each entry is divided by its own entry: divide the length by the length.": lambda: norm(mean(apart) / mean(full)),
        "each entry is divided by its own entry, and the mean is taken: divide the length by the length.":
            lambda: np.abs(mean(apart) / mean(full)).mean(),
        "absolute entries are added up: take the root of the sum of squares.":
            lambda: np.abs(mean(apart)).sum() / np.abs(mean(full)).sum(),
        "the largest entry is taken for the length: take the root of the sum of squares.":
            lambda: np.abs(mean(apart)).max() / np.abs(mean(full)).max(),
        "the mean is over the last axis of each array: over the first, the examples.":
            lambda: norm(lengths(lambda a, b: (a - b).mean(axis=-1))) / norm(lengths(lambda a, b: b.mean(axis=-1))),
        "each array is averaged over all its axes: over the first alone.":
            lambda: norm([(a - b).mean() for a, b in leaves]) / norm([b.mean() for _, b in leaves]),
        "this is the difference itself, not its length.": lambda: mean(apart) / norm(mean(full)),
    })  # fmt: skip
