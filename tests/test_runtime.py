"""The device in words, the precision, the static mode, and the source of functions as the chapters show it."""

import jax
import jax.numpy as jnp
import pytest
from IPython.display import Markdown

from unrolled import runtime, vanilla_rnn


def documented(x):
    """Says one thing.

    And more, which a chapter does not show.
    """
    def inner():
        """Stays as it is.

        Both lines.
        """
        return x

    return inner()


def test_start_prints_the_device_in_words(capsys):
    runtime.start()
    printed = capsys.readouterr().out
    if jax.default_backend() == "cpu":
        assert printed == "Running on the CPU.\n"
        assert jax.config.jax_default_matmul_precision is None
    else:
        assert printed.startswith(("Running on a GPU (", "Running on a TPU ("))
        assert jax.config.jax_default_matmul_precision == "highest"


@pytest.mark.parametrize("value, expected", [("1", True), ("0", False), ("", False), (None, False)])
def test_static_reads_the_environment(monkeypatch, value, expected):
    monkeypatch.delenv("UNROLLED_STATIC", raising=False)
    if value is not None:
        monkeypatch.setenv("UNROLLED_STATIC", value)
    assert runtime.static() is expected


def test_float64_holds_inside_the_block_only():
    with runtime.float64():
        inside = jnp.ones(3) / 3
    assert inside.dtype == jnp.float64
    assert jnp.ones(3).dtype == jnp.float32


def test_float64_has_the_digits_where_it_is_promised():
    with runtime.float64():
        has_digits = bool(jnp.float64(1) + jnp.float64(2) ** -50 > 1)
    assert has_digits or not runtime.has_float64()


def test_source_loses_decorators_and_all_but_one_line_of_the_docstring():
    shown = runtime.show_source(vanilla_rnn.step)
    assert isinstance(shown, Markdown)
    assert shown.data == (
        "```python\n"
        "def step(\n"
        '    params: Params, h: Float[Array, "H"], x: Float[Array, "D"]\n'
        ') -> Float[Array, "H"]:\n'
        '    """Takes the state one time step further."""\n'
        "    return jnp.tanh(params.W @ h + params.U @ x + params.b)\n"
        "```")


@pytest.mark.parametrize("wrong", [abs, lambda x: x])
def test_source_that_cannot_be_shown(wrong):
    with pytest.raises(TypeError, match="show_source: given .*Expected a function or class"):
        runtime.show_source(wrong)


def test_source_of_classes_nested_and_several_functions():
    shown = runtime.show_source(vanilla_rnn.Params, documented).data
    assert shown.startswith("```python\nclass Params(NamedTuple):\n")
    assert '\n\n\ndef documented(x):\n    """Says one thing."""\n    def inner():\n' in shown
    assert "Both lines." in shown and "does not show" not in shown
    assert shown.count("```") == 2


def test_source_of_a_jitted_function_without_docstring():
    @jax.jit
    def double(x):
        return 2 * x

    assert runtime.show_source(double).data == "```python\ndef double(x):\n    return 2 * x\n```"
