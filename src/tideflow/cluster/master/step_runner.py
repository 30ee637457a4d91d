"""Run one step of a partitioned graph on the workers that have its parts.

Rule 1: the first failure ends the other parts: at once when it is a cause, a moment later when it
        only follows from one (the cause is on its way).  Nothing is left blocked.
Rule 2: whoever cancels the step waits until all parts have ended.
Rule 3: each worker is told to clean up after every step, failed or not; nobody waits for that.
Source: master_session.cc (RunPartitionsHelper) of TensorFlow 2.21; runtime facts on RunGraph.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from tideflow.blocking import spawn
from tideflow.cluster.decoding import decoded, encoded
from tideflow.cluster.graph_run import GraphResult, GraphRun
from tideflow.cluster.peers import KnownPeer
from tideflow.cluster.repeated_calls import repeated
from tideflow.cluster.services import WorkerService
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.ids import new_request_id
from tideflow.wire.parted import take_apart
from tideflow.wire.status import aggregate, error_from_body, from_worker, is_derived
from tideflow.wire.tensor_codec import Value, decode_for_others

_LOGGER = logging.getLogger(__name__)

# How long a failure that follows from another one waits for that one to arrive.
_CAUSE_GRACE_S = 0.2


@runtime_checkable
class RunsOnValues(Protocol):
    """A worker of this process, which needs no messages."""

    async def run_graph(self, run: GraphRun) -> GraphResult:
        """Run a registered graph."""

    def run_at_once(
        self, session_handle: str, graph_handle: str, args: Sequence[Value]
    ) -> list[Value] | None:
        """Run a registered graph that has no part elsewhere and takes its feeds as arguments; None
        when it would wait or take long."""


@dataclass(slots=True)
class StepPart:
    """One worker's registered part of a graph.

    Attributes:
      peer: what is known of the worker as a tideflow peer; None for one that is none for sure.
      local: the worker if it is of this process.
    """

    task: str
    worker: WorkerService
    graph_handle: str
    peer: KnownPeer | None = None
    local: RunsOnValues | None = field(init=False)

    def __post_init__(self) -> None:
        self.local = self.worker if isinstance(self.worker, RunsOnValues) else None


@dataclass(slots=True)
class StepOptions:
    """What a step is to record."""

    record_timeline: bool = False
    record_partition_graphs: bool = False
    record_costs: bool = False
    log_transfers: bool = False

    @property
    def records(self) -> bool:
        """Whether there is anything to be read from the results."""
        return (
            self.record_timeline
            or self.record_partition_graphs
            or self.record_costs
            or self.log_transfers
        )


@dataclass(slots=True)
class StepRun:
    """One call of a step.

    Attributes:
      step_id: the same on all workers.
      sends: values for the client device's task, by key; only `client_task` is given them.
      recv_keys: keys whose values that task is to return.
      args: the feeds, for a graph that takes them by value; in the place of sends and recv_keys.
    """

    session_handle: str
    step_id: int
    client_task: str
    sends: Mapping[str, Value] = field(default_factory=dict)
    recv_keys: Sequence[str] = ()
    options: StepOptions = field(default_factory=StepOptions)
    is_partial: bool = False
    is_last_partial_run: bool = False
    args: Sequence[Value] | None = None


async def run_parts(parts: Sequence[StepPart], run: StepRun) -> dict[str, GraphResult]:
    """Run all parts, and return their results by task; there is none of what needs nothing run.

    Raises: the error of the step, with the workers it came from; UnavailableError that names the
    task and address of a worker that is gone.
    """
    if len(parts) == 1:
        part = parts[0]
        try:
            return {part.task: await (_ask_peer(part, run) or _run_part(part, run))}
        except errors.OpError as error:
            raise from_worker(error, part.task) from None
    # Peers first: they are asked at once, before anything is computed here.
    asked = [_ask_peer(part, run) for part in parts]
    tasks = [
        asyncio.ensure_future(_run_part(part, run)) if future is None else future
        for part, future in zip(parts, asked)
    ]
    try:
        if tasks:
            await _until_first_error(tasks)
    finally:
        # For all that comes here by an error or a cancellation; otherwise they have ended.
        for task in tasks:
            task.cancel()
        await _all_ended(tasks)
    failures = [
        from_worker(failure, part.task)
        for part, task in zip(parts, tasks)
        if not task.cancelled() and isinstance(failure := task.exception(), errors.OpError)
    ]
    if failures:
        raise aggregate(failures)
    return {part.task: task.result() for part, task in zip(parts, tasks)}


async def _until_first_error(tasks: Sequence[asyncio.Future[GraphResult]]) -> None:
    """Wait until all have ended, or one has failed, and if with a consequence, its cause has had
    time to come."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    left = len(tasks)
    grace: asyncio.TimerHandle | None = None

    def end() -> None:
        if not over.done():
            over.set_result(None)

    def ended(task: asyncio.Future[GraphResult]) -> None:
        nonlocal left, grace
        left -= 1
        error = None if task.cancelled() else task.exception()
        if not left or task.cancelled():
            end()
        elif isinstance(error, errors.OpError) and is_derived(error):
            grace = grace or loop.call_later(_CAUSE_GRACE_S, end)
        elif error is not None:
            end()

    for task in tasks:
        task.add_done_callback(ended)
    try:
        await over
    finally:
        if grace is not None:
            grace.cancel()


async def _all_ended(tasks: Sequence[asyncio.Future[GraphResult]]) -> None:
    """Wait for the end of all tasks, even when cancelled meanwhile."""
    cancelled = False
    while any(not task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


def _ask_peer(part: StepPart, run: StepRun) -> asyncio.Future[GraphResult] | None:
    """Let a tideflow peer run its part; None where that is not possible, or needs more words."""
    stream = None if part.peer is None else part.peer.stream
    if stream is None or part.task == run.client_task or run.is_partial:
        return None
    if run.options.records:
        return None
    graph_run = GraphRun(run.session_handle, part.graph_handle, run.step_id)
    return stream.ask_run(graph_run, functools.partial(_join_on_peer, part, run))


async def _join_on_peer(part: StepPart, run: StepRun, lost: errors.OpError) -> GraphResult:
    """Join the run of a peer whose stream has ended, under the number of the step.

    Raises: the error of the run; `lost` where the peer is gone or the run unknown.
    """
    try:
        return await _run_remotely(part, run, is_client=False, request_id=run.step_id)
    except errors.UnavailableError as error:
        if is_derived(error):
            raise
        raise lost from None


async def _run_part(part: StepPart, run: StepRun) -> GraphResult:
    is_client = part.task == run.client_task
    if part.local is not None:
        return await part.local.run_graph(
            GraphRun(
                run.session_handle,
                part.graph_handle,
                run.step_id,
                run.sends if is_client else {},
                run.recv_keys if is_client else (),
                run.options.record_timeline,
                run.options.record_partition_graphs,
                0,
                run.is_partial,
                run.is_last_partial_run,
                run.args if is_client else None,
                run.options.record_costs,
            )
        )
    return await _run_remotely(part, run, is_client)


async def _run_remotely(
    part: StepPart, run: StepRun, is_client: bool, request_id: int = 0
) -> GraphResult:
    request = pb.RunGraphRequest(
        session_handle=run.session_handle,
        create_worker_session_called=True,
        graph_handle=part.graph_handle,
        step_id=run.step_id,
        exec_opts=pb.ExecutorOpts(
            record_timeline=run.options.record_timeline,
            record_partition_graphs=run.options.record_partition_graphs,
            record_costs=run.options.record_costs,
        ),
        is_partial=run.is_partial,
        is_last_partial_run=run.is_last_partial_run,
        store_errors_in_response_body=True,
        request_id=request_id or new_request_id(),
    )
    sends: Mapping[str, Value] = {}
    if is_client:
        sends = run.sends
        request.recv_key.extend(run.recv_keys)
    whole = await encoded(request, list(sends.items()))
    answer = await repeated(part.worker, lambda: part.worker.RunGraph(whole))
    response, contents = take_apart(answer)
    error = error_from_body(response.status_code, response.status_error_message)
    if error is not None:
        raise error

    def decode() -> dict[str, Value]:
        return {
            named.name: decode_for_others(named.tensor, contents.get(position))
            for position, named in enumerate(response.recv)
        }

    values = await decoded((named.tensor for named in response.recv), decode, contents)
    return GraphResult(
        [values[key] for key in request.recv_key],
        # TensorFlow's workers send what they timed for the costs, too.
        response.step_stats if run.options.record_timeline else None,
        list(response.partition_graph),
        response.cost_graph,
    )


async def clean_up(parts: Sequence[StepPart], step_id: int) -> None:
    """Tell the workers that a step is over; only the own one, which answers at once, is awaited."""
    request = pb.CleanupGraphRequest(step_id=step_id)
    for part in parts:
        stream = None if part.peer is None else part.peer.stream
        if part.local is not None:
            await part.worker.CleanupGraph(request)
        elif stream is not None:
            stream.clean_up(step_id)
        else:
            spawn(_clean_up_at(part, request))


async def _clean_up_at(part: StepPart, request: pb.CleanupGraphRequest) -> None:
    try:
        await part.worker.CleanupGraph(request)
    except errors.OpError as error:
        # A worker that is gone has nothing left to clean up.
        _LOGGER.debug("CleanupGraph at %s: %s", part.task, error)
