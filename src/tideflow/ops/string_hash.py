"""Strings to buckets by their hash.  Checkpoints and other programs rely on these very hashes.

Source: tensorflow/core/kernels/string_to_hash_bucket_op.h; FarmHash's Fingerprint64 (length classes
of farmhash::na) and SipHash-2-4, both public.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import same_as
from tideflow.ops.export import export
from tideflow.wire import errors

_MASK = (1 << 64) - 1
_K0 = 0xC3A5C85C97CB3127
_K1 = 0xB492B66FBE98F273
_K2 = 0x9AE16A3B2F90404F


def _rotate(value: int, by: int) -> int:
    value &= _MASK
    return (value >> by | value << (64 - by)) & _MASK


def _mix(value: int) -> int:
    return value ^ (value >> 47)


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _join(u: int, v: int, mul: int) -> int:
    a = _mix((u ^ v) * mul & _MASK)
    b = _mix((v ^ a) * mul & _MASK)
    return b * mul & _MASK


def _short(data: bytes) -> int:
    size = len(data)
    mul = _K2 + size * 2
    if size >= 8:
        a = _word(data, 0) + _K2 & _MASK
        b = _word(data, size - 8)
        c = _rotate(b, 37) * mul + a & _MASK
        return _join(c, (_rotate(a, 25) + b) * mul & _MASK, mul)
    if size >= 4:
        first = int.from_bytes(data[:4], "little")
        return _join(size + (first << 3), int.from_bytes(data[-4:], "little"), mul)
    if size:
        y = data[0] + (data[size >> 1] << 8)
        z = size + (data[-1] << 2)
        return _mix((y * _K2 & _MASK) ^ (z * _K0 & _MASK)) * _K2 & _MASK
    return _K2


def _to_32(data: bytes) -> int:
    size = len(data)
    mul = _K2 + size * 2
    a, b = _word(data, 0) * _K1, _word(data, 8)
    c, d = _word(data, size - 8) * mul, _word(data, size - 16) * _K2
    first = _rotate(a + b, 43) + _rotate(c, 30) + d & _MASK
    return _join(first, a + _rotate(b + _K2, 18) + c & _MASK, mul)


def _to_64(data: bytes) -> int:
    size = len(data)
    mul = _K2 + size * 2
    a, b = _word(data, 0) * _K2 & _MASK, _word(data, 8)
    c, d = _word(data, size - 8) * mul, _word(data, size - 16) * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d & _MASK
    z = _join(y, a + _rotate(b + _K2, 18) + c & _MASK, mul)
    e, f = _word(data, 16) * mul, _word(data, 24)
    g = (y + _word(data, size - 32)) * mul
    h = (z + _word(data, size - 24)) * mul
    first = _rotate(e + f, 43) + _rotate(g, 30) + h & _MASK
    return _join(first, e + _rotate(f + a, 18) + g & _MASK, mul)


def _weak(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = struct.unpack_from("<4Q", data, at)
    a = a + w & _MASK
    b = _rotate(b + a + z, 21)
    c = a
    a = a + x + y & _MASK
    b = b + _rotate(a, 44) & _MASK
    return a + z & _MASK, b + c & _MASK


def fingerprint64(data: bytes) -> int:
    """Return FarmHash's fingerprint of bytes, which is the same everywhere and for ever."""
    size = len(data)
    if size <= 64:
        return _short(data) if size <= 16 else _to_32(data) if size <= 32 else _to_64(data)
    seed = 81
    y = seed * _K1 + 113 & _MASK
    z = _mix(y * _K2 + 113 & _MASK) * _K2 & _MASK
    x = seed * _K2 + _word(data, 0) & _MASK
    v = w = (0, 0)
    end = (size - 1) // 64 * 64
    for at in range(0, end, 64):
        x = _rotate(x + y + v[0] + _word(data, at + 8), 37) * _K1 & _MASK
        y = _rotate(y + v[1] + _word(data, at + 48), 42) * _K1 & _MASK
        x ^= w[1]
        y = y + v[0] + _word(data, at + 40) & _MASK
        z = _rotate(z + w[0], 33) * _K1 & _MASK
        v = _weak(data, at, v[1] * _K1 & _MASK, x + w[0])
        w = _weak(data, at + 32, z + w[1], y + _word(data, at + 16))
        z, x = x, z
    mul = _K1 + ((z & 0xFF) << 1)
    at = size - 64
    w = (w[0] + (size - 1 & 63) & _MASK, w[1])
    v = (v[0] + w[0] & _MASK, v[1])
    w = (w[0] + v[0] & _MASK, w[1])
    x = _rotate(x + y + v[0] + _word(data, at + 8), 37) * mul & _MASK
    y = _rotate(y + v[1] + _word(data, at + 48), 42) * mul & _MASK
    x ^= w[1] * 9 & _MASK
    y = y + v[0] * 9 + _word(data, at + 40) & _MASK
    z = _rotate(z + w[0], 33) * mul & _MASK
    v = _weak(data, at, v[1] * mul & _MASK, x + w[0])
    w = _weak(data, at + 32, z + w[1], y + _word(data, at + 16))
    z, x = x, z
    first = _join(v[0], w[0], mul) + _mix(y) * _K0 + z & _MASK
    return _join(first, _join(v[1], w[1], mul) + x & _MASK, mul)


def siphash(key: tuple[int, int], data: bytes) -> int:
    """Return SipHash-2-4 of bytes under a key of two words."""
    v0, v1 = key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D
    v2, v3 = key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573

    def turn(times: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(times):
            v0 = v0 + v1 & _MASK
            v1 = _rotate(v1, 51) ^ v0
            v0 = _rotate(v0, 32)
            v2 = v2 + v3 & _MASK
            v3 = _rotate(v3, 48) ^ v2
            v0 = v0 + v3 & _MASK
            v3 = _rotate(v3, 43) ^ v0
            v2 = v2 + v1 & _MASK
            v1 = _rotate(v1, 47) ^ v2
            v2 = _rotate(v2, 32)

    whole = len(data) // 8 * 8
    last = int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56
    words = [_word(data, at) for at in range(0, whole, 8)]
    for word in (*words, last):
        v3 ^= word
        turn(2)
        v0 ^= word
    v2 ^= 0xFF
    turn(4)
    return v0 ^ v1 ^ v2 ^ v3


def _buckets(hashed: Callable[[bytes], int], strings: Any, count: int) -> Any:
    given = np.asarray(strings, object)
    flat = [hashed(item) % count for item in given.reshape(-1).tolist()]
    return np.array(flat, np.int64).reshape(given.shape)


@op(
    """
    StringToHashBucketFast(input: string) -> output: int64
    num_buckets: int >= 1
    """,
    shape=same_as(),
)
def string_to_hash_bucket_fast_kernel(ctx: Any, strings: Any, *, num_buckets: int) -> Any:
    """Return the bucket of each string, by its fingerprint."""
    return _buckets(fingerprint64, strings, num_buckets)


@export("strings.to_hash_bucket_fast", "string_to_hash_bucket_fast")
def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """Return for each string a bucket in [0, num_buckets), by a hash that never changes."""
    found: Tensor = apply_op("StringToHashBucketFast", input, num_buckets=num_buckets, name=name)
    return found


@op(
    """
    StringToHashBucketStrong(input: string) -> output: int64
    num_buckets: int >= 1
    key: list(int)
    """,
    shape=same_as(),
)
def string_to_hash_bucket_strong_kernel(
    ctx: Any, strings: Any, *, num_buckets: int, key: list[int]
) -> Any:
    """Return the bucket of each string, by a hash that needs a key to be foreseen."""
    if len(key) != 2:
        raise errors.InvalidArgumentError(f"the key must have two elements; it has {len(key)}")
    pair = (key[0] & _MASK, key[1] & _MASK)
    return _buckets(lambda item: siphash(pair, item), strings, num_buckets)


@export("strings.to_hash_bucket_strong", "string_to_hash_bucket_strong")
def string_to_hash_bucket_strong(
    input: Any, num_buckets: int, key: list[int], name: str | None = None
) -> Tensor:
    """Return for each string a bucket in [0, num_buckets), by a hash with a key of two numbers."""
    found: Tensor = apply_op(
        "StringToHashBucketStrong", input, num_buckets=num_buckets, key=list(key), name=name
    )
    return found


not_differentiable("StringToHashBucketFast", "StringToHashBucketStrong")
