"""The data of the course: each function draws one example; `jax.vmap` over keys makes a batch."""

from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from unrolled.shapes import AtLeast, Size, checked


@checked
def adding(key: Key[Array, ""], T: Annotated[int, AtLeast(2)]) -> tuple[Float[Array, "T 2"], Float[Array, ""]]:
    """Draws T numbers between 0 and 1 and marks one in each half; the target is the sum of the marked two.

        x_t = (v_t, m_t),  v_t ~ Uniform(0, 1),  m_t in {0, 1},  y = Σ_t m_t v_t

    The first mark falls among the first ⌊T/2⌋ numbers, the second among the others. The target has mean 1 and
    variance 2 · 1/12 = 1/6, so answering 1 whatever the input costs a mean squared error of 1/6.

    Args:
        key: a random key.
        T: the number of time steps, at least 2.

    Returns:
        The sequence, (T, 2), numbers in column 0 and marks in column 1; and the target, ().

    Raises:
        TypeError: key is not a random key, or T is not an integer.
        ValueError: T is below 2.

    Source: after Hochreiter and Schmidhuber, Long short-term memory, 1997, experiment 4, with the values, marks and
    target in use today.
    """
    key_values, key_marks = jax.random.split(key)
    values = jax.random.uniform(key_values, (T,))
    least, bound = jnp.array([0, T // 2]), jnp.array([T // 2, T])  # of the two halves
    marks = jax.nn.one_hot(jax.random.randint(key_marks, (2,), least, bound), T).sum(axis=0)
    return jnp.stack([values, marks], axis=1), marks @ values


@checked
def recall(
    key: Key[Array, ""], T: Size, symbols: Annotated[int, AtLeast(2)] = 8
) -> tuple[Float[Array, "T symbols"], Int[Array, ""]]:
    """Draws T random symbols, one-hot; the target is the first of them, the others distract.

        s_t ~ Uniform{0, ..., symbols - 1},  x_t = one-hot(s_t),  y = s_1

    Guessing costs a cross-entropy of ln(symbols): 2.079 for 8 symbols.

    Args:
        key: a random key.
        T: the number of time steps.
        symbols: the number of different symbols, at least 2.

    Returns:
        The sequence, (T, symbols), and the number of its first symbol, ().

    Raises:
        TypeError: key is not a random key, or T or symbols is not an integer.
        ValueError: T is below 1, or symbols is below 2.

    Source: after Hochreiter and Schmidhuber, Long short-term memory, 1997, experiment 2.
    """
    sequence = jax.random.randint(key, (T,), 0, symbols)
    return jax.nn.one_hot(sequence, symbols), sequence[0]
