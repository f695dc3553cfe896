"""The one training loop of the course."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key
from tqdm.auto import tqdm

from unrolled.runtime import static
from unrolled.shapes import Positive, Size, checked

CHUNK = 100  # steps between two movements of the progress bar


@checked
def fit(
    params: Any, loss: Callable, sample: Callable,
    keys: Key[Array, "R"], steps: Size, optimizer: optax.GradientTransformation,
) -> tuple[Any, Float[Array, "R steps"]]:
    """Trains R runs at once, each on its own fresh data; returns weights and losses.

        params ← params + optimizer(∇ loss(params, sample(key))), `steps` times for each of the R keys

    A run is the same, but for rounding, whether it is trained alone or among others. Calls with the same loss,
    sample and optimizer and the same shapes compile once. A progress bar moves along, unless outputs are being stored.

    Args:
        params: the parameters of all runs at the start, any tree of arrays with a leading axis R; `stack` makes it
            from R trees, `jax.vmap(init)(keys)` from R keys.
        loss: (parameters of one run, batch) -> a number, (), to be made small.
        sample: key -> batch, drawn anew at every step.
        keys: one random key for the data of each run, (R,). Runs with the same key see the same data.
        steps: the number of updates.
        optimizer: an optax gradient transformation, such as `adam` makes.

    Returns:
        The trained parameters, with a leading axis R, and the loss before each update, (R, steps).

    Raises:
        TypeError: loss or sample is not a function, loss does not return a number, params hold something else than
            numbers, keys are not random keys, steps is not an integer, or optimizer is not from optax.
        ValueError: keys are not a batch, params do not have its leading axis, steps is below 1, or the loss is not
            one number.
    """
    if not jax.tree.leaves(params):
        raise ValueError(f"fit: params is {params!r}. Expected arrays with a leading axis R: there is nothing to train.")
    for leaf in jax.tree.leaves(params):
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            raise TypeError(f"fit: params has an array of dtype {jnp.result_type(leaf)}. Expected floating-point numbers: "
                            "write jax.tree.map(lambda leaf: leaf.astype(float), params).")
        if jnp.shape(leaf)[:1] != keys.shape:
            raise ValueError(f"fit: params has an array of shape {jnp.shape(leaf)}. Expected a leading axis of R = "
                             f"{len(keys)} runs (taken from keys): write params=train.stack(run_1, run_2, ...).")
    cost = jax.eval_shape(lambda: loss(jax.tree.map(lambda leaf: leaf[0], params), sample(keys[0])))
    if not isinstance(cost, jax.ShapeDtypeStruct) or not jnp.issubdtype(cost.dtype, jnp.floating):
        raise TypeError(f"fit: loss returns {cost}. Expected one floating-point number: return the mean over the batch alone.")
    if cost.shape != ():
        raise ValueError(f"fit: loss has shape {cost.shape}. Expected one number, (): "
                         "take the mean over the batch.")
    state = jax.jit(jax.vmap(optimizer.init))(params)
    losses = jnp.zeros((len(keys), steps))
    with tqdm(total=steps, unit="step", leave=False, disable=static()) as bar:
        for first in range(0, steps, CHUNK):
            last = min(first + CHUNK, steps)
            params, state, losses = advance(
                loss, sample, optimizer, keys, first, last, params, state, losses)
            jax.block_until_ready(losses)
            bar.update(last - first)
    return params, losses


def update(loss, optimizer, params, state, batch):
    """Takes one step of the optimizer on one batch; returns the loss before it too.

        params ← params + optimizer(∇ loss(params, batch))

    Args:
        loss: (parameters, batch) -> a number, ().
        optimizer: an optax gradient transformation.
        params: the parameters, any tree of arrays.
        state: the state of the optimizer for them.
        batch: what loss takes.

    Returns:
        The new parameters, the new state of the optimizer, and the loss before the step, ().
    """
    cost, gradient = jax.value_and_grad(loss)(params, batch)
    change, state = optimizer.update(gradient, state, params)
    return optax.apply_updates(params, change), state, cost


def stack(*runs: Any) -> Any:
    """Stacks the parameters of several runs along a new leading axis, for `fit`.

    Args:
        runs: the parameters of each run, trees of arrays of the same form.

    Returns:
        One such tree, each array with a leading axis R.

    Raises:
        ValueError: no run is given, or the runs differ in form.
    """
    forms = {str(jax.tree.map(jnp.shape, run)) for run in runs}
    if len(forms) != 1:
        given = "; ".join(sorted(forms)) or "none"
        raise ValueError(f"stack: the runs have the forms {given}. Expected one form: give the parameters of every run as "
                         "an argument of its own, as in stack(run_1, run_2), or stack(*runs) for a list.")
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *runs)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def advance(loss, sample, optimizer, keys, first, last, params, state, losses):
    """Takes every run from step `first` to step `last`, in one compiled loop."""
    def run(key, params, state, losses):
        def once(step, now):
            params, state, losses = now
            batch = sample(jax.random.fold_in(key, step))
            params, state, cost = update(loss, optimizer, params, state, batch)
            return params, state, losses.at[step].set(cost)

        return jax.lax.fori_loop(first, last, once, (params, state, losses))

    return jax.vmap(run)(keys, params, state, losses)


@checked
def adam(rate: Positive, steps: Size, clip: Positive = 1.0) -> optax.GradientTransformation:
    """Makes Adam with norm clipping; the rate climbs for a tenth of the steps, then falls along a cosine.

        ∇ ← ∇ · min(1, clip / ‖∇‖), then Adam with β_1 = 0.9, β_2 = 0.99

    The rate climbs from 0 to `rate` and falls to 3 % of it.

    Args:
        rate: the highest learning rate, above 0.
        steps: the number of updates that the schedule spans.
        clip: the largest norm of the gradient, all parameters together, above 0.

    Returns:
        An optax gradient transformation.

    Raises:
        TypeError: rate or clip is not a number, or steps is not an integer.
        ValueError: rate or clip is not above 0, or steps is below 1.

    Source: Kingma and Ba, Adam, 2015, algorithm 1; clipping: Pascanu, Mikolov and Bengio, 2013, algorithm 1.
    """
    warmup = max(1, steps // 10)
    schedule = optax.warmup_cosine_decay_schedule(0.0, rate, warmup, max(steps, warmup + 1), end_value=0.03 * rate)
    return optax.chain(optax.clip_by_global_norm(clip), optax.adam(schedule, b2=0.99))
