"""Diagonals, and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.eager.numpy.arranging import moveaxis
from tideflow.eager.numpy.arrays import asarray, choose, equals, rank
from tideflow.eager.numpy.conversions import keeps_weak
from tideflow.eager.numpy.promotion import result_type
from tideflow.eager.numpy.reductions import sum
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array import diagonals
from tideflow.ops.array.searching import where_v2
from tideflow.ops.control_flow import with_dependencies
from tideflow.ops.export import export_v2
from tideflow.ops.framework import constants, printing
from tideflow.ops.math import reducing


@export_v2("experimental.numpy.diag")
@keeps_weak
def diag(v: TensorLike, k: int = 0) -> Any:
    """Return the matrix that has a vector on its diagonal k, or that diagonal of a matrix.

    Raises: ValueError for what is neither; InvalidArgumentError where that shows only later.
    """
    x = asarray(v)
    if x.dims is not None and len(x.dims) > 2:
        raise ValueError(f"Shape {x.shape} must have rank at most 2")
    count = rank(x)
    fits = apply_op("LogicalOr", equals(count, 1), equals(count, 2))
    check = printing.Assert(fits, [convert_to_tensor(count)])
    if check is not None:
        x = with_dependencies([check], x)
    return choose(equals(count, 1), lambda: _matrix(x, k), lambda: _diagonal(x, k))


def _matrix(x: Tensor, k: int) -> Any:
    def of_nothing() -> Any:
        return constants.zeros([abs(k), abs(k)], x.dtype)

    is_empty = equals(apply_op("Size", x) if None in (x.dims or (None,)) else x.dims[0], 0)  # type: ignore[index]
    return choose(is_empty, of_nothing, lambda: diagonals.matrix_diag(x, k=k))


def _diagonal(x: Tensor, k: Any) -> Any:
    """Return a diagonal of the last two axes; nothing where it lies outside."""
    sizes = apply_op("Shape", x)
    rows, columns = (None, None) if x.dims is None else x.dims[-2:]
    if rows is None or columns is None:
        outside = apply_op("LogicalOr", sizes[-2] <= -k, sizes[-1] <= k)
    else:
        outside = k <= -rows or k >= columns

    def nothing() -> Any:
        return apply_op("Fill", apply_op("ConcatV2", [sizes[:-2], [0]], 0),
                        np.zeros((), x.dtype.as_numpy_dtype))  # fmt: skip

    return choose(outside, nothing, lambda: diagonals.matrix_diag_part(x, k=k))


@export_v2("experimental.numpy.diagflat")
@keeps_weak
def diagflat(v: TensorLike, k: int = 0) -> Any:
    """Return the matrix that has all elements on its diagonal k."""
    return diag(apply_op("Reshape", asarray(v), [-1]), k)


@export_v2("experimental.numpy.diagonal")
@keeps_weak
def diagonal(a: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return diagonals of the matrices along two axes, along a last axis."""
    x = asarray(a)
    if _are_last(x, axis1, axis2) and offset == 0:
        return diagonals.matrix_diag_part(x)
    return _diagonal(moveaxis(x, (axis1, axis2), (-2, -1)), offset)


def _are_last(x: Tensor, axis1: int, axis2: int) -> bool:
    if x.dims is None:
        return False
    count = len(x.dims)
    return axis1 in (-2, count - 2) and axis2 in (-1, count - 1)


@export_v2("experimental.numpy.trace")
@keeps_weak
def trace(
    a: TensorLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
) -> Any:
    """Return the sums of diagonals of the matrices along two axes.

    Those of the last two axes are added up in the elements' type, others as `sum` does.
    """
    x = asarray(a, result_type(dtype) if dtype else None)
    if offset == 0 and _are_last(x, axis1, axis2):
        return reducing.trace(x)
    return sum(diagonal(x, offset, axis1, axis2), -1, dtype)


@export_v2("experimental.numpy.tril")
def tril(m: TensorLike, k: int = 0) -> Any:
    """Return matrices with zeros above diagonal k.

    Raises: ValueError where the last two sizes are not known.
    """
    return _triangle(m, k, True)


@export_v2("experimental.numpy.triu")
@keeps_weak
def triu(m: TensorLike, k: int = 0) -> Any:
    """Return matrices with zeros below diagonal k.

    Raises: ValueError where the last two sizes are not known.
    """
    return _triangle(m, k, False)


def _triangle(m: TensorLike, k: int, is_lower: bool) -> Any:
    x = asarray(m)
    if x.dims is None or len(x.dims) < 2 or None in x.dims[-2:]:
        raise ValueError(f"a triangle is taken of matrices of known sizes; found shape {x.shape}")
    rows, columns = x.dims[-2:]
    distance = np.arange(columns or 0) - np.arange(rows or 0)[:, None]
    kept = distance <= k if is_lower else distance >= k
    return where_v2(kept, x, np.zeros((), x.dtype.as_numpy_dtype))
