"""Metrics that are means: of values, of hits, and of errors.

Source: tensorflow/python/ops/metrics_impl.py.
"""

from __future__ import annotations

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.math import cast
from tideflow.ops.metrics.variables import (
    Collections,
    Metric,
    aligned,
    as_float,
    collected,
    metric_scope,
    metric_variable,
    ratio,
    spread,
    total,
    updated_ratio,
    without_last,
)
from tideflow.wire import dtypes


@export("metrics.mean")
def mean(
    values: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the running (weighted) mean of values, 0 before the first update, and its update.

    Args:
      values: numbers of any shape.
      weights: broadcast to values; None: all count alike.
      metrics_collections, updates_collections: where to add the two results.
    Raises: ValueError for weights that cannot be broadcast to values.
    """
    with metric_scope(name, "mean"):
        given = as_float(values)
        sums, count = metric_variable("total"), metric_variable("count")
        if weights is None:
            number = cast(apply_op("Size", given), dtypes.float32)
        else:
            given, _, factors = aligned(given, given, weights)
            factors = spread(factors, given)  # type: ignore[arg-type]
            number = total(factors)
            given = apply_op("Mul", given, factors)
        value = ratio(sums.value(), count.value(), "value")
        update = updated_ratio((sums, total(given)), (count, number), "update_op")
        return collected(value, update, metrics_collections, updates_collections)


@export("metrics.mean_tensor")
def mean_tensor(
    values: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the running (weighted) mean of each element of a tensor, and its update."""
    with metric_scope(name, "mean"):
        given = as_float(values)
        dims = given.shape.as_list()
        sums, count = metric_variable("total_tensor", dims), metric_variable("count_tensor", dims)
        number = apply_op("OnesLike", given)
        if weights is not None:
            given, _, factors = aligned(given, given, weights)
            factors = spread(factors, given)  # type: ignore[arg-type]
            given, number = apply_op("Mul", given, factors), apply_op("Mul", number, factors)
        value = ratio(sums.value(), count.value(), "value")
        update = updated_ratio((sums, given), (count, number), "update_op")
        return collected(value, update, metrics_collections, updates_collections)


@export("metrics.accuracy")
def accuracy(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the running share of predictions that equal their labels, and its update.

    Raises: ValueError for shapes that differ.
    """
    guess, truth, factors = aligned(predictions, labels, weights)
    if truth.dtype.base_dtype is not guess.dtype.base_dtype:
        guess = cast(guess, truth.dtype.base_dtype)
    hits = cast(apply_op("Equal", guess, truth), dtypes.float32)
    return mean(hits, factors, metrics_collections, updates_collections, name or "accuracy")


@export("metrics.mean_squared_error")
def mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the running mean of (predictions - labels) ** 2, and its update."""
    guess, truth, factors = aligned(as_float(predictions), as_float(labels), weights)
    errors = apply_op("SquaredDifference", guess, truth)
    scope = name or "mean_squared_error"
    return mean(errors, factors, metrics_collections, updates_collections, scope)


@export("metrics.root_mean_squared_error")
def root_mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the square root of the running mean squared error, and its update."""
    value, update = mean_squared_error(
        labels, predictions, weights, None, None, name or "root_mean_squared_error"
    )
    roots = apply_op("Sqrt", value), apply_op("Sqrt", update)
    return collected(*roots, metrics_collections, updates_collections)


@export("metrics.mean_absolute_error")
def mean_absolute_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the running mean of abs(predictions - labels), and its update."""
    guess, truth, factors = aligned(as_float(predictions), as_float(labels), weights)
    errors = apply_op("Abs", apply_op("Sub", guess, truth))
    scope = name or "mean_absolute_error"
    return mean(errors, factors, metrics_collections, updates_collections, scope)


@export("metrics.mean_relative_error")
def mean_relative_error(
    labels: TensorLike,
    predictions: TensorLike,
    normalizer: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the running mean of abs(labels - predictions) / normalizer, and its update.

    An error counts 0 where the normalizer is 0.
    """
    guess, truth, factors = aligned(as_float(predictions), as_float(labels), weights)
    guess, scale = without_last(guess, as_float(normalizer))
    errors = ratio(apply_op("Abs", apply_op("Sub", truth, guess)), scale)
    scope = name or "mean_relative_error"
    return mean(errors, factors, metrics_collections, updates_collections, scope)


@export("metrics.mean_cosine_distance")
def mean_cosine_distance(
    labels: TensorLike,
    predictions: TensorLike,
    dim: int,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return one less the running mean of products along an axis, and its update.

    labels, predictions: vectors of length 1 along the axis `dim`.
    """
    guess, truth, factors = aligned(as_float(predictions), as_float(labels), weights)
    products = apply_op("Sum", apply_op("Mul", guess, truth), [dim], keep_dims=True)
    value, update = mean(products, factors, None, None, name or "mean_cosine_distance")
    distances = apply_op("Sub", 1.0, value), apply_op("Sub", 1.0, update)
    return collected(*distances, metrics_collections, updates_collections)


@export("metrics.percentage_below")
def percentage_below(
    values: TensorLike,
    threshold: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the running share of values below a threshold, and its update."""
    given = convert_to_tensor(values)
    below = cast(apply_op("Less", given, threshold), dtypes.float32)
    scope = name or "percentage_below_threshold"
    return mean(below, weights, metrics_collections, updates_collections, scope)
