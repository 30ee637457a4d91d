"""Things that a step makes and that go with it: stacks and tensor arrays.

They are kept in the step's `objects`, by the name in their handle.
"""

from __future__ import annotations

from typing import Any, TypeVar

from tideflow.graph.kernel import KernelContext, StepContext
from tideflow.wire import errors
from tideflow.wire.handles import ResourceHandle

T = TypeVar("T")


def keep(ctx: KernelContext, step: StepContext, name: str, thing: object) -> ResourceHandle:
    """Enter a thing and return its handle."""
    step.objects[name] = thing
    return ResourceHandle(
        device=ctx.device,
        container=f"_step_{step.step_id}",
        name=name,
        maybe_type_name=type(thing).__name__,
    )


class _Closed:
    """What stays of a thing that was closed."""


def find(step: Any, handle: ResourceHandle, kind: type[T]) -> T:
    """Return what a handle names.

    Raises: NotFoundError where it is not there; InvalidArgumentError where it was closed or is
    something else.
    """
    found = step.objects.get(handle.name)
    if isinstance(found, kind):
        return found
    if found is None:
        raise errors.NotFoundError(
            f"{kind.__name__} {handle.name!r} is not there; it belongs to another step or task"
        )
    if isinstance(found, _Closed):
        raise errors.InvalidArgumentError(
            f"{kind.__name__} {handle.name!r} has already been closed; close it after its last use"
        )
    raise errors.InvalidArgumentError(
        f"handle {handle.name!r} names a {type(found).__name__}; a {kind.__name__} is wanted"
    )


def close(step: Any, handle: ResourceHandle, kind: type[Any]) -> None:
    """Drop a thing before its step ends; nothing happens where it was dropped.

    Raises: as find().
    """
    if not isinstance(step.objects.get(handle.name), _Closed):
        find(step, handle, kind)
        step.objects[handle.name] = _Closed()
