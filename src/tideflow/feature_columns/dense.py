"""Columns that give numbers: numeric ones, buckets of them, and counts of categories.

Source: tensorflow/python/feature_column/feature_column_v2.py for names and rules.
"""

from __future__ import annotations

import itertools
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.feature_columns.columns import (
    CategoricalColumn,
    DenseColumn,
    FeatureTransformationCache,
    IdWeightPair,
    SequenceDenseColumn,
    TensorSequenceLengthPair,
    check_key,
    default_argument,
    shape_argument,
)
from tideflow.feature_columns.sequences import (
    refuse_sequence,
    require_sequence,
    sequence_lengths,
)
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike
from tideflow.ops.export import export
from tideflow.ops.parsing.examples import FixedLenFeature
from tideflow.ops.sparse import SparseTensor
from tideflow.ops.sparse.tensor import to_dense
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype


class NumericColumn(
    DenseColumn,
    namedtuple("NumericColumn", ("key", "shape", "default_value", "dtype", "normalizer_fn")),
):
    """A feature's numbers."""

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
        """The feature, of its shape."""
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    @property
    def variable_shape(self) -> TensorShape:
        """The feature's shape."""
        return TensorShape(self.shape)

    def transform_feature(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Any:
        """Return the numbers as float32, normalised where a function for that was given."""
        given = transformation_cache.get(self.key, state_manager)
        if isinstance(given, SparseTensor):
            raise ValueError(
                "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is "
                f"not supported. key: {self.key}"
            )
        if self.normalizer_fn is not None:
            given = self.normalizer_fn(given)
        return as_floats(given)

    def get_dense_tensor(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Tensor:
        """Return the numbers."""
        made: Tensor = transformation_cache.get(self, state_manager)
        return made


def as_floats(x: Any) -> Any:
    """Return numbers as float32."""
    return x if x.dtype is dtypes.float32 else apply_op("Cast", x, DstT=dtypes.float32)


def numbers_arguments(key: str, dtype: DTypeLike, normalizer_fn: Any) -> Any:
    """Return a column's type of numbers.  Raises: ValueError and TypeError for bad arguments."""
    chosen = as_dtype(dtype)
    if not (chosen.is_integer or chosen.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    check_key(key)
    return chosen


@export("feature_column.numeric_column")
def numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: Any = None,
    dtype: DTypeLike = dtypes.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> NumericColumn:
    """Return a column of a feature's numbers.

    Args:
      key: of the feature.
      shape: of what an example has.
      default_value: for examples without the feature, one number or one for each element.
      dtype: of the feature.
      normalizer_fn: a function of a tensor, applied to the feature.
    Raises: TypeError and ValueError for arguments that do not fit.
    """
    sizes = shape_argument(shape, key)
    chosen = numbers_arguments(key, dtype, normalizer_fn)
    default = default_argument(sizes, default_value, chosen, key)
    return NumericColumn(key, sizes, default, chosen, normalizer_fn)


class BucketizedColumn(
    DenseColumn, CategoricalColumn, namedtuple("BucketizedColumn", ("source_column", "boundaries"))
):
    """Which bucket each number of a column lies in."""

    @property
    def name(self) -> str:
        """The name of the source, and what is made of it."""
        return f"{self.source_column.name}_bucketized"

    @property
    def parents(self) -> list[Any]:
        """The source."""
        return [self.source_column]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of the source."""
        return dict(self.source_column.parse_example_spec)

    @property
    def _per_number(self) -> int:
        return len(self.boundaries) + 1

    @property
    def variable_shape(self) -> TensorShape:
        """The source's shape, with a place for each bucket."""
        return TensorShape([*self.source_column.shape, self._per_number])

    @property
    def num_buckets(self) -> int:
        """How many buckets all numbers have."""
        return self._per_number * int(self.source_column.shape[0])

    def transform_feature(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Any:
        """Return the number of each bucket, int32."""
        given = transformation_cache.get(self.source_column, state_manager)
        return apply_op("Bucketize", given, boundaries=list(self.boundaries))

    def get_dense_tensor(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Tensor:
        """Return 1 in the place of each bucket, 0 elsewhere."""
        found = transformation_cache.get(self, state_manager)
        found = apply_op("Cast", found, DstT=dtypes.int64)
        made: Tensor = apply_op("OneHot", found, self._per_number, np.float32(1), np.float32(0))
        return made

    def get_sparse_tensors(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> IdWeightPair:
        """Return the buckets as ids, those of the second number after those of the first."""
        found = transformation_cache.get(self, state_manager)
        width = int(self.source_column.shape[0])
        sizes = apply_op("Shape", found)
        rows = apply_op("StridedSlice", sizes, [0], [1], [1], shrink_axis_mask=1)
        row = apply_op("Reshape", apply_op("Range", 0, rows, 1), [-1, 1])
        row = apply_op("Reshape", apply_op("Tile", row, [1, width]), [-1])
        count = apply_op("ExpandDims", rows, 0)
        column = apply_op("Tile", apply_op("Range", 0, width, 1), count)
        ids = apply_op("AddV2", apply_op("Reshape", found, [-1]),
                       apply_op("Mul", column, self._per_number))  # fmt: skip
        places = apply_op("Cast", apply_op("Pack", [row, column], axis=1), DstT=dtypes.int64)
        shape = apply_op("Cast", apply_op("Pack", [rows, width]), DstT=dtypes.int64)
        ids = apply_op("Cast", ids, DstT=dtypes.int64)
        return IdWeightPair(SparseTensor(places, ids, shape), None)


@export("feature_column.bucketized_column")
def bucketized_column(
    source_column: NumericColumn, boundaries: Sequence[float]
) -> BucketizedColumn:
    """Return a column of the buckets in which a column's numbers lie.

    Args:
      source_column: from numeric_column, with a vector for each example.
      boundaries: ascending; each is the least number of a bucket, below the first is one more.
    Raises: ValueError for another source, and for boundaries that do not ascend.
    """
    if not isinstance(source_column, NumericColumn):
        raise ValueError(
            "source_column must be a column generated with numeric_column(). Given: "
            f"{source_column}"
        )
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not boundaries:
        raise ValueError("boundaries must not be empty.")
    if not isinstance(boundaries, (list, tuple)) or any(
        a >= b for a, b in itertools.pairwise(boundaries)
    ):
        raise ValueError("boundaries must be a sorted list.")
    return BucketizedColumn(source_column, tuple(boundaries))


class IndicatorColumn(
    DenseColumn, SequenceDenseColumn, namedtuple("IndicatorColumn", ("categorical_column",))
):
    """How often, or with which weight, each id of a column is there."""

    @property
    def name(self) -> str:
        """The name of the column of ids, and what is made of it."""
        return f"{self.categorical_column.name}_indicator"

    @property
    def parents(self) -> list[Any]:
        """The column of ids."""
        return [self.categorical_column]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of the column of ids."""
        return dict(self.categorical_column.parse_example_spec)

    @property
    def variable_shape(self) -> TensorShape:
        """A place for each id."""
        return TensorShape([1, self.categorical_column.num_buckets])

    def transform_feature(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Any:
        """Return [batch, ..., ids]: the last axis of ids is added up."""
        ids, weights = self.categorical_column.get_sparse_tensors(
            transformation_cache, state_manager
        )
        size = self.categorical_column.num_buckets
        if weights is not None:
            return _weights_by_id(ids, weights, size)
        found = to_dense(ids, default_value=-1)
        ones = apply_op("OneHot", found, size, np.float32(1), np.float32(0))
        return apply_op("Sum", ones, [-2])

    def get_dense_tensor(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Tensor:
        """Return [batch, ids].  Raises: ValueError for a column of sequences."""
        refuse_sequence("indicator_column", self)
        made: Tensor = transformation_cache.get(self, state_manager)
        return made

    def get_sequence_dense_tensor(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> TensorSequenceLengthPair:
        """Return [batch, time, ids], and lengths.

        Raises: ValueError for no column of sequences.
        """
        require_sequence("indicator_column", self)
        dense = transformation_cache.get(self, state_manager)
        ids, _ = self.categorical_column.get_sparse_tensors(transformation_cache, state_manager)
        return TensorSequenceLengthPair(dense, sequence_lengths(ids))


def _weights_by_id(ids: SparseTensor, weights: SparseTensor, size: int) -> Tensor:
    """Return [batch, ids] with the sum of the weights of each id that is there."""
    is_valid = apply_op("LogicalAnd", apply_op("GreaterEqual", ids.values, np.int64(0)),
                        apply_op("Less", ids.values, np.int64(size)))  # fmt: skip
    kept = apply_op("Reshape", apply_op("Where", is_valid), [-1])
    places = apply_op("GatherV2", ids.indices, kept, 0)
    outer = apply_op("StridedSlice", places, [0, 0], [0, -1], [1, 1], begin_mask=3, end_mask=1)
    column = apply_op("ExpandDims", apply_op("GatherV2", ids.values, kept, 0), 1)
    front = apply_op("StridedSlice", ids.dense_shape, [0], [-1], [1], begin_mask=1)
    shape = apply_op("ConcatV2", [front, np.array([size])], 0)
    values = apply_op("GatherV2", weights.values, kept, 0)
    made: Tensor = apply_op("ScatterNd", apply_op("ConcatV2", [outer, column], 1), values, shape)
    return made


@export("feature_column.indicator_column")
def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """Return a column that says of each id of a column how often it is there.

    Raises: ValueError for what is no column of ids.
    """
    if not isinstance(categorical_column, CategoricalColumn):
        raise ValueError(
            "Unsupported input type. Input must be a CategoricalColumn. Given: "
            f"{categorical_column}"
        )
    return IndicatorColumn(categorical_column)
