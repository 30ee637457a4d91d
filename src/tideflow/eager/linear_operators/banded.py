"""Operators of matrices that few numbers make: of three diagonals, or constant along diagonals.

Source: tensorflow/python/ops/linalg/linear_operator_tridiag.py, linear_operator_toeplitz.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.eager.linear_operators import hints
from tideflow.eager.linear_operators.circulant import LinearOperatorCirculant, complex_type_of
from tideflow.eager.linear_operators.spec import TensorOperator
from tideflow.eager.linear_operators.tensors import (
    all_of,
    cast,
    concatenated,
    conjugate_transpose,
    dynamic_batch,
    parameter,
    require,
    require_real,
    scope,
    static_batch,
    with_one_batch,
)
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.array import matrix_diag, shape
from tideflow.ops.export import export
from tideflow.ops.framework import conj
from tideflow.ops.linalg import compact_diagonals, tridiagonal_solve

_FORMATS = ("compact", "matrix", "sequence")
# Where diagonals shorter than the matrix lie in rows: the upper one first, the lower one last.
_ALIGNED = "LEFT_RIGHT"


@export("linalg.LinearOperatorTridiag")
class LinearOperatorTridiag(TensorOperator):
    """The operator of matrices with three diagonals.

    Args:
      diagonals: upper, main and lower, as tf.linalg.tridiagonal_solve takes them.
      diagonals_format: "compact" ([..., 3, N]), "sequence" (three tensors [..., N]) or "matrix".
      The hints and the name are those of LinearOperator.
    Raises: ValueError for another format.
    """

    def __init__(
        self,
        diagonals: Any,
        diagonals_format: str = "compact",
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorTridiag",
    ) -> None:
        parameters = hints.given(locals())
        if diagonals_format not in _FORMATS:
            raise ValueError(
                "Argument `diagonals_format` must be one of compact, matrix, or sequence. Found: "
                f"{diagonals_format}."
            )
        self._diagonals_format = diagonals_format
        with scope(name):
            if diagonals_format == "sequence":
                parts = [parameter(one, f"diag_{at}") for at, one in enumerate(diagonals)]
                self._diagonals: Any = parts
            else:
                self._diagonals = parameter(diagonals, "diagonals")
        first = self._diagonals[0] if diagonals_format == "sequence" else self._diagonals
        self._begin(first.dtype.base_dtype, parameters)

    @property
    def diagonals(self) -> Any:
        """The diagonals, in their format."""
        return self._diagonals

    @property
    def diagonals_format(self) -> str:
        """The format of the diagonals."""
        return self._diagonals_format

    def _shape(self) -> TensorShape:
        if self._diagonals_format == "matrix":
            found: TensorShape = self._diagonals.shape
            return found
        if self._diagonals_format == "compact":
            sizes = self._diagonals.shape
            batch = sizes[:-2]
        else:
            sizes = self._diagonals[1].shape
            batch = static_batch(*(one.shape[:-1] for one in self._diagonals))
        return TensorShape(batch).concatenate(sizes[-1:]).concatenate(sizes[-1:])

    def _shape_tensor(self) -> Any:
        if self._diagonals_format == "matrix":
            return shape(self._diagonals)
        if self._diagonals_format == "compact":
            sizes = shape(self._diagonals)
            batch = sizes[:-2]
        else:
            sizes = shape(self._diagonals[1])
            batch = dynamic_batch(*(shape(one)[:-1] for one in self._diagonals))
        return concatenated(batch, sizes[-1:], sizes[-1:])

    def _bands(self, adjoint: bool = False) -> list[Any]:
        """Return the upper diagonal, the main one and the lower one, each [..., N].

        The last element of the upper one and the first of the lower one do not count.
        """
        if self._diagonals_format == "sequence":
            bands = with_one_batch(self._diagonals, 1)
        else:
            whole = compact_diagonals(self._diagonals, self._diagonals_format)
            bands = [whole[..., row, :] for row in range(3)]
        if not adjoint:
            return bands
        upper, main, lower = map(conj, bands)
        return [_moved(lower, -1), main, _moved(upper, 1)]

    def _compact(self, adjoint: bool = False) -> Any:
        return apply_op("Pack", self._bands(adjoint), axis=-2)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = conjugate_transpose(x) if adjoint_arg else x
        upper, main, lower = self._bands(adjoint)
        none = apply_op("ZerosLike", given[..., :1, :])
        below = apply_op("ConcatV2", [given[..., 1:, :], none], -2)
        above = apply_op("ConcatV2", [none, given[..., :-1, :]], -2)
        return (
            main[..., None] * given
            + _without(upper, -1)[..., None] * below
            + _without(lower, 0)[..., None] * above
        )

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = conjugate_transpose(rhs) if adjoint_arg else rhs
        return tridiagonal_solve(*with_one_batch([self._compact(adjoint), given]))

    def _diag_part(self) -> Any:
        return self._bands()[1]

    def _to_dense(self) -> Any:
        if self._diagonals_format == "matrix":
            return convert_to_tensor(self._diagonals)
        return matrix_diag(self._compact(), k=(-1, 1), align=_ALIGNED)

    def _assert_self_adjoint(self) -> Any:
        upper, main, lower = self._bands()
        imaginary = "This tridiagonal operator contained non-zero imaginary values on the diagonal."
        different = "This tridiagonal operator has non-conjugate subdiagonal and superdiagonal."
        if self._diagonals_format == "matrix":
            imaginary = different = "Matrix was not equal to its adjoint."
        sides = conj(lower[..., 1:]), upper[..., :-1]
        return all_of(
            [
                lambda: require_real(main, imaginary),
                lambda: require("assert_equal", *sides, message=different),
            ]
        )

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("diagonals", "diagonals_format")

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"diagonals": [1, 1, 1] if self._diagonals_format == "sequence" else 2}


def _moved(band: Any, by: int) -> Any:
    return apply_op("Roll", band, by, -1)


def _without(band: Any, end: int) -> Any:
    """Return a band with zero for its first or last element."""
    kept = band[..., 1:] if end == 0 else band[..., :-1]
    none = apply_op("ZerosLike", band[..., :1])
    return apply_op("ConcatV2", [none, kept] if end == 0 else [kept, none], -1)


@export("linalg.LinearOperatorToeplitz")
class LinearOperatorToeplitz(TensorOperator):
    """The operator of square matrices that are constant along their diagonals.

    Args:
      col, row: the first columns and rows [..., N]; the first element of col is that of both.
      The hints and the name are those of LinearOperator.
    Raises: ValueError for scalars, other sizes, or where it is said not to be square.
    """

    def __init__(
        self,
        col: TensorLike,
        row: TensorLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorToeplitz",
    ) -> None:
        parameters = hints.given(locals())
        with scope(name):
            self._row = parameter(row, "row")
            self._col = parameter(col, "col")
        for what, one in (("row", self._row), ("col", self._col)):
            if one.shape.rank == 0:
                raise ValueError(f"Argument {what} must have at least 1 dimension.  Found: {one}")
        sizes = [(one.shape.sizes or (None,))[-1] for one in (self._row, self._col)]
        if None not in sizes and sizes[0] != sizes[1]:
            raise ValueError("Expected square matrix, got row and col with mismatched dimensions.")
        message = "Only square Toeplitz operators currently supported."
        is_square = hints.always(is_square, True, message)
        self._begin(self._row.dtype.base_dtype, parameters, is_square=is_square)

    @property
    def col(self) -> Any:
        """The first columns [..., N]."""
        return self._col

    @property
    def row(self) -> Any:
        """The first rows [..., N]."""
        return self._row

    def _shape(self) -> TensorShape:
        sizes = static_batch(self._row.shape, self._col.shape)
        return sizes.concatenate(sizes[-1:])

    def _shape_tensor(self) -> Any:
        sizes = dynamic_batch(shape(self._row), shape(self._col))
        return concatenated(sizes, sizes[-1:])

    def _assert_self_adjoint(self) -> Any:
        message = "row and col are not the same, and so this operator is not self-adjoint."
        return require("assert_equal", self._row, self._col, message=message)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        # A circulant matrix of twice the size has it in its upper left corner.
        given = conjugate_transpose(x) if adjoint_arg else x
        col, row = with_one_batch([self._col, self._row], 1)
        back = apply_op("ReverseV2", row[..., 1:], [-1])
        first = apply_op("ConcatV2", [col, apply_op("ZerosLike", col[..., :1]), back], -1)
        spectrum = apply_op("FFT", cast(first, complex_type_of(self.dtype)))
        circle = LinearOperatorCirculant(spectrum, input_output_dtype=self.dtype)
        longer = apply_op("ConcatV2", [given, apply_op("ZerosLike", given)], -2)
        return circle.matmul(longer, adjoint=adjoint)[..., : self.domain_dimension_tensor(), :]

    def _to_dense(self) -> Any:
        col, row = with_one_batch([self._col, self._row], 1)
        size: Any = self.domain_dimension_tensor()
        # From the last element of the row to the last of the column: that at i - j + N - 1.
        back = apply_op("ReverseV2", row[..., 1:], [-1])
        along = apply_op("ConcatV2", [back, col], -1)
        count = apply_op("Range", 0, size, 1)
        places = count[:, None] - count[None, :] + (size - 1)
        return apply_op("GatherV2", along, places, -1)

    def _trace(self) -> Any:
        return cast(self.domain_dimension_tensor(), self.dtype) * self._col[..., 0]

    def _diag_part(self) -> Any:
        return apply_op("BroadcastTo", self._col[..., :1], shape(self._col))

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("col", "row")

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"col": 1, "row": 1}
