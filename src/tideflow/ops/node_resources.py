"""Resources that nodes make, such as queues, tables and iterators, and their handles.

One without a name belongs to its node in one session and ends with it; one with a name belongs to
its device, and is shared by all that ask for the name.

Source: tensorflow/core/framework/resource_op_kernel.h.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import declare_adapted
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError
from tideflow.wire.handles import ResourceHandle

T = TypeVar("T")

_CONTAINER = re.compile(r"([A-Za-z0-9.][A-Za-z0-9.\-/]*)?")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make a resource elsewhere as it is now: by one op, and by another that fills it.

    Attributes:
      attrs, fill_attrs: of the two ops; the first has a `shared_name`, too, which is made up unless
        it is given.
      values: what the second op is given after the handle, with the element types.
    """

    op: str
    attrs: Mapping[str, Any]
    fill_op: str
    fill_attrs: Mapping[str, Any]
    values: Sequence[tuple[Any, DType]]


@runtime_checkable
class Movable(Protocol):
    """A resource that can be made elsewhere."""

    def recipe(self) -> Recipe | None:
        """Return how; None where it cannot be after all."""


def check_names(container: str, shared_name: str) -> None:
    """Raise InvalidArgumentError for names that TensorFlow refuses."""
    if not _CONTAINER.fullmatch(container):
        raise InvalidArgumentError(f"container contains invalid characters: {container!r}")
    if shared_name.startswith("_"):
        raise InvalidArgumentError(f"shared_name cannot start with '_': {shared_name!r}")


def add_anonymous(ctx: KernelContext, kind: type[T], thing: T, **facts: Any) -> ResourceHandle:
    """Keep a thing of the node's device for as long as the handle returned is held.

    facts: further fields of the handle.
    """
    handle: ResourceHandle = ctx.resources.anonymous_handle(kind, **facts)
    ctx.resources.create(handle.container, handle.name, thing)
    return handle


def open_resource(
    ctx: KernelContext,
    kind: type[T],
    make: Callable[[], T],
    container: str,
    shared_name: str,
    check: Callable[[T], None] = lambda found: None,
    **facts: Any,
) -> ResourceHandle:
    """Return the handle of a node's resource, which is made where it is not there.

    Args:
      kind: under which it is kept.
      shared_name: empty for one that belongs to the node.
      check: raises for a shared one that is not what the node declares.
      facts: further fields of the handle.
    Raises: InvalidArgumentError for a container's name that TensorFlow refuses.
    """
    check_names(container, "")
    if not shared_name:
        return add_anonymous(ctx, kind, make(), **facts)
    check(ctx.resources.lookup_or_create(container, shared_name, kind, make))
    handle: ResourceHandle = ctx.resources.handle(container, shared_name, kind, **facts)
    return handle


# ---- by reference


class HandleRef:
    """What a reference to a resource is at run time: an older form of handle, two strings."""

    __slots__ = ("handle",)

    def __init__(self, handle: ResourceHandle) -> None:
        self.handle = handle

    def read(self) -> Any:
        """Return the container and the name."""
        return np.array([self.handle.container.encode(), self.handle.name.encode()], object)


def declare_by_reference(name: str, base: str, *, makes: bool = False) -> None:
    """Register the op that takes references where another takes resources, or makes one.

    makes: whether the op gives the reference.
    """
    if makes:
        declare_adapted(name, base, _by_reference, _giving, shape_rule=_pair, held_shapes=None)
    else:
        declare_adapted(name, base, _by_reference, _taking, is_stateful=False)


def _by_reference(signature: str) -> str:
    return signature.replace(": resource", ": Ref string")


def _pair(c: ShapeContext) -> list[Dims]:
    return [(2,)]


def _giving(kernel: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(kernel):

        @functools.wraps(kernel)
        async def waiting(ctx: KernelContext, *inputs: Any, **attrs: Any) -> Any:
            return HandleRef(await kernel(ctx, *inputs, **attrs))

        return waiting

    @functools.wraps(kernel)
    def made(ctx: KernelContext, *inputs: Any, **attrs: Any) -> Any:
        return HandleRef(kernel(ctx, *inputs, **attrs))

    return made


def _taking(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def handles(inputs: tuple[Any, ...]) -> list[Any]:
        return [one.handle if isinstance(one, HandleRef) else one for one in inputs]

    if inspect.iscoroutinefunction(kernel):

        @functools.wraps(kernel)
        async def waiting(ctx: KernelContext, *inputs: Any, **attrs: Any) -> Any:
            return await kernel(ctx, *handles(inputs), **attrs)

        return waiting

    @functools.wraps(kernel)
    def called(ctx: KernelContext, *inputs: Any, **attrs: Any) -> Any:
        return kernel(ctx, *handles(inputs), **attrs)

    return called
