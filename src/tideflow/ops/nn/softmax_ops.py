"""Softmax, LogSoftmax and the cross-entropies on logits.

Types of 16 bits are computed in float32.
Source: tensorflow/core/kernels/{softmax,xent,sparse_xent}_op.h.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.framework import is_zeros_like
from tideflow.ops.nn.activations import wide
from tideflow.wire import errors


def _at_least_a_vector(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    if given is not None and not given:
        raise ValueError("logits must have at least one dimension")
    return [given]


def _require_vector(logits: Any) -> None:
    if not logits.ndim:
        raise errors.InvalidArgumentError("logits must have at least one dimension; it is a scalar")


def _shifted(xp: ArrayNamespace, logits: Array) -> Any:
    """Return logits less the greatest of each row, so that exp cannot overflow.

    An empty row has no greatest element; -inf stands in for it.
    """
    if xp is np:
        return logits - np.maximum.reduce(logits, axis=-1, keepdims=True, initial=-np.inf)
    return logits - xp.max(logits, axis=-1, keepdims=True, initial=-np.inf)


def _row_sums(xp: ArrayNamespace, x: Array) -> Any:
    if xp is np:
        return np.add.reduce(x, axis=-1, keepdims=True)
    return xp.sum(x, axis=-1, keepdims=True)


@op(
    """
    Softmax(logits: T) -> softmax: T
    T: type in floats
    """,
    shape=_at_least_a_vector,
    compiles=Compiles.ALWAYS,
)
def softmax_kernel(xp: ArrayNamespace, logits: Array) -> Any:
    _require_vector(logits)
    powers = xp.exp(_shifted(xp, wide(xp, logits)))
    return (powers / _row_sums(xp, powers)).astype(logits.dtype, copy=False)


@gradient("Softmax")
def softmax_gradient(op: Operation, grad: Tensor) -> list[Any]:
    probabilities = op.outputs[0]
    weighted = apply_op("Sum", apply_op("Mul", grad, probabilities), -1, keep_dims=True)
    return [apply_op("Mul", apply_op("Sub", grad, weighted), probabilities)]


@op(
    """
    LogSoftmax(logits: T) -> logsoftmax: T
    T: type in floats
    """,
    shape=_at_least_a_vector,
    compiles=Compiles.ALWAYS,
)
def log_softmax_kernel(xp: ArrayNamespace, logits: Array) -> Any:
    _require_vector(logits)
    shifted = _shifted(xp, wide(xp, logits))
    found = shifted - xp.log(_row_sums(xp, xp.exp(shifted)))
    return found.astype(logits.dtype, copy=False)


@gradient("LogSoftmax")
def log_softmax_gradient(op: Operation, grad: Tensor) -> list[Any]:
    probabilities = apply_op("Exp", op.outputs[0])
    total = apply_op("Sum", grad, -1, keep_dims=True)
    return [apply_op("Sub", grad, apply_op("Mul", total, probabilities))]


def _cross_entropy_shape(c: ShapeContext) -> list[Dims]:
    both = with_rank(shapes.broadcast(c.inputs[0], c.inputs[1]), 2, "logits and labels")
    return [(both[0],), both]


@op(
    """
    SoftmaxCrossEntropyWithLogits(features: T, labels: T) -> loss: T, backprop: T
    T: type in floats
    """,
    shape=_cross_entropy_shape,
    compiles=Compiles.ALWAYS,
)
def softmax_cross_entropy_kernel(xp: ArrayNamespace, features: Array, labels: Array) -> Any:
    if features.shape != labels.shape:
        features, labels = _broadcast_logits(xp, features, labels)
    if features.ndim != 2:
        raise errors.InvalidArgumentError(
            f"logits and labels must be matrices; they have shape {list(features.shape)}"
        )
    shifted = _shifted(xp, wide(xp, features))
    targets = wide(xp, labels)
    powers = xp.exp(shifted)
    sums = _row_sums(xp, powers)
    if xp is np:
        backprop = np.divide(powers, sums, out=powers)
        np.subtract(backprop, targets, out=backprop)
        np.subtract(np.log(sums), shifted, out=shifted)
        np.multiply(shifted, targets, out=shifted)
        loss = np.add.reduce(shifted, axis=-1)
    else:
        backprop = powers / sums - targets
        loss = xp.sum(targets * (xp.log(sums) - shifted), axis=-1)
    dtype = features.dtype
    return loss.astype(dtype, copy=False), backprop.astype(dtype, copy=False)


def _broadcast_logits(xp: ArrayNamespace, features: Array, labels: Array) -> Any:
    try:
        return xp.broadcast_arrays(features, labels)
    except ValueError:
        raise errors.InvalidArgumentError(
            f"logits {list(features.shape)} and labels {list(labels.shape)} must have one shape"
        ) from None


@gradient("SoftmaxCrossEntropyWithLogits")
def softmax_cross_entropy_gradient(
    op: Operation, grad_loss: Tensor, grad_backprop: Tensor
) -> list[Any]:
    """Give the gradients for both outputs.

    The backprop output has a gradient only when a second derivative is taken.
    """
    logits = op.inputs[0]
    grad_logits = None
    grad_labels = None
    if grad_loss is not None:
        column = apply_op("ExpandDims", grad_loss, -1)
        grad_logits = apply_op("Mul", column, op.outputs[1])
        negative_log = apply_op("Neg", apply_op("LogSoftmax", logits))
        grad_labels = apply_op("Mul", column, negative_log)
    if grad_backprop is not None and not is_zeros_like(grad_backprop):
        second = _through_softmax(grad_backprop, logits)
        grad_logits = second if grad_logits is None else apply_op("AddV2", grad_logits, second)
        less = apply_op("Neg", grad_backprop)
        grad_labels = less if grad_labels is None else apply_op("AddV2", grad_labels, less)
    return [grad_logits, grad_labels]


def _through_softmax(grad: Tensor, logits: Tensor) -> Any:
    """Return the gradient of softmax(logits) for an incoming gradient."""
    probabilities = apply_op("Softmax", logits)
    weighted = apply_op("Sum", apply_op("Mul", grad, probabilities), 1, keep_dims=True)
    return apply_op("Mul", apply_op("Sub", grad, weighted), probabilities)


def _sparse_shape(c: ShapeContext) -> list[Dims]:
    rows, classes = with_rank(c.inputs[0], 2, "logits")
    (count,) = with_rank(c.inputs[1], 1, "labels")
    merged = shapes.merge((rows,), (count,))
    assert merged is not None
    return [merged, (merged[0], classes)]


@op(
    """
    SparseSoftmaxCrossEntropyWithLogits(features: T, labels: Tlabels) -> loss: T, backprop: T
    T: type in floats
    Tlabels: type in indices = int64
    """,
    shape=_sparse_shape,
    compiles=Compiles.LABELS,
)
def sparse_softmax_cross_entropy_kernel(xp: ArrayNamespace, features: Array, labels: Array) -> Any:
    if features.ndim != 2 or features.shape[:1] != labels.shape:
        raise errors.InvalidArgumentError(
            f"logits must be [batch, classes] and labels [batch]; found "
            f"{list(features.shape)} and {list(labels.shape)}"
        )
    if not features.shape[1]:
        raise errors.InvalidArgumentError("there must be at least one class; logits have none")
    shifted = _shifted(xp, wide(xp, features))
    powers = xp.exp(shifted)
    sums = _row_sums(xp, powers)
    if xp is np:
        loss, backprop = _pick_labels(shifted, powers, sums, labels)
    else:
        loss, backprop = _pick_labels_traced(xp, shifted, powers, sums, labels)
    dtype = features.dtype
    return loss.astype(dtype, copy=False), backprop.astype(dtype, copy=False)


def _pick_labels(shifted: Array, powers: Array, sums: Array, labels: Array) -> Any:
    rows, classes = shifted.shape
    # One reduction finds both bounds: a negative label is huge without its sign.
    unsigned = labels.view(np.uint32 if labels.itemsize == 4 else np.uint64)
    if rows and np.maximum.reduce(unsigned) >= classes:
        wrong = labels[unsigned >= classes]
        raise errors.InvalidArgumentError(
            f"Received a label value of {wrong[0]} which is outside the valid range of "
            f"[0, {classes}); {len(wrong)} of {rows} are: {wrong[:8].tolist()}"
        )
    flat = labels + np.arange(0, rows * classes, classes)
    loss = np.log(sums[:, 0]) - shifted.take(flat)
    backprop = np.divide(powers, sums, out=powers)
    backprop.reshape(-1)[flat] -= 1
    return loss, backprop


def _pick_labels_traced(
    xp: ArrayNamespace, shifted: Array, powers: Array, sums: Array, labels: Array
) -> Any:
    """Give NaN for labels out of range, as TensorFlow's GPU kernel does."""
    classes = shifted.shape[1]
    hot = labels[:, None] == xp.arange(classes, dtype=labels.dtype)
    is_known = ((labels >= 0) & (labels < classes))[:, None]
    picked = xp.sum(xp.where(hot, shifted, 0), axis=-1, dtype=shifted.dtype)
    loss = xp.where(is_known[:, 0], xp.log(sums[:, 0]) - picked, xp.nan)
    backprop = xp.where(is_known, powers / sums - hot, xp.nan)
    return loss, backprop


@gradient("SparseSoftmaxCrossEntropyWithLogits")
def sparse_softmax_cross_entropy_gradient(
    op: Operation, grad_loss: Tensor, grad_backprop: Tensor
) -> list[Any]:
    grad_logits = None
    if grad_loss is not None:
        grad_logits = apply_op("Mul", apply_op("ExpandDims", grad_loss, -1), op.outputs[1])
    if grad_backprop is not None and not is_zeros_like(grad_backprop):
        second = _through_softmax(grad_backprop, op.inputs[0])
        grad_logits = second if grad_logits is None else apply_op("AddV2", grad_logits, second)
    return [grad_logits, None]
