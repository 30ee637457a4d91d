"""Products and solutions with matrices that are given by few diagonals.

Source: tensorflow/core/kernels/linalg/tridiagonal_matmul_op.cc,
banded_triangular_solve_op.cc, cholesky_grad.cc; python/ops/linalg_grad.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, broadcast
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.framework import conj
from tideflow.ops.linalg.matrices import matrix_triangular_solve_kernel
from tideflow.ops.linalg.products import matmul, sum_batches
from tideflow.ops.linalg.shapes import check_matrices, matrix_dims, square_dims
from tideflow.wire.errors import InvalidArgumentError


@op(
    """
    TridiagonalMatMul(superdiag: T, maindiag: T, subdiag: T, rhs: T) -> output: T
    T: type in {double, float, complex64, complex128}
    """,
    shape=lambda c: [c.shape("rhs")],
)
def tridiagonal_mat_mul_kernel(
    xp: ArrayNamespace, superdiag: Array, maindiag: Array, subdiag: Array, rhs: Array
) -> Any:
    """Return T @ rhs [..., M, K], T given by diagonals [..., 1, M].

    The last element of superdiag and the first of subdiag do not count.
    """
    check_matrices(rhs, "rhs", square=False)
    wanted = (*rhs.shape[:-2], 1, rhs.shape[-2])
    for what, given in (("superdiag", superdiag), ("maindiag", maindiag), ("subdiag", subdiag)):
        if given.shape != wanted:
            raise InvalidArgumentError(
                f"{what} must have shape {list(wanted)}; it has {list(given.shape)}"
            )
    upper, main, lower = (xp.moveaxis(x, -1, -2) for x in (superdiag, maindiag, subdiag))
    edge = [(0, 0)] * (rhs.ndim - 2)
    above = xp.pad(upper[..., :-1, :] * rhs[..., 1:, :], [*edge, (0, 1), (0, 0)])
    below = xp.pad(lower[..., 1:, :] * rhs[..., :-1, :], [*edge, (1, 0), (0, 0)])
    return above + main * rhs + below


def _moved(x: Tensor, step: int) -> Any:
    """Return rows [..., M, K] moved up (1) or down (-1), with zeros in the row that comes free."""
    rank = x.shape.rank or 2
    none = [[0, 0]] * (rank - 2)
    edge, start = ([0, 1], 1) if step > 0 else ([1, 0], 0)
    wide = apply_op("Pad", x, [*none, edge, [0, 0]])
    begin = [*[0] * (rank - 2), start, 0]
    return apply_op("Slice", wide, begin, apply_op("Shape", x))


@gradient("TridiagonalMatMul")
def tridiagonal_mat_mul_gradient(op: Operation, grad: Tensor) -> list[Any]:
    upper, main, lower = (_columns(conj(x)) for x in op.inputs[:3])
    rhs: Any = conj(op.inputs[3])

    def row(x: Array) -> Any:
        return apply_op("ExpandDims", apply_op("Sum", x, [-1]), -2)

    by_rhs = _moved(upper * grad, -1) + main * grad + _moved(lower * grad, 1)
    return [row(_moved(rhs, 1) * grad), row(rhs * grad), row(_moved(rhs, -1) * grad), by_rhs]


def _columns(x: Tensor) -> Any:
    """Return [..., 1, M] as [..., M, 1]."""
    return apply_op("Reshape", x, apply_op("ConcatV2", [apply_op("Shape", x)[:-2], [-1, 1]], 0))


# ---- bands


def _solution_shape(c: ShapeContext) -> list[Dims]:
    bands, rhs = matrix_dims(c), matrix_dims(c, 1)
    if bands is None or rhs is None:
        return [None]
    if None not in (bands[-1], rhs[-2]) and bands[-1] != rhs[-2]:
        raise ValueError(f"bands of {bands[-1]} columns do not fit {rhs[-2]} rows")
    stack = broadcast(bands[:-2], rhs[:-2])
    return [None if stack is None else (*stack, *rhs[-2:])]


@op(
    """
    BandedTriangularSolve(matrix: T, rhs: T) -> output: T
    lower: bool = true
    adjoint: bool = false
    T: type in {double, float, half, complex64, complex128}
    """,
    shape=_solution_shape,
)
def banded_triangular_solve_kernel(
    ctx: KernelContext, matrix: Array, rhs: Array, *, lower: bool, adjoint: bool
) -> Any:
    """Solve A @ x = rhs [..., M, K], A given by bands [..., B, M], lowest or highest outermost.

    The main diagonal is the first band of a lower matrix and the last of an upper one.
    """
    check_matrices(matrix, "matrix", square=False)
    check_matrices(rhs, "rhs", square=False)
    count, size = matrix.shape[-2:]
    if not 1 <= count <= size or rhs.shape[-2] != size:
        raise InvalidArgumentError(
            f"bands {list(matrix.shape)} stand for no square matrix that fits {list(rhs.shape)}"
        )
    try:
        stack = np.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    except ValueError:
        raise InvalidArgumentError(
            f"stacks of {list(matrix.shape)} and {list(rhs.shape)} do not go together"
        ) from None
    bands = np.moveaxis(matrix if lower else matrix[..., ::-1, :], -2, 0)
    if adjoint:
        bands, lower = _adjoint_bands(bands, lower), not lower
    made = np.zeros((*stack, *rhs.shape[-2:]), rhs.dtype)
    step = -1 if lower else 1
    with np.errstate(all="ignore"):
        for row in range(size) if lower else reversed(range(size)):
            left = rhs[..., row, :]
            for k in range(1, count):
                if 0 <= row + step * k < size:
                    left = left - bands[k, ..., row, None] * made[..., row + step * k, :]
            made[..., row, :] = left / bands[0, ..., row, None]
    return made


def _adjoint_bands(bands: Array, lower: bool) -> Any:
    """Return bands, the main one first, of the conjugate transpose, by its own rows."""
    made = np.zeros_like(bands)
    for k, band in enumerate(bands):
        if lower:
            made[k, ..., : band.shape[-1] - k] = np.conj(band[..., k:])
        else:
            made[k, ..., k:] = np.conj(band[..., : band.shape[-1] - k])
    return made


@gradient("BandedTriangularSolve")
def banded_triangular_solve_gradient(op: Operation, grad: Tensor) -> list[Any]:
    bands, rhs = op.inputs
    lower, adjoint = op.attrs["lower"], op.attrs["adjoint"]
    by_rhs = apply_op("BandedTriangularSolve", bands, grad, lower=lower, adjoint=not adjoint)
    sides = (op.outputs[0], by_rhs) if adjoint else (by_rhs, op.outputs[0])
    whole = -matmul(sides[0], sides[1], adjoint_b=True)
    last = apply_op("Shape", bands)[-2] - 1
    ends = [apply_op("Neg", last), 0] if lower else [0, last]
    padding = apply_op("Cast", 0, DstT=whole.dtype)
    by_bands = apply_op(
        "MatrixDiagPartV3", whole, apply_op("Pack", ends), padding, align="LEFT_RIGHT"
    )
    return sum_batches(bands, rhs, by_bands, by_rhs)


# ---- the gradient of a factor, as an op of its own


@op(
    """
    CholeskyGrad(l: T, grad: T) -> output: T
    T: type in {half, float, double}
    """,
    shape=lambda c: [square_dims(c)],
)
def cholesky_grad_kernel(ctx: KernelContext, factor: Array, grad: Array) -> Any:
    """Return the gradients of matrices from those of their lower Cholesky factors."""
    check_matrices(factor, "l")
    if factor.shape != grad.shape:
        raise InvalidArgumentError(
            f"l and grad must have one shape; found {list(factor.shape)} and {list(grad.shape)}"
        )
    lower = np.tril(factor)
    middle = np.tril(np.swapaxes(lower, -1, -2) @ np.tril(grad))
    middle = middle - np.eye(factor.shape[-1], dtype=factor.dtype) * middle / 2
    left = matrix_triangular_solve_kernel(ctx, lower, middle, lower=True, adjoint=True)
    whole = matrix_triangular_solve_kernel(
        ctx, lower, np.swapaxes(left, -1, -2), lower=True, adjoint=True
    )
    return (whole + np.swapaxes(whole, -1, -2)) / factor.dtype.type(2)
