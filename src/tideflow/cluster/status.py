# mypy: disable-error-code="empty-body"
"""What a server says of itself: the service behind `tideflow status`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import tideflow
from tideflow.cluster.master import Master, MasterSession
from tideflow.cluster.services import MasterService
from tideflow.cluster.worker import Worker, WorkerSession
from tideflow.cluster.worker.step_states import NotableStep
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.platform import clock
from tideflow.platform.settings import Settings
from tideflow.runtime.device import Device
from tideflow.runtime.resources import ResourceManager
from tideflow.transport import MethodStatistics, Service, methods_of, rpc
from tideflow.wire import messages as pb


class StatusService(Service, name="tideflow.Status"):
    """What `tideflow status` asks of a server; a real TensorFlow answers UNIMPLEMENTED."""

    @rpc
    async def GetServerStatus(self, request: pb.ServerStatusRequest) -> pb.ServerStatusResponse: ...


class StatusPage(StatusService):
    """Tells the status of one task.

    Args:
      worker, master: of the task.
    """

    def __init__(self, worker: Worker, master: Master) -> None:
        self._worker = worker
        self._master = master
        self._started_s = clock.monotonic_s()

    async def GetServerStatus(self, request: pb.ServerStatusRequest) -> pb.ServerStatusResponse:
        worker = self._worker
        return pb.ServerStatusResponse(
            task=worker.task,
            address=worker.workers.address(worker.task),
            pid=os.getpid(),
            version=tideflow.__version__,
            uptime_s=clock.monotonic_s() - self._started_s,
            cluster=worker.workers.cluster.as_cluster_def(),
            device=[device.attributes() for device in worker.devices.devices],
            master_session=[_master_row(found.session) for found in self._master.sessions.values()],
            worker_session=[_session_status(s) for s in _sessions_of(worker)],
            resource=[row for device in worker.devices.devices for row in _resources(device)],
            method=[*_method_rows([self._master, worker]), *_peer_rows(worker.workers)],
            running_steps=worker.steps.running_count,
            waited_for=self._master.waited_for(),
            step=[_step_row(step) for step in worker.steps.notable(request.long_step_s)],
            warning=_warnings(worker.settings),
        )


def _warnings(settings: Settings) -> list[str]:
    found = []
    if settings.insecure:
        found.append("answers whoever reaches it (--insecure): anybody can run code as its user")
    elif settings.insecure_peers:
        found.append(f"answers the hosts of {settings.insecure_peers} without proof")
    if settings.local_users and not settings.insecure:
        found.append("answers all users of its host (--allow-local-users)")
    return found


def _sessions_of(worker: Worker) -> Iterator[WorkerSession]:
    yield from worker.sessions.values()
    # The worker's own session exists always; it is of interest once somebody uses it.
    if worker.legacy_session.graphs:
        yield worker.legacy_session


def _master_row(session: MasterSession) -> pb.SessionStatus:
    return pb.SessionStatus(
        handle=session.handle,
        graph_version=session.graph.version,
        node_count=len(session.graph.nodes),
        step_count=session.step_count,
    )


def _session_status(session: WorkerSession) -> pb.SessionStatus:
    return pb.SessionStatus(
        handle=session.handle,
        made_by=session.master_task,
        node_count=sum(graph.node_count for graph in session.graphs.values()),
        step_count=session.run_count,
        graph_count=len(session.graphs),
        is_isolated=session.isolated,
    )


def _step_row(step: NotableStep) -> pb.StepStatus:
    return pb.StepStatus(
        step_id=step.step_id, is_running=step.is_running, seconds=step.seconds, story=step.story
    )


def _resources(device: Device) -> list[pb.ResourceStatus]:
    manager: ResourceManager = device.resources
    return [
        pb.ResourceStatus(
            device=device.name,
            container=row.container,
            name=row.name,
            kind=row.kind,
            dtype=row.dtype,
            shape=row.shape,
            size_bytes=row.size_bytes,
        )
        for row in manager.snapshot()
    ]


def _method_rows(services: Iterable[MasterService | Worker]) -> list[pb.MethodStatus]:
    rows = []
    for service in services:
        for name, counts in service.statistics.items():
            if counts.calls:
                rows.append(_method_row(methods_of(type(service))[name].path, counts))
    return rows


def _peer_rows(workers: WorkerCache) -> list[pb.MethodStatus]:
    return [
        _method_row(path, counts, channel.target)
        for channel in workers.channels()
        for path, counts in channel.statistics.items()
    ]


def _method_row(path: str, counts: MethodStatistics, peer: str = "") -> pb.MethodStatus:
    return pb.MethodStatus(
        path=path,
        peer=peer,
        calls=counts.calls,
        errors=counts.errors,
        in_flight=counts.in_flight,
        received_bytes=counts.received_bytes,
        sent_bytes=counts.sent_bytes,
        total_s=counts.total_s,
    )
