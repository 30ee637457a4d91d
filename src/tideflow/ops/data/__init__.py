"""Datasets and iterators: sources, transformations, and the files that they read.

Start reading at `values`, the contract of a dataset, then `functions` and `map`."""

from __future__ import annotations

from tideflow.ops.data.functions import data_threads, drive
from tideflow.ops.data.functions_api import Dataset, Spec, Traced
from tideflow.ops.data.iterators import IteratorResource, end_of_sequence
from tideflow.ops.data.record_io import tf_record_iterator
from tideflow.ops.data.record_stream import RecordStream
from tideflow.ops.data.values import as_dataset

__all__ = [
    "Dataset",
    "IteratorResource",
    "RecordStream",
    "Spec",
    "Traced",
    "as_dataset",
    "data_threads",
    "drive",
    "end_of_sequence",
    "tf_record_iterator",
]
