"""What a graph says of a tensor's value before anything runs.

A value known in full is an array.  A vector of sizes known in part is a tuple with None where a
size is unknown.  None: nothing is known.  Shape rules ask this for axes, sizes and paddings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import roles, shapes
from tideflow.graph.kernel import bind

# Larger values are left to the runtime; shape rules ask for axes and sizes only.
_MAX_ELEMENTS = 4096


def static_value(node: Any, port: int) -> Any:
    """Return what is known of output `port` of an Operation (see the module's text)."""
    cache = node.static_values
    if port in cache:
        return cache[port]
    # Entered first, so that a loop in the graph finds "unknown" instead of going round.
    cache[port] = None
    cache[port] = found = _evaluate(node, port)
    return found


def _evaluate(node: Any, port: int) -> Any:
    op_def = node.op_def
    if op_def.role is roles.CONST:
        return node.attrs["value"]
    if not op_def.is_pure or len(op_def.outputs) == 0:
        return None
    if op_def.role is roles.PLACEHOLDER:  # may be fed with something else
        return None
    if op_def.static_value is not None:
        return op_def.static_value(node, port)
    dims = node.outputs[port].dims if node.outputs else None
    if dims is not None and (shapes.num_elements(dims) or 0) > _MAX_ELEMENTS:
        return None
    values = [static_value(source, at) for source, at in node.edges]
    if not values:
        return None
    if any(value is None or isinstance(value, tuple) for value in values):
        return None if op_def.partial_value is None else op_def.partial_value(node, values)
    if any(getattr(value, "size", 1) > _MAX_ELEMENTS for value in values):
        return None
    return _run(node, port, values)


def _run(node: Any, port: int, values: list[Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            found = bind(node, np)(*values)
    except Exception:  # the op will fail in the same way, and say so, when it runs
        return None
    if len(node.output_types) > 1:
        found = found[port]
    return np.asarray(found)


# ---- rules for values that follow from shapes alone: OpDef.static_value


def shape_value(node: Any, port: int) -> Any:
    """Give the shape of the input that is at the output's place."""
    source, at = node.edges[port]
    dims = source.outputs[at].dims
    if dims is None:
        return None
    if None in dims:
        return dims
    return np.array(dims, node.output_types[port].as_numpy_dtype)


def size_value(node: Any, port: int) -> Any:
    """Give the number of elements of the input."""
    source, at = node.edges[0]
    count = shapes.num_elements(source.outputs[at].dims)
    return None if count is None else np.array(count, node.output_types[0].as_numpy_dtype)


def rank_value(node: Any, port: int) -> Any:
    """Give the number of dimensions of the input."""
    source, at = node.edges[0]
    dims = source.outputs[at].dims
    return None if dims is None else np.array(len(dims), np.int32)


def _entries(value: Any) -> tuple[int | None, ...] | None:
    """Return a vector of sizes, known in whole or in part, as a tuple."""
    if value is None or isinstance(value, tuple):
        return value
    array = np.asarray(value)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        return None
    return tuple(None if size < 0 else int(size) for size in array)


# ---- rules for vectors of sizes of which some are known: OpDef.partial_value


def packed_sizes(node: Any, values: list[Any]) -> Any:
    """Join scalars."""
    entries: list[int | None] = []
    for value in values:
        if value is None or isinstance(value, tuple):
            entries.append(None)
        elif np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iu":
            entries.append(None if value < 0 else int(value))
        else:
            return None
    if any(source.outputs[at].dims != () for source, at in node.edges):
        return None
    return tuple(entries)


def joined_sizes(node: Any, values: list[Any]) -> Any:
    """Join vectors; the last input is the axis."""
    joined: tuple[int | None, ...] = ()
    for value, (source, at) in zip(values[:-1], node.edges):
        entries = _entries(value)
        if entries is None:
            dims = source.outputs[at].dims
            if value is not None or dims is None or len(dims) != 1 or dims[0] is None:
                return None
            entries = (None,) * dims[0]
        joined += entries
    return joined


def sliced_sizes(node: Any, values: list[Any]) -> Any:
    """Take one size, or those between two places, as StridedSlice does."""
    entries = _entries(values[0])
    masks = ("ellipsis_mask", "new_axis_mask")
    if entries is None or any(node.attrs[mask] for mask in masks):
        return None
    bounds = values[1:]
    if any(b is None or isinstance(b, tuple) or np.size(b) != 1 for b in bounds):
        return None
    begin, end, stride = (int(np.reshape(b, -1)[0]) for b in bounds)
    if node.attrs["shrink_axis_mask"] & 1:
        index = begin if begin >= 0 else begin + len(entries)
        size = entries[index] if 0 <= index < len(entries) else None
        return None if size is None else np.array(size, node.output_types[0].as_numpy_dtype)
    part = slice(
        None if node.attrs["begin_mask"] & 1 else begin,
        None if node.attrs["end_mask"] & 1 else end,
        stride,
    )
    return entries[part]


def same_sizes(node: Any, values: list[Any]) -> Any:
    """Give the sizes of the input."""
    return values[0] if isinstance(values[0], tuple) else None
