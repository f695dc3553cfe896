"""Checks of the labs' answers: inputs, and a judge of what comes out.

A check has three parts. `cases` draws inputs, the student's function is called on each of them, and `judge` says what
is wrong with the outputs, if anything is. Inputs and outputs are arrays. In a notebook all of it happens in place, in one
line; where labs are graded, the call happens in another process, which knows neither the judge nor what follows.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from unrolled.checks import calls
from unrolled.checks.calls import Wrong



class Check(NamedTuple):
    """A check of one function.

    name: what the notebook calls it.
    cases: generator of random numbers -> a list of inputs, each the tuple of arguments of one call.
    judge: (inputs, outputs) -> what is wrong, in words that help, or "".
    allowed: the names of `unrolled` that the lab may use.
    call: how the function is called.
    forbidden: functions of other packages that would answer in the student's place.
    """

    name: str
    cases: Callable
    judge: Callable
    allowed: Iterable[str]
    call: Callable = calls.value
    forbidden: frozenset = frozenset()

    def __call__(self, function: Any, hidden: bool = False) -> None:
        """Checks a function in place: on the visible cases, or on those that the seed in UNROLLED_SEED gives.

        Raises:
            Wrong: the answer is not right; the text names the likely mistake.
        """
        for count, inputs in enumerate(self.draw(os.environ.get("UNROLLED_SEED", "") if hidden else None)):
            try:
                problem = self.verdict(inputs, calls.perform(self.call, function, inputs, self.allowed, self.forbidden))
            except Wrong as wrong:
                problem = str(wrong)
            except Exception as error:  # the student's own: shown without our frames
                raise error.with_traceback(_below(error.__traceback__))
            if problem and count:
                problem += f" ({count} of the cases passed; here the inputs are {_sizes(inputs)}.)"
            if problem:
                raise Wrong(f"{self.name}: {problem}")
        print(f"{self.name}: {'hidden' if hidden else 'visible'} checks passed.")

    def draw(self, seed: str | None = None) -> list:
        """The cases of a seed, any text; without one, those that every student sees."""
        digest = hashlib.sha256(f"{seed}, {self.name}".encode() if seed is not None else self.name.encode()).digest()
        return self.cases(np.random.default_rng(list(digest)))

    def verdict(self, inputs: Any, outputs: Any) -> str:
        """What is wrong with the outputs, in words, or "". The judge sees NumPy arrays of double precision."""
        return self.judge(*(jax.tree.map(_double, tree) for tree in (inputs, outputs)))


def check(cases: Callable, allowed: Iterable[str], **settings: Any) -> Callable:
    """Makes a check of the judge below it; the judge's name is the check's."""
    return lambda judge: Check(judge.__name__, cases, judge, frozenset(allowed), **settings)


def _double(leaf: Any) -> Any:
    return np.asarray(leaf, np.float64) if isinstance(leaf, (np.ndarray, jax.Array)) else leaf


def _sizes(inputs: Any) -> str:
    """The numbers among the inputs, and the shapes of the arrays."""
    text = lambda leaf: str(leaf) if isinstance(leaf, bool) else f"{leaf:g}" if isinstance(leaf, (int, float)) else str(np.shape(leaf))
    return ", ".join(map(text, jax.tree.leaves(inputs)))


def _below(frames: Any) -> Any:
    """The frames of a traceback that lie below the last one of this package."""
    ours, below, last = os.path.dirname(__file__), frames, frames
    while last is not None:
        inside = os.path.dirname(last.tb_frame.f_code.co_filename) == ours
        last = last.tb_next
        below = last if inside else below
    return below or frames
