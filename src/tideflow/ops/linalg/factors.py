"""Factors, roots and logarithms of matrices, in stacks.

The kernels are LAPACK's, through NumPy and SciPy, and run outside compiled regions.
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
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.linalg.shapes import (
    adjoint_of,
    check_matrices,
    matrix_dims,
    scipy_linalg,
    square_dims,
)
from tideflow.wire import errors
from tideflow.wire.dtypes import DType


def _or_nan(work: Callable[[], Any], like: Callable[[], list[Any]]) -> Any:
    """Return what work gives; where it cannot converge (NaN, infinities), NaN in its shapes."""
    try:
        return work()
    except np.linalg.LinAlgError:
        return [np.full(shape, np.nan, dtype) for shape, dtype in like()]


@op(
    """
    Cholesky(input: T) -> output: T
    T: type in {double, float, half, complex64, complex128}
    """,
    shape=lambda c: [square_dims(c)],
)
def cholesky_kernel(ctx: KernelContext, x: Array) -> Any:
    check_matrices(x, "input")
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return _each(x, _cholesky_or_nan)


def _cholesky_or_nan(x: Array) -> Any:
    """Return the factor; without one, NaN in the lower triangle."""
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return np.tril(np.full_like(x, np.nan))


def _qr_shape(c: ShapeContext) -> list[Dims]:
    dims = matrix_dims(c)
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
def qr_kernel(ctx: KernelContext, x: Array, *, full_matrices: bool) -> Any:
    check_matrices(x, "input", square=False)
    q, r = np.linalg.qr(x, mode="complete" if full_matrices else "reduced")
    # One reflection that is not finite spoils their product, of which LAPACK leaves some columns.
    is_finite = np.isfinite(x).all(axis=(-2, -1), keepdims=True)
    return (q if is_finite.all() else np.where(is_finite, q, q.dtype.type(np.nan))), r


def _svd_shape(c: ShapeContext) -> list[Dims]:
    dims = matrix_dims(c)
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
def svd_kernel(ctx: KernelContext, x: Array, *, compute_uv: bool, full_matrices: bool) -> Any:
    check_matrices(x, "input", square=False)
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
    return s.astype(x.dtype), u, np.ascontiguousarray(adjoint_of(turned))


def _check_finite_matrices(x: Array) -> None:
    check_matrices(x, "input")
    if not np.isfinite(x).all():
        raise errors.InvalidArgumentError(
            "a matrix with NaN or infinite elements has no eigenvalues"
        )


def _eigen_shape(c: ShapeContext) -> list[Dims]:
    dims = square_dims(c)
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
def self_adjoint_eig_kernel(ctx: KernelContext, x: Array, *, compute_v: bool) -> Any:
    _check_finite_matrices(x)
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
def eig_kernel(ctx: KernelContext, x: Array, *, compute_v: bool, Tout: DType) -> Any:
    _check_finite_matrices(x)
    dtype = Tout.as_numpy_dtype
    e, v = _or_nan(lambda: np.linalg.eig(x), lambda: [(x.shape[:-1], dtype), (x.shape, dtype)])
    return e.astype(dtype), v.astype(dtype) if compute_v else np.zeros(0, dtype)


@op(
    """
    Lu(input: T) -> lu: T, p: output_idx_type
    T: type in {double, float, half, complex64, complex128}
    output_idx_type: type in indices = int32
    """,
    shape=lambda c: [square_dims(c), None if (d := c.inputs[0]) is None else d[:-1]],
)
def lu_kernel(ctx: KernelContext, x: Array, *, output_idx_type: DType) -> Any:
    check_matrices(x, "input")
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


def _factors(x: Array) -> tuple[Any, list[int]]:
    """Return L and U in one matrix, and with which row each row is swapped, in order."""
    if x.dtype.kind != "c":
        (getrf,) = scipy_linalg().get_lapack_funcs(("getrf",), (x,))
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
    shape=lambda c: [square_dims(c)],
)
def matrix_square_root_kernel(ctx: KernelContext, x: Array) -> Any:
    check_matrices(x, "input")
    return _each(x, scipy_linalg().sqrtm)


@op(
    """
    MatrixLogarithm(input: T) -> output: T
    T: type in {complex64, complex128}
    """,
    shape=lambda c: [square_dims(c)],
)
def matrix_logarithm_kernel(ctx: KernelContext, x: Array) -> Any:
    check_matrices(x, "input")
    # In double precision: SciPy warns where single precision is not enough for it.
    return _each(x, lambda one: scipy_linalg().logm(one.astype(np.complex128)))


def _each(x: Any, function: Callable[[Any], Any]) -> Any:
    made = np.empty_like(x)
    for at in np.ndindex(*x.shape[:-2]) if x.shape[-1] else ():
        if not np.isfinite(x[at]).all():
            made[at] = np.nan
            continue
        found = function(x[at])
        if made.dtype.kind != "c" and np.iscomplexobj(found):
            # What is complex has no place among real numbers.
            is_real = np.abs(found.imag).max() <= 1e-3 * np.abs(found).max()
            found = found.real if is_real else np.nan
        made[at] = found
    return made


# ---- public functions


@export("linalg.cholesky", "cholesky")
def cholesky(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the lower Cholesky factors of positive definite matrices [..., M, M].

    That of a matrix which is not positive definite is NaN.

    Args:
      input: float16, float32, float64 or complex; its lower half is read.
    Returns: a tensor of the shape and type of input, zeros above the diagonals.
    Raises: ValueError, or InvalidArgumentError, for matrices that are not square.
    """
    made: Tensor = apply_op("Cholesky", input, name=name)
    return made


class Qr(NamedTuple):
    """An orthogonal matrix and an upper triangular one."""

    q: Tensor
    r: Tensor


@export("linalg.qr", "qr")
def qr(input: TensorLike, full_matrices: bool = False, name: str | None = None) -> Qr:
    """Return Q and R of matrices [..., M, N].

    Args:
      input: float16, float32, float64 or complex.
      full_matrices: whether Q is square.
    Returns: a pair: Q [..., M, P] and R [..., P, N], where P is the lesser of M and N; with
      full_matrices it is M.
    """
    q, r = apply_op("Qr", input, full_matrices=full_matrices, name=name)
    return Qr(q, r)


@export("linalg.svd", "svd")
def svd(
    tensor: TensorLike,
    full_matrices: bool = False,
    compute_uv: bool = True,
    name: str | None = None,
) -> Any:
    """Return singular values s, real, and with compute_uv also u and v, of [..., M, N].

    Args:
      tensor: float16, float32, float64 or complex.
      full_matrices: whether u and v are square.
      compute_uv: whether to give them.
    Returns: s [..., P], or (s, u [..., M, P], v [..., N, P]), where P is the lesser of M and N;
      with full_matrices it is M in u and N in v.
    """
    s, u, v = apply_op("Svd", tensor, full_matrices=full_matrices, compute_uv=compute_uv, name=name)
    if s.dtype.is_complex:
        s = apply_op("Real", s, Tout=s.dtype.real_dtype)
    return (s, u, v) if compute_uv else s


@export("linalg.eigh", "self_adjoint_eig")
def self_adjoint_eig(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return eigenvalues, rising, and eigenvectors of self-adjoint matrices [..., M, M]."""
    e, v = apply_op("SelfAdjointEigV2", tensor, compute_v=True, name=name)
    return e, v


@export("linalg.eigvalsh", "self_adjoint_eigvals")
def self_adjoint_eigvals(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Return the eigenvalues, rising, of self-adjoint matrices [..., M, M]."""
    made: Tensor = apply_op("SelfAdjointEigV2", tensor, compute_v=False, name=name)[0]
    return made


class Lu(NamedTuple):
    """L and U in one matrix, and the order of the rows."""

    lu: Tensor
    p: Tensor


@export("linalg.lu")
def lu(input: TensorLike, output_idx_type: DTypeLike = "int32", name: str | None = None) -> Lu:
    """Return L and U in one matrix, and the order of the rows, of matrices [..., M, M].

    Raises: InvalidArgumentError for a singular matrix.
    """
    factors, order = apply_op("Lu", input, output_idx_type=output_idx_type, name=name)
    return Lu(factors, order)


@export("linalg.sqrtm", "matrix_square_root")
def matrix_square_root(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the matrices whose squares are the inputs [..., M, M]."""
    made: Tensor = apply_op("MatrixSquareRoot", input, name=name)
    return made


@export("linalg.logm")
def matrix_logarithm(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the logarithms of complex matrices [..., M, M]."""
    made: Tensor = apply_op("MatrixLogarithm", input, name=name)
    return made
