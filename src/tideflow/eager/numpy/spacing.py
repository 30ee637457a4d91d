"""Numbers spread between two ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.eager.numpy.arranging import moveaxis
from tideflow.eager.numpy.arrays import asarray, broadcast_together, zeros
from tideflow.eager.numpy.elementwise import log10, real
from tideflow.eager.numpy.promotion import result_type
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.types import DTypeLike
from tideflow.ops.array.searching import where_v2
from tideflow.ops.export import export_v2
from tideflow.ops.math import ranges
from tideflow.ops.math.casts import cast
from tideflow.wire.dtypes import DType, as_dtype


def _float_of(start: Any, stop: Any) -> DType:
    """Return the type of floats that two ends have in common."""
    return result_type(start * 1.0, stop * 1.0)


@export_v2("experimental.numpy.linspace")
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = float,
    axis: int = 0,
) -> Any:
    """Return num numbers from start to stop in equal steps, along a new axis.

    Args:
      endpoint: whether stop is the last of them.
      retstep: whether to return the step, too.
      dtype: anything for the floats that the ends have in common; None for the ends' own types.
    Raises: ValueError for a negative num.
    """
    if num < 0:
        raise ValueError(f"num must not be negative; found {num}")
    kind = _float_of(start, stop) if dtype else None
    first, last = asarray(start, kind), asarray(stop, kind)
    step: Any = convert_to_tensor(np.nan)
    steps = num - 1 if endpoint else num
    if steps > 0:
        step = (last - first) / steps
    if not endpoint and num > 1:
        last = cast(last, step.dtype) - step
        first = cast(first, last.dtype)
    if first.dims != last.dims:
        first, last = broadcast_together([first, last])
    found = ranges.linspace(first, last, num, axis=axis)
    if kind is not None:
        found = cast(found, kind)
    return (found, step) if retstep else found


@export_v2("experimental.numpy.logspace")
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Any:
    """Return num powers of base, from base ** start to base ** stop, of the ends' floats."""
    kind = _float_of(start, stop)
    exponents = linspace(start, stop, num=num, endpoint=endpoint, dtype=kind, axis=axis)
    return cast(apply_op("Pow", cast(base, exponents.dtype), exponents), kind)


@export_v2("experimental.numpy.geomspace")
def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Any:
    """Return num numbers from start to stop, each the same multiple of the one before."""
    kind = as_dtype(dtype) if dtype else result_type(start, stop, float(num), zeros((), dtype))
    computed = as_dtype(np.promote_types(kind.as_numpy_dtype, np.float32))
    first, last = asarray(start, computed), asarray(stop, computed)
    both_negative = apply_op("LogicalAnd", real(first) < 0, real(last) < 0)
    ones = apply_op("OnesLike", first)
    turn = where_v2(both_negative, -ones, ones)
    powers = logspace(log10(turn * first), log10(turn * last), num, endpoint=endpoint)
    found = turn * powers
    return cast(moveaxis(found, 0, axis) if axis else found, kind)
