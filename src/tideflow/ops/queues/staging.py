"""Staging areas: tuples of tensors that are put in one step and taken in another.

A StagingArea gives tuples in the order in which they came; a MapStagingArea by keys, and takes
their components one by one if need be.  Both belong to the event loop; nothing here is locked.

Source: runtime behaviour of TensorFlow 2.21; tensorflow/core/kernels/stage_op.cc, map_stage_op.cc.
"""

from __future__ import annotations

import abc
import itertools
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.ops.queues.changes import Changing
from tideflow.wire import errors


def _size_bytes(values: Sequence[Any]) -> int:
    return sum(np.asarray(value).nbytes for value in values)


class _Area(Changing, abc.ABC):
    """What both kinds share: limits, and waiting for a change.

    capacity, memory_limit: the most tuples, and bytes, that are held; 0 for any number.
    """

    def __init__(self, name: str, capacity: int, memory_limit: int) -> None:
        super().__init__()
        self.name = name
        self._capacity = capacity
        self._memory_limit = memory_limit
        self._bytes = 0

    @abc.abstractmethod
    def __len__(self) -> int:
        """How many tuples are held."""

    def _check_limit(self, size: int) -> None:
        if 0 < self._memory_limit < size:
            raise errors.ResourceExhaustedError(
                f"Attempted to insert tensors with combined size of {size} bytes into staging area "
                f"{self.name!r} with a memory limit of {self._memory_limit}"
            )

    def _has_room(self, size: int, tuples: int = 1) -> bool:
        if self._capacity and len(self) + tuples > self._capacity:
            return False
        return not self._memory_limit or self._bytes + size <= self._memory_limit


class StagingArea(_Area):
    """Tuples, first-in, first-out."""

    def __init__(self, name: str, capacity: int, memory_limit: int) -> None:
        super().__init__(name, capacity, memory_limit)
        self._tuples: deque[list[Any]] = deque()

    def __len__(self) -> int:
        return len(self._tuples)

    async def put(self, values: list[Any]) -> None:
        """Put a tuple; waits for room.  Raises: ResourceExhaustedError for more than the limit."""
        size = _size_bytes(values)
        self._check_limit(size)
        await self._until(lambda: self._has_room(size))
        self._tuples.append(values)
        self._bytes += size
        self._changed()

    async def take(self) -> list[Any]:
        """Take the first tuple; waits for it."""
        await self._until(lambda: bool(self._tuples))
        values = self._tuples.popleft()
        self._bytes -= _size_bytes(values)
        self._changed()
        return values

    async def peek(self, index: int) -> list[Any]:
        """Return the tuple at an index, and keep it; waits until there are so many."""
        await self._until(lambda: index < len(self._tuples))
        return self._tuples[index]

    def clear(self) -> None:
        """Drop all tuples."""
        self._tuples.clear()
        self._bytes = 0
        self._changed()


class MapStagingArea(_Area):
    """Tuples by keys, complete ones and those that lack components.

    is_ordered: whether the lowest key comes first where any will do.
    """

    def __init__(self, name: str, capacity: int, memory_limit: int, is_ordered: bool) -> None:
        super().__init__(name, capacity, memory_limit)
        self._is_ordered = is_ordered
        self._complete: dict[int, list[Any]] = {}
        self._incomplete: dict[int, list[Any]] = {}

    def __len__(self) -> int:
        return len(self._complete)

    @property
    def incomplete_size(self) -> int:
        """How many tuples lack components."""
        return len(self._incomplete)

    async def put(self, key: int, indices: list[int], values: list[Any], count: int) -> None:
        """Put components of the tuple of a key, which has `count`; waits for room.

        Raises: InvalidArgumentError for indices out of order or range, and for components that are
        there; ResourceExhaustedError for more than the limit.
        """
        _check_indices(indices, count)
        size = _size_bytes(values)
        self._check_limit(size)
        await self._until(lambda: self._has_room(size))
        parts = self._incomplete.get(key)
        if parts is None and len(indices) < count:
            parts = self._incomplete[key] = [None] * count
        if parts is None:
            # Of two tuples of a key the first is kept.
            if key in self._complete:
                return
            self._complete[key] = list(values)
        else:
            self._fill(key, parts, indices, values)
        self._bytes += size
        self._changed()

    def _fill(self, key: int, parts: list[Any], indices: list[int], values: list[Any]) -> None:
        for index in indices:
            if parts[index] is not None:
                raise errors.InvalidArgumentError(
                    f"The tensor for index {index} for key {key} was already initialized"
                )
        for index, value in zip(indices, values, strict=True):
            parts[index] = value
        if all(part is not None for part in parts):
            del self._incomplete[key]
            self._complete.setdefault(key, parts)

    async def peek(self, key: int, indices: list[int]) -> list[Any]:
        """Return components of a key's tuple, and keep them; waits for the tuple."""
        await self._until(lambda: key in self._complete)
        return self._parts(key, indices)

    async def take(self, key: int, indices: list[int]) -> list[Any]:
        """Take components of a key's tuple, which goes with the last of them; waits for it."""
        await self._until(lambda: key in self._complete)
        return self._take(key, indices)

    async def take_any(self, indices: list[int]) -> tuple[int, list[Any]]:
        """Take components of some tuple; return its key, too; waits for one."""
        await self._until(lambda: bool(self._complete))
        key = min(self._complete) if self._is_ordered else next(iter(self._complete))
        return key, self._take(key, indices)

    def _take(self, key: int, indices: list[int]) -> list[Any]:
        values = self._parts(key, indices)
        held = self._complete[key]
        for index in indices:
            held[index] = None
        if all(part is None for part in held):
            del self._complete[key]
        self._bytes -= _size_bytes(values)
        self._changed()
        return values

    def _parts(self, key: int, indices: list[int]) -> list[Any]:
        held = self._complete[key]
        _check_indices(indices, len(held))
        for index in indices:
            if held[index] is None:
                raise errors.InvalidArgumentError(
                    f"Tensor at index {index} for key {key} has already been removed"
                )
        return [held[index] for index in indices]

    def clear(self) -> None:
        """Drop all tuples."""
        self._complete.clear()
        self._incomplete.clear()
        self._bytes = 0
        self._changed()


def _check_indices(indices: list[int], count: int) -> None:
    if any(later <= former for former, later in itertools.pairwise(indices)):
        raise errors.InvalidArgumentError(f"Indices are not strictly ordered: {indices}")
    for index in indices:
        if not 0 <= index < count:
            raise errors.InvalidArgumentError(f"Index {index} is out of bounds of {count} tensors")
