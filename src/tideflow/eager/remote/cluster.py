"""The cluster that an eager client is connected to.

The client is a task of it, with a full server of its own: workers fetch tensors from it, and run
its part of functions.  On every other task it has a context, in which its operations run.

Source: runtime facts on EagerService (connecting, ids and handles, data movement).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import secrets
from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any

from tideflow.client.patience import Progress, most_wait_s
from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.eager import EagerContext
from tideflow.cluster.master import describe, discover_devices
from tideflow.cluster.server_config import ServerOptions
from tideflow.cluster.services import EagerService
from tideflow.cluster.task_server import TaskServer
from tideflow.cluster.worker import WorkerSession
from tideflow.cluster.worker_cache import WorkerCache, worker_name
from tideflow.eager.remote.call_template import CallTemplates
from tideflow.eager.remote.function_calls import FunctionCalls
from tideflow.eager.remote.queue import RemoteQueue
from tideflow.eager.remote.task import RemoteTask
from tideflow.eager.remote.tensor import Made, RemoteTensor
from tideflow.eager.remote.transfers import Transfers
from tideflow.graph.functions import FunctionDefinition
from tideflow.graph.graph import Tensor
from tideflow.graph.op_def import OpDef
from tideflow.runtime.device import DeviceManager
from tideflow.runtime.loop import run_sync, spawn
from tideflow.runtime.rendezvous import RendezvousLike
from tideflow.transport import stub
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import matches, parse_device_name, task_name

_KEEP_ALIVE_S = 600
# How long a task may take to say that it still has its context, and to close it.
_ANSWER_S = 5.0
_INT64_SIGN = 2**63

_task_of = functools.lru_cache(maxsize=4096)(task_name)


class Cluster:
    """The client's side of a cluster.

    Args:
      spec: all tasks; the client's own is added where it is missing.
      job, task: the client's own place.
      devices: the client's devices, if they have the names of that place.
      library: the client's functions, by name.
      config: of the contexts on the other tasks.

    Attributes:
      plans: for callers to keep what they know of calls, as long as the cluster stays as it is.
    """

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
        self._devices = devices
        self._library = library
        self._op_ids = itertools.count(1)
        self._tasks: dict[str, RemoteTask] = {}
        self._transfers = Transfers(
            self,
            self.context_id,
            self._tasks,
            self._op_ids,
            devices.client_device.name,
            self._is_peer,
            self._rendezvous,
        )
        self.own_task = worker_name(job, task)
        # Which device a name means.
        self._found: dict[str, str | None] = {}
        self.plans: dict[Any, tuple[OpDef, dict[str, Any], str]] = {}
        self._templates = CallTemplates()
        self._is_closed = False
        # Versions of the cluster follow one another on every task.
        self._entering = asyncio.Lock()

    # ---- connecting

    async def connect(self) -> None:
        """Start the own server, and make a context on every other task, waiting for those that
        are not up yet.

        Raises: UnavailableError naming a task that cannot be reached.
        """
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
        self._server = TaskServer(server_pb, ServerOptions(), self._devices)
        await self._server.start()
        self._jobs[self._job][self._task] = self._server.address
        server_pb.cluster.CopyFrom(ClusterSpec(self._jobs).as_cluster_def())
        self._server_pb = server_pb
        self._workers = WorkerCache(
            self.own_task, self._server.worker, ClusterSpec(server_pb.cluster)
        )
        for name in self._workers.task_names():
            if name != self.own_task:
                service = stub(EagerService, self._workers.channel(name))
                self._tasks[name] = RemoteTask(name, self._workers.get(name), service)
        tasks = list(self._tasks.values())
        try:
            await self._wait_for(tasks)
            await asyncio.gather(*map(self._make_context, tasks))
        except BaseException:
            await self._server.stop()  # so that its port is free for the next attempt
            raise
        self.home = self._own_context()
        self._functions = FunctionCalls(
            self,
            self.home,
            self._server.worker.steps,
            self._tasks,
            self._transfers,
            self._op_ids,
            self._is_peer,
            self.find_device,
        )
        self._keeper = spawn(self._keep_alive())

    def _collective_leader(self) -> str:
        """Return the task that leads groups of collectives: the first of the last job that is not
        the client's, as TensorFlow's clients choose it; "" where there is none."""
        jobs = [job for job in self._spec.jobs if job != self._job and self._spec.tasks(job)]
        return worker_name(jobs[-1], min(self._spec.tasks(jobs[-1]))) if jobs else ""

    async def _wait_for(self, tasks: Sequence[RemoteTask]) -> None:
        """Learn the devices of tasks; wait for those that are not there yet, and say so."""
        if not tasks:
            return
        missing: dict[str, str] = {}
        limit_s = most_wait_s()

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
            task.attributes = [d for d in found.attributes if _task_of(d.name) == task.name]
            task.devices = {d.name: d.incarnation for d in task.attributes}

    async def _ask_devices(self, task: RemoteTask) -> None:
        status = await task.worker.GetStatus(pb.GetStatusRequest())
        task.attributes = list(status.device_attributes)
        task.devices = {d.name: d.incarnation for d in task.attributes}

    async def _make_context(self, task: RemoteTask) -> None:
        request = pb.CreateContextRequest(
            server_def=self._server_def_for(task),
            keep_alive_secs=_KEEP_ALIVE_S,
            context_id=self.context_id,
            context_view_id=self.view_id,
            lazy_copy_remote_function_inputs=True,
            cluster_device_attributes=self._all_attributes(),
        )
        await task.service.CreateContext(request)
        task.queue = RemoteQueue(
            self.context_id,
            self._workers.channel(task.name),
            task.name,
            functools.partial(self._is_peer, task.name),
        )
        task.view_id = request.context_view_id
        task.functions = set()

    def _server_def_for(self, task: RemoteTask) -> pb.ServerDef:
        spec = parse_device_name(task.name)
        server_pb = pb.ServerDef()
        server_pb.CopyFrom(self._server_pb)
        server_pb.job_name, server_pb.task_index = spec.job or "", spec.task or 0
        return server_pb

    def _all_attributes(self) -> list[pb.DeviceAttributes]:
        return [
            *(a for other in self._tasks.values() for a in other.attributes),
            *(device.attributes() for device in self._devices.devices),
        ]

    def _own_context(self) -> EagerContext:
        """Return the client's own context, in which workers run its part of functions."""
        session = WorkerSession(
            f"eager_{self.context_id}",
            self._devices,
            self._workers,
            owns_workers=True,
            collectives=self._server.worker.collectives.eager_engine(
                self._server_pb, self._workers, self._devices
            ),
        )
        made = EagerContext(self.context_id, self.view_id, session, None, self.cluster_devices)
        made.library = self._library
        self._server.eager.add(made)
        return made

    @property
    def cluster_devices(self) -> dict[str, int]:
        """Incarnations of all devices, the client's first, by full name."""
        found = {device.name: device.incarnation for device in self._devices.devices}
        for task in self._tasks.values():
            found.update(task.devices)
        return found

    def tasks_of(self, job: str) -> list[str]:
        """Return the names of a job's tasks, in order."""
        return [name for name in self._tasks if parse_device_name(name).job == job]

    def find_device(self, wanted: str) -> str | None:
        """Return the full name of the first device that a (partial) name means, or None."""
        if wanted not in self._found:
            spec = parse_device_name(wanted)
            self._found[wanted] = next((n for n in self.cluster_devices if matches(spec, n)), None)
        return self._found[wanted]

    def is_remote(self, device: str) -> bool:
        """Whether a device belongs to another task."""
        return _task_of(device) in self._tasks

    # ---- operations

    def call(
        self, op_def: OpDef, inputs: Sequence[Any], attrs: dict[str, Any], device: str
    ) -> list[Tensor]:
        """Have an operation run on another task's device; returns its outputs to come."""
        task = self._tasks[_task_of(device)]
        op_id = next(self._op_ids)
        template = self._templates.get(op_def, attrs, device)
        if not task.functions.issuperset(template.functions):
            # What the operation makes there, such as a dataset, may call them at any time.
            self._library.update((name, self._library[name]) for name in template.functions)
            run_sync(self._functions.enter(task, template.functions))
        item = pb.EagerQueueItem()
        operation = item.operation
        operation.MergeFromString(template.call)
        operation.id = op_id
        held = []
        for tensor in inputs:
            if isinstance(tensor, RemoteTensor):
                self._check(tensor)
            held.append(self._transfers.add_input(operation, tensor, device))
        made = task.queue.put(item)
        del held
        names = None
        if op_def.name == "VarHandleOp":
            names = (attrs["dtype"], attrs["shape"].dims)
        return [
            RemoteTensor(self, dtype, device, op_id, i, made, names)
            for i, dtype in enumerate(template.types)
        ]

    def _check(self, tensor: RemoteTensor) -> None:
        """Look whether a tensor can still be used.

        Raises: the error of the operation that was to make it; AbortedError after the end of its
        context; InvalidArgumentError for one that a replaced task had.
        """
        if self._is_closed or tensor.owner is not self:
            raise errors.AbortedError(
                f"the tensor lay on {tensor.device}, in a context that was closed; its value is "
                "lost"
            )
        task = self._tasks[_task_of(tensor.device)]
        if tensor.op_id < task.first_op_id:
            what = "Resource input tensor" if tensor.dtype is dtypes.resource else "Input tensor"
            raise errors.InvalidArgumentError(
                f"{what} contains an invalid device. It lay on {tensor.device}, and that task was "
                "replaced since; make the variable, or the tensor, anew"
            )
        if tensor.made is not None and tensor.made.done():
            tensor.made.result()

    # ---- tensors

    def fetch(self, tensor: RemoteTensor) -> Any:
        """Return a remote tensor's value.  Raises: the error of whatever was to make it."""
        self._check(tensor)
        return self._transfers.fetch(tensor)

    def _is_peer(self, task: str) -> bool:
        links = self._workers.links
        return links is not None and links.line(task) is not None

    def _rendezvous(self) -> RendezvousLike:
        """Return where tensors for the client arrive."""
        record = self._server.worker.steps.start(_signed(self.context_id), self.home.session)
        assert record.rendezvous is not None
        return record.rendezvous

    def let_go(self, device: str, op_id: int, output_num: int, made: Made | None) -> None:
        """Tell a tensor's task, with the next operations, that nobody holds it any more."""
        task = self._tasks.get(_task_of(device))
        # What a task had in an earlier life is gone.
        if task is not None and not self._is_closed and op_id >= task.first_op_id:
            item = pb.EagerQueueItem()
            item.handle_to_decref.op_id = op_id
            item.handle_to_decref.output_num = output_num
            item.handle_to_decref.device = item.handle_to_decref.op_device = device
            task.queue.put_quietly(item, made)

    # ---- functions

    def call_function(
        self, name: str, inputs: Sequence[Any], types: Sequence[Any], default_device: str
    ) -> list[Tensor]:
        """Run a function of the library whose nodes or arguments lie on several tasks."""
        for tensor in inputs:
            if isinstance(tensor, RemoteTensor):
                self._check(tensor)
        return self._functions.call(name, inputs, types, default_device)

    # ---- tasks that come back

    async def _keep_alive(self) -> None:
        """Let no task believe that the client is gone."""
        while True:
            await asyncio.sleep(_KEEP_ALIVE_S / 2)
            await asyncio.gather(*map(self._is_kept, self._tasks.values()))

    async def _is_kept(self, task: RemoteTask) -> bool:
        """Whether a task still has the context, as the client knows it."""
        request = pb.KeepAliveRequest(context_id=self.context_id)
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = await task.service.KeepAlive(request)
        except (TimeoutError, errors.OpError):
            return False
        return answer.context_view_id == task.view_id

    def is_of(self, spec: ClusterSpec, job: str, task: int) -> bool:
        """Whether this is the client's side of that cluster."""
        return spec == self._spec and (job, task) == (self._job, self._task)

    async def update(self) -> None:
        """Look for tasks that were replaced, and make contexts on them; wait for them if need be.

        Raises: as connect.
        """
        tasks = list(self._tasks.values())
        kept = await asyncio.gather(*map(self._is_kept, tasks))
        replaced = [task for task, is_kept in zip(tasks, kept) if not is_kept]
        await self._wait_for(replaced)
        await self._enter_view(replaced)

    async def reconnect(self, name: str) -> None:
        """Make a context again on a task that has restarted; what was there before is lost.

        Raises: UnavailableError while the task is not there.
        """
        task = self._tasks[name]
        await self._ask_devices(task)
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
            found = await asyncio.gather(
                *map(self._make_context, replaced),
                *(self._update_context(task, bool(replaced)) for task in others),
                return_exceptions=True,
            )
            self.home.see(self.view_id, self.cluster_devices)
            self._functions.clear()
            self._found.clear()
            self.plans.clear()
        failed = next((one for one in found if one is not None), None)
        if failed is not None:
            raise failed

    async def _update_context(self, task: RemoteTask, has_changed: bool) -> None:
        alive = pb.KeepAliveRequest(context_id=self.context_id)
        request = pb.UpdateContextRequest(context_id=self.context_id)
        if has_changed:
            request.server_def.CopyFrom(self._server_def_for(task))
            request.cluster_device_attributes.extend(self._all_attributes())
        try:
            async with asyncio.timeout(_ANSWER_S):
                # It may have missed versions when it did not answer.
                seen = (await task.service.KeepAlive(alive)).context_view_id
                request.context_view_id = seen + 1
                await task.service.UpdateContext(request)
        except (TimeoutError, errors.UnavailableError, errors.AbortedError):
            # It is away as well, or new, and will be found to have another view when it is looked
            # for.
            return
        task.view_id = request.context_view_id

    # ---- waiting

    async def synchronize(self) -> None:
        """Wait until all tasks have done what they were given.

        Raises: the first error of any of it, until forget_errors.
        """
        for task in self._tasks.values():
            await task.queue.drain()
        for task in self._tasks.values():
            if task.queue.error is not None:
                raise task.queue.error

    def wait_for(self, devices: Iterable[str]) -> None:
        """Wait until the other tasks that have these devices have done what they were given.

        Raises: the error of the last of it.
        """
        for name in {_task_of(device) for device in devices} & self._tasks.keys():
            last = self._tasks[name].queue.barrier()
            if last is not None:
                last.result()

    def forget_errors(self) -> None:
        """Let synchronize not raise what went wrong before."""
        for task in self._tasks.values():
            task.queue.error = None

    # ---- the end

    async def close(self) -> None:
        """Close the contexts on the other tasks, and the own server."""
        self._is_closed = True
        self._keeper.cancel()
        for task in self._tasks.values():
            task.queue.close()
        await asyncio.gather(*map(self._close_context, self._tasks.values()))
        await self._server.stop()

    async def _close_context(self, task: RemoteTask) -> None:
        """Tell a task that the context is over; one that is away finds out by itself."""
        request = pb.CloseContextRequest(context_id=self.context_id, context_view_id=self.view_id)
        with contextlib.suppress(TimeoutError, errors.OpError):
            async with asyncio.timeout(_ANSWER_S):
                await task.service.CloseContext(request)


def _signed(number: int) -> int:
    return number - 2 * _INT64_SIGN if number >= _INT64_SIGN else number
