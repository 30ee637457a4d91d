"""Finding elements: where, unique, differences of lists.

The shapes of the results follow from the data, so these run on the host.

Source: tensorflow/core/kernels/where_op.cc, unique_op.cc, listdiff_op.cc.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Rows
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import check_vector
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError


def _where_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    return [(None, None if given is None else len(given))]


@op(
    """
    Where(input: T) -> index: int64
    T: type in {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, \
bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64, bool} = bool
    """,
    shape=_where_shape,
)
def where_kernel(ctx: KernelContext, x: Array) -> Any:
    """Return the indices of the elements that are not zero, one in each row, in row-major order.

    Raises: InvalidArgumentError for a scalar.
    """
    if not np.ndim(x):
        raise InvalidArgumentError("Where wants rank 1 or more; found a scalar")
    return np.argwhere(x)


@export("where")
def where(
    condition: TensorLike,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return x where condition is true and y elsewhere; without both, the indices of the trues.

    condition has the shape of x and y, or is a vector that chooses rows (v1 rule).
    Raises: ValueError when only one of x and y is given.
    """
    if (x is None) != (y is None):
        raise ValueError("give both x and y, or neither")
    made: Tensor
    if x is None:
        with get_default_graph().name_scope(name or "Where") as scope:
            chosen = convert_to_tensor(condition, None, "condition", dtypes.bool_)
            made = apply_op("Where", chosen, name=scope)
    else:
        made = apply_op("Select", condition, x, y, name=name)
    return made


@export("where_v2")
@export_v2("where")
def where_v2(
    condition: TensorLike,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return x where condition is true and y elsewhere, all three broadcast (see where).

    Args:
      condition: bool.
      x, y: of one type; both or neither may be None.
    Returns: the elements; without x and y the indices of true elements, int64 [count, rank].
    Raises: ValueError where one of x and y is None.
    """
    if (x is None) != (y is None):
        raise ValueError("give both x and y, or neither")
    made: Tensor
    if x is None:
        with get_default_graph().name_scope(name or "Where") as scope:
            chosen = convert_to_tensor(condition, None, "condition", dtypes.bool_)
            made = apply_op("Where", chosen, name=scope)
    else:
        made = apply_op("SelectV2", condition, x, y, name=name)
    return made


# ---- unique


def _unique_shape(c: ShapeContext) -> list[Dims]:
    (size,) = with_rank(c.inputs[0], 1, "x")
    found: list[Dims] = [(None,), (size,), (None,)]
    return found[: len(c.node.output_types)]


def first_occurrences(x: Array) -> tuple[Any, Any]:
    """Return for a vector: where each distinct value first comes, in that order; and for each
    element the number of its value in that order."""
    if x.dtype == object:
        return _first_by_hash(x.tolist())
    size = len(x)
    order = x.argsort(kind="stable")
    ordered = x[order]
    # A view of the bits would tell 0.0 from -0.0 and join NaNs; TensorFlow compares with ==.
    is_new = np.ones(size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    firsts = order[is_new]
    if len(firsts) == size:
        return np.arange(size), np.arange(size)
    is_first = np.zeros(size, bool)
    is_first[firsts] = True
    number_at = is_first.cumsum() - 1
    numbers = np.empty(size, np.int64)
    numbers[order] = number_at[firsts][is_new.cumsum() - 1]
    return is_first.nonzero()[0], numbers


def _first_by_hash(keys: list[Hashable]) -> tuple[Any, Any]:
    seen: dict[Hashable, int] = {}
    first: list[int] = []
    inverse = np.empty(len(keys), np.int64)
    for i, key in enumerate(keys):
        at = seen.setdefault(key, len(first))
        if at == len(first):
            first.append(i)
        inverse[i] = at
    return np.array(first, np.int64), inverse


def _check_vector(x: Array, what: str) -> None:
    if np.ndim(x) != 1:
        raise InvalidArgumentError(f"{what} wants a vector; found shape {list(np.shape(x))}")


@op(
    """
    Unique(x: T) -> y: T, idx: out_idx
    T: type
    out_idx: type in indices = int32
    """,
    shape=_unique_shape,
    any_device=True,
    rows=Rows.DISTINCT,
)
def unique_kernel(ctx: KernelContext, x: Array, *, out_idx: DType) -> Any:
    """Return the distinct values in the order of their first coming, and each element's number."""
    _check_vector(x, "Unique")
    first, inverse = first_occurrences(x)
    return x[first], inverse.astype(out_idx.as_numpy_dtype)


@op(
    """
    UniqueWithCounts(x: T) -> y: T, idx: out_idx, count: out_idx
    T: type
    out_idx: type in indices = int32
    """,
    shape=_unique_shape,
    any_device=True,
)
def unique_with_counts_kernel(ctx: KernelContext, x: Array, *, out_idx: DType) -> Any:
    """Return what Unique does, and how often each value comes."""
    _check_vector(x, "UniqueWithCounts")
    first, inverse = first_occurrences(x)
    index = out_idx.as_numpy_dtype
    return x[first], inverse.astype(index), _counts(inverse, first).astype(index)


def _counts(numbers: Array, first: Array) -> Any:
    """Return how often each distinct value comes."""
    return np.bincount(numbers, minlength=len(first))


def _unique_v2_shape(c: ShapeContext) -> list[Dims]:
    given, axis = c.inputs[0], c.value(1)
    count = len(c.node.output_types)
    if given is None or axis is None or (not axis.size and len(given) != 1):
        unknown: list[Dims] = [None, (None,), (None,)]
        return unknown[:count]
    at = int(axis.reshape(-1)[0]) if axis.size else 0
    if not -len(given) <= at < len(given):
        raise ValueError(f"axis {at} lies outside rank {len(given)}")
    at %= len(given)
    found: list[Dims] = [(*given[:at], None, *given[at + 1 :]), (given[at],), (None,)]
    return found[:count]


def _unique_along(x: Array, axis: Array, what: str) -> tuple[Any, Any, Any]:
    """Return the distinct slices of x along an axis, the number of each slice among them, and how
    often each comes."""
    if not axis.size:
        _check_vector(x, what)
    check_vector(axis, f"{what}: the axis")
    at = int(axis[0]) if axis.size else 0
    if axis.size > 1 or not -x.ndim <= at < x.ndim:
        raise InvalidArgumentError(f"{what}: axis {axis.tolist()} for rank {x.ndim}")
    if x.ndim == 1:
        first, inverse = first_occurrences(x)
    else:
        width = math.prod(size for i, size in enumerate(x.shape) if i != at % x.ndim)
        rows = np.moveaxis(x, at, 0).reshape(x.shape[at], width).tolist()
        first, inverse = _first_by_hash([tuple(row) for row in rows])
    return np.take(x, first, at), inverse, _counts(inverse, first)


@op(
    """
    UniqueV2(x: T, axis: Taxis) -> y: T, idx: out_idx
    T: type
    Taxis: type in indices = int64
    out_idx: type in indices = int32
    """,
    shape=_unique_v2_shape,
    any_device=True,
)
def unique_v2_kernel(ctx: KernelContext, x: Array, axis: Array, *, out_idx: DType) -> Any:
    """Return the distinct slices along an axis, and each slice's number."""
    values, inverse, _ = _unique_along(x, axis, "UniqueV2")
    return values, inverse.astype(out_idx.as_numpy_dtype)


@op(
    """
    UniqueWithCountsV2(x: T, axis: Taxis) -> y: T, idx: out_idx, count: out_idx
    T: type
    Taxis: type in indices = int64
    out_idx: type in indices = int32
    """,
    shape=_unique_v2_shape,
    any_device=True,
)
def unique_with_counts_v2_kernel(
    ctx: KernelContext, x: Array, axis: Array, *, out_idx: DType
) -> Any:
    """Return what UniqueV2 does, and how often each slice comes."""
    values, inverse, counts = _unique_along(x, axis, "UniqueWithCountsV2")
    index = out_idx.as_numpy_dtype
    return values, inverse.astype(index), counts.astype(index)


class Unique(NamedTuple):
    """What unique returns."""

    y: Tensor
    idx: Tensor


class UniqueWithCounts(NamedTuple):
    """What unique_with_counts returns."""

    y: Tensor
    idx: Tensor
    count: Tensor  # type: ignore[assignment]  # TensorFlow's name, which hides tuple.count


@export("unique")
def unique(x: object, out_idx: object = dtypes.int32, name: str | None = None) -> Unique:
    """Return the distinct values of a vector in the order of their first coming, and for each
    element the number of its value.

    Args:
      x: a vector of any type.
      out_idx: the type of the numbers, int32 or int64.
    Returns: a pair y [count], idx [length of x], so that y[idx[i]] is x[i].
    Raises: InvalidArgumentError for what is no vector.
    """
    return Unique(*apply_op("Unique", x, out_idx=out_idx, name=name))


@export("unique_with_counts")
def unique_with_counts(
    x: object, out_idx: object = dtypes.int32, name: str | None = None
) -> UniqueWithCounts:
    """Return what unique does, and how often each value comes."""
    return UniqueWithCounts(*apply_op("UniqueWithCounts", x, out_idx=out_idx, name=name))


# ---- differences


def _list_diff_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.inputs[0], 1, "x")
    with_rank(c.inputs[1], 1, "y")
    return [(None,), (None,)]


@op(
    """
    ListDiff(x: T, y: T) -> out: T, idx: out_idx
    T: type
    out_idx: type in indices = int32
    """,
    shape=_list_diff_shape,
)
def list_diff_kernel(ctx: KernelContext, x: Array, y: Array, *, out_idx: DType) -> Any:
    """Return the elements of x that are not in y, in their order, and their indices."""
    _check_vector(x, "ListDiff")
    _check_vector(y, "ListDiff")
    dropped = set(y.tolist())
    kept = [i for i, value in enumerate(x.tolist()) if value not in dropped]
    index = np.array(kept, np.int64)
    return x[index], index.astype(out_idx.as_numpy_dtype)


class ListDiff(NamedTuple):
    """Elements that another tensor lacks, and their indices."""

    out: Tensor
    idx: Tensor


@export("setdiff1d")
def setdiff1d(
    x: TensorLike, y: TensorLike, index_dtype: DTypeLike = dtypes.int32, name: str | None = None
) -> ListDiff:
    """Return the elements of x that are not in y, in their order, and their indices."""
    return ListDiff(*apply_op("ListDiff", x, y, out_idx=index_dtype, name=name))


not_differentiable(
    "Where", "Unique", "UniqueWithCounts", "UniqueV2", "UniqueWithCountsV2", "ListDiff"
)
