"""Fused ops, which no user writes: TensorFlow's masters put them into the graphs they send.

After the first op come those that the attr `fused_ops` lists, in order: BiasAdd, FusedBatchNorm
(with fixed moments), Mul or Add, then at most one activation.
Source: tensorflow/core/grappler/optimizers/remapper.cc, tensorflow/core/kernels/fused_eigen_output_kernels.h.
"""  # noqa: E501 - a path

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from tideflow.graph.op_def import OpDef, get_op_def, is_registered, op, with_attrs
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, same_as, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.nn.activations import wide
from tideflow.ops.nn.batch_norm import fused_batch_norm_kernel, fused_batch_norm_shape
from tideflow.ops.nn.convolutions import conv2d_kernel, conv2d_shape
from tideflow.ops.nn.depthwise import depthwise_kernel, depthwise_shape
from tideflow.ops.nn.volumes import conv3d_kernel, conv3d_shape
from tideflow.wire import errors


def _kernel(op_name: str) -> Any:
    return get_op_def(op_name).kernel


def _gelu(xp: ArrayNamespace, x: Array, approximate: bool) -> Any:
    y = wide(xp, x)
    if approximate:
        cubic = y + y * y * y * y.dtype.type(0.044715)
        bent = xp.tanh(cubic * y.dtype.type(math.sqrt(2 / math.pi)))
    else:
        bent = _kernel("Erf")(xp, y * y.dtype.type(math.sqrt(0.5)))
    return (y * y.dtype.type(0.5) * (bent + y.dtype.type(1))).astype(x.dtype)


def _activated(xp: ArrayNamespace, name: str, x: Array, leakyrelu_alpha: float) -> Any:
    """Apply one activation by its name in fused_ops.  Raises: UnimplementedError."""
    if name in ("Relu", "Relu6", "Elu", "Tanh", "Sigmoid"):
        return _kernel(name)(xp, x)
    if name == "LeakyRelu":
        return _kernel(name)(xp, x, alpha=leakyrelu_alpha)
    if name in ("GeluApproximate", "GeluExact"):
        return _gelu(xp, x, name == "GeluApproximate")
    raise errors.UnimplementedError(f"no fusion with {name!r}")


def finished(
    xp: ArrayNamespace,
    x: Array,
    args: list[Any],
    fused_ops: list[str],
    data_format: str,
    epsilon: float = 0.0,
    leakyrelu_alpha: float = 0.0,
) -> Any:
    """Apply the fused ops to a product or convolution; args are their further inputs."""
    if not fused_ops:
        raise errors.InvalidArgumentError("fused_ops is empty; it must name at least one op")
    left = list(args)
    for name in fused_ops:
        wanted = {"BiasAdd": 1, "Mul": 1, "Add": 1, "FusedBatchNorm": 4}.get(name, 0)
        if len(left) < wanted:
            raise errors.InvalidArgumentError(
                f"fused_ops {fused_ops} need more inputs than the {len(args)} given"
            )
        own, left = left[:wanted], left[wanted:]
        if name == "BiasAdd":
            x = _kernel("BiasAdd")(xp, x, own[0].reshape(-1), data_format=data_format)
        elif name == "Mul":
            x = xp.multiply(x, own[0])
        elif name == "Add":
            x = xp.add(x, own[0])
        elif name == "FusedBatchNorm":
            x = _normalized(xp, x, own, data_format, epsilon)
        else:
            x = _activated(xp, name, x, leakyrelu_alpha)
    return x


def _normalized(
    xp: ArrayNamespace, x: Array, own: list[Any], data_format: str, epsilon: float
) -> Any:
    scale, offset, mean, variance = own
    factor = scale / xp.sqrt(variance + variance.dtype.type(epsilon))
    shape = (1, -1, *[1] * (x.ndim - 2)) if data_format.startswith("NC") else (-1,)
    shift = offset - mean * factor
    return x * factor.reshape(shape) + shift.reshape(shape)


# What the attrs of a fused op end with.
FUSION = """
    fused_ops: list(string) = []
    epsilon: float = 9.999999747378752e-05
    leakyrelu_alpha: float = 0.20000000298023224
"""


def fused(first: Callable[..., Any], *attr_names: str) -> Callable[..., Any]:
    """Return the kernel of an op that begins with `first`, whose attrs it takes, too."""

    def kernel(
        xp: ArrayNamespace,
        a: Array,
        b: Array,
        args: list[Any],
        *_host_args: Any,
        fused_ops: list[str],
        epsilon: float,
        leakyrelu_alpha: float,
        **attrs: Any,
    ) -> Any:
        found = first(xp, a, b, **attrs)
        # A bias goes to the channels, wherever they are.
        layout = "NCHW" if attrs.get("data_format", "").startswith("NC") else "NHWC"
        return finished(xp, found, args, fused_ops, layout, epsilon, leakyrelu_alpha)

    return with_attrs(kernel, [*attr_names, "fused_ops", "epsilon", "leakyrelu_alpha"])


def _matmul_shape(c: ShapeContext) -> list[Dims]:
    a, b = with_rank(c.inputs[0], 2, "a"), with_rank(c.inputs[1], 2, "b")
    rows = a[1] if c.attrs["transpose_a"] else a[0]
    return [(rows, b[0] if c.attrs["transpose_b"] else b[1])]


def _product(xp: ArrayNamespace, a: Array, b: Array, **attrs: Any) -> Any:
    return _kernel("MatMul")(xp, a, b, **attrs)


def _convolution(
    xp: ArrayNamespace, x: Array, filter: Array, *, filter_format: str, **attrs: Any
) -> Any:
    if filter_format != "HWIO":
        raise errors.UnimplementedError(f"filters must be HWIO; filter_format is {filter_format}")
    return conv2d_kernel(xp, x, filter, **attrs)


_CONVOLUTION = ("strides", "padding", "data_format", "dilations")

op(
    """
    _FusedMatMul(a: T, b: T, args: num_args * T) -> product: T
    transpose_a: bool = false
    transpose_b: bool = false
    T: type in {bfloat16, half, float}
    num_args: int >= 0
    """
    + FUSION,
    shape=_matmul_shape,
    compiles=Compiles.ALWAYS,
)(fused(_product, "transpose_a", "transpose_b"))

op(
    """
    _FusedConv2D(input: T, filter: T, args: *TArgs, host_args: num_host_args * float) -> output: T
    T: type in {half, float, double, int8, qint8}
    TArgs: list(type) >= 1
    num_args: int >= 0
    num_host_args: int >= 0 = 0
    strides: list(int)
    padding: string in {SAME, VALID, EXPLICIT}
    explicit_paddings: list(int) = []
    data_format: string in {NHWC, NCHW, NCHW_VECT_C} = 'NHWC'
    filter_format: string in {HWIO, OIHW, OIHW_VECT_I} = 'HWIO'
    dilations: list(int) = [1, 1, 1, 1]
    use_cudnn_on_gpu: bool = true
    """
    + FUSION,
    shape=conv2d_shape,
    compiles=Compiles.ALWAYS,
)(fused(_convolution, *_CONVOLUTION, "explicit_paddings", "filter_format"))

op(
    """
    _FusedConv3D(input: T, filter: T, args: num_args * T) -> output: T
    T: type in {bfloat16, float, half}
    num_args: int >= 0
    strides: list(int) >= 5
    padding: string in {SAME, VALID}
    data_format: string in {NDHWC, NCDHW} = 'NDHWC'
    dilations: list(int) = [1, 1, 1, 1, 1]
    padding_list: list(int) = []
    """
    + FUSION,
    shape=conv3d_shape,
)(fused(conv3d_kernel, *_CONVOLUTION))

op(
    """
    _FusedDepthwiseConv2dNative(input: T, filter: T, args: num_args * T) -> output: T
    T: type in floats
    num_args: int >= 0
    strides: list(int)
    padding: string in {SAME, VALID}
    data_format: string in {NHWC, NCHW} = 'NHWC'
    dilations: list(int) = [1, 1, 1, 1]
    """
    + FUSION,
    shape=depthwise_shape,
)(fused(functools.partial(depthwise_kernel, explicit_paddings=[]), *_CONVOLUTION))


@op(
    """
    _FusedBatchNormEx(
      x: T, scale: U, offset: U, mean: U, variance: U, side_input: num_side_inputs * T)
      -> y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U
    T: type in {half, float, bfloat16}
    U: type in {float}
    epsilon: float = 9.999999747378752e-05
    exponential_avg_factor: float = 1.0
    num_side_inputs: int >= 0 = 0
    activation_mode: string = 'Identity'
    data_format: string in {NHWC, NCHW} = 'NHWC'
    is_training: bool = true
    """,  # noqa: E501 - one list of outputs
    shape=fused_batch_norm_shape,
)
def fused_batch_norm_ex_kernel(
    xp: ArrayNamespace,
    x: Array,
    scale: Array,
    offset: Array,
    mean: Array,
    variance: Array,
    side_input: list[Any],
    *,
    epsilon: float,
    exponential_avg_factor: float,
    activation_mode: str,
    data_format: str,
    is_training: bool,
) -> Any:
    y, *rest = fused_batch_norm_kernel(
        xp,
        x,
        scale,
        offset,
        mean,
        variance,
        epsilon=epsilon,
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format,
        is_training=is_training,
    )
    for side in side_input:
        y = xp.add(y, side)
    if activation_mode != "Identity":
        y = _activated(xp, activation_mode, y, 0.0)
    return (y, *rest)


@op(
    """
    _UnaryOpsComposition(x: T) -> y: T
    T: type in {half, float, double}
    op_names: list(string)
    """,
    shape=same_as(),
)
def unary_ops_composition_kernel(xp: ArrayNamespace, x: Array, *, op_names: list[str]) -> Any:
    if not op_names:
        raise errors.InvalidArgumentError("op_names is empty; it must name at least one op")
    for name in op_names:
        definition = get_op_def(name) if is_registered(name) else None
        if definition is None or not definition.is_pure or len(definition.inputs) != 1:
            raise errors.InvalidArgumentError(f"{name} is no elementwise op of one input")
        x = _with_defaults(definition)(xp, x)
    return x


def _with_defaults(definition: OpDef) -> Any:
    """Return a kernel with its attrs at their defaults, which is how ops are composed."""
    attrs = {name: definition.attrs[name].default for name in definition.kernel_attrs}
    return functools.partial(_kernel(definition.name), **attrs)
