"""Who gets which element of a task: whoever asks first, each consumer of a round, or each trainer.

Source: tensorflow/core/data/service/{task_runner.cc,cross_trainer_cache.h}.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import numpy as np

from tideflow.data_service.calls import alike
from tideflow.formats import CompressedElement
from tideflow.ops.data import Element, Producer
from tideflow.wire import errors
from tideflow.wire import messages as pb

# Elements that are made before somebody asks for them.
_AHEAD = 2
# How long a round waits for its elements before its consumers are sent to the next worker.
_SKIP_S = 0.1
_CACHE_BYTES = 10 << 30

INFINITE, UNKNOWN = -1, -2


class TaskElements(Protocol):
    """Gives the elements of a task to those who ask."""

    async def answer(self, request: pb.GetElementRequest) -> Element | None:
        """Return an element, None after the last.

        Raises: SkippedError where a client is to go on with the next task.
        """

    async def stop(self) -> None:
        """Let nobody wait any longer."""


class SkippedError(Exception):
    """There is no element for this round."""


class FirstComeFirstServed:
    """Gives each element to one client.  make: gives the next element, None after the last."""

    def __init__(self, make: Callable[[], Awaitable[Element | None]]) -> None:
        self._producer = Producer(make, _AHEAD)

    async def answer(self, request: pb.GetElementRequest) -> Element | None:
        element: Element | None = await self._producer.take()
        return element

    async def stop(self) -> None:
        """Do nothing: who waits gets what is being made."""


class RoundRobin:
    """Gives the elements of a round to its consumers, one each, once all have asked for the round.

    When the first round is one in which only some take part, because the others had theirs from a
    worker that has gone, it is given to those.
    """

    def __init__(
        self, make: Callable[[], Awaitable[Element | None]], count: int, cardinality: int
    ) -> None:
        if cardinality not in (INFINITE, UNKNOWN):
            raise errors.FailedPreconditionError(
                "Round robin reads require that the input dataset has infinite cardinality, but "
                f"the dataset has cardinality {cardinality}. Consider adding a `.repeat()` "
                "transformation to the dataset."
            )
        self._count = count
        self._producer = Producer(make, max(_AHEAD, count))
        self._round = -1
        self._is_skipped = False
        # Those of this round, and those that are there for the next one.
        self._elements: list[Element] = []
        self._next: list[Element] = []
        # By round: the consumers that have asked, and whether they come from a skipped round.
        self._asked: dict[int, dict[int, bool]] = {}
        self._changed = asyncio.Condition()
        self._failure: errors.OpError | None = None

    async def answer(self, request: pb.GetElementRequest) -> Element | None:
        consumer, wanted = request.consumer_index, request.round_index
        self._check(request)
        async with self._changed:
            asked = self._asked.setdefault(wanted, {})
            asked[consumer] = request.skipped_previous_round
            try:
                await self._prepare(wanted, request.allow_skip)
                await self._changed.wait_for(lambda: self._failure or self._round >= wanted)
            finally:
                asked.pop(consumer, None)
                if not asked:
                    self._asked.pop(wanted, None)
            # A round that has begun is for all: others may have their elements of it already.
            if self._failure is not None and self._round < wanted:
                raise alike(self._failure)
            if self._round > wanted:
                raise errors.FailedPreconditionError(
                    f"Consumer {consumer} requested data for round {wanted}, but the current round "
                    f"has already reached {self._round}. This may indicate that the consumer was "
                    "restarted with the same iteration name."
                )
            if self._is_skipped:
                raise SkippedError
            return self._elements[consumer]

    def _check(self, request: pb.GetElementRequest) -> None:
        if request.WhichOneof("optional_consumer_index") is None:
            raise errors.FailedPreconditionError(
                "a coordinated read needs to know the consumer index and the round of each request"
            )
        if not 0 <= request.consumer_index < self._count:
            raise errors.FailedPreconditionError(
                f"Requesting data for consumer index {request.consumer_index}, but the task is "
                f"configured for only {self._count} consumers"
            )

    async def _prepare(self, wanted: int, may_skip: bool) -> None:
        """Begin a round if all who take part in it have asked."""
        if self._round < wanted and len(self._asked[wanted]) == self._count:
            await self._begin(wanted, may_skip)
        elif self._round < 0:
            first = min(self._asked)
            behind = self._asked.get(first + 1, {})
            if behind and len(self._asked[first]) + len(behind) == self._count:
                if any(behind.values()):
                    self._round, self._is_skipped = first, True
                    self._changed.notify_all()
                else:
                    await self._begin(first, may_skip=False)

    async def _begin(self, wanted: int, may_skip: bool) -> None:
        try:
            async with asyncio.timeout(_SKIP_S if may_skip else None):
                while len(self._next) < self._count:
                    element: Element | None = await self._producer.take()
                    if element is None:
                        raise errors.FailedPreconditionError(
                            "Encountered end of sequence on a round-robin read iterator. Please "
                            "ensure that the dataset used for round-robin reading has infinite "
                            "cardinality, e.g. by adding a .repeat() transformation at the end."
                        )
                    self._next.append(element)
        except TimeoutError:
            self._is_skipped = True
        except errors.OpError as error:
            self._fail(error)
            return
        else:
            self._elements, self._next = self._next, []
            self._is_skipped = False
        self._round = wanted
        self._changed.notify_all()

    def _fail(self, error: errors.OpError) -> None:
        self._failure = self._failure or alike(error)
        self._changed.notify_all()

    async def stop(self) -> None:
        """Let nobody wait any longer."""
        async with self._changed:
            self._fail(errors.CancelledError("Worker is shutting down."))


class SharedByTrainers:
    """Gives each element to all trainers: to a later one those that are still kept.

    Args:
      limit_bytes: of the elements that are kept; the oldest go first.
    """

    def __init__(
        self,
        make: Callable[[], Awaitable[Element | None]],
        limit_bytes: int = _CACHE_BYTES,
    ) -> None:
        self._producer = Producer(make, _AHEAD)
        self._limit_bytes = limit_bytes
        self._kept: deque[tuple[Element, int]] = deque()
        self._first = 0
        self._size_bytes = 0
        # By trainer: the index of the element that is next.
        self._next: dict[str, int] = {}
        self._turn = asyncio.Lock()

    async def answer(self, request: pb.GetElementRequest) -> Element | None:
        trainer = request.trainer_id
        if not trainer:
            raise errors.InvalidArgumentError(
                "tf.data service cross-trainer cache requires a non-empty trainer ID."
            )
        while (index := max(self._next.get(trainer, 0), self._first)) == self._end:
            async with self._turn:
                # Another trainer may have done it meanwhile.
                if index == self._end:
                    await self._extend()
        self._next[trainer] = index + 1
        return self._kept[index - self._first][0]

    @property
    def _end(self) -> int:
        return self._first + len(self._kept)

    async def _extend(self) -> None:
        element: Element | None = await self._producer.take()
        if element is None:
            raise errors.InvalidArgumentError(
                "Cross-trainer caching requires the input dataset to be infinite. However, it "
                "reached the end of sequence."
            )
        size = sum(map(_size_bytes, element))
        if size > self._limit_bytes:
            raise errors.InvalidArgumentError(
                "tf.data service element size is larger than cache size in bytes. Got element "
                f"size: {size} and cache size: {self._limit_bytes}"
            )
        while self._kept and self._size_bytes + size > self._limit_bytes:
            self._size_bytes -= self._kept.popleft()[1]
            self._first += 1
        self._kept.append((element, size))
        self._size_bytes += size

    async def stop(self) -> None:
        """Do nothing: who waits gets what is being made."""


def _size_bytes(value: Any) -> int:
    bare = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    if isinstance(bare, CompressedElement):
        return bare.size_bytes
    if isinstance(bare, bytes):
        return len(bare)
    if isinstance(bare, np.ndarray) and bare.dtype == object:
        return sum(len(one) if isinstance(one, bytes) else 64 for one in bare.flat)
    return int(getattr(bare, "nbytes", 64))
