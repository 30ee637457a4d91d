"""Linear algebra: products of matrices, einsum, factorisations, solutions of equations."""

from __future__ import annotations

from tideflow.ops.linalg.products import matmul

__all__ = [
    "matmul",
]
