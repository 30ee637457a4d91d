"""Windows of images at offsets of their own: tf.image.extract_glimpse.

Source: tensorflow/core/kernels/image/attention_ops.cc; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.wire.errors import InvalidArgumentError


def _shape(c: ShapeContext) -> list[Dims]:
    batch, _, _, depth = with_rank(c.inputs[0], 4, "input")
    with_rank(c.inputs[1], 1, "size")
    with_rank(c.inputs[2], 2, "offsets")
    size = c.value(1)
    rows, columns = (None, None) if size is None else (int(size[0]), int(size[1]))
    return [(batch, rows, columns, depth)]


def _corner(
    offset: Any, sizes: Any, window: Any, version: int, centered: bool, normalized: bool
) -> Any:
    """Return the row and column at which a window begins."""
    at = offset.astype(np.float32)
    if normalized:
        at = at * sizes
    if centered and (normalized or version == 1):
        at = at / 2 + sizes / 2 - window / 2
    elif centered:
        at = at + sizes / 2
    elif version == 1:
        at = at - window / 2
    return np.trunc(at).astype(np.int64)


def _filling(kind: str, image: Any, window: Any) -> Any:
    """Return what stands where a window leaves the image: [rows, columns, channels]."""
    shape = (*window, image.shape[-1])
    if kind == "zero":
        return np.zeros(shape, np.float32)
    random = np.random.default_rng()
    if kind == "gaussian":
        mean, deviation = image.mean(), image.std()
        return np.abs(random.normal(mean, deviation, shape)).astype(np.float32)
    low, high = (image.min(), image.max()) if image.size else (0, 1)
    return random.uniform(low, high, shape).astype(np.float32)


def _windows(
    images: Array,
    size: Array,
    offsets: Array,
    *,
    version: int,
    centered: bool,
    normalized: bool,
    uniform_noise: bool,
    noise: str,
) -> Any:
    """Return a window of each image, at its offset; what is outside is noise."""
    if np.ndim(images) != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional; found {list(images.shape)}")
    if np.shape(size) != (2,):
        raise InvalidArgumentError(f"size must be two numbers; its shape is {list(np.shape(size))}")
    if (size < 0).any():
        raise InvalidArgumentError(f"glimpse sizes must not be negative; found {size.tolist()}")
    if np.ndim(offsets) != 2 or len(offsets) != len(images) or offsets.shape[1] != 2:
        raise InvalidArgumentError(
            f"offsets must be [{len(images)}, 2]; their shape is {list(np.shape(offsets))}"
        )
    if noise not in ("uniform", "gaussian", "zero") or (uniform_noise and noise != "uniform"):
        raise InvalidArgumentError(
            f"noise is uniform, gaussian or zero, and uniform under uniform_noise; found {noise!r}"
        )
    sizes = np.array(images.shape[1:3], np.float32)
    made = np.empty((len(images), *size, images.shape[3]), np.float32)
    for one, image, offset in zip(made, images, offsets, strict=True):
        row, column = _corner(offset, sizes, size, version, centered, normalized).tolist()
        one[...] = _filling(noise, image, size)
        rows, columns = _overlap(row, len(image), size[0]), _overlap(column, sizes[1], size[1])
        if rows and columns:
            at = np.ix_(np.array(rows) - row, np.array(columns) - column)
            one[at] = image[np.ix_(rows, columns)]
    return made


def _overlap(start: int, length: int, window: int) -> range:
    return range(max(start, 0), min(int(length), start + int(window)))


def _define(name: str, version: int) -> None:
    @op(
        f"""
        {name}(input: float, size: int32, offsets: float) -> glimpse: float
        centered: bool = true
        normalized: bool = true
        uniform_noise: bool = true
        noise: string = 'uniform'
        """,
        shape=_shape,
    )
    def kernel(
        ctx: KernelContext,
        images: Array,
        size: Array,
        offsets: Array,
        *,
        centered: bool,
        normalized: bool,
        uniform_noise: bool,
        noise: str,
    ) -> Any:
        return _windows(
            images,
            size,
            offsets,
            version=version,
            centered=centered,
            normalized=normalized,
            uniform_noise=uniform_noise,
            noise=noise,
        )


_define("ExtractGlimpse", 1)
_define("ExtractGlimpseV2", 2)
not_differentiable("ExtractGlimpse", "ExtractGlimpseV2")


@export_v2("image.extract_glimpse")
def extract_glimpse(
    input: TensorLike,
    size: TensorLike,
    offsets: TensorLike,
    centered: bool = True,
    normalized: bool = True,
    noise: str = "uniform",
    name: str | None = None,
) -> Tensor:
    """Return a window of each image [batch, height, width, channels].

    Args:
      size: height and width of the windows.
      offsets: [batch, 2], of their centers, rows first.
      centered: whether offsets are from the middle of the image, else from its corner.
      normalized: whether 1 is the size of the image (half of it if centered), else a pixel.
      noise: what is put outside of the image: "uniform", "gaussian" or "zero".
    """
    made: Tensor = apply_op(
        "ExtractGlimpseV2",
        input,
        size,
        offsets,
        centered=centered,
        normalized=normalized,
        uniform_noise=noise == "uniform",
        noise=noise,
        name=name,
    )
    return made


@export("image.extract_glimpse")
def extract_glimpse_v1(
    input: TensorLike,
    size: TensorLike,
    offsets: TensorLike,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:
    """Return a window of each image (see the TF2 shape), as the first version of the op has it."""
    made: Tensor = apply_op(
        "ExtractGlimpse",
        input,
        size,
        offsets,
        centered=centered,
        normalized=normalized,
        uniform_noise=uniform_noise,
        name=name,
    )
    return made
