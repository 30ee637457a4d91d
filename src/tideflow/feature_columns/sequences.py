"""Columns of sequences: for each example several steps, as many as it has.

Source: tensorflow/python/feature_column/sequence_feature_column.py for names and rules.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.feature_columns.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
)
from tideflow.feature_columns.columns import (
    CategoricalColumn,
    FeatureTransformationCache,
    IdWeightPair,
    SequenceDenseColumn,
    TensorSequenceLengthPair,
    as_sparse,
    check_key,
    shape_argument,
)
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike
from tideflow.ops.export import export
from tideflow.ops.parsing.examples import VarLenFeature
from tideflow.ops.sparse import SparseTensor, reshape
from tideflow.ops.sparse.tensor import to_dense
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype


def sequence_lengths(values: SparseTensor, num_elements: int = 1) -> Tensor:
    """Return how many steps the rows of a sparse tensor have, int64 [batch].

    num_elements: how many columns a step takes.
    """
    rows, columns = (
        apply_op("StridedSlice", values.indices, [0, i], [0, i + 1], [1, 1], begin_mask=1,
                 end_mask=1, shrink_axis_mask=2)
        for i in (0, 1)
    )  # fmt: skip
    ends = apply_op("AddV2", columns, apply_op("OnesLike", columns))
    batch = apply_op("StridedSlice", values.dense_shape, [0], [1], [1], shrink_axis_mask=1)
    longest = apply_op("UnsortedSegmentMax", ends, rows, batch)
    # Rows without anything get the least number.
    longest = apply_op("Maximum", longest, apply_op("ZerosLike", longest))
    if num_elements > 1:
        longest = apply_op("FloorDiv", longest + np.int64(num_elements - 1), np.int64(num_elements))
    made: Tensor = longest
    return made


class SequenceCategoricalColumn(
    CategoricalColumn, namedtuple("SequenceCategoricalColumn", ("categorical_column",))
):
    """The ids of a column, step by step."""

    @property
    def name(self) -> str:
        """The name of the column."""
        return str(self.categorical_column.name)

    @property
    def parents(self) -> list[Any]:
        """The column."""
        return [self.categorical_column]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of the column."""
        return dict(self.categorical_column.parse_example_spec)

    @property
    def num_buckets(self) -> int:
        """How many ids there are."""
        return int(self.categorical_column.num_buckets)

    def transform_feature(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Any:
        """Return what the column makes of the feature."""
        return self.categorical_column.transform_feature(transformation_cache, state_manager)

    def get_sparse_tensors(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> IdWeightPair:
        """Return ids and weights as [batch, time, ids of a step]."""
        pair = self.categorical_column.get_sparse_tensors(transformation_cache, state_manager)
        return IdWeightPair(*(None if part is None else _by_step(part) for part in pair))  # type: ignore[arg-type]


def _by_step(values: SparseTensor) -> SparseTensor:
    front = apply_op("StridedSlice", values.dense_shape, [0], [2], [1], begin_mask=1)
    rest = apply_op("StridedSlice", values.dense_shape, [2], [0], [1], end_mask=1)
    last = apply_op("Prod", rest, [0], keep_dims=True)
    return reshape(values, apply_op("ConcatV2", [front, last], 0))


_INPUT = "DenseFeatures"


def refuse_sequence(kind: str, column: Any) -> None:
    """Raise ValueError for a column of sequences where one without is needed."""
    ids = column.categorical_column
    if isinstance(ids, SequenceCategoricalColumn):
        raise ValueError(
            f"In {kind}: {column.name}. categorical_column must not be of type "
            f"SequenceCategoricalColumn. Suggested fix A: If you wish to use {_INPUT}, use a "
            "non-sequence categorical_column_with_*. Suggested fix B: If you wish to create "
            f"sequence input, use SequenceFeatures instead of {_INPUT}. Given (type {type(ids)}): "
            f"{ids}"
        )


def require_sequence(kind: str, column: Any) -> None:
    """Raise ValueError for a column without sequences where one of them is needed."""
    ids = column.categorical_column
    if not isinstance(ids, SequenceCategoricalColumn):
        raise ValueError(
            f"In {kind}: {column.name}. categorical_column must be of type "
            "SequenceCategoricalColumn to use SequenceFeatures. Suggested fix: Use one of "
            f"sequence_categorical_column_with_*. Given (type {type(ids)}): {ids}"
        )


@export("feature_column.sequence_categorical_column_with_identity")
def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """Return the column of sequences of categorical_column_with_identity."""
    return SequenceCategoricalColumn(
        categorical_column_with_identity(key, num_buckets, default_value)
    )


@export("feature_column.sequence_categorical_column_with_hash_bucket")
def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: DTypeLike = dtypes.string
) -> SequenceCategoricalColumn:
    """Return the column of sequences of categorical_column_with_hash_bucket."""
    return SequenceCategoricalColumn(
        categorical_column_with_hash_bucket(key, hash_bucket_size, dtype)
    )


@export("feature_column.sequence_categorical_column_with_vocabulary_file")
def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: DTypeLike = dtypes.string,
) -> SequenceCategoricalColumn:
    """Return the column of sequences of categorical_column_with_vocabulary_file."""
    return SequenceCategoricalColumn(
        categorical_column_with_vocabulary_file(
            key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype
        )
    )


@export("feature_column.sequence_categorical_column_with_vocabulary_list")
def sequence_categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Sequence[Any],
    dtype: DTypeLike | None = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> SequenceCategoricalColumn:
    """Return the column of sequences of categorical_column_with_vocabulary_list."""
    return SequenceCategoricalColumn(
        categorical_column_with_vocabulary_list(
            key, vocabulary_list, dtype, default_value, num_oov_buckets
        )
    )


class SequenceNumericColumn(
    SequenceDenseColumn,
    namedtuple(
        "SequenceNumericColumn", ("key", "shape", "default_value", "dtype", "normalizer_fn")
    ),
):
    """A feature's numbers, step by step."""

    @property
    def name(self) -> str:
        """The key."""
        return str(self.key)

    @property
    def parents(self) -> list[Any]:
        """The key."""
        return [self.key]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The feature, of any length."""
        return {self.key: VarLenFeature(self.dtype)}

    @property
    def variable_shape(self) -> TensorShape:
        """The shape of a step."""
        return TensorShape(self.shape)

    def transform_feature(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Any:
        """Return the numbers, sparse, normalised where a function for that was given."""
        given = transformation_cache.get(self.key, state_manager)
        return as_sparse(given if self.normalizer_fn is None else self.normalizer_fn(given))

    def get_sequence_dense_tensor(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> TensorSequenceLengthPair:
        """Return [batch, time, shape...], and lengths."""
        values = transformation_cache.get(self, state_manager)
        dense = to_dense(values, default_value=self.default_value)
        rows = apply_op("StridedSlice", apply_op("Shape", dense), [0], [1], [1])
        dense = apply_op("Reshape", dense, apply_op("ConcatV2", [rows, [-1, *self.shape]], 0))
        flat = values.shape.rank == 2
        count = int(self.variable_shape.num_elements() or 1) if flat else 1
        return TensorSequenceLengthPair(dense, sequence_lengths(values, count))


@export("feature_column.sequence_numeric_column")
def sequence_numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: float = 0.0,
    dtype: DTypeLike = dtypes.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> SequenceNumericColumn:
    """Return a column of a feature's numbers, step by step.

    Args:
      shape: of a step.
      default_value: where a sequence has ended.
      normalizer_fn: a function of the feature, sparse or dense.
    Raises: TypeError and ValueError for arguments that do not fit.
    """
    chosen = as_dtype(dtype)
    if not (chosen.is_integer or chosen.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    check_key(key)
    sizes = shape_argument(shape, key)
    return SequenceNumericColumn(key, sizes, default_value, chosen, normalizer_fn)
