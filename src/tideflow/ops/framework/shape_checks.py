"""What kernels ask of their inputs' shapes, where the graph could not know them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.types import Array
from tideflow.wire.errors import InvalidArgumentError


def check_scalar(value: Any, what: str) -> None:
    """Raise InvalidArgumentError for an input that is no scalar."""
    if np.ndim(value):
        raise InvalidArgumentError(f"{what} must be a scalar; its shape is {list(np.shape(value))}")


def check_vector(value: Array, what: str) -> None:
    """Raise InvalidArgumentError for an input that is no vector."""
    if np.ndim(value) != 1:
        raise InvalidArgumentError(f"{what} must be a vector; its shape is {list(np.shape(value))}")


def of_one_shape(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Make a pure kernel of two inputs refuse shapes that differ, which NumPy would stretch."""

    @functools.wraps(kernel)
    def checked(xp: Any, x: Array, y: Array, **attrs: Any) -> Any:
        if x.shape != y.shape:
            raise InvalidArgumentError(
                f"the inputs must have one shape; found {list(x.shape)} and {list(y.shape)}"
            )
        return kernel(xp, x, y, **attrs)

    return checked
