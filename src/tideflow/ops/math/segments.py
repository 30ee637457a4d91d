"""Segments: rows with the same id are combined into one row of the result.

Sorted segments (SegmentSum) take their ids in order; unsorted ones take the number of segments.
A negative unsorted id drops its row.  A segment that no row names gets the empty value: 0 for
sums, 1 for products, the losing end of the type for unsorted extremes, 0 for sorted ones.
Source: segment_reduction_ops_impl.h of TensorFlow 2.21.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.tracing import Trace, is_known, refuse
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import scoped
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError

# How segments are combined: NumPy's ufunc, JAX's method of x.at[...].
_COMBINE = {
    "sum": (np.add, "add"),
    "prod": (np.multiply, "multiply"),
    "max": (np.maximum, "max"),
    "min": (np.minimum, "min"),
}
# So many rows are combined one by one; and so many of each segment side by side.
_FEW_ROWS = 8
_SIDE_BY_SIDE = 8
# Rows of fewer elements, more rows of each segment than this, and so few rows of so many segments
# are combined faster segment by segment.
_NARROW = 16
_MANY_OF_EACH = 8
_FEW_OF_MANY = 16


def _losing(dtype: Any, how: str) -> Any:
    """Return what combines with any value to that value."""
    if how in ("sum", "prod"):
        return np.asarray(how == "prod").astype(dtype)
    known = dtypes.as_dtype(dtype)
    return np.asarray(known.min if how == "max" else known.max).astype(dtype)


def _combine(xp: Any, how: str, data: Any, ids: Array, count: int, empty: object) -> Any:
    """Combine rows of data [n, ...] by ids [n]; ids outside [0, count) are left out."""
    if xp is np:
        return _combine_numpy(how, data, ids, count, empty)
    neutral = _losing(data.dtype, how)
    base = xp.full((count, *data.shape[1:]), neutral, data.dtype)
    # at[...] counts negative indices from the end; one past the end is dropped.
    targets = xp.where(ids < 0, count, ids)
    found = getattr(base.at[targets], _COMBINE[how][1])(data, mode="drop")
    if neutral == empty:
        return found
    hit = xp.zeros(count, bool).at[targets].set(True, mode="drop")
    hit = hit.reshape((count,) + (1,) * (data.ndim - 1))
    return xp.where(hit, found, xp.asarray(empty, data.dtype))


def _combine_numpy(how: str, data: Any, ids: Any, count: int, empty: object) -> Any:
    ufunc = _COMBINE[how][0]
    if not data.size:
        return np.full((count, *data.shape[1:]), empty, data.dtype)
    if ids.size and ids.min() < 0:
        kept = ids >= 0
        ids, data = ids[kept], data[kept]
    if data.dtype.itemsize == 2 and data.dtype.kind in "fV":
        # A long sum of half-width floats would stop growing.
        return _combine_rows(ufunc, data.astype(np.float32), ids, count, empty).astype(data.dtype)
    return _combine_rows(ufunc, data, ids, count, empty)


def _combine_rows(ufunc: np.ufunc, data: Any, ids: Any, count: int, empty: object) -> Any:
    """Combine rows of data [n, ...] by ids [n], all in [0, count)."""
    # Side by side, each pass looks at all segments, and combines one row of each.
    width = math.prod(data.shape[1:])
    is_uneven = len(ids) > _MANY_OF_EACH * count or count > _FEW_OF_MANY * len(ids)
    if data.ndim == 1 or len(ids) <= _FEW_ROWS or width < _NARROW or is_uneven:
        made = np.full((count, *data.shape[1:]), empty, data.dtype)
        if len(ids):
            at, parts = _combine_in_order(ufunc, data, ids, np.arange(len(ids)))
            made[at] = parts
        return made
    # `reduceat` takes long for each segment of rows, so that as long as there are many of them,
    # their first rows are combined side by side, then their second ones, and so on.
    first, left = _first_of_each(ids, np.arange(len(ids)), count)
    if len(ids) - len(left) == count:
        made = data.take(first, axis=0)
    else:
        made = np.full((count, *data.shape[1:]), empty, data.dtype)
        hit = np.flatnonzero(first >= 0)
        made[hit] = data.take(first[hit], axis=0)
    for _ in range(_SIDE_BY_SIDE):
        if len(left) <= _FEW_ROWS:
            break
        first, left = _first_of_each(ids, left, count)
        hit = np.flatnonzero(first >= 0)
        made[hit] = ufunc(made[hit], data.take(first[hit], axis=0))
    if len(left) > _FEW_ROWS:
        at, parts = _combine_in_order(ufunc, data, ids, left)
        made[at] = ufunc(made[at], parts)
    else:
        for row in left.tolist():
            of = ids[row]
            made[of] = ufunc(made[of], data[row])
    return made


def _first_of_each(ids: Any, rows: Any, count: int) -> tuple[Any, Any]:
    """Return the first of the rows of each segment, -1 where there is none, and all other rows."""
    of = ids[rows]
    first = np.full(count, -1)
    # The last one stays where several rows are of one segment.
    first[of[::-1]] = rows[::-1]
    return first, rows[first[of] != rows]


def _combine_in_order(ufunc: np.ufunc, data: Any, ids: Any, rows: Any) -> tuple[Any, Any]:
    """Return the segments of some rows, in rising order, and what the rows of each come to."""
    of = ids[rows]
    if (of[1:] < of[:-1]).any():
        order = of.argsort(kind="stable")
        of, rows = of[order], rows[order]
    starts = np.flatnonzero(np.concatenate([[True], of[1:] != of[:-1]]))
    parts = ufunc.reduceat(data.take(rows, axis=0), starts, axis=0, dtype=data.dtype)
    return of[starts], parts


# ---- unsorted


def _unsorted_shape(c: ShapeContext) -> list[Dims]:
    data, ids = c.inputs[0], c.inputs[1]
    count = c.value(2)
    rows = None if count is None else int(count)
    if rows is not None and rows < 0:
        raise ValueError(f"num_segments must not be negative; found {rows}")
    if data is None or ids is None:
        return [None]
    for i, (a, b) in enumerate(zip(data, ids)):
        if a is not None and b is not None and a != b:
            raise ValueError(f"data and segment_ids differ in dimension {i}: {a} and {b}")
    if len(ids) > len(data):
        raise ValueError(f"segment_ids of rank {len(ids)} for data of rank {len(data)}")
    return [(rows, *data[len(ids) :])]


def _unsorted(xp: ArrayNamespace, how: str, data: Array, ids: Array, num_segments: Array) -> Any:
    count = int(num_segments)
    if count < 0:
        raise InvalidArgumentError(f"num_segments must not be negative; found {count}")
    rank = ids.ndim
    if data.shape[:rank] != ids.shape:
        raise InvalidArgumentError(
            f"data.shape = {list(data.shape)} does not start with "
            f"segment_ids.shape = {list(ids.shape)}"
        )
    if xp is np and data.size and ids.size and ids.max() >= count:
        raise InvalidArgumentError(
            f"segment_ids has {ids.max()}, which is not less than num_segments, {count}"
        )
    rows = data.reshape((ids.size, *data.shape[rank:]))
    return _combine(xp, how, rows, ids.reshape(-1), count, _losing(data.dtype, how))


def _check_traced(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Have ids be checked; the kernel then serves."""
    _, ids, count = inputs
    if not is_known(count):
        raise refuse("a number of segments that is computed")
    if ids.size:
        trace.check((ids < count.item()).all())
    return NotImplemented


def _define_unsorted(
    name: str,
    how: str,
    types: str,
    ids: str = "indices",
    compiles: Compiles = Compiles.ON_ACCELERATORS,
    traced: Callable[..., Any] | None = None,
) -> None:
    @op(
        f"""
        {name}(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> output: T
        T: type in {types}
        Tindices: type in {ids}
        Tnumsegments: type in indices = int32
        """,
        shape=_unsorted_shape,
        static=("num_segments",),
        rows=Rows.SEGMENTS,
        compiles=compiles,
        traced=traced,
    )
    def kernel(xp: ArrayNamespace, data: Array, segment_ids: Array, num_segments: Array) -> Any:
        return _unsorted(xp, how, data, segment_ids, num_segments)


_define_unsorted(
    "UnsortedSegmentSum", "sum", "numbers", "{int16, int32, int64}",
    Compiles.KNOWN_INPUTS, _check_traced,
)  # fmt: skip
_define_unsorted("UnsortedSegmentProd", "prod", "numbers")
_define_unsorted("UnsortedSegmentMax", "max", "reals")
_define_unsorted("UnsortedSegmentMin", "min", "reals")


def gather_dropping_negatives(params: TensorLike, ids: TensorLike) -> Any:
    """Return params[ids], and zeros where an id is negative."""
    rows = apply_op("GatherV2", params, apply_op("Maximum", ids, 0), 0)
    kept = apply_op("GreaterEqual", ids, 0)
    extra = apply_op("Sub", apply_op("Rank", rows), apply_op("Rank", kept))
    ones = apply_op("Fill", apply_op("Reshape", extra, [1]), 1)
    shape = apply_op("ConcatV2", [apply_op("Shape", kept), ones], 0)
    zeros = apply_op("ZerosLike", rows)
    return apply_op("SelectV2", apply_op("Reshape", kept, shape), rows, zeros)


@gradient("UnsortedSegmentSum")
def _unsorted_sum_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [gather_dropping_negatives(grad, op.inputs[1]), None, None]


@gradient("UnsortedSegmentMax", "UnsortedSegmentMin")
def _unsorted_extreme_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Share the gradient of a segment among the elements that are its extreme."""
    data, ids, count = op.inputs
    kept = apply_op("GreaterEqual", ids, 0)
    chosen = apply_op("Equal", data, gather_dropping_negatives(op.outputs[0], ids))
    marks = apply_op("Cast", chosen, DstT=grad.dtype)
    marks = apply_op("Mul", marks, apply_op("Cast", _like_rows(kept, marks), DstT=grad.dtype))
    shares = apply_op("UnsortedSegmentSum", marks, ids, count)
    weighted = apply_op("DivNoNan", grad, shares)
    return [apply_op("Mul", marks, gather_dropping_negatives(weighted, ids)), None, None]


def _like_rows(flags: Tensor, rows: Tensor) -> Any:
    """Give flags [n...] trailing sizes of 1, so that they broadcast over rows [n..., m...]."""
    extra = apply_op("Sub", apply_op("Rank", rows), apply_op("Rank", flags))
    ones = apply_op("Fill", apply_op("Reshape", extra, [1]), 1)
    return apply_op("Reshape", flags, apply_op("ConcatV2", [apply_op("Shape", flags), ones], 0))


@gradient("UnsortedSegmentProd")
def _unsorted_prod_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Give each element the product of the others of its segment.

    A segment without zeros divides; one with a single zero gives that zero alone the product of
    the rest; one with more gives nothing.
    """
    data, ids, count = op.inputs
    is_zero = apply_op("Equal", data, 0)
    zeros = apply_op("UnsortedSegmentSum", apply_op("Cast", is_zero, DstT="int32"), ids, count)
    alone = apply_op("Greater", zeros, 1)
    grad = apply_op("SelectV2", alone, apply_op("ZerosLike", grad), grad)
    without = apply_op("SelectV2", is_zero, apply_op("OnesLike", data), data)
    rest = apply_op("UnsortedSegmentProd", without, ids, count)
    rest = gather_dropping_negatives(rest, ids)
    whole = gather_dropping_negatives(op.outputs[0], ids)
    others = apply_op("SelectV2", is_zero, rest, apply_op("RealDiv", whole, without))
    return [apply_op("Mul", gather_dropping_negatives(grad, ids), others), None, None]


# ---- sorted


def _sorted_shape(c: ShapeContext) -> list[Dims]:
    data = c.inputs[0]
    if c.inputs[1] is not None and len(c.inputs[1]) != 1:
        raise ValueError("segment_ids must be a vector")
    return [None if data is None else (None, *data[1:])]


def _sorted(
    xp: ArrayNamespace, how: str, data: Array, ids: Array, empty: Array | None = None
) -> Any:
    if ids.ndim != 1 or data.ndim < 1 or ids.shape[0] != data.shape[0]:
        raise InvalidArgumentError(
            "segment_ids should be a vector of the size of the first dimension of data; "
            f"found {list(ids.shape)} for {list(data.shape)}"
        )
    count = int(ids[-1]) + 1 if ids.size else 0
    if ids.size and (ids[0] < 0 or (ids[1:] < ids[:-1]).any()):
        raise InvalidArgumentError("segment ids are not increasing, or one is negative")
    if empty is None:
        empty = _losing(data.dtype, how) if how == "prod" else np.zeros((), data.dtype)
    return _combine(xp, how, data, ids, count, empty)


_SORTED = ("segment_ids",)


@op(
    """
SegmentSum(data: T, segment_ids: Tindices) -> output: T
T: type in numbers
Tindices: type in indices
""",
    shape=_sorted_shape,
    static=_SORTED,
    compiles=Compiles.NEVER,
)
def _segment_sum(xp: ArrayNamespace, data: Array, segment_ids: Array) -> Any:
    return _sorted(xp, "sum", data, segment_ids)


@op(
    """
SegmentMean(data: T, segment_ids: Tindices) -> output: T
T: type in numbers
Tindices: type in indices
""",
    shape=_sorted_shape,
    static=_SORTED,
    compiles=Compiles.NEVER,
)
def _segment_mean(xp: ArrayNamespace, data: Array, segment_ids: Array) -> Any:
    total = _sorted(xp, "sum", data, segment_ids)
    counts = np.maximum(np.bincount(segment_ids, minlength=total.shape[0]), 1)
    counts = counts.reshape((-1,) + (1,) * (data.ndim - 1)).astype(data.dtype)
    if data.dtype.kind in "iu":
        return (xp.sign(total) * (xp.abs(total) // counts)).astype(data.dtype)
    return (total / counts).astype(data.dtype)


@op(
    """
SegmentProd(data: T, segment_ids: Tindices) -> output: T
T: type in numbers
Tindices: type in indices
""",
    shape=_sorted_shape,
    static=_SORTED,
    compiles=Compiles.NEVER,
)
def _segment_prod(xp: ArrayNamespace, data: Array, segment_ids: Array) -> Any:
    return _sorted(xp, "prod", data, segment_ids)


@op(
    """
SegmentMax(data: T, segment_ids: Tindices) -> output: T
T: type in reals
Tindices: type in indices
""",
    shape=_sorted_shape,
    static=_SORTED,
    compiles=Compiles.NEVER,
)
def _segment_max(xp: ArrayNamespace, data: Array, segment_ids: Array) -> Any:
    return _sorted(xp, "max", data, segment_ids)


@op(
    """
SegmentMin(data: T, segment_ids: Tindices) -> output: T
T: type in reals
Tindices: type in indices
""",
    shape=_sorted_shape,
    static=_SORTED,
    compiles=Compiles.NEVER,
)
def _segment_min(xp: ArrayNamespace, data: Array, segment_ids: Array) -> Any:
    return _sorted(xp, "min", data, segment_ids)


@gradient("SegmentSum")
def _segment_sum_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("GatherV2", grad, op.inputs[1], 0), None]


@gradient("SegmentMean")
def _segment_mean_grad(op: Operation, grad: Tensor) -> list[Any]:
    data, ids = op.inputs
    ones = apply_op("Fill", apply_op("Shape", ids), np.ones((), grad.dtype.as_numpy_dtype))
    counts = apply_op("Maximum", apply_op("SegmentSum", ones, ids), 1)
    scaled = apply_op("RealDiv", grad, _like_rows(counts, data))
    return [apply_op("GatherV2", scaled, ids, 0), None]


@gradient("SegmentMax", "SegmentMin")
def _segment_extreme_grad(op: Operation, grad: Tensor) -> list[Any]:
    data, ids = op.inputs
    chosen = apply_op("Equal", data, apply_op("GatherV2", op.outputs[0], ids, 0))
    marks = apply_op("Cast", chosen, DstT=grad.dtype)
    weighted = apply_op("RealDiv", grad, apply_op("SegmentSum", marks, ids))
    return [apply_op("Mul", marks, apply_op("GatherV2", weighted, ids, 0)), None]


# ---- public names


def _unsorted_function(kind: str) -> Any:
    def unsorted(
        data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
    ) -> Any:
        return apply_op(f"UnsortedSegment{kind}", data, segment_ids, num_segments, name=name)

    return _publish(unsorted, f"unsorted_segment_{kind.lower()}")


def _sorted_function(kind: str) -> Any:
    def segment(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Any:
        return apply_op(f"Segment{kind}", data, segment_ids, name=name)

    return _publish(segment, f"segment_{kind.lower()}")


def _publish(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Combine the rows of data [n, ...] that share a segment id ({name}).\n\n"
        "Shapes: data [n, ...], segment_ids [n]; result [segments, ...]."
    )
    return export(f"math.{name}", name)(function)


unsorted_segment_sum = _unsorted_function("Sum")
unsorted_segment_prod = _unsorted_function("Prod")
unsorted_segment_max = _unsorted_function("Max")
unsorted_segment_min = _unsorted_function("Min")
segment_sum = _sorted_function("Sum")
segment_mean = _sorted_function("Mean")
segment_prod = _sorted_function("Prod")
segment_max = _sorted_function("Max")
segment_min = _sorted_function("Min")


def _segment_counts(data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike) -> Any:
    """Return how many rows each segment has, at least 1, broadcastable over the sums."""
    ones = apply_op("Fill", apply_op("Shape", segment_ids), np.ones((), _float_of(data)))
    counts = apply_op("UnsortedSegmentSum", ones, segment_ids, num_segments)
    extra = apply_op("Sub", apply_op("Rank", data), apply_op("Rank", segment_ids))
    tail = apply_op("Fill", apply_op("Reshape", extra, [1]), 1)
    shape = apply_op("ConcatV2", [apply_op("Shape", counts), tail], 0)
    return apply_op("Maximum", apply_op("Reshape", counts, shape), 1)


def _float_of(data: Any) -> Any:
    return data.dtype.base_dtype.as_numpy_dtype


@export("math.unsorted_segment_mean", "unsorted_segment_mean")
@scoped("UnsortedSegmentMean")
def unsorted_segment_mean(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Any:
    """Return the mean of the rows of each segment; 0 for a segment without rows.

    Args:
      data: [*segment_ids.shape, ...], floats or complex numbers.
      segment_ids: int32 or int64; a negative one leaves a row out.
      num_segments: an int32 or int64 scalar.
    Returns: [num_segments, ...], of the type of data.
    Raises: InvalidArgumentError for an id that is not below num_segments.
    """
    data, segment_ids = _tensors(data, segment_ids)
    counts = _segment_counts(data, segment_ids, num_segments)
    total = apply_op("UnsortedSegmentSum", data, segment_ids, num_segments)
    return apply_op("RealDiv", total, counts, name="truediv")


@export("math.unsorted_segment_sqrt_n", "unsorted_segment_sqrt_n")
@scoped("UnsortedSegmentSqrtN")
def unsorted_segment_sqrt_n(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None = None
) -> Any:
    """Return the sum of the rows of each segment over the square root of their number."""
    data, segment_ids = _tensors(data, segment_ids)
    counts = apply_op("Sqrt", _segment_counts(data, segment_ids, num_segments))
    total = apply_op("UnsortedSegmentSum", data, segment_ids, num_segments)
    return apply_op("RealDiv", total, counts, name="truediv")


def _tensors(*values: Any) -> list[Any]:
    return [convert_to_tensor(value) for value in values]
