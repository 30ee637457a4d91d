"""The arithmetic of quantised numbers: whole numbers that stand for levels of a range of floats.

A type of n bits has 2 ** n levels; its least number stands for the lower end of the range.  Zero of
the floats lies at one of the levels wherever a range is made by `quantize`.

TensorFlow's kernels do it in two ways, which differ in the last place: number by number in double
precision (`level_of`, `float_of`), and on whole tensors in single precision (`to_levels`,
`to_floats`).  Both are here, since each op has to use its kernel's.
Source: tensorflow/core/kernels/quantization_utils.h.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.types import Array
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

F = np.float32
# Floats that quantised numbers stand for, and an end of a range of them.
Floats: TypeAlias = "Array | np.floating[Any]"
End: TypeAlias = "np.floating[Any] | float"

QUANTIZED = "{qint8, quint8, qint32, qint16, quint16}"

# What a float may be that becomes an int32.
_LEAST_INT32, _MOST_INT32 = F(-2147483648), F(2147483520)


def ends(dtype: DType) -> tuple[int, int]:
    """Return the least and the greatest number of a type."""
    info = np.iinfo(dtype.as_numpy_dtype)
    return int(info.min), int(info.max)


def round_away(x: Floats) -> Any:
    """Return x rounded to whole numbers, half away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign((np.abs(x - whole) >= 0.5).astype(x.dtype), x)


def scalar(value: Floats, what: str) -> Any:
    """Return an end of a range.  Raises: InvalidArgumentError for what is no scalar."""
    if np.ndim(value):
        raise errors.InvalidArgumentError(
            f"{what} must be rank 0 but is rank {np.ndim(value)}, of shape {list(np.shape(value))}"
        )
    return F(value)


def only_one(value: Floats, what: str) -> Any:
    """Return the one element of an end of a range.  Raises: InvalidArgumentError for others."""
    if np.size(value) != 1:
        raise errors.InvalidArgumentError(
            f"{what} must have one element; its shape is {list(np.shape(value))}"
        )
    return F(np.reshape(value, ()))


def lesser(a: Floats, b: Floats) -> Any:
    """Return the lesser of two, the first where one is no number."""
    return np.where(b < a, b, a)


def greater(a: Floats, b: Floats) -> Any:
    """Return the greater of two, the first where one is no number."""
    return np.where(a < b, b, a)


def require_order(low: End, high: End, what: str) -> None:
    """Raise InvalidArgumentError for a range without width."""
    if not high > low:
        raise errors.InvalidArgumentError(f"max_{what} must be larger than min_{what}.")


def require_scalars(c: ShapeContext, *names: str) -> None:
    """Refuse ends of ranges that are known not to be scalars.  Raises: ValueError."""
    for name in names:
        dims = c.shape(name)
        if dims:
            raise ValueError(f"{name} must be a scalar; its shape is {shapes.format_dims(dims)}")


# ---- number by number


def level_of(x: Floats, low: End, high: End, dtype: DType) -> Any:
    """Return the levels of floats, int64, of which some may lie outside the type."""
    least, most = ends(dtype)
    if low == high:
        return np.full(np.shape(x), least, np.int64)
    count = float(most - least + 1)
    scale = count / (float(high - low) * (count / (count - 1.0)))
    at = round_away(np.float64(x) * scale) - round_away(np.float64(low) * scale)
    return at.astype(np.int64) + least


def nearest_level(x: Floats, low: End, high: End, dtype: DType) -> Any:
    """Return the levels of floats, each the nearest that the type has."""
    return np.clip(level_of(x, low, high, dtype), *ends(dtype)).astype(dtype.as_numpy_dtype)


def float_of(levels: Any, low: End, high: End, dtype: DType) -> Any:
    """Return the floats that levels stand for."""
    if low == high:
        return np.full(np.shape(levels), low, F)
    least, most = ends(dtype)
    count = float(most - least + 1)
    step = float(high - low) * (count / (count - 1.0)) / count
    begin = float(round_away(np.float64(low / F(step)))) * float(F(step))
    return (begin + (np.float64(levels) - least) * step).astype(F)


def one_level(low: End, high: End, dtype: DType) -> Any:
    """Return the distance of two levels."""
    least, most = ends(dtype)
    return F(high - low) / F(most - least)


def range_of_products(
    first: tuple[Any, Any, DType], second: tuple[Any, Any, DType], dtype: DType
) -> tuple[Any, Any]:
    """Return the range in which products of levels are levels of `dtype`."""
    step = one_level(*first) * one_level(*second)
    least, most = ends(dtype)
    return step * F(least), step * F(most)


def range_of_sums(most: End, bits: int) -> tuple[Any, Any]:
    """Return a range around zero for sums of floats up to `most`, with so many bits to spare."""
    end = F(most) * F(1 << bits)
    return -end, end


# ---- whole tensors


def to_levels(x: Floats, low: End, high: End, dtype: DType) -> Any:
    """Return floats as levels, each the nearest that the type has."""
    least, most = ends(dtype)
    scale = F(0) if low == high else F(float(most - least) / np.float64(high - low))
    begin = round_away(F(low * scale))
    at = round_away(x * scale) - F(begin - F(least))
    at = np.minimum(np.maximum(at, max(F(least), _LEAST_INT32)), min(F(most), _MOST_INT32))
    return at.astype(np.int32).astype(dtype.as_numpy_dtype)


def to_floats(levels: Array, low: End, high: End, dtype: DType) -> Any:
    """Return levels as the floats that they stand for."""
    least, most = ends(dtype)
    step = F(np.float64(high - low) / float(most - least))
    begin = low if low == high else F(round_away(F(low / step)) * step)
    return F(begin - F(least) * step) + levels.astype(F) * step


def requantized(
    levels: Array, given: tuple[Any, Any], wanted: tuple[Any, Any], source: DType, dtype: DType
) -> Any:
    """Return levels of one range and type as those of another."""
    if source.name == "qint32" and dtype.name == "quint8":
        return _in_fixed_point(levels, given, wanted)
    return to_levels(to_floats(levels, *given, source), *wanted, dtype)


def _in_fixed_point(levels: Array, given: tuple[Any, Any], wanted: tuple[Any, Any]) -> Any:
    """Return levels of 32 bits as such of 8, by whole numbers with 16 bits behind the point."""
    bits = 16
    one = 1 << bits
    wide, narrow = given[1] - given[0], wanted[1] - wanted[0]
    if narrow == 0:
        return np.zeros(levels.shape, np.uint8)
    middle = F(np.float64(given[0] + given[1]) / 2.0)
    scale = np.int64(255.0 * one * np.float64(wide) / np.float64(narrow))
    offset = np.int64(middle * F(255.0 / np.float64(narrow)) * F(one))
    begin = np.int64(one * (np.float64(wanted[0]) * 255.0) / np.float64(narrow))
    at = (levels.astype(np.int64) * scale >> 32) + offset - begin + (one >> 1)
    return np.clip(at >> bits, 0, 255).astype(np.uint8)
