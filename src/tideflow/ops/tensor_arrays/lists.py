"""TensorLists in graphs: the functions that make them, and their gradients.

The gradient of a list is a list: of the gradients of its elements.

Source: tensorflow/python/ops/list_ops.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.shapes import Dims
from tideflow.ops.tensor_arrays import list_ops as tensor_list_ops
from tideflow.wire import dtypes

__all__ = ["element_shape_tensor", "tensor_list_ops"]

not_differentiable(
    "EmptyTensorList", "TensorListReserve", "TensorListLength", "TensorListElementShape"
)


def element_shape_tensor(dims: Dims) -> Tensor:
    """Return what an element_shape input is given for a shape known in part or not at all."""
    sizes = -1 if dims is None else [-1 if size is None else size for size in dims]
    return convert_to_tensor(sizes, dtypes.int32)


def _shape(value: Tensor) -> Tensor:
    found: Tensor = apply_op("Shape", value)
    return found


def _row_shape(value: Tensor) -> Tensor:
    found: Tensor = apply_op("StridedSlice", _shape(value), [1], [0], [1], end_mask=1)
    return found


def _zeros_like(value: Tensor) -> Tensor:
    found: Tensor = apply_op("ZerosLike", value)
    return found


@gradient("TensorListPushBack")
def _push_back_grad(op: Operation, grad: Tensor) -> list[Any]:
    value = op.inputs[1]
    dtype = op.attrs["element_dtype"]
    shape = element_shape_tensor(()) if dtype is dtypes.variant else _shape(value)
    before, last = apply_op("TensorListPopBack", grad, shape, element_dtype=dtype)
    return [before, last]


@gradient("TensorListPopBack")
def _pop_back_grad(op: Operation, list_grad: Tensor, grad: Tensor) -> list[Any]:
    value = op.outputs[1]
    grad = _zeros_like(value) if grad is None else grad
    list_grad = _zeros_like(op.outputs[0]) if list_grad is None else list_grad
    return [apply_op("TensorListPushBack", list_grad, grad), None]


@gradient("TensorListStack")
def _stack_grad(op: Operation, grad: Tensor) -> list[Any]:
    dims = grad.dims
    shape = element_shape_tensor(None if dims is None else dims[1:])
    return [apply_op("TensorListFromTensor", grad, shape), None]


@gradient("TensorListFromTensor")
def _from_tensor_grad(op: Operation, grad: Tensor) -> list[Any]:
    value = op.inputs[0]
    count = value.dims[0] if value.dims and value.dims[0] is not None else -1
    stacked = apply_op(
        "TensorListStack",
        grad,
        _row_shape(value),
        element_dtype=op.attrs["element_dtype"],
        num_elements=count,
    )
    return [stacked, None]


@gradient("TensorListConcat", "TensorListConcatV2")
def _concat_grad(op: Operation, grad: Tensor, _: Tensor) -> list[Any]:
    dims = grad.dims
    shape = element_shape_tensor(None if dims is None else (None, *dims[1:]))
    parts = apply_op("TensorListSplit", grad, shape, op.outputs[1])
    return [parts, *[None] * (len(op.inputs) - 1)]


@gradient("TensorListSplit")
def _split_grad(op: Operation, grad: Tensor) -> list[Any]:
    value, _, lengths = op.inputs
    shape = apply_op("ConcatV2", [[-1], _row_shape(value)], 0)
    joined, _ = apply_op(
        "TensorListConcatV2", grad, shape, lengths, element_dtype=op.attrs["element_dtype"]
    )
    return [joined, None, None]


@gradient("TensorListGetItem")
def _get_item_grad(op: Operation, grad: Tensor) -> list[Any]:
    source, index, _ = op.inputs
    dtype = op.attrs["element_dtype"]
    shape = apply_op("TensorListElementShape", source, shape_type=dtypes.int32)
    count = apply_op("TensorListLength", source)
    empty = apply_op("TensorListReserve", shape, count, element_dtype=dtype)
    return [apply_op("TensorListSetItem", empty, index, grad), None, None]


@gradient("TensorListSetItem")
def _set_item_grad(op: Operation, grad: Tensor) -> list[Any]:
    source, index, item = op.inputs
    shape = element_shape_tensor(()) if item.dtype is dtypes.variant else _shape(item)
    found = apply_op(
        "TensorListGetItem", grad, index, shape, element_dtype=op.attrs["element_dtype"]
    )
    others = apply_op("TensorListSetItem", grad, index, _zeros_like(item))
    if op.attrs["resize_if_index_out_of_bounds"]:
        others = apply_op("TensorListResize", others, apply_op("TensorListLength", source))
    return [others, None, found]


@gradient("TensorListResize")
def _resize_grad(op: Operation, grad: Tensor) -> list[Any]:
    size = apply_op("TensorListLength", op.inputs[0])
    return [apply_op("TensorListResize", grad, size), None]


@gradient("TensorListGather")
def _gather_grad(op: Operation, grad: Tensor) -> list[Any]:
    source, indices, _ = op.inputs
    size = apply_op("TensorListLength", source)
    # An element that was read several times has the sum; setting would keep the last alone.
    once, at = apply_op("Unique", indices)
    sums = apply_op("UnsortedSegmentSum", grad, at, apply_op("Size", once))
    made = apply_op("TensorListScatterV2", sums, once, _row_shape(grad), size)
    return [made, None, None]


def _gathered(op: Operation, grad: Tensor, value: Tensor, indices: Tensor) -> Tensor:
    found: Tensor = apply_op(
        "TensorListGather",
        grad,
        indices,
        _row_shape(value),
        element_dtype=op.attrs["element_dtype"],
    )
    return found


@gradient("TensorListScatter", "TensorListScatterV2")
def _scatter_grad(op: Operation, grad: Tensor) -> list[Any]:
    value, indices = op.inputs[:2]
    return [_gathered(op, grad, value, indices), *[None] * (len(op.inputs) - 1)]


@gradient("TensorListScatterIntoExistingList")
def _scatter_into_grad(op: Operation, grad: Tensor) -> list[Any]:
    _, value, indices = op.inputs
    zeros = _zeros_like(value)
    others = apply_op("TensorListScatterIntoExistingList", grad, zeros, indices)
    return [others, _gathered(op, grad, value, indices), None]
