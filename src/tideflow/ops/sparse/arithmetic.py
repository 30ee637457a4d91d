"""Sparse tensors added, multiplied with dense ones, reduced, cut and joined.

Source: tensorflow/core/ops/sparse_ops.cc, core/kernels/sparse_*_op.cc, set_kernels.cc;
python/ops/sparse_grad.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, unknown
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.wire import errors


def _invalid(what: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(what)


def _check(indices: Array, values: Array, shape: Any, within: bool = True) -> None:
    """Refuse parts that make no sparse tensor."""
    if np.ndim(indices) != 2 or np.ndim(values) != 1 or np.ndim(shape) != 1:
        raise _invalid(
            "a sparse tensor has indices [n, rank], values [n] and a shape [rank]; found "
            f"{list(np.shape(indices))}, {list(np.shape(values))} and {list(np.shape(shape))}"
        )
    if indices.shape != (len(values), len(shape)):
        raise _invalid(
            f"indices {list(indices.shape)} do not fit to {len(values)} values of rank {len(shape)}"
        )
    if within and ((indices < 0) | (indices >= shape)).any():
        raise _invalid(f"indices leave the shape {shape.tolist()}")


def _sparse(count: int | None, rank: int | None) -> list[Dims]:
    return [(count, rank), (count,), (rank,)]


def _rank(c: ShapeContext, which: str) -> int | None:
    dims = c.shape(which)
    return None if dims is None else dims[0]


def _order(indices: Array) -> Any:
    """Return what puts indices in order, the first axis counting most."""
    return np.lexsort(indices.T[::-1]) if indices.shape[1] else np.arange(len(indices))


def _union(a: Array, b: Array) -> tuple[Any, Any, Any]:
    """Return all indices of both, in order, and where those of a and of b are among them."""
    every = np.concatenate([a, b])
    found, back = np.unique(every, axis=0, return_inverse=True)
    back = back.reshape(-1)
    return found, back[: len(a)], back[len(a) :]


# ---- sums


@op(
    """
    SparseAdd(a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T,
      b_shape: int64, thresh: Treal)
    -> sum_indices: int64, sum_values: T, sum_shape: int64
    T: type in numbers
    Treal: type in reals
    """,
    shape=lambda c: _sparse(None, _rank(c, "a_shape")),
)
def sparse_add_kernel(
    ctx: KernelContext,
    a_indices: Array,
    a_values: Array,
    a_shape: Array,
    b_indices: Array,
    b_values: Array,
    b_shape: Array,
    thresh: Array,
) -> Any:
    """Return the sum of two sparse tensors, without sums of elements below a threshold."""
    _check(a_indices, a_values, a_shape, within=False)
    _check(b_indices, b_values, b_shape, within=False)
    if a_shape.tolist() != b_shape.tolist():
        raise _invalid(f"the shapes {a_shape.tolist()} and {b_shape.tolist()} must be the same")
    if np.ndim(thresh):
        raise _invalid(f"thresh must be a scalar; its shape is {list(np.shape(thresh))}")
    found, at_a, at_b = _union(a_indices, b_indices)
    total = np.zeros(len(found), a_values.dtype)
    total[at_a] += a_values
    total[at_b] += b_values
    # Only what is a sum of two elements may fall away.
    single = np.bincount(np.concatenate([at_a, at_b]), minlength=len(found)) < 2
    kept = single | (thresh <= np.abs(total))
    return found[kept], total[kept], a_shape


@op(
    """
    SparseAddGrad(backprop_val_grad: T, a_indices: int64, b_indices: int64, sum_indices: int64)
    -> a_val_grad: T, b_val_grad: T
    T: type in numbers
    """,
    shape=lambda c: [None if d is None else (d[0],) for d in c.inputs[1:3]],
)
def sparse_add_grad_kernel(
    ctx: KernelContext, grad: Array, a_indices: Array, b_indices: Array, sum_indices: Array
) -> Any:
    """Return the gradients of the two tensors' values; none flows to what fell away."""
    if np.shape(grad) != (len(sum_indices),):
        raise _invalid(
            f"backprop_val_grad has shape {list(np.shape(grad))}; it must be "
            f"[{len(sum_indices)}], one for each row of sum_indices"
        )
    ranks = [indices.shape[1] for indices in (a_indices, b_indices, sum_indices)]
    if len(set(ranks)) > 1:
        raise _invalid(f"indices of a, b and their sum are of ranks {ranks}; they must be alike")
    known = {tuple(at): value for at, value in zip(sum_indices.tolist(), grad)}
    none = grad.dtype.type(0)

    def of(indices: Array) -> Any:
        return np.array([known.get(tuple(at), none) for at in indices.tolist()], grad.dtype)

    return of(a_indices), of(b_indices)


@gradient("SparseAdd")
def _sparse_add_grad(op: Operation, _: Tensor, grad: Tensor, *rest: Tensor) -> list[Any]:
    a, b = apply_op("SparseAddGrad", grad, op.inputs[0], op.inputs[3], op.outputs[0])
    return [None, a, None, None, b, None, None]


@op(
    """
    SparseTensorDenseAdd(a_indices: Tindices, a_values: T, a_shape: Tindices, b: T) -> output: T
    T: type in numbers
    Tindices: type in indices
    """,
    shape=lambda c: [c.shape("b")],
)
def sparse_tensor_dense_add_kernel(
    ctx: KernelContext, indices: Array, values: Array, shape: Array, b: Array
) -> Any:
    """Return the sum of a sparse and a dense tensor."""
    _check(indices, values, shape, within=False)
    if tuple(shape.tolist()) != np.shape(b):
        raise _invalid(f"a has shape {shape.tolist()}, b {list(np.shape(b))}; they must be alike")
    _check(indices, values, shape)
    made = np.array(b)
    np.add.at(made, tuple(indices.T), values)
    return made


@gradient("SparseTensorDenseAdd")
def _sparse_tensor_dense_add_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [None, apply_op("GatherNd", grad, op.inputs[0]), None, grad]


def _extreme(choose: Any) -> Any:
    def kernel(
        ctx: KernelContext,
        a_indices: Array,
        a_values: Array,
        a_shape: Array,
        b_indices: Array,
        b_values: Array,
        b_shape: Array,
    ) -> Any:
        """Return the larger (or smaller) of the elements of two tensors; a missing one is 0."""
        _check(a_indices, a_values, a_shape)
        _check(b_indices, b_values, b_shape)
        if a_shape.tolist() != b_shape.tolist():
            raise _invalid(f"the shapes {a_shape.tolist()} and {b_shape.tolist()} must be the same")
        found, at_a, at_b = _union(a_indices, b_indices)
        a, b = np.zeros((2, len(found)), a_values.dtype)
        a[at_a], b[at_b] = a_values, b_values
        return found, choose(a, b)

    return kernel


for _name, _types, _choose in (
    ("SparseSparseMaximum", "reals", np.maximum),
    ("SparseSparseMinimum", "numbers", np.minimum),
):
    op(
        f"""
        {_name}(a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T,
          b_shape: int64) -> output_indices: int64, output_values: T
        T: type in {_types}
        """,
        shape=lambda c: _sparse(None, _rank(c, "a_shape"))[:2],
    )(_extreme(_choose))


# ---- with a dense tensor, element by element


def _dense_at(indices: Array, values: Array, shape: Array, dense: Array) -> Any:
    """Return the elements of a dense tensor, broadcast to the sparse shape, at the indices."""
    _check(indices, values, shape)
    sizes = tuple(shape.tolist())
    given = np.shape(dense)
    fits = len(given) <= len(sizes) and all(
        size in (1, wanted) for size, wanted in zip(given[::-1], sizes[::-1])
    )
    if not fits:
        raise _invalid(
            "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: "
            f"{list(sizes)} vs. {list(given)}"
        )
    return np.broadcast_to(dense, sizes)[tuple(indices.T)]


def _cwise(name: str) -> str:
    return f"""
    {name}(sp_indices: int64, sp_values: T, sp_shape: int64, dense: T) -> output: T
    T: type in numbers
    """


def _values_shape(c: ShapeContext) -> list[Dims]:
    dims = c.shape("sp_indices")
    return [None if dims is None else (dims[0],)]


@op(_cwise("SparseDenseCwiseMul"), shape=_values_shape)
def sparse_dense_cwise_mul_kernel(
    ctx: KernelContext, indices: Array, values: Array, shape: Array, dense: Array
) -> Any:
    """Return the values times those of a dense tensor."""
    return values * _dense_at(indices, values, shape, dense)


@op(_cwise("SparseDenseCwiseAdd"), shape=_values_shape)
def sparse_dense_cwise_add_kernel(
    ctx: KernelContext, indices: Array, values: Array, shape: Array, dense: Array
) -> Any:
    """Return the values plus those of a dense tensor."""
    return values + _dense_at(indices, values, shape, dense)


@op(_cwise("SparseDenseCwiseDiv"), shape=_values_shape)
def sparse_dense_cwise_div_kernel(
    ctx: KernelContext, indices: Array, values: Array, shape: Array, dense: Array
) -> Any:
    """Return the values divided by those of a dense tensor."""
    by = _dense_at(indices, values, shape, dense)
    if (by == 0).any():
        raise _invalid("a sparse tensor is divided by zero")
    return np.trunc(values / by).astype(values.dtype) if values.dtype.kind in "iu" else values / by


@gradient("SparseDenseCwiseMul")
def _sparse_dense_cwise_mul_grad(op: Operation, grad: Tensor) -> list[Any]:
    indices, values, shape, dense = op.inputs
    of_values = apply_op("SparseDenseCwiseMul", indices, grad, shape, dense)
    scattered = apply_op("ScatterNd", indices, apply_op("Mul", grad, values), shape)
    axes, _ = apply_op("BroadcastGradientArgs", apply_op("Shape", dense, out_type="int64"), shape)
    summed = apply_op("Sum", scattered, axes)
    return [None, of_values, None, apply_op("Reshape", summed, apply_op("Shape", dense))]


# ---- reductions


def _groups(indices: Array, shape: Any, axes: Array, keep_dims: bool) -> tuple[Any, Any, list[int]]:
    """Return indices of the groups in order, each element's group, and the sizes that stay."""
    rank = len(shape)
    wanted = np.asarray(axes).reshape(-1).tolist()
    if np.ndim(axes) > 1 or any(not -rank <= axis < rank for axis in wanted):
        raise _invalid(f"Invalid reduction dimension in {wanted}, for a tensor of rank {rank}")
    reduced = {axis % rank for axis in wanted}
    stay = [axis for axis in range(rank) if axis not in reduced]
    if keep_dims:
        at = indices.copy()
        at[:, sorted(reduced)] = 0
        sizes = [1 if axis in reduced else int(shape[axis]) for axis in range(rank)]
    else:
        at = indices[:, stay]
        sizes = [int(shape[axis]) for axis in stay]
    if not at.shape[1]:
        some = min(len(at), 1)
        return np.zeros((some, 0), np.int64), np.zeros(len(at), np.int64), sizes
    found, back = np.unique(at, axis=0, return_inverse=True)
    return found, back.reshape(-1), sizes


def _reduced(values: Array, back: Any, count: int, largest: bool) -> Any:
    if not largest:
        made = np.zeros(count, values.dtype)
        np.add.at(made, back, values)
        return made
    made = np.empty(count, values.dtype)
    # The first of each group, then whatever is larger.
    made[back[::-1]] = values[::-1]
    np.maximum.at(made, back, values)
    return made


def _reduction(largest: bool, sparse: bool) -> Any:
    def kernel(
        ctx: KernelContext,
        indices: Array,
        values: Array,
        shape: Sequence[int],
        axes: Array,
        *,
        keep_dims: bool,
    ) -> Any:
        """Return sums (or maxima) over axes."""
        _check(indices, values, shape)
        found, back, sizes = _groups(indices, shape, axes, keep_dims)
        made = _reduced(values, back, len(found), largest)
        if sparse:
            return found, made, np.array(sizes, np.int64)
        dense = np.zeros(sizes, values.dtype)
        if sizes:
            dense[tuple(found.T)] = made
        elif len(made):
            dense[()] = made[0]
        return dense

    return kernel


def _reduced_shape(c: ShapeContext) -> list[Dims]:
    """Say the shape of sums where sizes and axes are constants; axes that are too large fail when
    the op runs."""
    sizes, axes = c.value(2), c.value(3)
    if sizes is None or axes is None or not sizes.size:
        return [None]
    reduced = {int(axis) % sizes.size for axis in axes.reshape(-1)}
    dims = [1 if i in reduced else int(size) for i, size in enumerate(sizes)]
    if c.attrs.get("keep_dims", False):
        return [tuple(dims)]
    return [tuple(size for i, size in enumerate(dims) if i not in reduced)]


for _name, _types, _largest in (("Sum", "numbers", False), ("Max", "reals", True)):
    for _suffix, _outputs in (
        ("", "output: T"),
        ("Sparse", "output_indices: int64, output_values: T, output_shape: int64"),
    ):
        op(
            f"""
            SparseReduce{_name}{_suffix}(input_indices: int64, input_values: T, input_shape: int64,
              reduction_axes: int32) -> {_outputs}
            keep_dims: bool = false
            T: type in {_types}
            """,
            shape=unknown if _suffix else _reduced_shape,
        )(_reduction(_largest, bool(_suffix)))


@gradient("SparseReduceSum")
def _sparse_reduce_sum_grad(op: Operation, grad: Tensor) -> list[Any]:
    indices, _, shape, axes = op.inputs
    rank = apply_op("Size", shape)
    wanted = apply_op("FloorMod", apply_op("AddV2", axes, rank), rank)
    wanted = apply_op("Reshape", wanted, [-1])
    ones = apply_op("Fill", apply_op("Shape", wanted), 1)
    sizes = apply_op("Cast", shape, DstT="int32")
    every = apply_op("Range", 0, rank, 1)
    kept = apply_op("DynamicStitch", [every, wanted], [sizes, ones])
    whole = apply_op("BroadcastTo", apply_op("Reshape", grad, kept), sizes)
    return [None, apply_op("GatherNd", whole, indices), None, None]


# ---- softmax, slices, splits, joins


@op(
    """
    SparseSoftmax(sp_indices: int64, sp_values: T, sp_shape: int64) -> output: T
    T: type in {half, float, double}
    """,
    shape=_values_shape,
)
def sparse_softmax_kernel(ctx: KernelContext, indices: Array, values: Array, shape: Array) -> Any:
    """Return softmax over the elements that are there of each row of the last axis."""
    _check(indices, values, shape)
    if len(shape) < 2:
        raise _invalid(f"Input should have rank >= 2, but got: {shape.tolist()}")
    rows, back = np.unique(indices[:, :-1], axis=0, return_inverse=True)
    back = back.reshape(-1)
    top = _reduced(values, back, len(rows), largest=True)
    powers = np.exp(values - top[back])
    return powers / _reduced(powers, back, len(rows), largest=False)[back]


@gradient("SparseSoftmax")
def _sparse_softmax_grad(op: Operation, grad: Tensor) -> list[Any]:
    indices, shape = op.inputs[0], op.inputs[2]
    out = op.outputs[0]
    products = apply_op("Mul", out, grad)
    sums = apply_op("SparseReduceSum", indices, products, shape, [-1], keep_dims=True)
    negative = apply_op("Neg", sums)
    shifted = apply_op("SparseDenseCwiseAdd", indices, grad, shape, negative)
    return [None, apply_op("Mul", shifted, out), None]


@op(
    """
    SparseSlice(indices: int64, values: T, shape: int64, start: int64, size: int64)
    -> output_indices: int64, output_values: T, output_shape: int64
    T: type
    """,
    shape=lambda c: _sparse(None, _rank(c, "shape")),
)
def sparse_slice_kernel(
    ctx: KernelContext, indices: Array, values: Array, shape: Array, start: Array, size: Array
) -> Any:
    """Return the part that begins at start and has a size, or what there is of it."""
    _check(indices, values, shape, within=False)
    if np.shape(start) != np.shape(shape) or np.shape(size) != np.shape(shape):
        raise _invalid(f"start and size must have {len(shape)} elements, as the shape has")
    if (size < 0).any() or (shape < 0).any():
        raise _invalid(
            f"size and shape must not be negative; found {size.tolist()} and {shape.tolist()}"
        )
    sizes = np.maximum(np.minimum(size, shape - start), 0)
    kept = ((indices >= start) & (indices < start + sizes)).all(axis=1)
    return indices[kept] - start, values[kept], sizes


def _concat_shape(c: ShapeContext) -> list[Dims]:
    dims = c.inputs[-1]
    return _sparse(None, None if dims is None else dims[0])


@op(
    """
    SparseConcat(indices: N * int64, values: N * T, shapes: N * int64)
    -> output_indices: int64, output_values: T, output_shape: int64
    concat_dim: int
    N: int >= 2
    T: type
    """,
    shape=_concat_shape,
)
def sparse_concat_kernel(
    ctx: KernelContext, indices: list[Any], values: list[Any], sizes: list[Any], *, concat_dim: int
) -> Any:
    """Return sparse tensors joined along an axis."""
    for parts in zip(indices, values, sizes):
        _check(*parts, within=False)
    rank = len(sizes[0])
    if not -rank <= concat_dim < rank:
        raise _invalid(f"Concat dimension must be in range [{-rank}, {rank}), got {concat_dim}")
    axis = concat_dim % rank
    offset = 0
    moved = []
    for at, shape in zip(indices, sizes):
        others = [i for i in range(rank) if i != axis]
        if len(shape) != rank or (shape[others] != sizes[0][others]).any():
            raise _invalid(
                f"all sizes but that of axis {axis} must be alike; found {sizes[0].tolist()} and "
                f"{shape.tolist()}"
            )
        step = np.zeros(rank, np.int64)
        step[axis] = offset
        moved.append(at + step)
        offset += int(shape[axis])
    every = np.concatenate(moved)
    order = _order(every)
    made = sizes[0].copy()
    made[axis] = offset
    return every[order], np.concatenate(values)[order], made


def _split_shape(c: ShapeContext) -> list[Dims]:
    count, shape = c.attrs["num_split"], c.inputs[3]
    rank = shape[0] if shape else None
    return [*[(None, rank)] * count, *[(None,)] * count, *[shape] * count]


@op(
    """
    SparseSplit(split_dim: int64, indices: int64, values: T, shape: int64) \
-> output_indices: num_split * int64, output_values: num_split * T, output_shape: num_split * int64
    num_split: int >= 1
    T: type
    """,
    shape=_split_shape,
)
def sparse_split_kernel(
    ctx: KernelContext,
    split_dim: Array,
    indices: Array,
    values: Array,
    shape: Array,
    *,
    num_split: int,
) -> Any:
    """Return pieces along an axis; the first are one longer where the size does not divide."""
    _check(indices, values, shape)
    rank = len(shape)
    if np.ndim(split_dim):
        raise _invalid(f"Input split_dim should be a scalar but received shape {split_dim.shape}")
    axis = int(split_dim)
    if not -rank <= axis < rank:
        raise _invalid(f"Input split_dim should be between {-rank} and {rank}, got {axis}")
    axis %= rank
    size = int(shape[axis])
    if not 1 <= num_split <= size:
        raise _invalid(
            f"Input num_split should be between 1 and the splitting dimension size ({size}), got "
            f"{num_split}"
        )
    pieces: list[tuple[Any, Any, Any]] = []
    begin = 0
    for i in range(num_split):
        end = begin + size // num_split + (i < size % num_split)
        kept = (indices[:, axis] >= begin) & (indices[:, axis] < end)
        at = indices[kept]
        at[:, axis] -= begin
        sizes = shape.copy()
        sizes[axis] = end - begin
        pieces.append((at, values[kept], sizes))
        begin = end
    return tuple(list(column) for column in zip(*pieces))


@op(
    """
    SetSize(set_indices: int64, set_values: T, set_shape: int64) -> size: int32
    validate_indices: bool = true
    T: type in {int8, int16, int32, int64, uint8, uint16, string}
    """,
    shape=unknown,
)
def set_size_kernel(
    ctx: KernelContext, indices: Array, values: Array, shape: Array, *, validate_indices: bool
) -> Any:
    """Return how many different values each row of the last axis has."""
    _check(indices, values, shape)
    if validate_indices and any(a >= b for a, b in itertools.pairwise(indices.tolist())):
        raise _invalid(f"indices must rise; found {indices.tolist()}")
    if len(shape) < 2:
        raise _invalid(f"a tensor of sets has rank 2 at least; its shape is {shape.tolist()}")
    made = np.zeros(shape[:-1].tolist(), np.int32)
    for at, _ in {(tuple(row), v) for row, v in zip(indices[:, :-1].tolist(), values.tolist())}:
        made[at] += 1
    return made


not_differentiable("SetSize", "SparseAddGrad", "SparseReduceMax", "SparseReduceMaxSparse")
