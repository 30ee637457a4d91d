"""Collective ops: what each says of its group, and the kernels that wait for it."""

from __future__ import annotations

from tideflow.ops.collectives.calls import CollectiveCall, Collectives, Kind

__all__ = [
    "CollectiveCall",
    "Collectives",
    "Kind",
]
