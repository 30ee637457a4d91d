"""The cluster that an eager client is connected to.

The client is a task of it, with a full server of its own: workers fetch tensors from it, and run
its part of functions.  On every other task it has a context, in which its operations run.

Source: runtime facts on EagerService (connecting, ids and handles, data movement).
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import MutableMapping, Sequence
from typing import Any

from tideflow.blocking import spawn
from tideflow.client.wait_progress import Progress
from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.eager import EagerContext
from tideflow.cluster.master import describe, discover_devices
from tideflow.cluster.server_config import ServerOptions
from tideflow.cluster.services import EagerService
from tideflow.cluster.task_server import TaskServer
from tideflow.cluster.worker import WorkerSession
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.eager.remote.contexts import KEEP_ALIVE_S, RemoteContexts
from tideflow.eager.remote.devices import ClusterDevices
from tideflow.eager.remote.operations import RemoteOperations
from tideflow.eager.remote.task import RemoteTask
from tideflow.graph.functions import FunctionDefinition
from tideflow.graph.op_def import OpDef
from tideflow.runtime.device import DeviceManager
from tideflow.transport import stub
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import task_name, worker_name


class Cluster:
    """The client's side of a cluster: how it joins, how it follows changes, and how it leaves.

    Args:
      spec: all tasks; the client's own is added where it is missing.
      job, task: the client's own place.
      devices: the client's devices, if they have the names of that place.
      library: the client's functions, by name.
      config: of the contexts on the other tasks.

    Attributes:
      devices: those of all tasks.
      operations: what runs on other tasks (there once `connect` has ended).
      plans: for callers to keep what they know of calls, as long as the cluster stays as it is.
    """

    operations: RemoteOperations

    def __init__(
        self,
        spec: ClusterSpec,
        job: str,
        task: int,
        devices: DeviceManager,
        library: MutableMapping[str, FunctionDefinition],
        config: pb.ConfigProto,
    ) -> None:
        self.context_id = secrets.randbits(63)
        self.view_id = 0
        self._spec = spec
        self._jobs = {name: dict(spec.tasks(name)) for name in spec.jobs}
        self._jobs.setdefault(job, {}).setdefault(task, "localhost:0")
        self._job, self._task = job, task
        self._config = config
        self._own_devices = devices
        self._library = library
        self._op_ids = itertools.count(1)
        self._tasks: dict[str, RemoteTask] = {}
        self.own_task = worker_name(job, task)
        self.devices = ClusterDevices(devices, self._tasks)
        self.plans: dict[Any, tuple[OpDef, dict[str, Any], str]] = {}
        # Versions of the cluster follow one another on every task.
        self._entering = asyncio.Lock()

    # ---- connecting

    async def connect(self) -> None:
        """Start the own server, and make a context on every other task, waiting for those that
        are not up yet.

        Raises: UnavailableError naming a task that cannot be reached.
        """
        server_pb = await self._start_server()
        self._workers = WorkerCache(
            self.own_task,
            self._server.worker,
            ClusterSpec(server_pb.cluster),
            self._server.worker.settings,
        )
        self._contexts = RemoteContexts(self.context_id, server_pb, self._workers, self._is_peer)
        for name in self._workers.task_names():
            if name != self.own_task:
                service = stub(EagerService, self._workers.channel(name))
                self._tasks[name] = RemoteTask(name, self._workers.get(name), service)
        tasks = list(self._tasks.values())
        try:
            await self._wait_for(tasks)
            await self._make_contexts(tasks)
        except BaseException:
            await self._leave()
            raise
        self.home = self._own_context(server_pb)
        self.operations = RemoteOperations(
            self.home,
            self._tasks,
            self.devices,
            self._server.worker.steps,
            self._op_ids,
            self._library,
            self._own_devices.client_device.name,
            self._is_peer,
        )
        self._keeper = spawn(self._keep_alive())

    async def _start_server(self) -> pb.ServerDef:
        """Start the own server; return the cluster with the address that it got."""
        server_pb = pb.ServerDef(
            cluster=ClusterSpec(self._jobs).as_cluster_def(),
            job_name=self._job,
            task_index=self._task,
            protocol="grpc",
            default_session_config=self._config,
        )
        experimental_pb = server_pb.default_session_config.experimental
        experimental_pb.collective_group_leader = (
            experimental_pb.collective_group_leader or self._collective_leader()
        )
        self._server = TaskServer(server_pb, ServerOptions(), self._own_devices)
        await self._server.start()
        self._jobs[self._job][self._task] = self._server.address
        server_pb.cluster.CopyFrom(ClusterSpec(self._jobs).as_cluster_def())
        return server_pb

    def _collective_leader(self) -> str:
        """Return the task that leads groups of collectives: the first of the last job that is not
        the client's, as TensorFlow's clients choose it; "" where there is none."""
        jobs = [job for job in self._spec.jobs if job != self._job and self._spec.tasks(job)]
        return worker_name(jobs[-1], min(self._spec.tasks(jobs[-1]))) if jobs else ""

    async def _make_contexts(self, tasks: Sequence[RemoteTask]) -> None:
        devices = self.devices.attributes()
        making = (self._contexts.make(task, self.view_id, devices) for task in tasks)
        # Nothing is left in the making where one fails.
        for error in await asyncio.gather(*making, return_exceptions=True):
            if error is not None:
                raise error

    async def _wait_for(self, tasks: Sequence[RemoteTask]) -> None:
        """Learn the devices of tasks; wait for those that are not there yet, and say so."""
        if not tasks:
            return
        missing: dict[str, str] = {}
        limit_s = self._server.worker.settings.wait_s

        async def tell() -> list[str]:
            return describe(self._workers, missing)

        what = "experimental_connect_to_cluster"
        progress = Progress(what, "the cluster", limit_s, tell)
        filters = [task.name for task in tasks]
        try:
            async with asyncio.timeout(limit_s):
                found = await discover_devices(self._workers, filters, what, missing)
        except TimeoutError:
            await progress.look()
            raise errors.UnavailableError(
                f"{what} has waited {limit_s:.0f} s for {progress.what}"
            ) from None
        finally:
            progress.end()
        for task in tasks:
            task.attributes = [d for d in found.attributes if task_name(d.name) == task.name]
            task.devices = {d.name: d.incarnation for d in task.attributes}

    def _own_context(self, server_pb: pb.ServerDef) -> EagerContext:
        """Return the client's own context, in which workers run its part of functions."""
        session = WorkerSession(
            f"eager_{self.context_id}",
            self._own_devices,
            self._workers,
            owns_workers=True,
            collectives=self._server.worker.collectives.eager_engine(
                server_pb, self._workers, self._own_devices
            ),
        )
        made = EagerContext(
            self.context_id,
            self.view_id,
            session,
            None,
            self.devices.incarnations,
            self._server.worker.steps,
            self._library,
        )
        self._server.eager.add(made)
        return made

    def _is_peer(self, task: str) -> bool:
        peers = self._workers.peers
        return peers is not None and peers.stream(task) is not None

    def is_of(self, spec: ClusterSpec, job: str, task: int) -> bool:
        """Whether this is the client's side of that cluster."""
        return spec == self._spec and (job, task) == (self._job, self._task)

    # ---- tasks that come back

    async def _keep_alive(self) -> None:
        """Let no task believe that the client is gone."""
        while True:
            await asyncio.sleep(KEEP_ALIVE_S / 2)
            await asyncio.gather(*map(self._contexts.is_kept, self._tasks.values()))

    async def update(self) -> None:
        """Look for tasks that were replaced, and make contexts on them; wait for them if need be.

        Raises: as connect.
        """
        tasks = list(self._tasks.values())
        kept = await asyncio.gather(*map(self._contexts.is_kept, tasks))
        replaced = [task for task, is_kept in zip(tasks, kept) if not is_kept]
        await self._wait_for(replaced)
        await self._enter_view(replaced)

    async def reconnect(self, name: str) -> None:
        """Make a context again on a task that has restarted; what was there before is lost.

        Raises: UnavailableError while the task is not there.
        """
        task = self._tasks[name]
        status = await task.worker.GetStatus(pb.GetStatusRequest())
        task.attributes = list(status.device_attributes)
        task.devices = {d.name: d.incarnation for d in task.attributes}
        await self._enter_view([task])

    async def _enter_view(self, replaced: Sequence[RemoteTask]) -> None:
        """Tell all tasks of another version of the cluster, in which some were replaced.

        Functions are cut and registered again when they are next called.
        """
        async with self._entering:
            for task in replaced:
                task.first_op_id = next(self._op_ids)
                task.queue.close()
            others = [task for task in self._tasks.values() if task not in replaced]
            self.view_id += 1
            devices = self.devices.attributes()
            found = await asyncio.gather(
                *(self._contexts.make(task, self.view_id, devices) for task in replaced),
                *(self._contexts.update(task, devices if replaced else None) for task in others),
                return_exceptions=True,
            )
            self.devices.have_changed()
            self.home.see(self.view_id, self.devices.incarnations)
            self.operations.tasks_were_replaced()
            self.plans.clear()
        failed = next((one for one in found if one is not None), None)
        if failed is not None:
            raise failed

    # ---- the end

    async def close(self) -> None:
        """Close the contexts on the other tasks, and the own server."""
        self._keeper.cancel()
        self.operations.close()
        await self._leave()

    async def _leave(self) -> None:
        """Let go of all that connecting has made, however far it came."""
        await asyncio.gather(
            *(self._contexts.close(task, self.view_id) for task in self._tasks.values())
        )
        # Its port is free then for the next attempt.
        await self._server.stop()
        await self._workers.close()
