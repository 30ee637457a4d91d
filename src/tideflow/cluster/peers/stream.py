"""An open stream between two tideflow workers: what one has to tell the other, in frames.

Both ends do the same: they push tensors, ask for runs and answer them, and say which steps are
over.  What comes up in one turn of the loop goes in one frame; the end of a run goes at once, with
all that the run has made.  What is said, and what becomes of it, is decided in stream_state; the
messages, timers, tasks and futures are here.
Source: tideflow/wire/proto/peer.proto
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from tideflow.blocking import spawn
from tideflow.cluster.graph_run import ComponentRun, GraphResult, GraphRun
from tideflow.cluster.peers.service import exchange_method
from tideflow.cluster.peers.stream_state import (
    Accept,
    Advise,
    CancelRun,
    CleanUp,
    Close,
    EndAsked,
    Entry,
    FlushLater,
    FlushSoon,
    Greet,
    Instruction,
    Leave,
    LoseAsked,
    Offer,
    Send,
    Serve,
    StreamState,
    TakeBack,
    TellEnd,
    Unattend,
)
from tideflow.platform import clock
from tideflow.runtime.loop import get_loop
from tideflow.runtime.rendezvous import Rendezvous
from tideflow.transport import MessageStream
from tideflow.transport.answer import as_op_error
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.peer_frame import PeerFrame
from tideflow.wire.tensor_codec import Value
from tideflow.wire.work import sending_work

# Asks for a run again whose stream has ended with that error; raises OpError.
AskAgain: TypeAlias = Callable[[errors.OpError], Awaitable[GraphResult]]


class _Asked(NamedTuple):
    future: asyncio.Future[GraphResult]
    again: AskAgain | None


class PeerHost(Protocol):
    """The worker that a stream belongs to."""

    def accept(self, step_id: int, key: str, value: Value, is_dead: bool) -> bool:
        """Take in a pushed value; return whether it is ours now."""

    def advise_asking(self, step_id: int, key: str) -> None:
        """Note that the peer has a value, and is to be asked for it."""

    async def run_graph(self, run: GraphRun) -> GraphResult:
        """Run a registered graph."""

    async def run_component(self, run: ComponentRun) -> None:
        """Run a component function."""

    def run_began(self, step_id: int, task: asyncio.Task[None]) -> None:
        """Note the task that runs a registered graph for a peer."""

    def run_ended(self, step_id: int, task: asyncio.Task[None]) -> None:
        """Note its end."""

    def keep_run(self, step_id: int) -> bool:
        """Keep such a run for a while, as its stream has ended, and the peer may join it; return
        whether there is one."""

    def take_back(self, step_id: int, key: str, value: Value, is_dead: bool) -> None:
        """Keep a value to be asked for, of a step that was forgotten here."""

    def end_step(self, step_id: int) -> bool:
        """Forget a step that has ended if nothing of it is left; return whether so."""

    def clean_up(self, step_id: int) -> None:
        """Forget a step."""


class PeerStream:
    """One end of a stream; the StreamReceiver of its messages.  Use it on the loop, but for `put`.

    Args:
      host: the own worker.
      on_hello: is given the peer's first frame; may raise OpError to end the stream.
      on_end: is told when the stream is over, and why.
    Attributes:
      sent_count, received_count: frames.
      has_unseen_elsewhere: whether tensors of a step are on their way on other streams of the host.
      is_peer_gone: whether the peer cannot be reached at all.
    """

    def __init__(
        self,
        host: PeerHost,
        on_hello: Callable[[PeerStream, pb.PeerHello], None],
        on_end: Callable[[PeerStream, errors.OpError | None], None],
    ) -> None:
        self.sent_count = self.received_count = 0
        self.has_unseen_elsewhere: Callable[[PeerStream, int], bool] = lambda stream, step_id: False
        self.is_peer_gone: Callable[[], Awaitable[bool]] = _never
        self._host = host
        self._on_hello = on_hello
        self._on_end = on_end
        self._loop = get_loop()
        self._messages: MessageStream | None = None
        self._state = StreamState()
        self._later: asyncio.TimerHandle | None = None
        # What threads have offered, and whether the loop was called to take it.
        self._from_threads: deque[Offer] = deque()
        self._is_called = False
        self._asked: dict[int, _Asked] = {}
        self._served: dict[int, asyncio.Task[None]] = {}
        # Runs that were left to be joined when the stream ended.
        self._left: list[asyncio.Task[None]] = []

    @property
    def messages(self) -> MessageStream | None:
        """What frames go through; None until it is open."""
        return self._messages

    @messages.setter
    def messages(self, messages: MessageStream) -> None:
        self._messages = messages
        self._state.is_open = True

    @property
    def has_ended(self) -> bool:
        """Whether the stream is over."""
        return self._state.has_ended

    # ---- tensors

    def put(self, step_id: int, local: Rendezvous, key: str, value: Value, is_dead: bool) -> None:
        """Push a value soon, or leave it in `local`.  May be called from any thread.

        Raises: the error with which the step was aborted.
        """
        if local.put_if_wanted(key, value, is_dead):
            return
        offer = Offer(step_id, local, key, value, is_dead, sending_work(value))
        if _runs_on(self._loop):
            instructions = self._state.offered(offer)
            if instructions:
                self._carry_out(instructions)
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
            self._carry_out(self._state.offered(self._from_threads.popleft()))

    def has_unseen(self, step_id: int) -> bool:
        """Whether tensors of a step are on their way, for all that is known."""
        return self._state.has_unseen(step_id)

    # ---- runs

    def ask_run(self, run: GraphRun, again: AskAgain | None = None) -> asyncio.Future[GraphResult]:
        """Let the peer run its part of a step, without feeds and fetches.

        Cancelling what is returned ends the run.  Its errors are those of RunGraph.  When the
        stream ends before the run, `again` asks for it in another way; the peer goes on with it for
        a while.
        """
        return self._ask(
            pb.PeerRun(
                step_id=run.step_id,
                session_handle=run.session_handle,
                graph_handle=run.graph_handle,
            ),
            again,
        )

    def ask_component(self, run: ComponentRun) -> asyncio.Future[GraphResult]:
        """Let the peer run its part of a function, as `ask_run`; its results stay there."""
        return self._ask(pb.PeerRun(step_id=run.step_id, component=run.request, op_id=run.op_id))

    def _ask(
        self, run_pb: pb.PeerRun, again: AskAgain | None = None
    ) -> asyncio.Future[GraphResult]:
        future: asyncio.Future[GraphResult] = self._loop.create_future()
        if self.has_ended:
            future.set_exception(errors.UnavailableError("the stream to the peer has ended"))
            return future
        step_id = run_pb.step_id
        self._asked[step_id] = _Asked(future, again)
        future.add_done_callback(lambda done: self._give_up(step_id, done))
        self._carry_out(self._state.asked(run_pb, clock.monotonic_s()))
        return future

    def _give_up(self, step_id: int, future: asyncio.Future[GraphResult]) -> None:
        if not future.cancelled():
            return
        asked = self._asked.get(step_id)
        if asked is not None and asked.future is future:
            del self._asked[step_id]
            self._carry_out(self._state.given_up(step_id))

    def clean_up(self, step_id: int) -> None:
        """Let the peer forget a step, if it has not done so by itself."""
        self._carry_out(self._state.step_over(step_id))

    def _end_asked(self, step_id: int, error: errors.OpError | None) -> None:
        asked = self._asked.pop(step_id, None)
        if asked is None or asked.future.done():
            return
        if error is None:
            asked.future.set_result(GraphResult([]))
        else:
            asked.future.set_exception(error)

    def _lose_asked(self, step_id: int, error: errors.OpError) -> None:
        asked = self._asked.get(step_id)
        if asked is None or asked.again is None or asked.future.done():
            self._end_asked(step_id, error)
            return
        del self._asked[step_id]
        task = spawn(_ask_again(asked.future, asked.again, error))
        asked.future.add_done_callback(lambda done: task.cancel())

    def _serve(self, run_pb: pb.PeerRun) -> None:
        step_id = run_pb.step_id
        task = self._served[step_id] = self._loop.create_task(self._run(run_pb))
        if not run_pb.component:
            self._host.run_began(step_id, task)
        # Given up before it began, it has no other way to be forgotten.
        task.add_done_callback(lambda done: self._forget(run_pb, done))

    def _forget(self, run_pb: pb.PeerRun, task: asyncio.Task[None]) -> None:
        step_id = run_pb.step_id
        if not run_pb.component:
            self._host.run_ended(step_id, task)
        if not task.cancelled():
            task.exception()  # the peer was told, or joins the run
        if self._served.get(step_id) is task:
            del self._served[step_id]
            self._state.run_dropped(step_id)

    def _cancel_run(self, step_id: int) -> None:
        task = self._served.get(step_id)
        if task is not None:
            task.cancel()

    def _unattend(self, step_id: int) -> None:
        """Leave a run to be joined; a component's, which has no other name, ends."""
        if self._host.keep_run(step_id):
            self._left.append(self._served[step_id])
        else:
            self._cancel_run(step_id)

    async def _cancel_left(self) -> None:
        """Cancel what was left to be joined, if nobody is there any more to do so."""
        if await self.is_peer_gone():
            for task in self._left:
                task.cancel()

    async def _run(self, run_pb: pb.PeerRun) -> None:
        """Serve a run, and tell its end.  Raises: the error of the run."""
        step_id = run_pb.step_id
        error: errors.OpError | None = None
        is_over = False
        try:
            if run_pb.component:
                run = ComponentRun(run_pb.component, step_id, run_pb.op_id)
                await self._host.run_component(run)
            else:
                graph = GraphRun(run_pb.session_handle, run_pb.graph_handle, step_id)
                await self._host.run_graph(graph)
        except errors.OpError as found:
            error = found
        except Exception as found:
            error = as_op_error(found, exchange_method())
        if not self.has_ended:
            if error is None:
                self._carry_out(self._state.run_ending())
                elsewhere = self.has_unseen_elsewhere(self, step_id)
                is_over = not elsewhere and self._host.end_step(step_id)
            self._carry_out(self._state.run_ended(step_id, error, is_over))
        if error is not None:
            raise error

    # ---- frames

    def say_hello(self, hello: pb.PeerHello) -> None:
        """Say who this worker is."""
        self._carry_out(self._state.greeted(hello))

    def received(self, message: PeerFrame) -> None:
        """Take a frame of the peer.  Raises: OpError for one that does not keep the rules."""
        self.received_count += 1
        self._carry_out(self._state.received(message))

    # ---- the end

    def close(self, error: errors.OpError | None = None) -> None:
        """End the stream."""
        if self._messages is not None:
            self._messages.close(error)

    def ended(self, error: errors.OpError | None) -> None:
        """Take note that the messages has ended."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._carry_out(self._state.ended(error, clock.monotonic_s()))
        if self._left:
            spawn(self._cancel_left())

    # ---- instructions

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            # Those of every step come first.
            if type(instruction) is Accept:
                self._accept(instruction.entries)
            elif type(instruction) is Send:
                self._send(instruction)
            elif type(instruction) is FlushSoon:
                self._loop.call_soon(self._turn_ended)
            elif type(instruction) is Serve:
                self._serve(instruction.run_pb)
            elif type(instruction) is EndAsked:
                self._end_asked(instruction.step_id, instruction.error)
            else:
                self._carry_out_rarely(instruction)

    def _carry_out_rarely(self, instruction: Instruction) -> None:
        match instruction:
            case CleanUp(step_id):
                self._host.clean_up(step_id)
            case FlushLater(delay_s):
                self._later = self._loop.call_later(delay_s, self._later_came)
            case Advise(step_id, key):
                self._host.advise_asking(step_id, key)
            case Leave(offer):
                # Nobody wants what a failed step made.
                with contextlib.suppress(errors.OpError):
                    offer.local.put(offer.key, offer.value, offer.is_dead)
            case TakeBack(offer):
                self._host.take_back(offer.step_id, offer.key, offer.value, offer.is_dead)
            case LoseAsked(step_id, error):
                self._lose_asked(step_id, error)
            case Unattend(step_id):
                self._unattend(step_id)
            case CancelRun(step_id):
                self._cancel_run(step_id)
            case Greet(hello):
                self._on_hello(self, hello)
            case Close(error):
                self.close(error)
            case TellEnd(error):
                self._on_end(self, error)

    def _send(self, send: Send) -> None:
        assert self._messages is not None
        try:
            self._messages.send(send.frame)
        except Exception as error:
            found = as_op_error(error, exchange_method())
            self._carry_out(self._state.unsent(send, found))
        else:
            self.sent_count += 1

    def _accept(self, entries: Sequence[Entry]) -> None:
        accept = self._host.accept
        for number, step_id, key, value, is_dead in entries:
            if not accept(step_id, key, value, is_dead):
                self._carry_out(self._state.refused(number))

    def _turn_ended(self) -> None:
        self._carry_out(self._state.turn_ended())

    def _later_came(self) -> None:
        self._later = None
        self._carry_out(self._state.later_came())

    def validate(self) -> None:
        """Check that what is kept is what was decided.  Raises: AssertionError."""
        self._state.validate()


async def _never() -> bool:
    return False


async def _ask_again(
    future: asyncio.Future[GraphResult], again: AskAgain, error: errors.OpError
) -> None:
    """Give the future what another way of asking gives."""
    try:
        found = await again(error)
    except errors.OpError as other:
        if not future.done():
            future.set_exception(other)
    else:
        if not future.done():
            future.set_result(found)


def _runs_on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
