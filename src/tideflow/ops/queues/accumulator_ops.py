"""The ops of accumulators.

A handle is a resource, or (an older form) a reference to a vector of two strings, the container and
the name: at run time a cell that holds the accumulator itself.

Source: tensorflow/core/ops/data_flow_ops.cc, core/kernels/conditional_accumulator_op.cc and
sparse_conditional_accumulator_op.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, no_outputs, scalar, with_rank
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array
from tideflow.ops.queues.accumulators import Accumulator, DenseAccumulator, SparseAccumulator
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

_ATTRS = """
dtype: type in numbers
shape: shape
container: string = ''
shared_name: string = ''
reduction_type: string in {MEAN, SUM} = 'MEAN'
"""
_FLOATS = (dtypes.float16, dtypes.float32, dtypes.float64)


class AccumulatorRef:
    """What a reference to an accumulator is at run time."""

    __slots__ = ("accumulator", "container")

    def __init__(self, accumulator: Accumulator, container: str) -> None:
        self.accumulator = accumulator
        self.container = container

    def read(self) -> Any:
        """Return the container and the name."""
        names = [self.container.encode(), self.accumulator.name.encode()]
        return np.array(names, object)


def _open(ctx: Any, kind: type[Accumulator], declared: dict[str, Any]) -> Accumulator:
    """Return the accumulator of a node, shared by all that ask for its name.

    As in TensorFlow, the first to ask decides what it is; the others' gradients must fit.
    """
    name = declared["shared_name"] or ctx.node.name
    dtype = declared["dtype"]
    if dtype not in _FLOATS:
        known = ", ".join(found.name for found in _FLOATS)
        raise errors.InvalidArgumentError(f"{kind.kind} is for {known}, not for {dtype.name}")
    is_mean = declared["reduction_type"] == "MEAN"
    found: Accumulator = ctx.resources.lookup_or_create(
        declared["container"],
        name,
        Accumulator,
        lambda: kind(name, dtype, declared["shape"].sizes, is_mean),
    )
    return found


def _pair(c: ShapeContext) -> list[Dims]:
    return [(2,)]


def _declare(name: str, kind: type[Accumulator], is_resource: bool) -> None:
    """Register an op that makes an accumulator."""

    def make(
        ctx: KernelContext,
        *,
        dtype: DType,
        shape: TensorShape,
        container: str,
        shared_name: str,
        reduction_type: str,
    ) -> Any:
        declared = {
            "dtype": dtype,
            "shape": shape,
            "container": container,
            "shared_name": shared_name,
            "reduction_type": reduction_type,
        }
        found = ctx.memo(lambda: _open(ctx, kind, declared))
        if is_resource:
            return ctx.resources.handle(container, found.name, Accumulator)
        return AccumulatorRef(found, container)

    output = "resource" if is_resource else "Ref string"
    shape = scalar if is_resource else _pair
    # As with TensorFlow, only those of resources are put on parameter servers by default.
    signature = f"{name}() -> handle: {output}" + _ATTRS
    op(signature, shape=shape, stateful=True, holds_parameters=is_resource)(make)


_declare("ConditionalAccumulator", DenseAccumulator, is_resource=False)
_declare("ResourceConditionalAccumulator", DenseAccumulator, is_resource=True)
_declare("SparseConditionalAccumulator", SparseAccumulator, is_resource=False)


def _find(ctx: Any, handle: Any, kind: type[Any] = Accumulator, dtype: DType | None = None) -> Any:
    """Return what a handle of either form names.

    Raises: NotFoundError; InvalidArgumentError for another kind or element type.
    """
    if isinstance(handle, AccumulatorRef):
        found = handle.accumulator
    else:
        found = ctx.resources.lookup(handle, Accumulator)
    if not isinstance(found, kind):
        raise errors.InvalidArgumentError(f"{found.name!r} is a {found.kind}, not a {kind.kind}")
    if dtype is not None and found.dtype is not dtype:
        raise errors.InvalidArgumentError(
            f"accumulator {found.name!r} is of {found.dtype.name}; the op is for {dtype.name}"
        )
    return found


def _scalar(value: Any, what: str) -> int:
    if np.ndim(value):
        raise errors.InvalidArgumentError(
            f"Argument {what} must be scalar, but had bad shape "
            f"{shapes.format_dims(np.shape(value))}"
        )
    return int(value)


def apply_gradient(
    ctx: KernelContext, handle: object, local_step: Array, gradient: Array, *, dtype: DType
) -> None:
    """Add a gradient, unless its step is over."""
    found = _find(ctx, handle, DenseAccumulator, dtype)
    found.add(_scalar(local_step, "local_step"), gradient)


async def take_gradient(
    ctx: KernelContext, handle: object, num_required: Array, *, dtype: DType
) -> Any:
    """Return the mean (or sum) of the gradients; waits until there are enough."""
    found = _find(ctx, handle, DenseAccumulator, dtype)
    return await found.take(_scalar(num_required, "num_required"))


def num_accumulated(ctx: KernelContext, handle: object) -> Any:
    """Return how many gradients were added since the last take."""
    return np.int32(_find(ctx, handle).count)


def set_global_step(ctx: KernelContext, handle: object, new_global_step: Array) -> None:
    """Drop gradients of earlier steps from now on."""
    _find(ctx, handle).set_step(_scalar(new_global_step, "new_global_step"))


def _applied_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.shape("local_step"), 0, "local_step")
    return []


def _taken_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.shape("num_required"), 0, "num_required")
    return [None] * len(c.node.output_types)


def _step_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.shape("new_global_step"), 0, "new_global_step")
    return []


for _prefix, _handle, _stateful in (
    ("Accumulator", "Ref string", False),
    ("ResourceAccumulator", "resource", True),
):
    op(
        f"{_prefix}ApplyGradient(handle: {_handle}, local_step: int64, gradient: dtype)\n"
        "dtype: type in numbers",
        shape=_applied_shape,
        stateful=_stateful,
    )(apply_gradient)
    op(
        f"{_prefix}TakeGradient(handle: {_handle}, num_required: int32) -> average: dtype\n"
        "dtype: type in numbers",
        shape=_taken_shape,
        stateful=_stateful,
    )(take_gradient)
    op(
        f"{_prefix}NumAccumulated(handle: {_handle}) -> num_accumulated: int32",
        shape=scalar,
        stateful=_stateful,
    )(num_accumulated)
    op(
        f"{_prefix}SetGlobalStep(handle: {_handle}, new_global_step: int64)",
        shape=_step_shape,
        stateful=_stateful,
    )(set_global_step)


@op(
    """
    SparseAccumulatorApplyGradient(handle: Ref string, local_step: int64, gradient_indices: int64,
      gradient_values: dtype, gradient_shape: int64)
    dtype: type in numbers
    has_known_shape: bool
    """,
    shape=no_outputs,
)
def sparse_apply_gradient(
    ctx: KernelContext,
    handle: Any,
    local_step: Array,
    indices: Array,
    values: Array,
    shape: Array,
    *,
    dtype: DType,
    has_known_shape: bool,
) -> None:
    """Add a gradient of slices, unless its step is over."""
    found = _find(ctx, handle, SparseAccumulator, dtype)
    found.add(
        _scalar(local_step, "local_step"), indices, values, shape if has_known_shape else None
    )


@op(
    """
    SparseAccumulatorTakeGradient(handle: Ref string, num_required: int32)
    -> indices: int64, values: dtype, shape: int64
    dtype: type in numbers
    """,
    shape=lambda c: [(None,), None, (None,)],
)
async def sparse_take_gradient(
    ctx: KernelContext, handle: Any, num_required: Array, *, dtype: DType
) -> Any:
    """Return the mean (or sum) of the gradients as slices; waits until there are enough."""
    found = _find(ctx, handle, SparseAccumulator, dtype)
    return await found.take(_scalar(num_required, "num_required"))


not_differentiable(
    "ConditionalAccumulator",
    "ResourceConditionalAccumulator",
    "SparseConditionalAccumulator",
    "AccumulatorTakeGradient",
    "ResourceAccumulatorTakeGradient",
    "SparseAccumulatorTakeGradient",
    "AccumulatorNumAccumulated",
    "ResourceAccumulatorNumAccumulated",
)
