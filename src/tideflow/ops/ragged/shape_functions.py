"""Functions that take or give shapes of ragged tensors: tf.shape, tf.reshape, tf.ones and others.

Source: tensorflow/python/ops/ragged/ragged_array_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.ops.export import arguments_of, overload_each
from tideflow.ops.ragged.broadcasting import broadcast_shapes, broadcast_to
from tideflow.ops.ragged.dynamic_shape import DynamicRaggedShape
from tideflow.ops.ragged.tensor import RaggedTensor
from tideflow.wire import dtypes


def _shape_of(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = arguments_of(function, args, kwargs)
    if not isinstance(given["input"], RaggedTensor):
        return function(*args, **kwargs)
    return DynamicRaggedShape.from_tensor(given["input"], given.get("out_type", dtypes.int32))


def _reshaped(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = arguments_of(function, args, kwargs)
    tensor, shape = given.pop("tensor"), given.pop("shape")
    flat = tensor.flat_values if isinstance(tensor, RaggedTensor) else tensor
    if isinstance(shape, DynamicRaggedShape):
        return shape.add_rows(function(flat, shape.inner_shape, **given))
    return function(flat, shape, **given)


def _broadcast(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = arguments_of(function, args, kwargs)
    if not isinstance(given["shape"], DynamicRaggedShape):
        return function(*args, **kwargs)
    return broadcast_to(given["input"], given["shape"])


def _broadcast_shape(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = arguments_of(function, args, kwargs)
    shapes = [
        each if isinstance(each, DynamicRaggedShape) else DynamicRaggedShape([], each)
        for each in (given["shape_x"], given["shape_y"])
    ]
    return broadcast_shapes(*shapes)


def _filled(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return tf.ones, tf.zeros or tf.fill of a shape, their first argument."""
    given = arguments_of(function, args, kwargs)
    first = next(iter(given))
    shape = given.pop(first)
    if not isinstance(shape, DynamicRaggedShape):
        return function(*args, **kwargs)
    return shape.add_rows(function(shape.inner_shape, **given))


overload_each("shape", _shape_of)
overload_each("reshape", _reshaped)
overload_each("broadcast_to", _broadcast)
overload_each("broadcast_dynamic_shape", _broadcast_shape)
for _name in ("ones", "zeros", "fill"):
    overload_each(_name, _filled)
