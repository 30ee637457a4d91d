"""Metrics at thresholds: counts for each of them, and the areas below curves through these.

Source: tensorflow/python/ops/metrics_impl.py (names of variables, thresholds, epsilons).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.math.casts import as_float
from tideflow.ops.metrics.counts import KINDS, as_bool, matches, squeezed
from tideflow.ops.metrics.running import Metric, count_over, run_over
from tideflow.ops.state import variable_scope

Collections = str | Sequence[str] | None

_EPSILON = 1e-7


def _checked(predictions: Tensor) -> Tensor:
    """Return predictions that fail where they are not in [0, 1]."""
    inside = apply_op(
        "All",
        apply_op(
            "LogicalAnd",
            apply_op("GreaterEqual", predictions, 0.0),
            apply_op("LessEqual", predictions, 1.0),
        ),
        apply_op("Range", 0, apply_op("Rank", predictions), 1),
    )
    text = convert_to_tensor("predictions must be in [0, 1]")
    check = apply_op("Assert", inside, [text, predictions])
    with get_default_graph().control_dependencies([check]):
        made: Tensor = apply_op("Identity", predictions, name="control_dependency")
    return made


def _counts(
    labels: TensorLike,
    predictions: TensorLike,
    thresholds: Sequence[float],
    weights: TensorLike | None,
    kinds: Sequence[str],
) -> dict[str, Tensor]:
    """Return what a batch adds to counts, each [thresholds]."""
    truth, guess = squeezed(labels, as_float(predictions))
    truth = apply_op("Reshape", as_bool(truth), [1, -1])
    scores = apply_op("Reshape", _checked(guess), [1, -1])
    limits = np.asarray(thresholds, np.float32).reshape(-1, 1)
    positive = apply_op("Greater", scores, limits)
    repeated = apply_op("LogicalAnd", truth, apply_op("OnesLike", positive))
    factors = None
    if weights is not None:
        like = apply_op("Mul", apply_op("OnesLike", guess), as_float(weights))
        factors = apply_op("Reshape", like, [1, -1])
    return {
        kind: apply_op("Sum", matches(repeated, positive, *KINDS[kind], factors), 1)
        for kind in kinds
    }


def _count_at_thresholds(
    kind: str,
    thresholds: Sequence[float],
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None,
    values_in: Collections,
    updates_in: Collections,
    name: str | None,
) -> Metric:
    with variable_scope(name, default_name=kind):
        added = _counts(labels, predictions, thresholds, weights, [kind])[kind]
        return count_over(kind, added, values_in, updates_in)


def _at_thresholds(
    kinds: Sequence[str],
    compute: Callable[..., Tensor],
    scope: str,
    thresholds: Sequence[float],
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None,
    values_in: Collections,
    updates_in: Collections,
    name: str | None,
    prefix: str = "",
) -> Metric:
    with variable_scope(name, default_name=scope):
        sums = _counts(labels, predictions, thresholds, weights, kinds)
        return run_over(sums, compute, values_in, updates_in, prefix)


def _share(one: Any, other: Any, name: str | None = None) -> Any:
    return apply_op("RealDiv", one, one + other + _EPSILON, name=name)


def _share_at(at: Tensor, one: Any, other: Any, name: str) -> Any:
    return _share(apply_op("GatherV2", one, at, 0), apply_op("GatherV2", other, at, 0), name)


@export("metrics.true_positives_at_thresholds")
def true_positives_at_thresholds(
    labels: TensorLike,
    predictions: TensorLike,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return how many true labels had predictions above each threshold, and what adds a batch."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _count_at_thresholds("true_positives", thresholds, *given)


@export("metrics.true_negatives_at_thresholds")
def true_negatives_at_thresholds(
    labels: TensorLike,
    predictions: TensorLike,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return how many false labels had no predictions above each threshold, and what adds a
    batch."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _count_at_thresholds("true_negatives", thresholds, *given)


@export("metrics.false_positives_at_thresholds")
def false_positives_at_thresholds(
    labels: TensorLike,
    predictions: TensorLike,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return how many false labels had predictions above each threshold, and what adds a batch."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _count_at_thresholds("false_positives", thresholds, *given)


@export("metrics.false_negatives_at_thresholds")
def false_negatives_at_thresholds(
    labels: TensorLike,
    predictions: TensorLike,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return how many true labels had no predictions above each threshold, and what adds a
    batch."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _count_at_thresholds("false_negatives", thresholds, *given)


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
    """Return the precision at each threshold, and what adds a batch."""
    kinds, scope = ["true_positives", "false_positives"], "precision_at_thresholds"
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _at_thresholds(kinds, _share, scope, thresholds, *given, prefix="precision_")


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
    """Return the recall at each threshold, and what adds a batch."""
    kinds, scope = ["true_positives", "false_negatives"], "recall_at_thresholds"
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _at_thresholds(kinds, _share, scope, thresholds, *given, prefix="recall_")


# ---- curves


def _spread(count: int) -> list[float]:
    """Return thresholds from just below 0 to just above 1: these two at least."""
    inner = [(i + 1) / (count - 1) for i in range(count - 2)]
    return [-_EPSILON, *inner, 1 + _EPSILON]


def _area(x: Any, y: Any, method: str, name: str) -> Tensor:
    before, after = y[:-1], y[1:]
    heights = {
        "trapezoidal": lambda: (before + after) / 2.0,
        "minoring": lambda: apply_op("Minimum", before, after),
        "majoring": lambda: apply_op("Maximum", before, after),
    }
    if method not in heights:
        raise ValueError(f"summation_method must be one of {sorted(heights)}, not {method!r}")
    made: Tensor = apply_op("Sum", (x[:-1] - x[1:]) * heights[method](), 0, name=name)
    return made


def _interpolated_area(tp: Any, fp: Any) -> Tensor:
    """Return the area below precision by recall, the counts being interpolated between."""
    positives = tp + fp
    steps, hits = positives[:-1] - positives[1:], tp[:-1] - tp[1:]
    slope = apply_op("DivNoNan", hits, apply_op("Maximum", steps, 0.0))
    start = tp[1:] - slope * positives[1:]
    some = apply_op("Greater", positives, 0.0)
    both = apply_op("LogicalAnd", some[:-1], some[1:])
    ratio = apply_op("DivNoNan", positives[:-1], apply_op("Maximum", positives[1:], 0.0))
    grown = apply_op("SelectV2", both, ratio, apply_op("OnesLike", positives[1:]))
    made: Tensor = slope * (hits + start * apply_op("Log", grown))
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
    """Return the area below a curve through points at thresholds, and what adds a batch.

    Args:
      labels: true or false, of the shape of predictions.
      predictions: scores in [0, 1].
      weights: broadcast to predictions; None: all count alike.
      num_thresholds: how many thresholds, spread over [0, 1].
      metrics_collections, updates_collections: where to add the two results.
      curve: "ROC" (true by false positives) or "PR" (precision by recall).
      summation_method: "trapezoidal", "minoring", "majoring", or "careful_interpolation".
      thresholds: the inner ones, instead of num_thresholds.
    Raises: ValueError for another curve or method; InvalidArgumentError for scores elsewhere.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be 'ROC' or 'PR', not {curve!r}")
    limits = _spread(num_thresholds)
    if thresholds is not None:
        limits = [-_EPSILON, *sorted(thresholds), 1 + _EPSILON]
    careful = summation_method == "careful_interpolation"
    method = "trapezoidal" if careful else summation_method
    epsilon = 1e-6

    def compute(tp: Any, fn: Any, tn: Any, fp: Any, name: str) -> Tensor:
        if curve == "PR" and careful:
            name = "interpolate_pr_auc"
            found = apply_op("DivNoNan", _interpolated_area(tp, fp), tp[1:] + fn[1:])
            made: Tensor = apply_op("Sum", found, 0, name=name)
            return made
        recall = (tp + epsilon) / (tp + fn + epsilon)
        if curve == "ROC":
            return _area(fp / (fp + tn + epsilon), recall, method, name)
        return _area(recall, (tp + epsilon) / (tp + fp + epsilon), method, name)

    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _at_thresholds(list(KINDS), compute, "auc", limits, *given)


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
    """Return the sensitivity where the specificity is nearest to the one given, and what adds a
    batch.

    Raises: ValueError for a specificity that is not in [0, 1].
    """
    if not 0 <= specificity <= 1:
        raise ValueError(f"specificity must be in [0, 1], not {specificity}")

    def compute(tp: Any, fn: Any, tn: Any, fp: Any, name: str) -> Tensor:
        distance = apply_op("Abs", _share(tn, fp) - specificity)
        at = apply_op("ArgMin", distance, 0)
        made: Tensor = _share_at(at, tp, fn, name)
        return made

    scope = "sensitivity_at_specificity"
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _at_thresholds(list(KINDS), compute, scope, _spread(num_thresholds), *given)


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
    """Return the specificity where the sensitivity is nearest to the one given (at the last such
    threshold), and what adds a batch.

    Raises: ValueError for a sensitivity that is not in [0, 1].
    """
    if not 0 <= sensitivity <= 1:
        raise ValueError(f"sensitivity must be in [0, 1], not {sensitivity}")

    def compute(tp: Any, fn: Any, tn: Any, fp: Any, name: str) -> Tensor:
        distance = apply_op("Abs", _share(tp, fn) - sensitivity)
        nearest = apply_op("Equal", distance, apply_op("Min", distance, 0))
        at = apply_op("ArgMax", apply_op("Cumsum", apply_op("Cast", nearest, DstT="int64"), 0), 0)
        made: Tensor = _share_at(at, tn, fp, name)
        return made

    scope = "specificity_at_sensitivity"
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _at_thresholds(list(KINDS), compute, scope, _spread(num_thresholds), *given)
