"""Queues of tensors: what they promise, without ops or kernels around it.

A queue belongs to the event loop; every method is called there and nothing here is locked.

1. Puts wait in the order in which they came, and so do takes.  Only the first of each may act.
2. A put of many elements goes in as room appears, and leaves what it has put when it fails.  A
   take of many collects as elements come and gives them all back when it fails.
3. Closing is a put, too: it takes its turn behind the puts that wait.  From then on puts fail
   with CANCELLED, and takes with OUT_OF_RANGE once too little is left for them.
4. Who is cancelled has taken nothing.

Source: runtime behaviour of TensorFlow 2.21; tensorflow/core/kernels/queue_base.cc,
fifo_queue.cc, random_shuffle_queue.cc, padding_fifo_queue.cc, priority_queue.cc.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tideflow.blocking import KERNELS, OBJECT_BYTES, item_bytes, run_sized, work_on_alike
from tideflow.graph import shapes as static_shapes
from tideflow.graph.shapes import Dims
from tideflow.ops.random import Samples, seeds_of
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

Element: TypeAlias = "tuple[Any, ...]"
_Column: TypeAlias = "tuple[list[np.ndarray[Any, Any]], tuple[int, ...]]"

# So many elements are put or taken in one turn of the loop.
_MOST_MOVES = 1 << 13


class _Attempt:
    """A put, a take or a close that may have to wait.

    `advance` does what it can now and says whether it is finished (well, or with an error).
    """

    __slots__ = ("advance", "error", "finished", "future")

    def __init__(self, advance: Callable[[], bool]) -> None:
        self.advance = advance
        self.finished = False
        self.error: errors.OpError | None = None
        self.future: asyncio.Future[None] | None = None

    @property
    def abandoned(self) -> bool:
        """Whether who waited was cancelled."""
        return self.future is not None and self.future.cancelled()

    def finish(self, error: errors.OpError | None = None) -> None:
        """Wake up who waits."""
        self.finished = True
        self.error = error
        if self.future is not None and not self.future.done():
            self.future.set_result(None)


class Queue:
    """A first-in, first-out queue; other orders override how elements are kept.

    Attributes:
      kind: the op that makes it, without its version: "FIFOQueue".
      types, shapes: of an element's components; shapes is empty where none were declared.
      capacity: the most elements that it holds.
    """

    kind = "FIFOQueue"

    def __init__(
        self, name: str, types: Sequence[DType], shapes: Sequence[Dims], capacity: int = -1
    ) -> None:
        self.name = name
        self.types = tuple(types)
        self.shapes = tuple(shapes)
        self.capacity = capacity if capacity >= 0 else 2**31 - 1
        self.closed = False
        self._elements: Any = deque()
        self._puts: deque[_Attempt] = deque()
        self._takes: deque[_Attempt] = deque()
        self._moves = 0  # elements put or taken so far; tells whether an attempt did anything

    def __len__(self) -> int:
        return len(self._elements)

    def difference(self, wanted: Queue) -> str | None:
        """Say in what this queue differs from another as declared; None where they are alike."""
        if type(self) is not type(wanted):
            return f"is a {self.kind}, not a {wanted.kind}"
        for fact in ("capacity", "types", "shapes", "min_after_dequeue", "seeds"):
            mine, other = getattr(self, fact, None), getattr(wanted, fact, None)
            if mine != other:
                return f"has {fact} {_show(mine)}, not {_show(other)}"
        return None

    # ---- what the operations do

    async def put(self, element: Element) -> None:
        """Put one element.

        Raises: InvalidArgumentError for wrong types or shapes; CancelledError (the status) when
        the queue is closed.
        """
        self._check_types(element)
        for value, wanted in zip(element, self.shapes):
            if not static_shapes.compatible(np.shape(value), wanted):
                raise self._wrong_shape(np.shape(value), wanted)
        await self._put_all(deque([element]))

    async def put_many(self, batch: Element) -> None:
        """Put the rows of a batch, each as an element (see put)."""
        self._check_types(batch)
        work = OBJECT_BYTES * sum(len(value) for value in batch if np.ndim(value))
        await self._put_all(await run_sized(KERNELS, work, lambda: deque(self._rows(batch))))

    async def take(self) -> Element:
        """Take one element.  Raises: OutOfRangeError when closed and empty."""
        return (await self._take(1, up_to=False))[0]

    async def take_many(self, count: int, up_to: bool = False) -> Element:
        """Take a batch of elements; with up_to fewer, but one at least, if the queue is closed.

        Raises: InvalidArgumentError where the shapes do not allow a batch; OutOfRangeError when
        closed with too few elements.
        """
        self._check_batch(count)
        if not count:
            return self._empty_batch()
        taken = await self._take(count, up_to)
        try:
            return await self._batch(taken)
        except asyncio.CancelledError:
            self._take_back(taken)
            raise

    async def close(self, cancel_pending: bool = False) -> None:
        """Close the queue behind the puts that wait, or at once and cancel those.

        Raises: CancelledError (the status) when it is closed already.
        """
        if not cancel_pending:
            await self._wait(self._puts, _Attempt(self._close_now))
            return
        self.closed = True
        waiting, self._puts = self._puts, deque()
        for attempt in waiting:
            attempt.finish(errors.CancelledError(f"enqueue cancelled: {self._label} was closed"))
        self._pump()

    def _close_now(self) -> bool:
        if self.closed:
            raise errors.CancelledError(f"{self._label} is already closed")
        self.closed = True
        return True

    # ---- how elements are kept; other kinds of queue override these

    def _store(self, element: Element) -> None:
        self._elements.append(element)

    def _next(self) -> Element:
        element: Element = self._elements.popleft()
        return element

    def _give_back(self, elements: list[Element]) -> None:
        self._elements.extendleft(reversed(elements))

    def _available(self) -> int:
        """How many elements may be taken now."""
        return len(self._elements)

    def _check_batch(self, count: int) -> None:
        if not self.shapes:
            raise errors.InvalidArgumentError(
                f"{self._label} was made without shapes, so its elements cannot be batched; give "
                "it `shapes`, or dequeue one element at a time"
            )
        if count < 0:
            raise errors.InvalidArgumentError(
                f"cannot dequeue {count} elements from {self._label}; at least 0 can be asked for"
            )

    async def _batch(self, elements: list[Element]) -> Element:
        def work() -> Element:
            columns = zip(*elements)
            return tuple(_stack(column, dtype) for column, dtype in zip(columns, self.types))

        return await run_sized(KERNELS, work_on_alike(elements, len(elements)), work)

    def _empty_batch(self) -> Element:
        return tuple(
            np.empty((0, *(size or 0 for size in dims or ())), dtype.as_numpy_dtype)
            for dims, dtype in zip(self.shapes, self.types)
        )

    # ---- waiting

    async def _put_all(self, elements: deque[Element]) -> None:
        def advance() -> bool:
            if self.closed:
                raise errors.CancelledError(f"{self._label} is closed; nothing can be enqueued")
            for _ in range(min(len(elements), self.capacity - len(self._elements), _MOST_MOVES)):
                self._store(elements.popleft())
                self._moves += 1
            return not elements

        if elements:
            await self._wait(self._puts, _Attempt(advance))

    async def _take(self, count: int, up_to: bool) -> list[Element]:
        taken: list[Element] = []

        def advance() -> bool:
            wanted = count
            missing = count - len(taken)
            if self.closed and len(self._elements) < missing:
                if not up_to or not (taken or self._elements):
                    self._give_back(taken)
                    taken.clear()
                    raise self._too_few(count)
                missing = len(self._elements)
                wanted = len(taken) + missing
            for _ in range(min(missing, self._available(), _MOST_MOVES)):
                taken.append(self._next())
                self._moves += 1
            return len(taken) == wanted

        attempt = _Attempt(advance)
        try:
            await self._wait(self._takes, attempt)
        except asyncio.CancelledError:
            # Also when the elements had arrived already: who is cancelled has taken nothing.
            self._take_back(taken)
            raise
        return taken

    def _take_back(self, taken: list[Element]) -> None:
        self._give_back(taken)
        self._pump()

    async def _wait(self, line: deque[_Attempt], attempt: _Attempt) -> None:
        line.append(attempt)
        self._pump()
        if not attempt.finished:
            attempt.future = asyncio.get_running_loop().create_future()
            try:
                await attempt.future
            except asyncio.CancelledError:
                # Its place in the line is given up; see _Attempt.abandoned.
                self._pump()
                raise
        if attempt.error is not None:
            raise attempt.error

    def _pump(self) -> None:
        """Let the first in each line act, until neither can; after many moves, others first."""
        first = self._moves
        while True:
            before = self._moves
            finished = self._advance(self._puts) + self._advance(self._takes)
            if not finished and before == self._moves:
                return
            if self._moves - first >= _MOST_MOVES:
                asyncio.get_running_loop().call_soon(self._pump)
                return

    def _advance(self, line: deque[_Attempt]) -> int:
        finished = 0
        while line:
            attempt = line[0]
            if attempt.abandoned:
                line.popleft()
                continue
            error: errors.OpError | None = None
            try:
                if not attempt.advance():
                    break
            except errors.OpError as found:
                error = found
            line.popleft()
            attempt.finish(error)
            finished += 1
        return finished

    # ---- checks and messages

    @property
    def _label(self) -> str:
        return f"{self.kind} {self.name!r}"

    def _too_few(self, count: int) -> errors.OpError:
        return errors.OutOfRangeError(
            f"{self._label} is closed and has insufficient elements "
            f"(requested {count}, current size {len(self._elements)})"
        )

    def _check_types(self, values: Element) -> None:
        if len(values) != len(self.types):
            raise errors.InvalidArgumentError(
                f"{self._label} has elements of {len(self.types)} components; "
                f"{len(values)} were given"
            )

    def _wrong_shape(self, found: tuple[int, ...], wanted: Dims) -> errors.OpError:
        return errors.InvalidArgumentError(
            f"shape mismatch in a component for {self._label}: expected "
            f"{static_shapes.format_dims(wanted)}, got {static_shapes.format_dims(found)}"
        )

    def _rows(self, batch: Element) -> list[Element]:
        arrays = [np.asarray(value) for value in batch]
        for array, dims in itertools.zip_longest(arrays, self.shapes):
            if not array.ndim:
                raise errors.InvalidArgumentError(
                    f"a batch for {self._label} needs components of rank 1 at least; found a scalar"
                )
            if len(array) != len(arrays[0]):
                sizes = [len(a) if a.ndim else 0 for a in arrays]
                raise errors.InvalidArgumentError(
                    f"the components of a batch for {self._label} differ in their first size: "
                    f"{sizes}"
                )
            if not static_shapes.compatible(array.shape[1:], dims):
                raise self._wrong_shape(array.shape, None if dims is None else (None, *dims))
        # Row i of an object array would be a bare object: the ellipsis keeps it an array.
        return [tuple(array[i, ...] for array in arrays) for i in range(len(arrays[0]))]


class RandomShuffleQueue(Queue):
    """A queue that gives its elements in random order, and keeps some back to mix well.

    min_after_dequeue elements stay until it is closed.  With seeds, the order is TensorFlow's.
    """

    kind = "RandomShuffleQueue"

    def __init__(
        self,
        name: str,
        types: Sequence[DType],
        shapes: Sequence[Dims],
        capacity: int = -1,
        min_after_dequeue: int = 0,
        seeds: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(name, types, shapes, capacity)
        self.min_after_dequeue = min_after_dequeue
        self.seeds = seeds
        self._elements = []
        self._random = Samples(*seeds_of(*seeds))

    def _next(self) -> Element:
        at = self._random.next() % len(self._elements)
        self._elements[at], self._elements[-1] = self._elements[-1], self._elements[at]
        element: Element = self._elements.pop()
        return element

    def _give_back(self, elements: list[Element]) -> None:
        self._elements.extend(elements)

    def _available(self) -> int:
        kept = 0 if self.closed else self.min_after_dequeue
        return max(0, len(self._elements) - kept)


class PaddingFIFOQueue(Queue):
    """A queue whose elements may differ in sizes declared unknown; batches are padded."""

    kind = "PaddingFIFOQueue"

    async def _batch(self, elements: list[Element]) -> Element:
        def arrays() -> list[_Column]:
            return [_column(*pair) for pair in zip(zip(*elements), self.types)]

        least_bytes = OBJECT_BYTES * len(elements) * len(self.types)
        columns = await run_sized(KERNELS, least_bytes, arrays)
        full_bytes = sum(
            math.prod(shape) * item_bytes(dtype.as_numpy_dtype)
            for (_, shape), dtype in zip(columns, self.types)
        )

        def work() -> Element:
            return tuple(_padded(*column, dtype) for column, dtype in zip(columns, self.types))

        return await run_sized(KERNELS, least_bytes + full_bytes, work)


class PriorityQueue(Queue):
    """A queue that gives the element of the lowest priority first.

    The first component is the priority, an int64 scalar; equals come first-in, first-out.
    """

    kind = "PriorityQueue"

    def __init__(
        self, name: str, types: Sequence[DType], shapes: Sequence[Dims], capacity: int = -1
    ) -> None:
        super().__init__(name, types, shapes, capacity)
        self._elements = []
        self._entered = itertools.count()

    def _store(self, element: Element) -> None:
        heapq.heappush(self._elements, (int(element[0]), next(self._entered), element))

    def _next(self) -> Element:
        element: Element = heapq.heappop(self._elements)[2]
        return element

    def _give_back(self, elements: list[Element]) -> None:
        # Before all others of the same priority, in their old order.
        for at, element in enumerate(elements):
            heapq.heappush(self._elements, (int(element[0]), at - len(elements), element))


def _show(fact: object) -> str:
    if isinstance(fact, tuple):
        return "(" + ", ".join(_show(item) for item in fact) + ")"
    return fact.name if isinstance(fact, DType) else str(fact)


def _as_array(value: object, dtype: DType) -> np.ndarray[Any, Any]:
    """Return a component as an array; a bare object becomes an array of it."""
    if isinstance(value, np.ndarray):
        return value
    if dtype.as_numpy_dtype == np.dtype(object):
        array = np.empty((), object)
        array[()] = value
        return array
    return np.asarray(value)


def _stack(column: Sequence[Any], dtype: DType) -> np.ndarray[Any, Any]:
    return np.stack([_as_array(value, dtype) for value in column])


def _column(column: Sequence[Any], dtype: DType) -> _Column:
    """Return the values of a component as arrays, and the shape of all of them as one array."""
    arrays = [_as_array(value, dtype) for value in column]
    sizes = np.max([array.shape for array in arrays], axis=0).astype(int).tolist()
    return arrays, (len(arrays), *sizes)


def _padded(
    arrays: Sequence[np.ndarray[Any, Any]], shape: tuple[int, ...], dtype: DType
) -> np.ndarray[Any, Any]:
    batch = np.zeros(shape, dtype.as_numpy_dtype)
    if batch.dtype == object:
        batch.fill(b"")
    for i, array in enumerate(arrays):
        place: tuple[Any, ...] = (i, *(slice(size) for size in array.shape))
        batch[place] = array
    return batch
