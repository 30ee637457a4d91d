"""The loss of pairs of predictions.

Source: tensorflow/python/ops/losses/losses_impl.py for names and rules.
"""

from __future__ import annotations

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.math.casts import as_float
from tideflow.ops.nn.weighted_losses import check_weights
from tideflow.wire import dtypes


@export("losses.mean_pairwise_squared_error")
def mean_pairwise_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
) -> Tensor:
    """Return the squared difference between differences of predictions and those of labels.

    It is the mean over all pairs of elements of an example, and the sum over the examples.

    Args:
      labels: [batch, ...].
      predictions: in the shape of labels.
      weights: what each example counts: a scalar, or [batch, 1, ...].
      scope: the name scope of the operations.
      loss_collection: the collection to which the result is added; None for none.
    Raises: ValueError for shapes that differ.
    Example:
      >>> loss = tf.losses.mean_pairwise_squared_error([[1.0, 2.0]], [[1.0, 4.0]])
      >>> with tf.Session() as session:
      ...     print(session.run(loss))
      4.0
    """
    if labels is None or predictions is None:
        raise ValueError("labels and predictions must both be given")
    graph = get_default_graph()
    with graph.name_scope(scope or "mean_pairwise_squared_error"):
        guess, truth = as_float(predictions), as_float(labels)
        if not guess.shape.is_compatible_with(truth.shape):
            raise ValueError(f"Shapes {guess.shape} and {truth.shape} are incompatible")
        scale = as_float(weights)
        check_weights(scale, truth)
        delta = apply_op("Sub", guess, truth)
        inner = apply_op("Range", 1, apply_op("Rank", delta), 1)
        squares = apply_op("Sum", apply_op("Square", delta), inner, keep_dims=True)
        sums = apply_op("Sum", delta, inner, keep_dims=True)
        is_present = apply_op("NotEqual", scale + apply_op("ZerosLike", delta), 0.0)
        counts = apply_op("Cast", is_present, DstT=dtypes.float32)
        count = apply_op("Sum", counts, inner, keep_dims=True)
        # Of all pairs of n elements: n sum(d^2) - sum(d)^2, over n (n - 1) / 2.
        others = apply_op("Maximum", count - 1.0, 0.0)
        first = apply_op("DivNoNan", squares, others)
        second = apply_op("DivNoNan", apply_op("Square", sums), count * others)
        losses = apply_op("Mul", 2.0 * (first - second), scale)
        total = apply_op("Sum", apply_op("Reshape", losses, [-1]), 0)
        is_any = apply_op("Any", apply_op("Reshape", is_present, [-1]), 0)
        made: Tensor = apply_op("SelectV2", is_any, total, 0.0, name="value")
        if loss_collection:
            graph.add_to_collection(loss_collection, made)
        return made
