"""Gradients of factors, inverses and solutions of matrices.

Source: M. B. Giles, "An extended collection of matrix derivative results for forward and reverse
mode algorithmic differentiation" (2008); for QR, S. F. Walter and L. Lehmann (2010).
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.types import ShapeLike, TensorLike
from tideflow.ops.array import matrix_band_part, matrix_diag, matrix_diag_part, matrix_transpose
from tideflow.ops.array import matrix_set_diag as with_diagonal
from tideflow.ops.framework import conj
from tideflow.ops.linalg.factors import self_adjoint_eig, svd
from tideflow.ops.linalg.matrices import matrix_inverse, matrix_solve, matrix_triangular_solve
from tideflow.ops.linalg.products import matmul, sum_batches


def _adjoint(x: TensorLike) -> Any:
    """Return the conjugate transposes of matrices."""
    return matrix_transpose(x, conjugate=True)


def _half(x: Tensor) -> Any:
    return x * apply_op("Cast", 0.5, DstT=x.dtype)


def _columns(x: Tensor) -> Any:
    """Return vectors [..., M] as [..., M, 1]."""
    return apply_op("ExpandDims", x, -1)


def _rows(x: TensorLike) -> Any:
    """Return vectors [..., M] as [..., 1, M]."""
    return apply_op("ExpandDims", x, -2)


@gradient("MatrixInverse")
def matrix_inverse_gradient(op: Operation, grad: Tensor) -> list[Any]:
    inverse = op.outputs[0]
    if op.attrs["adjoint"]:
        return [-matmul(inverse, matmul(grad, inverse, adjoint_a=True))]
    return [-matmul(inverse, matmul(grad, inverse, adjoint_b=True), adjoint_a=True)]


@gradient("MatrixDeterminant")
def matrix_determinant_gradient(op: Operation, grad: Tensor) -> list[Any]:
    turned = matrix_inverse(op.inputs[0], adjoint=True)
    return [_columns(_columns(grad * conj(op.outputs[0]))) * turned]


@gradient("LogMatrixDeterminant")
def log_matrix_determinant_gradient(op: Operation, _: Tensor, grad: Tensor) -> list[Any]:
    return [_columns(_columns(grad)) * matrix_inverse(op.inputs[0], adjoint=True)]


@gradient("MatrixSolve")
def matrix_solve_gradient(op: Operation, grad: Tensor) -> list[Any]:
    matrix, found = op.inputs[0], op.outputs[0]
    adjoint = op.attrs["adjoint"]
    by_rhs = matrix_solve(matrix, grad, adjoint=not adjoint)
    if adjoint:
        return [-matmul(found, by_rhs, adjoint_b=True), by_rhs]
    return [-matmul(by_rhs, found, adjoint_b=True), by_rhs]


@gradient("MatrixTriangularSolve")
def matrix_triangular_solve_gradient(op: Operation, grad: Tensor) -> list[Any]:
    matrix, rhs = op.inputs
    found = op.outputs[0]
    adjoint, lower = op.attrs["adjoint"], op.attrs["lower"]
    by_rhs = matrix_triangular_solve(matrix, grad, lower=lower, adjoint=not adjoint)
    left, right = (found, by_rhs) if adjoint else (by_rhs, found)
    whole = -matmul(left, right, adjoint_b=True)
    by_matrix = matrix_band_part(whole, -1, 0) if lower else matrix_band_part(whole, 0, -1)
    return sum_batches(matrix, rhs, by_matrix, by_rhs)


@gradient("Cholesky")
def cholesky_gradient(op: Operation, grad: Tensor) -> list[Any]:
    factor = op.outputs[0]
    middle = matmul(factor, grad, adjoint_a=True)
    middle = with_diagonal(middle, _half(matrix_diag_part(middle)))
    middle = matrix_band_part(middle, -1, 0)
    # factor^-H middle factor^-1, by two solutions.
    left = matrix_triangular_solve(factor, middle, lower=True, adjoint=True)
    whole = _adjoint(matrix_triangular_solve(factor, _adjoint(left), lower=True, adjoint=True))
    return [_half(whole + _adjoint(whole))]


@gradient("Qr")
def qr_gradient(op: Operation, by_q: Tensor, by_r: Tensor) -> list[Any]:
    q, r = op.outputs
    rows, columns = (None, None) if r.dims is None else r.dims[-2:]
    if rows is None or columns is None or rows != columns:
        raise ValueError(
            f"Qr has a gradient where R is square and its shape known; it is {r.shape}: use "
            "full_matrices=False on matrices with at least as many rows as columns"
        )

    def over_r(x: TensorLike) -> Any:
        return _adjoint(matrix_triangular_solve(r, _adjoint(x), lower=False, adjoint=False))

    turned = matmul(q, by_q, adjoint_a=True)
    product = matmul(r, by_r, adjoint_b=True)
    skew = turned - _adjoint(turned) + product - _adjoint(product)
    lower = matrix_band_part(skew, -1, 0)
    return [matmul(q, by_r + over_r(lower)) + over_r(by_q - matmul(q, turned))]


def _gaps(values: Tensor) -> Any:
    """Return 1 / (values_j - values_i) with zeros on the diagonal: [..., M, M]."""
    differences = _rows(values) - _columns(values)
    # Anything but zero does: the diagonal is replaced.
    ones = apply_op("OnesLike", values)
    inverse = apply_op("Reciprocal", with_diagonal(differences, ones))
    return with_diagonal(inverse, apply_op("ZerosLike", values))


@gradient("SelfAdjointEigV2")
def self_adjoint_eig_gradient(op: Operation, by_e: Tensor, by_v: Tensor) -> list[Any]:
    if op.attrs["compute_v"]:
        e, v = op.outputs
        turned = _gaps(e) * matmul(v, by_v, adjoint_a=True)
        middle = matrix_diag(by_e) + turned
    else:
        _, v = self_adjoint_eig(op.inputs[0])
        middle = matrix_diag(by_e)
    whole = matmul(v, matmul(middle, v, adjoint_b=True))
    # The kernel reads the lower triangle alone.
    lower = matrix_band_part(whole + _adjoint(whole), -1, 0)
    return [with_diagonal(lower, _half(matrix_diag_part(lower)))]


@gradient("Svd")
def svd_gradient(
    op: Any, by_s: Tensor | None, by_u: Tensor | None, by_v: Tensor | None
) -> list[Any]:
    given = op.inputs[0]
    if not op.attrs["compute_uv"]:
        _, u, v = svd(given)
        return [matmul(u, matmul(matrix_diag(by_s), v, adjoint_b=True))]
    s, u, v = op.outputs
    rows, columns = (None, None) if given.dims is None else given.dims[-2:]
    if rows is None or columns is None:
        raise ValueError(f"Svd has a gradient where its matrices' sizes are known: {given.shape}")
    if op.attrs["full_matrices"] and rows != columns:
        raise ValueError(
            f"Svd of matrices {rows} x {columns} has no gradient with full_matrices=True"
        )
    diagonal, gaps = matrix_diag(s), _gaps(s * s)
    left = gaps * matmul(u, by_u, adjoint_a=True)
    right = gaps * matmul(v, by_v, adjoint_a=True)
    middle = (
        matrix_diag(by_s)
        + matmul(left + _adjoint(left), diagonal)
        + matmul(diagonal, right + _adjoint(right))
    )
    whole = matmul(u, matmul(middle, v, adjoint_b=True))
    over_s = matrix_diag(apply_op("Reciprocal", s))
    if rows > columns:
        outside = by_u - matmul(u, matmul(u, by_u, adjoint_a=True))
        whole = whole + matmul(outside, matmul(over_s, v, adjoint_b=True))
    elif columns > rows:
        outside = by_v - matmul(v, matmul(v, by_v, adjoint_a=True))
        whole = whole + matmul(matmul(u, over_s), outside, adjoint_b=True)
    return [whole]


def _kronecker(a: Tensor, b: Tensor, shape: ShapeLike) -> Any:
    """Return the Kronecker products of matrices, in the shape given."""
    spread_a = apply_op("ExpandDims", _columns(a), -3)
    spread_b = apply_op("ExpandDims", _rows(b), -4)
    return apply_op("Reshape", spread_a * spread_b, shape)


@gradient("MatrixSquareRoot")
def matrix_square_root_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Solve root^H x + x root^H = grad, a linear system over the elements of x."""
    root = op.outputs[0]
    shape = apply_op("Shape", root)
    stack = apply_op("StridedSlice", shape, [0], [-2], [1])
    size = apply_op("StridedSlice", shape, [-1], [0], [1], end_mask=1)
    flat = size * size
    ones = apply_op("OnesLike", matrix_diag_part(root))
    unit = with_diagonal(apply_op("ZerosLike", root), ones)
    whole = apply_op("ConcatV2", [stack, flat, flat], 0)
    system = _kronecker(_adjoint(root), unit, whole) + _kronecker(unit, conj(root), whole)
    column = apply_op("ConcatV2", [stack, flat, [1]], 0)
    found = matrix_solve(system, apply_op("Reshape", grad, column))
    return [apply_op("Reshape", found, shape)]


not_differentiable("Lu", "MatrixLogarithm")


def _moved(x: Any, by: int) -> Any:
    """Return x [..., M, K] with its rows moved down by 1 or -1, zeros moving in."""
    rank = x.shape.rank
    none = [[0, 0]] * (rank - 2)
    size = apply_op("StridedSlice", apply_op("Shape", x), [-2], [-1], [1])
    sizes = apply_op("ConcatV2", [[-1] * (rank - 2), size - 1, [-1]], 0)
    begin = [0] * (rank - 2) + [0 if by > 0 else 1, 0]
    kept = apply_op("Slice", x, begin, sizes)
    return apply_op("Pad", kept, [*none, [1, 0] if by > 0 else [0, 1], [0, 0]])


@gradient("TridiagonalSolve")
def tridiagonal_solve_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Solve with the adjoint; a diagonal's gradient is that of its products with the solution."""
    diagonals, solution = op.inputs[0], op.outputs[0]
    upper, main, lower = (
        _columns(conj(part)) for part in apply_op("Unpack", diagonals, num=3, axis=-2)
    )
    turned = [_moved(lower, -1), main, _moved(upper, 1)]
    bands = apply_op("Pack", [apply_op("Squeeze", p, squeeze_dims=[-1]) for p in turned], axis=-2)
    attrs = {name: op.attrs[name] for name in ("partial_pivoting", "perturb_singular")}
    by_rhs = apply_op("TridiagonalSolve", bands, grad, **attrs)
    kept = conj(solution)
    slopes = [
        apply_op("Neg", apply_op("Sum", by_rhs * part, [-1]))
        for part in (_moved(kept, -1), kept, _moved(kept, 1))
    ]
    return [apply_op("Pack", slopes, axis=-2), by_rhs]
