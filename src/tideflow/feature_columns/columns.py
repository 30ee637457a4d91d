"""What a feature column is, and the features that columns share while they are transformed.

Source: tensorflow/python/feature_column/feature_column_v2.py for names and rules.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.control_flow import cond
from tideflow.ops.ragged import RaggedTensor
from tideflow.ops.sparse import SparseTensor, SparseTensorValue, reshape
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType


class StateManager(Protocol):
    """Who keeps the variables and tables of columns."""

    def create_variable(
        self,
        feature_column: FeatureColumn,
        name: str,
        shape: Sequence[int],
        dtype: DTypeLike | None = None,
        trainable: bool = True,
        use_resource: bool = True,
        initializer: Any = None,
    ) -> Any:
        """Return a new variable of a column."""

    def get_variable(self, feature_column: FeatureColumn, name: str) -> Any:
        """Return a variable that a column made."""

    def add_resource(self, feature_column: FeatureColumn, name: str, resource: object) -> None:
        """Keep a table of a column."""

    def has_resource(self, feature_column: FeatureColumn, name: str) -> bool:
        """Whether a column made a table of that name."""

    def get_resource(self, feature_column: FeatureColumn, name: str) -> Any:
        """Return a table that a column made."""


class FeatureColumn(abc.ABC):
    """One way to make something of raw features."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name, of which variables and scopes have theirs."""

    @property
    @abc.abstractmethod
    def parse_example_spec(self) -> dict[str, Any]:
        """What tf.io.parse_example needs for the features of the column."""

    @property
    @abc.abstractmethod
    def parents(self) -> list[Any]:
        """The columns and keys of features that this one is made of."""

    @property
    def scope_name(self) -> str:
        """The name of the variable scope of the column's variables."""
        return self.name

    @abc.abstractmethod
    def transform_feature(
        self, transformation_cache: FeatureTransformationCache, state_manager: StateManager
    ) -> Any:
        """Return what the column makes of features, as the cache keeps it."""

    def create_state(self, state_manager: StateManager) -> None:
        """Make the variables that the column needs."""
        return

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make the same column; columns inside as they are."""
        return dict(self._asdict())  # type: ignore[attr-defined]

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """Return the column of a config."""
        return cls(**config)

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other)

    def __gt__(self, other: object) -> bool:
        return str(self) > str(other)


class DenseColumn(FeatureColumn):
    """A column that gives a dense tensor."""

    @property
    @abc.abstractmethod
    def variable_shape(self) -> TensorShape:
        """The shape of what the column gives, without the batch."""

    @abc.abstractmethod
    def get_dense_tensor(
        self, transformation_cache: FeatureTransformationCache, state_manager: StateManager
    ) -> Tensor:
        """Return [batch, variable_shape...]."""


class IdWeightPair(NamedTuple):
    """What a categorical column gives.

    Attributes:
      id_tensor: int64 ids, sparse [batch, ...].
      weight_tensor: a weight for each, in the same places; None for ones.
    """

    id_tensor: SparseTensor
    weight_tensor: SparseTensor | None


class CategoricalColumn(FeatureColumn):
    """A column that gives ids in [0, num_buckets); a negative one stands for none."""

    @property
    @abc.abstractmethod
    def num_buckets(self) -> int:
        """How many ids there are."""

    @abc.abstractmethod
    def get_sparse_tensors(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> IdWeightPair:
        """Return ids and weights."""


class TensorSequenceLengthPair(NamedTuple):
    """What a column of sequences gives: [batch, time, ...], and int64 [batch]."""

    dense_tensor: Tensor
    sequence_length: Tensor


class SequenceDenseColumn(FeatureColumn):
    """A column that gives a dense tensor for each step of a sequence."""

    @abc.abstractmethod
    def get_sequence_dense_tensor(
        self, transformation_cache: FeatureTransformationCache, state_manager: StateManager
    ) -> TensorSequenceLengthPair:
        """Return values and lengths of sequences."""


class FeatureTransformationCache:
    """Features by key, and what columns have made of them: each is transformed once.

    Args:
      features: tensors, sparse or ragged ones by key, the batch in front.
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        self._features = dict(features)
        self._made: dict[Any, Any] = {}

    def get(self, key: object, state_manager: StateManager, training: bool | None = None) -> Any:
        """Return a feature by its key, or what a column makes of features.

        Raises: ValueError for a key that no feature has; TypeError for neither key nor column.
        """
        if key in self._made:
            return self._made[key]
        if isinstance(key, str):
            if key not in self._features:
                raise ValueError(f"Feature {key} is not in features dictionary.")
            self._made[key] = _with_column(key, self._features[key])
            return self._made[key]
        if not isinstance(key, FeatureColumn):
            raise TypeError(f'"key" must be either a "str" or "FeatureColumn". Provided: {key}')
        made = key.transform_feature(self, state_manager)
        if made is None:
            raise ValueError(f"Column {key.name} is not supported.")
        self._made[key] = made
        return made


def _with_column(key: str, raw: Any) -> Any:
    """Return a feature with at least two dimensions: a vector becomes a column.

    Raises: ValueError for a scalar.
    """
    feature = _as_feature(raw)
    if isinstance(feature, RaggedTensor):
        return feature
    rank = feature.shape.rank
    if rank == 0:
        raise ValueError(f"Feature (key: {key}) cannot have rank 0. Given: {feature}")
    if rank is not None:
        return feature if rank > 1 else _as_column(feature)
    if isinstance(feature, SparseTensor):
        return feature
    is_vector = apply_op("Equal", apply_op("Rank", feature), 1)
    return cond(is_vector, lambda: _as_column(feature), lambda: feature)


def _as_feature(raw: Any) -> Any:
    if isinstance(raw, SparseTensorValue):
        return SparseTensor(*raw)
    return raw if isinstance(raw, (SparseTensor, RaggedTensor)) else convert_to_tensor(raw)


def _as_column(feature: TensorLike) -> Any:
    if isinstance(feature, SparseTensor):
        return reshape(feature, [-1, 1])
    return apply_op("ExpandDims", feature, -1)


def as_sparse(feature: TensorLike, ignored: Any = None) -> SparseTensor:
    """Return a feature as a sparse tensor without the values that stand for none.

    Args:
      ignored: that value; by default "" for strings, -1 for integers, 0 for floats.
    """
    if isinstance(feature, SparseTensor):
        return feature
    if isinstance(feature, RaggedTensor):
        return feature.to_sparse()
    dense = convert_to_tensor(feature)
    if ignored is None:
        ignored = "" if dense.dtype is dtypes.string else -1 if dense.dtype.is_integer else 0
    with get_default_graph().name_scope("to_sparse_input"):
        places = apply_op(
            "Where", apply_op("NotEqual", dense, convert_to_tensor(ignored, dense.dtype))
        )
        values = apply_op("GatherNd", dense, places)
        return SparseTensor(places, values, apply_op("Shape", dense, out_type=dtypes.int64))


# ---- arguments of columns


def check_key(key: str) -> None:
    """Raise ValueError for a key of a feature that is no text."""
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")


def check_ids(dtype: DType, prefix: str) -> None:
    """Raise ValueError for a type that is neither string nor integer."""
    if dtype is not dtypes.string and not dtype.is_integer:
        raise ValueError(f"{prefix} dtype must be string or integer. dtype: {dtype}.")


def shape_argument(shape: Any, key: str) -> tuple[int, ...]:
    """Return the shape of a feature as a tuple.

    Raises: TypeError for sizes that are no integers; ValueError for such below 1.
    """
    sizes = tuple(shape) if isinstance(shape, (list, tuple, np.ndarray, TensorShape)) else (shape,)
    if not all(isinstance(size, (int, np.integer)) for size in sizes):
        raise TypeError(f"shape dimensions must be integer. shape: {shape}, key: {key}")
    if any(size < 1 for size in sizes):
        raise ValueError(f"shape dimensions must be greater than 0. shape: {shape}, key: {key}")
    return tuple(int(size) for size in sizes)


def default_argument(shape: tuple[int, ...], given: Any, dtype: DType, key: str) -> Any:
    """Return the default of a feature as nested tuples of its shape; None for none.

    Raises: TypeError for a default of another kind; ValueError for one of another shape.
    """
    if given is None:
        return None
    values = np.asarray(given)
    if values.dtype.kind not in ("iub" if dtype.is_integer else "iubf"):
        raise TypeError(
            f"default_value must be compatible with dtype. default_value: {given}, dtype: {dtype}, "
            f"key: {key}"
        )
    if values.ndim == 0:
        values = np.full(shape, given, object)
    elif values.shape != shape:
        raise ValueError(
            "The shape of default_value must be equal to given shape. default_value: "
            f"{given}, shape: {shape}, key: {key}"
        )
    return _tuples(values.tolist())


def _tuples(values: TensorLike) -> Any:
    return tuple(map(_tuples, values)) if isinstance(values, list) else values
