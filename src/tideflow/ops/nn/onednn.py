"""The names under which TensorFlow asks for oneDNN kernels.

TensorFlow rewrites the graphs that it sends so that ops it would run with oneDNN have names of
their own.  Here they are the same ops as without; a workspace, which oneDNN keeps from MaxPool
for its gradient, stays empty.
Source: tensorflow/core/common_runtime/mkl_layout_pass.cc, tensorflow/core/ops/mkl_nn_ops.cc.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.op_def import declare_like, op
from tideflow.graph.op_traits import Compiles, Traits
from tideflow.graph.shape_rules import ShapeContext, same_as, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.array import transposing as array_transpose
from tideflow.ops.linalg import einsum
from tideflow.ops.linalg import products as matmul
from tideflow.ops.nn import (
    batch_norm as nn_batch_norm,
)
from tideflow.ops.nn import (
    depthwise as conv_depthwise,
)
from tideflow.ops.nn import (
    fused as nn_fused,
)
from tideflow.ops.nn import (
    softmax_ops as softmax,
)
from tideflow.ops.nn import (
    volumes,
)
from tideflow.ops.nn.activations import wide
from tideflow.ops.nn.bias import bias_add_grad_kernel
from tideflow.ops.nn.convolutions import conv2d_backprop_filter_kernel
from tideflow.ops.nn.pool_windows import pool_shape
from tideflow.ops.nn.pools import max_pool_grad_kernel, max_pool_kernel
from tideflow.ops.nn.volume_pools import (
    avg_pool3d_kernel,
    max_pool3d_grad_kernel,
    max_pool3d_kernel,
    pool3d_shape,
)

# The families whose ops get further names; named here because they must be declared before.
_FAMILIES = (
    array_transpose,
    conv_depthwise,
    einsum,
    matmul,
    nn_batch_norm,
    nn_fused,
    softmax,
    volumes,
)

_CONSTANT_FILTER = "is_filter_const: bool = false"
# TensorFlow asks for them on CPUs, for kernels that it would not compile.
_ON_CPUS: Traits = {"compiles": Compiles.NEVER}

for _base in ("MatMul", "BatchMatMul", "BatchMatMulV2", "Transpose", "Einsum"):
    declare_like(f"_Mkl{_base}", _base, **_ON_CPUS)

# TensorFlow leaves out attrs that are the default, so a default more than the plain op has counts.
declare_like("_MklSoftmax", "Softmax", "T: type in floats = float", without=("T",), **_ON_CPUS)

for _base in (
    "AvgPool",
    "AvgPool3DGrad",
    "AvgPoolGrad",
    "Conv2DBackpropFilter",
    "Conv2DBackpropInput",
    "Conv3DBackpropFilterV2",
    "Conv3DBackpropInputV2",
    "DepthwiseConv2dNativeBackpropFilter",
    "DepthwiseConv2dNativeBackpropInput",
    "FusedBatchNormGradV3",
    "FusedBatchNormV3",
):
    declare_like(f"_MklNative{_base}", _base, **_ON_CPUS)

for _base in ("Conv2D", "Conv3D", "DepthwiseConv2dNative"):
    declare_like(f"_MklNative{_base}", _base, _CONSTANT_FILTER, **_ON_CPUS)

for _base in ("FusedMatMul", "FusedConv3D", "FusedDepthwiseConv2dNative"):
    declare_like(f"_MklNative{_base}", f"_{_base}", _CONSTANT_FILTER, **_ON_CPUS)

# The only one of these that takes a type which the plain op does not.
declare_like(
    "_MklNativeFusedConv2D",
    "_FusedConv2D",
    "T: type in {bfloat16, half, float}",
    _CONSTANT_FILTER,
    without=("T",),
    **_ON_CPUS,
)

declare_like("_MklNativeFusedBatchNormEx", "_FusedBatchNormEx", **_ON_CPUS)


@op(
    """
    _MklSwish(features: T) -> activations: T
    T: type in {float, bfloat16, half} = float
    """,
    shape=same_as(),
    **_ON_CPUS,
)
def swish_kernel(xp: ArrayNamespace, features: Array) -> Any:
    x = wide(xp, features)
    return (x / (1 + xp.exp(-x))).astype(features.dtype)


# As AvgPool3D, but for the name of its input.
op(
    """
    _MklNativeAvgPool3D(value: T) -> output: T
    ksize: list(int) >= 5
    strides: list(int) >= 5
    padding: string in {SAME, VALID}
    data_format: string in {NDHWC, NCDHW} = 'NDHWC'
    T: type in floats
    """,
    shape=pool3d_shape,
    **_ON_CPUS,
)(avg_pool3d_kernel)


def _with_workspace(c: ShapeContext) -> list[Dims]:
    return [*pool_shape(c), None]


@op(
    """
    _MklNativeMaxPool(input: T) -> output: T, workspace: uint8
    T: type in {float, half, bfloat16} = float
    ksize: list(int) >= 4
    strides: list(int) >= 4
    padding: string in {SAME, VALID, EXPLICIT}
    data_format: string in {NHWC, NCHW} = 'NHWC'
    explicit_paddings: list(int) = []
    workspace_enabled: bool = false
    """,
    shape=_with_workspace,
    **_ON_CPUS,
)
def max_pool_native_kernel(
    xp: ArrayNamespace,
    input: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
    data_format: str,
    explicit_paddings: list[int],
) -> Any:
    found = max_pool_kernel(
        xp,
        input,
        ksize=ksize,
        strides=strides,
        padding=padding,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
    )
    return found, xp.zeros((0,), xp.uint8)


@op(
    """
    _MklNativeMaxPoolGrad(orig_input: T, orig_output: T, grad: T, workspace: uint8) -> output: T
    T: type in {float, half, bfloat16} = float
    ksize: list(int) >= 4
    strides: list(int) >= 4
    workspace_enabled: bool = false
    padding: string in {SAME, VALID, EXPLICIT}
    data_format: string in {NHWC, NCHW} = 'NHWC'
    explicit_paddings: list(int) = []
    """,
    shape=lambda c: [with_rank(c.inputs[0], 4, "orig_input")],
    **_ON_CPUS,
)
def max_pool_grad_native_kernel(
    xp: ArrayNamespace,
    orig_input: Array,
    orig_output: Array,
    grad: Array,
    workspace: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: str,
    data_format: str,
    explicit_paddings: list[int],
) -> Any:
    return max_pool_grad_kernel(
        xp,
        orig_input,
        orig_output,
        grad,
        ksize=ksize,
        strides=strides,
        padding=padding,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
    )


@op(
    """
    _MklNativeMaxPool3D(input: T) -> output: T, workspace: uint8
    ksize: list(int) >= 5
    strides: list(int) >= 5
    padding: string in {SAME, VALID}
    data_format: string in {NDHWC, NCDHW} = 'NDHWC'
    T: type in {half, bfloat16, float}
    workspace_enabled: bool = false
    """,
    shape=lambda c: [*pool3d_shape(c), None],
    **_ON_CPUS,
)
def max_pool3d_native_kernel(
    xp: ArrayNamespace,
    input: Array,
    *,
    ksize: Array,
    strides: Array,
    padding: str,
    data_format: str,
) -> Any:
    found = max_pool3d_kernel(
        xp, input, ksize=ksize, strides=strides, padding=padding, data_format=data_format
    )
    return found, xp.zeros((0,), xp.uint8)


@op(
    """
    _MklNativeMaxPool3DGrad(orig_input: TInput, orig_output: TInput, grad: T, workspace: uint8)
      -> output: T
    ksize: list(int) >= 5
    strides: list(int) >= 5
    padding: string in {SAME, VALID}
    data_format: string in {NDHWC, NCDHW} = 'NDHWC'
    T: type in {half, bfloat16, float} = float
    TInput: type in {half, bfloat16, float} = float
    workspace_enabled: bool = false
    """,
    shape=lambda c: [with_rank(c.inputs[0], 5, "orig_input")],
    **_ON_CPUS,
)
def max_pool3d_grad_native_kernel(
    xp: ArrayNamespace,
    orig_input: Array,
    orig_output: Array,
    grad: Array,
    workspace: Array,
    *,
    ksize: Array,
    strides: Array,
    padding: str,
    data_format: str,
) -> Any:
    return max_pool3d_grad_kernel(
        xp,
        orig_input,
        orig_output,
        grad,
        ksize=ksize,
        strides=strides,
        padding=padding,
        data_format=data_format,
    )


def _filter_and_bias(c: ShapeContext) -> list[Dims]:
    sizes = with_rank(c.value_as_shape(1), 4, "filter_sizes")
    return [sizes, (sizes[3],)]


@op(
    """
    _MklNativeConv2DBackpropFilterWithBias(input: T, filter_sizes: int32, out_backprop: T)
      -> output: T, bias_grad: T
    T: type in {bfloat16, float, half}
    strides: list(int)
    use_cudnn_on_gpu: bool = true
    padding: string in {SAME, VALID}
    data_format: string in {NHWC, NCHW} = 'NHWC'
    dilations: list(int) = [1, 1, 1, 1]
    """,
    shape=_filter_and_bias,
    static=("filter_sizes",),
    **_ON_CPUS,
)
def conv2d_backprop_filter_with_bias_kernel(
    xp: ArrayNamespace,
    input: Array,
    filter_sizes: Array,
    out_backprop: Array,
    *,
    strides: list[int],
    padding: str,
    data_format: str,
    dilations: list[int],
) -> Any:
    for_filter = conv2d_backprop_filter_kernel(
        xp,
        input,
        filter_sizes,
        out_backprop,
        strides=strides,
        padding=padding,
        explicit_paddings=[],
        data_format=data_format,
        dilations=dilations,
    )
    return for_filter, bias_add_grad_kernel(xp, out_backprop, data_format=data_format)
