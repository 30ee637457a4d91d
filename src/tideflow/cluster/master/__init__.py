"""The master service: its sessions prune, place and split graphs, register them, and run steps."""

from __future__ import annotations

from tideflow.cluster.master.device_discovery import describe, discover_devices
from tideflow.cluster.master.service import Master
from tideflow.cluster.master.session import MasterSession

__all__ = [
    "Master",
    "MasterSession",
    "describe",
    "discover_devices",
]
