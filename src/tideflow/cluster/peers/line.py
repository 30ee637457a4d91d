"""An open line between two tideflow workers: what one has to tell the other, in frames.

Both ends do the same: they push tensors, ask for runs and answer them, and say which steps are
over.  What comes up in one turn of the loop goes in one frame; the end of a run goes at once, with
all that the run has made.

Rule 1: what the peer has not seen yet when the line ends, and what it refuses, goes back to where
        it can be asked for.
Rule 2: what may be on its way is bounded; beyond it, and above a size, the peer is told to ask.
Rule 3: runs that were asked for fail when the line ends, and those that the peer asked for end.
Source: tideflow/wire/proto/peer.proto
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tideflow.cluster.graph_run import ComponentRun, GraphResult, GraphRun
from tideflow.cluster.peers.service import exchange_method
from tideflow.runtime.loop import get_loop
from tideflow.runtime.rendezvous import Rendezvous
from tideflow.transport import Pipe
from tideflow.transport.answer import as_op_error
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.peer_frame import PeerFrame
from tideflow.wire.tensor_codec import Value

# Larger tensors are asked for: a question more does not count beside their transfer.
MOST_PUSHED_BYTES = 4 << 20
_MOST_UNSEEN_BYTES = 32 << 20
_OVERHEAD_BYTES = 256

# What the peer is told of having been seen rides along with other news, until it is so much.
_MOST_OWED_BYTES = 256 * 1024
_MOST_OWED_COUNT = 256

# How long the word that a step is over waits for company.
_OVER_S = 0.002
_MOST_OVER_HERE = 10_000


class PeerHost(Protocol):
    """The worker that a line belongs to."""

    def accept(self, step_id: int, key: str, value: Value, is_dead: bool) -> bool:
        """Take in a pushed value; return whether it is ours now."""

    def advise_asking(self, step_id: int, key: str) -> None:
        """Note that the peer has a value, and is to be asked for it."""

    async def run_graph(self, run: GraphRun) -> GraphResult:
        """Run a registered graph."""

    async def run_component(self, run: ComponentRun) -> None:
        """Run a component function."""

    def end_step(self, step_id: int) -> bool:
        """Forget a step that has ended if nothing of it is left; return whether so."""

    def clean_up(self, step_id: int) -> None:
        """Forget a step."""


@dataclass(slots=True)
class _Offer:
    """A value on its way; local is where it is to wait if it cannot go."""

    step_id: int
    local: Rendezvous
    key: str
    value: Value
    is_dead: bool
    size_bytes: int

    def leave(self) -> None:
        """Put the value where the peer can ask for it."""
        # Nobody wants what a failed step made.
        with contextlib.suppress(errors.OpError):
            self.local.put(self.key, self.value, self.is_dead)


class PeerLine:
    """One end of a line; the PipeReceiver of its pipe.  Use it on the loop, but for `put`.

    Args:
      host: the own worker.
      on_hello: is given the peer's first frame; may raise OpError to end the line.
      on_end: is told when the line is over, and why.
    Attributes:
      pipe: must be set before anything is sent.
      sent_count, received_count: frames.
      has_unseen_elsewhere: whether tensors of a step are on their way on other lines of the host.
    """

    def __init__(
        self,
        host: PeerHost,
        on_hello: Callable[[PeerLine, pb.PeerHello], None],
        on_end: Callable[[PeerLine, errors.OpError | None], None],
    ) -> None:
        self.pipe: Pipe | None = None
        self.has_ended = False
        self.sent_count = self.received_count = 0
        self.has_unseen_elsewhere: Callable[[PeerLine, int], bool] = lambda line, step_id: False
        self._host = host
        self._on_hello = on_hello
        self._on_end = on_end
        self._loop = get_loop()
        self._has_hello = False
        # The next frame, and whether there is anything in it.
        self._frame = PeerFrame()
        self._has_news = False
        self._is_flush_set = False
        self._over_timer: asyncio.TimerHandle | None = None
        self._offers: list[_Offer] = []
        # What threads have offered, and whether the loop was called to take it.
        self._from_threads: deque[_Offer] = deque()
        self._is_called = False
        # What was sent and not seen so far; None for what the peer was told to ask for.
        self._unseen: deque[_Offer | None] = deque()
        self._unseen_steps: dict[int, int] = {}
        self._seen_count = 0
        self._unseen_bytes = 0
        self._tensor_count = 0
        self._owed_count = self._owed_bytes = 0
        self._asked: dict[int, asyncio.Future[GraphResult]] = {}
        self._over_there: set[int] = set()
        self._served: dict[int, asyncio.Task[None]] = {}

    # ---- tensors

    def put(self, step_id: int, local: Rendezvous, key: str, value: Value, is_dead: bool) -> None:
        """Push a value soon, or leave it in `local`.  May be called from any thread.

        Raises: the error with which the step was aborted.
        """
        if local.put_if_wanted(key, value, is_dead):
            return
        offer = _Offer(step_id, local, key, value, is_dead, getattr(value, "nbytes", 0))
        if _runs_on(self._loop):
            self._add(offer)
            return
        # First the value, then the look at the flag; the loop does both the other way around, so
        # that no order of threads leaves a value behind.
        self._from_threads.append(offer)
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon_threadsafe(self._take_from_threads)

    def _take_from_threads(self) -> None:
        self._is_called = False
        while self._from_threads:
            self._add(self._from_threads.popleft())

    def _add(self, offer: _Offer) -> None:
        if self.has_ended:
            offer.leave()
            return
        self._offers.append(offer)
        self._flush_soon()

    def _write_offers(self) -> None:
        frame = self._frame
        steps = self._unseen_steps
        offers, self._offers = self._offers, []
        self._has_news = True
        for offer in offers:
            size_bytes = offer.size_bytes + _OVERHEAD_BYTES
            if (
                offer.size_bytes <= MOST_PUSHED_BYTES
                and self._unseen_bytes + size_bytes <= _MOST_UNSEEN_BYTES
                and _add_to(frame, offer)
            ):
                self._unseen_bytes += size_bytes
                self._unseen.append(offer)
                steps[offer.step_id] = steps.get(offer.step_id, 0) + 1
                continue
            frame.message.tensor.add(step_id=offer.step_id, rendezvous_key=offer.key, ask=True)
            self._unseen.append(None)
            offer.leave()

    def _note_seen(self, message: pb.PeerFrame) -> None:
        """Let go of what the peer has seen; take back what it refuses."""
        unseen = self._unseen
        for number in message.refused:
            at = number - self._seen_count
            if 0 <= at < len(unseen):
                refused = unseen[at]
                if refused is not None:
                    refused.leave()
        while self._seen_count < message.seen_count and unseen:
            self._seen_count += 1
            seen = unseen.popleft()
            if seen is not None:
                self._unseen_bytes -= seen.size_bytes + _OVERHEAD_BYTES
                left = self._unseen_steps.pop(seen.step_id) - 1
                if left:
                    self._unseen_steps[seen.step_id] = left

    def has_unseen(self, step_id: int) -> bool:
        """Whether tensors of a step are on their way, for all that is known."""
        return step_id in self._unseen_steps or bool(self._offers)

    def _take_tensors(self, frame: PeerFrame) -> None:
        host = self._host
        for entry_pb in frame.message.tensor:
            step_id, key = entry_pb.step_id, entry_pb.rendezvous_key
            if entry_pb.ask:
                host.advise_asking(step_id, key)
            else:
                value = None if entry_pb.is_dead else frame.value(entry_pb)
                if not host.accept(step_id, key, value, entry_pb.is_dead):
                    self._frame.message.refused.append(self._tensor_count)
                    self._flush_soon()
            self._tensor_count += 1
            self._owed_count += 1
            self._owed_bytes += entry_pb.size
        if self._owed_bytes > _MOST_OWED_BYTES or self._owed_count > _MOST_OWED_COUNT:
            self._flush_soon()

    # ---- runs

    def ask_run(self, run: GraphRun) -> asyncio.Future[GraphResult]:
        """Let the peer run its part of a step, without feeds and fetches.

        Cancelling what is returned ends the run.  Its errors are those of RunGraph.
        """
        return self._ask(
            pb.PeerRun(
                step_id=run.step_id,
                session_handle=run.session_handle,
                graph_handle=run.graph_handle,
            )
        )

    def ask_component(self, run: ComponentRun) -> asyncio.Future[GraphResult]:
        """Let the peer run its part of a function, as `ask_run`; its results stay there."""
        return self._ask(pb.PeerRun(step_id=run.step_id, component=run.request, op_id=run.op_id))

    def _ask(self, run_pb: pb.PeerRun) -> asyncio.Future[GraphResult]:
        future: asyncio.Future[GraphResult] = self._loop.create_future()
        if self.has_ended:
            future.set_exception(errors.UnavailableError("the line to the peer has ended"))
            return future
        step_id = run_pb.step_id
        self._asked[step_id] = future
        future.add_done_callback(lambda done: self._give_up(step_id, done))
        self._frame.message.run.append(run_pb)
        self._has_news = True
        self.flush()
        return future

    def _give_up(self, step_id: int, future: asyncio.Future[GraphResult]) -> None:
        if future.cancelled() and self._asked.get(step_id) is future:
            del self._asked[step_id]
            self._frame.message.given_up_step.append(step_id)
            self._flush_soon()

    def clean_up(self, step_id: int) -> None:
        """Let the peer forget a step, if it has not done so by itself."""
        if step_id in self._over_there:
            self._over_there.discard(step_id)
        elif not self.has_ended:
            self._frame.message.over_step.append(step_id)
            self._has_news = True
            if self._over_timer is None:
                self._over_timer = self._loop.call_later(_OVER_S, self._flush_over)

    def _flush_over(self) -> None:
        self._over_timer = None
        self.flush()

    def _end_asked(self, end_pb: pb.PeerRunEnd) -> None:
        future = self._asked.pop(end_pb.step_id, None)
        if future is None or future.done():
            return
        if end_pb.code:
            error = errors.error_for_code(end_pb.code)(
                end_pb.message, code=end_pb.code, payloads=dict(end_pb.payloads)
            )
            future.set_exception(error)
            return
        if end_pb.is_over:
            self._over_there.add(end_pb.step_id)
            if len(self._over_there) > _MOST_OVER_HERE:  # nobody cleans up there
                self._over_there.clear()
        future.set_result(GraphResult([]))

    def _serve(self, run_pb: pb.PeerRun) -> None:
        step_id = run_pb.step_id
        task = self._served[step_id] = self._loop.create_task(self._run(run_pb))
        # Given up before it began, it has no other way to be forgotten.
        task.add_done_callback(lambda _: self._served.pop(step_id, None))

    async def _run(self, run_pb: pb.PeerRun) -> None:
        step_id = run_pb.step_id
        error: errors.OpError | None = None
        try:
            if run_pb.component:
                run = ComponentRun(run_pb.component, step_id, run_pb.op_id)
                await self._host.run_component(run)
            else:
                graph = GraphRun(run_pb.session_handle, run_pb.graph_handle, step_id)
                await self._host.run_graph(graph)
        except asyncio.CancelledError:
            return  # given up: nobody waits for its end
        except errors.OpError as found:
            error = found
        except Exception as found:
            error = as_op_error(found, exchange_method())
        if self.has_ended:
            return
        if error is None:
            if self._offers:
                # What is too large to be pushed stays in the step, which must then be kept.
                self._write_offers()
            elsewhere = self.has_unseen_elsewhere(self, step_id)
            is_over = not elsewhere and self._host.end_step(step_id)
            self._frame.message.run_end.add(step_id=step_id, is_over=is_over)
        else:
            self._frame.message.run_end.add(
                step_id=step_id,
                code=error.error_code,
                message=error.message,
                payloads=error.payloads,
            )
        self._has_news = True
        self.flush()

    # ---- frames

    def say_hello(self, hello: pb.PeerHello) -> None:
        """Say who this worker is."""
        self._frame.message.hello.CopyFrom(hello)
        self._has_news = True
        self.flush()

    def _flush_soon(self) -> None:
        self._has_news = True
        if not self._is_flush_set:
            self._is_flush_set = True
            self._loop.call_soon(self._flush_turn)

    def _flush_turn(self) -> None:
        self._is_flush_set = False
        self.flush()

    def flush(self) -> None:
        """Send what there is to tell."""
        pipe = self.pipe
        if self.has_ended or pipe is None:
            return
        if self._offers:
            self._write_offers()
        if not self._has_news:
            return
        frame, self._frame = self._frame, PeerFrame()
        self._has_news = False
        if self._owed_count:
            frame.message.seen_count = self._tensor_count
            self._owed_count = self._owed_bytes = 0
        self.sent_count += 1
        pipe.send(frame)

    def received(self, message: PeerFrame) -> None:
        """Take a frame from the pipe.  Raises: OpError for a peer that does not keep the rules."""
        self.received_count += 1
        found = message.message
        if not self._has_hello:
            if not found.HasField("hello"):
                raise errors.InvalidArgumentError("the first frame of a line has no hello")
            self._has_hello = True
            self._on_hello(self, found.hello)
        if found.seen_count or found.refused:
            self._note_seen(found)
        if found.tensor:
            self._take_tensors(message)
        for run_pb in found.run:
            self._serve(run_pb)
        for step_id in found.given_up_step:
            task = self._served.get(step_id)
            if task is not None:
                task.cancel()
        for end_pb in found.run_end:
            self._end_asked(end_pb)
        for step_id in found.over_step:
            self._host.clean_up(step_id)

    # ---- the end

    def close(self, error: errors.OpError | None = None) -> None:
        """End the line."""
        if self.pipe is not None:
            self.pipe.close(error)

    def ended(self, error: errors.OpError | None) -> None:
        """Take note that the pipe has ended."""
        self.has_ended = True
        if self._over_timer is not None:
            self._over_timer.cancel()
            self._over_timer = None
        # First of all, so that whoever asks instead of waiting finds no line, but the values.
        for offer in [*self._unseen, *self._offers]:
            if offer is not None:
                offer.leave()
        self._unseen.clear()
        self._unseen_steps.clear()
        self._offers.clear()
        self._on_end(self, error)
        for task in list(self._served.values()):
            task.cancel()
        reason = error or errors.UnavailableError("the peer has ended the connection")
        asked, self._asked = self._asked, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(reason.with_message(reason.message))


def _add_to(frame: PeerFrame, offer: _Offer) -> bool:
    """Add a value to a frame; False for one that no tensor can hold, as RecvTensor will say."""
    try:
        frame.add(offer.step_id, offer.key, offer.value, offer.is_dead)
    except errors.OpError:
        return False
    return True


def _runs_on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
