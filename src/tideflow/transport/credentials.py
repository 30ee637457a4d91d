"""The certificate, key and trusted authorities of this process, as their files are now.

Files may be replaced while connections are open: each new handshake uses what the files then say,
and those that cannot be read, as in the middle of a change, leave what there was.  The file of
authorities may hold several, so that certificates of an old and a new one are good for a while.
"""

from __future__ import annotations

import logging
import os
import ssl
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tideflow.platform import clock
from tideflow.transport.certificates import pem_ends_at_s
from tideflow.wire import errors

_LOGGER = logging.getLogger(__name__)

CERTIFICATE, KEY, AUTHORITIES = "cert.pem", "key.pem", "ca.pem"
# As `tideflow certs` and cert-manager call them.
_NAMES = ((CERTIFICATE, KEY, AUTHORITIES), ("tls.crt", "tls.key", "ca.crt"))
CLIENT = "client"
# How often files are looked at.
_LOOK_S = 1.0


_lock = threading.Lock()
_known: dict[str, Credentials] = {}


@dataclass(frozen=True)
class CredentialFiles:
    """Where a certificate (with its chain), its key and the trusted authorities are, as PEM.

    Who has a token may be without certificate and key.
    """

    certificate: Path | None
    key: Path | None
    authorities: Path

    def __str__(self) -> str:
        return str(self.certificate or self.authorities)

    @property
    def present(self) -> list[Path]:
        """Those that there are."""
        return [file for file in (self.certificate, self.key, self.authorities) if file]

    @property
    def as_setting(self) -> str:
        """The files as Settings.tls names them."""
        return f"{self.certificate or ''}:{self.key or ''}:{self.authorities}"


def find_files(tls: str, holder: str = CLIENT) -> CredentialFiles:
    """Return the files that a setting means.

    tls: CERTIFICATE:KEY:AUTHORITIES, of which the first two may be empty; or a folder with them,
    or with such folders for tasks ("worker-0") and clients.  holder: which of those.
    Raises: InvalidArgumentError that says what is missing.
    """
    parts = tls.split(":")
    if len(parts) == 3:
        certificate, key, authorities = (Path(part) if part else None for part in parts)
        if authorities is None:
            raise errors.InvalidArgumentError(f"{tls!r} names no file of authorities")
        return CredentialFiles(certificate, key, authorities)
    folder = Path(tls)
    for place in (folder, folder / holder, folder / CLIENT):
        for names in _NAMES:
            if all((place / name).is_file() for name in names):
                return CredentialFiles(*(place / name for name in names))
    raise errors.InvalidArgumentError(
        f"{tls} holds no certificate for {holder}: it needs {CERTIFICATE}, {KEY} and {AUTHORITIES},"
        f" or a folder {holder} or {CLIENT} with them; `tideflow certs DIR --cluster FILE` makes"
        " such folders"
    )


def credentials_of(tls: str) -> Credentials:
    """Return what a setting names; the same object for the same text.  Raises: as find_files."""
    with _lock:
        found = _known.get(tls)
        if found is None:
            found = _known[tls] = Credentials(find_files(tls))
        return found


def reload_all() -> None:
    """Read all certificates of this process again."""
    with _lock:
        known = list(_known.values())
    for one in known:
        one.reload()


class Credentials:
    """One certificate, for both ends of connections.

    Raises: InvalidArgumentError for files that make no sense.
    """

    def __init__(self, files: CredentialFiles) -> None:
        self.files = files
        self._lock = threading.Lock()
        self._looked_at_s = clock.monotonic_s()
        self._state = self._look()
        self._server, self._client = self._load()

    def for_server(self) -> ssl.SSLContext:
        """Return a context to listen with, whose handshakes use the files as they then are.

        It lets clients in that show no certificate, which are to be told so (see admission.py).
        """
        if self.files.certificate is None:
            raise errors.InvalidArgumentError(f"a server needs a certificate beside {self.files}")
        door = self._server_context()

        def use_latest(connection: Any, name: str | None, context: ssl.SSLContext) -> None:
            connection.context = self._latest()[0]

        # Called for every handshake, also where the client names no server.
        door.sni_callback = use_latest
        return door

    def for_client(self) -> ssl.SSLContext:
        """Return a context to connect with, by the files as they are."""
        return self._latest()[1]

    def what_it_lacks(self) -> str:
        """Return what a server may have against this certificate, in words."""
        file = self.files.certificate
        if file is None:
            return "it wants a certificate, and we have shown none: give --tls DIR, or TIDEFLOW_TLS"
        try:
            if pem_ends_at_s(file.read_text(encoding="ascii")) <= clock.wall_s():
                return f"our certificate {file} has run out: make a new one (`tideflow certs`)"
        except (OSError, ValueError) as error:
            return f"our certificate {file} cannot be read: {error}"
        return f"does it trust the authority that signed our certificate {file}?"

    def reload(self) -> None:
        """Read the files again now."""
        with self._lock:
            self._reload()

    def _latest(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        with self._lock:
            now_s = clock.monotonic_s()
            if now_s - self._looked_at_s >= _LOOK_S:
                self._looked_at_s = now_s
                if self._look() != self._state:
                    self._reload()
            return self._server, self._client

    def _look(self) -> tuple[Any, ...]:
        try:
            found = [file.stat() for file in self.files.present]
        except OSError:
            return ()
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)

    def _reload(self) -> None:
        state = self._look()
        try:
            self._server, self._client = self._load()
        except errors.InvalidArgumentError as error:
            _LOGGER.warning("new handshakes go on with the old certificate: %s", error)
            return
        self._state = state
        _LOGGER.info("new handshakes use %s as it is now", self.files)

    def _load(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        try:
            key = self.files.key
            if key and key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) and os.name == "posix":
                _LOGGER.warning("%s can be read by others: chmod 600 it", key)
            return self._server_context(), self._client_context()
        except (OSError, ValueError) as error:  # of which ssl.SSLError is one
            raise errors.InvalidArgumentError(
                f"no certificate from {' and '.join(map(str, self.files.present))}: {error}"
            ) from None

    def _server_context(self) -> ssl.SSLContext:
        made = self._with_files(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        made.verify_mode = ssl.CERT_OPTIONAL
        # Nobody takes a session up again whose certificate has run out since.
        made.num_tickets = 0
        return made

    def _client_context(self) -> ssl.SSLContext:
        return self._with_files(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _with_files(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if self.files.certificate:
            context.load_cert_chain(self.files.certificate, self.files.key)
        context.load_verify_locations(self.files.authorities)
        context.set_alpn_protocols(["h2"])
        return context
