"""Operators that keep lengths: reflections and permutations.

Source: tensorflow/python/ops/linalg/linear_operator_householder.py,
linear_operator_permutation.py.
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
    known,
    parameter,
    scope,
)
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array import shape
from tideflow.ops.export import export
from tideflow.ops.framework import conj
from tideflow.ops.linalg import matmul
from tideflow.ops.math import argsort, norm
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype
from tideflow.wire.errors import InvalidArgumentError


@export("linalg.LinearOperatorHouseholder")
class LinearOperatorHouseholder(TensorOperator):
    """The operator that reflects across the hyperplane orthogonal to a vector.

    reflection_axis: the vectors [..., N].  The hints and the name are those of LinearOperator.
    Raises: ValueError for scalars, and for hints that are wrong of reflections.
    """

    def __init__(
        self,
        reflection_axis: TensorLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorHouseholder",
    ) -> None:
        parameters = hints.given(locals())
        with scope(name):
            self._reflection_axis = parameter(reflection_axis, "reflection_axis")
        if self._reflection_axis.shape.rank == 0:
            raise ValueError(
                "Argument reflection_axis must have at least 1 dimension.  Found: "
                f"{self._reflection_axis}"
            )
        what = "A Householder operator is always"
        self._begin(
            self._reflection_axis.dtype.base_dtype,
            parameters,
            is_self_adjoint=hints.always(is_self_adjoint, True, f"{what} self adjoint."),
            is_positive_definite=hints.always(
                is_positive_definite, False, f"{what} non-positive definite."
            ),
            is_square=hints.always(is_square, True, f"{what} square."),
        )

    @property
    def reflection_axis(self) -> Any:
        """The vectors [..., N]."""
        return self._reflection_axis

    def _shape(self) -> TensorShape:
        sizes: TensorShape = self._reflection_axis.shape
        return sizes.concatenate(sizes[-1:])

    def _shape_tensor(self) -> Any:
        sizes = shape(self._reflection_axis)
        return concatenated(sizes, sizes[-1:])

    def _unit(self) -> Any:
        """Return the vectors with length 1."""
        axis = convert_to_tensor(self._reflection_axis)
        return axis / cast(norm(axis, axis=-1, keepdims=True), self.dtype)

    def _assert_non_singular(self) -> Any:
        return fulfilled("assert_non_singular")

    def _assert_positive_definite(self) -> Any:
        raise InvalidArgumentError("Householder operators are always non-positive definite.")

    def _assert_self_adjoint(self) -> Any:
        return fulfilled("assert_self_adjoint")

    def _matmul(self, x: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = conjugate_transpose(x) if adjoint_arg else x
        column = self._unit()[..., None]
        return given - 2 * (column * matmul(column, given, adjoint_a=True))

    def _solve(self, rhs: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs, adjoint, adjoint_arg)

    def _each(self, value: float) -> Any:
        return filled(self.batch_shape_tensor(), value, self.dtype)

    def _trace(self) -> Any:
        return (cast(self.domain_dimension_tensor(), self.dtype) - 2) * self._each(1)

    def _determinant(self) -> Any:
        return self._each(-1)

    def _log_abs_determinant(self) -> Any:
        return self._each(0)

    def _diag_part(self) -> Any:
        unit = self._unit()
        return 1 - 2 * unit * conj(unit)

    def _eigvals(self) -> Any:
        ones = filled(shape(self._reflection_axis), 1, self.dtype)
        return apply_op("ConcatV2", [-ones[..., :1], ones[..., 1:]], -1)

    def _cond(self) -> Any:
        return self._each(1)

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("reflection_axis",)

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"reflection_axis": 1}


@export("linalg.LinearOperatorPermutation")
class LinearOperatorPermutation(TensorOperator):
    """The operator that puts rows into another order.

    Args:
      perm: integers [..., N]: which row comes to each place.
      dtype: of what is multiplied.
      The hints and the name are those of LinearOperator.
    Raises: ValueError for what is no permutation, and for hints that are wrong; TypeError for what
    are no integers.
    """

    def __init__(
        self,
        perm: TensorLike,
        dtype: DTypeLike = dtypes.float32,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorPermutation",
    ) -> None:
        parameters = hints.given(locals())
        with scope(name):
            self._perm = parameter(perm, "perm")
        self._check_perm()
        what = "A Permutation operator is always"
        hints.always(is_non_singular, True, f"{what} non-singular.")
        square = hints.always(is_square, True, f"{what} square.")
        self._begin(as_dtype(dtype), parameters, is_square=square)

    def _check_perm(self) -> None:
        perm = self._perm
        if perm.shape.rank == 0:
            raise ValueError(f"Argument `perm` must have at least 1 dimension. Found: {perm}.")
        if not perm.dtype.is_integer:
            raise TypeError(f"Argument `perm` must be integer dtype. Found: {perm}.")
        found = known(perm)
        if found is not None:
            size = found.shape[-1]
            if not np.array_equal(
                np.sort(found, -1), np.broadcast_to(np.arange(size), found.shape)
            ):
                raise ValueError(
                    f"Argument `perm` must be a vector of unique integers from 0 to {size - 1}."
                )

    @property
    def perm(self) -> Any:
        """Which row comes to each place [..., N]."""
        return self._perm

    def _shape(self) -> TensorShape:
        sizes: TensorShape = self._perm.shape
        return sizes.concatenate(sizes[-1:])

    def _shape_tensor(self) -> Any:
        sizes = shape(self._perm)
        return concatenated(sizes, sizes[-1:])

    def _assert_non_singular(self) -> Any:
        return fulfilled("assert_non_singular")

    def _matmul(self, x: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        given = conjugate_transpose(x) if adjoint_arg else x
        order = convert_to_tensor(self._perm)
        if adjoint and not self.is_self_adjoint:
            order = argsort(order, axis=-1)
        # One dimension for all batches, since their number may not be known.
        rows, columns = shape(given)[-2:-1], shape(given)[-1:]
        batch = dynamic_batch(shape(given)[:-2], shape(order)[:-1])
        whole = concatenated(batch, rows, columns)
        stack = apply_op("BroadcastTo", given, whole)
        orders = apply_op("BroadcastTo", order, concatenated(batch, rows))
        moved = apply_op(
            "GatherV2",
            apply_op("Reshape", stack, concatenated([-1], rows, columns)),
            apply_op("Reshape", orders, concatenated([-1], rows)),
            1,
            batch_dims=1,
        )
        return apply_op("Reshape", moved, whole)

    def _solve(self, rhs: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs, not adjoint, adjoint_arg)

    def _to_dense(self) -> Any:
        return self._chosen(convert_to_tensor(self._perm)[..., None])

    def _chosen(self, places: Any) -> Any:
        """Return 1 where the numbers 0 to N - 1 are those of places, which stretch; else 0."""
        count = apply_op("Range", 0, self.domain_dimension_tensor(), 1)
        return cast(apply_op("Equal", places, cast(count, places.dtype)), self.dtype)

    def _diag_part(self) -> Any:
        return self._chosen(convert_to_tensor(self._perm))

    def _log_abs_determinant(self) -> Any:
        return filled(self.batch_shape_tensor(), 0, self.dtype)

    def _cond(self) -> Any:
        return filled(self.batch_shape_tensor(), 1, self.dtype)

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("perm", "dtype")

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"perm": 1}
