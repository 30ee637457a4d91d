"""Collectives between tasks: who is in a group, and how its members reach each other."""

from __future__ import annotations

from tideflow.cluster.collectives.host import CollectiveHost
from tideflow.cluster.collectives.steps import CollectiveSteps, collective_key

__all__ = [
    "CollectiveHost",
    "CollectiveSteps",
    "collective_key",
]
