"""The first two versions of batch norms and their gradients: the third has one reserve more.

Source: tensorflow/core/ops/nn_ops.cc, core/kernels/fused_batch_norm_op.cc.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.nn.batch_norm import (
    frozen_gradients,
    fused_batch_norm_grad_kernel,
    fused_batch_norm_grad_shape,
    fused_batch_norm_kernel,
    fused_batch_norm_shape,
)


def _shape(c: ShapeContext) -> list[Dims]:
    return fused_batch_norm_shape(c)[:5]


def _define(name: str, types: str, of_channels: str) -> None:
    others = ", ".join(f"{one}: {of_channels}" for one in ("scale", "offset", "mean", "variance"))
    outputs = ("batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2")
    given = ", ".join(f"{one}: {of_channels}" for one in outputs)

    @op(
        f"""
        {name}(x: T, {others}) -> y: T, {given}
        {types}
        epsilon: float = 9.999999747378752e-05
        exponential_avg_factor: float = 1.0
        data_format: string in {{NHWC, NCHW}} = 'NHWC'
        is_training: bool = true
        """,
        shape=_shape,
        compiles=Compiles.ALWAYS,
        checked_outputs=1,
    )
    def kernel(
        xp: ArrayNamespace,
        x: Array,
        scale: Array,
        offset: Array,
        mean: Array,
        variance: Array,
        *,
        epsilon: float,
        exponential_avg_factor: float,
        data_format: str,
        is_training: bool,
    ) -> Any:
        made = fused_batch_norm_kernel(
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
        return made[:5]


_define("FusedBatchNorm", "T: type in {float}", "T")
_define(
    "FusedBatchNormV2",
    "T: type in {half, bfloat16, float}\n        U: type in {float}",
    "U",
)


def _define_gradient(name: str, types: str, of_scale: str, of_channels: str) -> None:
    reserves = ", ".join(f"reserve_space_{i}: {of_channels}" for i in (1, 2))
    outputs = ("scale_backprop", "offset_backprop", "reserve_space_3", "reserve_space_4")
    given = ", ".join(f"{one}: {of_channels}" for one in outputs)

    @op(
        f"""
        {name}(y_backprop: T, x: T, scale: {of_scale}, {reserves}) -> x_backprop: T, {given}
        {types}
        epsilon: float = 9.999999747378752e-05
        data_format: string in {{NHWC, NCHW}} = 'NHWC'
        is_training: bool = true
        """,
        shape=fused_batch_norm_grad_shape,
        compiles=Compiles.ALWAYS,
    )
    def kernel(
        xp: ArrayNamespace,
        y_backprop: Array,
        x: Array,
        scale: Array,
        reserve_space_1: Array,
        reserve_space_2: Array,
        *,
        epsilon: float,
        data_format: str,
        is_training: bool,
    ) -> Any:
        # CPUs do not read the third reserve.
        made = fused_batch_norm_grad_kernel(
            xp,
            y_backprop,
            x,
            scale,
            reserve_space_1,
            reserve_space_2,
            reserve_space_2,
            epsilon=epsilon,
            data_format=data_format,
            is_training=is_training,
        )
        # These versions have no kernels of oneDNN's, which give scalars that nothing reads.
        empty = xp.zeros((0,), xp.float32)
        return (*made[:3], empty, empty)


_define_gradient("FusedBatchNormGrad", "T: type in {float}", "T", "T")
_define_gradient(
    "FusedBatchNormGradV2",
    "T: type in {half, bfloat16, float}\n        U: type in {float}",
    "float",
    "U",
)


@gradient("FusedBatchNorm", "FusedBatchNormV2")
def fused_batch_norm_gradient(op: Operation, grad: Tensor, *_: Tensor) -> list[Any]:
    """Take the gradient of the same version."""
    attrs = {name: op.attrs[name] for name in ("epsilon", "data_format", "is_training")}
    x, scale = op.inputs[:2]
    of_version = op.type.replace("Norm", "NormGrad")
    found = apply_op(of_version, grad, x, scale, *op.outputs[3:5], **attrs)
    if op.attrs["is_training"]:
        return [*found[:3], None, None]
    return [*found[:3], *frozen_gradients(op, found[1], found[2])]
