"""Datasets and iterators: sources, transformations, and the files that they read.

Start reading at `values`, the contract of a dataset, then `functions` and `map`."""

from __future__ import annotations

from tideflow.ops.data.functions import drive
from tideflow.ops.data.functions_api import Dataset, Spec, Traced
from tideflow.ops.data.iterators import IteratorResource, end_of_sequence
from tideflow.ops.data.record_io import tf_record_iterator
from tideflow.ops.data.record_stream import RecordStream, in_file_thread
from tideflow.ops.data.values import as_dataset

__all__ = [
    "Dataset",
    "IteratorResource",
    "RecordStream",
    "Spec",
    "Traced",
    "as_dataset",
    "drive",
    "end_of_sequence",
    "in_file_thread",
    "tf_record_iterator",
]
