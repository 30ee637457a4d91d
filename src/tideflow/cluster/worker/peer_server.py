"""The peer service of a worker: lines that other tideflow workers open, and what comes on them.

Source: tideflow/wire/proto/peer.proto.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tideflow.cluster.graph_run import ComponentRun, GraphResult, GraphRun
from tideflow.cluster.peers import VERSION, PeerHost, PeerLine, PeerLink, PeerLinks, PeerService
from tideflow.cluster.worker.step_table import StepTable
from tideflow.transport import Pipe, PipeReceiver
from tideflow.transport.statistics import CountedCall, MethodStatistics
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.tensor_codec import Value
from tideflow.wire.tensor_reply import dead_reply

_DEAD = dead_reply(0).value


class WorkerHost:
    """A worker as its lines see it.

    Args:
      steps: where pushed values go.
      run_graph: runs a registered graph.
      statistics: counts the runs.

    Attributes:
      component_runner: runs a component function; whoever keeps eager contexts sets it.
    """

    def __init__(
        self,
        steps: StepTable,
        run_graph: Callable[[GraphRun], Awaitable[GraphResult]],
        statistics: MethodStatistics,
    ) -> None:
        self._steps = steps
        self._run_graph = run_graph
        self._statistics = statistics
        self.component_runner: Callable[[ComponentRun], Awaitable[None]] | None = None
        self.advise_asking = steps.advise_asking
        self.end_step = steps.end_if_empty
        self.clean_up = steps.clean_up

    def accept(self, step_id: int, key: str, value: Value, is_dead: bool) -> bool:
        """Take in a pushed value; return whether it is ours now."""
        return self._steps.accept(step_id, key, _DEAD if is_dead else value, is_dead)

    async def run_graph(self, run: GraphRun) -> GraphResult:
        """Run a registered graph."""
        with CountedCall(self._statistics):
            return await self._run_graph(run)

    async def run_component(self, run: ComponentRun) -> None:
        """Run a component function."""
        if self.component_runner is None:
            raise errors.UnimplementedError("this worker keeps no eager contexts")
        await self.component_runner(run)


class Peer(PeerService):
    """Answers other tideflow workers for one worker.  Use it on the loop.

    Args:
      host: the worker.
      links_of: gives the links of a session's cluster, None for a session that is not here.
    """

    def __init__(self, host: PeerHost, links_of: Callable[[str], PeerLinks | None]) -> None:
        self._host = host
        self._links_of = links_of

    def accept_pipe(self, name: str, pipe: Pipe) -> PipeReceiver | None:
        return _accepted(self._host, self._links_of, pipe)


def _accepted(
    host: PeerHost, links_of: Callable[[str], PeerLinks | None], pipe: Pipe
) -> PipeReceiver:
    """Return the own end of a line that another worker opens."""
    link: PeerLink | None = None

    def on_hello(line: PeerLine, hello: pb.PeerHello) -> None:
        nonlocal link
        if hello.version != VERSION:
            raise errors.UnimplementedError(
                f"this worker speaks version {VERSION} with its peers, not {hello.version}"
            )
        links = links_of(hello.session_handle)
        if links is None:
            raise errors.FailedPreconditionError(f"there is no session {hello.session_handle!r}")
        link = links.accept(line, hello)

    def on_end(line: PeerLine, error: errors.OpError | None) -> None:
        if link is not None:
            link.detach(line)

    line = PeerLine(host, on_hello, on_end)
    line.pipe = pipe
    return line
