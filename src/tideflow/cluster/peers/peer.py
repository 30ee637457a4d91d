"""What one worker knows of the others of a cluster as tideflow peers, and its waits for them.

There is at most one stream between two workers; whoever first wants something of the other opens
it, and both use it.  When, and how long who waits for it, is decided in peer_state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from tideflow.blocking import spawn
from tideflow.cluster.peers.peer_state import (
    Ask,
    Close,
    LookAfter,
    LookNoMore,
    Open,
    PeerState,
    SettleAfter,
    TellLost,
)
from tideflow.cluster.peers.service import VERSION, exchange_method, status_method
from tideflow.cluster.peers.stream import PeerHost, PeerStream
from tideflow.platform import clock
from tideflow.runtime.rendezvous import Received
from tideflow.transport import Channel, growing_pauses_s
from tideflow.wire import errors
from tideflow.wire import messages as pb

_LOGGER = logging.getLogger(__name__)

# How a peer is looked for whose stream has ended.
_MOST_TRIES = 3
_FIRST_PAUSE_S = 0.02
_MOST_PAUSE_S = 0.1
_ANSWERS_S = 1.0

Instruction: TypeAlias = (
    Open
    | Close[PeerStream]
    | SettleAfter[PeerStream]
    | LookAfter
    | LookNoMore
    | Ask["PushWait"]
    | TellLost
)


class PushAnswer(Protocol):
    """What a wait ends with: a future, or what goes on at once."""

    def done(self) -> bool:
        """Whether it was given something, or nobody wants it any more."""

    def set_result(self, result: Received | None, /) -> None:
        """Take the value; None when it is better to ask."""

    def set_exception(self, exception: errors.OpError, /) -> None:
        """Take the error of the step."""


class PushWait:
    """A consumer's wait for one value; its future gives None when it is better to ask."""

    __slots__ = ("future",)

    def __init__(self, future: PushAnswer) -> None:
        self.future = future

    def ask(self) -> None:
        """Let the consumer ask."""
        if not self.future.done():
            self.future.set_result(None)


class KnownPeer:
    """What a worker knows of one other; decided in peer_state, carried out here.

    Args:
      peers: those that it belongs to.
      task: the other's name in the cluster.
    """

    def __init__(self, peers: PeerTable, task: str) -> None:
        self._state: PeerState[PeerStream, PushWait] = PeerState()
        self._peers = peers
        self._task = task
        self._timer: asyncio.TimerHandle | None = None

    @property
    def stream(self) -> PeerStream | None:
        """What to push and to ask for runs on; None where there is none."""
        return self._state.stream

    @property
    def pushes(self) -> bool:
        """Whether values come without being asked for."""
        return self._state.pushes

    @property
    def is_opening(self) -> bool:
        """Whether this worker is opening a stream."""
        return self._state.is_opening

    # ---- the stream

    def greet(self) -> None:
        """Begin to open a stream, if there is none and it makes sense."""
        self._carry_out(self._state.wanted(clock.monotonic_s()))

    async def _open(self) -> None:
        stream = PeerStream(self._peers.host, self._on_hello, self._on_end)
        try:
            channel = self._peers.channel(self._task)
            stream.messages = await channel.open_message_stream(exchange_method(), stream)
        except errors.OpError as error:
            self._on_end(stream, error)
        else:
            stream.say_hello(self._peers.hello())

    def _on_hello(self, stream: PeerStream, hello: pb.PeerHello) -> None:
        if hello.version != VERSION:
            raise errors.UnimplementedError(f"the peer speaks version {hello.version}")
        self._use(stream, is_own=True)

    def _on_end(self, stream: PeerStream, error: errors.OpError | None) -> None:
        _LOGGER.debug("no stream to %s: %s", self._task, error)
        is_plain = isinstance(error, errors.UnimplementedError)
        self._state.opening_ended(is_plain, clock.monotonic_s())
        self.detach(stream)

    def accept(self, stream: PeerStream) -> None:
        """Use a stream that the other worker has opened, in place of an older one.

        Raises: AbortedError where the stream that this worker opens is to stay.
        """
        if self._state.keeps_own(self._peers.own_task, self._task):
            raise errors.AbortedError(
                f"{self._peers.own_task} is opening a stream to {self._task} itself"
            )
        self._use(stream, is_own=False)

    def _use(self, stream: PeerStream, is_own: bool) -> None:
        stream.has_unseen_elsewhere = self._peers.has_unseen
        stream.is_peer_gone = self._is_gone
        self._carry_out(self._state.use(stream, is_own))

    async def _is_gone(self) -> bool:
        """Whether nothing answers at the peer's address; a call may still have met its end."""
        pauses_s = growing_pauses_s(_FIRST_PAUSE_S, _MOST_PAUSE_S)
        for _ in range(_MOST_TRIES):
            try:
                channel = self._peers.channel(self._task)
                await channel.unary(
                    status_method(),
                    pb.GetStatusRequest(),
                    timeout_s=_ANSWERS_S,
                    wait_for_ready=False,
                )
            except errors.UnavailableError:
                await asyncio.sleep(next(pauses_s))
            except errors.OpError:
                return False  # it is slow, or this worker is stopping
            else:
                return False
        return True

    def detach(self, stream: PeerStream) -> None:
        """Take note that a stream has ended; whoever waits for what comes on it asks."""
        self._carry_out(self._state.ended(stream))

    def close(self) -> None:
        """End the stream; let all waits go on by asking."""
        self._carry_out(self._state.closed())

    # ---- waits

    def wait(self, answer: PushAnswer | None = None) -> PushWait:
        """Begin to wait for a value; by default it becomes the result of a future."""
        made = PushWait(answer or asyncio.get_running_loop().create_future())
        self._carry_out(self._state.wait_began(made, clock.monotonic_s()))
        return made

    def forget(self, wait: PushWait) -> None:
        """Note the end of a wait."""
        self._state.forget(wait)

    def _look(self) -> None:
        self._timer = None
        count = 0 if self.stream is None else self.stream.received_count
        self._carry_out(self._state.looked(clock.monotonic_s(), count))

    # ---- instructions

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case LookAfter(delay_s):
                    loop = asyncio.get_running_loop()
                    self._timer = loop.call_later(delay_s, self._look)
                case Ask(wait):
                    wait.ask()
                case LookNoMore():
                    if self._timer is not None:
                        self._timer.cancel()
                        self._timer = None
                case Open():
                    spawn(self._open())
                case SettleAfter(delay_s, stream):
                    loop = asyncio.get_running_loop()
                    loop.call_later(delay_s, self._state.settled, stream)
                case Close(stream):
                    stream.close()
                case TellLost():
                    self._peers.on_lost(self._task)

    def validate(self) -> None:
        """Check that what is kept is what was decided.  Raises: AssertionError."""
        self._state.validate()


class PeerTable:
    """The peers of one cluster of one worker, by task.

    Args:
      channel: gives the channel to a task.
      own_task: this worker's name in the cluster.
      tasks: all names.
      scope: the handle of the session whose cluster it is; "" for the servers' own.
      host: this worker.
    Attributes:
      on_lost: is told of a task whose stream has ended.
    """

    def __init__(
        self,
        channel: Callable[[str], Channel],
        own_task: str,
        tasks: frozenset[str],
        scope: str,
        host: PeerHost,
    ) -> None:
        self.channel = channel
        self.own_task = own_task
        self.host = host
        self.is_closed = False
        self.on_lost: Callable[[str], None] = lambda task: None
        self._tasks = tasks
        self._scope = scope
        self._peers: dict[str, KnownPeer] = {}

    def hello(self) -> pb.PeerHello:
        """Return what this worker says first on a stream."""
        return pb.PeerHello(version=VERSION, task=self.own_task, session_handle=self._scope)

    def peer(self, task: str) -> KnownPeer:
        """Return what is known of a task."""
        found = self._peers.get(task)
        if found is None:
            found = self._peers[task] = KnownPeer(self, task)
            if self.is_closed:
                found.close()
        return found

    def stream(self, task: str) -> PeerStream | None:
        """Return the stream to a task, if there is one.  May be called from any thread."""
        found = self._peers.get(task)
        return None if found is None else found.stream

    def has_unseen(self, but: PeerStream, step_id: int) -> bool:
        """Whether tensors of a step are on their way on other streams than one."""
        return any(
            peer.stream is not None and peer.stream is not but and peer.stream.has_unseen(step_id)
            for peer in self._peers.values()
        )

    def accept(self, stream: PeerStream, hello: pb.PeerHello) -> KnownPeer:
        """Use a stream that another worker has opened; return its peer.

        Raises: InvalidArgumentError for a task that the cluster lacks; AbortedError where the
        stream that this worker opens is to stay.
        """
        task = hello.task
        if task not in self._tasks or task == self.own_task:
            raise errors.InvalidArgumentError(f"{self.own_task} has no peer {task!r}")
        peer = self.peer(task)
        peer.accept(stream)
        stream.say_hello(self.hello())
        return peer

    def validate(self) -> None:
        """Check all peers.  Raises: AssertionError."""
        for peer in self._peers.values():
            peer.validate()

    def close(self) -> None:
        """End all streams."""
        self.is_closed = True
        for peer in self._peers.values():
            peer.close()
