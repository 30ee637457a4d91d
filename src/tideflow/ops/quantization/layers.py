"""Layers on levels: convolutions, pools and normalisation.

Source: tensorflow/core/kernels/quantized_conv_ops.cc, quantized_pooling_ops.cc,
quantized_batch_norm_op.cc, quantized_instance_norm.cc.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import get_op_def, op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.quantization.levels import (
    QUANTIZED,
    F,
    float_of,
    level_of,
    nearest_level,
    only_one,
    range_of_products,
    require_order,
    require_scalars,
    scalar,
    to_levels,
)
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

# ---- convolution

# What the rule of a convolution's shape asks for beyond the attrs that the quantised one has.
_PLAIN = {"data_format": "NHWC", "explicit_paddings": []}


class _WithAttrs(ShapeContext):
    """A context whose node is asked for attrs that it does not have."""

    __slots__ = ("_attrs",)

    def __init__(self, c: ShapeContext, inputs: list[Dims], attrs: dict[str, Any]) -> None:
        super().__init__(c.node, inputs)
        self._attrs = attrs

    @property
    def attrs(self) -> dict[str, Any]:
        return self._attrs


def image_shape(c: ShapeContext, like: str, **attrs: Any) -> Dims:
    """Return the shape of images that an op of floats would give, with attrs of its own."""
    rule = get_op_def(like).shape_rule
    assert rule is not None
    found: Dims = rule(_WithAttrs(c, list(c.inputs), {**_PLAIN, **c.attrs, **attrs}))[0]
    return found


def _conv_shape(c: ShapeContext) -> list[Dims]:
    _check_conv_attrs(c.attrs["strides"], c.attrs["dilations"])
    found = image_shape(c, "Conv2D")
    require_scalars(c, "min_input", "max_input", "min_filter", "max_filter")
    return [found, (), ()]


@op(
    f"""
    QuantizedConv2D(input: Tinput, filter: Tfilter, min_input: float, max_input: float, \
min_filter: float, max_filter: float) -> output: out_type, min_output: float, max_output: float
    Tinput: type in {QUANTIZED}
    Tfilter: type in {QUANTIZED}
    out_type: type in {QUANTIZED} = qint32
    strides: list(int)
    padding: string in {{SAME, VALID}}
    dilations: list(int) = [1, 1, 1, 1]
    """,
    shape=_conv_shape,
)
def quantized_conv2d_kernel(
    ctx: KernelContext,
    input: Array,
    filter: Array,
    min_input: Array,
    max_input: Array,
    min_filter: Array,
    max_filter: Array,
    *,
    Tinput: DType,
    Tfilter: DType,
    out_type: DType,
    strides: list[int],
    padding: str,
    dilations: list[int],
) -> Any:
    """Return the convolution of what images and a filter of levels stand for."""
    _check_conv_attrs(strides, dilations)
    if not all(input.shape):
        raise errors.InvalidArgumentError("Invalid input: Shapes dimension cannot be 0.")
    for what, one in (("input", input), ("filter", filter)):
        if one.ndim != 4:
            raise errors.InvalidArgumentError(f"{what} must be rank 4 but is rank {one.ndim}")
    first = scalar(min_input, "min_input"), scalar(max_input, "max_input")
    second = scalar(min_filter, "min_filter"), scalar(max_filter, "max_filter")
    if input.shape[3] != filter.shape[2]:
        raise errors.InvalidArgumentError(
            f"input and filter must have the same depth: {input.shape[3]} vs {filter.shape[2]}"
        )
    zeros = [
        int(level_of(F(0), *given, dtype).astype(np.int32))
        for given, dtype in ((first, Tinput), (second, Tfilter))
    ]
    taps = [
        _places(size, reach, strides[1], padding)
        for size, reach in zip(input.shape[1:3], filter.shape[:2])
    ]
    if not all(at.size for at in taps) or not filter.shape[3]:
        raise errors.InvalidArgumentError(
            f"images {list(input.shape)} give no output with filter {list(filter.shape)}"
        )
    x = input.astype(np.int32) - zeros[0]
    rows, columns = taps
    inside = _inside(rows, x.shape[1])[:, :, None, None] & _inside(columns, x.shape[2])
    windows = x[:, np.clip(rows, 0, x.shape[1] - 1)][..., np.clip(columns, 0, x.shape[2] - 1), :]
    windows = np.where(inside[None, ..., None], windows, 0)
    w = filter.astype(np.int32) - zeros[1]
    # [batch, row, tap of rows, column, tap of columns, depth]
    made = np.tensordot(windows, w, axes=([2, 4, 5], [0, 1, 2]))
    found = range_of_products((*first, Tinput), (*second, Tfilter), out_type)
    return made.astype(out_type.as_numpy_dtype), *found


def _check_conv_attrs(strides: list[int], dilations: list[int]) -> None:
    for what, given in (("strides", strides), ("dilations", dilations)):
        if len(given) != 4 or given[0] != 1 or given[3] != 1 or given[1] != given[2]:
            raise errors.InvalidArgumentError(
                f"{what} must be four, equal over rows and columns, and 1 over batch and depth; "
                f"found {given}"
            )
    if dilations[1] != 1:
        raise errors.InvalidArgumentError(f"dilations must be 1; found {dilations}")


def _places(size: int, reach: int, stride: int, padding: str) -> Any:
    """Return [out, reach]: where the taps of the windows lie along an axis of an image.

    Windows that leave some of the image over begin inside it.
    """
    out = -(-size // stride) if padding == "SAME" else (size - reach + stride) // stride
    if out <= 0:
        return np.empty((0, reach), np.int64)
    before = int(((out - 1) * stride + reach - size + (padding == "VALID")) / 2)
    return np.arange(out)[:, None] * stride + np.arange(reach) - before


def _inside(places: Any, size: int) -> Any:
    return (places >= 0) & (places < size)


# ---- pools


def _pool_shape(like: str) -> Any:
    def rule(c: ShapeContext) -> list[Dims]:
        found = image_shape(c, like)
        require_scalars(c, "min_input", "max_input")
        return [found, (), ()]

    return rule


_POOL = """(input: T, min_input: float, max_input: float) \
-> output: T, min_output: float, max_output: float
    T: type in {QUANTIZED}
    ksize: list(int)
    strides: list(int)
    padding: string in {SAME, VALID}
"""
_POOL = _POOL.replace("{QUANTIZED}", QUANTIZED)


@op("QuantizedMaxPool" + _POOL, shape=_pool_shape("MaxPool"))
def quantized_max_pool_kernel(
    ctx: KernelContext,
    input: Array,
    min_input: Array,
    max_input: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
) -> Any:
    """Return the greatest levels of windows over images."""
    given = scalar(min_input, "min_input"), scalar(max_input, "max_input")
    return _pooled("MaxPool", input, ksize, strides, padding, explicit_paddings=[]), *given


@op("QuantizedAvgPool" + _POOL, shape=_pool_shape("AvgPool"))
def quantized_avg_pool_kernel(
    ctx: KernelContext,
    input: Array,
    min_input: Array,
    max_input: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
) -> Any:
    """Return the means of the levels of windows over images, cut to whole numbers."""
    given = scalar(min_input, "min_input"), scalar(max_input, "max_input")
    means = _pooled("AvgPool", input.astype(np.float64), ksize, strides, padding)
    return np.trunc(means).astype(input.dtype), *given


def _pooled(
    like: str, x: Any, ksize: list[int], strides: list[int], padding: str, **more: Any
) -> Any:
    if x.ndim != 4:
        raise errors.InvalidArgumentError(f"tensor_in must be 4-dimensional: {list(x.shape)}")
    kernel = get_op_def(like).kernel
    assert kernel is not None
    return kernel(np, x, ksize=ksize, strides=strides, padding=padding, data_format="NHWC", **more)


# ---- normalisation

_NORMALIZED = ("t", "m", "v", "beta", "gamma")


def _batch_norm_shape(c: ShapeContext) -> list[Dims]:
    given = with_rank(c.shape("t"), 4, "t")
    channels: Dims = given[3:]
    for name in _NORMALIZED[1:]:
        channels = shapes.merge(channels, with_rank(c.shape(name), 1, name))
    require_scalars(c, *(f"{name}_{end}" for name in _NORMALIZED for end in ("min", "max")))
    return [(*given[:3], *(channels or (None,))), (), ()]


@op(
    f"""
    QuantizedBatchNormWithGlobalNormalization(t: Tinput, t_min: float, t_max: float, m: Tinput, \
m_min: float, m_max: float, v: Tinput, v_min: float, v_max: float, beta: Tinput, \
beta_min: float, beta_max: float, gamma: Tinput, gamma_min: float, gamma_max: float) \
-> result: out_type, result_min: float, result_max: float
    Tinput: type in {QUANTIZED}
    out_type: type in {QUANTIZED}
    variance_epsilon: float
    scale_after_normalization: bool
    """,
    shape=_batch_norm_shape,
)
def quantized_batch_norm_kernel(
    ctx: KernelContext,
    *inputs: Any,
    Tinput: DType,
    out_type: DType,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Any:
    """Return levels normalised by channels, as whole numbers with ten bits behind the point."""
    t, *channels = inputs[::3]
    ranges = [
        (only_one(low, name), only_one(high, name))
        for name, low, high in zip(_NORMALIZED, inputs[1::3], inputs[2::3])
    ]
    if t.ndim != 4:
        raise errors.InvalidArgumentError(f"input must be 4-dimensional: {list(t.shape)}")
    for name, one in zip(_NORMALIZED[1:], channels):
        if one.shape != t.shape[3:]:
            raise errors.InvalidArgumentError(
                f"{name} must be {list(t.shape[3:])}, one for each channel; found {list(one.shape)}"
            )
    mean, variance, beta, gamma = (
        float_of(one, *given, Tinput) for one, given in zip(channels, ranges[1:])
    )
    found = F(-(1 << 20)), F(1 << 20)
    scale = F(1) / np.sqrt(variance + F(variance_epsilon))
    if scale_after_normalization:
        scale = scale * gamma
    offset = -mean * scale + beta
    x, by, plus, one = (
        nearest_level(value, *found, out_type).astype(np.int32)
        for value in (float_of(t, *ranges[0], Tinput), scale, offset, F(1))
    )
    made = np.trunc((x * by) / float(one)).astype(np.int32) + plus
    return made.astype(out_type.as_numpy_dtype), *found


def _instance_norm_shape(c: ShapeContext) -> list[Dims]:
    require_scalars(c, "x_min", "x_max")
    return [with_rank(c.inputs[0], 4, "x"), (), ()]


@op(
    f"""
    QuantizedInstanceNorm(x: T, x_min: float, x_max: float) -> y: T, y_min: float, y_max: float
    T: type in {QUANTIZED}
    output_range_given: bool = false
    given_y_min: float = 0.0
    given_y_max: float = 0.0
    variance_epsilon: float = 0.00001
    min_separation: float = 0.001
    """,
    shape=_instance_norm_shape,
)
def quantized_instance_norm_kernel(
    ctx: KernelContext,
    x: Array,
    x_min: Array,
    x_max: Array,
    *,
    T: DType,
    output_range_given: bool,
    given_y_min: float,
    given_y_max: float,
    variance_epsilon: float,
    min_separation: float,
) -> Any:
    """Return images normalised by channels, each image by itself, and the range of that."""
    if output_range_given and not given_y_min < given_y_max:
        raise errors.InvalidArgumentError(
            f"given_y_min must be less than given_y_max : {given_y_min} >= {given_y_max}"
        )
    low, high = scalar(x_min, "x_min"), scalar(x_max, "x_max")
    require_order(low, high, "x")
    if x.ndim != 4:
        raise errors.InvalidArgumentError(f"x must hold images; its shape is {list(x.shape)}")
    away = x.astype(F)
    away = F((high - low) / F(255)) * (away - np.mean(away, axis=(1, 2), keepdims=True))
    variance = np.mean(away * away, axis=(1, 2), keepdims=True)
    made = away * (F(1) / np.sqrt(variance + F(variance_epsilon)))
    if output_range_given:
        least, most = F(given_y_min), F(given_y_max)
    else:
        least, most = made.min(initial=np.inf), made.max(initial=-np.inf)
    if most - least < F(min_separation):
        most = least + F(min_separation)
    return to_levels(made, least, most, T), least, most


# ---- public names


class QuantizedConv2D(NamedTuple):
    """What `nn.quantized_conv2d` gives."""

    output: Tensor
    min_output: Tensor
    max_output: Tensor


class QuantizedAvgPool(NamedTuple):
    """What `nn.quantized_avg_pool` gives."""

    output: Tensor
    min_output: Tensor
    max_output: Tensor


class QuantizedMaxPool(NamedTuple):
    """What `nn.quantized_max_pool` gives."""

    output: Tensor
    min_output: Tensor
    max_output: Tensor


@export("nn.quantized_conv2d")
def quantized_conv2d(
    input: TensorLike,
    filter: TensorLike,
    min_input: TensorLike,
    max_input: TensorLike,
    min_filter: TensorLike,
    max_filter: TensorLike,
    strides: list[int],
    padding: str,
    out_type: DTypeLike = dtypes.qint32,
    dilations: list[int] | tuple[int, ...] = (1, 1, 1, 1),
    name: str | None = None,
) -> QuantizedConv2D:
    """Return the convolution of images and a filter of levels, and its range.

    Args:
      input: quint8 [batch, height, width, depth]; filter: quint8 [height, width, depth, out].
      min_input, max_input, min_filter, max_filter: float32 [], the ranges of both.
    """
    made = apply_op(
        "QuantizedConv2D", input, filter, min_input, max_input, min_filter, max_filter,
        strides=strides, padding=padding, out_type=out_type, dilations=list(dilations), name=name,
    )  # fmt: skip
    return QuantizedConv2D(*made)


@export("nn.quantized_avg_pool")
def quantized_avg_pool(
    input: TensorLike,
    min_input: TensorLike,
    max_input: TensorLike,
    ksize: list[int],
    strides: list[int],
    padding: str,
    name: str | None = None,
) -> QuantizedAvgPool:
    """Return the means of windows over images of levels, and their range."""
    attrs = {"ksize": ksize, "strides": strides, "padding": padding}
    return QuantizedAvgPool(
        *apply_op("QuantizedAvgPool", input, min_input, max_input, name=name, **attrs)
    )


@export("nn.quantized_max_pool")
def quantized_max_pool(
    input: TensorLike,
    min_input: TensorLike,
    max_input: TensorLike,
    ksize: list[int],
    strides: list[int],
    padding: str,
    name: str | None = None,
) -> QuantizedMaxPool:
    """Return the greatest levels of windows over images, and their range."""
    attrs = {"ksize": ksize, "strides": strides, "padding": padding}
    return QuantizedMaxPool(
        *apply_op("QuantizedMaxPool", input, min_input, max_input, name=name, **attrs)
    )
