"""The gradient of a part of a sparse tensor.

Source: tensorflow/core/kernels/sparse_slice_grad_op.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.sparse import arithmetic  # noqa: F401 - defines the op of which it is
from tideflow.wire.errors import InternalError, InvalidArgumentError


def _shape(c: ShapeContext) -> list[Dims]:
    return [with_rank(c.inputs[1], 2, "input_indices")[:1]]


def _check(given: Any, indices: Array, start: Any, kept: Any) -> None:
    ranks = {"backprop_val_grad": (given, 1), "input_start": (start, 1)}
    ranks |= {"input_indices": (indices, 2), "output_indices": (kept, 2)}
    for name, (value, rank) in ranks.items():
        if value.ndim != rank:
            raise InvalidArgumentError(
                f"Input {name} should have rank {rank} but its shape is {list(value.shape)}"
            )
    if len(given) != len(kept):
        raise InvalidArgumentError(
            f"# elements of backprop_val_grad and # rows of output_indices should match: got "
            f"{len(given)} and {len(kept)}"
        )
    if len(kept) > len(indices):
        raise InvalidArgumentError(
            f"# rows of output_indices should be not greater than of input_indices, got "
            f"{len(kept)} and {len(indices)}"
        )
    if not indices.shape[1] == kept.shape[1] == len(start):
        raise InvalidArgumentError(
            f"indices of {indices.shape[1]} and {kept.shape[1]} dimensions and a start of "
            f"{len(start)} do not match"
        )


@op(
    """
    SparseSliceGrad(backprop_val_grad: T, input_indices: int64, input_start: int64, \
output_indices: int64) -> val_grad: T
    T: type in numbers
    """,
    shape=_shape,
)
def sparse_slice_grad_kernel(
    ctx: KernelContext,
    backprop_val_grad: Array,
    input_indices: Array,
    input_start: Array,
    output_indices: Array,
) -> Any:
    """Return the gradient of the values: that of the part where they are in it, else 0.

    Raises: InternalError for indices of the part that are not found, in their order.
    """
    _check(backprop_val_grad, input_indices, input_start, output_indices)
    found = np.zeros(len(input_indices), backprop_val_grad.dtype)
    kept = (output_indices + input_start).tolist()
    used = 0
    for at, index in enumerate(input_indices.tolist()):
        if used < len(kept) and index == kept[used]:
            found[at] = backprop_val_grad[used]
            used += 1
    if used != len(kept):
        raise InternalError(
            "Elements of backprop_val_grad aren't all propagated. Num elements: "
            f"{len(kept)}, used: {used}"
        )
    return found


@gradient("SparseSlice")
def sparse_slice_gradient(op: Operation, *grads: Tensor) -> list[Any]:
    """Give the values of the part their gradient, and the others 0."""
    indices, start = op.inputs[0], op.inputs[3]
    found = apply_op("SparseSliceGrad", grads[1], indices, start, op.outputs[0])
    return [None, found, None, None, None]
