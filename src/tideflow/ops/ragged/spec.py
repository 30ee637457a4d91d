"""tf.RaggedTensorSpec: what is known of a ragged tensor before it exists.

Source: tensorflow/python/ops/ragged/ragged_tensor.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import DTypeLike
from tideflow.ops.export import export, overload_for
from tideflow.ops.ragged.tensor import RaggedTensor, rows_of
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


@export("RaggedTensorSpec")
class RaggedTensorSpec:
    """The shape, element type and ragged rank of a tensor to come.

    Args:
      shape: None for sizes, or a shape as a whole, that are not known.
      ragged_rank: how many dimensions are divided by row splits; all but the first by default.
      row_splits_dtype: int32 or int64.
      flat_values_spec: the spec of the innermost values, where more is known of them.
    Raises: ValueError for a rank that does not fit, or where neither shape nor rank is known.
    """

    __slots__ = ("_dtype", "_flat_values_spec", "_ragged_rank", "_row_splits_dtype", "_shape")

    def __init__(
        self,
        shape: Any = None,
        dtype: DTypeLike | None = dtypes.float32,
        ragged_rank: int | None = None,
        row_splits_dtype: DTypeLike = dtypes.int64,
        flat_values_spec: TensorSpec | None = None,
    ) -> None:
        if flat_values_spec is not None:
            dtype = flat_values_spec.dtype
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtypes.float32 if dtype is None else dtype)
        self._row_splits_dtype = as_dtype(row_splits_dtype)
        self._flat_values_spec = flat_values_spec
        rank = self._shape.rank
        if ragged_rank is None:
            if rank is None:
                raise ValueError("Must specify ragged_rank or a shape with a known rank.")
            ragged_rank = rank - 1
        elif not isinstance(ragged_rank, int):
            raise TypeError(f"ragged_rank must be an int; found {ragged_rank!r}")
        if self._row_splits_dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError(f"row splits are of int32 or int64, not {row_splits_dtype}")
        if rank is not None and ragged_rank >= rank:
            raise ValueError(
                f"Argument `ragged_rank` ({ragged_rank}) must be less than rank ({rank})."
            )
        self._ragged_rank = ragged_rank

    @property
    def shape(self) -> TensorShape:
        """The shape; None for ragged dimensions."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are divided by row splits."""
        return self._ragged_rank

    @property
    def row_splits_dtype(self) -> DType:
        """The element type of row splits."""
        return self._row_splits_dtype

    @property
    def flat_values_spec(self) -> TensorSpec | None:
        """The spec of the innermost values, if it was given."""
        return self._flat_values_spec

    @property
    def value_type(self) -> type:
        """The class of values."""
        return RaggedTensor

    @classmethod
    def from_value(cls, value: RaggedTensor) -> RaggedTensorSpec:
        """Return the spec of a ragged tensor."""
        return cls(value.shape, value.dtype, value.ragged_rank, value.row_splits.dtype)

    def is_compatible_with(self, spec_or_value: object) -> bool:
        """Whether a ragged tensor (or spec) may stand where this is asked for."""
        other = spec_or_value
        if isinstance(other, RaggedTensor):
            other = RaggedTensorSpec.from_value(other)
        return (
            isinstance(other, RaggedTensorSpec)
            and self._parts()[1:] == other._parts()[1:]
            and self._shape.is_compatible_with(other._shape)
        )

    def most_specific_compatible_type(self, other: RaggedTensorSpec) -> RaggedTensorSpec:
        """Return the spec of what fits to both.  Raises: ValueError for other types and ranks."""
        if not isinstance(other, RaggedTensorSpec) or self._parts()[1:] != other._parts()[1:]:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        mine, its = self._shape.sizes, other._shape.sizes
        known = None
        if mine is not None and its is not None and len(mine) == len(its):
            known = tuple(a if a == b else None for a, b in zip(mine, its))
        return RaggedTensorSpec(known, self._dtype, self._ragged_rank, self._row_splits_dtype)

    def as_composite(self) -> Any:
        """Return a ragged tensor with a TensorSpec for each of its parts."""
        dims = self._shape.sizes
        depth = self._ragged_rank
        inner = None if dims is None else dims[depth + 1 :]
        made: Any = self._flat_values_spec or TensorSpec(
            None if inner is None else (None if depth else (dims or (None,))[0], *inner),
            self._dtype,
        )
        for axis in reversed(range(depth)):
            rows = None if dims is None or axis else dims[0]
            splits: Any = TensorSpec((None if rows is None else rows + 1,), self._row_splits_dtype)
            made = rows_of(made, splits)
        return made

    def _parts(self) -> tuple[Any, ...]:
        return self._shape.sizes, self._dtype, self._ragged_rank, self._row_splits_dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedTensorSpec) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        return (
            f"RaggedTensorSpec({self._shape!r}, tf.{self._dtype.name}, {self._ragged_rank}, "
            f"tf.{self._row_splits_dtype.name})"
        )


overload_for(RaggedTensorSpec)
