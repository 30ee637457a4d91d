"""The master of one server: it keeps sessions, and runs their steps on the cluster's workers.

A handler here decodes, asks the session, encodes; what a session does is in master_session.
Source: master.cc of TensorFlow 2.21; runtime facts on MasterService.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from tideflow.blocking import GRAPHS, run_blocking
from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.collectives import CollectiveSteps
from tideflow.cluster.decoding import decoded, encoded, encoding_takes_long, takes_long
from tideflow.cluster.joinable_steps import JoinableSteps
from tideflow.cluster.master.callables import Callables
from tideflow.cluster.master.device_discovery import (
    ClusterDevices,
    allowed_tasks,
    describe,
    discover_devices,
)
from tideflow.cluster.master.partial_steps import PartialSteps
from tideflow.cluster.master.run_metadata import step_options
from tideflow.cluster.master.session import MasterSession
from tideflow.cluster.master.session_deletions import SessionDeletions
from tideflow.cluster.master.task_watch import TaskWatch
from tideflow.cluster.owned import Owned
from tideflow.cluster.reach import require_reachable
from tideflow.cluster.recent_requests import RecentRequests
from tideflow.cluster.services import MasterService
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.compile.prune import Signature
from tideflow.platform import clock
from tideflow.transport import AtOnce, Caller, current_caller
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import worker_name
from tideflow.wire.parted import MaybeParted, graph_contents, take_apart, with_tensors
from tideflow.wire.tensor_codec import Value, decode_for_others

M = TypeVar("M", pb.RunStepResponse, pb.RunCallableResponse)

_LOGGER = logging.getLogger(__name__)
_RECENT_REQUESTS = 10_000
# Sessions whose clients' connections have ended.  They may come back, as TensorFlow's do after half
# an hour in which they had nothing to say; but what clients leave behind when they die is bounded.
CLIENT_GONE_S = 24 * 3600.0
MOST_WITHOUT_CLIENT = 100
RECONNECT_S = 60.0
LOOK_EVERY_S = 10.0


class Master(MasterService):
    """Answers clients.

    Args:
      workers: the cluster's workers.  The own task's worker is called directly: its steps by
        `run_graph(GraphRun) -> GraphResult`, the rest by its RPC methods.
      default_config: merged under each client's ConfigProto (ServerDef.default_session_config).
      session_gc_s: sessions that nobody used for so long are closed; 0 keeps those whose clients
        are there, and bounds the others.
      collective_steps: chooses the ids of steps with collectives.

    Make it anywhere, use it on the event loop.  A server calls `await master.close()` at its end,
    which cancels all steps and closes all sessions, and reads `master.sessions` for its status.
    """

    def __init__(
        self,
        workers: WorkerCache,
        default_config: pb.ConfigProto | None = None,
        session_gc_s: float = 0.0,
        collective_steps: CollectiveSteps | None = None,
    ) -> None:
        self.workers = workers
        self._collective_steps = collective_steps
        self.default_config = default_config or pb.ConfigProto()
        self.session_gc_s = session_gc_s
        self.sessions: Owned[str, OpenSession] = Owned(
            OpenSession.close,
            self._abandoned,
            min(session_gc_s / 4 if session_gc_s > 0 else LOOK_EVERY_S, LOOK_EVERY_S),
        )
        self._requests = RecentRequests(_RECENT_REQUESTS)
        self._steps = JoinableSteps(_RECENT_REQUESTS)
        self._closed = False
        self._deletions = SessionDeletions()
        self._waiting: list[tuple[WorkerCache, dict[str, str]]] = []
        self._watch = TaskWatch(workers, lambda: [one.session for one in self.sessions.values()])
        if workers.peers is not None:
            workers.peers.on_lost = self._watch.suspect

    # ---- sessions

    async def CreateSession(
        self, given: MaybeParted[pb.CreateSessionRequest]
    ) -> pb.CreateSessionResponse:
        self._check_open()
        request, _ = take_apart(given)
        config = pb.ConfigProto()
        config.CopyFrom(self.default_config)
        config.MergeFrom(request.config)
        if config.use_per_session_threads or config.session_inter_op_thread_pool:
            raise errors.InvalidArgumentError(
                "use_per_session_threads and session_inter_op_thread_pool have no meaning for a "
                "session on a server, whose threads all sessions share; leave them out"
            )
        workers, owns = self._workers_for(config, request.target)
        try:
            devices = await self._discover(workers, config.device_filters)
            session = MasterSession(
                workers,
                devices,
                config,
                owns_workers=owns,
                suspect=self._watch.suspect,
                deletions=self._deletions,
                collective_steps=self._collective_steps,
            )
        except BaseException:
            if owns:
                await workers.close()
            raise
        if not owns:
            self._note_incarnations(devices)
        await session.create(request.graph_def, graph_contents(given))
        if self._closed:
            await session.close()
            self._check_open()
        self.sessions.add(session.handle, OpenSession(session, current_caller()))
        self._watch.patrol()
        return pb.CreateSessionResponse(session_handle=session.handle)

    async def _discover(self, workers: WorkerCache, filters: Sequence[str]) -> ClusterDevices:
        missing: dict[str, str] = {}
        waiting = (workers, missing)
        self._waiting.append(waiting)
        try:
            return await discover_devices(workers, filters, "CreateSession", missing)
        finally:
            self._waiting.remove(waiting)

    def waited_for(self) -> list[str]:
        """Return the tasks that sessions in the making wait for: where each is, and why."""
        found = [text for waiting in self._waiting for text in describe(*waiting)]
        return list(dict.fromkeys(found))

    def _note_incarnations(self, devices: ClusterDevices) -> None:
        """Let sessions end whose tasks have restarted."""
        for task in devices.tasks:
            self._watch.saw(task, devices.incarnation_of(task) or 0)

    def _workers_for(self, config: pb.ConfigProto, target: str) -> tuple[WorkerCache, bool]:
        """Return the workers of a session, and whether they are for that session alone."""
        if not config.cluster_def.job:
            return self.workers, False
        try:
            cluster = ClusterSpec(config.cluster_def)
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgumentError(f"ConfigProto.cluster_def: {error}") from None
        require_reachable(cluster, self.workers.cluster)
        own = own_task(cluster, target)
        if own == self.workers.own_task:
            raise errors.InvalidArgumentError(
                f"ConfigProto.cluster_def calls this server {own}, the name that it was started "
                "with; a cluster_def is for servers that take part under other names"
            )
        return WorkerCache(own, self.workers.own_worker, cluster, self.workers.settings), True

    async def ExtendSession(
        self, given: MaybeParted[pb.ExtendSessionRequest]
    ) -> pb.ExtendSessionResponse:
        request, _ = take_apart(given)
        found = self._find(request.session_handle)
        version = await found.session.extend(
            request.graph_def, graph_contents(given), request.current_graph_version
        )
        return pb.ExtendSessionResponse(new_graph_version=version)

    async def CloseSession(self, request: pb.CloseSessionRequest) -> pb.CloseSessionResponse:
        self._find(request.session_handle)
        await self.sessions.close(request.session_handle)
        return pb.CloseSessionResponse()

    def _find(self, handle: str) -> OpenSession:
        found = self.sessions.get(handle)
        if found is None:
            raise errors.AbortedError(
                f"{self.workers.own_task} has no session {handle!r}: it was closed, or the server "
                "has restarted since. Make a new session"
            )
        return found

    # ---- steps

    async def RunStep(
        self, given: MaybeParted[pb.RunStepRequest]
    ) -> MaybeParted[pb.RunStepResponse]:
        found = self.RunStep_at_once(given)
        return await found if isinstance(found, Coroutine) else found

    def RunStep_at_once(
        self, given: MaybeParted[pb.RunStepRequest]
    ) -> AtOnce[MaybeParted[pb.RunStepResponse]]:
        """Run a step in the caller's turn of the loop, if it is short and waits for nothing."""
        request, contents = take_apart(given)
        try:
            joined = self._steps.joined(request.request_id, "RunStep")
            if joined is not None:
                return joined
            found = self._find(request.session_handle)
            if request.partial_run_handle:
                step: AtOnce[MaybeParted[pb.RunStepResponse]] = _run_partial_step(
                    found, request, contents
                )
            else:
                step = _begin_step(found.session, request, contents)
            if not isinstance(step, Coroutine):
                return step
            return self._steps.run(request.request_id, _stored(request, step))
        except errors.OpError as error:
            return _in_body(request, error)

    async def run_step(
        self,
        session_handle: str,
        signature: Signature,
        feeds: Sequence[Value],
        options: pb.RunOptions | None,
    ) -> tuple[list[Value], pb.RunMetadata]:
        """Run a step on values; what RunStep does between decoding and encoding.

        For clients in this process.  Feeds must be of the types that the graph has there.
        """
        return await self._find(session_handle).session.run(signature, feeds, options)

    async def PartialRunSetup(
        self, request: pb.PartialRunSetupRequest
    ) -> pb.PartialRunSetupResponse:
        self._requests.check(request.request_id, "PartialRunSetup")
        found = self._find(request.session_handle)
        signature = _signature(request.feed, request.fetch, request.target)
        handle = await found.partial_steps.set_up(signature)
        return pb.PartialRunSetupResponse(partial_run_handle=handle)

    async def MakeCallable(self, request: pb.MakeCallableRequest) -> pb.MakeCallableResponse:
        self._requests.check(request.request_id, "MakeCallable")
        found = self._find(request.session_handle)
        handle = await found.callables.make(request.options)
        return pb.MakeCallableResponse(handle=handle)

    async def RunCallable(
        self, given: MaybeParted[pb.RunCallableRequest]
    ) -> MaybeParted[pb.RunCallableResponse]:
        request, contents = take_apart(given)
        joined = self._steps.joined(request.request_id, "RunCallable")
        if joined is not None:
            return cast("MaybeParted[pb.RunCallableResponse]", await joined)
        work = self._run_callable(request, contents)
        found = await self._steps.run(request.request_id, work)
        return cast("MaybeParted[pb.RunCallableResponse]", found)

    async def _run_callable(
        self, request: pb.RunCallableRequest, contents: Mapping[int, memoryview]
    ) -> MaybeParted[pb.RunCallableResponse]:
        found = self._find(request.session_handle)
        made = found.callables.find(request.handle)
        names = made.signature.feeds
        if len(request.feed) < len(names):
            raise errors.InvalidArgumentError(
                f"callable {request.handle} takes {len(names)} feeds ({', '.join(names)}); "
                f"{len(request.feed)} came"
            )
        feeds = await decoded(
            request.feed,
            lambda: [
                _decode_feed(name, tensor_pb, contents.get(position), number)
                for position, (name, tensor_pb, number) in enumerate(
                    zip(names, request.feed, made.feed_types)
                )
            ],
            contents,
        )
        values, metadata = await found.callables.run(made, feeds)
        response = await _with_metadata(pb.RunCallableResponse, metadata)
        return await encoded(response, [("", value) for value in values])

    def caller_lost(self, task: asyncio.Task[Any]) -> bool:
        return self._steps.caller_lost(task)

    async def ReleaseCallable(
        self, request: pb.ReleaseCallableRequest
    ) -> pb.ReleaseCallableResponse:
        self._find(request.session_handle).callables.release(request.handle)
        return pb.ReleaseCallableResponse()

    # ---- the cluster

    async def ListDevices(self, request: pb.ListDevicesRequest) -> pb.ListDevicesResponse:
        handle = request.session_handle
        if not handle:
            devices = await discover_devices(self.workers, (), "ListDevices")
            return _listed(devices.attributes, devices.own_count)
        if handle not in self.sessions:
            raise errors.InvalidArgumentError(
                f"{self.workers.own_task} has no session {handle!r} whose devices it could list"
            )
        session = self.sessions[handle].session
        every = session.devices.attributes
        return _listed(every, 1 if session.is_propagated else len(every))

    async def Reset(self, request: pb.ResetRequest) -> pb.ResetResponse:
        tasks = allowed_tasks(self.workers, request.device_filters)
        await self.sessions.close_all()
        cleanup = pb.CleanupAllRequest(container=request.container)
        await asyncio.gather(*(self.workers.get(task).CleanupAll(cleanup) for task in tasks))
        return pb.ResetResponse()

    # ---- life

    async def close(self) -> None:
        """Close all sessions; their running steps fail with CancelledError."""
        self._closed = True
        self._watch.close()
        self._steps.close()
        try:
            await self.sessions.stop()
        finally:
            await self._deletions.close()

    def _check_open(self) -> None:
        if self._closed:
            raise errors.UnavailableError(f"the server {self.workers.own_task} is stopping")

    def _abandoned(self, sessions: Mapping[str, OpenSession]) -> list[tuple[str, str]]:
        """Return the sessions that nobody is going to use, each with the reason."""
        now_s = clock.monotonic_s()
        idle = {
            handle: now_s - found.session.last_used_s
            for handle, found in sessions.items()
            if not found.session.is_busy
        }
        if self.session_gc_s > 0:
            return [
                (handle, f"unused for {idle_s:.0f} s")
                for handle, idle_s in idle.items()
                if idle_s >= self.session_gc_s
            ]
        left = [
            (idle_s, handle)
            for handle, idle_s in idle.items()
            if sessions[handle].client_has_left and idle_s >= RECONNECT_S
        ]
        left.sort()  # those used last stay
        return [
            (handle, f"its client has left, {idle_s:.0f} s after using it")
            for place, (idle_s, handle) in enumerate(left)
            if place >= MOST_WITHOUT_CLIENT or idle_s >= CLIENT_GONE_S
        ]


class OpenSession:
    """A session with its partial runs and callables.

    Args:
      client: the connection on which it was made, if that is known.
    """

    __slots__ = ("_client", "callables", "partial_steps", "session")

    def __init__(self, session: MasterSession, client: Caller | None = None) -> None:
        self.session = session
        self._client = client
        self.partial_steps = PartialSteps(session)
        self.callables = Callables(session)

    @property
    def client_has_left(self) -> bool:
        """Whether the connection on which the session was made has ended."""
        return self._client is not None and self._client.has_left

    async def close(self) -> None:
        """End the session."""
        await self.session.close(before_delete=self.partial_steps.close)


def own_task(cluster: ClusterSpec, target: str) -> str:
    """Return the task of a cluster whose address is a session's target.

    Raises: InvalidArgumentError unless there is exactly one.
    """
    address = target.partition("://")[2] or target
    found = [
        worker_name(job, index)
        for job in cluster.jobs
        for index in cluster.task_indices(job)
        if cluster.task_address(job, index) == address
    ]
    if len(found) != 1:
        which = "no task has" if not found else f"{' and '.join(found)} have"
        raise errors.InvalidArgumentError(
            f"ConfigProto.cluster_def: {which} the address {address!r} of the session's target; "
            "the master must find itself exactly once"
        )
    return found[0]


def _begin_step(
    session: MasterSession, request: pb.RunStepRequest, contents: Mapping[int, memoryview]
) -> AtOnce[MaybeParted[pb.RunStepResponse]]:
    feed_names = [named.name for named in request.feed]
    signature = _signature(feed_names, request.fetch, request.target)
    options = request.options if request.HasField("options") else None
    is_recorded = step_options(options, session.config).records
    prepared = session.prepared(signature, is_recorded)
    if prepared is None or takes_long((named.tensor for named in request.feed), contents):
        return _run_first(session, signature, request, contents, is_recorded)
    feeds = _decode_feeds(request, contents, prepared.graph.feed_types)
    if prepared.local is not None:
        values = session.run_at_once(prepared.local, feeds)
        if values is not None:
            if encoding_takes_long(values):
                return _step_response(signature, values, pb.RunMetadata())
            response = pb.RunStepResponse(metadata=pb.RunMetadata())
            return with_tensors(response, zip(signature.fetches, values))
    return _run_step(session, signature, feeds, options)


async def _run_first(
    session: MasterSession,
    signature: Signature,
    request: pb.RunStepRequest,
    contents: Mapping[int, memoryview],
    is_recorded: bool,
) -> MaybeParted[pb.RunStepResponse]:
    """Run a step that is to be prepared before its feeds can be read, or whose feeds are large."""
    types = await session.feed_types(signature, is_recorded)
    feeds = await decoded(
        (named.tensor for named in request.feed),
        lambda: _decode_feeds(request, contents, types),
        contents,
    )
    options = request.options if request.HasField("options") else None
    return await _run_step(session, signature, feeds, options)


async def _run_step(
    session: MasterSession,
    signature: Signature,
    feeds: Sequence[Value],
    options: pb.RunOptions | None,
) -> MaybeParted[pb.RunStepResponse]:
    values, metadata = await session.run(signature, feeds, options)
    return await _step_response(signature, values, metadata)


async def _with_metadata(kind: type[M], metadata: pb.RunMetadata) -> M:
    """Return a response with the records of a step, whose graphs may have large constants."""
    if not metadata.partition_graphs:
        return kind(metadata=metadata)
    return await run_blocking(GRAPHS, lambda _: kind(metadata=metadata))


async def _step_response(
    signature: Signature, values: Sequence[Value], metadata: pb.RunMetadata
) -> MaybeParted[pb.RunStepResponse]:
    response = await _with_metadata(pb.RunStepResponse, metadata)
    return await encoded(response, list(zip(signature.fetches, values)))


async def _stored(
    request: pb.RunStepRequest, work: Awaitable[MaybeParted[pb.RunStepResponse]]
) -> MaybeParted[pb.RunStepResponse]:
    """Return what comes of a step, or its error as `_in_body` does."""
    try:
        return await work
    except errors.OpError as error:
        return _in_body(request, error)


def _in_body(request: pb.RunStepRequest, error: errors.OpError) -> pb.RunStepResponse:
    """Return the response that holds an error, if the client asks for that; else raise it."""
    if not request.store_errors_in_response_body:
        raise error
    return pb.RunStepResponse(status_code=error.error_code, status_error_message=error.message)


def _decode_feeds(
    request: pb.RunStepRequest, contents: Mapping[int, memoryview], types: Sequence[int]
) -> list[Value]:
    return [
        _decode_feed(named.name, named.tensor, contents.get(position), number)
        for position, (named, number) in enumerate(zip(request.feed, types))
    ]


async def _run_partial_step(
    found: OpenSession, request: pb.RunStepRequest, contents: Mapping[int, memoryview]
) -> MaybeParted[pb.RunStepResponse]:
    handle = request.partial_run_handle
    types = found.partial_steps.feed_types(handle)

    def decode() -> dict[str, Value]:
        feeds: dict[str, Value] = {}
        for position, named in enumerate(request.feed):
            if named.name in feeds:
                raise errors.InvalidArgumentError(f"fed more than once: {named.name}")
            feeds[named.name] = _decode_feed(
                named.name, named.tensor, contents.get(position), types.get(named.name)
            )
        return feeds

    feeds = await decoded((named.tensor for named in request.feed), decode, contents)
    fetches = list(dict.fromkeys(request.fetch))
    values, is_last = await found.partial_steps.run(handle, feeds, fetches)
    response = pb.RunStepResponse()
    if is_last:
        response.metadata.SetInParent()
    return await encoded(response, list(zip(fetches, values)))


def _signature(feeds: Iterable[str], fetches: Iterable[str], targets: Iterable[str]) -> Signature:
    return Signature(tuple(feeds), tuple(dict.fromkeys(fetches)), tuple(dict.fromkeys(targets)))


def _decode_feed(
    name: str, tensor_pb: pb.TensorProto, content: memoryview | None, wanted: int | None
) -> Value:
    """Return a feed's value.  Raises: InternalError for another element type, as TensorFlow does;
    InvalidArgumentError for a malformed message."""
    if wanted is not None and tensor_pb.dtype != wanted:
        try:
            found = dtypes.as_dtype(int(tensor_pb.dtype)).name
        except TypeError:
            raise errors.InvalidArgumentError(
                f"feed {name!r} is a tensor of unknown type {int(tensor_pb.dtype)}"
            ) from None
        raise errors.InternalError(
            f"feed {name!r} is of type {found}; the graph has {dtypes.as_dtype(wanted).name} there"
        )
    try:
        return decode_for_others(tensor_pb, content)
    except errors.OpError as error:
        raise error.with_message(f"feed {name!r}: {error.message}") from None


def _listed(devices: Sequence[pb.DeviceAttributes], local_count: int) -> pb.ListDevicesResponse:
    return pb.ListDevicesResponse(
        local_device=devices[:local_count], remote_device=devices[local_count:]
    )
