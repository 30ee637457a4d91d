"""Ragged tensors: tensors whose rows have lengths of their own.

`kernels` has the ops, `variants` those of ragged tensors as one tensor, `tensor` the class, the
others what is done with ragged tensors."""

from __future__ import annotations

from tideflow.ops.ragged.makers import from_row_splits, from_tensor, from_value_rowids
from tideflow.ops.ragged.session_values import RaggedTensorValue, value_of_parts
from tideflow.ops.ragged.spec import RaggedTensorSpec
from tideflow.ops.ragged.tensor import RaggedTensor, rows_of
from tideflow.ops.ragged.variants import RaggedValue, to_variant

__all__ = [
    "RaggedTensor",
    "RaggedTensorSpec",
    "RaggedTensorValue",
    "RaggedValue",
    "from_row_splits",
    "from_tensor",
    "from_value_rowids",
    "rows_of",
    "to_variant",
    "value_of_parts",
]
