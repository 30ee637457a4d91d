"""Convolutions of quantised numbers by scales and zero points.

They are those of XLA: any number of spatial dimensions, dilation of both operands, groups of
features and of batches, and a message that says which dimension means what.
Source: tensorflow/core/kernels/uniform_quant_ops/uniform_quantized_convolution_ops.cc and
tensorflow/core/util/quantization/uniform_quant_ops_params.cc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op, with_attrs
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.quantization.levels import F
from tideflow.ops.quantization.uniform import along, check_steps, ranges_of, require_positive
from tideflow.ops.quantization.uniform_arithmetic import (
    check_scalar_steps,
    check_scalars,
    check_steps_shapes,
    quantized_by_rows,
    require_output_like,
    rescaled,
)
from tideflow.ops.quantization.whole_numbers import (
    convolution_of_whole,
    dilated,
    same_paddings,
)
from tideflow.wire import errors
from tideflow.wire import messages as pb

_DimensionNumbers = pb.UniformQuantizedConvolutionDimensionNumbersAttr


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise errors.InvalidArgumentError(message)


# ---- what attrs and shapes say


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which dimension of a tensor is that of batches (or features made), features, and space."""

    first: int
    features: int
    space: tuple[int, ...]

    @property
    def order(self) -> list[int]:
        """Dimensions in the order first, features, space."""
        return [self.first, self.features, *self.space]

    def check(self, rank: int) -> None:
        """Refuse dimensions that a tensor of that rank does not have, each once."""
        _require(
            sorted(self.order) == list(range(rank)),
            f"dimension_numbers must name each dimension below {rank} once; found {self.order}",
        )


@dataclass(frozen=True, slots=True)
class _Convolution:
    """A convolution of tensors of known shapes.

    Attributes:
      paddings: how many zeros stand before and behind each spatial dimension of the images.
      sizes: the spatial sizes of the result.
    """

    images: _Layout
    filter: _Layout
    result: _Layout
    strides: list[int]
    image_dilations: list[int]
    filter_dilations: list[int]
    paddings: list[tuple[int, int]]
    feature_groups: int
    batch_groups: int
    sizes: list[int]

    def shape(self, lhs: Sequence[int], rhs: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the result."""
        batches = lhs[self.images.first] // self.batch_groups
        found = [batches, rhs[self.filter.first], *self.sizes]
        return tuple(found[self.result.order.index(at)] for at in range(len(found)))


def _layouts(text: str, rank: int) -> tuple[_Layout, _Layout, _Layout]:
    try:
        given = _DimensionNumbers.FromString(text.encode("utf-8", "surrogateescape"))
    except DecodeError:
        raise errors.InvalidArgumentError("Error parsing convolution dimension numbers.") from None
    if not given.input_spatial_dimensions:
        plain = _Layout(0, 1, tuple(range(2, rank)))
        return plain, plain, plain
    found = (
        _Layout(
            given.input_batch_dimension,
            given.input_feature_dimension,
            tuple(given.input_spatial_dimensions),
        ),
        _Layout(
            given.kernel_output_feature_dimension,
            given.kernel_input_feature_dimension,
            tuple(given.kernel_spatial_dimensions),
        ),
        _Layout(
            given.output_batch_dimension,
            given.output_feature_dimension,
            tuple(given.output_spatial_dimensions),
        ),
    )
    for layout in found:
        layout.check(rank)
    return found


def _per_dimension(attrs: Mapping[str, Any], name: str, count: int) -> list[int]:
    given: list[int] = attrs[name] or [1] * count
    _require(len(given) == count, f"Size of {name} Attr must be dims - 2.")
    _require(min(given) >= 1, f"All elements of {name} must be >= 1. Given {given}")
    return given


def _check_padding(attrs: Mapping[str, Any]) -> None:
    padding, explicit = attrs["padding"], attrs["explicit_padding"]
    _require(
        padding in ("EXPLICIT", "SAME", "VALID"),
        f"padding Attr must be one of [EXPLICIT | SAME | VALID], but given: {padding}",
    )
    _require(
        padding == "EXPLICIT" or not explicit,
        "If padding Attr is not 'EXPLICIT', explicit_padding Attr must be empty. Given padding "
        f"{padding} and explicit_padding of size {len(explicit)}",
    )


def _paddings(
    attrs: Mapping[str, Any], images: list[int], reach: list[int], strides: list[int]
) -> list[tuple[int, int]]:
    """Return what stands before and behind each dimension, whose sizes are given dilated."""
    if attrs["padding"] == "VALID":
        return [(0, 0)] * len(images)
    if attrs["padding"] == "EXPLICIT":
        given = attrs["explicit_padding"]
        _require(
            len(given) == 2 * len(images) and min(given) >= 0,
            f"explicit_padding Attr must hold {2 * len(images)} numbers, none below 0; found "
            f"{given}",
        )
        return list(zip(given[::2], given[1::2]))
    return same_paddings(images, reach, strides)


def _check_groups(
    lhs: Sequence[int], rhs: Sequence[int], images: _Layout, filter: _Layout, attrs: Any
) -> None:
    features, batches = attrs["feature_group_count"], attrs["batch_group_count"]
    _require(
        features > 0 and batches > 0,
        f"feature_group_count and batch_group_count must be positive; found {features}, {batches}",
    )
    given, taken = lhs[images.features], rhs[filter.features]
    _require(
        taken > 0 and given == taken * features,
        f"lhs feature dimension size divided by feature_group_count must equal the rhs input "
        f"feature dimension size, but {given} / {features} != {taken}",
    )
    _require(
        rhs[filter.first] % features == 0 and rhs[filter.first] % batches == 0,
        f"rhs output dimension size must be a multiple of the counts of groups, {features} and "
        f"{batches}; found {rhs[filter.first]}",
    )
    _require(
        lhs[images.first] % batches == 0,
        f"batch_group_count must divide lhs batch dimension size, but {batches} does not divide "
        f"{lhs[images.first]}",
    )


def _convolution(attrs: Mapping[str, Any], lhs: Sequence[int], rhs: Sequence[int]) -> _Convolution:
    """Return what attrs say of operands of these shapes.  Raises: InvalidArgumentError."""
    _check_padding(attrs)
    _require(
        len(lhs) == len(rhs) > 2,
        f"lhs and rhs must have the same rank, of 3 at least; found {list(lhs)} and {list(rhs)}",
    )
    images, filter, result = _layouts(attrs["dimension_numbers"], len(lhs))
    strides, of_images, of_filter = (
        _per_dimension(attrs, name, len(lhs) - 2)
        for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    _check_groups(lhs, rhs, images, filter, attrs)
    wide = [dilated(lhs[at], by) for at, by in zip(images.space, of_images)]
    reach = [dilated(rhs[at], by) for at, by in zip(filter.space, of_filter)]
    paddings = _paddings(attrs, wide, reach, strides)
    # Cut towards zero, as whole numbers are divided there.
    sizes = [
        int((size + sum(both) - taps + stride) / stride)
        for size, both, taps, stride in zip(wide, paddings, reach, strides)
    ]
    _require(min(sizes) >= 0, f"the filter is larger than the images: {list(lhs)}, {list(rhs)}")
    groups = attrs["feature_group_count"], attrs["batch_group_count"]
    return _Convolution(
        images, filter, result, strides, of_images, of_filter, paddings, *groups, sizes
    )


def _shape(c: ShapeContext) -> list[Dims]:
    lhs, rhs = c.inputs[:2]
    _check_padding(c.attrs)
    rank = next((len(dims) for dims in (lhs, rhs) if dims is not None), None)
    if lhs is None or rhs is None or None in lhs or None in rhs:
        return [None if rank is None else (None,) * rank]
    sizes = [[size or 0 for size in dims] for dims in (lhs, rhs)]
    found = _convolution(c.attrs, sizes[0], sizes[1])
    made = sizes[1][found.filter.first]
    check_steps_shapes(c, "rhs", made)
    if "lhs_quantization_axis" in c.attrs:
        check_scalar_steps(c, "lhs")
        check_steps_shapes(c, "output", made)
    return [found.shape(sizes[0], sizes[1])]


# ---- the sums


def _spread(x: Array, zeros: Any, of: _Convolution) -> Any:
    """Return how far images are from zero, [batch, features, *space], padded and dilated.

    What is put between is the zero point as a number of 8 bits.
    """
    space = [
        before + dilated(size, by) + behind
        for size, by, (before, behind) in zip(x.shape[2:], of.image_dilations, of.paddings)
    ]
    zeros = along(zeros, x.ndim, 0 if zeros.ndim else -1)
    wide = np.empty((*x.shape[:2], *space), np.int32)
    wide[...] = zeros.astype(np.int8)
    inside = [
        slice(before, before + dilated(size, by), by)
        for size, by, (before, _) in zip(x.shape[2:], of.image_dilations, of.paddings)
    ]
    wide[(slice(None), slice(None), *inside)] = x
    return wide - zeros


def _sums(x: Array, rhs: Array, zeros: Any, of: _Convolution) -> Any:
    """Return the convolution of spread images and a filter, [batch, made, *space], int32."""
    ordered = rhs.transpose(of.filter.order).astype(np.int32)
    w = ordered - along(zeros, rhs.ndim, 0 if zeros.ndim else -1)
    groups = of.feature_groups, of.batch_groups
    return convolution_of_whole(x, w, of.sizes, of.strides, of.filter_dilations, *groups)


def _check_axis(axis: int, wanted: int, what: str) -> None:
    _require(
        axis in (-1, wanted),
        f"{what}_quantization_axis Attr must be -1 (per-tensor) or that of the features made, "
        f"{wanted}; found {axis}",
    )


_OF_CONVOLUTION = [
    "window_strides",
    "padding",
    "explicit_padding",
    "lhs_dilation",
    "rhs_dilation",
    "batch_group_count",
    "feature_group_count",
    "dimension_numbers",
    "rhs_quantization_axis",
]
_ATTRS = """
    window_strides: list(int) = []
    padding: string
    explicit_padding: list(int) = []
    lhs_dilation: list(int) = []
    rhs_dilation: list(int) = []
    batch_group_count: int = 1
    feature_group_count: int = 1
    dimension_numbers: string = ""
"""


def _convolved(
    ctx: KernelContext,
    lhs: Array,
    rhs: Array,
    lhs_scales: Array,
    lhs_zero_points: Array,
    rhs_scales: Array,
    rhs_zero_points: Array,
    output_scales: Array,
    output_zero_points: Array,
    **attrs: Any,
) -> Any:
    """Return the convolution of quantised images; the filter has scales by features made."""
    _require(
        attrs["lhs_quantization_axis"] == -1, "lhs_quantization_axis Attr must be -1 (per-tensor)."
    )
    require_positive(lhs_scales, rhs_scales, output_scales)
    of = _convolution(attrs, lhs.shape, rhs.shape)
    check_scalars(lhs_scales, lhs_zero_points, "lhs")
    _check_axis(attrs["rhs_quantization_axis"], of.filter.first, "rhs")
    check_steps(rhs.shape, rhs_scales, rhs_zero_points, attrs["rhs_quantization_axis"])
    _check_axis(attrs["output_quantization_axis"], of.result.features, "output")
    sizes = of.shape(lhs.shape, rhs.shape)
    check_steps(sizes, output_scales, output_zero_points, attrs["output_quantization_axis"])
    require_output_like(rhs_scales, output_scales)
    x = _spread(lhs.transpose(of.images.order), lhs_zero_points, of)
    sums = _sums(x, rhs, rhs_zero_points, of)
    ratio = lhs_scales.astype(np.float64) * rhs_scales / output_scales
    made = rescaled(
        sums,
        along(ratio, sums.ndim, 1 if ratio.ndim else -1),
        along(output_zero_points, sums.ndim, 1 if output_zero_points.ndim else -1),
        attrs["output_quantization_min_val"],
        attrs["output_quantization_max_val"],
    )
    return made.transpose(np.argsort(of.result.order))


def _convolved_floats(
    ctx: KernelContext,
    lhs: Array,
    rhs: Array,
    rhs_scales: Array,
    rhs_zero_points: Array,
    **attrs: Any,
) -> Any:
    """Return the convolution of images of floats, each quantised by itself."""
    require_positive(rhs_scales)
    of = _convolution(attrs, lhs.shape, rhs.shape)
    _check_axis(attrs["rhs_quantization_axis"], of.filter.first, "rhs")
    check_steps(rhs.shape, rhs_scales, rhs_zero_points, attrs["rhs_quantization_axis"])
    images = lhs.transpose(of.images.order)
    batches, made = images.shape[0], rhs.shape[of.filter.first]
    levels, scales, zeros = quantized_by_rows(
        images.reshape(batches, int(np.prod(images.shape[1:])))
    )
    x = _spread(levels.reshape(images.shape), zeros, of)
    sums = _sums(x, rhs, rhs_zero_points, of)
    # Each group of batches makes its own features.
    count = sums.shape[0]
    groups = np.arange(made) // max(made // of.batch_groups, 1)
    of_rows = scales[groups * count + np.arange(count)[:, None]].reshape(
        count, made, *[1] * len(of.sizes)
    )
    by = along(rhs_scales, sums.ndim, 1 if rhs_scales.ndim else -1)
    return (sums.astype(F) * of_rows * by).transpose(np.argsort(of.result.order))


op(
    f"""
    UniformQuantizedConvolution(lhs: Tin, rhs: Tin, lhs_scales: float, lhs_zero_points: int32, \
rhs_scales: float, rhs_zero_points: int32, output_scales: float, output_zero_points: int32) \
-> output: Tout
    Tin: type in {{qint8}}
    Tout: type in {{qint32}}
    {_ATTRS}
    {ranges_of("lhs", "rhs", "output")}
    """,
    shape=_shape,
)(
    with_attrs(
        _convolved,
        [
            *_OF_CONVOLUTION,
            "lhs_quantization_axis",
            "output_quantization_axis",
            "output_quantization_min_val",
            "output_quantization_max_val",
        ],
        first="ctx",
    )
)
op(
    f"""
    UniformQuantizedConvolutionHybrid(lhs: Tlhs, rhs: Trhs, rhs_scales: float, \
rhs_zero_points: int32) -> output: Tout
    Tlhs: type in {{float}}
    Trhs: type in {{qint8}}
    Tout: type in {{float}}
    {_ATTRS}
    {ranges_of("rhs")}
    """,
    shape=_shape,
)(with_attrs(_convolved_floats, _OF_CONVOLUTION, first="ctx"))
