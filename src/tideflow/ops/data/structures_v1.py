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
    """Return a TensorSpec.

    Args:
      dtype: the elements' type.
      shape: the shape, as far as it is known.
    Example:
      >>> tf.data.experimental.TensorStructure(tf.float32, [None, 2])
      TensorSpec(shape=(None, 2), dtype=tf.float32, name=None)
    """
    return TensorSpec(shape, dtype)


@export("data.experimental.SparseTensorStructure")
def sparse_tensor_structure(dtype: DTypeLike, shape: ShapeLike) -> SparseTensorSpec:
    """Return a SparseTensorSpec.

    Args:
      dtype: the values' type.
      shape: the dense shape, as far as it is known.
    Example:
      >>> tf.data.experimental.SparseTensorStructure(tf.int64, [2, 3]).shape
      TensorShape([2, 3])
    """
    return SparseTensorSpec(shape, dtype)


@export("data.experimental.RaggedTensorStructure")
def ragged_tensor_structure(
    dtype: DTypeLike, shape: ShapeLike, ragged_rank: int
) -> RaggedTensorSpec:
    """Return a RaggedTensorSpec.

    Args:
      dtype: the values' type.
      shape: the shape; None for the ragged sizes.
      ragged_rank: how many dimensions after the first are ragged.
    Example:
      >>> tf.data.experimental.RaggedTensorStructure(tf.int32, [2, None], 1).ragged_rank
      1
    """
    return RaggedTensorSpec(shape, dtype, ragged_rank)


@export("data.experimental.TensorArrayStructure")
def tensor_array_structure(
    dtype: DTypeLike, element_shape: ShapeLike, dynamic_size: bool, infer_shape: bool
) -> TensorArraySpec:
    """Return a TensorArraySpec.

    Args:
      dtype: the elements' type.
      element_shape: the shape of each element, as far as it is known.
      dynamic_size: whether the array may grow.
      infer_shape: whether all elements have one shape.
    Example:
      >>> spec = tf.data.experimental.TensorArrayStructure(tf.float32, [2], False, True)
      >>> spec.value_type.__name__
      'TensorArray'
    """
    return TensorArraySpec(element_shape, dtype, dynamic_size, infer_shape)
