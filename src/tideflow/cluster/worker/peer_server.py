"""The peer service of a worker: streams that other tideflow workers open, and what comes on them.

Source: tideflow/wire/proto/peer.proto.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from tideflow.cluster.graph_run import ComponentRun, GraphResult, GraphRun
from tideflow.cluster.peers import VERSION, KnownPeer, PeerHost, PeerService, PeerStream, PeerTable
from tideflow.cluster.worker.step_table import StepTable
from tideflow.transport import MessageStream, StreamReceiver
from tideflow.transport.statistics import CountedCall, MethodStatistics
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.tensor_codec import Value
from tideflow.wire.tensor_reply import dead_reply

_DEAD = dead_reply(0).value
# More ends than a stream has on their way.
_MOST_ENDED = 4096


class WorkerHost:
    """A worker as its streams see it.

    Args:
      steps: where pushed values go.
      run_graph: runs a registered graph.
      keep: keeps a run whose caller may come again in another way, under the number of its step.
      statistics: counts the runs.

    Attributes:
      component_runner: runs a component function; whoever keeps eager contexts sets it.
    """

    def __init__(
        self,
        steps: StepTable,
        run_graph: Callable[[GraphRun], Awaitable[GraphResult]],
        keep: Callable[[int, asyncio.Future[None]], None],
        statistics: MethodStatistics,
    ) -> None:
        self._steps = steps
        self._run_graph = run_graph
        self._keep = keep
        self._running: dict[int, asyncio.Task[None]] = {}
        # The latest ends, which a peer may not have been told when its stream ended.
        self._ended: deque[tuple[int, BaseException | None]] = deque(maxlen=_MOST_ENDED)
        self._statistics = statistics
        self.component_runner: Callable[[ComponentRun], Awaitable[None]] | None = None
        self.advise_asking = steps.advise_asking
        self.end_step = steps.end_if_empty
        self.clean_up = steps.clean_up
        self.take_back = steps.take_back

    def accept(self, step_id: int, key: str, value: Value, is_dead: bool) -> bool:
        """Take in a pushed value; return whether it is ours now."""
        return self._steps.accept(step_id, key, _DEAD if is_dead else value, is_dead)

    async def run_graph(self, run: GraphRun) -> GraphResult:
        """Run a registered graph."""
        with CountedCall(self._statistics):
            return await self._run_graph(run)

    def run_began(self, step_id: int, task: asyncio.Task[None]) -> None:
        """Note the task that runs a registered graph for a peer."""
        self._running[step_id] = task

    def run_ended(self, step_id: int, task: asyncio.Task[None]) -> None:
        """Note its end."""
        if self._running.get(step_id) is task:
            del self._running[step_id]
        if not task.cancelled():
            self._ended.append((step_id, task.exception()))

    def keep_run(self, step_id: int) -> bool:
        """Keep a run that a peer asked for on a stream; return whether there is one."""
        running: asyncio.Future[None] | None = self._running.get(step_id)
        if running is None:
            running = self._as_ended(step_id)
        if running is None:
            return False
        self._keep(step_id, running)
        return True

    def _as_ended(self, step_id: int) -> asyncio.Future[None] | None:
        for known, error in reversed(self._ended):
            if known == step_id:
                found: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                if error is None:
                    found.set_result(None)
                else:
                    found.set_exception(error)
                    found.exception()  # there may be nobody to see it
                return found
        return None

    async def run_component(self, run: ComponentRun) -> None:
        """Run a component function."""
        if self.component_runner is None:
            raise errors.UnimplementedError("this worker keeps no eager contexts")
        await self.component_runner(run)


class Peer(PeerService):
    """Answers other tideflow workers for one worker.  Use it on the loop.

    Args:
      host: the worker.
      peers_of: gives the peers of a session's cluster, None for a session that is not here.
    """

    def __init__(self, host: PeerHost, peers_of: Callable[[str], PeerTable | None]) -> None:
        self._host = host
        self._links_of = peers_of

    def accept_message_stream(self, name: str, messages: MessageStream) -> StreamReceiver | None:
        return _accepted(self._host, self._links_of, messages)


def _accepted(
    host: PeerHost, peers_of: Callable[[str], PeerTable | None], messages: MessageStream
) -> StreamReceiver:
    """Return the own end of a stream that another worker opens."""
    peer: KnownPeer | None = None

    def on_hello(stream: PeerStream, hello: pb.PeerHello) -> None:
        nonlocal peer
        if hello.version != VERSION:
            raise errors.UnimplementedError(
                f"this worker speaks version {VERSION} with its peers, not {hello.version}"
            )
        peers = peers_of(hello.session_handle)
        if peers is None:
            raise errors.FailedPreconditionError(f"there is no session {hello.session_handle!r}")
        peer = peers.accept(stream, hello)

    def on_end(stream: PeerStream, error: errors.OpError | None) -> None:
        if peer is not None:
            peer.detach(stream)

    stream = PeerStream(host, on_hello, on_end)
    stream.messages = messages
    return stream
