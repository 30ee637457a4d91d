"""Random numbers: stateless draws, generators with a state, distributions, permutations.

All of them draw from Philox counters (`philox`)."""

from __future__ import annotations

from tideflow.ops.random.draws import (
    Sequence,
    multinomial,
    random_normal,
    random_shuffle,
    random_uniform,
)
from tideflow.ops.random.gamma import random_gamma
from tideflow.ops.random.permutations import shuffled_indices
from tideflow.ops.random.philox import Samples, bits_as_float, random_words, seeds_of
from tideflow.ops.random.stateless import stateless_random_uniform

__all__ = [
    "Samples",
    "Sequence",
    "bits_as_float",
    "multinomial",
    "random_gamma",
    "random_normal",
    "random_shuffle",
    "random_uniform",
    "random_words",
    "seeds_of",
    "shuffled_indices",
    "stateless_random_uniform",
]
