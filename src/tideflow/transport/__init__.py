"""How a service is called: in process or over the network.

`service` declares, `stub` calls, `make_server` answers; `registry` picks the transport by scheme.
"""

from __future__ import annotations

from tideflow.transport.callers import Caller, current_caller
from tideflow.transport.channel import Channel, NotGrpcError, stub, within
from tideflow.transport.h2 import Proxy, is_loopback, lend_memory, split_host_port
from tideflow.transport.inprocess import LocalChannel
from tideflow.transport.message_stream import MessageStream, StreamReceiver
from tideflow.transport.network import free_ports
from tideflow.transport.pauses import growing_pauses_s
from tideflow.transport.registry import has_pipes, make_channel, make_server, prepare
from tideflow.transport.server import TransportServer
from tideflow.transport.service import AtOnce, MethodSpec, Service, methods_of, rpc, rpc_stream
from tideflow.transport.statistics import MethodStatistics

__all__ = [
    "AtOnce",
    "Caller",
    "Channel",
    "LocalChannel",
    "MessageStream",
    "MethodSpec",
    "MethodStatistics",
    "NotGrpcError",
    "Proxy",
    "Service",
    "StreamReceiver",
    "TransportServer",
    "current_caller",
    "free_ports",
    "growing_pauses_s",
    "has_pipes",
    "is_loopback",
    "lend_memory",
    "make_channel",
    "make_server",
    "methods_of",
    "prepare",
    "rpc",
    "rpc_stream",
    "split_host_port",
    "stub",
    "within",
]
