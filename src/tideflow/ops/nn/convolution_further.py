"""Convolutions of any rank by one op, and such that pad or resize their images first.

Source: tensorflow/core/kernels/conv_ops_impl.h, conv_ops_using_gemm.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import get_op_def, op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.wire import errors


def _run(op_name: str, *inputs: Any, **attrs: Any) -> Any:
    kernel = get_op_def(op_name).kernel
    assert kernel is not None
    return kernel(np, *inputs, **attrs)


def _conv_shape(c: ShapeContext) -> list[Dims]:
    return [None if c.inputs[0] is None else (None,) * len(c.inputs[0])]


@op(
    """
    Conv(input: T, filter: T) -> output: T
    T: type in {half, bfloat16, float, double, int32}
    strides: list(int)
    padding: string in {SAME, VALID, EXPLICIT}
    explicit_paddings: list(int) = []
    data_format: string in {CHANNELS_FIRST, CHANNELS_LAST} = 'CHANNELS_LAST'
    dilations: list(int) = []
    batch_dims: int = 1
    groups: int = 1
    """,
    shape=_conv_shape,
)
def conv_kernel(
    ctx: KernelContext,
    input: Array,
    filter: Array,
    *,
    strides: list[int],
    padding: str,
    explicit_paddings: list[int],
    data_format: str,
    dilations: list[int],
    batch_dims: int,
    groups: int,
) -> Any:
    """Return the convolution over two or three dimensions, after any number of those of batches."""
    rank = input.ndim - batch_dims - 1
    if rank not in (2, 3) or batch_dims < 0:
        raise errors.InvalidArgumentError(
            f"The input must have 2 or 3 spatial dimensions but got {rank}"
        )
    for what, given in (("strides", strides), ("dilations", dilations or [1] * (rank + 2))):
        if len(given) != rank + 2 or min(given) <= 0:
            raise errors.InvalidArgumentError(
                f"{what} must be {rank + 2} positive numbers; found {given}"
            )
    if filter.ndim != rank + 2:
        raise errors.InvalidArgumentError(
            f"filter must have rank {rank + 2}; its shape is {list(filter.shape)}"
        )
    channel = 1 if data_format == "CHANNELS_FIRST" else rank + 1
    if any(given[at] != 1 for given in (strides, dilations or strides) for at in (0, channel)):
        raise errors.InvalidArgumentError("steps over batch and channels must be 1")
    if groups != 1:
        raise errors.UnimplementedError("Grouped/Depthwise Convolutions are not supported yet.")
    depth = input.shape[batch_dims if channel == 1 else -1]
    if depth != filter.shape[-2]:
        raise errors.InvalidArgumentError(
            f"Input depth must be equal to filter depth: {depth} vs {filter.shape[-2]}"
        )
    if channel == 1 and rank == 2:
        raise errors.UnimplementedError("The Conv2D op takes NHWC alone on the CPU; it is NCHW")
    if rank == 3 and (channel == 1 or any(rate != 1 for rate in dilations)):
        raise errors.InvalidArgumentError("Conv3D takes NDHWC without dilations alone on the CPU")
    batches = input.shape[:batch_dims]
    x = input.reshape(-1, *input.shape[batch_dims:])
    attrs = {"strides": strides, "padding": padding, "dilations": dilations or [1] * (rank + 2)}
    if rank == 2:
        made = _run(
            "Conv2D", x, filter, explicit_paddings=explicit_paddings, data_format="NHWC", **attrs
        )
    elif padding == "EXPLICIT":
        raise errors.UnimplementedError("Conv3D takes no explicit paddings")
    else:
        made = _run("Conv3D", x, filter, data_format="NDHWC", **attrs)
    return made.reshape(*batches, *made.shape[1:])


def _fused_shape(c: ShapeContext) -> list[Dims]:
    given = with_rank(c.inputs[0], 4, "input")
    out = with_rank(c.inputs[-1], 4, "filter")[3]
    return [(given[0], None, None, out)]


def _padded(x: Array, paddings: Array, mode: str) -> Any:
    """Return images with rows and columns of themselves around them."""
    if x.ndim != 4:
        raise errors.InvalidArgumentError(f"input must be 4-dimensional: {list(x.shape)}")
    if paddings.shape != (4, 2):
        raise errors.InvalidArgumentError(f"paddings must be [4, 2]: {list(paddings.shape)}")
    if paddings[0].any() or paddings[3].any():
        raise errors.InvalidArgumentError("paddings of batch and channels must be 0")
    return _run("MirrorPad", x, paddings, mode=mode)


def _convolved(x: Array, filter: Array, strides: list[int], padding: str) -> Any:
    if len(strides) != 4 or strides[0] != 1 or strides[3] != 1 or min(strides) <= 0:
        raise errors.InvalidArgumentError(f"strides must be four, 1 for batch and depth: {strides}")
    if filter.ndim != 4 or filter.shape[2] != x.shape[3]:
        raise errors.InvalidArgumentError(
            f"filter {list(filter.shape)} does not fit images {list(x.shape)}"
        )
    return _run(
        "Conv2D", x, filter, strides=strides, padding=padding, explicit_paddings=[],
        data_format="NHWC", dilations=[1, 1, 1, 1],
    )  # fmt: skip


@op(
    """
    FusedPadConv2D(input: T, paddings: int32, filter: T) -> output: T
    T: type in {half, bfloat16, float, double}
    mode: string in {REFLECT, SYMMETRIC}
    strides: list(int)
    padding: string in {SAME, VALID}
    """,
    shape=_fused_shape,
)
def fused_pad_conv2d_kernel(
    ctx: KernelContext,
    input: Array,
    paddings: Array,
    filter: Array,
    *,
    mode: str,
    strides: list[int],
    padding: str,
) -> Any:
    """Return the convolution of images that are mirrored at their edges first."""
    return _convolved(_padded(input, paddings, mode), filter, strides, padding)


@op(
    """
    FusedResizeAndPadConv2D(input: T, size: int32, paddings: int32, filter: T) -> output: T
    T: type in {half, float, double}
    resize_align_corners: bool = false
    mode: string in {REFLECT, SYMMETRIC}
    strides: list(int)
    padding: string in {SAME, VALID}
    """,
    shape=_fused_shape,
)
def fused_resize_and_pad_conv2d_kernel(
    ctx: KernelContext,
    input: Array,
    size: Array,
    paddings: Array,
    filter: Array,
    *,
    resize_align_corners: bool,
    mode: str,
    strides: list[int],
    padding: str,
) -> Any:
    """Return the convolution of images that are resized, then mirrored at their edges."""
    if input.ndim != 4:
        raise errors.InvalidArgumentError(f"input must be 4-dimensional: {list(input.shape)}")
    resized = _run(
        "ResizeBilinear", input, size, align_corners=resize_align_corners, half_pixel_centers=False
    )
    x = _padded(resized.astype(input.dtype), paddings, mode)
    return _convolved(x, filter, strides, padding)
