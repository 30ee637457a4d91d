"""Windows of images laid flat: tf.image.extract_patches.

Source: tensorflow/core/kernels/image/extract_image_patches_op.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.nn import conv_geometry
from tideflow.wire import errors


def _check(attrs: dict[str, Any]) -> None:
    for name in ("ksizes", "strides", "rates"):
        sizes = attrs[name]
        if len(sizes) != 4:
            raise errors.InvalidArgumentError(f"{name} must be four sizes; found {sizes}")
        if sizes[0] != 1 or sizes[3] != 1:
            raise errors.UnimplementedError(
                f"{name} must be [1, height, width, 1], within images; found {sizes}"
            )
        if min(sizes) < 1:
            raise errors.OutOfRangeError(f"{name} must be positive; found {sizes}")


def _window(size: int, axis: int, attrs: dict[str, Any]) -> conv_geometry.Window:
    sizes = [attrs[name][axis] for name in ("ksizes", "strides", "rates")]
    try:
        found: conv_geometry.Window = conv_geometry.window(size, *sizes, attrs["padding"], 0, 0)
    except conv_geometry.GeometryError as error:
        raise errors.InvalidArgumentError(str(error)) from None
    return found


def _patches_shape(c: ShapeContext) -> list[Dims]:
    batch, height, width, depth = with_rank(c.inputs[0], 4, "images")
    _check(c.attrs)
    rows, columns = (
        None if size is None else _window(size, axis, c.attrs).out
        for axis, size in ((1, height), (2, width))
    )
    area = c.attrs["ksizes"][1] * c.attrs["ksizes"][2]
    return [(batch, rows, columns, None if depth is None else depth * area)]


def _taps(
    rows: conv_geometry.Window, columns: conv_geometry.Window
) -> Iterator[tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """Yield for each element of the windows where it lies: start, stop and step of both axes."""
    for row in range(rows.kernel):
        for column in range(columns.kernel):
            yield conv_geometry.tap(rows, row), conv_geometry.tap(columns, column)


@op(
    """
    ExtractImagePatches(images: T) -> patches: T
    ksizes: list(int) >= 4
    strides: list(int) >= 4
    rates: list(int) >= 4
    T: type in {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, \
uint64, complex64, complex128, bool}
    padding: string in {"SAME", "VALID"}
    """,
    shape=_patches_shape,
)
def extract_image_patches_kernel(
    xp: ArrayNamespace,
    images: Array,
    *,
    ksizes: list[int],
    strides: list[int],
    rates: list[int],
    padding: str,
) -> Any:
    """Return [batch, rows, columns, window height * window width * channels]."""
    attrs = {"ksizes": ksizes, "strides": strides, "rates": rates, "padding": padding}
    _check(attrs)
    if images.ndim != 4:
        raise errors.InvalidArgumentError(
            f"images must have rank 4; their shape is {list(images.shape)}"
        )
    rows, columns = (_window(images.shape[axis], axis, attrs) for axis in (1, 2))
    sides = ((0, 0), (rows.before, rows.after), (columns.before, columns.after), (0, 0))
    full = xp.pad(images, sides)
    parts = [full[:, slice(*down), slice(*across)] for down, across in _taps(rows, columns)]
    return xp.concatenate(parts, axis=-1)


@gradient("ExtractImagePatches")
def _extract_image_patches_gradient(op: Any, grad: Tensor) -> list[Any]:
    """Add up the windows where they lie.  Raises: ValueError for images of unknown size."""
    images = op.inputs[0]
    dims = images.dims
    if dims is None or None in dims[1:]:
        raise ValueError(
            "the gradient of extract_patches needs images of known height, width and channels; "
            f"found {images.shape}"
        )
    rows, columns = (_window(dims[axis], axis, op.attrs) for axis in (1, 2))
    height, width = (w.before + w.size + w.after for w in (rows, columns))
    batch = apply_op("StridedSlice", apply_op("Shape", images), [0], [1], [1])
    shape = apply_op("ConcatV2", [batch, [height, width, dims[3]]], 0)
    parts = apply_op("Split", 3, grad, num_split=rows.kernel * columns.kernel)
    placed = [
        apply_op(
            "StridedSliceGrad",
            shape,
            [0, down[0], across[0]],
            [0, down[1], across[1]],
            [1, down[2], across[2]],
            part,
            begin_mask=1,
            end_mask=1,
        )
        for (down, across), part in zip(_taps(rows, columns), parts)
    ]
    begin, size = [0, rows.before, columns.before, 0], [-1, rows.size, columns.size, -1]
    return [apply_op("Slice", apply_op("AddN", placed), begin, size)]


def _extracted(
    images: TensorLike,
    sizes: TensorLike,
    strides: object,
    rates: object,
    padding: str,
    name: str | None,
) -> Tensor:
    made: Tensor = apply_op(
        "ExtractImagePatches",
        images,
        ksizes=sizes,
        strides=strides,
        rates=rates,
        padding=padding,
        name=name,
    )
    return made


@export_v2("image.extract_patches")
def extract_patches(
    images: TensorLike,
    sizes: TensorLike,
    strides: int | Sequence[int],
    rates: TensorLike,
    padding: str,
    name: str | None = None,
) -> Tensor:
    """Return windows of images, laid flat: [batch, rows, columns, height * width * channels].

    Args:
      images: [batch, height, width, channels].
      sizes, strides, rates: [1, height, width, 1]; how large windows are, how far from each other,
        and every how many pixels they take one.
      padding: "VALID" or "SAME".
    """
    return _extracted(images, sizes, strides, rates, padding, name)


@export("image.extract_patches", "image.extract_image_patches", "extract_image_patches")
def extract_image_patches(
    images: TensorLike,
    ksizes: int | Sequence[int] | None = None,
    strides: int | Sequence[int] | None = None,
    rates: TensorLike | None = None,
    padding: str | None = None,
    name: str | None = None,
    sizes: TensorLike | None = None,
) -> Tensor:
    """Return windows of images, laid flat (see the TF2 shape); ksizes is sizes."""
    wanted = conv_geometry.one_of("sizes", sizes, "ksizes", ksizes)
    return _extracted(images, wanted, strides, rates, padding or "", name)
