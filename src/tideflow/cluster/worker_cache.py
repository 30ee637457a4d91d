"""Which object calls which worker of a cluster: the own one directly, others through channels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.peers import KnownPeer, PeerHost, PeerTable
from tideflow.cluster.services import WorkerService
from tideflow.platform.settings import Settings, process_settings
from tideflow.transport import Channel, make_channel, stub
from tideflow.wire import errors
from tideflow.wire.device_name import parse_device_name, worker_name

ChannelMaker = Callable[[str, str, Settings], Channel]


def _make_channel(address: str, peer_name: str, settings: Settings) -> Channel:
    return make_channel(address, peer_name=peer_name, settings=settings)


class WorkerCache:
    """Finds the WorkerService of a task by the task's name.

    A master and the workers' sessions hold one; a session with a cluster of its own (propagation)
    holds one made from that cluster.  Use it on the event loop.

    Args:
      own_task: this task's name in the cluster, `/job:worker/replica:0/task:0`.
      own_worker: the worker of this process; `get(own_task)` returns it itself.
      cluster: the tasks and their addresses.
      settings: of the server that this is for; the process's by default.
      channel_maker: makes a channel from an address, the peer's name and the settings.

    Attributes:
      settings: as given.
      peers: what is known of the tasks as tideflow peers; None where the extensions are off.
    """

    def __init__(
        self,
        own_task: str,
        own_worker: WorkerService,
        cluster: ClusterSpec,
        settings: Settings | None = None,
        channel_maker: ChannelMaker = _make_channel,
    ) -> None:
        self.settings = settings or process_settings()
        self.own_task = own_task
        self.own_worker = own_worker
        self.cluster = cluster
        self._channel_maker = channel_maker
        self._channels: dict[str, Channel] = {}
        self._workers: dict[str, WorkerService] = {own_task: own_worker}
        self._names = [
            worker_name(job, task) for job in cluster.jobs for task in cluster.task_indices(job)
        ]
        if own_task not in self._names:
            self._names.insert(0, own_task)
        self._closed = False
        self.peers: PeerTable | None = None

    def link_peers(self, scope: str, host: PeerHost) -> None:
        """Let the extensions be used with the tasks that have them.

        scope is the session whose cluster this is, "" for the servers' own; host is the own worker.
        """
        self.peers = PeerTable(self.channel, self.own_task, frozenset(self._names), scope, host)

    def get(self, task: str) -> WorkerService:
        """Return the worker of a task: the local object for the own task, else a stub.

        Raises: InvalidArgumentError for a task that the cluster lacks; CancelledError after close.
        """
        found = self._workers.get(task)
        if found is None:
            found = self._workers[task] = stub(WorkerService, self.channel(task))
        return found

    def peer(self, task: str) -> KnownPeer | None:
        """Return what is known of another task as a tideflow peer; None without the extensions."""
        return None if self.peers is None or task == self.own_task else self.peers.peer(task)

    def is_local(self, task: str) -> bool:
        """Whether the task is this process."""
        return task == self.own_task

    def set_own_address(self, address: str) -> None:
        """Note where this task is, once the system has chosen its port."""
        spec = parse_device_name(self.own_task)
        jobs = {job: self.cluster.tasks(job) for job in self.cluster.jobs}
        jobs[spec.job or ""] = {**jobs.get(spec.job or "", {}), spec.task or 0: address}
        self.cluster = ClusterSpec(jobs)

    def task_names(self) -> Sequence[str]:
        """Return the names of all tasks, by job and index."""
        return list(self._names)

    def address(self, task: str) -> str:
        """Return a task's `host:port`.

        Raises: InvalidArgumentError for a task that the cluster lacks.
        """
        spec = parse_device_name(task)
        try:
            return self.cluster.task_address(spec.job or "", -1 if spec.task is None else spec.task)
        except ValueError:
            raise errors.InvalidArgumentError(
                f"the cluster has no task {task}; its tasks are {', '.join(self._names)}"
            ) from None

    def channels(self) -> list[Channel]:
        """Return the channels that were made so far."""
        return list(self._channels.values())

    def channel(self, task: str) -> Channel:
        """Return the channel to a task; errors as in `get`."""
        if self._closed:
            raise errors.CancelledError(f"the connections of {self.own_task} were closed")
        found = self._channels.get(task)
        if found is None:
            found = self._channels[task] = self._channel_maker(
                self.address(task), task, self.settings
            )
        return found

    async def close(self) -> None:
        """Close all channels; calls in flight end with CancelledError."""
        self._closed = True
        if self.peers is not None:
            self.peers.close()
        channels = list(self._channels.values())
        self._channels.clear()
        self._workers = {self.own_task: self.own_worker}
        await asyncio.gather(*(channel.close() for channel in channels))
