"""The index that a strided slice stands for, known or computed."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tideflow.graph.tracing import Trace, bounds_of, is_known, refuse
from tideflow.wire.errors import InvalidArgumentError

MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def strided_index(
    dims: Sequence[int],
    bounds: tuple[Any, Any, Any],
    no_begin: int,
    no_end: int,
    ellipsis: int,
    new_axis: int,
    shrink: int,
) -> tuple[Any, ...]:
    """Return the index of a strided slice as Python writes it; it always has an ellipsis.

    Raises: InvalidArgumentError for what does not fit the sizes.
    """
    begin, end, strides = bounds
    return _index(
        tuple(dims),
        tuple(begin.tolist()),
        tuple(end.tolist()),
        tuple(strides.tolist()),
        no_begin,
        no_end,
        ellipsis,
        new_axis,
        shrink,
    )


# A training step takes the same few slices again and again.
@functools.lru_cache(maxsize=4096)
def _index(
    dims: tuple[int, ...],
    begins: tuple[int, ...],
    ends: tuple[int, ...],
    strides: tuple[int, ...],
    no_begin: int,
    no_end: int,
    ellipsis: int,
    new_axis: int,
    shrink: int,
) -> tuple[Any, ...]:
    count = len(begins)
    if len(ends) != count or len(strides) != count:
        raise InvalidArgumentError(
            f"begin, end and strides must have one length; found {count}, {len(ends)} and "
            f"{len(strides)}"
        )
    new_axes = sum(1 for i in range(count) if new_axis & ~ellipsis & (1 << i))
    # A negative mask has bits without end.
    if ellipsis & (ellipsis - 1):
        raise InvalidArgumentError(f"ellipsis_mask {ellipsis} stands for more than one ellipsis")
    ellipses = sum(1 for i in range(count) if ellipsis & (1 << i))
    rest = len(dims) - (count - new_axes - ellipses)
    if rest < 0:
        raise InvalidArgumentError(
            f"{count - new_axes - ellipses} indices and {ellipses} ellipses do not fit shape "
            f"{list(dims)}"
        )
    index: list[Any] = []
    at = 0
    for i in range(count):
        bit = 1 << i
        if ellipsis & bit:
            index.append(Ellipsis)
            at += rest
        elif new_axis & bit:
            index.append(None)
        else:
            begin, stride = begins[i], strides[i]
            if shrink & bit:
                _check_single(begin, stride, dims[at], at)
                index.append(begin)
            else:
                if stride == 0:
                    raise InvalidArgumentError(f"strides[{i}] must not be 0")
                start = None if no_begin & bit else begin
                index.append(slice(start, None if no_end & bit else ends[i], stride))
            at += 1
    if not ellipses:
        # Keeps a single string an array, too.
        index.append(Ellipsis)
    return tuple(index)


def _check_single(begin: int, stride: int, size: int, axis: int) -> None:
    if stride <= 0:
        raise InvalidArgumentError(f"a single index wants stride 1; found {stride}")
    if not -size <= begin < size:
        raise InvalidArgumentError(
            f"slice index {begin} of dimension {axis} out of bounds; its size is {size}"
        )


def _traced_index(
    trace: Trace, dims: Sequence[int], bounds: Sequence[Any], masks: Sequence[int]
) -> Any:
    """Return the index of a strided slice some of whose single indices are computed.

    A range must be known, or be a whole dimension.
    """
    begin, _, strides = bounds
    if not is_known(strides) or any(stride != 1 for stride in strides.tolist()):
        raise refuse("a strided slice whose strides are computed, or are not 1")
    no_begin, no_end, ellipsis, new_axis, shrink = masks
    whole = no_begin & no_end
    known = [i for i in range(len(strides)) if (ellipsis | new_axis | whole) & ~shrink & (1 << i)]
    if not all(i in known or shrink & (1 << i) for i in range(len(strides))):
        raise refuse("a range that is computed")
    # Zeros stand for what is computed, or does not count.
    zeros = np.zeros(len(strides), np.int64)
    index = list(strided_index(dims, (zeros, zeros, np.ones_like(zeros)), *masks))
    at = 0
    rest = len(dims) - sum(one is not None and one is not Ellipsis for one in index)
    for i, one in enumerate(index):
        if one is Ellipsis:
            at += rest
        elif one is not None:
            if shrink & (1 << i):
                index[i] = _traced_single(trace, begin[i], dims[at])
            at += 1
    return tuple(index)


def _traced_single(trace: Trace, begin: Any, size: int) -> Any:
    bounds = bounds_of(trace, begin)
    if bounds is None or bounds[0] < -size or bounds[1] >= size:
        trace.check((begin >= -size) & (begin < size))
    if bounds is not None and bounds[0] >= 0:
        return begin
    return trace.jnp.where(begin < 0, begin + size, begin)


def traced_slice(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Return the slice of StridedSlice in compiled code, some of whose indices are computed."""
    x, *bounds = inputs
    if all(map(is_known, bounds)):
        return NotImplemented
    index = _traced_index(trace, x.shape, bounds, [attrs[mask] for mask in MASKS])
    return trace.jnp.asarray(x).at[index].get(mode="promise_in_bounds")


def traced_slice_grad(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Return what StridedSliceGrad gives in compiled code, where indices are computed."""
    shape, *bounds, dy = inputs
    if all(map(is_known, bounds)) or not is_known(shape):
        return NotImplemented
    sizes = shape.tolist()
    index = _traced_index(trace, sizes, bounds, [attrs[mask] for mask in MASKS])
    return trace.jnp.zeros(sizes, dy.dtype).at[index].set(dy, mode="promise_in_bounds")
