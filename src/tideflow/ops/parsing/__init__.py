"""Tensors out of strings: raw bytes, serialised tensors, CSV, example protos."""

from __future__ import annotations

from tideflow.ops.parsing.example_ops import FeatureKinds, parsed_examples
from tideflow.ops.parsing.examples import (
    Wanted,
    composed_features,
    default_of,
    parse_example_v2,
    plain_features,
)
from tideflow.ops.parsing.records import joined, keys_of
from tideflow.ops.parsing.values import csv_value, stored_tensor

__all__ = [
    "FeatureKinds",
    "Wanted",
    "composed_features",
    "csv_value",
    "default_of",
    "joined",
    "keys_of",
    "parse_example_v2",
    "parsed_examples",
    "plain_features",
    "stored_tensor",
]
