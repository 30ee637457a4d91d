"""Random names for steps, requests, sessions and incarnations.

All come from the system's source of randomness: peers make them independently and must not meet,
and whoever guesses a session handle could use the session.
Source: §§2, 3 of the recorded behaviour.
"""

from __future__ import annotations

import secrets

_STEP_ID_BITS = 57
_INT64_SIGN = 2**63


def signed64(number: int) -> int:
    """Return the int64 with the bits of a number from 0 to 2**64 - 1, as messages hold it."""
    return number - 2 * _INT64_SIGN if number >= _INT64_SIGN else number


def new_step_id() -> int:
    """Return a number for one step: 57 random bits."""
    return secrets.randbits(_STEP_ID_BITS)


def new_request_id() -> int:
    """Return a number for one request, as an int64; never 0, which means "not checked"."""
    return (secrets.randbelow(2**64 - 1) + 1 + _INT64_SIGN) % 2**64 - _INT64_SIGN


def new_incarnation() -> int:
    """Return a number for one life of a device: 64 unsigned bits, never 0."""
    return secrets.randbelow(2**64 - 1) + 1


def new_handle() -> str:
    """Return an opaque handle for a session or a graph: 16 hexadecimal digits."""
    return secrets.token_hex(8)
