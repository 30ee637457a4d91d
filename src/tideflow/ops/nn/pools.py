"""MaxPool and AvgPool with their gradients.

Both tiers walk over the taps of the window: tap (i, j) of all windows is one strided slice of the
padded input.  Of equal greatest elements the first in row-major order takes the gradient.
Source: tensorflow/core/kernels/maxpooling_op.cc, avgpooling_op.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import lax
from tideflow.ops.nn.activations import wide
from tideflow.ops.nn.conv_geometry import (
    Window,
    check_attrs,
    cropped,
    dims_from_nhwc,
    dims_to_nhwc,
    from_nhwc,
    one_of,
    out_size,
    padded,
    padding_attrs,
    per_axis,
    spatial,
    tap,
    to_nhwc,
    windows,
)
from tideflow.wire import errors
from tideflow.wire.dtypes import DType, dtype_of

_GEOMETRY = ("ksize", "strides", "padding", "data_format")


def pool_shape(c: ShapeContext, *, beyond_first: bool = False) -> list[Dims]:
    """Give a pool its shape.

    beyond_first: what is refused first (see _check_windows).
    Raises: ValueError; UnimplementedError.
    """
    strides, layout = c.attrs["strides"], c.attrs["data_format"]
    if len(strides) == 4 and strides[_channel(layout)] <= 0:
        raise ValueError(f"strides must be positive; found {strides}")
    _check_windows(c.attrs, beyond_first=beyond_first)
    given = dims_to_nhwc(with_rank(c.inputs[0], 4, "input"), layout)
    height, width = spatial(c.attrs["ksize"], layout)
    found = (
        given[0],
        out_size(given[1], height, 0, c.attrs),
        out_size(given[2], width, 1, c.attrs),
        given[3],
    )
    return [dims_from_nhwc(found, layout)]


def _channel(layout: str) -> int:
    return 1 if layout == "NCHW" else 3


def _check_windows(attrs: dict[str, Any], *, beyond_first: bool) -> None:
    """Check windows and steps.

    beyond_first: whether windows over batch or channels are refused before those of no size; in
      that TensorFlow's ops differ.
    Raises: ValueError; UnimplementedError for windows or steps over batch or channels.
    """
    ksize = attrs["ksize"]
    if len(ksize) == len(attrs["strides"]) == 4:
        if not beyond_first and min(ksize) <= 0:
            raise ValueError(f"ksize must be positive; found {ksize}")
        if ksize[0] != 1 or ksize[_channel(attrs["data_format"])] != 1:
            raise errors.UnimplementedError(
                f"pooling over batch or channels is not supported; ksize is {ksize}"
            )
    check_attrs(attrs, errors.UnimplementedError)


def _least(dtype: DType) -> Any:
    """Return the least value of a type, which any element beats."""
    found = dtype_of(np.empty(0, dtype))
    return -np.inf if found.is_floating else found.min


def _windows(
    x_sizes: Any, ksize: list[int], strides: list[int], padding: str, explicit: Any, layout: str
) -> tuple[Window, Window]:
    return windows(x_sizes, spatial(ksize, layout), strides, padding, explicit, layout)


def _filled(xp: Any, x: object, rows: Window, columns: Window, fill: object) -> Any:
    """Return x with its windows' padding added, in either tier."""
    if xp is np:
        return padded(x, rows, columns, fill)
    widths = ((0, 0), (rows.before, rows.after), (columns.before, columns.after), (0, 0))
    return xp.pad(x, widths, constant_values=fill)


def _taps(x: Tensor, rows: Window, columns: Window) -> Iterator[tuple[int, int, Any]]:
    """Give (i, j, slice) for each tap of the windows over a padded x."""
    for i in range(rows.kernel):
        for j in range(columns.kernel):
            yield i, j, x[:, slice(*tap(rows, i)), slice(*tap(columns, j))]


def _placed(xp: Any, part: Any, rows: Window, columns: Window, i: int, j: int) -> Any:
    """Return zeros like the input with `part` where tap (i, j) of the windows lies (traced)."""
    config = [(0, 0, 0), _place(rows, i), _place(columns, j), (0, 0, 0)]
    return lax().pad(part, xp.zeros((), part.dtype), config)


def _place(w: Window, index: int) -> tuple[int, int, int]:
    low = index * w.dilation - w.before
    return low, w.size - low - ((w.out - 1) * w.stride + 1), w.stride - 1


class _Spread:
    """The sum of what taps send back to the input, in either tier."""

    def __init__(
        self,
        xp: ArrayNamespace,
        batch: int,
        channels: int,
        rows: Window,
        columns: Window,
        dtype: DTypeLike,
    ) -> None:
        self.xp, self.rows, self.columns = xp, rows, columns
        height = rows.size + (rows.before + rows.after if xp is np else 0)
        width = columns.size + (columns.before + columns.after if xp is np else 0)
        self.sum = xp.zeros((batch, height, width, channels), dtype)

    def add(self, part: TensorLike, i: int, j: int) -> None:
        """Add a part [N, rows.out, columns.out, C] that belongs to tap (i, j)."""
        rows, columns = self.rows, self.columns
        if self.xp is np:
            at = self.sum[:, slice(*tap(rows, i)), slice(*tap(columns, j))]
            at += part
        elif rows.out and columns.out:
            self.sum = self.sum + _placed(self.xp, part, rows, columns, i, j)

    def result(self) -> Any:
        """Return the sum without padding."""
        if self.xp is np:
            return np.ascontiguousarray(cropped(self.sum, self.rows, self.columns))
        return self.sum


@op(
    """
    MaxPool(input: T) -> output: T
    T: type in {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float
    ksize: list(int) >= 4
    strides: list(int) >= 4
    padding: string in {SAME, VALID, EXPLICIT}
    explicit_paddings: list(int) = []
    data_format: string in {NHWC, NCHW, NCHW_VECT_C} = 'NHWC'
    """,  # noqa: E501 - one attr, one line
    shape=pool_shape,
    compiles=Compiles.ALWAYS,
)
def max_pool_kernel(
    xp: ArrayNamespace,
    input: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
    explicit_paddings: list[int],
    data_format: str,
) -> Any:
    x = to_nhwc(input, data_format)
    rows, columns = _windows(x.shape[1:3], ksize, strides, padding, explicit_paddings, data_format)
    full = _filled(xp, x, rows, columns, _least(x.dtype))
    found: Any = None
    for _, _, part in _taps(full, rows, columns):
        found = part if found is None else xp.maximum(found, part)
    if xp is np:
        # A single tap is a view of the input; the result must own its memory.
        found = np.array(found, copy=True) if rows.kernel * columns.kernel == 1 else found
    return from_nhwc(found, data_format)


def _max_pool_grad_shape(c: ShapeContext) -> list[Dims]:
    _check_windows(c.attrs, beyond_first=True)
    return [with_rank(c.inputs[0], 4, "orig_input")]


@op(
    """
    MaxPoolGrad(orig_input: T, orig_output: T, grad: T) -> output: T
    ksize: list(int) >= 4
    strides: list(int) >= 4
    padding: string in {SAME, VALID, EXPLICIT}
    explicit_paddings: list(int) = []
    data_format: string in {NHWC, NCHW} = 'NHWC'
    T: type in reals = float
    """,
    shape=_max_pool_grad_shape,
    compiles=Compiles.ALWAYS,
)
def max_pool_grad_kernel(
    xp: ArrayNamespace,
    orig_input: Array,
    orig_output: Array,
    grad: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
    explicit_paddings: list[int],
    data_format: str,
) -> Any:
    x, y, dy = (to_nhwc(a, data_format) for a in (orig_input, orig_output, grad))
    rows, columns = _windows(x.shape[1:3], ksize, strides, padding, explicit_paddings, data_format)
    _check_grads(x, y, dy, rows, columns)
    spread = _Spread(xp, x.shape[0], x.shape[3], rows, columns, dy.dtype)
    for i, j, is_greatest, _ in _greatest(xp, x, y, x, rows, columns):
        spread.add(xp.where(is_greatest, dy, xp.zeros((), dy.dtype)), i, j)
    return from_nhwc(spread.result(), data_format)


def _greatest(
    xp: ArrayNamespace, x: Array, y: Array, other: Array, rows: Window, columns: Window
) -> Iterator[tuple[int, int, Any, Any]]:
    """Give for each tap where it is the first greatest of its window, and `other` there."""
    full = _filled(xp, x, rows, columns, _least(x.dtype))
    beside = full if other is x else _filled(xp, other, rows, columns, 0)
    taken = xp.zeros(y.shape, bool)
    for (i, j, part), (_, _, seen) in zip(_taps(full, rows, columns), _taps(beside, rows, columns)):
        is_greatest = (part == y) & ~taken
        taken = taken | is_greatest
        yield i, j, is_greatest, seen


def _check_grads(x: Tensor, y: Tensor, dy: Tensor, rows: Window, columns: Window) -> None:
    wanted = (x.shape[0], rows.out, columns.out, x.shape[3])
    for what, found in (("orig_output", y.shape), ("grad", dy.shape)):
        if found != wanted:
            raise errors.InvalidArgumentError(
                f"{what} is {list(found)}; pooling the input given makes {list(wanted)} "
                "(batch, height, width, channels)"
            )


@op(
    """
    MaxPoolGradGrad(orig_input: T, orig_output: T, grad: T) -> output: T
    ksize: list(int) >= 4
    strides: list(int) >= 4
    padding: string in {SAME, VALID}
    data_format: string in {NHWC, NCHW} = 'NHWC'
    T: type in reals
    """,
    shape=lambda c: [
        shapes.merge(with_rank(c.inputs[1], 4, "orig_output"), pool_shape(c, beyond_first=True)[0])
    ],
)
def max_pool_grad_grad_kernel(
    xp: ArrayNamespace,
    orig_input: Array,
    orig_output: Array,
    grad: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
    data_format: str,
) -> Any:
    x, y, dx = (to_nhwc(a, data_format) for a in (orig_input, orig_output, grad))
    rows, columns = _windows(x.shape[1:3], ksize, strides, padding, (), data_format)
    _check_grads(x, y, y, rows, columns)
    if dx.shape != x.shape:
        raise errors.InvalidArgumentError(
            f"grad is {list(dx.shape)}; it must have the input's shape {list(x.shape)}"
        )
    found = xp.zeros(y.shape, dx.dtype)
    for _, _, is_greatest, seen in _greatest(xp, x, y, dx, rows, columns):
        found = xp.where(is_greatest, seen, found)
    return from_nhwc(found, data_format)


@gradient("MaxPool")
def max_pool_gradient(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in (*_GEOMETRY, "explicit_paddings")}
    return [apply_op("MaxPoolGrad", op.inputs[0], op.outputs[0], grad, **attrs)]


@gradient("MaxPoolGrad")
def max_pool_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    x, y, _ = op.inputs
    attrs = {name: op.attrs[name] for name in _GEOMETRY}
    second = apply_op("MaxPoolGradGrad", x, y, grad, **attrs)
    return [apply_op("ZerosLike", x), apply_op("ZerosLike", y), second]


@gradient("MaxPoolGradGrad")
def max_pool_grad_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    x, y, _ = op.inputs
    attrs = {name: op.attrs[name] for name in _GEOMETRY}
    back = apply_op("MaxPoolGrad", x, y, grad, **attrs)
    return [apply_op("ZerosLike", x), apply_op("ZerosLike", y), back]


# ---- averages


def _counts(rows: Window, columns: Window) -> Any:
    """Return [h, w, 1]: how many elements of each window are no padding."""
    return np.outer(_counts_along(rows), _counts_along(columns))[..., None]


def _counts_along(w: Window) -> Any:
    starts = np.arange(w.out) * w.stride - w.before
    return np.minimum(starts + w.kernel, w.size) - np.maximum(starts, 0)


@op(
    """
    AvgPool(value: T) -> output: T
    ksize: list(int) >= 4
    strides: list(int) >= 4
    padding: string in {SAME, VALID}
    data_format: string in {NHWC, NCHW} = 'NHWC'
    T: type in floats
    """,
    shape=pool_shape,
    compiles=Compiles.ALWAYS,
)
def avg_pool_kernel(
    xp: ArrayNamespace,
    value: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
    data_format: str,
) -> Any:
    x = wide(xp, to_nhwc(value, data_format))
    rows, columns = _windows(x.shape[1:3], ksize, strides, padding, (), data_format)
    full = _filled(xp, x, rows, columns, 0)
    total = xp.zeros((x.shape[0], rows.out, columns.out, x.shape[3]), x.dtype)
    for _, _, part in _taps(full, rows, columns):
        total = total + part
    found = total / _counts(rows, columns).astype(x.dtype)
    return from_nhwc(found.astype(value.dtype), data_format)


def _avg_pool_grad_shape(c: ShapeContext) -> list[Dims]:
    _check_windows(c.attrs, beyond_first=True)
    return [with_rank(c.value_as_shape(0), 4, "orig_input_shape")]


@op(
    """
    AvgPoolGrad(orig_input_shape: int32, grad: T) -> output: T
    ksize: list(int) >= 4
    strides: list(int) >= 4
    padding: string in {SAME, VALID}
    data_format: string in {NHWC, NCHW} = 'NHWC'
    T: type in floats
    """,
    shape=_avg_pool_grad_shape,
    static=("orig_input_shape",),
    compiles=Compiles.ALWAYS,
)
def avg_pool_grad_kernel(
    xp: ArrayNamespace,
    orig_input_shape: Array,
    grad: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
    data_format: str,
) -> Any:
    dy = wide(xp, to_nhwc(grad, data_format))
    sizes = [int(size) for size in orig_input_shape.reshape(-1)]
    if orig_input_shape.ndim != 1 or len(sizes) != 4 or min(sizes) < 0:
        raise errors.InvalidArgumentError(f"orig_input_shape must be 4 sizes; found {sizes}")
    batch, height, width, channels = dims_to_nhwc(tuple(sizes), data_format)
    rows, columns = _windows((height, width), ksize, strides, padding, (), data_format)
    wanted = (batch, rows.out, columns.out, channels)
    if dy.shape != wanted:
        raise errors.InvalidArgumentError(
            f"grad is {list(dy.shape)}; pooling orig_input_shape makes {list(wanted)} "
            "(batch, height, width, channels)"
        )
    share = dy / _counts(rows, columns).astype(dy.dtype)
    spread = _Spread(xp, sizes[0], wanted[3] or 0, rows, columns, dy.dtype)
    for i in range(rows.kernel):
        for j in range(columns.kernel):
            spread.add(share, i, j)
    return from_nhwc(spread.result().astype(grad.dtype), data_format)


@gradient("AvgPool")
def avg_pool_gradient(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in _GEOMETRY}
    return [apply_op("AvgPoolGrad", apply_op("Shape", op.inputs[0]), grad, **attrs)]


@gradient("AvgPoolGrad")
def avg_pool_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in _GEOMETRY}
    return [None, apply_op("AvgPool", grad, **attrs)]


@export("nn.max_pool")
def max_pool(
    value: TensorLike | None = None,
    ksize: int | Sequence[int] | None = None,
    strides: int | Sequence[int] | None = None,
    padding: str | Sequence[Any] | None = None,
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: TensorLike | None = None,
) -> Tensor:
    """Return the greatest element of each window of images.

    Args:
      value: real numbers [batch, height, width, channels], or [batch, channels, height, width] for
        "NCHW"; input is its new name.
      ksize: the window's size: one, two (height, width) or four numbers.
      strides: the distance of windows, given as ksize.
      padding: "SAME", "VALID", or a pair (before, after) for each of the four dimensions.
      data_format: "NHWC" or "NCHW".
    Returns: a tensor of the type and layout of value.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> image = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
      >>> print(tf.squeeze(tf.nn.max_pool(image, 2, 2, "VALID")).numpy())
      [[ 5.  7.]
       [13. 15.]]
    """
    layout = data_format or "NHWC"
    made: Tensor = apply_op(
        "MaxPool",
        one_of("value", value, "input", input),
        ksize=per_axis(ksize, "ksize", layout),
        strides=per_axis(strides, "strides", layout),
        data_format=layout,
        name=name or "MaxPool",
        **padding_attrs(padding, layout),
    )
    return made


@export("nn.max_pool2d", "nn.max_pool_v2")
def max_pool2d(
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    data_format: str | None = "NHWC",
    name: str | None = None,
) -> Tensor:
    """Return the greatest element of each window of images; see max_pool.

    Args:
      input: real numbers [batch, height, width, channels], or [batch, channels, height, width] for
        "NCHW".
      ksize: the window's size: one, two (height, width) or four numbers.
      strides: the distance of windows, given as ksize.
      padding: "SAME", "VALID", or a pair (before, after) for each of the four dimensions.
      data_format: "NHWC" or "NCHW".
    Returns: a tensor of the type and layout of input.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> image = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
      >>> print(tf.squeeze(tf.nn.max_pool2d(image, 2, 2, "VALID")).numpy())
      [[ 5.  7.]
       [13. 15.]]
    """
    return max_pool(input, ksize, strides, padding, data_format, name)


@export("nn.avg_pool", "nn.avg_pool2d")
def avg_pool(
    value: TensorLike | None = None,
    ksize: int | Sequence[int] | None = None,
    strides: int | Sequence[int] | None = None,
    padding: str | Sequence[Any] | None = None,
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: TensorLike | None = None,
) -> Tensor:
    """Return the mean of each window of images; padding does not count.

    Args:
      value: floating numbers [batch, height, width, channels], or [batch, channels, height, width]
        for
        "NCHW"; input is its new name.
      ksize: the window's size: one, two (height, width) or four numbers.
      strides: the distance of windows, given as ksize.
      padding: "SAME" or "VALID".
      data_format: "NHWC" or "NCHW".
    Returns: a tensor of the type and layout of value.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> image = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
      >>> print(tf.squeeze(tf.nn.avg_pool(image, 2, 2, "VALID")).numpy())
      [[ 2.5  4.5]
       [10.5 12.5]]
    """
    layout = data_format or "NHWC"
    made: Tensor = apply_op(
        "AvgPool",
        one_of("value", value, "input", input),
        ksize=per_axis(ksize, "ksize", layout),
        strides=per_axis(strides, "strides", layout),
        padding=padding,
        data_format=layout,
        name=name or "AvgPool",
    )
    return made


@export("nn.avg_pool_v2")
@export_v2("nn.avg_pool2d")
def avg_pool_v2(
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of images; padding does not count.

    Args:
      input: floating numbers [batch, height, width, channels], or [batch, channels, height, width]
        for
        "NCHW".
      ksize: the window's size: one, two (height, width) or four numbers.
      strides: the distance of windows, given as ksize.
      padding: "SAME" or "VALID".
      data_format: "NHWC" or "NCHW".
    Returns: a tensor of the type and layout of input.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> image = tf.reshape(tf.range(4.0), [1, 2, 2, 1])
      >>> tf.Session().run(tf.nn.avg_pool_v2(image, 2, 2, "VALID")).ravel().tolist()
      [1.5]
    """
    return avg_pool(input, ksize, strides, padding, data_format, name)


def _along_one_axis(
    pool: Callable[..., Tensor],
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    layout: str,
) -> Tensor:
    """Pool [batch, width, channels] (or "NCW") as images of height 1."""
    at = 1 if layout.endswith("C") else 2
    sizes = [1, _one_size(ksize)], [1, _one_size(strides)]
    images = apply_op("ExpandDims", input, at)
    made = pool(images, *sizes, padding, "NHWC" if at == 1 else "NCHW")
    found: Tensor = apply_op("Squeeze", made, squeeze_dims=[at])
    return found


def _one_size(size: Any) -> int:
    """Return the size along the width: of one number, [width] or [1, width, 1]."""
    if isinstance(size, int):
        return size
    return int(size[0] if len(size) == 1 else next((n for n in size if n != 1), 1))


@export("nn.max_pool1d")
def max_pool1d(
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    data_format: str = "NWC",
    name: str | None = None,
) -> Tensor:
    """Return the greatest element of each window of sequences.

    Args:
      input: real numbers [batch, width, channels], or [batch, channels, width] for "NCW".
      ksize: the window's size.
      strides: the distance of windows.
      padding: "SAME" or "VALID".
      data_format: "NWC" or "NCW".
    Returns: a tensor of the type and layout of input.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> sequence = tf.reshape(tf.range(4.0), [1, 4, 1])
      >>> print(tf.squeeze(tf.nn.max_pool1d(sequence, 2, 2, "VALID")).numpy())
      [1. 3.]
    """
    del name
    return _along_one_axis(max_pool, input, ksize, strides, padding, data_format)


@export("nn.avg_pool1d")
def avg_pool1d(
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    data_format: str = "NWC",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of sequences; padding does not count.

    Args:
      input: floating numbers [batch, width, channels], or [batch, channels, width] for "NCW".
      ksize: the window's size.
      strides: the distance of windows.
      padding: "SAME" or "VALID".
      data_format: "NWC" or "NCW".
    Returns: a tensor of the type and layout of input.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> sequence = tf.reshape(tf.range(4.0), [1, 4, 1])
      >>> print(tf.squeeze(tf.nn.avg_pool1d(sequence, 2, 2, "VALID")).numpy())
      [0.5 2.5]
    """
    del name
    return _along_one_axis(avg_pool, input, ksize, strides, padding, data_format)
