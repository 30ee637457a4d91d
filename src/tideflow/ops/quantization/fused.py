"""Products and convolutions of levels, together with what follows them.

TensorFlow computes these with oneDNN alone.  Levels stand for themselves times a scale here, so
that zero is always level 0: a scale is the greater end of a range, without its sign, by the
greatest level.  The sums are brought to floats, a bias and a summand are added, what is negative
may become zero, and what is left becomes levels of a range that is given, or whole numbers by the
product of both scales.
Source: tensorflow/core/kernels/mkl/mkl_conv_ops.cc, mkl_qmatmul_op.cc and mkl_quantized_conv_ops.h.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op, with_attrs
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.ops.quantization.layers import image_shape
from tideflow.ops.quantization.levels import QUANTIZED, F, ends, require_scalars, scalar
from tideflow.ops.quantization.whole_numbers import (
    convolution_of_whole,
    dilated,
    product_of_whole,
    same_paddings,
)
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise errors.InvalidArgumentError(message)


# ---- what ops are made of


@dataclass(frozen=True, slots=True)
class _Fusion:
    """What follows the sums of an op, as its name says."""

    name: str

    @property
    def has_bias(self) -> bool:
        return "WithBias" in self.name

    @property
    def has_summand(self) -> bool:
        return "Sum" in self.name

    @property
    def has_relu(self) -> bool:
        return "Relu" in self.name

    @property
    def has_range(self) -> bool:
        """Whether the range of the result is given."""
        return self.name.endswith(("Requantize", "Dequantize"))

    @property
    def is_depthwise(self) -> bool:
        return "Depthwise" in self.name

    @property
    def bias_type(self) -> str:
        is_any = self.has_range or self.name == "QuantizedMatMulWithBias"
        return "Tbias" if is_any else "float"

    def inputs(self, first: str, second: str, operands: tuple[str, str]) -> list[str]:
        """Return the inputs with their types, where operands have the types `operands`."""
        found = [f"{first}: {operands[0]}", f"{second}: {operands[1]}"]
        if self.has_bias:
            found.append(f"bias: {self.bias_type}")
        found += [f"{end}_{one}: float" for one in (first, second) for end in ("min", "max")]
        if self.has_range:
            found += ["min_freezed_output: float", "max_freezed_output: float"]
        if self.has_summand and self.has_range:
            found += ["summand: Tsummand", "min_summand: float", "max_summand: float"]
        elif self.has_summand:
            found.append("summand: float")
        return found


_Given = dict[str, Any]
# A kernel by the names of inputs and by attrs.
_Kernel = Callable[[_Given, Mapping[str, Any]], Any]


def _declare(
    fusion: _Fusion, inputs: list[str], outputs: str, attrs: list[str], kernel: _Kernel, shape: Any
) -> None:
    names = [one.split(":")[0] for one in inputs]

    def run(ctx: KernelContext, *given: Any, **values: Any) -> Any:
        return kernel(dict(zip(names, given)), values)

    taken = [line.split(":")[0].strip() for line in attrs]
    signature = "\n".join([f"{fusion.name}({', '.join(inputs)}) -> {outputs}", *attrs])
    op(signature, shape=shape)(with_attrs(run, taken, first="ctx"))


def _types(fusion: _Fusion) -> list[str]:
    """Return the attrs for the types of bias and summand."""
    found = []
    if fusion.has_bias and fusion.bias_type == "Tbias":
        found.append("Tbias: type in {float, qint32}")
    if fusion.has_summand and fusion.has_range:
        found.append(f"Tsummand: type in {QUANTIZED}")
    return found


# ---- scales


def _wide(low: Any, high: Any) -> Any:
    return np.maximum(np.abs(low), np.abs(high))


def _of_levels(wide: Any, dtype: DType) -> Any:
    """Return the scale of levels of 8 bits whose range ends at `wide`.

    Raises: InvalidArgumentError for levels of other types.
    """
    _require(
        dtype.name in ("quint8", "qint8"), f"no kernel for levels of {dtype.name}, but of 8 bits"
    )
    return F(wide / float(ends(dtype)[1]))


def _range_of_whole(first: tuple[Any, Any, DType], second: tuple[Any, Any, DType]) -> Any:
    """Return the range of qint32 for products of levels; levels are as many on either side of 0."""
    step: Any = F(1)
    for low, high, dtype in (first, second):
        least, most = ends(dtype)
        step = step * (F(high - low) / F(most - max(least, -most)))
    least, most = ends(dtypes.qint32)
    return F(step * F(least)), F(step * F(most))


def _require_filter(dtype: DType) -> None:
    _require(dtype is dtypes.qint8, f"no kernel for a second operand of {dtype.name}, but of qint8")


# ---- what follows the sums


def _finished(
    sums: Any, scales: Any, bias: Any, summand: Any, fusion: _Fusion, to: Any, dtype: DType
) -> Any:
    """Return sums as levels, or as floats.

    Args:
      sums: int32, channels last; scales: what one of them stands for, of all or by channels.
      bias, summand: floats to add; to: what one level of the result stands for.
    """
    made = sums * np.float64(scales) + bias + summand
    if fusion.has_relu:
        made = np.maximum(made, 0)
    if dtype is dtypes.float32:
        return made.astype(F)
    with np.errstate(all="ignore"):
        levels = np.nan_to_num(np.rint(made / np.float64(to)))
    return np.clip(levels, *ends(dtype)).astype(dtype.as_numpy_dtype)


def _given_range(given: _Given) -> tuple[Any, Any]:
    names = "min_freezed_output", "max_freezed_output"
    return scalar(given[names[0]], names[0]), scalar(given[names[1]], names[1])


def _check_bias(given: _Given, made: int) -> None:
    if "bias" in given:
        sizes = given["bias"].shape
        _require(sizes == (made,), f"bias must be [{made}]; its shape is {list(sizes)}")


def _floats_of(bias: Any, scale: Any) -> Any:
    """Return a bias as floats: one of whole numbers is by the scales of both operands."""
    return bias if bias.dtype == F else F(bias) / F(scale)


# ---- convolutions


def _conv_shape(fusion: _Fusion) -> Callable[[ShapeContext], list[Dims]]:
    like = "DepthwiseConv2dNative" if fusion.is_depthwise else "Conv2D"
    inputs = [one.split(":")[0] for one in fusion.inputs("input", "filter", ("", ""))]
    ends_of_all = [name for name in inputs if name.endswith(("_input", "_output"))]

    def rule(c: ShapeContext) -> list[Dims]:
        explicit = c.attrs.get("padding_list")
        more = {"padding": "EXPLICIT", "explicit_paddings": explicit} if explicit else {}
        found = image_shape(c, like, **more)
        require_scalars(c, *ends_of_all)
        if fusion.has_bias:
            with_rank(c.shape("bias"), 1, "bias")
        of_filter = [c.shape("min_filter"), c.shape("max_filter")]
        for dims in of_filter:
            if dims is not None and len(dims) > 1:
                raise ValueError(
                    f"ranges of filters must have rank 1 at most; found {shapes.format_dims(dims)}"
                )
        return [found, (), ()] if fusion.has_range else [found, *of_filter]

    return rule


def _window(value: list[int], what: str) -> list[int]:
    fits = len(value) == 4 and value[0] == value[3] == 1 and min(value) > 0
    _require(fits, f"{what} must be four, and 1 over batch and depth; found {value}")
    return value[1:3]


def _convolved(x: Any, w: Any, attrs: Mapping[str, Any]) -> Any:
    """Return a convolution, [batch, rows, columns, made].

    Args:
      x: int32 [batch, rows, columns, depth]; w: int32 [made, features, rows, columns].
    """
    strides = _window(attrs["strides"], "strides")
    dilations = _window(attrs["dilations"], "dilations")
    space = x.shape[1:3]
    reach = [dilated(size, by) for size, by in zip(w.shape[2:], dilations)]
    explicit = attrs.get("padding_list")
    paddings = [(0, 0)] * 2
    if explicit:
        fits = len(explicit) == 8 and min(explicit) >= 0 and not any(explicit[:2] + explicit[6:])
        _require(fits, f"padding_list must hold eight, 0 over batch and depth; found {explicit}")
        paddings = [(explicit[2], explicit[3]), (explicit[4], explicit[5])]
    elif attrs["padding"] == "SAME":
        paddings = same_paddings(space, reach, strides)
    sizes = [
        (size + sum(both) - taps + stride) // stride
        for size, both, taps, stride in zip(space, paddings, reach, strides)
    ]
    _require(min(sizes) >= 0, f"the filter is larger than the images, {list(x.shape)}")
    wide = np.pad(x, [(0, 0), *paddings, (0, 0)]).transpose(0, 3, 1, 2)
    groups = x.shape[3] // w.shape[1] if w.shape[1] else 1
    sums = convolution_of_whole(wide, w, sizes, strides, dilations, groups)
    return sums.transpose(0, 2, 3, 1)


def _ordered(x: Any, w: Any, fusion: _Fusion) -> Any:
    """Return a filter as [made, features, rows, columns], int32.  Raises: InvalidArgumentError."""
    for what, one in (("input", x), ("filter", w)):
        _require(one.ndim == 4, f"{what} must be 4-dimensional: {list(one.shape)}")
    depth, taken = x.shape[3], w.shape[2]
    fits = taken == depth if fusion.is_depthwise else taken > 0 and depth % taken == 0
    _require(fits, f"input depth must be evenly divisible by filter depth: {depth} vs {taken}")
    if fusion.is_depthwise:
        w = w.transpose(2, 3, 0, 1).reshape(-1, 1, *w.shape[:2])
    else:
        w = w.transpose(3, 2, 0, 1)
        groups = depth // taken
        _require(w.shape[0] % groups == 0, f"{w.shape[0]} filters for {groups} groups of depth")
    return w.astype(np.int32)


def _summand(given: _Given, attrs: Mapping[str, Any], sizes: tuple[int, ...]) -> Any:
    """Return what is added to each sum, floats."""
    if "summand" not in given:
        return 0.0
    x = given["summand"]
    _require(x.shape == sizes, f"summand must be {list(sizes)}; its shape is {list(x.shape)}")
    if "min_summand" not in given:
        return np.float64(x)
    ends_of_it = (scalar(given[name], name) for name in ("min_summand", "max_summand"))
    scale = _of_levels(_wide(*ends_of_it), attrs["Tsummand"])
    return x * np.float64(scale)


def _convolution_kernel(fusion: _Fusion) -> _Kernel:
    def kernel(given: _Given, attrs: Mapping[str, Any]) -> Any:
        source, out = attrs["Tinput"], attrs["out_type"]
        _require_filter(attrs["Tfilter"])
        w = _ordered(given["input"], given["filter"], fusion)
        low, high = (scalar(given[name], name) for name in ("min_input", "max_input"))
        lows, highs = given["min_filter"], given["max_filter"]
        made = w.shape[0]
        _require(
            lows.shape == highs.shape and lows.ndim < 2 and lows.size in (1, made),
            f"min_filter and max_filter must be scalars, or both [{made}]; found "
            f"{list(lows.shape)} and {list(highs.shape)}",
        )
        _check_bias(given, made)
        x = _convolved(given["input"].astype(np.int32), w, attrs)
        of_input = _of_levels(_wide(low, high), source)
        of_filter = F(_wide(lows, highs) / 127.0)
        scales = of_input * of_filter
        bias = _floats_of(given["bias"], 1 / scales) if fusion.has_bias else 0.0
        if fusion.has_range:
            found = _given_range(given)
            to = _of_levels(_wide(*found), out)
        else:
            _require(out is dtypes.qint32, f"no kernel that gives {out.name}, but qint32")
            found = _range_of_whole((low, high, source), (lows, highs, dtypes.qint8))
            to = of_input * F(_wide(lows.min(), highs.max()) / 127.0)
        summand = _summand(given, attrs, x.shape)
        made = _finished(x, scales, bias, summand, fusion, to, out)
        if attrs.get("Tsummand") is dtypes.qint8:
            # oneDNN writes the result in the place of the summand, and in its type.
            made = np.minimum(made, made.dtype.type(ends(dtypes.qint8)[1]))
        return made, *found

    return kernel


def _declare_convolution(name: str, has_padding_list: bool = True) -> None:
    fusion = _Fusion(name)
    out = "qint32"
    if fusion.has_range:
        out = "quint8" if fusion.has_relu else "qint8"
    attrs = [
        f"Tinput: type in {QUANTIZED}",
        f"Tfilter: type in {QUANTIZED}",
        *_types(fusion),
        f"out_type: type in {QUANTIZED} = {out}",
        "strides: list(int)",
        "padding: string in {SAME, VALID}",
        "dilations: list(int) = [1, 1, 1, 1]",
        *["padding_list: list(int) = []"] * has_padding_list,
    ]
    outputs = "output: out_type, min_output: float, max_output: float"
    inputs = fusion.inputs("input", "filter", ("Tinput", "Tfilter"))
    _declare(fusion, inputs, outputs, attrs, _convolution_kernel(fusion), _conv_shape(fusion))


for _what in (
    "Conv2DAndRelu",
    "Conv2DAndReluAndRequantize",
    "Conv2DAndRequantize",
    "Conv2DWithBias",
    "Conv2DWithBiasAndRelu",
    "Conv2DWithBiasAndReluAndRequantize",
    "Conv2DWithBiasAndRequantize",
    "Conv2DWithBiasSignedSumAndReluAndRequantize",
    "Conv2DWithBiasSumAndRelu",
    "Conv2DWithBiasSumAndReluAndRequantize",
    "DepthwiseConv2DWithBiasAndRelu",
    "DepthwiseConv2DWithBiasAndReluAndRequantize",
):
    _declare_convolution(f"Quantized{_what}")
for _what in ("Conv2DPerChannel", "DepthwiseConv2D", "DepthwiseConv2DWithBias"):
    _declare_convolution(f"Quantized{_what}", has_padding_list=False)


# ---- products of matrices


def _matmul_shape(fusion: _Fusion) -> Callable[[ShapeContext], list[Dims]]:
    ranges = ["min_a", "max_a", "min_b", "max_b"]
    if fusion.has_range:
        ranges += ["min_freezed_output", "max_freezed_output"]

    def rule(c: ShapeContext) -> list[Dims]:
        a, b = with_rank(c.inputs[0], 2, "a"), with_rank(c.inputs[1], 2, "b")
        a = a[::-1] if c.attrs["transpose_a"] else a
        b = b[::-1] if c.attrs["transpose_b"] else b
        shapes.merge(a[1:], b[:1])
        with_rank(c.inputs[2], 1, "bias")
        require_scalars(c, *ranges)
        return [(a[0], b[1]), *[()] * (len(c.node.output_types) - 1)]

    return rule


def _bias_of_product(bias: Any, w: Any, low: Any, high: Any, wide: Any, has_lowest: bool) -> Any:
    """Return the bias of a product as floats.

    Where levels begin at the lower end of their range (`has_lowest`), TensorFlow's kernel makes up
    for that in a bias of floats, though by levels, not by what they stand for; in one of whole
    numbers it is taken to be made up for.
    """
    span = high - low if has_lowest else high
    if bias.dtype != F:
        return _floats_of(bias, 255.0 * 127.0 / (span * wide))
    if not has_lowest:
        return bias
    return bias + F(w.sum(axis=0)) * F(255 * low / span)


def _matmul_kernel(fusion: _Fusion) -> _Kernel:
    # Only this one is given the mode: TensorFlow's rewriting for oneDNN leaves it out of others.
    knows_mode = fusion.name.endswith("Dequantize")

    def kernel(given: _Given, attrs: Mapping[str, Any]) -> Any:
        out = attrs["Toutput"]
        _require(attrs["T1"] is dtypes.quint8, f"no kernel for {attrs['T1'].name}, but for quint8")
        _require_filter(attrs["T2"])
        for what in ("a", "b"):
            sizes = given[what].shape
            _require(len(sizes) == 2, f"{what} must be a matrix; it is {list(sizes)}")
        # TensorFlow's kernel takes no notice of these attrs, though shapes do there.
        a = given["a"].T if attrs["transpose_a"] else given["a"]
        b = given["b"].T if attrs["transpose_b"] else given["b"]
        fits = a.shape[1] == b.shape[0]
        _require(fits, f"matrices do not fit each other: {list(a.shape)}, {list(b.shape)}")
        _check_bias(given, b.shape[1])
        low, high, of_b_low, of_b_high = (
            scalar(given[name], name) for name in ("min_a", "max_a", "min_b", "max_b")
        )
        has_lowest = not (knows_mode and attrs["input_quant_mode"] == "SCALED")
        wide = _wide(of_b_low, of_b_high)
        of_a = F((high - low if has_lowest else _wide(low, high)) / 255.0)
        scales = of_a * F(wide / 127.0)
        w = b.astype(np.int32)
        with np.errstate(all="ignore"):
            bias = _bias_of_product(given["bias"], w, low, high, wide, has_lowest)
        found = _range_of_whole((low, high, dtypes.quint8), (of_b_low, of_b_high, dtypes.qint8))
        to = scales
        if fusion.has_range:
            found = _given_range(given)
            to = scales if knows_mode else _of_levels(_wide(*found), out)
        made = _finished(
            product_of_whole(a.astype(np.int32), w), scales, bias, 0.0, fusion, to, out
        )
        return made if knows_mode else (made, *found)

    return kernel


def _declare_matmul(name: str, out: str) -> None:
    fusion = _Fusion(name)
    gives_floats = out == "float"
    attrs = [
        f"T1: type in {QUANTIZED}",
        f"T2: type in {QUANTIZED}",
        *_types(fusion),
        "Toutput: type in {float}" if gives_floats else f"Toutput: type in {QUANTIZED} = {out}",
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        'input_quant_mode: string in {MIN_FIRST, SCALED} = "MIN_FIRST"',
    ]
    outputs = "out: Toutput" + ("" if gives_floats else ", min_out: float, max_out: float")
    inputs = fusion.inputs("a", "b", ("T1", "T2"))
    _declare(fusion, inputs, outputs, attrs, _matmul_kernel(fusion), _matmul_shape(fusion))


_declare_matmul("QuantizedMatMulWithBias", "qint32")
_declare_matmul("QuantizedMatMulWithBiasAndRelu", "qint32")
_declare_matmul("QuantizedMatMulWithBiasAndRequantize", "quint8")
_declare_matmul("QuantizedMatMulWithBiasAndReluAndRequantize", "quint8")
_declare_matmul("QuantizedMatMulWithBiasAndDequantize", "float")
