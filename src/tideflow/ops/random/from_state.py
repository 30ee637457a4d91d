"""Random values from a generator's state, a variable that these ops move on.

The state holds a counter of 128 bits and a key, as int64: [low, high, key].

Source: tensorflow/core/kernels/stateful_random_ops.cc, stateful_random_ops_cpu_gpu.h.
"""

from __future__ import annotations

import math
import secrets
from typing import Any

import numpy as np

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Effects
from tideflow.graph.shape_rules import ShapeContext, no_outputs
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.framework import check_scalar
from tideflow.ops.random import philox as random_philox
from tideflow.ops.random.parameters import PER_ELEMENT, sizes_of
from tideflow.ops.state import ResourceVariableState, uninitialized
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError, UnimplementedError

_PHILOX, _THREEFRY, _ANY = 1, 2, 3
_HALF, _HALF_BITS = (1 << 32) - 1, 32


def _check_algorithm(algorithm: Array) -> None:
    check_scalar(algorithm, "algorithm")
    if int(algorithm) == _THREEFRY:
        raise UnimplementedError("Non-XLA devices don't support the ThreeFry algorithm.")
    if int(algorithm) not in (_PHILOX, _ANY):
        raise InvalidArgumentError(f"Unsupported algorithm id: {int(algorithm)}")


def _moved(low: int, high: int, count: int) -> tuple[int, int]:
    """Return the counter after `count` steps, by halves of words as Philox keeps it.

    A count close to 2**64 (a negative one) may lose a carry there, and has to here.
    """
    words = [low & _HALF, low >> _HALF_BITS, high & _HALF, high >> _HALF_BITS]
    near, far = count & _HALF, (count >> _HALF_BITS) & _HALF
    words[0] = (words[0] + near) & _HALF
    if words[0] < near:
        far = (far + 1) & _HALF
    words[1] = (words[1] + far) & _HALF
    if words[1] < far:
        words[2] = (words[2] + 1) & _HALF
        if not words[2]:
            words[3] = (words[3] + 1) & _HALF
    return words[0] | words[1] << _HALF_BITS, words[2] | words[3] << _HALF_BITS


def _skip(ctx: KernelContext, resource: Any, algorithm: Array, count: int) -> Any:
    """Move a state on by `count` counters; return what it was, three words [low, high, key]."""
    state = ctx.resources.lookup(resource, ResourceVariableState)
    with state.lock:
        if state.value is None:
            raise uninitialized(state.name, state.container)
        words = np.asarray(state.value)
        if words.dtype != np.int64:
            raise InvalidArgumentError(
                f"dtype of RNG state variable must be int64, not {words.dtype.name}"
            )
        if words.ndim != 1:
            raise InvalidArgumentError(
                f"RNG state must have one and only one dimension, not {words.ndim}"
            )
        _check_algorithm(algorithm)
        if words.size < 3:
            raise InvalidArgumentError(
                f"For the Philox algorithm, the size of state must be at least 3; got {words.size}"
            )
        before = words[:3].copy()
        low, high, _ = before.view(np.uint64).tolist()
        moved = np.array(_moved(low, high, count), np.uint64).view(np.int64)
        state.value = np.concatenate([moved, words[2:]])
    return before


def _draw(
    ctx: KernelContext,
    state: tuple[Any, Any],
    shape: Array,
    dtype: DType,
    draw: random_philox.Distribution,
) -> Any:
    sizes = sizes_of(shape)
    count = math.prod(sizes)
    if not count:
        return np.empty(sizes, dtype.as_numpy_dtype)
    words = _skip(ctx, *state, count * PER_ELEMENT).view(np.uint64)
    return draw(np, words[2:3], words[:2], count, dtype).reshape(sizes)


def _shape(c: ShapeContext) -> list[Dims]:
    return [c.value_as_shape(2)]


def _define(name: str, draw: random_philox.Distribution, default: str) -> None:
    @op(
        f"""
        {name}(resource: resource, algorithm: int64, shape: shape_dtype) -> output: dtype
        dtype: type = {default}
        shape_dtype: type = int64
        """,
        shape=_shape,
        stateful=True,
    )
    def kernel(
        ctx: KernelContext, resource: object, algorithm: Array, shape: Array, *, dtype: DType
    ) -> Any:
        return _draw(ctx, (resource, algorithm), shape, dtype, draw)


_define("StatefulUniform", random_philox.uniform, "float")
_define("StatefulStandardNormalV2", random_philox.normal, "float")
_define("StatefulTruncatedNormal", random_philox.truncated_normal, "float")
_define("StatefulUniformFullInt", random_philox.full_integers, "uint64")


@op(
    """
    StatefulUniformInt(resource: resource, algorithm: int64, shape: shape_dtype, minval: dtype, \
maxval: dtype) -> output: dtype
    dtype: type = int64
    shape_dtype: type = int64
    """,
    shape=_shape,
    stateful=True,
)
def stateful_uniform_int_kernel(
    ctx: KernelContext,
    resource: object,
    algorithm: Array,
    shape: Array,
    minval: Array,
    maxval: Array,
    *,
    dtype: DType,
) -> Any:
    """Return integers in [minval, maxval)."""
    check_scalar(minval, "minval")
    check_scalar(maxval, "maxval")
    if minval >= maxval:
        raise InvalidArgumentError(f"Need minval < maxval, got {minval} >= {maxval}")

    def draw(xp: ArrayNamespace, key: Array, counter: Array, count: int, dtype: DType) -> Any:
        return random_philox.integers(xp, key, counter, count, dtype, minval, maxval)

    return _draw(ctx, (resource, algorithm), shape, dtype, draw)


@op(
    "RngSkip(resource: resource, algorithm: int64, delta: int64)",
    shape=no_outputs,
    stateful=True,
)
def rng_skip_kernel(ctx: KernelContext, resource: object, algorithm: Array, delta: Array) -> None:
    """Move a generator's state on, as if delta elements had been drawn."""
    check_scalar(delta, "delta")
    _skip(ctx, resource, algorithm, int(delta) * PER_ELEMENT)


@op(
    "RngReadAndSkip(resource: resource, alg: int32, delta: uint64) -> value: int64",
    shape=lambda c: [(3,)],
    stateful=True,
)
def rng_read_and_skip_kernel(ctx: KernelContext, resource: object, alg: Array, delta: Array) -> Any:
    """Return a generator's state [low, high, key], and move it on by delta elements."""
    check_scalar(delta, "delta")
    return _skip(ctx, resource, alg, int(delta) * PER_ELEMENT)


@op(
    """
    NonDeterministicInts(shape: shape_dtype) -> output: dtype
    dtype: type = int64
    shape_dtype: type = int64
    """,
    shape=lambda c: [c.value_as_shape(0)],
    stateful=True,
    effects=Effects.UNSEEN,
)
def non_deterministic_ints_kernel(ctx: KernelContext, shape: Array, *, dtype: DType) -> Any:
    """Return integers over the whole range of the type, from the system's source of chance."""
    sizes = sizes_of(shape)
    data = secrets.token_bytes(math.prod(sizes) * dtype.size)
    return np.frombuffer(data, dtype.as_numpy_dtype).reshape(sizes)
