"""Resource variables: handles, reading, assigning, gathering (v2 variables of the v1 API)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import roles
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Effects, OnValue, Rows
from tideflow.graph.shape_rules import no_outputs, scalar
from tideflow.graph.shapes import TensorShape, format_dims
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.graph.update_rule import Update, check_rows_inside
from tideflow.ops.array import gather_v2_grad, gather_v2_kernel, sparse_rows_grad
from tideflow.ops.framework import IndexedSlices
from tideflow.ops.state import shapes as state_shapes
from tideflow.ops.state.cells import (
    ANONYMOUS_NAME,
    ResourceVariableState,
    VariableState,
    as_numpy,
    read_handle,
    uninitialized,
    wrong_dtype,
)
from tideflow.ops.state.updates import declare_update
from tideflow.wire import errors
from tideflow.wire.dtypes import DType


@op(
    """
VarHandleOp() -> resource: resource
container: string = ''
shared_name: string = ''
debug_name: string = ''
dtype: type
shape: shape
allowed_devices: list(string) = []
""",
    shape=scalar,
    stateful=True,
    role=roles.VARIABLE_HANDLE,
    effects=Effects.UNSEEN,
    holds_parameters=True,
)
def var_handle_op(
    ctx: KernelContext, *, container: str, shared_name: str, dtype: DType, shape: TensorShape
) -> Any:
    """Return the handle of a variable that may not be there yet.

    Source: tensorflow/core/kernels/resource_variable_ops.cc
    """
    facts = {"dtypes_and_shapes": ((dtype, shape.sizes),)}
    if shared_name == ANONYMOUS_NAME:
        return ctx.resources.anonymous_handle(ResourceVariableState, **facts)
    # One handle for each node: lookups then compare identical strings.
    return ctx.memo(
        lambda: ctx.resources.handle(container, shared_name, ResourceVariableState, **facts)
    )


@op(
    """
_VarHandlesOp() -> resources: N * resource
containers: list(string)
shared_names: list(string)
N: int >= 0
dtypes: list(type)
shapes: list(shape)
""",
    shape=scalar,
    stateful=True,
    any_device=True,
)
def var_handles_op(
    ctx: KernelContext,
    *,
    containers: list[str],
    shared_names: list[str],
    dtypes: list[DType],
    shapes: list[TensorShape],
) -> Any:
    """Return the handles of several variables."""
    rows = zip(containers, shared_names, dtypes, shapes)
    return [
        ctx.resources.handle(
            container, name, ResourceVariableState, dtypes_and_shapes=((dtype, shape.sizes),)
        )
        for container, name, dtype, shape in rows
    ]


@op(
    """
ReadVariableOp(resource: resource) -> value: dtype
dtype: type
""",
    shape=state_shapes.read,
    stateful=True,
    role=roles.READ_VARIABLE,
    only_reads=True,
    on_value=OnValue("Identity", {"T": "dtype"}),
)
def read_variable_op(ctx: KernelContext, resource: object, *, dtype: DType) -> Any:
    """Return the variable's value, which later updates leave alone."""
    return read_handle(ctx, resource, dtype)


@gradient("ReadVariableOp")
def read_variable_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Pass the gradient on to the handle."""
    return [grad]


@op(
    """
_ReadVariablesOp(resources: N * resource) -> values: *dtypes
N: int >= 0
dtypes: list(type) >= 1
""",
    stateful=True,
    any_device=True,
)
def read_variables_op(ctx: KernelContext, resources: list[Any], *, dtypes: list[DType]) -> Any:
    """Return the values of several variables."""
    return [read_handle(ctx, handle, dtype) for handle, dtype in zip(resources, dtypes)]


@op(
    """
AssignVariableOp(resource: resource, value: dtype)
dtype: type
validate_shape: bool = false
""",
    shape=state_shapes.assigned,
    stateful=True,
    role=roles.ASSIGN,
)
def assign_variable_op(
    ctx: KernelContext, resource: object, value: Array, *, dtype: DType, validate_shape: bool
) -> None:
    """Give the variable a value, making the variable first if it is not there.

    Raises: InvalidArgumentError for another element type; with validate_shape, for another shape
    than the present value's.
    """
    try:
        state = ctx.resources.lookup(resource, ResourceVariableState)
    except errors.NotFoundError:
        state = _make(ctx, resource, dtype)
    if state.dtype is not dtype:
        raise wrong_dtype(state, dtype)
    if validate_shape and state.is_initialized():
        found, wanted = np.shape(value), np.shape(state.read())
        if found != wanted:
            raise errors.InvalidArgumentError(
                f"variable {state.name!r} has shape {format_dims(wanted)}; the value has shape "
                f"{format_dims(found)}"
            )
    state.assign(value)


def _make(ctx: KernelContext, handle: Any, dtype: DType) -> ResourceVariableState:
    facts = handle.dtypes_and_shapes
    dims = facts[0][1] if facts else None
    return ctx.resources.lookup_or_create(
        handle.container,
        handle.name,
        ResourceVariableState,
        lambda: ResourceVariableState(handle.name, dtype, dims, handle.container),
    )


@op(
    """
VarIsInitializedOp(resource: resource) -> is_initialized: bool
""",
    shape=scalar,
    stateful=True,
    any_device=True,
    only_reads=True,
)
def var_is_initialized_op(ctx: KernelContext, resource: Any) -> Any:
    """Tell whether the variable is there and has a value."""
    state = ctx.resources.find(resource.container, resource.name, ResourceVariableState)
    return np.bool_(state is not None and state.is_initialized())


@op(
    """
VariableShape(input: resource) -> output: out_type
out_type: type in indices = int32
""",
    shape=state_shapes.rank_of_variable,
    stateful=True,
    role=roles.VARIABLE_SHAPE,
    only_reads=True,
)
def variable_shape(ctx: KernelContext, input: object, *, out_type: DType) -> Any:
    """Return the shape of the variable's present value."""
    value = ctx.resources.lookup(input, ResourceVariableState).read()
    return np.array(np.shape(value), out_type.as_numpy_dtype)


@op(
    """
DestroyResourceOp(resource: resource)
ignore_lookup_error: bool = true
""",
    shape=no_outputs,
    stateful=True,
    any_device=True,
)
def destroy_resource_op(ctx: KernelContext, resource: object, *, ignore_lookup_error: bool) -> None:
    """Drop what a handle names, of whatever kind."""
    try:
        ctx.resources.delete(resource, object)
    except errors.NotFoundError:
        if not ignore_lookup_error:
            raise


@op(
    """
DisableCopyOnRead(resource: resource)
""",
    shape=no_outputs,
    stateful=True,
    any_device=True,
)
def disable_copy_on_read(ctx: KernelContext, resource: Any) -> None:
    """Check that the variable is there.  Nothing is copied on read here in any case."""
    if ctx.resources.find(resource.container, resource.name, ResourceVariableState) is None:
        raise uninitialized(resource.name, resource.container)


@op(
    """
ResourceCountUpTo(resource: resource) -> output: T
limit: int
T: type in indices
""",
    shape=state_shapes.counter,
    stateful=True,
)
def resource_count_up_to(ctx: KernelContext, resource: object, *, limit: int, T: DType) -> Any:
    """Add one to a counter and return what it was.

    Raises: OutOfRangeError at the limit; InvalidArgumentError for a value that is no scalar.
    """
    state = ctx.resources.lookup(resource, ResourceVariableState)
    if state.dtype is not T:
        raise wrong_dtype(state, T)
    return count_up(state, limit)


def count_up(state: VariableState, limit: int) -> Any:
    """Add one to the counter in a cell and return what it was."""
    with state.lock:
        value = state.value
        if value is None:
            raise uninitialized(state.name, state.container)
        value = as_numpy(value)
        if value.shape:
            raise errors.InvalidArgumentError(
                f"counter {state.name!r} must be a scalar; its shape is {format_dims(value.shape)}"
            )
        if value >= limit:
            raise errors.OutOfRangeError(f"counter {state.name!r} reached its limit {limit}")
        state.value = np.add(value, 1, dtype=value.dtype)
        return value


def _rows(xp: ArrayNamespace, value: Array, indices: Array, attrs: dict[str, Any]) -> Any:
    """Return a value's rows, for a compiler."""
    batch = attrs["batch_dims"]
    axis = np.asarray(batch + indices.ndim if batch < 0 else batch)
    return gather_v2_kernel(xp, value, indices, axis, batch_dims=batch)


@op(
    """
ResourceGather(resource: resource, indices: Tindices) -> output: dtype
batch_dims: int = 0
validate_indices: bool = true
dtype: type
Tindices: type in indices
""",
    shape=state_shapes.gathered,
    stateful=True,
    rows=Rows.GATHERED,
    only_reads=True,
    gather=_rows,
    on_value=OnValue(
        "GatherV2",
        {"Tparams": "dtype", "Tindices": "Tindices", "batch_dims": "batch_dims"},
        axis_from="batch_dims",
    ),
)
def resource_gather(
    ctx: KernelContext, resource: object, indices: Array, *, batch_dims: int, dtype: DType
) -> Any:
    """Return the variable's rows that indices name.

    Raises: InvalidArgumentError for an index outside; NotFoundError without the variable.
    """
    value = as_numpy(_read_existing(ctx, resource, dtype))
    indices = as_numpy(indices)
    if not value.shape:
        raise errors.InvalidArgumentError("ResourceGather: the variable is a scalar")
    batch = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    check_rows_inside("ResourceGather", indices, value.shape[batch])
    return gather_rows(np, value, indices, batch_dims=batch)


@gradient("ResourceGather")
def resource_gather_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Give the rows' gradients with their indices."""
    handle, indices = op.inputs
    batch = op.attrs["batch_dims"]
    if not batch:
        sizes = apply_op("VariableShape", handle)
        return [sparse_rows_grad(grad, indices, sizes), None]
    # As of a plain gather of the value; the gather itself is never run.
    value = apply_op("ReadVariableOp", handle, dtype=op.attrs["dtype"])
    plain = apply_op("GatherV2", value, indices, batch, batch_dims=batch)
    return [gather_v2_grad(plain.op, grad)[0], None]


def gather_rows(xp: ArrayNamespace, value: Array, indices: Array, *, batch_dims: int = 0) -> Any:
    """Return value's rows that indices name, pure: for a compiler that reads the variable.

    Shapes: value [b..., n, d...]; indices [b..., k...]; result [b..., k..., d...].
    """
    if not batch_dims:
        return xp.take(value, indices, axis=0)
    batch = value.shape[:batch_dims]
    grid = xp.indices(batch, sparse=True)
    extra = indices.ndim - batch_dims
    return value[(*[g.reshape(g.shape + (1,) * extra) for g in grid], indices)]


def _read_existing(ctx: KernelContext, handle: object, dtype: DType) -> Any:
    state = ctx.resources.lookup(handle, ResourceVariableState)
    if state.dtype is not dtype:
        raise wrong_dtype(state, dtype)
    return state.read()


def _gather_slices(xp: ArrayNamespace, value: Array, indices: Array) -> Any:
    """Return value's slices that index tuples name, pure: for a compiler that reads the variable.

    Shapes: value [s...]; indices [k..., depth]; result [k..., s[depth:]...].
    """
    depth = indices.shape[-1]
    if not depth:
        return xp.broadcast_to(value, indices.shape[:-1] + value.shape)
    return value[tuple(indices[..., axis] for axis in range(depth))]


@op(
    """
ResourceGatherNd(resource: resource, indices: Tindices) -> output: dtype
dtype: type
Tindices: type in indices
""",
    shape=state_shapes.gathered_nd,
    stateful=True,
    only_reads=True,
    gather=lambda xp, value, indices, attrs: _gather_slices(xp, value, indices),
    on_value=OnValue("GatherNd", {"Tparams": "dtype", "Tindices": "Tindices"}),
)
def resource_gather_nd(
    ctx: KernelContext, resource: object, indices: Array, *, dtype: DType
) -> Any:
    """Return the variable's slices that index tuples name.

    Raises: InvalidArgumentError for an index outside; NotFoundError without the variable.
    """
    value = as_numpy(_read_existing(ctx, resource, dtype))
    indices = as_numpy(indices)
    depth = indices.shape[-1]
    if depth > value.ndim:
        raise errors.InvalidArgumentError(
            f"ResourceGatherNd: indices address {depth} dimensions; the variable has {value.ndim}"
        )
    if not value.size and indices.size:
        raise errors.InvalidArgumentError(
            f"ResourceGatherNd: the variable of shape {list(value.shape)} is empty"
        )
    for axis in range(depth):
        check_rows_inside("ResourceGatherNd", indices[..., axis], value.shape[axis])
    return _gather_slices(np, value, indices)


@gradient("ResourceGatherNd")
def resource_gather_nd_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Give the slices' gradients with their indices, or add them up where these are tuples."""
    handle, indices = op.inputs
    sizes = apply_op("VariableShape", handle, out_type=indices.dtype.base_dtype)
    if indices.dims is not None and len(indices.dims) == 2 and indices.dims[-1] == 1:
        rows = apply_op("Squeeze", indices, squeeze_dims=[-1])
        return [IndexedSlices(grad, rows, sizes), None]
    return [apply_op("ScatterNd", indices, grad, sizes), None]


def assign_add(xp: ArrayNamespace, old: Array, value: Array) -> Any:
    """Add to a variable."""
    return (xp.add(old, value),)


def assign_sub(xp: ArrayNamespace, old: Array, value: Array) -> Any:
    """Subtract from a variable."""
    return (xp.subtract(old, value),)


for _name, _rule in (("Add", assign_add), ("Sub", assign_sub)):
    declare_update(
        f"Assign{_name}VariableOp(resource: resource, value: dtype)\ndtype: type",
        _rule,
        Update(f"Assign{_name}VariableOp", 1, is_ref=False, rule=_rule, full=(0,)),
        state_shapes.combined,
    )
    declare_update(
        f"Assign{_name}(ref: Ref T, value: T) -> output_ref: Ref T\n"
        "T: type in numbers\nuse_locking: bool = false",
        _rule,
        Update(f"Assign{_name}", 1, is_ref=True, rule=_rule, full=(0,)),
        state_shapes.combined,
    )

not_differentiable(
    "VarHandleOp",
    "VarIsInitializedOp",
    "VariableShape",
    "AssignVariableOp",
    "AssignAddVariableOp",
    "AssignSubVariableOp",
    "ResourceCountUpTo",
    "DestroyResourceOp",
    "DisableCopyOnRead",
    "AssignAdd",
    "AssignSub",
)
