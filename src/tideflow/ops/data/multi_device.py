"""Iterators whose elements several devices take in turn.

Element i goes to shard i modulo the number of shards; what a shard has not taken yet waits.

Source: tensorflow/core/kernels/data/multi_device_iterator_ops.cc.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import no_outputs, scalar
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array
from tideflow.ops.data.functions import enter_scope
from tideflow.ops.data.iterators import Deleter, end_of_sequence
from tideflow.ops.data.string_handles import declare_string_handles
from tideflow.ops.data.values import (
    Element,
    Iterator,
    as_dataset,
    check_structure,
    component_shapes,
    dims_of,
    fail,
)
from tideflow.ops.node_resources import add_anonymous
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import ResourceHandle


class MultiDeviceIterator:
    """An iterator that shares out its elements.

    Attributes:
      types, shapes: what every dataset that it is made over must give.
      incarnation: counts how often it was started; each time it begins anew.
    """

    type_name: ClassVar[str] = "tensorflow::data::MultiDeviceIterator"

    def __init__(self, shards: int, types: Sequence[DType], shapes: Sequence[Dims]) -> None:
        self.incarnation = 0
        self.types = tuple(types)
        self.shapes = tuple(shapes)
        self._waiting: list[deque[Element]] = [deque() for _ in range(shards)]
        self._source: Iterator | None = None
        self._scope: dict[Any, Any] = {}
        self._given = 0
        self._most = 1
        self._turn = asyncio.Lock()
        self._moved: asyncio.Future[None] | None = None

    def start(self, dataset: object, most: int) -> int:
        """Begin a dataset; return the new incarnation.

        most: how many elements may wait for one shard; any number of them if it is negative.
        """
        source = as_dataset(dataset)
        check_structure(self.types, self.shapes, source.types, source.shapes)
        self._source, self._scope = source.iterator(), {}
        self._waiting = [deque() for _ in self._waiting]
        self._given = 0
        self._most = max(1, most) if most >= 0 else sys.maxsize
        self.incarnation += 1
        return self.incarnation

    async def next(self, shard: int, incarnation: int) -> Element | None:
        """Return a shard's next element, None after the last.

        Raises: InvalidArgumentError for an incarnation or a shard that is not there.
        """
        if self._source is None or incarnation != self.incarnation:
            raise fail(
                f"Invalid incarnation id. Provided: {incarnation}; Expected: {self.incarnation}"
            )
        if not 0 <= shard < len(self._waiting):
            raise fail(f"shard_num is {shard}; there are {len(self._waiting)} shards")
        mine = self._waiting[shard]
        while not mine:
            async with self._turn:
                if mine:
                    break
                other = self._waiting[self._given % len(self._waiting)]
                if other is mine or len(other) < self._most:
                    enter_scope(self._scope)
                    element = await self._source.next()
                    if element is None:
                        return None
                    other.append(element)
                    self._given += 1
                    self._wake()
                    continue
            # Another shard must take an element first.
            if self._moved is None or self._moved.done():
                self._moved = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._moved])
        self._wake()
        return mine.popleft()

    def _wake(self) -> None:
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)


def _find(ctx: KernelContext, handle: object) -> MultiDeviceIterator:
    found: MultiDeviceIterator = ctx.resources.lookup(handle, MultiDeviceIterator)
    return found


def _anonymous(
    ctx: KernelContext, devices: list[str], types: list[DType], shapes: list[TensorShape]
) -> ResourceHandle:
    made = MultiDeviceIterator(len(devices), types, dims_of(shapes))
    return add_anonymous(ctx, MultiDeviceIterator, made)


@op(
    """
    MultiDeviceIterator() -> handle: resource
    devices: list(string) >= 1
    shared_name: string
    container: string
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar,
    stateful=True,
)
def multi_device_iterator(
    ctx: KernelContext,
    *,
    devices: list[str],
    shared_name: str,
    container: str,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the handle of an iterator that shares out its elements between devices."""
    if not shared_name:
        return ctx.memo(lambda: _anonymous(ctx, devices, output_types, output_shapes))
    ctx.resources.lookup_or_create(
        container,
        shared_name,
        MultiDeviceIterator,
        lambda: MultiDeviceIterator(len(devices), output_types, dims_of(output_shapes)),
    )
    return ctx.resources.handle(container, shared_name, MultiDeviceIterator)


@op(
    """
    AnonymousMultiDeviceIteratorV3() -> handle: resource
    devices: list(string) >= 1
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar,
    stateful=True,
)
def anonymous_multi_device_iterator_v3(
    ctx: KernelContext,
    *,
    devices: list[str],
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the handle of an iterator that goes when the handle goes."""
    return _anonymous(ctx, devices, output_types, output_shapes)


@op(
    """
    AnonymousMultiDeviceIterator() -> handle: resource, deleter: variant
    devices: list(string) >= 1
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar,
    stateful=True,
)
def anonymous_multi_device_iterator(
    ctx: KernelContext,
    *,
    devices: list[str],
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the handle of an iterator, and what deletes it."""
    handle = _anonymous(ctx, devices, output_types, output_shapes)
    return handle, Deleter(handle)


@op(
    """
    DeleteMultiDeviceIterator(
        multi_device_iterator: resource, iterators: N * resource, deleter: variant
    )
    N: int >= 0
    """,
    shape=no_outputs,
    stateful=True,
)
def delete_multi_device_iterator(
    ctx: KernelContext, multi_device_iterator: object, iterators: list[Any], deleter: object
) -> None:
    """Drop an iterator."""
    ctx.resources.delete(multi_device_iterator, MultiDeviceIterator)


@op(
    """
    MultiDeviceIteratorInit(
        dataset: variant, multi_device_iterator: resource, max_buffer_size: int64
    ) -> incarnation_id: int64
    """,
    shape=scalar,
    stateful=True,
)
def multi_device_iterator_init(
    ctx: KernelContext, dataset: object, multi_device_iterator: object, max_buffer_size: Array
) -> Any:
    """Begin a dataset; return what its readers must name."""
    return np.int64(_find(ctx, multi_device_iterator).start(dataset, int(max_buffer_size)))


@op(
    """
    MultiDeviceIteratorGetNextFromShard(
        multi_device_iterator: resource, shard_num: int32, incarnation_id: int64
    ) -> components: *output_types
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=component_shapes,
    stateful=True,
)
async def multi_device_iterator_get_next_from_shard(
    ctx: KernelContext,
    multi_device_iterator: object,
    shard_num: Array,
    incarnation_id: Array,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return a shard's next element.  Raises: OutOfRangeError after the last."""
    found = _find(ctx, multi_device_iterator)
    element = await found.next(int(shard_num), int(incarnation_id))
    if element is None:
        raise end_of_sequence()
    return element


declare_string_handles("MultiDeviceIterator", "multi_device_iterator", MultiDeviceIterator)
