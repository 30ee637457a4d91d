"""What tf.data.experimental of TensorFlow 1 calls the TypeSpecs of elements.

Source: tensorflow/python/data/util/structure.py.
"""

from __future__ import annotations

from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import DTypeLike, ShapeLike
from tideflow.ops.data.type_specs import DatasetSpec
from tideflow.ops.export import export, export_value
from tideflow.ops.ragged import RaggedTensorSpec
from tideflow.ops.sparse import SparseTensorSpec
from tideflow.ops.tensor_arrays import TensorArraySpec

export_value("data.experimental.DatasetStructure", DatasetSpec)


@export("data.experimental.TensorStructure")
def tensor_structure(dtype: DTypeLike, shape: ShapeLike) -> TensorSpec:
    """Return a TensorSpec."""
    return TensorSpec(shape, dtype)


@export("data.experimental.SparseTensorStructure")
def sparse_tensor_structure(dtype: DTypeLike, shape: ShapeLike) -> SparseTensorSpec:
    """Return a SparseTensorSpec."""
    return SparseTensorSpec(shape, dtype)


@export("data.experimental.RaggedTensorStructure")
def ragged_tensor_structure(
    dtype: DTypeLike, shape: ShapeLike, ragged_rank: int
) -> RaggedTensorSpec:
    """Return a RaggedTensorSpec."""
    return RaggedTensorSpec(shape, dtype, ragged_rank)


@export("data.experimental.TensorArrayStructure")
def tensor_array_structure(
    dtype: DTypeLike, element_shape: ShapeLike, dynamic_size: bool, infer_shape: bool
) -> TensorArraySpec:
    """Return a TensorArraySpec."""
    return TensorArraySpec(element_shape, dtype, dynamic_size, infer_shape)
