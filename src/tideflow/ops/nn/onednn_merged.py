"""Several ops as one, which TensorFlow's rewriting makes for oneDNN alone.

Source: tensorflow/core/common_runtime/mkl_layout_pass.cc, tensorflow/core/ops/mkl_nn_ops.cc,
tensorflow/core/grappler/optimizers/remapper.cc.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.op_def import get_op_def, op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import same_as
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.array.padding import pad_kernel
from tideflow.ops.linalg.products import batch_matmul_v2_kernel
from tideflow.ops.nn.activations import wide
from tideflow.ops.nn.convolutions import conv2d_kernel, conv2d_shape
from tideflow.ops.nn.fused import FUSION, finished, fused
from tideflow.wire.dtypes import DType

# A product, scaled by one tensor, with another one added.
op(
    """
    _MklFusedBatchMatMulV2(x: T, y: T, args: num_args * T) -> output: T
    T: type in {bfloat16, float, half}
    adj_x: bool = false
    adj_y: bool = false
    num_args: int >= 0
    """
    + FUSION,
    compiles=Compiles.NEVER,
)(fused(batch_matmul_v2_kernel, "adj_x", "adj_y"))


@op(
    """
    _MklFusedMish(features: T) -> activations: T
    T: type in {bfloat16, float, half}
    """,
    shape=same_as(),
    compiles=Compiles.NEVER,
)
def mish_kernel(xp: ArrayNamespace, features: Array) -> Any:
    x = wide(xp, features)
    softplus = get_op_def("Softplus").kernel
    assert softplus is not None
    return (x * xp.tanh(softplus(xp, x))).astype(features.dtype)


@op(
    """
    _MklNativeConv2DWithBias(input: T, filter: T, bias: T) -> output: T
    T: type in {bfloat16, float, half}
    strides: list(int)
    use_cudnn_on_gpu: bool = true
    is_filter_const: bool = false
    padding: string in {SAME, VALID, EXPLICIT}
    data_format: string in {NHWC, NCHW} = 'NHWC'
    explicit_paddings: list(int) = []
    dilations: list(int) = [1, 1, 1, 1]
    """,
    shape=conv2d_shape,
    compiles=Compiles.NEVER,
)
def conv2d_with_bias_kernel(
    xp: ArrayNamespace,
    input: Array,
    filter: Array,
    bias: Array,
    *,
    strides: list[int],
    padding: str,
    data_format: str,
    explicit_paddings: list[int],
    dilations: list[int],
) -> Any:
    found = conv2d_kernel(
        xp,
        input,
        filter,
        strides=strides,
        padding=padding,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
        dilations=dilations,
    )
    return finished(xp, found, [bias], ["BiasAdd"], data_format)


@op(
    """
    _MklNativePadWithConv2D(input: T, filter: T, paddings: Tpaddings) -> output: T
    T: type in {bfloat16, float, half}
    strides: list(int)
    use_cudnn_on_gpu: bool = true
    padding: string in {SAME, VALID}
    data_format: string in {NHWC, NCHW} = 'NHWC'
    is_filter_const: bool = false
    dilations: list(int) = [1, 1, 1, 1]
    Tpaddings: type in indices = int32
    """,
    static=("paddings",),
    compiles=Compiles.NEVER,
)
def pad_with_conv2d_kernel(
    xp: ArrayNamespace,
    input: Array,
    filter: Array,
    paddings: Array,
    *,
    T: DType,
    strides: list[int],
    padding: str,
    data_format: str,
    dilations: list[int],
) -> Any:
    return conv2d_kernel(
        xp,
        pad_kernel(xp, input, paddings, T=T),
        filter,
        strides=strides,
        padding=padding,
        explicit_paddings=[],
        data_format=data_format,
        dilations=dilations,
    )


@op(
    """
    _MklNativePadWithFusedConv2D(input: T, filter: T, args: num_args * T, paddings: Tpaddings)
      -> output: T
    T: type in {bfloat16, float, half}
    num_args: int >= 0
    strides: list(int)
    is_filter_const: bool = false
    padding: string in {SAME, VALID}
    data_format: string in {NHWC, NCHW} = 'NHWC'
    dilations: list(int) = [1, 1, 1, 1]
    Tpaddings: type in indices = int32
    """
    + FUSION,
    static=("paddings",),
    compiles=Compiles.NEVER,
)
def pad_with_fused_conv2d_kernel(
    xp: ArrayNamespace,
    input: Array,
    filter: Array,
    args: list[Any],
    paddings: Array,
    *,
    T: DType,
    strides: list[int],
    padding: str,
    data_format: str,
    dilations: list[int],
    fused_ops: list[str],
    epsilon: float,
    leakyrelu_alpha: float,
) -> Any:
    found = pad_with_conv2d_kernel(
        xp,
        input,
        filter,
        paddings,
        T=T,
        strides=strides,
        padding=padding,
        data_format=data_format,
        dilations=dilations,
    )
    return finished(xp, found, args, fused_ops, data_format, epsilon, leakyrelu_alpha)
