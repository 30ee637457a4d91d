"""The Cholesky factor of sparse matrices, and orders of rows that keep it sparse.

Source: tensorflow/core/kernels/sparse/sparse_cholesky_op.cc, sparse_ordering_amd_op.cc; behaviour
of TensorFlow 2.21.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.types import Array
from tideflow.ops.sparse.csr_values import CsrMatrix, as_matrix
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError


def _factorised(matrix: Array, order: str) -> Any:
    """Return SuperLU's factors of a symmetric scipy matrix, which take pivots on the diagonal."""
    # Only who factorises pays for importing it.
    splu = importlib.import_module("scipy.sparse.linalg").splu
    options = {"SymmetricMode": True}
    return splu(matrix, permc_spec=order, diag_pivot_thresh=0, options=options)


def _scipy_matrix(rows: Any, cols: Any, values: Array, size: int) -> Any:
    coo_array = importlib.import_module("scipy.sparse").coo_array
    return coo_array((values, (rows, cols)), shape=(size, size)).tocsc()


def _square(value: object, dtype: DType | None = None) -> CsrMatrix:
    given = as_matrix(value, dtype)
    height, width = given.shape[-2:]
    if height != width:
        raise InvalidArgumentError(f"sparse matrix must be square; got: {height} != {width}")
    return given


def _ordering(one: CsrMatrix) -> Any:
    size = one.shape[-1]
    if not size:
        return np.zeros(0, np.int32)
    # Only the places count; this diagonal can be divided by whatever stands beside it.
    diagonal = np.arange(size)
    rows = np.concatenate([one.rows, one.cols, diagonal])
    cols = np.concatenate([one.cols, one.rows, diagonal])
    values = np.concatenate([np.full(2 * len(one.rows), 1.0), np.full(size, 4.0 * size)])
    places = _factorised(_scipy_matrix(rows, cols, values, size), "MMD_AT_PLUS_A").perm_c
    return np.argsort(places).astype(np.int32)


@op("SparseMatrixOrderingAMD(input: variant) -> output: int32", shape=lambda c: [None])
def sparse_matrix_ordering_amd(ctx: KernelContext, matrix: Array) -> Any:
    """Return for each matrix an order of its rows in which its Cholesky factor has few values.

    It is one of minimum degree, of which there are many: TensorFlow may choose another.
    Raises: InvalidArgumentError for a matrix that is not square.
    """
    given = _square(matrix)
    found = [_ordering(given.one(i)) for i in range(given.count)]
    if len(given.shape) == 2:
        return found[0]
    return np.array(found, np.int32).reshape(given.count, given.shape[-1])


def _check_permutation(permutation: Any, given: CsrMatrix) -> Any:
    """Return the order of the rows of each matrix."""
    rank, size = len(given.shape), given.shape[-1]
    if np.ndim(permutation) != rank - 1:
        raise InvalidArgumentError(
            f"sparse matrix must have the same rank as permutation; got: {rank} != "
            f"{np.ndim(permutation)} + 1."
        )
    if np.shape(permutation)[-1] != size:
        raise InvalidArgumentError(
            "permutation must have the same number of elements in each batch as the number of rows "
            f"in sparse matrix; got: {np.shape(permutation)[-1]} != {size}"
        )
    if rank == 3 and np.shape(permutation)[0] != given.count:
        raise InvalidArgumentError(
            f"permutation must have the same batch size as sparse matrix; got: "
            f"{np.shape(permutation)[0]} != {given.count}"
        )
    orders = np.asarray(permutation).reshape(given.count, size)
    if (np.sort(orders, axis=1) != np.arange(size)).any():
        raise InvalidArgumentError("permutation must hold the number of each row once")
    return orders


def _cholesky(one: CsrMatrix, order: Any, batch: int) -> tuple[Any, Any, Any]:
    """Return rows, columns and values of the factor of a matrix, of which the lower half counts."""
    size = one.shape[-1]
    wide = np.result_type(one.values.dtype, np.float64)
    lower = one.rows >= one.cols
    rows, cols, values = one.rows[lower], one.cols[lower], one.values[lower].astype(wide)
    below = rows > cols
    place = np.argsort(order)
    both_rows, both_cols = np.concatenate([rows, cols[below]]), np.concatenate([cols, rows[below]])
    both = np.concatenate([values, np.conj(values[below])])
    try:
        factors = _factorised(
            _scipy_matrix(place[both_rows], place[both_cols], both, size), "NATURAL"
        )
    except RuntimeError:  # it is singular
        factors = None
    diagonal = np.ones(0) if factors is None else factors.U.diagonal().real
    # What is taken from beside the diagonal, and what is no number, are signs of other matrices.
    if factors is None or not ((diagonal > 0).all() and (factors.perm_r == factors.perm_c).all()):
        raise InvalidArgumentError(
            f"Sparse Cholesky factorization failed for batch index {batch}. The input might not be "
            "valid."
        )
    # SuperLU takes the columns in another order of the same eliminations.
    back = np.argsort(factors.perm_c)
    made = factors.L.tocoo()
    values = made.data * np.sqrt(diagonal)[made.col]
    found_rows, found_cols = back[made.row], back[made.col]
    kept = values != 0
    order = np.lexsort((found_cols[kept], found_rows[kept]))
    return found_rows[kept][order], found_cols[kept][order], values[kept][order]


@op(
    """
    SparseMatrixSparseCholesky(input: variant, permutation: int32) -> output: variant
    type: type in {float, double, complex64, complex128}
    """,
    shape=lambda c: [()],
)
def sparse_matrix_sparse_cholesky(
    ctx: KernelContext, matrix: Array, permutation: Array, *, type: DType
) -> Any:
    """Return the lower factor of each matrix whose rows and columns were put in an order.

    Only the lower half of a matrix counts.
    Raises: InvalidArgumentError for a matrix that is not square or not positive definite, or an
    order that does not fit it.
    """
    given = _square(matrix, type)
    orders = _check_permutation(permutation, given)
    empty = np.zeros(0, np.int64)
    parts = [
        _cholesky(given.one(i), orders[i], i) if given.shape[-1] else (empty, empty, empty)
        for i in range(given.count)
    ]
    batches = np.repeat(np.arange(given.count), [len(rows) for rows, _, _ in parts])
    rows, cols, values = (np.concatenate([empty, *(part[i] for part in parts)]) for i in range(3))
    return CsrMatrix(
        given.shape,
        batches,
        rows.astype(np.int64),
        cols.astype(np.int64),
        values.astype(type.as_numpy_dtype),
    )


not_differentiable("SparseMatrixOrderingAMD", "SparseMatrixSparseCholesky")
