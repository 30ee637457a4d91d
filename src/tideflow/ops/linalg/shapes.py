"""What ops on stacks of matrices share: static shapes, checks, and SciPy's LAPACK."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.types import Array
from tideflow.wire import errors


def scipy_linalg() -> Any:
    """Return scipy.linalg."""
    # Most programs do without; it takes a while to load.
    return importlib.import_module("scipy.linalg")


def matrix_dims(c: ShapeContext, index: int = 0) -> tuple[Any, ...] | None:
    """Return the static shape of stacks of matrices.  Raises: ValueError for less than rank 2."""
    dims = c.inputs[index]
    if dims is not None and len(dims) < 2:
        raise ValueError(f"input {index} must hold matrices; its shape is {list(dims)}")
    return dims


def square_dims(c: ShapeContext, index: int = 0) -> tuple[Any, ...] | None:
    """Return the static shape of stacks of square matrices.  Raises: ValueError for others."""
    dims = matrix_dims(c, index)
    if dims is not None and None not in dims[-2:] and dims[-1] != dims[-2]:
        raise ValueError(f"input {index} must hold square matrices; its shape is {list(dims)}")
    return dims


def check_matrices(x: Array, what: str, square: bool = True) -> None:
    """Require matrices, square ones unless said otherwise.  Raises: InvalidArgumentError."""
    if x.ndim < 2:
        raise errors.InvalidArgumentError(
            f"{what} must hold matrices; its shape is {list(x.shape)}"
        )
    if square and x.shape[-1] != x.shape[-2]:
        raise errors.InvalidArgumentError(
            f"{what} must hold square matrices; its shape is {list(x.shape)}"
        )


def adjoint_of(x: Array) -> Any:
    """Return the conjugate transposes."""
    return np.conj(np.swapaxes(x, -1, -2))
