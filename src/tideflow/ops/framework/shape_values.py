"""Static shapes as tensors: where a tensor of sizes is wanted, a TensorShape may be given."""

from __future__ import annotations

import numpy as np

from tideflow.graph.building import constant_tensor, register_tensor_conversion
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType


def _shape_as_tensor(
    shape: TensorShape, dtype: DType | None = None, name: str | None = None
) -> Tensor:
    """Return the sizes of a shape, of int32 unless asked for int64.

    Raises: ValueError for a shape that is not known in full; TypeError for another type.
    """
    if not shape.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape {shape} to a Tensor.")
    wanted = dtypes.int32 if dtype is None else dtype.base_dtype
    if wanted not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert a TensorShape to dtype: {wanted.name}")
    sizes = np.array(shape.as_list(), wanted.as_numpy_dtype)
    return constant_tensor(sizes, wanted, None, name or "shape_as_tensor")


register_tensor_conversion(TensorShape, _shape_as_tensor)
