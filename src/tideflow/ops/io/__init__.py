"""Files in graphs: reading and writing them, readers, checkpoints, summaries."""

from __future__ import annotations

from tideflow.ops.io.event_writer import EventFileWriter
from tideflow.ops.io.summaries import merge_all, scalar_summary_of

__all__ = [
    "EventFileWriter",
    "merge_all",
    "scalar_summary_of",
]
