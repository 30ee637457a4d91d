"""Datasets and iterators: sources, transformations, and the files that they read.

Start reading at `values`, the contract of a dataset, then `functions` and `map`."""

from __future__ import annotations

from tideflow.ops.data.functions import data_threads, drive
from tideflow.ops.data.functions_api import Dataset, Spec, Traced
from tideflow.ops.data.iterators import IteratorResource, end_of_sequence
from tideflow.ops.data.record_files import (
    WINDOW_BITS,
    RecordFile,
    RecordStream,
    text_lines,
    tf_records,
)
from tideflow.ops.data.record_io import framed, tf_record_iterator
from tideflow.ops.data.values import as_dataset

__all__ = [
    "WINDOW_BITS",
    "Dataset",
    "IteratorResource",
    "RecordFile",
    "RecordStream",
    "Spec",
    "Traced",
    "as_dataset",
    "data_threads",
    "drive",
    "end_of_sequence",
    "framed",
    "text_lines",
    "tf_record_iterator",
    "tf_records",
]
