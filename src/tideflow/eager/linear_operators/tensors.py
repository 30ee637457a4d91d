"""What operators compute with: shapes and batches of tensors, solutions, checks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.ops.array import broadcast_dynamic_shape, matrix_transpose, shape
from tideflow.ops.checks import CHECKS
from tideflow.ops.control_flow import group
from tideflow.ops.framework import get_static_value, no_op
from tideflow.ops.linalg import matrix_solve, matrix_triangular_solve
from tideflow.ops.state.base import Variable
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType


def is_reference(value: Any) -> bool:
    """Whether a value may be another one the next time: a variable."""
    return isinstance(value, Variable)


def scope(name: str) -> Any:
    """Return the scope of an operator's own tensors, for `with`."""
    return get_default_graph().name_scope(name)


def parameter(value: Any, name: str) -> Any:
    """Return a parameter of an operator: a variable as it is, anything else as a tensor."""
    if value is None or is_reference(value):
        return value
    return convert_to_tensor(value, name=name)


def size_parameter(value: Any, name: str) -> Tensor:
    """Return a size, or a vector of sizes, as a tensor.

    Raises: TypeError for a variable, or for what is no integer.
    """
    if is_reference(value):
        raise TypeError(f"Argument {name} cannot be reference type. Found: {type(value)}.")
    if isinstance(value, (TensorShape, list, tuple)):
        value = np.array([int(size) for size in value], np.int32)
    made = convert_to_tensor(value, preferred_dtype=dtypes.int32, name=name)
    if not made.dtype.is_integer:
        raise TypeError(f"Argument {name} must be integer type.  Found: {made}")
    return cast(made, dtypes.int32)  # type: ignore[no-any-return]


def known(value: Tensor) -> Any:
    """Return the array that a tensor is known to hold; None where it is not known."""
    if value.graph.is_eager:
        return np.asarray(value)
    return get_static_value(value)


def known_sizes(value: Tensor) -> TensorShape:
    """Return the static shape that a vector of sizes says, as far as it is known."""
    found = known(value)
    if found is not None:
        return TensorShape(found.tolist())
    count = value.dims[0] if value.dims else None
    return TensorShape(None if count is None else [None] * count)


def conjugate_transpose(matrix: Any) -> Any:
    """Return conjugate transposes of matrices [..., M, N]."""
    return matrix_transpose(matrix, conjugate=True)


def real_of(x: Any) -> Any:
    """Return the real part; the tensor itself where it is real."""
    return apply_op("Real", x, Tout=x.dtype.real_dtype) if x.dtype.is_complex else x


def imaginary_of(x: Any) -> Any:
    """Return the imaginary part, zeros where the tensor is real."""
    if not x.dtype.is_complex:
        return apply_op("ZerosLike", x)
    return apply_op("Imag", x, Tout=x.dtype.real_dtype)


def magnitude(x: Any) -> Any:
    """Return absolute values, real."""
    if x.dtype.is_complex:
        return apply_op("ComplexAbs", x, Tout=x.dtype.real_dtype)
    return apply_op("Abs", x)


def cast(x: Any, dtype: DType) -> Any:
    """Return a tensor with elements of another type; of complex ones the real parts as reals."""
    given = convert_to_tensor(x)
    return given if given.dtype.base_dtype == dtype else apply_op("Cast", given, DstT=dtype)


def filled(sizes: Any, value: float, dtype: DType) -> Any:
    """Return a tensor of one value, repeated."""
    return apply_op("Fill", sizes, np.array(value).astype(dtype.as_numpy_dtype))


def ratio_of_extremes(values: Any) -> Any:
    """Return the greatest over the least of values [..., N]."""
    return apply_op("Max", values, [-1]) / apply_op("Min", values, [-1])


# ---- shapes


def concatenated(*parts: Any) -> Any:
    """Return one vector of sizes made of several vectors."""
    return apply_op("ConcatV2", [convert_to_tensor(part, dtypes.int32) for part in parts], 0)


def matrix_shape(batch: Any, rows: Any, columns: Any) -> Any:
    """Return the vector [*batch, rows, columns]."""
    return concatenated(batch, apply_op("Pack", [rows, columns]))


def static_batch(*batches: TensorShape) -> TensorShape:
    """Return the static shape to which batches stretch.  Raises: ValueError if they do not."""
    return TensorShape(functools.reduce(shapes.broadcast, (batch.sizes for batch in batches)))


def dynamic_batch(*batches: Any) -> Any:
    """Return the shape, a vector, to which batches given as vectors stretch."""
    return functools.reduce(broadcast_dynamic_shape, batches)


def with_one_batch(tensors: Sequence[Any], inner: int = 2) -> list[Any]:
    """Return tensors stretched to one batch; their last `inner` dimensions stay as they are."""
    given = [convert_to_tensor(one) for one in tensors]
    batches = [one.shape[:-inner] for one in given]
    if all(batch.is_fully_defined() and batch == batches[0] for batch in batches):
        return given
    batch = dynamic_batch(*(shape(one)[:-inner] for one in given))
    made = []
    for one in given:
        stretched = apply_op("BroadcastTo", one, concatenated(batch, shape(one)[-inner:]))
        if not get_default_graph().is_eager:
            stretched.set_shape(static_batch(*batches).concatenate(one.shape[-inner:]))
        made.append(stretched)
    return made


# ---- solutions


def solved(matrix: Any, rhs: Any, adjoint: bool = False) -> Any:
    """Return x with matrix @ x = rhs, or with the adjoint; batches stretch."""
    left, right = with_one_batch([matrix, rhs])
    return matrix_solve(left, right, adjoint=adjoint)


def solved_by_cholesky(factor: Any, rhs: Any) -> Any:
    """Return x with factor @ adjoint(factor) @ x = rhs; batches stretch."""
    half = matrix_triangular_solve(factor, rhs)
    return matrix_triangular_solve(factor, half, adjoint=True)


# ---- checks


def require(check: str, *values: Any, message: str) -> Any:
    """Return an op that fails unless a check of tf.debugging holds; None where it was made now.

    Raises: InvalidArgumentError at once where values are known.
    """
    return CHECKS[check](*values, message=message)


def require_nonzero(x: Any, message: str) -> Any:
    """Return an op that fails where an element is zero."""
    return require("assert_positive", magnitude(convert_to_tensor(x)), message=message)


def require_real(x: Any, message: str) -> Any:
    """Return an op that fails where an imaginary part is not zero."""
    given = convert_to_tensor(x)
    if not given.dtype.is_complex:
        return fulfilled("assert_real")
    part = imaginary_of(given)
    return require("assert_equal", apply_op("ZerosLike", part), part, message=message)


def fulfilled(name: str) -> Any:
    """Return an op that never fails; None where nothing is built."""
    return None if get_default_graph().is_eager else no_op(name)


def all_of(checks: Sequence[Callable[[], Any]]) -> Any:
    """Return an op that fails if one of several checks does; None where they were made now."""
    made = [check() for check in checks]
    return None if get_default_graph().is_eager else group(*made)
