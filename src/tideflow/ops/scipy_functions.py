"""SciPy's special functions, loaded when one is needed first."""

from __future__ import annotations

import functools
import importlib
from typing import Any


@functools.cache
def special() -> Any:
    """Return scipy.special.  It takes as long to import as all kernels do, and few programs need
    it."""
    return importlib.import_module("scipy.special")
