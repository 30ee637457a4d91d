"""Sparse matrices by compressed rows: made, read, transposed, multiplied and factorised.

Source: tensorflow/core/kernels/sparse/*.cc; python/ops/linalg/sparse/sparse_csr_matrix_grad.py for
which ops have gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.framework import check_scalar
from tideflow.ops.sparse.csr_values import CsrMatrix, as_matrix
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError

_TYPES = "{float, double, complex64, complex128}"


def _scalar(c: ShapeContext) -> list[Dims]:
    return [()]


# ---- to and from other forms


@op(
    f"""
    SparseTensorToCSRSparseMatrix(indices: int64, values: T, dense_shape: int64)
    -> sparse_matrix: variant
    T: type in {_TYPES}
    """,
    shape=_scalar,
)
def sparse_to_csr_kernel(
    ctx: KernelContext, indices: Array, values: Array, dense_shape: Array
) -> Any:
    """Return the matrix, or batch of them, of a sparse tensor whose indices are in order.

    Raises: InvalidArgumentError for another rank than 2 or 3, or indices that do not fit.
    """
    if np.ndim(indices) != 2 or np.ndim(values) != 1 or np.ndim(dense_shape) != 1:
        raise InvalidArgumentError("indices must be a matrix, values and dense_shape vectors")
    if indices.shape[1] not in (2, 3):
        raise InvalidArgumentError(
            f"SparseTensor must have rank 2 or 3; but indices has rank: {indices.shape[1]}"
        )
    if len(dense_shape) != indices.shape[1]:
        raise InvalidArgumentError(
            f"Index rank {indices.shape[1]} and shape rank {len(dense_shape)} do not match"
        )
    if len(values) != len(indices):
        raise InvalidArgumentError(
            f"Number of elements in indices ({len(indices)}) and values ({len(values)}) do not "
            "match"
        )
    if (dense_shape < 0).any():
        raise InvalidArgumentError(f"dense_shape must not be negative: {dense_shape.tolist()}")
    outside = ((indices < 0) | (indices >= dense_shape)).any(axis=1)
    for at in np.flatnonzero(outside)[:1]:
        raise InvalidArgumentError(
            f"Sparse index tuple indices[{at}, :] = {indices[at].tolist()} is out of bounds"
        )
    # Columns keep the order in which they come within a row.
    made = CsrMatrix.at(dense_shape.tolist(), indices, values)
    order = np.lexsort((made.rows, made.batches))
    return CsrMatrix(made.shape, made.batches[order], made.rows[order], made.cols, values)


@op(
    f"""
    DenseToCSRSparseMatrix(dense_input: T, indices: int64) -> sparse_output: variant
    T: type in {_TYPES}
    """,
    shape=_scalar,
)
def dense_to_csr_kernel(ctx: KernelContext, dense: Array, indices: Array) -> Any:
    """Return the matrix of what a dense one, or a batch of them, holds at indices [n, rank].

    Raises: InvalidArgumentError for another rank than 2 or 3, or indices outside.
    """
    if np.ndim(dense) not in (2, 3):
        raise InvalidArgumentError(
            f"params must have rank == 2 or 3; but saw shape: {list(np.shape(dense))}"
        )
    if np.ndim(indices) != 2 or indices.shape[1] != np.ndim(dense):
        raise InvalidArgumentError(
            f"indices must be [n, {np.ndim(dense)}]; found {list(np.shape(indices))}"
        )
    outside = ((indices < 0) | (indices >= np.shape(dense))).any(axis=1)
    for at in np.flatnonzero(outside)[:1]:
        raise InvalidArgumentError(
            f"indices[{at}] = {indices[at].tolist()} does not index into param shape "
            f"{list(np.shape(dense))}"
        )
    values = dense[tuple(indices.T)]
    return sparse_to_csr_kernel(ctx, indices, values, np.array(np.shape(dense), np.int64))


@op(
    f"CSRSparseMatrixToDense(sparse_input: variant) -> dense_output: type\ntype: type in {_TYPES}",
    shape=lambda c: [None],
)
def csr_to_dense_kernel(ctx: KernelContext, sparse: Any, *, type: DType) -> Any:
    """Return the matrix with zeros between its values."""
    return as_matrix(sparse, type).dense()


@op(
    f"""
    CSRSparseMatrixToSparseTensor(sparse_matrix: variant)
    -> indices: int64, values: type, dense_shape: int64
    type: type in {_TYPES}
    """,
    shape=lambda c: [(None, None), (None,), (None,)],
)
def csr_to_sparse_kernel(ctx: KernelContext, sparse: Any, *, type: DType) -> Any:
    """Return indices, values and shape of a sparse tensor."""
    given = as_matrix(sparse, type)
    return given.indices(), given.values, np.array(given.shape, np.int64)


@op(
    f"""
    CSRSparseMatrixComponents(csr_sparse_matrix: variant, index: int32)
    -> row_ptrs: int32, col_inds: int32, values: type
    type: type in {_TYPES}
    """,
    shape=lambda c: [(None,), (None,), (None,)],
)
def csr_components_kernel(ctx: KernelContext, sparse: Any, index: Array, *, type: DType) -> Any:
    """Return row pointers, columns and values of one matrix of a batch.

    Raises: InvalidArgumentError for a matrix that is not there.
    """
    given = as_matrix(sparse, type)
    check_scalar(index, "index")
    if not 0 <= int(index) < given.count:
        raise InvalidArgumentError(f"index ({int(index)}) not in [0, {given.count})")
    one = given.one(int(index))
    return one.pointers(), one.cols.astype(np.int32), one.values


@op("SparseMatrixNNZ(sparse_matrix: variant) -> nnz: int32", shape=lambda c: [None])
def csr_nnz_kernel(ctx: KernelContext, sparse: Any) -> Any:
    """Return how many values each matrix has: a scalar, or [batch]."""
    given = as_matrix(sparse)
    counts = np.bincount(given.batches, minlength=given.count).astype(np.int32)
    return counts if len(given.shape) == 3 else counts[0]


# ---- transposes and products


@op(
    f"""
    SparseMatrixTranspose(input: variant) -> output: variant
    conjugate: bool = false
    type: type in {_TYPES}
    """,
    shape=_scalar,
)
def csr_transpose_kernel(ctx: KernelContext, sparse: Any, *, conjugate: bool, type: DType) -> Any:
    """Return the transpose of each matrix, or its conjugate."""
    return as_matrix(sparse, type).turned(conjugate)


def _check_flags(transpose_a: bool, transpose_b: bool, adjoint_a: bool, adjoint_b: bool) -> None:
    for name, both in (("a", transpose_a and adjoint_a), ("b", transpose_b and adjoint_b)):
        if both:
            raise InvalidArgumentError(
                f"Only one of adjoint_{name} and transpose_{name} may be true."
            )


def _check_sizes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Require matrices that can be multiplied."""
    if len(a) != len(b):
        raise InvalidArgumentError(f"Ranks of a and b must match, saw: {len(a)} vs. {len(b)}.")
    if a[:-2] != b[:-2]:
        raise InvalidArgumentError(f"Batch sizes of a and b must match, saw: {a[0]} vs. {b[0]}.")
    if a[-1] != b[-2]:
        raise InvalidArgumentError(
            f"Inner product dimensions of A and B do not agree. Shapes are: {a} vs. {b}"
        )


@op(
    """
    SparseMatrixMatMul(a: variant, b: T) -> output: T
    T: type
    transpose_a: bool = false
    transpose_b: bool = false
    adjoint_a: bool = false
    adjoint_b: bool = false
    transpose_output: bool = false
    conjugate_output: bool = false
    """,
    shape=lambda c: [None if c.inputs[1] is None else (None,) * len(c.inputs[1])],
)
def csr_mat_mul_kernel(
    ctx: KernelContext,
    a: Array,
    b: Array,
    *,
    T: DType,
    transpose_a: bool,
    transpose_b: bool,
    adjoint_a: bool,
    adjoint_b: bool,
    transpose_output: bool,
    conjugate_output: bool,
) -> Any:
    """Return the dense product of sparse matrices with dense ones.

    Raises: InvalidArgumentError for types, sizes and flags that do not go together.
    """
    _check_flags(transpose_a, transpose_b, adjoint_a, adjoint_b)
    sparse = as_matrix(a, T)
    left = sparse.turned(adjoint_a) if transpose_a or adjoint_a else sparse
    right = np.swapaxes(b, -1, -2) if np.ndim(b) > 1 and (transpose_b or adjoint_b) else b
    right = np.conj(right) if adjoint_b else right
    _check_sizes(left.shape, np.shape(right))
    made = np.zeros((*left.shape[:-1], right.shape[-1]), b.dtype)
    where = (left.batches, left.rows) if len(left.shape) == 3 else (left.rows,)
    from_rows = (left.batches, left.cols) if len(left.shape) == 3 else (left.cols,)
    np.add.at(made, where, left.values[:, None] * right[from_rows])
    made = np.swapaxes(made, -1, -2) if transpose_output else made
    return np.ascontiguousarray(np.conj(made) if conjugate_output else made)


@op(
    f"""
    SparseMatrixSparseMatMul(a: variant, b: variant) -> c: variant
    type: type in {_TYPES}
    transpose_a: bool = false
    transpose_b: bool = false
    adjoint_a: bool = false
    adjoint_b: bool = false
    """,
    shape=_scalar,
)
def csr_sparse_mat_mul_kernel(
    ctx: KernelContext,
    a: Array,
    b: Array,
    *,
    type: DType,
    transpose_a: bool,
    transpose_b: bool,
    adjoint_a: bool,
    adjoint_b: bool,
) -> Any:
    """Return the sparse product of sparse matrices.

    Raises: InvalidArgumentError for types, sizes and flags that do not go together.
    """
    _check_flags(transpose_a, transpose_b, adjoint_a, adjoint_b)
    left, right = as_matrix(a, type), as_matrix(b, type)
    left = left.turned(adjoint_a) if transpose_a or adjoint_a else left
    right = right.turned(adjoint_b) if transpose_b or adjoint_b else right
    _check_sizes(left.shape, right.shape)
    return left.times(right)


# ---- gradients

not_differentiable("SparseMatrixNNZ", "CSRSparseMatrixComponents")


@gradient("DenseToCSRSparseMatrix")
def _from_dense_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("CSRSparseMatrixToDense", grad, type=op.attrs["T"]), None]


@gradient("CSRSparseMatrixToDense")
def _to_dense_grad(op: Operation, grad: Tensor) -> list[Any]:
    indices, _, shape = apply_op("CSRSparseMatrixToSparseTensor", op.inputs[0], type=grad.dtype)
    values = apply_op("GatherNd", grad, indices)
    return [apply_op("SparseTensorToCSRSparseMatrix", indices, values, shape)]


@gradient("SparseTensorToCSRSparseMatrix")
def _from_sparse_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [None, apply_op("CSRSparseMatrixToSparseTensor", grad, type=op.attrs["T"])[1], None]


@gradient("CSRSparseMatrixToSparseTensor")
def _to_sparse_grad(op: Operation, _: Tensor, grad: Tensor, *__: Tensor) -> list[Any]:
    return [apply_op("SparseTensorToCSRSparseMatrix", op.outputs[0], grad, op.outputs[2])]


@gradient("SparseMatrixTranspose")
def _transpose_grad(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in ("conjugate", "type")}
    return [apply_op("SparseMatrixTranspose", grad, name=None, **attrs)]


def _turned(value: Tensor, is_turned: bool, is_conjugate: bool) -> Any:
    """Return dense matrices, transposed or conjugate."""
    found: Any = value
    if is_turned:
        rank = apply_op("Rank", found)
        outer = apply_op("Range", 0, apply_op("Sub", rank, 2), 1)
        last = apply_op("Pack", [apply_op("Sub", rank, 1), apply_op("Sub", rank, 2)])
        found = apply_op("Transpose", found, apply_op("ConcatV2", [outer, last], 0))
    return apply_op("Conj", found) if is_conjugate and value.dtype.is_complex else found


def _at_places_of(sparse: Tensor, dense: Tensor) -> Any:
    """Return the sparse matrix of what a dense one holds where another has values."""
    indices = apply_op("CSRSparseMatrixToSparseTensor", sparse, type=dense.dtype)[0]
    return apply_op("DenseToCSRSparseMatrix", dense, indices)


def _dense_gradients(op: Operation, a: Tensor, b: Tensor, grad: Tensor) -> tuple[Any, Any]:
    """Return the gradients of a product of dense matrices, for its operands as they were given."""
    flags = {n: op.attrs[n] for n in ("transpose_a", "transpose_b", "adjoint_a", "adjoint_b")}
    turn_a, turn_b = (flags[f"transpose_{x}"] or flags[f"adjoint_{x}"] for x in "ab")
    left = _turned(a, turn_a, flags["adjoint_a"])
    right = _turned(b, turn_b, flags["adjoint_b"])
    for_left = apply_op("BatchMatMulV2", grad, right, adj_y=True)
    for_right = apply_op("BatchMatMulV2", left, grad, adj_x=True)
    return (
        _turned(for_left, turn_a, flags["adjoint_a"]),
        _turned(for_right, turn_b, flags["adjoint_b"]),
    )


@gradient("SparseMatrixMatMul")
def _mat_mul_grad(op: Operation, grad: Tensor) -> list[Any]:
    a, b = op.inputs
    grad = _turned(grad, op.attrs["transpose_output"], op.attrs["conjugate_output"])
    dense = apply_op("CSRSparseMatrixToDense", a, type=b.dtype)
    for_a, for_b = _dense_gradients(op, dense, b, grad)
    return [_at_places_of(a, for_a), for_b]


@gradient("SparseMatrixSparseMatMul")
def _sparse_mat_mul_grad(op: Operation, grad: Tensor) -> list[Any]:
    kind = op.attrs["type"]
    dense = [apply_op("CSRSparseMatrixToDense", x, type=kind) for x in (*op.inputs, grad)]
    found = _dense_gradients(op, *dense)
    return [_at_places_of(x, slope) for x, slope in zip(op.inputs, found)]
