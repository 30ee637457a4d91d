"""Second derivatives: tf.hessians.

Source: tensorflow/python/ops/gradients_impl.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.array import getitem
from tideflow.ops.control_flow import while_loop
from tideflow.ops.export import export
from tideflow.ops.gradients.api import as_list, gradients
from tideflow.ops.tensor_arrays import TensorArray


@export("hessians")
def hessians(
    ys: TensorLike,
    xs: TensorLike,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
) -> list[Tensor]:
    """Return for each x the Hessian of the sum of ys: shape x.shape + x.shape.

    A loop computes one row after the other.  The name is ignored, as in TensorFlow.
    Raises: ValueError for an x on which no y depends, or only by a gradient that does not change.
    """
    options = (colocate_gradients_with_ops, gate_gradients, aggregation_method)
    x_list = as_list(xs)
    found = []
    for x, first in zip(x_list, gradients(ys, x_list, None, "gradients", *options)):
        if first is None:
            raise ValueError(f"no Hessian for {x!r}, on which no y depends")
        found.append(_hessian(apply_op("Reshape", convert_to_tensor(first), [-1]), x))
    return found


def _hessian(flat: Tensor, x: TensorLike) -> Tensor:
    """Return the derivatives of a gradient [size of x]: shape x.shape + x.shape."""
    value = convert_to_tensor(x)
    count = apply_op("Size", value)

    def add_row(j: Tensor, rows: TensorArray) -> tuple[Any, Any]:
        (row,) = gradients(getitem(flat, j), x)
        if row is None:
            raise ValueError(f"no Hessian for {x!r}, on which the gradient of no y depends")
        return apply_op("AddV2", j, 1, name="add"), rows.write(j, convert_to_tensor(row))

    first = [convert_to_tensor(0), TensorArray(value.dtype.base_dtype, count)]
    _, filled = while_loop(lambda j, _: apply_op("Less", j, count), add_row, first)
    sizes = apply_op("Shape", value)
    both = apply_op("ConcatV2", [sizes, sizes], 0, name="concat")
    made: Tensor = apply_op("Reshape", filled.stack(), both)
    if value.dims is not None:
        made.set_shape([*value.dims, *value.dims])
    return made
