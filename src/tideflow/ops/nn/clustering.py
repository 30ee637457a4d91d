"""Centers of clusters: k-means++, chains of k-MC2, and the centers that are nearest to points.

A seed gives TensorFlow's very choices.

Source: tensorflow/core/kernels/clustering_ops.cc; D. Arthur and S. Vassilvitskii, k-means++: the
advantages of careful seeding, 2007; O. Bachem et al., Approximate k-means++ in sublinear time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.types import Array
from tideflow.ops.framework import check_scalar
from tideflow.ops.nn.candidate_samplers import SeededWords
from tideflow.wire.errors import InvalidArgumentError


def _require_matrix(value: Array, what: str) -> None:
    if np.ndim(value) != 2:
        raise InvalidArgumentError(f"Input {what} should be a matrix.")


def _half_norms(points: Array) -> Any:
    return np.float32(0.5) * np.einsum("ij,ij->i", points, points)


@op(
    """
    KmeansPlusPlusInitialization(points: float, num_to_sample: int64, seed: int64,
      num_retries_per_sample: int64)
    -> samples: float
    """,
    shape=lambda c: [None],
)
def kmeans_plus_plus_kernel(
    ctx: KernelContext, points: Array, num_to_sample: Array, seed: Array, retries: Array
) -> Any:
    """Return [num_to_sample, dimensions] points, each likely by how far it is from the others.

    Raises: InvalidArgumentError for more samples than points, or none.
    """
    _require_matrix(points, "points")
    for value, name in (
        (num_to_sample, "num_to_sample"),
        (seed, "seed"),
        (retries, "num_retries_per_sample"),
    ):
        check_scalar(value, name)
    count = int(num_to_sample)
    if not len(points):
        raise InvalidArgumentError("Expected points.rows() > 0.")
    if count <= 0:
        raise InvalidArgumentError("Expected num_to_sample > 0.")
    if count > len(points):
        raise InvalidArgumentError(
            f"Expected num_to_sample <= points.rows(). {count} vs {len(points)}."
        )
    tries = int(retries)
    chosen = _Seeding(points, int(seed)).choose(
        count, 1 + (2 + int(math.log(count)) if tries < 0 else tries)
    )
    return points[chosen]


class _Seeding:
    """The choice of first centers among points [n, dimensions]."""

    def __init__(self, points: Array, seed: int) -> None:
        self._points = points
        self._norms = _half_norms(points)
        self._words = SeededWords(seed)
        self._chosen: list[int] = []
        self._distances = np.full(len(points), np.inf, np.float32)

    def choose(self, count: int, tries: int) -> list[int]:
        """Return which points were chosen; of several tries the one that leaves least is taken."""
        for _ in range(count):
            best, least, left = 0, np.float32(np.inf), np.zeros(len(self._points), np.float32)
            sums = np.cumsum(self._distances, dtype=np.float32)
            for _ in range(tries):
                drawn = self._draw(sums)
                distances = np.minimum(self._distances, self._from(drawn))
                potential = distances.sum(dtype=np.float32)
                if tries == 1 or potential < least:
                    best, least, left = drawn, potential, distances
            self._distances = left
            self._chosen.append(best)
        return self._chosen

    def _draw(self, sums: Array) -> int:
        size = len(self._points)
        if not self._chosen:
            return self._words.below(size, 64)
        while True:
            total = sums[-1]
            if total > 0:
                wanted = np.float32(self._words.float()) * total
                drawn = min(int(np.searchsorted(sums, wanted, side="right")), size - 1)
            else:
                drawn = self._words.below(size, 64)
            if drawn not in self._chosen:
                return drawn

    def _from(self, index: int) -> Any:
        """Return half the squared distance of all points from one."""
        return self._norms - self._points @ self._points[index] + self._norms[index]


@op("KMC2ChainInitialization(distances: float, seed: int64) -> index: int64", shape=lambda c: [()])
def kmc2_chain_kernel(ctx: KernelContext, distances: Array, seed: Array) -> Any:
    """Return where a Markov chain ends that prefers great distances.

    Raises: InvalidArgumentError for distances that are no vector, or none.
    """
    if np.ndim(distances) != 1:
        raise InvalidArgumentError("Input distances should be a vector.")
    check_scalar(seed, "seed")
    if not len(distances):
        raise InvalidArgumentError("Expected distances_tensor.size() > 0.")
    words = SeededWords(int(seed))
    chosen = 0
    for at in range(1, len(distances)):
        if distances[at] > np.float32(words.float()) * distances[chosen]:
            chosen = at
    return np.int64(chosen)


@op(
    """
    NearestNeighbors(points: float, centers: float, k: int64)
    -> nearest_center_indices: int64, nearest_center_distances: float
    """,
    shape=lambda c: [None, None],
)
def nearest_neighbors_kernel(ctx: KernelContext, points: Array, centers: Array, k: Array) -> Any:
    """Return the k centers nearest to each point, and the squares of their distances.

    Raises: InvalidArgumentError for other ranks and sizes, or a negative k.
    """
    _require_matrix(points, "points")
    _require_matrix(centers, "centers")
    check_scalar(k, "k")
    if not len(points):
        raise InvalidArgumentError("Expected points.rows() > 0.")
    if points.shape[1] != centers.shape[1]:
        raise InvalidArgumentError(
            f"Expected point_dimensions == center_dimensions: {points.shape[1]} vs "
            f"{centers.shape[1]}."
        )
    if int(k) < 0:
        raise InvalidArgumentError("Expected k >= 0.")
    count = min(len(centers), int(k))
    halves = _half_norms(centers)[None, :] - points @ centers.T
    order = np.argsort(halves, axis=1, kind="stable")[:, :count]
    nearest = np.take_along_axis(halves, order, axis=1) + _half_norms(points)[:, None]
    return order.astype(np.int64), np.float32(2) * nearest


not_differentiable("KmeansPlusPlusInitialization", "KMC2ChainInitialization", "NearestNeighbors")
