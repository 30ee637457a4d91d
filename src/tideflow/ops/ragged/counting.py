"""tf.math.bincount, of dense, sparse and ragged integers.

Source: tensorflow/python/ops/bincount_ops.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export, overload_each
from tideflow.ops.math import bincount as dense_bincount
from tideflow.ops.math import whole_numbers
from tideflow.ops.ragged.tensor import RaggedTensor
from tideflow.ops.sparse import SparseTensor
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype


@export("math.bincount", "bincount")
def bincount(
    arr: Any,
    weights: TensorLike | None = None,
    minlength: TensorLike | None = None,
    maxlength: TensorLike | None = None,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
    axis: int | None = None,
    binary_output: bool = False,
) -> Any:
    """Count how often each whole number occurs, or add up weights instead.

    Args:
      arr: non-negative integers, dense, sparse or ragged; all of them count together, or each row
        if axis is -1.  Of other numbers the integer part counts.
      weights: of the kind and shape of arr.
      minlength, maxlength: bounds of the number of bins, which otherwise is max(arr) + 1.
      dtype: of the counts, without weights.
      binary_output: give 1 for each number that occurs.
    Raises: ValueError for another axis; InvalidArgumentError, when run, for negative numbers.
    """
    if axis not in (None, 0, -1):
        raise ValueError(f"Unsupported value for argument axis={axis}. Only 0 and -1 are supported")
    if axis == -1 and isinstance(arr, (RaggedTensor, SparseTensor)):
        with get_default_graph().name_scope(name or "bincount"):
            lengths = (minlength, maxlength)
            return _by_rows(arr, _values(weights), lengths, dtype, binary_output)
    return dense_bincount(
        _values(arr), _values(weights), minlength, maxlength, dtype, name, axis, binary_output
    )


def _values(given: Any) -> Any:
    if isinstance(given, SparseTensor):
        return given.values
    return given.flat_values if isinstance(given, RaggedTensor) else given


def _by_rows(
    arr: Any, weights: TensorLike, lengths: tuple[Any, Any], dtype: DTypeLike, binary_output: bool
) -> Any:
    values = whole_numbers(_values(arr))
    kind = values.dtype
    least = convert_to_tensor([-1], kind)
    top = apply_op("Max", apply_op("ConcatV2", [values, least], 0), [0])
    size = apply_op("AddV2", top, convert_to_tensor(1, kind))
    for limit, choose in zip(lengths, ("Maximum", "Minimum")):
        if limit is not None:
            size = apply_op(choose, size, apply_op("Cast", convert_to_tensor(limit), DstT=kind))
    empty = np.zeros(0, as_dtype(dtype).as_numpy_dtype)
    amounts = empty if weights is None else convert_to_tensor(weights)
    attrs: dict[str, Any] = {"binary_output": binary_output}
    if isinstance(arr, SparseTensor):
        return apply_op(
            "SparseBincount", arr.indices, values, arr.dense_shape, size, amounts, **attrs
        )
    splits = apply_op("Cast", arr.row_splits, DstT=dtypes.int64)
    return apply_op("RaggedBincount", splits, values, size, amounts, **attrs)


def _sparse_counts(function: Any, args: Any, kwargs: Any) -> Any:
    """Return tf.sparse.bincount of ragged values and weights, as of sparse ones."""

    def sparse(value: TensorLike) -> Any:
        return value.to_sparse() if isinstance(value, RaggedTensor) else value

    return function(*map(sparse, args), **{key: sparse(value) for key, value in kwargs.items()})


overload_each("sparse.bincount", _sparse_counts)
