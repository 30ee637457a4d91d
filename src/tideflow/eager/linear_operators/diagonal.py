"""tf.linalg.LinearOperatorDiag: operators of diagonal matrices.

Source: tensorflow/python/ops/linalg/linear_operator_diag.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.eager.linear_operators import hints
from tideflow.eager.linear_operators.spec import TensorOperator
from tideflow.eager.linear_operators.tensors import (
    cast,
    concatenated,
    conjugate_transpose,
    magnitude,
    parameter,
    ratio_of_extremes,
    real_of,
    require,
    require_nonzero,
    require_real,
    scope,
)
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.array import matrix_diag, matrix_diag_part, matrix_set_diag, shape
from tideflow.ops.export import export
from tideflow.ops.framework import conj


@export("linalg.LinearOperatorDiag")
class LinearOperatorDiag(TensorOperator):
    """The operator of the matrices with diagonals [..., N], and zeros elsewhere.

    One of real numbers is self-adjoint.  The hints and the name are those of LinearOperator.
    Raises: ValueError for scalars, and for hints that are wrong of diagonal matrices.
    """

    def __init__(
        self,
        diag: TensorLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorDiag",
    ) -> None:
        parameters = hints.given(locals())
        with scope(name):
            self._diag = parameter(diag, "diag")
        if self._diag.shape.rank == 0:
            raise ValueError(f"Argument diag must have at least 1 dimension.  Found: {self._diag}")
        dtype = self._diag.dtype.base_dtype
        if not dtype.is_complex:
            message = "A real diagonal operator is always self adjoint."
            is_self_adjoint = hints.always(is_self_adjoint, True, message)
        message = "Only square diagonal operators currently supported."
        is_square = hints.always(is_square, True, message)
        self._begin(dtype, parameters, is_self_adjoint=is_self_adjoint, is_square=is_square)

    @property
    def diag(self) -> Any:
        """The diagonals [..., N]."""
        return self._diag

    def _tensor(self, adjoint: bool = False) -> Any:
        found = convert_to_tensor(self._diag)
        return conj(found) if adjoint else found

    def _shape(self) -> TensorShape:
        sizes: TensorShape = self._diag.shape
        return sizes.concatenate(sizes[-1:])

    def _shape_tensor(self) -> Any:
        sizes = shape(self._diag)
        return concatenated(sizes, sizes[-1:])

    def _assert_non_singular(self) -> Any:
        message = "Singular operator:  Diagonal contained zero values."
        return require_nonzero(self._diag, message)

    def _assert_positive_definite(self) -> Any:
        found = "Real diagonal operator had non-positive diagonal entries"
        if self.dtype.is_complex:
            found = "Diagonal operator had diagonal entries with non-positive real part"
        message = f"{found}, thus was not positive definite."
        return require("assert_positive", real_of(self._tensor()), message=message)

    def _assert_self_adjoint(self) -> Any:
        message = "This diagonal operator contained non-zero imaginary values.   Thus it was not "
        return require_real(self._diag, f"{message}self-adjoint.")

    def _matmul(self, x: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = conjugate_transpose(x) if adjoint_arg else x
        return self._tensor(adjoint)[..., None] * given

    def _matvec(self, x: TensorLike, adjoint: bool = False) -> Any:
        return self._tensor(adjoint) * x

    def _solve(self, rhs: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = conjugate_transpose(rhs) if adjoint_arg else rhs
        return given / self._tensor(adjoint)[..., None]

    def _determinant(self) -> Any:
        return apply_op("Prod", self._diag, [-1])

    def _log_abs_determinant(self) -> Any:
        found = apply_op("Sum", apply_op("Log", magnitude(self._tensor())), [-1])
        return cast(found, self.dtype)

    def _to_dense(self) -> Any:
        return matrix_diag(self._diag)

    def _diag_part(self) -> Any:
        return self._diag

    def _add_to_tensor(self, x: TensorLike) -> Any:
        return matrix_set_diag(x, self._diag + matrix_diag_part(x))

    def _eigvals(self) -> Any:
        return self._tensor()

    def _cond(self) -> Any:
        return ratio_of_extremes(magnitude(self._tensor()))

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("diag",)

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"diag": 1}
