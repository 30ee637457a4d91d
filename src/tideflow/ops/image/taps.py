"""Weighted sums of pixels along one axis, of which each output pixel takes a few.

Sums take only the pixels that count: in a product with a matrix of weights, zeros times what is not
finite would spread over whole rows and columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tideflow.graph.types import Array, ArrayNamespace


class Taps(NamedTuple):
    """Which pixels count where: output at[i] takes weight[i] times input index[i].

    out, size: how many outputs and inputs there are.
    """

    at: Any
    index: Any
    weight: Any
    out: int
    size: int

    def counting(self) -> Taps:
        """Return the taps whose weights are not 0."""
        chosen = self.weight != 0
        at, index, weight = (each[chosen] for each in self[:3])
        return Taps(at, index, weight, self.out, self.size)

    def back(self) -> Taps:
        """Return the taps of the gradient: they lead from outputs to inputs."""
        return Taps(self.index, self.at, self.weight, self.size, self.out)


def resampled(xp: ArrayNamespace, images: Array, rows: Taps, columns: Taps) -> Any:
    """Return images [n, h, w, c] with rows and columns summed by taps, in the type of images."""
    return _sums(xp, _sums(xp, images, rows, 1), columns, 2)


def _sums(xp: ArrayNamespace, x: Array, taps: Taps, axis: int) -> Any:
    order = np.argsort(taps.at, kind="stable")
    at = taps.at[order]
    nth = np.arange(at.size) - np.searchsorted(at, at)
    most = int(nth.max(initial=0)) + 1
    # An output with fewer taps than others takes a row of zeros that is put behind all rows.
    index = np.full((most, taps.out), taps.size)
    weight = np.zeros((most, taps.out), x.dtype)
    index[nth, at], weight[nth, at] = taps.index[order], taps.weight[order]
    if (index == taps.size).any():
        nothing = xp.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
        x = xp.concatenate([x, nothing], axis)
    rest = (1,) * (x.ndim - axis - 1)
    total = xp.take(x, index[0], axis) * weight[0].reshape(-1, *rest)
    for k in range(1, most):
        total = total + xp.take(x, index[k], axis) * weight[k].reshape(-1, *rest)
    return total
