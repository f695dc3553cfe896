"""How an answer is called: what a check hands to a student's function, and what it takes back.

This module is all of `unrolled.checks` that is present where labs are graded. It knows no right answer.
"""

import dis
import functools
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

# What differentiates for the writer. An exercise "by hand" refuses these.
AUTODIFF = frozenset(getattr(jax, name) for name in (
    "grad", "value_and_grad", "vjp", "jvp", "linearize", "jacrev", "jacfwd", "jacobian", "hessian", "linear_transpose", "fwd_and_bwd",
) if hasattr(jax, name))  # fmt: skip


class Wrong(AssertionError):
    """An answer that is not right; its text names the likely mistake."""

    def _render_traceback_(self):
        """The message alone: IPython prints this in place of the frames of the check."""
        return [f"Not yet. {self}"]


def value(function: Callable, *inputs: Any) -> Any:
    """Calls the function once."""
    return function(*inputs)


def traced(function: Callable, *inputs: Any) -> tuple[Any, Any]:
    """Traces the function and runs the program that comes out; says too which shapes it computes on the way.

    Returns:
        The result, and the shapes, (N, 8), each filled up with -1: those of all intermediate arrays, in loops too.
    """
    try:
        program, form = jax.make_jaxpr(function, return_shape=True)(*inputs)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
        raise Wrong("JAX can't trace the function. Compute with jnp in place of NumPy, and don't turn arrays into "
                    "Python numbers.") from None  # fmt: skip
    if "callback" in str(program):
        raise Wrong("a part of the function runs outside of JAX, in a callback. Compute with jnp.")
    shapes = {shape for shape in _shapes(program.jaxpr) if len(shape) <= 8}
    rows = [list(shape) + [-1] * (8 - len(shape)) for shape in sorted(shapes)]
    result = jaxpr_as_fun(program)(*jax.tree.leaves(inputs))
    return jax.tree.unflatten(jax.tree.structure(form), result), np.array(rows, int).reshape(-1, 8)


def _shapes(jaxpr: Any) -> Iterable[tuple]:
    """The shapes of everything that a traced program computes, but for transposed copies."""
    for equation in jaxpr.eqns:
        if equation.primitive.name != "transpose":
            yield from (tuple(variable.aval.shape) for variable in equation.outvars)
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from _shapes(inner)


def perform(call: Callable, function: Any, inputs: Iterable, allowed: Iterable[str], forbidden: frozenset = frozenset()) -> Any:
    """Calls a student's function as a check asks, and turns what it returns into plain arrays.

    Args:
        call: `value`, or another of this module.
        function: the student's function.
        inputs: what it is called with; NumPy arrays arrive as JAX arrays.
        allowed: the names of `unrolled` that the lab may use, such as "tasks" or "vanilla_rnn.init".
        forbidden: functions of other packages that the exercise may not use.

    Returns:
        Tuples, lists and dictionaries of NumPy arrays.

    Raises:
        Wrong: it is no function, uses what it may not, or returns something else than arrays of numbers.
    """
    if not callable(function):
        raise Wrong(f"expected a function, and got something of type {type(function).__name__}. Give its name without brackets.")
    refuse(function, frozenset(allowed), forbidden)
    inputs = jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, tuple(inputs))
    return arrays(call(function, *inputs))


def arrays(result: Any, place: str = "") -> Any:
    """What a function returned, as tuples, lists and dictionaries of NumPy arrays.

    Raises:
        Wrong: a part of it is not an array of numbers.
    """
    if isinstance(result, dict):
        return {name: arrays(part, f"{place}[{name!r}]") for name, part in result.items()}
    if isinstance(result, (tuple, list)):
        names = getattr(result, "_fields", None) or range(len(result))
        return tuple(arrays(part, f"{place}.{name}" if isinstance(name, str) else f"{place}[{name}]") for name, part in zip(names, result))
    if isinstance(result, (bool, int, float, np.generic, np.ndarray, jax.Array)):
        result = np.asarray(result)
        if result.dtype.kind in "biuf" or jnp.issubdtype(result.dtype, jnp.floating):
            return result if result.dtype.kind in "biuf" else result.astype(np.float32)
        raise Wrong(f"the result{place} is an array of dtype {result.dtype}. Expected real numbers.")
    if result is None:
        raise Wrong(f"the result{place} is None. {'Expected an array.' if place else 'Does the function end with `return`, on every way through it?'}")
    raise Wrong(f"the result{place} is of type {type(result).__name__}. Expected an array.")


def refuse(function: Any, allowed: frozenset, forbidden: frozenset) -> None:
    """Looks for functions that would answer in the student's place: in the function, and in those of the notebook that it calls.

    Raises:
        Wrong: it uses a name of `unrolled` that is not allowed in this lab, or a forbidden function.
    """
    seen, waiting, home = set(), [function], {}
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        for other in forbidden:
            if found is other or _makes(other, found):
                raise Wrong(f"{other.__name__} answers in your place, and this exercise asks for it by hand.")
        name = _name(found)
        if name and name not in allowed and name.split(".")[0] not in allowed:
            raise Wrong(f"unrolled.{name} answers in your place. Write that part yourself.")
        if not name:
            waiting += _used(found, home)


def _makes(maker: Callable, found: Any) -> bool:
    """Whether a function came out of another of JAX, as `jax.grad(f)` comes out of `jax.grad`, perhaps under `jax.jit`."""
    source, layers = inspect.unwrap(maker).__code__.co_filename, [found]
    for layer in layers:  # a function, the functions of JAX that it is wrapped in, and those that they hold
        code = getattr(layer, "__code__", None)
        if code and code.co_filename == source and code.co_qualname.startswith(f"{maker.__name__}.<locals>"):
            return True
        inner = [getattr(layer, "__wrapped__", None)]
        if isinstance(layer, types.FunctionType) and f"{os.sep}jax{os.sep}_src{os.sep}" in code.co_filename:
            inner += _held(layer)
        layers += [part for part in inner if callable(part) and not any(part is other for other in layers)]
    return False


def _held(function: types.FunctionType) -> list:
    """What a function holds from the function that it was defined in."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    return found


def _name(found: Any) -> str:
    """The name under which `unrolled` has a function or a class, such as "vanilla_rnn.step"; "" for all else."""
    module, _, rest = str(getattr(found, "__module__", "")).partition(".")
    return f"{rest}.{found.__qualname__}" if module == "unrolled" and hasattr(found, "__qualname__") else ""


def _used(found: Any, home: dict) -> list:
    """What a function refers to, if it is one of the notebook; `home` keeps the names of the notebook, once they are met."""
    if isinstance(found, functools.partial):
        return [found.func, *found.args, *found.keywords.values()]
    function = inspect.unwrap(found) if callable(found) else found
    if not isinstance(function, types.FunctionType):
        return []
    notebook = home.setdefault("names", function.__globals__)
    if function.__globals__ is not notebook:
        return []
    codes, used = [function.__code__], _held(function) + list(function.__defaults__ or ())
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        reached = None
        for step in dis.get_instructions(code):  # follows names such as jax.lax.scan through their modules
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                reached = notebook.get(step.argval)
            elif step.opname == "IMPORT_NAME":
                reached = sys.modules.get(step.argval)
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM") and isinstance(reached, types.ModuleType):
                part = getattr(reached, step.argval, None)
                reached = reached if step.opname == "IMPORT_FROM" else part
                used.append(part)
                continue
            elif step.opname not in ("PUSH_NULL", "STORE_FAST", "STORE_NAME", "STORE_DEREF"):
                reached = None
            used.append(reached)
    return used
