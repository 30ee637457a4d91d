"""The end of a session reaches workers that are away for a while."""

from __future__ import annotations

import asyncio

import pytest

from cluster.servers import free_ports
from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.master.session_deletions import SessionDeletions
from tideflow.cluster.services import WorkerService
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.transport import make_server
from tideflow.wire import errors
from tideflow.wire import messages as pb

OWN, PS = "/job:worker/replica:0/task:0", "/job:ps/replica:0/task:0"


class Told(WorkerService):
    """Takes note of sessions that are over."""

    def __init__(self) -> None:
        self.handles: list[str] = []
        self.was_told = asyncio.Event()

    async def DeleteWorkerSession(
        self, request: pb.DeleteWorkerSessionRequest
    ) -> pb.DeleteWorkerSessionResponse:
        self.handles.append(request.session_handle)
        self.was_told.set()
        return pb.DeleteWorkerSessionResponse()


async def test_a_worker_that_comes_late_is_told_on_connections_of_the_sessions_own():
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    workers = WorkerCache(OWN, Told(), ClusterSpec({"ps": [address]}))
    deletions, worker = SessionDeletions(), Told()
    await deletions.tell(workers, [PS], "session", owns_workers=True)
    assert not worker.handles
    server = make_server("grpc", [worker], address)
    await server.start()
    async with asyncio.timeout(20):
        await worker.was_told.wait()
        while True:  # they are closed once all are told
            try:
                workers.channel(PS)
            except errors.CancelledError:
                break
            await asyncio.sleep(0.001)
    assert worker.handles == ["session"]
    await server.stop()
    await deletions.close()


async def test_giving_up_closes_the_connections_of_a_session():
    (port,) = free_ports(1)
    workers = WorkerCache(OWN, Told(), ClusterSpec({"ps": [f"127.0.0.1:{port}"]}))
    deletions = SessionDeletions()
    await deletions.tell(workers, [PS], "session", owns_workers=True)
    await deletions.close()
    with pytest.raises(errors.CancelledError):
        workers.channel(PS)
