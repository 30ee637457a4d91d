"""Optimizers in the v1 shape, their slots, schedules, and averages."""

from __future__ import annotations

from tideflow.train.optimizers.optimizer import Optimizer

__all__ = [
    "Optimizer",
]
