"""Sums for kernels: in traced code, as XLA computes them fast on CPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.framework.jax_lax import lax

# XLA adds up few channels at a time on one thread.  So many parts, on all threads, of rows that are
# joined to so many numbers took half of the time for 16 to 64 channels, as measured.
_PARTS = 8
_WIDTH = 1024
_MOST_CHANNELS = 64
_LEAST_SIZE = 1 << 15


def sum_over(xp: ArrayNamespace, x: Array, axes: Sequence[int], keepdims: bool = False) -> Any:
    """Return the sum of x over axes, in x's type."""

    def plain(x: Array) -> Any:
        return xp.sum(x, tuple(axes), x.dtype, keepdims=keepdims)

    joined = 1 if xp is np else _joined_rows(x, axes)
    if joined < 2:
        return plain(x)

    def in_parts(x: Array) -> Any:
        channels = x.shape[-1]
        parts = x.reshape(_PARTS, -1, joined * channels).sum(1, x.dtype)
        # Otherwise XLA makes one sum of both.
        total = lax().optimization_barrier(parts).reshape(-1, channels).sum(0, x.dtype)
        return total.reshape((1,) * (x.ndim - 1) + (channels,)) if keepdims else total

    return lax().platform_dependent(x, cpu=in_parts, default=plain)


def _joined_rows(x: Array, axes: Sequence[int]) -> int:
    """Return how many rows of channels are joined; 1 where the sum is better left as it is."""
    others = {axis % x.ndim for axis in axes}
    is_by_channel = len(others) == x.ndim - 1 and x.ndim - 1 not in others
    if not is_by_channel or x.dtype.kind not in "fV" or x.size < _LEAST_SIZE:
        return 1
    channels = x.shape[-1]
    rows = x.size // channels
    if channels > _MOST_CHANNELS or rows % _PARTS:
        return 1
    return math.gcd(rows // _PARTS, 1 << (_WIDTH // channels).bit_length() - 1)
