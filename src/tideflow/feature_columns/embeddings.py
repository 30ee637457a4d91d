"""Columns that give a vector for each id, of a table that is trained, by itself or with others.

Source: tensorflow/python/feature_column/feature_column_v2.py and feature_column.py for names and
rules.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.feature_columns.categorical import WeightedCategoricalColumn
from tideflow.feature_columns.columns import (
    CategoricalColumn,
    DenseColumn,
    FeatureTransformationCache,
    IdWeightPair,
    SequenceDenseColumn,
    TensorSequenceLengthPair,
)
from tideflow.feature_columns.sequences import (
    SequenceCategoricalColumn,
    refuse_sequence,
    require_sequence,
    sequence_lengths,
)
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.ops.export import export, export_v2
from tideflow.ops.nn.embedding_sparse import embedding_lookup_sparse, safe_embedding_lookup_sparse
from tideflow.ops.state import get_variable
from tideflow.ops.state.initializers import TruncatedNormal
from tideflow.train.checkpoints.init_from_checkpoint import init_from_checkpoint
from tideflow.wire import dtypes

_TABLE = "embedding_weights"


class _Embedding(DenseColumn, SequenceDenseColumn):
    """Base of columns of vectors: how ids become vectors of a table."""

    categorical_column: Any
    combiner: str
    max_norm: float | None
    use_safe_embedding_lookup: bool

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of the column of ids."""
        return dict(self.categorical_column.parse_example_spec)

    def transform_feature(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Any:
        """Return what the column of ids makes of its feature."""
        return transformation_cache.get(self.categorical_column, state_manager)

    def _table(self, state_manager: Any) -> Any:
        """Return the table [ids, dimension]."""
        raise NotImplementedError

    def _vectors(self, pair: IdWeightPair, state_manager: Any) -> Tensor:
        look_up = (
            safe_embedding_lookup_sparse
            if self.use_safe_embedding_lookup
            else embedding_lookup_sparse
        )
        return look_up(
            self._table(state_manager),
            pair.id_tensor,
            pair.weight_tensor,
            combiner=self.combiner,
            name=f"{self.name}_weights",
            max_norm=self.max_norm,
        )

    def _pair(self, cache: FeatureTransformationCache, state_manager: Any) -> IdWeightPair:
        found: IdWeightPair = self.categorical_column.get_sparse_tensors(cache, state_manager)
        return found

    def get_dense_tensor(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Tensor:
        """Return [batch, dimension].  Raises: ValueError for a column of sequences."""
        refuse_sequence("embedding_column", self)
        return self._vectors(self._pair(transformation_cache, state_manager), state_manager)

    def get_sequence_dense_tensor(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> TensorSequenceLengthPair:
        """Return [batch, time, dimension], and lengths.

        Raises: ValueError for no column of sequences.
        """
        require_sequence("embedding_column", self)
        pair = self._pair(transformation_cache, state_manager)
        vectors = self._vectors(pair, state_manager)
        return TensorSequenceLengthPair(vectors, sequence_lengths(pair.id_tensor))


class EmbeddingColumn(
    _Embedding,
    namedtuple(
        "EmbeddingColumn",
        ("categorical_column", "dimension", "combiner", "initializer", "ckpt_to_load_from",
         "tensor_name_in_ckpt", "max_norm", "trainable", "use_safe_embedding_lookup"),
        defaults=(True,),
    ),
):  # fmt: skip
    """A vector for each id of a column, of a table of its own."""

    @property
    def name(self) -> str:
        """The name of the column of ids, and what is made of it."""
        return f"{self.categorical_column.name}_embedding"

    @property
    def parents(self) -> list[Any]:
        """The column of ids."""
        return [self.categorical_column]

    @property
    def variable_shape(self) -> TensorShape:
        """The dimension."""
        return TensorShape([self.dimension])

    def create_state(self, state_manager: Any) -> None:
        """Make the table."""
        state_manager.create_variable(
            self,
            name=_TABLE,
            shape=(self.categorical_column.num_buckets, self.dimension),
            dtype=dtypes.float32,
            trainable=self.trainable,
            use_resource=True,
            initializer=self.initializer,
        )

    def _table(self, state_manager: Any) -> Any:
        table = state_manager.get_variable(self, name=_TABLE)
        _restore(self, table)
        return table


def _restore(source: Any, table: Any) -> None:
    """Let a table begin with what a checkpoint has, where one was given."""
    if source.ckpt_to_load_from is not None:
        init_from_checkpoint(source.ckpt_to_load_from, {source.tensor_name_in_ckpt: table})


def _check(dimension: Any, checkpoint: Any, tensor: Any) -> None:
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (checkpoint is None) != (tensor is None):
        raise ValueError(
            "Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them."
        )


def _initializer(given: Any, dimension: int, of: str = "") -> Any:
    """Return what a table begins with: small normal numbers by default."""
    if given is not None and not callable(given):
        raise ValueError(f"initializer must be callable if specified.{of}")
    return given or TruncatedNormal(mean=0.0, stddev=1 / math.sqrt(dimension))


@export("feature_column.embedding_column")
def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., Any] | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:
    """Return a column of vectors for the ids of another one.

    Args:
      dimension: of a vector.
      combiner: how the vectors of several ids become one: "mean", "sqrtn" or "sum".
      initializer: of the table; normal numbers of deviation 1 / sqrt(dimension) by default.
      ckpt_to_load_from, tensor_name_in_ckpt: where the table's first values are.
      max_norm: vectors that are longer are made so long.
      use_safe_embedding_lookup: whether examples may have no ids.
    Raises: ValueError for a dimension below 1, half a checkpoint, and other initializers.
    """
    _check(dimension, ckpt_to_load_from, tensor_name_in_ckpt)
    first = _initializer(
        initializer, dimension, f" Embedding of column_name: {categorical_column.name}"
    )
    return EmbeddingColumn(
        categorical_column,
        dimension,
        combiner,
        first,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
    )


# ---- one table for several columns


class SharedTable:
    """A table that several columns share: one in each graph.

    Attributes:
      name: of the collection that knows it, and of the variable's scope.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, int],
        initializer: Any,
        ckpt_to_load_from: str | None,
        tensor_name_in_ckpt: str | None,
        trainable: bool,
    ) -> None:
        self.name = name
        self.shape = shape
        self.initializer = initializer
        self.ckpt_to_load_from = ckpt_to_load_from
        self.tensor_name_in_ckpt = tensor_name_in_ckpt
        self.trainable = trainable

    def variable(self, make: Callable[..., Any]) -> Any:
        """Return the table of the default graph, made by `make` if it is not there.

        Raises: ValueError where a collection of the name holds something else.
        """
        graph = get_default_graph()
        known = graph.get_collection(self.name)
        if not known:
            table = make(
                shape=self.shape,
                dtype=dtypes.float32,
                initializer=self.initializer,
                trainable=self.trainable,
            )
            graph.add_to_collection(self.name, table)
            _restore(self, table)
            return table
        if len(known) > 1 or known[0].shape.as_list() != list(self.shape):
            raise ValueError(
                f"Collection {self.name} should hold one table of shape {self.shape}; found "
                f"{known}. The name shared_embedding_collection_name is used elsewhere, too."
            )
        return known[0]


class SharedEmbeddingColumn(
    _Embedding,
    namedtuple(
        "SharedEmbeddingColumn",
        ("categorical_column", "shared_table", "combiner", "max_norm", "use_safe_embedding_lookup"),
    ),
):
    """A vector for each id of a column, of a table that other columns use, too."""

    @property
    def name(self) -> str:
        """The name of the column of ids, and what is made of it."""
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def parents(self) -> list[Any]:
        """The column of ids."""
        return [self.categorical_column]

    @property
    def scope_name(self) -> str:
        """The name of the table."""
        return str(self.shared_table.name)

    @property
    def dimension(self) -> int:
        """The size of a vector."""
        return int(self.shared_table.shape[1])

    @property
    def variable_shape(self) -> TensorShape:
        """The dimension."""
        return TensorShape([self.dimension])

    def _table(self, state_manager: Any) -> Any:
        make = getattr(state_manager, "make_shared", None)
        if make is not None:
            return self.shared_table.variable(make)
        return self.shared_table.variable(
            lambda **arguments: get_variable(self.shared_table.name, **arguments)
        )


def _shared(
    columns: Sequence[Any], name: str | None, table_arguments: dict[str, Any], rest: tuple[Any, ...]
) -> list[SharedEmbeddingColumn]:
    """Return a column for each column of ids, around one table."""
    if get_default_graph().is_eager:
        raise RuntimeError(
            "shared_embedding_columns are not supported when eager execution is enabled."
        )
    ordered = sorted(columns, key=lambda column: str(column.name))
    first = ordered[0]
    if not isinstance(first, CategoricalColumn):
        raise ValueError(
            "All categorical_columns must be subclasses of CategoricalColumn. Given: "
            f"{first}, of type: {type(first)}"
        )
    for column in ordered[1:]:
        if type(_innermost(column)) is not type(_innermost(first)):
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same type, "
                "or be weighted_categorical_column or sequence column of the same type. Given "
                f"column: {first} of type: {type(first)} does not match given column: {column} of "
                f"type: {type(column)}"
            )
        if column.num_buckets != first.num_buckets:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same number "
                f"of buckets. Given column: {first} with buckets: {first.num_buckets} does  not "
                f"match column: {column} with buckets: {column.num_buckets}"
            )
    if not name:
        name = "_".join(column.name for column in ordered) + "_shared_embedding"
    dimension = table_arguments.pop("dimension")
    table = SharedTable(name, (first.num_buckets, dimension), **table_arguments)
    return [SharedEmbeddingColumn(column, table, *rest) for column in columns]


def _innermost(column: Any) -> Any:
    while isinstance(column, (WeightedCategoricalColumn, SequenceCategoricalColumn)):
        column = column.categorical_column
    return column


@export("feature_column.shared_embedding_columns")
def shared_embedding_columns(
    categorical_columns: Sequence[CategoricalColumn],
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., Any] | None = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Return columns of vectors for the ids of several columns, from one table.

    Args:
      categorical_columns: columns of one kind, with the same number of ids.
      shared_embedding_collection_name: the name of the table; made of the columns' by default.
      others: as of embedding_column.
    Raises: ValueError for columns that differ, and as embedding_column; RuntimeError where
      operations are called at once.
    """
    _check(dimension, ckpt_to_load_from, tensor_name_in_ckpt)
    table = {
        "dimension": dimension,
        "initializer": _initializer(initializer, dimension),
        "ckpt_to_load_from": ckpt_to_load_from,
        "tensor_name_in_ckpt": tensor_name_in_ckpt,
        "trainable": trainable,
    }
    rest = (combiner, max_norm, use_safe_embedding_lookup)
    return _shared(categorical_columns, shared_embedding_collection_name, table, rest)


@export_v2("feature_column.shared_embeddings")
def shared_embeddings(
    categorical_columns: Sequence[CategoricalColumn],
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., Any] | None = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Return columns of vectors for the ids of several columns, from one table.

    Arguments and errors as of shared_embedding_columns in the TF1 shape.
    """
    return shared_embedding_columns(
        categorical_columns,
        dimension,
        combiner,
        initializer,
        shared_embedding_collection_name,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
    )
