"""Activation functions: Relu and its kin, with their gradient ops.

Types of 16 bits are computed in float32 where a formula has more than one rounding.
Source: tensorflow/core/kernels/relu_op_functor.h, softplus_op.h, softsign_op.h.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import merged, same_as
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import of_one_shape
from tideflow.wire.dtypes import DType

# Klambauer et al. 2017: the fixed point of a unit's mean 0 and variance 1.
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


# Elements from which on Relu pays for looking up a row of zeros.
_LARGE = 2048


def wide(xp: Any, x: Any) -> Any:
    """Return a floating array as float32 if its type has 16 bits, else as it is."""
    return x.astype(xp.float32) if x.dtype.itemsize == 2 else x


@op(
    """
    Relu(features: T) -> activations: T
    T: type in {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8}
    """,  # noqa: E501 - one attr, one line
    shape=same_as(),
    compiles=Compiles.ALWAYS,
)
def relu_kernel(xp: ArrayNamespace, features: Array) -> Any:
    if xp is np and features.size > _LARGE and features.ndim > 1:
        # NumPy's loop over two arrays is vectorised, its loop over array and scalar is not.
        return np.maximum(features, _zero_row(features.shape[-1], features.dtype))
    return xp.maximum(features, 0)


@functools.lru_cache(maxsize=64)
def _zero_row(size: int, dtype: DType) -> Any:
    return np.zeros(size, dtype)


@op(
    """
    ReluGrad(gradients: T, features: T) -> backprops: T
    T: type in reals
    """,
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def relu_grad_kernel(xp: ArrayNamespace, gradients: Array, features: Array) -> Any:
    # A product with the mask is several times faster in NumPy than `where`.
    return gradients * (features > 0)


@gradient("Relu")
def relu_gradient(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("ReluGrad", grad, op.outputs[0])]


@gradient("ReluGrad")
def relu_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    features = op.inputs[1]
    return [apply_op("ReluGrad", grad, features), apply_op("ZerosLike", features)]


@export("nn.relu")
def relu(features: TensorLike, name: str | None = None) -> Tensor:
    """Return the rectified linear unit of features, element by element.

    max(features, 0)

    Args:
      features: real numbers of any shape.
    Returns: a tensor of the argument's shape and type.
    Example:
      >>> print(tf.nn.relu([-1.0, 2.0]).numpy().round(4))
      [0. 2.]
    """
    return _apply("Relu", features, name=name)


@op(
    """
    Relu6(features: T) -> activations: T
    T: type in reals
    """,
    shape=same_as(),
    compiles=Compiles.ALWAYS,
)
def relu6_kernel(xp: ArrayNamespace, features: Array) -> Any:
    return xp.minimum(xp.maximum(features, 0), 6)


@op(
    """
    Relu6Grad(gradients: T, features: T) -> backprops: T
    T: type in reals
    """,
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def relu6_grad_kernel(xp: ArrayNamespace, gradients: Array, features: Array) -> Any:
    return gradients * ((features > 0) & (features < 6))


@gradient("Relu6")
def relu6_gradient(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("Relu6Grad", grad, op.outputs[0])]


@gradient("Relu6Grad")
def relu6_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    features = op.inputs[1]
    return [apply_op("Relu6Grad", grad, features), apply_op("ZerosLike", features)]


@export("nn.relu6")
def relu6(features: TensorLike, name: str | None = None) -> Tensor:
    """Return the rectified linear unit of features, at most 6.

    min(max(features, 0), 6)

    Args:
      features: real numbers of any shape.
    Returns: a tensor of the argument's shape and type.
    Source: A. Krizhevsky, Convolutional Deep Belief Networks on CIFAR-10, 2010.
    Example:
      >>> print(tf.nn.relu6([-1.0, 2.0, 9.0]).numpy().round(4))
      [0. 2. 6.]
    """
    return _apply("Relu6", features, name=name)


@op(
    """
    LeakyRelu(features: T) -> activations: T
    alpha: float = 0.20000000298023224
    T: type in floats = float
    """,
    shape=same_as(),
    compiles=Compiles.ALWAYS,
)
def leaky_relu_kernel(xp: ArrayNamespace, features: Array, *, alpha: float) -> Any:
    slope = features.dtype.type(alpha)
    return xp.where(features > 0, features, features * slope)


@op(
    """
    LeakyReluGrad(gradients: T, features: T) -> backprops: T
    alpha: float = 0.20000000298023224
    T: type in floats = float
    """,
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def leaky_relu_grad_kernel(
    xp: ArrayNamespace, gradients: Array, features: Array, *, alpha: float
) -> Any:
    slope = features.dtype.type(alpha)
    return xp.where(features > 0, gradients, gradients * slope)


@gradient("LeakyRelu")
def leaky_relu_gradient(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("LeakyReluGrad", grad, op.inputs[0], alpha=op.attrs["alpha"])]


@gradient("LeakyReluGrad")
def leaky_relu_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    features = op.inputs[1]
    return [
        apply_op("LeakyReluGrad", grad, features, alpha=op.attrs["alpha"]),
        apply_op("ZerosLike", features),
    ]


@export("nn.leaky_relu")
def leaky_relu(features: TensorLike, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """Return features where positive, and a small share of them elsewhere.

    max(features, alpha * features)

    Args:
      features: real numbers of any shape; integers become float32.
      alpha: the share, a number.
    Returns: a tensor of the argument's shape and type.
    Source: A. L. Maas et al., Rectifier Nonlinearities Improve Neural Network Acoustic Models,
      2013.
    Example:
      >>> print(tf.nn.leaky_relu([-1.0, 2.0]).numpy().round(4))
      [-0.2  2. ]
    """
    features = convert_to_tensor(features)
    if features.dtype.is_integer:
        features = apply_op("Cast", features, DstT="float")
    return _apply("LeakyRelu", features, alpha=alpha, name=name or "LeakyRelu")


@op(
    """
    Elu(features: T) -> activations: T
    T: type in floats
    """,
    shape=same_as(),
    compiles=Compiles.ALWAYS,
)
def elu_kernel(xp: ArrayNamespace, features: Array) -> Any:
    x = wide(xp, features)
    return xp.where(x < 0, xp.expm1(xp.minimum(x, 0)), x).astype(features.dtype)


@op(
    """
    EluGrad(gradients: T, outputs: T) -> backprops: T
    T: type in floats
    """,
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def elu_grad_kernel(xp: ArrayNamespace, gradients: Array, outputs: Array) -> Any:
    return xp.where(outputs < 0, gradients * (outputs + outputs.dtype.type(1)), gradients)


@gradient("Elu")
def elu_gradient(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("EluGrad", grad, op.outputs[0])]


@gradient("EluGrad")
def elu_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    gradients, outputs = op.inputs
    # d/d(outputs) is gradients where outputs < 0, and nothing elsewhere.
    is_negative = apply_op("Less", outputs, apply_op("ZerosLike", outputs))
    product = apply_op("Mul", grad, gradients)
    masked = apply_op("SelectV2", is_negative, product, apply_op("ZerosLike", product))
    return [apply_op("EluGrad", grad, outputs), masked]


@export("nn.elu")
def elu(features: TensorLike, name: str | None = None) -> Tensor:
    """Return the exponential linear unit of features.

    exp(features) - 1 where negative, features elsewhere

    Args:
      features: floating numbers of any shape.
    Returns: a tensor of the argument's shape and type.
    Source: D.-A. Clevert et al., Fast and Accurate Deep Network Learning by ELUs, 2015.
    Example:
      >>> print(tf.nn.elu([-1.0, 2.0]).numpy().round(4))
      [-0.6321  2.    ]
    """
    return _apply("Elu", features, name=name)


@op(
    """
    Selu(features: T) -> activations: T
    T: type in floats
    """,
    shape=same_as(),
    compiles=Compiles.ALWAYS,
)
def selu_kernel(xp: ArrayNamespace, features: Array) -> Any:
    x = wide(xp, features)
    negative = _SELU_SCALE_ALPHA * xp.expm1(xp.minimum(x, 0))
    return xp.where(x < 0, negative, _SELU_SCALE * x).astype(features.dtype)


@op(
    """
    SeluGrad(gradients: T, outputs: T) -> backprops: T
    T: type in floats
    """,
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def selu_grad_kernel(xp: ArrayNamespace, gradients: Array, outputs: Array) -> Any:
    g, y = wide(xp, gradients), wide(xp, outputs)
    found = xp.where(y < 0, g * (y + _SELU_SCALE_ALPHA), g * _SELU_SCALE)
    return found.astype(gradients.dtype)


@gradient("Selu")
def selu_gradient(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("SeluGrad", grad, op.outputs[0])]


@gradient("SeluGrad")
def selu_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    gradients, outputs = op.inputs
    is_negative = apply_op("Less", outputs, apply_op("ZerosLike", outputs))
    product = apply_op("Mul", grad, gradients)
    masked = apply_op("SelectV2", is_negative, product, apply_op("ZerosLike", product))
    return [apply_op("SeluGrad", grad, outputs), masked]


@export("nn.selu")
def selu(features: TensorLike, name: str | None = None) -> Tensor:
    """Return the scaled exponential linear unit of features.

    scale * alpha * (exp(features) - 1) where negative, scale * features elsewhere, with scale
    1.0507
    and alpha 1.6733

    Args:
      features: floating numbers of any shape.
    Returns: a tensor of the argument's shape and type.
    Source: G. Klambauer et al., Self-Normalizing Neural Networks, 2017.
    Example:
      >>> print(tf.nn.selu([-1.0, 1.0]).numpy().round(4))
      [-1.1113  1.0507]
    """
    return _apply("Selu", features, name=name)


@op(
    """
    Softplus(features: T) -> activations: T
    T: type in floats
    """,
    shape=same_as(),
    compiles=Compiles.ALWAYS,
)
def softplus_kernel(xp: ArrayNamespace, features: Array) -> Any:
    x = wide(xp, features)
    # log(1 + exp(x)) without overflow.
    return (xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))).astype(features.dtype)


@op(
    """
    SoftplusGrad(gradients: T, features: T) -> backprops: T
    T: type in floats
    """,
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def softplus_grad_kernel(xp: ArrayNamespace, gradients: Array, features: Array) -> Any:
    g, x = wide(xp, gradients), wide(xp, features)
    return (g / (xp.exp(-x) + 1)).astype(gradients.dtype)


@gradient("Softplus")
def softplus_gradient(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("SoftplusGrad", grad, op.inputs[0])]


@gradient("SoftplusGrad")
def softplus_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    gradients, features = op.inputs
    # The derivative of s = sigmoid(x) is s * (1 - s), what SigmoidGrad gives.
    slope = apply_op("Sigmoid", features)
    second = apply_op("SigmoidGrad", slope, apply_op("Mul", grad, gradients))
    return [apply_op("SoftplusGrad", grad, features), second]


@export("nn.softplus", "math.softplus")
def softplus(features: TensorLike, name: str | None = None) -> Tensor:
    """Return a smooth form of relu.

    log(1 + exp(features))

    Args:
      features: floating numbers of any shape.
    Returns: a tensor of the argument's shape and type.
    Example:
      >>> print(tf.nn.softplus([0.0, 2.0]).numpy().round(4))
      [0.6931 2.1269]
    """
    return _apply("Softplus", features, name=name)


@op(
    """
    Softsign(features: T) -> activations: T
    T: type in floats
    """,
    shape=same_as(),
    compiles=Compiles.ALWAYS,
)
def softsign_kernel(xp: ArrayNamespace, features: Array) -> Any:
    return features / (xp.abs(features) + features.dtype.type(1))


@op(
    """
    SoftsignGrad(gradients: T, features: T) -> backprops: T
    T: type in floats
    """,
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def softsign_grad_kernel(xp: ArrayNamespace, gradients: Array, features: Array) -> Any:
    return gradients / xp.square(xp.abs(features) + features.dtype.type(1))


@gradient("Softsign")
def softsign_gradient(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("SoftsignGrad", grad, op.inputs[0])]


@export("nn.softsign", "math.softsign")
def softsign(features: TensorLike, name: str | None = None) -> Tensor:
    """Return features squashed to (-1, 1).

    features / (abs(features) + 1)

    Args:
      features: floating numbers of any shape.
    Returns: a tensor of the argument's shape and type.
    Example:
      >>> print(tf.nn.softsign([-1.0, 3.0]).numpy().round(4))
      [-0.5   0.75]
    """
    return _apply("Softsign", features, name=name)


# ---- made of other ops


@export("nn.sigmoid")
def sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the logistic function of x.

    1 / (1 + exp(-x))

    Args:
      x: floating or complex numbers of any shape.
    Returns: a tensor of the argument's shape and type.
    Example:
      >>> print(tf.nn.sigmoid([0.0, 2.0]).numpy().round(4))
      [0.5    0.8808]
    """
    return _apply("Sigmoid", x, name=name)


@export("nn.tanh")
def tanh(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the hyperbolic tangent of x.

    (exp(x) - exp(-x)) / (exp(x) + exp(-x))

    Args:
      x: floating or complex numbers of any shape.
    Returns: a tensor of the argument's shape and type.
    Example:
      >>> print(tf.nn.tanh([0.0, 1.0]).numpy().round(4))
      [0.     0.7616]
    """
    return _apply("Tanh", x, name=name)


@export("nn.swish", "nn.silu")
def swish(features: TensorLike, beta: TensorLike = 1.0, name: str | None = None) -> Tensor:
    """Return features times their logistic function.

    features * sigmoid(beta * features)

    Args:
      features: floating numbers of any shape.
      beta: a number or scalar tensor.
    Returns: a tensor of the argument's shape and type.
    Source: P. Ramachandran et al., Searching for Activation Functions, 2017.
    Example:
      >>> print(tf.nn.silu([0.0, 2.0]).numpy().round(4))
      [0.     1.7616]
    """
    features = convert_to_tensor(features)
    with get_default_graph().name_scope(name or "swish"):
        beta = convert_to_tensor(beta, features.dtype)
        return _apply("Mul", features, apply_op("Sigmoid", apply_op("Mul", beta, features)))


@export("nn.gelu")
def gelu(features: TensorLike, approximate: bool = False, name: str | None = None) -> Tensor:
    """Return the Gaussian error linear unit of features.

    features * P(X <= features) for a standard normal X

    Args:
      features: floating numbers of any shape.
      approximate: whether the distribution is taken from its approximation by tanh.
    Returns: a tensor of the argument's shape and type.
    Raises: ValueError for features that are no floats.
    Source: D. Hendrycks and K. Gimpel, Gaussian Error Linear Units, 2016.
    Example:
      >>> print(tf.nn.gelu([-1.0, 2.0]).numpy().round(4))
      [-0.1587  1.9545]
    """
    features = convert_to_tensor(features)
    if not features.dtype.is_floating:
        raise ValueError(f"gelu takes floats; features have type {features.dtype.name}")
    with get_default_graph().name_scope(name or "Gelu"):
        if approximate:
            cube = apply_op("Mul", apply_op("Mul", features, features), features)
            inner = apply_op("AddV2", features, apply_op("Mul", cube, 0.044715))
            bent = apply_op("Tanh", apply_op("Mul", inner, 0.7978845608028654))
        else:
            bent = apply_op("Erf", apply_op("Mul", features, 0.7071067811865476))
        half = apply_op("Mul", features, 0.5)
        return _apply("Mul", half, apply_op("AddV2", bent, 1.0))


@export("nn.crelu")
def crelu(features: TensorLike, name: str | None = None, axis: int = -1) -> Tensor:
    """Return relu of features and of -features, joined along an axis.

    Args:
      features: real numbers [..., n, ...].
      axis: the dimension along which both are joined.
    Returns: a tensor of the type of features, twice as large along axis.
    Source: W. Shang et al., Understanding and Improving Convolutional Neural Networks via
      Concatenated
      Rectified Linear Units, 2016.
    Example:
      >>> print(tf.nn.crelu([-1.0, 2.0]).numpy())
      [0. 2. 1. 0.]
    """
    with get_default_graph().name_scope(name or "CRelu"):
        features = convert_to_tensor(features)
        joined = apply_op("ConcatV2", [features, apply_op("Neg", features)], axis)
        return relu(joined)


def _apply(op_name: str, *args: Any, **kwargs: Any) -> Tensor:
    made: Tensor = apply_op(op_name, *args, **kwargs)
    return made
