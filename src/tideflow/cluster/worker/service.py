"""The worker of a task: runs parts of graphs for masters, and hands tensors to other workers.

Each RPC decodes, asks the core, encodes.  The core works on values (`run_graph`), and a master in
the same process calls it without messages.
Source: runtime facts on WorkerService.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from tideflow.blocking import GRAPHS, run_blocking
from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.collectives import CollectiveHost
from tideflow.cluster.decoding import decoded, encoded
from tideflow.cluster.graph_run import ComponentRun, GraphResult, GraphRun
from tideflow.cluster.joinable_steps import JoinableSteps
from tideflow.cluster.owned import Owned
from tideflow.cluster.peers import PeerTable
from tideflow.cluster.reach import require_reachable
from tideflow.cluster.rpc_log import RpcLog
from tideflow.cluster.services import WorkerService
from tideflow.cluster.worker.peer_server import Peer, WorkerHost
from tideflow.cluster.worker.session import RegisteredGraph, WorkerSession, renamed_devices
from tideflow.cluster.worker.step_table import StepRecord, StepTable
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.platform import clock
from tideflow.platform.settings import Settings, process_settings
from tideflow.runtime.context import Step
from tideflow.runtime.cost_graph import cost_graph
from tideflow.runtime.device import DeviceManager
from tideflow.runtime.frames import DeadFetchError
from tideflow.runtime.graph_runner import local_step
from tideflow.runtime.step_stats import StepStatsCollector
from tideflow.transport import MethodStatistics, has_pipes
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.buffer_reply import BufferReply
from tideflow.wire.device_name import local_name, worker_name
from tideflow.wire.parted import MaybeParted, graph_contents, take_apart
from tideflow.wire.rendezvous_key import RendezvousKey
from tideflow.wire.status import is_derived, mark_derived, mark_possibly_restarted
from tideflow.wire.tensor_codec import Value, decode_tensor
from tideflow.wire.tensor_reply import TensorReply, dead_reply

_RECENT_REQUESTS = 100_000
# A message cannot be longer; the rest is for its other fields.
_MOST_TENSOR_BYTES = 2**31 - 1 - 4096


class Worker(WorkerService):
    """Implements WorkerService on this task's devices.  Use it on the loop.

    Args:
      task: this task's name, `/job:worker/replica:0/task:0`.
      devices: its devices, named for that task.
      cluster: the tasks that the worker may fetch tensors from.
      settings: of its server; the process's by default.
      collective_leader: the task that leads groups of collectives; "" to choose one.
    """

    def __init__(
        self,
        task: str,
        devices: DeviceManager,
        cluster: ClusterSpec,
        *,
        settings: Settings | None = None,
        collective_leader: str = "",
    ) -> None:
        self.task = task
        self.devices = devices
        self.settings = settings or process_settings()
        self.workers = WorkerCache(task, self, cluster, self.settings)
        self.log = RpcLog()
        self.steps = StepTable(self.log)
        self._runs = JoinableSteps(_RECENT_REQUESTS)
        self._receives = JoinableSteps(_RECENT_REQUESTS)
        self._host: WorkerHost | None = None
        if self.settings.peer:
            runs = self.statistics.setdefault("RunGraph", MethodStatistics())
            self._host = WorkerHost(self.steps, self.run_graph, self._runs.keep, runs)
            self.workers.link_peers("", self._host)
        has_lines = self._host is not None and has_pipes(self.settings)
        self.collectives = CollectiveHost(collective_leader, has_lines)
        self._own_collectives = self.collectives.engine(self.workers, devices)
        self.legacy_session = WorkerSession(
            "", devices, self.workers, collectives=self._own_collectives
        )
        self.sessions: Owned[str, WorkerSession] = Owned(self._end_session)

    # ---- who it is

    async def GetStatus(self, request: pb.GetStatusRequest) -> pb.GetStatusResponse:
        return pb.GetStatusResponse(
            device_attributes=[device.attributes() for device in self.devices.devices]
        )

    # ---- sessions

    async def CreateWorkerSession(
        self, request: pb.CreateWorkerSessionRequest
    ) -> pb.CreateWorkerSessionResponse:
        handle = request.session_handle
        if not handle:
            raise errors.InvalidArgumentError("CreateWorkerSession needs a session_handle")
        if handle not in self.sessions:
            await self._drop_older(request.master_task, request.master_incarnation)
        if handle not in self.sessions:  # another call may have made it meanwhile
            self.sessions.add(handle, self._make_session(request))
        return pb.CreateWorkerSessionResponse()

    async def _drop_older(self, master_task: str, incarnation: int) -> None:
        """Drop the sessions that an earlier life of a master left behind."""
        if not master_task:
            return
        for session in list(self.sessions.values()):
            if session.master_task == master_task and session.master_incarnation != incarnation:
                await self.sessions.close(session.handle)

    def _make_session(self, request: pb.CreateWorkerSessionRequest) -> WorkerSession:
        server_pb = request.server_def
        maker = functools.partial(
            WorkerSession,
            request.session_handle,
            master_task=request.master_task,
            master_incarnation=request.master_incarnation,
        )
        if not server_pb.cluster.job:
            return maker(
                self.devices,
                self.workers,
                isolated=request.isolate_session_state,
                collectives=self._own_collectives,
            )
        job, task = server_pb.job_name, server_pb.task_index
        try:
            cluster = ClusterSpec(server_pb.cluster)
            cluster.task_address(job, task)
        except ValueError as error:
            raise errors.InvalidArgumentError(
                f"CreateWorkerSession's server_def: {error}"
            ) from None
        require_reachable(cluster, self.workers.cluster)
        devices = renamed_devices(self.devices, job, task)
        workers = WorkerCache(worker_name(job, task), self, cluster, self.settings)
        if self._host is not None:
            workers.link_peers(request.session_handle, self._host)
        collectives = self.collectives.engine(workers, devices)
        return maker(devices, workers, isolated=True, owns_workers=True, collectives=collectives)

    def adopt(self, session: WorkerSession) -> None:
        """Know a session that something else of this task owns, as the eager service does."""
        if self._host is not None:
            session.workers.link_peers(session.handle, self._host)
        if session.handle not in self.sessions:
            self.sessions.add(session.handle, session)

    def release(self, session: WorkerSession) -> None:
        """Know a session no longer, nor its collectives."""
        if self.sessions.get(session.handle) is session:
            self.sessions.disown(session.handle)
        if session.state.collectives is not self._own_collectives:
            self.collectives.drop(session.state.collectives)

    async def DeleteWorkerSession(
        self, request: pb.DeleteWorkerSessionRequest
    ) -> pb.DeleteWorkerSessionResponse:
        await self.sessions.close(request.session_handle)
        return pb.DeleteWorkerSessionResponse()

    async def _end_session(self, session: WorkerSession) -> None:
        error = errors.AbortedError(f"{self.task} dropped session {session.handle!r}")
        self.steps.fail_where(lambda record: record.owner is session, mark_derived(error))
        self.release(session)
        await session.close()

    def _session(self, handle: str, created: bool) -> WorkerSession:
        """Return the session that a request means.  Raises: AbortedError for an unknown one."""
        if not created or not handle:
            return self.legacy_session
        found = self.sessions.get(handle)
        if found is None:
            raise mark_possibly_restarted(
                errors.AbortedError(
                    f"{self.task} does not know session {handle!r}: the task may have restarted "
                    "and lost its state. Make a new session, and restore from a checkpoint"
                )
            )
        return found

    def peers_of(self, handle: str) -> PeerTable | None:
        """Return the peers to peers of a session's cluster; None for one that is not here."""
        if not handle:
            return self.workers.peers
        session = self.sessions.get(handle)
        return None if session is None else session.workers.peers

    def peer(self) -> Peer | None:
        """Return the service for tideflow peers; None where the extensions are off."""
        return None if self._host is None else Peer(self._host, self.peers_of)

    def serve_components(self, run: Callable[[ComponentRun], Awaitable[None]]) -> None:
        """Let peers ask for runs of component functions, too."""
        if self._host is not None:
            self._host.component_runner = run

    # ---- graphs

    async def RegisterGraph(
        self, given: MaybeParted[pb.RegisterGraphRequest]
    ) -> pb.RegisterGraphResponse:
        request, _ = take_apart(given)
        session = self._session(request.session_handle, request.create_worker_session_called)
        graph = await run_blocking(
            GRAPHS,
            lambda flag: session.prepare(
                request.graph_def, graph_contents(given), request.graph_options, flag
            ),
        )
        return pb.RegisterGraphResponse(graph_handle=session.add(graph))

    async def DeregisterGraph(
        self, request: pb.DeregisterGraphRequest
    ) -> pb.DeregisterGraphResponse:
        session = self._session(request.session_handle, request.create_worker_session_called)
        session.remove(request.graph_handle)
        return pb.DeregisterGraphResponse()

    # ---- steps

    async def RunGraph(
        self, request: MaybeParted[pb.RunGraphRequest]
    ) -> MaybeParted[pb.RunGraphResponse]:
        message, _ = take_apart(request)
        if message.request_id == message.step_id and self._host is not None:
            # The master has asked for it on a stream that has ended.
            self._host.keep_run(message.step_id)
        try:
            joined = self._runs.joined(message.request_id, "RunGraph")
            if joined is None:
                joined = self._runs.run(message.request_id, self._answer_run(request))
            answer: MaybeParted[pb.RunGraphResponse] | None = await joined
            # What was asked for on a stream fetches nothing.
            return pb.RunGraphResponse() if answer is None else answer
        except errors.OpError as error:
            # A body has no room for the mark of a derived error, and without it the error would
            # count as a cause; so derived ones fail the call even then.
            if not message.store_errors_in_response_body or is_derived(error):
                raise
            return pb.RunGraphResponse(
                status_code=error.error_code, status_error_message=error.message
            )

    async def _answer_run(
        self, request: MaybeParted[pb.RunGraphRequest]
    ) -> MaybeParted[pb.RunGraphResponse]:
        message, contents = take_apart(request)
        sent = (named.tensor for named in message.send)
        run = await decoded(sent, lambda: _decode_run(request), contents)
        result = await self.run_graph(run)
        return await _encode_result(run, result)

    async def run_graph(self, run: GraphRun) -> GraphResult:
        """Run a registered graph on values; what RunGraph does between decoding and encoding.

        Cancelling the call cancels the step on this worker.
        Raises: what RunGraph answers, see runtime facts; of failures in the step the first one.
        """
        session = self._session(run.session_handle, created=True)
        _check_keys(run, session)
        if run.is_partial:
            return await self._run_partially(run, session)
        graph = session.graph(run.graph_handle)
        session.run_count += 1
        record = self.steps.start(run.step_id, session)
        async with self.steps.running(record):
            is_observed = run.record_timeline or run.record_costs
            collector = StepStatsCollector() if is_observed else None
            values = await _execute(graph, record, run.sends, collector, run.args or ())
            if run.args is None:
                values = await _collect(record, run.recv_keys)
        if run.record_partition_graphs or run.record_costs:
            # Graphs are written, which may have large constants.
            return await run_blocking(GRAPHS, lambda _: _recorded(run, graph, values, collector))
        return _recorded(run, graph, values, collector)

    def run_at_once(
        self, session_handle: str, graph_handle: str, args: Sequence[Value]
    ) -> list[Value] | None:
        """Run a registered graph that has no part elsewhere and takes its feeds as arguments; None
        when it would wait or take long."""
        session = self._session(session_handle, created=True)
        runner = session.graph(graph_handle).runner
        if runner is None:
            return []
        values = runner.run_at_once(local_step(0), args)
        if values is not None:
            session.run_count += 1
        return values

    async def _run_partially(self, run: GraphRun, session: WorkerSession) -> GraphResult:
        """Run one call of a partial run: the first one starts the executors, the last one waits
        for their end."""
        known = self.steps.find(run.step_id)
        if known is None or known.partial is None:
            graph = self._partial_graph(run, session)
            session.run_count += 1
            record = self.steps.start(run.step_id, session)
            record.partial = asyncio.get_running_loop().create_task(
                self._run_in_background(graph, record)
            )
        else:
            record = known
        assert record.rendezvous is not None
        assert record.partial is not None
        async with self.steps.running(record):
            for key, value in run.sends.items():
                record.rendezvous.put(key, value)
            values = await _collect(record, run.recv_keys)
            if run.is_last_partial_run:
                await asyncio.wait([record.partial])
                if record.error is not None:
                    raise record.error
        return GraphResult(values)

    def _partial_graph(self, run: GraphRun, session: WorkerSession) -> RegisteredGraph:
        try:
            return session.graph(run.graph_handle)
        except errors.AbortedError as error:
            if run.is_last_partial_run:
                raise
            raise errors.InternalError(f"a partial run cannot start: {error.message}") from None

    async def _run_in_background(self, graph: RegisteredGraph, record: StepRecord) -> None:
        """Run a partial run's executors; a failure reaches its calls through the step."""
        try:
            async with self.steps.running(record):
                await _execute(graph, record, {}, None)
        except (errors.OpError, asyncio.CancelledError):
            assert record.error is not None

    async def CleanupGraph(self, request: pb.CleanupGraphRequest) -> pb.CleanupGraphResponse:
        self.steps.clean_up(request.step_id)
        return pb.CleanupGraphResponse()

    async def CleanupAll(self, request: pb.CleanupAllRequest) -> pb.CleanupAllResponse:
        for device in self.devices.devices:
            device.resources.cleanup(request.container)
        return pb.CleanupAllResponse()

    # ---- tensors

    async def RecvTensor(self, request: pb.RecvTensorRequest) -> TensorReply:
        # The value leaves the step when it is sent: a request that comes again joins the one that
        # waits for it.  What was answered is not kept, as nobody would say when to let it go.
        joined = self._receives.joined(request.request_id, "RecvTensor")
        if joined is None:
            joined = self._receives.run(request.request_id, self._send(request))
        reply: TensorReply = await joined
        return reply

    async def _send(self, request: pb.RecvTensorRequest) -> TensorReply:
        key = RendezvousKey.parse(request.rendezvous_key)
        self._check_source(key, request.step_id)
        value, is_dead = await self.steps.receive(request.step_id, request.rendezvous_key)
        now_us = clock.wall_ns() // 1000
        if is_dead:
            return dead_reply(now_us)
        _require_sendable(value, request.rendezvous_key)
        return TensorReply(value, send_start_us=now_us)

    def _check_source(self, key: RendezvousKey, step_id: int) -> None:
        """Refuse a key that no device of this task can serve."""
        self._check_incarnation(key.src_device, key.src_incarnation, key.name)
        record = self.steps.find(step_id)
        session = None if record is None else record.owner
        if isinstance(session, WorkerSession) and key.src_device not in session.devices:
            raise errors.InvalidArgumentError(
                f"tensor {key.name!r} of step {step_id} is made by {key.src_device}, but this is "
                f"{session.workers.own_task}"
            )

    def _check_incarnation(self, src_device: str, incarnation: int, name: str) -> None:
        device = self.devices.get(local_name(src_device))
        if device.incarnation != incarnation:
            raise mark_possibly_restarted(
                errors.AbortedError(
                    f"{src_device} is in incarnation {device.incarnation:016x} now; "
                    f"{name!r} is wanted from {incarnation:016x}, which is gone: the task has "
                    "restarted. Make a new session"
                )
            )

    async def MarkRecvFinished(
        self, request: pb.MarkRecvFinishedRequest
    ) -> pb.MarkRecvFinishedResponse:
        # Responses are never kept for a second try, so there is nothing to let go.
        return pb.MarkRecvFinishedResponse()

    # ---- collectives

    async def CompleteGroup(self, request: pb.CompleteGroupRequest) -> pb.CompleteGroupResponse:
        return await self.collectives.complete_group(request)

    async def CompleteInstance(
        self, request: pb.CompleteInstanceRequest
    ) -> pb.CompleteInstanceResponse:
        return await self.collectives.complete_instance(request)

    async def GetStepSequence(
        self, request: pb.GetStepSequenceRequest
    ) -> pb.GetStepSequenceResponse:
        return self.collectives.get_step_sequence(request)

    async def RecvBuf(self, request: pb.RecvBufRequest) -> BufferReply:
        # As RecvTensor: a buffer leaves its group when it is sent.
        joined = self._receives.joined(request.request_id, "RecvBuf")
        if joined is None:
            work = self.collectives.receive_buffer(request, self._check_incarnation)
            joined = self._receives.run(request.request_id, work)
        reply: BufferReply = await joined
        return reply

    def caller_lost(self, task: asyncio.Task[Any]) -> bool:
        return self._runs.caller_lost(task) or self._receives.caller_lost(task)

    # ---- records

    async def Logging(self, request: pb.LoggingRequest) -> pb.LoggingResponse:
        response = pb.LoggingResponse(step=self.log.fetch(request.fetch_step_id))
        if request.disable_rpc_logging:
            self.log.set_enabled(False)
        if request.enable_rpc_logging:
            self.log.set_enabled(True)
        if request.clear:
            self.log.clear()
        return response

    # ---- life

    async def close(self) -> None:
        """Fail all steps, drop all sessions and close all connections."""
        self._runs.close()
        self._receives.close()
        error = errors.CancelledError(f"{self.task} is shutting down")
        self.steps.fail_where(lambda record: True, error)
        await self.sessions.stop()
        await self.legacy_session.close()
        self.collectives.close()
        await self.workers.close()


async def _execute(
    graph: RegisteredGraph,
    record: StepRecord,
    sends: Mapping[str, Value],
    collector: StepStatsCollector | None,
    args: Sequence[Value] = (),
) -> list[Value]:
    """Run a graph in a step; return its results."""
    rendezvous = record.rendezvous
    assert rendezvous is not None
    for key, value in sends.items():
        rendezvous.put(key, value)
    if graph.runner is None:
        return []
    try:
        return await graph.runner.run_async(Step(record.step_id, rendezvous, collector), args)
    except DeadFetchError as error:
        # TensorFlow's workers give it another code than its local sessions do.
        raise errors.InternalError(error.message, node=error.node) from None


async def _collect(record: StepRecord, keys: Sequence[str]) -> list[Value]:
    """Take the values that a caller asked for.

    Raises: InternalError for a dead one; the step's error.
    """
    values = []
    for key in keys:
        received = record.local.take_nowait(key)
        if received is None:
            received = await record.local.take(key)
        if received.is_dead:
            name = RendezvousKey.parse(key).name
            raise errors.InternalError(
                f"{name!r} is fetched, but was not computed: control flow took another way"
            )
        values.append(received.value)
    return values


def _check_keys(run: GraphRun, session: WorkerSession) -> None:
    for key in run.sends:
        source = RendezvousKey.parse(key).src_device
        if source not in session.devices:
            raise errors.InvalidArgumentError(
                f"the value sent as {key!r} comes from {source}, which is not a device of "
                f"{session.workers.own_task} in session {session.handle!r}"
            )
    for key in run.recv_keys:
        try:
            RendezvousKey.parse(key)
        except errors.InvalidArgumentError as error:
            raise errors.InternalError(f"recv_key: {error.message}") from None


def _decode_run(given: MaybeParted[pb.RunGraphRequest]) -> GraphRun:
    request, contents = take_apart(given)
    opts = request.exec_opts
    return GraphRun(
        session_handle=request.session_handle if request.create_worker_session_called else "",
        graph_handle=request.graph_handle,
        step_id=request.step_id,
        sends={
            named.name: decode_tensor(named.tensor, contents.get(position))
            for position, named in enumerate(request.send)
        },
        recv_keys=list(request.recv_key),
        record_timeline=opts.record_timeline,
        record_partition_graphs=opts.record_partition_graphs,
        request_id=request.request_id,
        record_costs=opts.record_costs,
        is_partial=request.is_partial,
        is_last_partial_run=request.is_last_partial_run,
    )


def _recorded(
    run: GraphRun,
    graph: RegisteredGraph,
    values: list[Value],
    collector: StepStatsCollector | None,
) -> GraphResult:
    """Return the results of a run with the records that it asks for."""
    result = GraphResult(values)
    if run.record_partition_graphs:
        result.partition_graphs = graph.partition_graphs()
    if collector is not None:
        stats_pb = collector.to_proto()
        if run.record_timeline:
            result.step_stats = stats_pb
        if run.record_costs:
            result.cost_graph = cost_graph(graph.partition_graphs(), stats_pb)
    return result


async def _encode_result(run: GraphRun, result: GraphResult) -> MaybeParted[pb.RunGraphResponse]:
    response = pb.RunGraphResponse()
    if graphs := result.partition_graphs:
        await run_blocking(GRAPHS, lambda _: response.partition_graph.extend(graphs))
    for key, value in zip(run.recv_keys, result.values):
        _require_sendable(value, key)
    if result.step_stats is not None:
        response.step_stats.CopyFrom(result.step_stats)
    if result.cost_graph is not None:
        response.cost_graph.CopyFrom(result.cost_graph)
    elif not run.is_partial:
        response.cost_graph.SetInParent()
    return await encoded(response, list(zip(run.recv_keys, result.values)))


def _require_sendable(value: Any, key: str) -> None:
    """Refuse a tensor that no message can hold."""
    size_bytes = getattr(value, "nbytes", 0)
    if size_bytes > _MOST_TENSOR_BYTES:
        name = RendezvousKey.parse(key).name
        raise errors.ResourceExhaustedError(
            f"tensor {name!r} has {size_bytes} bytes; a message carries at most "
            f"{_MOST_TENSOR_BYTES}. Split it before it is sent, for example over several variables"
        )
