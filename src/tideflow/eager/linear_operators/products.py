"""Operators made of several: one after the other, and Kronecker products.

Source: tensorflow/python/ops/linalg/linear_operator_composition.py,
linear_operator_kronecker.py.
"""

from __future__ import annotations

import functools
import operator as python_operator
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.eager.linear_operators import hints
from tideflow.eager.linear_operators.spec import TensorOperator
from tideflow.eager.linear_operators.tensors import (
    all_of,
    cast,
    concatenated,
    conjugate_transpose,
    dynamic_batch,
    matrix_shape,
    static_batch,
)
from tideflow.graph.building import apply_op
from tideflow.graph.shapes import TensorShape, num_elements
from tideflow.ops.array import matrix_transpose, shape
from tideflow.ops.checks import assert_proper_iterable
from tideflow.ops.export import export
from tideflow.wire.errors import InvalidArgumentError


def listed(operators: Any) -> list[Any]:
    """Return operators of one type as a list.

    Raises: TypeError for what is no iterable, or other types; ValueError where there are none.
    """
    assert_proper_iterable(operators)
    found = list(operators)
    if not found:
        raise ValueError(f"Expected a non-empty list of operators. Found: {operators}")
    if any(one.dtype != found[0].dtype for one in found):
        types = "   ".join(str((one.name, one.dtype)) for one in found)
        raise TypeError(f"Expected all operators to have the same dtype.  Found {types}")
    return found


def multiplied(factors: Sequence[Any]) -> Any:
    """Return the product of tensors or operators."""
    return functools.reduce(python_operator.mul, factors)


def summed(terms: Sequence[Any]) -> Any:
    """Return the sum of tensors."""
    return functools.reduce(python_operator.add, terms)


def batch_of(operators: Sequence[Any]) -> TensorShape:
    """Return the static shape to which batches stretch."""
    return static_batch(*(one.batch_shape for one in operators))


def batch_tensor_of(operators: Sequence[Any]) -> Any:
    """Return the shape, a vector, to which batches stretch."""
    return dynamic_batch(*(one.batch_shape_tensor() for one in operators))


class ManyOperators(TensorOperator):
    """Base of operators that are made of a list of others."""

    _operators: list[Any]

    def _begin_of(
        self, operators: list[Any], parameters: dict[str, Any], what: str, between: str
    ) -> None:
        """Begin an operator that has the hints that all of its parts have.

        Args:
          what: what it is of its parts, for errors.
          between: stands between their names in its own.
        """
        text = f"The {what} of {{0}} operators is always {{0}}."
        texts = {
            "is_non_singular": text.format("non-singular"),
            "is_self_adjoint": text.format("self-adjoint"),
            "is_positive_definite": text.format("positive definite"),
        }
        own = {hint: parameters[hint] for hint in hints.HINTS}
        self._begin(
            operators[0].dtype,
            parameters,
            name=parameters["name"] or between.join(one.name for one in operators),
            **hints.of_all(operators, own, texts),
        )
        self._operators = operators

    @property
    def operators(self) -> Any:
        """The operators of which this is made."""
        return self._operators

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("operators",)

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"operators": [0] * len(self._operators)}


@export("linalg.LinearOperatorComposition")
class LinearOperatorComposition(ManyOperators):
    """The product of operators, the last of which comes first.

    Args:
      operators: whose sizes must fit; one of the form A @ A.H is self-adjoint.
      name: by default their names with "_o_" between them.
      The hints are those of LinearOperator.
    Raises: TypeError for other types; ValueError for no operators, and for hints that are wrong.
    """

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        parameters = hints.given(locals())
        found = listed(operators)
        if all(one.is_non_singular for one in found):
            message = "The composition of non-singular operators is always non-singular."
            is_non_singular = hints.always(is_non_singular, True, message)
        if hints.is_symmetric(found):
            said = "The composition was determined to be {}, but was said not to be."
            is_square = hints.always(is_square, True, said.format("square"))
            is_self_adjoint = hints.always(is_self_adjoint, True, said.format("self-adjoint"))
            if is_non_singular:
                message = said.format("positive definite")
                is_positive_definite = hints.always(is_positive_definite, True, message)
        self._begin(
            found[0].dtype,
            parameters,
            is_non_singular=is_non_singular,
            is_self_adjoint=is_self_adjoint,
            is_positive_definite=is_positive_definite,
            is_square=is_square,
            name=name or "_o_".join(one.name for one in found),
        )
        self._operators = found

    def _shape(self) -> TensorShape:
        for left, right in zip(self._operators, self._operators[1:]):
            left.domain_dimension.assert_is_compatible_with(right.range_dimension)
        sides = [self._operators[0].range_dimension, self._operators[-1].domain_dimension]
        return batch_of(self._operators).concatenate(sides)

    def _shape_tensor(self) -> Any:
        return matrix_shape(
            batch_tensor_of(self._operators),
            self._operators[0].range_dimension_tensor(),
            self._operators[-1].domain_dimension_tensor(),
        )

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        found = conjugate_transpose(x) if adjoint_arg else x
        for one in self._operators if adjoint else reversed(self._operators):
            found = one.matmul(found, adjoint=adjoint)
        return found

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        found = conjugate_transpose(rhs) if adjoint_arg else rhs
        for one in reversed(self._operators) if adjoint else self._operators:
            found = one.solve(found, adjoint=adjoint)
        return found

    def _determinant(self) -> Any:
        return multiplied([one.determinant() for one in self._operators])

    def _log_abs_determinant(self) -> Any:
        return summed([one.log_abs_determinant() for one in self._operators])

    def _assert_non_singular(self) -> Any:
        if all(one.is_square for one in self._operators):
            return all_of([one.assert_non_singular for one in self._operators])
        return super()._assert_non_singular()


_ALL_SQUARE = (
    "All Kronecker factors must be square for the product to be invertible. Expected hint "
    "`is_square` to be True for every operator in argument `operators`."
)


@export("linalg.LinearOperatorKronecker")
class LinearOperatorKronecker(ManyOperators):
    """The Kronecker product of operators: [M1 M2 ..., N1 N2 ...].

    Args:
      name: by default their names with "_x_" between them.
      The hints are those of LinearOperator.
    Raises: TypeError for other types; ValueError for no operators, and for hints that are wrong.
    """

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        parameters = hints.given(locals())
        self._begin_of(listed(operators), parameters, "Kronecker product", "_x_")

    def _shape(self) -> TensorShape:
        rows = num_elements(tuple(one.range_dimension.value for one in self._operators))
        columns = num_elements(tuple(one.domain_dimension.value for one in self._operators))
        return batch_of(self._operators).concatenate([rows, columns])

    def _shape_tensor(self) -> Any:
        return matrix_shape(
            batch_tensor_of(self._operators),
            multiplied([one.range_dimension_tensor() for one in self._operators]),
            multiplied([one.domain_dimension_tensor() for one in self._operators]),
        )

    def _swept(self, x: Any, apply: Callable[[Any, Any], Any], sides: Sequence[Any]) -> Any:
        """Return matrices [..., N1 N2 ..., R] with each factor applied along its own dimension.

        The dimension in front is multiplied and goes to the end, until all have had their turn.
        sides: the sizes of these dimensions.
        """
        columns = shape(x)[-1:]
        found = x
        for one, side in zip(self._operators, sides):
            front = apply_op("Reshape", side, [1])
            sizes = concatenated(shape(found)[:-2], front, [-1])
            found = matrix_transpose(apply(one, apply_op("Reshape", found, sizes)))
        sizes = concatenated(shape(found)[:-2], columns, [-1])
        return matrix_transpose(apply_op("Reshape", found, sizes))

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._swept(
            conjugate_transpose(x) if adjoint_arg else x,
            lambda one, part: one.matmul(part, adjoint=adjoint),
            [
                one.range_dimension_tensor() if adjoint else one.domain_dimension_tensor()
                for one in self._operators
            ],
        )

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._swept(
            conjugate_transpose(rhs) if adjoint_arg else rhs,
            lambda one, part: one.solve(part, adjoint=adjoint),
            [
                one.domain_dimension_tensor() if adjoint else one.range_dimension_tensor()
                for one in self._operators
            ],
        )

    def _powers(self) -> list[Any]:
        """Return how often the determinant of each operator is a factor of that of the product."""
        whole = cast(self.domain_dimension_tensor(), self.dtype)
        return [whole / cast(one.domain_dimension_tensor(), self.dtype) for one in self._operators]

    def _determinant(self) -> Any:
        found = zip(self._operators, self._powers())
        return multiplied([apply_op("Pow", one.determinant(), power) for one, power in found])

    def _log_abs_determinant(self) -> Any:
        found = zip(self._operators, self._powers())
        return summed([one.log_abs_determinant() * power for one, power in found])

    def _trace(self) -> Any:
        return multiplied([one.trace() for one in self._operators])

    def _diag_part(self) -> Any:
        return functools.reduce(_outer, [one.diag_part() for one in self._operators])

    def _eigvals(self) -> Any:
        return functools.reduce(_outer, [one.eigvals() for one in self._operators])

    def _assert_non_singular(self) -> Any:
        self._require_factors()
        return all_of([one.assert_non_singular for one in self._operators])

    def _assert_self_adjoint(self) -> Any:
        self._require_factors()
        return all_of([one.assert_self_adjoint for one in self._operators])

    def _require_factors(self) -> None:
        if not all(one.is_square for one in self._operators):
            raise InvalidArgumentError(_ALL_SQUARE)


def _outer(left: Any, right: Any) -> Any:
    """Return all products of elements of vectors [..., M] and [..., N], [..., M N]."""
    found = left[..., :, None] * right[..., None, :]
    return apply_op("Reshape", found, concatenated(shape(found)[:-2], [-1]))
