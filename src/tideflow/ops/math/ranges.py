"""Sequences of numbers at equal distances: Range and LinSpace.

Source: sequence_ops.cc of TensorFlow 2.21.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.static_value import static_value
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import check_scalar
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError

_COUNTABLE = "{bfloat16, half, float, double, int8, int16, int32, int64, uint16, uint32, uint64}"


def _count(start: Any, limit: Any, delta: Any) -> int:
    """Return how many numbers a range holds.  Raises: ValueError for one that never ends."""
    if delta == 0:
        raise ValueError("Requires delta != 0")
    if delta > 0 and start > limit:
        raise ValueError(f"Requires start <= limit when delta > 0: {start}/{limit}")
    if delta < 0 and start < limit:
        raise ValueError(f"Requires start >= limit when delta < 0: {start}/{limit}")
    if isinstance(start, int):
        return int(-((start - limit) // delta))
    # In the arithmetic of the type: in float32, (1.1 - 0.1) / 0.1 is 10, and no more.
    count: int = math.ceil(abs((limit - start) / delta))
    return count


def _bound(value: Any) -> Any:
    """Return the number of a bound: an int, or a float as NumPy holds it."""
    number = np.asarray(value).reshape(-1)[0]
    return int(number) if number.dtype.kind in "iu" else number


def _range_shape(c: ShapeContext) -> list[Dims]:
    bounds = [c.value(i) for i in (0, 1, 2)]
    if any(bound is None for bound in bounds):
        return [(None,)]
    return [(_count(*map(_bound, bounds)),)]


@op(
    f"""
Range(start: Tidx, limit: Tidx, delta: Tidx) -> output: Tidx
Tidx: type in {_COUNTABLE} = int32
""",
    shape=_range_shape,
    static=("start", "limit", "delta"),
    compiles=Compiles.ALWAYS,
    is_stated=True,
)
def _range(xp: ArrayNamespace, start: Array, limit: Array, delta: Array) -> Any:
    for what, bound in (("start", start), ("limit", limit), ("delta", delta)):
        # A vector of one stands for its number, as in graphs of old.
        if bound.ndim > 1 or bound.size != 1:
            raise InvalidArgumentError(
                f"range: {what} must be a scalar; its shape is {list(bound.shape)}"
            )
    try:
        count = _count(_bound(start), _bound(limit), _bound(delta))
    except (ValueError, OverflowError) as error:
        raise InvalidArgumentError(str(error)) from None
    dtype = start.dtype
    if dtype.kind in "iu":
        return start + xp.arange(count, dtype=dtype) * delta
    # One addition after the other would gather rounding errors.
    steps = xp.arange(count, dtype=np.float64) * delta.item() + start.item()
    return steps.astype(dtype)


not_differentiable("Range")


def is_range(tensor: Tensor) -> bool:
    """Whether a tensor is a range, whose operation takes its start, limit and delta."""
    return tensor.op.type == "Range"


_WIDENING = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)


@export("range")
def range(
    start: TensorLike,
    limit: TensorLike | None = None,
    delta: TensorLike = 1,
    dtype: DTypeLike | None = None,
    name: str = "range",
) -> Any:
    """Return start, start + delta, ... below limit (above it, for a negative delta).

    `range(n)` counts from 0.  Without `dtype` the widest type of the arguments is taken.
    Shapes: three scalars; the result is a vector.
    Raises: ValueError or InvalidArgumentError for a delta of 0 or one that leads away.
    """
    if limit is None:
        start, limit = 0, start
    with get_default_graph().name_scope(name) as scope:
        wanted = None if dtype is None else dtypes.as_dtype(dtype)
        given = {"start": start, "limit": limit, "delta": delta}
        bounds = [
            convert_to_tensor(value, _natural(value, wanted), part) for part, value in given.items()
        ]
        if wanted is None:
            kinds = [bound.dtype.base_dtype for bound in bounds]
            known = [kind for kind in kinds if kind in _WIDENING]
            wanted = max(known, key=_WIDENING.index) if len(known) == len(kinds) else kinds[0]
        cast = [
            b if b.dtype.base_dtype is wanted else apply_op("Cast", b, DstT=wanted) for b in bounds
        ]
        return apply_op("Range", *cast, name=scope)


def _natural(value: TensorLike, wanted: Any) -> Any:
    """Python numbers take the wanted type at once; tensors and arrays keep theirs."""
    return wanted if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _lin_space_shape(c: ShapeContext) -> list[Dims]:
    num = c.value(2)
    if num is None:
        return [(None,)]
    if int(num) <= 0:
        raise ValueError(f"LinSpace needs num > 0; found {int(num)}")
    return [(int(num),)]


@op(
    """
LinSpace(start: T, stop: T, num: Tidx) -> output: T
T: type in floats
Tidx: type in indices = int32
""",
    shape=_lin_space_shape,
    static=("num",),
)
def _lin_space(xp: ArrayNamespace, start: Array, stop: Array, num: Array) -> Any:
    count = int(num)
    if count <= 0:
        raise InvalidArgumentError(f"Requires num > 0: {count}")
    check_scalar(start, "start")
    check_scalar(stop, "stop")
    if count == 1:
        return xp.reshape(start, (1,))
    dtype = start.dtype
    index = xp.arange(count, dtype=dtype)
    step = (stop - start) / xp.asarray(count - 1, dtype)
    # The last number is the limit itself, whatever the steps add up to.
    return xp.where(index == count - 1, stop, start + step * index)


not_differentiable("LinSpace")


@export("linspace", "lin_space")
def linspace(
    start: TensorLike, stop: TensorLike, num: TensorLike, name: str | None = None, axis: int = 0
) -> Any:
    """Return `num` numbers from start to stop, along a new axis where these are not scalars.

    Integers are counted as float64.
    Raises: ValueError or InvalidArgumentError when num is negative.
    """
    with get_default_graph().name_scope(name or "linspace") as scope:
        first = convert_to_tensor(start)
        if first.dtype.base_dtype.is_integer:
            first = apply_op("Cast", first, DstT=dtypes.float64)
        last = convert_to_tensor(stop)
        if last.dtype.base_dtype is not first.dtype.base_dtype:
            last = apply_op("Cast", last, DstT=first.dtype.base_dtype)
        rank = max(len(first.dims or ()), len(last.dims or ())) + 1
        count = convert_to_tensor(num)
        known = static_value(*count.edge)
        if known is not None and known != 0:
            return _spaced(first, last, count, axis % rank, scope)
        # The op gives at least one number.
        some = _spaced(first, last, apply_op("Maximum", count, 1), axis % rank, None)
        places = apply_op("Range", convert_to_tensor(0, count.dtype), count, 1)
        return apply_op("GatherV2", some, places, axis % rank, name=scope)


def _spaced(first: Tensor, last: Tensor, num: Tensor, axis: int, name: str | None) -> Any:
    if first.dims == () and last.dims == ():
        return apply_op("LinSpace", first, last, num, name=name)
    one = convert_to_tensor(1, first.dtype.base_dtype)
    share = apply_op("LinSpace", apply_op("Sub", one, one), one, num)
    sizes = [1] * (max(len(first.dims or ()), len(last.dims or ())) + 1)
    sizes[axis] = -1
    share = apply_op("Reshape", share, sizes)
    first, last = (apply_op("ExpandDims", x, axis) for x in (first, last))
    # Weighted, not stepped, so that the ends are exact.
    low = apply_op("Mul", first, apply_op("Sub", one, share))
    return apply_op("AddV2", low, apply_op("Mul", last, share), name=name)
