"""Metrics of the k best classes of each row, with sets of classes as labels.

Source: tensorflow/python/ops/metrics_impl.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.math import cast
from tideflow.ops.metrics.variables import (
    Collections,
    Metric,
    added,
    collected,
    metric_scope,
    metric_variable,
    ratio,
    spread,
    total,
    updated_ratio,
)
from tideflow.ops.sparse import SparseTensor
from tideflow.ops.sparse.sets import difference, intersection, size
from tideflow.wire import dtypes

# Stands where a row of labels is shorter than others.
_NO_CLASS = -1


def _at_k_name(name: str, k: int | None, class_id: int | None = None) -> str:
    made = f"{name}_at_k" if k is None else f"{name}_at_{k}"
    return made if class_id is None else f"{made}_class{class_id}"


def _best(predictions: TensorLike, k: int) -> Tensor:
    """Return the places of the k greatest scores of each row."""
    made: Tensor = cast(apply_op("TopKV2", predictions, k)[1], dtypes.int64)
    return made


def _labels(labels: TensorLike, places: Tensor) -> Any:
    """Return labels with a last axis of classes, as int64.

    Raises: TypeError for labels that are no integers.
    """
    if isinstance(labels, SparseTensor):
        return labels.with_values(cast(labels.values, dtypes.int64))
    given = convert_to_tensor(labels)
    if given.dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Invalid labels: classes are int32 or int64; found {given.dtype.name}")
    if given.dims is not None and places.dims is not None and len(given.dims) < len(places.dims):
        given = apply_op("ExpandDims", given, -1)
    return cast(given, dtypes.int64)


def _as_dense(labels: Any) -> Tensor:
    if not isinstance(labels, SparseTensor):
        return labels  # type: ignore[no-any-return]
    made: Tensor = apply_op(
        "SparseToDense", labels.indices, labels.dense_shape, labels.values, np.int64(_NO_CLASS)
    )
    return made


def _has(classes: Tensor, class_id: int) -> Tensor:
    made: Tensor = apply_op("Any", apply_op("Equal", classes, np.int64(class_id)), -1)
    return made


def _found(labels: Any, places: Tensor, class_id: int | None) -> dict[str, Tensor]:
    """Return, for each row, how many classes are in both, or in one of them alone."""
    if class_id is None:
        sets = {
            "true_positive": intersection(places, labels),
            "false_positive": difference(places, labels),
            "false_negative": difference(places, labels, aminusb=False),
        }
        return {name: cast(size(one), dtypes.float64) for name, one in sets.items()}
    is_label, is_found = _has(_as_dense(labels), class_id), _has(places, class_id)
    conditions = {
        "true_positive": (is_label, is_found),
        "false_positive": (apply_op("LogicalNot", is_label), is_found),
        "false_negative": (is_label, apply_op("LogicalNot", is_found)),
    }
    return {
        name: cast(apply_op("LogicalAnd", *pair), dtypes.float64)
        for name, pair in conditions.items()
    }


def _share(
    labels: TensorLike,
    predictions_idx: TensorLike,
    k: int | None,
    class_id: int | None,
    weights: TensorLike | None,
    others: str,
    name: str,
) -> Metric:
    """Return true positives by themselves and others over all rows so far, and the update."""
    places = cast(convert_to_tensor(predictions_idx), dtypes.int64)
    counts = _found(_labels(labels, places), places, class_id)
    pairs = []
    for kind in ("true_positive", others):
        amounts = counts[kind]
        if weights is not None:
            amounts = apply_op("Mul", amounts, spread(weights, amounts))
        variable = metric_variable(_at_k_name(kind, k, class_id), (), dtypes.float64)
        pairs.append((variable, total(amounts)))
    hits, rest = (variable.value() for variable, _ in pairs)
    value: Tensor = apply_op("RealDiv", hits, hits + rest, name=name)
    more, more_rest = added(pairs)
    update: Tensor = apply_op("RealDiv", more, more + more_rest, name="update")
    return value, update


@export("metrics.recall_at_top_k")
def recall_at_top_k(
    labels: TensorLike,
    predictions_idx: TensorLike,
    k: int | None = None,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the share of labels that are among the classes given, and its update.

    Args:
      labels: classes [..., n], or [...] for one each; int32 or int64, a SparseTensor for rows of
        different lengths.
      predictions_idx: the best classes of each row [..., k].
      k: for names.
      class_id: count this class alone.
      weights: of rows; broadcast.
      metrics_collections, updates_collections: where to add the two results.
    Raises: TypeError for labels that are no integers.
    """
    with metric_scope(name, _at_k_name("recall", k, class_id)) as scope:
        given = (labels, predictions_idx, k, class_id, weights, "false_negative", scope)
        return collected(*_share(*given), metrics_collections, updates_collections)


@export("metrics.precision_at_top_k")
def precision_at_top_k(
    labels: TensorLike,
    predictions_idx: TensorLike,
    k: int | None = None,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the share of the classes given that are labels, and its update.

    Args: as recall_at_top_k.
    """
    with metric_scope(name, _at_k_name("precision", k, class_id)) as scope:
        given = (labels, predictions_idx, k, class_id, weights, "false_positive", scope)
        return collected(*_share(*given), metrics_collections, updates_collections)


@export("metrics.recall_at_k")
def recall_at_k(
    labels: TensorLike,
    predictions: TensorLike,
    k: int,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the share of labels that are among the k best classes, and its update.

    predictions: scores [..., classes]; the rest as recall_at_top_k.
    """
    with metric_scope(name, _at_k_name("recall", k, class_id)) as scope:
        places = _best(predictions, k)
        given = (labels, places, k, class_id, weights, "false_negative", scope)
        return collected(*_share(*given), metrics_collections, updates_collections)


@export("metrics.precision_at_k", "metrics.sparse_precision_at_k")
def precision_at_k(
    labels: TensorLike,
    predictions: TensorLike,
    k: int,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the share of the k best classes that are labels, and its update.

    predictions: scores [..., classes]; the rest as recall_at_top_k.
    """
    with metric_scope(name, _at_k_name("precision", k, class_id)) as scope:
        places = _best(predictions, k)
        given = (labels, places, k, class_id, weights, "false_positive", scope)
        return collected(*_share(*given), metrics_collections, updates_collections)


@export("metrics.average_precision_at_k", "metrics.sparse_average_precision_at_k")
def average_precision_at_k(
    labels: TensorLike,
    predictions: TensorLike,
    k: int,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the mean over rows of the average precision at the places of labels, and its update.

    Args: as recall_at_k.
    """
    with metric_scope(name, _at_k_name("average_precision", k)) as scope:
        places = _best(predictions, k)
        known = _labels(labels, places)
        averages = _average_precision(known, places, k)
        if weights is None:
            amount = cast(apply_op("Size", averages), dtypes.float64)
        else:
            factors = spread(weights, averages)
            averages, amount = averages * factors, total(factors)
        # TensorFlow's names.
        most = metric_variable("max_1", (), dtypes.float64)
        sums = metric_variable("total", (), dtypes.float64)
        value = ratio(sums.value(), most.value(), "mean")
        update = updated_ratio((sums, total(averages)), (most, amount), scope)
        return collected(value, update, metrics_collections, updates_collections)


def _average_precision(labels: Any, places: Tensor, k: int) -> Tensor:
    """Return, for each row, the mean precision at the places of its labels, at most k."""
    dense = _as_dense(labels)
    equal = apply_op("Equal", apply_op("ExpandDims", places, -1), apply_op("ExpandDims", dense, -2))
    is_label = cast(apply_op("Any", equal, -1), dtypes.float64)
    hits: Any = apply_op("Cumsum", is_label, -1)
    precision = hits / np.arange(1, k + 1, dtype=np.float64)
    if isinstance(labels, SparseTensor):
        count = cast(size(labels), dtypes.float64)
    else:
        count = apply_op("Sum", apply_op("OnesLike", cast(dense, dtypes.float64)), -1)
    made: Tensor = ratio(total(precision * is_label, -1), apply_op("Minimum", count, float(k)))
    return made
