"""Windows of volumes laid flat: tf.extract_volume_patches.

Source: tensorflow/core/kernels/extract_volume_patches_op.cc.
"""

from __future__ import annotations

import itertools
from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.nn import conv_geometry
from tideflow.wire import errors

_AXES = (1, 2, 3)


def _check(ksizes: list[int], strides: list[int]) -> None:
    for name, sizes in (("ksizes", ksizes), ("strides", strides)):
        if len(sizes) != 5:
            raise errors.InvalidArgumentError(f"{name} must be five sizes; found {sizes}")
        if sizes[0] != 1 or sizes[4] != 1:
            raise errors.UnimplementedError(
                f"{name} must be [1, planes, rows, columns, 1], within volumes; found {sizes}"
            )
        if min(sizes) < 1:
            raise errors.OutOfRangeError(f"{name} must be positive; found {sizes}")


def _window(size: int, axis: int, attrs: dict[str, Any]) -> conv_geometry.Window:
    steps = attrs["ksizes"][axis], attrs["strides"][axis], 1
    try:
        found: conv_geometry.Window = conv_geometry.window(size, *steps, attrs["padding"], 0, 0)
    except conv_geometry.GeometryError as error:
        raise errors.InvalidArgumentError(str(error)) from None
    return found


def _shape(c: ShapeContext) -> list[Dims]:
    batch, *sizes, depth = with_rank(c.inputs[0], 5, "input")
    _check(c.attrs["ksizes"], c.attrs["strides"])
    outs = [
        None if size is None else _window(size, axis, c.attrs).out
        for axis, size in zip(_AXES, sizes, strict=True)
    ]
    count = c.attrs["ksizes"][1] * c.attrs["ksizes"][2] * c.attrs["ksizes"][3]
    return [(batch, *outs, None if depth is None else depth * count)]


def _taps(windows: list[conv_geometry.Window]) -> list[list[tuple[int, int, int]]]:
    """Return for each element of the windows where it lies: start, stop and step of each axis."""
    places = itertools.product(*[range(window.kernel) for window in windows])
    return [
        [conv_geometry.tap(window, at) for window, at in zip(windows, place, strict=True)]
        for place in places
    ]


@op(
    """
    ExtractVolumePatches(input: T) -> patches: T
    ksizes: list(int) >= 5
    strides: list(int) >= 5
    T: type in reals
    padding: string in {"SAME", "VALID"}
    """,
    shape=_shape,
)
def extract_volume_patches_kernel(
    xp: ArrayNamespace, x: Array, *, ksizes: list[int], strides: list[int], padding: str
) -> Any:
    """Return [batch, planes, rows, columns, elements of a window * channels]."""
    _check(ksizes, strides)
    if x.ndim != 5:
        raise errors.InvalidArgumentError(f"input must be 5-dimensional; found {list(x.shape)}")
    attrs = {"ksizes": ksizes, "strides": strides, "padding": padding}
    windows = [_window(x.shape[axis], axis, attrs) for axis in _AXES]
    full = xp.pad(x, ((0, 0), *((w.before, w.after) for w in windows), (0, 0)))
    parts = [full[(slice(None), *(slice(*along) for along in tap))] for tap in _taps(windows)]
    return xp.concatenate(parts, axis=-1)


@gradient("ExtractVolumePatches")
def _extract_volume_patches_gradient(op: Any, grad: Tensor) -> list[Any]:
    """Add up the windows where they lie.  Raises: ValueError for volumes of unknown size."""
    volumes = op.inputs[0]
    dims = volumes.dims
    if dims is None or None in dims[1:]:
        raise ValueError(
            "the gradient of extract_volume_patches needs volumes of known size; found "
            f"{volumes.shape}"
        )
    windows = [_window(dims[axis], axis, op.attrs) for axis in _AXES]
    batch = apply_op("StridedSlice", apply_op("Shape", volumes), [0], [1], [1])
    sizes = [w.before + w.size + w.after for w in windows]
    shape = apply_op("ConcatV2", [batch, [*sizes, dims[4]]], 0)
    taps = _taps(windows)
    parts = apply_op("Split", 4, grad, num_split=len(taps))
    placed = [
        apply_op(
            "StridedSliceGrad",
            shape,
            [0, *(along[0] for along in tap)],
            [0, *(along[1] for along in tap)],
            [1, *(along[2] for along in tap)],
            part,
            begin_mask=1,
            end_mask=1,
        )
        for tap, part in zip(taps, parts, strict=True)
    ]
    begin = [0, *(w.before for w in windows), 0]
    return [
        apply_op("Slice", apply_op("AddN", placed), begin, [-1, *(w.size for w in windows), -1])
    ]


@export("extract_volume_patches")
def extract_volume_patches(
    input: TensorLike, ksizes: list[int], strides: list[int], padding: str, name: str | None = None
) -> Tensor:
    """Return windows of volumes, laid flat: [batch, planes, rows, columns, window * channels].

    Args:
      input: [batch, planes, rows, columns, channels].
      ksizes, strides: [1, planes, rows, columns, 1]; how large windows are, and how far apart.
      padding: "VALID" or "SAME".
    """
    made: Tensor = apply_op(
        "ExtractVolumePatches", input, ksizes=ksizes, strides=strides, padding=padding, name=name
    )
    return made
