"""tf.RaggedTensorSpec: what is said of a ragged tensor that does not exist yet.

Source: tensorflow/python/ops/ragged/ragged_tensor.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, register_type_spec
from tideflow.graph.types import DTypeLike, ShapeLike
from tideflow.ops.export import export, overload_for
from tideflow.ops.ragged.tensor import RaggedTensor, rows_of
from tideflow.ops.ragged.variants import to_variant
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


@export("RaggedTensorSpec")
class RaggedTensorSpec(TypeSpec):
    """The shape, element type and ragged rank of a tensor to come.

    With a ragged rank of 0 the values are plain tensors, which travel as ragged ones do.

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
        shape: ShapeLike | None = None,
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

    @classmethod
    def from_value(cls, value: RaggedTensor) -> RaggedTensorSpec:
        """Return the spec of a ragged tensor."""
        return cls(value.shape, value.dtype, value.ragged_rank, value.row_splits.dtype)

    @property
    def value_type(self) -> type:
        """The class of the values: tensors where the ragged rank is 0."""
        return RaggedTensor if self._ragged_rank > 0 else Tensor

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The shape; None for ragged dimensions."""
        return self._shape

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are divided by row splits."""
        return self._ragged_rank

    @property
    def row_splits_dtype(self) -> DType:
        """The type of row splits."""
        return self._row_splits_dtype

    @property
    def flat_values_spec(self) -> TensorSpec | None:
        """The spec of the innermost values, if it was given."""
        return self._flat_values_spec

    def _stated(self) -> tuple[Any, ...]:
        return self._shape, self._dtype, self._ragged_rank, self._row_splits_dtype

    def _with(self, shape: Any, ragged_rank: int) -> RaggedTensorSpec:
        # A ragged rank may be negative here, as of rows that are batched again later.
        made = object.__new__(RaggedTensorSpec)
        made._shape = TensorShape(shape)
        made._dtype, made._row_splits_dtype = self._dtype, self._row_splits_dtype
        made._ragged_rank = ragged_rank
        made._flat_values_spec = None
        return made

    def relaxed(self, other: TypeSpec) -> RaggedTensorSpec | None:
        """Return a spec for the ragged tensors of both; None for other types or ragged ranks."""
        if not isinstance(other, RaggedTensorSpec) or self._stated()[1:] != other._stated()[1:]:
            return None
        return self._with(shapes.relax(self._shape.sizes, other.shape.sizes), self._ragged_rank)

    def most_specific_compatible_type(self, other: RaggedTensorSpec) -> RaggedTensorSpec:
        """Return the spec of what fits to both.  Raises: ValueError for other types and ranks."""
        found = self.relaxed(other)
        if found is None:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return found

    def _admits(self, other: RaggedTensorSpec) -> bool:
        return self._stated()[1:] == other._stated()[1:] and self._shape.is_compatible_with(
            other.shape
        )

    @property
    def parts(self) -> Sequence[TensorSpec]:
        """The specs of the innermost values and of the row splits, outermost first."""
        sizes = self._shape.sizes
        inner = None if sizes is None else (None, *sizes[self._ragged_rank + 1 :])
        if self._ragged_rank <= 0:
            return (TensorSpec(sizes, self._dtype),)
        outer = None if sizes is None or sizes[0] is None else sizes[0] + 1
        lengths = [outer, *[None] * (self._ragged_rank - 1)]
        splits = [TensorSpec([size], self._row_splits_dtype) for size in lengths]
        return (self._flat_values_spec or TensorSpec(inner, self._dtype), *splits)

    def from_parts(self, parts: Sequence[Any]) -> Any:
        """Return the ragged tensor of its innermost values and row splits, outermost first."""
        made, *splits = parts
        for level in reversed(splits):
            made = rows_of(made, level)
        return made

    @property
    def flat(self) -> Sequence[TensorSpec]:
        """One variant, or a vector of them for a batch."""
        return (TensorSpec(None, dtypes.variant),)

    def _split(self, value: Any) -> tuple[Sequence[Tensor], Tensor]:
        is_ragged = isinstance(value, RaggedTensor)
        splits = value.nested_row_splits if is_ragged else ()
        if len(splits) != self._ragged_rank:
            raise ValueError(
                f"Ragged rank of value {len(splits)} does not match ragged rank of type "
                f"{self._ragged_rank}."
            )
        return splits, value.flat_values if is_ragged else value

    def to_tensors(self, value: Any) -> list[Any]:
        """Return the ragged tensor as a variant.  Raises: ValueError for another ragged rank."""
        return [to_variant(*self._split(value), batched=False)]

    def to_rows(self, value: Any) -> list[Any]:
        """Return each row as a variant.  Raises: ValueError for another ragged rank."""
        return [to_variant(*self._split(value), batched=True)]

    def from_tensors(self, tensors: Sequence[Any]) -> Any:
        """Return the ragged tensor that variants hold.

        Raises: ValueError where the values have no rows any more.
        """
        if self._ragged_rank < 0:
            raise ValueError(f"ragged_rank must be non-negative; got {self._ragged_rank}.")
        splits, values = apply_op(
            "RaggedTensorFromVariant",
            tensors[0],
            input_ragged_rank=-1,
            output_ragged_rank=self._ragged_rank,
            Tvalues=self._dtype,
            Tsplits=self._row_splits_dtype,
        )
        if not values.graph.is_eager:
            for part, spec in zip([values, *splits], self.parts):
                part.set_shape(spec.shape)
        return self.from_parts([values, *splits])

    def batched(self, size: int | None) -> RaggedTensorSpec:
        """Return the spec of a batch, of one ragged dimension more."""
        shape = TensorShape([size]).concatenate(self._shape)
        return self._with(shape, self._ragged_rank + 1)

    def unbatched(self) -> RaggedTensorSpec:
        """Return the spec of a row, of one ragged dimension less."""
        sizes = self._shape.sizes
        return self._with(None if sizes is None else sizes[1:], self._ragged_rank - 1)


overload_for(RaggedTensorSpec)
register_type_spec(RaggedTensor, RaggedTensorSpec.from_value)
