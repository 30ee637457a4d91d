"""Functions of TensorFlow 1 that few programs call: losses, checks of numbers, parts of variables.

Source: tensorflow/python/ops/losses/losses_impl.py, numerics.py, partitioned_variables.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.control_flow import control_dependencies, group
from tideflow.ops.export import export
from tideflow.ops.framework import check_numerics
from tideflow.ops.math.casts import as_float
from tideflow.ops.nn.weighted_losses import check_weights
from tideflow.ops.state.scopes import get_partitioned_variable, variable_scope
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


@export("add_check_numerics_ops")
def add_check_numerics_ops() -> Operation:
    """Return an operation that fails if any float of the graph is infinite or no number.

    Raises: RuntimeError where operations are called at once; ValueError for a graph with branches
      or loops of TensorFlow 1.
    """
    graph = get_default_graph()
    if graph.is_eager:
        raise RuntimeError(
            "add_check_numerics_ops() is not compatible with eager execution. To check for Inf's "
            "and NaN's under eager execution, call tf.debugging.enable_check_numerics() once "
            "before executing the checked operations."
        )
    checks: list[Any] = []
    floats = (dtypes.float16, dtypes.float32, dtypes.float64)
    for op in graph.get_operations():
        for output in op.outputs:
            if output.dtype not in floats:
                continue
            if op.control_flow_context is not graph.control_flow_context:
                raise ValueError(
                    "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow "
                    "operations such as `tf.cond()` or `tf.while_loop()`."
                )
            with control_dependencies(checks):
                checks = [check_numerics(output, f"{op.name}:{output.value_index}")]
    return group(*checks)


@export("create_partitioned_variables")
def create_partitioned_variables(
    shape: Sequence[int],
    slicing: Sequence[int],
    initializer: Callable[..., Any] | Any,
    dtype: DTypeLike = dtypes.float32,
    trainable: bool = True,
    collections: Sequence[str] | None = None,
    name: str | None = None,
    reuse: bool | None = None,
) -> list[Any]:
    """Return the parts of one variable, cut along one dimension.

    Args:
      shape: of the whole.
      slicing: into how many parts each dimension is cut; at most one number is above 1.
      name: "PartitionedVariable" by default; the parts are `name/part_0` and so on.
    Raises: ValueError for a slicing that does not fit.
    """
    if len(shape) != len(slicing):
        raise ValueError(
            "The 'shape' and 'slicing' of a partitioned Variable must have the length: shape: "
            f"{shape}, slicing: {slicing}"
        )
    if not shape:
        raise ValueError(f"A partitioned Variable must have rank at least 1: shape: {shape}")
    with variable_scope(name, "PartitionedVariable", reuse=reuse) as scope:
        return list(
            get_partitioned_variable(
                scope, shape, list(slicing), initializer, dtype, trainable, collections
            )
        )


@export("user_ops.my_fact")
def my_fact() -> Tensor:
    """Return a fact about factorials: a string."""
    made: Tensor = apply_op("Fact")
    return made
