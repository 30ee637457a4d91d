"""Every way to call a service, each as a `Pair` for the contract.  A new one is one row in WAYS."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator
from typing import Any, ClassVar

from google.protobuf.message import Message

from tideflow.platform.settings import Settings
from tideflow.transport import Channel, LocalChannel, MethodSpec, make_channel, make_server
from tideflow.wire import errors
from transport.certificates import certificates
from transport.contract import Pair, Prober, ProberAtOnce


class InProcess(Pair):
    scheme = None

    async def start(self) -> None:
        self.server = Prober()
        self.channel = self.local = LocalChannel([self.server])

    async def stop_server(self) -> None:
        await self.local.end(errors.UnavailableError("the service stopped"))


class AtPort(Pair):
    """Both ends by the registry, at a port of this machine.

    On our own wire they take the shorter ways within a host: a Unix socket and shared memory.

    environment: what differs from the defaults.
    """

    scheme: ClassVar[str | None] = "h2"
    environment: ClassVar[dict[str, str]] = {}
    prober: ClassVar[type[Prober]] = Prober

    def contexts(self) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
        """Return the server's and the channel's TLS."""
        return None, None

    def address(self) -> str:
        return "127.0.0.1:0"

    async def start(self) -> None:
        assert self.scheme is not None
        self.server = self.prober()
        server_tls, channel_tls = self.contexts()
        address = self.address()
        settings = Settings.from_environment(self.environment)
        self.transport = make_server(
            self.scheme, [self.server], address, tls=server_tls, settings=settings
        )
        port = await self.transport.start()
        where = f"127.0.0.1:{port}" if port else address
        self.channel = make_channel(f"{self.scheme}://{where}", tls=channel_tls, settings=settings)

    async def stop_server(self) -> None:
        await self.transport.stop()


class Grpcio(AtPort):
    scheme = "grpcio"


class AnsweredAtOnce(AtPort):
    """A server whose methods need no task where they need not wait."""

    prober = ProberAtOnce


class OverUnix(AtPort):
    environment: ClassVar[dict[str, str]] = {"TIDEFLOW_SPIN": "off"}

    def address(self) -> str:
        self._folder = tempfile.TemporaryDirectory()
        return f"unix:{self._folder.name}/socket"

    async def close(self) -> None:
        await super().close()
        self._folder.cleanup()


class OverTls(AtPort):
    def contexts(self) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
        made = certificates()
        return made.server_context(asks_clients=True), made.client_context(shows_own=True)


class BetweenHosts(AtPort):
    """As if the ends were on two hosts: every byte goes through a TCP socket."""

    environment: ClassVar[dict[str, str]] = {
        "TIDEFLOW_SHARED_MEMORY": "off",
        "TIDEFLOW_SPIN": "off",
    }


class _FromThreads(Channel):
    """Makes the unary calls of a channel as a user's threads do, without the event loop."""

    def __init__(self, inner: Channel) -> None:
        super().__init__(inner.target)
        self.statistics = inner.statistics
        self._inner = inner

    async def unary(self, method: MethodSpec, request: Message, **options: Any) -> Message:
        assert self._inner.blocking is not None
        timeout_s = options["timeout_s"]
        call = self._inner.blocking.unary
        return await asyncio.to_thread(call, method, request, timeout_s=timeout_s)

    def stream(
        self, method: MethodSpec, requests: AsyncIterator[Message], **options: Any
    ) -> AsyncIterator[Message]:
        return self._inner.stream(method, requests, **options)

    async def close(self) -> None:
        await self._inner.close()


class FromThreads(AtPort):
    ends_with_its_task = False

    async def start(self) -> None:
        await super().start()
        self.channel = _FromThreads(self.channel)


WAYS: dict[str, type[Pair]] = {
    "in process": InProcess,
    "grpcio": Grpcio,
    "h2, within a host": AtPort,
    "h2, between hosts": BetweenHosts,
    "h2, from threads": FromThreads,
    "h2, answered at once": AnsweredAtOnce,
    "h2 over a Unix socket": OverUnix,
    "h2 over TLS": OverTls,
}
