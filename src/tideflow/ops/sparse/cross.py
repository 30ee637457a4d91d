"""Crosses of features: for each row of a batch every combination of one value from each column.

Source: tensorflow/core/kernels/sparse_cross_op.cc, platform/fingerprint.h.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.formats import fingerprint64, siphash
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

_MASK = (1 << 64) - 1
_MULTIPLIER = 0xC6A4A7935BD1E995
_MOST = (1 << 63) - 1


def _join_prints(first: int, second: int) -> int:
    """Return the fingerprint of two fingerprints, in this order."""
    mixed = second * _MULTIPLIER & _MASK
    found = first ^ _MULTIPLIER ^ ((mixed ^ mixed >> 47) * _MULTIPLIER & _MASK)
    found = found * _MULTIPLIER & _MASK
    found = (found ^ found >> 47) * _MULTIPLIER & _MASK
    return found ^ found >> 47


def _invalid(what: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(what)


Rows = list[list[Any]]


def sparse_rows(indices: Array, values: Array, shape: Sequence[int]) -> Rows:
    """Return the values of each row of a sparse column."""
    if np.ndim(indices) != 2 or indices.shape[1] != 2:
        raise _invalid(f"indices must be [n, 2]; they are {list(np.shape(indices))}")
    if np.ndim(values) != 1 or len(values) != len(indices):
        raise _invalid(
            f"there must be one value for each index: {len(indices)}, not {list(np.shape(values))}"
        )
    if np.ndim(shape) != 1 or len(shape) != 2:
        raise _invalid(f"shape must be a vector of two sizes; found {np.asarray(shape).tolist()}")
    rows: Rows = [[] for _ in range(int(shape[0]))]
    for row, value in zip(indices[:, 0].tolist(), values.tolist()):
        if not 0 <= row < len(rows):
            raise _invalid(f"an index names row {row} of a batch of {len(rows)}")
        rows[row].append(value)
    return rows


def _columns(indices: list[Any], values: list[Any], sizes: list[Any], dense: list[Any]) -> Any:
    if not len(indices) == len(values) == len(sizes):
        raise _invalid(
            f"as many indices, values and shapes are needed; found {len(indices)}, {len(values)} "
            f"and {len(sizes)}"
        )
    columns = [sparse_rows(*parts) for parts in zip(indices, values, sizes)]
    for given in dense:
        if np.ndim(given) != 2:
            raise _invalid(f"dense inputs must be matrices; one is {list(np.shape(given))}")
        columns.append(given.tolist())
    if not columns:
        raise _invalid("a cross needs one column at least")
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        raise _invalid(f"the columns must have batches of one size; found {sorted(counts)}")
    return columns


def _cross(columns: Sequence[Rows], join: Callable[[Any], Any], kind: Any) -> Any:
    """Return indices, values and shape of the combinations of each row; the last column's values
    change first."""
    indices, values = [], []
    widest = 0
    for row, features in enumerate(zip(*columns)):
        found = [join(each) for each in itertools.product(*features)]
        indices += [(row, at) for at in range(len(found))]
        values += found
        widest = max(widest, len(found))
    made = np.empty(len(values), kind)
    made[:] = values
    return (
        np.array(indices, np.int64).reshape(-1, 2),
        made,
        np.array([len(columns[0]), widest], np.int64),
    )


def joined_by(separator: bytes) -> Callable[[Any], bytes]:
    """Return what joins the values of a cross as text."""

    def join(values: Array) -> bytes:
        return separator.join(v if isinstance(v, bytes) else b"%d" % v for v in values)

    return join


def _bucket(value: int, count: int) -> int:
    return value % (count or _MOST)


def cross_bucket(hash_key: int, num_buckets: int) -> Callable[[Any], int]:
    """Return what gives the bucket of the fingerprints of features; 0 for no limit of buckets."""

    def bucket(features: Any) -> int:
        found = hash_key & _MASK
        for value in features:
            found = _join_prints(found, _print_of(value))
        return _bucket(found, num_buckets)

    return bucket


def _cross_shape(c: ShapeContext) -> list[Dims]:
    return [(None, 2), (None,), (2,)]


@op(
    """
    SparseCross(indices: N * int64, values: *sparse_types, shapes: N * int64,
      dense_inputs: *dense_types)
    -> output_indices: int64, output_values: out_type, output_shape: int64
    N: int >= 0
    hashed_output: bool
    num_buckets: int >= 0
    hash_key: int
    sparse_types: list(type) in {int64, string} >= 0
    dense_types: list(type) in {int64, string} >= 0
    out_type: type in {int64, string}
    internal_type: type in {int64, string}
    """,
    shape=_cross_shape,
)
def sparse_cross_kernel(
    ctx: KernelContext,
    indices: list[Any],
    values: list[Any],
    sizes: list[Any],
    dense: list[Any],
    *,
    num_buckets: int,
    hash_key: int,
    sparse_types: list[DType],
    dense_types: list[DType],
    out_type: DType,
    internal_type: DType,
) -> Any:
    """Return crosses joined with "_X_", or (for int64) the bucket of their fingerprint."""
    if internal_type is dtypes.string and dtypes.int64 in (*sparse_types, *dense_types):
        raise _invalid("inputs must be strings where internal_type is string; one is int64")
    columns = _columns(indices, values, sizes, dense)

    if out_type is dtypes.int64:
        return _cross(columns, cross_bucket(hash_key, num_buckets), np.int64)
    return _cross(columns, joined_by(b"_X_"), object)


def _print_of(value: Any) -> int:
    return int(fingerprint64()(value) if isinstance(value, bytes) else value & _MASK)


@op(
    """
    SparseCrossV2(indices: N * int64, values: *sparse_types, shapes: N * int64,
      dense_inputs: *dense_types, sep: string)
    -> output_indices: int64, output_values: string, output_shape: int64
    N: int >= 0
    sparse_types: list(type) in {int64, string} >= 0
    dense_types: list(type) in {int64, string} >= 0
    """,
    shape=_cross_shape,
)
def sparse_cross_v2_kernel(
    ctx: KernelContext,
    indices: list[Any],
    values: list[Any],
    sizes: list[Any],
    dense: list[Any],
    separator: Array | bytes,
) -> Any:
    """Return crosses joined with a separator."""
    columns = _columns(indices, values, sizes, dense)
    if np.ndim(separator):
        raise _invalid(f"sep must be a scalar; its shape is {list(np.shape(separator))}")
    given = separator.item() if isinstance(separator, np.ndarray) else separator
    return _cross(columns, joined_by(given), object)


@op(
    """
    SparseCrossHashed(indices: N * int64, values: *sparse_types, shapes: N * int64,
      dense_inputs: *dense_types, num_buckets: int64, strong_hash: bool, salt: int64)
    -> output_indices: int64, output_values: int64, output_shape: int64
    N: int >= 0
    sparse_types: list(type) in {int64, string} >= 0
    dense_types: list(type) in {int64, string} >= 0
    """,
    shape=_cross_shape,
)
def sparse_cross_hashed_kernel(
    ctx: KernelContext,
    indices: list[Any],
    values: list[Any],
    sizes: list[Any],
    dense: list[Any],
    num_buckets: Array,
    strong_hash: Array,
    salt: Array,
) -> Any:
    """Return buckets of the fingerprints of crosses, keyed by a salt where the hash is strong."""
    columns = _columns(indices, values, sizes, dense)
    if np.ndim(num_buckets) or np.ndim(strong_hash) or np.shape(salt) != (2,):
        raise _invalid("num_buckets and strong_hash must be scalars, and salt two numbers")
    count = int(num_buckets)
    strong = siphash(struct.pack("<2Q", *(int(part) & _MASK for part in salt)))

    def print_of(value: Any, column: int) -> int:
        if not isinstance(value, bytes):
            if column >= len(indices) and not strong_hash:
                return int(value) & _MASK
            # TensorFlow takes as many bytes of the number as the number of its type has.
            value = struct.pack("<I", value & 0xFFFFFFFF)
        if not strong_hash:
            return int(fingerprint64()(value))
        return strong(value)

    def bucket(features: Any) -> int:
        first, *rest = (print_of(value, i) for i, value in enumerate(features))
        for other in rest:
            first = _join_prints(first, other)
        return _bucket(first, count)

    return _cross(columns, bucket, np.int64)


not_differentiable("SparseCross", "SparseCrossV2", "SparseCrossHashed")
