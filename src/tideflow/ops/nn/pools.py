"""MaxPool with its gradients, and the public functions of greatest elements.

Both tiers walk over the taps of the window: tap (i, j) of all windows is one strided slice of the
padded input.  Of equal greatest elements the first in row-major order takes the gradient.
Source: tensorflow/core/kernels/maxpooling_op.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from tideflow.ops.framework import scoped
from tideflow.ops.nn.conv_geometry import (
    Window,
    from_nhwc,
    one_of,
    padding_attrs,
    per_axis,
    to_nhwc,
)
from tideflow.ops.nn.pool_windows import (
    GEOMETRY,
    Spread,
    along_one_axis,
    check_windows,
    filled,
    image_windows,
    pool_shape,
    taps,
)
from tideflow.wire import errors
from tideflow.wire.dtypes import DType, dtype_of


def _least(dtype: DType) -> Any:
    """Return the least value of a type, which any element beats."""
    found = dtype_of(np.empty(0, dtype))
    return -np.inf if found.is_floating else found.min


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
    rows, columns = image_windows(
        x.shape[1:3], ksize, strides, padding, explicit_paddings, data_format
    )
    full = filled(xp, x, rows, columns, _least(x.dtype))
    found: Any = None
    for _, _, part in taps(full, rows, columns):
        found = part if found is None else xp.maximum(found, part)
    if xp is np:
        # A single tap is a view of the input; the result must own its memory.
        found = np.array(found, copy=True) if rows.kernel * columns.kernel == 1 else found
    return from_nhwc(found, data_format)


def _max_pool_grad_shape(c: ShapeContext) -> list[Dims]:
    check_windows(c.attrs, beyond_first=True)
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
    rows, columns = image_windows(
        x.shape[1:3], ksize, strides, padding, explicit_paddings, data_format
    )
    _check_grads(x, y, dy, rows, columns)
    sent = (
        (i, j, xp.where(is_greatest, dy, xp.zeros((), dy.dtype)))
        for i, j, is_greatest, _ in _greatest(xp, x, y, x, rows, columns)
    )
    if xp is not np and rows.is_tiling and columns.is_tiling:
        parts = [part for *_, part in sent]
        return from_nhwc(_tiled(xp, parts, x.shape, columns.kernel), data_format)
    spread = Spread(xp, x.shape[0], x.shape[3], rows, columns, dy.dtype)
    for i, j, part in sent:
        spread.add(part, i, j)
    return from_nhwc(spread.result(), data_format)


def _tiled(xp: ArrayNamespace, parts: list[Any], shape: Sequence[int], width: int) -> Any:
    """Return what taps [N, rows.out, columns.out, C] of windows that tile the input make of it.

    width: of the windows.  A compiler writes it in one pass; a sum of parts that are spread apart
    takes three times as long.
    """
    lines = [xp.stack(parts[at : at + width], 3) for at in range(0, len(parts), width)]
    return xp.stack(lines, 2).reshape(shape)


def _greatest(
    xp: ArrayNamespace, x: Array, y: Array, other: Array, rows: Window, columns: Window
) -> Iterator[tuple[int, int, Any, Any]]:
    """Give for each tap where it is the first greatest of its window, and `other` there."""
    full = filled(xp, x, rows, columns, _least(x.dtype))
    beside = full if other is x else filled(xp, other, rows, columns, 0)
    taken = xp.zeros(y.shape, bool)
    for (i, j, part), (_, _, seen) in zip(taps(full, rows, columns), taps(beside, rows, columns)):
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
    rows, columns = image_windows(x.shape[1:3], ksize, strides, padding, (), data_format)
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
    attrs = {name: op.attrs[name] for name in (*GEOMETRY, "explicit_paddings")}
    return [apply_op("MaxPoolGrad", op.inputs[0], op.outputs[0], grad, **attrs)]


@gradient("MaxPoolGrad")
def max_pool_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    x, y, _ = op.inputs
    attrs = {name: op.attrs[name] for name in GEOMETRY}
    second = apply_op("MaxPoolGradGrad", x, y, grad, **attrs)
    return [apply_op("ZerosLike", x), apply_op("ZerosLike", y), second]


@gradient("MaxPoolGradGrad")
def max_pool_grad_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    x, y, _ = op.inputs
    attrs = {name: op.attrs[name] for name in GEOMETRY}
    back = apply_op("MaxPoolGrad", x, y, grad, **attrs)
    return [apply_op("ZerosLike", x), apply_op("ZerosLike", y), back]


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
    return max_pool(input, ksize, strides, padding, data_format, name or "MaxPool2d")


@export("nn.max_pool1d")
@scoped("MaxPool1d")
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
    return along_one_axis(max_pool, input, ksize, strides, padding, data_format)
