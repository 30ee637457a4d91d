"""Metrics that count: true and false positives and negatives, precision, recall, classes.

Source: tensorflow/python/ops/metrics_impl.py (names of variables, rules).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.math.casts import as_float
from tideflow.ops.metrics.running import (
    Metric,
    collected,
    count_over,
    local_sum,
    run_over,
    total,
    weighted,
)
from tideflow.ops.state import variable_scope
from tideflow.wire import dtypes

Collections = str | Sequence[str] | None


def squeezed(labels: TensorLike, predictions: TensorLike) -> tuple[Tensor, Tensor]:
    """Return both as tensors of one rank: a last axis of size 1 that only one of them has is
    dropped.

    Raises: ValueError for shapes that differ.
    """
    truth, guess = convert_to_tensor(labels), convert_to_tensor(predictions)
    if truth.dims is not None and guess.dims is not None:
        more = len(truth.dims) - len(guess.dims)
        if more == 1 and truth.dims[-1] in (1, None):
            truth = apply_op("Squeeze", truth, squeeze_dims=[-1])
        elif more == -1 and guess.dims[-1] in (1, None):
            guess = apply_op("Squeeze", guess, squeeze_dims=[-1])
    if not truth.shape.is_compatible_with(guess.shape):
        raise ValueError(
            f"labels {truth.shape} and predictions {guess.shape} must have the same shape"
        )
    return truth, guess


def as_bool(x: Tensor) -> Tensor:
    """Return numbers as whether they are not zero."""
    made: Tensor = apply_op("Cast", x, DstT="bool")
    return made


def matches(
    truth: Tensor, guess: Tensor, label: bool, prediction: bool, weights: TensorLike | None
) -> Tensor:
    """Return where labels and predictions are what is asked for: 1.0 there, times weights."""
    sides = [
        one if wanted else apply_op("LogicalNot", one)
        for one, wanted in ((truth, label), (guess, prediction))
    ]
    return weighted(apply_op("Cast", apply_op("LogicalAnd", *sides), DstT="float"), weights)


# By the name of a count: what the label must be, and what the prediction.
KINDS = {
    "true_positives": (True, True),
    "false_negatives": (True, False),
    "true_negatives": (False, False),
    "false_positives": (False, True),
}


def _count(
    kind: str, labels: TensorLike, predictions: TensorLike, weights: TensorLike | None,
    values_in: Collections, updates_in: Collections, name: str | None,
) -> Metric:  # fmt: skip
    with variable_scope(name, default_name=kind):
        truth, guess = map(as_bool, squeezed(labels, predictions))
        number = total(matches(truth, guess, *KINDS[kind], weights))
        return count_over("count", number, values_in, updates_in)


@export("metrics.true_positives")
def true_positives(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return how many predictions and labels were both true, and what adds a batch."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _count("true_positives", *given)


@export("metrics.true_negatives")
def true_negatives(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return how many predictions and labels were both false, and what adds a batch."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _count("true_negatives", *given)


@export("metrics.false_positives")
def false_positives(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return how many true predictions had false labels, and what adds a batch."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _count("false_positives", *given)


@export("metrics.false_negatives")
def false_negatives(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return how many false predictions had true labels, and what adds a batch."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _count("false_negatives", *given)


def _share(
    first: Callable[..., Metric], second: Callable[..., Metric],
    labels: TensorLike, predictions: TensorLike, weights: TensorLike | None,
) -> list[Tensor]:  # fmt: skip
    """Return what the first count has of both, now and after a batch."""
    counts = [count(labels, predictions, weights) for count in (first, second)]
    pairs = zip(*counts, ("value", "update_op"), strict=True)
    return [_ratio(one, apply_op("AddV2", one, other), name) for one, other, name in pairs]


def _ratio(part: Tensor, whole: Tensor, name: str | None = None) -> Tensor:
    """Return a part of a whole; 0 of nothing."""
    some = apply_op("Greater", whole, 0.0)
    made: Tensor = apply_op("Select", some, part / whole, 0.0, name=name)  # type: ignore[operator]
    return made


@export("metrics.precision")
def precision(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the share of true predictions whose labels were true, and what adds a batch."""
    with variable_scope(name, default_name="precision"):
        value, update = _share(true_positives, false_positives, labels, predictions, weights)
        return collected(value, update, metrics_collections, updates_collections)


@export("metrics.recall")
def recall(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the share of true labels that were predicted, and what adds a batch."""
    with variable_scope(name, default_name="recall"):
        value, update = _share(true_positives, false_negatives, labels, predictions, weights)
        return collected(value, update, metrics_collections, updates_collections)


# ---- classes


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
    """Return the mean over classes of hits / (labels + predictions - hits), and what adds a batch.

    Args:
      labels, predictions: classes in [0, num_classes).
      num_classes: how many there are.
      weights: of the shape of labels, or broadcast to it.
      metrics_collections, updates_collections: where to add the two results.
    Returns: float32; the update gives the matrix of counts, float64 [num_classes, num_classes].
    """
    with variable_scope(name, default_name="mean_iou"):
        truth, guess = (_flat_classes(one) for one in squeezed(labels, predictions))
        rows = apply_op("OneHot", truth, num_classes, 1.0, 0.0)
        columns = apply_op("OneHot", guess, num_classes, 1.0, 0.0)
        if weights is not None:
            factors = apply_op("Reshape", as_float(weights), [-1, 1])
            rows = apply_op("Mul", rows, factors)
        counted = apply_op("MatMul", rows, columns, transpose_a=True)
        shape = (num_classes, num_classes)
        matrix = local_sum("total_confusion_matrix", shape, dtypes.float64)
        value = _intersection_over_union(matrix.value())
        update = matrix.assign_add(apply_op("Cast", counted, DstT="double"))
        return collected(value, update, metrics_collections, updates_collections)


def _flat_classes(classes: Tensor) -> Tensor:
    made: Tensor = apply_op("Reshape", apply_op("Cast", classes, DstT="int64"), [-1])
    return made


def _intersection_over_union(matrix: Tensor) -> Tensor:
    counts = as_float(matrix)
    hits = apply_op("MatrixDiagPart", counts)
    both = apply_op("AddV2", apply_op("Sum", counts, 0), apply_op("Sum", counts, 1))
    union = apply_op("Sub", both, hits)
    is_seen = apply_op("Greater", union, 0.0)
    shares = hits / apply_op("Select", is_seen, union, apply_op("OnesLike", union))
    # The mean is over classes that were seen.
    return _ratio(total(shares), total(apply_op("Cast", is_seen, DstT="float")))


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
    """Return the mean over classes of the share of hits, and what adds a batch.

    Args:
      labels, predictions: classes in [0, num_classes).
      num_classes: how many there are.
      weights: of the shape of labels, or broadcast to it.
      metrics_collections, updates_collections: where to add the two results.
    Returns: float32; the update gives the share of each class, float32 [num_classes].
    """
    with variable_scope(name, default_name="mean_accuracy"):
        truth, guess = (_flat_classes(one) for one in squeezed(labels, predictions))
        ones = apply_op("OneHot", truth, num_classes, 1.0, 0.0)
        equal = as_float(apply_op("Equal", truth, guess))
        if weights is not None:
            factors = apply_op("Reshape", as_float(weights), [-1])
            ones = apply_op("Mul", ones, apply_op("ExpandDims", factors, 1))
        correct = apply_op("Mul", ones, apply_op("ExpandDims", equal, 1))
        sums = {"total": apply_op("Sum", ones, 0), "count": apply_op("Sum", correct, 0)}
        shares, update = run_over(sums, _hits_of_all, None, None)
        value = apply_op("Mean", shares, 0, name="mean_accuracy")
        return collected(value, update, metrics_collections, updates_collections)


def _hits_of_all(number: Tensor, hits: Tensor, name: str) -> Tensor:
    made: Tensor = apply_op("DivNoNan", hits, number, name=name)
    return made
