# mypy: disable-error-code="empty-body"
"""What tideflow servers offer each other beside TensorFlow's services.

A real TensorFlow answers UNIMPLEMENTED to all of it, and is spoken to plainly.
Source: tideflow/wire/proto/peer.proto.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from tideflow.cluster.services import WorkerService
from tideflow.transport import MethodSpec, Service, methods_of, rpc_stream
from tideflow.wire.peer_frame import PeerFrame

VERSION = 3


class PeerService(Service, name="tideflow.Peer"):
    """Keeps a stream to another worker, on which both say what they have to say in frames."""

    @rpc_stream
    def Exchange(self, requests: AsyncIterator[PeerFrame]) -> AsyncIterator[PeerFrame]: ...


def status_method() -> MethodSpec:
    """Return the method that tells whether a worker answers."""
    return methods_of(WorkerService)["GetStatus"]


def exchange_method() -> MethodSpec:
    """Return the method that opens a stream."""
    return methods_of(PeerService)["Exchange"]
