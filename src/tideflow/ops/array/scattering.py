"""Putting elements in by index: scatter into zeros or into a copy of a tensor.

An index out of bounds is an error where NumPy runs the op, and is dropped where it is compiled.

Source: tensorflow/core/ops/array_ops.cc, core/kernels/scatter_nd_op.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, compatible, format_dims
from tideflow.graph.types import Array, ArrayNamespace, ShapeLike, TensorLike
from tideflow.graph.update_rule import check_rows_inside
from tideflow.ops.array.gathering import check_policy, within
from tideflow.ops.export import export
from tideflow.ops.framework import shape_argument, zeros_of
from tideflow.wire.errors import InvalidArgumentError


def _check_updates(whole: Dims, indices: Dims, updates: Dims) -> None:
    if whole is None or indices is None or updates is None or not indices or indices[-1] is None:
        return
    expected = (*indices[:-1], *whole[indices[-1] :])
    if indices[-1] > len(whole) or not compatible(expected, updates):
        raise ValueError(
            f"updates of shape {format_dims(updates)} and indices of shape {format_dims(indices)} "
            f"do not go with a tensor of shape {format_dims(whole)}"
        )


def _check_scatter(whole: tuple[int, ...], indices: Any, updates: Any, what: str) -> None:
    shape = np.shape(indices)
    depth = shape[-1] if shape else -1
    if not 0 <= depth <= len(whole) or np.shape(updates) != (*shape[:-1], *whole[depth:]):
        raise InvalidArgumentError(
            f"{what}: updates of shape {list(np.shape(updates))} and indices of shape "
            f"{list(shape)} do not go with a tensor of shape {list(whole)}"
        )


def _index_of(
    xp: ArrayNamespace, indices: Any, whole: tuple[int, ...], what: str
) -> tuple[Any, ...]:
    """Return index vectors along the last axis as one index for each dimension."""
    parts = tuple(indices[..., axis] for axis in range(indices.shape[-1]))
    if xp is np:
        for part, size in zip(parts, whole):
            check_rows_inside(what, part, size)
    return (*parts, ...)


def _extreme_at(made: object, index: Any, updates: Any, way: str) -> None:
    """Put extremes in place; an update that is NaN changes nothing."""
    never = updates.dtype.type(np.inf if way == "min" else -np.inf)
    _NUMPY_WAYS[way].at(made, index, np.where(np.isnan(updates), never, updates))


# How each way of scattering does one element: NumPy's ufunc, and the method of JAX's `x.at[i]`.
_NUMPY_WAYS: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
}


def scatter(
    xp: Any, whole: Any, indices: Any, updates: Any, way: str, what: str, policy: str = ""
) -> Any:
    """Return a copy of whole with the updates scattered in: way is set, add, subtract, min or max.

    policy: what is done at an index out of bounds; "IGNORE" leaves its update out.
    Raises: InvalidArgumentError for shapes that do not fit, or (by NumPy) an index out of bounds.
    """
    _check_scatter(np.shape(whole), indices, updates, what)
    if policy == "IGNORE" and xp is np:
        if np.size(indices) and not np.size(whole):
            raise InvalidArgumentError(f"{what}: {list(np.shape(whole))} has no elements to change")
        is_within = within(indices, np.shape(whole))
        indices, updates = indices[is_within], updates[is_within]
    index = _index_of(xp, indices, np.shape(whole), what)
    if xp is not np:
        at = xp.asarray(whole).at[index]
        return getattr(at, way)(updates, mode="drop", wrap_negative_indices=False)
    made = np.array(whole)
    if way == "set":
        made[index] = updates
    elif way in ("min", "max") and made.dtype.kind in "fV":
        _extreme_at(made, index, updates, way)
    else:
        _NUMPY_WAYS[way].at(made, index, updates)
    return made


def _scatter_nd_shape(c: ShapeContext) -> list[Dims]:
    check_policy(c.attrs["bad_indices_policy"])
    whole = c.value_as_shape(2)
    _check_updates(whole, c.inputs[0], c.inputs[1])
    return [whole]


@op(
    """
    ScatterNd(indices: Tindices, updates: T, shape: Tindices) -> output: T
    T: type
    Tindices: type in {int16, int32, int64}
    bad_indices_policy: string = ''
    """,
    shape=_scatter_nd_shape,
    static=("shape",),
)
def scatter_nd_kernel(
    xp: ArrayNamespace, indices: Array, updates: Array, shape: Array, *, bad_indices_policy: str
) -> Any:
    """Return zeros of the shape, to which the updates are added at their indices."""
    sizes = shape.tolist()
    if shape.ndim != 1 or any(size < 0 for size in sizes):
        raise InvalidArgumentError(f"ScatterNd: {sizes} is no shape")
    whole = zeros_of(xp, sizes, updates.dtype)
    # The sum of two booleans is whether either is true.
    way = "max" if updates.dtype == bool else "add"
    return scatter(xp, whole, indices, updates, way, "ScatterNd", bad_indices_policy)


@gradient("ScatterNd")
def scatter_nd_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Take the gradient at the indices."""
    return [None, apply_op("GatherNd", grad, op.inputs[0]), None]


@export("scatter_nd", "manip.scatter_nd")
def scatter_nd(
    indices: TensorLike,
    updates: TensorLike,
    shape: ShapeLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Return zeros of the shape, to which the updates are added at their indices.

    Args:
      indices: int16, int32 or int64, [..., depth], each the beginning of an index into the result.
      updates: [*indices.shape[:-1], *shape[depth:]], of any type.
      shape: the sizes of the result, of the type of indices.
      bad_indices_policy: what becomes of an index outside: "ERROR", "IGNORE" or "", as devices do.
    Raises: InvalidArgumentError for such an index, and for shapes that do not fit.
    """
    made: Tensor = apply_op(
        "ScatterNd",
        indices,
        updates,
        shape_argument(shape),
        bad_indices_policy=bad_indices_policy,
        name=name,
    )
    return made


def _tensor_scatter_shape(c: ShapeContext) -> list[Dims]:
    check_policy(c.attrs["bad_indices_policy"])
    _check_updates(*c.inputs)
    return [c.inputs[0]]


@op(
    """
    TensorScatterUpdate(tensor: T, indices: Tindices, updates: T) -> output: T
    T: type
    Tindices: type in {int16, int32, int64, uint16}
    bad_indices_policy: string = ''
    """,
    shape=_tensor_scatter_shape,
)
def tensor_scatter_update_kernel(
    xp: ArrayNamespace, tensor: Array, indices: Array, updates: Array, *, bad_indices_policy: str
) -> Any:
    """Return the tensor with the updates in the place of its elements."""
    name, policy = "TensorScatterUpdate", bad_indices_policy
    return scatter(xp, tensor, indices, updates, "set", name, policy)


@op(
    """
    TensorScatterAdd(tensor: T, indices: Tindices, updates: T) -> output: T
    T: type
    Tindices: type in indices
    bad_indices_policy: string = ''
    """,
    shape=_tensor_scatter_shape,
)
def tensor_scatter_add_kernel(
    xp: ArrayNamespace, tensor: Array, indices: Array, updates: Array, *, bad_indices_policy: str
) -> Any:
    """Return the tensor with the updates added."""
    name, policy = "TensorScatterAdd", bad_indices_policy
    return scatter(xp, tensor, indices, updates, "add", name, policy)


_ADDED = (
    "float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, "
    "qint16, quint16, uint16, complex128, half, uint32, uint64, bool"
)


@op(
    f"""
    ScatterNdNonAliasingAdd(input: T, indices: Tindices, updates: T) -> output: T
    T: type in {{{_ADDED}}}
    Tindices: type in {{int32, int64}}
    bad_indices_policy: string = ''
    """,
    shape=_tensor_scatter_shape,
)
def scatter_nd_non_aliasing_add_kernel(
    xp: ArrayNamespace, tensor: Array, indices: Array, updates: Array, *, bad_indices_policy: str
) -> Any:
    """Return the tensor with the updates added."""
    name, policy = "ScatterNdNonAliasingAdd", bad_indices_policy
    return scatter(xp, tensor, indices, updates, "add", name, policy)


@op(
    """
    TensorScatterSub(tensor: T, indices: Tindices, updates: T) -> output: T
    T: type
    Tindices: type in indices
    bad_indices_policy: string = ''
    """,
    shape=_tensor_scatter_shape,
)
def tensor_scatter_sub_kernel(
    xp: ArrayNamespace, tensor: Array, indices: Array, updates: Array, *, bad_indices_policy: str
) -> Any:
    """Return the tensor with the updates taken away."""
    name, policy = "TensorScatterSub", bad_indices_policy
    return scatter(xp, tensor, indices, updates, "subtract", name, policy)


@op(
    """
    TensorScatterMin(tensor: T, indices: Tindices, updates: T) -> output: T
    T: type
    Tindices: type in indices
    bad_indices_policy: string = ''
    """,
    shape=_tensor_scatter_shape,
)
def tensor_scatter_min_kernel(
    xp: ArrayNamespace, tensor: Array, indices: Array, updates: Array, *, bad_indices_policy: str
) -> Any:
    """Return the tensor, no element greater than its updates."""
    name, policy = "TensorScatterMin", bad_indices_policy
    return scatter(xp, tensor, indices, updates, "min", name, policy)


@op(
    """
    TensorScatterMax(tensor: T, indices: Tindices, updates: T) -> output: T
    T: type
    Tindices: type in indices
    bad_indices_policy: string = ''
    """,
    shape=_tensor_scatter_shape,
)
def tensor_scatter_max_kernel(
    xp: ArrayNamespace, tensor: Array, indices: Array, updates: Array, *, bad_indices_policy: str
) -> Any:
    """Return the tensor, no element less than its updates."""
    name, policy = "TensorScatterMax", bad_indices_policy
    return scatter(xp, tensor, indices, updates, "max", name, policy)


@gradient("TensorScatterUpdate")
def tensor_scatter_update_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Clear the gradient where elements were replaced; give theirs to the updates."""
    _, indices, updates = op.inputs
    cleared = apply_op("TensorScatterUpdate", grad, indices, apply_op("ZerosLike", updates))
    return [cleared, None, apply_op("GatherNd", grad, indices)]


@gradient("TensorScatterAdd")
def tensor_scatter_add_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Pass the gradient on, and take it at the indices."""
    return [grad, None, apply_op("GatherNd", grad, op.inputs[1])]


@gradient("TensorScatterSub")
def tensor_scatter_sub_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Pass the gradient on, and take it negated at the indices."""
    return [grad, None, apply_op("Neg", apply_op("GatherNd", grad, op.inputs[1]))]


tensor_scatters: dict[str, Callable[..., Tensor]] = {}


def _export_tensor_scatter(way: str, op_name: str) -> None:
    @export(f"tensor_scatter_nd_{way}", f"tensor_scatter_{way}")
    def tensor_scatter(
        tensor: TensorLike,
        indices: TensorLike,
        updates: TensorLike,
        name: str | None = None,
        bad_indices_policy: str = "",
    ) -> Tensor:
        made: Tensor = apply_op(
            op_name, tensor, indices, updates, bad_indices_policy=bad_indices_policy, name=name
        )
        return made

    tensor_scatters[f"tensor_scatter_nd_{way}"] = tensor_scatter
    tensor_scatter.__doc__ = f"Return a copy of a tensor with updates scattered in ({op_name})."


for _way, _op_name in (
    ("update", "TensorScatterUpdate"),
    ("add", "TensorScatterAdd"),
    ("sub", "TensorScatterSub"),
    ("min", "TensorScatterMin"),
    ("max", "TensorScatterMax"),
):
    _export_tensor_scatter(_way, _op_name)
