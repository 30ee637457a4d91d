"""Handles of tensors that a session keeps: what fetching one gives, and what feeding one means.

The tensor stays where it was made.  It is forgotten after its TensorHandle was dropped, or at the
session's end.  To read, move or delete one, the session's graph is given a few nodes, once.

Source: tensorflow/python/ops/session_ops.py, client/session.py; behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

import numpy as np

from tideflow.client.backend import Backend
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Graph, Operation, Tensor
from tideflow.ops.state import (
    delete_session_tensor,
    device_of_handle,
    get_session_tensor,
    not_kept,
)
from tideflow.wire import errors
from tideflow.wire.device_name import canonical
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import ResourceHandle

# So many dropped handles are deleted together.
_DELETED_AT_ONCE = 10


class HandleSession(Protocol):
    """What a handle needs of its session.

    Attributes:
      handles: what the session knows of its handles.
    """

    backend: Backend
    handles: SessionHandles

    @property
    def graph(self) -> Graph:
        """The graph whose parts are run."""

    def run(self, fetches: Any, feed_dict: Any = None) -> Any:
        """Run one step."""


class SessionHandles:
    """What a session knows of its handles.

    Attributes:
      dropped: those of TensorHandles that nobody holds any more.
    """

    def __init__(self, graph: Graph) -> None:
        self.dropped: deque[str] = deque()
        self._graph = graph
        self._readers: dict[tuple[str, str], tuple[Tensor, Tensor]] = {}
        self._movers: dict[tuple[str, str], tuple[Tensor, Tensor]] = {}
        self._deleters: dict[tuple[int, str], tuple[Tensor, Operation]] = {}

    def reader(self, handle: str, dtype: DType) -> tuple[Tensor, Tensor]:
        """Return a placeholder for such a handle, and the tensor that is read by it."""
        key = f"{handle.split(';')[0]};{device_of_handle(handle)}", dtype.name
        found = self._readers.get(key)
        if found is None:
            with self._graph.as_default():
                found = self._readers[key] = get_session_tensor(handle, dtype)
        return found

    def mover(self, holder: Tensor, handle: str, dtype: DType) -> tuple[Tensor, Tensor]:
        """Return a placeholder for such a handle, and what keeps its tensor by another one."""
        source, reader = self.reader(handle, dtype)
        key = holder.name, source.name
        found = self._movers.get(key)
        if found is None:
            with self._graph.as_default(), self._graph.device(holder.op.device):
                found = self._movers[key] = source, apply_op("GetSessionHandle", reader)
        return found

    def deleter(self, place: int, handle: str) -> tuple[Tensor, Operation]:
        """Return a placeholder for such a handle, and what forgets its tensor.

        place: tells apart those that one step needs.
        """
        key = place, device_of_handle(handle)
        found = self._deleters.get(key)
        if found is None:
            with self._graph.as_default():
                found = self._deleters[key] = delete_session_tensor(handle)
        return found


class TensorHandle:
    """Stands for a tensor that a session keeps; what running get_session_handle gives.

    It may be fed in the place of any tensor of its type.
    """

    def __init__(self, handle: str, dtype: DType, session: HandleSession) -> None:
        self._handle = handle
        self._dtype = dtype
        self._session = session
        self._is_owned = True

    def __del__(self) -> None:
        # Any thread may collect garbage, so nothing is run here.
        if self._is_owned:
            self._session.handles.dropped.append(self._handle)

    def __str__(self) -> str:
        return self._handle

    @property
    def handle(self) -> str:
        """The name of the tensor in its session."""
        return self._handle

    def eval(self) -> Any:
        """Return the tensor's value.  Raises: TypeError once it may have been deleted."""
        self._require_owned()
        return self._read()

    def delete(self) -> None:
        """Let the session forget the tensor now.  Raises: TypeError once it may be deleted."""
        self._require_owned()
        self._is_owned = False
        _delete(self._session, [self._handle])

    def get_raw_handle(self) -> str:
        """Return the tensor's name, and leave it to the caller to delete the tensor."""
        self._is_owned = False
        return self._handle

    def to_numpy_array(self) -> np.ndarray[Any, Any]:
        """Return the handle as an array of the bytes of a resource handle."""
        resource = ResourceHandle(
            device=self._handle.split(";")[-1], container="TensorHandle", name=self._handle
        )
        content = resource.to_proto().SerializeToString()
        return np.frombuffer(bytearray(content), dtype=[("resource", np.uint8)])

    def value_for(self, tensor: Tensor, backend: Backend) -> Any:
        """Return the value to feed to a tensor of the session whose backend is given.

        Raises: InvalidArgumentError for a tensor of another type, or a value that the session does
        not keep.
        """
        if self._session.backend is not backend:
            raise not_kept(self._handle)
        here = backend.session_tensors
        value = self._read() if here is None else np.asarray(here.get(self._handle)[0])
        if self._dtype.base_dtype is not tensor.dtype.base_dtype:
            raise errors.InvalidArgumentError(
                f"Expects arg to be {tensor.dtype.base_dtype.name} but {self._dtype.name} is "
                f"provided: the handle {self._handle!r} was fed to {tensor.name!r}"
            )
        return value

    def _require_owned(self) -> None:
        if not self._is_owned:
            raise TypeError(f"Persistent tensor {self._handle} may have already been deleted.")

    def _read(self) -> Any:
        holder, reader = self._session.handles.reader(self._handle, self._dtype)
        return self._session.run(reader, {holder: self._handle})


def delete_dropped(session: HandleSession) -> None:
    """Have a session forget the tensors of dropped handles, once there are enough of them."""
    dropped = session.handles.dropped
    if len(dropped) < _DELETED_AT_ONCE or session.graph.finalized:
        return
    doomed = [dropped.popleft() for _ in range(_DELETED_AT_ONCE)]
    try:
        _delete(session, doomed)
    except errors.InvalidArgumentError:
        # Some were deleted by their names; the others may have stayed.
        for handle in doomed:
            try:
                _delete(session, [handle])
            except errors.InvalidArgumentError:
                continue


def moved(session: HandleSession, holder: Tensor, handle: str, dtype: DType) -> TensorHandle | None:
    """Return a handle to a copy on the device of a placeholder for handles; None where it is there.

    Raises: ValueError for a handle that names no device; InvalidArgumentError for one that is not
    kept.
    """
    if device_of_handle(handle) == canonical(holder.op.device) or ";" not in handle:
        return None
    source, mover = session.handles.mover(holder, handle, dtype)
    found: TensorHandle = session.run(mover, {source: handle})
    return found


def _delete(session: HandleSession, handles: list[str]) -> None:
    pairs = [session.handles.deleter(i, handle) for i, handle in enumerate(handles)]
    feeds = {holder: handle for (holder, _), handle in zip(pairs, handles)}
    session.run([deleter for _, deleter in pairs], feeds)
