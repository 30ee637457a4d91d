"""What an eager client has another task do, in order, without waiting for each answer.

User threads append items; the loop sends all that have come up meanwhile in one message of a
stream, and matches the answers.  Few messages are on their way at a time, so that in a row of many
operations each carries several.  When the stream ends before all is answered, with an error or
without one, everything put and not answered fails, and the next item opens a new stream.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from tideflow.blocking import spawn
from tideflow.cluster.eager import with_origin
from tideflow.cluster.services import EagerService
from tideflow.graph.shapes import Dims
from tideflow.runtime.loop import get_loop
from tideflow.transport import Channel, MessageStream, methods_of
from tideflow.transport.answer import as_op_error
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.parted import MaybeParted, joined
from tideflow.wire.shapes import decode_shape

_STREAMING = methods_of(EagerService)["StreamingEnqueue"]
# Messages.  A task that has that many does not wait for the next one.
_MOST_UNANSWERED = 4
# How long what can wait does so where no other item follows.
_QUIET_S = 0.1

Item: TypeAlias = MaybeParted[pb.EagerQueueItem]
# The shapes of an operation's outputs.
Answer: TypeAlias = "concurrent.futures.Future[list[Dims]]"


class TensorAnswer(concurrent.futures.Future["pb.EagerQueueResponse"]):
    """The answer to an item that asks for a tensor: the message itself."""


AnyAnswer: TypeAlias = "Answer | TensorAnswer"


class RemoteQueue:
    """The queue of one task.

    Args:
      context_id: the client's number of its context.
      channel: to the task.
      task: its name, for messages.
      is_peer: whether it is a tideflow peer.

    Attributes:
      error: the first that an item failed with, until somebody clears it.
    """

    def __init__(
        self, context_id: int, channel: Channel, task: str, is_peer: Callable[[], bool]
    ) -> None:
        self._context_id = context_id
        self._channel = channel
        self._task = task
        self._lock = threading.Lock()
        self._waiting: list[tuple[Item, AnyAnswer | None, bool]] = []
        self._is_woken = False
        self._stream: _Stream | None = None
        self._last: AnyAnswer | None = None
        self._barrier: AnyAnswer | None = None
        self._is_peer = is_peer
        self._timer: asyncio.TimerHandle | None = None
        self.error: errors.OpError | None = None

    def put(self, item: Item) -> Answer:
        """Add an item, from any thread; returns its answer to come."""
        answer: Answer = concurrent.futures.Future()
        self._put(item, answer)
        return answer

    def ask(self, item: Item) -> TensorAnswer:
        """Add an item that is answered with a tensor, from any thread."""
        answer = TensorAnswer()
        self._put(item, answer)
        return answer

    def _put(self, item: Item, answer: AnyAnswer) -> None:
        # Who stops waiting for an answer takes nothing back.
        answer.set_running_or_notify_cancel()
        with self._lock:
            self._waiting.append((item, answer, True))
            wake = not self._is_woken
            self._is_woken = True
            self._last = answer
        if wake:
            get_loop().call_soon_threadsafe(self._flush)

    def put_quietly(self, item: Item, after: Answer | None) -> None:
        """Add an item that can wait for the next one (safe where objects are collected).

        It is left out where `after`, the answer to an earlier one, turns out to be an error.
        """
        self._waiting.append((item, after, False))

    def flush_soon(self) -> None:
        """Send what can wait in a moment, though no other item may follow (on the loop)."""
        if self._waiting and self._timer is None:
            self._timer = get_loop().call_later(_QUIET_S, self._flush_quietly)

    def _flush_quietly(self) -> None:
        self._timer = None
        self._flush()

    def barrier(self) -> AnyAnswer | None:
        """Return the answer that comes when all that was put is done; None before the first item.

        TensorFlow's tasks answer before they are done, and are asked to say when they are.
        """
        last = self._last
        if last is not None and last is not self._barrier and not self._is_peer():
            sync_pb = pb.SyncRemoteExecutorForStream()
            last = self._barrier = self.put(
                pb.EagerQueueItem(sync_remote_executor_for_stream=sync_pb)
            )
        return last

    def _flush(self) -> None:
        """Send what waits, unless the task has enough to do; its next answer flushes then (on the
        loop)."""
        stream = self._stream
        if stream is not None and stream.is_busy:
            return
        waiting = self._take_waiting()
        if not waiting:
            return
        if stream is None or stream.is_over:
            stream = self._stream = _Stream(
                self._channel, self._task, self._context_id, self._on_answer, self._on_error
            )
        items: list[Item] = []
        answers: list[AnyAnswer | None] = []
        for item, answer, is_own in waiting:
            if is_own or answer is None or not answer.done() or answer.exception() is None:
                items.append(item)
                answers.append(answer if is_own else None)
        if answers:
            stream.send(items, answers)

    def _take_waiting(self) -> list[tuple[Item, AnyAnswer | None, bool]]:
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._is_woken = False
        return waiting

    def _on_answer(self) -> None:
        if self._is_woken:
            self._flush()

    def _on_error(self, error: errors.OpError) -> None:
        """Let what waits fail with what it waited behind."""
        self.error = self.error or error
        for _, answer, is_own in self._take_waiting():
            if is_own and answer is not None:
                answer.set_exception(error)

    async def drain(self) -> None:
        """Wait until all that was put is done (on the loop)."""
        last = self.barrier()
        if last is not None and not last.done():
            done, _ = await asyncio.wait([asyncio.wrap_future(last)])
            done.pop().exception()  # told to whoever waits for that item

    def close(self) -> None:
        """End the stream; what was not answered, or not even sent, fails (on the loop)."""
        if self._timer is not None:
            self._timer.cancel()
        if self._stream is not None:
            self._stream.close()
        for _, answer, is_own in self._take_waiting():
            if is_own and answer is not None:
                answer.set_exception(_closed(self._task))


class _Stream:
    """One StreamingEnqueue call, which receives the answers (a StreamReceiver)."""

    def __init__(
        self,
        channel: Channel,
        task: str,
        context_id: int,
        on_answer: Callable[[], None],
        on_error: Callable[[errors.OpError], None],
    ) -> None:
        self._unanswered: deque[list[AnyAnswer | None]] = deque()
        self._task = task
        self._context_id = context_id
        self._on_answer = on_answer
        self._on_error = on_error
        self._messages: MessageStream | None = None
        # What is sent once the call has started.
        self._early: deque[tuple[list[Item], list[AnyAnswer | None]]] = deque()
        self._error: errors.OpError | None = None
        self._opening = spawn(self._open(channel))

    @property
    def is_over(self) -> bool:
        """Whether nothing is sent any more."""
        return self._error is not None

    @property
    def is_busy(self) -> bool:
        """Whether so much is unanswered that more had better be gathered into one message."""
        return len(self._unanswered) + len(self._early) >= _MOST_UNANSWERED

    async def _open(self, channel: Channel) -> None:
        try:
            self._messages = await channel.open_message_stream(_STREAMING, self)
        except errors.OpError as error:
            self.ended(error)
            return
        while self._early:
            self._send(self._messages, *self._early.popleft())

    def send(self, items: list[Item], answers: list[AnyAnswer | None]) -> None:
        """Send a message of items that have these answers."""
        if self._messages is None:
            self._early.append((items, answers))
        else:
            self._send(self._messages, items, answers)

    def _send(
        self, messages: MessageStream, items: list[Item], answers: list[AnyAnswer | None]
    ) -> None:
        if self._error is not None:
            _fail(answers, self._error)
            return
        self._unanswered.append(answers)
        try:
            messages.send(joined(pb.EnqueueRequest(context_id=self._context_id), "queue", items))
        except Exception as error:
            if len(answers) == 1:  # what comes after it may need it
                messages.close(as_op_error(error, _STREAMING))
                return
            self._unanswered.pop()
            for item, answer in zip(items, answers, strict=True):
                self._send(messages, [item], [answer])

    def received(self, message: pb.EnqueueResponse) -> None:
        """Give the answers to items of the oldest message."""
        if not self._unanswered:
            raise errors.InternalError(f"{self._task} answered what it was not asked")
        answers = self._unanswered[0]
        given = message.queue_response
        for answer, answer_pb in zip(answers, given):
            if isinstance(answer, TensorAnswer):
                answer.set_result(answer_pb)
            elif answer is not None:
                answer.set_result([decode_shape(shape) for shape in answer_pb.shape])
        # Where an item fails, those before it in the message are answered alone.
        del answers[: len(given)]
        if not answers:
            self._unanswered.popleft()
            self._on_answer()

    def ended(self, error: errors.OpError | None) -> None:
        """Fail what was not answered."""
        if self.is_over:
            return
        is_complete = error is None and not self._unanswered and not self._early
        if error is None:
            error = errors.UnavailableError(f"{self._task} ended the stream of operations")
        else:
            error = with_origin(error, self._task, _STREAMING.path)
        self._finish(error)
        if is_complete:
            self._on_answer()  # what waits goes on a new stream
        else:
            self._on_error(error)

    def _finish(self, error: errors.OpError) -> None:
        self._error = error
        for answers in [*self._unanswered, *(answers for _, answers in self._early)]:
            _fail(answers, error)
        self._unanswered.clear()
        self._early.clear()

    def close(self) -> None:
        """End the call."""
        self._opening.cancel()
        self._finish(_closed(self._task))
        if self._messages is not None:
            self._messages.close()


def _fail(answers: list[AnyAnswer | None], error: errors.OpError) -> None:
    for answer in answers:
        if answer is not None and not answer.done():
            answer.set_exception(error)


def _closed(task: str) -> errors.OpError:
    return errors.CancelledError(f"the connection to {task} was closed")
