"""Programs of sparse matrices by compressed rows, which travel as variants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ops.bad_inputs.programs import Build, Feeds
from tideflow.graph.building import apply_op

Runs = Sequence[Sequence[Any]]
F = np.float32
I64 = np.int64
X = F([[0, 2, 0], [3, 0, 1], [0, 4, 0]])
PLACES = I64([[0, 1], [1, 0], [1, 2], [2, 1]])


def _matrix(op: str, feed: Feeds) -> Runs:
    if op == "SparseTensorToCSRSparseMatrix":
        made = apply_op(op, feed(PLACES), feed(F([2, 3, 1, 4])), feed(I64([3, 3])))
    else:
        made = apply_op("DenseToCSRSparseMatrix", feed(X), feed(PLACES))
    if op == "SparseMatrixMatMul":
        return [[apply_op(op, made, feed(X))]]
    if op == "SparseMatrixNNZ":
        return [[apply_op(op, made)]]
    if op == "SparseMatrixTranspose":
        made = apply_op(op, made, type=F)
    if op == "SparseMatrixSparseMatMul":
        made = apply_op(op, made, made, type=F)
    if op == "CSRSparseMatrixToDense":
        return [[apply_op(op, made, type=F)]]
    if op == "CSRSparseMatrixComponents":
        return [[*apply_op(op, made, feed(np.int32(0)), type=F)]]
    return [[*apply_op("CSRSparseMatrixToSparseTensor", made, type=F)]]


_OPS = (
    "DenseToCSRSparseMatrix SparseTensorToCSRSparseMatrix CSRSparseMatrixToSparseTensor "
    "CSRSparseMatrixToDense CSRSparseMatrixComponents SparseMatrixNNZ SparseMatrixTranspose "
    "SparseMatrixMatMul SparseMatrixSparseMatMul"
)


def matrix_programs() -> dict[str, Build]:
    """Return how the program of each op is built."""
    return {op: partial(_matrix, op) for op in _OPS.split()}
