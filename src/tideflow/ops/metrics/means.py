"""Metrics that are means: of values, errors and matches.

Source: tensorflow/python/ops/metrics_impl.py (names of variables, rules).
"""

from __future__ import annotations

from collections.abc import Sequence

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.math.casts import as_float
from tideflow.ops.metrics.running import Metric, collected, run_over, total, weighted
from tideflow.ops.state import variable_scope

Collections = str | Sequence[str] | None


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
    """
    with variable_scope(name, default_name="mean"):
        given = as_float(values)
        if weights is None:
            number = apply_op("Cast", apply_op("Size", given), DstT="float")
        else:
            factors = apply_op("Mul", apply_op("OnesLike", given), as_float(weights))
            number = total(factors)
            given = apply_op("Mul", given, factors)
        sums = {"total": total(given), "count": number}
        return run_over(sums, _ratio, metrics_collections, updates_collections)


def _ratio(whole: Tensor, count: Tensor, name: str) -> Tensor:
    made: Tensor = apply_op("DivNoNan", whole, count, name=name)
    return made


@export("metrics.mean_tensor")
def mean_tensor(
    values: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the running (weighted) mean of each element of values, and its update.

    Args:
      values: numbers of a known shape.
      weights: broadcast to values; None: all count alike.
      metrics_collections, updates_collections: where to add the two results.
    """
    with variable_scope(name, default_name="mean"):
        given = as_float(values)
        factors = weighted(apply_op("OnesLike", given), weights)
        sums = {"total_tensor": apply_op("Mul", given, factors), "count_tensor": factors}
        return run_over(sums, _ratio, metrics_collections, updates_collections)


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
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the running mean of (predictions - labels) ** 2, and its update."""
    errors = apply_op("SquaredDifference", as_float(predictions), as_float(labels))
    scope = name or "mean_squared_error"
    return mean(errors, weights, metrics_collections, updates_collections, scope)


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
    errors = apply_op("Abs", apply_op("Sub", as_float(predictions), as_float(labels), name="sub"))
    scope = name or "mean_absolute_error"
    return mean(errors, weights, metrics_collections, updates_collections, scope)


@export("metrics.root_mean_squared_error")
def root_mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the root of the running mean of (predictions - labels) ** 2, and its update."""
    errors = apply_op("SquaredDifference", as_float(predictions), as_float(labels))
    squares = mean(errors, weights, name=name or "root_mean_squared_error")
    value, update = (apply_op("Sqrt", one) for one in squares)
    return collected(value, update, metrics_collections, updates_collections)


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

    Where the normalizer is 0, so is the error.
    """
    truth, guess, scale = map(as_float, (labels, predictions, normalizer))
    is_zero, zeros = apply_op("Equal", scale, 0.0), apply_op("ZerosLike", truth, name="zeros_like")
    errors = apply_op("Abs", apply_op("Sub", truth, guess, name="sub"))
    quotients = apply_op("RealDiv", errors, scale, name="truediv")
    relative = apply_op("Select", is_zero, zeros, quotients)
    scope = name or "mean_relative_error"
    return mean(relative, weights, metrics_collections, updates_collections, scope)


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
    """Return 1 less the running mean of the products of unit vectors along dim, and its update."""
    products = apply_op("Mul", as_float(predictions), as_float(labels))
    cosines = apply_op("Sum", products, [dim], keep_dims=True)
    means = mean(cosines, weights, name=name or "mean_cosine_distance")
    value, update = (apply_op("Sub", 1.0, one) for one in means)
    return collected(value, update, metrics_collections, updates_collections)


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
    below = apply_op("Cast", apply_op("Less", given, threshold), DstT="float")
    scope = name or "percentage_below_threshold"
    return mean(below, weights, metrics_collections, updates_collections, scope)
