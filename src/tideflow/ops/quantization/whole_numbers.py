"""Products and convolutions of whole numbers of 32 bits, without NumPy's slow product of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def product_of_whole(a: Any, b: Any) -> Any:
    """Return the product of matrices of int32, [m, k] and [k, n]; sums wrap as those of int32."""
    most = [max(int(one.max(initial=0)), -int(one.min(initial=0))) for one in (a, b)]
    if a.shape[1] * most[0] * most[1] < 1 << 53:
        # Floats are exact here, and NumPy's product of them is much faster.
        exact = a.astype(np.float64) @ b.astype(np.float64)
        return exact.astype(np.int64).astype(np.int32)
    return a @ b


def dilated(size: int, by: int) -> int:
    """Return the size of a dimension with gaps between its elements."""
    return (size - 1) * by + 1 if size else 0


def same_paddings(
    sizes: Sequence[int], reach: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """Return how much stands before and behind dimensions, for windows that all begin inside.

    Args:
      reach: the sizes of windows with their gaps.
    """
    total = [
        max((-(-size // stride) - 1) * stride + taps - size, 0)
        for size, taps, stride in zip(sizes, reach, strides)
    ]
    return [(both // 2, both - both // 2) for both in total]


def convolution_of_whole(
    x: Any,
    w: Any,
    sizes: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    feature_groups: int = 1,
    batch_groups: int = 1,
) -> Any:
    """Return a convolution of int32, [batch, made, *sizes].

    Args:
      x: padded images, [batch * batch_groups, features * feature_groups, *space].
      w: filter, [made, features, *taps]; dilations: the distances of its taps.
      sizes: the spatial sizes of the result.
    """
    made, batches = w.shape[0], x.shape[0] // batch_groups
    found = np.zeros((batches, made, *sizes), np.int32)
    if not found.size or not w.size:
        return found
    rank = len(sizes)
    reach = [dilated(size, by) for size, by in zip(w.shape[2:], dilations)]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, 2 + rank)))
    steps = [slice(None, None, by) for by in (*strides, *dilations)]
    # [batch, *sizes, features, *taps]
    windows = np.moveaxis(windows[(slice(None), slice(None), *steps)], 1, 1 + rank)
    features, at = w.shape[1], np.arange(made)
    of_batches, of_features = at // (made // batch_groups), at // (made // feature_groups)
    for batch, group in sorted(set(zip(of_batches.tolist(), of_features.tolist()))):
        chosen = np.flatnonzero((of_batches == batch) & (of_features == group))
        part = windows[batch * batches : (batch + 1) * batches]
        taken = slice(group * features, (group + 1) * features)
        rows = part[(slice(None),) * (1 + rank) + (taken,)].reshape(
            batches * int(np.prod(sizes)), -1
        )
        sums = product_of_whole(rows, w[chosen].reshape(len(chosen), -1).T)
        found[:, chosen] = np.moveaxis(sums.reshape(batches, *sizes, len(chosen)), -1, 1)
    return found
