"""Changing variables by function: tf.assign, tf.scatter_add and the like.

Each takes a variable of either kind, or a reference tensor, first.
Source: tensorflow/python/ops/state_ops.py
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import IndexedSlices
from tideflow.ops.state.api import ResourceVariable
from tideflow.ops.state.batches import in_batches


@export("assign")
def assign(
    ref: Any,
    value: Any,
    validate_shape: bool | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> Any:
    """Give a variable a value; returns what reads as the new value."""
    if not ref.dtype.is_ref_dtype:
        return ref.assign(value, use_locking=use_locking, name=name)
    return apply_op(
        "Assign", ref, value, validate_shape=validate_shape, use_locking=use_locking, name=name
    )


@export("assign_add")
def assign_add(
    ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Add to a variable; returns what reads as the new value."""
    if not ref.dtype.is_ref_dtype:
        return ref.assign_add(value, use_locking=use_locking, name=name)
    return apply_op("AssignAdd", ref, value, use_locking=use_locking, name=name)


@export("assign_sub")
def assign_sub(
    ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Subtract from a variable; returns what reads as the new value."""
    if not ref.dtype.is_ref_dtype:
        return ref.assign_sub(value, use_locking=use_locking, name=name)
    return apply_op("AssignSub", ref, value, use_locking=use_locking, name=name)


def _scatter(
    suffix: str, ref: Any, indices: Any, updates: Any, use_locking: bool, name: str | None
) -> Any:
    if isinstance(ref, ResourceVariable):
        return ref._scatter(suffix, IndexedSlices(updates, indices), name)
    return apply_op(f"Scatter{suffix}", ref, indices, updates, use_locking=use_locking, name=name)


@export("scatter_update")
def scatter_update(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = True,
    name: str | None = None,
) -> Any:
    """Assign rows: ref[indices, ...] = updates."""
    return _scatter("Update", ref, indices, updates, use_locking, name)


@export("scatter_add")
def scatter_add(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Add to rows: ref[indices, ...] += updates; repeated indices add up."""
    return _scatter("Add", ref, indices, updates, use_locking, name)


@export("scatter_sub")
def scatter_sub(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Subtract from rows: ref[indices, ...] -= updates."""
    return _scatter("Sub", ref, indices, updates, use_locking, name)


@export("scatter_mul")
def scatter_mul(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Multiply rows: ref[indices, ...] *= updates."""
    return _scatter("Mul", ref, indices, updates, use_locking, name)


@export("scatter_div")
def scatter_div(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Divide rows: ref[indices, ...] /= updates."""
    return _scatter("Div", ref, indices, updates, use_locking, name)


@export("scatter_min")
def scatter_min(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Take the minimum of rows and updates."""
    return _scatter("Min", ref, indices, updates, use_locking, name)


@export("scatter_max")
def scatter_max(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Take the maximum of rows and updates."""
    return _scatter("Max", ref, indices, updates, use_locking, name)


def _scatter_nd(
    suffix: str,
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool,
    name: str | None,
) -> Any:
    if isinstance(ref, ResourceVariable):
        return ref._scatter_nd(suffix, indices, updates, name)
    return apply_op(f"ScatterNd{suffix}", ref, indices, updates, use_locking=use_locking, name=name)


@export("scatter_nd_update")
def scatter_nd_update(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = True,
    name: str | None = None,
) -> Any:
    """Assign slices at index tuples."""
    return _scatter_nd("Update", ref, indices, updates, use_locking, name)


@export("scatter_nd_add")
def scatter_nd_add(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Add slices at index tuples."""
    return _scatter_nd("Add", ref, indices, updates, use_locking, name)


@export("scatter_nd_sub")
def scatter_nd_sub(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Subtract slices at index tuples."""
    return _scatter_nd("Sub", ref, indices, updates, use_locking, name)


@export("count_up_to")
def count_up_to(ref: TensorLike, limit: int, name: str | None = None) -> Tensor:
    """Add one to a counter and return what it was.  OutOfRangeError at the limit, when run."""
    if isinstance(ref, ResourceVariable):
        made: Tensor = apply_op(
            "ResourceCountUpTo", ref.handle, limit=limit, T=ref.dtype, name=name
        )
        return made
    counted: Tensor = apply_op("CountUpTo", ref, limit=limit, name=name)
    return counted


@export("batch_scatter_update")
def batch_scatter_update(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = True,
    name: str | None = None,
) -> Any:
    """Assign rows in each batch: ref[b..., indices[b..., i], ...] = updates[b..., i, ...]."""
    return scatter_nd_update(ref, in_batches(indices), updates, use_locking, name)
