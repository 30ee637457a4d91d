"""Hashes of strings that checkpoints and other programs rely on, from libraries in C.

Most programs hash no string, so a library is imported by the first that does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable


@functools.cache
def fingerprint64() -> Callable[[bytes], int]:
    """Return FarmHash's Fingerprint64: bytes to a number below 2**64."""
    import farmhash  # noqa: PLC0415 - only who hashes needs it

    found: Callable[[bytes], int] = farmhash.fingerprint64
    return found


@functools.cache
def fingerprint128() -> Callable[[bytes], tuple[int, int]]:
    """Return FarmHash's Fingerprint128: bytes to two numbers below 2**64, the low one first."""
    import farmhash  # noqa: PLC0415 - only who hashes needs it

    found: Callable[[bytes], tuple[int, int]] = farmhash.fingerprint128
    return found


def siphash(key: bytes) -> Callable[[bytes], int]:
    """Return SipHash-2-4 with a key of 16 bytes: bytes to a number below 2**64."""
    import siphash24  # noqa: PLC0415 - only who hashes needs it

    return lambda item: int.from_bytes(siphash24.siphash24(item, key=key).digest(), "little")
