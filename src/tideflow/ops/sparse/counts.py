"""Counts of values in sparse and ragged rows, dense or sparse themselves.

Source: tensorflow/core/kernels/bincount_op.cc, count_ops.cc; python/ops/bincount_ops.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.wire.errors import InvalidArgumentError

# ---- dense counts


def _bins(size: Any) -> int:
    if np.ndim(size):
        raise InvalidArgumentError(f"Shape must be rank 0 but is rank {np.ndim(size)}")
    if int(size) < 0:
        raise InvalidArgumentError(f"size ({int(size)}) must be non-negative")
    return int(size)


def _check_weights(weights: Any, values: Array) -> None:
    if weights.size and weights.shape != values.shape:
        raise InvalidArgumentError(
            "Weights and values must have the same shape. Weight shape: "
            f"{list(weights.shape)}; values shape: {list(values.shape)}"
        )


def _add_up(rows: Any, count: int, values: Array, bins: int, weights: Any, binary: bool) -> Any:
    """Return [count, bins]: in each row how often each value below `bins` occurs."""
    found = np.zeros((count, bins), weights.dtype)
    within = (values >= 0) & (values < bins)
    at = (rows[within], values[within])
    if binary:
        found[at] = 1
    else:
        np.add.at(found, at, weights[within] if weights.size else weights.dtype.type(1))
    return found


def _check_sparse(indices: Array, values: Array, dense_shape: Any) -> None:
    """Raise InvalidArgumentError for what is no sparse tensor of one or two dimensions."""
    if indices.ndim != 2:
        raise InvalidArgumentError(f"Sparse indices must be rank 2 but is rank {indices.ndim}")
    if values.ndim != 1 or len(values) != len(indices):
        raise InvalidArgumentError(
            f"Number of elements in indices ({len(indices)}) and values ({values.size}) do not "
            "match"
        )
    if dense_shape.ndim != 1 or dense_shape.size != indices.shape[1]:
        raise InvalidArgumentError(
            f"Index rank ({indices.shape[1]}) and shape rank ({dense_shape.size}) do not match"
        )
    if not 1 <= dense_shape.size <= 2:
        raise InvalidArgumentError(f"rows have one dimension or two; found {dense_shape.tolist()}")
    outside = ((indices < 0) | (indices >= dense_shape)).any(axis=1)
    if outside.any():
        at = int(np.argmax(outside))
        raise InvalidArgumentError(
            f"Sparse index tuple indices[{at}, :] = {indices[at].tolist()} is out of bounds"
        )


def _sparse_bincount_shape(c: ShapeContext) -> list[Dims]:
    size, shape = c.value("size"), c.value_as_shape("dense_shape")
    if size is not None and size.ndim == 0 and size < 0:
        raise ValueError(f"size ({size}) must be non-negative")
    bins = None if size is None else int(size)
    if shape is None:
        return [None]
    return [(bins,) if len(shape) == 1 else (shape[0], bins)]


@op(
    """
    SparseBincount(indices: int64, values: Tidx, dense_shape: int64, size: Tidx, weights: T) \
-> output: T
    Tidx: type in indices
    T: type in {int32, int64, float, double}
    binary_output: bool = false
    """,
    shape=_sparse_bincount_shape,
)
def sparse_bincount_kernel(
    ctx: KernelContext,
    indices: Array,
    values: Array,
    dense_shape: Array,
    size: Array,
    weights: Array,
    *,
    binary_output: bool,
) -> Any:
    """Count the values of each row; those that are negative or too large do not count."""
    bins = _bins(size)
    _check_sparse(indices, values, dense_shape)
    _check_weights(weights, values)
    if dense_shape.size == 1:
        rows = np.zeros(len(values), np.int64)
        return _add_up(rows, 1, values, bins, weights, binary_output)[0]
    count = int(dense_shape[0])
    return _add_up(indices[:, 0], count, values, bins, weights, binary_output)


def _rows_of(splits: Any, values: Array) -> Any:
    """Return the row of each value: the first that ends behind it."""
    if splits[0]:
        raise InvalidArgumentError(f"Splits must start with 0, not with {splits[0]}")
    if splits[-1] != values.size:
        raise InvalidArgumentError(
            f"Splits must end with the number of values, got {splits[-1]} instead of {values.size}"
        )
    ends = np.maximum.accumulate(splits)
    return np.searchsorted(ends, np.arange(values.size), side="right") - 1


def _ragged_bincount_shape(c: ShapeContext) -> list[Dims]:
    size, splits = c.value("size"), c.inputs[0]
    rows = None if not splits or splits[0] is None else splits[0] - 1
    return [(rows, None if size is None else int(size))]


@op(
    """
    RaggedBincount(splits: int64, values: Tidx, size: Tidx, weights: T) -> output: T
    Tidx: type in indices
    T: type in {int32, int64, float, double}
    binary_output: bool = false
    """,
    shape=_ragged_bincount_shape,
)
def ragged_bincount_kernel(
    ctx: KernelContext,
    splits: Array,
    values: Array,
    size: Array,
    weights: Array,
    *,
    binary_output: bool,
) -> Any:
    """Count the values of each row; those that are too large do not count.

    Raises: InvalidArgumentError for negative values and splits that do not fit.
    """
    bins = _bins(size)
    if not splits.size:
        raise InvalidArgumentError("Splits must be non-empty")
    rows = _rows_of(splits, values)
    _check_weights(weights, values)
    if values.size and values.min() < 0:
        raise InvalidArgumentError("Input must be non-negative")
    return _add_up(rows, splits.size - 1, values, bins, weights, binary_output)


# ---- sparse counts


def _sparse_counts(
    rows: Any, count: int | None, values: Array, weights: Any, bounds: tuple[int, int], binary: bool
) -> Any:
    """Return indices, values and shape of the counts: of `count` rows, or of a vector for None."""
    _check_weights(weights, values)
    if values.size and values.min() < 0:
        raise InvalidArgumentError("Input values must all be non-negative")
    minlength, maxlength = bounds
    width = maxlength if maxlength >= 0 else max(int(values.max(initial=0)) + 1, minlength)
    within = (values < maxlength) if maxlength >= 0 else np.ones(values.shape, bool)
    pairs = np.stack([rows[within], values[within].astype(np.int64)], 1)
    unique, which = np.unique(pairs, axis=0, return_inverse=True)
    found = np.zeros(len(unique), weights.dtype)
    if binary:
        found[:] = 1
    else:
        amounts = weights[within] if weights.size else weights.dtype.type(1)
        np.add.at(found, which.reshape(-1), amounts)
    if count is None:
        return unique[:, 1:], found, np.array([width], np.int64)
    return unique, found, np.array([count, width], np.int64)


_COUNT_ATTRS = """
    T: type in indices
    minlength: int >= -1 = -1
    maxlength: int >= -1 = -1
    binary_output: bool
    output_type: type in {int32, int64, float, double}
    """
_COUNTED = (
    "-> output_indices: int64, output_values: output_type, output_dense_shape: int64" + _COUNT_ATTRS
)


def _counted(rank: int | None) -> list[Dims]:
    return [(None, rank), (None,), (rank,)]


@op(
    f"DenseCountSparseOutput(values: T, weights: output_type) {_COUNTED}",
    shape=lambda c: _counted(None if c.inputs[0] is None else len(c.inputs[0])),
)
def dense_count_kernel(
    ctx: KernelContext,
    values: Array,
    weights: Array,
    *,
    minlength: int,
    maxlength: int,
    binary_output: bool,
) -> Any:
    """Return the counts of a vector, or of each row of a matrix, as a sparse tensor."""
    if not 1 <= values.ndim <= 2:
        raise InvalidArgumentError(
            f"Input must be a 1 or 2-dimensional tensor. Got: {list(values.shape)}"
        )
    if values.ndim == 2 and not len(values):
        raise InvalidArgumentError("Invalid input: Shapes dimension cannot be 0.")
    _check_weights(weights, values)
    count = None if values.ndim == 1 else values.shape[0]
    rows = np.repeat(np.arange(count or 1), values.size // max(count or 1, 1))
    given = (values.reshape(-1), weights.reshape(-1))
    return _sparse_counts(rows, count, *given, (minlength, maxlength), binary_output)


@op(
    "SparseCountSparseOutput(indices: int64, values: T, dense_shape: int64, weights: output_type) "
    f"{_COUNTED}",
    shape=lambda c: _counted(None if c.inputs[0] is None else c.inputs[0][-1]),
)
def sparse_count_kernel(
    ctx: KernelContext,
    indices: Array,
    values: Array,
    dense_shape: Array,
    weights: Array,
    *,
    minlength: int,
    maxlength: int,
    binary_output: bool,
) -> Any:
    """Return the counts of each row of a sparse tensor, as another one."""
    _check_sparse(indices, values, dense_shape)
    is_vector = dense_shape.size == 1
    if not is_vector and not dense_shape[0]:
        raise InvalidArgumentError("Cannot allocate 0 batches, is the dense shape too wide?")
    rows = np.zeros(len(values), np.int64) if is_vector else indices[:, 0]
    count = None if is_vector else int(dense_shape[0])
    return _sparse_counts(rows, count, values, weights, (minlength, maxlength), binary_output)


@op(
    f"RaggedCountSparseOutput(splits: int64, values: T, weights: output_type) {_COUNTED}",
    shape=lambda c: _counted(2),
)
def ragged_count_kernel(
    ctx: KernelContext,
    splits: Array,
    values: Array,
    weights: Array,
    *,
    minlength: int,
    maxlength: int,
    binary_output: bool,
) -> Any:
    """Return the counts of each row of a ragged tensor, as a sparse tensor."""
    if splits.size < 2:
        raise InvalidArgumentError("Must provide at least 2 elements for the splits argument")
    rows = _rows_of(splits, values)
    bounds = (minlength, maxlength)
    return _sparse_counts(rows, splits.size - 1, values, weights, bounds, binary_output)
