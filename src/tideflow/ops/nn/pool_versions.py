"""The second version of greatest-element pools, which takes sizes and steps of windows as inputs.

Source: tensorflow/core/kernels/maxpooling_op.cc, core/framework/common_shape_fns.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.nn.conv_geometry import dims_from_nhwc, dims_to_nhwc, out_size, spatial
from tideflow.ops.nn.pools import (
    max_pool_grad_grad_kernel,
    max_pool_grad_kernel,
    max_pool_kernel,
)
from tideflow.wire import errors


def _lists(ksize: Array, strides: Array) -> dict[str, list[int]]:
    """Return what are attrs of the first version.

    Raises: InvalidArgumentError; UnimplementedError for windows over several images.
    """
    found = {}
    for what, given in (("ksize", ksize), ("strides", strides)):
        if np.size(given) != 4:
            raise errors.InvalidArgumentError(f"{what} must have 4 elements; found {given}")
        found[what] = [int(n) for n in np.reshape(given, -1)]
    if found["ksize"][0] != 1 or found["strides"][0] != 1:
        raise errors.UnimplementedError(f"images are not pooled over the batch; found {found}")
    return found


def _check_space(sizes: dict[str, list[int]], layout: str) -> None:
    """Refuse windows over channels and of no size.  Raises: UnimplementedError; as _lists."""
    channel = 1 if layout.startswith("NCHW") else 3
    if sizes["ksize"][channel] != 1 or sizes["strides"][channel] != 1:
        raise errors.UnimplementedError(f"images are pooled over space alone; found {sizes}")
    for what, given in sizes.items():
        if min(given) <= 0:
            raise errors.InvalidArgumentError(f"{what} must be positive; found {given}")


def _pool_shape(c: ShapeContext) -> list[Dims]:
    given = with_rank(c.shape("input"), 4, "input")
    ksize, strides = c.value("ksize"), c.value("strides")
    if ksize is None or strides is None:
        return [(None,) * 4]
    if ksize.size != 4 or strides.size != 4:
        raise ValueError(f"ksize and strides must have 4 elements; found {ksize} and {strides}")
    layout = c.attrs["data_format"]
    attrs = {**c.attrs, "strides": strides.tolist()}
    nhwc = dims_to_nhwc(given, layout)
    height, width = spatial(ksize.tolist(), layout)
    rows, columns = out_size(nhwc[1], height, 0, attrs), out_size(nhwc[2], width, 1, attrs)
    return [dims_from_nhwc((nhwc[0], rows, columns, nhwc[3]), layout)]


@op(
    """
    MaxPoolV2(input: T, ksize: int32, strides: int32) -> output: T
    T: type in {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float
    padding: string in {SAME, VALID}
    data_format: string in {NHWC, NCHW, NCHW_VECT_C} = 'NHWC'
    """,  # noqa: E501 - one attr, one line
    shape=_pool_shape,
    static=("ksize", "strides"),
)
def max_pool_v2_kernel(
    xp: ArrayNamespace,
    input: Array,
    ksize: Array,
    strides: Array,
    *,
    padding: str,
    data_format: str,
) -> Any:
    """Return the greatest element of each window."""
    if np.size(ksize) == 4 and np.min(ksize) <= 0:
        raise errors.InvalidArgumentError(f"ksize must be positive; found {ksize}")
    sizes = _lists(ksize, strides)
    _check_space(sizes, data_format)
    return max_pool_kernel(
        xp, input, **sizes, padding=padding, explicit_paddings=[], data_format=data_format
    )


@op(
    """
    MaxPoolGradV2(orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32) -> output: T
    padding: string in {SAME, VALID}
    data_format: string in {NHWC, NCHW} = 'NHWC'
    T: type in reals = float
    """,
    shape=lambda c: [with_rank(c.inputs[0], 4, "orig_input")],
    static=("ksize", "strides"),
)
def max_pool_grad_v2_kernel(
    xp: ArrayNamespace,
    orig_input: Array,
    orig_output: Array,
    grad: Array,
    ksize: Array,
    strides: Array,
    *,
    padding: str,
    data_format: str,
) -> Any:
    """Return each gradient where the greatest element of its window was."""
    sizes = _lists(ksize, strides)
    _check_space(sizes, data_format)
    return max_pool_grad_kernel(
        xp, orig_input, orig_output, grad, **sizes, padding=padding, explicit_paddings=[],
        data_format=data_format,
    )  # fmt: skip


@op(
    """
    MaxPoolGradGradV2(orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32) -> output: T
    padding: string in {SAME, VALID}
    data_format: string in {NHWC, NCHW} = 'NHWC'
    T: type in reals
    """,  # noqa: E501 - one list of inputs
    shape=lambda c: [with_rank(c.inputs[1], 4, "orig_output")],
    static=("ksize", "strides"),
)
def max_pool_grad_grad_v2_kernel(
    xp: ArrayNamespace,
    orig_input: Array,
    orig_output: Array,
    grad: Array,
    ksize: Array,
    strides: Array,
    *,
    padding: str,
    data_format: str,
) -> Any:
    """Return what stands in grad where the greatest element of each window is."""
    sizes = _lists(ksize, strides)
    _check_space(sizes, data_format)
    return max_pool_grad_grad_kernel(
        xp, orig_input, orig_output, grad, **sizes, padding=padding, data_format=data_format
    )


def _geometry(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("padding", "data_format")}


@gradient("MaxPoolV2")
def max_pool_v2_gradient(op: Operation, grad: Tensor) -> list[Any]:
    x, ksize, strides = op.inputs
    made = apply_op("MaxPoolGradV2", x, op.outputs[0], grad, ksize, strides, **_geometry(op))
    return [made, None, None]


@gradient("MaxPoolGradV2")
def max_pool_grad_v2_gradient(op: Operation, grad: Tensor) -> list[Any]:
    x, y, _, ksize, strides = op.inputs
    second = apply_op("MaxPoolGradGradV2", x, y, grad, ksize, strides, **_geometry(op))
    return [apply_op("ZerosLike", x), apply_op("ZerosLike", y), second, None, None]
