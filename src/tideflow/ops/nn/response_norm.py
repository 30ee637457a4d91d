"""Local response normalisation across channels (Krizhevsky et al. 2012).

Source: tensorflow/core/kernels/lrn_op.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.nn.activations import wide
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

_ATTRS = ("depth_radius", "bias", "alpha", "beta")


def _merged_images(c: ShapeContext) -> list[Dims]:
    found = with_rank(c.inputs[0], 4, "input")
    for dims in c.inputs[1:]:
        found = with_rank(shapes.merge(found, dims), 4, "input")
    return [found]


def _check_radius(depth_radius: int) -> None:
    if depth_radius < 0:
        raise errors.InvalidArgumentError(f"depth_radius must not be negative: {depth_radius}")


def _require_images(x: Any) -> None:
    if x.ndim != 4:
        raise errors.InvalidArgumentError(f"input must have rank 4; its shape is {list(x.shape)}")


def _near(channels: int, radius: int, dtype: DType) -> Any:
    """Return the matrix [n, n] that adds up channels near each other."""
    channel = np.arange(channels)
    return (np.abs(channel[:, None] - channel) <= radius).astype(dtype)


def _others(xp: ArrayNamespace, x: Array, radius: int) -> Any:
    """Return the sum over near channels but the own."""
    channels = x.shape[3]
    radius = max(min(radius, channels - 1), 0)
    padded = xp.pad(x, [(0, 0)] * 3 + [(radius, radius)])
    shifts = [shift for shift in range(2 * radius + 1) if shift != radius]
    return sum((padded[..., shift : shift + channels] for shift in shifts), xp.zeros_like(x))


@op(
    """
    LRN(input: T) -> output: T
    depth_radius: int = 5
    bias: float = 1.0
    alpha: float = 1.0
    beta: float = 0.5
    T: type in {half, bfloat16, float} = float
    """,
    shape=_merged_images,
    compiles=Compiles.ALWAYS,
)
def lrn_kernel(
    xp: ArrayNamespace, input: Array, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Any:
    _check_radius(depth_radius)
    x = wide(xp, input)
    _require_images(x)
    squares = xp.square(x) @ xp.asarray(_near(x.shape[3], depth_radius, x.dtype))
    norm = x.dtype.type(bias) + x.dtype.type(alpha) * squares
    return (x * norm ** x.dtype.type(-beta)).astype(input.dtype)


@op(
    """
    LRNGrad(input_grads: T, input_image: T, output_image: T) -> output: T
    depth_radius: int = 5
    bias: float = 1.0
    alpha: float = 1.0
    beta: float = 0.5
    T: type in {half, bfloat16, float} = float
    """,
    shape=_merged_images,
    compiles=Compiles.ALWAYS,
)
def lrn_grad_kernel(
    xp: ArrayNamespace,
    input_grads: Array,
    input_image: Array,
    output_image: Array,
    *,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Any:
    _check_radius(depth_radius)
    if not input_grads.shape == input_image.shape == output_image.shape:
        raise errors.InvalidArgumentError(
            f"gradients {list(input_grads.shape)}, input {list(input_image.shape)} and output "
            f"{list(output_image.shape)} must have one shape"
        )
    dy, x, y = (wide(xp, a) for a in (input_grads, input_image, output_image))
    _require_images(x)
    factors = [x.dtype.type(value) for value in (bias, alpha, -beta, 2 * alpha * beta)]
    if xp is np:
        found = _by_matrix(dy, x, y, depth_radius, factors)
        # Zeros times what is not finite have come in then.
        if np.isfinite(found.sum()):
            return found.astype(input_grads.dtype)
    return _by_windows(xp, dy, x, y, depth_radius, factors).astype(input_grads.dtype)


def _by_matrix(dy: Array, x: Array, y: Array, radius: int, factors: Sequence[Any]) -> Any:
    """Return the gradient of finite values: products with matrices take a third of the time."""
    bias, alpha, power, slope = factors
    near = _near(x.shape[3], radius, x.dtype)
    norm = bias + alpha * (np.square(x) @ near)
    return dy * norm**power - x * ((dy * y / norm) @ near) * slope


def _by_windows(
    xp: ArrayNamespace, dy: Array, x: Array, y: Array, radius: int, factors: Sequence[Any]
) -> Any:
    bias, alpha, power, slope = factors
    squares = xp.square(x)
    norm = bias + alpha * (squares + _others(xp, squares, radius))
    ratio = y / norm
    own = dy * (norm**power - x * slope * ratio)
    return own - x * slope * _others(xp, dy * ratio, radius)


@gradient("LRN")
def lrn_gradient(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in _ATTRS}
    return [apply_op("LRNGrad", grad, op.inputs[0], op.outputs[0], **attrs)]


@export("nn.local_response_normalization", "nn.lrn")
def local_response_normalization(
    input: TensorLike,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Return input / (bias + alpha * s) ** beta, where s is the sum of squares of channels near by.

    Args:
      input: float16, bfloat16 or float32 [batch, height, width, channels].
      depth_radius: how far, in channels, near by reaches to both sides.
      bias, alpha, beta: floats.
    Returns: a tensor of input's shape and type.
    Raises: ValueError for another rank; InvalidArgumentError for a negative depth_radius.
    Example:
      >>> x = tf.constant([[[[3.0, 4.0]]]])
      >>> print(tf.nn.lrn(x, depth_radius=1, bias=0.0).numpy().round(4))
      [[[[0.6 0.8]]]]
    """
    made: Tensor = apply_op(
        "LRN", input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta, name=name
    )
    return made
