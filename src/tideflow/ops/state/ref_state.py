"""Reference variables (v1): at run time a reference is the variable's cell itself.

The executor reads the cell for an input that is no reference, and passes it on for one that is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import roles
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext, StepContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import from_attr, same_as, scalar
from tideflow.graph.shapes import TensorShape, compatible, format_dims
from tideflow.graph.types import Array
from tideflow.ops.node_resources import check_names
from tideflow.ops.state import shapes as state_shapes
from tideflow.ops.state.cells import RefVariableState
from tideflow.ops.state.resource_state import count_up
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

_VARIABLE = """() -> ref: Ref dtype
shape: shape
dtype: type
container: string = ''
shared_name: string = ''
"""


def variable(
    ctx: KernelContext, *, shape: TensorShape, dtype: DType, container: str, shared_name: str
) -> RefVariableState:
    """Return the variable's cell, shared by all that ask for the same name.

    The name is shared_name, or else the node's.
    Raises: InternalError when the name belongs to a variable of another type;
    InvalidArgumentError for a container's name that TensorFlow refuses.
    Source: tensorflow/core/kernels/variable_ops.cc
    """
    if container:
        check_names(container, "")
    name = shared_name or ctx.node.name
    state = ctx.resources.lookup_or_create(
        container,
        name,
        RefVariableState,
        lambda: RefVariableState(name, dtype, shape.sizes, container),
    )
    if state.dtype is not dtype:
        raise errors.InternalError(
            f"variable {name!r} holds {state.dtype.name} already; {dtype.name} is wanted"
        )
    return state


op(
    "VariableV2" + _VARIABLE,
    shape=from_attr("shape"),
    stateful=True,
    role=roles.VARIABLE,
    holds_parameters=True,
)(variable)


def _legacy_shape(c: Any) -> list[Any]:
    # The older op could not tell a scalar from an unknown shape.
    dims = c.attrs["shape"].sizes
    return [dims or None]


op(
    "Variable" + _VARIABLE,
    shape=_legacy_shape,
    stateful=True,
    role=roles.VARIABLE,
    holds_parameters=True,
)(variable)


def assign_shape(c: Any) -> list[Any]:
    """The value's shape, which must be the variable's when that is validated."""
    if c.attrs["validate_shape"] and not compatible(c.shape(0), c.shape(1)):
        raise ValueError(
            f"the variable has shape {format_dims(c.shape(0))}, the value {format_dims(c.shape(1))}"
        )
    return [c.shape(1) if c.shape(1) is not None else c.shape(0)]


@op(
    """
Assign(ref: Ref T, value: T) -> output_ref: Ref T
T: type
validate_shape: bool = true
use_locking: bool = true
""",
    shape=assign_shape,
    allows_uninitialized_input=True,
    role=roles.ASSIGN,
)
def assign(ctx: KernelContext, ref: Any, value: Array, *, validate_shape: bool) -> Any:
    """Give the variable a value.

    Raises: InvalidArgumentError, with validate_shape, for a value that does not fit the present
    value's shape, or the declared one.
    """
    if validate_shape:
        wanted = np.shape(ref.read()) if ref.is_initialized() else ref.dims
        if not compatible(wanted, np.shape(value)):
            raise errors.InvalidArgumentError(
                f"variable {ref.name!r} has shape {format_dims(wanted)}; the value has shape "
                f"{format_dims(np.shape(value))}. validate_shape=False lets the shape change"
            )
    ref.assign(value)
    return ref


@op(
    """
RefIdentity(input: Ref T) -> output: Ref T
T: type
""",
    shape=same_as(),
    allows_uninitialized_input=True,
)
def ref_identity(ctx: KernelContext, input: Array) -> Any:
    """Give a reference on."""
    return input


def _same_of_all(c: Any) -> list[Any]:
    first, *rest = (c.shape(i) for i in range(1, 1 + c.attrs["N"]))
    return [first if all(shape == first for shape in rest) else None]


@op(
    """
RefSelect(index: int32, inputs: Ref N * T) -> output: Ref T
T: type
N: int >= 1
""",
    shape=_same_of_all,
)
def ref_select(ctx: KernelContext, index: Array, inputs: list[Any]) -> Any:
    """Give one of several references on.  Raises: InvalidArgumentError for an index without one.

    Source: tensorflow/core/kernels/control_flow_ops.cc
    """
    if np.ndim(index):
        raise errors.InvalidArgumentError(
            f"index must be a scalar; its shape is {format_dims(np.shape(index))}"
        )
    if not 0 <= index < len(inputs):
        raise errors.InvalidArgumentError(
            f"index must be in [0, {len(inputs)}), but found {int(index)}"
        )
    return inputs[int(index)]


@op(
    """
IsVariableInitialized(ref: Ref dtype) -> is_initialized: bool
dtype: type
""",
    shape=scalar,
    allows_uninitialized_input=True,
    any_device=True,
    only_reads=True,
)
def is_variable_initialized_op(ctx: KernelContext, ref: Any) -> Any:
    """Tell whether the variable has a value."""
    return np.bool_(ref.is_initialized())


@op(
    """
CountUpTo(ref: Ref T) -> output: T
limit: int
T: type in indices
""",
    shape=state_shapes.counter,
)
def count_up_to_op(ctx: KernelContext, ref: Any, *, limit: int) -> Any:
    """Add one to a counter and return what it was.  Raises: OutOfRangeError at the limit."""
    return count_up(ref, limit)


@op(
    """
TemporaryVariable() -> ref: Ref dtype
shape: shape
dtype: type
var_name: string = ''
""",
    shape=from_attr("shape"),
    stateful=True,
    role=roles.TEMPORARY_VARIABLE,
)
def temporary_variable(
    ctx: KernelContext, step: StepContext, *, shape: TensorShape, dtype: DType, var_name: str
) -> RefVariableState:
    """Return a new cell that lives as long as the step, filled with zeros.

    Raises: InvalidArgumentError for a shape that is not fully known; AlreadyExistsError for a
    second one of the name in a step.
    """
    if not shape.is_fully_defined():
        raise errors.InvalidArgumentError(f"a temporary variable needs a full shape, not {shape}")
    name = "temporary/" + (var_name or ctx.node.name)
    if name in step.objects:
        raise errors.AlreadyExistsError(f"the step has a temporary variable {name!r} already")
    state = RefVariableState(name, dtype, shape.sizes)
    state.assign(np.zeros([int(size or 0) for size in shape.as_list()], dtype.as_numpy_dtype))
    step.objects[name] = state
    return state


@op(
    """
DestroyTemporaryVariable(ref: Ref T) -> value: T
T: type
var_name: string
""",
    shape=same_as(0),
)
def destroy_temporary_variable(
    ctx: KernelContext, step: StepContext, ref: Any, *, var_name: str
) -> Any:
    """Return a temporary variable's value and drop the variable."""
    value = ref.read()
    if step.objects.pop("temporary/" + var_name, None) is None:
        raise errors.NotFoundError(f"the step has no temporary variable {var_name!r}")
    return value


not_differentiable(
    "VariableV2",
    "Variable",
    "Assign",
    "IsVariableInitialized",
    "CountUpTo",
    "TemporaryVariable",
    "DestroyTemporaryVariable",
)
