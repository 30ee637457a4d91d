"""Counting values: bincount, histograms, buckets; and cross products.

Source: bincount_op.cc, bucketize_op.cc, histogram_op.cc, cross_op.cc of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, merged, same_as
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import FailedPreconditionError, InvalidArgumentError


def _bincount_shape(c: ShapeContext) -> list[Dims]:
    size = c.value(1)
    bins = None if size is None else int(size)
    if bins is not None and bins < 0:
        raise ValueError(f"size must not be negative; found {bins}")
    if c.node.op == "Bincount":
        return [(bins,)]
    given = c.inputs[0]
    if given is None:
        return [None]
    return [(*given[:-1], bins)]


def _count(xp: Any, values: Array, size: Array, weights: Array, binary: bool) -> Any:
    """Add up weights (1 without them) by value; values of `size` or more do not count."""
    bins = int(size)
    if bins < 0:
        raise InvalidArgumentError(f"size ({bins}) must be non-negative")
    if weights.size and weights.shape != values.shape:
        raise InvalidArgumentError(
            f"weights must be empty or of the shape of the values, {list(values.shape)}; "
            f"found {list(weights.shape)}"
        )
    if xp is np and values.size and values.min() < 0:
        raise InvalidArgumentError("Input arr must be non-negative!")
    dtype = weights.dtype
    lead = values.shape[0] if values.ndim > 1 else 1
    rows = values.reshape((lead, values.size // max(lead, 1)))
    amounts = weights.reshape(rows.shape) if weights.size else xp.ones(rows.shape, dtype)
    # Each row counts into a stretch of its own; one cell more takes what is out of range.
    targets = xp.where(rows < bins, rows, bins)
    targets = targets + xp.arange(rows.shape[0])[:, None] * (bins + 1)
    total = rows.shape[0] * (bins + 1)
    if xp is np:
        counts = np.zeros(total, dtype)
        if binary:
            counts[targets.reshape(-1)] = 1
        else:
            np.add.at(counts, targets.reshape(-1), amounts.reshape(-1))
    else:
        cells = xp.zeros(total, dtype).at[targets.reshape(-1)]
        counts = cells.set(1) if binary else cells.add(amounts.reshape(-1))
    return counts.reshape(rows.shape[0], bins + 1)[:, :bins]


@op(
    """
Bincount(arr: int32, size: int32, weights: T) -> bins: T
T: type in {int32, int64, float, double}
""",
    shape=_bincount_shape,
    static=("size",),
    compiles=Compiles.NEVER,
)
def _bincount(xp: ArrayNamespace, arr: Array, size: Array, weights: Array) -> Any:
    flat = weights.reshape(-1) if weights.size else weights
    return _count(xp, arr.reshape(-1), size, flat, False)[0]


@op(
    """
DenseBincount(input: Tidx, size: Tidx, weights: T) -> output: T
Tidx: type in indices
T: type in {int32, int64, float, double}
binary_output: bool = false
""",
    shape=_bincount_shape,
    static=("size",),
    compiles=Compiles.NEVER,
)
def _dense_bincount(
    xp: ArrayNamespace, input: Array, size: Array, weights: Array, *, binary_output: bool
) -> Any:
    if input.ndim > 2:
        raise InvalidArgumentError(f"input must have rank 2 at most; found {list(input.shape)}")
    counts = _count(xp, input, size, weights, binary_output)
    return counts if input.ndim == 2 else counts[0]


@op(
    """
HistogramFixedWidth(values: T, value_range: T, nbins: int32) -> out: dtype
T: type in {int32, int64, float, double}
dtype: type in indices = int32
""",
    shape=lambda c: [(None if c.value(2) is None else int(c.value(2)),)],
    static=("nbins",),
    compiles=Compiles.NEVER,
)
def _histogram(
    xp: ArrayNamespace, values: Array, value_range: Array, nbins: Array, *, dtype: DType
) -> Any:
    bins = int(nbins)
    if bins <= 0:
        raise InvalidArgumentError(f"nbins should be a positive number, but got '{bins}'")
    if value_range.shape != (2,):
        raise InvalidArgumentError(
            f"value_range must be two numbers; its shape is {list(value_range.shape)}"
        )
    low, high = value_range[0], value_range[1]
    if xp is np and not low < high:
        raise InvalidArgumentError(f"value_range must rise; found [{low}, {high}]")
    step = (high.astype(np.float64) - low.astype(np.float64)) / bins
    offsets = values.reshape(-1).astype(np.float64) - low.astype(np.float64)
    index = xp.clip(xp.floor(offsets / step), 0, bins - 1).astype(np.int64)
    counts = xp.bincount(index, minlength=bins) if xp is np else xp.bincount(index, length=bins)
    return counts.astype(dtype.as_numpy_dtype)


@op(
    """
Bucketize(input: T) -> output: int32
T: type in {int32, int64, float, double}
boundaries: list(float)
""",
    shape=same_as(0),
)
def _bucketize(xp: ArrayNamespace, input: Array, *, boundaries: list[float]) -> Any:
    edges = np.asarray(boundaries, np.float32)
    if (edges[1:] < edges[:-1]).any():
        raise InvalidArgumentError(f"boundaries must rise; found {boundaries}")
    wide = np.float64 if input.dtype.itemsize == 8 else np.float32
    found = xp.searchsorted(edges.astype(wide), input.astype(wide), side="right")
    return found.astype(np.int32)


not_differentiable("Bincount", "DenseBincount", "HistogramFixedWidth", "Bucketize")


@op(
    """
Cross(a: T, b: T) -> product: T
T: type in reals
""",
    shape=merged,
)
def _cross(xp: ArrayNamespace, a: Array, b: Array) -> Any:
    if a.shape != b.shape or not a.ndim:
        raise InvalidArgumentError(
            f"Cross needs two tensors of one shape [..., 3]; found {list(a.shape)} and "
            f"{list(b.shape)}"
        )
    if a.shape[-1] != 3:
        raise FailedPreconditionError(
            f"Cross is of vectors of three; the last size of {list(a.shape)} must be 3"
        )
    return xp.cross(a, b)


@gradient("Cross")
def _cross_grad(op: Operation, grad: Tensor) -> list[Any]:
    a, b = op.inputs
    return [apply_op("Cross", b, grad), apply_op("Cross", grad, a)]


@export("linalg.cross", "cross")
def cross(a: TensorLike, b: TensorLike, name: str | None = None) -> Any:
    """Return the cross products of vectors of three.  Shapes: all [..., 3]."""
    return apply_op("Cross", a, b, name=name)


def whole_numbers(values: TensorLike) -> Tensor:
    """Return numbers without their fractions: floats as int32, others as they are."""
    given = convert_to_tensor(values)
    if not given.dtype.is_floating:
        return given
    whole: Tensor = apply_op("Cast", given, DstT=dtypes.int32)
    return whole


def bincount(
    arr: Any,
    weights: TensorLike | None = None,
    minlength: TensorLike | None = None,
    maxlength: TensorLike | None = None,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
    axis: int | None = None,
    binary_output: bool = False,
) -> Any:
    """Count how often each whole number occurs, or add up weights instead.

    Args:
      arr: non-negative integers; all of them count together, or each row if axis is -1.
      minlength, maxlength: bounds of the number of bins, which otherwise is max(arr) + 1.
      dtype: of the counts, without weights.
    Raises: InvalidArgumentError, when run, for negative numbers.
    """
    with get_default_graph().name_scope(name or "bincount"):
        arr = whole_numbers(arr)
        if not axis:
            arr = apply_op("Reshape", arr, [-1])
        kind = arr.dtype
        is_any = apply_op("Cast", apply_op("Greater", apply_op("Size", arr), 0), DstT=kind)
        axes = apply_op("Range", 0, apply_op("Rank", arr), 1)
        top = apply_op("AddV2", apply_op("Max", arr, axes), 1)
        size = apply_op("Mul", is_any, apply_op("Maximum", top, 0))
        if minlength is not None:
            size = apply_op("Maximum", size, convert_to_tensor(minlength, kind))
        if maxlength is not None:
            size = apply_op("Minimum", size, convert_to_tensor(maxlength, kind))
        if weights is None:
            amounts: Any = np.zeros(0, as_dtype(dtype).as_numpy_dtype)
        else:
            amounts = convert_to_tensor(weights)
            if not axis:
                amounts = apply_op("Reshape", amounts, [-1])
        return apply_op("DenseBincount", arr, size, amounts, binary_output=binary_output)


@export("histogram_fixed_width")
def histogram_fixed_width(
    values: TensorLike,
    value_range: TensorLike,
    nbins: TensorLike = 100,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Any:
    """Count values in `nbins` bins of equal width over value_range; outliers join the end bins.

    Args:
      values: numbers, of any shape.
      value_range: [2], the least and the greatest, of the type of values.
      nbins: an int32 scalar, at least 1.
      dtype: int32 or int64.
    Returns: [nbins].
    Raises: InvalidArgumentError for a range without width, or no bins.
    """
    return apply_op(
        "HistogramFixedWidth",
        values,
        value_range,
        nbins,
        dtype=as_dtype(dtype),
        name=name or "histogram_fixed_width",
    )


@export("histogram_fixed_width_bins")
def histogram_fixed_width_bins(
    values: TensorLike,
    value_range: TensorLike,
    nbins: TensorLike = 100,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Any:
    """Return the number of the bin in which histogram_fixed_width counts each value.

    Returns: `dtype`, in the shape of values.
    """
    with get_default_graph().name_scope(name or "histogram_fixed_width_bins"):
        given = convert_to_tensor(values)
        wide = dtypes.float64
        low, high = (
            apply_op("GatherV2", apply_op("Cast", convert_to_tensor(value_range), DstT=wide), i, 0)
            for i in (0, 1)
        )
        count = apply_op("Cast", convert_to_tensor(nbins), DstT=wide)
        place = (apply_op("Cast", given, DstT=wide) - low) / (high - low) * count
        within = apply_op("ClipByValue", apply_op("Floor", place), np.float64(0), count - 1)
        return apply_op("Cast", within, DstT=as_dtype(dtype))


@export("math.confusion_matrix", "confusion_matrix")
def confusion_matrix(
    labels: TensorLike,
    predictions: TensorLike,
    num_classes: TensorLike | None = None,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
    weights: TensorLike | None = None,
) -> Any:
    """Count how often each label (row) met each prediction (column).

    Shapes: labels, predictions and weights [n]; result [num_classes, num_classes], by default
    one more than the greatest number found.
    """
    with get_default_graph().name_scope(name or "confusion_matrix"):
        pair = [apply_op("Cast", convert_to_tensor(v), DstT="int64") for v in (labels, predictions)]
        if num_classes is None:
            tops = [apply_op("Max", part, [0]) for part in pair]
            classes = apply_op("AddV2", apply_op("Maximum", *tops), 1)
        else:
            classes = apply_op("Cast", convert_to_tensor(num_classes), DstT="int64")
        kind = as_dtype(dtype)
        if weights is None:
            one = np.ones((), kind.as_numpy_dtype)
            amounts = apply_op("Fill", apply_op("Shape", pair[0]), one)
        else:
            amounts = apply_op("Cast", convert_to_tensor(weights), DstT=kind)
        indices = apply_op("Pack", pair, axis=1)
        shape = apply_op("Pack", [classes, classes], axis=0)
        return apply_op("ScatterNd", indices, amounts, shape)
