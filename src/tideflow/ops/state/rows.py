"""Rows of arrays that vectors of indices name: stored, combined, told apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.array import first_occurrences

# So few elements, and rows of so few, are combined faster one by one.
_FEW, _NARROW = 1500, 8


def put_rows(array: Any, indices: Array, rows: Array) -> None:
    """Store rows [k, d...] in the rows of an array [n, d...] that k indices name."""
    if array.ndim == 1 or not (array.size and len(indices)) or not array.flags.c_contiguous:
        array[indices] = rows
        return
    # NumPy copies elements of a few hundred bytes several times as fast as rows of small ones.
    whole = np.dtype((np.void, array.nbytes // len(array)))
    rows = np.ascontiguousarray(rows, array.dtype)
    _whole_rows(array, whole)[indices] = _whole_rows(rows, whole)


def _whole_rows(rows: Any, whole: Any) -> Any:
    return rows.reshape(len(rows), -1).view(whole).reshape(-1)


def combine_rows(ufunc: np.ufunc, array: Array, indices: Array, rows: Array) -> None:
    """Combine rows [k, d...] into the rows of an array [n, d...] that k indices name, in place;
    an index may come several times."""
    if rows.size < _FEW or array[:1].size < _NARROW or len(indices) > len(array):
        ufunc.at(array, indices, rows)
        return
    # On wide rows `ufunc.at` takes several times as long as the same on rows that come once.
    first, _ = first_occurrences(indices)
    once = indices[first]
    put_rows(array, once, ufunc(array.take(once, axis=0), rows[first]))
    if len(first) < len(indices):
        again = np.ones(len(indices), bool)
        again[first] = False
        ufunc.at(array, indices[again], rows[again])


def distinct_parts(indices: Array, count: int) -> Iterator[Any]:
    """Split the positions of a vector of indices so that no part holds an index twice, or more
    than `count` positions.

    An index that comes again is in a later part.
    """
    ordered = np.sort(indices)
    if not (ordered[1:] == ordered[:-1]).any():
        for start in range(0, max(len(indices), 1), count):
            yield slice(start, start + count)
        return
    ranks = occurrences(np, indices)
    for k in range(int(ranks.max()) + 1):
        at = np.flatnonzero(ranks == k)
        for start in range(0, len(at), count):
            yield at[start : start + count]


def occurrences(xp: ArrayNamespace, indices: Array) -> Any:
    """Return for each position how often its index came before."""
    order = xp.argsort(indices, stable=True)
    ordered = indices[order]
    count = xp.arange(indices.shape[0])
    rank_in_order = count - xp.searchsorted(ordered, ordered)
    return rank_in_order[xp.argsort(order, stable=True)]
