"""Losses of the examples of one replica, scaled so that replicas add up to the whole.

Source: tensorflow/python/ops/nn_impl_distribute.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.distribute.replica_context import (
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.ops.export import export_v2
from tideflow.ops.nn import Reduction, compute_weighted_loss


def _require_replica(what: str) -> None:
    if has_strategy() and in_cross_replica_context():
        raise RuntimeError(f"call {what} inside of a replica, in what strategy.run runs")


@export_v2("nn.compute_average_loss")
def compute_average_loss(
    per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None
) -> Tensor:
    """Return the sum of a replica's losses over the size of the whole batch.

    Args:
      per_example_loss: a loss for each example, of rank 1 at least.
      sample_weight: a weight for each example; it broadcasts.
      global_batch_size: of all replicas together; by default this one's, times their number.
    Raises: ValueError for a scalar loss or a batch size that is no scalar; TypeError for one that
    is no integer; RuntimeError outside of a replica.
    """
    losses = convert_to_tensor(per_example_loss)
    if losses.shape.rank == 0:
        raise ValueError("per_example_loss must have a loss for each example; found a scalar")
    if sample_weight is not None:
        weights = convert_to_tensor(sample_weight)
        losses = compute_weighted_loss(
            losses, weights, loss_collection=None, reduction=Reduction.NONE
        )
    _require_replica("compute_average_loss")
    size: Any
    if global_batch_size is None:
        count = apply_op("GatherV2", apply_op("Shape", losses), 0, 0)
        size = apply_op("Mul", count, get_strategy().num_replicas_in_sync)
    else:
        size = convert_to_tensor(global_batch_size)
        if size.shape.rank not in (None, 0):
            raise ValueError(f"global_batch_size must be a scalar; its shape is {size.shape}")
        if not size.dtype.is_integer:
            raise TypeError(f"global_batch_size must be an integer; found {size.dtype.name}")
    axes = apply_op("Range", 0, apply_op("Rank", losses), 1)
    total = apply_op("Sum", losses, axes)
    made: Tensor = apply_op("RealDiv", total, apply_op("Cast", size, DstT=losses.dtype))
    return made


@export_v2("nn.scale_regularization_loss")
def scale_regularization_loss(regularization_loss: Any) -> Tensor:
    """Return the sum of a loss over the number of replicas, each of which adds it.

    Raises: RuntimeError outside of a replica.
    """
    _require_replica("scale_regularization_loss")
    loss = convert_to_tensor(regularization_loss)
    axes = apply_op("Range", 0, apply_op("Rank", loss), 1)
    count = convert_to_tensor(float(get_strategy().num_replicas_in_sync), loss.dtype)
    made: Tensor = apply_op("RealDiv", apply_op("Sum", loss, axes), count)
    return made
