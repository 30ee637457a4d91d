"""Scattering into variables, by first index (Scatter*) or by index tuples (ScatterNd*).

Each combination is one row of a table and makes two ops: on a reference and on a resource.
Source: tensorflow/core/kernels/scatter_op.cc, scatter_nd_op.cc
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.graph.update_rule import Update, check_rows_inside
from tideflow.ops.state import shapes as state_shapes
from tideflow.ops.state.rows import combine_rows
from tideflow.ops.state.updates import declare_update
from tideflow.wire import errors

Change = Callable[[Any, Any, Any], None]


def _set(array: Any, where: Any, values: Any) -> None:
    array[where] = values


def _combine(ufunc: np.ufunc, array: Array, where: Any, values: Array) -> None:
    if isinstance(where, tuple) or array.ndim == 1 or not values.ndim:
        ufunc.at(array, where, values)
        return
    combine_rows(ufunc, array, where.reshape(-1), values.reshape(where.size, *array.shape[1:]))


def _divide(array: Array, where: Array, values: Array) -> None:
    if array.dtype.kind not in "iu":
        _combine(np.divide, array, where, values)
        return
    if not np.all(values):
        raise errors.InvalidArgumentError("scatter division of integers by zero")
    divisors = np.ones_like(array)
    np.multiply.at(divisors, where, values)
    array[...] = _truncated_quotient(np, array, divisors)


def _truncated_quotient(xp: Any, a: Any, b: Any) -> Any:
    """Divide integers as C++ does: toward zero."""
    quotient = a // b
    return xp.where((a % b != 0) & ((a < 0) != (b < 0)), quotient + 1, quotient)


def _extreme(choose: np.ufunc, never: float, array: Any, where: Any, values: Any) -> None:
    """Put extremes in place; a value that is NaN changes nothing."""
    if array.dtype.kind in "fV":
        values = np.where(np.isnan(values), array.dtype.type(never), values)
    _combine(choose, array, where, values)


# How an array is changed in place, by the op's suffix; repeated indices combine.
_CHANGES: dict[str, Change] = {
    "Update": _set,
    "Add": functools.partial(_combine, np.add),
    "Sub": functools.partial(_combine, np.subtract),
    "Mul": functools.partial(_combine, np.multiply),
    "Div": _divide,
    "Min": functools.partial(_extreme, np.minimum, np.inf),
    "Max": functools.partial(_extreme, np.maximum, -np.inf),
}

# The same for a traced array: names of methods of array.at[...].
_TRACED = {
    "Update": "set",
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Min": "min",
    "Max": "max",
}


def _traced(xp: Any, suffix: str, array: Any, where: Any, values: Any) -> Any:
    if suffix != "Div":
        return getattr(array.at[where], _TRACED[suffix])(values)
    divisors = xp.ones_like(array).at[where].multiply(values)
    if array.dtype.kind in "iu":
        return _truncated_quotient(xp, array, divisors)
    return array / divisors


# ---- by first index


def _scatter_rule(
    suffix: str, op_name: str, xp: ArrayNamespace, old: Array, indices: Array, updates: Array
) -> Any:
    """Return old with updates combined into the rows that indices name.

    Shapes: old [n, d...]; indices [k...]; updates [k..., d...] or []; result as old.
    """
    if xp is np:
        made = [np.array(old)]
        _scatter_change(suffix, op_name, made, [indices, updates])
        return tuple(made)
    # at[...] counts negative indices from the end; one past the end is dropped.
    where = xp.where(indices < 0, old.shape[0], indices)
    return (_traced(xp, suffix, old, where, updates),)


def _scatter_change(suffix: str, op_name: str, arrays: list[Any], others: list[Any]) -> None:
    array = arrays[0]
    indices, updates = others
    if not array.shape:
        raise errors.InvalidArgumentError(f"{op_name}: the variable is a scalar")
    wanted = indices.shape + array.shape[1:]
    if updates.shape and updates.shape != wanted:
        raise errors.InvalidArgumentError(
            f"{op_name}: updates must have shape indices.shape + variable.shape[1:], "
            f"{shapes.format_dims(wanted)}, or be a scalar; found "
            f"{shapes.format_dims(updates.shape)}"
        )
    check_rows_inside(op_name, indices, array.shape[0])
    _CHANGES[suffix](array, indices, updates)


# ---- by index tuples


def _scatter_nd_rule(
    suffix: str,
    op_name: str,
    xp: ArrayNamespace,
    old: Array,
    indices: Array,
    updates: Array,
    *,
    bad_indices_policy: str,
) -> Any:
    """Return old with updates combined into the slices that index tuples name.

    Shapes: old [s...]; indices [k..., depth]; updates [k..., s[depth:]...]; result as old.
    """
    if xp is np:
        made = [np.array(old)]
        _scatter_nd_change(
            suffix, op_name, made, [indices, updates], bad_indices_policy=bad_indices_policy
        )
        return tuple(made)
    return (_traced(xp, suffix, old, _tuple_index(indices), updates),)


def _tuple_index(indices: Any) -> Any:
    return tuple(indices[..., axis] for axis in range(indices.shape[-1]))


def _scatter_nd_change(
    suffix: str,
    op_name: str,
    arrays: list[Any],
    others: list[Any],
    *,
    bad_indices_policy: str,
) -> None:
    array = arrays[0]
    indices, updates = others
    depth = indices.shape[-1] if indices.ndim else 0
    if not 1 <= depth <= array.ndim:
        raise errors.InvalidArgumentError(
            f"{op_name}: the last dimension of indices {shapes.format_dims(indices.shape)} must "
            f"address from 1 to {array.ndim} dimensions, those of the variable"
        )
    wanted = indices.shape[:-1] + array.shape[depth:]
    if updates.shape != wanted:
        raise errors.InvalidArgumentError(
            f"{op_name}: updates must have shape {shapes.format_dims(wanted)}; found "
            f"{shapes.format_dims(updates.shape)}"
        )
    if bad_indices_policy == "IGNORE":
        inside = np.all((indices >= 0) & (indices < np.array(array.shape[:depth])), axis=-1)
        indices, updates = indices[inside], updates[inside]
    else:
        for axis in range(depth):
            check_rows_inside(op_name, indices[..., axis], array.shape[axis])
    _CHANGES[suffix](array, _tuple_index(indices), updates)


# ---- declarations


_LOCKING = {"Update": "true"}
_MIN_MAX_TYPES = "{half, bfloat16, float, double, int32, int64}"


def _declare_both(suffix: str) -> None:
    resource_types = "type" if suffix == "Update" else "type in numbers"
    ref_types = resource_types
    if suffix in ("Min", "Max"):
        ref_types = f"type in {_MIN_MAX_TYPES}"
    locking = _LOCKING.get(suffix, "false")
    _declare(
        suffix,
        f"Scatter{suffix}(ref: Ref T, indices: Tindices, updates: T) -> output_ref: Ref T\n"
        f"T: {ref_types}\nTindices: type in indices\nuse_locking: bool = {locking}",
        nd=False,
    )
    _declare(
        suffix,
        f"ResourceScatter{suffix}(resource: resource, indices: Tindices, updates: dtype)\n"
        f"dtype: {resource_types}\nTindices: type in indices",
        nd=False,
    )


def _declare_nd(suffix: str) -> None:
    types = "type" if suffix == "Update" else "type in numbers"
    locking = _LOCKING.get(suffix, "false")
    tail = "Tindices: type in indices\nuse_locking: bool = {}\nbad_indices_policy: string = ''"
    _declare(
        suffix,
        f"ScatterNd{suffix}(ref: Ref T, indices: Tindices, updates: T) -> output_ref: Ref T\n"
        f"T: {types}\n" + tail.format(locking),
        nd=True,
    )
    _declare(
        suffix,
        f"ResourceScatterNd{suffix}(ref: resource, indices: Tindices, updates: T)\n"
        "T: type\n" + tail.format("true"),
        nd=True,
    )


def _declare(suffix: str, signature: str, *, nd: bool) -> None:
    op_name = signature.split("(", 1)[0]
    rule = functools.partial(_scatter_nd_rule if nd else _scatter_rule, suffix, op_name)
    change = functools.partial(_scatter_nd_change if nd else _scatter_change, suffix, op_name)
    update = Update(
        op_name,
        1,
        is_ref="Ref" in signature,
        rule=rule,
        kind="in_place",
        indices=-1 if nd else 0,
        change=change,
    )
    shape = state_shapes.scattered_nd if nd else state_shapes.scattered
    declare_update(signature, rule, update, shape)
    not_differentiable(op_name)


for _suffix in _CHANGES:
    _declare_both(_suffix)
for _suffix in ("Update", "Add", "Sub", "Min", "Max"):
    _declare_nd(_suffix)
