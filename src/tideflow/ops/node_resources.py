"""Resources that nodes make, such as queues, tables and iterators, and their handles.

One without a name belongs to its node in one session and ends with it; one with a name belongs to
its device, and is shared by all that ask for the name.

Source: tensorflow/core/framework/resource_op_kernel.h.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from tideflow.graph.kernel import KernelContext
from tideflow.wire.errors import InvalidArgumentError
from tideflow.wire.handles import ResourceHandle

T = TypeVar("T")

_CONTAINER = re.compile(r"([A-Za-z0-9.][A-Za-z0-9.\-/]*)?")


def check_names(container: str, shared_name: str) -> None:
    """Raise InvalidArgumentError for names that TensorFlow refuses."""
    if not _CONTAINER.fullmatch(container):
        raise InvalidArgumentError(f"container contains invalid characters: {container!r}")
    if shared_name.startswith("_"):
        raise InvalidArgumentError(f"shared_name cannot start with '_': {shared_name!r}")


def add_anonymous(ctx: KernelContext, kind: type[T], thing: T) -> ResourceHandle:
    """Keep a thing of the node's device for as long as the handle returned is held."""
    handle: ResourceHandle = ctx.resources.anonymous_handle(kind)
    ctx.resources.create(handle.container, handle.name, thing)
    return handle


def open_resource(
    ctx: KernelContext,
    kind: type[T],
    make: Callable[[], T],
    container: str,
    shared_name: str,
    check: Callable[[T], None] = lambda found: None,
) -> ResourceHandle:
    """Return the handle of a node's resource, which is made where it is not there.

    Args:
      kind: under which it is kept.
      shared_name: empty for one that belongs to the node.
      check: raises for a shared one that is not what the node declares.
    """
    if not shared_name:
        return add_anonymous(ctx, kind, make())
    check(ctx.resources.lookup_or_create(container, shared_name, kind, make))
    handle: ResourceHandle = ctx.resources.handle(container, shared_name, kind)
    return handle
