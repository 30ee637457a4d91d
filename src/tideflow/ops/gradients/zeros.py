"""Zeros in the form that a gradient has: dense, slices, or for the variable behind a handle."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, constant_tensor, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import Dims
from tideflow.ops.framework import IndexedSlices
from tideflow.ops.gradients.walk import zeros_like_output
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType

HANDLES = (dtypes.resource, dtypes.variant)


def zeros_for(tensor: Tensor, grad: Tensor) -> Any:
    """Return zeros like a tensor, in the form of a gradient that another branch or iteration
    gives for it: slices where that is slices, the variable's value where tensor is a handle, a
    list where it is a list."""
    if isinstance(grad, IndexedSlices):
        return _empty_slices(tensor, grad)
    if tensor.dtype.base_dtype not in HANDLES:
        return zeros_like_output(tensor)
    if grad.dtype.base_dtype is dtypes.variant:
        return apply_op("ZerosLike", tensor)
    sizes = _sizes(tensor, grad.dims)
    return apply_op("Fill", sizes, convert_to_tensor(0, grad.dtype.base_dtype), name="zeros")


def _sizes(tensor: Tensor, dims: Dims, dtype: DType = dtypes.int32) -> Tensor:
    """Return the sizes of a tensor or, for a handle, of the variable's value."""
    if shapes.num_elements(dims) is not None:
        return convert_to_tensor(list(dims or ()), dtype)
    op_name = "VariableShape" if tensor.dtype.base_dtype in HANDLES else "Shape"
    found: Tensor = apply_op(op_name, tensor, out_type=dtype)
    return found


def _empty_slices(tensor: Tensor, grad: IndexedSlices) -> IndexedSlices:
    """Return slices like others, but none of them."""
    dims = grad.values.dims
    row = None if dims is None else dims[1:]
    if shapes.num_elements(row) is None:
        row_sizes = apply_op("StridedSlice", _sizes(tensor, None), [1], [0], [1], end_mask=1)
    else:
        row_sizes = convert_to_tensor(list(row or ()), dtypes.int32)
    zero = convert_to_tensor(0, grad.values.dtype.base_dtype)
    values = apply_op("Fill", apply_op("ConcatV2", [[0], row_sizes], 0), zero)
    index_type = grad.indices.dtype.base_dtype
    indices = constant_tensor(np.zeros([0], index_type.as_numpy_dtype), index_type)
    shape = None
    if grad.dense_shape is not None:
        shape = _sizes(tensor, None, grad.dense_shape.dtype.base_dtype)
    return IndexedSlices(values, indices, shape)
