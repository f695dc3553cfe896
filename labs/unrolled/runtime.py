"""Where a notebook runs: the device, the precision, and whether its outputs are being stored."""

import ast
import inspect
import os
import textwrap
from collections.abc import Callable
from contextlib import AbstractContextManager

import jax
from IPython.display import Markdown


def start() -> None:
    """Prepares a notebook: prints the device in words, asks for exact matrix products, sets the figure style.

    A GPU or a TPU multiplies float32 matrices with fewer digits unless told otherwise; after this call it keeps
    them all, so that what holds on a CPU holds there.
    """
    from unrolled import plots

    device = jax.devices()[0]
    if device.platform == "cpu":
        print("Running on the CPU.")
    else:
        jax.config.update("jax_default_matmul_precision", "highest")
        print(f"Running on a {'TPU' if device.platform == 'tpu' else 'GPU'} ({device.device_kind}).")
    plots.use_style()


def static() -> bool:
    """Says whether outputs are being stored for readers without a kernel (UNROLLED_STATIC=1)."""
    return os.environ.get("UNROLLED_STATIC") == "1"


def float64() -> AbstractContextManager:
    """Computes in float64 inside a `with` block; arrays made outside keep their dtype."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64

    return enable_x64(True)


def has_float64() -> bool:
    """Says whether the device computes in float64; a TPU only emulates it."""
    return jax.default_backend() != "tpu"


def show_source(*functions: Callable | type) -> Markdown:
    """Shows the source of functions or classes, without decorators, each docstring cut to its first line."""
    sources = "\n\n\n".join(_source(function) for function in functions)
    return Markdown(f"```python\n{sources}\n```")


def _source(function: Callable | type) -> str:
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
        definition = ast.parse(source).body[0]
    except (TypeError, OSError, SyntaxError):
        definition = None
    shown = isinstance(definition, (ast.FunctionDef, ast.ClassDef)) and definition.name == function.__name__
    if not shown or definition.body[0].lineno == definition.lineno:
        raise TypeError(f"show_source: given {function!r}. Expected a function or class that is written in Python with "
                        "def or class, on lines of its own.")
    lines = source.splitlines()
    if (docstring := ast.get_docstring(definition)) is not None:
        place = definition.body[0]
        first_line = docstring.splitlines()[0].strip()
        lines[place.lineno - 1:place.end_lineno] = [" " * place.col_offset + f'"""{first_line}"""']
    return "\n".join(lines[definition.lineno - 1:]).rstrip()
