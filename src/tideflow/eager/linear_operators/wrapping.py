"""Operators that are the adjoint or the inverse of another one.

Source: tensorflow/python/ops/linalg/linear_operator_adjoint.py, linear_operator_inversion.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.eager.linear_operators import hints
from tideflow.eager.linear_operators.spec import TensorOperator
from tideflow.eager.linear_operators.tensors import concatenated, conjugate_transpose
from tideflow.graph.shapes import TensorShape
from tideflow.ops.export import export
from tideflow.ops.framework import conj


class _Wrapping(TensorOperator):
    """What an adjoint and an inverse share: the operator of which they are that."""

    _operator: Any

    def _wrap(self, parameters: dict[str, Any], relation: str, ending: str) -> None:
        """Take over an operator with its hints.  Raises: ValueError where they contradict."""
        self._operator = parameters["operator"]
        own = {name: parameters[name] for name in hints.HINTS}
        self._begin(
            self._operator.dtype,
            parameters,
            name=parameters["name"] or f"{self._operator.name}_{ending}",
            **hints.shared(self._operator, own, relation),
        )

    @property
    def operator(self) -> Any:
        """The operator of which this is the adjoint or the inverse."""
        return self._operator

    def _assert_non_singular(self) -> Any:
        return self._operator.assert_non_singular()

    def _assert_positive_definite(self) -> Any:
        return self._operator.assert_positive_definite()

    def _assert_self_adjoint(self) -> Any:
        return self._operator.assert_self_adjoint()

    def _cond(self) -> Any:
        return self._operator.cond()

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("operator",)

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"operator": 0}


@export("linalg.LinearOperatorAdjoint")
class LinearOperatorAdjoint(_Wrapping):
    """The adjoint of an operator.

    Its hints are those of the operator, and its name the operator's with "_adjoint".
    Raises: ValueError for hints that contradict those of the operator.
    """

    def __init__(
        self,
        operator: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        self._wrap(hints.given(locals()), "adjoint", "adjoint")

    def _shape(self) -> TensorShape:
        sizes: TensorShape = self._operator.shape
        if sizes.rank is None:
            return sizes
        *batch, rows, columns = sizes.as_list()
        return TensorShape([*batch, columns, rows])

    def _shape_tensor(self) -> Any:
        sizes = self._operator.shape_tensor()
        return concatenated(sizes[:-2], sizes[-1:], sizes[-2:-1])

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.matmul(x, adjoint=not adjoint, adjoint_arg=adjoint_arg)

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return self._operator.matvec(x, adjoint=not adjoint)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.solve(rhs, adjoint=not adjoint, adjoint_arg=adjoint_arg)

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        return self._operator.solvevec(rhs, adjoint=not adjoint)

    def _conjugate(self, x: Any) -> Any:
        return x if self.is_self_adjoint else conj(x)

    def _determinant(self) -> Any:
        return self._conjugate(self._operator.determinant())

    def _log_abs_determinant(self) -> Any:
        return self._operator.log_abs_determinant()

    def _trace(self) -> Any:
        return self._conjugate(self._operator.trace())

    def _diag_part(self) -> Any:
        return self._conjugate(self._operator.diag_part())

    def _eigvals(self) -> Any:
        return self._conjugate(self._operator.eigvals())

    def _to_dense(self) -> Any:
        dense = self._operator.to_dense()
        return dense if self.is_self_adjoint else conjugate_transpose(dense)


@export("linalg.LinearOperatorInversion")
class LinearOperatorInversion(_Wrapping):
    """The inverse of an operator, which multiplies by solving.

    Its hints are those of the operator, and its name the operator's with "_inv".
    Raises: ValueError for what has no inverse, or hints that contradict those of the operator.
    """

    def __init__(
        self,
        operator: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        parameters = hints.given(locals())
        for hint in ("is_non_singular", "is_square"):
            if getattr(operator, hint) is False or parameters[hint] is False:
                raise ValueError(
                    f"Argument `{hint}` or argument `operator` must have supplied hint `{hint}` "
                    f"equal to `True` or `None`. Found `operator.{hint}`: "
                    f"{getattr(operator, hint)}, `{hint}`: {parameters[hint]}."
                )
        self._wrap(parameters, "inverse", "inv")

    def _shape(self) -> TensorShape:
        found: TensorShape = self._operator.shape
        return found

    def _shape_tensor(self) -> Any:
        return self._operator.shape_tensor()

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.solve(x, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.matmul(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _determinant(self) -> Any:
        return 1 / self._operator.determinant()

    def _log_abs_determinant(self) -> Any:
        return -self._operator.log_abs_determinant()

    def _eigvals(self) -> Any:
        return 1 / self._operator.eigvals()
