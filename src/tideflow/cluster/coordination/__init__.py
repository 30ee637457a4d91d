"""The coordination service: tasks of a job, their heartbeats, barriers, keys and values."""

from __future__ import annotations

from tideflow.cluster.coordination.service import CoordinationService
from tideflow.cluster.coordination.servicer import CoordinationServicer, coordination_config

__all__ = [
    "CoordinationService",
    "CoordinationServicer",
    "coordination_config",
]
