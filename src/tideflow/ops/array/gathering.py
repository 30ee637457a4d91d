"""Taking elements by index: gather, one-hot, masks.

Out of bounds: run by NumPy, an index that is not there is an error, as on TensorFlow's CPU.  Where
the op is compiled it cannot fail; it then gives zeros, as on TensorFlow's GPU.

Source: tensorflow/core/ops/array_ops.cc, core/kernels/gather_op.cc, gather_nd_op.cc.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, compatible, format_dims
from tideflow.graph.static_value import static_value
from tideflow.graph.tracing import Trace, bounds_of, is_known, refuse
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, TensorLike
from tideflow.graph.update_rule import check_rows_inside
from tideflow.ops.export import export
from tideflow.ops.framework import IndexedSlices, check_scalar, scoped
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype
from tideflow.wire.errors import InvalidArgumentError

# What happens at an index out of bounds; "" leaves it to the device.
_POLICIES = ("", "DEFAULT", "ERROR", "IGNORE")


def check_policy(policy: str) -> None:
    """Raise InvalidArgumentError for a bad_indices_policy that is not there."""
    if policy not in _POLICIES:
        raise InvalidArgumentError(
            f"bad_indices_policy must be one of {_POLICIES}; found {policy!r}"
        )


def within(indices: Any, sizes: Sequence[int]) -> Any:
    """Return which index vectors, along the last axis, lie within the first of these sizes."""
    limits = np.asarray(sizes[: indices.shape[-1]], np.int64)
    return ((indices >= 0) & (indices < limits)).all(axis=-1)


# ---- gather


def _gather_v2_shape(c: ShapeContext) -> list[Dims]:
    params, indices = c.inputs[0], c.inputs[1]
    axis, batch = c.value(2), c.attrs["batch_dims"]
    if params is None or indices is None:
        return [None]
    if batch < 0:
        batch += len(indices)
    if axis is None:
        return [(None,) * (len(params) + len(indices) - 1 - batch)]
    at = int(axis.reshape(()))
    if not -len(params) <= at < len(params):
        raise ValueError(f"axis {at} lies outside params of shape {format_dims(params)}")
    at %= len(params)
    if not 0 <= batch <= min(len(indices), at):
        raise ValueError(
            f"batch_dims {batch} must not exceed axis {at} nor the rank {len(indices)} of indices"
        )
    if not compatible(params[:batch], indices[:batch]):
        raise ValueError(
            f"params {format_dims(params)} and indices {format_dims(indices)} must agree in their "
            f"first {batch} sizes"
        )
    return [(*params[:at], *indices[batch:], *params[at + 1 :])]


def _check_traced(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Have indices be checked; the kernel then serves."""
    params, indices, *axis = inputs
    if not all(map(is_known, axis)):
        raise refuse("an axis that is computed")
    size = params.shape[int(axis[0].item()) if axis else 0]
    bounds = None if indices.ndim else bounds_of(trace, indices)
    if bounds is None or bounds[0] < 0 or bounds[1] >= size:
        trace.check(((indices >= 0) & (indices < size)).all())
    return NotImplemented


@op(
    """
    GatherV2(params: Tparams, indices: Tindices, axis: Taxis) -> output: Tparams
    batch_dims: int = 0
    Tparams: type
    Tindices: type in {int16, int32, int64}
    Taxis: type in indices
    """,
    shape=_gather_v2_shape,
    static=("axis",),
    compiles=Compiles.KNOWN_INPUTS,
    traced=_check_traced,
)
def gather_v2_kernel(
    xp: ArrayNamespace, params: Array, indices: Array, axis: Array, *, batch_dims: int
) -> Any:
    """Return the slices of params that indices name along an axis.

    Raises: InvalidArgumentError for an axis that is not there or (by NumPy) an index that is not.
    """
    check_scalar(axis, "gather: the axis")
    rank, at = np.ndim(params), int(axis.item())
    batch = batch_dims + np.ndim(indices) if batch_dims < 0 else batch_dims
    if not -rank <= at < rank:
        raise InvalidArgumentError(f"gather: axis {at} lies outside shape {list(params.shape)}")
    at %= rank
    if not 0 <= batch <= at or params.shape[:batch] != np.shape(indices)[:batch]:
        raise InvalidArgumentError(
            f"gather: params {list(params.shape)} and indices {list(np.shape(indices))} do not go "
            f"with axis {at} and batch_dims {batch}"
        )
    if xp is np:
        check_rows_inside("gather", indices, params.shape[at])
    if batch:
        return _gather_in_batches(xp, params, indices, at, batch)
    if xp is np and params.dtype != object:
        return params.take(indices, at)
    return take_at(xp, params, (*(slice(None),) * at, indices))


def take_at(xp: Any, params: Any, index: tuple[Any, ...]) -> Any:
    """Return params[index]; when compiled, zeros for indices outside."""
    if xp is np:
        return params[(*index, ...)]
    return xp.asarray(params).at[index].get(mode="fill", fill_value=0, wrap_negative_indices=False)


def _gather_in_batches(
    xp: ArrayNamespace, params: Array, indices: Array, axis: int, batch: int
) -> Any:
    """Gather where the first `batch` dimensions of params and indices go together."""
    rank = np.ndim(indices)
    grids = [
        np.arange(params.shape[i]).reshape([-1 if j == i else 1 for j in range(rank)])
        for i in range(batch)
    ]
    front = xp.moveaxis(params, axis, batch)
    taken = take_at(xp, front, (*grids, indices))
    # Now [batch, rest of indices, params between batch and axis, params after axis].
    between = axis - batch
    order = [
        *range(batch),
        *range(rank, rank + between),
        *range(batch, rank),
        *range(rank + between, taken.ndim),
    ]
    return xp.transpose(taken, order)


def _gather_shape(c: ShapeContext) -> list[Dims]:
    params, indices = c.inputs
    if params is None or indices is None:
        return [None]
    if not params:
        raise ValueError("params must have rank 1 or more")
    return [(*indices, *params[1:])]


@op(
    """
    Gather(params: Tparams, indices: Tindices) -> output: Tparams
    validate_indices: bool = true
    Tparams: type
    Tindices: type in indices
    """,
    shape=_gather_shape,
    compiles=Compiles.KNOWN_INPUTS,
    traced=_check_traced,
    checked_outputs=0,
)
def gather_kernel(xp: ArrayNamespace, params: Array, indices: Array) -> Any:
    """Return the slices of params that indices name along the first axis."""
    return gather_v2_kernel(xp, params, indices, np.zeros((), np.int32), batch_dims=0)


def _tail(vector: Tensor, start: int, end: int | None = None) -> Tensor:
    """Return vector[start:end]."""
    made: Tensor = apply_op(
        "StridedSlice", vector, [start], [end or 0], [1], end_mask=int(end is None)
    )
    return made


def sparse_rows_grad(grad: Tensor, indices: Tensor, sizes: Tensor) -> IndexedSlices:
    """Return the gradient of a tensor of the sizes given whose rows were taken by indices."""
    flat = apply_op("Reshape", indices, [-1])
    count = apply_op("Reshape", apply_op("Size", flat, out_type=sizes.dtype), [1])
    values_shape = apply_op("ConcatV2", [count, _tail(sizes, 1)], 0)
    return IndexedSlices(apply_op("Reshape", grad, values_shape), flat, sizes)


@gradient("Gather")
def gather_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Give the slices' gradients with their indices."""
    params, indices = op.inputs
    return [sparse_rows_grad(grad, indices, apply_op("Shape", params)), None]


@gradient("GatherV2")
def gather_v2_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Give the slices' gradients with their indices, or sum them into a whole tensor.

    Raises: ValueError where the axis or the ranks are not known now.
    """
    params, indices, axis = op.inputs
    batch = op.attrs["batch_dims"]
    at = static_value(*axis.edge)
    sizes = apply_op("Shape", params)
    if at is not None and int(at) == 0 and batch == 0:
        return [sparse_rows_grad(grad, indices, sizes), None, None]
    if at is None or params.dims is None or indices.dims is None:
        raise ValueError(
            f"the gradient of {op.name!r} needs a constant axis and known ranks of params and "
            "indices"
        )
    batch %= len(indices.dims) + 1
    position = int(at) % len(params.dims)
    return [_dense_gather_grad(grad, indices, sizes, position, batch, len(params.dims)), None, None]


def _dense_gather_grad(
    grad: Tensor, indices: Tensor, sizes: Tensor, axis: int, batch: int, rank: int
) -> Tensor:
    """Sum gradients of slices: [batch, between, rest of indices, after] into params' shape."""
    assert indices.dims is not None
    index_rank = len(indices.dims)
    between, rest = axis - batch, index_rank - batch
    total = rank - 1 + rest
    order = [
        *range(batch),
        *range(axis, axis + rest),
        *range(batch, axis),
        *range(axis + rest, total),
    ]
    inner = _tail(sizes, axis + 1)
    if between:
        inner = apply_op("ConcatV2", [_tail(sizes, batch, axis), inner], 0)
    values = apply_op("Transpose", grad, order)
    count = apply_op("Reshape", apply_op("Size", indices), [1])
    values = apply_op("Reshape", values, apply_op("ConcatV2", [count, inner], 0))
    size = apply_op("StridedSlice", sizes, [axis], [axis + 1], [1], shrink_axis_mask=1)
    rows, segments = _batched_segments(indices, sizes, size, batch)
    summed = apply_op("UnsortedSegmentSum", values, segments, rows)
    head = [_tail(sizes, 0, batch)] if batch else []
    unfolded = apply_op("ConcatV2", [*head, apply_op("Reshape", size, [1]), inner], 0)
    summed = apply_op("Reshape", summed, unfolded)
    back = [*range(batch), *range(batch + 1, axis + 1), batch, *range(axis + 1, rank)]
    made: Tensor = apply_op("Transpose", summed, back)
    return made


def _batched_segments(
    indices: Tensor, sizes: Tensor, size: Tensor, batch: int
) -> tuple[Tensor, Tensor]:
    """Return the number of rows over all batches, and the row of each index."""
    flat = apply_op("Reshape", indices, [-1])
    if not batch:
        return size, flat
    batches = apply_op("Prod", _tail(sizes, 0, batch), 0)
    rows = apply_op("Mul", batches, size)
    starts = apply_op("Range", 0, rows, size)
    if indices.dtype.base_dtype is not dtypes.int32:
        starts = apply_op("Cast", starts, DstT=indices.dtype.base_dtype)
    per_batch = apply_op("Reshape", indices, apply_op("Pack", [batches, -1], axis=0))
    shifted = apply_op("AddV2", per_batch, apply_op("ExpandDims", starts, 1))
    return rows, apply_op("Reshape", shifted, [-1])


@export("gather")
def gather(
    params: object,
    indices: object,
    validate_indices: bool | None = None,
    name: str | None = None,
    axis: TensorLike | None = None,
    batch_dims: int = 0,
) -> Tensor:
    """Return the slices of params that indices name along an axis (by default the last of the
    batch dimensions, 0 without any).

    Args:
      params: [..., size, ...], of any type.
      indices: int16, int32 or int64, of any shape; the sizes of its batch dimensions are params'.
      validate_indices: accepted, and ignored.
    Returns: the shape of params with that of indices in place of the axis, but for batch
      dimensions.
    Raises: InvalidArgumentError for an index outside of the axis.
    Example:
      >>> tf.gather([10, 20, 30], [2, 0]).numpy()
      array([30, 10], dtype=int32)
    """
    if axis is None:
        axis = batch_dims
    made: Tensor
    reader = getattr(params, "sparse_read", None)
    if reader is not None and isinstance(axis, int) and axis == 0 and not batch_dims:
        made = reader(indices, name=name)
    else:
        made = apply_op("GatherV2", params, indices, axis, batch_dims=batch_dims, name=name)
    return made


@export("batch_gather")
@scoped("BatchGather")
def batch_gather(params: TensorLike, indices: TensorLike, name: str | None = None) -> Tensor:
    """Return slices of the last dimension of indices, batch by batch."""
    given = convert_to_tensor(indices)
    if given.dims is None:
        raise ValueError("batch_gather needs indices of a known rank")
    return gather(params, given, name=name, batch_dims=len(given.dims) - 1)


def _gather_nd_shape(c: ShapeContext) -> list[Dims]:
    check_policy(c.attrs["bad_indices_policy"])
    params, indices = c.inputs
    if params is None or indices is None:
        return [None]
    if not indices:
        raise ValueError("indices must have rank 1 or more")
    if indices[-1] is None:
        return [None]
    if indices[-1] > len(params):
        raise ValueError(
            f"each index has {indices[-1]} numbers, but params has shape {format_dims(params)}"
        )
    return [(*indices[:-1], *params[indices[-1] :])]


@op(
    """
    GatherNd(params: Tparams, indices: Tindices) -> output: Tparams
    Tparams: type
    Tindices: type in {int16, int32, int64}
    bad_indices_policy: string = ''
    """,
    shape=_gather_nd_shape,
)
def gather_nd_kernel(
    xp: ArrayNamespace, params: Array, indices: Array, *, bad_indices_policy: str
) -> Any:
    """Return the slices of params at index vectors, which lie along the last axis of indices.

    Slices out of bounds are zeros under the policy "IGNORE".

    Raises: InvalidArgumentError for indices longer than the rank or (by NumPy) out of bounds.
    """
    if np.ndim(indices) < 1 or indices.shape[-1] > np.ndim(params):
        raise InvalidArgumentError(
            f"GatherNd: indices of shape {list(np.shape(indices))} do not go with params of shape "
            f"{list(np.shape(params))}"
        )
    depth = indices.shape[-1]
    if not math.prod(params.shape) and math.prod(indices.shape[:-1]):
        raise InvalidArgumentError(f"GatherNd: params of shape {list(params.shape)} are empty")
    if not depth:
        return xp.broadcast_to(params, (*indices.shape[:-1], *params.shape))
    if bad_indices_policy == "IGNORE" and xp is np:
        is_within = within(indices, params.shape)
        found = _slices_at(np, params, np.where(is_within[..., None], indices, 0))
        found[~is_within] = b"" if found.dtype.kind == "O" else 0
        return found
    if xp is np:
        for axis in range(depth):
            check_rows_inside("GatherNd", indices[..., axis], params.shape[axis])
    return _slices_at(xp, params, indices)


def _slices_at(xp: ArrayNamespace, params: Array, indices: Array) -> Any:
    return take_at(xp, params, tuple(indices[..., axis] for axis in range(indices.shape[-1])))


@gradient("GatherNd")
def gather_nd_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Add the gradients up at their indices."""
    params, indices = op.inputs
    sizes = apply_op("Shape", params, out_type=indices.dtype.base_dtype)
    policy = op.attrs["bad_indices_policy"]
    is_of_rows = indices.dims is not None and len(indices.dims) == 2 and indices.dims[-1] == 1
    if is_of_rows and policy != "IGNORE":
        return [IndexedSlices(grad, apply_op("Squeeze", indices, squeeze_dims=[-1]), sizes), None]
    return [apply_op("ScatterNd", indices, grad, sizes, bad_indices_policy=policy), None]


@export("gather_nd", "manip.gather_nd")
def gather_nd(
    params: TensorLike,
    indices: TensorLike,
    name: str | None = None,
    batch_dims: int = 0,
    bad_indices_policy: str = "",
) -> Tensor:
    """Return the slices of params at index vectors, which lie along the last axis of indices.

    Raises: ValueError for batch dimensions whose sizes are not known now.
    """
    if batch_dims:
        indices = _with_batch_indices(convert_to_tensor(indices), batch_dims)
    elif bad_indices_policy in ("", "DEFAULT") and hasattr(params, "gather_nd"):
        # Of a variable without reading all of it; and not after what has just been assigned.
        sliced: Tensor = params.gather_nd(indices, name=name)
        return sliced
    made: Tensor = apply_op(
        "GatherNd", params, indices, bad_indices_policy=bad_indices_policy, name=name
    )
    return made


def _with_batch_indices(indices: Tensor, batch_dims: int) -> Tensor:
    """Put the batch's own indices before each index vector."""
    dims = indices.dims
    if dims is None or None in dims[:-1]:
        raise ValueError("gather_nd with batch_dims needs indices whose sizes are known")
    sizes = [size or 0 for size in dims[:-1]]
    grids = np.indices(sizes, indices.dtype.as_numpy_dtype)[:batch_dims]
    made: Tensor = apply_op("ConcatV2", [np.moveaxis(grids, 0, -1), indices], -1)
    return made


# ---- one-hot


def _one_hot_shape(c: ShapeContext) -> list[Dims]:
    given, depth, axis = c.inputs[0], c.value(1), c.attrs["axis"]
    if given is None:
        return [None]
    if not -1 <= axis <= len(given):
        raise ValueError(f"axis {axis} lies outside [-1, {len(given)}]")
    at = len(given) if axis == -1 else axis
    size = None if depth is None else int(depth.reshape(()))
    if size is not None and size < 0:
        raise ValueError(f"depth must be at least 0; found {size}")
    return [(*given[:at], size, *given[at:])]


@op(
    """
    OneHot(indices: TI, depth: int32, on_value: T, off_value: T) -> output: T
    axis: int = -1
    T: type
    TI: type in {uint8, int8, int32, int64} = int64
    """,
    shape=_one_hot_shape,
    static=("depth",),
    compiles=Compiles.ALWAYS,
)
def one_hot_kernel(
    xp: ArrayNamespace,
    indices: Array,
    depth: Array,
    on_value: Array,
    off_value: Array,
    *,
    axis: int,
) -> Any:
    """Return off_value everywhere but on_value where a new axis of size depth meets its index."""
    if np.ndim(depth) or depth.item() < 0 or np.ndim(on_value) or np.ndim(off_value):
        raise InvalidArgumentError(
            f"OneHot wants a depth of at least 0 and scalar values; found depth {depth.tolist()}, "
            f"values of shapes {list(np.shape(on_value))} and {list(np.shape(off_value))}"
        )
    size, rank = int(depth.item()), np.ndim(indices)
    at = rank if axis == -1 else axis
    if not 0 <= at <= rank:
        raise InvalidArgumentError(f"OneHot: axis {axis} lies outside [-1, {rank}]")
    places = np.arange(size).reshape([-1 if i == at else 1 for i in range(rank + 1)])
    return xp.where(xp.expand_dims(indices, at) == places, on_value, off_value)


not_differentiable("OneHot")


@export("one_hot")
def one_hot(
    indices: TensorLike,
    depth: TensorLike,
    on_value: TensorLike | None = None,
    off_value: TensorLike | None = None,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return a tensor that is on_value (1) at each index along a new axis, off_value (0) elsewhere.

    Raises: TypeError where on_value, off_value and dtype do not agree.
    """
    wanted = _one_hot_dtype(on_value, off_value, dtype)
    at = -1 if axis is None else axis
    with get_default_graph().name_scope(name or "one_hot") as scope:
        on = convert_to_tensor(1 if on_value is None else on_value, wanted, name="on_value")
        off = convert_to_tensor(0 if off_value is None else off_value, wanted, name="off_value")
        if on.dtype.base_dtype is not off.dtype.base_dtype:
            raise TypeError(f"on_value is {on.dtype.name}, off_value {off.dtype.name}")
        made: Tensor = apply_op("OneHot", indices, depth, on, off, axis=at, name=scope)
        return made


def _one_hot_dtype(on_value: object, off_value: object, dtype: Any) -> dtypes.DType | None:
    if dtype is not None:
        wanted = as_dtype(dtype)
        for value in (on_value, off_value):
            if isinstance(value, Tensor) and value.dtype.base_dtype is not wanted:
                raise TypeError(f"a value has type {value.dtype.name}, dtype is {wanted.name}")
        return wanted
    for value in (on_value, off_value):
        if value is not None:
            return convert_to_tensor(value).dtype.base_dtype
    return dtypes.float32


# ---- masks


@export("boolean_mask")
def boolean_mask(
    tensor: object, mask: object, name: str = "boolean_mask", axis: int | None = None
) -> Tensor:
    """Return the slices of a tensor for which mask is true, as a list along one dimension.

    The mask covers the dimensions of the tensor from axis (0) on.
    Raises: ValueError for a mask whose rank is not known or is 0, or that does not fit.
    """
    with get_default_graph().name_scope(name):
        given, chosen = convert_to_tensor(tensor), convert_to_tensor(mask)
        if not chosen.dims:
            raise ValueError(f"a mask must have a known rank of 1 or more; it is {chosen.shape}")
        at, rank = axis or 0, len(chosen.dims)
        if given.dims is not None and not compatible(given.dims[at : at + rank], chosen.dims):
            raise ValueError(f"mask {chosen.shape} does not fit tensor {given.shape} at axis {at}")
        sizes = apply_op("Shape", given)
        joined = apply_op("Prod", _tail(sizes, at, at + rank), [0], keep_dims=True)
        head = [_tail(sizes, 0, at)] if at else []
        folded_shape = apply_op("ConcatV2", [*head, joined, _tail(sizes, at + rank)], 0)
        folded = apply_op("Reshape", given, folded_shape)
        if given.dims is not None:
            folded.set_shape((*given.dims[:at], None, *given.dims[at + rank :]))
        places = apply_op("Where", apply_op("Reshape", chosen, [-1]))
        indices = apply_op("Squeeze", places, squeeze_dims=[1])
        made: Tensor = apply_op("GatherV2", folded, indices, at)
        return made


@export("sequence_mask")
def sequence_mask(
    lengths: TensorLike,
    maxlen: TensorLike | None = None,
    dtype: DTypeLike = dtypes.bool_,
    name: str | None = None,
) -> Tensor:
    """Return a mask whose rows are true in the first `lengths[i]` of maxlen places.

    maxlen: the length of the new last dimension; the greatest of lengths if None.

    Args:
      lengths: whole numbers, of any shape.
      dtype: the type of the mask.
    Returns: [*shape of lengths, maxlen].
    Raises: ValueError for maxlen that is no scalar.
    """
    with get_default_graph().name_scope(name or "SequenceMask"):
        given = convert_to_tensor(lengths)
        index = given.dtype.base_dtype
        if maxlen is None:
            axes = apply_op("Range", 0, apply_op("Rank", given), 1)
            longest = apply_op("Max", given, axes)
            maxlen = apply_op("Maximum", longest, np.zeros((), index.as_numpy_dtype))
        else:
            maxlen = convert_to_tensor(maxlen, dtype_hint=index)
            if maxlen.dtype.base_dtype is not index:
                maxlen = apply_op("Cast", maxlen, DstT=index)
        one, zero = np.ones((), index.as_numpy_dtype), np.zeros((), index.as_numpy_dtype)
        row = apply_op("Range", zero, maxlen, one)
        wanted = as_dtype(dtype)
        mask: Tensor = apply_op("Less", row, apply_op("ExpandDims", given, -1))
        if wanted is not dtypes.bool_:
            mask = apply_op("Cast", mask, DstT=wanted)
        return mask
