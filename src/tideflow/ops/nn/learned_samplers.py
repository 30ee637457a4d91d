"""Samplers of classes that learn from the true ones how likely each is.

Source: tensorflow/core/kernels/candidate_sampler_ops.cc, range_sampler.cc; lib/random/
weighted_picker.cc.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.nn.candidate_samplers import (
    Words,
    candidates,
    make_sampler,
    sampler_shape,
    sampler_signature,
)

_MOST = (1 << 31) - 1


class Learned:
    """Classes are as likely as the times that they were true ones, and one more."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._weights = np.ones(size, np.int64)
        self._lock = threading.Lock()

    def draw(self, words: Words) -> int:
        """Return a class."""
        with self._lock:
            ends = np.cumsum(self._weights)
        return int(np.searchsorted(ends, words.below(int(ends[-1])), side="right"))

    def probability(self, value: int) -> float:
        """Return how likely a class is."""
        return float(np.float32(self._weights[value]) / np.float32(self._weights.sum()))

    def learn(self, classes: list[int]) -> None:
        """Count true classes."""
        with self._lock:
            left = _MOST - int(self._weights.sum())
            np.add.at(self._weights, classes[: max(left, 0)], 1)


def _learned(
    ctx: KernelContext,
    true_classes: Array,
    *,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int,
    seed2: int,
) -> Any:
    """Return candidates, likely by how often each was a true class before."""
    attrs = (num_true, num_sampled, unique, seed, seed2)
    return candidates(ctx, true_classes, lambda: Learned(range_max), attrs)


for _name in ("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"):
    op(sampler_signature(_name, "range_max: int >= 1"), shape=sampler_shape, stateful=True)(
        _learned
    )
    not_differentiable(_name)


@export("nn.learned_unigram_candidate_sampler", "random.learned_unigram_candidate_sampler")
def learned_unigram_candidate_sampler(
    true_classes: TensorLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Draw candidates in [0, range_max), likely by how often each was a true class before.

    Args:
      true_classes: int64 [batch, num_true].
      num_true: how many true classes an example has, an int.
      num_sampled: how many candidates to draw, an int.
      unique: whether candidates all differ; num_sampled is then at most range_max.
      range_max: how many classes there are, an int.
      seed: an int, for the same draws in each run of the program.
    Returns: candidates [num_sampled] (int64), and how often the true classes [batch, num_true] and
      the candidates [num_sampled] are to be expected among them (float32).
    Raises: InvalidArgumentError for true classes of another shape.
    Example:
      >>> drawn, of_true, of_drawn = tf.random.learned_unigram_candidate_sampler(
      ...     [[0], [4]], num_true=1, num_sampled=5, unique=True, range_max=5, seed=1)
      >>> sorted(drawn.numpy().tolist()), of_true.shape, of_drawn.shape
      ([0, 1, 2, 3, 4], TensorShape([2, 1]), TensorShape([5]))
    """
    return make_sampler(
        "LearnedUnigramCandidateSampler",
        true_classes,
        name,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        range_max=range_max,
        seed=seed,
    )
