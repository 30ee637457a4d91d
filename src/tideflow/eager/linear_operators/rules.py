"""Which operator results of products, quotients, sums, adjoints, inverses and Cholesky factors.

The tables are at the end: of the rules for two operators the first that fits holds.

Source: the methods _linop_* of tensorflow/python/ops/linalg/linear_operator*.py.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

from tideflow.eager.linear_operators import algebra, hints
from tideflow.eager.linear_operators.base import LinearOperator
from tideflow.eager.linear_operators.blocks import (
    LinearOperatorBlockDiag,
    LinearOperatorBlockLowerTriangular,
)
from tideflow.eager.linear_operators.circulant import CirculantOperator
from tideflow.eager.linear_operators.dense import (
    LinearOperatorFullMatrix,
    LinearOperatorLowerTriangular,
)
from tideflow.eager.linear_operators.diagonal import LinearOperatorDiag
from tideflow.eager.linear_operators.identity import (
    LinearOperatorIdentity,
    LinearOperatorScaledIdentity,
    LinearOperatorZeros,
)
from tideflow.eager.linear_operators.products import (
    LinearOperatorComposition,
    LinearOperatorKronecker,
    ManyOperators,
)
from tideflow.eager.linear_operators.reflections import LinearOperatorHouseholder
from tideflow.eager.linear_operators.tensors import cast, filled
from tideflow.eager.linear_operators.wrapping import LinearOperatorAdjoint, LinearOperatorInversion
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.framework import conj
from tideflow.ops.linalg import cholesky

_Diagonal: TypeAlias = LinearOperatorDiag | LinearOperatorScaledIdentity
_OfSquares: TypeAlias = LinearOperatorBlockDiag | LinearOperatorKronecker

_FACTOR: hints.Hints = {"is_non_singular": True, "is_self_adjoint": None, "is_square": True}
_DIAGONAL_FACTOR: hints.Hints = dict.fromkeys(hints.HINTS, True)


def _left(left: LinearOperator, right: LinearOperator) -> Any:
    return left


def _right(left: LinearOperator, right: LinearOperator) -> Any:
    return right


def _itself(one: LinearOperator) -> Any:
    return one


def _zeros(zeros: LinearOperatorZeros, other: LinearOperator) -> Any:
    if not zeros.is_square or not other.is_square:
        raise ValueError(
            "Matmul with non-square `LinearOperator`s or non-square `LinearOperatorZeros` not "
            "supported at this time."
        )
    return zeros


# ---- products and quotients


def _composed(left: LinearOperator, right: LinearOperator) -> Any:
    return LinearOperatorComposition([left, right], **hints.any_product(left, right))


def _composed_quotient(left: LinearOperator, right: LinearOperator) -> Any:
    inverse = LinearOperatorInversion(left)
    return LinearOperatorComposition([inverse, right], **hints.any_product(left, right))


def _triangular_hints(left: LinearOperator, right: LinearOperator) -> hints.Hints:
    return {**hints.commuting_product(left, right), "is_positive_definite": None}


def _diagonal(one: _Diagonal) -> Any:
    """Return a diagonal, or what stretches to it: the multiplier of a scaled identity."""
    if isinstance(one, LinearOperatorScaledIdentity):
        return convert_to_tensor(one.multiplier)[..., None]
    return one.diag


def _diagonals_multiplied(left: _Diagonal, right: _Diagonal) -> Any:
    found = hints.commuting_product(left, right)
    return LinearOperatorDiag(_diagonal(left) * _diagonal(right), **found)


def _diagonals_divided(left: _Diagonal, right: _Diagonal) -> Any:
    found = hints.commuting_product(left, right)
    return LinearOperatorDiag(_diagonal(right) / _diagonal(left), **found)


def _scaled(left: LinearOperator, right: LinearOperator, multiplier: TensorLike) -> Any:
    found = hints.commuting_product(left, right)
    return LinearOperatorScaledIdentity(left.domain_dimension_tensor(), multiplier, **found)


def _rows_scaled(left: LinearOperatorDiag, right: LinearOperator) -> Any:
    tril = convert_to_tensor(left.diag)[..., None] * right.to_dense()
    return LinearOperatorLowerTriangular(tril, **_triangular_hints(left, right))


def _rows_divided(left: LinearOperatorDiag, right: LinearOperator) -> Any:
    tril = right.to_dense() / convert_to_tensor(left.diag)[..., None]
    return LinearOperatorLowerTriangular(tril, **_triangular_hints(left, right))


def _columns_scaled(left: LinearOperator, right: LinearOperatorDiag) -> Any:
    tril = left.to_dense() * convert_to_tensor(right.diag)[..., None, :]
    return LinearOperatorLowerTriangular(tril, **_triangular_hints(right, left))


def _circulants_multiplied(left: CirculantOperator, right: CirculantOperator) -> Any:
    if type(left) is not type(right):
        return _composed(left, right)
    return left.with_spectrum(left.spectrum * right.spectrum, hints.commuting_product(left, right))


def _circulants_divided(left: CirculantOperator, right: CirculantOperator) -> Any:
    if type(left) is not type(right):
        return _composed_quotient(left, right)
    return left.with_spectrum(right.spectrum / left.spectrum, hints.commuting_product(left, right))


def _require_same_blocks(left: ManyOperators, right: ManyOperators, what: str) -> None:
    if len(left.operators) != len(right.operators):
        raise ValueError(f"Can not efficiently {what} when number of blocks differ.")
    for one, other in zip(left.operators, right.operators):
        if not one.domain_dimension.is_compatible_with(other.range_dimension):
            raise ValueError(
                f"Blocks are incompatible. Expected `x` to have dimension {one.domain_dimension} "
                f"but got {other.range_dimension}."
            )


def _of_blocks(left: LinearOperator, right: LinearOperator, blocks: list[Any]) -> Any:
    non_singular = hints.non_singular_product(left, right)
    return LinearOperatorBlockDiag(blocks, is_non_singular=non_singular, is_square=True)


def _blocks_multiplied(left: ManyOperators, right: ManyOperators) -> Any:
    _require_same_blocks(left, right, "multiply two `LinearOperatorBlockDiag`s together")
    pairs = zip(left.operators, right.operators)
    return _of_blocks(left, right, [one.matmul(other) for one, other in pairs])


def _blocks_divided(left: ManyOperators, right: ManyOperators) -> Any:
    _require_same_blocks(left, right, "solve `LinearOperatorBlockDiag`")
    pairs = zip(left.operators, right.operators)
    return _of_blocks(left, right, [one.solve(other) for one, other in pairs])


# ---- sums


def _sum_hints(left: LinearOperator, right: LinearOperator) -> hints.Hints:
    positive = True if left.is_positive_definite and right.is_positive_definite else None
    return {
        "is_non_singular": positive,
        "is_self_adjoint": True if left.is_self_adjoint and right.is_self_adjoint else None,
        "is_positive_definite": positive,
    }


def _multiplier(one: LinearOperator) -> Any:
    if isinstance(one, LinearOperatorScaledIdentity):
        return one.multiplier
    return filled(one.batch_shape_tensor(), 1, one.dtype)


def _scalars_added(left: LinearOperator, right: LinearOperator) -> Any:
    found = _multiplier(left) + _multiplier(right)
    rows = left.range_dimension_tensor()
    return LinearOperatorScaledIdentity(rows, found, **_sum_hints(left, right))


def _diagonals_added(left: LinearOperator, right: LinearOperator) -> Any:
    return LinearOperatorDiag(left.diag_part() + right.diag_part(), **_sum_hints(left, right))


def _triangles_added(left: LinearOperator, right: LinearOperator) -> Any:
    found = left.to_dense() + right.to_dense()
    return LinearOperatorLowerTriangular(found, **_sum_hints(left, right))


def _matrices_added(left: LinearOperator, right: LinearOperator) -> Any:
    return LinearOperatorFullMatrix(left.to_dense() + right.to_dense(), **_sum_hints(left, right))


# ---- adjoints, inverses and Cholesky factors


def _diag_with(one: LinearOperator, diag: TensorLike) -> Any:
    return LinearOperatorDiag(diag, **hints.hints_of(one))


def _scaled_with(one: LinearOperator, multiplier: TensorLike, **settled: Any) -> Any:
    rows = one.domain_dimension_tensor()
    return LinearOperatorScaledIdentity(rows, multiplier, **{**hints.hints_of(one), **settled})


def _each_adjoint(one: _OfSquares) -> Any:
    parts = [part.adjoint() for part in one.operators]
    return type(one)(parts, **{**hints.hints_of(one), "is_square": True})


def _each_inverse(one: _OfSquares) -> Any:
    parts = [part.inverse() for part in one.operators]
    return type(one)(parts, **{**hints.hints_of(one), "is_square": True})


def _each_cholesky(one: _OfSquares) -> Any:
    return type(one)([part.cholesky() for part in one.operators], **_FACTOR)


def _identity_factor(one: LinearOperatorIdentity) -> Any:
    return type(one)(**{**one.parameters, "name": "LinearOperatorIdentity"})


def _dense_factor(one: LinearOperator) -> Any:
    settled = {**_FACTOR, "is_self_adjoint": False}
    return LinearOperatorLowerTriangular(cholesky(one.to_dense()), **settled)


def _composed_factor(one: LinearOperatorComposition) -> Any:
    """Return L, its diagonal made positive, for L @ L.H with a lower triangular L."""
    parts = one.operators
    is_known = isinstance(parts[0], LinearOperatorLowerTriangular)
    if len(parts) != 2 or not is_known or not hints.is_symmetric(parts):
        return _dense_factor(one)
    if parts[0].is_positive_definite:
        return parts[0]
    signs = apply_op("Sign", parts[0].diag_part())
    settled = {**hints.hints_of(parts[0]), "is_positive_definite": None, "is_square": True}
    return LinearOperatorLowerTriangular(parts[0].tril / signs[..., None, :], **settled)


# The classes between which sums keep their form; others become full matrices.
_SCALARS = (LinearOperatorIdentity, LinearOperatorScaledIdentity)
_DIAGONALS = (*_SCALARS, LinearOperatorDiag)
_TRIANGLES = (*_DIAGONALS, LinearOperatorLowerTriangular)


def _plain(one: LinearOperator) -> Any:
    kinds = (*_TRIANGLES, LinearOperatorFullMatrix)
    return one if isinstance(one, kinds) else LinearOperatorFullMatrix(one.to_dense())


def _inverse_of_blocks(one: LinearOperatorBlockLowerTriangular) -> Any:
    """Invert block by block: the last row follows from the inverse of the rows above it."""
    settled = {**hints.hints_of(one), "is_square": True}
    *above, (*row, corner) = one.operators
    last = corner.inverse()
    if not above:
        return LinearOperatorBlockLowerTriangular([[last]], **settled)
    upper = LinearOperatorBlockLowerTriangular(above).inverse().operators
    minus = LinearOperatorScaledIdentity(
        last.domain_dimension_tensor(), cast(convert_to_tensor(-1.0), one.dtype)
    )
    made = []
    for column in range(len(row)):
        terms = [_plain(row[at].matmul(upper[at][column])) for at in range(column, len(row))]
        total = functools.reduce(algebra.sums.result, terms)
        made.append(minus.matmul(last.matmul(total)))
    rows = [*([*blocks] for blocks in upper), [*made, last]]
    return LinearOperatorBlockLowerTriangular(rows, **settled)


# ---- the tables

_ANY = LinearOperator
_DIAG, _SCALED, _TRIL = (
    LinearOperatorDiag,
    LinearOperatorScaledIdentity,
    LinearOperatorLowerTriangular,
)

_PRODUCTS: list[tuple[Any, Any, algebra.Binary]] = [
    (LinearOperatorIdentity, _ANY, _right),
    (LinearOperatorZeros, _ANY, _zeros),
    (_ANY, LinearOperatorIdentity, _left),
    (_ANY, LinearOperatorZeros, lambda left, right: _zeros(right, left)),
    (_SCALED, _SCALED, lambda a, b: _scaled(a, b, a.multiplier * b.multiplier)),
    ((_DIAG, _SCALED), (_DIAG, _SCALED), _diagonals_multiplied),
    (_DIAG, _TRIL, _rows_scaled),
    (_TRIL, _DIAG, _columns_scaled),
    (CirculantOperator, CirculantOperator, _circulants_multiplied),
    (LinearOperatorBlockDiag, LinearOperatorBlockDiag, _blocks_multiplied),
    (_ANY, _ANY, _composed),
]

# What solves the equations of the left one for the right one.
_QUOTIENTS: list[tuple[Any, Any, algebra.Binary]] = [
    (LinearOperatorIdentity, _ANY, _right),
    (LinearOperatorInversion, _ANY, lambda left, right: left.operator.matmul(right)),
    (_ANY, LinearOperatorIdentity, lambda left, right: left.inverse()),
    (_SCALED, _SCALED, lambda a, b: _scaled(a, b, b.multiplier / a.multiplier)),
    ((_DIAG, _SCALED), (_DIAG, _SCALED), _diagonals_divided),
    (_DIAG, _TRIL, _rows_divided),
    (CirculantOperator, CirculantOperator, _circulants_divided),
    (LinearOperatorBlockDiag, LinearOperatorBlockDiag, _blocks_divided),
    (_ANY, _ANY, _composed_quotient),
]

_SUMS: list[tuple[Any, Any, algebra.Binary]] = [
    (_SCALARS, _SCALARS, _scalars_added),
    (_DIAGONALS, _DIAGONALS, _diagonals_added),
    (_TRIANGLES, _TRIANGLES, _triangles_added),
    (_ANY, _ANY, _matrices_added),
]

_ADJOINTS: list[tuple[Any, algebra.Unary]] = [
    ((LinearOperatorIdentity, LinearOperatorHouseholder), _itself),
    (LinearOperatorAdjoint, lambda one: one.operator),
    (_SCALED, lambda one: _scaled_with(one, conj(convert_to_tensor(one.multiplier)))),
    (_DIAG, lambda one: _diag_with(one, conj(convert_to_tensor(one.diag)))),
    (
        CirculantOperator,
        lambda one: one.with_spectrum(
            conj(convert_to_tensor(one.spectrum)), {**hints.hints_of(one), "is_square": True}
        ),
    ),
    ((LinearOperatorBlockDiag, LinearOperatorKronecker), _each_adjoint),
    (_ANY, lambda one: LinearOperatorAdjoint(one, **hints.hints_of(one))),
]

_INVERSES: list[tuple[Any, algebra.Unary]] = [
    ((LinearOperatorIdentity, LinearOperatorHouseholder), _itself),
    (LinearOperatorInversion, lambda one: one.operator),
    (_SCALED, lambda one: _scaled_with(one, 1 / one.multiplier, is_self_adjoint=True)),
    (_DIAG, lambda one: _diag_with(one, 1 / one.diag)),
    (
        CirculantOperator,
        lambda one: one.with_spectrum(
            1 / one.spectrum, {**hints.hints_of(one), "is_square": True}, one.dtype
        ),
    ),
    ((LinearOperatorBlockDiag, LinearOperatorKronecker), _each_inverse),
    (LinearOperatorBlockLowerTriangular, _inverse_of_blocks),
    (_ANY, lambda one: LinearOperatorInversion(one, **hints.hints_of(one))),
]

_CHOLESKIES: list[tuple[Any, algebra.Unary]] = [
    (LinearOperatorIdentity, _identity_factor),
    (
        _SCALED,
        lambda one: _scaled_with(one, apply_op("Sqrt", one.multiplier), **_DIAGONAL_FACTOR),
    ),
    (_DIAG, lambda one: LinearOperatorDiag(apply_op("Sqrt", one.diag), **_DIAGONAL_FACTOR)),
    ((LinearOperatorBlockDiag, LinearOperatorKronecker), _each_cholesky),
    (LinearOperatorComposition, _composed_factor),
    (_ANY, _dense_factor),
]

for _rules, _table in (
    (algebra.products, _PRODUCTS),
    (algebra.quotients, _QUOTIENTS),
    (algebra.sums, _SUMS),
    (algebra.adjoints, _ADJOINTS),
    (algebra.inverses, _INVERSES),
    (algebra.choleskies, _CHOLESKIES),
):
    for *_kinds, _rule in _table:
        _rules.state(tuple(_kinds), _rule)
