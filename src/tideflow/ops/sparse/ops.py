"""Sparse tensors as three dense ones: indices [n, rank], values [n] and the shape [rank].

Source: tensorflow/core/ops/sparse_ops.cc, core/kernels/sparse_*_op.cc, python/ops/sparse_grad.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.wire import errors


def _invalid(what: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(what)


def _check_parts(indices: Any, values: Any, shape: Any) -> None:
    if indices.shape != (len(values), len(shape)):
        raise _invalid(
            f"indices must be [{len(values)}, {len(shape)}], for so many values and sizes of the "
            f"shape; they are {list(indices.shape)}"
        )


def _check_rank(value: Any, rank: int, what: str) -> None:
    if np.ndim(value) != rank:
        raise _invalid(
            f"{what} must have rank {rank}; its shape is {shapes.format_dims(np.shape(value))}"
        )


def check_within(indices: Array, sizes: Array) -> None:
    """Refuse indices that leave the tensor, naming the first such."""
    wrong = ((indices < 0) | (indices >= sizes)).any(axis=1)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise _invalid(
            f"indices[{at}] = {indices[at].tolist()} is out of bounds: need 0 <= index < "
            f"{np.asarray(sizes).tolist()}"
        )


def check_ascend(indices: Array) -> None:
    """Refuse indices out of order or given twice."""
    if len(indices) < 2:
        return
    steps = np.diff(indices, axis=0)
    moved = steps != 0
    first = moved.argmax(axis=1)
    leading = steps[np.arange(len(steps)), first]
    wrong = np.flatnonzero(leading <= 0)
    if len(wrong):
        at = int(wrong[0]) + 1
        how = "is repeated" if leading[wrong[0]] == 0 else "is out of order"
        raise _invalid(f"indices[{at}] = {indices[at].tolist()} {how}")


# ---- to dense


def _to_dense_shape(c: ShapeContext) -> list[Dims]:
    return [c.value_as_shape("output_shape")]


@op(
    """
    SparseToDense(sparse_indices: Tindices, output_shape: Tindices, sparse_values: T,
      default_value: T) -> dense: T
    validate_indices: bool = true
    T: type
    Tindices: type in indices
    """,
    shape=_to_dense_shape,
)
def sparse_to_dense_kernel(
    ctx: KernelContext,
    indices: Array,
    output_shape: Array,
    values: Array,
    default: Array,
    *,
    validate_indices: bool,
) -> Any:
    """Return a tensor filled with a default but for the values given."""
    if np.ndim(indices) > 2:
        raise _invalid(
            "sparse_indices should be a scalar, vector, or matrix, got shape "
            f"{shapes.format_dims(np.shape(indices))}"
        )
    _check_rank(output_shape, 1, "output_shape")
    _check_rank(default, 0, "default_value")
    count = np.shape(indices)[0] if np.ndim(indices) else 1
    rows = indices if np.ndim(indices) == 2 else np.asarray(indices).reshape(count, 1)
    if rows.shape[1] != len(output_shape):
        raise _invalid(
            f"output_shape has {len(output_shape)} elements; the indices are of rank "
            f"{rows.shape[1]}"
        )
    if (output_shape < 0).any():
        raise _invalid(f"output_shape {output_shape.tolist()} has a negative size")
    if np.ndim(values) > 1 or (np.ndim(values) == 1 and len(values) != count):
        raise _invalid(
            f"sparse_values has shape {shapes.format_dims(np.shape(values))}; [{count}] or a "
            "scalar is expected"
        )
    check_within(rows, output_shape)
    if validate_indices:
        check_ascend(rows)
    kind = values.dtype if hasattr(values, "dtype") else object
    made = np.empty(tuple(output_shape.tolist()), kind)
    made[...] = default
    made[tuple(rows.T)] = values
    return made


@gradient("SparseToDense")
def _sparse_to_dense_grad(op: Operation, grad: Tensor) -> list[Any]:
    indices, shape, values, default = op.inputs
    taken = apply_op("GatherNd", grad, _as_matrix(indices))
    if values.dims == ():
        taken = apply_op("Sum", taken, [0])
    others = apply_op(
        "SparseToDense",
        indices,
        shape,
        apply_op("ZerosLike", default),
        apply_op("OnesLike", default),
        validate_indices=False,
    )
    axes = apply_op("Range", 0, apply_op("Rank", grad), 1)
    return [None, None, taken, apply_op("Sum", apply_op("Mul", grad, others), axes)]


def _as_matrix(indices: Any) -> Any:
    rank = None if indices.dims is None else len(indices.dims)
    if rank == 2:
        return indices
    return apply_op("Reshape", indices, [-1, 1])


# ---- times dense


def _matmul_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.shape("a_indices"), 2, "a_indices")
    with_rank(c.shape("a_values"), 1, "a_values")
    with_rank(c.shape("a_shape"), 1, "a_shape")
    b = with_rank(c.shape("b"), 2, "b")
    a = c.value_as_shape("a_shape")
    rows = None if a is None or len(a) != 2 else a[1 if c.attrs["adjoint_a"] else 0]
    return [(rows, b[0 if c.attrs["adjoint_b"] else 1])]


@op(
    """
    SparseTensorDenseMatMul(a_indices: Tindices, a_values: T, a_shape: int64, b: T) -> product: T
    T: type
    Tindices: type in indices = int64
    adjoint_a: bool = false
    adjoint_b: bool = false
    """,
    shape=_matmul_shape,
)
def sparse_tensor_dense_matmul_kernel(
    ctx: KernelContext,
    indices: Array,
    values: Array,
    shape: Array,
    b: Array,
    *,
    adjoint_a: bool,
    adjoint_b: bool,
) -> Any:
    """Return the product of a sparse matrix and a dense one."""
    _check_rank(b, 2, "b")
    _check_rank(shape, 1, "a_shape")
    _check_rank(values, 1, "a_values")
    _check_rank(indices, 2, "a_indices")
    if len(shape) != 2 or np.shape(indices) != (len(values), 2):
        raise _invalid(
            f"a must be a matrix: a_shape has {len(shape)} elements, a_indices is "
            f"{shapes.format_dims(np.shape(indices))} for {len(values)} values"
        )
    rows, columns = indices.T
    sizes = shape.tolist()
    if adjoint_a:
        rows, columns, sizes = columns, rows, sizes[::-1]
        values = values.conj()
    if adjoint_b:
        b = b.T.conj()
    if sizes[1] != b.shape[0]:
        raise _invalid(f"Cannot multiply A and B: inner sizes are {sizes[1]} and {b.shape[0]}")
    if len(rows):
        check_within(np.stack([rows, columns], 1), sizes)
    # Half floats are added up wide, as TensorFlow does.
    wide = np.float32 if b.dtype.itemsize == 2 else b.dtype
    product = np.zeros((sizes[0], b.shape[1]), wide)
    np.add.at(product, rows, values[:, None].astype(wide) * b[columns].astype(wide))
    return product.astype(b.dtype)


@gradient("SparseTensorDenseMatMul")
def _matmul_grad(op: Operation, grad: Tensor) -> list[Any]:
    indices, values, shape, b = op.inputs
    adjoint_a, adjoint_b = op.attrs["adjoint_a"], op.attrs["adjoint_b"]
    b_grad = apply_op(
        "SparseTensorDenseMatMul", indices, values, shape, grad, adjoint_a=not adjoint_a
    )
    if adjoint_b:
        b_grad = apply_op("Transpose", b_grad, [1, 0])
        if b_grad.dtype.is_complex:
            b_grad = apply_op("Conj", b_grad)
    rows = apply_op("StridedSlice", indices, [0, 0], [0, 1], [1, 1], begin_mask=3, end_mask=1,
                    shrink_axis_mask=2)  # fmt: skip
    columns = apply_op("StridedSlice", indices, [0, 1], [0, 2], [1, 1], begin_mask=1, end_mask=1,
                       shrink_axis_mask=2)  # fmt: skip
    if adjoint_a:
        rows, columns = columns, rows
    of_grad = apply_op("GatherV2", grad, rows, 0)
    of_b = apply_op("GatherV2", b, columns, 1 if adjoint_b else 0)
    if adjoint_b:
        of_b = apply_op("Transpose", of_b, [1, 0])
    elif of_b.dtype.is_complex:
        of_b = apply_op("Conj", of_b)
    found = apply_op("Sum", apply_op("Mul", of_grad, of_b), [1])
    if adjoint_a and found.dtype.is_complex:
        found = apply_op("Conj", found)
    return [None, found, None, b_grad]


# ---- other shapes and orders


def _reshape_shape(c: ShapeContext) -> list[Dims]:
    count = with_rank(c.shape("input_indices"), 2, "input_indices")[0]
    (rank,) = with_rank(c.shape("new_shape"), 1, "new_shape")
    return [(count, rank), (rank,)]


@op(
    """
    SparseReshape(input_indices: int64, input_shape: int64, new_shape: int64)
    -> output_indices: int64, output_shape: int64
    """,
    shape=_reshape_shape,
)
def sparse_reshape_kernel(
    ctx: KernelContext, indices: Array, shape: Array, new_shape: Array
) -> Any:
    """Return the indices that elements have in another shape; one size may be -1."""
    _check_rank(indices, 2, "input_indices")
    _check_rank(shape, 1, "input_shape")
    _check_rank(new_shape, 1, "new_shape")
    if indices.shape[1] != len(shape):
        raise _invalid(
            f"Input tensor rank must match input shape length: {indices.shape[1]} and {len(shape)}"
        )
    size = int(np.prod(shape, dtype=np.int64))
    target = new_shape.tolist()
    if any(s < -1 for s in target) or target.count(-1) > 1:
        raise _invalid(f"new_shape {target} may have one -1; other sizes must not be negative")
    if -1 in target:
        known = int(np.prod([s for s in target if s != -1], dtype=np.int64))
        if known == 0 or size % known:
            raise _invalid(f"a tensor of {size} elements cannot have shape {target}")
        target[target.index(-1)] = size // known
    if int(np.prod(target, dtype=np.int64)) != size:
        raise _invalid(f"a tensor of {size} elements cannot have shape {target}")
    if len(indices) and (indices.shape[1] == 0 or not target):
        found = np.zeros((len(indices), len(target)), np.int64)
    elif len(indices):
        strides = np.cumprod([1, *shape.tolist()[:0:-1]], dtype=np.int64)[::-1]
        flat = (indices * strides).sum(axis=1)
        found = np.stack(np.unravel_index(flat, target), axis=1).astype(np.int64)
    else:
        found = np.zeros((0, len(target)), np.int64)
    return found, np.array(target, np.int64)


def _reorder_shape(c: ShapeContext) -> list[Dims]:
    return [c.shape("input_indices"), c.shape("input_values")]


@op(
    """
    SparseReorder(input_indices: int64, input_values: T, input_shape: int64)
    -> output_indices: int64, output_values: T
    T: type
    """,
    shape=_reorder_shape,
)
def sparse_reorder_kernel(ctx: KernelContext, indices: Array, values: Array, shape: Array) -> Any:
    """Return the elements in the order of their indices, the first axis counting most."""
    _check_rank(indices, 2, "input_indices")
    _check_rank(values, 1, "input_values")
    _check_rank(shape, 1, "input_shape")
    _check_parts(indices, values, shape)
    order = np.lexsort(indices.T[::-1]) if indices.shape[1] else np.arange(len(indices))
    return indices[order], values[order]


@gradient("SparseReorder")
def _reorder_grad(op: Operation, _: Tensor, grad: Tensor) -> list[Any]:
    indices, values, shape = op.inputs
    count = apply_op("Size", values)
    numbers = apply_op("Range", 0, count, 1)
    _, order = apply_op("SparseReorder", indices, numbers, shape)
    back = apply_op("InvertPermutation", order)
    return [None, apply_op("GatherV2", grad, back, 0), None]


# ---- empty rows


def _filled_shape(c: ShapeContext) -> list[Dims]:
    indices = with_rank(c.shape("indices"), 2, "indices")
    sizes = c.value_as_shape("dense_shape")
    rows = None if not sizes else sizes[0]
    return [(None, indices[1]), (None,), (rows,), (indices[0],)]


@op(
    """
    SparseFillEmptyRows(indices: int64, values: T, dense_shape: int64, default_value: T)
    -> output_indices: int64, output_values: T, empty_row_indicator: bool, reverse_index_map: int64
    T: type
    """,
    shape=_filled_shape,
)
def sparse_fill_empty_rows_kernel(
    ctx: KernelContext, indices: Array, values: Array, shape: Array, default: Array
) -> Any:
    """Return the elements by rows, a default at the head of each row that has none."""
    _check_rank(shape, 1, "dense_shape")
    _check_rank(indices, 2, "indices")
    _check_rank(values, 1, "values")
    _check_rank(default, 0, "default_value")
    if not len(shape):
        raise _invalid("dense_shape must have one size at least")
    _check_parts(indices, values, shape)
    count = int(shape[0])
    rows = indices[:, 0]
    if count == 0 and len(rows):
        raise _invalid(f"Received SparseTensor with dense_shape[0] = 0 but {len(rows)} indices")
    wrong = np.flatnonzero((rows < 0) | (rows >= count))
    if len(wrong):
        raise _invalid(
            f"indices({wrong[0]}, 0) is invalid: {rows[wrong[0]]} is not in [0, {count})"
        )
    used = np.bincount(rows, minlength=count)
    empty = used == 0
    missing = np.flatnonzero(empty)
    heads = np.zeros((len(missing), indices.shape[1]), np.int64)
    heads[:, 0] = missing
    order = np.argsort(np.concatenate([rows, missing]), kind="stable")
    fill = np.empty(len(missing), values.dtype)
    fill[...] = default
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return (
        np.concatenate([indices, heads])[order],
        np.concatenate([values, fill])[order],
        empty,
        back[: len(rows)],
    )


@op(
    """
    SparseFillEmptyRowsGrad(reverse_index_map: int64, grad_values: T)
    -> d_values: T, d_default_value: T
    T: type
    """,
    shape=lambda c: [c.shape(0), ()],
)
def sparse_fill_empty_rows_grad_kernel(ctx: KernelContext, back: Array, grad: Array) -> Any:
    """Return the gradients of the values and of the default."""
    _check_rank(back, 1, "reverse_index_map")
    _check_rank(grad, 1, "grad_values")
    if len(back) and (back.min() < 0 or back.max() >= len(grad)):
        raise _invalid(f"reverse_index_map must lie within the {len(grad)} gradients")
    kept = np.zeros(len(grad), bool)
    kept[back] = True
    return grad[back], grad[~kept].sum(dtype=grad.dtype)


@gradient("SparseFillEmptyRows")
def _fill_empty_rows_grad(op: Operation, _: Tensor, grad: Tensor, *rest: Tensor) -> list[Any]:
    values, default = apply_op("SparseFillEmptyRowsGrad", op.outputs[3], grad)
    return [None, values, None, default]


not_differentiable("SparseReshape", "SparseFillEmptyRowsGrad")
