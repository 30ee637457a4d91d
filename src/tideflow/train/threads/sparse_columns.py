"""Sparse tensors among the tensors of examples: they lie in queues as three strings each.

Source: tensorflow/python/training/input.py for what is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.ops.sparse import SparseTensor
from tideflow.wire.dtypes import DType

# Indices, values and dense shape.
SERIALIZED = (3,)


@dataclass(frozen=True)
class SparseColumn:
    """What is known of the sparse tensors of a component of examples.

    Attributes:
      dtype: of the values.
      rank: of a batch; None where it is not known.
    """

    dtype: DType
    rank: int | None

    @classmethod
    def of(cls, tensor: Tensor, enqueue_many: bool) -> SparseColumn | None:
        """Return what is known of a tensor; None for one that is dense."""
        if not isinstance(tensor, SparseTensor):
            return None
        rank = (tensor.dense_shape.dims or (None,))[0]
        is_batch = enqueue_many or rank is None
        return cls(tensor.dtype, rank if is_batch else rank + 1)  # type: ignore[operator]

    def is_compatible_with(self, other: SparseColumn | None) -> bool:
        """Whether both may lie in one queue."""
        if other is None or other.dtype is not self.dtype:
            return False
        return self.rank is None or other.rank is None or self.rank == other.rank

    def restored(self, stored: Tensor) -> SparseTensor:
        """Return a batch [n, 3] of what was stored as one sparse tensor."""
        indices, values, shape = apply_op("DeserializeManySparse", stored, dtype=self.dtype)
        indices.set_shape([None, self.rank])
        shape.set_shape([self.rank])
        return SparseTensor(indices, values, shape)


def columns_of(lists: Sequence[Sequence[Any]], enqueue_many: bool) -> list[SparseColumn | None]:
    """Return what is known of each component of examples; None for those that are dense.

    Args:
      lists: the tensors, once for each thread that enqueues.
      enqueue_many: whether they are rows of examples.
    Raises: ValueError where only some of the lists have a sparse tensor, or other ones.
    """
    first, *others = (
        [SparseColumn.of(tensor, enqueue_many) for tensor in tensors] for tensors in lists
    )
    for tensors, columns in zip(lists[1:], others):
        for one, other in zip(first, columns):
            if one is not other and (one is None or not one.is_compatible_with(other)):
                raise ValueError(f"Inconsistent SparseTensors list: {lists[0]} vs. {tensors}")
    return first


def stored(tensor: Tensor, enqueue_many: bool) -> Tensor:
    """Return a tensor as it lies in a queue."""
    if not isinstance(tensor, SparseTensor):
        return convert_to_tensor(tensor)
    op = "SerializeManySparse" if enqueue_many else "SerializeSparse"
    made: Tensor = apply_op(op, *tensor.parts)
    return made
