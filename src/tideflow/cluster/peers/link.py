"""What one worker knows of the others of a cluster as tideflow peers, and its waits for them.

There is one line at most between two workers; whoever first wants something of the other opens it,
and both use it.  When, and how long who waits for it, is decided in link_state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from tideflow.cluster.peers.line import PeerHost, PeerLine
from tideflow.cluster.peers.link_state import (
    Ask,
    Close,
    LinkState,
    LookAfter,
    LookNoMore,
    Open,
    SettleAfter,
    TellLost,
)
from tideflow.cluster.peers.service import VERSION, exchange_method
from tideflow.platform import clock
from tideflow.runtime.loop import spawn
from tideflow.runtime.rendezvous import Received
from tideflow.transport import Channel
from tideflow.wire import errors
from tideflow.wire import messages as pb

_LOGGER = logging.getLogger(__name__)

Instruction: TypeAlias = (
    Open
    | Close[PeerLine]
    | SettleAfter[PeerLine]
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


class PeerLink:
    """What a worker knows of one other; decided in link_state, carried out here.

    Args:
      links: those that it belongs to.
      task: the other's name in the cluster.
    """

    def __init__(self, links: PeerLinks, task: str) -> None:
        self._state: LinkState[PeerLine, PushWait] = LinkState()
        self._links = links
        self._task = task
        self._timer: asyncio.TimerHandle | None = None

    @property
    def line(self) -> PeerLine | None:
        """What to push and to ask for runs on; None where there is none."""
        return self._state.line

    @property
    def pushes(self) -> bool:
        """Whether values come without being asked for."""
        return self._state.pushes

    @property
    def is_opening(self) -> bool:
        """Whether this worker is opening a line."""
        return self._state.is_opening

    # ---- the line

    def greet(self) -> None:
        """Begin to open a line, if there is none and it makes sense."""
        self._carry_out(self._state.wanted(clock.monotonic_s()))

    async def _open(self) -> None:
        line = PeerLine(self._links.host, self._on_hello, self._on_end)
        try:
            channel = self._links.channel(self._task)
            line.pipe = await channel.open_pipe(exchange_method(), line)
        except errors.OpError as error:
            self._on_end(line, error)
        else:
            line.say_hello(self._links.hello())

    def _on_hello(self, line: PeerLine, hello: pb.PeerHello) -> None:
        if hello.version != VERSION:
            raise errors.UnimplementedError(f"the peer speaks version {hello.version}")
        self._use(line, is_own=True)

    def _on_end(self, line: PeerLine, error: errors.OpError | None) -> None:
        _LOGGER.debug("no line to %s: %s", self._task, error)
        is_plain = isinstance(error, errors.UnimplementedError)
        self._state.opening_ended(is_plain, clock.monotonic_s())
        self.detach(line)

    def accept(self, line: PeerLine) -> None:
        """Use a line that the other worker has opened, in place of an older one.

        Raises: AbortedError where the line that this worker opens is to stay.
        """
        if self._state.keeps_own(self._links.own_task, self._task):
            raise errors.AbortedError(
                f"{self._links.own_task} is opening a line to {self._task} itself"
            )
        self._use(line, is_own=False)

    def _use(self, line: PeerLine, is_own: bool) -> None:
        line.has_unseen_elsewhere = self._links.has_unseen
        self._carry_out(self._state.use(line, is_own))

    def detach(self, line: PeerLine) -> None:
        """Take note that a line has ended; whoever waits for what comes on it asks."""
        self._carry_out(self._state.ended(line))

    def close(self) -> None:
        """End the line; let all waits go on by asking."""
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
        count = 0 if self.line is None else self.line.received_count
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
                case SettleAfter(delay_s, line):
                    loop = asyncio.get_running_loop()
                    loop.call_later(delay_s, self._state.settled, line)
                case Close(line):
                    line.close()
                case TellLost():
                    self._links.on_lost(self._task)

    def validate(self) -> None:
        """Check that what is kept is what was decided.  Raises: AssertionError."""
        self._state.validate()


class PeerLinks:
    """The links of one cluster of one worker, by task.

    Args:
      channel: gives the channel to a task.
      own_task: this worker's name in the cluster.
      tasks: all names.
      scope: the handle of the session whose cluster it is; "" for the servers' own.
      host: this worker.
    Attributes:
      on_lost: is told of a task whose line has ended.
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
        self._links: dict[str, PeerLink] = {}

    def hello(self) -> pb.PeerHello:
        """Return what this worker says first on a line."""
        return pb.PeerHello(version=VERSION, task=self.own_task, session_handle=self._scope)

    def link(self, task: str) -> PeerLink:
        """Return what is known of a task."""
        found = self._links.get(task)
        if found is None:
            found = self._links[task] = PeerLink(self, task)
            if self.is_closed:
                found.close()
        return found

    def line(self, task: str) -> PeerLine | None:
        """Return the line to a task, if there is one.  May be called from any thread."""
        found = self._links.get(task)
        return None if found is None else found.line

    def has_unseen(self, but: PeerLine, step_id: int) -> bool:
        """Whether tensors of a step are on their way on other lines than one."""
        return any(
            link.line is not None and link.line is not but and link.line.has_unseen(step_id)
            for link in self._links.values()
        )

    def accept(self, line: PeerLine, hello: pb.PeerHello) -> PeerLink:
        """Use a line that another worker has opened; return its link.

        Raises: InvalidArgumentError for a task that the cluster lacks; AbortedError where the line
        that this worker opens is to stay.
        """
        task = hello.task
        if task not in self._tasks or task == self.own_task:
            raise errors.InvalidArgumentError(f"{self.own_task} has no peer {task!r}")
        link = self.link(task)
        link.accept(line)
        line.say_hello(self.hello())
        return link

    def validate(self) -> None:
        """Check all links.  Raises: AssertionError."""
        for link in self._links.values():
            link.validate()

    def close(self) -> None:
        """End all lines."""
        self.is_closed = True
        for link in self._links.values():
            link.close()
