"""The features of records (tf.train.Example) as arrays.

Source: tensorflow/core/util/example_proto_fast_parsing.cc.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import Array
from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError

_KINDS = {"bytes_list": dtypes.string, "float_list": dtypes.float32, "int64_list": dtypes.int64}


def examples_of(serialized: object) -> list[Any]:
    made = []
    for text in np.asarray(serialized, object).reshape(-1).tolist():
        try:
            made.append(pb.Example.FromString(text).features.feature)
        except DecodeError:
            raise InvalidArgumentError(
                f"Could not parse example input, value: {text[:60]!r}"
            ) from None
    return made


def values_of(features: Any, key: str, dtype: DType) -> Any:
    """Return a feature's values, or None where it is missing.  Raises: InvalidArgumentError."""
    if key not in features:
        return None
    feature = features[key]
    kind = feature.WhichOneof("kind")
    if kind is None:
        return None
    if _KINDS[kind] is not dtype:
        raise InvalidArgumentError(
            f"Key: {key}.  Data types don't match. Expected type: {dtype.name}; found {kind}"
        )
    found = getattr(feature, kind).value
    if dtype is dtypes.string:
        return _object_array(found)
    return np.array(found, dtype.as_numpy_dtype)


def _object_array(items: Sequence[bytes]) -> Any:
    made = np.empty(len(items), object)
    made[:] = list(items)
    return made


def joined(parts: list[Any], dtype: DType) -> Any:
    return np.concatenate([np.empty(0, dtype.as_numpy_dtype), *parts])


def keys_of(value: object) -> list[str]:
    """Return names, given as a vector, or as a list of scalars or of strings."""
    # A name that is no UTF-8 stands in no record.
    return [key if isinstance(key, str) else key.decode(errors="replace") for key in _flat(value)]


def check_count(kind: str, keys: Sequence[Any], count: int) -> None:
    """Raise InvalidArgumentError unless there is a key for each of `count` features."""
    if len(keys) != count:
        raise InvalidArgumentError(f"there are {len(keys)} {kind} keys for {count} features")


def _flat(value: object) -> list[Any]:
    if isinstance(value, list):
        return [one for item in value for one in _flat(item)]
    return np.asarray(value, object).reshape(-1).tolist()


def rows_of(examples: list[Any], key: str, dtype: DType) -> list[Any]:
    found = [values_of(features, key, dtype) for features in examples]
    return [np.empty(0, dtype.as_numpy_dtype) if row is None else row for row in found]


def sparse_rows(rows: list[Any], dtype: DType, is_one: bool) -> tuple[Any, Any, Any]:
    """Return indices, values and shape of rows of different lengths."""
    counts = [len(row) for row in rows]
    values = joined(rows, dtype)
    columns = np.concatenate([np.empty(0, np.int64), *map(np.arange, counts)]).astype(np.int64)
    longest = max(counts, default=0)
    if is_one:
        return columns[:, None], values, np.array([longest], np.int64)
    batch = np.repeat(np.arange(len(rows), dtype=np.int64), counts)
    return np.stack([batch, columns], 1), values, np.array([len(rows), longest], np.int64)


def dense_rows(examples: list[Any], key: str, default: Array, shape: TensorShape) -> Any:
    """Return a feature of one shape, [examples, ...]; its first size may be open, to be filled."""
    dtype = dtypes.dtype_of(default)
    sizes = list(shape.sizes or ())
    found = [values_of(features, key, dtype) for features in examples]
    if sizes and sizes[0] is None:
        return _padded(found, key, default, [int(size or 0) for size in sizes[1:]])
    count = math.prod(int(size or 0) for size in sizes)
    rows = []
    for at, row in enumerate(found):
        if row is None:
            if np.size(default) != count:
                raise InvalidArgumentError(
                    f"Name: <unknown>, Feature: {key} (data type: {dtype.name}) is required but "
                    f"could not be found in example {at}."
                )
            row = np.reshape(default, -1)
        if len(row) != count:
            raise InvalidArgumentError(
                f"Key: {key}, Index: {at}.  Number of {dtype.name} values != expected.  "
                f"Values size: {len(row)} but output shape: {shape}"
            )
        rows.append(row)
    return joined(rows, dtype).reshape([len(examples), *[int(size or 0) for size in sizes]])


def check_default(key: str, default: Array, shape: TensorShape) -> None:
    """Raise InvalidArgumentError for a default that is neither nothing nor fits the feature."""
    sizes = shape.as_list()
    if sizes and sizes[0] is None:
        fits = np.size(default) <= 1  # what rows are made longer with
    else:
        fits = not np.size(default) or list(np.shape(default)) == sizes
    if not fits:
        raise InvalidArgumentError(
            f"the default of {key!r} has shape {list(np.shape(default))}; the feature has {sizes}"
        )


def nothing_of(dtype: DType) -> Any:
    """Return what rows are filled up with."""
    return b"" if dtype is dtypes.string else 0


def _padded(found: list[Any], key: str, default: Any, inner: list[int]) -> Any:
    stride = math.prod(inner)
    dtype = dtypes.dtype_of(default)
    rows = [np.empty(0, dtype.as_numpy_dtype) if row is None else row for row in found]
    for at, row in enumerate(rows):
        if stride == 0 or len(row) % stride:
            raise InvalidArgumentError(
                f"Key: {key}, Index: {at}.  Number of {dtype.name} values is not a multiple of "
                f"stride length. Saw {len(row)} values but output shape is: {inner}"
            )
    longest = max((len(row) for row in rows), default=0)
    filling = np.reshape(default, -1)[0] if np.size(default) else nothing_of(dtype)
    made = np.full((len(rows), longest), filling, dtype.as_numpy_dtype)
    for target, row in zip(made, rows):
        target[: len(row)] = row
    return made.reshape([len(rows), longest // stride, *inner])
