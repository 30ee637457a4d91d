"""tf.ConditionalAccumulator and its like: accumulators as objects that build operations.

Source: tensorflow/python/ops/data_flow_ops.py for names and argument orders.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import IndexedSlices
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


@export("ConditionalAccumulatorBase")
class ConditionalAccumulatorBase:
    """Adds up gradients until enough are there to be taken."""

    _ops = "Accumulator"

    def __init__(self, dtype: DTypeLike, shape: Any, accumulator_ref: Tensor) -> None:
        self._dtype = as_dtype(dtype)
        self._shape = TensorShape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.rsplit("/", 1)[-1]

    @property
    def accumulator_ref(self) -> Tensor:
        """The accumulator's handle."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        """The name of the operation that gives the handle."""
        return self._name

    @property
    def dtype(self) -> DType:
        """The gradients' element type."""
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """Return how many gradients were added since the last take."""
        found: Tensor = apply_op(
            f"{self._ops}NumAccumulated",
            self._accumulator_ref,
            name=name or f"{self._name}_NumAccumulated",
        )
        return found

    def set_global_step(self, new_global_step: TensorLike, name: str | None = None) -> Operation:
        """Return an operation after which gradients of earlier steps are dropped."""
        made: Operation = apply_op(
            f"{self._ops}SetGlobalStep", self._accumulator_ref, _int64(new_global_step), name=name
        )
        return made


def _int64(value: TensorLike) -> Tensor:
    if isinstance(value, Tensor) and value.dtype.base_dtype is not dtypes.int64:
        cast: Tensor = apply_op("Cast", value, DstT=dtypes.int64)
        return cast
    return convert_to_tensor(value, dtypes.int64)


def _handle(
    op_name: str,
    dtype: DTypeLike,
    shape: Any,
    shared_name: str | None,
    name: str,
    reduction_type: str,
) -> Tensor:
    made: Tensor = apply_op(
        op_name,
        dtype=as_dtype(dtype),
        shape=TensorShape(shape),
        shared_name=shared_name or "",
        reduction_type=reduction_type,
        name=name,
    )
    return made


@export("ConditionalAccumulator")
class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Adds up dense gradients.

    Args:
      dtype, shape: of each gradient; a shape may be known in part.
      shared_name: under which other sessions find the same accumulator.
      reduction_type: what a take gives: "MEAN" or "SUM".
    """

    _ops = "ResourceAccumulator"

    def __init__(
        self,
        dtype: DTypeLike,
        shape: ShapeLike | None = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        op_name = "ResourceConditionalAccumulator"
        made = _handle(op_name, dtype, shape, shared_name, name, reduction_type)
        super().__init__(dtype, shape, made)

    def apply_grad(
        self, grad: Tensor, local_step: TensorLike = 0, name: str | None = None
    ) -> Operation:
        """Return an operation that adds a gradient, if local_step is not over.

        Raises: ValueError for a gradient of another shape.
        """
        given = convert_to_tensor(grad, self._dtype)
        given.shape.assert_is_compatible_with(self._shape)
        made: Operation = apply_op(
            f"{self._ops}ApplyGradient",
            self._accumulator_ref,
            _int64(local_step),
            given,
            name=name,
        )
        return made

    def take_grad(self, num_required: TensorLike, name: str | None = None) -> Tensor:
        """Return the mean or sum of the gradients; waits, when run, until there are enough."""
        found: Tensor = apply_op(
            f"{self._ops}TakeGradient",
            self._accumulator_ref,
            num_required,
            dtype=self._dtype,
            name=name,
        )
        found.set_shape(self._shape)
        return found


@export("SparseConditionalAccumulator", "sparse.SparseConditionalAccumulator")
class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Adds up gradients that are slices (see ConditionalAccumulator)."""

    def __init__(
        self,
        dtype: DTypeLike,
        shape: ShapeLike | None = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        op_name = "SparseConditionalAccumulator"
        made = _handle(op_name, dtype, shape, shared_name, name, reduction_type)
        super().__init__(dtype, shape, made)

    def apply_indexed_slices_grad(
        self, grad: IndexedSlices, local_step: TensorLike = 0, name: str | None = None
    ) -> Operation:
        """Return an operation that adds a gradient, if local_step is not over."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        grad_shape: TensorLike | None = None,
        local_step: TensorLike = 0,
        name: str | None = None,
    ) -> Operation:
        """Return an operation that adds slices grad_values of indices grad_indices (ascending)."""
        made: Operation = apply_op(
            "SparseAccumulatorApplyGradient",
            self._accumulator_ref,
            _int64(local_step),
            _int64(grad_indices),
            convert_to_tensor(grad_values, self._dtype),
            _int64([] if grad_shape is None else grad_shape),
            has_known_shape=grad_shape is not None,
            name=name,
        )
        return made

    def take_grad(self, num_required: TensorLike, name: str | None = None) -> list[Tensor]:
        """Return indices, values and shape of the mean or sum of the gradients; waits for them."""
        found: list[Tensor] = apply_op(
            "SparseAccumulatorTakeGradient",
            self._accumulator_ref,
            num_required,
            dtype=self._dtype,
            name=name,
        )
        return found

    def take_indexed_slices_grad(
        self, num_required: TensorLike, name: str | None = None
    ) -> IndexedSlices:
        """Return the mean or sum of the gradients as slices; waits, when run, for enough."""
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)
