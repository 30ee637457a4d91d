"""One session of a master: a graph that grows, and the steps that run parts of it.

Each signature (feeds, fetches, targets) is pruned, split and registered with the workers once;
after that a step only runs.  A signature whose preparation failed is prepared anew the next time.
Source: master_session.cc of TensorFlow 2.21; runtime facts on MasterService.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from tideflow.blocking import GRAPHS, run_blocking
from tideflow.cluster.collectives import CollectiveSteps
from tideflow.cluster.graph_run import GraphResult
from tideflow.cluster.master.device_discovery import ClusterDevices, gather_or_cancel
from tideflow.cluster.master.partitioned_graph import Connections, PartitionedGraph, SessionGraph
from tideflow.cluster.master.run_metadata import (
    make_metadata,
    start_transfer_log,
    step_options,
    take_transfer_log,
)
from tideflow.cluster.master.session_deletions import SessionDeletions
from tideflow.cluster.master.step_runner import (
    RunsOnValues,
    StepOptions,
    StepPart,
    StepRun,
    clean_up,
    run_parts,
)
from tideflow.cluster.step_sequences import StepSequences
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.compile.prune import Signature
from tideflow.compile.rewrite import Rewrites
from tideflow.platform import clock
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import parse_device_name
from tideflow.wire.graph_contents import GraphContents
from tideflow.wire.ids import new_handle, new_step_id, signed64
from tideflow.wire.parted import with_graphs
from tideflow.wire.status import from_worker
from tideflow.wire.tensor_codec import Value


@dataclass(slots=True)
class PreparedStep:
    """A signature that the workers know.

    Attributes:
      local: the one part that it has, if that is this task's and takes its feeds by value.
    """

    graph: PartitionedGraph
    parts: list[StepPart]
    local: StepPart | None = field(init=False)

    def __post_init__(self) -> None:
        part = self.parts[0] if self.graph.by_value and len(self.parts) == 1 else None
        self.local = part if part is not None and part.local is not None else None


class MasterSession:
    """A client's session.  Use it on the event loop.

    Args:
      workers: the workers of the session's cluster.
      devices: those that the session may use.
      config: the client's, merged over the server's.
      owns_workers: whether the session closes them (a cluster of its own).
      suspect: is told of tasks that may be gone.
      deletions: tells the workers of the end.
      collective_steps: chooses the ids of steps with collectives.
    """

    def __init__(
        self,
        workers: WorkerCache,
        devices: ClusterDevices,
        config: pb.ConfigProto,
        owns_workers: bool = False,
        suspect: Callable[[str], None] = lambda task: None,
        deletions: SessionDeletions | None = None,
        collective_steps: CollectiveSteps | None = None,
    ) -> None:
        self.handle = new_handle()
        self._collective_steps = collective_steps or CollectiveSteps(StepSequences(), "")
        self.workers = workers
        self.devices = devices
        self.config = config
        self.step_count = 0
        self.last_used_s = clock.monotonic_s()
        self._owns_workers = owns_workers
        self._suspect = suspect
        self._deletions = deletions or SessionDeletions()
        self._relied_on: dict[str, int] = {}
        self._lost: errors.OpError | None = None
        self._interrupted: dict[asyncio.Task[Any], errors.OpError] = {}
        rewrites = Rewrites.asked(config.graph_options)
        self.graph = SessionGraph(
            devices, config.allow_soft_placement, rewrites, config.log_device_placement
        )
        self._graph_lock = asyncio.Lock()
        self._prepared: dict[Any, asyncio.Future[PreparedStep]] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._closing = asyncio.Event()
        self.client_task = devices.tasks[0]
        self._has_local_part = isinstance(workers.get(self.client_task), RunsOnValues)

    # ---- life

    async def create(self, graph_pb: pb.GraphDef, contents: GraphContents) -> None:
        """Take the first nodes, and make the session known to its workers.

        contents: to which constants of the graph refer.
        Raises: OpError; then no worker knows the session any more, and its own connections are
        closed.
        """
        try:
            async with self._graph_lock:
                await self._add(graph_pb, contents)
        except BaseException:
            if self._owns_workers:
                await self.workers.close()
            raise
        try:
            await gather_or_cancel([self._create_at(task) for task in self.devices.tasks])
        except BaseException:
            await self._delete_everywhere()
            raise

    async def _create_at(self, task: str) -> None:
        await self.workers.get(task).CreateWorkerSession(self._create_request(task))

    def _create_request(self, task: str) -> pb.CreateWorkerSessionRequest:
        config = self.config
        incarnation = self.devices.client_incarnation
        request = pb.CreateWorkerSessionRequest(
            session_handle=self.handle,
            server_def=server_def(task),
            isolate_session_state=config.isolate_session_state or self._owns_workers,
            master_task=self.client_task,
            master_incarnation=signed64(incarnation),
        )
        if self._owns_workers:
            request.server_def.cluster.CopyFrom(self.workers.cluster.as_cluster_def())
        if (
            config.share_cluster_devices_in_session
            or config.experimental.share_cluster_devices_in_session
        ):
            request.cluster_device_attributes.extend(self.devices.attributes)
        return request

    async def close(self, before_delete: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cancel all steps, wait for them, and end the session at its workers.

        before_delete is awaited once nothing runs any more.
        """
        self._closing.set()
        tasks = [task for task in self._running if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._prepared.clear()
        if before_delete is not None:
            await before_delete()
        await self._delete_everywhere()

    async def _delete_everywhere(self) -> None:
        await self._deletions.tell(
            self.workers, self.devices.tasks, self.handle, self._owns_workers
        )

    # ---- the graph

    async def extend(
        self, graph_pb: pb.GraphDef, contents: GraphContents, current_version: int
    ) -> int:
        """Add nodes, and return the graph's new version.

        contents: to which constants of the graph refer.
        Raises: AbortedError for another version than the current one; OpError for what is wrong
        with the nodes.  Then nothing has changed.
        """
        async with self.active(), self._graph_lock:
            if current_version != self.graph.version:
                raise errors.AbortedError(
                    f"the session's graph has version {self.graph.version}; the extension is made "
                    f"for version {current_version}"
                )
            await self._add(graph_pb, contents)
            self.graph.version += 1
            return self.graph.version

    async def _add(self, graph_pb: pb.GraphDef, contents: GraphContents) -> None:
        """Add nodes; whoever is cancelled has added none.  The graph's lock is held."""
        graph = self.graph
        # What the thread has made is added here, at once: until then the call may still end.
        graph.add(await run_blocking(GRAPHS, lambda flag: graph.read(graph_pb, contents, flag)))

    async def prepare(
        self,
        signature: Signature,
        connections: Connections = (),
        is_partial: bool = False,
        is_recorded: bool = False,
    ) -> PreparedStep:
        """Return a signature's prepared step, made and registered on first use."""
        # The part of the graph that a signature needs never changes, as graphs only grow.
        key = (signature, tuple(connections), is_partial, is_recorded)
        while True:
            found = self._prepared.get(key)
            if found is None:
                return await self._prepare_first(key)
            if found.done():
                return found.result()
            try:
                return await asyncio.shield(found)
            except asyncio.CancelledError:
                # Was the one that prepares given up, or this wait?
                task = asyncio.current_task()
                if not found.cancelled() or (task is not None and task.cancelling()):
                    raise

    async def _prepare_first(self, key: tuple[Signature, Connections, bool, bool]) -> PreparedStep:
        signature, connections, is_partial, is_recorded = key
        # Records show feeds and fetches pass by the rendezvous, as TensorFlow's do.
        by_value = self._has_local_part and not is_partial and not is_recorded
        future: asyncio.Future[PreparedStep] = asyncio.get_running_loop().create_future()
        self._prepared[key] = future
        try:
            async with self._graph_lock:
                graph = await run_blocking(
                    GRAPHS,
                    lambda flag: self.graph.split(
                        signature, connections, is_partial, by_value, flag
                    ),
                )
            made = PreparedStep(graph, await self._register(graph))
        except BaseException as error:
            self._prepared.pop(key, None)
            if isinstance(error, errors.OpError):
                future.set_exception(error)
                future.exception()  # there may be nobody else to see it
            else:
                future.cancel()
            raise
        future.set_result(made)
        return made

    async def _register(self, graph: PartitionedGraph) -> list[StepPart]:
        key = graph.collective_key

        async def register(task: str, graph_pb: pb.GraphDef) -> StepPart:
            worker = self.workers.get(task)
            peer = self.workers.peer(task)
            if peer is not None:
                peer.greet()
            # A message copies what it is given, and a graph may have many nodes.
            request = await run_blocking(
                GRAPHS,
                lambda flag: pb.RegisterGraphRequest(
                    session_handle=self.handle,
                    create_worker_session_called=True,
                    graph_def=graph_pb,
                    graph_options=self.config.graph_options,
                    config_proto=self.config,
                    collective_graph_key=key,
                ),
            )
            response = await worker.RegisterGraph(with_graphs(request, graph.contents))
            self._rely_on(task)
            return StepPart(task, worker, response.graph_handle, peer)

        found = await gather_or_cancel([register(t, part) for t, part in graph.parts.items()])
        # Registered graphs are not needed here any more, and may be large.
        graph.parts, graph.contents = {}, {}
        return found

    # ---- steps

    def active(self) -> AbstractAsyncContextManager[None]:
        """Count the current task among what `close` cancels and waits for.

        Raises: CancelledError (the protocol's) when the session is or gets closed; the errors given
        to `lose` and `interrupt`.
        """
        return _Active(self)

    def _began(self, task: asyncio.Task[Any]) -> None:
        if self._closing.is_set():
            raise self._closed_error()
        if self._lost is not None:
            raise self._lost.with_message(self._lost.message)
        self._running.add(task)

    def _interrupts(self, task: asyncio.Task[Any]) -> bool:
        """Whether `interrupt` has cancelled a task."""
        return task in self._interrupted

    def _reason(self, task: asyncio.Task[Any]) -> errors.OpError | None:
        """Return why this session has cancelled a task; None if it has not."""
        reason = self._interrupted.pop(task, None)
        return self._closed_error() if self._closing.is_set() else reason

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._interrupted.pop(task, None)
        self._running.discard(task)
        self.last_used_s = clock.monotonic_s()

    # ---- tasks that were lost

    def _rely_on(self, task: str) -> None:
        """Note that the session has a part of its graph at a task."""
        incarnation = self.devices.incarnation_of(task)
        if incarnation is not None and task != self.client_task and not self._owns_workers:
            self._relied_on[task] = incarnation

    def relied_on(self, task: str) -> int | None:
        """Return the incarnation of a task that the session needs; None for other tasks."""
        return None if self._lost is not None else self._relied_on.get(task)

    @property
    def tasks_relied_on(self) -> Collection[str]:
        """The tasks that the session needs."""
        return () if self._lost is not None else self._relied_on.keys()

    def lose(self, error: errors.OpError) -> None:
        """End: all that runs, and whatever is asked later, fails with the error."""
        self._lost = error
        self.interrupt(error)

    def interrupt(self, error: errors.OpError) -> None:
        """Fail what runs now."""
        for task in list(self._running):
            self._interrupted.setdefault(task, error.with_message(error.message))
            task.cancel()

    def _closed_error(self) -> errors.OpError:
        return errors.CancelledError("Session::Close: the session was closed")

    @property
    def is_propagated(self) -> bool:
        """Whether the session has a cluster of its own."""
        return self._owns_workers

    def prepared(self, signature: Signature, is_recorded: bool = False) -> PreparedStep | None:
        """Return a signature's step if it is prepared and the session open."""
        found = self._prepared.get((signature, (), False, is_recorded))
        if found is None or not found.done() or self._closing.is_set() or self._lost is not None:
            return None
        return found.result()

    async def feed_types(self, signature: Signature, is_recorded: bool) -> list[int]:
        """Return the element types of a signature's feeds, by number.  Raises: as `prepare`."""
        if not signature.feeds:
            return []
        async with self.active():
            prepared = await self.prepare(signature, is_recorded=is_recorded)
            return prepared.graph.feed_types

    @property
    def is_busy(self) -> bool:
        """Whether something of the session runs now."""
        return bool(self._running)

    async def run(
        self,
        signature: Signature,
        feeds: Sequence[Value],
        options: pb.RunOptions | None = None,
        connections: Connections = (),
    ) -> tuple[list[Value], pb.RunMetadata]:
        """Run one step; return the fetched values in the signature's order, and records."""
        recorded = step_options(options, self.config)
        async with self.active():
            prepared = await self.prepare(signature, connections, is_recorded=recorded.records)
            asked = 0 if options is None else options.experimental.collective_graph_key
            key = asked or prepared.graph.collective_key
            if not key:
                return await self._run_prepared(prepared, feeds, recorded, new_step_id())
            return await self._run_collective(prepared, feeds, recorded, key)

    async def _run_collective(
        self, prepared: PreparedStep, feeds: Sequence[Value], recorded: StepOptions, key: int
    ) -> tuple[list[Value], pb.RunMetadata]:
        """Run a step whose id the masters of all members of its collectives agree on."""
        steps = self._collective_steps
        step_id = await steps.next_id(self.workers, key)
        is_good = False
        try:
            found = await self._run_prepared(prepared, feeds, recorded, step_id)
            is_good = True
        finally:
            steps.retire(key, step_id, is_good)
        return found

    def run_at_once(self, part: StepPart, feeds: Sequence[Value]) -> list[Value] | None:
        """Run a step that has one part, here, and return the fetched values; None when it would
        wait or take long."""
        assert part.local is not None
        self.last_used_s = clock.monotonic_s()
        try:
            values = part.local.run_at_once(self.handle, part.graph_handle, feeds)
        except errors.OpError as error:
            raise from_worker(error, part.task) from None
        if values is not None:
            self.step_count += 1
        return values

    async def _run_prepared(
        self, prepared: PreparedStep, feeds: Sequence[Value], recorded: StepOptions, step_id: int
    ) -> tuple[list[Value], pb.RunMetadata]:
        graph = prepared.graph
        run = StepRun(self.handle, step_id, self.client_task, options=recorded)
        if graph.by_value:
            run.args = feeds
        else:
            keyed = zip(graph.feed_keys, feeds)
            run.sends = {key: value for key, value in keyed if key is not None}
            run.recv_keys = graph.fetch_keys
        self.step_count += 1
        results, metadata = await self._run_recorded(prepared.parts, run)
        return results[self.client_task].values if graph.fetch_keys else [], metadata

    async def _run_recorded(
        self, parts: Sequence[StepPart], run: StepRun
    ) -> tuple[dict[str, GraphResult], pb.RunMetadata]:
        log_transfers = run.options.log_transfers
        transfers: list[pb.StepStats] = []
        try:
            if log_transfers:
                await start_transfer_log(parts)
            results = await self._run_parts(parts, run)
        finally:
            if log_transfers:
                transfers = await take_transfer_log(parts, run.step_id)
            await clean_up(parts, run.step_id)
        if not run.options.records:
            return results, pb.RunMetadata()
        return results, await run_blocking(GRAPHS, lambda _: make_metadata(results, transfers))

    async def _run_parts(self, parts: Sequence[StepPart], run: StepRun) -> dict[str, GraphResult]:
        try:
            return await run_parts(parts, run)
        except (errors.UnavailableError, errors.AbortedError):
            for part in parts:
                if part.task in self._relied_on:
                    self._suspect(part.task)
            raise


def server_def(task: str) -> pb.ServerDef:
    """Return what CreateWorkerSession tells a task of itself, without a cluster."""
    spec = parse_device_name(task)
    return pb.ServerDef(job_name=spec.job or "", task_index=spec.task or 0, protocol="grpc")


class _Active:
    """What `MasterSession.active` gives; a class, as a generator takes four times as long."""

    __slots__ = ("_cancelling_before", "_session", "_task")

    def __init__(self, session: MasterSession) -> None:
        self._session = session

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling_before = task.cancelling()
        self._session._began(task)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        task, session = self._task, self._session
        late: asyncio.CancelledError | None = None
        try:
            if error is None and session._interrupts(task):
                # `interrupt` came too late to stop anything; take its cancellation in here.
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError as cancelled:
                    error = late = cancelled
            if isinstance(error, asyncio.CancelledError):
                reason = session._reason(task)
                if reason is not None:
                    if task.cancelling() > self._cancelling_before:
                        task.uncancel()
                    raise reason from None
        finally:
            session._ended(task)
        if late is not None:
            raise late
