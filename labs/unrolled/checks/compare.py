"""How a judge compares what came out with what is right, and finds words for the difference."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from unrolled.checks import calls

TOLERANCE = 2e-4  # of the largest right value: far above the rounding of float32, far below any mistake
FLOOR = 1e-5  # counts as rounding where the right values are nearly zero


def difference(given: Any, right: Any, names: str, mistakes: dict[str, Callable] | None = None) -> str:
    """Says how a result differs from the right one, or "" if it does not.

    Args:
        given: what the student's function returned, as `calls.arrays` makes it.
        right: the right result: an array, or tuples and dictionaries of arrays.
        names: the name of each array and the letters of its axes, separated by semicolons: "y (T, K); h_T (H)".
        mistakes: for each likely mistake, in words, a function without arguments that returns the result of making it.
    """
    right = calls.arrays(right)
    if same(given, right):
        return ""
    with np.errstate(all="ignore"):
        for words, make in (mistakes or {}).items():
            if same(given, calls.arrays(make())):
                return words
        if jax.tree.structure(given) != jax.tree.structure(right):
            return _form(given, right, names)
        return _parts(given, right, [name.strip() for name in names.split(";")])


def same(one: Any, other: Any) -> bool:
    """Whether two trees of arrays have the same form and, but for rounding, the same entries."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    return all(close(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other)))


def close(given: Any, right: Any, tolerance: float = TOLERANCE) -> bool:
    """Whether two arrays have the same shape and, but for rounding, the same entries; infinite ones and NaN in the same places."""
    given, right = np.asarray(given, np.float64), np.asarray(right, np.float64)
    if given.shape != right.shape:
        return False
    finite = np.isfinite(right)
    if not np.array_equal(np.isfinite(given), finite) or not np.array_equal(given[~finite], right[~finite], equal_nan=True):
        return False
    scale = np.abs(right[finite]).max(initial=0.0)
    return bool((np.abs(given[finite] - right[finite]) <= tolerance * scale + FLOOR).all())


# ---------------------------------------------------------------- results of another form


def _form(given: Any, right: Any, names: str) -> str:
    """Words for a result that has not the number or the nesting of the right one."""
    ours, theirs = jax.tree.leaves(right), jax.tree.leaves(given)
    expected = f"Expected {names}."
    if len(ours) == len(theirs) and all(map(close, theirs, ours)):
        return f"the values are right, but they do not stand in the form that is asked for. {expected}"
    if (loose := _loose(given, right)) is not None:
        return f"{loose} is a Python list of arrays: put them together with jnp.stack. {expected}"
    if isinstance(given, tuple):
        if same(given[::-1], right):
            return f"the results stand in another order. {expected}"
        if any(same(part, right) for part in given):
            return f"the right result is there, and something besides: return it alone. {expected}"
    if isinstance(right, tuple) and any(same(given, part) for part in right):
        return f"a part of the result is missing: return {len(right)} things. {expected}"
    if len(theirs) == 1 and len(ours) > 1 and theirs[0].size == sum(leaf.size for leaf in ours):
        return f"the result is one array of shape {theirs[0].shape}: return {len(ours)} of them. {expected}"
    if isinstance(given, tuple) and isinstance(right, tuple) and len(given) == len(right):
        for number, (part, whole) in enumerate(zip(given, right), 1):
            if isinstance(part, tuple) and isinstance(whole, np.ndarray):
                return f"result {number} is a list of {len(part)}: join them to one array. {expected}"
    return f"the function returned {_kind(given)}. {expected}"


def _loose(given: Any, right: Any) -> str | None:
    """Where a list of arrays stands for one array: "the result", or "result 1" of several; None if nowhere."""
    if isinstance(given, tuple) and isinstance(right, np.ndarray) and right.ndim and len(given) == len(right):
        return "the result" if all(map(close, given, right)) else None
    if isinstance(given, tuple) and isinstance(right, tuple) and len(given) == len(right):
        found = [number for number, (a, b) in enumerate(zip(given, right), 1) if isinstance(b, np.ndarray) and _loose(a, b)]
        return f"result {found[0]}" if found else None
    return None


def _kind(tree: Any) -> str:
    if isinstance(tree, tuple):
        return f"{len(tree)} results (join arrays with jnp.stack or jnp.array)" if len(tree) > 3 else f"{len(tree)} results"
    return f"a dictionary of {len(tree)}" if isinstance(tree, dict) else "one array"


# ---------------------------------------------------------------- arrays that are wrong


def _parts(given: Any, right: Any, names: list[str]) -> str:
    """Words for the first array that is wrong, where no known mistake explains the whole."""
    pairs = list(zip(names, jax.tree.leaves(given), jax.tree.leaves(right)))
    shapes, wanted = [a.shape for _, a, _ in pairs], [b.shape for _, _, b in pairs]
    if shapes != wanted and sorted(shapes) == sorted(wanted):
        return f"the results stand in another order. Expected {'; '.join(names)}."
    letters = lambda name: name.partition(" (")[0]
    fine, bad = ([letters(name) for name, a, b in pairs if close(a, b) == right_ones] for right_ones in (True, False))
    name, a, b = next((name, np.asarray(a, np.float64), np.asarray(b, np.float64)) for name, a, b in pairs if not close(a, b))
    others = f" {', '.join(bad[1:])} {'is' if len(bad) == 2 else 'are'} wrong too." if len(bad) > 1 else ""
    others += f" {', '.join(fine)} {'is' if len(fine) == 1 else 'are'} right." if fine else ""
    in_time = "(T" in name
    if a.shape != b.shape:
        words = _first(SHAPES + (SHAPES_IN_TIME if in_time else ()) + AXES, a, b)
        return f"{name} has shape {a.shape}. Expected {b.shape}.{' ' * bool(words)}{words}{others}"
    return f"{letters(name)} {_first(VALUES + (VALUES_IN_TIME if in_time else ()), a, b) or 'has the right shape and wrong values.'}{others}"


def _first(relations: Iterable, a: np.ndarray, b: np.ndarray) -> str:
    """The words of the first relation that holds between a wrong array and the right one, or ""."""
    return next((words for words, holds in relations if holds(a, b)), "") if b.size else ""


def _rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which rows of two arrays of the same shape agree."""
    return np.abs(a - b).reshape(len(a), -1).max(axis=1) <= TOLERANCE * np.abs(b).max() + FLOOR


def _factor(a: np.ndarray, b: np.ndarray) -> float:
    """The number that makes b, times it, come nearest to a."""
    return float(np.vdot(b, a) / np.vdot(b, b)) if b.any() and np.isfinite(b).all() and np.isfinite(a).all() else 0.0


def _holds(long: np.ndarray, short: np.ndarray) -> bool:
    """Whether a vector holds another one, entry beside entry."""
    return 0 < len(short) < len(long) and any(close(short, long[first:first + len(short)]) for first in range(len(long) - len(short) + 1))


def _extra(a: np.ndarray, b: np.ndarray) -> bool:
    return a.ndim == b.ndim and a.ndim > 0 and a.shape[1:] == b.shape[1:]


# What a wrong array of another shape has to do with the right one.
SHAPES = (
    ("It is transposed.", lambda a, b: close(a.T, b)),
    ("It may be transposed.", lambda a, b: a.ndim > 1 and a.shape == b.shape[::-1]),
    ("There is an axis of length 1 too many or too few.", lambda a, b: close(a.squeeze(), b.squeeze())),
    ("Its rows are all there; the last one alone is wanted.", lambda a, b: a.ndim == b.ndim + 1 and len(a) and close(a[-1], b)),
    ("Sum over the first axis: its terms stand side by side.", lambda a, b: a.ndim == b.ndim + 1 and close(a.sum(axis=0), b)),
    ("Its entries are summed up into one number.", lambda a, b: a.ndim == 0 and close(a, b.sum())),
    ("Rows and columns are broadcast against each other: mind (H,) beside (H, 1).", lambda a, b: b.ndim == 1 and a.shape == b.shape * 2),
)

# The same, for an array with a row for each step.
SHAPES_IN_TIME = (
    ("The first row is one too many.", lambda a, b: _extra(a, b) and close(a[1:], b)),
    ("The last row is one too many.", lambda a, b: _extra(a, b) and close(a[:-1], b)),
    ("The first row is missing.", lambda a, b: _extra(a, b) and close(a, b[1:])),
    ("The last row is missing.", lambda a, b: _extra(a, b) and close(a, b[:-1])),
    ("There is one row too many or too few.", lambda a, b: _extra(a, b) and abs(len(a) - len(b)) == 1),
    ("This is its last row alone: one row for each step is wanted.", lambda a, b: close(a, b[-1])),
    ("This is its first row alone: one row for each step is wanted.", lambda a, b: close(a, b[0])),
    ("These are the lengths of its rows: the rows themselves are wanted.", lambda a, b: b.ndim == 2 and close(a, np.linalg.norm(b, axis=1))),
)

# What remains to be said of a wrong shape.
AXES = (
    ("One number is not enough.", lambda a, b: a.ndim == 0),
    ("It is a part of what is wanted.", lambda a, b: a.ndim == b.ndim == 1 and _holds(b, a)),
    ("What is wanted is a part of it.", lambda a, b: a.ndim == b.ndim == 1 and _holds(a, b)),
    ("An axis is summed over that should stay.", lambda a, b: a.ndim < b.ndim),
    ("Is the wrong axis summed over, or the wrong slice taken?", lambda a, b: a.ndim == b.ndim == 1),
    ("An axis is left that should be summed over, or joined to another.", lambda a, b: a.ndim > b.ndim),
)

# What a wrong array of the right shape has to do with the right one.
VALUES = (
    ("has entries that are not a number (NaN).", lambda a, b: np.isnan(a).any() and not np.isnan(b).any()),
    ("has infinite entries.", lambda a, b: not np.isfinite(a).all() and np.isfinite(b).all()),
    ("is zero everywhere.", lambda a, b: not a.any()),
    ("is transposed.", lambda a, b: a.ndim == 2 and a.shape[0] == a.shape[1] > 1 and close(a, b.T)),
    ("has the wrong sign.", lambda a, b: close(-a, b)),
    ("is twice what it should be.", lambda a, b: close(a / 2, b)),
    ("is half of what it should be.", lambda a, b: close(2 * a, b)),
    ("is the right one times a number: a factor is missing, or one too many.",
     lambda a, b: a.size > 2 and abs(_factor(a, b)) > 1e-3 and close(a / _factor(a, b), b)),
    ("is right to two digits. Is something rounded, or a derivative replaced by a difference quotient?",
     lambda a, b: a.size > 1 and close(a, b, 0.01)),
    ("is not far from what it should be. Is a small term missing or wrong, or a derivative replaced by a difference quotient?",
     lambda a, b: a.size > 1 and close(a, b, 0.08)),
)  # fmt: skip

# The same, for an array with a row for each step.
VALUES_IN_TIME = (
    ("runs backwards: its rows are in reverse order.", lambda a, b: len(a) > 2 and close(a, b[::-1])),
    ("comes one step late: row t holds what belongs to row t - 1.", lambda a, b: len(a) > 2 and close(a[1:], b[:-1])),
    ("comes one step early: row t holds what belongs to row t + 1.", lambda a, b: len(a) > 2 and close(a[:-1], b[1:])),
    ("is summed up along the rows: each row should stand by itself.", lambda a, b: len(a) > 2 and close(a, np.cumsum(b, axis=0))),
    ("is right in its first row, and wrong after it: what is handed on from step to step is wrong.",
     lambda a, b: len(a) > 2 and _rows(a, b)[0] and not _rows(a, b)[1:].any()),
    ("is right in its first rows, and wrong after them.", lambda a, b: len(a) > 2 and _rows(a, b)[0] and not _rows(a, b)[-1]),
    ("is right in its last rows, and wrong before them.", lambda a, b: len(a) > 2 and _rows(a, b)[-1] and not _rows(a, b)[0]),
)  # fmt: skip
