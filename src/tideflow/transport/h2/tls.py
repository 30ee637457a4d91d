"""What TLS needs to carry HTTP/2: both ends agree on "h2" by ALPN.

Source: RFC 9113, section 3.2; RFC 7301
"""

from __future__ import annotations

import asyncio
import ssl

_PROTOCOL = "h2"

# How long a peer may take for its part of the handshake, and for its close_notify.
HANDSHAKE_S = 10.0
SHUTDOWN_S = 5.0

# What a server says of our certificate, in TLS 1.3 only after it has seemed content.
_ALERTS = {
    "alert certificate required": (
        "the server wants a certificate, and we have shown none: give --tls DIR, or TIDEFLOW_TLS"
    ),
    "alert certificate expired": (
        "the server says that our certificate has run out: make a new one (`tideflow certs`)"
    ),
    "alert unknown ca": "the server does not trust the authority that signed our certificate",
    "alert bad certificate": "the server does not take our certificate",
}
_HUNG_UP = ("the peer closed the connection", "reset by peer")


def offer_h2(context: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """Let a context offer "h2" and nothing else by ALPN, and return it."""
    if context is not None:
        context.set_alpn_protocols([_PROTOCOL])
    return context


def fault_of(transport: asyncio.BaseTransport) -> str:
    """Return why a connection with TLS cannot carry HTTP/2; "" for one that can, or has no TLS."""
    secured = transport.get_extra_info("ssl_object")
    if secured is None:
        return ""
    agreed = secured.selected_alpn_protocol()
    if agreed == _PROTOCOL:
        return ""
    found = f"agreed to {agreed!r}" if agreed else "agreed to nothing"
    return f"the peer does not speak HTTP/2: by TLS's ALPN it {found}, not to {_PROTOCOL!r}"


def why_not_connected(error: Exception, *, has_tls: bool, was_open: bool, lacks: str = "") -> str:
    """Return what to say of a connection that could not be made, with what to look at next.

    was_open tells a peer that hung up before its first words from one that was never reached; lacks
    is what our certificate may be missing.
    """
    told = next((words for alert, words in _ALERTS.items() if alert in str(error).lower()), "")
    if told:
        return told
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the peer's certificate is not trusted: {error.verify_message}; load the CA that"
            " signed it into the channel's SSLContext, and call the peer by a name that is in it"
        )
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        if "wrong version number" in reason or "record layer" in reason:
            return f"the peer does not speak TLS ({reason}): is it a server without `tls`?"
        return f"TLS failed: {reason}"
    if was_open and any(words in str(error) for words in _HUNG_UP):
        if has_tls and lacks:
            return f"{error}, before it said anything: {lacks}"
        wanted = "a certificate of ours that it trusts" if has_tls else "TLS"
        return f"{error}, before it said anything; does it want {wanted}?"
    return str(error)
