"""What is composed of factors of matrices: solutions, inverses, ranks, exponentials.

Source: tensorflow/python/ops/linalg/linalg_impl.py; Higham, "The Scaling and Squaring Method for
the Matrix Exponential Revisited" (2005), for expm.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.array import matrix_diag, matrix_diag_part, matrix_set_diag, matrix_transpose
from tideflow.ops.checks import CHECKS
from tideflow.ops.control_flow import control_dependencies, while_loop
from tideflow.ops.export import export
from tideflow.ops.framework import conj, identity
from tideflow.ops.linalg.factors import cholesky, self_adjoint_eig, svd
from tideflow.ops.linalg.matrices import matrix_triangular_solve
from tideflow.ops.linalg.products import matmul
from tideflow.ops.math import abs as absolute
from tideflow.ops.math import norm
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType

# Up to this 1-norm the Padé approximant of this degree is exact to the type's rounding.
_SINGLE = (7, 3.925724783138660)
_DOUBLE = (13, 5.371920351148152)


def _scope(name: str | None, default: str) -> Any:
    return get_default_graph().name_scope(name or default)


@export("linalg.adjoint")
def adjoint(matrix: TensorLike, name: str | None = None) -> Tensor:
    """Return the conjugate transposes of matrices [..., M, N]."""
    with _scope(name, "adjoint"):
        return matrix_transpose(convert_to_tensor(matrix, name="matrix"), conjugate=True)


@export("linalg.logdet")
def logdet(matrix: TensorLike, name: str | None = None) -> Tensor:
    """Return the logarithms of the determinants of positive definite matrices [..., M, M].

    Raises: InvalidArgumentError for a matrix that is not positive definite.
    """
    with _scope(name, "logdet"):
        factor = cholesky(matrix)
        diagonal = matrix_diag_part(factor)
        if factor.dtype.is_complex:
            diagonal = apply_op("Real", diagonal, Tout=factor.dtype.real_dtype)
        made: Tensor = apply_op("Sum", apply_op("Log", diagonal), [-1]) * 2.0
        return made


@export("linalg.normalize")
def normalize(
    tensor: TensorLike,
    ord: TensorLike = "euclidean",
    axis: TensorLike | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return a tensor over its norm, and the norm, whose dimensions are kept as 1.

    ord, axis: as for norm.
    """
    with _scope(name, "normalize"):
        x = convert_to_tensor(tensor)
        size = norm(x, ord, axis, keepdims=True)
        if size.dtype != x.dtype:
            size = apply_op("Cast", size, DstT=x.dtype)
        return apply_op("RealDiv", x, size), size


def _greatest_size(x: Tensor) -> Any:
    """Return the larger of a matrix's two sizes, in the type of its singular values."""
    real = x.dtype.real_dtype
    sizes = x.shape[-2:].as_list() if x.shape.rank else [None, None]
    if None not in sizes:
        return np.array(max(sizes), real.as_numpy_dtype)
    found = apply_op("StridedSlice", apply_op("Shape", x), [-2], [0], [1], end_mask=1)
    return apply_op("Cast", apply_op("Max", found, [0]), DstT=real)


def _rounding(x: Tensor) -> Any:
    real = x.dtype.real_dtype.as_numpy_dtype
    return np.array(np.finfo(real).eps, real)


@export("linalg.matrix_rank")
def matrix_rank(
    a: TensorLike,
    tol: TensorLike | None = None,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return how many singular values of matrices [..., M, N] exceed tol.

    tol: by default the rounding of the type times max(M, N) times the greatest singular value.
    validate_args: not used, since a bad rank is an error anyway.
    Returns: int32 [...].
    """
    with _scope(name, "matrix_rank"):
        x = convert_to_tensor(a)
        values = svd(x, compute_uv=False)
        if tol is None:
            tol = apply_op("Max", values, [-1], keep_dims=True) * (_greatest_size(x) * _rounding(x))
        counted = apply_op("Cast", apply_op("Greater", values, tol), DstT=dtypes.int32)
        made: Tensor = apply_op("Sum", counted, [-1])
        return made


@export("linalg.pinv")
def pinv(
    a: TensorLike,
    rcond: TensorLike | None = None,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the pseudo-inverses [..., N, M] of matrices [..., M, N].

    Args:
      rcond: singular values up to this share of the greatest one count as zero; by default ten
        times max(M, N) times the rounding of the type.
      validate_args: not used, since a bad rank is an error anyway.
    Raises: TypeError for a type that is not floating.
    """
    with _scope(name, "pinv"):
        x = convert_to_tensor(a)
        if not x.dtype.is_floating:
            raise TypeError(f"pinv wants floats; found {x.dtype.name}")
        if rcond is None:
            share = _greatest_size(x) * (_rounding(x) * np.array(10, x.dtype.as_numpy_dtype))
        else:
            share = convert_to_tensor(rcond, x.dtype)
        values, left, right = svd(x)
        if convert_to_tensor(share).shape.rank:
            share = apply_op("ExpandDims", share, -1)
        cutoff = apply_op("Max", values, [-1], keep_dims=True) * share
        infinite = np.array(np.inf, x.dtype.as_numpy_dtype)
        kept = apply_op("SelectV2", apply_op("Greater", values, cutoff), values, infinite)
        made: Tensor = matmul(right / apply_op("ExpandDims", kept, -2), left, adjoint_b=True)
        return made


@export("linalg.cholesky_solve", "cholesky_solve")
def cholesky_solve(chol: TensorLike, rhs: TensorLike, name: str | None = None) -> Tensor:
    """Solve A @ x = rhs [..., M, K], given the lower Cholesky factors [..., M, M] of A."""
    with _scope(name, "cholesky_solve"):
        factor = convert_to_tensor(chol)
        return matrix_triangular_solve(factor, matrix_triangular_solve(factor, rhs), adjoint=True)


@export("linalg.lu_solve")
def lu_solve(
    lower_upper: TensorLike,
    perm: TensorLike,
    rhs: TensorLike,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """Solve A @ x = rhs, given what lu makes of A.

    Shapes: lower_upper [..., M, M], perm [..., M], rhs and result [..., M, K].
    validate_args: not used, since what does not fit is an error anyway.
    """
    with _scope(name, "lu_solve"):
        factors = convert_to_tensor(lower_upper)
        swapped = _permuted(convert_to_tensor(rhs, factors.dtype), convert_to_tensor(perm))
        ones = apply_op("OnesLike", matrix_diag_part(factors))
        between = matrix_triangular_solve(matrix_set_diag(factors, ones), swapped)
        return matrix_triangular_solve(factors, between, lower=False)


def _permuted(rows: Tensor, perm: Tensor) -> Tensor:
    """Return matrices [..., M, K] with their rows in the order of perm [..., M]."""
    stacks = (perm.shape.rank or 1) - 1
    found: Tensor
    if stacks == 0:
        found = apply_op("GatherV2", rows, perm, (rows.shape.rank or 2) - 2)
        return found
    outer = apply_op("StridedSlice", apply_op("Shape", perm), [0], [stacks], [1])
    inner = apply_op("StridedSlice", apply_op("Shape", rows), [-2], [0], [1], end_mask=1)
    whole = apply_op("BroadcastTo", rows, apply_op("ConcatV2", [outer, inner], 0))
    found = apply_op("GatherV2", whole, perm, stacks, batch_dims=stacks)
    return found


@export("linalg.lu_matrix_inverse")
def lu_matrix_inverse(
    lower_upper: TensorLike, perm: TensorLike, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Return the inverse of A, given what lu makes of A."""
    with _scope(name, "lu_matrix_inverse"):
        factors = convert_to_tensor(lower_upper)
        return lu_solve(factors, perm, _eye_like(factors), validate_args)


def _eye_like(x: Tensor) -> Tensor:
    """Return identity matrices in the shape of square matrices x."""
    ones = apply_op("OnesLike", matrix_diag_part(x))
    return matrix_diag(ones)


@export("linalg.lu_reconstruct")
def lu_reconstruct(
    lower_upper: TensorLike, perm: TensorLike, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Return the matrices A of which lu makes lower_upper and perm."""
    with _scope(name, "lu_reconstruct"):
        factors = convert_to_tensor(lower_upper)
        order = convert_to_tensor(perm)
        lower = matrix_set_diag(
            apply_op("MatrixBandPart", factors, -1, 0),
            apply_op("OnesLike", matrix_diag_part(factors)),
        )
        product = matmul(lower, apply_op("MatrixBandPart", factors, 0, -1))
        return _permuted(product, _inverse(order))


def _inverse(perm: Tensor) -> Tensor:
    """Return the inverses of permutations [..., M]: where each number is, in order."""
    count = apply_op("StridedSlice", apply_op("Shape", perm), [-1], [0], [1], shrink_axis_mask=1)
    _, places = apply_op("TopKV2", apply_op("Neg", perm), count)
    made: Tensor = places
    return made


# ---- matrices of few diagonals


@export("linalg.tridiagonal_solve")
def tridiagonal_solve(
    diagonals: TensorLike,
    rhs: TensorLike,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """Solve T @ x = rhs for matrices T of three diagonals.

    Args:
      diagonals: [..., 3, M] for "compact": the upper diagonal (whose last element does not count),
        the main one, and the lower one (whose first does not); for "sequence" these three; for
        "matrix" the matrices [..., M, M].
      rhs: [..., M] or [..., M, K]; transposed or conjugated first where that is asked for.
    Raises: ValueError for another format or ranks that do not go together.
    """
    with _scope(name, "tridiagonal_solve"):
        bands = compact_diagonals(diagonals, diagonals_format)
        given = convert_to_tensor(rhs, bands.dtype)
        is_vector = given.shape.rank is not None and given.shape.rank == (bands.shape.rank or 0) - 1
        if is_vector:
            given = apply_op("ExpandDims", given, -1)
        elif transpose_rhs:
            given = matrix_transpose(given, conjugate=conjugate_rhs)
        if conjugate_rhs and (is_vector or not transpose_rhs):
            given = apply_op("Conj", given) if given.dtype.is_complex else given
        made: Tensor = apply_op(
            "TridiagonalSolve",
            bands,
            given,
            partial_pivoting=partial_pivoting,
            perturb_singular=perturb_singular,
        )
        if is_vector:
            made = apply_op("Squeeze", made, squeeze_dims=[-1])
        return made


@export("linalg.tridiagonal_matmul")
def tridiagonal_matmul(
    diagonals: TensorLike,
    rhs: TensorLike,
    diagonals_format: str = "compact",
    name: str | None = None,
) -> Tensor:
    """Return T @ rhs [..., M, K] for matrices T of three diagonals; see tridiagonal_solve."""
    with _scope(name, "tridiagonal_matmul"):
        bands = compact_diagonals(diagonals, diagonals_format)
        rows = apply_op("Split", -2, bands, num_split=3)
        made: Tensor = apply_op("TridiagonalMatMul", *rows, rhs)
        return made


def compact_diagonals(diagonals: Any, form: str) -> Tensor:
    """Return three diagonals given in any form (see tridiagonal_solve) as [..., 3, M]."""
    if form == "compact":
        return convert_to_tensor(diagonals)
    made: Tensor
    if form == "sequence":
        upper, main, lower = (convert_to_tensor(part) for part in diagonals)
        size = main.dims[-1] if main.dims else None
        none = [[0, 0]] * ((main.shape.rank or 1) - 1)
        if upper.dims and upper.dims[-1] is not None and upper.dims[-1] != size:
            upper = apply_op("Pad", upper, [*none, [0, 1]])
        if lower.dims and lower.dims[-1] is not None and lower.dims[-1] != size:
            lower = apply_op("Pad", lower, [*none, [1, 0]])
        made = apply_op("Pack", [upper, main, lower], axis=-2)
        return made
    if form != "matrix":
        raise ValueError(
            f"diagonals_format must be 'compact', 'sequence' or 'matrix'; found {form!r}"
        )
    made = apply_op("MatrixDiagPartV3", diagonals, [-1, 1], 0, align="LEFT_RIGHT")
    return made


@export("linalg.banded_triangular_solve")
def banded_triangular_solve(
    bands: TensorLike,
    rhs: TensorLike,
    lower: bool = True,
    adjoint: bool = False,
    name: str | None = None,
) -> Tensor:
    """Solve A @ x = rhs [..., M, K] for triangular matrices A of few diagonals.

    bands: [..., K, M]: for `lower` the main diagonal and those below it, of which the first
    elements do not count; else those above, of which the last ones do not, and the main one.
    """
    with _scope(name, "banded_triangular_solve"):
        made: Tensor = apply_op("BandedTriangularSolve", bands, rhs, lower=lower, adjoint=adjoint)
        return made


@export("linalg.eigh_tridiagonal")
def eigh_tridiagonal(
    alpha: TensorLike,
    beta: TensorLike,
    eigvals_only: bool = True,
    select: str = "a",
    select_range: Any = None,
    tol: float | None = None,
    name: str | None = None,
) -> Any:
    """Return the eigenvalues, rising, of a self-adjoint matrix of three diagonals.

    Args:
      alpha: the main diagonal [N], of which real parts count.
      beta: the upper diagonal [N - 1]; the lower one is its conjugate.
      eigvals_only: False for the eigenvectors, too, the columns of a matrix.
      select: "a" for all; "i" for those with the indices select_range, first and last; "v" for
        those in the interval select_range, without its lower end.
      tol: not used, since all are as exact as their type.
    Raises: ValueError for another choice, or types that differ; InvalidArgumentError for an empty
    range.
    """
    with _scope(name, "eigh_tridiagonal"):
        main, upper = convert_to_tensor(alpha), convert_to_tensor(beta)
        if main.dims and main.dims[0] is not None and main.dims[0] <= 1:
            return _real(main)
        if main.dtype != upper.dtype:
            raise ValueError("'alpha' and 'beta' must have the same type.")
        if select not in ("a", "i", "v"):
            raise ValueError("'select must have a value in {'a', 'i', 'v'}.")
        # The upper triangle does not count.
        lower = matrix_diag(conj(upper), k=-1)
        values, vectors = self_adjoint_eig(matrix_set_diag(lower, _cast(_real(main), main.dtype)))
        values = _real(values)
        if select != "a":
            kept = _within(values, select, select_range)
            values = apply_op("GatherV2", values, kept, 0)
            vectors = apply_op("GatherV2", vectors, kept, 1)
        return values if eigvals_only else (values, vectors)


def _real(x: Tensor) -> Any:
    return apply_op("Real", x, Tout=x.dtype.real_dtype) if x.dtype.is_complex else x


def _cast(x: Tensor, dtype: DType) -> Any:
    return x if x.dtype == dtype else apply_op("Cast", x, DstT=dtype)


def _within(values: Tensor, select: str, limits: Any) -> Any:
    """Return the places of eigenvalues, by their indices ("i") or in an interval ("v")."""
    first, last = limits
    if select == "i":
        message = "Got empty index range in select_range."
        check = CHECKS["assert_less_equal"](first, last, message=message)
        found = apply_op("Range", first, apply_op("AddV2", last, 1), 1)
    else:
        message = "Got empty interval in select_range."
        check = CHECKS["assert_less"](first, last, message=message)
        low, high = (convert_to_tensor(limit, values.dtype) for limit in (first, last))
        is_above, is_below = apply_op("Greater", values, low), apply_op("LessEqual", values, high)
        places = apply_op("Where", apply_op("LogicalAnd", is_above, is_below))
        found = apply_op("Squeeze", places, squeeze_dims=[-1])
    if check is None:
        return found
    with control_dependencies([check]):
        return identity(found)


# ---- eigenvalues of any matrix


@export("linalg.eig", "eig")
def eig(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors (columns), complex, of matrices [..., M, M]."""
    values, vectors = _eig(tensor, True, name)
    return values, vectors


@export("linalg.eigvals", "eigvals")
def eigvals(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Return the eigenvalues, complex, of matrices [..., M, M]."""
    values: Tensor = _eig(tensor, False, name)[0]
    return values


def _eig(tensor: TensorLike, compute_v: bool, name: str | None) -> Any:
    x = convert_to_tensor(tensor)
    is_double = x.dtype in (dtypes.float64, dtypes.complex128)
    out = dtypes.complex128 if is_double else dtypes.complex64
    return apply_op("Eig", x, compute_v=compute_v, Tout=out, name=name)


# ---- exponentials


@export("linalg.expm")
def expm(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the exponentials of square matrices [..., M, M].

    Each is halved until it is small, approximated, and squared as often.
    Raises: ValueError below rank 2.
    """
    with _scope(name, "matrix_exponential"):
        x = convert_to_tensor(input)
        if x.shape.rank is not None and x.shape.rank < 2:
            raise ValueError(f"expm wants matrices; the input has shape {x.shape}")
        if x.shape.is_fully_defined() and 0 in x.shape.as_list():
            return x
        real = x.dtype.real_dtype
        degree, bound = _DOUBLE if real is dtypes.float64 else _SINGLE
        size = apply_op("Max", apply_op("Sum", absolute(x), [-2]), [-1], keep_dims=True)
        # How often it is halved is no value to differentiate.
        over = apply_op("Log", apply_op("StopGradient", size) / bound) / math.log(2)
        halvings = apply_op("ExpandDims", apply_op("Ceil", apply_op("Relu", over)), -1)
        factor = apply_op("Pow", np.array(0.5, real.as_numpy_dtype), halvings)
        if x.dtype != real:
            factor = apply_op("Cast", factor, DstT=x.dtype)
        return _squared(_pade(x * factor, degree), halvings)


def _pade(x: Tensor, degree: int) -> Tensor:
    """Return the diagonal Padé approximant of the exponential."""
    numbers = [1.0]
    for k in range(degree):
        numbers.append(numbers[-1] * (degree - k) / ((2 * degree - k) * (k + 1)))
    kind = x.dtype.as_numpy_dtype
    square = matmul(x, x)
    power = _eye_like(x)
    even, odd = power * np.array(numbers[0], kind), power * np.array(numbers[1], kind)
    for k in range(2, degree + 1, 2):
        power = matmul(power, square)
        even = even + power * np.array(numbers[k], kind)
        if k + 1 <= degree:
            odd = odd + power * np.array(numbers[k + 1], kind)
    odd = matmul(x, odd)
    made: Tensor = apply_op("MatrixSolve", even - odd, even + odd)
    return made


def _squared(x: Tensor, times: Tensor) -> Tensor:
    """Return matrices [..., M, M] squared `times` [..., 1, 1] times."""
    most = apply_op("Max", apply_op("Reshape", times, [-1]), [0])
    one = np.array(1, times.dtype.as_numpy_dtype)

    def again(done: TensorLike, found: object) -> tuple[Any, Any]:
        is_due = apply_op("Less", done, times)
        return done + one, apply_op("SelectV2", is_due, matmul(found, found), found)

    zero = apply_op("ZerosLike", most)
    _, made = while_loop(lambda done, _: apply_op("Less", done, most), again, [zero, x])
    return made  # type: ignore[no-any-return]
