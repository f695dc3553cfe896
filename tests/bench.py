"""Times one training step of our cells beside those of Flax and PyTorch, on the CPU, and prints a table: `make bench`."""

import os
import platform
import statistics
import time
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from unrolled import gates

B, T, D, H = 64, 100, 2, 64
WARM_UP, REPEATS, RATE = 3, 20, 1e-3
PAUSE = 0.05  # seconds between two steps: the threads of PyTorch go on turning for a while, and would slow who comes next
STEPS = {"LSTM": gates.lstm_step, "GRU": gates.gru_step}
NNX = {"LSTM": nnx.OptimizedLSTMCell, "GRU": nnx.GRUCell}


class Model(nnx.Module):
    """Flax's layer, and a read-out of its last hidden state."""

    def __init__(self, kind, rngs):
        self.kind, self.rnn = kind, nnx.RNN(NNX[kind](D, H, rngs=rngs), rngs=rngs)
        self.out = nnx.Linear(H, 1, rngs=rngs)

    def __call__(self, x):
        zeros = jnp.zeros((len(x), H))
        return self.out(self.rnn(x, initial_carry=(zeros, zeros) if self.kind == "LSTM" else zeros)[:, -1])


def trainer(predict, params, x, y):
    """A compiled step of Adam on the mean squared error of `predict(params, x)`, which returns the loss before it."""
    optimizer = optax.adam(RATE)
    now = [params, optimizer.init(params)]

    @jax.jit
    def update(params, state):
        cost, gradient = jax.value_and_grad(lambda params: ((predict(params, x) - y) ** 2).mean())(params)
        change, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, change), state, cost

    def step():
        *now[:], cost = update(*now)
        return float(jax.block_until_ready((cost, now))[0])

    return step


def of_ours(kind, model, x, y):
    def predict(params, x):
        layers, V, c = params
        h, _ = jax.vmap(lambda x: gates.run(STEPS[kind], layers, x))(x)
        return h[:, -1] @ V + c

    return trainer(predict, ([(gates.from_nnx(model.rnn.cell),)], model.out.kernel[...], model.out.bias[...]), x, y)


def of_flax(kind, model, x, y):
    """As fast as Flax goes: the module is taken apart once, so that no step has to."""
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    return trainer(lambda params, x: nnx.merge(graph, params, rest)(x), params, x, y)


def of_torch(kind, model, x, y):
    try:
        import torch
    except ModuleNotFoundError:
        return None
    rnn, out = getattr(torch.nn, kind)(D, H, batch_first=True), torch.nn.Linear(H, 1)
    tensors = lambda arrays: {name: torch.from_numpy(np.array(values)) for name, values in arrays.items()}
    rnn.load_state_dict(tensors(gates.to_torch([(gates.from_nnx(model.rnn.cell),)])))
    out.load_state_dict(tensors({"weight": model.out.kernel[...].T, "bias": model.out.bias[...]}))
    optimizer = torch.optim.Adam([*rnn.parameters(), *out.parameters()], lr=RATE)
    x, y = tensors({"x": x, "y": y}).values()

    def step():
        optimizer.zero_grad()
        cost = ((out(rnn(x)[0][:, -1]) - y) ** 2).mean()
        cost.backward()
        optimizer.step()
        return cost.item()

    return step


def measure(kind):
    """Milliseconds of each step of each library; the libraries take turns, from the same weights and on the same data."""
    x, y = (jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32) for shape in ((B, T, D), (B, 1)))
    model = Model(kind, nnx.Rngs(0))
    makers = {"ours": of_ours, "flax.nnx": of_flax, "torch": of_torch}
    steps = {name: make(kind, model, x, y) for name, make in makers.items()}
    first = [step() for step in steps.values() if step]
    assert max(first) - min(first) <= 1e-5 * max(first), f"the losses before the first step differ: {first}"
    times = {name: [] for name in steps}
    for _ in range(WARM_UP + REPEATS):
        for name, step in steps.items():
            if step:
                time.sleep(PAUSE)
                start = time.perf_counter()
                step()
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: taken[WARM_UP:] for name, taken in times.items()}


def main():
    jax.config.update("jax_platforms", "cpu")
    results = {kind: measure(kind) for kind in STEPS}
    names = {"ours": "unrolled.gates", "flax.nnx": "flax.nnx.RNN", "torch": "torch.nn"}
    print(f"One training step (loss, gradient, Adam) at B = {B}, T = {T}, D = {D}, H = {H}, on the CPU, in float32;")
    print(f"median of {REPEATS} steps in turn after {WARM_UP + 1}, with the fastest and the slowest.\n")
    print("| cell | library | median, ms | from, ms | to, ms | of flax.nnx |\n| --- | --- | --- | --- | --- | --- |")
    for kind, taken in results.items():
        reference = statistics.median(taken["flax.nnx"])
        for name, times in taken.items():
            if times:
                median = statistics.median(times)
                print(f"| {kind} | {names[name]} | {median:.1f} | {min(times):.1f} | {max(times):.1f} | {median / reference:.2f} |")
            else:
                print(f"| {kind} | {names[name]} | absent | | | |")
    versions = [f"{name} {version(name)}" for name in ("jax", "flax", "optax")]
    threads = ""
    if all(taken["torch"] for taken in results.values()):
        import torch

        versions.append(f"torch {torch.__version__}")
        threads = f" PyTorch uses {torch.get_num_threads()} threads, JAX its default."
    print(f"\nPython {platform.python_version()}, {', '.join(versions)}; {os.cpu_count()} cores.{threads}")
    print(f"The load of the machine was {os.getloadavg()[0]:.1f} at the end; a figure from a busy machine is no measurement.")


if __name__ == "__main__":
    main()
