"""Which transport serves an address: its scheme says, `grpc://` when it has none.

A new transport is one module with a server and a channel, one line in _TRANSPORTS, and one `Pair`
in the contract suite, which fails while it lacks one.
"""

from __future__ import annotations

import importlib
import os
import ssl
from collections.abc import Iterable
from typing import Any, Protocol

from tideflow.transport.channel import Channel
from tideflow.transport.h2 import H2Channel, H2Server
from tideflow.transport.server import TransportServer
from tideflow.transport.service import Service
from tideflow.wire import errors


class Transport(Protocol):
    """How one scheme makes its two ends."""

    def make_server(
        self,
        services: Iterable[Service],
        host_port: str,
        *,
        listen_all: bool,
        max_message_bytes: int | None,
        tls: ssl.SSLContext | None,
    ) -> TransportServer:
        """Return a server, not started."""
        ...

    def make_channel(
        self, address: str, *, peer_name: str | None, tls: ssl.SSLContext | None
    ) -> Channel:
        """Return a channel, not connected."""
        ...


class GrpcioTransport:
    """gRPC by grpcio, which need not be installed until it is asked for."""

    def make_server(
        self,
        services: Iterable[Service],
        host_port: str,
        *,
        listen_all: bool,
        max_message_bytes: int | None,
        tls: ssl.SSLContext | None,
    ) -> TransportServer:
        _refuse_tls(tls)
        made: TransportServer = _import_grpcio("grpc_server").GrpcServer(
            services, host_port, listen_all=listen_all, max_message_bytes=max_message_bytes
        )
        return made

    def make_channel(
        self, address: str, *, peer_name: str | None, tls: ssl.SSLContext | None
    ) -> Channel:
        _refuse_tls(tls)
        made: Channel = _import_grpcio("grpc_channel").GrpcChannel(address, peer_name=peer_name)
        return made


class H2Transport:
    """gRPC by our own wire."""

    def make_server(
        self,
        services: Iterable[Service],
        host_port: str,
        *,
        listen_all: bool,
        max_message_bytes: int | None,
        tls: ssl.SSLContext | None,
    ) -> TransportServer:
        return H2Server(
            services,
            host_port,
            listen_all=listen_all,
            max_message_bytes=max_message_bytes,
            tls=tls,
        )

    def make_channel(
        self, address: str, *, peer_name: str | None, tls: ssl.SSLContext | None
    ) -> Channel:
        return H2Channel(address, peer_name=peer_name, tls=tls)


DEFAULT_SCHEME = "grpc"

_TRANSPORTS: dict[str, Transport] = {"grpcio": GrpcioTransport(), "h2": H2Transport()}
# Both speak gRPC; the variable says which one answers to its name.
_chosen = os.environ.get("TIDEFLOW_GRPC", "h2")
if _chosen not in _TRANSPORTS:
    raise errors.InvalidArgumentError(
        f"TIDEFLOW_GRPC is {_chosen!r}; it must be one of {', '.join(sorted(_TRANSPORTS))}"
    )
_TRANSPORTS[DEFAULT_SCHEME] = _TRANSPORTS[_chosen]


def schemes() -> tuple[str, ...]:
    """Return the schemes that have a transport, in order of the alphabet."""
    return tuple(sorted(_TRANSPORTS))


def has_pipes() -> bool:
    """Whether the transport that serves gRPC addresses has pipes."""
    return _chosen == "h2"


def make_server(
    scheme: str,
    services: Iterable[Service],
    host_port: str,
    *,
    listen_all: bool = False,
    max_message_bytes: int | None = None,
    tls: ssl.SSLContext | None = None,
) -> TransportServer:
    """Return a server for some services, not started yet.

    scheme is a cluster's protocol ("grpc").  host_port is `HOST:PORT` (or `unix:PATH`), the only
    address listened at, unless listen_all asks for that port on every interface.  Requests over
    max_message_bytes are refused with RESOURCE_EXHAUSTED; None means no limit.  tls is a context
    for servers, with a certificate loaded; one with verify_mode CERT_REQUIRED asks clients for
    theirs.  It offers nothing but "h2" by ALPN from here on.
    Raises: InvalidArgumentError for a scheme that no transport has, or tls on one that cannot.
    """
    return _find(scheme).make_server(
        services, host_port, listen_all=listen_all, max_message_bytes=max_message_bytes, tls=tls
    )


def make_channel(
    address: str, *, peer_name: str | None = None, tls: ssl.SSLContext | None = None
) -> Channel:
    """Return a channel to `HOST:PORT` or `SCHEME://HOST:PORT`; it connects on first use.

    tls is a context for clients: whom it trusts, and our certificate where the server wants one.
    It offers nothing but "h2" by ALPN from here on.
    Raises: InvalidArgumentError for a scheme that no transport has, or tls on one that cannot.
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, rest = DEFAULT_SCHEME, address
    return _find(scheme).make_channel(rest, peer_name=peer_name, tls=tls)


def _find(scheme: str) -> Transport:
    found = _TRANSPORTS.get(scheme)
    if found is None:
        raise errors.InvalidArgumentError(
            f"no transport for {scheme!r}; there is: {', '.join(schemes())}"
        )
    return found


def _import_grpcio(module: str) -> Any:
    """Return a module of ours that imports grpcio.

    Not at the top of this file: grpcio is an extra, and takes as long to import as all the rest.
    """
    try:
        return importlib.import_module(f"tideflow.transport.{module}")
    except ModuleNotFoundError as error:
        if error.name != "grpc":
            raise
        raise errors.FailedPreconditionError(
            "the grpcio transport was asked for, but grpcio is not installed: run"
            " `pip install tideflow[grpcio]`, or unset TIDEFLOW_GRPC to use tideflow's own wire"
        ) from None


def _refuse_tls(tls: ssl.SSLContext | None) -> None:
    if tls is not None:
        raise errors.InvalidArgumentError(
            "the grpcio transport does not take an ssl.SSLContext; use the scheme h2 with tls"
        )
