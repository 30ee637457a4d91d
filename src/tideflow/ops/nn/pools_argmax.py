"""MaxPoolWithArgmax: the greatest element of each window and where in the image it is.

Source: tensorflow/core/kernels/maxpooling_op.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.nn.conv_geometry import check_attrs, out_size, per_axis, spatial, tap, windows
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError, UnimplementedError

_GEOMETRY = ("ksize", "strides", "padding", "include_batch_in_index")
_LAYOUT = "NHWC"


def _check_attrs(attrs: dict[str, Any]) -> None:
    """Refuse windows that are not of space alone.  Raises: ValueError; UnimplementedError."""
    ksize, strides = attrs["ksize"], attrs["strides"]
    if min(ksize) <= 0 or strides[3] <= 0:
        raise ValueError(f"ksize and strides must be positive; found {ksize} and {strides}")
    check_attrs({**attrs, "data_format": _LAYOUT}, UnimplementedError)
    if ksize[0] != 1 or ksize[3] != 1:
        raise UnimplementedError(f"images are pooled over space alone; found ksize {ksize}")


def _grad_shape(c: ShapeContext) -> list[Dims]:
    _check_attrs(c.attrs)
    return [with_rank(c.inputs[0], 4, "input")]


def _shape(c: ShapeContext) -> list[Dims]:
    _check_attrs(c.attrs)
    given = with_rank(c.inputs[0], 4, "input")
    attrs = {**c.attrs, "data_format": _LAYOUT, "explicit_paddings": []}
    height, width = spatial(c.attrs["ksize"], _LAYOUT)
    found = (given[0], out_size(given[1], height, 0, attrs), out_size(given[2], width, 1, attrs),
             given[3])  # fmt: skip
    return [found, found]


def _check_images(x: Any) -> None:
    if x.ndim != 4:
        raise InvalidArgumentError(f"images must have rank 4; found shape {list(x.shape)}")


@op(
    """
    MaxPoolWithArgmax(input: T) -> output: T, argmax: Targmax
    ksize: list(int) >= 4
    strides: list(int) >= 4
    Targmax: type in indices = int64
    padding: string in {SAME, VALID}
    include_batch_in_index: bool = false
    T: type in reals
    """,
    shape=_shape,
)
def max_pool_with_argmax_kernel(
    ctx: KernelContext,
    x: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
    include_batch_in_index: bool,
    Targmax: DType,
) -> Any:
    """Return the greatest elements and their places: (row * width + column) * channels + channel,
    counted on from image to image if include_batch_in_index."""
    _check_images(x)
    if not x.size:
        raise InvalidArgumentError(f"images of shape {list(x.shape)} have nothing to pool")
    batch, height, width, channels = x.shape
    rows, columns = windows(x.shape[1:3], spatial(ksize, _LAYOUT), strides, padding, [], _LAYOUT)
    edges = ((0, 0), (rows.before, rows.after), (columns.before, columns.after), (0, 0))
    places = np.arange(height * width * channels).reshape(1, height, width, channels)
    padded_places = np.pad(places, edges, constant_values=-1)
    padded = np.pad(x, edges)
    best, at = np.zeros((batch, rows.out, columns.out, channels), x.dtype), None
    for i in range(rows.kernel):
        for j in range(columns.kernel):
            part = (slice(None), slice(*tap(rows, i)), slice(*tap(columns, j)))
            values, where = padded[part], padded_places[part]
            is_better = where >= 0
            if at is not None:
                is_better = is_better & ((values > best) | (at < 0))
            is_better = np.broadcast_to(is_better, values.shape)
            best = np.where(is_better, values, best)
            at = np.where(is_better, where, -1 if at is None else at)
    assert at is not None
    if include_batch_in_index:
        at = at + (np.arange(batch) * places.size).reshape(-1, 1, 1, 1)
    return best, at.astype(Targmax.as_numpy_dtype)


@op(
    """
    MaxPoolGradWithArgmax(input: T, grad: T, argmax: Targmax) -> output: T
    ksize: list(int) >= 4
    strides: list(int) >= 4
    padding: string in {SAME, VALID}
    include_batch_in_index: bool = false
    Targmax: type in indices
    T: type in reals
    """,
    shape=_grad_shape,
)
def max_pool_grad_with_argmax_kernel(
    ctx: KernelContext,
    x: Array,
    grad: Array,
    argmax: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
    include_batch_in_index: bool,
) -> Any:
    """Return gradients added up at the places that argmax names."""
    _check_images(x)
    rows, columns = windows(x.shape[1:3], spatial(ksize, _LAYOUT), strides, padding, [], _LAYOUT)
    wanted = (x.shape[0], rows.out, columns.out, x.shape[3])
    if grad.shape != wanted or argmax.shape != wanted:
        raise InvalidArgumentError(
            f"the pool of an input {list(x.shape)} has shape {list(wanted)}; found grad "
            f"{list(grad.shape)} and argmax {list(argmax.shape)}"
        )
    if not x.size:
        return np.zeros(x.shape, grad.dtype)
    at = argmax.reshape(x.shape[0], -1).astype(np.int64)
    if not include_batch_in_index:
        at = at + (np.arange(x.shape[0]) * (x.size // x.shape[0])).reshape(-1, 1)
    if at.size and (at.min() < 0 or at.max() >= x.size):
        raise InvalidArgumentError(f"argmax names places outside the {x.size} of the input")
    found = np.zeros(x.size, grad.dtype)
    np.add.at(found, at.reshape(-1), grad.reshape(-1))
    return found.reshape(x.shape)


@gradient("MaxPoolWithArgmax")
def max_pool_with_argmax_gradient(op: Operation, grad: Tensor, _: Tensor) -> list[Any]:
    """Send each gradient where the greatest element came from."""
    attrs = {name: op.attrs[name] for name in _GEOMETRY}
    return [apply_op("MaxPoolGradWithArgmax", op.inputs[0], grad, op.outputs[1], **attrs)]


@export("nn.max_pool_with_argmax")
def max_pool_with_argmax(
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str,
    data_format: str = _LAYOUT,
    Targmax: DTypeLike | None = None,
    name: str | None = None,
    output_dtype: DTypeLike | None = None,
    include_batch_in_index: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the greatest element of each window of images, and its place.

    Args:
      input: numbers [batch, height, width, channels].
      ksize, strides: one int, two, or four with 1 for batch and channels.
      padding: "SAME" or "VALID".
      data_format: "NHWC".
      Targmax: the places' type, int32 or int64 (default); output_dtype is another name for it.
      include_batch_in_index: whether places are counted on from image to image.
    Returns: images of the input's type, and for each element its place: (row * width + column) *
      channels + channel.
    Raises: ValueError for another data_format, and ksize and strides that are not positive.
    Example:
      >>> x = tf.reshape(tf.constant([1.0, 4.0, 3.0, 2.0]), [1, 2, 2, 1])
      >>> most, place = tf.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
      >>> [found.tolist() for found in tf.Session().run([most, place])]
      [[[[[4.0]]]], [[[[1]]]]]
    """
    if data_format != _LAYOUT:
        raise ValueError(f"data_format must be {_LAYOUT!r}; found {data_format!r}")
    wanted = Targmax if output_dtype is None else output_dtype
    values, places = apply_op(
        "MaxPoolWithArgmax",
        input,
        ksize=per_axis(ksize, "ksize", _LAYOUT),
        strides=per_axis(strides, "strides", _LAYOUT),
        padding=padding,
        Targmax="int64" if wanted is None else wanted,
        include_batch_in_index=include_batch_in_index,
        name=name,
    )
    return values, places


@export_v2("nn.max_pool_with_argmax")
def max_pool_with_argmax_v2(
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str,
    data_format: str = _LAYOUT,
    output_dtype: DTypeLike = "int64",
    include_batch_in_index: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the greatest element of each window of images, and its place.

    Args:
      input: numbers [batch, height, width, channels].
      ksize, strides: one int, two, or four with 1 for batch and channels.
      padding: "SAME" or "VALID".
      data_format: "NHWC".
      output_dtype: the places' type, int32 or int64.
      include_batch_in_index: whether places are counted on from image to image.
    Returns: images of the input's type, and for each element its place: (row * width + column) *
      channels + channel.
    Raises: ValueError for another data_format, and ksize and strides that are not positive.
    Example:
      >>> x = tf.reshape(tf.constant([1.0, 4.0, 3.0, 2.0]), [1, 2, 2, 1])
      >>> most, place = tf.nn.max_pool_with_argmax(x, ksize=2, strides=2, padding="VALID")
      >>> most.numpy().ravel().tolist(), place.numpy().ravel().tolist()
      ([4.0], [1])
    """
    return max_pool_with_argmax(
        input, ksize, strides, padding, data_format, output_dtype, name, None,
        include_batch_in_index,
    )  # fmt: skip
