"""The TensorArray ops.  They work on stores that live as long as their step.

Source: tensorflow/core/ops/data_flow_ops.cc (shapes), core/kernels/tensor_array_ops.cc.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.kernel import KernelContext, StepContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, no_outputs, scalar, with_rank
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array
from tideflow.ops.tensor_arrays import traced
from tideflow.ops.tensor_arrays.step_objects import close, find, keep
from tideflow.ops.tensor_arrays.store import TensorArrayStore
from tideflow.wire import errors
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import ResourceHandle

_numbers = itertools.count()
_FLOW = np.float32(0.0)


def _store(step: object, handle: ResourceHandle, dtype: DType) -> TensorArrayStore:
    found = find(step, handle, TensorArrayStore)
    if found.dtype is not dtype:
        raise errors.InvalidArgumentError(
            f"TensorArray {found.name!r} holds {found.dtype.name}; the op is for {dtype.name}"
        )
    return found


def _indices(indices: Array) -> list[int]:
    if np.ndim(indices) != 1:
        raise errors.InvalidArgumentError(
            f"indices must be a vector; their shape is {shapes.format_dims(np.shape(indices))}"
        )
    found: list[int] = np.asarray(indices).tolist()
    return found


def _scalar_inputs(c: ShapeContext, *names: str) -> None:
    for name in names:
        with_rank(c.shape(name), 0, name)


def _made_shape(c: ShapeContext) -> list[Dims]:
    _scalar_inputs(c, "size")
    return [(), ()]


@op(
    """
    TensorArrayV3(size: int32) -> handle: resource, flow: float
    dtype: type
    element_shape: shape = unknown
    dynamic_size: bool = false
    clear_after_read: bool = true
    identical_element_shapes: bool = false
    tensor_array_name: string = ''
    """,
    shape=_made_shape,
    stateful=True,
    traced=traced.new_array,
    any_device=True,
)
def tensor_array(
    ctx: KernelContext,
    step: StepContext,
    size: Array,
    *,
    dtype: DType,
    element_shape: TensorShape,
    dynamic_size: bool,
    clear_after_read: bool,
    identical_element_shapes: bool,
    tensor_array_name: str,
) -> Any:
    """Make an array for this step."""
    if np.ndim(size) or size < 0:
        raise errors.InvalidArgumentError(f"the size must be a scalar of at least 0, not {size!r}")
    name = f"{tensor_array_name or ctx.node.name}_{next(_numbers)}"
    store = TensorArrayStore(
        name,
        dtype,
        int(size),
        element_shape.sizes,
        dynamic_size=dynamic_size,
        clear_after_read=clear_after_read,
        identical_element_shapes=identical_element_shapes,
    )
    return keep(ctx, step, name, store), _FLOW


def _gradient_handle(
    ctx: KernelContext,
    step: StepContext,
    handle: ResourceHandle,
    source: str,
    prepend: tuple[int, ...],
) -> ResourceHandle:
    forward = find(step, handle, TensorArrayStore)
    name = f"{handle.name}@{source}"
    with forward.lock:
        if name not in step.objects:
            return keep(ctx, step, name, forward.for_gradient(name, prepend))
    return ResourceHandle(handle.device, handle.container, name, 0, handle.maybe_type_name)


@op(
    """
    TensorArrayGradV3(handle: resource, flow_in: float) -> grad_handle: resource, flow_out: float
    source: string
    """,
    shape=scalar,
    stateful=True,
    traced=traced.gradient_array,
    any_device=True,
)
def tensor_array_grad(
    ctx: KernelContext, step: StepContext, handle: ResourceHandle, flow_in: Array, *, source: str
) -> Any:
    """Return the array for the gradients of another: one for each source."""
    return _gradient_handle(ctx, step, handle, source, ()), flow_in


@op(
    """
    TensorArrayGradWithShape(handle: resource, flow_in: float, shape_to_prepend: int32)
    -> grad_handle: resource, flow_out: float
    source: string
    """,
    shape=scalar,
    stateful=True,
    any_device=True,
)
def tensor_array_grad_with_shape(
    ctx: KernelContext,
    step: StepContext,
    handle: ResourceHandle,
    flow_in: Array,
    prepend: Array,
    *,
    source: str,
) -> Any:
    """Return the array for gradients whose elements have further sizes in front."""
    return _gradient_handle(ctx, step, handle, source, tuple(_indices(prepend))), flow_in


def _read_shape(c: ShapeContext) -> list[Dims]:
    _scalar_inputs(c, "index", "flow_in")
    return [None]


@op(
    """
    TensorArrayReadV3(handle: resource, index: int32, flow_in: float) -> value: dtype
    dtype: type
    """,
    shape=_read_shape,
    stateful=True,
    traced=traced.read,
    any_device=True,
)
def tensor_array_read(
    ctx: KernelContext,
    step: StepContext,
    handle: ResourceHandle,
    index: Array,
    flow_in: Array,
    *,
    dtype: DType,
) -> Any:
    """Return one element."""
    return _store(step, handle, dtype).read(int(index))


def _write_shape(c: ShapeContext) -> list[Dims]:
    _scalar_inputs(c, "index", "flow_in")
    return [()]


@op(
    """
    TensorArrayWriteV3(handle: resource, index: int32, value: T, flow_in: float) -> flow_out: float
    T: type
    """,
    shape=_write_shape,
    stateful=True,
    traced=traced.write,
    any_device=True,
)
def tensor_array_write(
    ctx: KernelContext,
    step: StepContext,
    handle: ResourceHandle,
    index: Array,
    value: Array,
    flow_in: Array,
    *,
    T: DType,
) -> Any:
    """Set one element."""
    _store(step, handle, T).write(int(index), value)
    return flow_in


def _gather_shape(c: ShapeContext) -> list[Dims]:
    count = with_rank(c.shape("indices"), 1, "indices")[0]
    _scalar_inputs(c, "flow_in")
    element = c.attrs["element_shape"].sizes
    return [None if element is None else (count, *element)]


@op(
    """
    TensorArrayGatherV3(handle: resource, indices: int32, flow_in: float) -> value: dtype
    dtype: type
    element_shape: shape = unknown
    """,
    shape=_gather_shape,
    stateful=True,
    traced=traced.array_gather,
    any_device=True,
)
def tensor_array_gather(
    ctx: KernelContext,
    step: StepContext,
    handle: ResourceHandle,
    indices: Array,
    flow_in: Array,
    *,
    dtype: DType,
    element_shape: TensorShape,
) -> Any:
    """Return elements stacked along a new first axis."""
    return _store(step, handle, dtype).gather(_indices(indices), element_shape.sizes)


def _scatter_shape(c: ShapeContext) -> list[Dims]:
    count = with_rank(c.shape("indices"), 1, "indices")[0]
    value = c.shape("value")
    if value is not None and not (value and shapes.compatible((count,), value[:1])):
        raise ValueError(f"{count} indices for a value of shape {shapes.format_dims(value)}")
    return [()]


@op(
    """
    TensorArrayScatterV3(handle: resource, indices: int32, value: T, flow_in: float)
    -> flow_out: float
    T: type
    """,
    shape=_scatter_shape,
    stateful=True,
    traced=traced.array_scatter,
    any_device=True,
)
def tensor_array_scatter(
    ctx: KernelContext,
    step: StepContext,
    handle: ResourceHandle,
    indices: Array,
    value: Array,
    flow_in: Array,
    *,
    T: DType,
) -> Any:
    """Set elements to the rows of a value."""
    _store(step, handle, T).scatter(_indices(indices), value)
    return flow_in


def _concat_shape(c: ShapeContext) -> list[Dims]:
    tail = c.attrs["element_shape_except0"].sizes
    return [None if tail is None else (None, *tail), (None,)]


@op(
    """
    TensorArrayConcatV3(handle: resource, flow_in: float) -> value: dtype, lengths: int64
    dtype: type
    element_shape_except0: shape = unknown
    """,
    shape=_concat_shape,
    stateful=True,
    any_device=True,
)
def tensor_array_concat(
    ctx: KernelContext,
    step: StepContext,
    handle: ResourceHandle,
    flow_in: Array,
    *,
    dtype: DType,
    element_shape_except0: TensorShape,
) -> Any:
    """Return all elements joined along their first axis, and how long each is."""
    return _store(step, handle, dtype).concat(element_shape_except0.sizes)


def _split_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.shape("lengths"), 1, "lengths")
    _scalar_inputs(c, "flow_in")
    return [()]


@op(
    """
    TensorArraySplitV3(handle: resource, value: T, lengths: int64, flow_in: float)
    -> flow_out: float
    T: type
    """,
    shape=_split_shape,
    stateful=True,
    any_device=True,
)
def tensor_array_split(
    ctx: KernelContext,
    step: StepContext,
    handle: ResourceHandle,
    value: Array,
    lengths: Array,
    flow_in: Array,
    *,
    T: DType,
) -> Any:
    """Set the elements to parts of a value."""
    _store(step, handle, T).split(value, _indices(lengths))
    return flow_in


@op(
    "TensorArraySizeV3(handle: resource, flow_in: float) -> size: int32",
    shape=scalar,
    stateful=True,
    traced=traced.array_size,
    any_device=True,
)
def tensor_array_size(
    ctx: KernelContext, step: StepContext, handle: ResourceHandle, flow_in: Array
) -> Any:
    """Return how many elements there are."""
    return np.int32(len(find(step, handle, TensorArrayStore)))


@op(
    "TensorArrayCloseV3(handle: resource)",
    shape=no_outputs,
    stateful=True,
    traced=traced.closed,
    any_device=True,
)
def tensor_array_close(ctx: KernelContext, step: StepContext, handle: ResourceHandle) -> None:
    """Drop an array before its step ends."""
    close(step, handle, TensorArrayStore)
