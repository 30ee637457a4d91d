"""AvgPool with its gradients, and the public functions of averages.

Source: tensorflow/core/kernels/avgpooling_op.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import scoped
from tideflow.ops.nn.activations import wide
from tideflow.ops.nn.conv_geometry import (
    Window,
    dims_to_nhwc,
    from_nhwc,
    one_of,
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
    rows, columns = image_windows(x.shape[1:3], ksize, strides, padding, (), data_format)
    full = filled(xp, x, rows, columns, 0)
    total = xp.zeros((x.shape[0], rows.out, columns.out, x.shape[3]), x.dtype)
    for _, _, part in taps(full, rows, columns):
        total = total + part
    found = total / _counts(rows, columns).astype(x.dtype)
    return from_nhwc(found.astype(value.dtype), data_format)


def _avg_pool_grad_shape(c: ShapeContext) -> list[Dims]:
    check_windows(c.attrs, beyond_first=True)
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
    rows, columns = image_windows((height, width), ksize, strides, padding, (), data_format)
    wanted = (batch, rows.out, columns.out, channels)
    if dy.shape != wanted:
        raise errors.InvalidArgumentError(
            f"grad is {list(dy.shape)}; pooling orig_input_shape makes {list(wanted)} "
            "(batch, height, width, channels)"
        )
    share = dy / _counts(rows, columns).astype(dy.dtype)
    spread = Spread(xp, sizes[0], wanted[3] or 0, rows, columns, dy.dtype)
    for i in range(rows.kernel):
        for j in range(columns.kernel):
            spread.add(share, i, j)
    return from_nhwc(spread.result().astype(grad.dtype), data_format)


@gradient("AvgPool")
def avg_pool_gradient(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in GEOMETRY}
    return [apply_op("AvgPoolGrad", apply_op("Shape", op.inputs[0]), grad, **attrs)]


@gradient("AvgPoolGrad")
def avg_pool_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in GEOMETRY}
    return [None, apply_op("AvgPool", grad, **attrs)]


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
      value: floating numbers [batch, height, width, channels]; for "NCHW"
        [batch, channels, height, width].  input is its new name.
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
      input: floating numbers [batch, height, width, channels]; for "NCHW"
        [batch, channels, height, width].
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


@export("nn.avg_pool1d")
@scoped("AvgPool1D")
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
    return along_one_axis(avg_pool, input, ksize, strides, padding, data_format)
