"""Crosses of ragged, sparse and dense columns: RaggedCross, tf.ragged.cross and cross_hashed.

Source: tensorflow/core/kernels/ragged_cross_op.cc, python/ops/ragged/ragged_array_ops.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.types import Array
from tideflow.ops.export import export
from tideflow.ops.ragged.tensor import RaggedTensor, rows_of
from tideflow.ops.sparse import SparseTensor, cross_bucket, joined_by, sparse_rows
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError

_HASH_KEY = 0xDECAFCAFFE


def _ragged_rows(values: Array, splits: Array) -> list[list[Any]]:
    """Return the values of each row of a ragged column.  Raises: InvalidArgumentError."""
    if np.ndim(splits) != 1 or not len(splits):
        raise InvalidArgumentError("tensors in ragged_row_splits must be vectors, not empty")
    if splits[0] != 0 or splits[-1] != len(values) or (np.diff(splits) < 0).any():
        raise InvalidArgumentError(
            f"tensors in ragged_row_splits must rise from 0 to {len(values)}; found "
            f"{splits.tolist()}"
        )
    items = values.tolist()
    return [items[begin:end] for begin, end in itertools.pairwise(splits.tolist())]


def _dense_rows(values: Array) -> list[list[Any]]:
    if np.ndim(values) != 2:
        raise InvalidArgumentError(
            f"tensors in dense_inputs must be matrices; one is {list(np.shape(values))}"
        )
    rows: list[list[Any]] = values.tolist()
    return rows


@op(
    """
    RaggedCross(ragged_values: *ragged_values_types, ragged_row_splits: *ragged_splits_types,
      sparse_indices: Nsparse * int64, sparse_values: *sparse_values_types,
      sparse_shape: Nsparse * int64, dense_inputs: *dense_types)
    -> output_values: out_values_type, output_row_splits: out_row_splits_type
    Nsparse: int >= 0
    input_order: string
    hashed_output: bool
    num_buckets: int >= 0
    hash_key: int
    ragged_values_types: list(type) in {int64, string} >= 0
    ragged_splits_types: list(type) in {int32, int64} >= 0
    sparse_values_types: list(type) in {int64, string} >= 0
    dense_types: list(type) in {int64, string} >= 0
    out_values_type: type in {int64, string}
    out_row_splits_type: type in {int32, int64}
    """,
    shape=lambda c: [(None,), (None,)],
)
def ragged_cross_kernel(
    ctx: KernelContext,
    ragged_values: list[Any],
    ragged_splits: list[Any],
    indices: list[Any],
    sparse_values: list[Any],
    shapes: list[Any],
    dense: list[Any],
    *,
    input_order: str,
    num_buckets: int,
    hash_key: int,
    out_values_type: DType,
    out_row_splits_type: DType,
) -> Any:
    """Return for each row the crosses of one value of each column, in the order of the columns.

    input_order: a letter for each column: R (ragged), S (sparse) or D (dense).
    Raises: InvalidArgumentError for columns that do not fit together.
    """
    if len(ragged_values) != len(ragged_splits) or len(indices) != len(sparse_values):
        raise InvalidArgumentError("each ragged column has row splits, each sparse one indices")
    kinds = {
        "R": iter([_ragged_rows(*parts) for parts in zip(ragged_values, ragged_splits)]),
        "S": iter([sparse_rows(*parts) for parts in zip(indices, sparse_values, shapes)]),
        "D": iter([_dense_rows(each) for each in dense]),
    }
    given = {"R": len(ragged_values), "S": len(indices), "D": len(dense)}
    if sorted(input_order) != sorted("".join(kind * given[kind] for kind in given)):
        raise InvalidArgumentError(f"Invalid input_order {input_order!r} for columns {given}")
    columns = [next(kinds[kind]) for kind in input_order]
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        raise InvalidArgumentError(f"inputs must all have the same batch dimension size: {counts}")
    is_hashed = out_values_type is dtypes.int64
    join = cross_bucket(hash_key, num_buckets) if is_hashed else joined_by(b"_X_")
    splits, values = [0], []
    for features in zip(*columns):
        values += [join(each) for each in itertools.product(*features)]
        splits.append(len(values))
    made = np.empty(len(values), np.int64 if is_hashed else object)
    made[:] = values
    return made, np.array(splits, out_row_splits_type.as_numpy_dtype)


not_differentiable("RaggedCross")


def _plain(value: Any) -> Any:
    """Return text as it is, numbers as int64."""
    is_text = value.dtype is dtypes.string
    return (
        value if is_text or value.dtype is dtypes.int64 else apply_op("Cast", value, DstT="int64")
    )


def _crossed(
    inputs: Sequence[Any], is_hashed: bool, buckets: int, key: int | None, name: str | None
) -> RaggedTensor:
    if not isinstance(inputs, (list, tuple)):
        raise TypeError("inputs must be a list of tensors")
    order = ""
    ragged: list[RaggedTensor] = []
    sparse: list[SparseTensor] = []
    dense: list[Any] = []
    for each in inputs:
        if isinstance(each, RaggedTensor):
            if each.ragged_rank != 1:
                raise ValueError("tf.ragged.cross only supports inputs with rank=2")
            order += "R"
            ragged.append(each)
        elif isinstance(each, SparseTensor):
            order += "S"
            sparse.append(each)
        else:
            order += "D"
            dense.append(convert_to_tensor(each))
    for each in inputs:
        given = each if hasattr(each, "dtype") else convert_to_tensor(each)
        if not (given.dtype.is_integer or given.dtype is dtypes.string):
            raise ValueError(f"Unexpected dtype for inputs: {given.dtype.name}")
    is_short = bool(ragged) and all(r.row_splits.dtype is dtypes.int32 for r in ragged)
    with get_default_graph().name_scope(name or "RaggedCross"):
        values, splits = apply_op(
            "RaggedCross",
            [_plain(each.values) for each in ragged],
            [each.row_splits for each in ragged],
            [each.indices for each in sparse],
            [_plain(each.values) for each in sparse],
            [each.dense_shape for each in sparse],
            [_plain(each) for each in dense],
            input_order=order,
            hashed_output=is_hashed,
            num_buckets=buckets,
            hash_key=_HASH_KEY if key is None else key,
            out_values_type=dtypes.int64 if is_hashed else dtypes.string,
            out_row_splits_type=dtypes.int32 if is_short else dtypes.int64,
        )
    return rows_of(values, splits)


@export("ragged.cross")
def cross(inputs: Sequence[Any], name: str | None = None) -> RaggedTensor:
    """Return for each row all combinations of one value of each input, joined by "_X_".

    inputs: matrices of strings or integers: ragged, sparse or dense.
    """
    return _crossed(inputs, False, 0, None, name)


@export("ragged.cross_hashed")
def cross_hashed(
    inputs: Sequence[Any],
    num_buckets: int = 0,
    hash_key: int | None = None,
    name: str | None = None,
) -> RaggedTensor:
    """Return for each row the hashes of all combinations of one value of each input.

    num_buckets: how many different hashes there are; 0 for no limit.
    """
    return _crossed(inputs, True, num_buckets, hash_key, name)
