# mypy: disable-error-code="empty-body"
"""What tideflow servers offer each other beside TensorFlow's services.

A real TensorFlow answers UNIMPLEMENTED to all of it, and is spoken to plainly.
Source: tideflow/wire/proto/peer.proto.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

from tideflow.transport import MethodSpec, Service, methods_of, rpc_stream
from tideflow.wire import errors
from tideflow.wire.peer_frame import PeerFrame

VERSION = 3

_SWITCH = "TIDEFLOW_PEER"


class PeerService(Service, name="tideflow.Peer"):
    """Keeps a line to another worker, on which both say what they have to say in frames."""

    @rpc_stream
    def Exchange(self, requests: AsyncIterator[PeerFrame]) -> AsyncIterator[PeerFrame]: ...


def exchange_method() -> MethodSpec:
    """Return the method that opens a line."""
    return methods_of(PeerService)["Exchange"]


def peer_extensions_enabled() -> bool:
    """Whether the environment lets servers use the extensions: TIDEFLOW_PEER is on (the default)
    or off.

    Raises: InvalidArgumentError for another value.
    """
    found = os.environ.get(_SWITCH, "on")
    if found not in ("on", "off"):
        raise errors.InvalidArgumentError(f"{_SWITCH} is {found!r}; it must be on or off")
    return found == "on"
