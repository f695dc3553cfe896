"""The long runs of the course, one function each, and their stored results.

    python -m unrolled.experiments gates_adding

makes a result anew, with the settings that stand in the function's signature, and stores it; `stored` reads it. A
chapter calls the same function at a smaller size.
"""

import argparse
import ast
import hashlib
import importlib.metadata
import inspect
import json
import os
import platform
import re
import symtable
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from unrolled import gates, tasks, train, vanilla_rnn

HERE = Path(__file__).resolve()
FOLDER = HERE.parents[2] / "book/_results"  # in the repository; in an installed package, where the results lie beside
if not FOLDER.is_dir():
    FOLDER = HERE.parent / "results"

# ---------------------------------------------------------------- chapter 2


class Reader(NamedTuple):
    """A cell of any kind, and its read-out V h_T + c."""

    cell: Any
    V: Float[Array, "H"]
    c: Float[Array, ""]


def init_reader(key: Key[Array, ""], init: Callable, D: int, H: int) -> Reader:
    """Draws a cell with `init(key, D, H)`, but U by its own number of inputs, Uniform(-1/√D, 1/√D), and a read-out."""
    key_cell, key_V = jax.random.split(key)
    cell = init(key_cell, D, H)
    cell = cell._replace(U=(H / D) ** 0.5 * cell.U)  # drawn from Uniform(-1/√H, 1/√H)
    return Reader(cell, jax.random.uniform(key_V, (H,), minval=-H**-0.5, maxval=H**-0.5), jnp.zeros(()))


def answer(step: Callable, reader: Reader, x: Float[Array, "T D"]) -> Float[Array, ""]:
    """Reads a sequence, from the state zero, and answers from the last hidden state: y = V h_T + c."""
    states = gates.unroll(step, reader.cell, x)
    h = states.h if isinstance(states, gates.LSTMState) else states
    return reader.V @ h[-1] + reader.c


def first_below(losses: Float[np.ndarray, "steps"], bound: float, window: int = 50) -> int | None:
    """The number of steps after which the mean of the last `window` losses is first below the bound, or None."""
    sums = np.concatenate([[0.0], np.cumsum(losses)])
    below = np.flatnonzero(sums[window:] - sums[:-window] < window * bound)
    return int(below[0]) + window if len(below) else None


def gates_adding(
    T: int = 100, H: int = 32, B: int = 64, steps: int = 1300, rate: float = 5e-3, seeds: Sequence[int] = (0, 1, 2),
) -> tuple[dict, dict]:
    """Trains a vanilla network, LSTMs with forget biases 0 and 1, and a GRU on the adding problem.

    With one seed all see the same data, and the two LSTMs start from the same weights but for the forget bias. The
    matrices U of all are drawn wider than elsewhere, see `init_reader`: with Uniform(-1/√H, 1/√H) the forget bias
    makes no clear difference.

    Args:
        T: the number of time steps.
        H: the number of units of each cell.
        B: the number of sequences in a batch.
        steps: the number of updates.
        rate: the highest learning rate of `train.adam`.
        seeds: a seed for each run of a cell.

    Returns:
        What is measured, in plain numbers: the "baseline", the mean squared error of answering 1; the "steps" in the
        middle of blocks of 25; and for each of the "cells" lists over the seeds: the "error" on 4096 fresh sequences,
        the number of steps to "half" the baseline 1/6 and to 0.01, "solved", by `first_below`, and the "losses",
        the mean in each block. And the trained weights of each cell, Readers with a leading axis of seeds.
    """
    def batch(key, size):
        return jax.vmap(lambda key: tasks.adding(key, T))(jax.random.split(key, size))

    kinds = [
        (vanilla_rnn.step, {"vanilla": vanilla_rnn.init}),
        (gates.lstm_step, {"LSTM, forget bias 0": lambda key, D, H: gates.init_lstm(key, D, H, forget=0.0),
                           "LSTM, forget bias 1": lambda key, D, H: gates.init_lstm(key, D, H, forget=1.0)}),
        (gates.gru_step, {"GRU": gates.init_gru}),
    ]
    keys = [jax.random.key(seed) for seed in seeds]
    fresh = jax.jit(lambda key: batch(key, 4096))(jax.random.key(2026))
    optimizer = train.adam(rate, steps)
    cells, readers, blocks = {}, {}, steps // 25
    for step, inits in kinds:
        def squared_error(reader, batch, step=step):
            x, y = batch
            return jnp.mean((jax.vmap(lambda x: answer(step, reader, x))(x) - y) ** 2)

        start = train.stack(*(init_reader(key, init, 2, H) for init in inits.values() for key in keys))
        same_data = jnp.stack(keys * len(inits))
        trained, losses = train.fit(start, squared_error, lambda key: batch(key, B), same_data, steps, optimizer)
        errors = jax.jit(jax.vmap(squared_error, in_axes=(0, None)))(trained, fresh)
        for number, name in enumerate(inits):
            runs = slice(number * len(keys), (number + 1) * len(keys))
            mine = np.asarray(losses[runs], float)
            cells[name] = {
                "error": digits(errors[runs]),
                "half": [first_below(run, 1 / 12) for run in mine],
                "solved": [first_below(run, 0.01) for run in mine],
                "losses": digits(mine[:, :blocks * 25].reshape(len(keys), blocks, 25).mean(axis=2)),
            }
            readers[name] = jax.tree.map(lambda leaf: leaf[runs], trained)
    baseline = digits(jnp.mean((fresh[1] - 1) ** 2))
    return {"baseline": baseline, "steps": [25 * block + 12 for block in range(blocks)], "cells": cells}, readers


# ---------------------------------------------------------------- results, and the code that made them

EXPERIMENTS = {function.__name__: function for function in (gates_adding,)}
ASIDE = ("unrolled.shapes", "unrolled.runtime")  # they check and show, and change no number


def digits(numbers: Any) -> Any:
    """Rounds an array to three significant digits; gives plain lists, or a number."""
    return np.vectorize(lambda number: float(f"{number:.3g}"), otypes=[float])(np.asarray(numbers)).tolist()


def stored(name: str) -> dict:
    """Reads the stored result of an experiment.

    Args:
        name: its name, that of its function in this module.

    Returns:
        "command", which makes it again; "seconds" and "device", "cores", "versions", which say where it was made;
        "settings", seeds included; "results", the first thing that the function returns; and "code", see `code`.

    Raises:
        ValueError: there is no such experiment.
        FileNotFoundError: it has not been run.
    """
    path = FOLDER / f"{known('stored', name)}.json"
    if not path.exists():
        raise FileNotFoundError(f"stored: {name} has no result here. Expected {path.name}: run {command(name)}.")
    return json.loads(path.read_text(encoding="utf-8"))


def run(name: str) -> Path:
    """Runs an experiment with the settings of its signature and stores the result, for `stored`.

    Args:
        name: its name, that of its function in this module.

    Returns:
        The file that was written.

    Raises:
        ValueError: there is no such experiment.
    """
    function = EXPERIMENTS[known("run", name)]
    settings = {setting: parameter.default for setting, parameter in inspect.signature(function).parameters.items()}
    record = {
        "command": command(name),
        "seconds": None,
        "device": jax.devices()[0].device_kind,
        "cores": os.cpu_count(),
        "versions": {"python": platform.python_version()}
        | {package: importlib.metadata.version(package) for package in ("jax", "flax", "optax", "numpy")},
        "settings": settings,
        "results": None,
        "code": code(function),  # before the run: the source may be edited while it lasts
    }
    start = time.perf_counter()
    record["results"], _ = function(**settings)
    record["seconds"] = round(time.perf_counter() - start)
    text = json.dumps(record, indent=1, allow_nan=False)
    text = re.sub(r"\[([^][{}]*)\]", lambda numbers: f"[{' '.join(numbers[1].split())}]", text)  # each list of numbers on a line
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(text + "\n", encoding="utf-8")
    return path


def command(name: str) -> str:
    """The command that runs an experiment."""
    return f"python -m unrolled.experiments {name}"


def known(caller: str, name: str) -> str:
    """The name, if there is such an experiment."""
    if name not in EXPERIMENTS:
        raise ValueError(f"{caller}: name = {name!r} is unknown. Expected one of {', '.join(EXPERIMENTS)}.")
    return name


def code(function: Callable) -> dict[str, str]:
    """Tells the code of a function, and of all that it uses of this package, by a hash of each part.

    A part is a function, a class, or a number, string or tuple that stands in a module; other things in a module,
    a dict for example, are not looked into, nor is what only checks and shows (`shapes`, `runtime`). Comments,
    docstrings, annotations, the words of errors and the layout do not count, nor does the version of Python.

    Args:
        function: a function of this package.

    Returns:
        For each part its name, with its module, and the first twelve digits of a SHA-256.
    """
    found, waiting = {}, [function]
    while waiting:
        part = inspect.unwrap(waiting.pop())
        source = textwrap.dedent(inspect.getsource(part))
        tree, scope = bare(source), vars(sys.modules[part.__module__])
        found[f"{part.__module__}.{part.__qualname__}"] = digest(plain(tree))
        names = free(symtable.symtable(source, part.__module__, "exec"))
        for node in ast.walk(tree):
            used = inspect.unwrap(meaning(node, {name: scope[name] for name in names & set(scope)}))
            if isinstance(used, (int, float, str, tuple)):
                found[f"{part.__module__}.{ast.unparse(node)}"] = digest(repr(used))
            elif isinstance(used, (FunctionType, type)) and used.__module__.split(".")[0] == "unrolled":
                if used.__module__ not in ASIDE and f"{used.__module__}.{used.__qualname__}" not in found:
                    waiting.append(used)
    return dict(sorted(found.items()))


def digest(thing: Any) -> str:
    """The first twelve digits of a SHA-256 of lists and strings."""
    return hashlib.sha256(json.dumps(thing).encode()).hexdigest()[:12]


def bare(source: str) -> ast.AST:
    """The syntax tree of a function or a class without docstrings, annotations and the words of errors."""
    tree = ast.parse(source).body[0]
    for node in ast.walk(tree):
        for field in {"annotation", "returns", "exc", "cause"} & set(node._fields):
            setattr(node, field, None)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
    return tree


def plain(tree: Any) -> Any:
    """A syntax tree as lists and strings, without fields that are empty; `ast.dump` differs between versions of Python."""
    if isinstance(tree, ast.AST):
        fields = [[name, plain(value)] for name, value in ast.iter_fields(tree) if value is not None and value != []]
        return [type(tree).__name__, *fields]
    return [plain(node) for node in tree] if isinstance(tree, list) else repr(tree)


def free(table: symtable.SymbolTable) -> set[str]:
    """The names in a piece of source that stand for what its module holds, not for something local."""
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return own.union(*map(free, table.get_children()))


def meaning(node: ast.AST, scope: dict) -> Any:
    """What a name, or a name after a dot, stands for in a module, or None."""
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(owner := meaning(node.value, scope), ModuleType):
        return getattr(owner, node.attr, None)
    return None


def main() -> None:
    """Runs the experiment that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m unrolled.experiments", description="Makes a stored result anew.")
    parser.add_argument("name", choices=list(EXPERIMENTS))
    print("written:", run(parser.parse_args().name))


if __name__ == "__main__":
    from unrolled.experiments import main  # the module under its own name, so that `code` knows it

    main()
