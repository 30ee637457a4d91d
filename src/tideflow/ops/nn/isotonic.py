"""The closest falling (or rising) sequence to another one.

Source: Best and Chakravarti, "Active set algorithms for isotonic regression" (1990): pool adjacent
violators.  tensorflow/core/kernels/isotonic_regression_op.cc for what comes out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType

_TYPES = "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}"


def _pooled(row: Any) -> tuple[list[float], list[int]]:
    """Return the means and sizes of the segments of the closest sequence that falls."""
    means: list[float] = []
    sizes: list[int] = []
    for value in row:
        mean, size = value, 1
        while means and means[-1] < mean:  # equal neighbours stay apart, which SciPy's joins
            mean = (means[-1] * sizes[-1] + mean * size) / (sizes[-1] + size)
            size += sizes.pop()
            means.pop()
        means.append(mean)
        sizes.append(size)
    return means, sizes


@op(
    f"""
    IsotonicRegression(input: T) -> output: output_dtype, segments: int32
    T: type in {_TYPES}
    output_dtype: type in {{half, bfloat16, float, double}} = float
    """,
    shape=lambda c: [c.inputs[0], c.inputs[0]],
)
def isotonic_regression_kernel(ctx: KernelContext, x: Array, *, output_dtype: DType) -> Any:
    """Return the closest sequence that falls along the last axis, and the number of the segment of
    equal values that each element is in.
    """
    rows = x.reshape(-1, x.shape[-1] if x.ndim else 1) if x.size else x.reshape(0, 1)
    made = np.zeros(rows.shape, np.float64)
    segments = np.zeros(rows.shape, np.int32)
    for i, row in enumerate(rows.astype(np.float64).tolist()):
        means, sizes = _pooled(row)
        made[i] = np.repeat(means, sizes)
        segments[i] = np.repeat(np.arange(len(sizes)), sizes)
    return made.reshape(x.shape).astype(output_dtype.as_numpy_dtype), segments.reshape(x.shape)


@gradient("IsotonicRegression")
def isotonic_regression_grad(op: Operation, grad: Tensor, _: Tensor | None = None) -> list[Any]:
    """Spread each segment's gradient evenly over it."""
    segments = op.outputs[1]
    same = apply_op(
        "Equal", apply_op("ExpandDims", segments, -1), apply_op("ExpandDims", segments, -2)
    )
    weights = apply_op("Cast", same, DstT=grad.dtype)
    sums = apply_op("BatchMatMulV2", weights, apply_op("ExpandDims", grad, -1))
    counts = apply_op("Sum", weights, -1)
    found = apply_op("RealDiv", apply_op("Squeeze", sums, squeeze_dims=[-1]), counts)
    return [apply_op("Cast", found, DstT=op.inputs[0].dtype)]


_WIDER = {dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64, dtypes.float64}


@export("nn.isotonic_regression")
def isotonic_regression(
    inputs: TensorLike, decreasing: bool = True, axis: int = -1
) -> tuple[Tensor, Tensor]:
    """Return the closest sequence that falls along an axis, and its segments of equal values.

    Closest is the one with the least sum of squares of differences.

    Args:
      inputs: real numbers [..., n] of any rank but 0.
      decreasing: whether it falls; else it rises.
      axis: the dimension along which it does.
    Returns: the sequences, floating, and the number of the segment to which each element belongs
      (int32), both in the shape of inputs.
    Example:
      >>> closest, segments = tf.nn.isotonic_regression([3.0, 1.0, 2.0])
      >>> closest.numpy().tolist(), segments.numpy().tolist()
      ([3.0, 1.5, 1.5], [0, 1, 1])
    """
    x = convert_to_tensor(inputs)
    rank = len(x.dims or ())
    kind = _result_type(x.dtype)
    order = None
    if axis % max(rank, 1) != rank - 1:
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
        x = apply_op("Transpose", x, order)
    if not decreasing:
        x = apply_op("Neg", x)
    made, segments = apply_op("IsotonicRegression", x, output_dtype=kind)
    if not decreasing:
        made = apply_op("Neg", made)
    if order is not None:
        made, segments = (apply_op("Transpose", part, order) for part in (made, segments))
    return made, segments


def _result_type(dtype: DType) -> DType:
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return dtype
    return dtypes.float64 if dtype in _WIDER else dtypes.float32
