"""Grey-scale dilation and erosion of images: a greatest sum where a convolution has a sum.

Source: tensorflow/core/kernels/dilation_ops.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.nn.conv_geometry import Window, one_of, out_size, padded, tap, windows
from tideflow.wire.errors import InvalidArgumentError, UnimplementedError

_LAYOUT = "NHWC"
_ATTRS = """
    T: type in reals
    strides: list(int) >= 4
    rates: list(int) >= 4
    padding: string in {SAME, VALID}
    """


def _shape(c: ShapeContext) -> list[Dims]:
    given = with_rank(c.inputs[0], 4, "input")
    kernel = with_rank(c.inputs[1], 3, "filter")
    attrs = {**c.attrs, "data_format": _LAYOUT, "dilations": c.attrs["rates"]}
    sizes = (out_size(given[axis + 1], kernel[axis], axis, attrs) for axis in (0, 1))
    return [(given[0], *sizes, given[3])]


def _windows(x: Any, kernel: Any, attrs: tuple[list[int], list[int], str]) -> tuple[Window, Window]:
    strides, rates, padding = attrs
    if len(strides) != 4 or len(rates) != 4:
        raise InvalidArgumentError(
            f"strides and rates must have 4 entries; found {strides} and {rates}"
        )
    if any(n != 1 for n in (strides[0], strides[3], rates[0], rates[3])):
        raise UnimplementedError(
            f"strides and rates are of space alone; found strides {strides} and rates {rates}"
        )
    if x.ndim != 4 or kernel.ndim != 3 or x.shape[3] != kernel.shape[2]:
        raise InvalidArgumentError(
            "images [batch, height, width, channels] and filters [height, width, channels] are "
            f"wanted; found {list(x.shape)} and {list(kernel.shape)}"
        )
    return windows(x.shape[1:3], kernel.shape[:2], strides, padding, [], _LAYOUT, rates)


def _taps(x: Array, kernel: Array, rows: Window, columns: Window) -> Any:
    """Give for each tap its place in the filter, its part of the images, and the sums there."""
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    inside = padded(np.ones(x.shape, bool), rows, columns, False)
    full = padded(x, rows, columns)
    for i in range(rows.kernel):
        for j in range(columns.kernel):
            part = (slice(None), slice(*tap(rows, i)), slice(*tap(columns, j)))
            sums = np.where(inside[part], full[part] + kernel[i, j], least).astype(x.dtype)
            yield (i, j), part, sums


def _winners(x: Array, kernel: Array, rows: Window, columns: Window) -> Any:
    """Give for each tap its place, its part, and where it is the first greatest of its window."""
    greatest = _greatest(x, kernel, rows, columns)
    taken = np.zeros(greatest.shape, bool)
    for place, part, sums in _taps(x, kernel, rows, columns):
        wins = (sums == greatest) & ~taken
        taken |= wins
        yield place, part, wins


def _greatest(x: Array, kernel: Array, rows: Window, columns: Window) -> Any:
    found: Any = None
    for _, _, sums in _taps(x, kernel, rows, columns):
        found = sums if found is None else np.maximum(found, sums)
    return found


@op(f"Dilation2D(input: T, filter: T) -> output: T{_ATTRS}", shape=_shape)
def dilation_kernel(
    ctx: KernelContext,
    x: Array,
    kernel: Array,
    *,
    strides: list[int],
    rates: list[int],
    padding: str,
) -> Any:
    """Return the greatest of input plus filter in each window."""
    return _greatest(x, kernel, *_windows(x, kernel, (strides, rates, padding)))


@op(
    f"Dilation2DBackpropInput(input: T, filter: T, out_backprop: T) -> in_backprop: T{_ATTRS}",
    shape=lambda c: [c.inputs[0]],
)
def dilation_input_kernel(
    ctx: KernelContext,
    x: Array,
    kernel: Array,
    grad: Array,
    *,
    strides: list[int],
    rates: list[int],
    padding: str,
) -> Any:
    """Return gradients added up where the greatest sums came from in the input."""
    rows, columns = _windows(x, kernel, (strides, rates, padding))
    _check_grad(x, grad, rows, columns)
    found = padded(np.zeros_like(x), rows, columns).copy()
    for _, part, wins in _winners(x, kernel, rows, columns):
        found[part] += np.where(wins, grad, 0).astype(x.dtype)
    end = rows.before + rows.size, columns.before + columns.size
    return np.ascontiguousarray(found[:, rows.before : end[0], columns.before : end[1]])


@op(
    f"Dilation2DBackpropFilter(input: T, filter: T, out_backprop: T) -> filter_backprop: T{_ATTRS}",
    shape=lambda c: [c.inputs[1]],
)
def dilation_filter_kernel(
    ctx: KernelContext,
    x: Array,
    kernel: Array,
    grad: Array,
    *,
    strides: list[int],
    rates: list[int],
    padding: str,
) -> Any:
    """Return gradients added up where the greatest sums came from in the filter."""
    rows, columns = _windows(x, kernel, (strides, rates, padding))
    _check_grad(x, grad, rows, columns)
    found = np.zeros_like(kernel)
    for place, _, wins in _winners(x, kernel, rows, columns):
        found[place] = np.where(wins, grad, 0).sum(axis=(0, 1, 2))
    return found


def _check_grad(x: Any, grad: Any, rows: Window, columns: Window) -> None:
    wanted = (x.shape[0], rows.out, columns.out, x.shape[3])
    if grad.shape != wanted:
        raise InvalidArgumentError(
            f"out_backprop must have shape {list(wanted)}; it is {list(grad.shape)}"
        )


@gradient("Dilation2D")
def dilation_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Send each gradient to the input and the filter where the greatest sum came from."""
    attrs = {name: op.attrs[name] for name in ("strides", "rates", "padding")}
    return [
        apply_op(f"Dilation2DBackprop{which}", *op.inputs, grad, **attrs)
        for which in ("Input", "Filter")
    ]


# ---- public functions


@export("nn.dilation2d")
def dilation2d(
    input: TensorLike,
    filter: TensorLike | None = None,
    strides: int | Sequence[int] | None = None,
    rates: TensorLike | None = None,
    padding: str | None = None,
    name: str | None = None,
    filters: TensorLike | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Return the greatest of input plus filter in each window.

    Args:
      input: real numbers [batch, height, width, channels].
      filter: [height, width, channels], of input's type; `filters` is another name for it.
      strides, rates: four ints, 1 for batch and channels; `dilations` is another name for rates.
      padding: "SAME" or "VALID"; what is added never wins.
    Returns: [batch, height, width, channels], in input's type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.constant([[[[1.0], [5.0], [2.0]]]])
      >>> y = tf.nn.dilation2d(x, tf.zeros([1, 2, 1]), [1, 1, 1, 1], [1, 1, 1, 1], "VALID")
      >>> tf.Session().run(y)[0, 0, :, 0].tolist()
      [5.0, 5.0]
    """
    made: Tensor = apply_op(
        "Dilation2D",
        input,
        one_of("filter", filter, "filters", filters),
        strides=strides,
        rates=one_of("rates", rates, "dilations", dilations),
        padding=padding,
        name=name,
    )
    return made


@export_v2("nn.dilation2d")
def dilation2d_v2(
    input: TensorLike,
    filters: TensorLike,
    strides: int | Sequence[int],
    padding: str,
    data_format: str,
    dilations: int | Sequence[int],
    name: str | None = None,
) -> Tensor:
    """Return the greatest of input plus filters in each window.

    Args:
      input: real numbers [batch, height, width, channels].
      filters: [height, width, channels], of input's type.
      strides, dilations: four ints, 1 for batch and channels.
      padding: "SAME" or "VALID"; what is added never wins.
      data_format: "NHWC".
    Returns: [batch, height, width, channels], in input's type.
    Raises: ValueError for another data_format, and for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.constant([[[[1.0], [5.0], [2.0]]]])
      >>> y = tf.nn.dilation2d(x, tf.zeros([1, 2, 1]), [1] * 4, "VALID", "NHWC", [1] * 4)
      >>> y[0, 0, :, 0].numpy().tolist()
      [5.0, 5.0]
    """
    _check_layout(data_format)
    return dilation2d(input, filters, strides, dilations, padding, name)


def _check_layout(data_format: str) -> None:
    if data_format != _LAYOUT:
        raise ValueError(f"data_format must be {_LAYOUT!r}; found {data_format!r}")


@export("nn.erosion2d")
def erosion2d(
    value: TensorLike,
    kernel: TensorLike,
    strides: int | Sequence[int],
    rates: TensorLike,
    padding: str,
    name: str | None = None,
) -> Tensor:
    """Return the least of value minus kernel in each window.

    Args:
      value: real numbers [batch, height, width, channels].
      kernel: [height, width, channels], of value's type.
      strides, rates: four ints, 1 for batch and channels.
      padding: "SAME" or "VALID"; what is added never wins.
    Returns: [batch, height, width, channels], in value's type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.constant([[[[1.0], [5.0], [2.0]]]])
      >>> y = tf.nn.erosion2d(x, tf.zeros([1, 2, 1]), [1, 1, 1, 1], [1, 1, 1, 1], "VALID")
      >>> tf.Session().run(y)[0, 0, :, 0].tolist()
      [1.0, 2.0]
    """
    with get_default_graph().name_scope(name or "erosion2d"):
        turned = apply_op("ReverseV2", convert_to_tensor(kernel), [0, 1])
        negative = apply_op("Neg", convert_to_tensor(value))
        made: Tensor = apply_op("Neg", dilation2d(negative, turned, strides, rates, padding))
        return made


@export_v2("nn.erosion2d")
def erosion2d_v2(
    value: TensorLike,
    filters: TensorLike,
    strides: int | Sequence[int],
    padding: str,
    data_format: str,
    dilations: int | Sequence[int],
    name: str | None = None,
) -> Tensor:
    """Return the least of value minus filters in each window.

    Args:
      value: real numbers [batch, height, width, channels].
      filters: [height, width, channels], of value's type.
      strides, dilations: four ints, 1 for batch and channels.
      padding: "SAME" or "VALID"; what is added never wins.
      data_format: "NHWC".
    Returns: [batch, height, width, channels], in value's type.
    Raises: ValueError for another data_format, and for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.constant([[[[1.0], [5.0], [2.0]]]])
      >>> y = tf.nn.erosion2d(x, tf.zeros([1, 2, 1]), [1] * 4, "VALID", "NHWC", [1] * 4)
      >>> y[0, 0, :, 0].numpy().tolist()
      [1.0, 2.0]
    """
    _check_layout(data_format)
    return erosion2d(value, filters, strides, dilations, padding, name)
