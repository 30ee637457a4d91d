"""Factors, inverses and solutions of matrices, in stacks.

The kernels are LAPACK's, through NumPy and SciPy; they run as they are, outside compiled regions,
because what is singular has to be an error.
Source: tensorflow/core/kernels/linalg.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, broadcast
from tideflow.ops.export import export
from tideflow.wire import errors
from tideflow.wire.dtypes import DType


def _scipy() -> Any:
    # Most programs do without; it takes a while to load.
    return importlib.import_module("scipy.linalg")


# ---- checks and static shapes


def _matrices(c: ShapeContext, index: int = 0) -> tuple[Any, ...] | None:
    """Return the static shape of stacks of matrices.  Raises: ValueError for less than rank 2."""
    dims = c.inputs[index]
    if dims is not None and len(dims) < 2:
        raise ValueError(f"input {index} must hold matrices; its shape is {list(dims)}")
    return dims


def _square_dims(c: ShapeContext, index: int = 0) -> tuple[Any, ...] | None:
    dims = _matrices(c, index)
    if dims is not None and None not in dims[-2:] and dims[-1] != dims[-2]:
        raise ValueError(f"input {index} must hold square matrices; its shape is {list(dims)}")
    return dims


def _check_matrices(x: Any, what: str, square: bool = True) -> None:
    if x.ndim < 2:
        raise errors.InvalidArgumentError(
            f"{what} must hold matrices; its shape is {list(x.shape)}"
        )
    if square and x.shape[-1] != x.shape[-2]:
        raise errors.InvalidArgumentError(
            f"{what} must hold square matrices; its shape is {list(x.shape)}"
        )


def _check_rhs(matrix: Any, rhs: Any, same_stack: bool = True) -> None:
    _check_matrices(rhs, "rhs", square=False)
    if matrix.shape[-2] != rhs.shape[-2] or (same_stack and matrix.shape[:-2] != rhs.shape[:-2]):
        raise errors.InvalidArgumentError(
            f"rhs of shape {list(rhs.shape)} does not go with matrices of shape "
            f"{list(matrix.shape)}"
        )


def _adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def _or_singular(work: Callable[[], Any], message: str) -> Any:
    try:
        return work()
    except np.linalg.LinAlgError:
        raise errors.InvalidArgumentError(message) from None


def _or_nan(work: Callable[[], Any], like: Callable[[], list[Any]]) -> Any:
    """Return what work gives; where it cannot converge (NaN, infinities), NaN in its shapes."""
    try:
        return work()
    except np.linalg.LinAlgError:
        return [np.full(shape, np.nan, dtype) for shape, dtype in like()]


# ---- inverses, determinants, solutions


@op(
    """
    MatrixInverse(input: T) -> output: T
    adjoint: bool = false
    T: type in {double, float, half, complex64, complex128}
    """,
    shape=lambda c: [_square_dims(c)],
)
def matrix_inverse_kernel(ctx: Any, x: Any, *, adjoint: bool) -> Any:
    _check_matrices(x, "input")
    given = _adjoint(x) if adjoint else x
    return _or_singular(lambda: np.linalg.inv(given), "Input is not invertible.")


@op(
    """
    MatrixDeterminant(input: T) -> output: T
    T: type in {half, float, double, complex64, complex128}
    """,
    shape=lambda c: [_stack(_square_dims(c))],
)
def matrix_determinant_kernel(ctx: Any, x: Any) -> Any:
    _check_matrices(x, "input")
    return np.linalg.det(x)


@op(
    """
    LogMatrixDeterminant(input: T) -> sign: T, log_abs_determinant: T
    T: type in {half, float, double, complex64, complex128}
    """,
    shape=lambda c: [_stack(_square_dims(c))] * 2,
)
def log_matrix_determinant_kernel(ctx: Any, x: Any) -> Any:
    _check_matrices(x, "input")
    sign, log = np.linalg.slogdet(x)
    return sign, log.astype(x.dtype)


def _stack(dims: Dims) -> Dims:
    return None if dims is None else dims[:-2]


def _solved_shape(c: ShapeContext) -> list[Dims]:
    matrix, rhs = _square_dims(c), _matrices(c, 1)
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
def matrix_solve_kernel(ctx: Any, matrix: Any, rhs: Any, *, adjoint: bool) -> Any:
    _check_matrices(matrix, "matrix")
    _check_rhs(matrix, rhs)
    given = _adjoint(matrix) if adjoint else matrix
    return _or_singular(lambda: np.linalg.solve(given, rhs), "Input matrix is not invertible.")


def _triangular_shape(c: ShapeContext) -> list[Dims]:
    matrix, rhs = _square_dims(c), _matrices(c, 1)
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
    ctx: Any, matrix: Any, rhs: Any, *, lower: bool, adjoint: bool
) -> Any:
    _check_matrices(matrix, "matrix")
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
        kept, lower = _adjoint(kept), not lower
    is_regular = np.diagonal(kept, axis1=-2, axis2=-1).all() and kept.dtype.itemsize >= 4
    solve = _scipy().solve_triangular if is_regular else _substitute
    made = np.empty((*stack, *rhs.shape[-2:]), rhs.dtype)
    matrices = np.broadcast_to(kept, (*stack, *kept.shape[-2:]))
    sides = np.broadcast_to(rhs, made.shape)
    for at in np.ndindex(*stack):
        made[at] = solve(matrices[at], sides[at], lower=lower, check_finite=False)
    return made


def _substitute(matrix: Any, rhs: Any, lower: bool, check_finite: bool) -> Any:
    """Solve a triangular system with zeros on its diagonal: the result has infinities there."""
    rows = range(len(matrix))
    found = np.zeros_like(rhs)
    with np.errstate(all="ignore"):
        for row in rows if lower else reversed(rows):
            before = slice(0, row) if lower else slice(row + 1, None)
            found[row] = (rhs[row] - matrix[row, before] @ found[before]) / matrix[row, row]
    return found


def _diagonals_shape(c: ShapeContext) -> list[Dims]:
    _matrices(c)
    return [_matrices(c, 1)]


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
    ctx: Any, diagonals: Any, rhs: Any, *, partial_pivoting: bool, perturb_singular: bool
) -> Any:
    _check_matrices(diagonals, "diagonals", square=False)
    _check_matrices(rhs, "rhs", square=False)
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
    solve = _scipy().solve_banded
    for at in np.ndindex(*rhs.shape[:-2]):
        try:
            made[at] = solve((1, 1), banded[at], rhs[at], check_finite=False)
        except np.linalg.LinAlgError:
            made[at] = np.nan
    return made


def _least_shape(c: ShapeContext) -> list[Dims]:
    matrix, rhs = _matrices(c), _matrices(c, 1)
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
    ctx: Any, matrix: Any, rhs: Any, l2_regularizer: Any, *, fast: bool
) -> Any:
    _check_matrices(matrix, "matrix", square=False)
    _check_rhs(matrix, rhs)
    rows, columns = matrix.shape[-2:]
    if not fast:
        made = [
            np.linalg.lstsq(matrix[at], rhs[at], rcond=None)[0]
            for at in np.ndindex(*matrix.shape[:-2])
        ]
        return np.array(made, rhs.dtype).reshape(*matrix.shape[:-2], columns, rhs.shape[-1])
    turned = _adjoint(matrix)
    is_tall = rows >= columns
    gram = turned @ matrix if is_tall else matrix @ turned
    gram = gram + np.eye(min(rows, columns), dtype=gram.dtype) * gram.dtype.type(l2_regularizer)
    message = "Input matrix was rank deficient or ill-conditioned. Try setting fast=False."
    if is_tall:
        return _or_singular(lambda: np.linalg.solve(gram, turned @ rhs), message)
    return turned @ _or_singular(lambda: np.linalg.solve(gram, rhs), message)


# ---- factors


@op(
    """
    Cholesky(input: T) -> output: T
    T: type in {double, float, half, complex64, complex128}
    """,
    shape=lambda c: [_square_dims(c)],
)
def cholesky_kernel(ctx: Any, x: Any) -> Any:
    _check_matrices(x, "input")
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return _each(x, _cholesky_or_nan)


def _cholesky_or_nan(x: Any) -> Any:
    """Return the factor; without one, NaN in the lower triangle."""
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return np.tril(np.full_like(x, np.nan))


def _qr_shape(c: ShapeContext) -> list[Dims]:
    dims = _matrices(c)
    if dims is None:
        return [None, None]
    rows, columns = dims[-2:]
    inner = rows if c.attrs["full_matrices"] else _least_of(rows, columns)
    return [(*dims[:-2], rows, inner), (*dims[:-2], inner, columns)]


def _least_of(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else min(a, b)


@op(
    """
    Qr(input: T) -> q: T, r: T
    full_matrices: bool = false
    T: type in {double, float, half, complex64, complex128}
    """,
    shape=_qr_shape,
)
def qr_kernel(ctx: Any, x: Any, *, full_matrices: bool) -> Any:
    _check_matrices(x, "input", square=False)
    q, r = np.linalg.qr(x, mode="complete" if full_matrices else "reduced")
    return q, r


def _svd_shape(c: ShapeContext) -> list[Dims]:
    dims = _matrices(c)
    if dims is None:
        return [None, None, None]
    rows, columns = dims[-2:]
    least = _least_of(rows, columns)
    s = (*dims[:-2], least)
    if not c.attrs["compute_uv"]:
        return [s, (0,), (0,)]
    full = c.attrs["full_matrices"]
    return [
        s,
        (*dims[:-1], rows if full else least),
        (*dims[:-2], columns, columns if full else least),
    ]


@op(
    """
    Svd(input: T) -> s: T, u: T, v: T
    compute_uv: bool = true
    full_matrices: bool = false
    T: type in {double, float, half, complex64, complex128}
    """,
    shape=_svd_shape,
)
def svd_kernel(ctx: Any, x: Any, *, compute_uv: bool, full_matrices: bool) -> Any:
    _check_matrices(x, "input", square=False)
    rows, columns = x.shape[-2:]
    least, stack = min(rows, columns), x.shape[:-2]
    if not compute_uv:
        nothing = np.zeros(0, x.dtype)
        (s,) = _or_nan(
            lambda: [np.linalg.svd(x, compute_uv=False)], lambda: [((*stack, least), x.dtype)]
        )
        return s.astype(x.dtype), nothing, nothing
    across = columns if full_matrices else least
    shapes = [
        (*stack, rows, rows if full_matrices else least),
        (*stack, least),
        (*stack, across, columns),
    ]
    u, s, turned = _or_nan(
        lambda: np.linalg.svd(x, full_matrices=full_matrices),
        lambda: [(shape, x.dtype) for shape in shapes],
    )
    return s.astype(x.dtype), u, np.ascontiguousarray(_adjoint(turned))


def _eigen_shape(c: ShapeContext) -> list[Dims]:
    dims = _square_dims(c)
    if dims is None:
        return [None, None]
    return [dims[:-1], dims if c.attrs["compute_v"] else (0,)]


@op(
    """
    SelfAdjointEigV2(input: T) -> e: T, v: T
    compute_v: bool = true
    T: type in {double, float, half, complex64, complex128}
    """,
    shape=_eigen_shape,
)
def self_adjoint_eig_kernel(ctx: Any, x: Any, *, compute_v: bool) -> Any:
    _check_matrices(x, "input")
    e, v = _or_nan(lambda: np.linalg.eigh(x), lambda: [(x.shape[:-1], x.dtype), (x.shape, x.dtype)])
    return e.astype(x.dtype), v if compute_v else np.zeros(0, x.dtype)


@op(
    """
    Eig(input: T) -> e: Tout, v: Tout
    compute_v: bool = true
    T: type in {float, double, complex64, complex128}
    Tout: type in {complex64, complex128}
    """,
    shape=_eigen_shape,
)
def eig_kernel(ctx: Any, x: Any, *, compute_v: bool, Tout: DType) -> Any:
    _check_matrices(x, "input")
    dtype = Tout.as_numpy_dtype
    e, v = _or_nan(lambda: np.linalg.eig(x), lambda: [(x.shape[:-1], dtype), (x.shape, dtype)])
    return e.astype(dtype), v.astype(dtype) if compute_v else np.zeros(0, dtype)


@op(
    """
    Lu(input: T) -> lu: T, p: output_idx_type
    T: type in {double, float, half, complex64, complex128}
    output_idx_type: type in indices = int32
    """,
    shape=lambda c: [_square_dims(c), None if (d := c.inputs[0]) is None else d[:-1]],
)
def lu_kernel(ctx: Any, x: Any, *, output_idx_type: DType) -> Any:
    _check_matrices(x, "input")
    made, size = np.empty_like(x), x.shape[-1]
    order = np.empty(x.shape[:-1], output_idx_type.as_numpy_dtype)
    for at in np.ndindex(*x.shape[:-2]) if size else ():
        factors, swaps = _factors(x[at])
        if not np.diagonal(factors).all():
            raise errors.InvalidArgumentError("Input is not invertible.")
        rows = list(range(size))
        for row, other in enumerate(swaps):
            rows[row], rows[other] = rows[other], rows[row]
        made[at], order[at] = factors, rows
    return made, order


def _factors(x: Any) -> tuple[Any, list[int]]:
    """Return L and U in one matrix, and with which row each row is swapped, in order."""
    if x.dtype.kind != "c":
        (getrf,) = _scipy().get_lapack_funcs(("getrf",), (x,))
        factors, swaps, _ = getrf(x)
        return factors, swaps.tolist()
    # LAPACK chooses complex pivots by |re| + |im|, TensorFlow by their magnitude.
    factors, swaps = x.copy(), []
    for column in range(len(x)):
        pivot = column + int(np.argmax(np.abs(factors[column:, column])))
        swaps.append(pivot)
        factors[[column, pivot]] = factors[[pivot, column]]
        if factors[column, column]:
            below = factors[column + 1 :]
            below[:, column] /= factors[column, column]
            below[:, column + 1 :] -= np.outer(below[:, column], factors[column, column + 1 :])
    return factors, swaps


@op(
    """
    MatrixSquareRoot(input: T) -> output: T
    T: type in {double, float, half, complex64, complex128}
    """,
    shape=lambda c: [_square_dims(c)],
)
def matrix_square_root_kernel(ctx: Any, x: Any) -> Any:
    _check_matrices(x, "input")
    return _each(x, _scipy().sqrtm)


@op(
    """
    MatrixLogarithm(input: T) -> output: T
    T: type in {complex64, complex128}
    """,
    shape=lambda c: [_square_dims(c)],
)
def matrix_logarithm_kernel(ctx: Any, x: Any) -> Any:
    _check_matrices(x, "input")
    # In double precision: SciPy warns where single precision is not enough for it.
    return _each(x, lambda one: _scipy().logm(one.astype(np.complex128)))


def _each(x: Any, function: Callable[[Any], Any]) -> Any:
    made = np.empty_like(x)
    for at in np.ndindex(*x.shape[:-2]) if x.shape[-1] else ():
        found = function(x[at])
        made[at] = found if made.dtype.kind == "c" else found.real
    return made


# ---- public functions


def _call(op_name: str, *inputs: Any, name: str | None = None, **attrs: Any) -> Any:
    return apply_op(op_name, *inputs, name=name, **attrs)


@export("linalg.inv", "linalg.inverse", "matrix_inverse")
def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Return the inverse of square matrices [..., M, M], or of their adjoints.

    Raises: InvalidArgumentError for a singular matrix.
    """
    made: Tensor = _call("MatrixInverse", input, adjoint=adjoint, name=name)
    return made


@export("linalg.det", "matrix_determinant")
def matrix_determinant(input: Any, name: str | None = None) -> Tensor:
    """Return the determinants [...] of matrices [..., M, M]."""
    made: Tensor = _call("MatrixDeterminant", input, name=name)
    return made


@export("linalg.slogdet")
def slogdet(input: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return sign and logarithm of the absolute value of determinants of [..., M, M]."""
    sign, log = _call("LogMatrixDeterminant", input, name=name)
    return sign, log


@export("linalg.solve", "matrix_solve")
def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Solve matrix [..., M, M] @ x = rhs [..., M, K].

    Raises: InvalidArgumentError for a singular matrix.
    """
    made: Tensor = _call("MatrixSolve", matrix, rhs, adjoint=adjoint, name=name)
    return made


@export("linalg.triangular_solve", "matrix_triangular_solve")
def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solve matrix @ x = rhs for triangular matrices [..., M, M]; stacks broadcast.

    A zero on a diagonal gives infinities.
    """
    made: Tensor = _call(
        "MatrixTriangularSolve", matrix, rhs, lower=lower, adjoint=adjoint, name=name
    )
    return made


@export("linalg.lstsq", "matrix_solve_ls")
def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: float = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """Return the x [..., N, K] with the least |matrix @ x - rhs|^2 + l2_regularizer |x|^2.

    Raises: InvalidArgumentError if `fast` and the matrix [..., M, N] has not full rank.
    """
    made: Tensor = _call(
        "MatrixSolveLs", matrix, rhs, np.float64(l2_regularizer), fast=fast, name=name
    )
    return made


@export("linalg.cholesky", "cholesky")
def cholesky(input: Any, name: str | None = None) -> Tensor:
    """Return the lower Cholesky factors of positive definite matrices [..., M, M].

    That of a matrix which is not positive definite is NaN.
    """
    made: Tensor = _call("Cholesky", input, name=name)
    return made


@export("linalg.qr", "qr")
def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return Q and R of matrices [..., M, N]."""
    q, r = _call("Qr", input, full_matrices=full_matrices, name=name)
    return q, r


@export("linalg.svd", "svd")
def svd(
    tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None
) -> Any:
    """Return singular values s, and with compute_uv also u and v, of matrices [..., M, N]."""
    s, u, v = _call("Svd", tensor, full_matrices=full_matrices, compute_uv=compute_uv, name=name)
    return (s, u, v) if compute_uv else s


@export("linalg.eigh", "self_adjoint_eig")
def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return eigenvalues, rising, and eigenvectors of self-adjoint matrices [..., M, M]."""
    e, v = _call("SelfAdjointEigV2", tensor, compute_v=True, name=name)
    return e, v


@export("linalg.eigvalsh", "self_adjoint_eigvals")
def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Return the eigenvalues, rising, of self-adjoint matrices [..., M, M]."""
    made: Tensor = _call("SelfAdjointEigV2", tensor, compute_v=False, name=name)[0]
    return made


@export("linalg.lu")
def lu(
    input: Any, output_idx_type: Any = "int32", name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return L and U in one matrix, and the order of the rows, of matrices [..., M, M].

    Raises: InvalidArgumentError for a singular matrix.
    """
    factors, order = _call("Lu", input, output_idx_type=output_idx_type, name=name)
    return factors, order


@export("linalg.sqrtm", "matrix_square_root")
def matrix_square_root(input: Any, name: str | None = None) -> Tensor:
    """Return the matrices whose squares are the inputs [..., M, M]."""
    made: Tensor = _call("MatrixSquareRoot", input, name=name)
    return made


@export("linalg.logm")
def matrix_logarithm(input: Any, name: str | None = None) -> Tensor:
    """Return the logarithms of complex matrices [..., M, M]."""
    made: Tensor = _call("MatrixLogarithm", input, name=name)
    return made
