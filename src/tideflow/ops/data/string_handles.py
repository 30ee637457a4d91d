"""Handles of iterators as strings, which clients pass from one graph to another.

Source: tensorflow/core/kernels/data/{iterator,multi_device_iterator}_ops.cc.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array
from tideflow.ops.data.values import check_structure, dims_of, fail, text
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import ResourceHandle


class _Structured(Protocol):
    """An iterator of any kind."""

    type_name: ClassVar[str]
    types: tuple[DType, ...]
    shapes: tuple[Dims, ...]


def _handle_of(ctx: KernelContext, string_handle: Array | bytes) -> ResourceHandle:
    """Return the handle of this device that a string is.

    Raises: InvalidArgumentError for a string that is none.
    """
    if np.ndim(string_handle):
        raise fail("string_handle must be a scalar")
    given = string_handle if isinstance(string_handle, bytes) else np.asarray(string_handle).item()
    try:
        handle = ResourceHandle.from_proto(pb.ResourceHandleProto.FromString(given))
    except DecodeError:
        raise fail("Could not parse string_handle as a valid ResourceHandle") from None
    if handle.device != ctx.device:
        raise fail(
            f'Attempted create an iterator on device "{ctx.device}" from handle defined on device '
            f'"{handle.device}"'
        )
    return handle


def declare_string_handles(name: str, handle: str, kind: type[_Structured]) -> None:
    """Register the ops that make a string of a handle, and a handle of a string.

    Args:
      name: of the kind of iterator, as it stands in the names of its ops.
      handle: what the ops call the handle.
      kind: of the thing that it names.
    """

    def to_string(ctx: KernelContext, given: Any) -> Any:
        """Return a string that names the iterator."""
        ctx.resources.lookup(given, kind)
        found = given.item() if isinstance(given, np.ndarray) else given
        return text(found.to_proto().SerializeToString())

    def from_string(
        ctx: KernelContext,
        string_handle: Array | bytes,
        *,
        output_types: list[DType],
        output_shapes: list[TensorShape],
    ) -> Any:
        """Return the handle that a string names.

        Raises: InvalidArgumentError for a string that is no handle of this device, or an iterator
        of other types.
        """
        made = _handle_of(ctx, string_handle)
        found = ctx.resources.lookup(made, kind)
        if output_types:
            shapes = dims_of(output_shapes) or (None,) * len(output_types)
            check_structure(output_types, shapes, found.types, found.shapes)
        return made

    op(
        f"{name}ToStringHandle({handle}: resource) -> string_handle: string",
        shape=scalar,
        stateful=True,
    )(to_string)
    op(
        f"""
        {name}FromStringHandle(string_handle: string) -> {handle}: resource
        output_types: list(type) >= 0 = []
        output_shapes: list(shape) >= 0 = []
        """,
        shape=scalar,
        stateful=True,
    )(from_string)
