"""Joining, splitting and repeating tensors along an axis.

Source: tensorflow/core/ops/array_ops.cc for signatures and shape rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph import roles, shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.dimension import Dimension
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, format_dims
from tideflow.graph.static_value import joined_sizes, packed_sizes
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import check_scalar, check_vector
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError

# ---- stacking


def _merge_all(given: Sequence[Dims]) -> Dims:
    found: Dims = None
    for dims in given:
        found = shapes.merge(found, dims)
    return found


def _pack_shape(c: ShapeContext) -> list[Dims]:
    found = _merge_all(c.inputs)
    if found is None:
        return [None]
    axis, rank = c.attrs["axis"], len(found) + 1
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} lies outside [{-rank}, {rank})")
    axis %= rank
    return [(*found[:axis], len(c.inputs), *found[axis:])]


@op(
    """
    Pack(values: N * T) -> output: T
    N: int >= 1
    T: type
    axis: int = 0
    """,
    shape=_pack_shape,
    compiles=Compiles.ALWAYS,
    partial_value=packed_sizes,
    is_stated=True,
)
def pack_kernel(xp: ArrayNamespace, values: list[Any], *, axis: int, T: DType) -> Any:
    """Return the values along a new axis.

    Raises: InvalidArgumentError for values of different shapes, or an axis that is not there.
    """
    try:
        is_plain = T.as_numpy_dtype is not object
        if xp is np and is_plain and not axis and not any(map(np.ndim, values)):
            return np.array(values, T.as_numpy_dtype)
        return xp.stack(values, axis)
    except ValueError:
        found = [list(np.shape(value)) for value in values]
        raise InvalidArgumentError(
            f"Shapes of all inputs must match, and the axis lie within; found {found} and axis "
            f"{axis}"
        ) from None


@gradient("Pack")
def pack_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Take the gradient apart."""
    parts: list[Any] = apply_op("Unpack", grad, num=op.attrs["N"], axis=op.attrs["axis"])
    return parts


@export("stack")
def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Return tensors of one shape joined along a new axis.

    Args:
      values: tensors of one shape and type, a list.
      axis: where the new dimension is; negative numbers count from the end.
    Returns: a tensor of one dimension more, of size len(values).
    Raises: ValueError, or InvalidArgumentError, for shapes that differ or an axis out of range.
    Example:
      >>> tf.stack([[1, 2], [3, 4]], axis=1).numpy().tolist()
      [[1, 3], [2, 4]]
    """
    if isinstance(values, Tensor):
        values = list(values)
    if axis == 0 and not _any_tensor(values):
        try:
            return convert_to_tensor(values, name=name)
        except (TypeError, ValueError):
            pass  # perhaps of shapes that are known only as tensors
    if axis == 0:  # as a list that is converted, in which variables decide, too
        dtype = next((v.dtype.base_dtype for v in values if _is_tensor(v)), None)
        if dtype is not None:
            values = [v if isinstance(v, Tensor) else convert_to_tensor(v, dtype) for v in values]
    made: Tensor = apply_op("Pack", _converted(values), axis=axis, name=name)
    return made


@export("parallel_stack")
def parallel_stack(values: TensorLike, name: str = "parallel_stack") -> Tensor:
    """Return tensors of one shape joined along a new first axis.

    Raises: RuntimeError where operations are called at once, as TensorFlow's does.
    """
    if get_default_graph().is_eager:
        raise RuntimeError("tf.parallel_stack() is not compatible with eager execution.")
    return stack(values, 0, name)


def _any_tensor(values: Sequence[Any]) -> bool:
    return any(map(_is_tensor, values))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "_as_graph_element")


def _converted(values: Sequence[Any]) -> list[Tensor]:
    """Convert a list to tensors of one type, which the first tensor in it decides.

    Without one the first value does where operations are called at once; in graphs each has a type
    of its own, and TypeError is raised where these differ.
    """
    dtype = next((v.dtype.base_dtype for v in values if isinstance(v, Tensor)), None)
    first_decides = get_default_graph().is_eager
    made: list[Tensor] = []
    for value in values:
        is_given = isinstance(value, Tensor)  # its type, if it differs, is the op's to refuse
        made.append(value if is_given else convert_to_tensor(value, dtype))
        if first_decides:
            dtype = dtype or made[-1].dtype.base_dtype
    types = [one.dtype.base_dtype for one in made]
    if dtype is None and len(set(types)) > 1:
        names = ", ".join(one.name for one in types)
        raise TypeError(f"values to be joined have types [{names}] that don't all match")
    return made


def _unpack_shape(c: ShapeContext) -> list[Dims]:
    given, count = c.inputs[0], c.attrs["num"]
    if given is None:
        return [None] * count
    axis, rank = c.attrs["axis"], len(given)
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} lies outside [{-rank}, {rank})")
    axis %= rank
    if given[axis] not in (None, count):
        raise ValueError(f"axis {axis} of {format_dims(given)} does not have the {count} of num")
    return [(*given[:axis], *given[axis + 1 :])] * count


@op(
    """
    Unpack(value: T) -> output: num * T
    num: int >= 0
    T: type
    axis: int = 0
    """,
    shape=_unpack_shape,
    compiles=Compiles.ALWAYS,
    checked_outputs=0,
)
def unpack_kernel(xp: ArrayNamespace, value: Any, *, num: int, axis: int) -> Any:
    """Return the slices of value along an axis, without that axis.

    Raises: InvalidArgumentError when the axis has not size num.
    """
    rank = np.ndim(value)
    if not -rank <= axis < rank or np.shape(value)[axis] != num:
        raise InvalidArgumentError(
            f"Unpack: axis {axis} of shape {list(np.shape(value))} must be there and have size "
            f"{num}"
        )
    # The trailing ellipsis keeps scalars of strings as arrays.
    before = (slice(None),) * (axis % rank)
    return [value[(*before, i, ...)] for i in range(num)]


@gradient("Unpack")
def unpack_grad(op: Operation, *grads: Tensor) -> list[Any]:
    """Put the gradients together."""
    axis = op.attrs["axis"]
    filled = [
        apply_op("ZerosLike", output) if grad is None else grad
        for output, grad in zip(op.outputs, grads)
    ]
    return [apply_op("Pack", filled, axis=axis)]


@export("unstack")
def unstack(
    value: TensorLike, num: int | None = None, axis: int = 0, name: str = "unstack"
) -> list[Tensor]:
    """Return the slices of a tensor along an axis.

    Raises: ValueError when num is not given and the size of the axis is not known now.
    """
    given = convert_to_tensor(value)
    if num is None:
        dims = given.dims
        if dims is None or not -len(dims) <= axis < len(dims) or dims[axis] is None:
            raise ValueError(f"unstack needs num: axis {axis} of shape {given.shape} is not known")
        num = dims[axis]
    made: list[Tensor] = apply_op("Unpack", given, num=num, axis=axis, name=name)
    return made


# ---- concatenation


def _concat_dims(parts: Sequence[Dims], axis: Any) -> Dims:
    ranks = {len(dims) for dims in parts if dims is not None}
    if not ranks:
        return None
    if len(ranks) > 1:
        raise ValueError(f"the values have different ranks: {sorted(ranks)}")
    rank = ranks.pop()
    if axis is None:
        return (None,) * rank
    at = int(np.reshape(axis, ()))
    if not -rank <= at < rank:
        raise ValueError(f"axis {at} lies outside [{-rank}, {rank})")
    at %= rank
    total: int | None = 0
    rest: Dims = None
    for dims in parts:
        size = None if dims is None else dims[at]
        total = None if total is None or size is None else total + size
        rest = shapes.merge(rest, None if dims is None else (*dims[:at], None, *dims[at + 1 :]))
    assert rest is not None
    return (*rest[:at], total, *rest[at + 1 :])


def _concat_v2_shape(c: ShapeContext) -> list[Dims]:
    return [_concat_dims(c.inputs[:-1], c.value(len(c.inputs) - 1))]


def _concat_shape(c: ShapeContext) -> list[Dims]:
    return [_concat_dims(c.inputs[1:], c.value(0))]


@op(
    """
    ConcatV2(values: N * T, axis: Tidx) -> output: T
    N: int >= 2
    T: type
    Tidx: type in indices = int32
    """,
    shape=_concat_v2_shape,
    static=("axis",),
    compiles=Compiles.ALWAYS,
    partial_value=joined_sizes,
    is_stated=True,
    checked_outputs=0,
)
def concat_v2_kernel(xp: ArrayNamespace, values: list[Any], axis: Array) -> Any:
    """Return the values joined along an axis.

    Raises: InvalidArgumentError for sizes that differ elsewhere, or an axis that is not there.
    """
    try:
        return xp.concatenate(values, int(axis.item()))
    except ValueError:
        found = [list(np.shape(value)) for value in values]
        raise InvalidArgumentError(
            f"ConcatOp : Dimensions of inputs should match but along axis {axis.tolist()}; found "
            f"shapes {found}"
        ) from None


@op(
    """
    Concat(concat_dim: int32, values: N * T) -> output: T
    N: int >= 2
    T: type
    """,
    shape=_concat_shape,
    static=("concat_dim",),
    compiles=Compiles.ALWAYS,
    is_stated=True,
    checked_outputs=0,
)
def concat_kernel(xp: ArrayNamespace, axis: Array, values: list[Any]) -> Any:
    """Return the values joined along an axis (see ConcatV2)."""
    return concat_v2_kernel(xp, values, axis)


def _parts_of(grad: Tensor, values: Sequence[Tensor], axis: Tensor) -> list[Any]:
    """Cut a gradient into the parts that belong to concatenated values."""
    sizes = [v.dims for v in values]
    at = axis.op.attrs["value"] if axis.op.op_def.role is roles.CONST else None
    if at is not None and all(d is not None and d[int(at)] is not None for d in sizes):
        lengths: Any = np.array([d[int(at)] for d in sizes if d is not None], np.int64)
        where = axis_int32(axis)
        parts: list[Any] = apply_op("SplitV", grad, lengths, where, num_split=len(values))
        return parts
    extents = apply_op("ShapeN", list(values))
    rank = apply_op("Rank", values[0])
    positive = apply_op("FloorMod", axis_int32(axis), rank)
    offsets = apply_op("ConcatOffset", positive, extents)
    return [apply_op("Slice", grad, begin, extent) for begin, extent in zip(offsets, extents)]


def axis_int32(axis: Tensor) -> Tensor:
    """Return an axis as int32."""
    if axis.dtype.base_dtype is dtypes.int32:
        return axis
    made: Tensor = apply_op("Cast", axis, DstT=dtypes.int32)
    return made


@gradient("ConcatV2")
def concat_v2_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Cut the gradient into the values' parts."""
    *values, axis = op.inputs
    return [*_parts_of(grad, values, axis), None]


@gradient("Concat")
def concat_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Cut the gradient into the values' parts."""
    axis, *values = op.inputs
    return [None, *_parts_of(grad, values, axis)]


@export("concat")
def concat(values: TensorLike, axis: TensorLike, name: str = "concat") -> Tensor:
    """Return tensors joined along an axis.

    Args:
      values: tensors of one type, with the same sizes beside the axis.
      axis: an int32 or int64 scalar; negative numbers count from the end.
    Returns: a tensor whose size along the axis is the sum of theirs.
    Raises: ValueError, or InvalidArgumentError, for sizes that differ or an axis that is not there.
    Example:
      >>> tf.concat([[[1, 2]], [[3, 4]]], axis=0).numpy().tolist()
      [[1, 2], [3, 4]]
    """
    if not isinstance(values, (list, tuple)):
        values = [values]
    made: Tensor
    if len(values) == 1:
        made = apply_op("Identity", values[0], name=name)
    else:
        made = apply_op("ConcatV2", _converted(values), axis, name=name)
    return made


def _concat_offset_shape(c: ShapeContext) -> list[Dims]:
    return list(c.inputs[1:])


@op(
    """
    ConcatOffset(concat_dim: int32, shape: N * shape_type) -> offset: N * shape_type
    N: int >= 2
    shape_type: type in indices = int32
    """,
    shape=_concat_offset_shape,
    static=("concat_dim", "shape"),
    compiles=Compiles.ALWAYS,
)
def concat_offset_kernel(xp: ArrayNamespace, axis: Array, sizes: list[Any]) -> Any:
    """Return where each of the values begins in their concatenation.

    Raises: InvalidArgumentError for shapes that differ elsewhere than at the axis.
    """
    check_scalar(axis, "ConcatOffset: the axis")
    at, rank = int(axis.item()), len(sizes[0])
    if not -rank <= at < rank:
        raise InvalidArgumentError(f"ConcatOffset: axis {at} lies outside [{-rank}, {rank})")
    at %= rank
    first = np.delete(sizes[0], at)
    offsets = []
    start = 0
    for extent in sizes:
        if len(extent) != rank or not np.array_equal(np.delete(extent, at), first):
            raise InvalidArgumentError(
                f"ConcatOffset: {extent.tolist()} differs from {sizes[0].tolist()} elsewhere than "
                f"at axis {at}"
            )
        offset = np.zeros(rank, extent.dtype)
        offset[at] = start
        offsets.append(offset)
        start += int(extent[at])
    return offsets


not_differentiable("ConcatOffset")

# ---- splitting


def _split_shape(c: ShapeContext) -> list[Dims]:
    given, count, axis = c.inputs[1], c.attrs["num_split"], c.value(0)
    if given is None:
        return [None] * count
    if axis is None:
        return [(None,) * len(given)] * count
    at = _axis_within(int(axis.reshape(())), given)
    size = given[at]
    if size is not None and size % count:
        raise ValueError(f"axis {at} of {format_dims(given)} does not divide into {count} parts")
    part = None if size is None else size // count
    return [(*given[:at], part, *given[at + 1 :])] * count


def _axis_within(axis: int, dims: Sequence[int | None]) -> int:
    rank = len(dims)
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} lies outside shape {format_dims(dims)}")
    return axis % rank


@op(
    """
    Split(split_dim: int32, value: T) -> output: num_split * T
    num_split: int >= 1
    T: type
    """,
    shape=_split_shape,
    static=("split_dim",),
    compiles=Compiles.ALWAYS,
)
def split_kernel(xp: ArrayNamespace, axis: Array, value: Array, *, num_split: int) -> Any:
    """Return num_split equal parts of value along an axis.

    Raises: InvalidArgumentError for an axis that is not there or does not divide.
    """
    check_scalar(axis, "Split: the axis")
    sizes, at = np.shape(value), int(axis.item())
    if not -len(sizes) <= at < len(sizes) or sizes[at] % num_split:
        raise InvalidArgumentError(
            f"Split: axis {at} of shape {list(sizes)} must be there and divide into {num_split} "
            "parts"
        )
    part = sizes[at] // num_split
    before = (slice(None),) * (at % len(sizes))
    return [value[(*before, slice(i * part, (i + 1) * part))] for i in range(num_split)]


def _split_v_shape(c: ShapeContext) -> list[Dims]:
    given, count, axis = c.inputs[0], c.attrs["num_split"], c.value(2)
    if given is None:
        return [None] * count
    if axis is None:
        return [(None,) * len(given)] * count
    at = _axis_within(int(axis.reshape(())), given)
    lengths = c.value(1)
    if lengths is None:
        return [(*given[:at], None, *given[at + 1 :])] * count
    found: list[int | None] = [None if n < 0 else n for n in lengths.reshape(-1).tolist()]
    size = given[at]
    known = sum(n for n in found if n is not None)
    if size is not None:
        if found.count(None) == 1 and known <= size:
            found[found.index(None)] = size - known
        elif None in found or known != size:
            raise ValueError(
                f"sizes {lengths.tolist()} do not add up to axis {at} of {format_dims(given)}"
            )
    return [(*given[:at], n, *given[at + 1 :]) for n in found]


@op(
    """
    SplitV(value: T, size_splits: Tlen, split_dim: int32) -> output: num_split * T
    num_split: int >= 1
    T: type
    Tlen: type in {int8, int32, int64} = int64
    """,
    shape=_split_v_shape,
    static=("size_splits", "split_dim"),
    compiles=Compiles.ALWAYS,
)
def split_v_kernel(
    xp: ArrayNamespace, value: Array, size_splits: Array, axis: Array, *, num_split: int
) -> Any:
    """Return parts of value with the sizes given (one may be -1) along an axis.

    Raises: InvalidArgumentError for an axis that is not there or sizes that do not add up.
    """
    check_vector(size_splits, "SplitV: size_splits")
    sizes, at = np.shape(value), int(axis.item())
    lengths = size_splits.reshape(-1).tolist()
    if not -len(sizes) <= at < len(sizes) or len(lengths) != num_split:
        raise InvalidArgumentError(
            f"SplitV: axis {at} of shape {list(sizes)} into {num_split} parts of sizes {lengths}"
        )
    if lengths.count(-1) == 1:
        lengths[lengths.index(-1)] = sizes[at] - sum(n for n in lengths if n != -1)
    if min(lengths) < 0 or sum(lengths) != sizes[at]:
        raise InvalidArgumentError(
            f"SplitV: sizes {size_splits.tolist()} do not add up to axis {at} of {list(sizes)}"
        )
    before = (slice(None),) * (at % len(sizes))
    starts = np.cumsum([0, *lengths]).tolist()
    return [value[(*before, slice(a, b))] for a, b in itertools.pairwise(starts)]


def _joined(op: Operation, grads: Sequence[Any], axis: Tensor) -> Any:
    filled = [
        apply_op("ZerosLike", output) if grad is None else grad
        for output, grad in zip(op.outputs, grads)
    ]
    return filled[0] if len(filled) == 1 else apply_op("ConcatV2", filled, axis)


@gradient("Split")
def split_grad(op: Operation, *grads: Tensor) -> list[Any]:
    """Join the parts."""
    return [None, _joined(op, grads, op.inputs[0])]


@gradient("SplitV")
def split_v_grad(op: Operation, *grads: Tensor) -> list[Any]:
    """Join the parts."""
    return [_joined(op, grads, op.inputs[2]), None, None]


@export("split")
def split(
    value: object,
    num_or_size_splits: TensorLike,
    axis: TensorLike = 0,
    num: int | None = None,
    name: str = "split",
) -> list[Tensor]:
    """Return a tensor cut along an axis: into so many equal parts, or into parts of given sizes.

    Args:
      num_or_size_splits: an int, or a vector of sizes, of which one may be -1.
      num: how many sizes there are, where that is not known now.
    Raises: ValueError when the number of parts is not known.
    """
    made: list[Tensor]
    if isinstance(num_or_size_splits, (int, np.integer, Dimension)):
        made = apply_op("Split", axis, value, num_split=int(num_or_size_splits), name=name)
        return made
    lengths = convert_to_tensor(num_or_size_splits)
    if lengths.dims == ():
        raise ValueError("a tensor as num_or_size_splits must be a vector of sizes")
    if num is None:
        num = None if lengths.dims is None else lengths.dims[0]
        if num is None:
            raise ValueError("split needs num: the number of sizes is not known")
    made = apply_op("SplitV", value, lengths, axis, num_split=num, name=name)
    return made
