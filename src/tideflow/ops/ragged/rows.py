"""Rows of ragged tensors chosen and joined: gather, concat, stack, boolean_mask, indexing.

Source: tensorflow/python/ops/ragged/ragged_gather_ops.py, ragged_concat_ops.py,
ragged_array_ops.py, ragged_getitem.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.static_value import static_value
from tideflow.graph.types import TensorLike
from tideflow.ops.array import boolean_mask as dense_boolean_mask
from tideflow.ops.array import gathering as array_gather
from tideflow.ops.array import getitem as dense_getitem
from tideflow.ops.array import joining as array_join
from tideflow.ops.array import shapes as array
from tideflow.ops.export import export, overload
from tideflow.ops.ragged import partition
from tideflow.ops.ragged.makers import from_row_lengths, from_tensor
from tideflow.ops.ragged.tensor import RaggedTensor, rows_of
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError


def _axis(axis: object, rank: int | None) -> Any:
    if not isinstance(axis, int):
        axis = int(static_value(*convert_to_tensor(axis).edge))
    if axis < 0:
        if rank is None:
            raise ValueError("a negative axis needs a known rank")
        axis += rank
    if axis < 0 or (rank is not None and axis >= rank):
        raise ValueError(f"axis {axis} is out of bounds for rank {rank}")
    return axis


# ---- gather


@overload("gather")
def gather(
    params: Any,
    indices: Any,
    validate_indices: bool | None = None,
    axis: object | None = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Any:
    """Return the rows of params that indices name; either may be ragged.

    batch_dims: 1 to choose from each row by indices of its own.
    Raises: ValueError for other axes; InvalidArgumentError for rows that are not there.
    """
    at = batch_dims if axis is None else axis
    if at != batch_dims or batch_dims not in (0, 1):
        return _gather_further(params, indices, at, batch_dims)
    if batch_dims:
        return _gather_in_rows(params, indices)
    if isinstance(indices, RaggedTensor):
        return indices.with_values(gather(params, indices.values))
    if not isinstance(params, RaggedTensor):
        return array_gather.gather(params, indices)
    wanted = convert_to_tensor(indices)
    if not wanted.dtype.is_integer:
        raise InvalidArgumentError(f"indices of gather are integers; found {wanted.dtype.name}")
    if wanted.dims == ():
        return _row(params, wanted)
    if wanted.dims is None:
        raise ValueError("gather of a ragged tensor needs indices of known rank")
    splits, values = apply_op(
        "RaggedGather",
        list(params.nested_row_splits),
        params.flat_values,
        wanted,
        OUTPUT_RAGGED_RANK=len(wanted.dims) + params.ragged_rank - 1,
    )
    for each in reversed(splits):
        values = rows_of(values, each)
    return values


def _gather_further(params: Any, indices: Any, axis: Any, batch_dims: int) -> Any:
    """Return what is gathered along an inner axis, or in batches of several dimensions."""
    if not isinstance(params, RaggedTensor):
        params = convert_to_tensor(params)
    at = _axis(axis, params.shape.rank)
    batch = batch_dims if batch_dims >= 0 else batch_dims + indices.shape.rank
    if not 0 <= batch <= at:
        raise ValueError(f"batch_dims {batch_dims} must not be above the axis, {axis}")
    if batch:
        outer = [x if isinstance(x, RaggedTensor) else from_tensor(x) for x in (params, indices)]
        values, inner = (each.values for each in outer)
        return outer[0].with_values(gather(values, inner, axis=at - 1, batch_dims=batch - 1))
    if isinstance(indices, RaggedTensor):
        return _gather_ragged_inside(params, indices, at)
    if isinstance(indices, RaggedTensor):
        return _gather_ragged_inside(params, indices, at)
    if not isinstance(params, RaggedTensor):
        return array_gather.gather(params, indices, axis=at)
    if at > 1:
        return params.with_values(gather(params.values, indices, axis=at - 1))
    wanted = convert_to_tensor(indices)
    if wanted.dims is None or len(wanted.dims) > 1:
        raise ValueError("gather along axis 1 of a ragged tensor takes a scalar or a vector")
    vector = wanted if wanted.dims else apply_op("ExpandDims", wanted, 0)
    count = apply_op("ExpandDims", params.nrows(dtypes.int64), 0)
    one = convert_to_tensor([1], dtypes.int64)
    each = apply_op(
        "Tile", apply_op("ExpandDims", vector, 0), apply_op("ConcatV2", [count, one], 0)
    )
    found = _gather_in_rows(params, each)
    if wanted.dims:
        return found
    return (
        found.values if isinstance(found, RaggedTensor) else dense_getitem(found, (slice(None), 0))
    )


def _gather_ragged_inside(params: Any, indices: RaggedTensor, axis: int) -> RaggedTensor:
    """Return what all ragged indices choose along an axis after the first."""
    rows = params if isinstance(params, RaggedTensor) else from_tensor(params)
    if axis > 1:
        return rows.with_values(_gather_ragged_inside(rows.values, indices, axis - 1))
    found = gather(params, indices.flat_values, axis=1)
    chosen = found if isinstance(found, RaggedTensor) else from_tensor(found)
    # Each row of params has the rows of the indices.
    count = indices.nrows()
    times = partition.number(rows.nrows(), count.dtype)
    order = apply_op("Tile", partition.up_to(count), apply_op("ExpandDims", times, 0))
    inner = gather(indices, order).with_flat_values(chosen.values)
    return rows_of(inner, partition.uniform_splits(times, count), count)


def _gather_in_rows(params: object, indices: object) -> Any:
    rows = params if isinstance(params, RaggedTensor) else from_tensor(params)
    wanted = indices if isinstance(indices, RaggedTensor) else from_tensor(indices)
    kind = rows.row_splits.dtype
    ids = partition.number(wanted.value_rowids(), kind)
    inner = wanted.flat_values
    places = partition.number(inner, kind)
    starts, lengths = (
        apply_op("GatherV2", x, ids, 0) for x in (rows.row_starts(), rows.row_lengths())
    )
    places = partition.require(
        apply_op("AddV2", places, starts),
        (apply_op("GreaterEqual", places, partition.number(0, kind)), "indices are not negative"),
        (apply_op("Less", places, lengths), "indices are within their rows"),
    )
    found = gather(rows.values, places)
    if isinstance(indices, RaggedTensor) or isinstance(found, RaggedTensor):
        return wanted.with_values(found)
    shape = apply_op("Shape", found)
    outer = apply_op("Shape", convert_to_tensor(indices))
    sizes = apply_op("ConcatV2", [outer, dense_getitem(shape, slice(1, None))], 0)
    return apply_op("Reshape", found, sizes)


# ---- joining


def _all_ragged(values: Sequence[Any]) -> list[RaggedTensor]:
    kinds = [v.dtype for v in values if isinstance(v, (RaggedTensor, Tensor))]
    made = []
    for value in values:
        given = value
        if not isinstance(value, RaggedTensor):
            given = from_tensor(convert_to_tensor(value, kinds[0] if kinds else None))
        made.append(given)
    splits = {ragged.row_splits.dtype for ragged in made}
    return [r.with_row_splits_dtype(dtypes.int64) for r in made] if len(splits) > 1 else made


def _one_after_other(parts: Sequence[Any]) -> Any:
    """Return the rows of all parts; those of tensors as tensors."""
    if len(parts) == 1:
        return parts[0]
    if not any(isinstance(part, RaggedTensor) for part in parts):
        return array_join.concat(list(parts), 0)
    ragged = _all_ragged(parts)
    splits, offset = [ragged[0].row_splits], dense_getitem(ragged[0].row_splits, -1)
    for part in ragged[1:]:
        splits.append(apply_op("AddV2", dense_getitem(part.row_splits, slice(1, None)), offset))
        offset = dense_getitem(splits[-1], -1)
        if part.row_splits.dims == (1,):
            splits.pop()
            offset = dense_getitem(splits[-1], -1)
    return rows_of(
        _one_after_other([part.values for part in ragged]), apply_op("ConcatV2", splits, 0)
    )


def _same_rows(parts: Sequence[RaggedTensor], what: str) -> RaggedTensor:
    """Return the first part, where all have rows of the same lengths."""
    first = parts[0]
    alike = [apply_op("Equal", first.row_splits, each.row_splits) for each in parts[1:]]
    splits = partition.require(first.row_splits, *((each, what) for each in alike))
    return rows_of(first.values, splits, first.uniform_row_length)


def _in_turns(parts: Sequence[RaggedTensor]) -> RaggedTensor:
    """Return the first rows of all parts, then the second ones ..."""
    count = parts[0].nrows()
    alike = [(apply_op("Equal", count, each.nrows()), "as many rows") for each in parts[1:]]
    count = partition.require(count, *alike)
    size = partition.number(len(parts), count.dtype)
    places = partition.up_to(apply_op("Mul", count, size))
    square = apply_op("Reshape", places, apply_op("Pack", [size, count]))
    order = apply_op("Reshape", apply_op("Transpose", square, [1, 0]), [-1])
    found: RaggedTensor = gather(_one_after_other(parts), order)
    return found


@overload("concat")
def concat(values: TensorLike, axis: TensorLike, name: str | None = None) -> Any:
    """Return ragged tensors, and dense ones among them, joined along an axis.

    Raises: ValueError for an axis that is not there; InvalidArgumentError for rows that differ
    in number before the axis.
    """
    parts = list(values) if isinstance(values, (list, tuple)) else [values]
    ragged = _all_ragged(parts)
    at = _axis(axis, ragged[0].shape.rank)
    if at == 0:
        return _one_after_other(ragged)
    if at == 1:
        mixed = _in_turns(ragged)
        splits = dense_getitem(mixed.row_splits, slice(None, None, len(ragged)))
        return rows_of(mixed.values, splits)
    first = _same_rows(ragged, "rows before the axis have the same lengths")
    inner = [part.values for part in (first, *ragged[1:])]
    if any(isinstance(part, RaggedTensor) for part in inner):
        return first.with_values(concat(inner, at - 1))
    return first.with_values(array_join.concat(inner, at - 1))


@overload("stack")
@export("ragged.stack")
def stack(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Return tensors, ragged or not, put on top of each other along a new axis.

    Raises: ValueError for an axis that is not there.
    """
    parts: list[Any] = [v if isinstance(v, RaggedTensor) else convert_to_tensor(v) for v in values]
    rank = parts[0].shape.rank
    at = _axis(axis, None if rank is None else rank + 1)
    if rank == 0:
        return array_join.stack(parts, 0)
    if rank == 1 and at == 0:
        counts = [partition.count_of(part, dtypes.int64) for part in parts]
        joined = array_join.concat(parts, 0)
        return from_row_lengths(joined, apply_op("Pack", counts), validate=False)
    if rank == 1:
        return from_tensor(array_join.stack(parts, 1))
    ragged = _all_ragged(parts)
    if at == 0:
        counts = apply_op("Pack", [part.nrows() for part in ragged])
        return from_row_lengths(_one_after_other(ragged), counts, validate=False)
    if at == 1:
        size = partition.number(len(ragged), ragged[0].row_splits.dtype)
        splits = partition.uniform_splits(ragged[0].nrows(), size)
        return rows_of(_in_turns(ragged), splits)
    first = _same_rows(ragged, "rows before the axis have the same lengths")
    return first.with_values(stack([part.values for part in (first, *ragged[1:])], at - 1))


@overload("expand_dims")
def expand_dims(input: RaggedTensor, axis: object, name: str | None = None) -> RaggedTensor:
    """Return a ragged tensor with an axis of size 1 more."""
    rank = input.shape.rank
    at = _axis(axis, None if rank is None else rank + 1)
    kind = input.row_splits.dtype
    one = partition.number(1, kind)
    if at > 1:
        inner = input.values
        if isinstance(inner, RaggedTensor):
            return input.with_values(expand_dims(inner, at - 1))
        return input.with_values(array.expand_dims(inner, at - 1))
    rows = input.nrows()
    if at == 0:
        return rows_of(input, apply_op("Pack", [partition.number(0, kind), rows]), rows)
    return rows_of(input, partition.uniform_splits(rows, one), one)


@overload("reverse")
def reverse(tensor: Any, axis: TensorLike, name: str | None = None) -> Any:
    """Return a ragged tensor turned round along axes, a list of numbers."""
    made = tensor
    for at in axis if isinstance(axis, (list, tuple)) else [axis]:
        keys = [slice(None)] * _axis(at, tensor.shape.rank)
        made = getitem(made, [*keys, slice(None, None, -1)])
    return made


@overload("tile")
def tile(input: TensorLike, multiples: Any, name: str | None = None) -> Any:
    """Return a ragged tensor repeated along each axis; multiples is a list of numbers."""
    made = input
    for axis, count in enumerate(multiples):
        if count != 1:
            made = (
                concat([made] * count, axis)
                if count
                else getitem(made, [*[slice(None)] * axis, slice(0, 0)])
            )
    return made


# ---- masks


@export("ragged.boolean_mask")
@overload("boolean_mask")
def boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """Return the elements for which a mask is true, with the mask's dimensions kept.

    Args:
      data, mask: ragged or dense; the mask's dimensions are the first of the data's.
    Raises: ValueError for a scalar mask; InvalidArgumentError for rows of other lengths.
    """
    chosen = mask if isinstance(mask, RaggedTensor) else convert_to_tensor(mask, dtypes.bool_)
    given = data if isinstance(data, RaggedTensor) else convert_to_tensor(data)
    if chosen.shape.rank in (0, None):
        raise ValueError("the mask of boolean_mask must have a known rank of 1 at least")
    if chosen.shape.rank == 1:
        if not isinstance(given, RaggedTensor):
            return dense_boolean_mask(given, chosen)
        given.shape[:1].assert_is_compatible_with(chosen.shape)
        places = apply_op("Squeeze", apply_op("Where", chosen), squeeze_dims=[1])
        return gather(given, places)
    which = (
        chosen
        if isinstance(chosen, RaggedTensor)
        else from_tensor(chosen, ragged_rank=(chosen.shape.rank or 2) - 1)
    )
    rows = (
        given
        if isinstance(given, RaggedTensor)
        else from_tensor(given, ragged_rank=which.ragged_rank)
    )
    which = _same_rows([which, rows], "data and mask have rows of the same lengths")
    kept = boolean_mask(rows.values, which.values)
    if isinstance(which.values, RaggedTensor):
        return rows_of(kept, which.row_splits)
    ones = apply_op("Cast", which.values, DstT=which.row_splits.dtype)
    counts = apply_op("UnsortedSegmentSum", ones, which.value_rowids(), which.nrows())
    return from_row_lengths(kept, counts, validate=False)


# ---- rt[...]


def _row(ragged: RaggedTensor, index: object) -> Any:
    """Return one row.  Raises: IndexError where it is not there, InvalidArgumentError when run."""
    kind = ragged.row_splits.dtype
    if isinstance(index, int) and get_default_graph().is_eager:
        count = (ragged.shape.sizes or (0,))[0] or 0
        if not -count <= index < count:
            raise IndexError(f"there is no row {index} of {count}")
    at, rows = partition.number(index, kind), ragged.nrows()
    zero = partition.number(0, kind)
    at = apply_op("SelectV2", apply_op("Less", at, zero), apply_op("AddV2", at, rows), at)
    inside = apply_op("LogicalAnd", apply_op("GreaterEqual", at, zero), apply_op("Less", at, rows))
    at = partition.require(at, (inside, f"there is no row {index}"))
    begin = dense_getitem(ragged.row_splits, at)
    end = dense_getitem(ragged.row_splits, apply_op("AddV2", at, partition.number(1, kind)))
    return _part(ragged.values, slice(begin, end))


def _part(values: object, part: slice) -> Any:
    """Return the rows of a slice, of a tensor or a ragged one."""
    if not isinstance(values, RaggedTensor):
        return dense_getitem(values, part)
    places = partition.up_to(values.nrows())
    return gather(values, dense_getitem(places, part))


def _columns(ragged: RaggedTensor, part: slice) -> RaggedTensor:
    """Return a slice of each row."""
    if part == slice(None):
        return ragged
    kind = ragged.row_splits.dtype
    step = 1 if part.step is None else part.step
    if not isinstance(step, int) or step == 0:
        raise ValueError(f"the step of a slice of rows is a number other than 0; found {step!r}")
    lengths = ragged.row_lengths()
    low, high = partition.number(0, kind), lengths
    if step < 0:
        low, high = (apply_op("Sub", x, partition.number(1, kind)) for x in (low, high))

    def bound(given: object, default: Any) -> Any:
        if given is None:
            return apply_op("AddV2", default, apply_op("ZerosLike", lengths))
        at = partition.number(given, kind)
        from_end = apply_op("Less", at, partition.number(0, kind))
        at = apply_op("SelectV2", from_end, apply_op("AddV2", at, lengths), at)
        return apply_op("Maximum", low, apply_op("Minimum", at, high))

    first, last = (low, high) if step > 0 else (high, low)
    starts = ragged.row_starts()
    begin, end = (
        apply_op("AddV2", starts, x) for x in (bound(part.start, first), bound(part.stop, last))
    )
    splits, places = apply_op("RaggedRange", begin, end, partition.number(step, kind), Tsplits=kind)
    return rows_of(gather(ragged.values, places), splits)


def getitem(ragged: Any, key: object) -> Any:
    """Return `ragged[key]`: numbers, slices, `...` and tf.newaxis; or a ragged mask.

    Raises: ValueError for a number at a ragged dimension; InvalidArgumentError for a row that is
    not there.
    """
    if isinstance(key, RaggedTensor):
        return boolean_mask(ragged, key)
    keys = list(key) if isinstance(key, (list, tuple)) else [key]
    if Ellipsis in [k for k in keys if k is Ellipsis]:
        keys = _without_ellipsis(keys, ragged.shape.rank)
    return _item(ragged, keys)


def _without_ellipsis(keys: list[Any], rank: int | None) -> list[Any]:
    if rank is None:
        raise ValueError("an ellipsis needs a known rank")
    at = next(i for i, k in enumerate(keys) if k is Ellipsis)
    given = sum(k is not None for k in keys) - 1
    return [*keys[:at], *[slice(None)] * (rank - given), *keys[at + 1 :]]


def _item(value: object, keys: list[Any]) -> Any:
    if not keys:
        return value
    if not isinstance(value, RaggedTensor):
        return dense_getitem(value, tuple(keys))
    first, *rest = keys
    if first is None:
        return _inside(expand_dims(value, 0), rest)
    if not isinstance(first, slice):
        return _item(_row(value, first), rest)
    rows = value if first == slice(None) else _part(value, first)
    return _inside(rows, rest)


def _inside(rows: RaggedTensor, keys: list[Any]) -> Any:
    """Return what keys choose of each row."""
    if not keys:
        return rows
    first, *rest = keys
    if first is None:
        return _deeper(expand_dims(rows, 1), rest)
    if isinstance(first, slice):
        return _deeper(_columns(rows, first), rest)
    if rows.uniform_row_length is None:
        raise ValueError("cannot index into an inner ragged dimension with a number; use a slice")
    chosen = apply_op("AddV2", rows.row_starts(), partition.number(first, rows.row_splits.dtype))
    return _inside_or_all(gather(rows.values, chosen), rest)


def _inside_or_all(value: Tensor, keys: list[Any]) -> Any:
    return _item(value, [slice(None), *keys]) if keys else value


def _deeper(rows: RaggedTensor, keys: list[Any]) -> Any:
    """Return rows with keys applied to what is within them."""
    if not keys:
        return rows
    return rows_of(
        _item(rows.values, [slice(None), *keys]), rows.row_splits, rows.uniform_row_length
    )


setattr(RaggedTensor, "__getitem__", getitem)  # noqa: B010 - the class comes first
