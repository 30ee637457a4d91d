"""Tensors that a session keeps between its steps, under names that travel as strings.

A handle reads "node;number;device": the node that kept the tensor, a number of its own in the
session, and the device on which the tensor is.

Source: tensorflow/core/kernels/session_ops.cc; behaviour of TensorFlow 2.21, whose remote sessions
keep none.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, scalar, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike
from tideflow.ops.export import export
from tideflow.ops.framework import check_scalar, placeholder
from tideflow.wire import dtypes, errors
from tideflow.wire.device_name import canonical
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.handles import ResourceHandle

# In which container a resource handle names a kept tensor.
CONTAINER = "TensorHandle"
_KEEPING = frozenset({"GetSessionHandle", "GetSessionHandleV2"})


class SessionTensors:
    """The tensors that one session keeps on one task, by handle; any thread may call it."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Any, DType]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def keep(self, node: str, device: str, value: Any, dtype: DType) -> str:
        """Keep a value; return its handle."""
        if isinstance(value, np.ndarray) and value.base is not None:
            value = np.array(value)  # the owner of what a view shows may change it
        with self._lock:
            handle = f"{node};{next(self._numbers)};{device}"
            self._kept[handle] = value, dtype
        return handle

    def get(self, handle: str) -> tuple[Any, DType]:
        """Return a value and its type.  Raises: InvalidArgumentError for one that is not kept."""
        found = self._kept.get(handle)
        if found is None:
            raise not_kept(handle)
        return found

    def delete(self, handle: str) -> None:
        """Keep a value no more.  Raises: InvalidArgumentError for one that is not kept."""
        with self._lock:
            if self._kept.pop(handle, None) is None:
                raise errors.InvalidArgumentError(
                    f"Failed to delete a tensor with handle '{handle}' in the session store."
                )

    def clear(self) -> None:
        """Keep nothing more."""
        with self._lock:
            self._kept.clear()


def not_kept(handle: str) -> errors.OpError:
    """Return the error for a handle whose tensor a session does not keep."""
    return errors.InvalidArgumentError(
        f"The tensor with handle '{handle}' is not in the session store."
    )


def _tensors(ctx: KernelContext) -> SessionTensors:
    found: SessionTensors | None = ctx.session_tensors
    if found is None:
        raise errors.FailedPreconditionError(
            f"{ctx.node.op} called on null session state: tensors are kept by sessions alone"
        )
    return found


def _name(handle: Any) -> str:
    check_scalar(handle, "handle")
    found: bytes = np.asarray(handle, object).item()
    return found.decode(errors="replace")


def _keep(ctx: KernelContext, value: Any) -> str:
    return _tensors(ctx).keep(ctx.node.name, ctx.device, value, ctx.node.attrs["T"])


def _from_handle(c: ShapeContext) -> list[Dims]:
    with_rank(c.inputs[0], 0, "handle")
    return [None]


def _from_handle_nothing(c: ShapeContext) -> list[Dims]:
    with_rank(c.inputs[0], 0, "handle")
    return []


@op(
    """
    GetSessionHandle(value: T) -> handle: string
    T: type
    """,
    shape=scalar,
    stateful=True,
    any_device=True,
    host_inputs=0,
)
def get_session_handle_kernel(ctx: KernelContext, value: Array) -> Any:
    """Keep a tensor in the session; return its handle."""
    return _keep(ctx, value).encode()


@op(
    """
    GetSessionHandleV2(value: T) -> handle: resource
    T: type
    """,
    shape=scalar,
    stateful=True,
    any_device=True,
    host_inputs=0,
)
def get_session_handle_v2_kernel(ctx: KernelContext, value: Array) -> Any:
    """Keep a tensor in the session; return its handle as the name of a resource."""
    return ResourceHandle(
        device=ctx.device, container=CONTAINER, name=_keep(ctx, value), maybe_type_name=CONTAINER
    )


@op(
    """
    GetSessionTensor(handle: string) -> value: dtype
    dtype: type
    """,
    shape=_from_handle,
    stateful=True,
    any_device=True,
)
def get_session_tensor_kernel(ctx: KernelContext, handle: Array, *, dtype: DType) -> Any:
    """Return a tensor that the session keeps.

    Raises: InvalidArgumentError for one that it does not; InternalError for one of another type.
    """
    value, found = _tensors(ctx).get(_name(handle))
    if found.base_dtype is not dtype.base_dtype:
        raise errors.InternalError(
            f"Output 0 of type {found.name} does not match declared output type {dtype.name} for "
            f"node {ctx.node.name!r}"
        )
    return value


@op(
    "DeleteSessionTensor(handle: string)",
    shape=_from_handle_nothing,
    stateful=True,
    any_device=True,
)
def delete_session_tensor_kernel(ctx: KernelContext, handle: Array) -> None:
    """Let the session forget a tensor that it keeps.  Raises: InvalidArgumentError."""
    _tensors(ctx).delete(_name(handle))


not_differentiable(
    "GetSessionHandle", "GetSessionHandleV2", "GetSessionTensor", "DeleteSessionTensor"
)

# ---- public functions


def device_of_handle(handle: str | bytes) -> str:
    """Return the device that a handle names.  Raises: ValueError where it names none."""
    text = handle.decode() if isinstance(handle, bytes) else str(handle)
    device = text.split(";")[-1]
    try:
        return canonical(device)
    except errors.InvalidArgumentError:
        raise ValueError(
            f"Unknown attribute {device!r} is encountered while parsing the device spec: the "
            f"handle {text!r} must end in the name of a device"
        ) from None


@export("get_session_handle")
def get_session_handle(data: Tensor, name: str | None = None) -> Tensor:
    """Return a string tensor: running it keeps data in the session, and gives a TensorHandle.

    Raises: TypeError for anything but a tensor.
    """
    if not isinstance(data, Tensor):
        raise TypeError(f"`data` must be of type Tensor; found {type(data).__name__}")
    with get_default_graph().colocate_with(data.op):
        made: Tensor = apply_op("GetSessionHandle", data, name=name)
        return made


@export("get_session_tensor")
def get_session_tensor(
    handle: str | bytes, dtype: DTypeLike, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return a placeholder that is fed a handle, and the tensor that the session keeps under it.

    Args:
      handle: one of those that will be fed; it says on which device the placeholder is.
    Raises: ValueError for a handle without a device.
    """
    with get_default_graph().device(device_of_handle(handle)):
        holder = placeholder(dtypes.string)
        found: Tensor = apply_op("GetSessionTensor", holder, dtype=as_dtype(dtype), name=name)
        return holder, found


@export("delete_session_tensor")
def delete_session_tensor(handle: str | bytes, name: str | None = None) -> tuple[Tensor, Operation]:
    """Return a placeholder that is fed a handle, and the operation that forgets its tensor.

    Args:
      handle: one of those that will be fed; it says on which device both are.
    Raises: ValueError for a handle without a device.
    """
    with get_default_graph().device(device_of_handle(handle)):
        holder = placeholder(dtypes.string)
        deleter: Operation = apply_op("DeleteSessionTensor", holder, name=name)
        return holder, deleter


def kept_type(tensor: Tensor) -> DType | None:
    """Return the type of what a tensor is the handle of, None for one that is no handle."""
    return tensor.op.inputs[0].dtype if tensor.op.type in _KEEPING else None


def read_type(tensor: Tensor) -> DType | None:
    """Return the type of what is read by the handle that a tensor is fed, None for others."""
    if not tensor.op.device:
        return None
    for consumer in tensor.consumers():
        if consumer.type == "GetSessionTensor":
            found: DType = consumer.attrs["dtype"]
            return found
    return None
