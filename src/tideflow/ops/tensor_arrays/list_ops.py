"""The TensorList ops.  A list is a value (a variant), so each change gives another list.

An element may be unset; it reads as zeros where its shape is known from the op, the list or the
other elements.

Source: tensorflow/core/ops/list_ops.cc (shapes), core/kernels/list_kernels.{h,cc}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, scalar, unknown, with_rank
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.tensor_arrays import traced
from tideflow.ops.tensor_arrays.list_arguments import (
    as_dims,
    as_list,
    as_scalar,
    as_vector,
    check_fits,
    element_dims,
    fail,
    full_dims,
    rows_of,
    stacked,
    unset_value,
)
from tideflow.ops.tensor_arrays.list_values import UNSET, TensorList, merge_shapes, zeros
from tideflow.wire.dtypes import DType

# ---- shape rules


def known_dims(c: ShapeContext, name: str) -> Dims:
    """Return what is known of the shape that an element_shape input stands for."""
    value = c.value(name)
    if value is not None and value.ndim == 0:
        return None
    return c.value_as_shape(name)


def _item_shape(c: ShapeContext) -> list[Dims]:
    return [known_dims(c, "element_shape")]


def _popped_shape(c: ShapeContext) -> list[Dims]:
    return [(), known_dims(c, "element_shape")]


def _stack_shape(c: ShapeContext) -> list[Dims]:
    dims = known_dims(c, "element_shape")
    count = c.attrs["num_elements"]
    return [None if dims is None else (None if count < 0 else count, *dims)]


def _gather_shape(c: ShapeContext) -> list[Dims]:
    dims = known_dims(c, "element_shape")
    (count,) = with_rank(c.shape("indices"), 1, "indices")
    return [None if dims is None else (count, *dims)]


def _concat_shape(c: ShapeContext) -> list[Dims]:
    given = c.attrs.get("element_shape")
    dims = known_dims(c, "element_shape") if given is None else given.sizes
    return [None if not dims else (None, *dims[1:]), (None,)]


# ---- making lists


@op(
    """
    EmptyTensorList(element_shape: shape_type, max_num_elements: int32) -> handle: variant
    element_dtype: type
    shape_type: type in indices
    """,
    shape=scalar,
    traced=traced.empty,
    any_device=True,
)
def empty_tensor_list(
    ctx: KernelContext, element_shape: Any, most: Any, *, element_dtype: DType
) -> Any:
    """Return a list without elements."""
    most = as_scalar(most, "max_num_elements")
    return TensorList(element_dtype, as_dims(element_shape), most=most)


@op(
    """
    TensorListReserve(element_shape: shape_type, num_elements: int32) -> handle: variant
    element_dtype: type
    shape_type: type in indices
    """,
    shape=scalar,
    traced=traced.reserved,
    any_device=True,
)
def tensor_list_reserve(
    ctx: KernelContext, element_shape: Array, count: Any, *, element_dtype: DType
) -> Any:
    """Return a list of elements that are not set."""
    count = as_scalar(count, "num_elements")
    if count < 0:
        raise fail(f"num_elements must be at least 0; it is {count}")
    return TensorList(element_dtype, as_dims(element_shape), [UNSET] * count)


@op(
    """
    TensorListFromTensor(tensor: element_dtype, element_shape: shape_type) -> output_handle: variant
    element_dtype: type
    shape_type: type in indices
    """,
    shape=scalar,
    traced=traced.from_tensor,
    any_device=True,
)
def tensor_list_from_tensor(
    ctx: KernelContext, tensor: Array, element_shape: Array, *, element_dtype: DType
) -> Any:
    """Return a list of the rows of a tensor."""
    dims = as_dims(element_shape)
    return TensorList(element_dtype, dims, rows_of(tensor, dims))


@op(
    """
    TensorListSplit(tensor: element_dtype, element_shape: shape_type, lengths: int64)
    -> output_handle: variant
    element_dtype: type
    shape_type: type in indices
    """,
    shape=scalar,
    any_device=True,
)
def tensor_list_split(
    ctx: KernelContext, tensor: Array, element_shape: Array, lengths: Array, *, element_dtype: DType
) -> Any:
    """Return a list of parts of a tensor, of the lengths given."""
    dims = as_dims(element_shape)
    if not np.ndim(tensor):
        raise fail("the tensor must have at least one axis, along which it is cut; it is a scalar")
    sizes = as_vector(lengths, "lengths")
    tail = None if dims is None else dims[1:]
    if dims == () or not shapes.compatible(tail, np.shape(tensor)[1:]):
        raise fail(
            f"a list of elements {shapes.format_dims(dims)} cannot be made of parts of a tensor of "
            f"shape {shapes.format_dims(np.shape(tensor))}"
        )
    if any(size < 0 for size in sizes) or sum(sizes) != len(tensor):
        raise fail(
            f"lengths {sizes[:10]} must not be negative, and add up to the tensor's first size "
            f"{len(tensor)}; they add up to {sum(sizes)}"
        )
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    parts = [tensor[end - size : end] for end, size in zip(ends, sizes)]
    for part in parts:
        check_fits(dims, part, "a part of the tensor")
    return TensorList(element_dtype, dims, parts)


def _scattered(tensor: TensorLike, where: list[int], dims: Dims) -> list[tuple[int, Any]]:
    rows = rows_of(tensor, dims)
    if len(rows) != len(where):
        raise fail(f"{len(where)} indices for the {len(rows)} rows of the tensor")
    if any(index < 0 for index in where):
        raise fail(f"indices must be at least 0; they are {where[:10]}")
    return list(zip(where, rows))


@op(
    """
    TensorListScatter(tensor: element_dtype, indices: int32, element_shape: shape_type)
    -> output_handle: variant
    element_dtype: type
    shape_type: type in indices
    """,
    shape=scalar,
    any_device=True,
)
def tensor_list_scatter(
    ctx: KernelContext, tensor: Array, indices: Array, element_shape: Array, *, element_dtype: DType
) -> Any:
    """Return a list whose elements at some indices are the rows of a tensor."""
    return tensor_list_scatter_v2(
        ctx, tensor, indices, element_shape, np.int32(-1), element_dtype=element_dtype
    )


@op(
    """
    TensorListScatterV2(tensor: element_dtype, indices: int32, element_shape: shape_type,
                        num_elements: int32) -> output_handle: variant
    element_dtype: type
    shape_type: type in indices
    """,
    shape=scalar,
    any_device=True,
)
def tensor_list_scatter_v2(
    ctx: KernelContext,
    tensor: Array,
    indices: Array,
    element_shape: Array,
    num_elements: Any,
    *,
    element_dtype: DType,
) -> Any:
    """Return a list (of num_elements unless that is -1) set at some indices to rows of a tensor."""
    dims = as_dims(element_shape)
    count = as_scalar(num_elements, "num_elements")
    if count < -1:
        raise fail(f"num_elements must be at least -1; it is {count}")
    pairs = _scattered(tensor, np.ravel(indices).tolist(), dims)
    needed = max((index for index, _ in pairs), default=-1) + 1
    if count >= 0 and needed > count:
        raise fail(f"index {needed - 1} lies outside a list of {count} elements")
    items = [UNSET] * (needed if count < 0 else count)
    for index, row in pairs:
        items[index] = row
    return TensorList(element_dtype, dims, items)


@op(
    """
    TensorListScatterIntoExistingList(input_handle: variant, tensor: element_dtype, indices: int32)
    -> output_handle: variant
    element_dtype: type
    """,
    shape=scalar,
    any_device=True,
)
def tensor_list_scatter_into_existing_list(
    ctx: KernelContext, handle: object, tensor: Array, indices: Array, *, element_dtype: DType
) -> Any:
    """Return a list after elements were set to the rows of a tensor; it grows where needed."""
    source = as_list(handle, element_dtype)
    pairs = _scattered(tensor, as_vector(indices, "indices"), source.element_shape)
    items = source.items()
    needed = max((index for index, _ in pairs), default=-1) + 1
    items.extend([UNSET] * (needed - len(items)))
    for index, row in pairs:
        items[index] = row
    return TensorList(element_dtype, source.element_shape, items, source.most)


# ---- what a list is


@op(
    "TensorListLength(input_handle: variant) -> length: int32",
    shape=scalar,
    traced=traced.length,
    any_device=True,
)
def tensor_list_length(ctx: KernelContext, handle: object) -> Any:
    """Return how many elements there are."""
    return np.int32(as_list(handle).size())


@op(
    """
    TensorListElementShape(input_handle: variant) -> element_shape: shape_type
    shape_type: type in indices
    """,
    shape=unknown,
    traced=traced.element_shape,
    any_device=True,
)
def tensor_list_element_shape(ctx: KernelContext, handle: object, *, shape_type: DType) -> Any:
    """Return what is known of the elements' shape: sizes with -1 for unknown, or the scalar -1."""
    dims = as_list(handle).element_shape
    sizes = -1 if dims is None else [-1 if size is None else size for size in dims]
    return np.array(sizes, shape_type.as_numpy_dtype)


# ---- one element


@op(
    """
    TensorListPushBack(input_handle: variant, tensor: element_dtype) -> output_handle: variant
    element_dtype: type
    """,
    shape=scalar,
    traced=traced.push_back,
    any_device=True,
)
def tensor_list_push_back(
    ctx: KernelContext, handle: object, tensor: Array, *, element_dtype: DType
) -> Any:
    """Return a list with one more element."""
    return pushed(as_list(handle, element_dtype), tensor)


def pushed(source: TensorList, value: TensorLike) -> TensorList:
    """Return a list with one more element.  Raises: InvalidArgumentError for one that is full."""
    check_fits(source.element_shape, value, "the value to push")
    size = source.size()
    if 0 <= source.most <= size:
        raise fail(f"the list is full: it has {size} elements, the most that it may have")
    return source.changed(size, 0, [value])


@op(
    """
    TensorListPopBack(input_handle: variant, element_shape: int32)
    -> output_handle: variant, tensor: element_dtype
    element_dtype: type
    """,
    shape=_popped_shape,
    traced=traced.pop_back,
    any_device=True,
    checked_outputs=0,
)
def tensor_list_pop_back(
    ctx: KernelContext, handle: object, element_shape: Array, *, element_dtype: DType
) -> Any:
    """Return a list without its last element, and that element."""
    source = as_list(handle, element_dtype)
    size = source.size()
    if not size:
        raise fail("cannot pop from an empty list")
    value = source.item(size - 1)
    if value is UNSET:
        dims = merge_shapes(as_dims(element_shape), source.element_shape, "element_shape and list")
        value = unset_value(source, dims)
    return source.changed(size - 1, 1, []), value


@op(
    """
    TensorListGetItem(input_handle: variant, index: int32, element_shape: Tshape)
    -> item: element_dtype
    element_dtype: type
    Tshape: type in indices = int32
    """,
    shape=_item_shape,
    traced=traced.get_item,
    any_device=True,
    checked_outputs=0,
)
def tensor_list_get_item(
    ctx: KernelContext, handle: object, index: Any, element_shape: Array, *, element_dtype: DType
) -> Any:
    """Return one element."""
    source = as_list(handle, element_dtype)
    index, size = as_scalar(index, "index"), source.size()
    if not 0 <= index < size:
        raise fail(f"cannot read element {index} of a list of {size} elements")
    value = source.item(index)
    if value is not UNSET:
        return value
    dims = merge_shapes(as_dims(element_shape), source.element_shape, "element_shape and list")
    return unset_value(source, dims)


@op(
    """
    TensorListSetItem(input_handle: variant, index: int32, item: element_dtype)
    -> output_handle: variant
    element_dtype: type
    resize_if_index_out_of_bounds: bool = false
    """,
    shape=scalar,
    traced=traced.set_item,
    any_device=True,
)
def tensor_list_set_item(
    ctx: KernelContext,
    handle: object,
    index: Any,
    item: Any,
    *,
    element_dtype: DType,
    resize_if_index_out_of_bounds: bool,
) -> Any:
    """Return a list with one element set."""
    source = as_list(handle, element_dtype)
    index, size = as_scalar(index, "index"), source.size()
    if index < 0 or (index >= size and not resize_if_index_out_of_bounds):
        raise fail(f"cannot set element {index} of a list of {size} elements")
    check_fits(source.element_shape, item, f"the value for element {index}")
    if index < size:
        return source.changed(index, 1, [item])
    return source.changed(size, 0, [*[UNSET] * (index - size), item])


@op(
    "TensorListResize(input_handle: variant, size: int32) -> output_handle: variant",
    shape=scalar,
    any_device=True,
)
def tensor_list_resize(ctx: KernelContext, handle: object, size: Any) -> Any:
    """Return a list of another length: cut, or with further elements that are not set."""
    source = as_list(handle)
    wanted, size = as_scalar(size, "size"), source.size()
    if wanted < 0:
        raise fail(f"the size of a list must be at least 0; it is {wanted}")
    if wanted <= size:
        return source.changed(wanted, size - wanted, [])
    return source.changed(size, 0, [UNSET] * (wanted - size))


# ---- several elements


@op(
    """
    TensorListStack(input_handle: variant, element_shape: int32) -> tensor: element_dtype
    element_dtype: type
    num_elements: int = -1
    """,
    shape=_stack_shape,
    traced=traced.stack,
    any_device=True,
    checked_outputs=0,
)
def tensor_list_stack(
    ctx: KernelContext,
    handle: object,
    element_shape: Array,
    *,
    element_dtype: DType,
    num_elements: int,
) -> Any:
    """Return all elements, stacked along a new first axis."""
    source = as_list(handle, element_dtype)
    items = source.items()
    if num_elements != -1 and len(items) != num_elements:
        raise fail(f"the list has {len(items)} elements; the op expects {num_elements}")
    dims = merge_shapes(as_dims(element_shape), source.element_shape, "element_shape and list")
    full = full_dims(element_dims(dims, items), "no element that is set tells a shape")
    return stacked(items, full, element_dtype)


@op(
    """
    TensorListGather(input_handle: variant, indices: int32, element_shape: int32)
    -> values: element_dtype
    element_dtype: type
    """,
    shape=_gather_shape,
    traced=traced.gather,
    any_device=True,
    checked_outputs=0,
)
def tensor_list_gather(
    ctx: KernelContext,
    handle: object,
    indices: Array,
    element_shape: Array,
    *,
    element_dtype: DType,
) -> Any:
    """Return some elements, stacked along a new first axis."""
    source = as_list(handle, element_dtype)
    every = source.items()
    items = []
    for index in np.ravel(indices).tolist():
        if not 0 <= index < len(every):
            raise fail(f"cannot read element {index} of a list of {len(every)} elements")
        items.append(every[index])
    dims = merge_shapes(as_dims(element_shape), source.element_shape, "element_shape and list")
    full = full_dims(element_dims(dims, every), "no element that is set tells a shape")
    return stacked(items, full, element_dtype)


@op(
    """
    TensorListConcat(input_handle: variant) -> tensor: element_dtype, lengths: int64
    element_dtype: type
    element_shape: shape = unknown
    """,
    shape=_concat_shape,
    any_device=True,
)
def tensor_list_concat(
    ctx: KernelContext, handle: object, *, element_dtype: DType, element_shape: TensorShape
) -> Any:
    """Return all elements joined along their first axis, and their lengths."""
    return _joined(as_list(handle, element_dtype), element_shape.sizes, [])


@op(
    """
    TensorListConcatV2(input_handle: variant, element_shape: shape_type, leading_dims: int64)
    -> tensor: element_dtype, lengths: int64
    element_dtype: type
    shape_type: type in indices
    """,
    shape=_concat_shape,
    any_device=True,
    checked_outputs=0,
)
def tensor_list_concat_v2(
    ctx: KernelContext,
    handle: object,
    element_shape: Array,
    leading_dims: Array,
    *,
    element_dtype: DType,
) -> Any:
    """Return all elements joined along their first axis, and their lengths.

    leading_dims says how long elements are that were never set.
    """
    source = as_list(handle, element_dtype)
    return _joined(source, as_dims(element_shape), as_vector(leading_dims, "leading_dims"))


def _joined(source: TensorList, given: Dims, lengths: Sequence[int]) -> tuple[Any, Any]:
    items = source.items()
    dims = merge_shapes(given, source.element_shape, "element_shape and list")
    if dims == ():
        raise fail("elements must have an axis along which to join; they are scalars")
    first = None if dims is None else dims[0]
    tail: Dims = None if dims is None else dims[1:]
    for item in items:
        if item is not UNSET:
            if not np.ndim(item):
                raise fail("elements must have an axis along which to join; one is a scalar")
            tail = merge_shapes(tail, np.shape(item)[1:], "the elements (all sizes but the first)")
    full = full_dims(tail, "the list has no element that is set")
    parts = []
    for index, item in enumerate(items):
        if item is UNSET:
            length = lengths[index] if index < len(lengths) else -1
            length = first if length < 0 and first is not None else length
            if length < 0:
                raise fail(
                    f"element {index} was never set; leading_dims must say how long it is, and "
                    f"has {len(lengths)} sizes"
                )
            item = zeros((length, *full), source.element_dtype)
        parts.append(item)
    dtype = source.element_dtype.as_numpy_dtype
    joined = np.concatenate(parts) if parts else np.empty((0, *full), dtype)
    return joined, np.array([len(part) for part in parts], np.int64)
