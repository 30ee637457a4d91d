"""Assigning to part of a variable: `v[1:3].assign(x)`.

Source: tensorflow/core/kernels/strided_slice_op.cc (StridedSliceAssignOp)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import same_as
from tideflow.graph.shapes import format_dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.graph.update_rule import Update
from tideflow.ops.array import is_slice, strided_index
from tideflow.ops.state.api import ResourceVariable, Variable
from tideflow.ops.state.shapes import output_of, variable_dims
from tideflow.ops.state.updates import declare_update
from tideflow.wire import errors

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_BOUNDS = ("begin", "end", "strides")


def _rule(
    op_name: str,
    xp: ArrayNamespace,
    old: Any,
    begin: object,
    end: object,
    strides: Sequence[int],
    value: Any,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Any:
    """Return old with a value in the place of a strided slice."""
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    index = strided_index(old.shape, (begin, end, strides), *masks)
    if xp is not np:
        return (old.at[index].set(value),)
    made = np.array(old)
    _put(op_name, made, index, value)
    return (made,)


def _change(op_name: str, arrays: list[Any], others: list[Any], **masks: int) -> None:
    begin, end, strides, value = others
    settled = [masks[mask] for mask in _MASKS]
    index = strided_index(arrays[0].shape, (begin, end, strides), *settled)
    _put(op_name, arrays[0], index, value)


def _put(op_name: str, array: Any, index: Any, value: Any) -> None:
    """Assign a value that broadcasts to the slice; a slice without elements takes any value."""
    wanted = array[index].shape
    if 0 in wanted:
        return
    try:
        array[index] = value
    except ValueError:
        raise errors.InvalidArgumentError(
            f"{op_name}: the slice has shape {format_dims(wanted)}; the value has shape "
            f"{format_dims(value.shape)}"
        ) from None


def _declare(op_name: str, ref: str, output: str, is_ref: bool) -> None:
    masks = "\n".join(f"{mask}: int = 0" for mask in _MASKS)
    update = Update(
        op_name,
        1,
        is_ref=is_ref,
        rule=functools.partial(_rule, op_name),
        kind="in_place",
        change=functools.partial(_change, op_name),
    )
    declare_update(
        f"{op_name}(ref: {ref}, begin: Index, end: Index, strides: Index, value: T){output}\n"
        f"T: type\nIndex: type in indices\n{masks}",
        update.rule,
        update,
        lambda c: output_of(c, variable_dims(c, 0)),
        static=_BOUNDS,
    )
    not_differentiable(op_name)


_declare("ResourceStridedSliceAssign", "resource", "", False)
_declare("StridedSliceAssign", "Ref T", " -> output_ref: Ref T", True)


@op(
    "TensorStridedSliceUpdate(input: T, begin: Index, end: Index, strides: Index, value: T)"
    " -> output: T\nT: type\nIndex: type in indices\n"
    + "\n".join(f"{mask}: int = 0" for mask in _MASKS),
    shape=same_as(0),
    compiles=Compiles.NEVER,
)
def tensor_strided_slice_update(
    xp: ArrayNamespace,
    x: Array,
    begin: Array,
    end: Array,
    strides: Array,
    value: Array,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Any:
    """Return a tensor with a value in the place of a strided slice."""
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    made = np.array(x)
    index = strided_index(made.shape, (begin, end, strides), *masks)
    _put("TensorStridedSliceUpdate", made, index, value)
    return made


@gradient("TensorStridedSliceUpdate")
def tensor_strided_slice_update_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Clear the gradient where elements were replaced; give theirs to the value."""
    _, *bounds, value = op.inputs
    masks = {mask: op.attrs[mask] for mask in _MASKS}
    zeros = apply_op("ZerosLike", value)
    cleared = apply_op("TensorStridedSliceUpdate", grad, *bounds, zeros, **masks)
    return [cleared, None, None, None, apply_op("StridedSlice", grad, *bounds, **masks)]


class VariableSlice(Tensor):
    """A slice of a variable: the tensor, which can also be assigned to."""

    __slots__ = ("_variable",)

    _variable: Any

    def assign(self, value: TensorLike, name: str | None = None) -> Any:
        """Assign to this part of the variable; returns what reads as the whole new value.

        Raises: InvalidArgumentError, when run, for a value of another shape than the slice.
        """
        _, *bounds = self.op.inputs
        masks = {mask: self.op.attrs[mask] for mask in _MASKS}
        return assign_slice(self._variable, bounds, masks, value, name)


def assign_slice(
    variable: Any,
    bounds: Sequence[Any],
    masks: dict[str, int],
    value: TensorLike,
    name: str | None = None,
) -> Any:
    """Assign to the part of a variable that begin, end and strides name."""
    if isinstance(variable, ResourceVariable):
        op = apply_op(
            "ResourceStridedSliceAssign",
            variable.handle,
            *bounds,
            value,
            T=variable.dtype,
            name=name,
            **masks,
        )
        return variable._afterwards(op)
    return apply_op("StridedSliceAssign", variable, *bounds, value, name=name, **masks)


def _getitem(self: Variable, key: Tensor) -> Tensor:
    """Return part of the value; `v[key].assign(x)` assigns to that part."""
    made = self.value()[key]
    if not is_slice(made):
        return made
    part = VariableSlice(made.op, 0, made.dims)
    part._variable = self
    # The slice stands for the output from the start, so that graph and caller share one object.
    made.op.outputs[0] = part
    return part


Variable.__getitem__ = _getitem  # type: ignore[method-assign]
