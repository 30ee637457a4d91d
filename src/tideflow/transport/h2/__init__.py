"""gRPC over HTTP/2 of our own: a core without I/O, and a shell on the event loop.

frames, header_blocks      bytes <-> frames and headers
connection, peer_control   the state machine: bytes in, events out; requests in, bytes out
grpc, messages             calls, statuses and messages in terms of HTTP/2
shared_memory*             large messages between processes of one host
link                       the core on a transport; server_link and client_link, its two ends
server, channel            what the rest of tideflow uses
"""

from __future__ import annotations

from tideflow.transport.h2.channel import H2Channel
from tideflow.transport.h2.forwarding import Proxy
from tideflow.transport.h2.listening import is_loopback, split_host_port
from tideflow.transport.h2.messages import lend_memory
from tideflow.transport.h2.server import H2Server

__all__ = ["H2Channel", "H2Server", "Proxy", "is_loopback", "lend_memory", "split_host_port"]
