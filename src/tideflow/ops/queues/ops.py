"""The ops of queues: a handle for each queue, and what is done with it.

A queue without shared_name belongs to its node in one session and ends with it; with one it
belongs to its device, and all who ask for that name must declare the same queue.

Source: tensorflow/core/ops/data_flow_ops.cc; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from tideflow.graph import roles
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op, with_attrs
from tideflow.graph.shape_rules import ShapeContext, no_outputs, scalar
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array
from tideflow.ops.node_resources import open_resource
from tideflow.ops.queues.queues import PaddingFIFOQueue, PriorityQueue, Queue, RandomShuffleQueue
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType


def _dims(shapes: list[TensorShape]) -> list[Dims]:
    return [shape.sizes for shape in shapes]


# What each queue op has, besides the types and shapes of its components.
_QUEUE_ATTRS = """
    capacity: int = -1
    container: string = ''
    shared_name: string = ''
"""
_COMPONENT_ATTRS = """
    component_types: list(type) >= 1
    shapes: list(shape) >= 0 = []
"""

M = TypeVar("M", bound=Callable[..., Queue])


def _declared_shapes(attrs: Mapping[str, Any]) -> list[Dims]:
    return _dims(attrs["shapes"])


def _queue_op(
    name: str,
    attrs: str = _COMPONENT_ATTRS,
    held_shapes: Callable[[Mapping[str, Any]], list[Dims]] = _declared_shapes,
) -> Callable[[M], M]:
    """Register the op of a kind of queue; the decorated function makes one.

    The function takes the queue's name, and those attrs by which queues of one shared name must be
    alike; `shapes` as Dims.
    held_shapes: gives the shapes of an element's components, from the op's attrs.
    """

    def register(make: M) -> M:
        def kernel(ctx: KernelContext, *, container: str, shared_name: str, **declared: Any) -> Any:
            declared["shapes"] = _dims(declared["shapes"])

            def made() -> Queue:
                return make(shared_name or f"_0_{ctx.node.name}", **declared)

            def check(found: Queue) -> None:
                difference = found.difference(made())
                if difference is not None:
                    raise errors.InvalidArgumentError(
                        f"shared queue {shared_name!r} is there already and {difference}; declare "
                        "it alike everywhere, or choose another shared_name"
                    )

            return ctx.memo(lambda: open_resource(ctx, Queue, made, container, shared_name, check))

        taken = [*list(inspect.signature(make).parameters)[1:], "container", "shared_name"]
        signature = f"{name}() -> handle: resource{attrs}{_QUEUE_ATTRS}"
        register_op = op(signature, shape=scalar, stateful=True, held_shapes=held_shapes)
        register_op(with_attrs(kernel, taken, first="ctx"))
        return make

    return register


@_queue_op("FIFOQueueV2")
def _fifo_queue(
    name: str, component_types: list[DType], shapes: list[Dims], capacity: int
) -> Queue:
    """Return a first-in, first-out queue."""
    return Queue(name, component_types, shapes, capacity)


@_queue_op("PaddingFIFOQueueV2")
def _padding_fifo_queue(
    name: str, component_types: list[DType], shapes: list[Dims], capacity: int
) -> Queue:
    """Return a queue whose batches are padded."""
    if len(shapes) != len(component_types) or None in shapes:
        raise errors.InvalidArgumentError(
            "a PaddingFIFOQueue needs a shape of known rank for each component; "
            f"found {len(shapes)} shapes for {len(component_types)} components"
        )
    return PaddingFIFOQueue(name, component_types, shapes, capacity)


@_queue_op(
    "RandomShuffleQueueV2",
    _COMPONENT_ATTRS
    + """
    min_after_dequeue: int = 0
    seed: int = 0
    seed2: int = 0
    """,
)
def _random_shuffle_queue(
    name: str,
    component_types: list[DType],
    shapes: list[Dims],
    capacity: int,
    min_after_dequeue: int,
    seed: int,
    seed2: int,
) -> Queue:
    """Return a queue that mixes its elements."""
    if min_after_dequeue < 0 or 0 <= capacity <= min_after_dequeue:
        raise errors.InvalidArgumentError(
            f"min_after_dequeue is {min_after_dequeue}; it must be at least 0 and less than the "
            f"capacity, {capacity}"
        )
    return RandomShuffleQueue(
        name, component_types, shapes, capacity, min_after_dequeue, (seed, seed2)
    )


@_queue_op(
    "PriorityQueueV2",
    """
    component_types: list(type) >= 0 = []
    shapes: list(shape) >= 0
    """,
    held_shapes=lambda attrs: [(), *_declared_shapes(attrs)],
)
def _priority_queue(
    name: str, component_types: list[DType], shapes: list[Dims], capacity: int
) -> Queue:
    """Return a queue ordered by its first component, an int64 scalar."""
    return PriorityQueue(name, [dtypes.int64, *component_types], [(), *shapes], capacity)


def _lookup(ctx: KernelContext, handle: object) -> Queue:
    found: Queue = ctx.resources.lookup(handle, Queue)
    return found


def _queue(ctx: KernelContext, handle: object, types: list[DType], timeout_ms: int = -1) -> Queue:
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
    ctx: KernelContext,
    handle: object,
    components: list[Any],
    *,
    Tcomponents: list[DType],
    timeout_ms: int,
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
    ctx: KernelContext,
    handle: object,
    components: list[Any],
    *,
    Tcomponents: list[DType],
    timeout_ms: int,
) -> None:
    """Put each row of a batch; waits for room."""
    await _queue(ctx, handle, Tcomponents, timeout_ms).put_many(tuple(components))


def _element_shapes(c: ShapeContext) -> list[Dims]:
    """Return the declared shapes of the queue's components where the graph shows the queue."""
    count = len(c.node.output_types)
    source, _ = c.node.edges[0]
    while source.op_def.role in (roles.IDENTITY, roles.ENTER) and source.edges:
        source, _ = source.edges[0]
    shapes_of = source.op_def.held_shapes
    if shapes_of is None:
        return [None] * count
    declared: list[Dims] = shapes_of(source.attrs)
    return declared if len(declared) == count else [None] * count


def _batches(c: ShapeContext, size: int | None) -> list[Dims]:
    return [None if dims is None else (size, *dims) for dims in _element_shapes(c)]


def _full_batch_shapes(c: ShapeContext) -> list[Dims]:
    count = c.value(1)
    return _batches(c, None if count is None else int(count))


def _any_batch_shapes(c: ShapeContext) -> list[Dims]:
    return _batches(c, None)


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
    ctx: KernelContext, handle: object, *, component_types: list[DType], timeout_ms: int
) -> Any:
    """Take one element; waits for it."""
    return await _queue(ctx, handle, component_types, timeout_ms).take()


@op(
    """
    QueueDequeueManyV2(handle: resource, n: int32) -> components: *component_types
    component_types: list(type) >= 1
    timeout_ms: int = -1
    """,
    shape=_full_batch_shapes,
    stateful=True,
)
async def queue_dequeue_many_v2(
    ctx: KernelContext, handle: object, n: Array, *, component_types: list[DType], timeout_ms: int
) -> Any:
    """Take n elements as a batch; waits for all of them."""
    return await _queue(ctx, handle, component_types, timeout_ms).take_many(int(n))


@op(
    """
    QueueDequeueUpToV2(handle: resource, n: int32) -> components: *component_types
    component_types: list(type) >= 1
    timeout_ms: int = -1
    """,
    shape=_any_batch_shapes,
    stateful=True,
)
async def queue_dequeue_up_to_v2(
    ctx: KernelContext, handle: object, n: Array, *, component_types: list[DType], timeout_ms: int
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
async def queue_close_v2(
    ctx: KernelContext, handle: object, *, cancel_pending_enqueues: bool
) -> None:
    """Close a queue."""
    await _lookup(ctx, handle).close(cancel_pending_enqueues)


@op("QueueSizeV2(handle: resource) -> size: int32", shape=scalar, stateful=True)
async def queue_size_v2(ctx: KernelContext, handle: object) -> Any:
    """Return how many elements a queue holds."""
    return np.int32(len(_lookup(ctx, handle)))


@op("QueueIsClosedV2(handle: resource) -> is_closed: bool", shape=scalar, stateful=True)
async def queue_is_closed_v2(ctx: KernelContext, handle: object) -> Any:
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
