"""How a judge compares what came out with what is right, and finds words for the difference."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from unrolled.checks import calls

TOLERANCE = 2e-4  # of the largest right value: far above the rounding of float32, far below any mistake
FLOOR = 1e-6  # counts as rounding where the right values are zero


def difference(given: Any, right: Any, names: str, mistakes: dict[str, Callable] | None = None, tolerance: float = TOLERANCE) -> str:
    """Says how a result differs from the right one, or "" if it does not.

    Args:
        given: what the student's function returned, as `calls.arrays` makes it.
        right: the right result: an array, or tuples of arrays.
        names: the name of each array and the letters of its axes, separated by semicolons: "y (T, K); h_T (H)".
        mistakes: for each likely mistake, in words, a function without arguments that returns the result of making it.
        tolerance: the largest difference that counts as rounding, as a share of the largest entry of the right array.
    """
    right = calls.arrays(right)
    names = [name.strip() for name in names.split(";")]
    if problem := _form(given, right, names):
        return problem
    if same(given, right, tolerance):
        return ""
    for words, make in (mistakes or {}).items():
        if same(given, calls.arrays(make()), tolerance):
            return words
    return _part(given, right, [name.partition(" (")[0] for name in names], tolerance)


def same(one: Any, other: Any, tolerance: float = TOLERANCE) -> bool:
    """Whether two trees of arrays have the same form and, but for rounding, the same entries."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    return all(_close(a, b, tolerance) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other)))


def _close(given: Any, right: Any, tolerance: float) -> bool:
    given, right = np.asarray(given, np.float64), np.asarray(right, np.float64)
    if given.shape != right.shape or not np.array_equal(np.isfinite(given), np.isfinite(right)):
        return False
    finite = np.isfinite(right)
    if not np.array_equal(given[~finite], right[~finite], equal_nan=True):
        return False
    scale = np.abs(right[finite]).max(initial=0.0)
    return bool((np.abs(given[finite] - right[finite]) <= tolerance * scale + FLOOR).all())


def _form(given: Any, right: Any, names: list[str]) -> str:
    """What is wrong with the number of results and their shapes."""
    expected = "; ".join(names)
    if jax.tree.structure(given) != jax.tree.structure(right):
        return f"the function returned {_kind(given)}. Expected {_kind(right)}: {expected}."
    pairs = list(zip(jax.tree.leaves(given), jax.tree.leaves(right)))
    if all(a.shape == b.shape for a, b in pairs):
        return ""
    if sorted(a.shape for a, _ in pairs) == sorted(b.shape for _, b in pairs):
        return f"the results stand in another order. Expected {expected}."
    name, a, b = next((name, a, b) for name, (a, b) in zip(names, pairs) if a.shape != b.shape)
    hint = ""
    if a.shape == b.shape[::-1]:
        hint = " It may be transposed."
    elif a.squeeze().shape == b.squeeze().shape:
        hint = " There is an axis of length 1 too many or too few."
    elif a.shape[:-1] == b.shape[:-1] or a.shape[1:] == b.shape[1:]:
        axis = -1 if a.shape[:-1] == b.shape[:-1] else 0
        if a.ndim == b.ndim and abs(a.shape[axis] - b.shape[axis]) == 1:
            hint = f" There is one entry too {'many' if a.shape[axis] > b.shape[axis] else 'few'}."
    return f"{name} has shape {a.shape}. Expected {b.shape}.{hint}"


def _kind(tree: Any) -> str:
    if isinstance(tree, (tuple, list)):
        return f"{len(tree)} results"
    return f"a dictionary of {len(tree)}" if isinstance(tree, dict) else "one array"


def _part(given: Any, right: Any, names: list[str], tolerance: float) -> str:
    """Words for the first part that is wrong, where no known mistake explains the whole."""
    pairs = list(zip(names, jax.tree.leaves(given), jax.tree.leaves(right)))
    fine = [name for name, a, b in pairs if _close(a, b, tolerance)]
    name, a, b = next((name, a, b) for name, a, b in pairs if not _close(a, b, tolerance))
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    others = f" {', '.join(fine)} {'is' if len(fine) == 1 else 'are'} right." if fine else ""
    return f"{name} {_relation(a, b, tolerance)}{others}"


def _relation(a: np.ndarray, b: np.ndarray, tolerance: float) -> str:
    """How a wrong array is related to the right one of the same shape."""
    if np.isnan(a).any() and not np.isnan(b).any():
        return "has entries that are not a number (NaN)."
    if not np.isfinite(a).all() and np.isfinite(b).all():
        return "has infinite entries."
    if not a.any():
        return "is zero everywhere."
    if a.ndim == 2 and a.shape[0] == a.shape[1] and a.shape[0] > 1 and _close(a, b.T, tolerance):
        return "is transposed."
    factor = float(np.vdot(a, b) / np.vdot(b, b)) if b.any() and np.isfinite(b).all() else 0.0
    if abs(factor) > 1e-3 and _close(a, factor * b, abs(factor) * tolerance):
        return "has the wrong sign." if abs(factor + 1) < 1e-3 else f"is {factor:.3g} times the right one in every entry."
    if a.ndim and len(a) > 2:
        if _close(a, b[::-1], tolerance):
            return "runs backwards: its rows are in reverse order."
        if _close(a[1:], b[:-1], tolerance):
            return "comes one step late: row t holds what belongs to row t - 1."
        if _close(a[:-1], b[1:], tolerance):
            return "comes one step early: row t holds what belongs to row t + 1."
        scale = np.abs(b).max()
        rows = np.abs(a - b).reshape(len(a), -1).max(axis=1) <= tolerance * scale + FLOOR
        if rows[0] and not rows.all():
            return f"is right in its first {int(np.argmin(rows))} of {len(a)} rows, and wrong after them."
        if rows[-1] and not rows.all():
            return f"is right in its last {int(np.argmin(rows[::-1]))} of {len(a)} rows, and wrong before them."
    return "has the right shape and wrong values."
