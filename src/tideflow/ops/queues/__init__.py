"""Queues and accumulators: the ops, and the classes of the API."""

from __future__ import annotations

from tideflow.ops.queues.accumulator_classes import (
    ConditionalAccumulator,
    ConditionalAccumulatorBase,
    SparseConditionalAccumulator,
)
from tideflow.ops.queues.classes import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from tideflow.ops.queues.queues import Queue

__all__ = [
    "ConditionalAccumulator",
    "ConditionalAccumulatorBase",
    "FIFOQueue",
    "PaddingFIFOQueue",
    "Queue",
    "QueueBase",
    "RandomShuffleQueue",
    "SparseConditionalAccumulator",
]
