"""Strings to buckets by their hash.  Checkpoints and other programs rely on these very hashes.

Source: tensorflow/core/kernels/string_to_hash_bucket_op.h (FarmHash's Fingerprint64, SipHash-2-4).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.formats import fingerprint64, siphash
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import same_as
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.wire import errors

_MASK = (1 << 64) - 1


def _buckets(hashed: Callable[[bytes], int], strings: object, count: int) -> Any:
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
def string_to_hash_bucket_fast_kernel(
    ctx: KernelContext, strings: Array | bytes, *, num_buckets: int
) -> Any:
    """Return the bucket of each string, by its fingerprint."""
    return _buckets(fingerprint64(), strings, num_buckets)


@export("strings.to_hash_bucket_fast", "string_to_hash_bucket_fast")
def string_to_hash_bucket_fast(
    input: TensorLike, num_buckets: int, name: str | None = None
) -> Tensor:
    """Return for each string a bucket in [0, num_buckets), by a hash that never changes."""
    found: Tensor = apply_op("StringToHashBucketFast", input, num_buckets=num_buckets, name=name)
    return found


@op(
    """
    StringToHashBucket(string_tensor: string) -> output: int64
    num_buckets: int >= 1
    """,
    shape=same_as(),
)
def string_to_hash_bucket_kernel(
    ctx: KernelContext, strings: Array | bytes, *, num_buckets: int
) -> Any:
    """Return the bucket of each string, by TensorFlow's own hash of old."""
    return _buckets(_hash64, strings, num_buckets)


_MULTIPLIER = 0xC6A4A7935BD1E995
_SEED = 0xDECAFCAFFE


def _hash64(item: bytes) -> int:
    """Return MurmurHash64A of a string."""
    found = _SEED ^ len(item) * _MULTIPLIER & _MASK
    whole = len(item) - len(item) % 8
    for (word,) in struct.iter_unpack("<Q", item[:whole]):
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> 47) * _MULTIPLIER & _MASK
        found = (found ^ word) * _MULTIPLIER & _MASK
    if whole < len(item):
        found = (found ^ int.from_bytes(item[whole:], "little")) * _MULTIPLIER & _MASK
    found = (found ^ found >> 47) * _MULTIPLIER & _MASK
    return found ^ found >> 47


@export_v2("strings.to_hash_bucket")
def to_hash_bucket(input: object, num_buckets: int, name: str | None = None) -> Tensor:
    """Return for each string a bucket in [0, num_buckets), by a hash that is not that of others."""
    found: Tensor = apply_op("StringToHashBucket", input, num_buckets=num_buckets, name=name)
    return found


@export("strings.to_hash_bucket", "string_to_hash_bucket")
def string_to_hash_bucket(
    string_tensor: TensorLike | None = None,
    num_buckets: int = 0,
    name: str | None = None,
    input: TensorLike | None = None,
) -> Tensor:
    """Return for each string a bucket in [0, num_buckets) (see the TF2 shape)."""
    return to_hash_bucket(input if string_tensor is None else string_tensor, num_buckets, name)


@op(
    """
    StringToHashBucketStrong(input: string) -> output: int64
    num_buckets: int >= 1
    key: list(int)
    """,
    shape=same_as(),
)
def string_to_hash_bucket_strong_kernel(
    ctx: KernelContext, strings: Array | bytes, *, num_buckets: int, key: list[int]
) -> Any:
    """Return the bucket of each string, by a hash that needs a key to be foreseen."""
    if len(key) != 2:
        raise errors.InvalidArgumentError(f"the key must have two elements; it has {len(key)}")
    key_bytes = struct.pack("<2Q", key[0] & _MASK, key[1] & _MASK)
    return _buckets(siphash(key_bytes), strings, num_buckets)


@export("strings.to_hash_bucket_strong", "string_to_hash_bucket_strong")
def string_to_hash_bucket_strong(
    input: TensorLike, num_buckets: int, key: list[int], name: str | None = None
) -> Tensor:
    """Return for each string a bucket in [0, num_buckets), by a hash with a key of two numbers."""
    found: Tensor = apply_op(
        "StringToHashBucketStrong", input, num_buckets=num_buckets, key=list(key), name=name
    )
    return found


not_differentiable("StringToHashBucketFast", "StringToHashBucketStrong")
