"""`tf.metrics`: running means, kept in local variables.

Each metric gives a value and an operation that takes the current batch into account.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.state.api import Variable
from tideflow.ops.state.scopes import variable_scope
from tideflow.wire import dtypes

Metric = tuple[Tensor, Tensor]


def _local(name: str) -> Any:
    return Variable(
        initial_value=0.0,
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        name=name,
        dtype=dtypes.float32,
    )


def _as_float(x: TensorLike) -> Tensor:
    tensor = convert_to_tensor(x)
    if tensor.dtype.base_dtype is dtypes.float32:
        return tensor
    made: Tensor = apply_op("Cast", tensor, DstT="float")
    return made


def _total(x: Tensor) -> Tensor:
    made: Tensor = apply_op("Sum", apply_op("Reshape", x, [-1]), 0)
    return made


def _collected(value: Tensor, update: Tensor, values_in: object, updates_in: object) -> Metric:
    graph = get_default_graph()
    if values_in:
        graph.add_to_collections(values_in, value)
    if updates_in:
        graph.add_to_collections(updates_in, update)
    return value, update


@export("metrics.mean")
def mean(
    values: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: str | Sequence[str] | None = None,
    updates_collections: str | Sequence[str] | None = None,
    name: str | None = None,
) -> Metric:
    """Return the running (weighted) mean of values, 0 before the first update, and its update.

    Args:
      values: numbers of any shape.
      weights: broadcast to values; None: all count alike.
      metrics_collections, updates_collections: where to add the two results.
    """
    with variable_scope(name, default_name="mean"):
        total, count = _local("total"), _local("count")
        given = _as_float(values)
        if weights is None:
            number = apply_op("Cast", apply_op("Size", given), DstT="float")
        else:
            factors = apply_op("Mul", apply_op("OnesLike", given), _as_float(weights))
            number = _total(factors)
            given = apply_op("Mul", given, factors)
        value = apply_op("DivNoNan", total.value(), count.value(), name="value")
        # Both sums are read after both additions, so that they belong together.
        added = [total.assign_add(_total(given)), count.assign_add(number)]
        with get_default_graph().control_dependencies([getattr(a, "op", a) for a in added]):
            update = apply_op("DivNoNan", total.read_value(), count.read_value(), name="update_op")
        return _collected(value, update, metrics_collections, updates_collections)


@export("metrics.accuracy")
def accuracy(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: str | Sequence[str] | None = None,
    updates_collections: str | Sequence[str] | None = None,
    name: str | None = None,
) -> Metric:
    """Return the running share of predictions that equal their labels, and its update.

    Raises: ValueError for shapes that differ.
    """
    truth, guess = convert_to_tensor(labels), convert_to_tensor(predictions)
    if not truth.shape.is_compatible_with(guess.shape):
        raise ValueError(
            f"labels {truth.shape} and predictions {guess.shape} must have the same shape"
        )
    if truth.dtype.base_dtype is not guess.dtype.base_dtype:
        guess = apply_op("Cast", guess, DstT=truth.dtype)
    hits = apply_op("Cast", apply_op("Equal", guess, truth), DstT="float")
    return mean(hits, weights, metrics_collections, updates_collections, name or "accuracy")


@export("metrics.mean_squared_error")
def mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: str | Sequence[str] | None = None,
    updates_collections: str | Sequence[str] | None = None,
    name: str | None = None,
) -> Metric:
    """Return the running mean of (predictions - labels) ** 2, and its update."""
    errors = apply_op("SquaredDifference", _as_float(predictions), _as_float(labels))
    scope = name or "mean_squared_error"
    return mean(errors, weights, metrics_collections, updates_collections, scope)


@export("metrics.mean_absolute_error")
def mean_absolute_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: str | Sequence[str] | None = None,
    updates_collections: str | Sequence[str] | None = None,
    name: str | None = None,
) -> Metric:
    """Return the running mean of abs(predictions - labels), and its update."""
    errors = apply_op("Abs", apply_op("Sub", _as_float(predictions), _as_float(labels)))
    scope = name or "mean_absolute_error"
    return mean(errors, weights, metrics_collections, updates_collections, scope)
