"""Segments of gathered rows: data[indices] combined by sorted segment ids.

Without num_segments the last id decides how many rows the result has.  A segment without rows is 0.
Source: segment_reduction_ops_impl.h of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import IndexedSlices
from tideflow.wire.errors import InvalidArgumentError

_KINDS = ("Sum", "Mean", "SqrtN")


def _counts(ids: Any, rows: int, kind: str, dtype: Any) -> Any:
    """Return what each segment's sum is divided by."""
    counts = np.maximum(np.bincount(ids, minlength=rows), 1).astype(np.float64)
    return (np.sqrt(counts) if kind == "SqrtN" else counts).astype(dtype)


def _tall(vector: Any, like: Any) -> Any:
    return vector.reshape((-1,) + (1,) * (like.ndim - 1))


def _check(data: Any, indices: Any, ids: Any, rows: int) -> None:
    if indices.shape != ids.shape or ids.ndim != 1:
        raise InvalidArgumentError(
            "segment_ids and indices should be vectors of one size; found "
            f"{list(ids.shape)} and {list(indices.shape)}"
        )
    if not ids.size:
        return
    if ids[0] < 0 or (ids[1:] < ids[:-1]).any():
        raise InvalidArgumentError("segment ids are not increasing, or one is negative")
    if ids[-1] >= rows:
        raise InvalidArgumentError(f"segment id {ids[-1]} is not less than num_segments, {rows}")
    outside = (indices < 0) | (indices >= data.shape[0])
    if outside.any():
        at = int(np.argmax(outside))
        raise InvalidArgumentError(
            f"Bad: indices[{at}] == {indices[at]} out of range [0, {data.shape[0]})"
        )


def _combine(xp: Any, kind: str, data: Any, indices: object, ids: Any, rows: int) -> Any:
    _check(data, indices, ids, rows)
    gathered = data[indices]
    if xp is np:
        wide = gathered.astype(np.float32) if data.dtype.itemsize == 2 else gathered
        total = np.zeros((rows, *data.shape[1:]), wide.dtype)
        if ids.size:
            starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
            total[ids[starts]] = np.add.reduceat(wide, starts, axis=0, dtype=wide.dtype)
    else:
        total = xp.zeros((rows, *data.shape[1:]), data.dtype).at[ids].add(gathered)
    if kind != "Sum":
        total = total / _tall(_counts(ids, rows, kind, total.dtype), total)
    return total.astype(data.dtype)


def _shape(c: ShapeContext) -> list[Dims]:
    data = c.inputs[0]
    if data is None:
        return [None]
    count = c.value(3) if len(c.inputs) == 4 else None
    return [(None if count is None else int(count), *data[1:])]


def _define(kind: str) -> None:
    """Define SparseSegment<kind>, the one that is told its size, and the gradient op."""
    types = "reals" if kind == "Sum" else "floats"
    common = f"""T: type in {types}
        Tidx: type in indices = int32
        Tsegmentids: type in indices = int32
        """

    @op(
        f"""
        SparseSegment{kind}(data: T, indices: Tidx, segment_ids: Tsegmentids) -> output: T
        {common}sparse_gradient: bool = false
        """,
        shape=_shape,
        static=("indices", "segment_ids"),
        compiles=Compiles.NEVER,
    )
    def plain(xp: ArrayNamespace, data: Array, indices: Array, segment_ids: Array) -> Any:
        rows = int(segment_ids[-1]) + 1 if segment_ids.size else 0
        return _combine(xp, kind, data, indices, segment_ids, rows)

    @op(
        f"""
        SparseSegment{kind}WithNumSegments(data: T, indices: Tidx, segment_ids: Tsegmentids,
            num_segments: Tnumsegments) -> output: T
        {common}Tnumsegments: type in indices = int32
        sparse_gradient: bool = false
        """,
        shape=_shape,
        static=("indices", "segment_ids", "num_segments"),
        compiles=Compiles.NEVER,
    )
    def sized(
        xp: ArrayNamespace, data: Array, indices: Array, segment_ids: Array, num_segments: Array
    ) -> Any:
        return _combine(xp, kind, data, indices, segment_ids, int(num_segments))

    @op(
        f"""
        SparseSegment{kind}Grad(grad: T, indices: Tidx, segment_ids: Tsegmentids,
            output_dim0: int32) -> output: T
        T: type in floats
        Tidx: type in indices = int32
        Tsegmentids: type in indices = int32
        """,
        shape=_grad_shape,
        static=("indices", "segment_ids", "output_dim0"),
        compiles=Compiles.NEVER,
    )
    def spread(
        xp: ArrayNamespace, grad: Array, indices: Array, segment_ids: Array, output_dim0: Array
    ) -> Any:
        return _spread(xp, kind, grad, indices, segment_ids, int(output_dim0))

    @op(
        f"""
        SparseSegment{kind}GradV2(grad: T, indices: Tidx, segment_ids: Tsegmentids,
            dense_output_dim0: int32) -> output: T, sorted_unique_indices: Tidx
        T: type in floats
        Tidx: type in indices = int32
        Tsegmentids: type in indices = int32
        """,
        shape=_distinct_shape,
    )
    def spread_distinct(
        ctx: KernelContext,
        grad: Array,
        indices: Array,
        segment_ids: Array,
        dense_output_dim0: Array,
    ) -> Any:
        if indices.ndim != 1:
            raise InvalidArgumentError(f"indices must be a vector, not {list(indices.shape)}")
        _check_indices(indices, int(dense_output_dim0))
        distinct, which = np.unique(indices, return_inverse=True)
        rows = _spread(np, kind, grad, which.reshape(-1), segment_ids, len(distinct))
        return rows, distinct

    @gradient(f"SparseSegment{kind}", f"SparseSegment{kind}WithNumSegments")
    def slope(op: Operation, grad: Tensor) -> list[Any]:
        data, indices, ids = op.inputs[:3]
        shape = apply_op("Shape", data)
        rows = apply_op("StridedSlice", shape, [0], [1], [1], shrink_axis_mask=1)
        found: Any
        if op.get_attr("sparse_gradient"):
            values, distinct = apply_op(f"SparseSegment{kind}GradV2", grad, indices, ids, rows)
            found = IndexedSlices(values, distinct, shape)
        else:
            found = apply_op(f"SparseSegment{kind}Grad", grad, indices, ids, rows)
        return [found, *[None] * (len(op.inputs) - 1)]


def _grad_shape(c: ShapeContext) -> list[Dims]:
    grad, rows = c.inputs[0], c.value(3)
    return [None if grad is None else (None if rows is None else int(rows), *grad[1:])]


def _distinct_shape(c: ShapeContext) -> list[Dims]:
    grad = c.inputs[0]
    return [None if grad is None else (None, *grad[1:]), (None,)]


def _check_indices(indices: Any, rows: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= rows):
        raise InvalidArgumentError(f"indices lie outside [0, {rows})")


def _spread(xp: Any, kind: str, grad: Any, indices: Any, ids: Any, rows: int) -> Any:
    """Add each segment's gradient to the rows of data that it was made of."""
    segments = grad.shape[0]
    if ids.size and (ids.min() < 0 or ids.max() >= segments):
        raise InvalidArgumentError(f"segment_ids lie outside the {segments} rows of the gradient")
    _check_indices(indices, rows)
    if np.shape(ids) != np.shape(indices) or np.ndim(ids) != 1:
        raise InvalidArgumentError(
            "indices and segment_ids must be vectors of one size; they are "
            f"{list(np.shape(indices))} and {list(np.shape(ids))}"
        )
    parts = grad[ids]
    if kind != "Sum":
        parts = parts / _tall(_counts(ids, segments, kind, grad.dtype)[ids], parts)
    if xp is not np:
        return xp.zeros((rows, *grad.shape[1:]), grad.dtype).at[indices].add(parts)
    found = np.zeros((rows, *grad.shape[1:]), grad.dtype)
    np.add.at(found, indices, parts.astype(grad.dtype))
    return found


for _kind in _KINDS:
    _define(_kind)


def _apply(
    kind: str, rows: tuple[Any, Any, Any], num_segments: object, sparse_gradient: bool, name: Any
) -> Any:
    attrs = {"sparse_gradient": sparse_gradient, "name": name}
    if num_segments is None:
        return apply_op(f"SparseSegment{kind}", *rows, **attrs)
    return apply_op(f"SparseSegment{kind}WithNumSegments", *rows, num_segments, **attrs)


@export("sparse.segment_sum", "sparse_segment_sum")
def sparse_segment_sum(
    data: TensorLike,
    indices: TensorLike,
    segment_ids: TensorLike,
    name: str | None = None,
    num_segments: TensorLike | None = None,
    sparse_gradient: bool = False,
) -> Any:
    """Return the sum of the rows data[indices] of each segment.

    Shapes: data [n, ...], indices and segment_ids [k]; result [segments, ...].
    Raises: InvalidArgumentError, when run, for ids out of order or indices out of range.
    """
    rows = (data, indices, segment_ids)
    return _apply("Sum", rows, num_segments, sparse_gradient, name)


@export("sparse.segment_mean", "sparse_segment_mean")
def sparse_segment_mean(
    data: TensorLike,
    indices: TensorLike,
    segment_ids: TensorLike,
    name: str | None = None,
    num_segments: TensorLike | None = None,
    sparse_gradient: bool = False,
) -> Any:
    """Return the mean of the rows data[indices] of each segment (see sparse_segment_sum)."""
    rows = (data, indices, segment_ids)
    return _apply("Mean", rows, num_segments, sparse_gradient, name)


@export("sparse.segment_sqrt_n", "sparse_segment_sqrt_n")
def sparse_segment_sqrt_n(
    data: TensorLike,
    indices: TensorLike,
    segment_ids: TensorLike,
    name: str | None = None,
    num_segments: TensorLike | None = None,
    sparse_gradient: bool = False,
) -> Any:
    """Return the sum of each segment's rows over the root of their number."""
    rows = (data, indices, segment_ids)
    return _apply("SqrtN", rows, num_segments, sparse_gradient, name)
