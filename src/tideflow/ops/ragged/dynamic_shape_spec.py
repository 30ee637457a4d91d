"""What is known of a DynamicRaggedShape before anything runs.

Source: tensorflow/python/ops/ragged/dynamic_ragged_shape.py (Spec).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec
from tideflow.graph.types import DTypeLike, ShapeLike
from tideflow.ops.ragged.row_partition import RowPartitionSpec
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


def _same(*sizes: int | None) -> int | None:
    """Return the one size that all who know it name.  Raises: ValueError for several."""
    found = {size for size in sizes if size is not None}
    if len(found) > 1:
        raise ValueError(f"sizes differ: {sorted(found)}")
    return found.pop() if found else None


def _times(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one * other


def _over(total: int | None, length: int | None) -> int | None:
    return total // length if total is not None and length else None


class DynamicShapeSpec(TypeSpec):
    """The row partitions, and the shape of the innermost values, of a shape to come.

    Args:
      row_partitions: the RowPartitionSpecs, outermost first.
      static_inner_shape: None for sizes that are not known.
      dtype: of the shape and of all of its partitions, int32 or int64.
    Raises: TypeError for what are no specs; ValueError for another type, and for sizes that do not
    go together.
    """

    __slots__ = ("_dtype", "_row_partitions", "_static_inner_shape")

    def __init__(
        self,
        row_partitions: Iterable[RowPartitionSpec],
        static_inner_shape: ShapeLike,
        dtype: DTypeLike,
    ) -> None:
        if not isinstance(row_partitions, Iterable):
            raise TypeError("row_partitions should be an Iterable")
        given = tuple(row_partitions)
        if not all(isinstance(spec, RowPartitionSpec) for spec in given):
            raise TypeError("row_partitions should be an Iterable of RowPartitionSpecs")
        self._dtype = as_dtype(dtype)
        if self._dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError("dtype must be tf.int32 or tf.int64")
        for spec in given:
            if spec.dtype != self._dtype:
                raise ValueError(f"dtype of {spec!r} is {spec.dtype!r}: expected {self._dtype!r}")
        inner = TensorShape(static_inner_shape)
        if inner.rank == 0 and given:
            raise ValueError("If row_partitions are provided, must have inner_rank > 0")
        counts = _counts(given, inner)
        if given and inner.sizes is not None:
            inner = TensorShape([counts[-1], *inner.sizes[1:]])
        self._static_inner_shape = inner
        self._row_partitions = tuple(
            RowPartitionSpec(rows, values, spec.uniform_row_length, self._dtype)
            for spec, rows, values in zip(given, counts, counts[1:])
        )

    @classmethod
    def from_value(cls, value: Any) -> Any:
        """Return the spec of a shape."""
        partitions = [RowPartitionSpec.from_value(rows) for rows in value.row_partitions]
        return cls(partitions, value.static_inner_shape, value.dtype)

    @property
    def dtype(self) -> DType:
        """The type of sizes."""
        return self._dtype

    @property
    def num_row_partitions(self) -> int:
        """How many row partitions there are."""
        return len(self._row_partitions)

    @property
    def inner_rank(self) -> int | None:
        """The rank of the innermost values, None if it is not known."""
        return self._static_inner_shape.rank

    @property
    def rank(self) -> int | None:
        """The number of axes, None if it is not known."""
        inner = self.inner_rank
        return None if inner is None else inner + len(self._row_partitions)

    def with_dtype(self, dtype: DTypeLike) -> Any:
        """Return the spec of the same shape with sizes of another type."""
        partitions = [spec.with_dtype(dtype) for spec in self._row_partitions]
        return type(self)(partitions, self._static_inner_shape, dtype)

    def _stated(self) -> tuple[Any, ...]:
        return self._row_partitions, self._static_inner_shape, self._dtype

    def __repr__(self) -> str:
        return (
            f"DynamicRaggedShape.Spec(row_partitions={self._row_partitions!r}, "
            f"static_inner_shape={self._static_inner_shape!r}, dtype={self._dtype!r})"
        )

    @property
    def parts(self) -> Sequence[TensorSpec]:
        """The specs of the row splits, outermost first, and of the inner shape."""
        splits = [part for spec in self._row_partitions for part in spec.parts]
        return (*splits, TensorSpec([self.inner_rank], self._dtype))

    def to_tensors(self, value: Any) -> list[Any]:
        """Return the row splits, outermost first, and the inner shape."""
        splits = [rows.row_splits() for rows in value.row_partitions]
        return [*splits, value.inner_shape]


def _counts(partitions: Sequence[RowPartitionSpec], inner: TensorShape) -> list[int | None]:
    """Return how many rows each partition has, and last how many values there are.

    Raises: ValueError for sizes that do not go together.
    """
    counts: list[int | None] = []
    for at, spec in enumerate(partitions):
        before = partitions[at - 1] if at else None
        told = (
            [] if before is None else [before.nvals, _times(counts[-1], before.uniform_row_length)]
        )
        counts.append(_same(spec.nrows, *told))
    if partitions:
        last = partitions[-1]
        told = [last.nvals, _times(counts[-1], last.uniform_row_length)]
        counts.append(_same(*told, *(inner.sizes or ())[:1]))
    # What follows from the sizes of inner axes.
    for at in range(len(counts) - 1, 0, -1):
        length = partitions[at - 1].uniform_row_length
        counts[at - 1] = _same(counts[at - 1], _over(counts[at], length))
    return counts
