"""Frames of signals: cut, added up again where they overlap, and shifted.

Source: tensorflow/python/ops/signal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.static_value import static_value
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export


def _known(value: Any) -> int | None:
    """Return a size where it is a number or a tensor that is known now."""
    if not isinstance(value, Tensor):
        return int(value)
    found = static_value(*value.edge)
    return None if found is None or isinstance(found, tuple) else int(found)


def _size(x: Tensor, axis: int) -> Any:
    """Return a size as a number where it is known, else as a tensor."""
    known = None if x.dims is None else x.dims[axis]
    return apply_op("Shape", x)[axis] if known is None else known


def _checked_axis(axis: TensorLike, rank: int | None) -> int:
    at = _known(axis)
    if rank is None or at is None:
        raise ValueError("the signal's rank, and the axis, must be known")
    if not -rank <= at < rank:
        raise ValueError(f"axis {at} lies outside a signal of rank {rank}")
    return at % rank


@export("signal.frame")
def frame(
    signal: TensorLike,
    frame_length: object,
    frame_step: TensorLike,
    pad_end: bool = False,
    pad_value: TensorLike = 0,
    axis: TensorLike = -1,
    name: str | None = None,
) -> Tensor:
    """Cut a signal into frames of frame_length elements, frame_step apart.

    pad_end: whether a last frame that is not full counts too, filled with pad_value.
    Returns: [..., frames, frame_length, ...] in the place of the axis.
    Raises: ValueError for a rank that is not known, or an axis outside of it.
    """
    with get_default_graph().name_scope(name or "frame"):
        x = convert_to_tensor(signal)
        at = _checked_axis(axis, x.shape.rank)
        rank = x.shape.rank or 1
        length, step, size = (_number(n) for n in (frame_length, frame_step, _size(x, at)))
        if pad_end:
            count = -(-size // step)
            missing = _at_least_zero(length + step * (count - 1) - size)
            pairs = [[0, 0]] * at + [[0, missing]] + [[0, 0]] * (rank - at - 1)
            x = apply_op("PadV2", x, pairs, convert_to_tensor(pad_value, x.dtype))
        else:
            count = _at_least_zero(1 + (size - length) // step)
        starts = apply_op("Range", 0, count, 1) * step
        places = apply_op("ExpandDims", starts, 1) + apply_op("Range", 0, length, 1)
        made: Tensor = apply_op("GatherV2", x, places, at)
        return made


def _number(value: object) -> Any:
    known = _known(value)
    return convert_to_tensor(value, "int32") if known is None else known


def _at_least_zero(value: Tensor) -> Any:
    return apply_op("Maximum", value, 0) if isinstance(value, Tensor) else max(value, 0)


@export("signal.overlap_and_add")
def overlap_and_add(signal: TensorLike, frame_step: TensorLike, name: str | None = None) -> Tensor:
    """Add up frames [..., frames, frame_length] that begin frame_step apart.

    Returns: [..., frame_length + frame_step * (frames - 1)].
    Raises: ValueError for a frame_step that is no integer scalar.
    """
    with get_default_graph().name_scope(name or "overlap_and_add"):
        x = convert_to_tensor(signal)
        rank = x.shape.rank
        if rank is None or rank < 2:
            raise ValueError(f"frames must have a known rank of 2 at least; found {x.shape}")
        given = convert_to_tensor(frame_step)
        if given.shape.rank not in (None, 0) or not given.dtype.is_integer:
            raise ValueError(f"frame_step must be an integer scalar; found {frame_step!r}")
        step, count, length = (_number(n) for n in (frame_step, _size(x, -2), _size(x, -1)))
        starts = apply_op("Range", 0, count, 1) * step
        places = apply_op("ExpandDims", starts, 1) + apply_op("Range", 0, length, 1)
        first = [rank - 2, rank - 1, *range(rank - 2)]
        total = length + step * _at_least_zero(count - 1)
        added = apply_op("UnsortedSegmentSum", apply_op("Transpose", x, first), places, total)
        made: Tensor = apply_op("Transpose", added, [*range(1, rank - 1), 0])
        return made


@export("signal.fftshift")
def fftshift(x: TensorLike, axes: TensorLike | None = None, name: str | None = None) -> Tensor:
    """Move the zero frequency to the middle of the axes given, or of all."""
    return _rolled(x, axes, name or "fftshift", 1)


@export("signal.ifftshift")
def ifftshift(x: TensorLike, axes: TensorLike | None = None, name: str | None = None) -> Tensor:
    """Undo fftshift."""
    return _rolled(x, axes, name or "ifftshift", -1)


def _rolled(x: object, axes: object, name: str, sign: int) -> Tensor:
    with get_default_graph().name_scope(name):
        given = convert_to_tensor(x)
        if axes is None:
            if given.shape.rank is None:
                raise ValueError("axes must be given where the rank is not known")
            axes = list(range(given.shape.rank))
        chosen = np.atleast_1d(np.asarray(axes, np.int32))
        sizes = apply_op("GatherV2", apply_op("Shape", given), chosen % (given.shape.rank or 1), 0)
        half = apply_op("FloorDiv", sizes, 2)
        made: Tensor = apply_op("Roll", given, half if sign > 0 else -half, chosen)
        return made
