"""Tensors out of strings: raw bytes, serialised tensors, CSV, example protos."""

from __future__ import annotations

from tideflow.ops.parsing.values import csv_value, stored_tensor

__all__ = [
    "csv_value",
    "stored_tensor",
]
