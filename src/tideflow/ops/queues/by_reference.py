"""The ops of queues by reference, an older form of handle (see declare_by_reference)."""

from __future__ import annotations

from typing import Any

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.ops.node_resources import HandleRef, declare_by_reference
from tideflow.ops.queues import ops  # noqa: F401 - defines the ops that take resources
from tideflow.wire.handles import ResourceHandle

_MAKERS = ("FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "RandomShuffleQueue")
_USERS = (
    "QueueEnqueue",
    "QueueEnqueueMany",
    "QueueDequeue",
    "QueueDequeueMany",
    "QueueDequeueUpTo",
    "QueueClose",
    "QueueIsClosed",
    "QueueSize",
)


@op("FakeQueue(resource: resource) -> handle: Ref string", shape=lambda c: [(2,)], stateful=True)
def fake_queue(ctx: KernelContext, resource: ResourceHandle) -> Any:
    """Return the reference to the queue of a handle."""
    return HandleRef(resource)


for _name in _MAKERS:
    declare_by_reference(_name, f"{_name}V2", makes=True)
for _name in _USERS:
    declare_by_reference(_name, f"{_name}V2")
not_differentiable("FakeQueue", *_MAKERS, *_USERS)
