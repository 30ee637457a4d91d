"""Barriers: tuples by keys whose components come one by one, taken when they are complete.

A handle is a reference to a vector of two strings, the container and the name: at run time a cell
that holds the barrier.  It belongs to the event loop; nothing here is locked.

Source: runtime behaviour of TensorFlow 2.21; tensorflow/core/kernels/barrier_ops.cc.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tideflow.blocking import KERNELS, run_sized, work_on_alike
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, no_outputs, scalar
from tideflow.graph.shapes import Dims, TensorShape, format_dims
from tideflow.graph.types import Array
from tideflow.ops.framework import check_scalar
from tideflow.ops.node_resources import check_names
from tideflow.ops.queues.changes import Changing
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

_FIRST_INDEX = -(2**63)  # TensorFlow numbers insertions from here

# A complete tuple: its index, its place among those of one index, its key, and its components.
_Tuple: TypeAlias = "tuple[int, int, bytes, list[Any]]"


class Barrier(Changing):
    """Tuples by keys, complete ones in the order in which their keys came."""

    def __init__(self, name: str, types: tuple[DType, ...], shapes: tuple[Dims, ...]) -> None:
        super().__init__()
        self.name = name
        self.types = types
        self.shapes = shapes
        self._number = _FIRST_INDEX  # of the next call that brings new keys
        self._entered = itertools.count()
        self._incomplete: dict[bytes, tuple[int, list[Any]]] = {}
        self._ready: list[_Tuple] = []
        self._is_closed = False
        self._is_cancelled = False

    @property
    def ready_size(self) -> int:
        """How many complete tuples there are."""
        return len(self._ready)

    @property
    def incomplete_size(self) -> int:
        """How many tuples lack components."""
        return len(self._incomplete)

    def insert(self, keys: list[bytes], component: int, values: Array) -> None:
        """Give a component to the tuples of keys; new ones are started.

        Raises: InvalidArgumentError for one that is there; CancelledError for a new key of a closed
        barrier.
        """
        brings_new = False
        for key, value in zip(keys, values, strict=True):
            if self._is_cancelled or (self._is_closed and key not in self._incomplete):
                raise errors.CancelledError(
                    f"Barrier {self.name!r} is closed, but attempted to insert a brand new key: "
                    f"{key!r}. Pending inserts cancelled: {self._is_cancelled}."
                )
            brings_new |= key not in self._incomplete
            entry = self._number, [None] * len(self.types)
            at, parts = self._incomplete.setdefault(key, entry)
            if parts[component] is not None:
                raise errors.InvalidArgumentError(
                    f"Key {key!r} already has a value for component {component} in barrier "
                    f"{self.name!r}"
                )
            parts[component] = value
            if all(part is not None for part in parts):
                del self._incomplete[key]
                heapq.heappush(self._ready, (at, next(self._entered), key, parts))
        self._number += brings_new
        self._changed()

    async def take(self, count: int, allow_small_batch: bool) -> tuple[Any, Any, list[Any]]:
        """Take complete tuples: indices, keys and components; waits for them.

        allow_small_batch: fewer are taken from a barrier that is closed.
        Raises: OutOfRangeError for a closed one with too few.
        """
        await self._until(lambda: len(self._ready) >= count or self._no_more())
        if len(self._ready) < count and not (allow_small_batch and self._ready):
            raise errors.OutOfRangeError(
                f"Barrier {self.name!r} is closed and has insufficient elements (requested "
                f"{count}, total size {len(self._ready)})"
            )
        taken = [heapq.heappop(self._ready) for _ in range(min(count, len(self._ready)))]
        self._changed()
        work = work_on_alike([taken[0][3]] if taken else [], len(taken))
        try:
            return await run_sized(KERNELS, work, lambda: self._batch(taken))
        except asyncio.CancelledError:  # who is cancelled has taken nothing
            for one in taken:
                heapq.heappush(self._ready, one)
            self._changed()
            raise

    def _batch(self, taken: Sequence[_Tuple]) -> tuple[Any, Any, list[Any]]:
        keys = np.empty(len(taken), object)
        keys[:] = [key for _, _, key, _ in taken]
        columns = [
            _stacked([parts[i] for *_, parts in taken], dtype, dims)
            for i, (dtype, dims) in enumerate(zip(self.types, self.shapes, strict=True))
        ]
        return np.array([at for at, *_ in taken], np.int64), keys, columns

    def _no_more(self) -> bool:
        return self._is_closed and (self._is_cancelled or not self._incomplete)

    def close(self, cancel_pending: bool) -> None:
        """Take no new keys; with cancel_pending no components either.

        Raises: CancelledError for one that is closed already.
        """
        if self._is_closed and (self._is_cancelled or not cancel_pending):
            raise errors.CancelledError(f"Barrier {self.name!r} is already closed")
        self._is_closed = True
        if cancel_pending:
            self._is_cancelled = True
            self._incomplete.clear()
        self._changed()


def _stacked(values: list[Any], dtype: DType, dims: Dims) -> Any:
    sizes = [size or 0 for size in dims or ()]
    made = np.empty((len(values), *sizes), dtype.as_numpy_dtype)
    for at, value in enumerate(values):
        made[at] = value
    return made


class BarrierRef:
    """What a reference to a barrier is at run time."""

    __slots__ = ("barrier", "container")

    def __init__(self, barrier: Barrier, container: str) -> None:
        self.barrier = barrier
        self.container = container

    def read(self) -> Any:
        """Return the container and the name."""
        return np.array([self.container.encode(), self.barrier.name.encode()], object)


def _pair(c: ShapeContext) -> list[Dims]:
    return [(2,)]


@op(
    """
    Barrier() -> handle: Ref string
    component_types: list(type) >= 1
    shapes: list(shape) >= 0 = []
    capacity: int = -1
    container: string = ''
    shared_name: string = ''
    """,
    shape=_pair,
    stateful=True,
)
def barrier(
    ctx: KernelContext,
    *,
    component_types: list[DType],
    shapes: list[TensorShape],
    capacity: int,
    container: str,
    shared_name: str,
) -> Any:
    """Return a reference to a barrier, made if it is not there."""
    dims = tuple(shape.sizes for shape in shapes)
    if capacity != -1:
        raise errors.InvalidArgumentError(
            f"Barrier only accepts capacity=-1. Feed the inputs to your Barrier through a queue to "
            f"enforce a limited capacity; found {capacity}"
        )
    if len(dims) != len(component_types) or any(one is None or None in one for one in dims):
        raise errors.InvalidArgumentError(
            "All barriers must specify a shape of known sizes for each component; found "
            f"{[format_dims(one) for one in dims]}"
        )
    check_names(container, shared_name)

    def found() -> Barrier:
        name = shared_name or f"_0_{ctx.node.name}"
        make = Barrier(name, tuple(component_types), dims)
        if not shared_name:
            return make
        return ctx.resources.lookup_or_create(container, name, Barrier, lambda: make)

    one = ctx.memo(found)
    if one.types != tuple(component_types) or one.shapes != dims:
        raise errors.InvalidArgumentError(
            f"Shared barrier {shared_name!r} has other component types or shapes"
        )
    return BarrierRef(one, container)


@op(
    """
    BarrierInsertMany(handle: Ref string, keys: string, values: T)
    T: type
    component_index: int
    """,
    shape=no_outputs,
)
async def barrier_insert_many(
    ctx: KernelContext,
    handle: BarrierRef,
    keys: Array,
    values: Array,
    *,
    T: DType,
    component_index: int,
) -> None:
    """Give a component to the tuples of keys."""
    into = handle.barrier
    if not 0 <= component_index < len(into.types):
        raise errors.InvalidArgumentError(
            f"The component index {component_index} is out of range of {len(into.types)} components"
        )
    if into.types[component_index] is not T:
        raise errors.InvalidArgumentError(
            f"component {component_index} of barrier {into.name!r} is of "
            f"{into.types[component_index].name}; {T.name} was given"
        )
    shape = into.shapes[component_index]
    given = np.shape(values)
    if not given or given[1:] != shape or given[0] != np.size(keys):
        raise errors.InvalidArgumentError(
            f"Shape mismatch for values of component {component_index}: expected "
            f"{[np.size(keys), *(shape or ())]}, got {list(given)}"
        )
    into.insert(np.asarray(keys, object).reshape(-1).tolist(), component_index, values)


def _taken_shapes(c: ShapeContext) -> list[Dims]:
    return [(None,), (None,), *[None] * (len(c.node.output_types) - 2)]


@op(
    """
    BarrierTakeMany(handle: Ref string, num_elements: int32)
        -> indices: int64, keys: string, values: *component_types
    component_types: list(type) >= 1
    allow_small_batch: bool = false
    wait_for_incomplete: bool = false
    timeout_ms: int = -1
    """,
    shape=_taken_shapes,
)
async def barrier_take_many(
    ctx: KernelContext,
    handle: BarrierRef,
    num_elements: Array,
    *,
    component_types: list[DType],
    allow_small_batch: bool,
    timeout_ms: int,
) -> Any:
    """Take complete tuples; waits for them."""
    if timeout_ms != -1:
        raise errors.InvalidArgumentError("Timeout not supported yet.")
    check_scalar(num_elements, "num_elements")
    count = int(np.asarray(num_elements).item())
    if count < 0:
        raise errors.InvalidArgumentError(f"num_elements must not be negative; found {count}")
    if handle.barrier.types != tuple(component_types):
        raise errors.InvalidArgumentError(
            f"barrier {handle.barrier.name!r} has other components than "
            f"{[dtype.name for dtype in component_types]}"
        )
    return await handle.barrier.take(count, allow_small_batch)


@op(
    """
    BarrierClose(handle: Ref string)
    cancel_pending_enqueues: bool = false
    """,
    shape=no_outputs,
)
async def barrier_close(
    ctx: KernelContext, handle: BarrierRef, *, cancel_pending_enqueues: bool
) -> None:
    """Take no new keys."""
    handle.barrier.close(cancel_pending_enqueues)


@op("BarrierReadySize(handle: Ref string) -> size: int32", shape=scalar)
async def barrier_ready_size(ctx: KernelContext, handle: BarrierRef) -> Any:
    """Return how many complete tuples there are."""
    return np.int32(handle.barrier.ready_size)


@op("BarrierIncompleteSize(handle: Ref string) -> size: int32", shape=scalar)
async def barrier_incomplete_size(ctx: KernelContext, handle: BarrierRef) -> Any:
    """Return how many tuples lack components."""
    return np.int32(handle.barrier.incomplete_size)


not_differentiable(
    "Barrier",
    "BarrierInsertMany",
    "BarrierTakeMany",
    "BarrierClose",
    "BarrierReadySize",
    "BarrierIncompleteSize",
)
