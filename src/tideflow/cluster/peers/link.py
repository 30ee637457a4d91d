"""What one worker knows of the others of a cluster as tideflow peers, and its waits for them.

There is one line at most between two workers; whoever first wants something of the other opens it,
and both use it.

Rule 1: nobody waits for a line; until there is one, and always with plain peers, the protocol of
        TensorFlow does.  A value that is pushed meanwhile ends the question for it.
Rule 2: a consumer that waits for long asks after all: so a lost value, a producer that does not
        push, and one that is dead are all found out, by the answer to a plain question.
Rule 3: when two workers open lines to each other at the same time, the one of the worker that is
        named first stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from tideflow.cluster.peers.line import PeerHost, PeerLine
from tideflow.cluster.peers.service import VERSION, exchange_method
from tideflow.platform import clock
from tideflow.runtime.loop import spawn
from tideflow.runtime.rendezvous import Received
from tideflow.transport import Channel
from tideflow.wire import errors
from tideflow.wire import messages as pb

_LOGGER = logging.getLogger(__name__)

# How long a consumer waits to be given a value before it asks.  Well below the second within which
# a dead producer must be noticed, well above the time of a step that is of interest.
ASK_AFTER_S = 0.2
# From one that is heard of meanwhile, it waits longer.
_ASK_BUSY_AFTER_S = 2.0
# A value made before the line was there stays with its producer: the first steps ask.
_SETTLE_S = 0.05

# When a line is tried again with a plain peer, and with one that could not be reached.
_PLAIN_S = 30.0
_RETRY_S = 0.1


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

    __slots__ = ("future", "since_s")

    def __init__(self, future: PushAnswer, since_s: float) -> None:
        self.future = future
        self.since_s = since_s

    def ask(self) -> None:
        """Let the consumer ask."""
        if not self.future.done():
            self.future.set_result(None)


class PeerLink:
    """What a worker knows of one other.

    Args:
      links: those that it belongs to.
      task: the other's name in the cluster.
    Attributes:
      line: what to push and to ask for runs on; None where there is none.
      pushes: whether values come without being asked for.
    """

    def __init__(self, links: PeerLinks, task: str) -> None:
        self.line: PeerLine | None = None
        self.pushes = False
        self.is_opening = False
        self._links = links
        self._task = task
        self._retry_at_s = 0.0
        self._waits: dict[PushWait, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        # How many frames had come when it was last looked at who waits.
        self._last_count = 0

    # ---- the line

    def greet(self) -> None:
        """Begin to open a line, if there is none and it makes sense."""
        if self.line is not None or self.is_opening or self._links.is_closed:
            return
        if clock.monotonic_s() >= self._retry_at_s:
            self.is_opening = True
            spawn(self._open())

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
        self.is_opening = False
        self.attach(line)

    def _on_end(self, line: PeerLine, error: errors.OpError | None) -> None:
        _LOGGER.debug("no line to %s: %s", self._task, error)
        self.is_opening = False
        plain = isinstance(error, errors.UnimplementedError)
        self._retry_at_s = clock.monotonic_s() + (_PLAIN_S if plain else _RETRY_S)
        self.detach(line)

    def attach(self, line: PeerLine) -> None:
        """Use a line on which the peer has said hello, in place of an older one."""
        line.has_unseen_elsewhere = self._links.has_unseen
        older, self.line = self.line, line
        if older is not None:
            older.close()
        asyncio.get_running_loop().call_later(_SETTLE_S, self._settle, line)

    def _settle(self, line: PeerLine) -> None:
        self.pushes = self.pushes or self.line is line

    def detach(self, line: PeerLine) -> None:
        """Take note that a line has ended; whoever waits for what comes on it asks."""
        if self.line is line:
            self.line = None
            self.pushes = False
            self.end_waits()
            if not self._links.is_closed:
                self._links.on_lost(self._task)

    def close(self) -> None:
        """End the line; let all waits go on by asking."""
        if self.line is not None:
            self.line.close()
        self.end_waits()

    # ---- waits

    def wait(self, answer: PushAnswer | None = None) -> PushWait:
        """Begin to wait for a value; by default it becomes the result of a future."""
        loop = asyncio.get_running_loop()
        made = PushWait(answer or loop.create_future(), clock.monotonic_s())
        self._waits[made] = None
        if self._timer is None:
            self._timer = loop.call_later(ASK_AFTER_S, self._look)
        return made

    def forget(self, wait: PushWait) -> None:
        """Note the end of a wait."""
        self._waits.pop(wait, None)

    def _look(self) -> None:
        """Let those ask who have waited for long; come back while somebody waits."""
        self._timer = None
        now_s = clock.monotonic_s()
        # Who gets frames from the producer knows that it is alive; it may have much to do.
        count = 0 if self.line is None else self.line.received_count
        patience_s = ASK_AFTER_S if count == self._last_count else _ASK_BUSY_AFTER_S
        self._last_count = count
        for wait in list(self._waits):
            left_s = min(wait.since_s + patience_s - now_s, ASK_AFTER_S)
            if left_s > 0.001:
                # Waits are in the order of their beginnings.
                self._timer = asyncio.get_running_loop().call_later(left_s, self._look)
                return
            wait.ask()
            self.forget(wait)

    def end_waits(self) -> None:
        """Let all waits go on by asking; the timer ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for wait in list(self._waits):
            wait.ask()
        self._waits.clear()


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
        if link.is_opening and self.own_task < task:
            raise errors.AbortedError(f"{self.own_task} is opening a line to {task} itself")
        link.attach(line)
        line.say_hello(self.hello())
        return link

    def close(self) -> None:
        """End all lines."""
        self.is_closed = True
        for link in self._links.values():
            link.close()
