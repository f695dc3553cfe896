"""Runs before every test: shapes in signatures are checked at run time, of what goes in and of what comes out."""

import os

from jaxtyping import install_import_hook

os.environ.setdefault("MPLBACKEND", "agg")
install_import_hook("unrolled", "beartype.beartype")
