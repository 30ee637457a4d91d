"""Reductions of ragged tensors: tf.reduce_sum and its relatives, along ragged dimensions too.

Source: tensorflow/python/ops/ragged/ragged_math_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.export import overload
from tideflow.ops.math import reducing as reduce
from tideflow.ops.ragged import partition
from tideflow.ops.ragged.rows import expand_dims
from tideflow.ops.ragged.tensor import RaggedTensor, rows_of
from tideflow.wire import dtypes


def _by_segments(
    op_name: str, data: object, ids: TensorLike, count: TensorLike, **attrs: Any
) -> Any:
    """Return the rows with the same id reduced to one; columns reduce each for itself."""
    if not isinstance(data, RaggedTensor):
        return apply_op(op_name, data, ids, count, **attrs)
    kind = data.row_splits.dtype
    ids, count = partition.number(ids, kind), partition.number(count, kind)
    longest = apply_op("UnsortedSegmentMax", data.row_lengths(), ids, count)
    lengths = apply_op("Maximum", longest, partition.number(0, kind))
    splits = partition.splits_of_lengths(lengths)
    # Where each value belongs: its segment's begin, and its column.
    rows = data.value_rowids()
    starts = apply_op("GatherV2", splits, apply_op("GatherV2", ids, rows, 0), 0)
    begins = apply_op("GatherV2", data.row_starts(), rows, 0)
    at = apply_op("Sub", partition.up_to(partition.count_of(rows, kind)), begins)
    places = apply_op("AddV2", starts, at)
    size = apply_op("StridedSlice", splits, [-1], [0], [1], shrink_axis_mask=1)
    return rows_of(_by_segments(op_name, data.values, places, size, **attrs), splits)


def _along(
    data: RaggedTensor, axis: int, segments: str, dense: Callable[..., Any], **attrs: Any
) -> Any:
    if axis == 0:
        kind = data.row_splits.dtype
        ids = apply_op("ZerosLike", data.row_lengths())
        return _by_segments(segments, data, ids, partition.number(1, kind), **attrs)[0]
    if axis == 1:
        return _by_segments(segments, data.values, data.value_rowids(), data.nrows(), **attrs)
    inner = data.values
    if isinstance(inner, RaggedTensor):
        return data.with_values(_along(inner, axis - 1, segments, dense, **attrs))
    return data.with_values(dense(inner, axis - 1))


def _reduced(
    data: Any,
    axis: Any,
    keepdims: bool | None,
    segments: str,
    dense: Callable[..., Any],
    **attrs: Any,
) -> Any:
    rank = data.shape.rank
    if axis is None:
        found = dense(data.flat_values)
        axes = list(range(rank or 0))
    else:
        given = axis if isinstance(axis, (list, tuple)) else [axis]
        axes = sorted({int(a) + (rank if int(a) < 0 else 0) for a in given})
        if axes and not (axes[0] >= 0 and axes[-1] < rank):
            raise ValueError(f"axis {axis} is out of bounds for rank {rank}")
        found = data
        for at in reversed(axes):
            if isinstance(found, RaggedTensor):
                found = _along(found, at, segments, dense, **attrs)
            else:
                found = dense(found, at)
    for at in axes if keepdims else ():
        is_ragged = isinstance(found, RaggedTensor)
        found = expand_dims(found, at) if is_ragged else apply_op("ExpandDims", found, at)
    return found


def _overload(name: str, segments: str, dense: Callable[..., Any]) -> None:
    @overload(f"math.{name}")
    def reduction(
        input_tensor: TensorLike,
        axis: TensorLike | None = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: TensorLike | None = None,
        keep_dims: bool | None = None,
    ) -> Any:
        at = reduction_indices if axis is None else axis
        return _reduced(input_tensor, at, keepdims or keep_dims, segments, dense)


_overload("reduce_sum", "UnsortedSegmentSum", reduce.reduce_sum)
_overload("reduce_prod", "UnsortedSegmentProd", reduce.reduce_prod)
_overload("reduce_max", "UnsortedSegmentMax", reduce.reduce_max)
_overload("reduce_min", "UnsortedSegmentMin", reduce.reduce_min)


def _of_bools(
    name: str, segments: str, dense: Callable[..., Any], of_numbers: Callable[..., Any]
) -> None:
    def reduced(values: TensorLike, axis: TensorLike | None = None) -> Any:
        return dense(values, axis)

    @overload(f"math.{name}")
    def reduction(
        input_tensor: Any,
        axis: TensorLike | None = None,
        keepdims: bool | None = None,
        name: str | None = None,
    ) -> Any:
        if axis is None:
            return _reduced(input_tensor, None, keepdims, segments, reduced)
        numbers = input_tensor.with_flat_values(
            apply_op("Cast", input_tensor.flat_values, DstT=dtypes.int32)
        )
        found = _reduced(numbers, axis, keepdims, segments, of_numbers)
        # Segments without values have the type's limits.
        is_true = "Greater"
        if isinstance(found, RaggedTensor):
            return found.with_flat_values(apply_op(is_true, found.flat_values, 0))
        return apply_op(is_true, found, 0)


_of_bools("reduce_any", "UnsortedSegmentMax", reduce.reduce_any, reduce.reduce_max)
_of_bools("reduce_all", "UnsortedSegmentMin", reduce.reduce_all, reduce.reduce_min)


@overload("math.reduce_mean")
def _reduce_mean(
    input_tensor: Any,
    axis: Tensor | None = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Any:
    if axis is None:
        return _reduced(input_tensor, None, keepdims, "", reduce.reduce_mean)
    ones = input_tensor.with_flat_values(apply_op("OnesLike", input_tensor.flat_values))
    parts = [
        _reduced(x, axis, keepdims, "UnsortedSegmentSum", reduce.reduce_sum)
        for x in (input_tensor, ones)
    ]
    return _each(_quotient, *parts)


def _each(function: Callable[..., Any], *values: Any) -> Any:
    """Return a function of dense tensors, or of the innermost values of ragged ones."""
    if not isinstance(values[0], RaggedTensor):
        return function(*values)
    return values[0].with_flat_values(function(*(each.flat_values for each in values)))


def _less_square(mean_of_square: Tensor, mean: Tensor) -> Any:
    """Return the mean of squares less the square of the mean, which rounding keeps from 0."""
    return apply_op("Sub", mean_of_square, apply_op("Square", mean))


@overload("math.reduce_variance")
def _reduce_variance(
    input_tensor: Any, axis: Any = None, keepdims: bool | None = False, name: str | None = None
) -> Any:
    if input_tensor.dtype.is_integer:
        as_float = apply_op("Cast", input_tensor.flat_values, DstT=dtypes.float64)
        input_tensor = input_tensor.with_flat_values(as_float)
    squares = _each(lambda x: apply_op("Square", x), input_tensor)
    return _each(
        _less_square,
        _reduce_mean(squares, axis, keepdims),
        _reduce_mean(input_tensor, axis, keepdims),
    )


@overload("math.reduce_std")
def _reduce_std(
    input_tensor: Any, axis: Any = None, keepdims: bool | None = False, name: str | None = None
) -> Any:
    return _each(
        lambda x: apply_op("Sqrt", x), _reduce_variance(input_tensor, axis, keepdims, name)
    )


# ---- text


@overload("strings.reduce_join")
def _reduce_join(
    inputs: Any,
    axis: Any = None,
    keepdims: bool = False,
    separator: str = "",
    name: str | None = None,
) -> Any:
    def joined(value: Tensor, at: Any = None) -> Any:
        axes = list(range(len(value.dims or ()))) if at is None else at
        return apply_op("ReduceJoin", value, axes, separator=separator)

    return _reduced(inputs, axis, keepdims, "UnsortedSegmentJoin", joined, separator=separator)


# ---- segments


def _overload_segments(name: str, op_name: str) -> None:
    @overload(f"math.{name}")
    def reduction(
        data: Any, segment_ids: Any, num_segments: TensorLike, name: str | None = None
    ) -> Any:
        return _segments(op_name, data, segment_ids, num_segments)


def _segments(op_name: str, data: Any, segment_ids: Any, num_segments: TensorLike) -> Any:
    """Return rows with the same id reduced; ids may be ragged as the first axes of the data."""
    if isinstance(segment_ids, RaggedTensor):
        if not isinstance(data, RaggedTensor):
            raise ValueError("data must be ragged where segment_ids are")
        alike = apply_op("Equal", data.row_splits, segment_ids.row_splits)
        values = data.values
        checked = partition.require(
            segment_ids.row_splits, (alike, "segment_ids.shape must be a prefix of data.shape")
        )
        ids = rows_of(segment_ids.values, checked).values
        return _segments(op_name, values, ids, num_segments)
    ids = convert_to_tensor(segment_ids)
    return _by_segments(op_name, data, ids, convert_to_tensor(num_segments))


for _name, _op in (
    ("unsorted_segment_sum", "UnsortedSegmentSum"),
    ("unsorted_segment_prod", "UnsortedSegmentProd"),
    ("unsorted_segment_max", "UnsortedSegmentMax"),
    ("unsorted_segment_min", "UnsortedSegmentMin"),
):
    _overload_segments(_name, _op)


def _sums_and_counts(data: Any, ids: Any, count: TensorLike) -> tuple[Any, Any]:
    ones = data.with_flat_values(apply_op("OnesLike", data.flat_values))
    return tuple(_segments("UnsortedSegmentSum", each, ids, count) for each in (data, ones))


@overload("math.unsorted_segment_mean")
def _segment_mean(
    data: Any, segment_ids: Any, num_segments: TensorLike, name: str | None = None
) -> Any:
    return _each(_quotient, *_sums_and_counts(data, segment_ids, num_segments))


@overload("math.unsorted_segment_sqrt_n")
def _segment_sqrt_n(
    data: Any, segment_ids: Any, num_segments: TensorLike, name: str | None = None
) -> Any:
    total, count = _sums_and_counts(data, segment_ids, num_segments)
    return _each(lambda x, n: apply_op("RealDiv", x, apply_op("Sqrt", n)), total, count)


def _quotient(total: Tensor, count: Tensor) -> Any:
    if total.dtype.is_integer:
        kind = dtypes.float64 if total.dtype.size > 2 else dtypes.float32
        total, count = (apply_op("Cast", x, DstT=kind) for x in (total, count))
    return apply_op("RealDiv", total, count)
