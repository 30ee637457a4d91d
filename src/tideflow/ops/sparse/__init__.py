"""Sparse tensors: the class, arithmetic, segments, crosses, sets, edit distances."""

from __future__ import annotations

from tideflow.ops.sparse.cross import cross_bucket, joined_by, sparse_rows
from tideflow.ops.sparse.segment import (
    sparse_segment_mean,
    sparse_segment_sqrt_n,
    sparse_segment_sum,
)
from tideflow.ops.sparse.serialized import TensorElement
from tideflow.ops.sparse.spec import SparseTensorSpec
from tideflow.ops.sparse.tensor import (
    SparseTensor,
    SparseTensorValue,
    fill_empty_rows,
    reshape,
    retain,
)

__all__ = [
    "SparseTensor",
    "SparseTensorSpec",
    "SparseTensorValue",
    "TensorElement",
    "cross_bucket",
    "fill_empty_rows",
    "joined_by",
    "reshape",
    "retain",
    "sparse_rows",
    "sparse_segment_mean",
    "sparse_segment_sqrt_n",
    "sparse_segment_sum",
]
