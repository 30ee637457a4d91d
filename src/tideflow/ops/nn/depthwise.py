"""Depthwise convolutions: every channel under filters of its own.

Source: tensorflow/core/kernels/depthwise_conv_op.cc, depthwise_conv_grad_op.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.nn.conv_arithmetic import convolve, filter_gradient, input_gradient
from tideflow.ops.nn.conv_geometry import (
    check_attrs,
    dims_from_nhwc,
    dims_to_nhwc,
    from_nhwc,
    out_size,
    padding_attrs,
    per_axis,
    spatial,
    to_nhwc,
    windows,
)
from tideflow.ops.nn.conv_sizes import check_out_backprop, read_sizes, shape_of_sizes
from tideflow.ops.nn.convolutions import register_gradients
from tideflow.wire import errors


def depthwise_shape(c: ShapeContext) -> list[Dims]:
    """Give a depthwise convolution its shape.  Raises: ValueError."""
    check_attrs(c.attrs)
    layout = c.attrs["data_format"]
    given = dims_to_nhwc(with_rank(c.inputs[0], 4, "input"), layout)
    height, width, depth, multiplier = with_rank(c.inputs[1], 4, "filter")
    merged = shapes.merge((given[3],), (depth,))
    assert merged is not None
    channels = merged[0]
    out = None if channels is None or multiplier is None else channels * multiplier
    found = (
        given[0],
        out_size(given[1], height, 0, c.attrs),
        out_size(given[2], width, 1, c.attrs),
        out,
    )
    return [dims_from_nhwc(found, layout)]


def _as_grouped(w: Any, channels: int) -> Any:
    """Return a filter [kh, kw, C, multiplier] as one of a grouped convolution.

    Raises: InvalidArgumentError.
    """
    if len(w.shape) != 4 or w.shape[2] != channels:
        raise errors.InvalidArgumentError(
            f"filter is {list(w.shape)}; it must have rank 4 and {channels} as its third size"
        )
    return w.reshape(w.shape[0], w.shape[1], 1, channels * w.shape[3])


@op(
    """
    DepthwiseConv2dNative(input: T, filter: T) -> output: T
    T: type in floats
    strides: list(int)
    padding: string in {SAME, VALID, EXPLICIT}
    explicit_paddings: list(int) = []
    data_format: string in {NHWC, NCHW} = 'NHWC'
    dilations: list(int) = [1, 1, 1, 1]
    """,
    shape=depthwise_shape,
    compiles=Compiles.ALWAYS,
)
def depthwise_kernel(
    xp: ArrayNamespace,
    input: Array,
    filter: Array,
    *,
    strides: list[int],
    padding: str,
    explicit_paddings: list[int],
    data_format: str,
    dilations: list[int],
) -> Any:
    x = to_nhwc(input, data_format)
    channels = x.shape[3]
    w = _as_grouped(filter, channels)
    rows, columns = windows(
        x.shape[1:3], w.shape[:2], strides, padding, explicit_paddings, data_format, dilations
    )
    return from_nhwc(convolve(xp, x, w, rows, columns, channels), data_format)


@op(
    """
    DepthwiseConv2dNativeBackpropInput(input_sizes: int32, filter: T, out_backprop: T) -> output: T
    T: type in floats
    strides: list(int)
    padding: string in {SAME, VALID, EXPLICIT}
    explicit_paddings: list(int) = []
    data_format: string in {NHWC, NCHW} = 'NHWC'
    dilations: list(int) = [1, 1, 1, 1]
    """,
    shape=shape_of_sizes(0, "input_sizes", 4),
    static=("input_sizes",),
    compiles=Compiles.ALWAYS,
)
def depthwise_backprop_input_kernel(
    xp: ArrayNamespace,
    input_sizes: Array,
    filter: Array,
    out_backprop: Array,
    *,
    strides: list[int],
    padding: str,
    explicit_paddings: list[int],
    data_format: str,
    dilations: list[int],
) -> Any:
    dy = to_nhwc(out_backprop, data_format)
    sizes = read_sizes(input_sizes, "input_sizes", 4)
    channels = sizes[1] if data_format == "NCHW" else sizes[3]
    w = _as_grouped(filter, channels)
    rows, columns = windows(
        spatial(sizes, data_format), w.shape[:2], strides, padding, explicit_paddings,
        data_format, dilations,
    )  # fmt: skip
    check_out_backprop(dy, sizes[0], (rows, columns), w.shape[3])
    return from_nhwc(input_gradient(xp, w, dy, rows, columns, channels), data_format)


@op(
    """
    DepthwiseConv2dNativeBackpropFilter(input: T, filter_sizes: int32, out_backprop: T) -> output: T
    T: type in floats
    strides: list(int)
    padding: string in {SAME, VALID, EXPLICIT}
    explicit_paddings: list(int) = []
    data_format: string in {NHWC, NCHW} = 'NHWC'
    dilations: list(int) = [1, 1, 1, 1]
    """,
    shape=shape_of_sizes(1, "filter_sizes", 4),
    static=("filter_sizes",),
    compiles=Compiles.ALWAYS,
)
def depthwise_backprop_filter_kernel(
    xp: ArrayNamespace,
    input: Array,
    filter_sizes: Array,
    out_backprop: Array,
    *,
    strides: list[int],
    padding: str,
    explicit_paddings: list[int],
    data_format: str,
    dilations: list[int],
) -> Any:
    x, dy = to_nhwc(input, data_format), to_nhwc(out_backprop, data_format)
    sizes = read_sizes(filter_sizes, "filter_sizes", 4)
    rows, columns = windows(
        x.shape[1:3], sizes[:2], strides, padding, explicit_paddings, data_format, dilations
    )
    if sizes[2] != x.shape[3]:
        raise errors.InvalidArgumentError(
            f"the input has {x.shape[3]} channels; filter_sizes is {list(sizes)}"
        )
    check_out_backprop(dy, x.shape[0], (rows, columns), sizes[2] * sizes[3])
    return filter_gradient(xp, x, dy, rows, columns, 1).reshape(sizes)


register_gradients("DepthwiseConv2dNative")


@export("nn.depthwise_conv2d")
def depthwise_conv2d(
    input: TensorLike,
    filter: TensorLike,
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    rate: TensorLike | None = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Convolve each channel with filters of its own.

    Args:
      input: floating numbers [batch, height, width, channels], or [batch, channels, height, width]
        for "NCHW".
      filter: [height, width, channels, multiplier], of input's type.
      strides: four ints, 1 for batch and channels.
      padding: "SAME", "VALID", or explicit pairs (before, after) for each dimension.
      rate: another name for dilations, of TensorFlow 1.
      data_format: "NHWC" (default) or "NCHW".
      dilations: how far apart the filter's taps are, two ints; 1 by default.
    Returns: [batch, height, width, channels * multiplier], or the NCHW layout, in input's type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.constant([[[[1.0, 10.0], [2.0, 20.0]]]])
      >>> filter = tf.constant([[[[1.0, 3.0], [5.0, 7.0]]]])
      >>> tf.nn.depthwise_conv2d(x, filter, [1, 1, 1, 1], "SAME")[0, 0].numpy().tolist()
      [[1.0, 3.0, 50.0, 70.0], [2.0, 6.0, 100.0, 140.0]]
    """
    layout = data_format or "NHWC"
    made: Tensor = apply_op(
        "DepthwiseConv2dNative",
        input,
        filter,
        name=name or "depthwise",
        strides=per_axis(strides, "strides", layout),
        dilations=per_axis(rate if dilations is None else dilations, "dilations", layout),
        data_format=layout,
        **padding_attrs(padding, layout),
    )
    return made


@export("nn.depthwise_conv2d_native")
def depthwise_conv2d_native(
    input: TensorLike,
    filter: TensorLike,
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    data_format: str | None = "NHWC",
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
) -> Tensor:
    """Convolve each channel with filters of its own; see depthwise_conv2d.

    Args:
      input: floating numbers [batch, height, width, channels], or [batch, channels, height, width]
        for "NCHW".
      filter: [height, width, channels, multiplier], of input's type.
      strides: four ints, 1 for batch and channels.
      padding: "SAME", "VALID", or explicit pairs (before, after) for each dimension.
      data_format: "NHWC" or "NCHW".
      dilations: four ints, 1 for batch and channels; ones by default.
    Returns: [batch, height, width, channels * multiplier], or the NCHW layout, in input's type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.constant([[[[1.0, 10.0]]]])
      >>> y = tf.nn.depthwise_conv2d_native(x, [[[[2.0], [3.0]]]], [1, 1, 1, 1], "SAME")
      >>> tf.Session().run(y).tolist()
      [[[[2.0, 30.0]]]]
    """
    own = name or "DepthwiseConv2dNative"
    return depthwise_conv2d(input, filter, strides, padding, dilations, own, data_format)


@export("nn.separable_conv2d")
def separable_conv2d(
    input: TensorLike,
    depthwise_filter: TensorLike,
    pointwise_filter: TensorLike,
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    rate: TensorLike | None = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Convolve each channel by itself, then mix channels at every position.

    Args:
      input: floating numbers [batch, height, width, channels], or [batch, channels, height, width]
        for "NCHW".
      depthwise_filter: [height, width, channels, multiplier], of input's type.
      pointwise_filter: [1, 1, channels * multiplier, out].
      strides: four ints, 1 for batch and channels.
      padding: "SAME", "VALID", or explicit pairs (before, after) for each dimension.
      rate: another name for dilations, of TensorFlow 1.
      data_format: "NHWC" (default) or "NCHW".
      dilations: how far apart the taps of depthwise_filter are, two ints; 1 by default.
    Returns: [batch, height, width, out], or the NCHW layout, in input's type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.constant([[[[1.0, 10.0]]]])
      >>> apart, mix = tf.ones([1, 1, 2, 1]), tf.constant([[[[1.0], [2.0]]]])
      >>> tf.nn.separable_conv2d(x, apart, mix, [1, 1, 1, 1], "SAME").numpy().tolist()
      [[[[21.0]]]]
    """
    layout = data_format or "NHWC"
    with get_default_graph().name_scope(name or "separable_conv2d") as scope:
        apart = depthwise_conv2d(
            input, depthwise_filter, strides, padding, rate, None, layout, dilations
        )
        made: Tensor = apply_op(
            "Conv2D",
            apart,
            pointwise_filter,
            strides=[1, 1, 1, 1],
            padding="VALID",
            data_format=layout,
            name=scope,
        )
    return made


def _backprop(
    which: str,
    inputs: tuple[Any, ...],
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    data_format: str,
    dilations: int | Sequence[int],
    name: str | None,
) -> Tensor:
    made: Tensor = apply_op(
        f"DepthwiseConv2dNativeBackprop{which}",
        *inputs,
        strides=strides,
        data_format=data_format,
        dilations=dilations,
        name=name,
        **padding_attrs(padding, data_format),
    )
    return made


@export("nn.depthwise_conv2d_backprop_input", "nn.depthwise_conv2d_native_backprop_input")
def depthwise_conv2d_backprop_input(
    input_sizes: TensorLike,
    filter: TensorLike,
    out_backprop: TensorLike,
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    data_format: str = "NHWC",
    dilations: int | Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Return the gradient of depthwise_conv2d for its input.

    Args:
      input_sizes: the input's shape, int32 [4].
      filter: [height, width, channels, multiplier].
      out_backprop: the gradient of the result, in its shape.
      strides, padding, data_format: as of depthwise_conv2d.
      dilations: four ints, 1 for batch and channels.
    Returns: a tensor of the shape input_sizes.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> gradient = tf.nn.depthwise_conv2d_backprop_input(
      ...     [1, 1, 1, 2], [[[[2.0], [3.0]]]], tf.ones([1, 1, 1, 2]), [1, 1, 1, 1], "SAME")
      >>> gradient.numpy().tolist()
      [[[[2.0, 3.0]]]]
    """
    inputs = input_sizes, filter, out_backprop
    return _backprop("Input", inputs, strides, padding, data_format, dilations, name)


@export("nn.depthwise_conv2d_backprop_filter", "nn.depthwise_conv2d_native_backprop_filter")
def depthwise_conv2d_backprop_filter(
    input: TensorLike,
    filter_sizes: TensorLike,
    out_backprop: TensorLike,
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    data_format: str = "NHWC",
    dilations: int | Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Return the gradient of depthwise_conv2d for its filter.

    Args:
      input: [batch, height, width, channels], or the NCHW layout.
      filter_sizes: the filter's shape, int32 [4].
      out_backprop: the gradient of the result, in its shape.
      strides, padding, data_format: as of depthwise_conv2d.
      dilations: four ints, 1 for batch and channels.
    Returns: a tensor of the shape filter_sizes.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> gradient = tf.nn.depthwise_conv2d_backprop_filter(
      ...     [[[[1.0, 10.0]]]], [1, 1, 2, 1], tf.ones([1, 1, 1, 2]), [1, 1, 1, 1], "SAME")
      >>> gradient.numpy().tolist()
      [[[[1.0], [10.0]]]]
    """
    inputs = input, filter_sizes, out_backprop
    return _backprop("Filter", inputs, strides, padding, data_format, dilations, name)
