"""Convolutions in two dimensions: the ops, their gradients and the public functions.

Source: tensorflow/core/kernels/conv_ops.cc, conv_grad_ops.cc, depthwise_conv_op.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
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
    one_of,
    out_size,
    padding_attrs,
    per_axis,
    spatial,
    to_nhwc,
    windows,
)
from tideflow.ops.nn.conv_sizes import check_out_backprop, read_sizes, shape_of_sizes
from tideflow.wire import errors

_GEOMETRY = ("strides", "padding", "explicit_paddings", "data_format", "dilations")


def conv2d_shape(c: ShapeContext) -> list[Dims]:
    """Give a convolution of (input, filter) its shape.  Raises: ValueError."""
    check_attrs(c.attrs, errors.UnimplementedError)
    layout = c.attrs["data_format"]
    given = dims_to_nhwc(with_rank(c.inputs[0], 4, "input"), layout)
    height, width, depth, out = with_rank(c.inputs[1], 4, "filter")
    channels = given[3]
    if channels is not None and depth and channels % depth:
        raise ValueError(
            f"the input has {channels} channels; the filter takes {depth}, which must divide it"
        )
    found = (
        given[0],
        out_size(given[1], height, 0, c.attrs),
        out_size(given[2], width, 1, c.attrs),
        out,
    )
    return [dims_from_nhwc(found, layout)]


def _groups(x: Any, w: Any) -> int:
    """Return the number of groups of a convolution of an NHWC array.

    Raises: InvalidArgumentError.
    """
    _check_filter(w.shape)
    channels, depth, out = x.shape[3], w.shape[2], w.shape[3]
    if not depth or channels % depth or out % (channels // depth or 1):
        raise errors.InvalidArgumentError(
            f"the input has {channels} channels; the filter takes {depth} and gives {out}: they "
            "do not divide"
        )
    return channels // depth or 1


def _check_filter(shape: tuple[int, ...]) -> None:
    if len(shape) != 4:
        raise errors.InvalidArgumentError(f"filter must have rank 4; its shape is {list(shape)}")


@op(
    """
    Conv2D(input: T, filter: T) -> output: T
    T: type in {half, bfloat16, float, double, int32}
    strides: list(int)
    use_cudnn_on_gpu: bool = true
    padding: string in {SAME, VALID, EXPLICIT}
    explicit_paddings: list(int) = []
    data_format: string in {NHWC, NCHW} = 'NHWC'
    dilations: list(int) = [1, 1, 1, 1]
    """,
    shape=conv2d_shape,
    compiles=Compiles.ALWAYS,
)
def conv2d_kernel(
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
    groups = _groups(x, filter)
    rows, columns = windows(
        x.shape[1:3], filter.shape[:2], strides, padding, explicit_paddings, data_format, dilations
    )
    return from_nhwc(convolve(xp, x, filter, rows, columns, groups), data_format)


def _input_sizes_shape(c: ShapeContext) -> list[Dims]:
    check_attrs(c.attrs, errors.UnimplementedError)
    layout = c.attrs["data_format"]
    sizes = c.value_as_shape(0)
    grad = dims_to_nhwc(with_rank(c.inputs[2], 4, "out_backprop"), layout)
    if sizes is not None and len(sizes) == 2:
        depth = with_rank(c.inputs[1], 4, "filter")[2]
        return [dims_from_nhwc((grad[0], sizes[0], sizes[1], depth), layout)]
    found = dims_to_nhwc(with_rank(sizes, 4, "input_sizes"), layout)
    batch = shapes.merge((found[0],), (grad[0],))
    assert batch is not None
    return [dims_from_nhwc((batch[0], *found[1:]), layout)]


def _input_shape(
    input_sizes: object, w: Any, dy: Any, data_format: str
) -> tuple[int, int, int, int]:
    """Return the input's sizes in NHWC order, from all four or from height and width."""
    sizes = read_sizes(input_sizes, "input_sizes", 4, 2)
    if len(sizes) == 2:
        return dy.shape[0], sizes[0], sizes[1], w.shape[2]
    height, width = spatial(sizes, data_format)
    return sizes[0], height, width, sizes[1] if data_format == "NCHW" else sizes[3]


@op(
    """
    Conv2DBackpropInput(input_sizes: int32, filter: T, out_backprop: T) -> output: T
    T: type in {half, bfloat16, float, double, int32}
    strides: list(int)
    use_cudnn_on_gpu: bool = true
    padding: string in {SAME, VALID, EXPLICIT}
    explicit_paddings: list(int) = []
    data_format: string in {NHWC, NCHW} = 'NHWC'
    dilations: list(int) = [1, 1, 1, 1]
    """,
    shape=_input_sizes_shape,
    static=("input_sizes",),
    compiles=Compiles.ALWAYS,
)
def conv2d_backprop_input_kernel(
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
    _check_filter(filter.shape)
    batch, height, width, channels = _input_shape(input_sizes, filter, dy, data_format)
    if not filter.shape[2] or channels % filter.shape[2]:
        raise errors.InvalidArgumentError(
            f"input_sizes has {channels} channels; the filter takes {filter.shape[2]}"
        )
    rows, columns = windows(
        (height, width), filter.shape[:2], strides, padding, explicit_paddings, data_format,
        dilations,
    )  # fmt: skip
    check_out_backprop(dy, batch, (rows, columns), filter.shape[3])
    return from_nhwc(input_gradient(xp, filter, dy, rows, columns, channels), data_format)


@op(
    """
    Conv2DBackpropFilter(input: T, filter_sizes: int32, out_backprop: T) -> output: T
    T: type in floats
    strides: list(int)
    use_cudnn_on_gpu: bool = true
    padding: string in {SAME, VALID, EXPLICIT}
    explicit_paddings: list(int) = []
    data_format: string in {NHWC, NCHW} = 'NHWC'
    dilations: list(int) = [1, 1, 1, 1]
    """,
    shape=shape_of_sizes(1, "filter_sizes", 4),
    static=("filter_sizes",),
    compiles=Compiles.ALWAYS,
)
def conv2d_backprop_filter_kernel(
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
    _check_filter(sizes)
    if not sizes[2] or x.shape[3] % sizes[2]:
        raise errors.InvalidArgumentError(
            f"the input has {x.shape[3]} channels; filter_sizes is {list(sizes)}"
        )
    rows, columns = windows(
        x.shape[1:3], sizes[:2], strides, padding, explicit_paddings, data_format, dilations
    )
    check_out_backprop(dy, x.shape[0], (rows, columns), sizes[3])
    return filter_gradient(xp, x, dy, rows, columns, sizes[2])


def _geometry(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in _GEOMETRY}


def register_gradients(base: str) -> None:
    """Register the gradients of a convolution and of its two backprops, each made of the others."""
    by_input, by_filter = f"{base}BackpropInput", f"{base}BackpropFilter"

    @gradient(base)
    def forward(op: Operation, grad: Tensor) -> list[Any]:
        x, w = op.inputs
        x_shape, w_shape = apply_op("ShapeN", [x, w])
        attrs = _geometry(op)
        return [
            apply_op(by_input, x_shape, w, grad, **attrs),
            apply_op(by_filter, x, w_shape, grad, **attrs),
        ]

    @gradient(by_input)
    def backprop_input(op: Operation, grad: Tensor) -> list[Any]:
        _, w, dy = op.inputs
        attrs = _geometry(op)
        return [
            None,
            apply_op(by_filter, grad, apply_op("Shape", w), dy, **attrs),
            apply_op(base, grad, w, **attrs),
        ]

    @gradient(by_filter)
    def backprop_filter(op: Operation, grad: Tensor) -> list[Any]:
        x, _, dy = op.inputs
        attrs = _geometry(op)
        return [
            apply_op(by_input, apply_op("Shape", x), grad, dy, **attrs),
            None,
            apply_op(base, x, grad, **attrs),
        ]


register_gradients("Conv2D")


@export("nn.conv2d")
def conv2d(
    input: TensorLike,
    filter: TensorLike | None = None,
    strides: int | Sequence[int] | None = None,
    padding: str | Sequence[Any] | None = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC",
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
    filters: TensorLike | None = None,
) -> Tensor:
    """Convolve images with filters.

    out[b, y, x, o] = sum over i, j, c of input[b, y * s + i * d, x * s + j * d, c] * filter[i, j,
    c, o],
    where s are the strides and d the dilations.

    Args:
      input: floating numbers [batch, height, width, channels], or [batch, channels, height, width]
        for
        "NCHW".
      filter: [height, width, channels / groups, out]; filters is its new name.
      strides: the distance of windows: one, two (height, width) or four numbers; 1 by default.
      padding: "SAME", "VALID", or a pair (before, after) for each of the four dimensions.
      use_cudnn_on_gpu: accepted for programs that give it.
      data_format: "NHWC" or "NCHW".
      dilations: the distance of the filter's taps, given as strides; 1 by default.
    Returns: images of `out` channels, in the type and layout of input.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> image = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
      >>> total = tf.nn.conv2d(image, tf.ones([2, 2, 1, 1]), 1, "VALID")
      >>> print(tf.squeeze(total).numpy())
      [[ 8. 12.]
       [20. 24.]]
    """
    layout = data_format or "NHWC"
    made: Tensor = apply_op(
        "Conv2D",
        input,
        one_of("filter", filter, "filters", filters),
        name=name,
        **_attrs(strides, padding, layout, dilations, use_cudnn_on_gpu),
    )
    return made


def _attrs(
    strides: object, padding: object, layout: str, dilations: object, use_cudnn_on_gpu: bool | None
) -> dict[str, Any]:
    if padding is None:
        raise ValueError("padding is missing; give 'SAME', 'VALID' or explicit pairs")
    return {
        "strides": per_axis(strides, "strides", layout),
        "dilations": per_axis(dilations, "dilations", layout),
        "data_format": layout,
        "use_cudnn_on_gpu": True if use_cudnn_on_gpu is None else use_cudnn_on_gpu,
        **padding_attrs(padding, layout),
    }


@export("nn.atrous_conv2d")
def atrous_conv2d(
    value: TensorLike,
    filters: TensorLike,
    rate: int,
    padding: str | Sequence[Any],
    name: str | None = None,
) -> Tensor:
    """Convolve images with filters whose taps lie some positions apart.

    Args:
      value: floating numbers [batch, height, width, channels].
      filters: [height, width, channels, out].
      rate: the distance of taps, in positions.
      padding: "SAME" or "VALID".
    Returns: images of `out` channels, in the type of value.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> image = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
      >>> print(tf.squeeze(tf.nn.atrous_conv2d(image, tf.ones([2, 2, 1, 1]), 2, "VALID")).numpy())
      16.0
    """
    return conv2d(value, filters, 1, padding, dilations=rate, name=name or "convolution")


@export("nn.conv2d_backprop_input")
def conv2d_backprop_input(
    input_sizes: TensorLike,
    filter: TensorLike | None = None,
    out_backprop: TensorLike | None = None,
    strides: int | Sequence[int] | None = None,
    padding: str | Sequence[Any] | None = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC",
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
    filters: TensorLike | None = None,
) -> Tensor:
    """Return the gradient of conv2d for its input.

    Args:
      input_sizes: the input's shape, int32 [4].
      filter: the convolution's filter; filters is its new name.
      out_backprop: the gradient for the convolution's result.
      strides: the distance of windows: one, two (height, width) or four numbers; 1 by default.
      padding: "SAME", "VALID", or a pair (before, after) for each of the four dimensions.
      use_cudnn_on_gpu: accepted for programs that give it.
      data_format: "NHWC" or "NCHW".
      dilations: the distance of the filter's taps, given as strides; 1 by default.
    Returns: a tensor of shape input_sizes.
    Example:
      >>> made = tf.nn.conv2d_backprop_input(
      ...     [1, 2, 2, 1], tf.ones([2, 2, 1, 1]), tf.ones([1, 1, 1, 1]), [1, 1, 1, 1], "VALID"
      ... )
      >>> tf.Session().run(made).ravel().tolist()
      [1.0, 1.0, 1.0, 1.0]
    """
    layout = data_format or "NHWC"
    made: Tensor = apply_op(
        "Conv2DBackpropInput",
        input_sizes,
        one_of("filter", filter, "filters", filters),
        out_backprop,
        name=name,
        **_attrs(strides, padding, layout, dilations, use_cudnn_on_gpu),
    )
    return made


@export("nn.conv2d_backprop_filter")
def conv2d_backprop_filter(
    input: TensorLike,
    filter_sizes: TensorLike,
    out_backprop: TensorLike,
    strides: int | Sequence[int] | None = None,
    padding: str | Sequence[Any] | None = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC",
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the gradient of conv2d for its filter.

    Args:
      input: the convolution's input.
      filter_sizes: the filter's shape, int32 [4].
      out_backprop: the gradient for the convolution's result.
      strides: the distance of windows: one, two (height, width) or four numbers; 1 by default.
      padding: "SAME", "VALID", or a pair (before, after) for each of the four dimensions.
      use_cudnn_on_gpu: accepted for programs that give it.
      data_format: "NHWC" or "NCHW".
      dilations: the distance of the filter's taps, given as strides; 1 by default.
    Returns: a tensor of shape filter_sizes.
    Example:
      >>> image = tf.ones([1, 3, 3, 1])
      >>> made = tf.nn.conv2d_backprop_filter(
      ...     image, [2, 2, 1, 1], tf.ones([1, 2, 2, 1]), [1, 1, 1, 1], "VALID"
      ... )
      >>> tf.Session().run(made).ravel().tolist()
      [4.0, 4.0, 4.0, 4.0]
    """
    layout = data_format or "NHWC"
    made: Tensor = apply_op(
        "Conv2DBackpropFilter",
        input,
        filter_sizes,
        out_backprop,
        name=name,
        **_attrs(strides, padding, layout, dilations, use_cudnn_on_gpu),
    )
    return made


@export("nn.conv2d_transpose")
def conv2d_transpose(
    value: TensorLike | None = None,
    filter: TensorLike | None = None,
    output_shape: TensorLike | None = None,
    strides: int | Sequence[int] | None = None,
    padding: str | Sequence[Any] = "SAME",
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: TensorLike | None = None,
    filters: TensorLike | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Apply the transpose of conv2d, which makes images larger.

    Args:
      value: floating numbers [batch, height, width, in], or the "NCHW" layout; input is its new
        name.
      filter: [height, width, out, in]; filters is its new name.
      output_shape: the result's four sizes.
      strides: those of the convolution: one, two (height, width) or four numbers.
      padding: that of the convolution.
      data_format: "NHWC" or "NCHW".
      dilations: those of the convolution.
    Returns: images of output_shape, in the type of value.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> image = tf.ones([1, 1, 1, 1])
      >>> spread = tf.nn.conv2d_transpose(image, tf.ones([2, 2, 1, 1]), [1, 2, 2, 1], 2, "VALID")
      >>> print(tf.squeeze(spread).numpy())
      [[1. 1.]
       [1. 1.]]
    """
    layout = data_format or "NHWC"
    with get_default_graph().name_scope(name or "conv2d_transpose") as scope:
        made: Tensor = apply_op(
            "Conv2DBackpropInput",
            output_shape,
            one_of("filter", filter, "filters", filters),
            one_of("value", value, "input", input),
            name=scope,
            **_attrs(strides, padding, layout, dilations, True),
        )
    return made


@export("nn.conv1d")
def conv1d(
    value: TensorLike | None = None,
    filters: TensorLike | None = None,
    stride: int | Sequence[int] | None = None,
    padding: str | Sequence[Any] | None = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: TensorLike | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Convolve sequences with filters, as conv2d does images of height 1.

    Args:
      value: floating numbers [batch, width, channels], or [batch, channels, width] for "NCW"; input
        is
        its new name.
      filters: [width, channels, out].
      stride: the distance of windows; 1 by default.
      padding: "SAME" or "VALID".
      use_cudnn_on_gpu: accepted for programs that give it.
      data_format: "NWC" or "NCW".
      dilations: the distance of the filter's taps; 1 by default.
    Returns: sequences of `out` channels, in the type and layout of value.
    Raises: ValueError for another data_format or shapes that cannot fit.
    Example:
      >>> sequence = tf.reshape(tf.range(4.0), [1, 4, 1])
      >>> print(tf.squeeze(tf.nn.conv1d(sequence, tf.ones([2, 1, 1]), 1, "VALID")).numpy())
      [1. 3. 5.]
    """
    if data_format not in (None, "NWC", "NHWC", "NCW", "NCHW"):
        raise ValueError(f"data_format must be 'NWC' or 'NCW'; found {data_format!r}")
    layout = "NCHW" if data_format in ("NCW", "NCHW") else "NHWC"
    axis = 2 if layout == "NCHW" else 1
    with get_default_graph().name_scope(name or "conv1d"):
        given = convert_to_tensor(one_of("value", value, "input", input))
        images = apply_op("ExpandDims", given, axis)
        wide_filters = apply_op("ExpandDims", filters, 0)
        made = conv2d(
            images,
            wide_filters,
            _along_width(stride, layout),
            padding,
            use_cudnn_on_gpu is not False,
            layout,
            _along_width(dilations, layout),
        )
        found: Tensor = apply_op("Squeeze", made, squeeze_dims=[axis])
    return found


def _along_width(value: Any, layout: str) -> list[int]:
    """Return a stride or dilation of a sequence for images of height 1."""
    given = [1] if value is None else [value] if isinstance(value, int) else list(value)
    if len(given) == 3:
        given = given[2:] if layout == "NCHW" else given[1:2]
    if len(given) != 1:
        raise ValueError(f"a stride or dilation must have 1 or 3 entries; found {value!r}")
    return [1, given[0]]
