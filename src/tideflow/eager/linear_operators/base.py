"""tf.linalg.LinearOperator: what acts as a matrix, or a batch of matrices, without having one.

A subclass says its shape and how it multiplies; the rest is done with dense matrices where it knows
no better.  Methods of subclasses have the names that TensorFlow gives them, since programs have
subclasses of their own.

Source: tensorflow/python/ops/linalg/linear_operator.py.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tideflow.eager.linear_operators import algebra, hints
from tideflow.eager.linear_operators.slicing import batch_slice
from tideflow.eager.linear_operators.tensors import (
    cast,
    conjugate_transpose,
    magnitude,
    ratio_of_extremes,
    require,
    size_parameter,
    solved,
    solved_by_cholesky,
)
from tideflow.eager.module import Module
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.dimension import Dimension
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array import eye, matrix_diag_part
from tideflow.ops.export import export, overload_for
from tideflow.ops.linalg import (
    MatrixLike,
    cholesky,
    matrix_determinant,
    self_adjoint_eigvals,
    slogdet,
    svd,
)
from tideflow.ops.operators import defer_to
from tideflow.wire.dtypes import DType, as_dtype

_OTHER_SIZE = "Operators are incompatible. Expected `{}` to have dimension {} but got {}."


@export("linalg.LinearOperator")
class LinearOperator(MatrixLike, Module, metaclass=abc.ABCMeta):
    """Base of operators: [..., M, N] matrices that are known by what they do.

    A subclass has `_shape`, `_shape_tensor` and `_matmul`.

    Args:
      dtype: of the elements.
      graph_parents: tensors on which it depends; nothing asks for them any more.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: what is promised; True or
        False, None for nothing.
      name: the class's by default.
      parameters: the arguments by which it can be made again.
    Raises: ValueError for promises that contradict one another.
    Example:
      >>> operator = tf.linalg.LinearOperatorDiag([1.0, 2.0])
      >>> (operator @ operator).to_dense().numpy().tolist()
      [[1.0, 0.0], [0.0, 4.0]]
    """

    _untracked = Module._untracked | {"_parameters", "_graph_parents"}

    def __init__(
        self,
        dtype: DTypeLike | None,
        graph_parents: Any = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        for at, parent in enumerate(graph_parents or ()):
            if not isinstance(parent, Tensor):
                raise ValueError(f"Graph parent item {at} is not a Tensor; {parent}.")
        self._is_non_singular, self._stated_square = hints.implied(
            is_non_singular, is_self_adjoint, is_positive_definite, is_square
        )
        self._is_self_adjoint = is_self_adjoint
        self._is_positive_definite = is_positive_definite
        self._graph_parents = list(graph_parents or ())
        self._dtype: Any = as_dtype(dtype).base_dtype if dtype else dtype
        self._parameters = parameters
        self._name = name or type(self).__name__

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        overload_for(cls)
        defer_to(cls)

    @contextmanager
    def _operation_scope(self, name: str | None = None) -> Iterator[str]:
        whole = self.name if name is None else f"{self.name}/{name}"
        with get_default_graph().name_scope(whole) as scope:
            yield scope

    # ---- what it is

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments by which it was made."""
        return dict(self._parameters or {})

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        found: DType = self._dtype
        return found

    @property
    def name(self) -> str:
        """The name, under which its operations are in a graph."""
        return self._name

    @property
    def graph_parents(self) -> list[Any]:
        """The tensors that were given as such."""
        return self._graph_parents

    @property
    def is_non_singular(self) -> bool | None:
        """Whether it is promised to have an inverse."""
        return self._is_non_singular

    @property
    def is_self_adjoint(self) -> bool | None:
        """Whether it is promised to be its own adjoint."""
        return self._is_self_adjoint

    @property
    def is_positive_definite(self) -> bool | None:
        """Whether the real part of adjoint(x) A x is promised to be positive for all x but 0."""
        return self._is_positive_definite

    @property
    def is_square(self) -> bool | None:
        """Whether it is square, by promise or by its static shape.

        Raises: ValueError where it was promised not to be, and is.
        """
        sides = self.range_dimension.value, self.domain_dimension.value
        seen = None if None in sides else sides[0] == sides[1]
        if self._stated_square is False and seen:
            raise ValueError("User set is_square hint to False, but the operator was square.")
        return seen if self._stated_square is None else self._stated_square

    # ---- its shape

    @abc.abstractmethod
    def _shape(self) -> TensorShape:
        """Return the static shape."""

    @abc.abstractmethod
    def _shape_tensor(self) -> Tensor:
        """Return the shape as a vector."""

    @property
    def shape(self) -> TensorShape:
        """The static shape [..., M, N]."""
        return self._shape()

    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        """Return the shape as an int32 vector; a constant where it is known now."""
        with self._operation_scope(name):
            if self.shape.is_fully_defined():
                return size_parameter(self.shape, "shape")
            return self._shape_tensor()

    @property
    def batch_shape(self) -> TensorShape:
        """The static shape of the batch."""
        return self.shape[:-2]  # type: ignore[no-any-return]

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """Return the shape of the batch as a vector."""
        with self._operation_scope(name):
            if self.batch_shape.is_fully_defined():
                return size_parameter(self.batch_shape, "batch_shape")
            return self.shape_tensor()[:-2]

    @property
    def tensor_rank(self) -> int | None:
        """The rank of the dense tensor, None if it is not known."""
        return self.shape.rank

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Tensor:
        """Return the rank of the dense tensor."""
        with self._operation_scope(name):
            if self.tensor_rank is not None:
                return convert_to_tensor(self.tensor_rank)
            made: Tensor = apply_op("Size", self.shape_tensor())
            return made

    @property
    def domain_dimension(self) -> Dimension:
        """The size of the vectors that it takes."""
        return Dimension(None) if self.shape.dims is None else self.shape.dims[-1]

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Tensor:
        """Return the size of the vectors that it takes."""
        with self._operation_scope(name):
            return self._side(-1)

    @property
    def range_dimension(self) -> Dimension:
        """The size of the vectors that it gives."""
        return Dimension(None) if self.shape.dims is None else self.shape.dims[-2]

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Tensor:
        """Return the size of the vectors that it gives."""
        with self._operation_scope(name):
            return self._side(-2)

    def _side(self, axis: int) -> Tensor:
        size = (self.domain_dimension if axis == -1 else self.range_dimension).value
        return self.shape_tensor()[axis] if size is None else convert_to_tensor(size)

    # ---- what is promised, checked

    def assert_non_singular(self, name: str = "assert_non_singular") -> Any:
        """Return an op that fails for a singular matrix; None where it was checked now."""
        with self._operation_scope(name):
            return self._assert_non_singular()

    def _assert_non_singular(self) -> Any:
        if self._can_use_cholesky():
            return self.assert_positive_definite()
        found = ratio_of_extremes(svd(self.to_dense(), compute_uv=False))
        sides = apply_op("Maximum", self.range_dimension_tensor(), self.domain_dimension_tensor())
        most = apply_op("Maximum", cast(sides, found.dtype), np.array(100, found.dtype.name))
        rounding = float(np.finfo(found.dtype.as_numpy_dtype).eps)
        message = "Singular matrix up to precision epsilon."
        return require("assert_less", found, 1 / (most * rounding), message=message)

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Any:
        """Return an op that fails for a matrix that is not positive definite.

        Raises: NotImplementedError where it cannot be told, as for what is not self-adjoint.
        """
        with self._operation_scope(name):
            return self._assert_positive_definite()

    def _assert_positive_definite(self) -> Any:
        if not self.is_self_adjoint:
            raise NotImplementedError("assert_positive_definite is not implemented.")
        diagonal = matrix_diag_part(cholesky(self.to_dense()))
        return require("assert_positive", diagonal, message="Matrix was not positive definite.")

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Any:
        """Return an op that fails for a matrix that is not its own adjoint."""
        with self._operation_scope(name):
            return self._assert_self_adjoint()

    def _assert_self_adjoint(self) -> Any:
        dense = self.to_dense()
        message = "Matrix was not equal to its adjoint."
        return require("assert_equal", dense, conjugate_transpose(dense), message=message)

    def _can_use_cholesky(self) -> bool:
        return bool(self.is_self_adjoint and self.is_positive_definite)

    # ---- products

    def _check_input_dtype(self, arg: Any) -> None:
        if arg.dtype.base_dtype != self.dtype:
            raise TypeError(
                f"Expected argument to have dtype {self.dtype}.  Found: {arg.dtype} in tensor {arg}"
            )

    def _argument(self, value: Any, name: str, size: Dimension, axis: int) -> Tensor:
        """Return an argument as a tensor.

        Raises: TypeError for another type; ValueError for another size along an axis.
        """
        given = convert_to_tensor(value, name=name)
        self._check_input_dtype(given)
        size.assert_is_compatible_with(given.shape[axis])
        return given

    def _sides(self, other: Any, adjoint: bool, adjoint_arg: bool, name: str) -> tuple[Any, Any]:
        """Return both sides of a product of operators.  Raises: ValueError for other sizes."""
        left = self.adjoint() if adjoint else self
        right = other.adjoint() if adjoint_arg else other
        if not left.domain_dimension.is_compatible_with(right.range_dimension):
            sizes = left.domain_dimension, right.range_dimension
            raise ValueError(_OTHER_SIZE.format(name, *sizes))
        return left, right

    def _taken(self, adjoint: bool) -> Dimension:
        return self.range_dimension if adjoint else self.domain_dimension

    def matmul(
        self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul"
    ) -> Any:
        """Return the product with x, a tensor [..., N, R] or an operator.

        adjoint, adjoint_arg: whether the adjoint of the operator, or of x, is meant.
        Returns: a tensor [..., M, R], or an operator.
        Raises: TypeError for another type; ValueError for sizes that do not fit.
        """
        if isinstance(x, LinearOperator):
            left, right = self._sides(x, adjoint, adjoint_arg, "x")
            with self._operation_scope(name):
                return self._linop_matmul(left, right)
        with self._operation_scope(name):
            given = self._argument(x, "x", self._taken(adjoint), -1 if adjoint_arg else -2)
            return self._matmul(given, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    def __rmatmul__(self, other: Any) -> Any:
        return conjugate_transpose(self.matmul(other, adjoint=True, adjoint_arg=True))

    @abc.abstractmethod
    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        """Return the product with matrices, which are a tensor of the right type and sizes."""

    def _linop_matmul(self, left_operator: Any, right_operator: Any) -> Any:
        return algebra.products.result(left_operator, right_operator)

    def matvec(self, x: TensorLike, adjoint: bool = False, name: str = "matvec") -> Any:
        """Return the product [..., M] with vectors x [..., N]."""
        with self._operation_scope(name):
            return self._matvec(self._argument(x, "x", self._taken(adjoint), -1), adjoint=adjoint)

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return apply_op("Squeeze", self.matmul(x[..., None], adjoint=adjoint), squeeze_dims=[-1])

    # ---- solutions

    def _require_solvable(self) -> None:
        what = "Exact solve not implemented for an operator that is expected to "
        if self.is_non_singular is False:
            raise NotImplementedError(f"{what}be singular.")
        if self.is_square is False:
            raise NotImplementedError(f"{what}not be square.")

    def solve(
        self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve"
    ) -> Any:
        """Return the x with A @ x = rhs, a tensor [..., M, R] or an operator.

        adjoint, adjoint_arg: as for matmul.
        Raises: NotImplementedError for what is known to have no inverse; TypeError for another
        type; ValueError for sizes that do not fit.
        """
        self._require_solvable()
        if isinstance(rhs, LinearOperator):
            left, right = self._sides(rhs, adjoint, adjoint_arg, "rhs")
            with self._operation_scope(name):
                return self._linop_solve(left, right)
        with self._operation_scope(name):
            given = self._argument(rhs, "rhs", self._taken(not adjoint), -1 if adjoint_arg else -2)
            return self._solve(given, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._dense_solve(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _dense_solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        if self.is_square is False:
            raise NotImplementedError("Solve is not yet implemented for non-square operators.")
        given = conjugate_transpose(rhs) if adjoint_arg else rhs
        if self._can_use_cholesky():
            return solved_by_cholesky(cholesky(self.to_dense()), given)
        return solved(self.to_dense(), given, adjoint=adjoint)

    def _linop_solve(self, left_operator: Any, right_operator: Any) -> Any:
        return algebra.quotients.result(left_operator, right_operator)

    def solvevec(self, rhs: TensorLike, adjoint: bool = False, name: str = "solve") -> Any:
        """Return the x [..., N] with A @ x = rhs [..., M]; see solve."""
        with self._operation_scope(name):
            given = self._argument(rhs, "rhs", self._taken(not adjoint), -1)
            return self._solvevec(given, adjoint=adjoint)

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        return apply_op("Squeeze", self.solve(rhs[..., None], adjoint=adjoint), squeeze_dims=[-1])

    # ---- operators made of it

    def adjoint(self, name: str = "adjoint") -> Any:
        """Return the operator that is its adjoint; itself where it is self-adjoint."""
        if self.is_self_adjoint is True:
            return self
        with self._operation_scope(name):
            return self._linop_adjoint()

    H = property(adjoint, None)

    def _linop_adjoint(self) -> Any:
        return algebra.adjoints.result(self)

    def inverse(self, name: str = "inverse") -> Any:
        """Return the operator that is its inverse.  Raises: ValueError if it has none."""
        if self.is_square is False:
            raise ValueError(
                "Cannot take the Inverse: This operator represents a non square matrix."
            )
        if self.is_non_singular is False:
            raise ValueError("Cannot take the Inverse: This operator represents a singular matrix.")
        with self._operation_scope(name):
            return self._linop_inverse()

    def _linop_inverse(self) -> Any:
        return algebra.inverses.result(self)

    def cholesky(self, name: str = "cholesky") -> Any:
        """Return the lower triangular operator L with L @ L.H = A.

        Raises: ValueError unless it is promised to be self-adjoint and positive definite.
        """
        if not self._can_use_cholesky():
            raise ValueError(
                "Cannot take the Cholesky decomposition: Not a positive definite self adjoint "
                "matrix."
            )
        with self._operation_scope(name):
            return self._linop_cholesky()

    def _linop_cholesky(self) -> Any:
        return algebra.choleskies.result(self)

    # ---- tensors made of it

    def to_dense(self, name: str = "to_dense") -> Any:
        """Return the matrices as a tensor [..., M, N]."""
        with self._operation_scope(name):
            return self._to_dense()

    def _to_dense(self) -> Any:
        size = self.domain_dimension.value
        batch = self.batch_shape
        return self.matmul(
            eye(
                self.domain_dimension_tensor() if size is None else size,
                batch_shape=batch if batch.is_fully_defined() else self.batch_shape_tensor(),
                dtype=self.dtype,
            )
        )

    def diag_part(self, name: str = "diag_part") -> Any:
        """Return the diagonals [..., min(M, N)]."""
        with self._operation_scope(name):
            return self._diag_part()

    def _diag_part(self) -> Any:
        return matrix_diag_part(self.to_dense())

    def trace(self, name: str = "trace") -> Any:
        """Return the sums [...] of the diagonals."""
        with self._operation_scope(name):
            return self._trace()

    def _trace(self) -> Any:
        return apply_op("Sum", self.diag_part(), [-1])

    def add_to_tensor(self, x: TensorLike, name: str = "add_to_tensor") -> Any:
        """Return the sum with matrices x [..., M, N].  Raises: TypeError for another type."""
        with self._operation_scope(name):
            given = convert_to_tensor(x, name="x")
            self._check_input_dtype(given)
            return self._add_to_tensor(given)

    def _add_to_tensor(self, x: Any) -> Any:
        return self.to_dense() + x

    # ---- numbers that belong to it

    def _require_square(self) -> None:
        if self.is_square is False:
            raise NotImplementedError(
                "Determinant not implemented for an operator that is expected to not be square."
            )

    def determinant(self, name: str = "det") -> Any:
        """Return the determinants [...].  Raises: NotImplementedError if it is not square."""
        self._require_square()
        with self._operation_scope(name):
            return self._determinant()

    def _determinant(self) -> Any:
        if self._can_use_cholesky():
            return apply_op("Exp", self.log_abs_determinant())
        return matrix_determinant(self.to_dense())

    def log_abs_determinant(self, name: str = "log_abs_det") -> Any:
        """Return the logarithms [...] of the absolute values of the determinants."""
        self._require_square()
        with self._operation_scope(name):
            return self._log_abs_determinant()

    def _log_abs_determinant(self) -> Any:
        if self._can_use_cholesky():
            diagonal = matrix_diag_part(cholesky(self.to_dense()))
            return 2 * apply_op("Sum", apply_op("Log", diagonal), [-1])
        return slogdet(self.to_dense()).log_abs_determinant

    def eigvals(self, name: str = "eigvals") -> Any:
        """Return the eigenvalues [..., N].  Raises: NotImplementedError unless self-adjoint."""
        if not self.is_self_adjoint:
            raise NotImplementedError("Only self-adjoint matrices are supported.")
        with self._operation_scope(name):
            return self._eigvals()

    def _eigvals(self) -> Any:
        return self_adjoint_eigvals(self.to_dense())

    def cond(self, name: str = "cond") -> Any:
        """Return the condition numbers [...]: the greatest over the least singular value."""
        with self._operation_scope(name):
            return self._cond()

    def _cond(self) -> Any:
        if self.is_self_adjoint:
            return ratio_of_extremes(magnitude(self._eigvals()))
        return ratio_of_extremes(svd(self.to_dense(), compute_uv=False))

    # ---- parts of a batch, and what it is made of

    def __getitem__(self, slices: Any) -> Any:
        """Return the part of the batch that a key, as for tensors, takes."""
        return batch_slice(self, slices)

    @property
    def _composite_tensor_fields(self) -> tuple[str, ...]:
        """The arguments that make it what it is, but for hints and name."""
        return ()

    @property
    def _composite_tensor_prefer_static_fields(self) -> tuple[str, ...]:
        """Those of these arguments that count by their values where these are known."""
        return ()

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        """How many dimensions of a parameter are no part of a batch, by its name."""
        return {}
