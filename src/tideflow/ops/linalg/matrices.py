"""Inverses and determinants of matrices, and solutions of linear systems, in stacks.

The kernels are LAPACK's, through NumPy and SciPy; they run as they are, outside compiled regions,
because what is singular has to be an error.
Source: tensorflow/core/kernels/linalg.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, broadcast
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import scoped
from tideflow.ops.linalg.shapes import (
    adjoint_of,
    check_matrices,
    matrix_dims,
    scipy_linalg,
    square_dims,
)
from tideflow.wire import errors


def _check_rhs(matrix: Any, rhs: Any, same_stack: bool = True) -> None:
    check_matrices(rhs, "rhs", square=False)
    if matrix.shape[-2] != rhs.shape[-2] or (same_stack and matrix.shape[:-2] != rhs.shape[:-2]):
        raise errors.InvalidArgumentError(
            f"rhs of shape {list(rhs.shape)} does not go with matrices of shape "
            f"{list(matrix.shape)}"
        )


def _or_singular(work: Callable[[], Any], message: str) -> Any:
    try:
        return work()
    except np.linalg.LinAlgError:
        raise errors.InvalidArgumentError(message) from None


@op(
    """
    MatrixInverse(input: T) -> output: T
    adjoint: bool = false
    T: type in {double, float, half, complex64, complex128}
    """,
    shape=lambda c: [square_dims(c)],
)
def matrix_inverse_kernel(ctx: KernelContext, x: Array, *, adjoint: bool) -> Any:
    check_matrices(x, "input")
    given = adjoint_of(x) if adjoint else x
    return _or_singular(lambda: np.linalg.inv(given), "Input is not invertible.")


@op(
    """
    MatrixDeterminant(input: T) -> output: T
    T: type in {half, float, double, complex64, complex128}
    """,
    shape=lambda c: [_stack(square_dims(c))],
)
def matrix_determinant_kernel(ctx: KernelContext, x: Array) -> Any:
    check_matrices(x, "input")
    return np.linalg.det(x)


@op(
    """
    LogMatrixDeterminant(input: T) -> sign: T, log_abs_determinant: T
    T: type in {half, float, double, complex64, complex128}
    """,
    shape=lambda c: [_stack(square_dims(c))] * 2,
)
def log_matrix_determinant_kernel(ctx: KernelContext, x: Array) -> Any:
    check_matrices(x, "input")
    sign, log = np.linalg.slogdet(x)
    # What is no number has no sign either.
    sign = np.where(np.isnan(log), log, sign).astype(x.dtype)
    return sign, log.astype(x.dtype)


def _stack(dims: Dims) -> Dims:
    return None if dims is None else dims[:-2]


def _solved_shape(c: ShapeContext) -> list[Dims]:
    matrix, rhs = square_dims(c), matrix_dims(c, 1)
    if matrix is None or rhs is None:
        return [None]
    return [(*rhs[:-2], matrix[-1], rhs[-1])]


@op(
    """
    MatrixSolve(matrix: T, rhs: T) -> output: T
    adjoint: bool = false
    T: type in {double, float, half, complex64, complex128}
    """,
    shape=_solved_shape,
)
def matrix_solve_kernel(ctx: KernelContext, matrix: Array, rhs: Array, *, adjoint: bool) -> Any:
    check_matrices(matrix, "matrix")
    _check_rhs(matrix, rhs)
    given = adjoint_of(matrix) if adjoint else matrix
    return _or_singular(lambda: np.linalg.solve(given, rhs), "Input matrix is not invertible.")


def _triangular_shape(c: ShapeContext) -> list[Dims]:
    matrix, rhs = square_dims(c), matrix_dims(c, 1)
    if matrix is None or rhs is None:
        return [None]
    stack = broadcast(matrix[:-2], rhs[:-2])
    return [None if stack is None else (*stack, matrix[-1], rhs[-1])]


@op(
    """
    MatrixTriangularSolve(matrix: T, rhs: T) -> output: T
    lower: bool = true
    adjoint: bool = false
    T: type in floats_and_complex
    """,
    shape=_triangular_shape,
)
def matrix_triangular_solve_kernel(
    ctx: KernelContext, matrix: Array, rhs: Array, *, lower: bool, adjoint: bool
) -> Any:
    check_matrices(matrix, "matrix")
    _check_rhs(matrix, rhs, same_stack=False)
    kept = np.tril(matrix) if lower else np.triu(matrix)
    try:
        stack = np.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    except ValueError:
        raise errors.InvalidArgumentError(
            f"stacks of shapes {list(matrix.shape)} and {list(rhs.shape)} do not go together"
        ) from None
    if not rhs.size or not matrix.size:
        return np.zeros((*stack, *rhs.shape[-2:]), rhs.dtype)
    if adjoint:
        kept, lower = adjoint_of(kept), not lower
    is_regular = np.diagonal(kept, axis1=-2, axis2=-1).all() and kept.dtype.itemsize >= 4
    solve = scipy_linalg().solve_triangular if is_regular else _substitute
    made = np.empty((*stack, *rhs.shape[-2:]), rhs.dtype)
    matrices = np.broadcast_to(kept, (*stack, *kept.shape[-2:]))
    sides = np.broadcast_to(rhs, made.shape)
    for at in np.ndindex(*stack):
        made[at] = solve(matrices[at], sides[at], lower=lower, check_finite=False)
    return made


def _substitute(matrix: Array, rhs: Array, lower: bool, check_finite: bool) -> Any:
    """Solve a triangular system with zeros on its diagonal: the result has infinities there."""
    rows = range(len(matrix))
    found = np.zeros_like(rhs)
    with np.errstate(all="ignore"):
        for row in rows if lower else reversed(rows):
            before = slice(0, row) if lower else slice(row + 1, None)
            found[row] = (rhs[row] - matrix[row, before] @ found[before]) / matrix[row, row]
    return found


def _diagonals_shape(c: ShapeContext) -> list[Dims]:
    matrix_dims(c)
    return [matrix_dims(c, 1)]


@op(
    """
    TridiagonalSolve(diagonals: T, rhs: T) -> output: T
    partial_pivoting: bool = true
    perturb_singular: bool = false
    T: type in {double, float, complex64, complex128}
    """,
    shape=_diagonals_shape,
)
def tridiagonal_solve_kernel(
    ctx: KernelContext,
    diagonals: Array,
    rhs: Array,
    *,
    partial_pivoting: bool,
    perturb_singular: bool,
) -> Any:
    check_matrices(diagonals, "diagonals", square=False)
    check_matrices(rhs, "rhs", square=False)
    fits = diagonals.shape[:-2] == rhs.shape[:-2] and diagonals.shape[-1] == rhs.shape[-2]
    if diagonals.shape[-2] != 3 or not fits:
        raise errors.InvalidArgumentError(
            f"diagonals must be [..., 3, M] and rhs [..., M, K]; found {list(diagonals.shape)} and "
            f"{list(rhs.shape)}"
        )
    made = np.zeros_like(rhs)
    if not rhs.size:
        return made
    # LAPACK counts the upper diagonal from its second element.
    banded = diagonals.copy()
    banded[..., 0, 1:] = diagonals[..., 0, :-1]
    banded[..., 2, :-1] = diagonals[..., 2, 1:]
    solve = scipy_linalg().solve_banded
    for at in np.ndindex(*rhs.shape[:-2]):
        try:
            made[at] = solve((1, 1), banded[at], rhs[at], check_finite=False)
        except np.linalg.LinAlgError:
            made[at] = np.nan
    return made


def _least_shape(c: ShapeContext) -> list[Dims]:
    matrix, rhs = matrix_dims(c), matrix_dims(c, 1)
    return [None if matrix is None or rhs is None else (*matrix[:-2], matrix[-1], rhs[-1])]


@op(
    """
    MatrixSolveLs(matrix: T, rhs: T, l2_regularizer: double) -> output: T
    T: type in {double, float, half, complex64, complex128}
    fast: bool = true
    """,
    shape=_least_shape,
)
def matrix_solve_ls_kernel(
    ctx: KernelContext, matrix: Array, rhs: Array, l2_regularizer: Array, *, fast: bool
) -> Any:
    check_matrices(matrix, "matrix", square=False)
    _check_rhs(matrix, rhs)
    if np.ndim(l2_regularizer) or not l2_regularizer >= 0:
        raise errors.InvalidArgumentError(
            f"l2_regularizer must be a scalar that is not negative; found {l2_regularizer}"
        )
    rows, columns = matrix.shape[-2:]
    if not fast:
        made = [
            np.linalg.lstsq(matrix[at], rhs[at], rcond=None)[0]
            for at in np.ndindex(*matrix.shape[:-2])
        ]
        return np.array(made, rhs.dtype).reshape(*matrix.shape[:-2], columns, rhs.shape[-1])
    turned = adjoint_of(matrix)
    is_tall = rows >= columns
    gram = turned @ matrix if is_tall else matrix @ turned
    # On the diagonal alone: an infinite one would be NaN beside it.
    along = np.arange(min(rows, columns))
    gram[..., along, along] += gram.dtype.type(l2_regularizer)
    message = "Input matrix was rank deficient or ill-conditioned. Try setting fast=False."
    if is_tall:
        return _or_singular(lambda: np.linalg.solve(gram, turned @ rhs), message)
    return turned @ _or_singular(lambda: np.linalg.solve(gram, rhs), message)


# ---- public functions


@export("linalg.inv", "linalg.inverse", "matrix_inverse")
def matrix_inverse(input: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Return the inverse of square matrices [..., M, M], or of their adjoints.

    Raises: InvalidArgumentError for a singular matrix.
    """
    made: Tensor = apply_op("MatrixInverse", input, adjoint=adjoint, name=name)
    return made


@export("linalg.det", "matrix_determinant")
def matrix_determinant(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the determinants [...] of matrices [..., M, M].

    Args:
      input: float16, float32, float64 or complex.
    Raises: ValueError, or InvalidArgumentError, for matrices that are not square.
    """
    made: Tensor = apply_op("MatrixDeterminant", input, name=name)
    return made


class LogMatrixDeterminant(NamedTuple):
    """The sign of determinants, and the logarithms of their absolute values."""

    sign: Tensor
    log_abs_determinant: Tensor


@export("linalg.slogdet")
def slogdet(input: TensorLike, name: str | None = None) -> LogMatrixDeterminant:
    """Return sign and logarithm of the absolute value of determinants of [..., M, M]."""
    sign, log = apply_op("LogMatrixDeterminant", input, name=name)
    return LogMatrixDeterminant(sign, log)


@export("linalg.solve", "matrix_solve")
def matrix_solve(
    matrix: TensorLike, rhs: TensorLike, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solve matrix [..., M, M] @ x = rhs [..., M, K].

    Raises: InvalidArgumentError for a singular matrix.
    """
    made: Tensor = apply_op("MatrixSolve", matrix, rhs, adjoint=adjoint, name=name)
    return made


@export("linalg.triangular_solve", "matrix_triangular_solve")
@scoped("triangular_solve")
def matrix_triangular_solve(
    matrix: TensorLike,
    rhs: TensorLike,
    lower: bool = True,
    adjoint: bool = False,
    name: str | None = None,
) -> Tensor:
    """Solve matrix @ x = rhs for triangular matrices [..., M, M]; stacks broadcast.

    A zero on a diagonal gives infinities.

    Args:
      matrix: float16, bfloat16, float32, float64 or complex.
      rhs: [..., M, K], of the type of matrix.
      lower: whether the lower half is read.
      adjoint: whether to solve with the adjoint of matrix.
    Returns: [..., M, K].
    Raises: ValueError, or InvalidArgumentError, for shapes that do not fit.
    """
    made: Tensor = apply_op(
        "MatrixTriangularSolve", matrix, rhs, lower=lower, adjoint=adjoint, name=name
    )
    return made


@export("linalg.lstsq", "matrix_solve_ls")
@scoped("matrix_solve_ls")
def matrix_solve_ls(
    matrix: TensorLike,
    rhs: TensorLike,
    l2_regularizer: float = 0.0,
    fast: bool = True,
    name: str | None = None,
) -> Tensor:
    """Return the x [..., N, K] with the least |matrix @ x - rhs|^2 + l2_regularizer |x|^2.

    Raises: InvalidArgumentError if `fast` and the matrix [..., M, N] has not full rank.
    """
    made: Tensor = apply_op(
        "MatrixSolveLs", matrix, rhs, np.float64(l2_regularizer), fast=fast, name=name
    )
    return made
