"""The ops of queues by reference, an older form of handle (see declare_by_reference)."""

from __future__ import annotations

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.ops.node_resources import declare_by_reference
from tideflow.ops.queues import ops  # noqa: F401 - defines the ops that take resources

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

for _name in _MAKERS:
    declare_by_reference(_name, f"{_name}V2", makes=True)
for _name in _USERS:
    declare_by_reference(_name, f"{_name}V2")
not_differentiable(*_MAKERS, *_USERS)
