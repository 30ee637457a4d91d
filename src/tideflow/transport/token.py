"""The secret of a cluster, for those who cannot have certificates: a bearer token in each call.

Whoever has it counts as a task.  It is sent over TLS, or to this host, and nowhere else.
"""

from __future__ import annotations

import functools
import hmac
import ipaddress
from pathlib import Path

from tideflow.platform.settings import Settings
from tideflow.wire import errors

HEADER = "authorization"
_SCHEME = "Bearer "
_LEAST = 16


def token_of(settings: Settings) -> str:
    """Return the token that settings give, themselves or by a file; "" for none.

    Raises: InvalidArgumentError for one that is short, or a file that cannot be read.
    """
    if (settings.token or settings.token_file) and settings.insecure_peers:
        raise errors.InvalidArgumentError(
            "a token and networks without TLS do not go together: it would be read on its way"
        )
    if settings.token:
        return _checked(settings.token, "TIDEFLOW_TOKEN")
    return _token_in(settings.token_file) if settings.token_file else ""


@functools.cache
def _token_in(file: str) -> str:
    try:
        return _checked(Path(file).read_text(encoding="utf-8").strip(), file)
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidArgumentError(f"no token in {file}: {error}") from None


def _checked(token: str, where: str) -> str:
    if len(token) < _LEAST or not token.isascii() or not token.isprintable():
        raise errors.InvalidArgumentError(
            f"the token of {where} is no secret: it must have {_LEAST} printable characters or more"
            " (`python -c 'import secrets; print(secrets.token_hex(32))'` makes one)"
        )
    return token


def metadata_with(token: str, address: str, *, is_secure: bool) -> tuple[tuple[str, str], ...]:
    """Return the metadata that brings a token to a server; nothing for "".

    Raises: PermissionDeniedError where others could read it on its way.
    """
    if not token:
        return ()
    if not is_secure and not _is_here(address):
        raise errors.PermissionDeniedError(
            f"the token is not sent to {address} without TLS: give --tls, or no token"
        )
    return ((HEADER, _SCHEME + token),)


def _is_here(address: str) -> bool:
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def holds(token: str, value: bytes) -> bool:
    """Whether a header's value brings a token; how long that takes tells nothing of it."""
    return hmac.compare_digest(value, (_SCHEME + token).encode())
