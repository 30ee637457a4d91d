"""How losses are weighted and reduced, and the collections in which they are gathered."""

from __future__ import annotations

from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.math.casts import as_float


@export("losses.Reduction")
class Reduction:
    """How the losses of a batch become one number.

    NONE leaves them as they are; SUM adds them; MEAN divides the sum by the sum of weights;
    SUM_OVER_BATCH_SIZE by the number of losses; SUM_BY_NONZERO_WEIGHTS (the default) by the number
    of weights that are not 0.

    Example:
      >>> loss = tf.losses.absolute_difference(
      ...     [1.0, 2.0], [2.0, 4.0], reduction=tf.losses.Reduction.SUM
      ... )
      >>> float(tf.Session().run(loss))
      3.0
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
    def validate(cls, key: TensorLike) -> None:
        """Raise ValueError for anything that is no reduction."""
        if key not in cls.all():
            raise ValueError(f"{key!r} is no reduction; use one of {', '.join(cls.all())}")


DEFAULT_REDUCTION = Reduction.SUM_BY_NONZERO_WEIGHTS


@export("losses.compute_weighted_loss")
def compute_weighted_loss(
    losses: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = DEFAULT_REDUCTION,
) -> Tensor:
    """Weight losses, reduce them, and add the result to a collection.

    Args:
      losses: numbers of any shape and type.
      weights: what each loss counts: a scalar, or a tensor of the losses' rank with 1 or the
        losses' size in each dimension.
      scope: the name scope of the operations.
      loss_collection: the collection to which the result is added; None for none.
      reduction: one of tf.losses.Reduction.
    Returns: a scalar of the type of losses; for Reduction.NONE the weighted losses, in their shape.
    Raises: ValueError for another reduction, or weights that do not broadcast to the losses.
    Example:
      >>> loss = tf.losses.compute_weighted_loss([1.0, 2.0, 3.0], weights=[1.0, 0.0, 1.0])
      >>> float(tf.Session().run(loss))
      2.0
    """
    Reduction.validate(reduction)
    with get_default_graph().name_scope(scope or "weighted_loss"):
        given = convert_to_tensor(losses)
        values = as_float(given)
        factors = as_float(convert_to_tensor(weights))
        check_weights(factors, values)
        weighted = apply_op("Mul", values, factors)
        found: Tensor = _reduced(weighted, values, factors, reduction)
        if found.dtype.base_dtype is not given.dtype.base_dtype:
            found = apply_op("Cast", found, DstT=given.dtype)
        add_loss(found, loss_collection)
        return found


def check_weights(weights: Tensor, values: Tensor) -> None:
    """Raise ValueError for weights that do not broadcast to values."""
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
def add_loss(loss: TensorLike, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Add a loss to a collection of the default graph.

    Args:
      loss: the tensor.
      loss_collection: the collection; None for none.
    Example:
      >>> tf.losses.add_loss(tf.constant(1.0))
      >>> len(tf.losses.get_losses())
      1
    """
    if loss_collection:
        get_default_graph().add_to_collection(loss_collection, loss)


@export("losses.get_losses")
def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Any]:
    """Return the losses in a collection of the default graph.

    Args:
      scope: a regular expression that the start of a loss's name must match; None for all.
      loss_collection: the collection.
    Returns: a list of tensors, in the order in which they were added.
    Example:
      >>> _ = tf.losses.absolute_difference([1.0], [2.0], scope="first")
      >>> _ = tf.losses.absolute_difference([1.0], [3.0], scope="second")
      >>> [loss.name for loss in tf.losses.get_losses("second")]
      ['second/value:0']
    """
    return get_default_graph().get_collection(loss_collection, scope)


@export("losses.get_regularization_losses")
def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """Return the losses that regularizers of variables have added to the default graph.

    Args:
      scope: a regular expression that the start of a loss's name must match; None for all.
    Returns: a list of scalars.
    Example:
      >>> shrink = lambda value: 0.1 * tf.reduce_sum(value)
      >>> _ = tf.get_variable("w", initializer=[1.0, 2.0], regularizer=shrink)
      >>> len(tf.losses.get_regularization_losses())
      1
    """
    return get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


@export("losses.get_regularization_loss")
def get_regularization_loss(
    scope: str | None = None, name: str = "total_regularization_loss"
) -> Tensor:
    """Return the sum of the losses that regularizers have added; 0 when there are none.

    Args:
      scope: a regular expression that the start of a loss's name must match; None for all.
      name: the name of the operation.
    Returns: a scalar.
    Example:
      >>> float(tf.Session().run(tf.losses.get_regularization_loss()))
      0.0
    """
    found = get_regularization_losses(scope)
    made: Tensor = apply_op("AddN", found, name=name) if found else convert_to_tensor(0.0)
    return made


@export("losses.get_total_loss")
def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """Return the sum of all losses of the default graph.

    Args:
      add_regularization_losses: whether those of regularizers count.
      name: the name of the operation.
      scope: a regular expression that the start of a loss's name must match; None for all.
    Returns: a scalar.
    Raises: ValueError when there are none.
    Example:
      >>> _ = tf.losses.absolute_difference([1.0], [2.0])
      >>> _ = tf.losses.mean_squared_error([1.0], [3.0])
      >>> float(tf.Session().run(tf.losses.get_total_loss()))
      5.0
    """
    found = get_losses(scope)
    if add_regularization_losses:
        found = found + get_regularization_losses(scope)
    if not found:
        raise ValueError("the graph has no losses to add up")
    made: Tensor = apply_op("AddN", found, name=name)
    return made
