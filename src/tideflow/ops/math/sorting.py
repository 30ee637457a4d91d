"""Sorting along an axis, places in sorted rows, and repetition.

Source: tensorflow/python/ops/sort_ops.py, array_ops.py (searchsorted, repeat).
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.dimension import Dimension
from tideflow.graph.graph import Tensor
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import scoped
from tideflow.wire import dtypes


@export("sort")
@scoped("sort")
def sort(
    values: TensorLike, axis: int = -1, direction: str = "ASCENDING", name: str | None = None
) -> Tensor:
    """Return values in order along an axis.

    direction: "ASCENDING" or "DESCENDING".
    Raises: ValueError for another direction.
    """
    return _ordered(values, axis, direction, name)[0]


@export("argsort")
@scoped("argsort")
def argsort(
    values: TensorLike,
    axis: int = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the places (int32) that put values in order along an axis; equal ones keep theirs.

    Raises: ValueError for a direction other than "ASCENDING" and "DESCENDING".
    """
    del stable
    return _ordered(values, axis, direction, name)[1]


def _ordered(
    values: TensorLike, axis: int, direction: str, name: str | None
) -> tuple[Tensor, Tensor]:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"direction must be ASCENDING or DESCENDING; found {direction!r}")
    x = convert_to_tensor(values)
    rank = len(x.dims or ())
    order = _last_and(axis, rank) if axis not in (-1, rank - 1) else None
    if order is not None:
        x = apply_op("Transpose", x, order)
    # TopKV2 is the one op that sorts, greatest first: turn the order round for the other way.
    turn = None
    if direction == "ASCENDING":
        turn = "Neg" if x.dtype.base_dtype.is_floating else "Invert"
        x = apply_op(turn, x)
    size = apply_op("StridedSlice", apply_op("Shape", x), [-1], [0], [1], **_SCALAR)
    found, places = apply_op("TopKV2", x, size, name=name)
    if turn is not None:
        found = apply_op(turn, found)
    if order is not None:
        found, places = (apply_op("Transpose", each, order) for each in (found, places))
    return found, places


_SCALAR: dict[str, Any] = {"shrink_axis_mask": 1, "end_mask": 1}


def _last_and(axis: int, rank: int) -> list[int]:
    """Return the permutation that swaps an axis with the last one."""
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return order


@export("searchsorted")
def searchsorted(
    sorted_sequence: TensorLike,
    values: TensorLike,
    side: str = "left",
    out_type: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Return where values would go into sorted rows.

    Args:
      sorted_sequence: [..., n]; values: [..., m], the same leading sizes.
      side: "left" of those that are equal, or "right".
    Raises: ValueError for another side.
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right'; found {side!r}")
    rows = convert_to_tensor(sorted_sequence)
    wanted = convert_to_tensor(values, rows.dtype)
    flat = [apply_op("Reshape", x, [-1, _last_size(x)]) for x in (rows, wanted)]
    op_name = "LowerBound" if side == "left" else "UpperBound"
    found = apply_op(op_name, *flat, out_type=dtypes.as_dtype(out_type), name=name)
    made: Tensor = apply_op("Reshape", found, apply_op("Shape", wanted))
    return made


def _last_size(x: Tensor) -> Any:
    return apply_op("StridedSlice", apply_op("Shape", x), [-1], [0], [1], **_SCALAR)


@export("repeat")
@scoped("Repeat")
def repeat(
    input: TensorLike, repeats: TensorLike, axis: int | None = None, name: str | None = None
) -> Tensor:
    """Return each slice along an axis as often as repeats says.

    Args:
      repeats: one number for all, or one for each slice.
      axis: None repeats the elements of the flattened input.
    Raises: ValueError for another number of repeats than of slices.
    """
    x = convert_to_tensor(input)
    if axis is None:
        x, axis = apply_op("Reshape", x, [-1]), 0
    if axis < 0:
        axis += len(x.dims or ())
    counts = convert_to_tensor(repeats)
    if x.dims is not None and counts.dims is not None and counts.dims not in ((), (1,)):
        Dimension(x.dims[axis]).assert_is_compatible_with(counts.dims[0])
    if counts.dtype.base_dtype is not dtypes.int32:
        counts = apply_op("Cast", counts, DstT=dtypes.int32)
    size = apply_op("GatherV2", apply_op("Shape", x), axis, 0)
    counts = apply_op("BroadcastTo", apply_op("Reshape", counts, [-1]), apply_op("Pack", [size]))
    most = apply_op("Max", counts, [0])
    # Row i of the mask has repeats[i] trues: the places of its trues name slice i as often.
    column = apply_op("ExpandDims", counts, 1)
    mask = apply_op("Less", apply_op("ExpandDims", apply_op("Range", 0, most, 1), 0), column)
    places = apply_op("Where", mask)
    rows = apply_op("StridedSlice", places, [0, 0], [0, 1], [1, 1], **_FIRST_COLUMN)
    made: Tensor = apply_op("GatherV2", x, rows, axis, name=name)
    return made


_FIRST_COLUMN: dict[str, Any] = {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}
