"""Datasets and iterators: sources, transformations, and the files that they read.

Start reading at `values`, the contract of a dataset, then `functions` and `map`."""

from __future__ import annotations

from tideflow.ops.data.background import Producer
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.experimental_api import assert_cardinality
from tideflow.ops.data.file_datasets import TFRecordDatasetV1, TFRecordDatasetV2
from tideflow.ops.data.from_graph import function_of_graph
from tideflow.ops.data.functions import drive, enter_scope
from tideflow.ops.data.functions_api import Dataset, to_variant
from tideflow.ops.data.iterators import IteratorResource, end_of_sequence
from tideflow.ops.data.optional_api import Optional, next_as_optional
from tideflow.ops.data.options_api import AutoShardPolicy
from tideflow.ops.data.record_io import tf_record_iterator
from tideflow.ops.data.record_stream import RecordStream, in_file_thread
from tideflow.ops.data.saved import compression_of_files, stored_element
from tideflow.ops.data.service import Reading, provide_data_service
from tideflow.ops.data.session_iterators import DatasetV1, DatasetV1Adapter
from tideflow.ops.data.shard_hints import with_shards
from tideflow.ops.data.splits import SplitFeed, read_splits, share_of, split_sources
from tideflow.ops.data.structure import attrs_of, flat_specs, packed
from tideflow.ops.data.traced import Traced
from tideflow.ops.data.values import Dataset as RuntimeDataset
from tideflow.ops.data.values import Element, Splits, as_dataset, text
from tideflow.ops.data.values import Iterator as ElementIterator

__all__ = [
    "AutoShardPolicy",
    "Dataset",
    "DatasetV1",
    "DatasetV1Adapter",
    "Element",
    "ElementIterator",
    "Elements",
    "IteratorResource",
    "Optional",
    "Producer",
    "Reading",
    "RecordStream",
    "RuntimeDataset",
    "SplitFeed",
    "Splits",
    "TFRecordDatasetV1",
    "TFRecordDatasetV2",
    "Traced",
    "as_dataset",
    "assert_cardinality",
    "attrs_of",
    "compression_of_files",
    "dataset_op",
    "drive",
    "end_of_sequence",
    "enter_scope",
    "flat_specs",
    "function_of_graph",
    "in_file_thread",
    "next_as_optional",
    "packed",
    "provide_data_service",
    "read_splits",
    "share_of",
    "split_sources",
    "stored_element",
    "text",
    "tf_record_iterator",
    "to_variant",
    "with_shards",
]
