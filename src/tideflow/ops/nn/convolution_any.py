"""Convolutions over any number of spatial dimensions, and any op over blocks of space.

Source: tensorflow/python/ops/nn_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.nn.blocks_api import (
    batch_to_space_nd,
    required_space_to_batch_paddings,
    space_to_batch_nd,
)
from tideflow.ops.nn.conv_geometry import one_of
from tideflow.ops.nn.convolutions import conv1d, conv2d, conv2d_transpose
from tideflow.ops.nn.volumes import conv3d, conv3d_transpose

_LAYOUTS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


def layout_of(data_format: str | None, count: int) -> str:
    """Return the layout's full name for `count` spatial dimensions.

    Raises: ValueError for a layout of another number of dimensions, or more than three of them.
    """
    if count not in _LAYOUTS:
        raise ValueError(f"there must be 1, 2 or 3 spatial dimensions; found {count}")
    if data_format is None:
        return _LAYOUTS[count][0]
    # "NHWC" and "NCHW" say for sequences, too, where the channels are.
    if data_format not in _LAYOUTS[count] and data_format not in _LAYOUTS[2]:
        raise ValueError(f"data_format must be one of {_LAYOUTS[count]}; found {data_format!r}")
    return _LAYOUTS[count][data_format.startswith("NC")]


def per_dimension(value: Any, count: int, what: str) -> list[int]:
    """Return one number for each spatial dimension.  Raises: ValueError."""
    given = [1] if value is None else [value] if isinstance(value, int) else list(value)
    if len(given) == count + 2:
        given = given[1:-1]
    if len(given) not in (1, count):
        raise ValueError(f"{what} must have 1 or {count} entries; found {value!r}")
    found = given * count if len(given) == 1 else given
    if any(n < 1 for n in found):
        raise ValueError(f"{what} must be positive; found {value!r}")
    return found


@export_v2("nn.convolution")
def convolution_v2(
    input: TensorLike,
    filters: TensorLike,
    strides: int | Sequence[int] | None = None,
    padding: str | Sequence[Any] = "VALID",
    data_format: str | None = None,
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
) -> Tensor:
    """Convolve with filters over one, two or three spatial dimensions.

    Args:
      input: floating numbers [batch..., space..., channels], or [batch..., channels, space...]
        where data_format begins with "NC".
      filters: [space..., channels, out], of input's type.
      strides, dilations: one int, or one for each spatial dimension.
      padding: "SAME", "VALID", or, for one and two dimensions, explicit pairs (before, after).
      data_format: "NWC", "NCW", "NHWC", "NCHW", "NDHWC" or "NCDHW", with the channels last by
        default.
    Returns: [batch..., space..., out], or the layout of data_format, in input's type.
    Raises: ValueError for strides and dilations both other than 1, and for what cannot fit.
    Example:
      >>> x = tf.constant([[[1.0], [2.0], [4.0]]])
      >>> difference = tf.constant([[[-1.0]], [[1.0]]])
      >>> tf.nn.convolution(x, difference)[0, :, 0].numpy().tolist()
      [1.0, 2.0]
    """
    x, weights = convert_to_tensor(input), convert_to_tensor(filters)
    if weights.shape.rank is None:
        raise ValueError("the rank of filters must be known")
    count = weights.shape.rank - 2
    layout = layout_of(data_format, count)
    steps = per_dimension(strides, count, "strides")
    rates = per_dimension(dilations, count, "dilations")
    if max(steps) > 1 and max(rates) > 1:
        raise ValueError(f"strides {steps} and dilations {rates} cannot both be other than 1")
    if x.shape.rank is not None and x.shape.rank < count + 2:
        raise ValueError(f"input must have rank {count + 2} at least; its shape is {x.shape}")
    with get_default_graph().name_scope(name or "convolution"):
        return _over_batches(
            lambda images: _CONVOLVED[count](images, weights, steps, padding, layout, rates),
            x,
            count + 1,
        )


def _over_batches(function: Callable[[Tensor], Tensor], x: Tensor, inner: int) -> Tensor:
    """Call a function of one batch dimension on x, of which all but `inner` ones are such."""
    rank = x.shape.rank
    if rank is None or rank == inner + 1:
        return function(x)
    sizes = apply_op("Shape", x)
    outer = apply_op("StridedSlice", sizes, [0], [rank - inner], [1])
    rest = apply_op("StridedSlice", sizes, [rank - inner], [rank], [1])
    made = function(apply_op("Reshape", x, apply_op("ConcatV2", [[-1], rest], 0)))
    found = apply_op("StridedSlice", apply_op("Shape", made), [1], [inner + 1], [1])
    whole: Tensor = apply_op("Reshape", made, apply_op("ConcatV2", [outer, found], 0))
    whole.set_shape(x.shape[: rank - inner].concatenate(made.shape[1:]))
    return whole


_CONVOLVED: dict[int, Callable[..., Tensor]] = {
    1: lambda x, w, steps, padding, layout, rates: conv1d(
        x, w, steps, padding, data_format=layout, dilations=rates
    ),
    2: lambda x, w, steps, padding, layout, rates: conv2d(
        x, w, steps, padding, data_format=layout, dilations=rates
    ),
    3: lambda x, w, steps, padding, layout, rates: conv3d(
        x, w, steps, padding, data_format=layout, dilations=rates
    ),
}


@export("nn.convolution")
def convolution(
    input: TensorLike,
    filter: TensorLike | None = None,
    padding: str | Sequence[Any] | None = None,
    strides: int | Sequence[int] | None = None,
    dilation_rate: int | Sequence[int] | None = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: TensorLike | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Convolve with filters over one, two or three spatial dimensions.

    Args:
      input: floating numbers [batch..., space..., channels], or [batch..., channels, space...]
        where data_format begins with "NC".
      filter: [space..., channels, out], of input's type; filters is another name for it.
      padding: "SAME", "VALID", or, for one and two dimensions, explicit pairs (before, after).
      strides: one int, or one for each spatial dimension; 1 by default.
      dilation_rate: one int, or one for each spatial dimension, 1 by default; dilations is another
        name for it.
      data_format: "NWC", "NCW", "NHWC", "NCHW", "NDHWC" or "NCDHW", with the channels last by
        default.
    Returns: [batch..., space..., out], or the layout of data_format, in input's type.
    Raises: TypeError without padding; ValueError for strides and dilations both other than 1, and
      for what cannot fit.
    Example:
      >>> x = tf.constant([[[1.0], [2.0], [4.0]]])
      >>> y = tf.nn.convolution(x, tf.constant([[[-1.0]], [[1.0]]]), padding="VALID")
      >>> tf.Session().run(y)[0, :, 0].tolist()
      [1.0, 2.0]
    """
    if padding is None:
        raise TypeError("padding is missing; give 'SAME', 'VALID' or explicit pairs")
    rate = dilation_rate if dilations is None else dilations
    weights = one_of("filter", filter, "filters", filters)
    return convolution_v2(input, weights, strides, padding, data_format, rate, name)


@export("nn.conv1d_transpose")
def conv1d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: TensorLike,
    strides: int | Sequence[int],
    padding: str | Sequence[Any] = "SAME",
    data_format: str | None = "NWC",
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
) -> Tensor:
    """Apply the transpose of conv1d, which makes sequences longer.

    Args:
      input: floating numbers [batch, width, in], or [batch, in, width] for "NCW".
      filters: [width, out, in], of input's type.
      output_shape: the result's three sizes, int32 [3].
      strides: by what sequences become longer: one int, or three.
      padding: "SAME" or "VALID", as of the conv1d whose transpose this is, or explicit pairs.
      data_format: "NWC" or "NCW".
      dilations: how far apart the filter's taps are: one int, or three; 1 by default.
    Returns: [batch, width, out], or [batch, out, width], in input's type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.constant([[[1.0], [2.0]]])
      >>> twice = tf.ones([2, 1, 1])
      >>> tf.nn.conv1d_transpose(x, twice, [1, 4, 1], strides=2)[0, :, 0].numpy().tolist()
      [1.0, 1.0, 2.0, 2.0]
    """
    layout = layout_of(data_format, 1)
    axis = 1 if layout == "NWC" else 2
    with get_default_graph().name_scope(name or "conv1d_transpose"):
        sizes = convert_to_tensor(output_shape, "int32")
        before = apply_op("StridedSlice", sizes, [0], [axis], [1])
        after = apply_op("StridedSlice", sizes, [axis], [3], [1])
        made = conv2d_transpose(
            apply_op("ExpandDims", input, axis),
            apply_op("ExpandDims", filters, 0),
            apply_op("ConcatV2", [before, [1], after], 0),
            [1, *per_dimension(strides, 1, "strides")],
            padding,
            "NHWC" if axis == 1 else "NCHW",
            dilations=[1, *per_dimension(dilations, 1, "dilations")],
        )
        found: Tensor = apply_op("Squeeze", made, squeeze_dims=[axis])
        return found


@export("nn.conv_transpose")
def conv_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: TensorLike,
    strides: int | Sequence[int],
    padding: str | Sequence[Any] = "SAME",
    data_format: str | None = None,
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
) -> Tensor:
    """Apply the transpose of convolution over one, two or three spatial dimensions.

    Args:
      input: floating numbers [batch, space..., in], or [batch, in, space...] where data_format
        begins with "NC".
      filters: [space..., out, in], of input's type.
      output_shape: all sizes of the result, int32 [spatial dimensions + 2].
      strides: by what each spatial dimension grows: one int, or one for each.
      padding: "SAME" or "VALID", as of the convolution whose transpose this is, or explicit pairs.
      data_format: as of convolution; the channels are last by default.
      dilations: how far apart the filter's taps are: one int, or one for each spatial dimension.
    Returns: a tensor of output_shape, in input's type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.constant([[[[3.0]]]])
      >>> made = tf.nn.conv_transpose(x, tf.ones([2, 2, 1, 1]), [1, 2, 2, 1], strides=2)
      >>> made[0, :, :, 0].numpy().tolist()
      [[3.0, 3.0], [3.0, 3.0]]
    """
    count = len(output_shape) - 2 if isinstance(output_shape, (list, tuple)) else None
    if count is None:
        sizes = convert_to_tensor(output_shape, "int32")
        if not sizes.dims or sizes.dims[0] is None:
            raise ValueError("how many sizes output_shape has must be known")
        count = sizes.dims[0] - 2
    layout = layout_of(data_format, count)
    transposed = {1: conv1d_transpose, 2: conv2d_transpose, 3: conv3d_transpose}[count]
    made: Tensor = transposed(  # type: ignore[operator]
        input,
        filters,
        output_shape,
        per_dimension(strides, count, "strides"),
        padding=padding,
        data_format=layout,
        dilations=per_dimension(dilations, count, "dilations"),
        name=name,
    )
    return made


@export("nn.atrous_conv2d_transpose")
def atrous_conv2d_transpose(
    value: TensorLike,
    filters: TensorLike,
    output_shape: TensorLike,
    rate: int,
    padding: str | Sequence[Any],
    name: str | None = None,
) -> Tensor:
    """Apply the transpose of atrous_conv2d, whose taps lie `rate` positions apart.

    Args:
      value: floating numbers [batch, height, width, in].
      filters: [height, width, out, in], of value's type.
      output_shape: the result's four sizes, int32 [4].
      rate: how many positions apart the taps lie, an int of 1 or more.
      padding: "SAME" or "VALID", as of the atrous_conv2d whose transpose this is.
    Returns: [batch, height, width, out], in value's type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> made = tf.nn.atrous_conv2d_transpose(
      ...     tf.ones([1, 1, 1, 1]), tf.ones([2, 2, 1, 1]), [1, 3, 3, 1], rate=2, padding="VALID")
      >>> made[0, :, :, 0].numpy().tolist()
      [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    """
    return conv2d_transpose(
        value,
        filters,
        output_shape,
        1,
        padding,
        dilations=rate,
        name=name or "atrous_conv2d_transpose",
    )


# ---- dilation by rearranging


@export("nn.with_space_to_batch")
def with_space_to_batch(
    input: TensorLike,
    dilation_rate: int | Sequence[int],
    padding: str | Sequence[Any],
    op: Callable[[Any, int, Any], Any],
    filter_shape: TensorLike | None = None,
    spatial_dims: Sequence[int] | None = None,
    data_format: str | None = None,
) -> Tensor:
    """Apply an op as if its taps lay dilation_rate positions apart.

    Positions that are dilation_rate apart are brought next to each other by moving the others to
    the batch dimension; afterwards they are moved back.

    Args:
      input: a tensor [batch, space..., channels], or [batch, channels, space...].
      dilation_rate: a positive int for each spatial dimension.
      padding: "SAME", "VALID", or a pair for each spatial dimension.
      op: called with a tensor, the number of spatial dimensions, and a padding.
      filter_shape: the window's sizes, needed for "SAME".
      spatial_dims: where the spatial dimensions are; from 1 on by default, or 2 where data_format
        begins with "NC".
      data_format: where the channels are, last by default.
    Returns: what op gives, in the layout of input.
    Raises: ValueError for rates that are not known and positive, or padding that needs a window.
    Example:
      >>> x = tf.reshape(tf.range(5.0), [1, 5, 1])
      >>> pair = lambda x, _, padding: tf.nn.conv1d(x, tf.ones([2, 1, 1]), 1, padding)
      >>> made = tf.nn.with_space_to_batch(x, [2], "VALID", pair)
      >>> made[0, :, 0].numpy().tolist()
      [2.0, 4.0, 6.0]
    """
    x = convert_to_tensor(input)
    rates = [int(rate) for rate in np.asarray(dilation_rate).reshape(-1)]
    if not rates or min(rates) < 1:
        raise ValueError(f"dilation_rate must be positive numbers; found {rates}")
    first = 2 if (data_format or "").startswith("NC") else 1
    places = list(range(first, first + len(rates))) if spatial_dims is None else list(spatial_dims)
    if len(places) != len(rates) or places != sorted(set(places)) or places[0] < 1:
        raise ValueError(f"spatial_dims {places} do not go with the rates {rates}")
    if max(rates) == 1:
        made: Tensor = op(x, len(rates), padding)
        return made
    base = _base_paddings(padding, filter_shape, rates)
    sizes = apply_op("GatherV2", apply_op("Shape", x), places, 0)
    paddings, crops = required_space_to_batch_paddings(sizes, rates, base)
    block = [1] * places[-1]
    for place, rate in zip(places, rates):
        block[place - 1] = rate
    spread = space_to_batch_nd(x, block, _at_places(paddings, places))
    found = op(spread, len(rates), "VALID")
    return batch_to_space_nd(found, block, _at_places(crops, places))


def _base_paddings(padding: str | Sequence[Any], filter_shape: object, rates: list[int]) -> Any:
    if not isinstance(padding, str):
        pairs = [list(pair) for pair in padding]
        return pairs[1:-1] if len(pairs) == len(rates) + 2 else pairs
    if padding not in ("SAME", "VALID"):
        raise ValueError(f"padding must be 'SAME', 'VALID' or pairs; found {padding!r}")
    if padding == "VALID":
        return [[0, 0]] * len(rates)
    if filter_shape is None:
        raise ValueError("filter_shape is needed for padding 'SAME'")
    window = [int(n) for n in np.asarray(filter_shape).reshape(-1)[: len(rates)]]
    totals = [(size - 1) * rate for size, rate in zip(window, rates)]
    return [[total // 2, total - total // 2] for total in totals]


def _at_places(pairs: Tensor, places: list[int]) -> Tensor:
    """Return pairs for all dimensions from 1 to the last place, (0, 0) where none is given."""
    rows = [place - 1 for place in places]
    made: Tensor = apply_op(
        "ScatterNd", [[row] for row in rows], pairs, np.array([places[-1], 2], np.int32)
    )
    return made
