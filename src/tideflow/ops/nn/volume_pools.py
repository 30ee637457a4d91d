"""MaxPool3D and AvgPool3D with their gradients.

Source: tensorflow/core/kernels/pooling_ops_3d.cc.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.nn.activations import wide
from tideflow.ops.nn.volumes import (
    Spread,
    Windows,
    check_attrs,
    dims_from_ndhwc,
    dims_to_ndhwc,
    filled,
    from_ndhwc,
    out_dims,
    per_axis,
    spatial,
    taps_of,
    to_ndhwc,
    windows_of,
)
from tideflow.wire import errors

_GEOMETRY = ("ksize", "strides", "padding", "data_format")


def pool3d_shape(c: ShapeContext) -> list[Dims]:
    """Give a pool its shape.  Raises: ValueError."""
    check_attrs(c.attrs, errors.UnimplementedError)
    layout = c.attrs["data_format"]
    given = dims_to_ndhwc(with_rank(c.inputs[0], 5, "input"), layout)
    kernel = spatial(c.attrs["ksize"], layout)
    return [dims_from_ndhwc((given[0], *out_dims(given[1:4], kernel, c.attrs), given[4]), layout)]


def _like(index: int) -> Any:
    def shape(c: ShapeContext) -> list[Dims]:
        ksize, channel = c.attrs["ksize"], 1 if c.attrs["data_format"] == "NCDHW" else 4
        if len(ksize) == 5 and (ksize[0] != 1 or ksize[channel] != 1):
            raise errors.UnimplementedError(
                f"pooling over batch or channels is not supported; ksize is {ksize}"
            )
        check_attrs(c.attrs, errors.UnimplementedError)
        return [with_rank(c.inputs[index], 5, "orig_input")]

    return shape


def _windows(x: Any, ksize: Any, strides: Any, padding: str, layout: str) -> Windows:
    return windows_of(x.shape[1:4], spatial(ksize, layout), strides, padding, layout)


def _check(found: Any, x: Any, along: Windows, what: str) -> None:
    wanted = (x[0], *(w.out for w in along), x[4])
    if found.shape != wanted:
        raise errors.InvalidArgumentError(
            f"{what} is {list(found.shape)}; pooling the input given makes {list(wanted)} "
            "(batch, depth, height, width, channels)"
        )


@op(
    """
    MaxPool3D(input: T) -> output: T
    ksize: list(int) >= 5
    strides: list(int) >= 5
    padding: string in {SAME, VALID}
    data_format: string in {NDHWC, NCDHW} = 'NDHWC'
    T: type in {half, bfloat16, float}
    """,
    shape=pool3d_shape,
)
def max_pool3d_kernel(
    xp: ArrayNamespace,
    input: Array,
    *,
    ksize: Array,
    strides: Array,
    padding: str,
    data_format: str,
) -> Any:
    x = to_ndhwc(input, data_format)
    along = _windows(x, ksize, strides, padding, data_format)
    full = filled(xp, x, along, -np.inf)
    greatest = functools.reduce(xp.maximum, (full[index] for _, index in taps_of(along)))
    # A single tap is a view of the input; the result must own its memory.
    return from_ndhwc(xp.array(greatest), data_format)


@op(
    """
    MaxPool3DGrad(orig_input: TInput, orig_output: TInput, grad: T) -> output: T
    ksize: list(int) >= 5
    strides: list(int) >= 5
    padding: string in {SAME, VALID}
    data_format: string in {NDHWC, NCDHW} = 'NDHWC'
    T: type in {half, bfloat16, float} = float
    TInput: type in {half, bfloat16, float} = float
    """,
    shape=_like(0),
)
def max_pool3d_grad_kernel(
    xp: ArrayNamespace,
    orig_input: Array,
    orig_output: Array,
    grad: Array,
    *,
    ksize: Array,
    strides: Array,
    padding: str,
    data_format: str,
) -> Any:
    x, y, dy = (to_ndhwc(a, data_format) for a in (orig_input, orig_output, grad))
    along = _windows(x, ksize, strides, padding, data_format)
    _check(y, x.shape, along, "orig_output")
    _check(dy, x.shape, along, "grad")
    full = filled(xp, x, along, -np.inf)
    spread = Spread(xp, x.shape[0], x.shape[4], along, dy.dtype)
    # Unlike in two dimensions, each of several greatest elements takes the whole gradient.
    for at, index in taps_of(along):
        spread.add(at, index, xp.where(full[index] == y, dy, xp.zeros((), dy.dtype)))
    return from_ndhwc(spread.result(), data_format)


@op(
    """
    MaxPool3DGradGrad(orig_input: T, orig_output: T, grad: T) -> output: T
    ksize: list(int) >= 5
    strides: list(int) >= 5
    padding: string in {SAME, VALID}
    data_format: string in {NDHWC, NCDHW} = 'NDHWC'
    T: type in reals
    """,
    shape=_like(1),
)
def max_pool3d_grad_grad_kernel(
    xp: ArrayNamespace,
    orig_input: Array,
    orig_output: Array,
    grad: Array,
    *,
    ksize: Array,
    strides: Array,
    padding: str,
    data_format: str,
) -> Any:
    x, y, dx = (to_ndhwc(a, data_format) for a in (orig_input, orig_output, grad))
    if not x.size:
        raise errors.InvalidArgumentError(
            f"orig_input must have elements; its shape is {list(x.shape)}"
        )
    along = _windows(x, ksize, strides, padding, data_format)
    _check(y, x.shape, along, "orig_output")
    if dx.shape != x.shape:
        raise errors.InvalidArgumentError(
            f"grad is {list(dx.shape)}; it must have the input's shape {list(x.shape)}"
        )
    full, beside = filled(xp, x, along), filled(xp, dx, along)
    inside = filled(xp, xp.ones((1, *x.shape[1:4], 1), bool), along, False)
    found, taken = xp.zeros(y.shape, dx.dtype), xp.zeros(y.shape, bool)
    for _, index in taps_of(along):
        is_greatest = (full[index] == y) & inside[index] & ~taken
        taken = taken | is_greatest
        found = xp.where(is_greatest, beside[index], found)
    return from_ndhwc(found, data_format)


@gradient("MaxPool3D")
def max_pool3d_gradient(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in _GEOMETRY}
    return [apply_op("MaxPool3DGrad", op.inputs[0], op.outputs[0], grad, **attrs)]


@gradient("MaxPool3DGrad")
def max_pool3d_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    x, y, _ = op.inputs
    attrs = {name: op.attrs[name] for name in _GEOMETRY}
    second = apply_op("MaxPool3DGradGrad", x, y, grad, **attrs)
    return [apply_op("ZerosLike", x), apply_op("ZerosLike", y), second]


def _counts(along: Windows) -> Any:
    """Return [depth, height, width, 1]: how many elements of each window are no padding."""
    counts = []
    for w in along:
        starts = np.arange(w.out) * w.stride - w.before
        counts.append(np.minimum(starts + w.kernel, w.size) - np.maximum(starts, 0))
    return (counts[0][:, None, None] * counts[1][:, None] * counts[2])[..., None]


@op(
    """
    AvgPool3D(input: T) -> output: T
    ksize: list(int) >= 5
    strides: list(int) >= 5
    padding: string in {SAME, VALID}
    data_format: string in {NDHWC, NCDHW} = 'NDHWC'
    T: type in floats
    """,
    shape=pool3d_shape,
)
def avg_pool3d_kernel(
    xp: ArrayNamespace,
    input: Array,
    *,
    ksize: Array,
    strides: Array,
    padding: str,
    data_format: str,
) -> Any:
    x = to_ndhwc(input, data_format)
    along = _windows(x, ksize, strides, padding, data_format)
    full = filled(xp, wide(xp, x), along)
    total = sum(full[index] for _, index in taps_of(along))
    mean = total / _counts(along).astype(full.dtype)
    return from_ndhwc(mean.astype(input.dtype), data_format)


def _avg_pool3d_grad_shape(c: ShapeContext) -> list[Dims]:
    check_attrs(c.attrs, errors.UnimplementedError)
    return [with_rank(c.value_as_shape(0), 5, "orig_input_shape")]


@op(
    """
    AvgPool3DGrad(orig_input_shape: int32, grad: T) -> output: T
    ksize: list(int) >= 5
    strides: list(int) >= 5
    padding: string in {SAME, VALID}
    data_format: string in {NDHWC, NCDHW} = 'NDHWC'
    T: type in floats
    """,
    shape=_avg_pool3d_grad_shape,
    static=("orig_input_shape",),
)
def avg_pool3d_grad_kernel(
    xp: ArrayNamespace,
    orig_input_shape: Array,
    grad: Array,
    *,
    ksize: Any,
    strides: Array,
    padding: str,
    data_format: str,
) -> Any:
    sizes = tuple(orig_input_shape.reshape(-1).tolist())
    if orig_input_shape.ndim != 1 or len(sizes) != 5:
        raise errors.InvalidArgumentError(f"orig_input_shape must be 5 sizes; found {sizes}")
    x = dims_to_ndhwc(sizes, data_format)
    dy = to_ndhwc(grad, data_format, "grad")
    kernel = spatial(ksize, data_format)
    along = windows_of(x[1:4], kernel, strides, padding, data_format)  # type: ignore[arg-type]
    _check(dy, x, along, "grad")
    given = wide(xp, dy)
    shares = given / _counts(along).astype(given.dtype)
    spread = Spread(xp, dy.shape[0], dy.shape[4], along, given.dtype)
    for at, index in taps_of(along):
        spread.add(at, index, shares)
    return from_ndhwc(spread.result().astype(grad.dtype), data_format)


@gradient("AvgPool3D")
def avg_pool3d_gradient(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in _GEOMETRY}
    return [apply_op("AvgPool3DGrad", apply_op("Shape", op.inputs[0]), grad, **attrs)]


@gradient("AvgPool3DGrad")
def avg_pool3d_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in _GEOMETRY}
    return [None, apply_op("AvgPool3D", grad, **attrs)]


def _pool(
    base: str,
    value: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str,
    layout: str,
    name: str | None,
) -> Tensor:
    made: Tensor = apply_op(
        base,
        value,
        ksize=per_axis(ksize, "ksize", layout),
        strides=per_axis(strides, "strides", layout),
        padding=padding.upper(),
        data_format=layout,
        name=name,
    )
    return made


@export("nn.max_pool3d")
def max_pool3d(
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """Return the greatest element of each window of volumes.

    Args:
      input: floating numbers [batch, depth, height, width, channels], or with the channels second
        for "NCDHW".
      ksize: the windows' sizes: one, three or five ints.
      strides: how far apart windows begin: one, three or five ints.
      padding: "SAME" or "VALID"; what is added never wins.
      data_format: "NDHWC" or "NCDHW".
    Returns: volumes in the input's layout and type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.reshape(tf.range(8.0), [1, 2, 2, 2, 1])
      >>> tf.nn.max_pool3d(x, ksize=2, strides=2, padding="VALID").numpy().ravel().tolist()
      [7.0]
    """
    return _pool("MaxPool3D", input, ksize, strides, padding, data_format, name)


@export("nn.avg_pool3d")
def avg_pool3d(
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of volumes; elements of the padding do not count.

    Args:
      input: floating numbers [batch, depth, height, width, channels], or with the channels second
        for "NCDHW".
      ksize: the windows' sizes: one, three or five ints.
      strides: how far apart windows begin: one, three or five ints.
      padding: "SAME" or "VALID".
      data_format: "NDHWC" or "NCDHW".
    Returns: volumes in the input's layout and type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.reshape(tf.range(8.0), [1, 2, 2, 2, 1])
      >>> tf.nn.avg_pool3d(x, ksize=2, strides=2, padding="VALID").numpy().ravel().tolist()
      [3.5]
    """
    return _pool("AvgPool3D", input, ksize, strides, padding, data_format, name)
