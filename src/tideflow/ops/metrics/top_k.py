"""Metrics of the k classes with the highest scores: recall, precision, average precision.

Labels are classes, int64 of [..., labels], dense or sparse; one label for each row may stand
without a last axis.  Predictions are scores [..., classes], or the classes themselves, [..., k].

Source: tensorflow/python/ops/metrics_impl.py (names of variables, rules).
"""

from __future__ import annotations

from collections.abc import Sequence

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.metrics.running import Metric, collected, local_sum, total
from tideflow.ops.nn.top_values import top_k
from tideflow.ops.sparse import SparseTensor, sets
from tideflow.ops.sparse import tensor as sparse
from tideflow.wire import dtypes

Collections = str | Sequence[str] | None
Labels = Tensor | SparseTensor


# ---- labels and predictions as sets


def _name_at(name: str, k: int | None, class_id: int | None = None) -> str:
    named = f"{name}_at_k" if k is None else f"{name}_at_{k}"
    return named if class_id is None else f"{named}_class{class_id}"


def _as_float64(x: TensorLike) -> Tensor:
    made: Tensor = apply_op("Cast", x, DstT="double")
    return made


def _as_labels(labels: TensorLike | SparseTensor, predictions: Tensor) -> Labels:
    """Return labels with a last axis for those of one row, whether or not they had one.

    Raises: ValueError for ranks that do not go together.
    """
    if isinstance(labels, SparseTensor):
        made = sparse.reshape(labels, _grown(labels.dense_shape, predictions))
        if predictions.dims is not None:
            made.set_shape([None] * len(predictions.dims))
        return made
    given = convert_to_tensor(labels)
    if given.dims is None or predictions.dims is None:
        shape = apply_op("Shape", given, out_type="int64")
        grown: Tensor = apply_op("Reshape", given, _grown(shape, predictions))
        return grown
    more = len(predictions.dims) - len(given.dims)
    if more not in (0, 1):
        raise ValueError(
            f"Unexpected labels shape {given.shape} for predictions shape {predictions.shape}. "
            "Predictions rank should be the same rank as labels rank or labels rank plus one ."
        )
    expanded: Tensor = apply_op("ExpandDims", given, -1) if more else given
    return expanded


def _grown(shape: Tensor, predictions: Tensor) -> Tensor:
    """Return a shape with as many ones at its end as make it one of the rank of predictions."""
    more = apply_op("Sub", apply_op("Rank", predictions), apply_op("Size", shape))
    ones = apply_op("Fill", apply_op("Reshape", more, [1]), convert_to_tensor(1, dtypes.int64))
    made: Tensor = apply_op("ConcatV2", [shape, ones], 0)
    return made


def _of_class(ids: Labels, class_id: int | None) -> Labels:
    """Return sets with all classes but one taken out."""
    if class_id is None:
        return ids
    chosen = convert_to_tensor(class_id, dtypes.int64)
    if isinstance(ids, SparseTensor):
        return sparse.retain(ids, apply_op("Equal", ids.values, chosen))
    shape = apply_op("Shape", ids, out_type="int64")
    rows = apply_op("StridedSlice", shape, [0], [-1], [1])
    one_each = apply_op("ConcatV2", [rows, convert_to_tensor([1], dtypes.int64)], 0)
    found = sets.intersection(apply_op("Fill", one_each, chosen), ids)
    return SparseTensor(found.indices, found.values, shape)


def _count(found: SparseTensor, rows: Tensor, weights: TensorLike | None) -> Tensor:
    """Return how many elements each set has, times weights.

    rows: a tensor that has a set in each row.
    """
    counted = sets.size(found)
    counted.set_shape(None if rows.dims is None else rows.dims[:-1])
    return _weighted(_as_float64(counted), weights)


def _weighted(x: Tensor, weights: TensorLike | None) -> Tensor:
    """Return x times weights.

    Raises: ValueError for weights that are neither one for all nor of the rank of x.
    """
    if weights is None:
        return x
    factors = convert_to_tensor(weights)
    if factors.dims and x.dims is not None and len(factors.dims) != len(x.dims):
        raise ValueError(
            f"weights can not be broadcast to values. values.rank={len(x.dims)}. "
            f"weights.rank={len(factors.dims)}. values.shape={x.shape}. "
            f"weights.shape={factors.shape}."
        )
    made: Tensor = apply_op("Mul", x, _as_float64(factors))
    return made


def _running(name: str, added: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of what batches add, before and after this one."""
    with get_default_graph().name_scope(name) as scope:
        variable = local_sum(scope, (), dtypes.float64)
        value = convert_to_tensor(variable.value())
        return value, convert_to_tensor(variable.assign_add(total(added), name="update"))


def _require_graph(name: str) -> None:
    if get_default_graph().is_eager:
        raise RuntimeError(f"tf.metrics.{name} is not supported when eager execution is enabled.")


# ---- recall and precision


def _share_of_top(
    what: str, missed: str, labels: TensorLike | SparseTensor, predictions: TensorLike,
    k: int | None, class_id: int | None, weights: TensorLike | None,
    values_in: Collections, updates_in: Collections, name: str | None,
) -> Metric:  # fmt: skip
    """Return the share of the true positives among these and what was missed.

    missed: "false_negative" for labels that are not predicted, "false_positive" for predictions
      that are no labels.
    """
    with get_default_graph().name_scope(name or _name_at(what, k, class_id)) as scope:
        given = convert_to_tensor(predictions)
        truth = _of_class(_as_labels(labels, given), class_id)
        guess = _of_class(apply_op("Cast", given, DstT="int64"), class_id)
        hits = _count(sets.intersection(guess, truth), given, weights)
        lacking = sets.difference(guess, truth, aminusb=missed == "false_positive")
        counts = [
            _running(_name_at("true_positive", k, class_id), hits),
            _running(_name_at(missed, k, class_id), _count(lacking, given, weights)),
        ]
        value, update = (
            apply_op("RealDiv", one, apply_op("AddV2", one, other), name=called)
            for one, other, called in zip(*counts, (scope, "update"), strict=True)
        )
        return collected(value, update, values_in, updates_in)


@export("metrics.recall_at_top_k")
def recall_at_top_k(
    labels: TensorLike | SparseTensor,
    predictions_idx: TensorLike,
    k: int | None = None,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the share of labels among the classes predicted, and what adds a batch.

    Args:
      k: for names only.
      class_id: count this class alone.
      weights: a scalar, or one for each row.
    """
    return _share_of_top(
        "recall", "false_negative", labels, predictions_idx, k, class_id, weights,
        metrics_collections, updates_collections, name,
    )  # fmt: skip


@export("metrics.recall_at_k")
def recall_at_k(
    labels: TensorLike | SparseTensor,
    predictions: TensorLike,
    k: int,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the share of labels among the k classes of the highest scores, and what adds a batch
    (see recall_at_top_k)."""
    _require_graph("recall_at_k")
    with get_default_graph().name_scope(name or _name_at("recall", k, class_id)) as scope:
        return recall_at_top_k(
            labels, top_k(predictions, k).indices, k, class_id, weights,
            metrics_collections, updates_collections, scope,
        )  # fmt: skip


@export("metrics.precision_at_top_k")
def precision_at_top_k(
    labels: TensorLike | SparseTensor,
    predictions_idx: TensorLike,
    k: int | None = None,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the share of the classes predicted that are labels, and what adds a batch.

    Args: as recall_at_top_k.
    """
    _require_graph("precision_at_top_k")
    return _share_of_top(
        "precision", "false_positive", labels, predictions_idx, k, class_id, weights,
        metrics_collections, updates_collections, name,
    )  # fmt: skip


@export("metrics.precision_at_k", "metrics.sparse_precision_at_k")
def precision_at_k(
    labels: TensorLike | SparseTensor,
    predictions: TensorLike,
    k: int,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the share of the k classes of the highest scores that are labels, and what adds a
    batch (see recall_at_top_k)."""
    _require_graph("sparse_precision_at_k")
    with get_default_graph().name_scope(name or _name_at("precision", k, class_id)) as scope:
        return precision_at_top_k(
            labels, top_k(predictions, k).indices, k, class_id, weights,
            metrics_collections, updates_collections, scope,
        )  # fmt: skip


# ---- average precision


@export("metrics.average_precision_at_k", "metrics.sparse_average_precision_at_k")
def average_precision_at_k(
    labels: TensorLike | SparseTensor,
    predictions: TensorLike,
    k: int,
    weights: TensorLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Return the mean over rows of the precision at each of the k highest scores that belongs to a
    label, and what adds a batch.

    Raises: ValueError for k below 1.
    """
    _require_graph("sparse_average_precision_at_k")
    if k < 1:
        raise ValueError(f"Invalid k={k}. `k` should be >= 1.")
    graph = get_default_graph()
    with graph.name_scope(name or _name_at("average_precision", k)) as scope:
        scores = convert_to_tensor(predictions)
        best = apply_op("Cast", top_k(scores, k).indices, DstT="int64")
        known = _without_unknown(labels, scores)
        with graph.name_scope(scope):
            average = _average_precision(_as_labels(known, best), best, k)
            full = apply_op("OnesLike", average)
            # TensorFlow has an op Max in this scope, so that its variable has the next name.
            rows = [_running("max_1", _weighted(full, weights))]
            rows.append(_running("total", _weighted(average, weights)))
        value, update = (
            apply_op("DivNoNan", part, whole, name=called)
            for whole, part, called in zip(*rows, ("mean", scope), strict=True)
        )
        return collected(value, update, metrics_collections, updates_collections)


def _without_unknown(labels: TensorLike | SparseTensor, scores: Tensor) -> Labels:
    """Return labels with -1 in the place of classes for which there is no score."""
    given = labels.values if isinstance(labels, SparseTensor) else convert_to_tensor(labels)
    count = apply_op(
        "StridedSlice", apply_op("Shape", scores, out_type="int64"), [-1], [0], [1],
        shrink_axis_mask=1, end_mask=1,
    )  # fmt: skip
    none = apply_op("Neg", apply_op("OnesLike", given))
    made = apply_op("SelectV2", apply_op("GreaterEqual", given, count), none, given)
    if isinstance(labels, SparseTensor):
        return SparseTensor(labels.indices, made, labels.dense_shape)
    cleaned: Tensor = made
    return cleaned


def _average_precision(labels: Labels, best: Tensor, k: int) -> Tensor:
    """Return the average precision of each row.

    best: classes by falling score [..., k].
    """
    each = apply_op("ExpandDims", best, -1)
    if isinstance(labels, SparseTensor):
        one = sparse.expand_dims(labels, -2)
        truth: Labels = sparse.concat(-2, [one] * k)
        relevant = sets.size(labels)
    else:
        truth = _repeated(labels, k)
        is_label = apply_op("GreaterEqual", labels, convert_to_tensor(0, labels.dtype))
        relevant = apply_op("Sum", apply_op("Cast", is_label, DstT="int32"), -1)
    hits = _count(sets.intersection(each, truth), each, None)
    ranks = apply_op("Cumsum", apply_op("OnesLike", hits), -1)
    precision = apply_op("RealDiv", apply_op("Cumsum", hits, -1), ranks)
    at_hits = apply_op("Sum", apply_op("Mul", precision, hits), [-1])
    most = apply_op("Minimum", relevant, convert_to_tensor(k, relevant.dtype))
    made: Tensor = apply_op("RealDiv", at_hits, _as_float64(most))
    return made


def _repeated(labels: Tensor, k: int) -> Tensor:
    """Return labels [..., n] as [..., k, n]."""
    rank = apply_op("Rank", labels)
    before = apply_op("Fill", apply_op("Reshape", apply_op("Sub", rank, 1), [1]), 1)
    times = apply_op("ConcatV2", [before, [k], [1]], 0)
    made: Tensor = apply_op("Tile", apply_op("ExpandDims", labels, -2), times)
    return made
