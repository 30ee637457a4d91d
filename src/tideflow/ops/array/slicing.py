"""Slices of tensors, and `tensor[...]`.

A strided slice says, for each entry of Python's index, begin, end and stride; five bit masks tell
which entries are `...`, a new axis, a single index (whose axis is dropped), or leave out begin or
end.  Bit i stands for entry i; an ellipsis wins over a new axis, and that over a single index.

Source: tensorflow/core/util/strided_slice_op.cc, python/ops/tensor_getitem_override.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.behavior import behavior
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.dimension import Dimension
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, format_dims
from tideflow.graph.static_value import sliced_sizes
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.array.gathering import boolean_mask
from tideflow.ops.array.joining import axis_int32
from tideflow.ops.array.strided import MASKS, strided_index, traced_slice, traced_slice_grad
from tideflow.ops.export import export, export_value
from tideflow.ops.framework import shape_argument, zeros_of
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError

# ---- StridedSlice


def _entry(values: Dims, exact: Any, i: int) -> int | None:
    """Return entry i of a vector that is known exactly, or in part as sizes, or not."""
    if exact is not None:
        return int(exact[i])
    return None if values is None else values[i]


def _range_size(
    begin: int | None, end: int | None, stride: int | None, size: int | None, masks: tuple[int, int]
) -> int | None:
    """Return how many indices a range takes from a dimension, None if that is not known."""
    no_begin, no_end = masks
    if stride is None or size is None:
        return None
    if stride == 0:
        raise ValueError("a stride must not be 0")
    if (begin is None and not no_begin) or (end is None and not no_end):
        return None
    part = slice(None if no_begin else begin, None if no_end else end, stride)
    return len(range(*part.indices(size)))


def _strided_slice_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    lengths = [dims[0] for dims in c.inputs[1:4] if dims is not None and len(dims) == 1]
    count = next((n for n in lengths if n is not None), None)
    if given is None or count is None:
        return [None]
    return [_sliced(c, given, count)]


def _sliced(c: ShapeContext, given: tuple[int | None, ...], count: int) -> Dims:
    begins, ends, strides = (_partly(c, i) for i in (1, 2, 3))
    no_begin, no_end, ellipsis, new_axis, shrink = (c.attrs[mask] for mask in MASKS)
    new_axes = sum(1 for i in range(count) if new_axis & ~ellipsis & (1 << i))
    has_ellipsis = bool(ellipsis & ((1 << count) - 1))
    rest = len(given) - (count - new_axes - has_ellipsis)
    if rest < 0:
        raise ValueError(f"{count} indices for shape {format_dims(given)}")
    found: list[int | None] = []
    at = 0
    for i in range(count):
        bit = 1 << i
        if ellipsis & bit:
            found.extend(given[at : at + rest])
            at += rest
        elif new_axis & bit:
            found.append(1)
        else:
            size = given[at]
            at += 1
            begin = _entry(*begins, i)
            if shrink & bit:
                if begin is not None and size is not None and not -size <= begin < size:
                    raise ValueError(f"index {begin} lies outside a dimension of size {size}")
                continue
            masks = (no_begin & bit, no_end & bit)
            found.append(_range_size(begin, _entry(*ends, i), _entry(*strides, i), size, masks))
    return (*found, *given[at:])


def _partly(c: ShapeContext, which: int) -> tuple[Dims, Any]:
    exact = c.value(which)
    return (None if exact is not None else c.value_as_shape(which)), exact


@op(
    """
    StridedSlice(input: T, begin: Index, end: Index, strides: Index) -> output: T
    T: type
    Index: type in {int16, int32, int64}
    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0
    """,
    shape=_strided_slice_shape,
    static=("begin", "end", "strides"),
    compiles=Compiles.ALWAYS,
    traced=traced_slice,
    partial_value=sliced_sizes,
    checked_outputs=0,
)
def strided_slice_kernel(
    xp: ArrayNamespace,
    x: Array,
    begin: Array,
    end: Array,
    strides: Array,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Any:
    """Return part of x (see the module's text).  Raises: InvalidArgumentError."""
    index = strided_index(
        x.shape,
        (begin, end, strides),
        begin_mask,
        end_mask,
        ellipsis_mask,
        new_axis_mask,
        shrink_axis_mask,
    )
    return x[index]


def _shape_of_value(c: ShapeContext) -> list[Dims]:
    return [c.value_as_shape(0)]


@op(
    """
    StridedSliceGrad(shape: Index, begin: Index, end: Index, strides: Index, dy: T) -> output: T
    T: type
    Index: type in indices
    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0
    """,
    shape=_shape_of_value,
    static=("shape", "begin", "end", "strides"),
    compiles=Compiles.ALWAYS,
    traced=traced_slice_grad,
    checked_outputs=0,
)
def strided_slice_grad_kernel(
    xp: ArrayNamespace,
    shape: Array,
    begin: Array,
    end: Array,
    strides: Array,
    dy: Array,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Any:
    """Return zeros of the shape with dy in the place of the slice."""
    sizes = shape.tolist()
    index = strided_index(
        sizes,
        (begin, end, strides),
        begin_mask,
        end_mask,
        ellipsis_mask,
        new_axis_mask,
        shrink_axis_mask,
    )
    whole = zeros_of(xp, sizes, dy.dtype)
    if xp is not np:
        return whole.at[index].set(dy)
    if whole[index].shape != dy.shape:
        raise InvalidArgumentError(
            f"StridedSliceGrad: dy has shape {list(dy.shape)}, the slice {list(whole[index].shape)}"
        )
    whole[index] = dy
    return whole


def _masks_of(op: Operation) -> dict[str, Any]:
    return {mask: op.attrs[mask] for mask in MASKS}


@gradient("StridedSlice")
def strided_slice_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Put the gradient into zeros."""
    given, *bounds = op.inputs
    sizes = apply_op("Shape", given, out_type=bounds[0].dtype)
    return [apply_op("StridedSliceGrad", sizes, *bounds, grad, **_masks_of(op)), None, None, None]


@gradient("StridedSliceGrad")
def strided_slice_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Take the slice out of the gradient."""
    _, *bounds, _ = op.inputs
    part = apply_op("StridedSlice", grad, *bounds, **_masks_of(op))
    return [None, None, None, None, part]


@export("strided_slice")
def strided_slice(
    input_: TensorLike,
    begin: TensorLike,
    end: TensorLike,
    strides: int | Sequence[int] | None = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return a strided slice (see the module's text).

    Args:
      input_: of any shape and type.
      begin, end, strides: int16, int32 or int64, vectors of one length; strides are 1 if None.
      *_mask: bit i is about entry i: without begin or end, an ellipsis, a new axis, or an axis that
        goes.
      var: a variable, to part of which the result's `assign` assigns.
    Raises: ValueError, or InvalidArgumentError, for a stride of 0 or an index outside.
    """
    if strides is None:
        begin = convert_to_tensor(begin)
        strides = apply_op("OnesLike", begin)
    made: Tensor = apply_op(
        "StridedSlice",
        input_,
        begin,
        end,
        strides,
        begin_mask=begin_mask,
        end_mask=end_mask,
        ellipsis_mask=ellipsis_mask,
        new_axis_mask=new_axis_mask,
        shrink_axis_mask=shrink_axis_mask,
        name=name,
    )
    return made


# ---- Slice


def _slice_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    sizes = c.value(2)
    begins, begins_exact = _partly(c, 1)
    if sizes is None:
        partial = c.value_as_shape(2)
        if partial is not None:
            return [partial]
        return [None if given is None else (None,) * len(given)]
    lengths = sizes.reshape(-1).tolist()
    if given is None:
        return [tuple(None if n < 0 else n for n in lengths)]
    if len(given) != len(lengths):
        raise ValueError(f"{len(lengths)} sizes for shape {format_dims(given)}")
    found: list[int | None] = []
    for i, (n, size) in enumerate(zip(lengths, given)):
        begin = _entry(begins, begins_exact, i)
        if n == -1:
            found.append(None if begin is None or size is None else size - begin)
        else:
            found.append(n)
            if begin is not None and size is not None and begin + n > size:
                raise ValueError(
                    f"begin {begin} and size {n} lie outside dimension {i} of {format_dims(given)}"
                )
    return [tuple(found)]


@op(
    """
    Slice(input: T, begin: Index, size: Index) -> output: T
    T: type
    Index: type in indices
    """,
    shape=_slice_shape,
    static=("begin", "size"),
    compiles=Compiles.ALWAYS,
    checked_outputs=0,
)
def slice_kernel(xp: ArrayNamespace, x: Array, begin: Array, size: Array) -> Any:
    """Return the part of x from begin with the sizes given; a size of -1 takes the rest.

    Raises: InvalidArgumentError for a part that lies outside x.
    """
    dims, starts, lengths = x.shape, begin.tolist(), size.tolist()
    if len(starts) != len(dims) or len(lengths) != len(dims):
        raise InvalidArgumentError(
            f"Slice of shape {list(dims)} wants {len(dims)} begins and sizes; found {starts} and "
            f"{lengths}"
        )
    index: list[Any] = []
    for n, start, length in zip(dims, starts, lengths):
        end = n if length == -1 else start + length
        if not (0 <= start <= end <= n):
            raise InvalidArgumentError(
                f"Slice from {starts} of sizes {lengths} lies outside shape {list(dims)}"
            )
        index.append(slice(start, end))
    return x[(*index, ...)]


@gradient("Slice")
def slice_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Pad the gradient with zeros to the input's shape."""
    given, begin, _ = op.inputs
    index = begin.dtype.base_dtype
    whole = apply_op("Shape", given, out_type=index)
    part = apply_op("Shape", op.outputs[0], out_type=index)
    after = apply_op("Sub", apply_op("Sub", whole, part), begin)
    paddings = apply_op("Pack", [begin, after], axis=1)
    return [apply_op("Pad", grad, paddings), None, None]


def slice_(
    input_: TensorLike, begin: TensorLike, size: TensorLike, name: str | None = None
) -> Tensor:
    """Return the part of a tensor from begin with the sizes given; -1 takes the rest."""
    made: Tensor = apply_op("Slice", input_, shape_argument(begin), shape_argument(size), name=name)
    return made


export_value("slice", slice_)

# ---- tensor[...]


def getitem(tensor: object, key: object) -> Tensor:
    """Return `tensor[key]`.

    The key may hold ints, slices, `...`, None (tf.newaxis) and integer tensors, or be a boolean
    tensor or array, which selects along the first dimensions.
    Raises: TypeError for anything else; ValueError for two ellipses.
    """
    if _is_boolean(key):
        return boolean_mask(tensor, key)
    with get_default_graph().name_scope("strided_slice") as scope:
        bounds, masks = slice_bounds(key)
        made: Tensor = apply_op("StridedSlice", tensor, *bounds, name=scope, **masks)
        return made


def is_slice(tensor: Tensor) -> bool:
    """Whether a tensor is part of another one, as a key of numbers and slices selects it."""
    return tensor.op.type == "StridedSlice"


def slice_bounds(key: object) -> tuple[list[Any], dict[str, int]]:
    """Return begin, end and strides of a key that is not boolean, and its masks.

    Raises: as getitem.
    """
    entries = list(key) if isinstance(key, (tuple, list)) else [key]
    bounds: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    masks = dict.fromkeys(MASKS, 0)
    for i, entry in enumerate(entries):
        for bound, value in zip(bounds, _bounds_of(entry, 1 << i, masks)):
            bound.append(value)
    if masks["ellipsis_mask"].bit_count() > 1:
        raise ValueError("an index may have one ellipsis only")
    return _packed(bounds), masks


def _is_boolean(key: object) -> bool:
    if isinstance(key, list):
        return bool(key) and all(isinstance(item, (bool, np.bool_)) for item in key)
    dtype = getattr(key, "dtype", None)
    return dtype is not None and dtype in (dtypes.bool_, np.bool_)


def _bounds_of(entry: object, bit: int, masks: dict[str, int]) -> tuple[Any, Any, Any]:
    """Return begin, end and stride of one entry, and enter its bits in the masks."""
    if entry is Ellipsis:
        masks["ellipsis_mask"] |= bit
        return 0, 0, 1
    if entry is None:
        masks["new_axis_mask"] |= bit
        return 0, 0, 1
    if isinstance(entry, slice):
        if entry.start is None:
            masks["begin_mask"] |= bit
        if entry.stop is None:
            masks["end_mask"] |= bit
        return (
            0 if entry.start is None else _as_index(entry.start),
            0 if entry.stop is None else _as_index(entry.stop),
            1 if entry.step is None else _as_index(entry.step),
        )
    index = _as_index(entry)
    masks["shrink_axis_mask"] |= bit
    if isinstance(index, int):
        return index, index + 1, 1
    return index, apply_op("AddV2", index, 1), 1


def _as_index(value: object) -> Any:
    """Return an int, or a scalar tensor of an index type.  Raises: TypeError."""
    if isinstance(value, (int, np.integer, Dimension)) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu":
        return int(value)
    if isinstance(value, Tensor) or hasattr(value, "_as_graph_element"):
        tensor = convert_to_tensor(value)
        if tensor.dtype in (dtypes.int16, dtypes.int32, dtypes.int64):
            return tensor
    raise TypeError(
        f"an index must be an int, a slice, ..., None, or a scalar int32 or int64 tensor; found "
        f"{value!r}"
    )


def _packed(bounds: tuple[list[Any], list[Any], list[Any]]) -> list[Any]:
    """Return three vectors of one type: int64 if some tensor among them is, otherwise int32."""
    tensors = [v for bound in bounds for v in bound if isinstance(v, Tensor)]
    dtype = dtypes.int32
    if any(t.dtype is dtypes.int64 for t in tensors) or _exceeds_int32(bounds):
        dtype = dtypes.int64
    packed: list[Any] = []
    for bound in bounds:
        if any(isinstance(v, Tensor) for v in bound):
            values = [_with_type(v, dtype) for v in bound]
            packed.append(apply_op("Pack", values, axis=0, name="stack"))
        else:
            array = np.array(bound, dtype.as_numpy_dtype)
            packed.append(convert_to_tensor(array, dtype, "stack"))
    return packed


def _exceeds_int32(bounds: Sequence[list[Any]]) -> bool:
    return any(isinstance(v, int) and not -(2**31) <= v < 2**31 for bound in bounds for v in bound)


def _with_type(value: Tensor, dtype: dtypes.DType) -> Tensor:
    if isinstance(value, Tensor) and value.dtype.base_dtype is not dtype:
        if dtype is dtypes.int32:
            return axis_int32(value)
        made: Tensor = apply_op("Cast", value, DstT=dtype)
        return made
    return convert_to_tensor(value, dtype)


def _item(tensor: Tensor, key: object) -> Any:
    return getitem(tensor, key) if behavior.index is None else behavior.index(tensor, key)


Tensor.__getitem__ = _item  # type: ignore[method-assign]
