"""Orders that follow from a seed: of rows, and of numbers one by one.

An index is shuffled by enciphering it with a cipher of few bits, again and again until it lies
within the range; so no table of the order is needed.

Source: Beaulieu et al., "The SIMON and SPECK families of lightweight block ciphers" (2013); Black
and Rogaway, "Ciphers with arbitrary finite domains" (2002).  For the choice of sizes:
tensorflow/core/kernels/random_index_shuffle.cc, stateless_shuffle.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, same_as
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.random import philox as random_philox
from tideflow.ops.random.parameters import philox_source
from tideflow.wire.errors import InvalidArgumentError

# TensorFlow's: the constant sequence and the constant of the key schedule.
_SEQUENCE = 0x7369F885192C0EF5
_CONSTANT = 0xFFFFFFFC
_LEAST_BITS = 16
# What precedes a seed of two numbers.
_FIRST_OF_THREE = 498247692


class _Cipher:
    """Enciphers numbers of `2 * width` bits."""

    def __init__(self, key: Sequence[int], width: int, rounds: int) -> None:
        self._width, self._mask = width, (1 << width) - 1
        keys = [part & self._mask for part in key]
        sequence = _SEQUENCE & self._mask
        for i in range(3, rounds):
            mixed = self._left(keys[i - 1], width - 3) ^ self._left(keys[i - 1], width - 4)
            keys.append((_CONSTANT & self._mask) ^ (sequence & 1) ^ keys[i - 3] ^ mixed)
            sequence >>= 1
        self._keys = keys

    def _left(self, x: Any, by: int) -> Any:
        return ((x << by) | (x >> (self._width - by))) & self._mask

    def _mixed(self, x: Any) -> Any:
        return (self._left(x, 1) & self._left(x, 8)) ^ self._left(x, 2)

    def __call__(self, value: Any) -> Any:
        """Return a number, or each of an array, enciphered."""
        left, right = value >> self._width, value & self._mask
        for first, second in zip(self._keys[::2], self._keys[1::2]):
            left ^= self._mixed(right) ^ first
            right ^= self._mixed(left) ^ second
        return (left << self._width) | right


def shuffled_index(index: int, key: Sequence[int], max_index: int, rounds: int) -> int:
    """Return where an index in [0, max_index] comes to lie.  key: three words of 32 bits."""
    if max_index == 0:
        return 0
    cipher = _Cipher(key, _half_width(max_index), rounds)
    found: int = cipher(index)
    while found > max_index:
        found = cipher(found)
    return found


def _half_width(max_index: int) -> int:
    """Return half of how many bits the cipher has."""
    bits = int(np.ceil(np.log2(float(max_index))))
    return max(bits + bits % 2, _LEAST_BITS) // 2


def shuffled_indices(count: int, key: Sequence[int], rounds: int) -> list[int]:
    """Return where each index below a count comes to lie (see shuffled_index)."""
    if count <= 1:
        return [0] * count
    width = _half_width(count - 1)
    # Each number is enciphered once, whatever number of times it is passed.
    following = _Cipher(key, width, rounds)(np.arange(1 << 2 * width)).tolist()
    made = []
    for index in range(count):
        found = following[index]
        while found >= count:
            found = following[found]
        made.append(found)
    return made


def _index_shape(c: ShapeContext) -> list[Dims]:
    index, seed, most = c.inputs
    for dims, rank in ((index, 1), (seed, 2), (most, 1)):
        if dims is not None and len(dims) > rank:
            raise ValueError(f"RandomIndexShuffle takes ranks 1, 2 and 1 at most; found {dims}")
    if seed is not None and seed and seed[-1] not in (3, None):
        raise ValueError(f"seed must have three numbers; its shape is {seed}")
    if index is None or seed is None or most is None:
        return [None]
    sizes = [d for dims in (index, seed[:-1], most) for d in dims]
    if not sizes:
        return [()]
    return [(next((size for size in sizes if size is not None), None),)]


@op(
    """
    RandomIndexShuffle(index: dtype, seed: Tseed, max_index: dtype) -> output: dtype
    rounds: int = 4
    dtype: type in {int32, uint32, int64, uint64}
    Tseed: type in {int32, uint32, int64, uint64}
    """,
    shape=_index_shape,
)
def random_index_shuffle_kernel(
    ctx: KernelContext, index: Array, seed: Array, max_index: Array, *, rounds: int
) -> Any:
    """Return where each index in [0, max_index] comes to lie.

    Each input may hold one or several; seed [3] or [n, 3].
    Raises: InvalidArgumentError for other shapes, a negative range or an index outside.
    """
    if np.ndim(seed) not in (1, 2) or np.shape(seed)[-1] != 3:
        raise InvalidArgumentError(f"seed must have shape [3] or [n, 3]; found {np.shape(seed)}")
    if np.ndim(index) > 1 or np.ndim(max_index) > 1:
        raise InvalidArgumentError("index and max_index must be scalars or vectors")
    if rounds < 4 or rounds % 2:
        raise InvalidArgumentError(f"rounds must be an even number of 4 at least; found {rounds}")
    counts = {np.size(x) for x in (index, max_index) if np.ndim(x)}
    counts |= {len(seed)} if np.ndim(seed) == 2 else set()
    if len(counts) > 1:
        raise InvalidArgumentError(f"the inputs have different numbers of rows: {sorted(counts)}")
    count = counts.pop() if counts else 1
    indices = np.broadcast_to(index, (count,)).tolist()
    most = np.broadcast_to(max_index, (count,)).tolist()
    keys = (np.broadcast_to(seed, (count, 3)).astype(np.int64) & 0xFFFFFFFF).tolist()
    made = []
    for at, key, last in zip(indices, keys, most):
        if last < 0 or not 0 <= at <= last:
            raise InvalidArgumentError(f"index {at} must lie within [0, {last}]")
        made.append(shuffled_index(at, key, last, rounds))
    is_one = not (np.ndim(index) or np.ndim(max_index) or np.ndim(seed) == 2)
    found = np.array(made, np.asarray(index).dtype)
    return found.reshape(()) if is_one else found


@op(
    """
    StatelessShuffle(value: T, key: uint64, counter: uint64, alg: int32) -> output: T
    T: type
    """,
    shape=same_as(0),
)
def stateless_shuffle_kernel(
    ctx: KernelContext, value: Array, key: Array, counter: Array, alg: Array
) -> Any:
    """Return value with its rows in another order."""
    source = philox_source(key, counter, alg)
    size = value.shape[0] if np.ndim(value) else 0
    if size <= 1:
        return value
    return value[random_philox.permutation(source.key, source.counter, size)]


not_differentiable("RandomIndexShuffle")


@export_v2("random_index_shuffle")
def random_index_shuffle(
    index: TensorLike, seed: int, max_index: TensorLike, rounds: int = 4, name: str | None = None
) -> Tensor:
    """Return where an index in [0, max_index] comes to lie in an order that follows from a seed.

    seed: three integers, or rows of three.
    Raises: InvalidArgumentError for an index outside of the range.
    """
    made: Tensor = apply_op("RandomIndexShuffle", index, seed, max_index, rounds=rounds, name=name)
    return made


@export_v2("random.experimental.index_shuffle")
def index_shuffle(index: TensorLike, seed: int, max_index: TensorLike) -> Tensor:
    """Return where an index in [0, max_index] comes to lie; seed: two integers, or rows of two."""
    given = convert_to_tensor(seed)
    rows = [[0, 0]] * (len(given.dims or (None,)) - 1)
    first = np.array(_FIRST_OF_THREE, given.dtype.as_numpy_dtype)
    padded = apply_op("PadV2", given, np.array([*rows, [1, 0]], np.int32), first)
    return random_index_shuffle(index, padded, max_index)


@export("random.experimental.stateless_shuffle")
def stateless_shuffle(
    value: TensorLike, seed: int, alg: str = "auto_select", name: str | None = None
) -> Tensor:
    """Return a tensor with its rows in an order that follows from the seed (two integers)."""
    if alg not in ("auto_select", "philox"):
        raise ValueError(f"alg {alg!r} is neither 'philox' nor 'auto_select'")
    key, counter = apply_op("StatelessRandomGetKeyCounter", seed)
    made: Tensor = apply_op("StatelessShuffle", value, key, counter, np.int32(1), name=name)
    return made
