"""The eager service: contexts of eager clients, and functions that span several tasks."""

from __future__ import annotations

from tideflow.cluster.eager.context import ANSWERED, EagerContext
from tideflow.cluster.eager.service import EagerWorker
from tideflow.cluster.eager.spanning import Remote, SpanningFunction, with_origin

__all__ = [
    "ANSWERED",
    "EagerContext",
    "EagerWorker",
    "Remote",
    "SpanningFunction",
    "with_origin",
]
