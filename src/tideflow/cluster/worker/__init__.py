"""The worker service: registered graphs, running steps, and tensors for other tasks."""

from __future__ import annotations

from tideflow.cluster.worker.service import Worker
from tideflow.cluster.worker.session import WorkerSession
from tideflow.cluster.worker.step_table import StepRecord, StepTable

__all__ = [
    "StepRecord",
    "StepTable",
    "Worker",
    "WorkerSession",
]
