"""The inputs of a model, and linear models, made of feature columns.

Source: tensorflow/python/feature_column/feature_column.py for names and rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tideflow.feature_columns.columns import (
    CategoricalColumn,
    DenseColumn,
    FeatureColumn,
    FeatureTransformationCache,
)
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import DTypeLike
from tideflow.ops.array import concat
from tideflow.ops.export import export
from tideflow.ops.nn.bias import bias_add
from tideflow.ops.nn.embedding_sparse import safe_embedding_lookup_sparse
from tideflow.ops.sparse import SparseTensor, reshape
from tideflow.ops.state import PartitionedVariable, Zeros, get_variable, variable_scope
from tideflow.wire import dtypes


class _ScopedState:
    """Makes the variables of columns in the variable scopes in force.

    Args:
      collections: of all variables, beside those of all models.
      trainable: False for variables none of which is trained.
    """

    def __init__(self, collections: Iterable[str] | None, trainable: bool) -> None:
        names = [*(collections or ()), GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
        self._collections = list(dict.fromkeys(names))
        self._trainable = trainable
        self._variables: dict[tuple[int, str], Any] = {}

    def make(
        self,
        name: str,
        shape: Any,
        dtype: DTypeLike | None = None,
        initializer: Any = None,
        trainable: bool = True,
    ) -> Any:
        """Return a variable of the scope in force."""
        return get_variable(
            name,
            shape=shape,
            dtype=dtype or dtypes.float32,
            initializer=initializer,
            trainable=trainable and self._trainable,
            collections=self._collections,
        )

    def make_shared(self, **arguments: Any) -> Any:
        """Return the table of columns that share one."""
        return self.make("embedding_weights", **arguments)

    def create_variable(
        self, feature_column: Any, name: str, shape: Any, use_resource: bool = True, **rest: Any
    ) -> Any:
        """Return a new variable of a column."""
        made = self.make(name, shape, **rest)
        self._variables[id(feature_column), name] = made
        return made

    def get_variable(self, feature_column: Any, name: str) -> Any:
        """Return a variable that a column made."""
        return self._variables[id(feature_column), name]


def _ordered(feature_columns: Any) -> list[Any]:
    """Return columns by name.

    Raises: ValueError for none, for what is no column, and for two of one name.
    """
    if isinstance(feature_columns, FeatureColumn):
        feature_columns = [feature_columns]
    if isinstance(feature_columns, Mapping):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    columns = list(feature_columns)
    for column in columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(
                "Items of feature_columns must be a FeatureColumn. Given (type "
                f"{type(column)}): {column}."
            )
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    named: dict[str, Any] = {}
    for column in columns:
        if column.name in named:
            raise ValueError(
                f"Duplicate feature column name found for columns: {column} and "
                f"{named[column.name]}. This usually means that these columns refer to same base "
                "feature. Either one must be discarded or a duplicated but renamed item must be "
                "inserted in features dict."
            )
        named[column.name] = column
    return [named[name] for name in sorted(named)]


def _require_one_batch(tensors: list[Tensor], columns: list[Any]) -> None:
    """Raise ValueError where batches are known to differ."""
    expected, of = None, 0
    for i, tensor in enumerate(tensors):
        size = tensor.dims[0] if tensor.dims else None
        if size is None:
            continue
        if expected is not None and size != expected:
            raise ValueError(
                "Batch size (first dimension) of each feature must be same. Batch size of columns "
                f"({columns[of].name}, {columns[i].name}): ({expected}, {size})"
            )
        expected, of = size, i


def _flat(tensor: Tensor, count: int) -> Tensor:
    """Return [batch, count]."""
    rows = apply_op("StridedSlice", apply_op("Shape", tensor), [0], [1], [1], shrink_axis_mask=1)
    made: Tensor = apply_op("Reshape", tensor, apply_op("Pack", [rows, count]))
    return made


@export("feature_column.input_layer")
def input_layer(
    features: Mapping[str, Any],
    feature_columns: Any,
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> Tensor:
    """Return what columns make of features side by side, [batch, ...], in order of their names.

    Args:
      features: tensors by key, the batch in front; a vector stands for one number an example.
      feature_columns: columns that give dense tensors.
      weight_collections: further collections of the variables.
      trainable: whether the variables are trained.
      cols_to_vars, cols_to_output_tensors: dicts to fill with variables and outputs by column.
    Raises: ValueError for other columns, two of one name, and features that lack.
    """
    columns = _ordered(feature_columns)
    for column in columns:
        if not isinstance(column, DenseColumn):
            raise ValueError(
                "Items of feature_columns must be a _DenseColumn. You can wrap a categorical "
                f"column with an embedding_column or indicator_column. Given: {column}"
            )
    state = _ScopedState(weight_collections, trainable)
    cache = FeatureTransformationCache(features)
    outputs = []
    with variable_scope(None, default_name="input_layer"):
        for column in columns:
            with variable_scope(None, default_name=column.scope_name) as scope:
                column.create_state(state)
                tensor = column.get_dense_tensor(cache, state)
                output = _flat(tensor, int(column.variable_shape.num_elements()))
                if cols_to_vars is not None:
                    cols_to_vars[column] = get_default_graph().get_collection(
                        GraphKeys.GLOBAL_VARIABLES, scope.name + "/"
                    )
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = output
            outputs.append(output)
        _require_one_batch(outputs, columns)
        return concat(outputs, 1)


@export("feature_column.linear_model")
def linear_model(
    features: Mapping[str, Any],
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
) -> Tensor:
    """Return a weighted sum of what columns make of features, and a bias: [batch, units].

    Args:
      feature_columns: columns of numbers or of ids; the weights of ids are looked up.
      sparse_combiner: how the weights of several ids become one: "sum", "mean" or "sqrtn".
      others: as of input_layer; cols_to_vars gets the bias as "bias".
    Raises: ValueError for other columns, two of one name, and features that lack.
    """
    columns = _ordered(feature_columns)
    for column in columns:
        if not isinstance(column, (DenseColumn, CategoricalColumn)):
            raise ValueError(
                "Items of feature_columns must be either a _DenseColumn or _CategoricalColumn. "
                f"Given: {column}"
            )
    state = _ScopedState(weight_collections, trainable)
    cache = FeatureTransformationCache(features)
    sums, used = [], {}
    names = [_free_name(column.scope_name) for column in columns]
    with variable_scope(None, default_name="linear_model"):
        for name, column in zip(names, columns):
            with variable_scope(name):
                weights, part = _weighted(column, cache, state, units, sparse_combiner)
                used[column] = weights
                sums.append(part)
        _require_one_batch(sums, columns)
        total = apply_op("AddN", sums, name="weighted_sum_no_bias")
        bias = state.make("bias_weights", [units], initializer=Zeros())
        made = bias_add(total, bias, name="weighted_sum")
    if cols_to_vars is not None:
        cols_to_vars.update({column: _parts(weights) for column, weights in used.items()})
        cols_to_vars["bias"] = _parts(bias)
    return made


def _free_name(name: str) -> str:
    """Return the name of a column's scope: numbered if there was one of it outside of the model."""
    with variable_scope(None, default_name=name) as scope:
        return str(scope.name).rpartition("/")[2]


def _parts(variable: Any) -> list[Any]:
    return list(variable) if isinstance(variable, PartitionedVariable) else [variable]


def _weighted(
    column: Any, cache: FeatureTransformationCache, state: _ScopedState, units: int, combiner: str
) -> tuple[Any, Tensor]:
    """Return the weights of a column, and what they make of its features: [batch, units]."""
    if isinstance(column, CategoricalColumn):
        weights = state.make("weights", [column.num_buckets, units], initializer=Zeros())
        ids, counts = column.get_sparse_tensors(cache, state)
        return weights, safe_embedding_lookup_sparse(
            weights,
            _as_matrix(ids),
            None if counts is None else _as_matrix(counts),
            combiner=combiner,
            name="weighted_sum",
        )
    count = int(column.variable_shape.num_elements())
    weights = state.make("weights", [count, units], initializer=Zeros())
    column.create_state(state)
    tensor = _flat(column.get_dense_tensor(cache, state), count)
    return weights, apply_op("MatMul", tensor, weights, name="weighted_sum")


def _as_matrix(values: SparseTensor) -> SparseTensor:
    rows = apply_op("StridedSlice", values.dense_shape, [0], [1], [1])
    rest = convert_to_tensor([-1], dtypes.int64)
    return reshape(values, apply_op("ConcatV2", [rows, rest], 0))


@export("feature_column.make_parse_example_spec")
def make_parse_example_spec(feature_columns: Iterable[Any]) -> dict[str, Any]:
    """Return what tf.io.parse_example needs for the features of columns.

    Raises: ValueError for what is no column, and for a feature that columns read differently.
    """
    found: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(
                f"All feature_columns must be FeatureColumn instances. Given: {column}"
            )
        for key, value in column.parse_example_spec.items():
            if key in found and value != found[key]:
                raise ValueError(
                    f"feature_columns contain different parse_spec for key {key}. Given {value} "
                    f"and {found[key]}"
                )
            found[key] = value
    return found
