"""Ragged tensors in sessions: their values, what is fed, and values of nested lists.

Source: tensorflow/python/ops/ragged/ragged_tensor_value.py, ragged_factory_ops.py.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tideflow.graph.graph import get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, ShapeLike
from tideflow.ops.export import export
from tideflow.ops.framework import placeholder as dense_placeholder
from tideflow.ops.ragged.makers import taken_apart
from tideflow.ops.ragged.tensor import rows_of
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype


@export("ragged.RaggedTensorValue")
class RaggedTensorValue:
    """The value of a ragged tensor, as sessions give and take it.

    Args:
      values: an array, or another value of this class.
      row_splits: vector of int32 or int64.
    Raises: TypeError for others; ValueError for row splits of several types.
    """

    def __init__(self, values: Any, row_splits: Any) -> None:
        is_vector = isinstance(row_splits, (np.ndarray, np.generic)) and row_splits.ndim == 1
        if not is_vector or row_splits.dtype not in (np.int64, np.int32):
            raise TypeError("row_splits must be a 1D int32 or int64 numpy array")
        if not isinstance(values, (np.ndarray, np.generic, RaggedTensorValue)):
            raise TypeError("values must be a numpy array or a RaggedTensorValue")
        if isinstance(values, RaggedTensorValue) and row_splits.dtype != values.row_splits.dtype:
            raise ValueError("row_splits and values.row_splits must have the same dtype")
        self._values = values
        self._row_splits = row_splits

    @property
    def values(self) -> Any:
        """The rows, one after the other."""
        return self._values

    @property
    def row_splits(self) -> Any:
        """Where rows begin and end."""
        return self._row_splits

    @property
    def dtype(self) -> Any:
        """The element type, of NumPy."""
        return self._values.dtype

    @property
    def flat_values(self) -> Any:
        """The innermost values."""
        inner = self._values
        return inner.flat_values if isinstance(inner, RaggedTensorValue) else inner

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """The row splits of all ragged dimensions, outermost first."""
        inner = self._values
        further = inner.nested_row_splits if isinstance(inner, RaggedTensorValue) else ()
        return (self._row_splits, *further)

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are ragged."""
        return len(self.nested_row_splits)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The shape, with None for ragged dimensions."""
        return (len(self._row_splits) - 1, None, *self._values.shape[1:])

    def to_list(self) -> list[Any]:
        """Return rows as nested lists."""
        inner = self._values
        rows = inner.to_list() if isinstance(inner, RaggedTensorValue) else inner.tolist()
        ends = self._row_splits.tolist()
        return [rows[begin:end] for begin, end in itertools.pairwise(ends)]

    def __str__(self) -> str:
        return f"<tf.RaggedTensorValue {self.to_list()}>"

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self._values!r}, row_splits={self._row_splits!r})"


def value_of_parts(*parts: Any) -> RaggedTensorValue:
    """Return the value of row splits, outermost first, and innermost values."""
    *row_splits, made = parts
    for splits in reversed(row_splits):
        made = RaggedTensorValue(made, splits)
    found: RaggedTensorValue = made
    return found


@export("ragged.constant_value")
def constant_value(
    pylist: Any,
    dtype: DTypeLike | None = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    row_splits_dtype: DTypeLike = "int64",
) -> Any:
    """Return nested lists as a RaggedTensorValue; as an array where nothing is ragged.

    The arguments are those of tf.ragged.constant.
    """
    nested, rows, shape = taken_apart(pylist, ragged_rank, inner_shape)
    made = np.array(rows, None if dtype is None else as_dtype(dtype).as_numpy_dtype)
    if shape is not None:
        made = made.reshape((len(rows), *shape))
    kind = as_dtype(row_splits_dtype).as_numpy_dtype
    return value_of_parts(*(splits.astype(kind) for splits in nested), made)


@export("ragged.placeholder")
def placeholder(
    dtype: DTypeLike,
    ragged_rank: int,
    value_shape: ShapeLike | None = None,
    name: str | None = None,
) -> Any:
    """Return a ragged tensor to be fed, with a RaggedTensorValue.

    Args:
      ragged_rank: how many dimensions are ragged; 0 for a dense placeholder of value_shape.
      value_shape: the shape of one of the innermost values.
    Raises: RuntimeError where operations run at once.
    """
    if ragged_rank == 0:
        return dense_placeholder(dtype, value_shape, name)
    with get_default_graph().name_scope(name or "RaggedPlaceholder"):
        shape = TensorShape([None]).concatenate(TensorShape(value_shape))
        made: Any = dense_placeholder(dtype, shape, "flat_values")
        for level in reversed(range(ragged_rank)):
            splits = dense_placeholder(dtypes.int64, [None], f"row_splits_{level}")
            made = rows_of(made, splits)
        return made
