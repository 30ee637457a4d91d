"""Access to jax.lax for kernels whose traced form needs more than jax.numpy."""

from __future__ import annotations

import importlib
from typing import Any


def lax() -> Any:
    """Return jax.lax.

    A kernel asks for it only while it is traced, so that a process which never compiles does not
    pay for importing JAX.
    """
    return importlib.import_module("jax.lax")
