"""Operators that convolve along a circle, a torus, or one of three dimensions.

Fourier transforms make them diagonal: A x is the inverse transform of the spectrum times the
transform of x.  With several dimensions, N is the product of a block's sizes, the last of which
changes fastest.

Source: tensorflow/python/ops/linalg/linear_operator_circulant.py.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tideflow.eager.linear_operators import hints
from tideflow.eager.linear_operators.spec import TensorOperator
from tideflow.eager.linear_operators.tensors import (
    cast,
    concatenated,
    conjugate_transpose,
    imaginary_of,
    magnitude,
    matrix_shape,
    parameter,
    ratio_of_extremes,
    real_of,
    require,
    require_nonzero,
    require_real,
    scope,
)
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.shapes import TensorShape, num_elements
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array import matrix_transpose, shape
from tideflow.ops.export import export
from tideflow.ops.framework import conj
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype

_TRANSFORMS = {1: "FFT", 2: "FFT2D", 3: "FFT3D"}


def complex_type_of(dtype: DType) -> DType:
    """Return the complex type in which numbers of a type are transformed."""
    is_wide = dtype in (dtypes.float64, dtypes.complex128)
    return dtypes.complex128 if is_wide else dtypes.complex64


class CirculantOperator(TensorOperator):
    """Base of the circulant operators, which differ in the number of dimensions of a block."""

    _depth: ClassVar[int] = 1

    def __init__(
        self,
        spectrum: TensorLike,
        input_output_dtype: DTypeLike = dtypes.complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str = "LinearOperatorCirculant",
    ) -> None:
        parameters = hints.given(locals())
        with scope(name):
            self._spectrum = parameter(spectrum, "spectrum")
        rank = self._spectrum.shape.rank
        if rank is not None and rank < self._depth:
            raise ValueError(
                f"Argument `spectrum` must have at least {self._depth} dimensions. Found: "
                f"{self._spectrum}."
            )
        if not self._spectrum.dtype.is_complex:
            message = "A real spectrum always corresponds to a self-adjoint operator."
            is_self_adjoint = hints.always(is_self_adjoint, True, message)
        message = "A [[nested] block] circulant operator is always square."
        self._begin(
            as_dtype(input_output_dtype),
            parameters,
            is_self_adjoint=is_self_adjoint,
            is_square=hints.always(is_square, True, message),
        )

    # ---- blocks

    @property
    def spectrum(self) -> Any:
        """The eigenvalues [..., *block]."""
        return self._spectrum

    @property
    def block_depth(self) -> int:
        """The number of dimensions of a block."""
        return self._depth

    @property
    def block_shape(self) -> TensorShape:
        """The static shape of a block."""
        return self._spectrum.shape[-self._depth :]  # type: ignore[no-any-return]

    def block_shape_tensor(self) -> Any:
        """Return the shape of a block as a vector."""
        return shape(self._spectrum)[-self._depth :]

    def _shape(self) -> TensorShape:
        size = num_elements(self.block_shape.sizes)
        batch: TensorShape = self._spectrum.shape[: -self._depth]
        return batch.concatenate([size, size])

    def _shape_tensor(self) -> Any:
        sizes = shape(self._spectrum)
        size = apply_op("Prod", sizes[-self._depth :], [0])
        return matrix_shape(sizes[: -self._depth], size, size)

    def _flat(self, x: TensorLike) -> Any:
        """Return blocks [..., *block] as vectors [..., N]."""
        return apply_op("Reshape", x, concatenated(shape(x)[: -self._depth], [-1]))

    def _in_blocks(self, matrix: TensorLike) -> Any:
        """Return the columns of matrices [..., N, R] as complex blocks [..., R, *block]."""
        rows = matrix_transpose(matrix)
        blocks = concatenated(shape(rows)[:-1], self.block_shape_tensor())
        return self._complex(apply_op("Reshape", rows, blocks))

    def _complex(self, x: TensorLike) -> Any:
        return cast(x, complex_type_of(self._spectrum.dtype.base_dtype))

    def _transformed(self, x: TensorLike) -> Any:
        return apply_op(_TRANSFORMS[self._depth], x)

    def _transformed_back(self, x: TensorLike) -> Any:
        return apply_op(f"I{_TRANSFORMS[self._depth]}", x)

    # ---- products

    def _columns(self, x: TensorLike, adjoint: bool, adjoint_arg: bool) -> tuple[Any, Any]:
        """Return the transforms of columns, and the spectrum by which each is multiplied."""
        given = conjugate_transpose(x) if adjoint_arg else x
        found = self._transformed(self._in_blocks(given))
        spectrum = cast(self._spectrum, found.dtype)
        return found, apply_op("ExpandDims", conj(spectrum) if adjoint else spectrum, self._before)

    @property
    def _before(self) -> int:
        """The axis before a block."""
        return -self._depth - 1

    def _as_matrix(self, transformed: Any) -> Any:
        rows = self._flat(self._transformed_back(transformed))
        return cast(matrix_transpose(rows), self.dtype)

    def _matmul(self, x: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        found, spectrum = self._columns(x, adjoint, adjoint_arg)
        return self._as_matrix(spectrum * found)

    def _solve(self, rhs: TensorLike, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        found, spectrum = self._columns(rhs, adjoint, adjoint_arg)
        return self._as_matrix(found / spectrum)

    def convolution_kernel(self, name: str = "convolution_kernel") -> Any:
        """Return the blocks with which it convolves: the inverse transform of the spectrum."""
        with self._operation_scope(name):
            spectrum = self._complex(convert_to_tensor(self._spectrum))
            return cast(self._transformed_back(spectrum), self.dtype)

    # ---- checks

    def assert_hermitian_spectrum(self, name: str = "assert_hermitian_spectrum") -> Any:
        """Return an op that fails where the kernel is not real; None where it was checked now."""
        with self._operation_scope(name):
            part = magnitude(imaginary_of(self.convolution_kernel()))
            rounding = float(np.finfo(part.dtype.as_numpy_dtype).eps)
            most = cast(self.domain_dimension_tensor(), part.dtype) * rounding
            return require("assert_less", part, most, message="Spectrum was not Hermitian")

    def _assert_non_singular(self) -> Any:
        message = "Singular operator:  Spectrum contained zero values."
        return require_nonzero(self._spectrum, message)

    def _assert_positive_definite(self) -> Any:
        message = "Not positive definite:  Real part of spectrum was not all positive."
        return require("assert_positive", real_of(self._spectrum), message=message)

    def _assert_self_adjoint(self) -> Any:
        message = "Not self-adjoint:  The spectrum contained non-zero imaginary part."
        return require_real(self._spectrum, message)

    # ---- numbers

    def _determinant(self) -> Any:
        return cast(apply_op("Prod", self._flat(self._spectrum), [-1]), self.dtype)

    def _log_abs_determinant(self) -> Any:
        sizes = magnitude(self._eigvals())
        return cast(apply_op("Sum", apply_op("Log", sizes), [-1]), self.dtype)

    def _trace(self) -> Any:
        found = apply_op("Sum", self._eigvals(), [-1])
        if self.is_self_adjoint:
            found = real_of(found)
        return cast(found, self.dtype)

    def _diag_part(self) -> Any:
        size = self.domain_dimension_tensor()
        mean = self.trace() / cast(size, self.dtype)
        wanted = concatenated(self.batch_shape_tensor(), apply_op("Reshape", size, [1]))
        return apply_op("BroadcastTo", mean[..., None], wanted)

    def _eigvals(self) -> Any:
        return self._flat(convert_to_tensor(self._spectrum))

    def _cond(self) -> Any:
        return ratio_of_extremes(magnitude(self._eigvals()))

    # ---- what it is made of

    def with_spectrum(self, spectrum: Any, settled: hints.Hints, dtype: DType | None = None) -> Any:
        """Return the operator with another spectrum, other hints and another type.

        As with TensorFlow, the type is complex64 unless it is given.
        """
        wanted = dtypes.complex64 if dtype is None else dtype
        return type(self)(spectrum, input_output_dtype=wanted, **settled)

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        return ("spectrum", "input_output_dtype")

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"spectrum": self._depth}


@export("linalg.LinearOperatorCirculant")
class LinearOperatorCirculant(CirculantOperator):
    """The operator of circulant matrices: each column is the one before, moved down by one.

    Args:
      spectrum: the eigenvalues [..., N], the Fourier transform of the first column.
      input_output_dtype: of what is multiplied and what results.
      The hints and the name are those of LinearOperator.
    Raises: ValueError for scalars, and for hints that are wrong of circulant matrices.
    """


@export("linalg.LinearOperatorCirculant2D")
class LinearOperatorCirculant2D(CirculantOperator):
    """The operator of convolutions on a torus, with a spectrum [..., N0, N1].

    The other arguments are those of LinearOperatorCirculant.
    """

    _depth = 2

    def __init__(
        self,
        spectrum: TensorLike,
        input_output_dtype: DTypeLike = dtypes.complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str = "LinearOperatorCirculant2D",
    ) -> None:
        super().__init__(**hints.given(locals()))


@export("linalg.LinearOperatorCirculant3D")
class LinearOperatorCirculant3D(CirculantOperator):
    """The operator of circular convolutions in three dimensions, with a spectrum [..., N0, N1, N2].

    The other arguments are those of LinearOperatorCirculant.
    """

    _depth = 3

    def __init__(
        self,
        spectrum: TensorLike,
        input_output_dtype: DTypeLike = dtypes.complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str = "LinearOperatorCirculant3D",
    ) -> None:
        super().__init__(**hints.given(locals()))
