"""`tf.losses`: weighted losses, gathered in a collection.

Every loss takes `weights` (a scalar, or the shape of the losses with 1 where a dimension is
shared), a `reduction`, and the collection to which the result is added (None: to none).
"""

from __future__ import annotations

from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.export import export
from tideflow.ops.nn.cross_entropy import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)
from tideflow.wire import dtypes


@export("losses.Reduction")
class Reduction:
    """How losses become one number.

    NONE leaves them as they are; SUM adds them; MEAN divides by the sum of weights;
    SUM_OVER_BATCH_SIZE by their number; SUM_BY_NONZERO_WEIGHTS by how many weights are not 0.
    """

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Return all reductions."""
        return (
            cls.NONE,
            cls.SUM,
            cls.MEAN,
            cls.SUM_OVER_BATCH_SIZE,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )

    @classmethod
    def validate(cls, key: Any) -> None:
        """Raise ValueError for anything that is no reduction."""
        if key not in cls.all():
            raise ValueError(f"{key!r} is no reduction; use one of {', '.join(cls.all())}")


_DEFAULT = Reduction.SUM_BY_NONZERO_WEIGHTS


@export("losses.compute_weighted_loss")
def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """Weight losses, reduce them, and add the result to a collection.

    Raises: ValueError for another reduction, or weights that do not broadcast to the losses.
    """
    Reduction.validate(reduction)
    with get_default_graph().name_scope(scope or "weighted_loss"):
        given = convert_to_tensor(losses)
        values = _as_float(given)
        factors = _as_float(convert_to_tensor(weights))
        _check_weights(factors, values)
        weighted = apply_op("Mul", values, factors)
        found: Tensor = _reduced(weighted, values, factors, reduction)
        if found.dtype.base_dtype is not given.dtype.base_dtype:
            found = apply_op("Cast", found, DstT=given.dtype)
        add_loss(found, loss_collection)
        return found


def _as_float(x: Any) -> Tensor:
    tensor = convert_to_tensor(x)
    if tensor.dtype.base_dtype is dtypes.float32:
        return tensor
    made: Tensor = apply_op("Cast", tensor, DstT="float")
    return made


def _check_weights(weights: Tensor, values: Tensor) -> None:
    found, wanted = weights.dims, values.dims
    if found is None or wanted is None or not found:
        return
    if len(found) != len(wanted) or any(
        w != 1 and None not in (w, v) and w != v for w, v in zip(found, wanted)
    ):
        raise ValueError(
            f"weights {shapes.format_dims(found)} cannot be broadcast to losses "
            f"{shapes.format_dims(wanted)}; they must be a scalar, or have the same rank and in "
            "each dimension 1 or the same size"
        )


def _reduced(weighted: Tensor, values: Tensor, weights: Tensor, reduction: str) -> Tensor:
    if reduction == Reduction.NONE:
        return weighted
    total = _total(weighted)
    if reduction == Reduction.SUM:
        return total
    if reduction == Reduction.MEAN:
        count = _total(apply_op("Mul", apply_op("OnesLike", values), weights))
    elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
        count = apply_op("Cast", apply_op("Size", values), DstT="float")
    else:
        count = _present(values, weights)
    made: Tensor = apply_op("DivNoNan", total, count, name="value")
    return made


def _present(values: Tensor, weights: Tensor) -> Tensor:
    """Return how many elements have a weight other than 0."""
    is_present = apply_op("NotEqual", weights, apply_op("ZerosLike", weights))
    flags = apply_op("Cast", is_present, DstT="float")
    if weights.dims == ():
        size = apply_op("Cast", apply_op("Size", values), DstT="float")
        made: Tensor = apply_op("Mul", size, flags, name="num_present")
        return made
    spread = apply_op("Mul", apply_op("OnesLike", values), flags)
    return _total(spread)


def _total(x: Tensor) -> Tensor:
    made: Tensor = apply_op("Sum", apply_op("Reshape", x, [-1]), 0)
    return made


# ---- collections


@export("losses.add_loss")
def add_loss(loss: Any, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Add a loss to a collection; None: to none."""
    if loss_collection:
        get_default_graph().add_to_collection(loss_collection, loss)


@export("losses.get_losses")
def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Any]:
    """Return the losses in a collection, those of a name scope if one is given."""
    return get_default_graph().get_collection(loss_collection, scope)


@export("losses.get_regularization_losses")
def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """Return the regularisation losses."""
    return get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


@export("losses.get_regularization_loss")
def get_regularization_loss(
    scope: str | None = None, name: str = "total_regularization_loss"
) -> Tensor:
    """Return the sum of the regularisation losses, 0 when there are none."""
    found = get_regularization_losses(scope)
    made: Tensor = apply_op("AddN", found, name=name) if found else convert_to_tensor(0.0)
    return made


@export("losses.get_total_loss")
def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """Return the sum of all losses.

    Raises: ValueError when there are none.
    """
    found = get_losses(scope)
    if add_regularization_losses:
        found = found + get_regularization_losses(scope)
    if not found:
        raise ValueError("the graph has no losses to add up")
    made: Tensor = apply_op("AddN", found, name=name)
    return made


# ---- the losses


def _pair(labels: Any, predictions: Any, what: str = "predictions") -> tuple[Tensor, Tensor]:
    """Return both as float32 tensors of one static shape."""
    if labels is None or predictions is None:
        raise ValueError(f"labels and {what} must both be given")
    left, right = _as_float(predictions), _as_float(labels)
    if not shapes.compatible(left.dims, right.dims):
        raise ValueError(
            f"{what} {shapes.format_dims(left.dims)} and labels {shapes.format_dims(right.dims)} "
            "must have the same shape"
        )
    return right, left


@export("losses.absolute_difference")
def absolute_difference(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """Return the loss abs(predictions - labels)."""
    with get_default_graph().name_scope(scope or "absolute_difference") as prefix:
        truth, guess = _pair(labels, predictions)
        losses = apply_op("Abs", apply_op("Sub", guess, truth))
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


@export("losses.mean_squared_error")
def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """Return the loss (predictions - labels) ** 2."""
    with get_default_graph().name_scope(scope or "mean_squared_error") as prefix:
        truth, guess = _pair(labels, predictions)
        losses = apply_op("SquaredDifference", guess, truth)
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


@export("losses.cosine_distance")
def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
    dim: int | None = None,
) -> Tensor:
    """Return the loss 1 - sum(labels * predictions) along axis; both are taken as normalised.

    Raises: ValueError when the axis is missing; dim is its old name.
    """
    along = axis if axis is not None else dim
    if along is None:
        raise ValueError("cosine_distance needs axis")
    with get_default_graph().name_scope(scope or "cosine_distance_loss") as prefix:
        truth, guess = _pair(labels, predictions)
        products = apply_op("Mul", guess, truth)
        losses = apply_op("Sub", 1.0, apply_op("Sum", products, [along], keep_dims=True))
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


@export("losses.hinge_loss")
def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """Return the loss max(0, 1 - y * logits), where y is -1 for label 0 and 1 for label 1."""
    with get_default_graph().name_scope(scope or "hinge_loss") as prefix:
        truth, guess = _pair(labels, logits, "logits")
        signs = apply_op("Sub", apply_op("Mul", truth, 2.0), 1.0)
        losses = apply_op("Relu", apply_op("Sub", 1.0, apply_op("Mul", signs, guess)))
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


@export("losses.huber_loss")
def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """Return the loss that is quadratic up to an error of delta and linear beyond.

    For an error e: 0.5 * e ** 2, beyond delta 0.5 * delta ** 2 + delta * (abs(e) - delta).
    """
    with get_default_graph().name_scope(scope or "huber_loss") as prefix:
        truth, guess = _pair(labels, predictions)
        size = apply_op("Abs", apply_op("Sub", guess, truth))
        limit = convert_to_tensor(delta, size.dtype)
        quadratic = apply_op("Minimum", size, limit)
        linear = apply_op("Sub", size, quadratic)
        losses = apply_op(
            "AddV2",
            apply_op("Mul", apply_op("Mul", quadratic, quadratic), 0.5),
            apply_op("Mul", linear, limit),
        )
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


@export("losses.log_loss")
def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """Return the cross-entropy of labels and predicted probabilities."""
    with get_default_graph().name_scope(scope or "log_loss") as prefix:
        truth, guess = _pair(labels, predictions)
        hit = apply_op("Mul", truth, apply_op("Log", apply_op("AddV2", guess, epsilon)))
        other = apply_op("AddV2", apply_op("Sub", 1.0, guess), epsilon)
        miss = apply_op("Mul", apply_op("Sub", 1.0, truth), apply_op("Log", other))
        losses = apply_op("Neg", apply_op("AddV2", hit, miss))
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


@export("losses.sigmoid_cross_entropy")
def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """Return the cross-entropy of labels and sigmoid(logits); smoothing pulls labels to 1/2."""
    with get_default_graph().name_scope(scope or "sigmoid_cross_entropy_loss") as prefix:
        guess = convert_to_tensor(logits)
        truth = _cast_to(multi_class_labels, guess)
        if label_smoothing > 0:
            kept = apply_op("Mul", truth, 1 - label_smoothing)
            truth = apply_op("AddV2", kept, 0.5 * label_smoothing)
        losses = sigmoid_cross_entropy_with_logits(labels=truth, logits=guess, name="xentropy")
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


@export("losses.softmax_cross_entropy")
def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """Return the cross-entropy of labels and softmax(logits); no gradient flows into labels.

    Smoothing pulls labels to 1 / classes.  Weights are scalar or [batch].
    """
    with get_default_graph().name_scope(scope or "softmax_cross_entropy_loss") as prefix:
        guess = convert_to_tensor(logits)
        truth = _cast_to(onehot_labels, guess)
        if not shapes.compatible(guess.dims, truth.dims):
            raise ValueError(
                f"logits {shapes.format_dims(guess.dims)} and labels "
                f"{shapes.format_dims(truth.dims)} must have the same shape"
            )
        if label_smoothing > 0:
            truth = _smoothed(truth, label_smoothing)
        truth = apply_op("StopGradient", truth, name="labels_stop_gradient")
        losses = softmax_cross_entropy_with_logits_v2(truth, guess, name="xentropy")
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


def _cast_to(labels: Any, like: Tensor) -> Tensor:
    tensor = convert_to_tensor(labels)
    if tensor.dtype.base_dtype is like.dtype.base_dtype:
        return tensor
    made: Tensor = apply_op("Cast", tensor, DstT=like.dtype)
    return made


def _smoothed(labels: Tensor, amount: float) -> Tensor:
    classes: Any = labels.dims[-1] if labels.dims else None
    if classes is None:
        sizes = apply_op("Shape", labels)
        last = apply_op("StridedSlice", sizes, [-1], [0], [1], shrink_axis_mask=1)
        share = apply_op("RealDiv", amount, apply_op("Cast", last, DstT=labels.dtype))
    else:
        share = amount / classes
    made: Tensor = apply_op("AddV2", apply_op("Mul", labels, 1 - amount), share)
    return made


@export("losses.sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """Return the cross-entropy of softmax(logits) for one right class in each row.

    Args:
      labels: int32 or int64 [batch] or [batch, 1].
      logits: [batch, classes].
      weights: scalar, [batch] or [batch, 1].
    """
    with get_default_graph().name_scope(scope or "sparse_softmax_cross_entropy_loss") as prefix:
        guess = convert_to_tensor(logits)
        truth = convert_to_tensor(labels)
        rank = guess.shape.rank
        if rank is not None:
            truth = _without_last_one(truth, rank - 1)
            weights = _without_last_one(convert_to_tensor(weights), rank - 1)
        losses = sparse_softmax_cross_entropy_with_logits(
            labels=truth, logits=guess, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


def _without_last_one(x: Tensor, rank: int) -> Tensor:
    """Return x without its last dimension where that is 1 and one too many."""
    if x.dims is None or len(x.dims) != rank + 1 or not x.dims or x.dims[-1] not in (1, None):
        return x
    made: Tensor = apply_op("Squeeze", x, squeeze_dims=[-1])
    return made
