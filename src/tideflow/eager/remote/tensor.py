"""Tensors that lie with another task of the cluster.

The client knows a remote tensor by the number of the operation that makes it.  Its shape comes with
the task's answer, and its value only when somebody looks at it.
"""

from __future__ import annotations

import concurrent.futures
from typing import Any, Protocol, TypeAlias

from tideflow.eager.tensor import EagerTensor
from tideflow.graph.shapes import Dims
from tideflow.platform import waits
from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType

# Done once a task has answered; with the shapes of the operation's outputs.
Made: TypeAlias = "concurrent.futures.Future[list[Dims]]"


class Owner(Protocol):
    """Who can fetch a remote tensor, and lets it go."""

    def fetch(self, tensor: RemoteTensor) -> Any:
        """Return the value, waiting for it.  Raises: the error of whatever was to make it."""

    def let_go(self, device: str, op_id: int, output_num: int, made: Made | None) -> None:
        """Tell the task that nobody holds the tensor any more, unless it was never made."""


class RemoteTensor(EagerTensor):
    """A tensor on a device of another task.

    Attributes:
      op_id, output_num: how all tasks know it.
      made: the answer to the operation that makes it; None where it was there at once.
    """

    __slots__ = ("_fetched", "_handle_data", "_owner", "made", "op_id", "output_num")

    def __init__(
        self,
        owner: Owner,
        dtype: DType,
        device: str,
        op_id: int,
        output_num: int,
        made: Made | None,
        handle_data: tuple[DType, Dims] | None = None,
    ) -> None:
        self._dtype = dtype
        self._device = device
        self._leaf = None
        self._owner = owner
        self._fetched: Any = None
        self.op_id = op_id
        self.output_num = output_num
        self.made = made
        self._handle_data = handle_data

    @property
    def is_here(self) -> bool:
        """Whether the value lies in this process."""
        return False

    @property
    def handle_data(self) -> tuple[DType, Dims] | None:
        """What a handle stands for, its element type and shape, as far as that is known."""
        return self._handle_data

    @property
    def owner(self) -> Owner:
        """Who can fetch it."""
        return self._owner

    @property
    def _value(self) -> Any:
        if self._fetched is None:
            self._fetched = self._owner.fetch(self)
        return self._fetched

    def take(self, value: Any) -> None:
        """Take the value, which came with the answer."""
        self._fetched = value

    @property
    def dims(self) -> Dims:
        """The shape; waits until the operation has run."""
        if self._dtype in (dtypes.resource, dtypes.variant):
            return ()
        if self.made is not None:
            found = waits.result_of(self.made)
            if self.output_num < len(found):
                return found[self.output_num]
        return tuple(getattr(self._value, "shape", ()))

    @property
    def device(self) -> str:
        """Full name of the device that holds it."""
        return self._device

    backing_device = device

    def handle_proto(self) -> pb.RemoteTensorHandle:
        """Return the tensor as requests name it."""
        handle_pb = pb.RemoteTensorHandle()
        self.fill_handle(handle_pb)
        return handle_pb

    def fill_handle(self, handle_pb: pb.RemoteTensorHandle) -> None:
        """Say in a message which tensor this is."""
        handle_pb.op_id = self.op_id
        handle_pb.output_num = self.output_num
        handle_pb.device = handle_pb.op_device = self._device
        handle_pb.dtype = self._dtype.number

    def __del__(self) -> None:
        owner = getattr(self, "_owner", None)
        if owner is not None:
            owner.let_go(self._device, self.op_id, self.output_num, self.made)
