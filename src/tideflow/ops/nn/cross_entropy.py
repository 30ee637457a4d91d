"""Losses on logits and other functions of `tf.nn` that are made of simpler ops."""

from __future__ import annotations

import math
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.wire import dtypes


def _scope(name: str | None, default: str) -> Any:
    return get_default_graph().name_scope(name or default)


def _named(found: object, scope: str) -> Tensor:
    """Return the tensor under the scope's own name."""
    made: Tensor = apply_op("Identity", found, name=scope)
    return made


def _require_both(labels: object, logits: object) -> None:
    if labels is None or logits is None:
        raise ValueError("give both labels and logits, best by name: labels=..., logits=...")


def _axis(axis: int | None, dim: int | None, default: int = -1) -> int:
    if axis is not None and dim is not None:
        raise ValueError("give only one of 'axis' and 'dim'")
    found = axis if axis is not None else dim
    return default if found is None else found


# ---- softmax


@export("nn.softmax", "math.softmax")
def softmax(
    logits: TensorLike, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """Return numbers that are positive and sum to 1 along an axis.

    exp(logits) / sum(exp(logits), axis)

    Args:
      logits: floating numbers of any shape but a scalar's.
      axis: the dimension that is normalised, the last by default; dim is its old name.
    Returns: a tensor of the shape and type of logits.
    Raises: ValueError for an axis outside the static shape.
    Example:
      >>> print(tf.nn.softmax([0.0, 0.0]).numpy().round(4))
      [0.5 0.5]
    """
    return _along("Softmax", logits, _axis(axis, dim), name)


@export("nn.log_softmax", "math.log_softmax")
def log_softmax(
    logits: TensorLike, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """Return the logarithm of softmax, without its loss of precision.

    logits - log(sum(exp(logits), axis))

    Args:
      logits: floating numbers of any shape but a scalar's.
      axis: the dimension that is normalised, the last by default; dim is its old name.
    Returns: a tensor of the shape and type of logits.
    Raises: ValueError for an axis outside the static shape.
    Example:
      >>> print(tf.nn.log_softmax([0.0, 0.0]).numpy().round(4))
      [-0.6931 -0.6931]
    """
    return _along("LogSoftmax", logits, _axis(axis, dim), name)


def _along(op_name: str, logits: TensorLike, axis: int, name: str | None) -> Tensor:
    """Apply an op of the last dimension along another one."""
    logits = convert_to_tensor(logits)
    rank = logits.shape.rank
    if rank is not None and not -rank <= axis < rank:
        raise ValueError(
            f"axis {axis} lies outside the logits' shape {shapes.format_dims(logits.dims)}"
        )
    if axis == -1 or (rank is not None and axis == rank - 1):
        made: Tensor = apply_op(op_name, logits, name=name)
        return made
    with _scope(name, op_name.lower()) as scope:
        order = _swap_with_last(logits, axis)
        swapped = apply_op(op_name, apply_op("Transpose", logits, order))
        found: Tensor = apply_op("Transpose", swapped, order, name=scope)
        found.set_shape(logits.shape)
        return found


def _swap_with_last(x: Tensor, axis: int) -> list[int]:
    """Return the order of dimensions that exchanges one with the last."""
    rank = x.shape.rank
    if rank is None:
        raise ValueError("an axis that is not the last one needs logits of known rank")
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return order


def _moved_to_the_end(x: Tensor, axis: int) -> list[int]:
    """Return the order of dimensions in which one comes last and the others stay in order."""
    order = _swap_with_last(x, axis)
    return [*(i for i in range(len(order)) if i != order[-1]), order[-1]]


@export("nn.softmax_cross_entropy_with_logits_v2")
def softmax_cross_entropy_with_logits_v2(
    labels: Any,
    logits: TensorLike,
    axis: int | None = None,
    name: str | None = None,
    dim: int | None = None,
) -> Tensor:
    """Return the cross-entropy of labels and softmax(logits) along an axis.

    -sum(labels * log(softmax(logits)), axis).  Gradients flow into labels, too.

    Args:
      labels: probabilities, each row with sum 1, in the shape of logits.
      logits: floating numbers [..., classes]; float16 is computed in float32.
      axis: the dimension of the classes, the last by default; dim is its old name.
    Returns: the losses, in the shape of logits without axis.
    Example:
      >>> loss = tf.nn.softmax_cross_entropy_with_logits_v2([[1.0, 0.0]], [[0.0, 0.0]])
      >>> print(tf.Session().run(loss).round(4))
      [0.6931]
    """
    at = _axis(axis, dim)
    with _scope(name, "softmax_cross_entropy_with_logits") as scope:
        logits = convert_to_tensor(logits)
        narrow = logits.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16)
        precise = apply_op("Cast", logits, DstT="float") if narrow else logits
        labels = convert_to_tensor(labels, None if hasattr(labels, "dtype") else precise.dtype)
        if labels.dtype.base_dtype is not precise.dtype.base_dtype:
            labels = apply_op("Cast", labels, DstT=precise.dtype)
        rank = precise.shape.rank
        if at != -1 and at != (rank or 0) - 1:
            order = _moved_to_the_end(precise, at)
            precise = apply_op("Transpose", precise, order)
            labels = apply_op("Transpose", labels, order)
        outer = None if rank == 2 else _outer_shape(precise)
        cost, _ = apply_op("SoftmaxCrossEntropyWithLogits", _as_matrix(precise), _as_matrix(labels))
        if outer is not None:
            static = precise.shape
            cost = apply_op("Reshape", cost, outer)
            if static.sizes is not None:
                cost.set_shape(static[:-1])
        return _named(apply_op("Cast", cost, DstT=logits.dtype) if narrow else cost, scope)


def _outer_shape(x: Tensor) -> Tensor:
    """Return the shape of x without its last dimension, at run time."""
    sizes = apply_op("Shape", x)
    made: Tensor = apply_op("StridedSlice", sizes, [0], [-1], [1], begin_mask=1)
    return made


def _as_matrix(x: Tensor) -> Tensor:
    if x.shape.rank == 2:
        return x
    last = apply_op("StridedSlice", apply_op("Shape", x), [-1], [0], [1], end_mask=1)
    made: Tensor = apply_op("Reshape", x, apply_op("ConcatV2", [[-1], last], 0))
    if x.dims:
        made.set_shape([None, x.dims[-1]])
    return made


@export("nn.softmax_cross_entropy_with_logits")
def softmax_cross_entropy_with_logits(
    labels: TensorLike | None = None,
    logits: TensorLike | None = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Tensor:
    """Return the cross-entropy of labels and softmax(logits); no gradient flows into labels.

    -sum(labels * log(softmax(logits)), axis)

    Args:
      labels: probabilities, each row with sum 1, in the shape of logits.
      logits: floating numbers [..., classes].
      dim: the dimension of the classes; axis is its new name.
    Returns: the losses, in the shape of logits without axis.
    Raises: ValueError for labels or logits left out.
    Example:
      >>> loss = tf.nn.softmax_cross_entropy_with_logits(labels=[[1.0, 0.0]], logits=[[0.0, 0.0]])
      >>> print(tf.Session().run(loss).round(4))
      [0.6931]
    """
    _require_both(labels, logits)
    with _scope(name, "softmax_cross_entropy_with_logits_sg") as scope:
        given = convert_to_tensor(logits)
        fixed = convert_to_tensor(labels, None if hasattr(labels, "dtype") else given.dtype)
        fixed = apply_op("StopGradient", fixed, name="labels_stop_gradient")
        at = dim if axis is None else axis
        return softmax_cross_entropy_with_logits_v2(fixed, given, axis=at, name=scope)


@export("nn.sparse_softmax_cross_entropy_with_logits")
def sparse_softmax_cross_entropy_with_logits(
    labels: TensorLike | None = None,
    logits: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the cross-entropy of softmax(logits) for one right class in each row.

    -log(softmax(logits)[..., label])

    Args:
      labels: the right classes, int32 or int64 [...].
      logits: floating numbers [..., classes]; float16 is computed in float32.
    Returns: the losses, in the shape of labels.
    Raises: ValueError for labels or logits left out, and for ranks that do not match;
      InvalidArgumentError, when run on a CPU, for labels out of range.
    Example:
      >>> print(tf.nn.sparse_softmax_cross_entropy_with_logits([1], [[0.0, 0.0]]).numpy().round(4))
      [0.6931]
    """
    _require_both(labels, logits)
    with _scope(name, "SparseSoftmaxCrossEntropyWithLogits"):
        labels = convert_to_tensor(labels)
        logits = convert_to_tensor(logits)
        narrow = logits.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16)
        precise = apply_op("Cast", logits, DstT="float") if narrow else logits
        _check_sparse(labels, precise)
        if precise.shape.rank == 2:
            cost, _ = apply_op("SparseSoftmaxCrossEntropyWithLogits", precise, labels)
        else:
            flat = apply_op("Reshape", labels, [-1])
            cost, _ = apply_op("SparseSoftmaxCrossEntropyWithLogits", _as_matrix(precise), flat)
            cost = apply_op("Reshape", cost, apply_op("Shape", labels))
            cost.set_shape(labels.shape)
        found: Tensor = apply_op("Cast", cost, DstT=logits.dtype) if narrow else cost
        return found


def _check_sparse(labels: Tensor, logits: Tensor) -> None:
    wanted, found = logits.dims, labels.dims
    if wanted is not None and not wanted:
        raise ValueError("logits cannot be a scalar; they must be [..., classes]")
    if wanted is None or found is None:
        return
    if len(found) != len(wanted) - 1:
        raise ValueError(
            f"labels must have one dimension less than logits; found {shapes.format_dims(found)} "
            f"and {shapes.format_dims(wanted)}"
        )
    if not shapes.compatible(found, wanted[:-1]):
        raise ValueError(
            f"labels {shapes.format_dims(found)} do not fit logits {shapes.format_dims(wanted)}"
        )


# ---- sigmoid


@export("nn.sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy_with_logits(
    labels: TensorLike | None = None,
    logits: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the cross-entropy of labels and sigmoid(logits), element by element.

    max(x, 0) - x * z + log(1 + exp(-abs(x))), where x are the logits and z the labels

    Args:
      labels: numbers in [0, 1], in the shape and type of logits.
      logits: floating numbers of any shape.
    Returns: the losses, in the shape and type of logits.
    Raises: ValueError for labels or logits left out, and for shapes that differ.
    Example:
      >>> print(tf.nn.sigmoid_cross_entropy_with_logits([1.0, 0.0], [0.0, 0.0]).numpy().round(4))
      [0.6931 0.6931]
    """
    _require_both(labels, logits)
    with _scope(name, "logistic_loss") as scope:
        logits = convert_to_tensor(logits)
        labels = convert_to_tensor(labels, logits.dtype.base_dtype)
        _require_same_shape("logits", logits, "labels", labels)
        # Selects, not max and abs: their gradient at 0 is the right one.
        zeros = apply_op("ZerosLike", logits)
        is_positive = apply_op("GreaterEqual", logits, zeros)
        positive = apply_op("SelectV2", is_positive, logits, zeros)
        negative = apply_op("SelectV2", is_positive, apply_op("Neg", logits), logits)
        linear = apply_op("Sub", positive, apply_op("Mul", logits, labels))
        curved = apply_op("Log1p", apply_op("Exp", negative))
        made: Tensor = apply_op("AddV2", linear, curved, name=scope)
        return made


def _require_same_shape(first: str, a: Tensor, second: str, b: Tensor) -> None:
    if not shapes.compatible(a.dims, b.dims):
        raise ValueError(
            f"{first} {shapes.format_dims(a.dims)} and {second} {shapes.format_dims(b.dims)} "
            "must have the same shape"
        )


@export("nn.weighted_cross_entropy_with_logits")
def weighted_cross_entropy_with_logits(
    labels: TensorLike | None = None,
    logits: TensorLike | None = None,
    pos_weight: TensorLike | None = None,
    name: str | None = None,
    targets: TensorLike | None = None,
) -> Tensor:
    """Return the sigmoid cross-entropy with weighted positives.

    labels * -log(sigmoid(logits)) * pos_weight + (1 - labels) * -log(1 - sigmoid(logits))

    Args:
      labels: numbers in [0, 1], in the shape and type of logits; targets is their old name.
      logits: floating numbers of any shape.
      pos_weight: above 1 to find more positives, below 1 to be surer of them.
    Returns: the losses, in the shape and type of logits.
    Raises: ValueError for shapes that differ.
    Example:
      >>> print(tf.nn.weighted_cross_entropy_with_logits([1.0], [0.0], 2.0).numpy().round(4))
      [1.3863]
    """
    with _scope(name, "logistic_loss") as scope:
        logits = convert_to_tensor(logits)
        labels = convert_to_tensor(targets if labels is None else labels, logits.dtype.base_dtype)
        _require_same_shape("logits", logits, "labels", labels)
        extra = apply_op("Sub", convert_to_tensor(pos_weight, logits.dtype), 1.0)
        weight = apply_op("AddV2", apply_op("Mul", extra, labels), 1.0)
        negative = apply_op("Neg", logits)
        curved = apply_op("Log1p", apply_op("Exp", apply_op("Neg", apply_op("Abs", logits))))
        tail = apply_op("Mul", weight, apply_op("AddV2", curved, apply_op("Relu", negative)))
        rest = apply_op("Mul", apply_op("Sub", apply_op("OnesLike", labels), labels), logits)
        made: Tensor = apply_op("AddV2", rest, tail, name=scope)
        return made


@export("nn.log_poisson_loss")
def log_poisson_loss(
    targets: TensorLike,
    log_input: TensorLike,
    compute_full_loss: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the loss of a Poisson model, up to a constant.

    exp(log_input) - targets * log_input

    Args:
      targets: counts, in the shape and type of log_input.
      log_input: the logarithms of the expected counts, floating numbers of any shape.
      compute_full_loss: whether to add Stirling's approximation of log(targets!) for targets above
        1.
    Returns: the losses, in the shape of log_input.
    Raises: ValueError for shapes that differ.
    Example:
      >>> print(tf.nn.log_poisson_loss([1.0, 2.0], [0.0, 0.0]).numpy().round(4))
      [1. 1.]
    """
    with _scope(name, "log_poisson_loss") as scope:
        log_input = convert_to_tensor(log_input)
        targets = convert_to_tensor(targets, log_input.dtype.base_dtype)
        _require_same_shape("log_input", log_input, "targets", targets)
        found = apply_op("Sub", apply_op("Exp", log_input), apply_op("Mul", log_input, targets))
        if compute_full_loss:
            product = apply_op("Mul", targets, apply_op("Log", targets))
            half_log = apply_op("Mul", apply_op("Log", apply_op("Mul", targets, 2 * math.pi)), 0.5)
            stirling = apply_op("AddV2", apply_op("Sub", product, targets), half_log)
            is_small = apply_op(
                "LogicalAnd",
                apply_op("GreaterEqual", targets, apply_op("ZerosLike", targets)),
                apply_op("LessEqual", targets, apply_op("OnesLike", targets)),
            )
            zeros = apply_op("ZerosLike", targets)
            found = apply_op("AddV2", found, apply_op("SelectV2", is_small, zeros, stirling))
        return _named(found, scope)


# ---- norms and the like


@export("nn.l2_normalize", "math.l2_normalize", "linalg.l2_normalize")
def l2_normalize(
    x: TensorLike,
    axis: TensorLike | None = None,
    epsilon: float = 1e-12,
    name: str | None = None,
    dim: TensorLike | None = None,
) -> Tensor:
    """Return x scaled to length 1 along axes.

    x / sqrt(max(sum(x^2, axis), epsilon))

    Args:
      x: floating or complex numbers of any shape.
      axis: the dimensions along which squares are summed, all by default; dim is its old name.
      epsilon: keeps the root above 0.
    Returns: a tensor of the shape and type of x.
    Example:
      >>> print(tf.nn.l2_normalize([3.0, 4.0]).numpy().round(4))
      [0.6 0.8]
    """
    if axis is not None and dim is not None:
        raise ValueError("give only one of 'axis' and 'dim'")
    with _scope(name, "l2_normalize") as scope:
        x = convert_to_tensor(x)
        axes = axis if axis is not None else dim
        if axes is None:
            axes = apply_op("Range", 0, apply_op("Rank", x), 1)
        total = apply_op("Sum", apply_op("Square", x), axes, keep_dims=True)
        made: Tensor = apply_op(
            "Mul", x, apply_op("Rsqrt", apply_op("Maximum", total, epsilon)), name=scope
        )
        return made


@export("nn.zero_fraction", "math.zero_fraction")
def zero_fraction(value: TensorLike, name: str | None = None) -> Tensor:
    """Return the share of zeros among the elements of a tensor.

    count(value == 0) / size(value)

    Args:
      value: numbers of any shape.
    Returns: a float32 scalar; NaN when there are no elements.
    Example:
      >>> print(tf.nn.zero_fraction([0.0, 1.0]).numpy().round(4))
      0.5
    """
    with _scope(name, "zero_fraction"):
        value = convert_to_tensor(value)
        is_zero = apply_op("Equal", value, apply_op("ZerosLike", value))
        flat = apply_op("Reshape", apply_op("Cast", is_zero, DstT="float"), [-1])
        made: Tensor = apply_op("Mean", flat, 0, name="fraction")
        return made
