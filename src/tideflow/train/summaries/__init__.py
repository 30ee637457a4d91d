"""Writers of summaries and events."""

from __future__ import annotations

from tideflow.train.summaries.summary_writer import FileWriter, FileWriterCache

__all__ = [
    "FileWriter",
    "FileWriterCache",
]
