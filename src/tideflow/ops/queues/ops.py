"""The ops of queues: a handle for each queue, and what is done with it.

A queue without shared_name belongs to its node in one session and ends with it; with one it
belongs to its device, and all who ask for that name must declare the same queue.

Source: tensorflow/core/ops/data_flow_ops.cc; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, no_outputs, scalar
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.ops.queues.queues import PaddingFIFOQueue, PriorityQueue, Queue, RandomShuffleQueue
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType


def _handle(ctx: Any, container: str, shared_name: str, make: Callable[[str], Queue]) -> Any:
    """Return the handle of a node's queue, made on first use."""
    return ctx.memo(lambda: _open(ctx, container, shared_name, make))


def _open(ctx: Any, container: str, shared_name: str, make: Callable[[str], Queue]) -> Any:
    if not shared_name:
        handle = ctx.resources.anonymous_handle(Queue)
        ctx.resources.create(handle.container, handle.name, make(f"_0_{ctx.node.name}"))
        return handle
    wanted = make(shared_name)
    found = ctx.resources.lookup_or_create(container, shared_name, Queue, lambda: wanted)
    difference = found.difference(wanted)
    if difference is not None:
        raise errors.InvalidArgumentError(
            f"shared queue {shared_name!r} is there already and {difference}; declare it alike "
            "everywhere, or choose another shared_name"
        )
    return ctx.resources.handle(container, shared_name, Queue)


def _dims(shapes: list[TensorShape]) -> list[Dims]:
    return [shape.dims for shape in shapes]


@op(
    """
    FIFOQueueV2() -> handle: resource
    component_types: list(type) >= 1
    shapes: list(shape) >= 0 = []
    capacity: int = -1
    container: string = ''
    shared_name: string = ''
    """,
    shape=scalar,
    stateful=True,
)
def fifo_queue_v2(
    ctx: Any,
    *,
    component_types: list[DType],
    shapes: list[TensorShape],
    capacity: int,
    container: str,
    shared_name: str,
) -> Any:
    """Return the handle of a first-in, first-out queue."""
    return _handle(
        ctx,
        container,
        shared_name,
        lambda name: Queue(name, component_types, _dims(shapes), capacity),
    )


@op(
    """
    PaddingFIFOQueueV2() -> handle: resource
    component_types: list(type) >= 1
    shapes: list(shape) >= 0 = []
    capacity: int = -1
    container: string = ''
    shared_name: string = ''
    """,
    shape=scalar,
    stateful=True,
)
def padding_fifo_queue_v2(
    ctx: Any,
    *,
    component_types: list[DType],
    shapes: list[TensorShape],
    capacity: int,
    container: str,
    shared_name: str,
) -> Any:
    """Return the handle of a queue whose batches are padded."""
    if len(shapes) != len(component_types) or None in _dims(shapes):
        raise errors.InvalidArgumentError(
            "a PaddingFIFOQueue needs a shape of known rank for each component; "
            f"found {len(shapes)} shapes for {len(component_types)} components"
        )
    return _handle(
        ctx,
        container,
        shared_name,
        lambda name: PaddingFIFOQueue(name, component_types, _dims(shapes), capacity),
    )


@op(
    """
    RandomShuffleQueueV2() -> handle: resource
    component_types: list(type) >= 1
    shapes: list(shape) >= 0 = []
    capacity: int = -1
    min_after_dequeue: int = 0
    seed: int = 0
    seed2: int = 0
    container: string = ''
    shared_name: string = ''
    """,
    shape=scalar,
    stateful=True,
)
def random_shuffle_queue_v2(
    ctx: Any,
    *,
    component_types: list[DType],
    shapes: list[TensorShape],
    capacity: int,
    min_after_dequeue: int,
    seed: int,
    seed2: int,
    container: str,
    shared_name: str,
) -> Any:
    """Return the handle of a queue that mixes its elements."""
    if min_after_dequeue < 0 or 0 <= capacity <= min_after_dequeue:
        raise errors.InvalidArgumentError(
            f"min_after_dequeue is {min_after_dequeue}; it must be at least 0 and less than the "
            f"capacity, {capacity}"
        )
    seeds = (seed, seed2)
    return _handle(
        ctx,
        container,
        shared_name,
        lambda name: RandomShuffleQueue(
            name, component_types, _dims(shapes), capacity, min_after_dequeue, seeds
        ),
    )


@op(
    """
    PriorityQueueV2() -> handle: resource
    component_types: list(type) >= 0 = []
    shapes: list(shape) >= 0
    capacity: int = -1
    container: string = ''
    shared_name: string = ''
    """,
    shape=scalar,
    stateful=True,
)
def priority_queue_v2(
    ctx: Any,
    *,
    component_types: list[DType],
    shapes: list[TensorShape],
    capacity: int,
    container: str,
    shared_name: str,
) -> Any:
    """Return the handle of a queue ordered by its first component, an int64 scalar."""
    types = [dtypes.int64, *component_types]
    return _handle(
        ctx,
        container,
        shared_name,
        lambda name: PriorityQueue(name, types, [(), *_dims(shapes)], capacity),
    )


def _lookup(ctx: Any, handle: Any) -> Queue:
    # A handle that came out of a tensor of handles is still wrapped in an array.
    wanted = handle.item() if isinstance(handle, np.ndarray) else handle
    found: Queue = ctx.resources.lookup(wanted, Queue)
    return found


def _queue(ctx: Any, handle: Any, types: list[DType], timeout_ms: int = -1) -> Queue:
    """Return the queue of a handle, whose components must have the types that the op declares."""
    if timeout_ms != -1:
        raise errors.InvalidArgumentError(
            f"timeout_ms is {timeout_ms}; queues take none (-1). Set a timeout for the whole run"
        )
    found = _lookup(ctx, handle)
    if found.types != tuple(types):
        raise errors.InvalidArgumentError(
            f"the queue {found.name!r} holds components {_names(found.types)}; the operation "
            f"declares {_names(types)}"
        )
    return found


def _names(types: Any) -> str:
    return "(" + ", ".join(dtype.name for dtype in types) + ")"


@op(
    """
    QueueEnqueueV2(handle: resource, components: *Tcomponents)
    Tcomponents: list(type) >= 1
    timeout_ms: int = -1
    """,
    shape=no_outputs,
    stateful=True,
)
async def queue_enqueue_v2(
    ctx: Any, handle: Any, components: list[Any], *, Tcomponents: list[DType], timeout_ms: int
) -> None:
    """Put one element; waits for room."""
    await _queue(ctx, handle, Tcomponents, timeout_ms).put(tuple(components))


@op(
    """
    QueueEnqueueManyV2(handle: resource, components: *Tcomponents)
    Tcomponents: list(type) >= 1
    timeout_ms: int = -1
    """,
    shape=no_outputs,
    stateful=True,
)
async def queue_enqueue_many_v2(
    ctx: Any, handle: Any, components: list[Any], *, Tcomponents: list[DType], timeout_ms: int
) -> None:
    """Put each row of a batch; waits for room."""
    await _queue(ctx, handle, Tcomponents, timeout_ms).put_many(tuple(components))


_SHAPES_OF_QUEUE = frozenset(
    {"FIFOQueueV2", "PaddingFIFOQueueV2", "RandomShuffleQueueV2", "PriorityQueueV2"}
)


def _element_shapes(c: ShapeContext) -> list[Dims]:
    """Return the declared shapes of the queue's components where the graph shows the queue."""
    count = len(c.node.output_types)
    source, _ = c.node.edges[0]
    while source.op in ("Identity", "Enter") and source.edges:
        source, _ = source.edges[0]
    if source.op not in _SHAPES_OF_QUEUE:
        return [None] * count
    declared = _dims(source.attrs["shapes"])
    if source.op == "PriorityQueueV2":
        declared = [(), *declared]
    return declared if len(declared) == count else [None] * count


def _batch_shapes(c: ShapeContext) -> list[Dims]:
    count = c.value(1)
    size = None if count is None or c.node.op == "QueueDequeueUpToV2" else int(count)
    return [None if dims is None else (size, *dims) for dims in _element_shapes(c)]


@op(
    """
    QueueDequeueV2(handle: resource) -> components: *component_types
    component_types: list(type) >= 1
    timeout_ms: int = -1
    """,
    shape=_element_shapes,
    stateful=True,
)
async def queue_dequeue_v2(
    ctx: Any, handle: Any, *, component_types: list[DType], timeout_ms: int
) -> Any:
    """Take one element; waits for it."""
    return await _queue(ctx, handle, component_types, timeout_ms).take()


@op(
    """
    QueueDequeueManyV2(handle: resource, n: int32) -> components: *component_types
    component_types: list(type) >= 1
    timeout_ms: int = -1
    """,
    shape=_batch_shapes,
    stateful=True,
)
async def queue_dequeue_many_v2(
    ctx: Any, handle: Any, n: Any, *, component_types: list[DType], timeout_ms: int
) -> Any:
    """Take n elements as a batch; waits for all of them."""
    return await _queue(ctx, handle, component_types, timeout_ms).take_many(int(n))


@op(
    """
    QueueDequeueUpToV2(handle: resource, n: int32) -> components: *component_types
    component_types: list(type) >= 1
    timeout_ms: int = -1
    """,
    shape=_batch_shapes,
    stateful=True,
)
async def queue_dequeue_up_to_v2(
    ctx: Any, handle: Any, n: Any, *, component_types: list[DType], timeout_ms: int
) -> Any:
    """Take n elements as a batch, or what is left once the queue is closed."""
    return await _queue(ctx, handle, component_types, timeout_ms).take_many(int(n), up_to=True)


@op(
    """
    QueueCloseV2(handle: resource)
    cancel_pending_enqueues: bool = false
    """,
    shape=no_outputs,
    stateful=True,
)
async def queue_close_v2(ctx: Any, handle: Any, *, cancel_pending_enqueues: bool) -> None:
    """Close a queue."""
    await _lookup(ctx, handle).close(cancel_pending_enqueues)


@op("QueueSizeV2(handle: resource) -> size: int32", shape=scalar, stateful=True)
async def queue_size_v2(ctx: Any, handle: Any) -> Any:
    """Return how many elements a queue holds."""
    return np.int32(len(_lookup(ctx, handle)))


@op("QueueIsClosedV2(handle: resource) -> is_closed: bool", shape=scalar, stateful=True)
async def queue_is_closed_v2(ctx: Any, handle: Any) -> Any:
    """Return whether a queue is closed."""
    return np.bool_(_lookup(ctx, handle).closed)


not_differentiable(
    "FIFOQueueV2",
    "PaddingFIFOQueueV2",
    "RandomShuffleQueueV2",
    "PriorityQueueV2",
    "QueueEnqueueV2",
    "QueueEnqueueManyV2",
    "QueueDequeueV2",
    "QueueDequeueManyV2",
    "QueueDequeueUpToV2",
    "QueueCloseV2",
    "QueueSizeV2",
    "QueueIsClosedV2",
)
