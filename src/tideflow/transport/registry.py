"""Which transport serves an address: its scheme says, `grpc://` when it has none.

A new transport is one module with a server and a channel, one line in _TRANSPORTS, and one `Pair`
in the contract suite, which fails while it lacks one.
"""

from __future__ import annotations

import importlib
import ssl
from collections.abc import Iterable
from typing import Any, Protocol

from tideflow.platform.settings import Settings, process_settings
from tideflow.transport.channel import Channel
from tideflow.transport.h2 import H2Channel, H2Server
from tideflow.transport.server import TransportServer
from tideflow.transport.service import Service
from tideflow.wire import errors


class Transport(Protocol):
    """How one scheme makes its two ends."""

    def prepare(self) -> None:
        """Import what it needs."""
        ...

    def make_server(
        self,
        services: Iterable[Service],
        host_port: str,
        *,
        listen_all: bool,
        max_message_bytes: int | None,
        tls: ssl.SSLContext | None,
        settings: Settings,
    ) -> TransportServer:
        """Return a server, not started."""
        ...

    def make_channel(
        self,
        address: str,
        *,
        peer_name: str | None,
        tls: ssl.SSLContext | None,
        settings: Settings,
    ) -> Channel:
        """Return a channel, not connected."""
        ...


class GrpcioTransport:
    """gRPC by grpcio, which need not be installed until it is asked for."""

    def prepare(self) -> None:
        _import_grpcio("grpc_server")

    def make_server(
        self,
        services: Iterable[Service],
        host_port: str,
        *,
        listen_all: bool,
        max_message_bytes: int | None,
        tls: ssl.SSLContext | None,
        settings: Settings,
    ) -> TransportServer:
        _refuse_tls(tls)
        made: TransportServer = _import_grpcio("grpc_server").GrpcServer(
            services,
            host_port,
            listen_all=listen_all,
            max_message_bytes=max_message_bytes,
            settings=settings,
        )
        return made

    def make_channel(
        self,
        address: str,
        *,
        peer_name: str | None,
        tls: ssl.SSLContext | None,
        settings: Settings,
    ) -> Channel:
        _refuse_tls(tls)
        made: Channel = _import_grpcio("grpc_channel").GrpcChannel(address, peer_name=peer_name)
        return made


class H2Transport:
    """gRPC by our own wire."""

    def prepare(self) -> None:
        """Nothing: what it needs is imported."""

    def make_server(
        self,
        services: Iterable[Service],
        host_port: str,
        *,
        listen_all: bool,
        max_message_bytes: int | None,
        tls: ssl.SSLContext | None,
        settings: Settings,
    ) -> TransportServer:
        return H2Server(
            services,
            host_port,
            listen_all=listen_all,
            max_message_bytes=max_message_bytes,
            tls=tls,
            settings=settings,
        )

    def make_channel(
        self,
        address: str,
        *,
        peer_name: str | None,
        tls: ssl.SSLContext | None,
        settings: Settings,
    ) -> Channel:
        return H2Channel(address, peer_name=peer_name, tls=tls, settings=settings)


DEFAULT_SCHEME = "grpc"

_TRANSPORTS: dict[str, Transport] = {"grpcio": GrpcioTransport(), "h2": H2Transport()}


def schemes() -> tuple[str, ...]:
    """Return the schemes that have a transport, in order of the alphabet."""
    return tuple(sorted((DEFAULT_SCHEME, *_TRANSPORTS)))


def has_pipes(settings: Settings) -> bool:
    """Whether the transport that serves gRPC addresses has message streams."""
    return settings.grpc == "h2"


def prepare(scheme: str, settings: Settings) -> None:
    """Import what a scheme's transport needs, which may take long.

    Raises: InvalidArgumentError for a scheme that no transport has.
    """
    _find(scheme, settings).prepare()


def make_server(
    scheme: str,
    services: Iterable[Service],
    host_port: str,
    *,
    listen_all: bool = False,
    max_message_bytes: int | None = None,
    tls: ssl.SSLContext | None = None,
    settings: Settings | None = None,
) -> TransportServer:
    """Return a server for some services, not started yet.

    scheme is a cluster's protocol ("grpc").  host_port is `HOST:PORT` (or `unix:PATH`), the only
    address listened at, unless listen_all asks for that port on every interface.  Requests over
    max_message_bytes are refused with RESOURCE_EXHAUSTED; None means no limit.  tls is a context
    for servers, with a certificate loaded; one with verify_mode CERT_REQUIRED asks clients for
    theirs.  It offers nothing but "h2" by ALPN from here on.  settings: the process's by default.
    Raises: InvalidArgumentError for a scheme that no transport has, or tls on one that cannot.
    """
    settings = settings or process_settings()
    return _find(scheme, settings).make_server(
        services,
        host_port,
        listen_all=listen_all,
        max_message_bytes=max_message_bytes,
        tls=tls,
        settings=settings,
    )


def make_channel(
    address: str,
    *,
    peer_name: str | None = None,
    tls: ssl.SSLContext | None = None,
    settings: Settings | None = None,
) -> Channel:
    """Return a channel to `HOST:PORT` or `SCHEME://HOST:PORT`; it connects on first use.

    tls is a context for clients: whom it trusts, and our certificate where the server wants one.
    It offers nothing but "h2" by ALPN from here on.  settings: the process's by default.
    Raises: InvalidArgumentError for a scheme that no transport has, or tls on one that cannot.
    """
    settings = settings or process_settings()
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, rest = DEFAULT_SCHEME, address
    transport = _find(scheme, settings)
    return transport.make_channel(rest, peer_name=peer_name, tls=tls, settings=settings)


def _find(scheme: str, settings: Settings) -> Transport:
    # Both speak gRPC; the setting says which one answers to its name.
    found = _TRANSPORTS.get(settings.grpc if scheme == DEFAULT_SCHEME else scheme)
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
