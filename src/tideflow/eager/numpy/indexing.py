"""Choosing elements: by places, by truth, and `tensor[...]` with NumPy's kinds of indices."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from tideflow.eager.numpy.arranging import moveaxis, ravel
from tideflow.eager.numpy.arrays import (
    as_tensor,
    asarray,
    at_least,
    axis_within,
    broadcast_together,
    promoted,
    rank,
)
from tideflow.graph.building import apply_op
from tideflow.graph.dimension import Dimension
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops import array as array_ops
from tideflow.ops.array import gathering, joining, shapes
from tideflow.ops.array.searching import where_v2
from tideflow.ops.export import export_v2
from tideflow.ops.math import clipping
from tideflow.ops.math.casts import cast
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype

# ---- by places


@export_v2("experimental.numpy.take")
def take(
    a: TensorLike,
    indices: TensorLike,
    axis: TensorLike | None = None,
    out: None = None,
    mode: str = "clip",
) -> Any:
    """Return the slices along an axis (None: of all elements in a row) that indices name.

    mode: what becomes of indices outside: "clip" takes the nearest, "wrap" counts round.
    Raises: ValueError for the mode "raise", and for out.
    """
    if out is not None:
        raise ValueError("a tensor cannot be written to: out must be None")
    if mode not in ("clip", "wrap"):
        raise ValueError(f"mode must be 'clip' or 'wrap'; found {mode!r}")
    x, places = asarray(a), asarray(indices)
    if axis is None:
        x, axis = ravel(x), 0
    size = apply_op("Shape", x, out_type=places.dtype)[axis]
    if mode == "wrap":
        places = apply_op("FloorMod", places, size)
    else:
        places = clipping.clip_by_value(places, 0, size - 1)
    return gathering.gather(x, places, axis=axis)


@export_v2("experimental.numpy.take_along_axis")
def take_along_axis(arr: TensorLike, indices: TensorLike, axis: int | None) -> Any:
    """Return the elements that indices name along an axis (None: of all in a row).

    Shapes: both of one known rank; the sizes but that of the axis broadcast.
    Raises: ValueError for a tensor of unknown rank.
    """
    x, places = asarray(arr), asarray(indices)
    if axis is None:
        x, axis = ravel(x), 0
    if x.dims is None:
        raise ValueError("take_along_axis takes a tensor of known rank")
    at = axis_within(axis, len(x.dims))
    x, places = (moveaxis(one, at, -1) for one in (x, places))
    sizes, wanted = (apply_op("Shape", one) for one in (x, places))
    rows = apply_op("BroadcastArgs", sizes[:-1], wanted[:-1])
    x = apply_op("BroadcastTo", x, apply_op("ConcatV2", [rows, sizes[-1:]], 0))
    places = apply_op("BroadcastTo", places, apply_op("ConcatV2", [rows, wanted[-1:]], 0))
    places = _from_start(places, cast(sizes[-1], places.dtype))
    found = gathering.gather(x, places, axis=len(x.dims) - 1, batch_dims=len(x.dims) - 1)
    return moveaxis(found, -1, at)


def _from_start(places: Any, size: TensorLike) -> Any:
    """Return indices that may count from the end as indices that count from the start."""
    zeros = apply_op("ZerosLike", places)
    return where_v2(apply_op("Less", places, zeros), apply_op("AddV2", places, size), places)


# ---- by truth


@export_v2("experimental.numpy.nonzero")
def nonzero(a: TensorLike) -> list[Any]:
    """Return the places of elements that are not 0: a vector of int64 for each dimension.

    Raises: ValueError for a tensor of unknown rank.
    """
    x = at_least(1, asarray(a))
    if x.dims is None:
        raise ValueError(f"nonzero takes a tensor of known rank; that of {x} is not known")
    places = apply_op("Where", cast(x, dtypes.bool_))
    return joining.unstack(places, len(x.dims), axis=1)


@export_v2("experimental.numpy.where")
def where(condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None) -> Any:
    """Return x where a condition holds and y elsewhere; without both, the places where it holds.

    Raises: ValueError for one without the other.
    """
    chosen = as_tensor(condition, dtypes.bool_)
    if x is None and y is None:
        return nonzero(chosen)
    if x is None or y is None:
        raise ValueError("give both x and y, or neither")
    return where_v2(chosen, *promoted(x, y))


@export_v2("experimental.numpy.select")
def select(condlist: Any, choicelist: Any, default: TensorLike = 0) -> Any:
    """Return, element by element, the choice whose condition is the first that holds.

    Raises: ValueError for no conditions, and another number of choices.
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(f"{len(condlist)} conditions do not go with {len(choicelist)} choices")
    found, *choices = promoted(default, *choicelist)
    for condition, choice in zip(reversed(condlist), reversed(choices)):
        found = where(condition, choice, found)
    return found


@export_v2("experimental.numpy.compress")
def compress(condition: TensorLike, a: TensorLike, axis: int | None = None) -> Any:
    """Return the slices along an axis (None: of all elements in a row) for which a vector holds.

    Shapes: the size of the axis is known; where the vector is shorter, the rest is left out.
    Raises: ValueError for a condition that is no vector.
    """
    chosen, x = as_tensor(condition, dtypes.bool_), asarray(a)
    if chosen.ndim != 1:
        raise ValueError(f"the condition must be a vector; found shape {chosen.shape}")
    if axis is None or x.ndim == 0:
        x = ravel(x)
    at = axis_within(axis or 0, x.ndim)
    lacking = x.dims[at] - (chosen.dims or (0,))[0]
    if lacking > 0:
        chosen = apply_op("ConcatV2", [chosen, np.zeros(lacking, bool)], 0)
    return gathering.boolean_mask(x, chosen, axis=at)


# ---- tensor[...]

_Entry = Any
_ALLOWED = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean "
    "arrays are valid indices"
)


def getitem(tensor: TensorLike, key: Any) -> Any:
    """Return `tensor[key]` as NumPy does: entries may be arrays and lists, too.

    A mask of bools chooses along the first dimensions.  Single indices do not count as arrays: they
    only drop their dimension.
    Raises: IndexError for an entry that is no index; NotImplementedError for a mask beside others
    that is no vector.
    """
    if _is_mask(key):
        return gathering.boolean_mask(tensor, key)
    entries = [_entry(one) for one in _entries(key)]
    whole = [slice(None) if _is_array(one) else one for one in entries]
    sliced = array_ops.getitem(tensor, tuple(whole))
    arrays = {_axis(entries, i): one for i, one in enumerate(entries) if _is_array(one)}
    return _gathered(sliced, arrays) if arrays else sliced


def _is_mask(key: Any) -> bool:
    return isinstance(key, bool) or getattr(key, "dtype", None) in (dtypes.bool_, np.bool_)


def _entries(key: Any) -> list[Any]:
    """Return the entries of a key; a list is one entry, unless it holds what no array can."""
    if isinstance(key, tuple):
        return list(key)
    return list(key) if isinstance(key, list) and any(map(_is_entry_alone, key)) else [key]


def _is_entry_alone(item: Any) -> bool:
    is_array = isinstance(item, (Tensor, np.ndarray)) and item.ndim != 0
    return item is None or item is Ellipsis or is_array or isinstance(item, (list, tuple, slice))


def _entry(item: Any) -> _Entry:
    """Return an entry in which indices are ints and tensors of int32 or int64."""
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, slice):
        return slice(*(_bound(one) for one in (item.start, item.stop, item.step)))
    return _index(item)


def _bound(item: Any) -> Any:
    found = None if item is None else _index(item)
    if _is_array(found):
        raise IndexError(f"{_ALLOWED}; found {item!r}")
    return found


def _index(item: Any) -> Any:
    if isinstance(item, numbers.Integral):
        return int(item)
    if isinstance(item, Dimension):
        return item
    found = asarray(item)
    if found.dtype.is_bool:
        if found.ndim != 1:
            raise NotImplementedError(f"a mask beside other indices must be a vector: {item!r}")
        found = apply_op("Squeeze", apply_op("Where", found), squeeze_dims=[1])
    if not found.dtype.is_integer or found.dtype is dtypes.uint64:
        raise IndexError(f"{_ALLOWED}; found {item!r}")
    if found.dtype in (dtypes.int32, dtypes.int64):
        return found
    return cast(found, as_dtype(np.promote_types(found.dtype.as_numpy_dtype, np.int32)))


def _is_array(entry: _Entry) -> bool:
    return isinstance(entry, Tensor) and entry.ndim != 0


def _axis(entries: list[_Entry], at: int) -> int:
    """Return the dimension of the slice for an entry; behind an ellipsis counted from the end."""

    def kept(others: list[_Entry]) -> int:
        return sum(_is_array(one) or one is None or isinstance(one, slice) for one in others)

    if any(one is Ellipsis for one in entries[:at]):
        return -kept(entries[at:])
    return kept(entries[:at])


def _gathered(x: Tensor, arrays: dict[int, Tensor]) -> Any:
    """Return the elements that arrays of indices name along axes.

    Shapes: what the arrays broadcast to stands in the place of axes that are neighbours; first,
    where others lie between them.
    """
    axes = sorted(arrays)
    indices = broadcast_together(promoted(*(arrays[axis] for axis in axes)))
    if axes[-1] - axes[0] != len(axes) - 1 or axes[0] < 0 <= axes[-1]:
        x, axes = moveaxis(x, axes, range(len(axes))), list(range(len(axes)))
        sizes = apply_op("Shape", x, out_type=indices[0].dtype)[: len(axes)]
        return gathering.gather_nd(x, _from_start(joining.stack(indices, -1), sizes))
    first = axis_within(axes[0], rank(x))
    sizes = apply_op("Shape", x, out_type=indices[0].dtype)
    inner = [sizes[first + i] for i in range(len(axes))]
    place = _from_start(indices[0], inner[0])
    for index, size in zip(indices[1:], inner[1:]):
        place = apply_op("AddV2", apply_op("Mul", place, size), _from_start(index, size))
    if len(axes) > 1:
        joined = [sizes[:first], [-1], sizes[first + len(axes) :]]
        x = shapes.reshape(x, apply_op("ConcatV2", joined, 0))
    return gathering.gather(x, place, axis=first)
