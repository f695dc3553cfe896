"""Runs before every test: shapes in signatures are checked at run time, of what goes in and of what comes out."""

import os

import pytest
from jaxtyping import install_import_hook

os.environ.setdefault("MPLBACKEND", "agg")
install_import_hook("unrolled", "beartype.beartype")


@pytest.fixture
def style():
    """The style of the course, for one test that closes its figures."""
    import matplotlib
    import matplotlib.pyplot as plt

    from unrolled import plots

    with matplotlib.rc_context():
        plots.use_style()
        yield
    assert not plt.get_fignums(), "a figure was left open"
