"""The coordination service: tasks of a job, their heartbeats, barriers, keys and values."""

from __future__ import annotations

from tideflow.cluster.coordination.coordinator import Coordinator, coordination_config
from tideflow.cluster.coordination.service import CoordinationService

__all__ = [
    "CoordinationService",
    "Coordinator",
    "coordination_config",
]
