"""Linear algebra: products of matrices, einsum, factorisations, solutions of equations."""

from __future__ import annotations

from tideflow.ops.linalg.factors import cholesky, self_adjoint_eigvals, svd
from tideflow.ops.linalg.matrices import (
    matrix_determinant,
    matrix_solve,
    matrix_triangular_solve,
    slogdet,
)
from tideflow.ops.linalg.matrix_like import MatrixLike
from tideflow.ops.linalg.products import matmul
from tideflow.ops.linalg.solutions import compact_diagonals, tridiagonal_solve

__all__ = [
    "MatrixLike",
    "cholesky",
    "compact_diagonals",
    "matmul",
    "matrix_determinant",
    "matrix_solve",
    "matrix_triangular_solve",
    "self_adjoint_eigvals",
    "slogdet",
    "svd",
    "tridiagonal_solve",
]
