"""Philox 4x32-10: random bits that depend on nothing but a key and a counter.

Each 128-bit counter gives four 32-bit words.  Group g of a result comes from counter + g, so any
part of a result can be made alone, and the same bits come out of NumPy and of compiled code.

Layout, as in TensorFlow: the key is one uint64; the counter is two, the low half first.  A float
takes one word (its low mantissa bits), a double two (the first gives the high bits); a 64-bit
integer takes two (the first gives the low bits).  So a group is four floats or two doubles.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); TensorFlow's
philox_random.h, random_distributions.h and random_op_cpu.h for the layout.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_LOW_WORD = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ROUNDS = 10

# Groups that NumPy makes at once: their working arrays stay within the cache.
_CHUNK = 8192

# What TensorFlow mixes seeds under, so that poor seeds make good keys.
_SCRAMBLE_KEY = 0x02461E29_3EC8F720

# An element must not come out as the logarithm of zero.
_LEAST_UNIFORM = 1.0e-7

# Truncation by rejection: TensorFlow keeps this many words in reserve for each output, and we look
# at so many outputs' worth of candidates.  That they do not suffice happens once in 1e15 groups.
_RESERVED_WORDS = 256
_TRUNCATE_AT = 2.0
_CANDIDATES = 16
# Groups of four numbers that Samples makes at once.
_SAMPLE_GROUPS = 64


def philox(xp: ArrayNamespace, words: list[Any], key: tuple[Any, Any]) -> list[Any]:
    """Return the four output words for counters given as four words; all as uint64 arrays."""
    if xp is np:
        return _all_rounds(words, key)
    import jax  # noqa: PLC0415 - only a traced kernel needs it

    # XLA computes all rounds anew for each of the four words of a CPU's result: 880 us for 16,384
    # of them, where a loop over rounds takes 100.
    made: list[Any] = jax.lax.platform_dependent(
        list(words), key, cpu=_rounds_in_turn, default=_all_rounds
    )
    return made


def _rounds_in_turn(words: list[Any], key: tuple[Any, Any]) -> list[Any]:
    """Return what _all_rounds does, by a compiled loop."""
    import jax  # noqa: PLC0415 - only a traced kernel needs it

    # Between rounds they are kept in half the memory.
    def one_round(_: Any, state: list[Any]) -> list[Any]:
        wide = [word.astype(np.uint64) for word in state]
        mixed, (k0, k1) = _one_round(wide[:4], (wide[4], wide[5]))
        return [word.astype(np.uint32) for word in (*mixed, k0, k1)]

    first = [word.astype(np.uint32) for word in (*words, *key)]
    found = jax.lax.fori_loop(0, _ROUNDS, one_round, first)
    return [word.astype(np.uint64) for word in found[:4]]


def _all_rounds(words: list[Any], key: tuple[Any, Any]) -> list[Any]:
    for _ in range(_ROUNDS):
        words, key = _one_round(words, key)
    return words


def _one_round(words: list[Any], key: tuple[Any, Any]) -> tuple[list[Any], tuple[Any, Any]]:
    c0, c1, c2, c3 = words
    k0, k1 = key
    p0 = c0 * _MULTIPLIERS[0]
    p1 = c2 * _MULTIPLIERS[1]
    mixed = [
        (p1 >> _SHIFT) ^ c1 ^ k0,
        p1 & _LOW_WORD,
        (p0 >> _SHIFT) ^ c3 ^ k1,
        p0 & _LOW_WORD,
    ]
    return mixed, ((k0 + _KEY_STEPS[0]) & _LOW_WORD, (k1 + _KEY_STEPS[1]) & _LOW_WORD)


def _blocks(xp: ArrayNamespace, key: Array, counter: Array, offsets: Array) -> Any:
    """Return the words [n, 4] (uint32) of counter + offsets.

    key: [1] uint64; counter: [2] uint64; offsets: [n] uint64.
    """
    low = counter[:1] + offsets
    high = counter[1:] + (low < offsets).astype(np.uint64)
    words = philox(
        xp,
        [low & _LOW_WORD, low >> _SHIFT, high & _LOW_WORD, high >> _SHIFT],
        (key & _LOW_WORD, key >> _SHIFT),
    )
    return xp.stack([word.astype(np.uint32) for word in words], axis=-1)


def random_words(xp: ArrayNamespace, key: Array, counter: Array, offsets: Array) -> Any:
    """Return the words [n, 4] (uint32) of counter + offsets (see _blocks)."""
    if xp is not np or len(offsets) <= _CHUNK:
        return _blocks(xp, key, counter, offsets)
    made = np.empty((len(offsets), 4), np.uint32)
    for start in range(0, len(offsets), _CHUNK):
        part = slice(start, start + _CHUNK)
        made[part] = _blocks(np, key, counter, offsets[part])
    return made


def scramble_seed(xp: ArrayNamespace, seed: Any) -> tuple[Any, Any]:
    """Return the key [1] and counter [2] (uint64) of a pair of seeds (integers)."""
    pair = xp.asarray(seed).astype(np.int64).astype(np.uint64)
    key = np.array([_SCRAMBLE_KEY], np.uint64)
    mixed = _blocks(xp, key, pair, np.zeros(1, np.uint64))[0].astype(np.uint64)
    made_key = mixed[0] | (mixed[1] << _SHIFT)
    high = mixed[2] | (mixed[3] << _SHIFT)
    return made_key.reshape(1), xp.stack([xp.zeros_like(high), high])


class Samples:
    """The random 32-bit numbers of a pair of seeds, one after the other.

    Source: tensorflow/core/lib/random/philox_random.h, SingleSampleAdapter.
    """

    __slots__ = ("_counter", "_group", "_key", "_words")

    def __init__(self, seed: int, seed2: int) -> None:
        mask = 2**64 - 1
        self._key = np.array([seed & mask], np.uint64)
        self._counter = np.array([0, seed2 & mask], np.uint64)
        self._group = 0
        self._words: deque[int] = deque()

    @classmethod
    def from_counter(cls, key: Array, counter: Array) -> Samples:
        """Return the numbers of a key, from a counter on."""
        made = cls(0, 0)
        made._key, made._counter = np.asarray(key), np.asarray(counter)
        return made

    def next(self) -> int:
        """Return the next number."""
        if not self._words:
            offsets = np.arange(self._group, self._group + _SAMPLE_GROUPS, dtype=np.uint64)
            self._group += _SAMPLE_GROUPS
            made = random_words(np, self._key, self._counter, offsets)
            self._words.extend(made.reshape(-1).tolist())
        return self._words.popleft()


def seeds_of(seed: int, seed2: int) -> tuple[int, int]:
    """Return a pair of seeds; one nobody knows where both are zero."""
    return (seed, seed2) if seed or seed2 else (secrets.randbits(64), secrets.randbits(64))


# ---- from words to numbers


def _wide(dtype: DType) -> bool:
    """Whether an element takes two words."""
    return dtype.size == 8


def bits_as_float(xp: ArrayNamespace, bits: Any, dtype: DType) -> Any:
    """Return floats in [0, 1) whose mantissas are the low bits of words."""
    if dtype is dtypes.float64:
        high = bits[..., 0::2].astype(np.uint64) & np.uint64(0xFFFFF)
        mantissa = (high << _SHIFT) | bits[..., 1::2].astype(np.uint64)
        return (mantissa | np.uint64(1023 << 52)).view(np.float64) - 1.0
    if dtype is dtypes.float32:
        pattern = (bits & np.uint32(0x7FFFFF)) | np.uint32(127 << 23)
        return pattern.view(np.float32) - np.float32(1)
    mantissa_bits, one = (10, 15) if dtype is dtypes.float16 else (7, 127)
    short = bits.astype(np.uint16) & np.uint16((1 << mantissa_bits) - 1)
    numpy_type = dtype.as_numpy_dtype
    return (short | np.uint16(one << mantissa_bits)).view(numpy_type) - numpy_type(1)


def _box_muller(xp: ArrayNamespace, uniform: Array) -> Any:
    """Return standard normal values from uniform ones, pair by pair along the last axis."""
    numpy_type = uniform.dtype.type
    first = xp.maximum(uniform[..., 0::2], numpy_type(_LEAST_UNIFORM))
    angle = numpy_type(2 * np.pi) * uniform[..., 1::2]
    radius = xp.sqrt(numpy_type(-2.0) * xp.log(first))
    pairs = xp.stack([xp.sin(angle) * radius, xp.cos(angle) * radius], axis=-1)
    return pairs.reshape(uniform.shape)


def _normal_type(dtype: DType) -> DType:
    """Return the type in which normal values are computed."""
    return dtypes.float64 if dtype is dtypes.float64 else dtypes.float32


def normal_group(words: TensorLike, dtype: DType) -> Any:
    """Return the normal values that groups of words [n, 4] give: four, or two of doubles."""
    computed = _normal_type(dtype)
    made = _box_muller(np, bits_as_float(np, words, computed))
    return made.astype(dtype.as_numpy_dtype)


def _fill(
    xp: ArrayNamespace, key: Array, counter: Array, count: int, dtype: DType, convert: Any
) -> Any:
    """Return count elements, each group's words made into numbers by convert."""
    per_group = 2 if _wide(dtype) else 4
    groups = -(-count // per_group)
    words = random_words(xp, key, counter, np.arange(groups, dtype=np.uint64))
    return convert(words).reshape(-1)[:count]


def uniform(xp: ArrayNamespace, key: Array, counter: Array, count: int, dtype: DType) -> Any:
    """Return count floats in [0, 1)."""
    return _fill(xp, key, counter, count, dtype, lambda words: bits_as_float(xp, words, dtype))


def full_integers(xp: ArrayNamespace, key: Array, counter: Array, count: int, dtype: DType) -> Any:
    """Return count integers of all 32 or 64 bits."""
    return _fill(xp, key, counter, count, dtype, lambda words: _as_unsigned(words, dtype)).astype(
        dtype.as_numpy_dtype
    )


def _as_unsigned(words: Array, dtype: DType) -> Any:
    if not _wide(dtype):
        return words
    wide = words.astype(np.uint64)
    return wide[..., 0::2] | (wide[..., 1::2] << _SHIFT)


def integers(
    xp: Any, key: Array, counter: Array, count: int, dtype: DType, least: Array, end: object
) -> Any:
    """Return count integers in [least, end), which are scalars of the type."""
    unsigned = np.uint64 if _wide(dtype) else np.uint32
    low = xp.asarray(least).reshape(1).astype(unsigned)
    span = xp.asarray(end).reshape(1).astype(unsigned) - low
    bits = _fill(xp, key, counter, count, dtype, lambda words: _as_unsigned(words, dtype))
    return (low + bits % span).astype(dtype.as_numpy_dtype)


def permutation(key: Array, counter: Array, size: int) -> Any:
    """Return the numbers below size in another order."""
    blocks = -(-(size - 1) // 4)
    words = random_words(np, key, counter, np.arange(blocks, dtype=np.uint64))
    left = np.arange(size, 1, -1, dtype=np.uint32)
    steps = (words.reshape(-1)[: size - 1] % left).tolist()
    order = list(range(size))
    for i, step in enumerate(steps):
        order[i], order[i + step] = order[i + step], order[i]
    return np.array(order)


def normal(xp: ArrayNamespace, key: Array, counter: Array, count: int, dtype: DType) -> Any:
    """Return count values of the standard normal distribution."""
    computed = _normal_type(dtype)

    def convert(words: TensorLike) -> Any:
        return _box_muller(xp, bits_as_float(xp, words, computed))

    return _fill(xp, key, counter, count, dtype, convert).astype(dtype.as_numpy_dtype)


def truncated_normal(
    xp: ArrayNamespace, key: Array, counter: Array, count: int, dtype: DType
) -> Any:
    """Return count values of the standard normal distribution that lie within (-2, 2)."""
    per_group = 2 if _wide(dtype) else 4
    groups = -(-count // per_group)
    blocks = _CANDIDATES // per_group
    skip = per_group * _RESERVED_WORDS // 4
    starts: Any = np.arange(groups, dtype=np.uint64)[:, None] * np.uint64(skip)
    offsets = (starts + np.arange(blocks, dtype=np.uint64)).reshape(-1)
    words = random_words(xp, key, counter, offsets)
    values = _box_muller(xp, bits_as_float(xp, words, _normal_type(dtype)))
    values = values.reshape(groups, _CANDIDATES)
    refused = xp.abs(values) >= _TRUNCATE_AT
    order = xp.argsort(refused, axis=1, stable=True)[:, :per_group]
    chosen = xp.take_along_axis(values, order, 1)
    return chosen.reshape(-1)[:count].astype(dtype.as_numpy_dtype)


Distribution = Callable[[Any, Any, Any, int, DType], Any]
