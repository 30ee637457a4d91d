"""Values of Python as arrays: which element type they get, and what they must not lose."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType


class UnsupportedValue(TypeError):
    """A Python value was given that has no element type, or does not fit one."""


def to_array(value: Any, dtype: DType | None = None, wraps: bool = False) -> np.ndarray[Any, Any]:
    """Return a Python value as an array of the type wanted, or of its natural type.

    Python floats become float32 and ints int32 (int64 where they do not fit); arrays keep their
    type, or convert to another if nothing is lost.  Strings become object arrays of bytes.
    wraps: whether integers may lose bits that the type has no room for.
    Raises: TypeError for a Python value that cannot be one without losing something; ValueError for
    None and for lists of different lengths.
    """
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype.kind in "SUO":
            return _string_array(array, dtype)
        if dtype is None or array.dtype == dtype.as_numpy_dtype:
            return array
        if isinstance(value, (np.ndarray, np.generic)) and _converts(array, dtype):
            return array.astype(dtype.as_numpy_dtype)
        return _cast_exactly(array, dtype, value, wraps)
    try:
        array = np.asarray(value)
    except OverflowError as error:
        raise TypeError(f"{short_text(value)} cannot be a tensor: {error}") from None
    except ValueError as error:
        raise ValueError(f"{short_text(value)} cannot be a tensor: {error}") from None
    if array.dtype.kind in "SU" and not _all_strings(value):
        raise UnsupportedValue(
            f"{short_text(value)} cannot be a tensor: it holds strings and numbers"
        )
    if array.dtype.kind in "SU":
        # From the values themselves: NumPy's own strings lose zeros at their end.
        return _string_array(np.asarray(value, object), dtype)
    if array.dtype.kind in "ufO" and type(_first(value)) is int and _all_ints(value):
        array = _beyond_int64(array, value, dtype, wraps)
    if array.dtype.kind == "O":
        return _string_array(array, dtype)
    if array.dtype.kind in "iufc" and type(_first(value)) is bool:
        raise ValueError("Can't convert Python sequence with mixed types to Tensor.")
    if dtype is not None:
        return _cast_exactly(array, dtype, value, wraps)
    if array.dtype == np.float64 and not _holds_numpy_float64(value):
        return array.astype(np.float32)
    if array.dtype == np.int64 and not _holds_numpy(value):
        small = np.iinfo(np.int32)
        fits = not array.size or (array.min() >= small.min and array.max() <= small.max)
        return array.astype(np.int32) if fits else array
    return array


def _first(value: Any) -> Any:
    """Return the first element of nested lists; None where there is none."""
    while isinstance(value, (list, tuple)):
        value = value[0] if value else None
    return value


def _all_ints(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_all_ints, value))
    return isinstance(value, (int, np.integer))


def _beyond_int64(
    array: np.ndarray[Any, Any], value: Any, dtype: DType | None, refuses: bool
) -> np.ndarray[Any, Any]:
    """Return Python ints, one of which is too large for int64: NumPy makes floats of some.

    Raises: UnsupportedValue for ints that the type wanted has no room for, and, if refuses, where
    none is wanted.
    """
    if dtype is None and array.dtype.kind != "O" and not refuses:
        return array
    if dtype is not None and (dtype.is_floating or dtype.is_complex):
        return np.asarray(value, np.float64)
    exact = np.asarray(value, object)
    if dtype is dtypes.uint64 and exact.min() >= 0 and exact.max() < 2**64:
        return exact.astype(np.uint64)
    wanted = "int64; give dtype tf.uint64" if dtype is None else dtype.name
    raise UnsupportedValue(f"{short_text(value)} does not fit {wanted}")


def _all_strings(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_all_strings, value))
    return isinstance(value, (str, bytes)) or np.asarray(value).dtype.kind in "SUO"


def _converts(array: np.ndarray[Any, Any], dtype: DType) -> bool:
    """Whether NumPy's numbers become another type without a word, as with TensorFlow."""
    if array.dtype.kind == "f" and dtype.is_integer:
        return True
    return array.dtype.kind == "b" and (dtype.is_floating or dtype.is_integer)


def _holds_numpy(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_numpy(v) for v in value)
    return isinstance(value, (np.generic, np.ndarray))


def _holds_numpy_float64(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_numpy_float64(v) for v in value)
    return isinstance(value, (np.generic, np.ndarray)) and value.dtype == np.float64


def _string_array(array: np.ndarray[Any, Any], dtype: DType | None) -> np.ndarray[Any, Any]:
    flat = array.reshape(-1).tolist()
    if not all(isinstance(item, (str, bytes)) for item in flat):
        if dtype in (dtypes.resource, dtypes.variant):
            return array
        kinds = sorted({type(item).__name__ for item in flat})
        if "NoneType" in kinds:
            raise ValueError("None is no value of a tensor")
        raise UnsupportedValue(f"a tensor cannot hold {', '.join(kinds)} together or at all")
    if dtype is not None and dtype is not dtypes.string:
        raise TypeError(f"a string cannot be a {dtype.name}; tf.strings.to_number converts")
    made = np.empty(array.shape, object)
    made_flat = made.reshape(-1)
    for i, item in enumerate(flat):
        made_flat[i] = item.encode() if isinstance(item, str) else bytes(item)
    return made


def _cast_exactly(
    array: np.ndarray[Any, Any], dtype: DType, value: Any, wraps: bool
) -> np.ndarray[Any, Any]:
    kind = array.dtype.kind
    if array.size and (
        dtype is dtypes.string
        or (kind == "f" and not (dtype.is_floating or dtype.is_complex))
        or (kind == "c" and not dtype.is_complex)
        or (kind == "b" and not dtype.is_bool)
        or (dtype.is_bool and kind != "b")
    ):
        raise TypeError(
            f"{short_text(value)} does not fit type {dtype.name}; tf.cast converts explicitly"
        )
    is_whole = array.size and kind in "iu" and (dtype.is_integer or dtype.is_quantized)
    # Python's integers have 64 bits at most: those of a type as wide are never cut off.
    wraps = wraps and kind == "i" and not (dtype.size == 8 or dtype.is_quantized)
    if is_whole and not wraps and (array.min() < dtype.min or array.max() > dtype.max):
        raise TypeError(f"{short_text(value)} does not fit the range of {dtype.name}")
    return array.astype(dtype.as_numpy_dtype)


def short_text(value: Any) -> str:
    """Return a value as messages show it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
