"""Convolutions in three dimensions: the ops, their gradients and the public functions.

Both tiers walk over the taps of the window: tap (i, j, k) of all windows is one strided slice of
the padded input, and one matrix of the filter.
Source: tensorflow/core/kernels/conv_ops_3d.h, conv_grad_ops_3d.cc.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import lax
from tideflow.ops.nn.activations import wide
from tideflow.ops.nn.conv_geometry import GeometryError, Window, one_of, tap, window
from tideflow.ops.nn.conv_sizes import check_out_backprop, read_sizes, shape_of_sizes
from tideflow.wire import errors

_GEOMETRY = ("strides", "padding", "data_format", "dilations")
_ONES = (1, 1, 1, 1, 1)

Windows = tuple[Window, Window, Window]


# ---- layouts and windows; everything is in the order batch, depth, height, width, channels


def to_ndhwc(x: Any, data_format: str, what: str = "input") -> Any:
    """Return an array of rank 5 with its channels last.  Raises: InvalidArgumentError."""
    if x.ndim != 5:
        raise errors.InvalidArgumentError(f"{what} must have rank 5; its shape is {list(x.shape)}")
    return x.transpose(0, 2, 3, 4, 1) if data_format == "NCDHW" else x


def from_ndhwc(x: Any, data_format: str) -> Any:
    """Return such an array in the layout of data_format."""
    return x.transpose(0, 4, 1, 2, 3) if data_format == "NCDHW" else x


def dims_to_ndhwc(dims: Sequence[int | None], data_format: str) -> tuple[int | None, ...]:
    """Return a static shape of rank 5 with its channels last."""
    return (dims[0], *dims[2:], dims[1]) if data_format == "NCDHW" else tuple(dims)


def dims_from_ndhwc(dims: Sequence[int | None], data_format: str) -> Dims:
    """Return such a shape in the layout of data_format."""
    return (dims[0], dims[4], *dims[1:4]) if data_format == "NCDHW" else tuple(dims)


def spatial(values: Sequence[int], data_format: str) -> Sequence[int]:
    """Return the depth, height and width entries of a list of five."""
    return values[2:] if data_format == "NCDHW" else values[1:4]


def check_attrs(attrs: dict[str, Any], beyond: type[Exception] = ValueError) -> None:
    """Check the lists of five that ops on volumes have as attrs.

    beyond: raised for windows or steps over batch or channels.
    Raises: ValueError.
    """
    channel = 1 if attrs["data_format"] == "NCDHW" else 4
    for name in ("strides", "dilations", "ksize"):
        values = attrs.get(name)
        if values is None:
            continue
        if len(values) != 5:
            raise ValueError(f"{name} must have 5 entries; found {values}")
        is_beyond = values[0] != 1 or values[channel] != 1
        given_up = name == "strides" and is_beyond and beyond is not ValueError
        if any(value <= 0 for value in values) and not given_up:
            raise ValueError(f"{name} must be positive; found {values}")
        if is_beyond:
            raise beyond(f"{name} must be 1 for batch and channels; found {values}")


def windows_of(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str,
    dilations: Sequence[int] = _ONES,
) -> Windows:
    """Return the windows along depth, height and width.  Raises: InvalidArgumentError."""
    steps, rates = spatial(strides, data_format), spatial(dilations, data_format)
    try:
        one, two, three = (
            window(size, taps, step, rate, padding, 0, 0)
            for size, taps, step, rate in zip(sizes, kernel, steps, rates)
        )
    except GeometryError as error:
        raise errors.InvalidArgumentError(str(error)) from None
    return one, two, three


def out_dims(
    dims: Sequence[int | None], kernel: Sequence[int | None], attrs: dict[str, Any]
) -> list[int | None]:
    """Return the static numbers of windows along depth, height and width.  Raises: ValueError."""
    steps = spatial(attrs["strides"], attrs["data_format"])
    rates = spatial(attrs.get("dilations") or _ONES, attrs["data_format"])
    found: list[int | None] = []
    for size, taps, step, rate in zip(dims, kernel, steps, rates):
        if size is None or (taps is None and attrs["padding"] != "SAME"):
            found.append(None)
        else:
            found.append(window(size, taps or 1, step, rate, attrs["padding"], 0, 0).out)
    return found


def filled(xp: Any, x: object, along: Windows, fill: object = 0) -> Any:
    """Return x with its windows' padding added."""
    widths = [(0, 0), *((w.before, w.after) for w in along), (0, 0)]
    return xp.pad(x, widths, constant_values=fill) if any(map(any, widths)) else x


def taps_of(along: Windows) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Give each tap, and what it touches in the padded input."""
    for at in itertools.product(*(range(w.kernel) for w in along)):
        yield at, (slice(None), *(slice(*tap(w, i)) for w, i in zip(along, at)))


def _inner_taps(along: Windows) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Give for each tap what it touches in the input, and which windows do not miss it there.

    Padding is left out: products with its zeros are NaN where a gradient is not finite.
    """
    for at in itertools.product(*(range(w.kernel) for w in along)):
        touched, reaching = [slice(None)], [slice(None)]
        for w, i in zip(along, at):
            place = i * w.dilation - w.before
            first = max(-(place // w.stride), 0)
            end = max(min((w.size - 1 - place) // w.stride + 1, w.out), first)
            start = place + first * w.stride
            touched.append(slice(start, start + (end - first) * w.stride, w.stride))
            reaching.append(slice(first, end))
        yield tuple(touched), tuple(reaching)


class Spread:
    """The sum of what taps send back to the input, in either tier."""

    def __init__(
        self, xp: ArrayNamespace, batch: int, channels: int, along: Windows, dtype: DTypeLike
    ) -> None:
        self._xp, self._along = xp, along
        extra = [w.before + w.after if xp is np else 0 for w in along]
        sizes = [w.size + more for w, more in zip(along, extra)]
        self._sum = xp.zeros((batch, *sizes, channels), dtype)

    def add(self, at: tuple[int, ...], index: tuple[slice, ...], part: Array) -> None:
        """Add what belongs to a tap."""
        if self._xp is np:
            self._sum[index] += part
        elif all(w.out for w in self._along):
            config = [(0, 0, 0), *map(_place, self._along, at), (0, 0, 0)]
            self._sum = self._sum + lax().pad(part, self._xp.zeros((), part.dtype), config)

    def result(self) -> Any:
        """Return the sum without padding."""
        if self._xp is not np:
            return self._sum
        inside = (slice(w.before, w.before + w.size) for w in self._along)
        return np.ascontiguousarray(self._sum[(slice(None), *inside)])


def _place(w: Window, index: int) -> tuple[int, int, int]:
    low = index * w.dilation - w.before
    return low, w.size - low - ((w.out - 1) * w.stride + 1), w.stride - 1


# ---- kernels


def conv3d_shape(c: ShapeContext) -> list[Dims]:
    """Give a convolution of (input, filter) its shape.  Raises: ValueError."""
    check_attrs(c.attrs)
    layout = c.attrs["data_format"]
    given = dims_to_ndhwc(with_rank(c.inputs[0], 5, "input"), layout)
    *kernel, depth, out = with_rank(c.inputs[1], 5, "filter")
    channels = given[4]
    if channels is not None and depth is not None and (not depth or channels % depth):
        raise ValueError(f"the input has {channels} channels; the filter takes {depth}")
    return [dims_from_ndhwc((given[0], *out_dims(given[1:4], kernel, c.attrs), out), layout)]


def _groups_of(shape: Sequence[int], channels: int) -> int:
    """Return into how many groups a filter of this shape parts the channels of the input.

    TensorFlow has groups where XLA compiles the convolution.  Raises: InvalidArgumentError.
    """
    if len(shape) != 5:
        raise errors.InvalidArgumentError(f"filter must have rank 5; its shape is {list(shape)}")
    if shape[3] == channels:
        return 1
    groups, rest = divmod(channels, shape[3] or channels + 1)
    if rest or not groups or shape[4] % groups:
        raise errors.InvalidArgumentError(
            f"the input has {channels} channels; the filter takes {shape[3]} and gives {shape[4]}"
        )
    return groups


def _by_group(
    xp: ArrayNamespace, groups: int, product: Callable[[Array, Array], Array], a: Array, b: Array
) -> Array:
    """Return what a product gives for each group of the last axes, joined along the last axis."""
    if groups == 1:
        return product(a, b)
    pairs = zip(xp.split(a, groups, axis=-1), xp.split(b, groups, axis=-1))
    return xp.concatenate([product(one, other) for one, other in pairs], axis=-1)


@op(
    """
    Conv3D(input: T, filter: T) -> output: T
    T: type in floats
    strides: list(int) >= 5
    padding: string in {SAME, VALID}
    data_format: string in {NDHWC, NCDHW} = 'NDHWC'
    dilations: list(int) = [1, 1, 1, 1, 1]
    """,
    shape=conv3d_shape,
)
def conv3d_kernel(
    xp: ArrayNamespace,
    input: Array,
    filter: Array,
    *,
    strides: list[int],
    padding: str,
    data_format: str,
    dilations: list[int],
) -> Any:
    x = to_ndhwc(input, data_format)
    groups = _groups_of(filter.shape, x.shape[4])
    along = windows_of(x.shape[1:4], filter.shape[:3], strides, padding, data_format, dilations)
    full, matrices = filled(xp, wide(xp, x), along), wide(xp, filter)
    sizes = (x.shape[0], *(w.out for w in along), filter.shape[4])
    total = xp.zeros(sizes, matrices.dtype)
    for at, index in taps_of(along):
        total = total + _by_group(xp, groups, operator.matmul, full[index], matrices[at])
    return from_ndhwc(total.astype(input.dtype), data_format)


def _times_transposed(a: Array, b: Array) -> Array:
    return a @ b.T


def _input_sizes_shape(c: ShapeContext) -> list[Dims]:
    check_attrs(c.attrs)
    found = with_rank(c.value_as_shape(0), 5, "input_sizes")
    batch = shapes.merge((found[0],), (with_rank(c.inputs[2], 5, "out_backprop")[0],))
    assert batch is not None
    return [(batch[0], *found[1:])]


@op(
    """
    Conv3DBackpropInputV2(input_sizes: Tshape, filter: T, out_backprop: T) -> output: T
    T: type in floats
    strides: list(int) >= 5
    padding: string in {SAME, VALID}
    data_format: string in {NDHWC, NCDHW} = 'NDHWC'
    dilations: list(int) = [1, 1, 1, 1, 1]
    Tshape: type in indices = int32
    """,
    shape=_input_sizes_shape,
    static=("input_sizes",),
)
def conv3d_backprop_input_kernel(
    xp: ArrayNamespace,
    input_sizes: Array,
    filter: Array,
    out_backprop: Array,
    *,
    strides: list[int],
    padding: str,
    data_format: str,
    dilations: list[int],
) -> Any:
    dy = to_ndhwc(out_backprop, data_format, "out_backprop")
    batch, *spaces, channels = dims_to_ndhwc(read_sizes(input_sizes, "input_sizes", 5), data_format)
    assert batch is not None
    assert channels is not None
    groups = _groups_of(filter.shape, channels)
    kernel = filter.shape[:3]
    along = windows_of(spaces, kernel, strides, padding, data_format, dilations)  # type: ignore[arg-type]
    check_out_backprop(dy, batch, along, filter.shape[4])
    matrices, given = wide(xp, filter), wide(xp, dy)
    spread = Spread(xp, batch, channels, along, matrices.dtype)
    for at, index in taps_of(along):
        spread.add(at, index, _by_group(xp, groups, _times_transposed, given, matrices[at]))
    return from_ndhwc(spread.result().astype(out_backprop.dtype), data_format)


@op(
    """
    Conv3DBackpropFilterV2(input: T, filter_sizes: int32, out_backprop: T) -> output: T
    T: type in floats
    strides: list(int) >= 5
    padding: string in {SAME, VALID}
    data_format: string in {NDHWC, NCDHW} = 'NDHWC'
    dilations: list(int) = [1, 1, 1, 1, 1]
    """,
    shape=shape_of_sizes(1, "filter_sizes", 5, check_attrs),
    static=("filter_sizes",),
)
def conv3d_backprop_filter_kernel(
    xp: ArrayNamespace,
    input: Array,
    filter_sizes: Array,
    out_backprop: Array,
    *,
    strides: list[int],
    padding: str,
    data_format: str,
    dilations: list[int],
) -> Any:
    x = to_ndhwc(input, data_format)
    dy = to_ndhwc(out_backprop, data_format, "out_backprop")
    sizes = read_sizes(filter_sizes, "filter_sizes", 5)
    groups = _groups_of(sizes, x.shape[4])
    along = windows_of(x.shape[1:4], sizes[:3], strides, padding, data_format, dilations)
    check_out_backprop(dy, x.shape[0], along, sizes[4])
    full, given = wide(xp, x), wide(xp, dy)
    axes = ((0, 1, 2, 3), (0, 1, 2, 3))
    parts = [
        _by_group(xp, groups, lambda a, b: xp.tensordot(a, b, axes), full[touched], given[reaching])
        for touched, reaching in _inner_taps(along)
    ]
    return xp.stack(parts).reshape(sizes).astype(input.dtype)


# ---- gradients


def _geometry(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in _GEOMETRY}


@gradient("Conv3D")
def conv3d_gradient(op: Operation, grad: Tensor) -> list[Any]:
    x, w = op.inputs
    x_shape, w_shape = apply_op("ShapeN", [x, w])
    attrs = _geometry(op)
    return [
        apply_op("Conv3DBackpropInputV2", x_shape, w, grad, **attrs),
        apply_op("Conv3DBackpropFilterV2", x, w_shape, grad, **attrs),
    ]


@gradient("Conv3DBackpropInputV2")
def conv3d_backprop_input_gradient(op: Operation, grad: Tensor) -> list[Any]:
    _, w, dy = op.inputs
    attrs = _geometry(op)
    return [
        None,
        apply_op("Conv3DBackpropFilterV2", grad, apply_op("Shape", w), dy, **attrs),
        apply_op("Conv3D", grad, w, **attrs),
    ]


@gradient("Conv3DBackpropFilterV2")
def conv3d_backprop_filter_gradient(op: Operation, grad: Tensor) -> list[Any]:
    x, _, dy = op.inputs
    attrs = _geometry(op)
    return [
        apply_op("Conv3DBackpropInputV2", apply_op("Shape", x), grad, dy, **attrs),
        None,
        apply_op("Conv3D", x, grad, **attrs),
    ]


# ---- public functions


def per_axis(value: Any, what: str, data_format: str) -> list[int]:
    """Return strides or sizes as five numbers, from one, three or five.  Raises: ValueError."""
    given = [1] if value is None else [value] if isinstance(value, int) else list(value)
    if len(given) == 5:
        return given
    if len(given) not in (1, 3):
        raise ValueError(f"{what} must have 1, 3 or 5 entries; found {given}")
    three = given * 3 if len(given) == 1 else given
    return [1, 1, *three] if data_format == "NCDHW" else [1, *three, 1]


def _attrs(strides: object, padding: str | None, layout: str, dilations: object) -> dict[str, Any]:
    if padding is None:
        raise ValueError("padding is missing; give 'SAME' or 'VALID'")
    return {
        "strides": per_axis(strides, "strides", layout),
        "dilations": per_axis(dilations, "dilations", layout),
        "padding": padding.upper(),
        "data_format": layout,
    }


@export("nn.conv3d")
def conv3d(
    input: TensorLike,
    filter: TensorLike | None = None,
    strides: int | Sequence[int] | None = None,
    padding: str | None = None,
    data_format: str = "NDHWC",
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
    filters: TensorLike | None = None,
) -> Tensor:
    """Convolve volumes with filters.

    Args:
      input: floating numbers [batch, depth, height, width, channels], or with the channels second
        for "NCDHW".
      filter: [depth, height, width, channels, out], of input's type; `filters` is another name for
        it.
      strides, dilations: one, three or five ints.
      padding: "SAME" or "VALID".
      data_format: "NDHWC" or "NCDHW".
    Returns: volumes of `out` channels in the input's layout and type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.reshape(tf.range(8.0), [1, 2, 2, 2, 1])
      >>> sums = tf.nn.conv3d(x, tf.ones([2, 2, 2, 1, 1]), [1, 1, 1, 1, 1], "VALID")
      >>> sums.numpy().tolist()
      [[[[[28.0]]]]]
    """
    taken = one_of("filter", filter, "filters", filters)
    attrs = _attrs(strides, padding, data_format, dilations)
    made: Tensor = apply_op("Conv3D", input, taken, name=name, **attrs)
    return made


@export("nn.conv3d_backprop_filter_v2", "nn.conv3d_backprop_filter")
def conv3d_backprop_filter(
    input: TensorLike,
    filter_sizes: TensorLike,
    out_backprop: TensorLike,
    strides: int | Sequence[int],
    padding: str,
    data_format: str = "NDHWC",
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the gradient of conv3d for its filter.

    Args:
      input: [batch, depth, height, width, channels], or with the channels second for "NCDHW".
      filter_sizes: the filter's shape, int32 [5].
      out_backprop: the gradient of the result, in its shape.
      strides, padding, data_format, dilations: as of conv3d.
    Returns: a tensor of the shape filter_sizes.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> gradient = tf.nn.conv3d_backprop_filter(
      ...     tf.reshape(tf.range(2.0), [1, 2, 1, 1, 1]), [2, 1, 1, 1, 1],
      ...     tf.ones([1, 1, 1, 1, 1]), [1, 1, 1, 1, 1], "VALID")
      >>> tf.Session().run(gradient).ravel().tolist()
      [0.0, 1.0]
    """
    attrs = _attrs(strides, padding, data_format, dilations)
    made: Tensor = apply_op(
        "Conv3DBackpropFilterV2", input, filter_sizes, out_backprop, name=name, **attrs
    )
    return made


@export("nn.conv3d_transpose")
def conv3d_transpose(
    value: TensorLike,
    filter: TensorLike | None = None,
    output_shape: TensorLike | None = None,
    strides: int | Sequence[int] | None = None,
    padding: str = "SAME",
    data_format: str = "NDHWC",
    name: str | None = None,
    input: TensorLike | None = None,
    filters: TensorLike | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Apply the transpose of conv3d, which makes volumes larger.

    Args:
      value: floating numbers [batch, depth, height, width, in]; `input` is another name for it.
      filter: [depth, height, width, out, in], of value's type; `filters` is another name for it.
      output_shape: the result's five sizes, int32 [5].
      strides: by what volumes grow: one, three or five ints.
      padding: "SAME" or "VALID", as of the conv3d whose transpose this is.
      data_format: "NDHWC", or "NCDHW" with the channels second.
      dilations: one, three or five ints; 1 by default.
    Returns: a tensor of output_shape, in value's type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x, twice = tf.fill([1, 1, 1, 1, 1], 3.0), tf.ones([2, 1, 1, 1, 1])
      >>> made = tf.nn.conv3d_transpose(x, twice, [1, 2, 1, 1, 1], strides=[1, 2, 1, 1, 1])
      >>> made.numpy().ravel().tolist()
      [3.0, 3.0]
    """
    made: Tensor = apply_op(
        "Conv3DBackpropInputV2",
        output_shape,
        one_of("filter", filter, "filters", filters),
        one_of("value", value, "input", input),
        name=name or "conv3d_transpose",
        **_attrs(strides, padding, data_format, dilations),
    )
    return made
