"""Biases, dense layers of one line, and L2Loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, scalar, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.nn.activations import relu, wide
from tideflow.wire import errors


def _bias_add_shape(c: ShapeContext) -> list[Dims]:
    value, bias = c.inputs
    size = with_rank(bias, 1, "bias")[0]
    if value is None:
        return [None]
    nchw = c.attrs.get("data_format") == "NCHW"
    if len(value) < (3 if nchw else 2):
        raise ValueError(f"value of shape {shapes.format_dims(value)} has too few dimensions")
    channel = 1 if nchw else len(value) - 1
    found = shapes.merge((value[channel],), (size,))
    assert found is not None
    return [(*value[:channel], found[0], *value[channel + 1 :])]


def _check_bias(value: Any, bias: Any, channels: int) -> None:
    if bias.shape != (channels,):
        raise errors.InvalidArgumentError(
            f"bias has shape {list(bias.shape)}; value {list(value.shape)} wants [{channels}]"
        )


@op(
    """
    BiasAdd(value: T, bias: T) -> output: T
    T: type in numbers
    data_format: string in {NHWC, NCHW} = 'NHWC'
    """,
    shape=_bias_add_shape,
    compiles=Compiles.ALWAYS,
)
def bias_add_kernel(xp: ArrayNamespace, value: Array, bias: Array, *, data_format: str) -> Any:
    if data_format == "NCHW":
        _check_bias(value, bias, value.shape[1])
        return xp.add(value, bias.reshape((-1,) + (1,) * (value.ndim - 2)))
    if value.shape[-1:] != bias.shape:
        _check_bias(value, bias, value.shape[-1] if value.ndim else 1)
    return xp.add(value, bias)


@op(
    """
    BiasAddV1(value: T, bias: T) -> output: T
    T: type in numbers
    """,
    shape=_bias_add_shape,
    compiles=Compiles.ALWAYS,
)
def bias_add_v1_kernel(xp: ArrayNamespace, value: Array, bias: Array) -> Any:
    return bias_add_kernel(xp, value, bias, data_format="NHWC")


def _bias_add_grad_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    if given is None:
        return [(None,)]
    nchw = c.attrs["data_format"] == "NCHW"
    if len(given) < (3 if nchw else 2):
        raise ValueError(f"gradient of shape {shapes.format_dims(given)} has too few dimensions")
    return [(given[1] if nchw else given[-1],)]


@op(
    """
    BiasAddGrad(out_backprop: T) -> output: T
    T: type in numbers
    data_format: string in {NHWC, NCHW} = 'NHWC'
    """,
    shape=_bias_add_grad_shape,
    compiles=Compiles.ALWAYS,
)
def bias_add_grad_kernel(xp: ArrayNamespace, out_backprop: Array, *, data_format: str) -> Any:
    if not out_backprop.ndim:
        raise errors.InvalidArgumentError("out_backprop must have channels; found a scalar")
    if data_format == "NCHW":
        axes: Any = (0, *range(2, out_backprop.ndim))
    else:
        axes = tuple(range(out_backprop.ndim - 1))
    if xp is np and out_backprop.dtype.itemsize > 2:
        return np.add.reduce(out_backprop, axis=axes, dtype=out_backprop.dtype)
    dtype = out_backprop.dtype
    return xp.sum(_accumulated(xp, out_backprop), axis=axes).astype(dtype)


def _accumulated(xp: ArrayNamespace, x: Array) -> Any:
    """Return x in the type in which it is summed."""
    return x if x.dtype.kind in "iu" else wide(xp, x)


@gradient("BiasAdd")
def bias_add_gradient(op: Operation, grad: Tensor) -> list[Any]:
    return [grad, apply_op("BiasAddGrad", grad, data_format=op.attrs["data_format"])]


@gradient("BiasAddV1")
def bias_add_v1_gradient(op: Operation, grad: Tensor) -> list[Any]:
    return [grad, apply_op("BiasAddGrad", grad)]


@gradient("BiasAddGrad")
def bias_add_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Spread the gradient of a sum over what was summed."""
    given = op.inputs[0]
    zeros = apply_op("ZerosLike", given)
    return [apply_op("BiasAdd", zeros, grad, data_format=op.attrs["data_format"])]


@export("nn.bias_add")
def bias_add(
    value: TensorLike, bias: TensorLike, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """Add a vector to every position of a tensor.

    Args:
      value: numbers [batch, ..., channels], or [batch, channels, ...] when data_format begins with
        "NC".
      bias: [channels], of the type of value.
      data_format: "NHWC" and the like, or "NCHW" and the like.
    Returns: a tensor of the shape and type of value.
    Raises: ValueError for another data_format.
    Example:
      >>> print(tf.nn.bias_add([[1.0, 2.0]], [10.0, 20.0]).numpy())
      [[11. 22.]]
    """
    layout = _plain_data_format(data_format)
    with get_default_graph().name_scope(name or "BiasAdd") as scope:
        value = convert_to_tensor(value)
        bias = convert_to_tensor(bias, value.dtype.base_dtype)
        made: Tensor = apply_op("BiasAdd", value, bias, data_format=layout, name=scope)
        return made


def _plain_data_format(data_format: str | None) -> str:
    if data_format is None:
        return "NHWC"
    if data_format.startswith("NC"):
        return "NCHW"
    if data_format.startswith("N") and data_format.endswith("C"):
        return "NHWC"
    raise ValueError(f"data_format {data_format!r} must be of the form N...C or NC...")


@export("nn.xw_plus_b")
def xw_plus_b(
    x: TensorLike, weights: TensorLike, biases: TensorLike, name: str | None = None
) -> Tensor:
    """Return x @ weights + biases.

    Args:
      x: [batch, in].
      weights: [in, out].
      biases: [out].
    Returns: [batch, out].
    Example:
      >>> total = tf.nn.xw_plus_b([[1.0, 2.0]], [[1.0], [1.0]], [0.5])
      >>> tf.Session().run(total).tolist()
      [[3.5]]
    """
    with get_default_graph().name_scope(name or "xw_plus_b") as scope:
        made: Tensor = apply_op("BiasAdd", apply_op("MatMul", x, weights), biases, name=scope)
        return made


@export("nn.relu_layer")
def relu_layer(
    x: TensorLike, weights: TensorLike, biases: TensorLike, name: str | None = None
) -> Tensor:
    """Return relu(x @ weights + biases).

    Args:
      x: [batch, in].
      weights: [in, out].
      biases: [out].
    Returns: [batch, out].
    Example:
      >>> layer = tf.nn.relu_layer([[1.0, 2.0]], [[1.0], [-1.0]], [0.5])
      >>> tf.Session().run(layer).tolist()
      [[0.0]]
    """
    with get_default_graph().name_scope(name or "relu_layer") as scope:
        return relu(apply_op("BiasAdd", apply_op("MatMul", x, weights), biases), name=scope)


@op(
    """
    L2Loss(t: T) -> output: T
    T: type in floats
    """,
    shape=scalar,
    compiles=Compiles.ALWAYS,
)
def l2_loss_kernel(xp: ArrayNamespace, t: Array) -> Any:
    flat = wide(xp, t).reshape(-1)
    return (xp.dot(flat, flat) / 2).astype(t.dtype)


@gradient("L2Loss")
def l2_loss_gradient(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("Mul", op.inputs[0], grad)]


@export("nn.l2_loss")
def l2_loss(t: TensorLike, name: str | None = None) -> Tensor:
    """Return half the sum of squares, sum(t^2) / 2.

    Args:
      t: floating numbers of any shape.
    Returns: a scalar of the type of t.
    Example:
      >>> float(tf.nn.l2_loss([3.0, 4.0]))
      12.5
    """
    made: Tensor = apply_op("L2Loss", t, name=name)
    return made
