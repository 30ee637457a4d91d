"""Operators that need no matrix: the identity, times a number, and zero.

Source: tensorflow/python/ops/linalg/linear_operator_identity.py, linear_operator_zeros.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.eager.linear_operators import hints
from tideflow.eager.linear_operators.spec import TensorOperator
from tideflow.eager.linear_operators.tensors import (
    cast,
    concatenated,
    conjugate_transpose,
    dynamic_batch,
    filled,
    fulfilled,
    imaginary_of,
    known,
    known_sizes,
    magnitude,
    matrix_shape,
    parameter,
    real_of,
    require,
    scope,
    size_parameter,
)
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array import matrix_diag_part, matrix_set_diag, shape
from tideflow.ops.control_flow import control_dependencies
from tideflow.ops.export import export
from tideflow.ops.framework import conj, identity
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype
from tideflow.wire.errors import InvalidArgumentError


class _Sized(TensorOperator):
    """What the operators of this module share: sizes that are arguments."""

    _assert_proper_shapes: bool
    _num_rows: Tensor
    _batch_shape: Tensor | None = None

    def _size(self, value: Any, name: str) -> Tensor:
        """Return a number of rows or columns.  Raises: TypeError; ValueError for what is none."""
        made = size_parameter(value, name)
        found = known(made)
        for is_wrong, what in (
            (made.shape.rank not in (None, 0), "must be a 0-D Tensor"),
            (found is not None and np.any(found < 0), "must be non-negative"),
        ):
            if is_wrong:
                raise ValueError(f"Argument {name} {what}.  Found: {found}")
        return self._checked(made, 0, name)

    def _batch(self, value: Any) -> Tensor | None:
        """Return the shape of the batch.  Raises: TypeError; ValueError for what is none."""
        if value is None:
            return None
        made = size_parameter(value, "batch_shape")
        found = known(made)
        for is_wrong, what in (
            (made.shape.rank not in (None, 1), "must be a 1-D Tensor"),
            (found is not None and np.any(found < 0), "must be non-negative"),
        ):
            if is_wrong:
                raise ValueError(f"Argument batch_shape {what}.  Found: {found}")
        return self._checked(made, 1, "batch_shape")

    def _checked(self, sizes: Tensor, rank: int, name: str) -> Tensor:
        """Return sizes that a graph checks where it runs, if that was asked for."""
        if not self._assert_proper_shapes or known(sizes) is not None:
            return sizes
        message = f"Argument {name} must be non-negative."
        with control_dependencies([require("assert_non_negative", sizes, message=message)]):
            return identity(sizes)

    def _columns(self) -> Tensor:
        return self._num_rows

    def _static_batch(self) -> TensorShape:
        return TensorShape([]) if self._batch_shape is None else known_sizes(self._batch_shape)

    def _shape(self) -> TensorShape:
        sides = [known(side) for side in (self._num_rows, self._columns())]
        sizes = [None if side is None else int(side) for side in sides]
        return self._static_batch().concatenate(sizes)

    def _batch_sizes(self) -> Any:
        return np.zeros([0], np.int32) if self._batch_shape is None else self._batch_shape

    def _shape_tensor(self) -> Any:
        return matrix_shape(self._batch_sizes(), self._num_rows, self._columns())

    def _proper(self, x: Any, adjoint: bool = False) -> Any:
        """Return matrices whose sizes a graph checks where it runs, if that was asked for."""
        if not self._assert_proper_shapes:
            return x
        side = self.range_dimension_tensor() if adjoint else self.domain_dimension_tensor()
        message = "Dimensions are not compatible."
        check = require("assert_equal", shape(x)[-2], side, message=message)
        with control_dependencies([] if check is None else [check]):
            return identity(x)

    def _in_batch(self, x: Any) -> Any:
        """Return matrices stretched to the batch."""
        if self._batch_shape is None:
            return x
        sizes = shape(x)
        batch = dynamic_batch(self.batch_shape_tensor(), sizes[:-2])
        return apply_op("BroadcastTo", x, concatenated(batch, sizes[-2:]))

    def _each(self, value: float) -> Any:
        """Return one number for each matrix."""
        return filled(self.batch_shape_tensor(), value, self.dtype)

    def _along(self, value: float) -> Any:
        """Return diagonals of one number."""
        side = apply_op("Minimum", self._num_rows, self._columns())
        sizes = concatenated(self.batch_shape_tensor(), apply_op("Reshape", side, [1]))
        return filled(sizes, value, self.dtype)

    def add_to_tensor(self, mat: TensorLike, name: str = "add_to_tensor") -> Any:
        """Return the sum with matrices mat [..., M, N].  Raises: TypeError for another type."""
        return super().add_to_tensor(mat, name)

    def __getitem__(self, slices: Any) -> Any:
        if self._experimental_parameter_ndims_to_matrix_ndims:
            return super().__getitem__(slices)
        # All members of the batch are equal: only their number changes.
        return type(self)(**{**self.parameters, "batch_shape": shape(self._each(1)[slices])})

    @property
    def _composite_tensor_prefer_static_fields(self) -> tuple[str, ...]:
        return ("num_rows", "num_columns", "batch_shape")


@export("linalg.LinearOperatorIdentity")
class LinearOperatorIdentity(_Sized):
    """The identity of num_rows dimensions, or a batch of it.

    Args:
      dtype: float32 by default.
      assert_proper_shapes: whether a graph checks sizes where it runs.
      The hints and the name are those of LinearOperator.
    Raises: ValueError or TypeError for what are no sizes; ValueError for hints that are wrong.
    """

    def __init__(
        self,
        num_rows: TensorLike,
        batch_shape: Any = None,
        dtype: DTypeLike | None = None,
        is_non_singular: bool | None = True,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = True,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorIdentity",
    ) -> None:
        parameters = hints.given(locals())
        for hint, what in (
            (is_self_adjoint, "self adjoint"),
            (is_non_singular, "non-singular"),
            (is_positive_definite, "positive-definite"),
            (is_square, "square"),
        ):
            if not hint:
                raise ValueError(f"An identity operator is always {what}.")
        self._assert_proper_shapes = assert_proper_shapes
        self._begin(as_dtype(dtype or dtypes.float32), parameters)
        with scope(name):
            self._num_rows = self._size(num_rows, "num_rows")
            self._batch_shape = self._batch(batch_shape)

    def _assert_non_singular(self) -> Any:
        return fulfilled("assert_non_singular")

    def _assert_positive_definite(self) -> Any:
        return fulfilled("assert_positive_definite")

    def _assert_self_adjoint(self) -> Any:
        return fulfilled("assert_self_adjoint")

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._in_batch(self._proper(conjugate_transpose(x) if adjoint_arg else x))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs, adjoint_arg=adjoint_arg)

    def _determinant(self) -> Any:
        return self._each(1)

    def _log_abs_determinant(self) -> Any:
        return self._each(0)

    def _trace(self) -> Any:
        return cast(self._num_rows, self.dtype) * self._each(1)

    def _diag_part(self) -> Any:
        return self._along(1)

    def _eigvals(self) -> Any:
        return self._along(1)

    def _cond(self) -> Any:
        return self._each(1)

    def _add_to_tensor(self, x: Any) -> Any:
        diagonal: Any = matrix_diag_part(x)
        return matrix_set_diag(x, 1 + diagonal)

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("num_rows", "batch_shape", "dtype", "assert_proper_shapes")


@export("linalg.LinearOperatorScaledIdentity")
class LinearOperatorScaledIdentity(_Sized):
    """The identity of num_rows dimensions times numbers [...], the multiplier.

    That of real numbers is self-adjoint.  The other arguments are those of LinearOperatorIdentity.
    Raises: ValueError or TypeError for what is no size; ValueError for hints that are wrong.
    """

    def __init__(
        self,
        num_rows: TensorLike,
        multiplier: TensorLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorScaledIdentity",
    ) -> None:
        parameters = hints.given(locals())
        self._assert_proper_shapes = assert_proper_shapes
        with scope(name):
            self._multiplier = parameter(multiplier, "multiplier")
            self._num_rows = self._size(num_rows, "num_rows")
        dtype = self._multiplier.dtype.base_dtype
        if not dtype.is_complex:
            message = "A real diagonal operator is always self adjoint."
            is_self_adjoint = hints.always(is_self_adjoint, True, message)
        if not is_square:
            raise ValueError("A ScaledIdentity operator is always square.")
        self._begin(dtype, parameters, is_self_adjoint=is_self_adjoint)

    @property
    def multiplier(self) -> Any:
        """The numbers [...]."""
        return self._multiplier

    def _tensor(self, adjoint: bool = False) -> Any:
        found = convert_to_tensor(self._multiplier)
        return conj(found) if adjoint else found

    def _static_batch(self) -> TensorShape:
        found: TensorShape = self._multiplier.shape
        return found

    def _batch_sizes(self) -> Any:
        return shape(self._multiplier)

    def _assert_non_singular(self) -> Any:
        found = magnitude(self._tensor())
        return require("assert_positive", found, message="LinearOperator was singular")

    def _assert_positive_definite(self) -> Any:
        message = "LinearOperator was not positive definite."
        return require("assert_positive", real_of(self._tensor()), message=message)

    def _assert_self_adjoint(self) -> Any:
        part = imaginary_of(self._tensor())
        message = "LinearOperator was not self-adjoint"
        return require("assert_equal", apply_op("ZerosLike", part), part, message=message)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = self._proper(conjugate_transpose(x) if adjoint_arg else x)
        return given * self._tensor(adjoint)[..., None, None]

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = self._proper(conjugate_transpose(rhs) if adjoint_arg else rhs)
        return given / self._tensor(adjoint)[..., None, None]

    def _determinant(self) -> Any:
        return apply_op("Pow", self._tensor(), cast(self._num_rows, self.dtype))

    def _log_abs_determinant(self) -> Any:
        found = apply_op("Log", magnitude(self._tensor()))
        return cast(self._num_rows, self.dtype.real_dtype) * found

    def _trace(self) -> Any:
        return self._tensor() * cast(self._num_rows, self.dtype)

    def _diag_part(self) -> Any:
        return self._along(1) * self._tensor()[..., None]

    def _eigvals(self) -> Any:
        return self._diag_part()

    def _cond(self) -> Any:
        zero = apply_op("Equal", self._tensor(), np.zeros((), self.dtype.as_numpy_dtype))
        values = (np.array(v).astype(self.dtype.as_numpy_dtype) for v in (np.nan, 1))
        return apply_op("SelectV2", zero, *values)

    def _add_to_tensor(self, x: Any) -> Any:
        return matrix_set_diag(x, self._tensor()[..., None] + matrix_diag_part(x))

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("num_rows", "multiplier", "assert_proper_shapes")

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"multiplier": 0}


@export("linalg.LinearOperatorZeros")
class LinearOperatorZeros(_Sized):
    """The operator of zeros, num_rows times num_columns (num_rows by default), or a batch of it.

    The other arguments are those of LinearOperatorIdentity.
    Raises: ValueError or TypeError for what are no sizes; ValueError for hints that are wrong.
    """

    def __init__(
        self,
        num_rows: TensorLike,
        num_columns: TensorLike | None = None,
        batch_shape: Any = None,
        dtype: DTypeLike | None = None,
        is_non_singular: bool | None = False,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = False,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorZeros",
    ) -> None:
        parameters = hints.given(locals())
        if not is_self_adjoint and is_square:
            raise ValueError("A zero operator is always self adjoint.")
        if is_non_singular:
            raise ValueError("A zero operator is always singular.")
        if is_positive_definite:
            raise ValueError("A zero operator is always not positive-definite.")
        self._assert_proper_shapes = assert_proper_shapes
        self._begin(as_dtype(dtype or dtypes.float32), parameters)
        with scope(name):
            self._num_rows = self._size(num_rows, "num_rows")
            wanted = num_rows if num_columns is None else num_columns
            self._num_columns = self._size(wanted, "num_columns")
            self._batch_shape = self._batch(batch_shape)
        sides = known(self._num_rows), known(self._num_columns)
        if is_square and sides[0] is not None and sides[1] is not None and sides[0] != sides[1]:
            raise ValueError(
                "LinearOperatorZeros initialized as is_square=True, but got "
                f"num_rows({sides[0]}) != num_columns({sides[1]})"
            )

    def _columns(self) -> Tensor:
        return self._num_columns

    def _assert_non_singular(self) -> Any:
        raise InvalidArgumentError("Zero operators are always non-invertible.")

    def _assert_positive_definite(self) -> Any:
        raise InvalidArgumentError("Zero operators are always non-positive definite.")

    def _assert_self_adjoint(self) -> Any:
        return fulfilled("assert_self_adjoint")

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = self._proper(conjugate_transpose(x) if adjoint_arg else x, adjoint)
        rows = self._num_columns if adjoint else self._num_rows
        sizes = shape(given)
        batch = dynamic_batch(self.batch_shape_tensor(), sizes[:-2])
        return filled(matrix_shape(batch, rows, sizes[-1]), 0, self.dtype)

    def _determinant(self) -> Any:
        return self._each(0)

    def _trace(self) -> Any:
        return self._each(0)

    def _diag_part(self) -> Any:
        return self._along(0)

    def _eigvals(self) -> Any:
        return self._along(0)

    def _add_to_tensor(self, x: Any) -> Any:
        return self._in_batch(x)

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("num_rows", "num_columns", "batch_shape", "dtype", "assert_proper_shapes")
