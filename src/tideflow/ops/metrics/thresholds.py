"""Metrics of scores in [0, 1]: counts at thresholds, and what curves say.

Source: tensorflow/python/ops/metrics_impl.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow import logging
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export, exports
from tideflow.ops.framework import identity
from tideflow.ops.math import cast
from tideflow.ops.metrics.variables import (
    Collections,
    Metric,
    added,
    aligned,
    as_float,
    collected,
    metric_scope,
    metric_variable,
    ratio,
    spread,
    total,
)
from tideflow.wire import dtypes

# So that no score is on the wrong side of 0 or 1.
_MARGIN = 1e-7
_COUNTS = ("true_positives", "false_negatives", "true_negatives", "false_positives")
Counts = dict[str, Any]


def _in_range(scores: Tensor) -> Tensor:
    """Return scores, which must be in [0, 1].  Raises: InvalidArgumentError, when run."""
    check = exports()
    words = {"message": "predictions must be in [0, 1]"}
    checks = [
        check["assert_greater_equal"](scores, cast(0.0, scores.dtype), **words),
        check["assert_less_equal"](scores, cast(1.0, scores.dtype), **words),
    ]
    with get_default_graph().control_dependencies([one for one in checks if one is not None]):
        return identity(scores)


def _counts(
    labels: TensorLike,
    predictions: TensorLike,
    thresholds: Sequence[float],
    weights: TensorLike | None,
    wanted: Sequence[str] = _COUNTS,
) -> tuple[Counts, Counts]:
    """Return counts at each threshold, and their updates, by name."""
    guess, truth, factors = aligned(
        as_float(predictions), cast(convert_to_tensor(labels), dtypes.bool_), weights
    )
    guess = _in_range(guess)
    amounts: Any = apply_op("OnesLike", guess)
    if factors is not None:
        amounts = spread(factors, guess)
    row = apply_op("Reshape", guess, [1, -1])
    is_label = apply_op("Reshape", truth, [1, -1])
    amounts = apply_op("Reshape", amounts, [1, -1])
    limits = np.array(thresholds, np.float32)[:, None]
    is_above = apply_op("Greater", row, limits)
    sides = {
        "true_positives": (is_label, is_above),
        "false_negatives": (is_label, apply_op("LogicalNot", is_above)),
        "true_negatives": (apply_op("LogicalNot", is_label), apply_op("LogicalNot", is_above)),
        "false_positives": (apply_op("LogicalNot", is_label), is_above),
    }
    variables = {name: metric_variable(name, [len(thresholds)]) for name in wanted}
    sums = {
        name: total(cast(apply_op("LogicalAnd", *sides[name]), dtypes.float32) * amounts, 1)
        for name in wanted
    }
    now = {name: identity(variable.value()) for name, variable in variables.items()}
    updates = added([(variables[name], sums[name]) for name in wanted])
    return now, dict(zip(wanted, updates))


def _export_counts(name: str) -> None:
    def at_thresholds(
        labels: TensorLike,
        predictions: TensorLike,
        thresholds: Sequence[float],
        weights: TensorLike | None = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric:
        with metric_scope(name, default_name):
            found = _counts(labels, predictions, thresholds, weights, [default_name])
            pair = [one[default_name] for one in found]
            return collected(pair[0], pair[1], metrics_collections, updates_collections)

    default_name = name
    at_thresholds.__name__ = at_thresholds.__qualname__ = f"{name}_at_thresholds"
    words = name.replace("_", " ")
    at_thresholds.__doc__ = f"""Return the number of {words} at each threshold, and its update.

    Args:
      labels: cast to bool; predictions: scores in [0, 1], of the same shape.
      thresholds: numbers in [0, 1]; a score above one is a positive.
      weights: broadcast to predictions; None: all count alike.
      metrics_collections, updates_collections: where to add the two results.
    """
    export(f"metrics.{name}_at_thresholds")(at_thresholds)


for _name in _COUNTS:
    _export_counts(_name)


def _share_at(
    labels: TensorLike,
    predictions: TensorLike,
    thresholds: Sequence[float],
    weights: TensorLike | None,
    others: str,
    name: str,
) -> Metric:
    """Return true positives by themselves and others at each threshold, and the update."""
    found = _counts(labels, predictions, thresholds, weights, ["true_positives", others])
    value, update = (
        apply_op(
            "RealDiv",
            one["true_positives"],
            one["true_positives"] + one[others] + _MARGIN,
            name=f"{name}_{word}",
        )
        for one, word in zip(found, ("value", "update_op"))
    )
    return value, update


@export("metrics.precision_at_thresholds")
def precision_at_thresholds(
    labels: TensorLike,
    predictions: TensorLike,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the precision at each threshold, and its update."""
    with metric_scope(name, "precision_at_thresholds"):
        given = (labels, predictions, thresholds, weights, "false_positives", "precision")
        return collected(*_share_at(*given), metrics_collections, updates_collections)


@export("metrics.recall_at_thresholds")
def recall_at_thresholds(
    labels: TensorLike,
    predictions: TensorLike,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the recall at each threshold, and its update."""
    with metric_scope(name, "recall_at_thresholds"):
        given = (labels, predictions, thresholds, weights, "false_negatives", "recall")
        return collected(*_share_at(*given), metrics_collections, updates_collections)


def _evenly(count: int) -> list[float]:
    """Return so many thresholds over [0, 1], the first below and the last above it."""
    inner = [(i + 1) / (count - 1) for i in range(count - 2)]
    return [-_MARGIN, *inner, 1 + _MARGIN]


def _slices(x: Any) -> tuple[Any, Any]:
    """Return a vector without its last element, and without its first."""
    return x[:-1], x[1:]


def _interpolated(counts: Counts) -> Tensor:
    """Return the area under the precision-recall curve, interpolated as in a ROC curve."""
    hits, positives = counts["true_positives"], counts["true_positives"] + counts["false_positives"]
    hits_before, hits_after = _slices(hits)
    before, after = _slices(positives)
    gained = hits_before - hits_after
    slope = ratio(gained, apply_op("Maximum", before - after, 0.0))
    intercept = hits_after - slope * after
    both = apply_op("LogicalAnd", apply_op("Greater", before, 0.0), apply_op("Greater", after, 0.0))
    quotient = ratio(before, apply_op("Maximum", after, 0.0))
    safe = apply_op("SelectV2", both, quotient, apply_op("OnesLike", after))
    labels = apply_op("Maximum", hits_after + counts["false_negatives"][1:], 0.0)
    pieces = ratio(slope * (gained + intercept * apply_op("Log", safe)), labels)
    made: Tensor = apply_op("Sum", pieces, 0, name="interpolate_pr_auc")
    return made


def _area(counts: Counts, curve: str, method: str, name: str) -> Tensor:
    """Return the area under a curve.  Raises: ValueError for an unknown method."""
    if curve == "PR" and method == "careful_interpolation":
        return _interpolated(counts)
    hits, misses = counts["true_positives"], counts["false_negatives"]
    epsilon = 1e-6
    found = (hits + epsilon) / (hits + misses + epsilon)
    wrong = counts["false_positives"]
    if curve == "ROC":
        x, y = wrong / (wrong + counts["true_negatives"] + epsilon), found
    else:
        x, y = found, (hits + epsilon) / (hits + wrong + epsilon)
    before, after = _slices(y)
    if method in ("trapezoidal", "careful_interpolation"):
        heights = (before + after) / 2.0
    elif method in ("minoring", "majoring"):
        heights = apply_op("Minimum" if method == "minoring" else "Maximum", before, after)
    else:
        raise ValueError(f"Invalid summation_method: {method}")
    left, right = _slices(x)
    made: Tensor = apply_op("Sum", (left - right) * heights, 0, name=name)
    return made


@export("metrics.auc")
def auc(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Sequence[float] | None = None,
) -> Metric:
    """Return the area under a curve of all scores so far, and its update.

    Args:
      labels: cast to bool; predictions: scores in [0, 1], of the same shape.
      num_thresholds: how finely the curve is drawn.
      curve: "ROC" or "PR" (precision by recall).
      summation_method: "trapezoidal", "minoring", "majoring", or "careful_interpolation".
      thresholds: in [0, 1], in place of even ones.
    Raises: ValueError for another curve or method.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    if curve == "PR" and summation_method == "trapezoidal":
        logging.warning(
            "Trapezoidal rule is known to produce incorrect PR-AUCs; please switch to "
            '"careful_interpolation" instead.'
        )
    limits = (
        _evenly(num_thresholds)
        if thresholds is None
        else [-_MARGIN, *sorted(thresholds), 1 + _MARGIN]
    )
    with metric_scope(name, "auc"):
        now, updated = _counts(labels, predictions, limits, weights)
        value = _area(now, curve, summation_method, "value")
        update = _area(updated, curve, summation_method, "update_op")
        return collected(value, update, metrics_collections, updates_collections)


def _at_best(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None,
    num_thresholds: int,
    value_of: Callable[[Counts, str], Tensor],
) -> Metric:
    counts = _counts(labels, predictions, _evenly(num_thresholds), weights)
    value, update = (value_of(one, name) for one, name in zip(counts, ("value", "update_op")))
    return value, update


@export("metrics.sensitivity_at_specificity")
def sensitivity_at_specificity(
    labels: TensorLike,
    predictions: TensorLike,
    specificity: float,
    weights: TensorLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the recall at the threshold whose specificity is nearest to one, and its update.

    Raises: ValueError for a specificity outside [0, 1].
    """
    if not 0 <= specificity <= 1:
        raise ValueError(f"`specificity` must be in the range [0, 1]. Received: {specificity}")

    def value_of(counts: Counts, name: str) -> Tensor:
        negatives = counts["true_negatives"]
        found = negatives / (negatives + counts["false_positives"] + _MARGIN)
        distance = apply_op("Abs", found - specificity)
        at = apply_op("ArgMin", distance, 0, output_type=dtypes.int32)
        hits, misses = (
            apply_op("GatherV2", counts[key], at, 0)
            for key in ("true_positives", "false_negatives")
        )
        made: Tensor = apply_op("RealDiv", hits, hits + misses + _MARGIN, name=name)
        return made

    with metric_scope(name, "sensitivity_at_specificity"):
        found = _at_best(labels, predictions, weights, num_thresholds, value_of)
        return collected(*found, metrics_collections, updates_collections)


@export("metrics.specificity_at_sensitivity")
def specificity_at_sensitivity(
    labels: TensorLike,
    predictions: TensorLike,
    sensitivity: float,
    weights: TensorLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the specificity at the threshold whose recall is nearest to one, and its update.

    Of thresholds that are equally near the highest counts.
    Raises: ValueError for a sensitivity outside [0, 1].
    """
    if not 0 <= sensitivity <= 1:
        raise ValueError(f"`sensitivity` must be in the range [0, 1]. Received: {sensitivity}")

    def value_of(counts: Counts, name: str) -> Tensor:
        hits = counts["true_positives"]
        found = hits / (hits + counts["false_negatives"] + _MARGIN)
        distance = apply_op("Abs", found - sensitivity)
        is_best = apply_op("Equal", distance, apply_op("Min", distance, 0))
        places = apply_op("Cumsum", cast(is_best, dtypes.int64), 0)
        at = cast(apply_op("ArgMax", places, 0), dtypes.int32)
        right, wrong = (
            apply_op("GatherV2", counts[key], at, 0)
            for key in ("true_negatives", "false_positives")
        )
        made: Tensor = apply_op("RealDiv", right, right + wrong + _MARGIN, name=name)
        return made

    with metric_scope(name, "specificity_at_sensitivity"):
        found = _at_best(labels, predictions, weights, num_thresholds, value_of)
        return collected(*found, metrics_collections, updates_collections)
