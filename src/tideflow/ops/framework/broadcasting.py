"""Gradients under broadcasting: summing a gradient back to the shape of an operand.

Where the static shapes tell what was stretched, the sums are written into the graph; otherwise
BroadcastGradientArgs finds the axes when the graph runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import Dims
from tideflow.graph.types import TensorLike


def unbroadcast(x: Tensor, y: Tensor, grad_x: object, grad_y: object) -> list[Any]:
    """Sum two gradients of the broadcast shape of x and y back to the shapes of x and y.

    A gradient may be None and stays so.
    """
    if x.dims is not None and x.dims == y.dims and None not in x.dims:
        return [grad_x, grad_y]
    axes_x = _stretched_axes(x.dims, y.dims)
    axes_y = _stretched_axes(y.dims, x.dims)
    known_x = grad_x is None or axes_x is not None
    known_y = grad_y is None or axes_y is not None
    found: list[Any] = [None, None]
    if not (known_x and known_y):
        found = apply_op("BroadcastGradientArgs", apply_op("Shape", x), apply_op("Shape", y))
    return [
        None if grad_x is None else _sum_to(grad_x, x, axes_x, found[0]),
        None if grad_y is None else _sum_to(grad_y, y, axes_y, found[1]),
    ]


def _stretched_axes(own: Dims, other: Dims) -> list[int] | None:
    """Return the axes of the result along which `own` was stretched; None: not known yet.

    A size of 1 counts as stretched even against an unknown size, since a sum over one element
    changes nothing.
    """
    if own is None or other is None:
        return None
    rank = max(len(own), len(other))
    own = (1,) * (rank - len(own)) + own
    other = (1,) * (rank - len(other)) + other
    axes = []
    for axis, (size, against) in enumerate(zip(own, other)):
        if size is None and against != 1:
            return None
        if size == 1 and against != 1:
            axes.append(axis)
    return axes


def _sum_to(grad: Any, like: Tensor, axes: list[int] | None, dynamic_axes: object) -> Any:
    if axes is None:
        summed = apply_op("Sum", grad, dynamic_axes)
        return apply_op("Reshape", summed, apply_op("Shape", like))
    rank = len(like.dims or ())
    if not axes:
        # The operand may still have fewer dimensions than the result: all missing ones are 1.
        return grad if _rank(grad) == rank else _reshape_like(grad, like)
    missing = (_rank(grad) or 0) - rank
    if _rank(grad) is None:
        return _reshape_like(apply_op("Sum", grad, axes), like)
    if axes == list(range(missing)):
        return apply_op("Sum", grad, axes)
    if missing == 0:
        return apply_op("Sum", grad, axes, keep_dims=True)
    return _reshape_like(apply_op("Sum", grad, axes), like)


def _rank(tensor: Tensor) -> int | None:
    return None if tensor.dims is None else len(tensor.dims)


def _reshape_like(grad: TensorLike, like: Tensor) -> Any:
    dims = like.dims
    if dims is not None and None not in dims:
        return apply_op("Reshape", grad, np.array(dims, np.int32))
    return apply_op("Reshape", grad, apply_op("Shape", like))


def conj(tensor: Any) -> Any:
    """Return the complex conjugate; the tensor itself where it is real."""
    return apply_op("Conj", tensor) if tensor.dtype.is_complex else tensor
