"""The rows of batches, which replicas share: of tensors, of ragged and of sparse ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.ops.ragged import RaggedTensor
from tideflow.ops.sparse import SparseTensor
from tideflow.wire.dtypes import int32, int64


def parted(batch: Any, count: int) -> list[Any]:
    """Return the rows of a batch in so many parts; the first ones get what is left over."""
    if isinstance(batch, (RaggedTensor, SparseTensor)):
        known = batch.shape.as_list()[0]
        shares = _shares(_count(batch) if known is None else known, count)
        sizes = [shares[i] for i in range(count)]
        starts: list[Any] = [0]
        for size in sizes[:-1]:
            starts.append(starts[-1] + size)
        return [_part(batch, start, size) for start, size in zip(starts, sizes)]
    tensor = convert_to_tensor(batch)
    rows: Any = tensor.shape.as_list()[0]
    if rows is None:
        rows = apply_op("GatherV2", apply_op("Shape", tensor), 0, 0)
    return list(apply_op("SplitV", tensor, _shares(rows, count), 0, num_split=count))


def without_rows(batch: Any) -> Any:
    """Return a batch of the same kind that has no rows."""
    if isinstance(batch, (RaggedTensor, SparseTensor)):
        return _part(batch, 0, 0)
    return convert_to_tensor(batch)[:0]


def _part(batch: Any, start: Any, size: Any) -> Any:
    """Return so many rows from a row on."""
    if not isinstance(batch, SparseTensor):
        return batch[start : start + size]
    others = batch.dense_shape[1:]
    begin = apply_op("ConcatV2", [[_as_int64(start)], apply_op("ZerosLike", others)], 0)
    return SparseTensor(
        *apply_op(
            "SparseSlice", *batch.parts, begin, apply_op("ConcatV2", [[_as_int64(size)], others], 0)
        )
    )


def _as_int64(number: Any) -> Any:
    return apply_op("Cast", number, DstT=int64)


def _count(batch: RaggedTensor | SparseTensor) -> Any:
    """Return how many rows there are, an int32 scalar."""
    rows = batch.nrows() if isinstance(batch, RaggedTensor) else batch.dense_shape[0]
    return apply_op("Cast", rows, DstT=int32)


def _shares(rows: Any, count: int) -> Any:
    """Return how many rows of a batch each replica gets; rows: a number, or an int32 scalar."""
    if isinstance(rows, int):
        return [rows // count + (i < rows % count) for i in range(count)]
    more = apply_op("Less", np.arange(count, dtype=np.int32), apply_op("FloorMod", rows, count))
    return apply_op("AddV2", apply_op("FloorDiv", rows, count), apply_op("Cast", more, DstT=int32))
