"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.eager.numpy.arranging import moveaxis
from tideflow.eager.numpy.arrays import (
    as_tensor,
    at_least,
    axis_within,
    broadcast_together,
    choose,
    equals,
    promoted,
    promoted_pair,
    rank,
)
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import cond_v2
from tideflow.ops.export import export_v2
from tideflow.ops.linalg import einsum as contractions
from tideflow.ops.linalg import products
from tideflow.ops.math import casts, counting
from tideflow.wire import errors


def _if_scalar(x: Tensor, y: Tensor, otherwise: Any) -> Any:
    """Return the product where one of two tensors is a scalar, else what a function gives."""
    counts = rank(x), rank(y)
    if all(isinstance(count, int) for count in counts):
        return x * y if 0 in counts else otherwise()  # type: ignore[operator]
    scalar = apply_op("LogicalOr", equals(counts[0], 0), equals(counts[1], 0))
    return cond_v2(scalar, lambda: x * y, otherwise)  # type: ignore[operator]


@export_v2("experimental.numpy.dot")
def dot(a: TensorLike, b: TensorLike) -> Any:
    """Return the sums of products over the last axis of a and the last but one of b, a vector's
    only one; the product where one of them is a scalar."""
    x, y = promoted_pair(a, b)

    def contracted() -> Any:
        is_vector = equals(rank(y), 1)
        return choose(
            is_vector,
            lambda: contractions.tensordot(x, y, [[-1], [-1]]),
            lambda: contractions.tensordot(x, y, [[-1], [-2]]),
        )

    return _if_scalar(x, y, contracted)


@export_v2("experimental.numpy.inner")
def inner(a: TensorLike, b: TensorLike) -> Any:
    """Return the sums of products over the last axes; the product where one is a scalar."""
    x, y = promoted_pair(a, b)
    return _if_scalar(x, y, lambda: contractions.tensordot(x, y, [[-1], [-1]]))


@export_v2("experimental.numpy.vdot")
def vdot(a: TensorLike, b: TensorLike) -> Any:
    """Return the sum of products of all elements, those of a conjugated."""
    x, y = (apply_op("Reshape", one, [-1]) for one in promoted(a, b))
    return dot(casts.conj(x), y)


@export_v2("experimental.numpy.outer")
def outer(a: TensorLike, b: TensorLike) -> Any:
    """Return the products of each element of a with each of b: a matrix."""
    x, y = promoted_pair(a, b)
    return apply_op("Mul", apply_op("Reshape", x, [-1, 1]), apply_op("Reshape", y, [-1]))


@export_v2("experimental.numpy.tensordot")
def tensordot(a: TensorLike, b: TensorLike, axes: Any = 2) -> Any:
    """Return the sums of products over pairs of axes (see tf.tensordot)."""
    x, y = promoted_pair(a, b)
    return contractions.tensordot(x, y, axes)


@export_v2("experimental.numpy.matmul")
def matmul(x1: TensorLike, x2: TensorLike) -> Any:
    """Return the product of matrices, or of a vector with matrices.

    Raises: ValueError for shapes that do not go together.
    """
    x, y = promoted_pair(x1, x2)

    def of_matrices() -> Any:
        is_vector = equals(rank(x), 1)
        return choose(
            is_vector,
            lambda: contractions.tensordot(x, y, [[0], [-2]]),
            lambda: products.matmul(x, y),
        )

    try:
        is_vector = equals(rank(y), 1)
        return choose(is_vector, lambda: contractions.tensordot(x, y, 1), of_matrices)
    except errors.InvalidArgumentError as error:
        raise ValueError(str(error)) from error


@export_v2("experimental.numpy.kron")
def kron(a: TensorLike, b: TensorLike) -> Any:
    """Return a with each element replaced by its product with b.

    Shapes: of known ranks; the sizes are the products of both, the shorter one's after ones.
    """
    x, y = promoted(a, b)
    if x.dims is None or y.dims is None:
        raise ValueError("kron takes tensors of known rank")
    count = max(len(x.dims), len(y.dims))
    x, y = at_least(count, x), at_least(count, y)
    sizes, others = apply_op("Shape", x), apply_op("Shape", y)
    ones = np.ones(count, np.int32)
    wide = apply_op("Reshape", x, _alternating(sizes, ones))
    narrow = apply_op("Reshape", y, _alternating(ones, others))
    return apply_op("Reshape", apply_op("Mul", wide, narrow), apply_op("Mul", sizes, others))


def _alternating(first: Any, second: Any) -> Any:
    """Return the entries of two vectors by turns."""
    return apply_op("Reshape", apply_op("Pack", [first, second], axis=1), [-1])


@export_v2("experimental.numpy.cross")
def cross(
    a: TensorLike,
    b: TensorLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Any:
    """Return the vector products along an axis of two or three elements, whose sizes are known.

    Args:
      axisa, axisb, axisc: the axes of the vectors in a, in b and in the result.
      axis: the axis in all three.
    Shapes: of two vectors of two elements only the third component is returned.
    """
    x, y = promoted_pair(a, b)
    axes = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    x, y = (_with_last(one, at) for one, at in zip((x, y), axes))
    is_flat = all((one.dims or (None,))[-1] == 2 for one in (x, y))
    product = counting.cross(*broadcast_together([_in_space(one) for one in (x, y)]))
    if is_flat:
        return product[..., 2]
    return moveaxis(product, -1, axes[2])


def _with_last(x: Tensor, axis: int) -> Any:
    at = axis_within(axis, rank(x))
    return x if at == rank(x) - 1 else moveaxis(x, at, -1)


def _in_space(x: Tensor) -> Any:
    """Return vectors of two elements with a third, 0."""
    if x.dims is None or x.dims[-1] != 2:
        return x
    return apply_op("Pad", x, [[0, 0]] * (len(x.dims) - 1) + [[0, 1]])


@export_v2("experimental.numpy.einsum")
def einsum(subscripts: str, *operands: TensorLike, **kwargs: Any) -> Any:
    """Contract tensors as an equation such as "ij,jk->ik" says.

    Args:
      casting: "safe" (the default) brings the operands to one type, "no" leaves them.
      optimize: False, True, "greedy" or "optimal".
    Raises: ValueError for other values.
    """
    casting, optimize = kwargs.get("casting", "safe"), kwargs.get("optimize", False)
    if casting not in ("safe", "no"):
        raise ValueError(f"casting must be 'safe' or 'no'; found {casting!r}")
    if optimize not in (False, True, None, "greedy", "optimal"):
        raise ValueError(f"optimize must be a bool, 'greedy' or 'optimal'; found {optimize!r}")
    values = promoted(*operands) if casting == "safe" else [as_tensor(one) for one in operands]
    return contractions.einsum(subscripts, *values)
