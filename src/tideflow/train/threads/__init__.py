"""Threads of training, what coordinates them, and how they wait and end."""

from __future__ import annotations

from tideflow.train.threads.chief_lock import ChiefLock
from tideflow.train.threads.closing import SessionCloser, stop_threads
from tideflow.train.threads.coordinator import Coordinator, LooperThread
from tideflow.train.threads.queue_runner import QueueRunner, start_queue_runners
from tideflow.train.threads.waiting import RetryPauses

__all__ = [
    "ChiefLock",
    "Coordinator",
    "LooperThread",
    "QueueRunner",
    "RetryPauses",
    "SessionCloser",
    "start_queue_runners",
    "stop_threads",
]
