"""Files in graphs: reading and writing them, readers, checkpoints, summaries."""

from __future__ import annotations

from tideflow.ops.io.csv_files import csv_batches, csv_rows
from tideflow.ops.io.event_writer import EventFileWriter
from tideflow.ops.io.example_files import batched_features
from tideflow.ops.io.summaries import merge_all, scalar_summary_of

__all__ = [
    "EventFileWriter",
    "batched_features",
    "csv_batches",
    "csv_rows",
    "merge_all",
    "scalar_summary_of",
]
