"""Probability distributions of TensorFlow 1: tf.compat.v1.distributions.

`base` has what all share, `divergence` the divergences between two of them.
"""

from __future__ import annotations

from tideflow.distributions import classes, positive, real, simplex
from tideflow.distributions.base import Distribution

__all__ = ["Distribution", "classes", "positive", "real", "simplex"]
