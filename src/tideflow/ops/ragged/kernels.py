"""Ragged tensors as what they are made of: values, and partitions that say which row each is in.

A partition is row splits [rows + 1], row ids of values [values], or the count of rows.

Source: tensorflow/core/kernels/ragged_tensor_to_tensor_op.cc, ragged_tensor_to_sparse_kernel.cc,
ragged_range_op.cc, ragged_gather_op.cc; python/ops/ragged/ragged_conversion_ops.py for gradients.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.wire import errors
from tideflow.wire.dtypes import DType


def _invalid(what: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(what)


def check_splits(splits: Array, what: str = "row splits") -> Any:
    """Return row splits, which start with 0 and never fall.  Raises: InvalidArgumentError."""
    if np.ndim(splits) != 1 or not len(splits):
        raise _invalid(f"{what} must be a vector of one element at least")
    if splits[0] != 0 or (np.diff(splits) < 0).any():
        raise _invalid(f"{what} must start with 0 and never fall; found {splits.tolist()}")
    return splits


# ---- to a dense tensor


def _ragged_rank(types: list[str]) -> int:
    return len(types) - 1 if types[:1] == ["FIRST_DIM_SIZE"] else len(types)


def _dense_shape(c: ShapeContext) -> list[Dims]:
    values, default = c.shape("values"), c.shape("default_value")
    rank = _ragged_rank(c.attrs["row_partition_types"])
    if values is not None and default is not None and len(default) >= max(len(values), 1):
        raise ValueError(
            f"default_value must be of lower rank than values; its shape is "
            f"{shapes.format_dims(default)}, that of values {shapes.format_dims(values)}"
        )
    known = None if values is None else (*(None,) * (rank + 1), *values[1:])
    given = c.shape("shape")
    if given is None or not given:
        return [known]
    asked = c.value_as_shape("shape")
    return [shapes.merge(known, asked)]


@op(
    """
    RaggedTensorToTensor(shape: Tshape, values: T, default_value: T,
      row_partition_tensors: num_row_partition_tensors * Tindex) -> result: T
    T: type
    Tindex: type in indices
    Tshape: type in indices
    num_row_partition_tensors: int >= 1
    row_partition_types: list(string)
    """,
    shape=_dense_shape,
)
def ragged_tensor_to_tensor_kernel(
    ctx: KernelContext,
    shape: Array,
    values: Array,
    default: Array,
    partitions: list[Any],
    *,
    row_partition_types: list[str],
) -> Any:
    """Return a tensor whose rows are filled up with a default; longer rows are cut."""
    kinds = [_text(kind) for kind in row_partition_types]
    if len(kinds) != len(partitions):
        raise _invalid(
            f"{len(partitions)} row partitions are given, and {len(kinds)} types of them"
        )
    rank = _ragged_rank(kinds)
    inner = np.shape(values)[1:]
    asked = _asked_sizes(shape, rank, inner)
    count, levels = _levels(kinds, partitions)
    sizes = [count if asked[0] < 0 else asked[0]]
    at = np.where(np.arange(count) < sizes[0], np.arange(count), -1)
    for (rows, columns), size in zip(levels, asked[1:]):
        width = size if size >= 0 else int(columns.max(initial=-1)) + 1
        if len(rows) and rows.max() >= len(at):
            raise _invalid(f"a row partition names row {rows.max()} of {len(at)}")
        above = at[rows]
        at = np.where((above >= 0) & (columns < width), above * width + columns, -1)
        sizes.append(width)
    if len(at) != len(values):
        raise _invalid(f"the row partitions are for {len(at)} values; there are {len(values)}")
    _check_default(default, inner)
    made = np.empty((math.prod(sizes), *inner), getattr(values, "dtype", object))
    made[...] = default
    kept = at >= 0
    made[at[kept]] = values[kept]
    return made.reshape(*sizes, *inner)


def _text(kind: object) -> str:
    return kind.decode() if isinstance(kind, bytes) else str(kind)


def _asked_sizes(shape: Array, rank: int, inner: tuple[int, ...]) -> list[int]:
    """Return the sizes of the ragged axes and the first, -1 where they follow from the rows."""
    if np.ndim(shape) == 0:
        if shape != -1:
            raise _invalid(f"a scalar shape must be -1 (any shape); found {int(shape)}")
        return [-1] * (rank + 1)
    if np.ndim(shape) != 1 or len(shape) != rank + 1 + len(inner):
        raise _invalid(
            f"shape must have {rank + 1 + len(inner)} elements, for {rank} ragged axes and values "
            f"of {list(inner)}; found {np.asarray(shape).tolist()}"
        )
    asked = [int(size) for size in shape]
    for size, found in zip(asked[rank + 1 :], inner):
        if size not in (-1, found):
            raise _invalid(f"shape {asked} does not fit to values of {list(inner)}")
    return asked[: rank + 1]


def _levels(kinds: list[str], partitions: list[Any]) -> tuple[int, list[tuple[Any, Any]]]:
    """Return the count of first rows, and for each ragged axis each value's row and column."""
    first = partitions[0]
    if kinds[0] == "FIRST_DIM_SIZE":
        if np.ndim(first) or first < 0:
            raise _invalid("FIRST_DIM_SIZE must be a scalar of at least 0")
        count = int(first)
        rest = list(zip(kinds[1:], partitions[1:]))
    elif kinds[0] == "ROW_SPLITS":
        count = len(check_splits(first)) - 1
        rest = list(zip(kinds, partitions))
    else:
        raise _invalid(f"the first row partition cannot be {kinds[0]}")
    levels = []
    for kind, given in rest:
        if kind == "ROW_SPLITS":
            lengths = np.diff(check_splits(given))
            rows = np.repeat(np.arange(len(lengths)), lengths)
            columns = np.arange(len(rows)) - np.repeat(given[:-1], lengths)
        elif kind == "VALUE_ROWIDS":
            rows, columns = given, _columns(given)
        else:
            raise _invalid(f"a row partition of type {kind!r} is not known here")
        levels.append((rows, columns))
    return count, levels


def _columns(rows: Array) -> Any:
    """Return the place of each value in its row."""
    if np.ndim(rows) != 1 or (rows < 0).any() or (np.diff(rows) < 0).any():
        raise _invalid("VALUE_ROWIDS must be a vector that never falls, from 0 on")
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    lengths = np.diff(starts, append=len(rows))
    return np.arange(len(rows)) - np.repeat(starts, lengths)


def _check_default(default: Array, inner: tuple[int, ...]) -> None:
    given = np.shape(default)
    fits = len(given) <= len(inner) and all(
        size in (1, wanted) for size, wanted in zip(given[::-1], inner[::-1])
    )
    if not fits:
        raise _invalid(
            f"default_value has shape {list(given)}, which does not fit to elements of "
            f"{list(inner)}"
        )


@gradient("RaggedTensorToTensor")
def _ragged_tensor_to_tensor_grad(op: Operation, grad: Tensor) -> list[Any]:
    _, values, default, *partitions = op.inputs
    kinds = [_text(kind) for kind in op.attrs["row_partition_types"]]
    outer = _ragged_rank(kinds) + 1
    count = apply_op("GatherV2", apply_op("Shape", values), 0, 0)
    # Which value came to stand where; -1 for the default.
    places = apply_op(
        "RaggedTensorToTensor",
        apply_op("Slice", apply_op("Shape", grad), [0], [outer]),
        apply_op("Range", 0, count, 1),
        -1,
        partitions,
        row_partition_types=op.attrs["row_partition_types"],
    )
    flat = apply_op("Reshape", places, [-1])
    inner = apply_op("Slice", apply_op("Shape", grad), [outer], [-1])
    rows = apply_op("Reshape", grad, apply_op("ConcatV2", [[-1], inner], 0))
    of_values = apply_op("UnsortedSegmentSum", rows, flat, count)
    # What is of the default forms the segment after all others.
    outside = apply_op("SelectV2", apply_op("Less", flat, 0), 0, -1)
    of_default = apply_op("UnsortedSegmentSum", rows, outside, 1)
    axes, _ = apply_op(
        "BroadcastGradientArgs", apply_op("Shape", default), apply_op("Shape", of_default)
    )
    summed = apply_op("Sum", of_default, axes)
    of_default = apply_op("Reshape", summed, apply_op("Shape", default))
    return [None, of_values, of_default, *[None] * len(partitions)]


# ---- to a sparse tensor


def _sparse_shape(c: ShapeContext) -> list[Dims]:
    values = c.shape("rt_dense_values")
    rank = None if values is None else len(values) + c.attrs["RAGGED_RANK"]
    count = None
    if values is not None and None not in values:
        count = math.prod(size for size in values if size is not None)
    return [(count, rank), (count,), (rank,)]


@op(
    """
    RaggedTensorToSparse(rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: T)
    -> sparse_indices: int64, sparse_values: T, sparse_dense_shape: int64
    RAGGED_RANK: int >= 1
    T: type
    Tsplits: type in indices = int64
    """,
    shape=_sparse_shape,
)
def ragged_tensor_to_sparse_kernel(ctx: KernelContext, nested: list[Any], values: Array) -> Any:
    """Return indices, values and shape of the sparse tensor of the same elements."""
    if np.ndim(values) < 1:
        raise _invalid("rt_dense_values must have rank 1 at least")
    for splits in nested:
        check_splits(splits, "rt_nested_splits")
    for splits, below in zip(nested, [*(len(s) - 1 for s in nested[1:]), len(values)]):
        if splits[-1] != below:
            raise _invalid(f"row splits end with {splits[-1]}; there are {below} rows below them")
    index = np.arange(len(nested[0]) - 1, dtype=np.int64).reshape(-1, 1)
    sizes = [len(nested[0]) - 1]
    for splits in nested:
        lengths = np.diff(splits)
        above = np.repeat(index, lengths, axis=0)
        columns = np.arange(len(above)) - np.repeat(splits[:-1], lengths)
        index = np.concatenate([above, columns[:, None]], axis=1)
        sizes.append(int(lengths.max(initial=0)))
    inner = values.shape[1:]
    within = np.indices(inner).reshape(len(inner), math.prod(inner)).T
    whole = np.concatenate(
        [np.repeat(index, len(within), axis=0), np.tile(within, (len(index), 1))], axis=1
    )
    return whole.astype(np.int64), values.reshape(-1), np.array([*sizes, *inner], np.int64)


@gradient("RaggedTensorToSparse")
def _ragged_tensor_to_sparse_grad(
    op: Operation, _: Tensor, grad: Tensor, *rest: Tensor
) -> list[Any]:
    values = op.inputs[-1]
    of_values = apply_op("Reshape", grad, apply_op("Shape", values))
    return [*[None] * (len(op.inputs) - 1), of_values]


# ---- ranges


def _range_shape(c: ShapeContext) -> list[Dims]:
    sizes: Dims = ()
    for dims in c.inputs:
        if dims is None:
            sizes = None
            break
        if len(dims) > 1:
            raise ValueError("starts, limits and deltas must be scalars or vectors")
        if dims:
            sizes = dims
    rows = None if sizes is None else sizes[0] if sizes else 1
    return [(None if rows is None else rows + 1,), (None,)]


@op(
    """
    RaggedRange(starts: T, limits: T, deltas: T) -> rt_nested_splits: Tsplits, rt_dense_values: T
    T: type in {bfloat16, float, double, int32, int64} = int32
    Tsplits: type in indices = int64
    """,
    shape=_range_shape,
)
def ragged_range_kernel(
    ctx: KernelContext, starts: Array, limits: Array, deltas: Array, *, Tsplits: DType
) -> Any:
    """Return the row splits and values of one range for each start, limit and delta."""
    if any(np.ndim(given) > 1 for given in (starts, limits, deltas)):
        raise _invalid("starts, limits and deltas must be scalars or vectors")
    counts = {len(given) for given in (starts, limits, deltas) if np.ndim(given)}
    if len(counts) > 1:
        raise _invalid(f"starts, limits, and deltas must have the same shape; found {counts}")
    rows = counts.pop() if counts else 1
    columns = [np.broadcast_to(given, (rows,)) for given in (starts, limits, deltas)]
    if (columns[2] == 0).any():
        raise _invalid("Requires delta != 0")
    lengths = [_range_length(*row) for row in zip(*columns)]
    splits = np.cumsum([0, *lengths])
    if splits[-1] > np.iinfo(Tsplits.as_numpy_dtype).max:
        raise _invalid(f"{splits[-1]} values are more than {Tsplits.name} row splits can count")
    values = np.empty(splits[-1], starts.dtype)
    for begin, length, start, delta in zip(splits, lengths, columns[0], columns[2]):
        values[begin : begin + length] = _run(start, delta, length)
    return splits.astype(Tsplits.as_numpy_dtype), values


def _run(start: Array, delta: Array, length: int) -> Any:
    """Return start, start + delta ... added up step by step, as rounding goes in TensorFlow."""
    if not length:
        return np.empty(0, start.dtype)
    steps = np.full(length, delta)
    steps[0] = start
    return np.add.accumulate(steps, dtype=start.dtype)


def _range_length(start: Any, limit: Any, delta: Any) -> int:
    if (delta > 0 and limit < start) or (delta < 0 and limit > start):
        return 0
    if isinstance(start, np.integer):
        span, step = abs(int(limit) - int(start)), abs(int(delta))
        return -(-span // step)
    return math.ceil(abs((float(limit) - float(start)) / float(delta)))


# ---- gather


def _gather_shape(c: ShapeContext) -> list[Dims]:
    rank = c.attrs["OUTPUT_RAGGED_RANK"]
    depth = c.attrs["PARAMS_RAGGED_RANK"]
    indices, values = c.inputs[-1], c.inputs[depth]
    if indices is not None and len(indices) + depth - 1 != rank:
        raise ValueError(f"OUTPUT_RAGGED_RANK is {rank}; {len(indices) + depth - 1} is expected")
    return [*[(None,)] * rank, None if values is None else (None, *values[1:])]


@op(
    """
    RaggedGather(params_nested_splits: PARAMS_RAGGED_RANK * Tsplits, params_dense_values: Tvalues,
      indices: Tindices)
    -> output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits, output_dense_values: Tvalues
    Tvalues: type
    Tindices: type in indices
    Tsplits: type in indices = int64
    PARAMS_RAGGED_RANK: int >= 1
    OUTPUT_RAGGED_RANK: int >= 0
    """,
    shape=_gather_shape,
)
def ragged_gather_kernel(
    ctx: KernelContext, nested: list[Any], values: Array, indices: Array, *, Tsplits: DType
) -> Any:
    """Return row splits and values of the rows that indices [...] name."""
    kind = Tsplits.as_numpy_dtype
    if any(np.ndim(splits) != 1 or not len(splits) for splits in nested):
        raise _invalid("Split tensors must not be scalars or empty")
    rows = len(nested[0]) - 1
    if np.ndim(values) < 1:
        raise _invalid("params_dense_values must have rank 1 at least")
    chosen = np.asarray(indices).reshape(-1).astype(np.int64)
    wrong = chosen[(chosen < 0) | (chosen >= rows)]
    if wrong.size:
        raise _invalid(f"indices must be in [0, {rows}); found {wrong[0]}")
    for splits in nested:
        if splits[0] < 0 or (np.diff(splits) < 0).any():
            raise _invalid("Ragged splits must be sorted and not negative")
    # Axes of the indices but the last have rows of one length.
    made = []
    count = 1
    for size, width in zip(np.shape(indices)[:-1], np.shape(indices)[1:]):
        count *= size
        made.append(np.arange(count + 1, dtype=kind) * kind(width))
    for splits, below in zip(nested, [*(len(s) - 1 for s in nested[1:]), len(values)]):
        if splits[-1] > below:
            raise _invalid(f"row splits reach to {splits[-1]}; there are {below} rows below them")
        lengths = np.diff(splits)[chosen]
        ends = np.cumsum(lengths)
        made.append(np.concatenate([[0], ends]).astype(kind))
        total = int(ends[-1]) if len(ends) else 0
        chosen = np.arange(total) + np.repeat(splits[:-1][chosen] - (ends - lengths), lengths)
    return made, values[chosen]


@gradient("RaggedGather")
def _ragged_gather_grad(op: Operation, *grads: Tensor) -> list[Any]:
    depth = op.attrs["PARAMS_RAGGED_RANK"]
    nested, values, indices = op.inputs[:depth], op.inputs[depth], op.inputs[-1]
    count = apply_op("GatherV2", apply_op("Shape", values), 0, 0)
    # The places of what was gathered come from gathering places.
    numbers = apply_op("Range", 0, count, 1)
    places = apply_op(
        "RaggedGather",
        nested,
        numbers,
        indices,
        OUTPUT_RAGGED_RANK=op.attrs["OUTPUT_RAGGED_RANK"],
    )[-1]
    summed = apply_op("UnsortedSegmentSum", grads[-1], places, count)
    return [*[None] * depth, summed, None]


not_differentiable("RaggedRange")
