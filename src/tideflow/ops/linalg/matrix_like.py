"""What acts as a matrix without being a tensor, and the functions of tf that leave it the answer.

tf.linalg.det(operator) is what the operator says that its determinant is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op
from tideflow.ops.export import arguments_of, overload_each
from tideflow.ops.linalg.solutions import adjoint as adjoint_of


class MatrixLike:
    """Base of what acts as a matrix, with the methods of tf.linalg.LinearOperator."""


def _inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Any:
    found = input.inverse(name)
    return found.adjoint() if adjoint else found


def _logdet(matrix: Any, name: str | None = None) -> Any:
    if not (matrix.is_positive_definite and matrix.is_self_adjoint):
        raise ValueError("Expected matrix to be self-adjoint positive definite.")
    found = matrix.log_abs_determinant(name)
    return apply_op("Real", found, Tout=found.dtype.real_dtype) if found.dtype.is_complex else found


def _solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Any:
    if not isinstance(matrix, MatrixLike):
        raise ValueError(
            "Passing in `matrix` as a Tensor and `rhs` as a LinearOperator is not supported."
        )
    found: Any = matrix
    return found.solve(rhs, adjoint=adjoint, name=name)


def _matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
    **_: Any,
) -> Any:
    if transpose_a or transpose_b:
        raise ValueError("Transposing not supported at this time.")
    if a_is_sparse or b_is_sparse:
        raise ValueError("Sparse methods not supported at this time.")
    if isinstance(a, MatrixLike):
        left: Any = a
        return left.matmul(b, adjoint=adjoint_a, adjoint_arg=adjoint_b, name=name)
    return adjoint_of(b.matmul(a, adjoint=not adjoint_b, adjoint_arg=not adjoint_a, name=name))


_ANSWERS: dict[str, Callable[..., Any]] = {
    "linalg.adjoint": lambda matrix, name=None: matrix.adjoint(name),
    "linalg.cholesky": lambda input, name=None: input.cholesky(name),
    "linalg.det": lambda input, name=None: input.determinant(name),
    "linalg.diag_part": lambda input, name="diag_part", **_: input.diag_part(name),
    "linalg.inv": _inverse,
    "linalg.logdet": _logdet,
    "linalg.matmul": _matmul,
    "linalg.matvec": lambda a, b, adjoint_a=False, name=None, **_: a.matvec(b, adjoint_a, name),
    "linalg.solve": _solve,
    "linalg.trace": lambda x, name=None: x.trace(name),
}


def _answered(answer: Callable[..., Any]) -> Callable[..., Any]:
    return lambda function, args, kwargs: answer(**arguments_of(function, args, kwargs))


for _name, _answer in _ANSWERS.items():
    overload_each(_name, _answered(_answer), MatrixLike)
