"""Tensor arrays, tensor lists and stacks: sequences of tensors that loops fill and read."""

from __future__ import annotations

from tideflow.ops.tensor_arrays.arrays import TensorArray
from tideflow.ops.tensor_arrays.lists import element_shape_tensor
from tideflow.ops.tensor_arrays.spec import TensorArraySpec

__all__ = [
    "TensorArray",
    "TensorArraySpec",
    "element_shape_tensor",
]
