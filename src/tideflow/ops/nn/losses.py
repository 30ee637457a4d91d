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
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.math.casts import as_float
from tideflow.ops.nn.cross_entropy import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)
from tideflow.ops.nn.weighted_losses import DEFAULT_REDUCTION, compute_weighted_loss


def _pair(
    labels: TensorLike, predictions: TensorLike, what: str = "predictions"
) -> tuple[Tensor, Tensor]:
    """Return both as float32 tensors of one static shape."""
    if labels is None or predictions is None:
        raise ValueError(f"labels and {what} must both be given")
    left, right = as_float(predictions), as_float(labels)
    if not shapes.compatible(left.dims, right.dims):
        raise ValueError(
            f"{what} {shapes.format_dims(left.dims)} and labels {shapes.format_dims(right.dims)} "
            "must have the same shape"
        )
    return right, left


@export("losses.absolute_difference")
def absolute_difference(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = DEFAULT_REDUCTION,
) -> Tensor:
    """Return the mean absolute difference of labels and predictions.

    loss = reduce(weights * abs(predictions - labels))

    Args:
      labels: [batch, ...], numbers of any type.
      predictions: numbers in the shape of labels.
      weights: what each loss counts: a scalar, or a tensor of the losses' rank with 1 or the
        losses' size in each dimension.
      scope: the name scope of the operations.
      loss_collection: the collection to which the result is added; None for none.
      reduction: one of tf.losses.Reduction.
    Returns: a float32 scalar; for Reduction.NONE the weighted losses, in the shape of labels.
    Raises: ValueError for shapes that do not fit.
    Source: tensorflow/python/ops/losses/losses_impl.py for names and defaults.
    Example:
      >>> loss = tf.losses.absolute_difference([1.0, 2.0], [1.5, 2.5])
      >>> float(tf.Session().run(loss))
      0.5
    """
    with get_default_graph().name_scope(scope or "absolute_difference") as prefix:
        truth, guess = _pair(labels, predictions)
        losses = apply_op("Abs", apply_op("Sub", guess, truth))
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


@export("losses.mean_squared_error")
def mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = DEFAULT_REDUCTION,
) -> Tensor:
    """Return the mean squared difference of labels and predictions.

    loss = reduce(weights * (predictions - labels)^2)

    Args:
      labels: [batch, ...], numbers of any type.
      predictions: numbers in the shape of labels.
      weights: what each loss counts: a scalar, or a tensor of the losses' rank with 1 or the
        losses' size in each dimension.
      scope: the name scope of the operations.
      loss_collection: the collection to which the result is added; None for none.
      reduction: one of tf.losses.Reduction.
    Returns: a float32 scalar; for Reduction.NONE the weighted losses, in the shape of labels.
    Raises: ValueError for shapes that do not fit.
    Source: tensorflow/python/ops/losses/losses_impl.py for names and defaults.
    Example:
      >>> loss = tf.losses.mean_squared_error([1.0, 2.0], [1.0, 4.0])
      >>> float(tf.Session().run(loss))
      2.0
    """
    with get_default_graph().name_scope(scope or "mean_squared_error") as prefix:
        truth, guess = _pair(labels, predictions)
        losses = apply_op("SquaredDifference", guess, truth)
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


@export("losses.cosine_distance")
def cosine_distance(
    labels: TensorLike,
    predictions: TensorLike,
    axis: int | None = None,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = DEFAULT_REDUCTION,
    dim: int | None = None,
) -> Tensor:
    """Return one minus the cosine of labels and predictions, which must have length 1.

    loss = reduce(weights * (1 - sum(labels * predictions, axis)))

    Args:
      labels: [batch, ...], numbers of any type.
      predictions: numbers in the shape of labels.
      axis: the dimension along which both have length 1.
      dim: the old name of axis.
      weights: what each loss counts: a scalar, or a tensor of the losses' rank with 1 or the
        losses' size in each dimension.
      scope: the name scope of the operations.
      loss_collection: the collection to which the result is added; None for none.
      reduction: one of tf.losses.Reduction.
    Returns: a float32 scalar; for Reduction.NONE the weighted losses, in the shape of labels with
      size 1 along axis.
    Raises: ValueError for shapes that do not fit, and when the axis is missing.
    Source: tensorflow/python/ops/losses/losses_impl.py for names and defaults.
    Example:
      >>> loss = tf.losses.cosine_distance([[1.0, 0.0]], [[0.0, 1.0]], axis=1)
      >>> float(tf.Session().run(loss))
      1.0
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
    labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = DEFAULT_REDUCTION,
) -> Tensor:
    """Return the hinge loss of binary labels.

    loss = reduce(weights * max(0, 1 - y * logits)), y = -1 for label 0 and 1 for label 1

    Args:
      labels: [batch, ...], each 0 or 1.
      logits: float numbers in the shape of labels; their sign predicts the label.
      weights: what each loss counts: a scalar, or a tensor of the losses' rank with 1 or the
        losses' size in each dimension.
      scope: the name scope of the operations.
      loss_collection: the collection to which the result is added; None for none.
      reduction: one of tf.losses.Reduction.
    Returns: a float32 scalar; for Reduction.NONE the weighted losses, in the shape of labels.
    Raises: ValueError for shapes that do not fit.
    Source: tensorflow/python/ops/losses/losses_impl.py for names and defaults.
    Example:
      >>> loss = tf.losses.hinge_loss([0.0, 1.0], [1.0, 2.0])
      >>> float(tf.Session().run(loss))
      1.0
    """
    with get_default_graph().name_scope(scope or "hinge_loss") as prefix:
        truth, guess = _pair(labels, logits, "logits")
        signs = apply_op("Sub", apply_op("Mul", truth, 2.0), 1.0)
        losses = apply_op("Relu", apply_op("Sub", 1.0, apply_op("Mul", signs, guess)))
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


@export("losses.huber_loss")
def huber_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    delta: float = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = DEFAULT_REDUCTION,
) -> Tensor:
    """Return the Huber loss: quadratic for small errors, linear for large ones.

    e = abs(predictions - labels)
    loss = reduce(weights * (e^2 / 2 where e <= delta, else delta * (e - delta / 2)))

    Args:
      labels: [batch, ...], numbers of any type.
      predictions: numbers in the shape of labels.
      delta: the error from which the loss is linear, a float above 0.
      weights: what each loss counts: a scalar, or a tensor of the losses' rank with 1 or the
        losses' size in each dimension.
      scope: the name scope of the operations.
      loss_collection: the collection to which the result is added; None for none.
      reduction: one of tf.losses.Reduction.
    Returns: a float32 scalar; for Reduction.NONE the weighted losses, in the shape of labels.
    Raises: ValueError for shapes that do not fit.
    Source: P. J. Huber, Robust Estimation of a Location Parameter, 1964.
    Example:
      >>> loss = tf.losses.huber_loss([0.0, 0.0], [1.0, 3.0])
      >>> float(tf.Session().run(loss))
      1.5
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
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = DEFAULT_REDUCTION,
) -> Tensor:
    """Return the cross-entropy of labels and predicted probabilities.

    loss = reduce(weights * -(y log(p + epsilon) + (1 - y) log(1 - p + epsilon)))

    Args:
      labels: [batch, ...], probabilities in [0, 1].
      predictions: probabilities in the shape of labels.
      epsilon: keeps the logarithms finite.
      weights: what each loss counts: a scalar, or a tensor of the losses' rank with 1 or the
        losses' size in each dimension.
      scope: the name scope of the operations.
      loss_collection: the collection to which the result is added; None for none.
      reduction: one of tf.losses.Reduction.
    Returns: a float32 scalar; for Reduction.NONE the weighted losses, in the shape of labels.
    Raises: ValueError for shapes that do not fit.
    Source: tensorflow/python/ops/losses/losses_impl.py for names and defaults.
    Example:
      >>> loss = tf.losses.log_loss([1.0, 0.0], [0.5, 0.5])
      >>> round(float(tf.Session().run(loss)), 4)
      0.6931
    """
    with get_default_graph().name_scope(scope or "log_loss") as prefix:
        truth, guess = _pair(labels, predictions)
        hit = apply_op("Mul", truth, apply_op("Log", apply_op("AddV2", guess, epsilon)))
        other = apply_op("AddV2", apply_op("Sub", 1.0, guess), epsilon)
        miss = apply_op("Mul", apply_op("Sub", 1.0, truth), apply_op("Log", other))
        losses = apply_op("Neg", apply_op("AddV2", hit, miss))
        return compute_weighted_loss(losses, weights, prefix, loss_collection, reduction)


@export("losses.sigmoid_cross_entropy")
def sigmoid_cross_entropy(
    multi_class_labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = DEFAULT_REDUCTION,
) -> Tensor:
    """Return the cross-entropy of independent labels and sigmoid(logits).

    loss = reduce(weights * (max(x, 0) - x * y + log(1 + exp(-abs(x))))), x the logits, y the labels

    Args:
      multi_class_labels: [batch, classes], each in [0, 1].
      logits: float numbers in the shape of the labels.
      label_smoothing: from 0 to 1; labels become y * (1 - s) + s / 2.
      weights: what each loss counts: a scalar, or a tensor of the losses' rank with 1 or the
        losses' size in each dimension.
      scope: the name scope of the operations.
      loss_collection: the collection to which the result is added; None for none.
      reduction: one of tf.losses.Reduction.
    Returns: a float32 scalar; for Reduction.NONE the weighted losses, in the shape of the labels.
    Raises: ValueError for shapes that do not fit.
    Source: tensorflow/python/ops/losses/losses_impl.py for names and defaults.
    Example:
      >>> loss = tf.losses.sigmoid_cross_entropy([[1.0, 0.0]], [[0.0, 0.0]])
      >>> round(float(tf.Session().run(loss)), 4)
      0.6931
    """
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
    onehot_labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = DEFAULT_REDUCTION,
) -> Tensor:
    """Return the cross-entropy of one-hot labels and softmax(logits).

    loss = reduce(weights * -sum(labels * log(softmax(logits)), -1))

    No gradient flows into the labels.

    Args:
      onehot_labels: [batch, classes], each row a distribution.
      logits: float numbers in the shape of the labels.
      label_smoothing: from 0 to 1; labels become y * (1 - s) + s / classes.
      weights: what each loss counts: a scalar, or a tensor of the losses' rank with 1 or the
        losses' size in each dimension.
      scope: the name scope of the operations.
      loss_collection: the collection to which the result is added; None for none.
      reduction: one of tf.losses.Reduction.
    Returns: a float32 scalar; for Reduction.NONE the weighted losses, [batch].
    Raises: ValueError for shapes that do not fit.
    Source: tensorflow/python/ops/losses/losses_impl.py for names and defaults.
    Example:
      >>> loss = tf.losses.softmax_cross_entropy([[1.0, 0.0]], [[0.0, 0.0]])
      >>> round(float(tf.Session().run(loss)), 4)
      0.6931
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


def _cast_to(labels: TensorLike, like: Tensor) -> Tensor:
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
    labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = DEFAULT_REDUCTION,
) -> Tensor:
    """Return the cross-entropy of softmax(logits) and the number of the right class.

    loss = reduce(weights * -log(softmax(logits)[..., label]))

    Args:
      labels: [batch, ...] or [batch, ..., 1], int32 or int64, each in [0, classes).
      logits: [batch, ..., classes], float numbers.
      weights: what each loss counts: a scalar, or a tensor of the losses' rank with 1 or the
        losses' size in each dimension.
      scope: the name scope of the operations.
      loss_collection: the collection to which the result is added; None for none.
      reduction: one of tf.losses.Reduction.
    Returns: a float32 scalar; for Reduction.NONE the weighted losses, [batch, ...].
    Raises: ValueError for shapes that do not fit; InvalidArgumentError, when run, for a label that
      is no class.
    Source: tensorflow/python/ops/losses/losses_impl.py for names and defaults.
    Example:
      >>> loss = tf.losses.sparse_softmax_cross_entropy([0, 1], [[0.0, 0.0], [0.0, 0.0]])
      >>> round(float(tf.Session().run(loss)), 4)
      0.6931
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
