"""Losses over many classes, of which only a sample is looked at.

Source: tensorflow/python/ops/nn_impl.py; Gutmann and Hyvärinen, "Noise-contrastive estimation"
(2010); Jean et al., "On Using Very Large Target Vocabulary" (2014).
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.linalg import matmul
from tideflow.ops.nn.candidate_samplers_api import (
    compute_accidental_hits,
    log_uniform_candidate_sampler,
)
from tideflow.ops.nn.cross_entropy import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
)
from tideflow.ops.nn.embedding import embedding_lookup
from tideflow.wire import dtypes


def _sampled_logits(
    weights: object,
    biases: object,
    labels: object,
    inputs: object,
    sampled_values: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    remove_accidental_hits: bool,
    partition_strategy: str,
    seed: int | None,
) -> tuple[Tensor, Tensor]:
    """Return logits of the true and of the sampled classes, and labels that go with them.

    Both are [batch, num_true + num_sampled]; logits have the logarithm of how often a class is
    expected in the sample taken off.
    """
    given = apply_op("Cast", convert_to_tensor(labels), DstT=dtypes.int64)
    if given.shape.rank == 1:
        given = apply_op("ExpandDims", given, -1)
    if sampled_values is None:
        sampled_values = log_uniform_candidate_sampler(
            given, num_true, num_sampled, True, num_classes, seed
        )
    sampled, true_expected, sampled_expected = (
        apply_op("StopGradient", part) for part in sampled_values
    )
    sampled = apply_op("Cast", sampled, DstT=dtypes.int64)
    x = convert_to_tensor(inputs)
    flat = apply_op("Reshape", given, [-1])
    true_count = apply_op("Shape", flat)
    ids = apply_op("ConcatV2", [flat, sampled], 0)

    def looked_up(table: object) -> tuple[Any, Any]:
        rows = embedding_lookup(table, ids, partition_strategy)
        if rows.dtype != x.dtype:
            rows = apply_op("Cast", rows, DstT=x.dtype)
        true = apply_op("StridedSlice", rows, [0], true_count, [1])
        return true, apply_op("StridedSlice", rows, true_count, [0], [1], end_mask=1)

    (true_rows, sampled_rows), (true_biases, sampled_biases) = map(looked_up, (weights, biases))
    width = apply_op("StridedSlice", apply_op("Shape", x), [1], [2], [1])
    shape = apply_op("ConcatV2", [[-1, num_true], width], 0)
    products = apply_op("ExpandDims", x, 1) * apply_op("Reshape", true_rows, shape)
    true_logits = apply_op("Sum", products, [2])
    true_logits = true_logits + apply_op("Reshape", true_biases, [-1, num_true])
    sampled_logits = matmul(x, sampled_rows, transpose_b=True) + sampled_biases
    if remove_accidental_hits:
        sampled_logits = sampled_logits + _hits(given, sampled, num_true, sampled_logits)
    true_logits = true_logits - apply_op("Log", _like(true_expected, true_logits))
    sampled_logits = sampled_logits - apply_op("Log", _like(sampled_expected, sampled_logits))
    true_labels = apply_op("OnesLike", true_logits) / num_true
    wanted = [true_labels, apply_op("ZerosLike", sampled_logits)]
    logits = apply_op("ConcatV2", [true_logits, sampled_logits], 1)
    return logits, apply_op("ConcatV2", wanted, 1)


def _like(x: Any, like: Any) -> Any:
    return x if x.dtype == like.dtype else apply_op("Cast", x, DstT=like.dtype)


def _hits(labels: Tensor, sampled: Tensor, num_true: int, logits: Tensor) -> Any:
    """Return, in the shape of logits, what takes samples that are true classes out of account."""
    rows, places, amounts = compute_accidental_hits(labels, sampled, num_true)
    columns = apply_op("Cast", places, DstT=dtypes.int32)
    at = apply_op("Pack", [apply_op("Cast", rows, DstT=dtypes.int32), columns], axis=1)
    return apply_op("ScatterNd", at, _like(amounts, logits), apply_op("Shape", logits))


@export("nn.nce_loss")
def nce_loss(
    weights: TensorLike,
    biases: TensorLike,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: TensorLike | None = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Tensor:
    """Return the noise-contrastive loss: true classes against a sample of the others.

    Args:
      weights: floating numbers [num_classes, width], or a list of parts; see embedding_lookup.
      biases: [num_classes].
      labels: int64 [batch, num_true].
      inputs: [batch, width].
      num_sampled: how many classes to sample for the batch.
      num_classes: how many classes there are.
      num_true: how many true classes an example has.
      sampled_values: what a sampler of tf.random gave; log_uniform_candidate_sampler by default.
      remove_accidental_hits: whether samples that are true classes count for nothing.
      partition_strategy: which part of weights holds a row, "mod" or "div"; see embedding_lookup.
    Returns: [batch].
    Raises: InvalidArgumentError, when run, for labels of another shape or outside the range.
    Example:
      >>> sampled = tf.random.all_candidate_sampler([[0]], 1, num_sampled=2, unique=True)
      >>> loss = tf.nn.nce_loss(
      ...     tf.zeros([2, 3]), tf.zeros([2]), [[0]], tf.ones([1, 3]), 2, 2, sampled_values=sampled)
      >>> print(tf.Session().run(loss).round(4))
      [2.0794]
    """
    with get_default_graph().name_scope(name or "nce_loss"):
        logits, wanted = _sampled_logits(
            weights, biases, labels, inputs, sampled_values, num_sampled, num_classes, num_true,
            remove_accidental_hits, partition_strategy, None,
        )  # fmt: skip
        losses = sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits)
        made: Tensor = apply_op("Sum", losses, [1])
        return made


@export_v2("nn.nce_loss")
def nce_loss_v2(
    weights: TensorLike,
    biases: TensorLike,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: TensorLike | None = None,
    remove_accidental_hits: bool = False,
    name: str = "nce_loss",
) -> Tensor:
    """Return the noise-contrastive loss: true classes against a sample of the others.

    Args:
      weights: floating numbers [num_classes, width], or a list of parts, each of which holds a run
        of neighbouring rows.
      biases: [num_classes].
      labels: int64 [batch, num_true].
      inputs: [batch, width].
      num_sampled: how many classes to sample for the batch.
      num_classes: how many classes there are.
      num_true: how many true classes an example has.
      sampled_values: what a sampler of tf.random gave; log_uniform_candidate_sampler by default.
      remove_accidental_hits: whether samples that are true classes count for nothing.
    Returns: [batch].
    Raises: InvalidArgumentError for labels of another shape or outside the range.
    Example:
      >>> sampled = tf.random.all_candidate_sampler([[0]], 1, num_sampled=2, unique=True)
      >>> loss = tf.nn.nce_loss(
      ...     tf.zeros([2, 3]), tf.zeros([2]), [[0]], tf.ones([1, 3]), 2, 2, sampled_values=sampled)
      >>> print(loss.numpy().round(4))
      [2.0794]
    """
    return nce_loss(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
        remove_accidental_hits, "div", name,
    )  # fmt: skip


@export("nn.sampled_softmax_loss")
def sampled_softmax_loss(
    weights: TensorLike,
    biases: TensorLike,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: TensorLike | None = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Tensor:
    """Return the cross-entropy of a softmax over the true classes and a sample of the others.

    It is for training alone: it is usually less than the loss over all classes.

    Args:
      weights: floating numbers [num_classes, width], or a list of parts; see embedding_lookup.
      biases: [num_classes].
      labels: int64 [batch, num_true].
      inputs: [batch, width].
      num_sampled: how many classes to sample for the batch.
      num_classes: how many classes there are.
      num_true: how many true classes an example has.
      sampled_values: what a sampler of tf.random gave; log_uniform_candidate_sampler by default.
      remove_accidental_hits: whether samples that are true classes count for nothing.
      partition_strategy: which part of weights holds a row, "mod" or "div"; see embedding_lookup.
      seed: the sampler's, an int.
    Returns: [batch].
    Raises: InvalidArgumentError, when run, for labels of another shape or outside the range.
    Example:
      >>> sampled = tf.random.all_candidate_sampler([[0]], 1, num_sampled=2, unique=True)
      >>> loss = tf.nn.sampled_softmax_loss(
      ...     tf.zeros([2, 3]), tf.zeros([2]), [[0]], tf.ones([1, 3]), 2, 2, sampled_values=sampled)
      >>> print(tf.Session().run(loss).round(4))
      [0.6931]
    """
    with get_default_graph().name_scope(name or "sampled_softmax_loss"):
        logits, wanted = _sampled_logits(
            weights, biases, labels, inputs, sampled_values, num_sampled, num_classes, num_true,
            remove_accidental_hits, partition_strategy, seed,
        )  # fmt: skip
        return softmax_cross_entropy_with_logits_v2(
            labels=apply_op("StopGradient", wanted), logits=logits
        )


@export_v2("nn.sampled_softmax_loss")
def sampled_softmax_loss_v2(
    weights: TensorLike,
    biases: TensorLike,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: TensorLike | None = None,
    remove_accidental_hits: bool = True,
    seed: int | None = None,
    name: str = "sampled_softmax_loss",
) -> Tensor:
    """Return the cross-entropy of a softmax over the true classes and a sample of the others.

    It is for training alone: it is usually less than the loss over all classes.

    Args:
      weights: floating numbers [num_classes, width], or a list of parts, each of which holds a run
        of neighbouring rows.
      biases: [num_classes].
      labels: int64 [batch, num_true].
      inputs: [batch, width].
      num_sampled: how many classes to sample for the batch.
      num_classes: how many classes there are.
      num_true: how many true classes an example has.
      sampled_values: what a sampler of tf.random gave; log_uniform_candidate_sampler by default.
      remove_accidental_hits: whether samples that are true classes count for nothing.
      seed: the sampler's, an int.
    Returns: [batch].
    Raises: InvalidArgumentError for labels of another shape or outside the range.
    Example:
      >>> sampled = tf.random.all_candidate_sampler([[0]], 1, num_sampled=2, unique=True)
      >>> loss = tf.nn.sampled_softmax_loss(
      ...     tf.zeros([2, 3]), tf.zeros([2]), [[0]], tf.ones([1, 3]), 2, 2, sampled_values=sampled)
      >>> print(loss.numpy().round(4))
      [0.6931]
    """
    return sampled_softmax_loss(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
        remove_accidental_hits, "div", name, seed,
    )  # fmt: skip
