"""Ops about the process and its devices, rather than about tensors.

Source: tensorflow/core/kernels/{control_flow_ops,fact_op,host_constant_op}.cc,
core/ops/debug_ops.cc; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

import mmap
import os
import sys
from typing import Any

import numpy as np

from tideflow.formats import file_errors, open_file
from tideflow.graph import shapes
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import no_outputs, same_as, scalar
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import Array
from tideflow.wire import dtypes, errors
from tideflow.wire.device_name import DeviceSpec
from tideflow.wire.dtypes import DType


@op(
    """
    Abort()
    error_msg: string = ''
    exit_without_error: bool = false
    """,
    shape=no_outputs,
)
def abort(ctx: KernelContext, *, error_msg: str, exit_without_error: bool) -> None:
    """End the process: with status 0, or as by SIGABRT."""
    sys.stderr.write(f"Abort_op intentional failure; {error_msg}\n")
    sys.stderr.flush()
    if exit_without_error:
        os._exit(0)
    os.abort()


@op(
    """
    DeviceIndex() -> index: int32
    device_names: list(string)
    """,
    shape=scalar,
    stateful=True,
)
def device_index(ctx: KernelContext, *, device_names: list[str]) -> Any:
    """Return which of the kinds of devices this is; their number for none of them."""
    kind = DeviceSpec.from_string(ctx.device).device_type or "CPU"
    return np.int32(device_names.index(kind) if kind in device_names else len(device_names))


@op("SyncDevice()", shape=no_outputs, stateful=True)
def sync_device(ctx: KernelContext) -> None:
    """Return once the device has done what it was given: a CPU has."""


@op("CheckPinned(tensor: T) -> output: T\nT: type", shape=same_as(0))
def check_pinned(ctx: KernelContext, tensor: Array) -> Any:
    """Refuse a tensor: none of a CPU lies in memory that is pinned for another device."""
    raise errors.FailedPreconditionError("the tensor is not in pinned memory")


@op("Fact() -> fact: string", shape=scalar)
def fact(ctx: KernelContext) -> Any:
    """Return a fact about factorials."""
    return np.array(b"0! == 1", object)


@op(
    "FileSystemSetConfiguration(scheme: string, key: string, value: string)",
    shape=no_outputs,
    stateful=True,
)
def file_system_set_configuration(
    ctx: KernelContext, scheme: Array | bytes, key: Array | bytes, value: Array | bytes
) -> None:
    """Refuse to configure a file system: none here has anything to configure."""
    for what, given in (("scheme", scheme), ("key", key), ("value", value)):
        if np.ndim(given):
            raise errors.InvalidArgumentError(
                f"{what} must be a scalar, got shape {shapes.format_dims(np.shape(given))}"
            )
    raise errors.UnimplementedError(f"file systems have no options to set; asked for {key!r}")


@op(
    """
    ImmutableConst() -> tensor: dtype
    dtype: type
    shape: shape
    memory_region_name: string
    """,
    shape=lambda c: [c.attrs["shape"].sizes],
    blocks="files",
)
def immutable_const(
    ctx: KernelContext, *, dtype: DType, shape: TensorShape, memory_region_name: str
) -> Any:
    """Return a tensor that lies in a file.

    Raises: NotFoundError without the file; InternalError for a smaller one; UnimplementedError for
    types without bytes of their own.
    """
    if dtype in (dtypes.string, dtypes.resource, dtypes.variant):
        raise errors.UnimplementedError(f"a file holds no tensor of {dtype.name}")
    with file_errors("read", memory_region_name), open_file(memory_region_name) as file:
        sizes = shape.as_list()
        count, size = shape.num_elements() or 0, os.fstat(file.fileno()).st_size
        wanted = count * np.dtype(dtype.as_numpy_dtype).itemsize
        if size < wanted:
            raise errors.InternalError(
                f"a tensor of {wanted} bytes does not lie in {memory_region_name}, which has {size}"
            )
        if not count:
            return np.zeros(sizes, dtype.as_numpy_dtype)
        region = mmap.mmap(file.fileno(), wanted, access=mmap.ACCESS_READ)
    return np.frombuffer(region, dtype.as_numpy_dtype, count).reshape(sizes)


not_differentiable("CheckPinned", "Fact", "ImmutableConst")
