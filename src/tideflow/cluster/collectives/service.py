# mypy: disable-error-code="empty-body"
"""The service by which tideflow workers give each other buffers of collectives.

A stream goes one way: who opened it pushes, the other one takes.  Groups that have a member without
it are served with RecvBuf, as TensorFlow's are.
Source: tideflow/wire/proto/peer.proto, of which a frame's tensors are used.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from tideflow.transport import (
    MessageStream,
    MethodSpec,
    Service,
    StreamReceiver,
    methods_of,
    rpc_stream,
)
from tideflow.wire import errors
from tideflow.wire.peer_frame import PeerFrame

# Stands before a key that tells of a failure.
_FAILURE = "!"
# Between a key and the description of the collective.
_SEPARATOR = "\n"


class CollectiveService(Service, name="tideflow.Collectives"):
    """Takes buffers of collectives that another worker pushes."""

    @rpc_stream
    def Exchange(self, requests: AsyncIterator[PeerFrame]) -> AsyncIterator[PeerFrame]: ...


def exchange_method() -> MethodSpec:
    """Return the method that opens a stream."""
    return methods_of(CollectiveService)["Exchange"]


def buffer_frame(key: str, description: str, buffer: Any) -> PeerFrame:
    """Return the frame of one buffer."""
    frame = PeerFrame()
    frame.add(0, f"{key}{_SEPARATOR}{description}", buffer, False)
    return frame


def failure_frame(group_key: int, number: int, error: errors.OpError) -> PeerFrame:
    """Return the frame that tells of a failure of a group."""
    frame = PeerFrame()
    frame.message.tensor.add(
        rendezvous_key=f"{_FAILURE}{group_key}:{number}{_SEPARATOR}{error.message}",
        step_id=error.error_code,
    )
    return frame


class CollectiveReceiver(StreamReceiver):
    """The end of a stream that takes.

    Args:
      accept: takes a buffer with its key and the description of its collective.
      fail: takes a group's key and number, and the error with which it has failed.
    """

    def __init__(
        self,
        accept: Callable[[str, str, Any], None],
        fail: Callable[[int, int, errors.OpError], None],
    ) -> None:
        self._accept = accept
        self._fail = fail

    def received(self, message: PeerFrame) -> None:
        for entry_pb in message.message.tensor:
            key, _, text = entry_pb.rendezvous_key.partition(_SEPARATOR)
            try:
                if key.startswith(_FAILURE):
                    group_key, _, number = key[1:].partition(":")
                    error = errors.error_for_code(entry_pb.step_id)(text, code=entry_pb.step_id)
                    self._fail(int(group_key), int(number), error)
                else:
                    self._accept(key, text, message.value(entry_pb))
            except ValueError:
                raise errors.InvalidArgumentError(f"not the key of a buffer: {key!r}") from None

    def ended(self, error: errors.OpError | None) -> None:
        """Do nothing: who depends on the other has a stream to it, which ends as well."""


class CollectiveStreams(CollectiveService):
    """Answers the service by handing what comes to a receiver."""

    def __init__(self, receiver: CollectiveReceiver) -> None:
        self._receiver = receiver

    def accept_message_stream(self, name: str, messages: MessageStream) -> StreamReceiver | None:
        return self._receiver
