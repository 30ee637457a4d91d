"""What an eager client has another task do, in order, without waiting for each answer.

User threads append items; the loop sends all that have come up meanwhile in one message of a
stream, and matches the answers.  When the stream ends with an error, everything sent and not
answered fails with it, and the next item opens a new stream.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from tideflow.cluster.services import EagerService
from tideflow.cluster.spanning import with_origin
from tideflow.graph.shapes import Dims
from tideflow.runtime.loop import get_loop, spawn
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.shapes import decode_shape

_METHOD = "/tensorflow.eager.EagerService/StreamingEnqueue"

# The shapes of an operation's outputs.
Answer: TypeAlias = "concurrent.futures.Future[list[Dims]]"


class TensorAnswer(concurrent.futures.Future["pb.EagerQueueResponse"]):
    """The answer to an item that asks for a tensor: the message itself."""


AnyAnswer: TypeAlias = "Answer | TensorAnswer"


class RemoteQueue:
    """The queue of one task.

    Args:
      context_id: the client's number of its context.
      service: the task's eager service.
      task: its name, for messages.

    Attributes:
      error: the first that an item failed with, until somebody clears it.
    """

    def __init__(self, context_id: int, service: EagerService, task: str) -> None:
        self._context_id = context_id
        self._service = service
        self._task = task
        self._lock = threading.Lock()
        self._waiting: list[tuple[pb.EagerQueueItem, AnyAnswer | None, bool]] = []
        self._is_woken = False
        self._stream: _Stream | None = None
        self._last: AnyAnswer | None = None
        self.error: errors.OpError | None = None

    def put(self, item: pb.EagerQueueItem) -> Answer:
        """Add an item, from any thread; returns its answer to come."""
        answer: Answer = concurrent.futures.Future()
        self._put(item, answer)
        return answer

    def ask(self, item: pb.EagerQueueItem) -> TensorAnswer:
        """Add an item that is answered with a tensor, from any thread."""
        answer = TensorAnswer()
        self._put(item, answer)
        return answer

    def _put(self, item: pb.EagerQueueItem, answer: AnyAnswer) -> None:
        with self._lock:
            self._waiting.append((item, answer, True))
            wake = not self._is_woken
            self._is_woken = True
            self._last = answer
        if wake:
            get_loop().call_soon_threadsafe(self._flush)

    def put_quietly(self, item: pb.EagerQueueItem, after: Answer | None) -> None:
        """Add an item that can wait for the next one (safe where objects are collected).

        It is left out where `after`, the answer to an earlier one, turns out to be an error.
        """
        self._waiting.append((item, after, False))

    @property
    def last(self) -> AnyAnswer | None:
        """The answer to the last item that has one to wait for; None before the first."""
        return self._last

    def _flush(self) -> None:
        """Send what waits (on the loop)."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._is_woken = False
        if not waiting:
            return
        if self._stream is None or self._stream.is_over:
            self._stream = _Stream(self._service, self._task, self._on_error)
        request = pb.EnqueueRequest(context_id=self._context_id)
        answers: list[AnyAnswer | None] = []
        for item, answer, is_own in waiting:
            if is_own or answer is None or not answer.done() or answer.exception() is None:
                request.queue.append(item)
                answers.append(answer if is_own else None)
        if answers:
            self._stream.send(request, answers)

    def _on_error(self, error: errors.OpError) -> None:
        self.error = self.error or error

    async def drain(self) -> None:
        """Wait until all that was put has been answered (on the loop)."""
        last = self._last
        if last is not None and not last.done():
            await asyncio.wait([asyncio.wrap_future(last)])

    async def close(self) -> None:
        """End the stream; what was not answered fails (on the loop)."""
        if self._stream is not None:
            await self._stream.close()


class _Stream:
    """One StreamingEnqueue call."""

    def __init__(
        self, service: EagerService, task: str, on_error: Callable[[errors.OpError], None]
    ) -> None:
        self._requests: asyncio.Queue[pb.EnqueueRequest | None] = asyncio.Queue()
        self._unanswered: deque[list[AnyAnswer | None]] = deque()
        self._task = task
        self._on_error = on_error
        self.is_over = False
        self._reader = spawn(self._read(service))

    def send(self, request: pb.EnqueueRequest, answers: list[AnyAnswer | None]) -> None:
        """Send a message whose items have these answers."""
        self._unanswered.append(answers)
        self._requests.put_nowait(request)

    async def _outgoing(self) -> AsyncIterator[pb.EnqueueRequest]:
        while (request := await self._requests.get()) is not None:
            yield request

    async def _read(self, service: EagerService) -> None:
        error: errors.OpError
        error = errors.UnavailableError(f"{self._task} ended the stream of operations")
        try:
            async for response in service.StreamingEnqueue(self._outgoing()):
                answers = self._unanswered[0]
                for answer, answer_pb in zip(answers, response.queue_response):
                    if isinstance(answer, TensorAnswer):
                        answer.set_result(answer_pb)
                    elif answer is not None:
                        answer.set_result([decode_shape(shape) for shape in answer_pb.shape])
                # Where an item fails, those before it in the message are answered alone.
                del answers[: len(response.queue_response)]
                if not answers:
                    self._unanswered.popleft()
        except errors.OpError as found:
            error = with_origin(found, self._task, _METHOD)
            self._on_error(error)
        except asyncio.CancelledError:
            error = errors.CancelledError(f"the connection to {self._task} was closed")
        finally:
            self.is_over = True
            for answers in self._unanswered:
                for answer in answers:
                    if answer is not None and not answer.done():
                        answer.set_exception(error)
            self._unanswered.clear()

    async def close(self) -> None:
        """End the call."""
        self._requests.put_nowait(None)
        self._reader.cancel()
        await asyncio.wait([self._reader])
