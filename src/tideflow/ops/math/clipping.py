"""Limiting values and norms.

Source: cwise_op_clip.cc and clip_ops.py's behaviour, TensorFlow 2.21.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.graph.shape_rules import same_as
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import IndexedSlices, unbroadcast
from tideflow.ops.math.reducing import all_axes
from tideflow.wire.errors import InvalidArgumentError


@op(
    """
ClipByValue(t: T, clip_value_min: T, clip_value_max: T) -> output: T
T: type in numbers
""",
    shape=same_as("t"),
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _clip_by_value(
    xp: ArrayNamespace, t: Array, clip_value_min: Array, clip_value_max: Array
) -> Any:
    for name, bound in (("clip_value_min", clip_value_min), ("clip_value_max", clip_value_max)):
        if bound.shape not in ((), t.shape):
            raise InvalidArgumentError(
                f"{name} must be a scalar or have the shape of t, {list(t.shape)}; "
                f"found {list(bound.shape)}"
            )
    # The upper bound first: where the bounds cross, the lower one is the answer.
    if t.dtype.kind == "c":
        return xp.maximum(xp.minimum(t, clip_value_max), clip_value_min)
    # A bound that is NaN is none.
    below = xp.where(clip_value_max < t, clip_value_max, t)
    return xp.where(below < clip_value_min, clip_value_min, below)


@gradient("ClipByValue")
def _clip_by_value_grad(op: Operation, grad: Tensor) -> list[Any]:
    t, low, high = op.inputs
    zeros = apply_op("ZerosLike", grad)
    below, above = apply_op("Less", t, low), apply_op("Greater", t, high)
    outside = apply_op("LogicalOr", below, above)
    grad_low = apply_op("SelectV2", below, grad, zeros)
    grad_high = apply_op("SelectV2", above, grad, zeros)
    return [
        apply_op("SelectV2", outside, zeros, grad),
        unbroadcast(t, low, None, grad_low)[1],
        unbroadcast(t, high, None, grad_high)[1],
    ]


def _values(t: object) -> Any:
    """Return the values of IndexedSlices, or t itself as a tensor."""
    return convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t)


def _like(t: Any, values: Any) -> Any:
    if isinstance(t, IndexedSlices):
        return IndexedSlices(values, t.indices, t.dense_shape)
    return values


@export("clip_by_value")
def clip_by_value(
    t: TensorLike, clip_value_min: TensorLike, clip_value_max: TensorLike, name: str | None = None
) -> Any:
    """Limit each element to [clip_value_min, clip_value_max].

    The bounds broadcast to t.  IndexedSlices stay slices.

    Args:
      t: numbers, of any shape.
      clip_value_min, clip_value_max: of the type of t.
    Returns: a tensor of the shape and type of t.
    Raises: InvalidArgumentError, or ValueError, where the bounds would make t larger.
    Example:
      >>> tf.clip_by_value([-2.0, 0.5, 3.0], 0.0, 1.0).numpy()
      array([0. , 0.5, 1. ], dtype=float32)
    """
    with get_default_graph().name_scope(name or "clip_by_value") as scope:
        values = _values(t)
        lesser = apply_op("Minimum", values, clip_value_max)
        clipped = apply_op("Maximum", lesser, clip_value_min, name=scope)
        values.shape.merge_with(lesser.shape)
        clipped.set_shape(values.shape)
        return _like(t, clipped)


@export("clip_by_norm")
def clip_by_norm(
    t: TensorLike, clip_norm: TensorLike, axes: TensorLike | None = None, name: str | None = None
) -> Any:
    """Scale t down so that its L2 norm (along axes) is at most clip_norm.

    Args:
      t: floats, of any shape; IndexedSlices stay slices.
      clip_norm: a scalar above 0.
      axes: of each norm; None for one of all elements.
    Returns: a tensor of the shape and type of t.
    """
    with get_default_graph().name_scope(name or "clip_by_norm") as scope:
        values = _values(t)
        squares = apply_op("Mul", values, values)
        total = apply_op("Sum", squares, all_axes(values, axes), keep_dims=True)
        is_positive = apply_op("Greater", total, 0)
        # The root of 0 has no gradient; 1 stands in for it and is taken out again.
        safe = apply_op("SelectV2", is_positive, total, apply_op("OnesLike", total))
        norm = apply_op("SelectV2", is_positive, apply_op("Sqrt", safe), total)
        scaled = apply_op("Mul", values, clip_norm)
        clipped = apply_op("RealDiv", scaled, apply_op("Maximum", norm, clip_norm), name=scope)
        values.shape.merge_with(scaled.shape)
        return _like(t, clipped)


@export("linalg.global_norm", "global_norm")
def global_norm(t_list: Sequence[Any], name: str | None = None) -> Any:
    """Return the L2 norm of all tensors of a list together; None entries do not count.

    Args:
      t_list: tensors of floats, IndexedSlices and None.
    Returns: a scalar.
    Raises: TypeError when t_list is not a list.
    """
    if not isinstance(t_list, (list, tuple)):
        raise TypeError(f"global_norm needs a list of tensors; found {type(t_list).__name__}")
    with get_default_graph().name_scope(name or "global_norm"):
        halves = [apply_op("L2Loss", _values(t)) for t in t_list if t is not None]
        if not halves:
            return convert_to_tensor(np.float32(0))
        total = apply_op("Sum", apply_op("Pack", halves, axis=0), [0])
        return apply_op("Sqrt", apply_op("Mul", total, 2), name="global_norm")


@export("clip_by_global_norm")
def clip_by_global_norm(
    t_list: Sequence[Any],
    clip_norm: TensorLike,
    use_norm: TensorLike | None = None,
    name: str | None = None,
) -> tuple[list[Any], Any]:
    """Scale all tensors of a list by one factor so that their global norm is at most clip_norm.

    Returns: the scaled list, with None where t_list has None, and the norm before.  With an
    infinite or NaN norm every result is NaN.

    Args:
      t_list: tensors of floats, IndexedSlices and None.
      clip_norm: a scalar above 0.
      use_norm: the global norm, where it is known already.
    Raises: TypeError when t_list is not a list.
    """
    if not isinstance(t_list, (list, tuple)):
        raise TypeError(f"clip_by_global_norm needs a list; found {type(t_list).__name__}")
    norm = global_norm(t_list) if use_norm is None else use_norm
    with get_default_graph().name_scope(name or "clip_by_global_norm") as scope:
        norm = convert_to_tensor(norm)
        dtype = norm.dtype.as_numpy_dtype
        one = np.ones((), dtype)
        limit = convert_to_tensor(clip_norm, norm.dtype)
        scale = apply_op(
            "Mul",
            limit,
            apply_op("Minimum", apply_op("RealDiv", one, norm), apply_op("RealDiv", one, limit)),
        )
        # inf - inf is NaN: a norm that is not finite shows in every result.
        scale = apply_op("AddV2", scale, apply_op("Sub", norm, norm))
        names = [f"{scope}_{place}" for place in range(len(t_list))]
        scaled = [
            None if t is None else _like(t, apply_op("Identity", _scaled(t, scale), name=name))
            for t, name in zip(t_list, names)
        ]
        return scaled, norm


def _scaled(t: Tensor, scale: Tensor) -> Any:
    values = _values(t)
    if scale.dtype.base_dtype is not values.dtype.base_dtype:
        scale = apply_op("Cast", scale, DstT=values.dtype)
    return apply_op("Mul", values, scale)


@export("clip_by_average_norm")
def clip_by_average_norm(t: TensorLike, clip_norm: TensorLike, name: str | None = None) -> Any:
    """Scale t down so that its L2 norm over its number of elements is at most clip_norm."""
    with get_default_graph().name_scope(name or "clip_by_average_norm") as scope:
        t = convert_to_tensor(t)
        count = apply_op("Cast", apply_op("Size", t), DstT=t.dtype)
        total = apply_op("Sum", apply_op("Square", t), all_axes(t, None))
        inverse = apply_op("Mul", apply_op("Rsqrt", total), count)
        one = np.ones((), t.dtype.as_numpy_dtype)
        limit = apply_op("RealDiv", one, convert_to_tensor(clip_norm, t.dtype))
        scaled = apply_op("Mul", t, clip_norm)
        return apply_op("Mul", scaled, apply_op("Minimum", inverse, limit), name=scope)
