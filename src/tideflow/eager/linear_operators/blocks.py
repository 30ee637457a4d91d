"""Operators made of blocks: along the diagonal, or in the lower triangle.

They take, and then give, a list of tensors as well: one for each block of the argument.

Source: tensorflow/python/ops/linalg/linear_operator_block_diag.py,
linear_operator_block_lower_triangular.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.eager.linear_operators import hints
from tideflow.eager.linear_operators.base import LinearOperator
from tideflow.eager.linear_operators.products import (
    ManyOperators,
    batch_of,
    batch_tensor_of,
    listed,
    multiplied,
    summed,
)
from tideflow.eager.linear_operators.tensors import (
    all_of,
    conjugate_transpose,
    matrix_shape,
    with_one_batch,
)
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.dimension import Dimension
from tideflow.graph.shapes import TensorShape
from tideflow.ops.array import split
from tideflow.ops.checks import assert_proper_iterable
from tideflow.ops.export import export
from tideflow.ops.framework import nest


def _total(sizes: Sequence[Dimension]) -> int | None:
    values = [size.value for size in sizes]
    return None if None in values else sum(value or 0 for value in values)


class BlockOperator(ManyOperators):
    """Base of what has blocks: how arguments are divided, and results put together."""

    def _diagonal(self) -> list[Any]:
        """Return the operators on the diagonal."""
        return list(self._operators)

    def _all(self) -> list[Any]:
        """Return all operators."""
        return list(self._operators)

    def _shape(self) -> TensorShape:
        rows = _total([one.range_dimension for one in self._diagonal()])
        columns = _total([one.domain_dimension for one in self._diagonal()])
        return batch_of(self._all()).concatenate([rows, columns])

    def _shape_tensor(self) -> Any:
        return matrix_shape(
            batch_tensor_of(self._all()),
            summed([one.range_dimension_tensor() for one in self._diagonal()]),
            summed([one.domain_dimension_tensor() for one in self._diagonal()]),
        )

    # ---- arguments in blocks

    def _sizes(self, of_range: bool) -> list[Dimension]:
        """Return the sizes of the blocks of what it gives, or takes."""
        return [
            one.range_dimension if of_range else one.domain_dimension for one in self._diagonal()
        ]

    def _is_blockwise(self, value: Any, of_range: bool, axis: int) -> bool:
        """Whether an argument has one tensor for each block, and is no tensor as nested lists.

        Raises: ValueError where that cannot be told, or where sizes do not fit.
        """
        sizes = [size.value for size in self._sizes(of_range)]
        if not isinstance(value, (tuple, list)) or len(value) != len(sizes):
            return False
        if not any(nest.is_nested(block) for block in value):
            return True
        found = [(convert_to_tensor(block).dims or (None,))[axis] for block in value]
        if len(found) == 1 and sizes == [None]:
            return False
        are_alike = all(size == found[0] for size in found)
        if all(size is None for size in sizes):
            if are_alike:
                raise ValueError(
                    "Parsing of the input structure is ambiguous. Please input a blockwise "
                    "iterable of `Tensor`s or a single `Tensor`."
                )
            return True
        if all(size in (None, given) for size, given in zip(sizes, found)):
            return True
        if are_alike and (found[0] or 0) >= sum(size or 0 for size in sizes):
            return False
        raise ValueError("Input dimension does not match operator dimension.")

    def _blocks(self, value: Any, of_range: bool, axis: int) -> list[Any]:
        """Return the tensors of an argument in blocks.  Raises: as _argument."""
        return [
            block if isinstance(block, LinearOperator) else self._argument(block, "x", size, axis)
            for size, block in zip(self._sizes(of_range), value)
        ]

    def _divided(self, x: Any, of_range: bool) -> list[Any]:
        """Return matrices [..., N, R] in blocks of rows."""
        sizes: Any = [size.value for size in self._sizes(of_range)]
        if None in sizes:
            tensors = [
                one.range_dimension_tensor() if of_range else one.domain_dimension_tensor()
                for one in self._diagonal()
            ]
            sizes = apply_op("Pack", tensors)
        return list(split(x, sizes, axis=-2))

    def _joined(self, blocks: Sequence[Any]) -> Any:
        return apply_op("ConcatV2", with_one_batch(blocks), -2)

    def _multiply_blocks(self, blocks: list[Any], adjoint: bool) -> list[Any]:
        """Return the product with rows in blocks, in blocks."""
        raise NotImplementedError

    def _solve_blocks(self, blocks: list[Any], adjoint: bool) -> list[Any]:
        """Return the solutions for rows in blocks, in blocks."""
        raise NotImplementedError

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = conjugate_transpose(x) if adjoint_arg else x
        return self._joined(self._multiply_blocks(self._divided(given, adjoint), adjoint))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = conjugate_transpose(rhs) if adjoint_arg else rhs
        return self._joined(self._solve_blocks(self._divided(given, not adjoint), adjoint))

    def matmul(
        self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul"
    ) -> Any:
        """Return the product with x, a tensor, a list with one for each block, or an operator.

        For a list the result is one.  See LinearOperator.matmul.
        """
        axis = -1 if adjoint_arg else -2
        if isinstance(x, LinearOperator) or not self._is_blockwise(x, adjoint, axis):
            return super().matmul(x, adjoint, adjoint_arg, name)
        with self._operation_scope(name):
            blocks = self._blocks(x, adjoint, axis)
            given = _turned(blocks) if adjoint_arg else blocks
            return self._multiply_blocks(given, adjoint)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """Return the product with vectors x [..., N], or with a list of such for each block."""
        if not self._is_blockwise(x, adjoint, -1):
            return super().matvec(x, adjoint, name)
        with self._operation_scope(name):
            columns = [block[..., None] for block in self._blocks(x, adjoint, -1)]
            return _squeezed(self._multiply_blocks(columns, adjoint))

    def solve(
        self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve"
    ) -> Any:
        """Return the x with A @ x = rhs, which may be a list; see matmul."""
        axis = -1 if adjoint_arg else -2
        self._require_solvable()
        if isinstance(rhs, LinearOperator) or not self._is_blockwise(rhs, not adjoint, axis):
            return super().solve(rhs, adjoint, adjoint_arg, name)
        with self._operation_scope(name):
            blocks = self._blocks(rhs, not adjoint, axis)
            given = _turned(blocks) if adjoint_arg else blocks
            return self._solve_blocks(given, adjoint)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """Return the x [..., N] with A @ x = rhs, or a list of such for each block."""
        if not self._is_blockwise(rhs, not adjoint, -1):
            return super().solvevec(rhs, adjoint, name)
        self._require_solvable()
        with self._operation_scope(name):
            columns = [block[..., None] for block in self._blocks(rhs, not adjoint, -1)]
            return _squeezed(self._solve_blocks(columns, adjoint))

    # ---- what follows from the diagonal

    def _determinant(self) -> Any:
        return multiplied([one.determinant() for one in self._diagonal()])

    def _log_abs_determinant(self) -> Any:
        return summed([one.log_abs_determinant() for one in self._diagonal()])

    def _require_square_blocks(self, what: str) -> None:
        if any(one.is_square is False for one in self._diagonal()):
            raise NotImplementedError(
                f"`{what}` not implemented for an operator whose blocks are not square."
            )

    def _along(self, vectors: Sequence[Any]) -> Any:
        return apply_op("ConcatV2", with_one_batch(vectors, 1), -1)

    def _diag_part(self) -> Any:
        self._require_square_blocks("diag_part")
        return self._along([one.diag_part() for one in self._diagonal()])

    def _trace(self) -> Any:
        self._require_square_blocks("trace")
        return summed([one.trace() for one in self._diagonal()])

    def _eigvals(self) -> Any:
        self._require_square_blocks("eigvals")
        return self._along([one.eigvals() for one in self._diagonal()])

    def _assert_non_singular(self) -> Any:
        return all_of([one.assert_non_singular for one in self._diagonal()])


def _turned(blocks: Sequence[Any]) -> list[Any]:
    return [
        block.adjoint() if isinstance(block, LinearOperator) else conjugate_transpose(block)
        for block in blocks
    ]


def _squeezed(columns: Sequence[Any]) -> list[Any]:
    return [apply_op("Squeeze", column, squeeze_dims=[-1]) for column in columns]


@export("linalg.LinearOperatorBlockDiag")
class LinearOperatorBlockDiag(BlockOperator):
    """The operator with others as blocks on its diagonal, and zeros elsewhere.

    Args:
      name: by default their names with "_ds_" between them.
      The hints are those of LinearOperator.
    Raises: TypeError for other types; ValueError for no operators, and for hints that are wrong.
    """

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str | None = None,
    ) -> None:
        parameters = hints.given(locals())
        self._begin_of(listed(operators), parameters, "direct sum", "_ds_")

    def _multiply_blocks(self, blocks: list[Any], adjoint: bool) -> list[Any]:
        return [one.matmul(part, adjoint=adjoint) for one, part in zip(self._operators, blocks)]

    def _solve_blocks(self, blocks: list[Any], adjoint: bool) -> list[Any]:
        return [one.solve(part, adjoint=adjoint) for one, part in zip(self._operators, blocks)]

    def _assert_self_adjoint(self) -> Any:
        return all_of([one.assert_self_adjoint for one in self._operators])

    def _assert_positive_definite(self) -> Any:
        return all_of([one.assert_positive_definite for one in self._operators])


@export("linalg.LinearOperatorBlockLowerTriangular")
class LinearOperatorBlockLowerTriangular(BlockOperator):
    """The operator with others as blocks on its diagonal and below it, and zeros above.

    Args:
      operators: rows of operators; that of number i has i + 1, the last of which is square.
      The hints and the name are those of LinearOperator.
    Raises: TypeError for other types; ValueError for rows of other lengths, sizes that do not fit,
    and hints that are wrong.
    """

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorBlockLowerTriangular",
    ) -> None:
        parameters = hints.given(locals())
        rows = _rows(operators)
        diagonal = [row[-1] for row in rows]
        if all(one.is_non_singular for one in diagonal):
            message = (
                "A blockwise lower-triangular operator with non-singular operators on the main "
                "diagonal is always non-singular."
            )
            is_non_singular = hints.always(is_non_singular, True, message)
        elif any(one.is_non_singular is False for one in diagonal):
            message = (
                "A blockwise lower-triangular operator with a singular operator on the main "
                "diagonal is always singular."
            )
            is_non_singular = hints.always(is_non_singular, False, message)
        else:
            # As in TensorFlow, where nothing follows from the diagonal, nothing is promised.
            is_non_singular = None
        message = "`LinearOperatorBlockLowerTriangular` must be square."
        is_square = hints.always(is_square, True, message)
        for at, one in enumerate(diagonal):
            if one.is_square is False:
                raise ValueError(
                    "Matrices on the diagonal (the final elements of each row-partition in the "
                    f"`operators` list) must be square; `operators[{at}][-1]` is not."
                )
        self._begin(
            rows[0][0].dtype,
            parameters,
            is_non_singular=is_non_singular,
            is_square=is_square,
            name=name,
        )
        self._operators = rows

    def _diagonal(self) -> list[Any]:
        return [row[-1] for row in self._operators]

    def _all(self) -> list[Any]:
        return [one for row in self._operators for one in row]

    def _multiply_blocks(self, blocks: list[Any], adjoint: bool) -> list[Any]:
        rows = self._operators
        if not adjoint:
            return [summed([one.matmul(x) for one, x in zip(row, blocks)]) for row in rows]
        return [
            summed([row[at].matmul(x, adjoint=True) for row, x in zip(rows[at:], blocks[at:])])
            for at in range(len(rows))
        ]

    def _solve_blocks(self, blocks: list[Any], adjoint: bool) -> list[Any]:
        """Substitute forwards, or backwards for the adjoint."""
        rows = self._operators
        made: dict[int, Any] = {}
        for at in reversed(range(len(rows))) if adjoint else range(len(rows)):
            left = blocks[at]
            for other, found in made.items():
                block = rows[other][at] if adjoint else rows[at][other]
                left = left - block.matmul(found, adjoint=adjoint)
            made[at] = rows[at][-1].solve(left, adjoint=adjoint)
        return [made[at] for at in range(len(rows))]

    def _determinant(self) -> Any:
        if all(one.is_positive_definite for one in self._diagonal()):
            return apply_op("Exp", self._log_abs_determinant())
        return super()._determinant()

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"operators": [[0] * len(row) for row in self._operators]}


def _rows(operators: Any) -> list[list[Any]]:
    """Return rows of operators that fit together.  Raises: TypeError; ValueError."""
    assert_proper_iterable(operators)
    for row in operators:
        assert_proper_iterable(row)
    rows = [list(row) for row in operators]
    if not rows:
        raise ValueError(
            f"Argument `operators` must be a list of >=1 operators. Found: {operators}."
        )
    listed([one for row in rows for one in row])
    for at, row in enumerate(rows):
        if len(row) != at + 1:
            raise ValueError(
                f"Argument `operators[{at}]` must contain `{at + 1}` blocks. Received: {len(row)} "
                "blocks."
            )
        for column, one in enumerate(row[:-1]):
            place = f"Argument `operators[{at}][{column}]"
            _require_same(one, rows[at - 1][column], "domain_dimension", place)
            _require_same(one, row[column + 1], "range_dimension", place)
    return rows


def _require_same(one: Any, other: Any, side: str, place: str) -> None:
    sizes = getattr(one, side), getattr(other, side)
    if not sizes[0].is_compatible_with(sizes[1]):
        raise ValueError(
            f"{place}.{side}` ({sizes[0]}) must be that of its neighbour ({sizes[1]})."
        )
