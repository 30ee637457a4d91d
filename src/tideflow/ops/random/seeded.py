"""The first versions of stateless draws, which are given a seed in place of a key and a counter.

Source: tensorflow/core/kernels/stateless_random_ops.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.op_def import op
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.random import philox as random_philox
from tideflow.ops.random.parameters import shape_from_first
from tideflow.ops.random.stateless import check_seed, seeded, uniform_int_v2_kernel
from tideflow.wire.dtypes import DType


@op(
    """
    StatelessTruncatedNormal(shape: T, seed: Tseed) -> output: dtype
    dtype: type in floats = float
    T: type in indices = int32
    Tseed: type in indices = int64
    """,
    shape=shape_from_first,
    static=("shape",),
)
def truncated_normal_kernel(xp: ArrayNamespace, shape: Array, seed: Array, *, dtype: DType) -> Any:
    """Return values of the standard normal distribution that lie within (-2, 2)."""
    return seeded(xp, shape, seed, dtype, random_philox.truncated_normal)


@op(
    """
    StatelessRandomUniformFullInt(shape: T, seed: Tseed) -> output: dtype
    dtype: type in {int32, int64, uint32, uint64} = uint64
    T: type in indices = int32
    Tseed: type in {int32, int64, uint32, uint64} = int64
    """,
    shape=shape_from_first,
    static=("shape",),
)
def uniform_full_int_kernel(xp: ArrayNamespace, shape: Array, seed: Array, *, dtype: DType) -> Any:
    """Return integers over the whole range of the type."""
    return seeded(xp, shape, seed, dtype, random_philox.full_integers)


@op(
    """
    StatelessRandomUniformInt(shape: T, seed: Tseed, minval: dtype, maxval: dtype) -> output: dtype
    dtype: type in indices
    T: type in indices
    Tseed: type in indices = int64
    """,
    shape=shape_from_first,
    static=("shape",),
)
def uniform_int_kernel(
    xp: ArrayNamespace, shape: Array, seed: Array, minval: Array, maxval: Array, *, dtype: DType
) -> Any:
    """Return integers in [minval, maxval)."""
    check_seed(seed)
    key, counter = random_philox.scramble_seed(xp, seed)
    algorithm = np.array(1, np.int32)
    return uniform_int_v2_kernel(xp, shape, key, counter, algorithm, minval, maxval, dtype=dtype)


not_differentiable(
    "StatelessTruncatedNormal", "StatelessRandomUniformFullInt", "StatelessRandomUniformInt"
)
