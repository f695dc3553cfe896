"""Shapes that are written in a signature, checked when the function is called."""

import functools
import inspect
import math
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key


class AtLeast(NamedTuple):
    """Marks an integer parameter with the least value that makes sense."""

    least: int


class Above(NamedTuple):
    """Marks a number parameter with a value that it must exceed."""

    bound: float


Size = Annotated[int, AtLeast(1)]
Positive = Annotated[float | int | Float[Array, ""], Above(0.0)]

NAMES = {"B": "sequence", "T": "time step", "S": "source time step", "R": "run"}  # what an axis letter counts
KINDS = {Float: (jnp.floating, "floating-point numbers"), Int: (jnp.integer, "integers"),
         Bool: (jnp.bool_, "truth values"), Key: (jax.dtypes.prng_key, "random keys")}
PYTHON = {Float: "float", Int: "int", Bool: "bool"}  # the kinds as Python writes them


def checked(function: Callable) -> Callable:
    """Checks the arguments of a function against its signature, and says kindly what is wrong.

    Array parameters carry jaxtyping annotations such as `x: Float[Array, "T D"]`; a NamedTuple parameter is
    checked field by field. A letter stands for the same length throughout one call and a digit for itself, every axis
    has at least one entry, and all floating-point arrays have one dtype. NumPy arrays become JAX arrays. Literal,
    AtLeast and Above parameters are checked too, and with `| None` what is not None; what has any other annotation,
    and what is returned, is left alone.

    Under `jax.jit` the checks cost time while tracing only; under `jax.vmap` they see a single example.

    Raises (from the function it returns):
        TypeError: an argument is not an array, not of the right dtype, or not of the right class.
        ValueError: an argument has the wrong shape or a value that makes no sense.
    """
    signature = inspect.signature(function)

    @functools.cache
    def hints():
        return get_type_hints(function, include_extras=True)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            parameters = ", ".join(signature.parameters)
            unknown = "".join(f" {name} is not one of them." for name in kwargs if name not in signature.parameters)
            raise TypeError(f"{function.__name__}: {error}. Expected the arguments {parameters}.{unknown}") from None
        seen = {}
        for name, value in bound.arguments.items():
            if name in hints():
                bound.arguments[name] = _check(function.__name__, name, value, hints()[name], seen)
        return function(*bound.args, **bound.kwargs)

    return wrapper


def _check(function: str, name: str, value: Any, expected: Any, seen: dict) -> Any:
    """Checks one argument, or one field of it; `seen` holds the lengths and the dtype met so far in this call."""
    if get_origin(expected) in (Union, UnionType) and NoneType in get_args(expected):
        if value is None:
            return None
        (expected,) = set(get_args(expected)) - {NoneType}
    if hasattr(expected, "dim_str"):
        return _check_array(function, name, value, expected, seen)
    if isinstance(expected, type) and issubclass(expected, tuple) and hasattr(expected, "_fields"):
        return _check_fields(function, name, value, expected, seen)
    if expected is Callable:
        return _check_callable(function, name, value)
    if get_origin(expected) is Literal and value not in get_args(expected):
        allowed = ", ".join(repr(choice) for choice in get_args(expected))
        raise ValueError(f"{function}: {name} = {value!r} is unknown. Expected one of {allowed}.")
    for mark in getattr(expected, "__metadata__", ()):
        if isinstance(mark, AtLeast):
            return _check_integer(function, name, value, mark.least)
        if isinstance(mark, Above):
            return _check_number(function, name, value, mark.bound)
    return value


def _check_fields(function: str, name: str, value: Any, expected: type, seen: dict) -> Any:
    """Checks the class of a NamedTuple, and its fields where their annotations say what they hold."""
    hints = get_type_hints(expected, include_extras=True)
    if not isinstance(value, expected):
        advice = f"make one with {expected.__module__.split('.')[0]}"
        if any(hasattr(hint, "dim_str") for hint in hints.values()):
            advice = f"write {expected.__name__}({', '.join(f'{field}=...' for field in expected._fields)})"
        raise TypeError(f"{function}: {name} is {_given(value)}. Expected {expected.__name__}: {advice}.")
    checked_fields = [_check(function, f"{name}.{field}", part, hints.get(field, Any), seen)
                      for field, part in zip(value._fields, value)]
    unchanged = all(before is after for before, after in zip(value, checked_fields))
    return value if unchanged else expected(*checked_fields)


def _check_callable(function: str, name: str, value: Any) -> Callable:
    if not callable(value):
        raise TypeError(f"{function}: {name} is {_given(value)}. Expected a function: give its name without brackets.")
    return value


def _check_array(function: str, name: str, value: Any, expected: Any, seen: dict) -> Array:
    kind, kind_in_words = KINDS[expected.dtype]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufc" and not np.ma.isMA(value):
        value = jnp.asarray(value)
    wanted = f"Expected {kind_in_words} of shape {_shape(expected, seen)}"
    if not isinstance(value, jax.Array):
        raise TypeError(f"{function}: {name} is {_given(value)}, not an array of JAX. {wanted}: "
                        f"{_array_advice(name, value, expected)}.")
    if not jnp.issubdtype(value.dtype, kind):
        raise TypeError(f"{function}: {name} is {_given(value)}. {wanted}: {_dtype_advice(name, value, expected)}.")
    _check_shape(function, name, value, expected, seen, wanted)
    if expected.dtype is Float:
        dtype, owner = seen.setdefault("dtype", (value.dtype, name))
        if value.dtype != dtype:
            raise TypeError(f"{function}: {name} is {_given(value)}, but {owner} has dtype {dtype}. Expected one "
                            f"dtype throughout: write {name}.astype({owner}.dtype).")
    return value


def _check_shape(function: str, name: str, value: Array, expected: Any, seen: dict, wanted: str) -> None:
    """Checks the number of axes, that none is empty, and that each letter has one length throughout the call."""
    letters = expected.dim_str.split()
    given = f"{function}: {name} is {_given(value)}. {wanted}"
    if value.ndim != len(letters):
        advice = _key_advice(expected) if expected.dtype is Key else (
            "use jax.vmap for a batch" if value.ndim > len(letters) else "add the missing axis")
        raise ValueError(f"{given}: {advice}.")
    for letter, length in zip(letters, value.shape):
        if letter.isdigit():
            if length != int(letter):
                raise ValueError(f"{given}: an axis has length {length} in place of {letter}, see what its entries stand for.")
            continue
        if length == 0:
            entry = NAMES.get(letter, "entry")
            raise ValueError(f"{given}, with at least one {entry}: {letter} = 0 leaves nothing to compute, "
                             f"give {name} at least one {entry}.")
        known, owner = seen.setdefault(letter, (length, name))
        if length != known and owner == name:
            raise ValueError(f"{given}: {letter} stands for {known} and for {length}, {name} must be square.")
        if length != known:
            raise ValueError(f"{given}: {letter} is {length} in {name} and {known} in {owner}, make them equal.")


def _check_integer(function: str, name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{function}: {name} is {_given(value)}. Expected an integer of at least {least}: "
                        f"write {name}={max(least, 10)}, for example.")
    if value < least:
        raise ValueError(f"{function}: {name} = {value}. Expected at least {least}: give a larger value.")
    return int(value)


def _check_number(function: str, name: str, value: Any, bound: float) -> Any:
    if isinstance(value, jax.core.Tracer):
        return value
    dtype = getattr(value, "dtype", np.dtype(type(value)) if isinstance(value, (int, float)) else None)
    if dtype is None or np.ndim(value) or not (jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.integer)):
        raise TypeError(f"{function}: {name} is {_given(value)}. Expected a finite number above {bound:g}: "
                        f"write {name}={bound + 1.0}, for example.")
    if not bound < value < math.inf:
        raise ValueError(f"{function}: {name} = {value}. Expected a finite number above {bound:g}: give a larger value.")
    return value


def _given(value: Any) -> str:
    """Says in words what an argument is."""
    if isinstance(value, (jax.Array, np.ndarray)):
        masked = "masked " if np.ma.isMA(value) else ""
        return f"an array of {masked}dtype {value.dtype} and shape {_tuple(value.shape)}"
    if isinstance(value, (str, int, float)):
        return f"{value!r}, of type {type(value).__name__}"
    return f"of type {type(value).__name__}"


def _shape(expected: Any, seen: dict) -> str:
    """Writes an expected shape, with the lengths that are known already and where they come from."""
    letters = expected.dim_str.split()
    known = [f"{letter} = {seen[letter][0]} (taken from {seen[letter][1]})"
             for letter in dict.fromkeys(letters) if letter in seen]
    return _tuple(letters) + (" with " + " and ".join(known) if known else "")


def _tuple(entries) -> str:
    entries = [str(entry) for entry in entries]
    return f"({entries[0]},)" if len(entries) == 1 else f"({', '.join(entries)})"


def _array_advice(name: str, value: Any, expected: Any) -> str:
    """Says how to make an array of what was given, if that can be done."""
    if expected.dtype is Key:
        return _key_advice(expected)
    if isinstance(value, (list, tuple, int, float)) and not isinstance(value, bool):
        return f"write jnp.asarray({name}, {PYTHON[expected.dtype]})"
    return f"give {name} an array of numbers"


def _dtype_advice(name: str, value: Array, expected: Any) -> str:
    """Says how to turn an array into one of the expected dtype, if that can be done."""
    if expected.dtype is Key:
        return _key_advice(expected)
    if not jnp.issubdtype(value.dtype, jnp.number) or jnp.issubdtype(value.dtype, jnp.complexfloating):
        return f"give {name} an array of real numbers"
    return f"write {name}.astype({PYTHON[expected.dtype]})"


def _key_advice(expected: Any) -> str:
    if expected.dim_str:
        return "write jax.random.split(jax.random.key(0), 3) for three keys"
    return "write jax.random.key(0), and use jax.vmap over several keys"
