"""Rows without values get a default: RaggedFillEmptyRows, and tf.ragged_fill_empty_rows.

Source: tensorflow/core/kernels/fill_empty_rows_functor.h, sparse_fill_empty_rows_op.cc.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export_v2
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError


def _require_rank(value: Array, rank: int, what: str) -> None:
    if np.ndim(value) != rank:
        raise InvalidArgumentError(f"{what} must have rank {rank}; found {list(np.shape(value))}")


@op(
    "RaggedFillEmptyRows(value_rowids: int64, values: T, nrows: int64, default_value: T) -> "
    "output_value_rowids: int64, output_values: T, empty_row_indicator: bool, "
    "reverse_index_map: int64\nT: type",
    shape=lambda c: [(None,), (None,), (None,), c.shape(0)],
)
def ragged_fill_empty_rows_kernel(
    ctx: KernelContext, rowids: Array, values: Array, nrows: Array, default: Array
) -> Any:
    """Return row ids and values by rows, a default for each row that has none.

    Raises: InvalidArgumentError for ids that are no rows, or do not fit to the values.
    """
    _require_rank(nrows, 0, "nrows")
    _require_rank(rowids, 1, "value_rowids")
    _require_rank(values, 1, "values")
    _require_rank(default, 0, "default_value")
    count = int(nrows)
    if len(rowids) != len(values):
        raise InvalidArgumentError(f"{len(rowids)} row ids are given, and {len(values)} values")
    if count == 0 and len(rowids):
        raise InvalidArgumentError(f"Received tensor with dense_shape[0] = 0 but {len(rowids)} ids")
    wrong = np.flatnonzero((rowids < 0) | (rowids >= count))
    if len(wrong):
        raise InvalidArgumentError(
            f"indices({wrong[0]}, 0) is invalid: {rowids[wrong[0]]} is not in [0, {count})"
        )
    empty = np.bincount(rowids, minlength=count)[:count] == 0
    missing = np.flatnonzero(empty)
    fill = np.empty(len(missing), values.dtype)
    fill[...] = default
    order = np.argsort(np.concatenate([rowids, missing]), kind="stable")
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    if not count:
        # TensorFlow gives the ids of no rows as indices, [0, 1].
        return np.zeros((0, 1), np.int64), values, empty, back
    return (
        np.concatenate([rowids, missing.astype(np.int64)])[order],
        np.concatenate([values, fill])[order],
        empty,
        back[: len(rowids)],
    )


@op(
    """
    RaggedFillEmptyRowsGrad(reverse_index_map: int64, grad_values: T)
    -> d_values: T, d_default_value: T
    T: type
    """,
    shape=lambda c: [c.shape(0), ()],
)
def ragged_fill_empty_rows_grad_kernel(ctx: KernelContext, back: Array, grad: Array) -> Any:
    """Return the gradients of the values and of the default."""
    _require_rank(back, 1, "reverse_index_map")
    _require_rank(grad, 1, "grad_values")
    if len(back) and (back.min() < 0 or back.max() >= len(grad)):
        raise InvalidArgumentError(f"Elements in reverse index must be in [0, {len(grad)})")
    kept = np.zeros(len(grad), bool)
    kept[back] = True
    return grad[back], grad[~kept].sum(dtype=grad.dtype)


@gradient("RaggedFillEmptyRows")
def _fill_empty_rows_grad(op: Operation, _: Tensor, grad: Tensor, *rest: Tensor) -> list[Any]:
    values, default = apply_op("RaggedFillEmptyRowsGrad", op.outputs[3], grad)
    return [None, values, None, default]


not_differentiable("RaggedFillEmptyRowsGrad")


class RaggedFillEmptyRows(NamedTuple):
    """Rows that have values."""

    output_value_rowids: Tensor
    output_values: Tensor
    empty_row_indicator: Tensor
    reverse_index_map: Tensor


@export_v2("ragged_fill_empty_rows")
def ragged_fill_empty_rows(
    value_rowids: TensorLike,
    values: TensorLike,
    nrows: TensorLike,
    default_value: TensorLike,
    name: str | None = None,
) -> Any:
    """Return row ids, values, which rows were empty, and where each value has come to stand."""
    return RaggedFillEmptyRows(
        *apply_op(
            "RaggedFillEmptyRows",
            convert_to_tensor(value_rowids, dtypes.int64),
            values,
            convert_to_tensor(nrows, dtypes.int64),
            default_value,
            name=name,
        )
    )


class RaggedFillEmptyRowsGrad(NamedTuple):
    """The gradients of what was filled."""

    d_values: Tensor
    d_default_value: Tensor


@export_v2("ragged_fill_empty_rows_grad")
def ragged_fill_empty_rows_grad(
    reverse_index_map: TensorLike, grad_values: TensorLike, name: str | None = None
) -> Any:
    """Return the gradients of the values and of the default of ragged_fill_empty_rows."""
    back = convert_to_tensor(reverse_index_map, dtypes.int64)
    return RaggedFillEmptyRowsGrad(
        *apply_op("RaggedFillEmptyRowsGrad", back, grad_values, name=name)
    )
