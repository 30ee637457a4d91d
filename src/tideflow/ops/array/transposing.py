"""Putting the dimensions of tensors into another order.

Source: tensorflow/core/ops/array_ops.cc, core/kernels/transpose_op.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, same_as
from tideflow.graph.shapes import Dims, format_dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.array.shapes import rank
from tideflow.ops.export import export
from tideflow.wire.errors import InvalidArgumentError

# ---- asking for shapes


def _transpose_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    perm = c.value(1)
    if given is None:
        size = c.inputs[1]
        count = None if size is None or not size else size[0]
        return [None if count is None else (None,) * count]
    if perm is None:
        return [(None,) * len(given)]
    order = perm.reshape(-1).tolist()
    rank = len(given)
    if len(order) != rank or any(not -rank <= axis < rank for axis in order):
        raise ValueError(f"{order} is no order of the dimensions of {format_dims(given)}")
    if sorted(axis % rank for axis in order) != list(range(rank)):
        raise ValueError(f"{order} names a dimension of {format_dims(given)} twice")
    return [tuple(given[axis] for axis in order)]


@op(
    """
    Transpose(x: T, perm: Tperm) -> y: T
    T: type
    Tperm: type in indices = int32
    """,
    shape=_transpose_shape,
    static=("perm",),
    compiles=Compiles.ALWAYS,
    checked_outputs=0,
)
def transpose_kernel(xp: ArrayNamespace, x: Array, perm: Array) -> Any:
    """Return x with its dimensions in the order perm."""
    try:
        return xp.transpose(x, perm.tolist())
    except (ValueError, TypeError):
        raise InvalidArgumentError(
            f"Transpose: {perm.tolist()} is no order of the dimensions of {list(np.shape(x))}"
        ) from None


@gradient("Transpose")
def transpose_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Transpose back."""
    return [apply_op("Transpose", grad, apply_op("InvertPermutation", op.inputs[1])), None]


@export("transpose")
def transpose(
    a: TensorLike, perm: TensorLike | None = None, name: str = "transpose", conjugate: bool = False
) -> Tensor:
    """Return a tensor with its dimensions in the order perm; reversed by default.

    Args:
      a: of any shape and type.
      perm: a permutation of range(rank of a), int32 or int64.
      conjugate: whether complex numbers are conjugated.
    Raises: ValueError, or InvalidArgumentError, for what is no permutation.
    Example:
      >>> tf.transpose([[1, 2], [3, 4]]).numpy().tolist()
      [[1, 3], [2, 4]]
    """
    with get_default_graph().name_scope(name) as scope:
        given = convert_to_tensor(a, name="a")
        order = perm
        if perm is None:
            if given.dims is not None:
                order = np.arange(len(given.dims), dtype=np.int32)[::-1].copy()
            else:
                count = rank(given)
                order = apply_op("Sub", apply_op("Sub", count, 1), apply_op("Range", 0, count, 1))
        is_conjugate = conjugate and given.dtype.is_complex
        op_name = "ConjugateTranspose" if is_conjugate else "Transpose"
        made: Tensor = apply_op(op_name, given, order, name=scope)
        return made


@export("matrix_transpose", "linalg.matrix_transpose", "linalg.transpose")
def matrix_transpose(
    a: TensorLike, name: str = "matrix_transpose", conjugate: bool = False
) -> Tensor:
    """Return a tensor with its last two dimensions swapped.  Raises: ValueError below rank 2."""
    with get_default_graph().name_scope(name):
        given = convert_to_tensor(a, name="a")
        if given.dims is not None:
            count = len(given.dims)
            if count < 2:
                raise ValueError(f"matrix_transpose wants rank 2 or more; found {given.shape}")
            order: Any = [*range(count - 2), count - 1, count - 2]
        else:
            total = rank(given)
            last, before = apply_op("Sub", total, 1), apply_op("Sub", total, 2)
            order = apply_op(
                "ConcatV2", [apply_op("Range", 0, before, 1), _vector(last), _vector(before)], 0
            )
        return transpose(given, order, conjugate=conjugate)


def _vector(value: TensorLike) -> Tensor:
    made: Tensor = apply_op("Reshape", value, [1])
    return made


@op(
    """
    InvertPermutation(x: T) -> y: T
    T: type in indices = int32
    """,
    shape=same_as(0),
    static=("x",),
    compiles=Compiles.KNOWN_INPUTS,
)
def invert_permutation_kernel(xp: ArrayNamespace, x: Array) -> Any:
    """Return the permutation that undoes x.  Raises: InvalidArgumentError when x is none."""
    values = x.tolist()
    if x.ndim != 1 or sorted(values) != list(range(len(values))):
        raise InvalidArgumentError(
            f"InvertPermutation wants a permutation of 0 to {np.size(x) - 1}; found {values}"
        )
    return np.argsort(x).astype(x.dtype)


not_differentiable("InvertPermutation")


@op(
    """
    ConjugateTranspose(x: T, perm: Tperm) -> y: T
    T: type
    Tperm: type in indices = int32
    """,
    shape=_transpose_shape,
    static=("perm",),
    compiles=Compiles.ALWAYS,
)
def conjugate_transpose_kernel(xp: ArrayNamespace, x: Array, perm: Array) -> Any:
    """Return x with its axes in another order, and conjugate."""
    made = transpose_kernel(xp, x, perm)
    return xp.conj(made) if x.dtype.kind == "c" else made


@gradient("ConjugateTranspose")
def conjugate_transpose_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Put the axes back, and conjugate."""
    back = apply_op("InvertPermutation", op.inputs[1])
    return [apply_op("ConjugateTranspose", grad, back), None]


@export("invert_permutation", "math.invert_permutation")
def invert_permutation(x: TensorLike, name: str | None = None) -> Tensor:
    """Return y with y[x[i]] == i."""
    made: Tensor = apply_op("InvertPermutation", x, name=name)
    return made
