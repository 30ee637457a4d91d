"""Operators of matrices that are given as tensors: full ones and lower triangular ones.

Source: tensorflow/python/ops/linalg/linear_operator_full_matrix.py,
linear_operator_lower_triangular.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.eager.linear_operators import hints
from tideflow.eager.linear_operators.spec import TensorOperator
from tideflow.eager.linear_operators.tensors import (
    conjugate_transpose,
    magnitude,
    parameter,
    require_nonzero,
    scope,
)
from tideflow.graph.building import apply_op
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.array import matrix_band_part, matrix_diag_part, shape
from tideflow.ops.export import export
from tideflow.ops.linalg import matmul, matrix_triangular_solve
from tideflow.wire import dtypes

_FULL_TYPES = [
    dtypes.float16,
    dtypes.float32,
    dtypes.float64,
    dtypes.complex64,
    dtypes.complex128,
]


@export("linalg.LinearOperatorFullMatrix")
class LinearOperatorFullMatrix(TensorOperator):
    """The operator of matrices [..., M, N] of floats or complex numbers.

    The hints and the name are those of LinearOperator.
    Raises: TypeError for another type; ValueError below rank 2.
    """

    def __init__(
        self,
        matrix: TensorLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorFullMatrix",
    ) -> None:
        parameters = hints.given(locals())
        with scope(name):
            self._matrix = parameter(matrix, "matrix")
        dtype = self._matrix.dtype.base_dtype
        if dtype not in _FULL_TYPES:
            raise TypeError(f"Argument `matrix` must have dtype in {_FULL_TYPES}. Found: {dtype}.")
        _require_matrices(self._matrix, "Argument `matrix` must have at least 2 dimensions.")
        self._begin(dtype, parameters)

    @property
    def matrix(self) -> Any:
        """The matrices."""
        return self._matrix

    def _shape(self) -> TensorShape:
        found: TensorShape = self._matrix.shape
        return found

    def _shape_tensor(self) -> Any:
        return shape(self._matrix)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return matmul(self._matrix, x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _to_dense(self) -> Any:
        return parameter(self._matrix, "matrix")

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("matrix",)

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"matrix": 2}


@export("linalg.LinearOperatorLowerTriangular")
class LinearOperatorLowerTriangular(TensorOperator):
    """The operator of the lower triangles of matrices [..., N, N].

    tril: what is above the diagonal does not count.  The hints and the name are those of
    LinearOperator.
    Raises: ValueError below rank 2.
    """

    def __init__(
        self,
        tril: TensorLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:
        parameters = hints.given(locals())
        message = "Only square lower triangular operators supported at this time."
        is_square = hints.always(is_square, True, message)
        with scope(name):
            self._tril = parameter(tril, "tril")
        _require_matrices(self._tril, "Argument tril must have at least 2 dimensions.")
        self._begin(self._tril.dtype.base_dtype, parameters, is_square=is_square)

    @property
    def tril(self) -> Any:
        """The matrices whose lower triangles count."""
        return self._tril

    def _shape(self) -> TensorShape:
        found: TensorShape = self._tril.shape
        return found

    def _shape_tensor(self) -> Any:
        return shape(self._tril)

    def _assert_non_singular(self) -> Any:
        message = "Singular operator:  Diagonal contained zero values."
        return require_nonzero(self._diag_part(), message)

    def _to_dense(self) -> Any:
        return matrix_band_part(self._tril, -1, 0)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return matmul(self._to_dense(), x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = conjugate_transpose(rhs) if adjoint_arg else rhs
        return matrix_triangular_solve(self._to_dense(), given, lower=True, adjoint=adjoint)

    def _determinant(self) -> Any:
        return apply_op("Prod", self._diag_part(), [-1])

    def _log_abs_determinant(self) -> Any:
        return apply_op("Sum", apply_op("Log", magnitude(self._diag_part())), [-1])

    def _diag_part(self) -> Any:
        return matrix_diag_part(self._tril)

    def _eigvals(self) -> Any:
        return self._diag_part()

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("tril",)

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"tril": 2}


def _require_matrices(value: Any, message: str) -> None:
    """Raise ValueError below rank 2."""
    if value.shape.rank is not None and value.shape.rank < 2:
        raise ValueError(f"{message}  Found: {value}")
