"""Where things are: coordinates of flat indices, and places in sorted rows.

Source: tensorflow/core/kernels/unravel_index_op.cc, searchsorted_op.cc, guarantee_const_op.cc.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, same_as
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.wire import errors
from tideflow.wire.dtypes import DType


def _unravel_shape(c: ShapeContext) -> list[Dims]:
    indices, dims = c.inputs
    if indices is None or dims is None:
        return [None]
    if len(indices) > 1:
        raise ValueError("indices must be a scalar or a vector")
    return [(*dims, *indices)]


@op(
    """
    UnravelIndex(indices: Tidx, dims: Tidx) -> output: Tidx
    Tidx: type in indices = int32
    """,
    shape=_unravel_shape,
)
def unravel_index_kernel(ctx: KernelContext, indices: Array, dims: Array) -> Any:
    """Return the coordinates [rank, ...] of flat indices in a tensor of the sizes `dims`."""
    if np.ndim(indices) > 1 or np.ndim(dims) != 1:
        raise errors.InvalidArgumentError(
            "indices must be a scalar or a vector, and dims a vector; their shapes are "
            f"{list(np.shape(indices))} and {list(np.shape(dims))}"
        )
    sizes = dims.tolist()
    if not sizes:
        return np.zeros((0, *np.shape(indices)), dims.dtype)
    if any(size == 0 for size in sizes):
        raise errors.InvalidArgumentError(f"dims cannot contain a dim of zero; found {sizes}")
    if not np.size(indices) or np.max(indices) >= math.prod(sizes):
        raise errors.InvalidArgumentError(
            f"index is out of bound as with dims: {np.asarray(indices).tolist()}, {sizes}"
        )
    found = []
    rest = np.asarray(indices)
    for axis in range(len(sizes)):
        stride = dims.dtype.type(math.prod(sizes[axis + 1 :]))
        # Division as in C: a negative index has negative coordinates.
        below = np.fmod(rest, stride)
        found.append((rest - below) // stride)
        rest = below
    return np.stack(found)


@export("unravel_index")
def unravel_index(indices: TensorLike, dims: TensorLike, name: str | None = None) -> Tensor:
    """Return the coordinates of flat indices, one row for each axis."""
    found: Tensor = apply_op("UnravelIndex", indices, dims, name=name)
    return found


def _bound(name: str, side: Any) -> None:
    def kernel(ctx: KernelContext, sorted_inputs: Array, values: Array, *, out_type: DType) -> Any:
        """Return for each value its place in the sorted row of the same number."""
        if np.ndim(sorted_inputs) != 2 or np.ndim(values) != 2:
            raise errors.InvalidArgumentError("sorted_inputs and values must be matrices")
        if len(sorted_inputs) != len(values):
            raise errors.InvalidArgumentError(
                f"there are {len(sorted_inputs)} sorted rows, and {len(values)} rows of values"
            )
        made = np.empty(values.shape, out_type.as_numpy_dtype)
        for row, known, wanted in zip(made, sorted_inputs, values):
            row[:] = np.searchsorted(known, wanted, side)
        return made

    op(
        f"""
        {name}(sorted_inputs: T, values: T) -> output: out_type
        T: type
        out_type: type in indices = int32
        """,
        shape=same_as(1),
    )(kernel)


_bound("LowerBound", "left")
_bound("UpperBound", "right")


@op("GuaranteeConst(input: T) -> output: T\nT: type", shape=same_as(), stateful=True)
def guarantee_const_kernel(ctx: KernelContext, value: Array) -> Any:
    """Return a value of which the client says that it is always the same."""
    return value


@gradient("GuaranteeConst")
def _guarantee_const_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [grad]


@export("guarantee_const")
def guarantee_const(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the input; it is promised to be the same in all steps."""
    found: Tensor = apply_op("GuaranteeConst", input, name=name)
    return found


not_differentiable("UnravelIndex", "LowerBound", "UpperBound")
