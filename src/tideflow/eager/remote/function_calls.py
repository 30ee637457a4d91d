"""Calls of functions whose nodes or arguments lie on several tasks.

Who holds a call cuts the function into parts and starts them.  A call on a device of a tideflow
peer is held there: one message to that task, and what meets there need not pass by the client.
All other calls the client holds itself.

Source: runtime facts on functions on remote workers.
"""

from __future__ import annotations

import concurrent.futures
import itertools
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from tideflow.blocking import GRAPHS, run_blocking
from tideflow.cluster.eager import (
    ANSWERED,
    EagerContext,
    Remote,
    SpanningFunction,
    with_origin,
)
from tideflow.cluster.worker import StepTable
from tideflow.eager.remote.task import RemoteTask
from tideflow.eager.remote.tensor import Made, Owner, RemoteTensor
from tideflow.eager.remote.transfers import Transfers
from tideflow.eager.tensor import EagerTensor
from tideflow.graph.functions import FunctionDefinition, functions_needed
from tideflow.graph.graph import Tensor
from tideflow.graph.node import FunctionRef
from tideflow.platform import waits
from tideflow.runtime.loop import run_sync
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import task_name
from tideflow.wire.fields import Buffer
from tideflow.wire.parted import with_graphs
from tideflow.wire.shapes import decode_shape
from tideflow.wire.tensor_codec import decode_tensor

_ENQUEUE = "/tensorflow.eager.EagerService/Enqueue"
_HANDLES = (dtypes.resource, dtypes.variant)


class FunctionCalls:
    """Calls functions of a client's library in its cluster.

    Args:
      owner: of the results.
      home: the client's own context.
      steps: the client's own.
      tasks: all other tasks, by name.
      transfers: what brings arguments to other tasks.
      op_ids: the numbers of the client's operations.
      is_peer: whether a task is a tideflow peer.
      find_device: returns the full name of the first device that a (partial) name means, or None.
    """

    def __init__(
        self,
        owner: Owner,
        home: EagerContext,
        steps: StepTable,
        tasks: Mapping[str, RemoteTask],
        transfers: Transfers,
        op_ids: itertools.count[int],
        is_peer: Callable[[str], bool],
        find_device: Callable[[str], str | None],
    ) -> None:
        self._owner = owner
        self._home = home
        self._steps = steps
        self._tasks = tasks
        self._transfers = transfers
        self._op_ids = op_ids
        self._is_peer = is_peer
        self._find_device = find_device
        self._held_here: dict[Any, SpanningFunction] = {}
        self._needs_client: dict[str, bool] = {}

    def clear(self) -> None:
        """Forget how functions were cut: the cluster has changed."""
        self._held_here.clear()
        self._needs_client.clear()

    def call(
        self, name: str, inputs: Sequence[Any], types: Sequence[Any], default_device: str
    ) -> list[Tensor]:
        """Run a function of the library; returns its results.

        default_device: of nodes that ask for none, and of the results.
        Raises: the first error of any part.
        """
        for tensor in inputs:
            if isinstance(tensor, RemoteTensor) and tensor.made is not None:
                waits.result_of(tensor.made)
        task = self._tasks.get(task_name(default_device))
        if task is not None and self._can_hold(task, name, inputs):
            return self._call_there(task, name, inputs, types, default_device)
        return self._call_here(name, inputs, types, default_device)

    async def enter(self, task: RemoteTask, names: Iterable[str]) -> None:
        """Give a task functions, and those that they call, before an operation names them."""
        if task.functions.issuperset(names):
            return
        request = pb.EnqueueRequest(context_id=self._home.context_id)
        needed = functions_needed(names, self._home.library)
        new = [one for one in needed if one.name not in task.functions]
        contents: dict[bytes, Buffer] = {}
        await run_blocking(GRAPHS, lambda _: _register(request, new, contents))
        gone = [name for name in task.functions if name not in self._home.library]
        if gone:
            await task.queue.drain()  # nothing there names them any more
        for name in gone:
            request.queue.add().remove_function.function_name = name
            self._needs_client.pop(name, None)
        await task.service.Enqueue(with_graphs(request, contents))
        task.functions.difference_update(gone)
        task.functions.update(definition.name for definition in new)

    async def _forget_gone(self) -> None:
        """Forget functions that nobody can call any more, here and where parts of them are."""
        library = self._home.library
        for key in [key for key in self._held_here if key[0] not in library]:
            self._held_here.pop(key).drop()
        for name in [name for name in self._home.given if name not in library]:
            self._home.remove_function(name)

    async def _drain(self) -> None:
        """Wait until what was enqueued before is done."""
        for task in self._tasks.values():
            await task.queue.drain()

    # ---- held by another task

    def _can_hold(self, task: RemoteTask, name: str, inputs: Sequence[Any]) -> bool:
        if not self._is_peer(task.name):
            return False
        if any(t.dtype in _HANDLES and not isinstance(t, RemoteTensor) for t in inputs):
            return False  # only the client knows what the handle stands for
        needs_client = self._needs_client.get(name)
        if needs_client is None:
            needs_client = self._needs_client[name] = self._names_client(name)
        return not needs_client

    def _names_client(self, name: str) -> bool:
        """Whether a node of a function, or of those that it calls, asks for a client's device."""
        devices = {
            node_pb.device
            for definition in functions_needed([name], self._home.library)
            for node_pb in definition.outline.node_def
        }
        found = (self._find_device(device) for device in devices if "/job:" in device)
        return any(device is not None and task_name(device) not in self._tasks for device in found)

    def _call_there(
        self,
        task: RemoteTask,
        name: str,
        inputs: Sequence[Any],
        types: Sequence[Any],
        device: str,
    ) -> list[Tensor]:
        request = pb.EnqueueRequest(context_id=self._home.context_id)
        operation = request.queue.add().operation
        op_id = operation.id = next(self._op_ids)
        operation.name, operation.device, operation.is_function = name, device, True
        operation.attrs[ANSWERED].b = True
        held = [self._add_argument(operation, tensor, device) for tensor in inputs]
        answer_pb = run_sync(self._enqueue(task, request))
        del held
        shapes: Made = concurrent.futures.Future()
        shapes.set_result([decode_shape(shape_pb) for shape_pb in answer_pb.shape])
        found = []
        for number, (dtype, place) in enumerate(zip(types, answer_pb.device, strict=True)):
            made = RemoteTensor(self._owner, dtype, place, op_id, number, shapes)
            if number < len(answer_pb.tensor) and answer_pb.tensor[number].dtype:
                made.take(decode_tensor(answer_pb.tensor[number]))
            found.append(made)
        return found  # type: ignore[return-value]

    def _add_argument(self, operation: pb.EagerOperation, tensor: Any, device: str) -> Any:
        """Name an argument; returns what must be held until the call is over.

        A tensor of another task stays there: the part that uses it may be there as well.
        """
        if isinstance(tensor, RemoteTensor):
            tensor.fill_handle(operation.op_inputs.add().remote_handle)
            return tensor
        return self._transfers.add_input(operation, tensor, device)

    async def _enqueue(self, task: RemoteTask, request: pb.EnqueueRequest) -> pb.EagerQueueResponse:
        """Have a task hold a call once what was enqueued before is done.

        By a call of its own: unlike items of the queue, it can be cancelled, and does not keep
        others waiting that it may itself wait for.
        """
        await self._drain()
        task.queue.flush_soon()
        await self.enter(task, [request.queue[0].operation.name])
        try:
            response = await task.service.Enqueue(request)
        except errors.OpError as error:
            raise with_origin(error, task.name, _ENQUEUE) from None
        return response.queue_response[0]

    # ---- held by the client

    def _call_here(
        self, name: str, inputs: Sequence[Any], types: Sequence[Any], default_device: str
    ) -> list[Tensor]:
        own = self._home.session.devices.client_device.name
        places = [_place(tensor, own) for tensor in inputs]
        key = (name, default_device, *places)
        ready = self._held_here.get(key)
        if ready is None:
            run_sync(self._forget_gone())
            ready = SpanningFunction(self._home, FunctionRef(name), default_device, places)
            self._held_here[key] = ready
        op_id = next(self._op_ids)
        found = run_sync(self._run(ready, op_id, [_argument(t) for t in inputs]))
        return [
            RemoteTensor(self._owner, dtype, value.device, value.op_id, value.output_num, None)
            if isinstance(value, Remote)
            else EagerTensor(value, dtype)
            for value, dtype in zip(found, types)
        ]

    async def _run(self, ready: SpanningFunction, op_id: int, args: Sequence[Any]) -> list[Any]:
        await self._drain()
        for task in self._tasks.values():
            task.queue.flush_soon()
        return await ready.run(self._steps, op_id, args)


def _register(
    request: pb.EnqueueRequest,
    definitions: Iterable[FunctionDefinition],
    contents: MutableMapping[bytes, Buffer],
) -> None:
    """Have a task enter functions; contents: is given the large contents of their constants."""
    for definition in definitions:
        item = request.queue.add()
        item.register_function.function_def.CopyFrom(definition.to_proto(contents))


def _argument(tensor: Any) -> Any:
    if isinstance(tensor, RemoteTensor):
        device = tensor.device
        return Remote(task_name(device), device, tensor.op_id, tensor.output_num)
    return tensor.held


def _place(tensor: Any, default: str) -> str:
    if isinstance(tensor, RemoteTensor):
        return tensor.device
    if tensor.dtype is dtypes.resource:
        found: str = tensor.held.device
        return found
    return default
