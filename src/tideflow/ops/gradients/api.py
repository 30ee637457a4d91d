"""Symbolic gradients: what of ys changes with xs, as further operations of the graph.

Source: tensorflow/python/ops/gradients_impl.py.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.collection import collection_paused
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import IndexedSlices, gradient_scope
from tideflow.ops.gradients.control_flow import ControlFlowGradients
from tideflow.ops.gradients.walk import (
    Walk,
    WalkOptions,
    aggregate,
    is_trainable,
    zeros_like_output,
)

__all__ = [
    "AggregationMethod",
    "UnconnectedGradients",
    "aggregate",
    "gradients",
    "is_trainable",
    "zeros_like_output",
]


@export("UnconnectedGradients")
class UnconnectedGradients(Enum):
    """What gradients() gives for an x on which no y depends."""

    NONE = "none"
    ZERO = "zero"


@export("AggregationMethod")
class AggregationMethod:
    """How gradients that meet are summed.  All are accepted and sum alike, with AddN."""

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


@export("gradients")
@collection_paused()
def gradients(
    ys: object,
    xs: object,
    grad_ys: object | None = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: object | None = None,
    unconnected_gradients: object = UnconnectedGradients.NONE,
) -> list[Any]:
    """Return the gradients of the sum of ys with respect to each x.

    Args:
      ys: a tensor or a list of them.
      xs: a tensor or variable, or a list of them.
      grad_ys: gradients arriving at ys, each of the shape of its y or None for ones.
      colocate_gradients_with_ops: place the gradient of an op where the op is.
      gate_gradients: let the gradients of one op's inputs be used only when all are computed.
      aggregation_method: one of AggregationMethod.
      stop_gradients: a tensor, or a list of them, taken as constants.
      unconnected_gradients: None or zeros for an x on which no y depends.
    Returns: for each x a Tensor, an IndexedSlices (from gathers), or None.
    Raises: LookupError for an op whose gradient is not known; TypeError for a
    complex y without grad_ys; ValueError for gradients of wrong shape or number.
    """
    if aggregation_method not in (None, 0, 1, 2):
        raise ValueError(f"aggregation_method is {aggregation_method!r}; use tf.AggregationMethod")
    graph = get_default_graph()
    y_list = [convert_to_tensor(_target(y)) for y in as_list(ys)]
    x_list = [differentiable(x) for x in as_list(xs)]
    stops = [differentiable(s) for s in as_list([] if stop_gradients is None else stop_gradients)]
    unconnected = UnconnectedGradients(unconnected_gradients)
    options = WalkOptions(colocate_gradients_with_ops, gate_gradients)
    with graph.name_scope(name or "gradients") as scope, gradient_scope(graph, scope):
        walk = Walk(graph, y_list, x_list, stops, options, ControlFlowGradients.here(graph))
        walk.seed(as_list(grad_ys) if grad_ys is not None else [None] * len(y_list))
        walk.run()
        found = [walk.gradient_of(x) for x in x_list]
        if unconnected is UnconnectedGradients.ZERO:
            found = [zeros_like_output(x) if g is None else g for x, g in zip(x_list, found)]
    return found


def as_list(values: object) -> list[Any]:
    """Return the members of a list or tuple; a list of what is none."""
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _target(y: TensorLike) -> Any:
    """Return what to differentiate for a y: a handle for a resource variable."""
    return y.values if isinstance(y, IndexedSlices) else y


def differentiable(x: TensorLike) -> Tensor:
    """Return the tensor that stands for x: a variable's handle or reference."""
    if isinstance(x, Tensor):
        return x
    handle = getattr(x, "handle", None)
    if isinstance(handle, Tensor):
        return handle
    reference = getattr(x, "_ref", None)
    found = reference() if callable(reference) else None
    if isinstance(found, Tensor):
        return found
    if isinstance(x, IndexedSlices):
        values: Tensor = x.values
        return values
    return convert_to_tensor(x)
