"""A gRPC server on our own wire."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable
from typing import Any

from tideflow.platform import clock
from tideflow.platform.settings import Settings, process_settings
from tideflow.transport import network, peer_user
from tideflow.transport.admission import Admission, RefusedError
from tideflow.transport.credentials import credentials_of
from tideflow.transport.h2 import frames, listening
from tideflow.transport.h2.arrival import Arrival
from tideflow.transport.h2.faults import ErrorCode
from tideflow.transport.h2.forks import keep_from_children
from tideflow.transport.h2.limits import BudgetsByPeer, Limits
from tideflow.transport.h2.listening import unix_path
from tideflow.transport.h2.messages import Parser
from tideflow.transport.h2.server_link import ServerLink
from tideflow.transport.h2.shared_memory_limit import most_shared_bytes
from tideflow.transport.h2.tls import offer_h2
from tideflow.transport.server import TransportServer
from tideflow.transport.service import Binding, Service, bind
from tideflow.wire import errors

_LOGGER = logging.getLogger(__name__)

# How long a cancelled handler may take for its clean-up before the server stops without it, and how
# long the answers may take to reach the transport.
_CLEAN_UP_S = 5.0
_TAKE_S = 1.0


class H2Server(TransportServer):
    """Serves some service objects at one TCP address (or `unix:PATH`).

    host_port is the only address listened at, unless listen_all asks for that port on every
    interface, as TensorFlow's server does.  Requests over max_message_bytes are refused with
    RESOURCE_EXHAUSTED; None means no limit.  tls is told to offer "h2" by ALPN, and nothing else.
    """

    def __init__(
        self,
        services: Iterable[Service],
        host_port: str,
        *,
        listen_all: bool = False,
        max_message_bytes: int | None = None,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or process_settings()
        self.bindings: dict[str, Binding] = bind(services)
        self.address = host_port
        self.max_message_bytes = max_message_bytes
        self.limits = limits or Limits()
        self.budgets = BudgetsByPeer(self.limits, clock.monotonic_s)
        self.tasks: set[asyncio.Task[Any]] = set()
        self.links: set[ServerLink] = set()
        self.is_ending = False
        self.port = 0
        self.parsers = {
            path: Parser(binding.spec.request_type) for path, binding in self.bindings.items()
        }
        self.services = ", ".join(sorted({b.spec.service for b in self.bindings.values()}))
        self._shares_host = tls is None and most_shared_bytes(self.settings.shared_memory) > 0
        has_own = tls is None and self.settings.tls and unix_path(host_port) is None
        self.admission = Admission(self.settings, trusts_tls=tls is not None)
        self._listen_all = listen_all
        self._tls = credentials_of(self.settings.tls).for_server() if has_own else offer_h2(tls)
        self._listening: list[network.Listening] | None = None
        self._has_started = False
        self._stopped = asyncio.Event()

    async def start(self) -> int:
        self._listening, self.port = await listening.listen(
            self._new_link,
            self.address,
            listen_all=self._listen_all,
            tls=self._tls,
            plain_peers=self.settings.insecure_peers,
            open_to=self._open_to(),
            shares_host=self._shares_host,
        )
        for server in self._listening:
            for listened_at in server.sockets:
                keep_from_children(listened_at)
        self._has_started = True
        if self.address.endswith(":0"):
            self.address = f"{self.address[:-1]}{self.port}"
        return self.port

    def _open_to(self) -> str:
        if self.settings.insecure:
            return "whoever reaches it (--insecure)"
        peers = self.settings.insecure_peers
        return f"the hosts of {peers} (--insecure-peer)" if peers else ""

    def _new_link(self) -> asyncio.BaseProtocol:
        link = ServerLink(self)
        has_tls = self._tls is not None and not self.settings.insecure_peers
        if has_tls or peer_user.kernel_answers():
            return link
        return Arrival(link, self.admission.identify_slowly, self.refuse)

    def refuse(self, transport: Any, refused: RefusedError) -> None:
        """Hang up on a peer that may not speak here, with the reason, and write it to the log."""
        self.admission.tell(refused, self.address)
        goaway = frames.goaway_frame(0, ErrorCode.INADEQUATE_SECURITY, f"refused {refused}")
        transport.write(frames.settings_frame({}) + goaway)
        transport.close()

    async def stop(self, grace_s: float = 0.0) -> None:
        servers, self._listening = self._listening, None
        if servers is None:
            if not self._has_started:
                self._stopped.set()  # there is nothing to wait for
            await self._stopped.wait()
            return
        try:
            for server in servers:
                server.close()
            listening.remove_socket_file(self.address)
            for link in self.links:
                link.leave()
            if grace_s > 0 and self.tasks:
                await asyncio.wait(self.tasks, timeout=grace_s)
            await self._end_calls()
            await self._wait_taken()
            for link in list(self.links):
                link.close_when_written()
            if self.links:
                await asyncio.wait(
                    [asyncio.ensure_future(link.closed.wait()) for link in self.links],
                    timeout=_CLEAN_UP_S,
                )
        finally:
            # Also where the caller had no more time.
            for link in list(self.links):
                link.abort("the server stopped")
            self.admission.close()
            self._stopped.set()

    async def _end_calls(self) -> None:
        self.is_ending = True
        for link in self.links:
            link.end_calls(self.stopping_error)
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=_CLEAN_UP_S)
        if self.tasks:
            _LOGGER.warning(
                "the server at %s stopped with %d handlers still running after %g s",
                self.address, len(self.tasks), _CLEAN_UP_S,
            )  # fmt: skip

    async def _wait_taken(self) -> None:
        """Let peers take the answers that lie in our memory; those in the socket outlast us."""
        asked = [link.shared.ask_taken() for link in self.links]
        answers = [answer for answer in asked if answer is not None]
        if answers:
            for link in list(self.links):
                link.flush()
            await asyncio.wait(answers, timeout=_TAKE_S)

    async def wait_stopped(self) -> None:
        await self._stopped.wait()

    def stopping_error(self, path: str) -> errors.OpError:
        """Return what a call gets that the stopping server cuts off."""
        return errors.UnavailableError(
            f"the server at {self.address} stopped before it could answer {path}"
        )

    def unknown_error(self, path: str) -> errors.OpError:
        """Return what a call gets whose method nobody here has."""
        return errors.UnimplementedError(
            f"{path} is not served here; this server has {self.services or 'no service'}"
        )
