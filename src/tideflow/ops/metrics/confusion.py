"""Metrics of classes: counts of a confusion matrix, and shares of hits by class.

Source: tensorflow/python/ops/metrics_impl.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import identity
from tideflow.ops.math import cast
from tideflow.ops.math.counting import confusion_matrix
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
)
from tideflow.wire import dtypes


def _count(
    holds: Tensor, weights: Tensor | None, values_in: Collections, updates_in: Collections
) -> Metric:
    """Return how many (or how much weight) conditions have held, and the update."""
    count = metric_variable("count")
    given = cast(holds, dtypes.float32)
    if weights is not None:
        given = apply_op("Mul", given, spread(weights, given))
    value = identity(count.value())
    update = count.assign_add(total(given))
    return collected(value, convert_to_tensor(update), values_in, updates_in)


def _export_count(name: str, label: bool, guess: bool) -> Any:
    def count(
        labels: TensorLike,
        predictions: TensorLike,
        weights: TensorLike | None = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric:
        with metric_scope(name, default_name):
            found, truth, factors = aligned(
                cast(convert_to_tensor(predictions), dtypes.bool_),
                cast(convert_to_tensor(labels), dtypes.bool_),
                weights,
            )
            holds = apply_op(
                "LogicalAnd",
                truth if label else apply_op("LogicalNot", truth),
                found if guess else apply_op("LogicalNot", found),
            )
            return _count(holds, factors, metrics_collections, updates_collections)

    default_name = name
    count.__name__ = count.__qualname__ = name
    words = name.replace("_", " ")
    count.__doc__ = f"""Return how many {words} there were (or their weight), and the update.

    Args:
      labels, predictions: of one shape; cast to bool.
      weights: broadcast to predictions; None: all count alike.
      metrics_collections, updates_collections: where to add the two results.
    """
    return export(f"metrics.{name}")(count)


true_positives = _export_count("true_positives", True, True)
true_negatives = _export_count("true_negatives", False, False)
false_positives = _export_count("false_positives", False, True)
false_negatives = _export_count("false_negatives", True, False)


def _share(
    labels: TensorLike, predictions: TensorLike, weights: TensorLike | None, others: Any
) -> Metric:
    """Return the share of true positives among themselves and others, and its update."""
    guess = cast(convert_to_tensor(predictions), dtypes.bool_)
    truth = cast(convert_to_tensor(labels), dtypes.bool_)
    hits, more_hits = true_positives(truth, guess, weights)
    misses, more_misses = others(truth, guess, weights)
    return (
        ratio(hits, apply_op("AddV2", hits, misses), "value"),
        ratio(more_hits, apply_op("AddV2", more_hits, more_misses), "update_op"),
    )


@export("metrics.precision")
def precision(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the share of true positives among all predicted positives, and its update."""
    with metric_scope(name, "precision"):
        found = _share(labels, predictions, weights, false_positives)
        return collected(*found, metrics_collections, updates_collections)


@export("metrics.recall")
def recall(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the share of true positives among all positive labels, and its update."""
    with metric_scope(name, "recall"):
        found = _share(labels, predictions, weights, false_negatives)
        return collected(*found, metrics_collections, updates_collections)


def _classes(x: TensorLike) -> Any:
    made: Tensor = apply_op("Reshape", cast(convert_to_tensor(x), dtypes.int64), [-1])
    return made


@export("metrics.mean_iou")
def mean_iou(
    labels: TensorLike,
    predictions: TensorLike,
    num_classes: int,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the mean over classes of hits by labels or predictions, and the confusion matrix.

    Classes that neither occur nor were predicted do not count.
    """
    with metric_scope(name, "mean_iou"):
        dims = [num_classes, num_classes]
        matrix = metric_variable("total_confusion_matrix", dims, dtypes.float64)
        factors = None if weights is None else apply_op("Reshape", weights, [-1])
        current = confusion_matrix(
            _classes(labels), _classes(predictions), num_classes, dtypes.float64, weights=factors
        )
        update = convert_to_tensor(matrix.assign_add(current))
        counts = cast(matrix.value(), dtypes.float32)
        hits: Any = apply_op("DiagPart", counts)
        unions = total(counts, 0) + total(counts, 1) - hits
        valid = total(cast(apply_op("NotEqual", unions, 0.0), dtypes.float32))
        value = ratio(total(ratio(hits, unions)), valid, "mean_iou")
        return collected(value, update, metrics_collections, updates_collections)


@export("metrics.mean_per_class_accuracy")
def mean_per_class_accuracy(
    labels: TensorLike,
    predictions: TensorLike,
    num_classes: int,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the mean over classes of the share of hits, and the shares after an update."""
    with metric_scope(name, "mean_accuracy"):
        truth, guess = _classes(labels), _classes(predictions)
        sums, count = (
            metric_variable("total", [num_classes]),
            metric_variable("count", [num_classes]),
        )
        ones: Any = apply_op("OnesLike", cast(truth, dtypes.float32))
        if weights is not None:
            ones = apply_op("Reshape", as_float(weights), [-1]) * ones
        hits = ones * cast(apply_op("Equal", truth, guess), dtypes.float32)
        rows = [apply_op("UnsortedSegmentSum", one, truth, num_classes) for one in (hits, ones)]
        value = apply_op("Mean", ratio(count.value(), sums.value()), 0, name="mean_accuracy")
        update = updated_ratio((count, rows[0]), (sums, rows[1]), "update_op")
        return collected(value, update, metrics_collections, updates_collections)
