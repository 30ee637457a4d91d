"""Shapes: reshaping, transposing, joining, splitting, padding, turning and repeating."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.eager.numpy.arrays import (
    as_tensor,
    asarray,
    at_least,
    axis_within,
    choose,
    equals,
    promoted,
    rank,
    sizes_at_least,
)
from tideflow.eager.numpy.conversions import keeps_weak
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.array import joining, padding, shapes, transposing
from tideflow.ops.control_flow import with_dependencies
from tideflow.ops.export import export_v2
from tideflow.ops.framework import printing
from tideflow.ops.math import sorting
from tideflow.ops.math.casts import cast
from tideflow.ops.math.ranges import range as range_op
from tideflow.ops.nn import blocks_api
from tideflow.wire import dtypes

# ---- what it is


@export_v2("experimental.numpy.shape")
def shape(a: TensorLike) -> Any:
    """Return the static shape."""
    return asarray(a).shape


@export_v2("experimental.numpy.ndim")
def ndim(a: TensorLike) -> Any:
    """Return the number of dimensions; None where it is not known."""
    return asarray(a).ndim


@export_v2("experimental.numpy.isscalar")
def isscalar(num: TensorLike) -> Any:
    """Return whether a value has no dimensions."""
    return ndim(num) == 0


@export_v2("experimental.numpy.size")
def size(x: TensorLike, axis: None = None) -> Any:
    """Return the number of elements: an int, or a tensor where it is not known.

    Raises: NotImplementedError for an axis.
    """
    if axis is not None:
        raise NotImplementedError("size takes no axis")
    if isinstance(x, (int, float, np.int32, np.int64, np.float32, np.float64)):
        return 1
    given = asarray(x)
    if given.shape.is_fully_defined():
        return np.prod(given.dims, dtype=int)
    return apply_op("Size", given)


# ---- one tensor in another shape


@export_v2("experimental.numpy.reshape")
@keeps_weak
def reshape(a: TensorLike, newshape: Any, order: str = "C") -> Any:
    """Return the elements in another shape, of which one size may be -1.

    order: "C" counts the last axis fastest, "F" the first.
    Raises: ValueError for another order.
    """
    if order not in ("C", "F"):
        raise ValueError(f"order must be 'C' or 'F'; found {order!r}")
    x = asarray(a)
    sizes = [newshape] if isinstance(newshape, int) else newshape
    if order == "C":
        return shapes.reshape(x, sizes)
    turned = shapes.reshape(transposing.transpose(x), sizes[::-1])
    return transposing.transpose(turned)


@export_v2("experimental.numpy.ravel")
@keeps_weak
def ravel(a: TensorLike) -> Any:
    """Return the elements in a row."""
    return apply_op("Reshape", asarray(a), [-1])


@export_v2("experimental.numpy.flatten")
@keeps_weak
def flatten(a: TensorLike, order: str = "C") -> Any:
    """Return the elements in a row; with order "F" the first axis counts fastest.

    Raises: ValueError for an order other than "C", "A", "K" and "F".
    """
    if order not in ("C", "A", "K", "F"):
        raise ValueError(f"order must be 'C', 'A', 'K' or 'F'; found {order!r}")
    x = asarray(a)
    return ravel(transposing.transpose(x) if order == "F" else x)


@export_v2("experimental.numpy.expand_dims")
@keeps_weak
def expand_dims(a: TensorLike, axis: TensorLike) -> Any:
    """Return a tensor with one more dimension, of size 1."""
    return apply_op("ExpandDims", asarray(a), axis)


@export_v2("experimental.numpy.squeeze")
@keeps_weak
def squeeze(a: TensorLike, axis: TensorLike | None = None) -> Any:
    """Return a tensor without its dimensions of size 1, or without those given."""
    return shapes.squeeze(asarray(a), axis)


@export_v2("experimental.numpy.atleast_1d")
def atleast_1d(*arys: TensorLike) -> Any:
    """Return values with one dimension or more: one tensor of one, a list of several."""
    return _one_or_all([at_least(1, asarray(a)) for a in arys])


@export_v2("experimental.numpy.atleast_2d")
def atleast_2d(*arys: TensorLike) -> Any:
    """Return values with two dimensions or more, new ones first (see atleast_1d)."""
    return _one_or_all([at_least(2, asarray(a)) for a in arys])


@export_v2("experimental.numpy.atleast_3d")
def atleast_3d(*arys: TensorLike) -> Any:
    """Return values with three dimensions or more: a vector lies along the second, a matrix
    along the first two (see atleast_1d)."""
    return _one_or_all([_deep(asarray(a)) for a in arys])


def _deep(x: Tensor) -> Any:
    def of_matrix() -> Any:
        is_matrix = equals(rank(x), 2)
        return choose(is_matrix, lambda: apply_op("ExpandDims", x, -1), lambda: x)

    def of_vector_or_more() -> Any:
        is_vector = equals(rank(x), 1)
        return choose(is_vector, lambda: apply_op("Reshape", x, [1, -1, 1]), of_matrix)

    is_scalar = equals(rank(x), 0)
    return choose(is_scalar, lambda: apply_op("Reshape", x, [1, 1, 1]), of_vector_or_more)


def _one_or_all(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values


# ---- axes in another order


@export_v2("experimental.numpy.transpose")
@keeps_weak
def transpose(a: TensorLike, axes: Any = None) -> Any:
    """Return a tensor with its axes in the order given; reversed by default."""
    return transposing.transpose(asarray(a), None if axes is None else asarray(axes))


@export_v2("experimental.numpy.swapaxes")
@keeps_weak
def swapaxes(a: TensorLike, axis1: Any, axis2: Any) -> Any:
    """Return a tensor with two of its axes exchanged."""
    x = asarray(a)
    count = rank(x)
    first, second = axis_within(axis1, count), axis_within(axis2, count)
    if all(isinstance(one, int) for one in (count, first, second)):
        order: Any = list(range(count))
        order[first], order[second] = second, first
    else:
        places = apply_op("Pack", [[first], [second]])
        order = apply_op(
            "TensorScatterUpdate", range_op(count), places, apply_op("Pack", [second, first])
        )
    return transposing.transpose(x, order)


@export_v2("experimental.numpy.moveaxis")
@keeps_weak
def moveaxis(a: TensorLike, source: Any, destination: Any) -> Any:
    """Return a tensor with axes moved to other places; the others keep their order.

    Raises: ValueError for lists of different lengths.
    """
    x = asarray(a)
    sources = [source] if isinstance(source, int) else list(source)
    places = [destination] if isinstance(destination, int) else list(destination)
    if len(sources) != len(places):
        raise ValueError(f"{len(sources)} axes cannot be moved to {len(places)} places")
    count = rank(x)
    if isinstance(count, int):
        sources, places = ([axis_within(at, count) for at in each] for each in (sources, places))
        order = [at for at in range(count) if at not in sources]
        for place, at in sorted(zip(places, sources)):
            order.insert(place, at)
        return transposing.transpose(x, order)
    moved, kept = _moved_and_kept(sources, count), _moved_and_kept(places, count)
    whole = apply_op("Pack", [count])
    order = apply_op("ScatterNd", apply_op("ExpandDims", kept[1], 1), moved[1], whole)
    order = apply_op("TensorScatterUpdate", order, apply_op("ExpandDims", kept[0], 1), moved[0])
    return transposing.transpose(x, order)


def _moved_and_kept(axes: list[Any], count: Tensor) -> tuple[Any, Any]:
    """Return axes of a tensor whose rank is known later, counted from the start, and the others."""
    chosen = apply_op("Pack", [axis_within(cast(axis, dtypes.int32), count) for axis in axes])
    return chosen, apply_op("ListDiff", range_op(count), chosen, out_idx=dtypes.int32)[0]


@export_v2("experimental.numpy.flip")
@keeps_weak
def flip(m: TensorLike, axis: TensorLike | None = None) -> Any:
    """Return a tensor with its elements in reverse along an axis (None: along all)."""
    x = asarray(m)
    axes = range_op(rank(x)) if axis is None else [axis_within(axis, rank(x))]
    return padding.reverse(x, axes)


@export_v2("experimental.numpy.flipud")
@keeps_weak
def flipud(m: TensorLike) -> Any:
    """Return a tensor with its rows in reverse."""
    return flip(m, 0)


@export_v2("experimental.numpy.fliplr")
@keeps_weak
def fliplr(m: TensorLike) -> Any:
    """Return a tensor with its columns in reverse."""
    return flip(m, 1)


@export_v2("experimental.numpy.rot90")
@keeps_weak
def rot90(m: TensorLike, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Return a tensor turned k times by 90 degrees, from the first axis toward the second."""
    x = asarray(m)
    first, second = (axis_within(axis, rank(x)) for axis in axes)
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(flip(x, first), second)
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)


@export_v2("experimental.numpy.roll")
def roll(a: TensorLike, shift: Any, axis: TensorLike | None = None) -> Any:
    """Return a tensor with its elements moved along axes, round the ends; None: all in a row."""
    x = asarray(a)
    if axis is not None:
        return padding.roll(x, shift, axis)
    return apply_op("Reshape", padding.roll(ravel(x), shift, 0), apply_op("Shape", x))


# ---- joining


@export_v2("experimental.numpy.stack")
def stack(arrays: Any, axis: int = 0) -> Any:
    """Return values of one shape as one tensor, with a new axis."""
    if isinstance(arrays, Tensor):
        return arrays if axis == 0 else swapaxes(arrays, 0, axis)
    return joining.stack(promoted(*arrays), axis)


@export_v2("experimental.numpy.concatenate")
def concatenate(arys: Any, axis: TensorLike = 0) -> Any:
    """Return values joined along an axis.  Raises: ValueError without values."""
    values = list(arys) if isinstance(arys, (list, tuple)) else [arys]
    if not values:
        raise ValueError("there is nothing to concatenate")
    return joining.concat(promoted(*values), axis)


@export_v2("experimental.numpy.append")
def append(arr: TensorLike, values: TensorLike, axis: TensorLike | None = None) -> Any:
    """Return one value behind another, along an axis (None: all elements in a row)."""
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


@export_v2("experimental.numpy.hstack")
def hstack(tup: Any) -> Any:
    """Return values joined along the second axis, vectors along their only one."""
    values = promoted(*[atleast_1d(a) for a in tup])
    is_vector = equals(rank(values[0]), 1)
    return choose(is_vector, lambda: joining.concat(values, 0), lambda: joining.concat(values, 1))


@export_v2("experimental.numpy.vstack")
def vstack(tup: Any) -> Any:
    """Return values joined as rows."""
    return joining.concat(promoted(*[atleast_2d(a) for a in tup]), 0)


@export_v2("experimental.numpy.dstack")
def dstack(tup: Any) -> Any:
    """Return values joined along the third axis."""
    return joining.concat(promoted(*[atleast_3d(a) for a in tup]), 2)


# ---- splitting


@export_v2("experimental.numpy.split")
def split(ary: TensorLike, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return a tensor cut along an axis: into so many equal parts, or before the places given.

    Raises: ValueError for an axis that is not there, and places that do not grow.
    """
    x = asarray(ary)
    if not isinstance(indices_or_sections, int):
        indices_or_sections = _sizes_between(x, list(indices_or_sections), axis)
    return joining.split(x, indices_or_sections, axis)


def _sizes_between(x: Tensor, places: list[int], axis: int) -> list[int]:
    if x.dims is None or axis >= len(x.dims):
        raise ValueError(f"axis {axis} is not there in shape {x.shape}")
    whole = x.dims[axis]
    if whole is None:
        raise ValueError(f"the size of axis {axis} of shape {x.shape} must be known to split it")
    if places != sorted(places):
        raise ValueError(f"the places to split before must grow; found {places}")
    bounds = [min(place, whole) for place in [0, *places]]
    return [after - before for before, after in zip(bounds, [*bounds[1:], whole])]


def _split_along(name: str, axis: int, what: str) -> Any:
    def split_here(ary: TensorLike, indices_or_sections: Any) -> list[Any]:
        x = asarray(ary)
        at = 0 if axis == 1 and x.ndim == 1 else axis
        if isinstance(indices_or_sections, int):
            whole = x.dims[at] if x.dims is not None and at < len(x.dims) else None
            if whole is not None and whole % indices_or_sections:
                raise ValueError(f"{whole} does not divide into {indices_or_sections} equal parts")
        return split(x, indices_or_sections, at)

    split_here.__name__ = split_here.__qualname__ = name
    split_here.__doc__ = f"Return a tensor cut {what} (see split)."
    return export_v2(f"experimental.numpy.{name}")(split_here)


vsplit = _split_along("vsplit", 0, "along the first axis")
hsplit = _split_along("hsplit", 1, "along the second axis, a vector along its only one")
dsplit = _split_along("dsplit", 2, "along the third axis")


# ---- padding and repeating


@export_v2("experimental.numpy.pad")
def pad(array: TensorLike, pad_width: Any, mode: str, **kwargs: Any) -> Any:
    """Return a tensor with more before and behind it along each axis.

    Args:
      pad_width: how much, [before, behind] for each axis.
      mode: "constant", which fills with `constant_values` (0), "reflect" or "symmetric".
    Raises: ValueError for another mode.
    """
    if mode not in ("constant", "reflect", "symmetric"):
        raise ValueError(f"mode must be 'constant', 'reflect' or 'symmetric'; found {mode!r}")
    return padding.pad(
        asarray(array),
        as_tensor(pad_width, dtypes.int32),
        mode.upper(),
        constant_values=kwargs.get("constant_values", 0),
    )


@export_v2("experimental.numpy.repeat")
@keeps_weak
def repeat(a: TensorLike, repeats: TensorLike, axis: int | None = None) -> Any:
    """Return each slice along an axis (None: each element) as often as repeats says."""
    x = asarray(a)
    found = sorting.repeat(x, asarray(repeats), axis)
    if x.shape.is_fully_defined() and not isinstance(repeats, Tensor):
        found.set_shape(np.repeat(np.empty(x.dims or (1,), bool), repeats, axis).shape)  # type: ignore[arg-type]
    return found


@export_v2("experimental.numpy.tile")
def tile(a: TensorLike, reps: TensorLike) -> Any:
    """Return a tensor as often along each axis as reps says, the last axis last."""
    x = asarray(a)
    times = ravel(as_tensor(reps, dtypes.int32))
    if x.dims is None or times.dims in (None, (None,)):
        count = apply_op("Size", times)
        lacking = apply_op("Maximum", apply_op("Sub", rank(x), count), 0)
        times = apply_op("ConcatV2", [apply_op("Fill", [lacking], 1), times], 0)
    else:
        count = (times.dims or (0,))[0]
        ones = np.ones(max(len(x.dims) - (count or 0), 0), np.int32)
        times = apply_op("ConcatV2", [ones, times], 0)
    return apply_op("Tile", apply_op("Reshape", x, sizes_at_least(count, x)), times)


@export_v2("experimental.numpy.meshgrid")
def meshgrid(*xi: TensorLike, **kwargs: Any) -> list[Any]:
    """Return for each vector a tensor over the grid of all of them.

    indexing: "xy" (the default; the first two axes are exchanged) or "ij".
    Raises: ValueError for sparse=True and copy=False.
    """
    if kwargs.get("sparse", False) or not kwargs.get("copy", True):
        raise ValueError("meshgrid takes sparse=False and copy=True alone")
    vectors = [asarray(x) for x in xi]
    return blocks_api.meshgrid(*vectors, indexing=kwargs.get("indexing", "xy"))


@export_v2("experimental.numpy.vander")
@keeps_weak
def vander(x: TensorLike, N: Any = None, increasing: bool = False) -> Any:
    """Return a matrix of the powers of a vector, in N columns (as many as it has elements).

    increasing: whether the powers grow from the first column to the last.
    Raises: ValueError for what is no vector, and a negative N.
    """
    given = asarray(x)
    if given.dims is not None and len(given.dims) != 1:
        raise ValueError(f"vander takes a vector; found shape {given.shape}")
    count = N
    if N is None:
        known = None if given.dims is None else given.dims[0]
        count = apply_op("Size", given) if known is None else known
    if isinstance(count, Tensor):
        check = printing.Assert(count >= 0, [count])  # type: ignore[operator]
        count = count if check is None else with_dependencies([check], count)
    elif count < 0:
        raise ValueError(f"N must not be negative; found {count}")
    powers = range_op(0, count, 1) if increasing else range_op(count - 1, -1, -1)
    return apply_op("Pow", apply_op("ExpandDims", given, -1), cast(powers, given.dtype))
