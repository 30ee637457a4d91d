"""Batch normalisation: the fused op, its gradient, and the unfused function.

Source: tensorflow/core/kernels/fused_batch_norm_op.cc (Ioffe and Szegedy 2015).
"""

from __future__ import annotations

from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import check_vector
from tideflow.ops.nn.conv_geometry import one_of
from tideflow.wire import dtypes, errors

# Smaller values are raised to it, as cuDNN demands and TensorFlow does everywhere.
_LEAST_EPSILON = 1.001e-5


def _channel(data_format: str, rank: int) -> int:
    return 1 if data_format.startswith("NC") else rank - 1


def fused_batch_norm_shape(c: ShapeContext) -> list[Dims]:
    """Give the outputs of a batch norm their shapes.  Raises: ValueError."""
    given = c.inputs[0]
    layout = c.attrs["data_format"]
    if given is None:
        return [None, *[(None,)] * 4, None]
    _check_rank(len(given), layout, ValueError)
    at = _channel(layout, len(given))
    size: Dims = (given[at],)
    for other in c.inputs[1:3]:
        size = shapes.merge(size, other)
    assert size is not None
    return [(*given[:at], size[0], *given[at + 1 :]), *[size] * 4, None]


def _check_rank(rank: int, layout: str, error: type[Exception]) -> None:
    if rank != len(layout):
        raise error(f"x must have rank {len(layout)} for data_format {layout}; it has {rank}")


def _reduced(x: Any, layout: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes over which moments are taken, and a channel vector's shape for x."""
    _check_rank(x.ndim, layout, errors.InvalidArgumentError)
    at = _channel(layout, x.ndim)
    axes = tuple(axis for axis in range(x.ndim) if axis != at)
    return axes, tuple(-1 if axis == at else 1 for axis in range(x.ndim))


@op(
    """
    FusedBatchNormV3(x: T, scale: U, offset: U, mean: U, variance: U)
      -> y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U
    T: type in {half, bfloat16, float}
    U: type in {bfloat16, float}
    epsilon: float = 9.999999747378752e-05
    exponential_avg_factor: float = 1.0
    data_format: string in {NHWC, NCHW, NDHWC, NCDHW} = 'NHWC'
    is_training: bool = true
    """,  # noqa: E501 - one list of outputs
    shape=fused_batch_norm_shape,
    compiles=Compiles.ALWAYS,
    checked_outputs=1,
)
def fused_batch_norm_kernel(
    xp: ArrayNamespace,
    x: Array,
    scale: Array,
    offset: Array,
    mean: Array,
    variance: Array,
    *,
    epsilon: float,
    exponential_avg_factor: float,
    data_format: str,
    is_training: bool,
) -> Any:
    axes, by_channel = _reduced(x, data_format)
    _check_vectors(x, data_format, scale=scale, offset=offset)
    values = x.astype(xp.float32)
    for value, what in ((mean, "mean"), (variance, "variance")):
        check_vector(value, what)
    if is_training:
        found_mean, found_variance = _moments(xp, values, axes, by_channel)
        outputs = _running(
            xp, found_mean, found_variance, mean, variance, values, exponential_avg_factor
        )
    else:
        _check_vectors(x, data_format, mean=mean, variance=variance)
        found_mean, found_variance = mean, variance
        outputs = (mean, variance)
    factor = scale / xp.sqrt(found_variance + xp.float32(epsilon))
    shift = offset - found_mean * factor
    y = values * factor.reshape(by_channel) + shift.reshape(by_channel)
    dtype = scale.dtype
    statistics = [v.astype(dtype) for v in (*outputs, found_mean, found_variance)]
    # The third reserve is cuDNN's own; elsewhere it is an empty stand-in.
    return (y.astype(x.dtype), *statistics, xp.zeros((0,), dtype))


def _check_vectors(x: Any, layout: str, **vectors: Any) -> None:
    wanted = (x.shape[_channel(layout, x.ndim)],)
    for name, vector in vectors.items():
        if vector.shape != wanted:
            raise errors.InvalidArgumentError(
                f"{name} has shape {list(vector.shape)}; x {list(x.shape)} wants {list(wanted)}"
            )


def _moments(xp: Any, values: Any, axes: Any, by_channel: Any) -> tuple[Any, Any]:
    if not values.size:
        empty = xp.zeros(values.sum(axis=axes).shape, values.dtype)
        return empty, empty
    mean = xp.mean(values, axis=axes)
    centred = values - mean.reshape(by_channel)
    return mean, xp.mean(xp.square(centred), axis=axes)


def _running(
    xp: ArrayNamespace,
    mean: Array,
    variance: Array,
    old_mean: Array,
    old_variance: Array,
    values: Array,
    factor: float,
) -> tuple[Any, Any]:
    """Return the statistics to keep: the unbiased variance, mixed with the old ones."""
    count = values.size // max(mean.size, 1)
    unbiased = variance * xp.float32(count / max(count - 1, 1))
    if factor == 1.0:
        return mean, unbiased
    keep, take = xp.float32(1 - factor), xp.float32(factor)
    return keep * old_mean + take * mean, keep * old_variance + take * unbiased


def fused_batch_norm_grad_shape(c: ShapeContext) -> list[Dims]:
    """Give the gradients of a batch norm their shapes.  Raises: ValueError."""
    given = shapes.merge(c.inputs[0], c.inputs[1])
    layout = c.attrs["data_format"]
    size: Dims = (None,)
    if given is not None:
        _check_rank(len(given), layout, ValueError)
        size = (given[_channel(layout, len(given))],)
    return [given, size, size, None, None]


@op(
    """
    FusedBatchNormGradV3(
      y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U)
      -> x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_4: U, reserve_space_5: U
    T: type in {half, bfloat16, float}
    U: type in {float}
    epsilon: float = 9.999999747378752e-05
    data_format: string in {NHWC, NCHW, NDHWC, NCDHW} = 'NHWC'
    is_training: bool = true
    """,  # noqa: E501 - one list of outputs
    shape=fused_batch_norm_grad_shape,
    compiles=Compiles.ALWAYS,
)
def fused_batch_norm_grad_kernel(
    xp: ArrayNamespace,
    y_backprop: Array,
    x: Array,
    scale: Array,
    reserve_space_1: Array,
    reserve_space_2: Array,
    reserve_space_3: Array,
    *,
    epsilon: float,
    data_format: str,
    is_training: bool,
) -> Any:
    axes, by_channel = _reduced(x, data_format)
    if y_backprop.shape != x.shape:
        raise errors.InvalidArgumentError(
            f"y_backprop has shape {list(y_backprop.shape)}, x {list(x.shape)}; they must be alike"
        )
    _check_vectors(
        x, data_format, scale=scale, reserve_space_1=reserve_space_1,
        reserve_space_2=reserve_space_2,
    )  # fmt: skip
    dy = y_backprop.astype(xp.float32)
    narrow = 1 / xp.sqrt(reserve_space_2 + xp.float32(epsilon))
    normal = (x.astype(xp.float32) - reserve_space_1.reshape(by_channel)) * narrow.reshape(
        by_channel
    )
    offset_backprop = xp.sum(dy, axis=axes)
    scale_backprop = xp.sum(dy * normal, axis=axes)
    if is_training:
        count = xp.float32(max(x.size // max(scale.size, 1), 1))
        dy = (
            dy
            - (offset_backprop / count).reshape(by_channel)
            - normal * (scale_backprop / count).reshape(by_channel)
        )
    x_backprop = dy * (scale * narrow).reshape(by_channel)
    empty = xp.zeros((), xp.float32)
    return x_backprop.astype(x.dtype), scale_backprop, offset_backprop, empty, empty


@gradient("FusedBatchNormV3")
def fused_batch_norm_gradient(op: Operation, grad: Tensor, *_: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in ("epsilon", "data_format", "is_training")}
    x, scale = op.inputs[:2]
    found = apply_op("FusedBatchNormGradV3", grad, x, scale, *op.outputs[3:6], **attrs)
    if op.attrs["is_training"]:
        return [*found[:3], None, None]
    return [*found[:3], *frozen_gradients(op, found[1], found[2])]


def frozen_gradients(op: Operation, scale_backprop: Tensor, offset_backprop: Tensor) -> list[Any]:
    """Return the gradients for mean and variance where these are given, not computed."""
    _, scale, _, _, variance = op.inputs
    narrow = apply_op("Rsqrt", apply_op("AddV2", variance, op.attrs["epsilon"]))
    factor = apply_op("Mul", scale, narrow)
    for_mean = apply_op("Neg", apply_op("Mul", offset_backprop, factor))
    curve = apply_op("Mul", apply_op("Mul", narrow, factor), -0.5)
    return [for_mean, apply_op("Mul", scale_backprop, curve)]


@export("nn.fused_batch_norm")
def fused_batch_norm(
    x: TensorLike,
    scale: TensorLike,
    offset: TensorLike,
    mean: TensorLike | None = None,
    variance: TensorLike | None = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise images by channel.

    (x - mean) / sqrt(variance + epsilon) * scale + offset

    Args:
      x: [batch, ..., channels], or channels second; float32, float16 or bfloat16.
      scale, offset: float32 [channels].
      mean, variance: float32 [channels]; the statistics to use when not training, and those to mix
        with
        when exponential_avg_factor is below 1.
      epsilon: keeps the root above 0.
      data_format: "NHWC", "NCHW", "NDHWC" or "NCDHW".
      is_training: whether the batch's own statistics are used.
      exponential_avg_factor: the share of the batch's statistics in those that are returned.
    Returns: the normalised images, the mean and the unbiased variance.
    Raises: ValueError when mean or variance is missing but needed.
    Source: S. Ioffe and C. Szegedy, Batch Normalization, 2015.
    Example:
      >>> image = tf.reshape([1.0, 3.0], [1, 1, 2, 1])
      >>> normalised, mean, variance = tf.nn.fused_batch_norm(image, [1.0], [0.0])
      >>> tf.Session().run([mean, variance])
      [array([2.], dtype=float32), array([2.], dtype=float32)]
    """
    needs = not is_training or exponential_avg_factor != 1.0
    if needs and (mean is None or variance is None):
        raise ValueError(
            "mean and variance are needed with is_training=False or exponential_avg_factor < 1"
        )
    scale = convert_to_tensor(scale, dtypes.float32)
    empty = convert_to_tensor([], dtypes.float32)
    y, found_mean, found_variance, *_ = apply_op(
        "FusedBatchNormV3",
        x,
        scale,
        offset,
        mean if mean is not None else empty,
        variance if variance is not None else empty,
        epsilon=max(epsilon, _LEAST_EPSILON),
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format,
        is_training=is_training,
        name=name,
    )
    return y, found_mean, found_variance


@export("nn.batch_normalization")
def batch_normalization(
    x: TensorLike,
    mean: object,
    variance: object,
    offset: object,
    scale: object,
    variance_epsilon: object,
    name: str | None = None,
) -> Tensor:
    """Normalise a tensor by given moments, then scale and shift it.

    (x - mean) / sqrt(variance + variance_epsilon) * scale + offset

    Args:
      x: floating numbers of any shape.
      mean, variance: the moments; their shapes broadcast to that of x.
      offset, scale: what is added and multiplied by; None for nothing.
      variance_epsilon: keeps the root above 0.
    Returns: a tensor of the shape and type of x.
    Source: S. Ioffe and C. Szegedy, Batch Normalization, 2015.
    Example:
      >>> print(tf.nn.batch_normalization([1.0, 3.0], 2.0, 1.0, None, None, 0.0).numpy())
      [-1.  1.]
    """
    with get_default_graph().name_scope(name or "batchnorm"):
        x = convert_to_tensor(x)
        factor = apply_op("Rsqrt", apply_op("AddV2", variance, variance_epsilon))
        if scale is not None:
            factor = apply_op("Mul", factor, scale)
        shift = apply_op("Neg", apply_op("Mul", mean, factor))
        if offset is not None:
            shift = apply_op("AddV2", offset, shift)
        if factor.dtype is not x.dtype:
            factor = apply_op("Cast", factor, DstT=x.dtype)
            shift = apply_op("Cast", shift, DstT=x.dtype)
        made: Tensor = apply_op("AddV2", apply_op("Mul", x, factor), shift, name="add_1")
        return made


@export("nn.batch_norm_with_global_normalization")
def batch_norm_with_global_normalization(
    t: TensorLike | None = None,
    m: TensorLike | None = None,
    v: TensorLike | None = None,
    beta: TensorLike | None = None,
    gamma: TensorLike | None = None,
    variance_epsilon: TensorLike | None = None,
    scale_after_normalization: bool | None = None,
    name: str | None = None,
    input: TensorLike | None = None,
    mean: TensorLike | None = None,
    variance: TensorLike | None = None,
) -> Tensor:
    """Normalise a tensor by given moments; see batch_normalization.

    Args:
      t: floating numbers of any shape; input is its new name.
      m, v: the mean and the variance; mean and variance are their new names.
      beta: what is added.
      gamma: what is multiplied by, only if scale_after_normalization.
      variance_epsilon: keeps the root above 0.
      scale_after_normalization: whether gamma counts.
    Returns: a tensor of the shape and type of t.
    Example:
      >>> made = tf.nn.batch_norm_with_global_normalization(
      ...     [1.0, 3.0], 2.0, 1.0, 0.0, 5.0, 0.0, False
      ... )
      >>> tf.Session().run(made).tolist()
      [-1.0, 1.0]
    """
    return batch_normalization(
        one_of("t", t, "input", input),
        one_of("m", m, "mean", mean),
        one_of("v", v, "variance", variance),
        beta,
        gamma if scale_after_normalization else None,
        variance_epsilon,
        name,
    )


@export_v2("nn.batch_norm_with_global_normalization")
def batch_norm_with_global_normalization_v2(
    input: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    beta: TensorLike,
    gamma: TensorLike,
    variance_epsilon: TensorLike,
    scale_after_normalization: bool,
    name: str | None = None,
) -> Tensor:
    """Normalise a tensor by given moments; see batch_normalization.

    Args:
      input: floating numbers of any shape.
      mean, variance: the moments.
      beta: what is added.
      gamma: what is multiplied by, only if scale_after_normalization.
      variance_epsilon: keeps the root above 0.
      scale_after_normalization: whether gamma counts.
    Returns: a tensor of the shape and type of input.
    Example:
      >>> made = tf.nn.batch_norm_with_global_normalization(
      ...     [1.0, 3.0], 2.0, 1.0, 0.0, 5.0, 0.0, False
      ... )
      >>> print(made.numpy())
      [-1.  1.]
    """
    return batch_norm_with_global_normalization(
        input, mean, variance, beta, gamma, variance_epsilon, scale_after_normalization, name
    )
