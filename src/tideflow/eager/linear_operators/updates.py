"""tf.linalg.LinearOperatorLowRankUpdate: an operator to which a matrix of low rank is added.

Source: tensorflow/python/ops/linalg/linear_operator_low_rank_update.py; the identity of Woodbury
for solutions, and the lemma of matrix determinants.
"""

from __future__ import annotations

from typing import Any

from tideflow.eager.linear_operators import hints
from tideflow.eager.linear_operators.diagonal import LinearOperatorDiag
from tideflow.eager.linear_operators.identity import LinearOperatorIdentity
from tideflow.eager.linear_operators.spec import TensorOperator
from tideflow.eager.linear_operators.tensors import (
    cast,
    concatenated,
    conjugate_transpose,
    dynamic_batch,
    magnitude,
    parameter,
    scope,
    solved,
    solved_by_cholesky,
    static_batch,
)
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.dimension import Dimension
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.array import matrix_diag_part, shape
from tideflow.ops.export import export
from tideflow.ops.framework import conj
from tideflow.ops.linalg import cholesky, matmul, matrix_determinant


@export("linalg.LinearOperatorLowRankUpdate")
class LinearOperatorLowRankUpdate(TensorOperator):
    """The operator A = L + U D V.H, where U and V have few columns.

    Args:
      base_operator: L, [..., M, N].
      u: U, [..., M, K].
      diag_update: the diagonal of D, [..., K]; the identity by default.
      v: V, [..., N, K]; u by default.
      is_diag_update_positive: whether the diagonal is promised to be positive.
      The hints and the name are those of LinearOperator.
    Raises: ValueError for sizes that do not fit, and for hints that are wrong.
    """

    def __init__(
        self,
        base_operator: Any,
        u: TensorLike,
        diag_update: TensorLike | None = None,
        v: TensorLike | None = None,
        is_diag_update_positive: bool | None = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowRankUpdate",
    ) -> None:
        parameters = hints.given(locals())
        dtype = base_operator.dtype
        if diag_update is None:
            message = "Default diagonal is the identity, which is positive."
            is_diag_update_positive = hints.always(is_diag_update_positive, True, message)
        is_hermitian = bool(base_operator.is_self_adjoint) and v is None
        if is_hermitian and not dtype.is_complex:
            message = "An update U D U.H, with D real, of a self-adjoint operator is self-adjoint."
            is_self_adjoint = hints.always(is_self_adjoint, True, message)
        is_positive = base_operator.is_positive_definite and is_diag_update_positive
        self._use_cholesky = bool(is_hermitian and is_positive)
        if self._use_cholesky:
            message = "Arguments imply this is self-adjoint positive-definite operator."
            is_positive_definite = hints.always(is_positive_definite, True, message)
            is_self_adjoint = hints.always(is_self_adjoint, True, message)
            hints.always(is_non_singular, True, message)
        with scope(name):
            self._u = parameter(u, "u")
            self._v = self._u if v is None else parameter(v, "v")
            self._diag_update = parameter(diag_update, "diag_update")
        self._base_operator = base_operator
        self._begin(
            dtype,
            parameters,
            is_self_adjoint=is_self_adjoint,
            is_positive_definite=is_positive_definite,
        )
        self._is_diag_update_positive = is_diag_update_positive
        self._diag_operator = self._made_diagonal()
        self._check_shapes()

    def _made_diagonal(self) -> Any:
        if self._diag_update is not None:
            positive = self._is_diag_update_positive
            return LinearOperatorDiag(self._diag_update, is_positive_definite=positive)
        count = (self._u.shape.sizes or (None,))[-1]
        rows: Any = shape(self._u)[-1] if count is None else count
        return LinearOperatorIdentity(rows, dtype=self.dtype)

    def _check_shapes(self) -> None:
        sides = static_batch(self._u.shape, self._v.shape)
        batch = static_batch(self._base_operator.batch_shape, sides[:-2])
        if sides.rank is not None:
            self._base_operator.domain_dimension.assert_is_compatible_with(sides[-2])
            if self._diag_update is not None:
                count = Dimension(sides[-1])
                count.assert_is_compatible_with(self._diag_update.shape[-1])
                static_batch(batch, self._diag_update.shape[:-1])

    @property
    def u(self) -> Any:
        """U, [..., M, K]."""
        return self._u

    @property
    def v(self) -> Any:
        """V, [..., N, K]."""
        return self._v

    @property
    def is_diag_update_positive(self) -> bool | None:
        """Whether the diagonal is promised to be positive."""
        return self._is_diag_update_positive

    @property
    def diag_update(self) -> Any:
        """The diagonal of D; None for the identity."""
        return self._diag_update

    @property
    def diag_operator(self) -> Any:
        """D as an operator."""
        return self._diag_operator

    @property
    def base_operator(self) -> Any:
        """L."""
        return self._base_operator

    def _shape(self) -> TensorShape:
        batch = static_batch(
            self._base_operator.batch_shape,
            self._diag_operator.batch_shape,
            self._u.shape[:-2],
            self._v.shape[:-2],
        )
        return batch.concatenate(self._base_operator.shape[-2:])

    def _shape_tensor(self) -> Any:
        batch = dynamic_batch(
            self._base_operator.batch_shape_tensor(),
            self._diag_operator.batch_shape_tensor(),
            shape(self._u)[:-2],
            shape(self._v)[:-2],
        )
        return concatenated(batch, self._base_operator.shape_tensor()[-2:])

    def _assert_self_adjoint(self) -> Any:
        if self._u is self._v and self._diag_update is None:
            return self._base_operator.assert_self_adjoint()
        return super()._assert_self_adjoint()

    def _sides_of(self, adjoint: bool) -> tuple[Any, Any]:
        return (self._v, self._u) if adjoint else (self._u, self._v)

    def _matmul(self, x: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = conjugate_transpose(x) if adjoint_arg else x
        left, right = self._sides_of(adjoint)
        inner = self._diag_operator.matmul(matmul(right, given, adjoint_a=True), adjoint=adjoint)
        return self._base_operator.matmul(given, adjoint=adjoint) + matmul(left, inner)

    def _solve(self, rhs: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        if self._base_operator.is_non_singular is False:
            raise ValueError(
                "Solve not implemented unless this is a perturbation of a non-singular "
                "LinearOperator."
            )
        given = conjugate_transpose(rhs) if adjoint_arg else rhs
        left, right = self._sides_of(adjoint)
        first = self._base_operator.solve(given, adjoint=adjoint)
        inner = matmul(right, first, adjoint_a=True)
        small = self._capacitance()
        if self._use_cholesky:
            inner = solved_by_cholesky(cholesky(small), inner)
        else:
            inner = solved(small, inner, adjoint=adjoint)
        return first - self._base_operator.solve(matmul(left, inner), adjoint=adjoint)

    def _capacitance(self) -> Any:
        """Return inverse(D) + V.H inverse(L) U, [..., K, K]."""
        inner = matmul(self._v, self._base_operator.solve(self._u), adjoint_a=True)
        return self._diag_operator.inverse().add_to_tensor(inner)

    def _determinant(self) -> Any:
        if self.is_positive_definite:
            return apply_op("Exp", self.log_abs_determinant())
        small = matrix_determinant(self._capacitance())
        return small * self._diag_operator.determinant() * self._base_operator.determinant()

    def _log_abs_determinant(self) -> Any:
        small = self._capacitance()
        if self._use_cholesky:
            diagonal = matrix_diag_part(cholesky(small))
            found = 2 * apply_op("Sum", apply_op("Log", diagonal), [-1])
        else:
            size = apply_op("Log", magnitude(matrix_determinant(small)))
            found = cast(size, self.dtype)
        parts = self._diag_operator, self._base_operator
        return found + parts[0].log_abs_determinant() + parts[1].log_abs_determinant()

    def _diag_part(self) -> Any:
        product = self._u * conj(convert_to_tensor(self._v))
        if self._diag_update is not None:
            product = product * convert_to_tensor(self._diag_update)[..., None, :]
        return apply_op("Sum", product, [-1]) + self._base_operator.diag_part()

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("base_operator", "u", "diag_update", "v", "is_diag_update_positive")

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"base_operator": 0, "u": 2, "diag_update": 1, "v": 2}
