"""Operations of an eager client on other tasks: what they make, and what is asked of it.

Source: runtime facts on EagerService (ids and handles, data movement).
"""

from __future__ import annotations

import concurrent.futures
import itertools
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from tideflow.cluster.eager import EagerContext
from tideflow.cluster.worker import StepTable
from tideflow.eager.remote.call_template import CallTemplates
from tideflow.eager.remote.devices import ClusterDevices
from tideflow.eager.remote.function_calls import FunctionCalls
from tideflow.eager.remote.task import RemoteTask
from tideflow.eager.remote.tensor import Made, RemoteTensor
from tideflow.eager.remote.transfers import Transfers
from tideflow.graph import roles
from tideflow.graph.functions import FunctionDefinition
from tideflow.graph.graph import Tensor
from tideflow.graph.op_def import OpDef
from tideflow.platform import waits
from tideflow.runtime.loop import run_sync
from tideflow.runtime.rendezvous import RendezvousLike
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import task_name
from tideflow.wire.ids import signed64


class RemoteOperations:
    """Runs operations and functions on the other tasks, and owns the tensors that they make.

    Args:
      home: the client's own context.
      tasks: all other tasks, by name.
      devices: of all tasks.
      steps: of the client's own server.
      op_ids: the numbers of the client's operations.
      library: the client's functions, by name.
      own_device: the client's device to which values come.
      is_peer: whether a task is a tideflow peer.
    """

    def __init__(
        self,
        home: EagerContext,
        tasks: Mapping[str, RemoteTask],
        devices: ClusterDevices,
        steps: StepTable,
        op_ids: itertools.count[int],
        library: MutableMapping[str, FunctionDefinition],
        own_device: str,
        is_peer: Callable[[str], bool],
    ) -> None:
        self._home = home
        self._tasks = tasks
        self._steps = steps
        self._op_ids = op_ids
        self._library = library
        self._templates = CallTemplates()
        self._is_closed = False
        self._transfers = Transfers(
            self, home.context_id, tasks, op_ids, own_device, is_peer, self._rendezvous
        )
        self._functions = FunctionCalls(
            self, home, steps, tasks, self._transfers, op_ids, is_peer, devices.find
        )

    # ---- calling

    def call(
        self, op_def: OpDef, inputs: Sequence[Any], attrs: dict[str, Any], device: str
    ) -> list[Tensor]:
        """Have an operation run on another task's device; returns its outputs to come."""
        task = self._tasks[task_name(device)]
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
        if op_def.role is roles.VARIABLE_HANDLE:
            names = (attrs["dtype"], attrs["shape"].sizes)
        return [
            RemoteTensor(self, dtype, device, op_id, i, made, names)
            for i, dtype in enumerate(template.types)
        ]

    def call_function(
        self, name: str, inputs: Sequence[Any], types: Sequence[Any], default_device: str
    ) -> list[Tensor]:
        """Run a function of the library whose nodes or arguments lie on several tasks."""
        for tensor in inputs:
            if isinstance(tensor, RemoteTensor):
                self._check(tensor)
        return self._functions.call(name, inputs, types, default_device)

    # ---- tensors

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
        task = self._tasks[task_name(tensor.device)]
        if tensor.op_id < task.first_op_id:
            what = "Resource input tensor" if tensor.dtype is dtypes.resource else "Input tensor"
            raise errors.InvalidArgumentError(
                f"{what} contains an invalid device. It lay on {tensor.device}, and that task was "
                "replaced since; make the variable, or the tensor, anew"
            )
        if tensor.made is not None and tensor.made.done():
            tensor.made.result()

    def fetch(self, tensor: RemoteTensor) -> Any:
        """Return a remote tensor's value.  Raises: the error of whatever was to make it."""
        self._check(tensor)
        return self._transfers.fetch(tensor)

    def let_go(self, device: str, op_id: int, output_num: int, made: Made | None) -> None:
        """Tell a tensor's task, with the next operations, that nobody holds it any more."""
        task = self._tasks.get(task_name(device))
        # What a task had in an earlier life is gone.
        if task is not None and not self._is_closed and op_id >= task.first_op_id:
            item = pb.EagerQueueItem()
            item.handle_to_decref.op_id = op_id
            item.handle_to_decref.output_num = output_num
            item.handle_to_decref.device = item.handle_to_decref.op_device = device
            task.queue.put_quietly(item, made)

    def _rendezvous(self) -> RendezvousLike:
        """Return where tensors for the client arrive."""
        record = self._steps.start(signed64(self._home.context_id), self._home.session)
        assert record.rendezvous is not None
        return record.rendezvous

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
        for name in {task_name(device) for device in devices} & self._tasks.keys():
            last: concurrent.futures.Future[Any] | None = self._tasks[name].queue.barrier()
            if last is not None:
                waits.result_of(last)

    def forget_errors(self) -> None:
        """Let synchronize not raise what went wrong before."""
        for task in self._tasks.values():
            task.queue.error = None

    # ---- the cluster changes

    def tasks_were_replaced(self) -> None:
        """Cut and register functions anew when they are next called."""
        self._functions.clear()

    def close(self) -> None:
        """Refuse what is asked from now on."""
        self._is_closed = True
        for task in self._tasks.values():
            task.queue.close()
