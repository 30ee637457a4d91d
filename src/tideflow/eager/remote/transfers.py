"""How an eager client's tensors come from task to task.

A task that is to use another one's tensor gets a copy, which stays for the next use as long as the
tensor itself: tensors never change.

Source: runtime facts on EagerService (data movement).
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from tideflow.cluster.eager import ANSWERED
from tideflow.eager.remote.queue import Answer
from tideflow.eager.remote.task import RemoteTask
from tideflow.eager.remote.tensor import Owner, RemoteTensor
from tideflow.eager.tensor import EagerTensor
from tideflow.platform import waits
from tideflow.runtime.loop import run_sync
from tideflow.runtime.rendezvous import RendezvousLike
from tideflow.wire import messages as pb
from tideflow.wire.device_name import task_name
from tideflow.wire.ids import signed64
from tideflow.wire.parted import parted
from tideflow.wire.rendezvous_key import key_prefix
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor, put_tensor

# Larger tensors of the client's own are sent once, smaller ones with every operation.
_LEAST_KEPT_BYTES = 16 << 10


class Transfers:
    """Moves tensors between the tasks of a client's cluster.

    Args:
      owner: of the tensors.
      context_id: the client's number of its context.
      tasks: all other tasks, by name.
      op_ids: the numbers of the client's operations.
      device: the client's own, to which values come.
      is_peer: whether a task answers with small tensors at once.
      rendezvous: makes the one in which the client's tensors arrive.
    """

    def __init__(
        self,
        owner: Owner,
        context_id: int,
        tasks: Mapping[str, RemoteTask],
        op_ids: itertools.count[int],
        device: str,
        is_peer: Callable[[str], bool],
        rendezvous: Callable[[], RendezvousLike],
    ) -> None:
        self._owner = owner
        self._context_id = context_id
        self._tasks = tasks
        self._op_ids = op_ids
        self._device = device
        self._is_peer = is_peer
        self._rendezvous = rendezvous
        self._numbers = itertools.count()

    def add_input(
        self, operation: pb.EagerOperation, tensor: Any, device: str
    ) -> RemoteTensor | None:
        """Name an input of an operation on a device.

        Returns the tensor that is named, if it is a copy: it must be held until the operation is
        on its way.
        Raises: the error of what was to make the tensor: a task would wait for it for ever.
        """
        given = operation.op_inputs.add()
        is_far = isinstance(tensor, RemoteTensor)
        if is_far and task_name(tensor.device) == task_name(device):
            tensor.fill_handle(given.remote_handle)
            return None
        if not is_far and getattr(tensor.held, "nbytes", 0) < _LEAST_KEPT_BYTES:
            given.tensor.CopyFrom(encode_tensor(tensor.held, tensor.dtype))
            return None
        copy = self._copied(tensor, device)
        copy.fill_handle(given.remote_handle)
        return copy

    def _copied(self, tensor: EagerTensor, device: str) -> RemoteTensor:
        """Return the copy of a tensor on a device of another task, which is made if need be."""
        found: RemoteTensor | None = tensor.copies.get(device)
        if found is None or not self._is_there(found):
            if isinstance(tensor, RemoteTensor):
                found = self._send_on(tensor, device)
            else:
                found = self._send_own(tensor, device)
            tensor.copies[device] = found
        return found

    def _is_there(self, copy: RemoteTensor) -> bool:
        if copy.owner is not self._owner:
            return False  # of an earlier cluster
        if copy.op_id < self._tasks[task_name(copy.device)].first_op_id:
            return False  # its task was replaced
        made = copy.made
        return made is None or not made.done() or made.exception() is None

    def _send_own(self, tensor: EagerTensor, device: str) -> RemoteTensor:
        op_id = next(self._op_ids)
        item = pb.EagerQueueItem()
        item.send_tensor.op_id = op_id
        item.send_tensor.device_name = device
        content = put_tensor(item.send_tensor.tensors.add(), tensor.held, tensor.dtype)
        apart = {} if content is None else {0: content}
        made = self._tasks[task_name(device)].queue.put(parted(item, apart))
        return RemoteTensor(self._owner, tensor.dtype, device, op_id, 0, made)

    def _send_on(self, tensor: RemoteTensor, device: str) -> RemoteTensor:
        if tensor.made is not None:
            waits.result_of(tensor.made)
        item, attrs = self._sending(tensor, device)
        self._tasks[task_name(tensor.device)].queue.put(item)
        op_id = next(self._op_ids)
        item = pb.EagerQueueItem()
        item.operation.id, item.operation.name, item.operation.device = op_id, "_Recv", device
        item.operation.attrs["tensor_type"].type = tensor.dtype.number
        for name, value in attrs.items():
            item.operation.attrs[name].CopyFrom(value)
        made = self._tasks[task_name(device)].queue.put(item)
        return RemoteTensor(self._owner, tensor.dtype, device, op_id, 0, made)

    def _sending(
        self, tensor: RemoteTensor, device: str
    ) -> tuple[pb.EagerQueueItem, dict[str, pb.AttrValue]]:
        """Return the item that sends a tensor, and what its receiver needs to know."""
        task = self._tasks[task_name(tensor.device)]
        attrs = {
            "tensor_name": pb.AttrValue(s=f"{self._context_id:x}_{next(self._numbers)}".encode()),
            "send_device": pb.AttrValue(s=tensor.device.encode()),
            "send_device_incarnation": pb.AttrValue(i=signed64(task.devices[tensor.device])),
            "recv_device": pb.AttrValue(s=device.encode()),
            "client_terminated": pb.AttrValue(b=False),
        }
        item = pb.EagerQueueItem()
        operation = item.operation
        operation.id, operation.name, operation.device = next(self._op_ids), "_Send", tensor.device
        tensor.fill_handle(operation.op_inputs.add().remote_handle)
        operation.attrs["T"].type = tensor.dtype.number
        for name, value in attrs.items():
            operation.attrs[name].CopyFrom(value)
        return item, attrs

    # ---- to the client

    def fetch(self, tensor: RemoteTensor) -> Any:
        """Return a remote tensor's value.  Raises: the error of whatever was to make it."""
        task = self._tasks[task_name(tensor.device)]
        if self._is_peer(task.name):
            # A tideflow peer answers with the tensor, unless it is large.
            item = pb.EagerQueueItem()
            item.operation.MergeFromString(_asking(tensor.dtype.number))
            tensor.fill_handle(item.operation.op_inputs.add().remote_handle)
            answer_pb = waits.result_of(task.queue.ask(item))
            if answer_pb.tensor:
                return decode_tensor(answer_pb.tensor[0])
        item, attrs = self._sending(tensor, self._device)
        key = key_prefix(
            tensor.device,
            task.devices[tensor.device],
            self._device,
            attrs["tensor_name"].s.decode(),
        )
        return run_sync(self._receive(key + "0:0", tensor.device, task.queue.put(item)))

    async def _receive(self, key: str, source: str, sent: Answer) -> Any:
        """Receive a tensor that its task was told to send; `sent` is the answer to that."""
        receiving = asyncio.ensure_future(self._rendezvous().take(key, source))
        sending = asyncio.wrap_future(sent)
        try:
            both: list[asyncio.Future[Any]] = [receiving, sending]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and not receiving.done():
                sending.result()  # raises what went wrong before
            return (await receiving).value
        finally:
            receiving.cancel()


@functools.cache
def _asking(dtype_number: int) -> bytes:
    """Return what all requests for the value of a tensor have in common."""
    operation = pb.EagerOperation(name="_Send")
    operation.attrs["T"].type = dtype_number
    operation.attrs[ANSWERED].b = True
    return operation.SerializeToString()
