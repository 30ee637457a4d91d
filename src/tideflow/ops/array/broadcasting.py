"""Tensors repeated: as often as is said, or along new dimensions and those of size 1.

Source: tensorflow/core/ops/array_ops.cc for signatures and shape rules.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, TensorShape, format_dims
from tideflow.graph.types import Array, ArrayNamespace, ShapeLike, TensorLike
from tideflow.ops.array.shapes import shape, sizes_array
from tideflow.ops.export import export
from tideflow.ops.framework import as_shape, shape_argument
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError

# ---- broadcasting


def _broadcast_to_shape(c: ShapeContext) -> list[Dims]:
    wanted = c.value_as_shape(1)
    given = c.inputs[0]
    if wanted is None or given is None:
        return [wanted]
    if len(given) > len(wanted):
        raise ValueError(f"shape {format_dims(given)} has more dimensions than the one wanted")
    for have, want in zip(given[::-1], wanted[::-1]):
        if have is not None and want is not None and have not in (1, want):
            raise ValueError(
                f"shape {format_dims(given)} does not broadcast to {format_dims(wanted)}"
            )
    return [wanted]


@op(
    """
    BroadcastTo(input: T, shape: Tidx) -> output: T
    T: type
    Tidx: type in indices = int32
    """,
    shape=_broadcast_to_shape,
    static=("shape",),
    compiles=Compiles.ALWAYS,
)
def broadcast_to_kernel(xp: ArrayNamespace, x: Array, sizes: Array) -> Any:
    """Return x repeated to the shape.  Raises: InvalidArgumentError when it does not fit."""
    try:
        return xp.broadcast_to(x, sizes.tolist())
    except ValueError:
        raise InvalidArgumentError(
            f"BroadcastTo: shape {list(np.shape(x))} does not broadcast to {sizes.tolist()}"
        ) from None


@gradient("BroadcastTo")
def broadcast_to_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Sum over the dimensions that were repeated."""
    given, wanted = op.inputs
    if given.dims is not None and None not in given.dims and given.dims == op.outputs[0].dims:
        return [grad, None]
    sizes = apply_op("Shape", given, out_type=wanted.dtype)
    axes, _ = apply_op("BroadcastGradientArgs", sizes, wanted)
    summed = apply_op("Sum", grad, axes, keep_dims=True)
    return [apply_op("Reshape", summed, sizes), None]


@export("broadcast_to")
def broadcast_to(input: TensorLike, shape: ShapeLike, name: str | None = None) -> Tensor:
    """Return a tensor repeated along new dimensions and those of size 1, to the shape.

    Args:
      input: of any type.
      shape: int32 or int64, a vector.
    Raises: ValueError, or InvalidArgumentError, for a shape to which input does not stretch.
    """
    made: Tensor = apply_op("BroadcastTo", input, shape_argument(shape), name=name)
    return made


def _broadcast_args_shape(c: ShapeContext) -> list[Dims]:
    sizes = [None if dims is None or len(dims) != 1 else dims[0] for dims in c.inputs]
    for dims in c.inputs:
        if dims is not None and len(dims) != 1:
            raise ValueError(f"a shape must be a vector; found shape {format_dims(dims)}")
    if sizes[0] is None or sizes[1] is None:
        return [(None,)]
    return [(max(sizes[0], sizes[1]),)]


@op(
    """
    BroadcastArgs(s0: T, s1: T) -> r0: T
    T: type in indices = int32
    """,
    shape=_broadcast_args_shape,
    static=("s0", "s1"),
    compiles=Compiles.ALWAYS,
)
def broadcast_args_kernel(xp: ArrayNamespace, s0: Array, s1: Array) -> Any:
    """Return the shape that two shapes broadcast to."""
    return np.array(_broadcast_sizes(s0.tolist(), s1.tolist()), s0.dtype)


def _broadcast_sizes(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(tuple(left), tuple(right))
    except ValueError:
        raise InvalidArgumentError(
            f"shapes {list(left)} and {list(right)} do not broadcast"
        ) from None


def _two_vectors(c: ShapeContext) -> list[Dims]:
    return [(None,), (None,)]


@op(
    """
    BroadcastGradientArgs(s0: T, s1: T) -> r0: T, r1: T
    T: type in indices = int32
    """,
    shape=_two_vectors,
    static=("s0", "s1"),
    compiles=Compiles.ALWAYS,
)
def broadcast_gradient_args_kernel(xp: ArrayNamespace, s0: Array, s1: Array, *, T: DType) -> Any:
    """Return for each of two shapes the axes over which a gradient of their result is summed.

    An axis where both have size 1 belongs to both, unless the shapes are equal.
    """
    axes0, axes1 = _summed_axes(tuple(s0.tolist()), tuple(s1.tolist()))
    return sizes_array(axes0, T), sizes_array(axes1, T)


@functools.lru_cache(maxsize=4096)
def _summed_axes(
    left: tuple[int, ...], right: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if left == right:
        return (), ()
    rank = len(_broadcast_sizes(left, right))
    left = (1,) * (rank - len(left)) + left
    right = (1,) * (rank - len(right)) + right
    return (
        tuple(i for i in range(rank) if left[i] == 1),
        tuple(i for i in range(rank) if right[i] == 1),
    )


not_differentiable("BroadcastArgs", "BroadcastGradientArgs")


@export("broadcast_dynamic_shape")
def broadcast_dynamic_shape(shape_x: TensorLike, shape_y: TensorLike) -> Tensor:
    """Return the shape that two shapes, given as vectors, broadcast to."""
    made: Tensor = apply_op("BroadcastArgs", shape_x, shape_y)
    return made


@export("broadcast_static_shape")
def broadcast_static_shape(shape_x: TensorShape, shape_y: TensorShape) -> TensorShape:
    """Return the shape that two static shapes broadcast to.  Raises: ValueError."""
    return TensorShape(shapes.broadcast(as_shape(shape_x).sizes, as_shape(shape_y).sizes))


# ---- repeating


def _tile_shape(c: ShapeContext) -> list[Dims]:
    given, times = c.inputs[0], c.value_as_shape(1)
    if given is None:
        return [None if times is None else (None,) * len(times)]
    if times is None:
        return [(None,) * len(given)]
    if len(times) != len(given):
        raise ValueError(
            f"multiples must have one number for each dimension of {format_dims(given)}; found "
            f"{len(times)}"
        )
    return [tuple(None if a is None or b is None else a * b for a, b in zip(given, times))]


@op(
    """
    Tile(input: T, multiples: Tmultiples) -> output: T
    T: type
    Tmultiples: type in indices = int32
    """,
    shape=_tile_shape,
    static=("multiples",),
    compiles=Compiles.ALWAYS,
)
def tile_kernel(xp: ArrayNamespace, x: Array, multiples: Array) -> Any:
    """Return x repeated along each axis.

    Raises: InvalidArgumentError for multiples that are negative or do not fit the rank.
    """
    times = multiples.tolist()
    if len(times) != np.ndim(x) or any(n < 0 for n in times):
        raise InvalidArgumentError(
            f"Tile wants {np.ndim(x)} multiples of at least 0; found {times}"
        )
    return xp.tile(x, times)


@gradient("Tile")
def tile_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Sum over the repetitions: fold them into axes of their own first."""
    given, multiples = op.inputs
    sizes = shape(given, out_type=multiples.dtype)
    # [m0, s0, m1, s1, ..]
    paired = apply_op("Pack", [multiples, sizes], axis=1)
    folded = apply_op("Reshape", grad, apply_op("Reshape", paired, [-1]))
    axes = apply_op("Range", 0, apply_op("Size", paired), 2)
    summed = apply_op("Sum", folded, axes)
    if given.dims is not None:
        summed.set_shape(given.dims)
    return [summed, None]


@export("tile", "manip.tile")
def tile(input: TensorLike, multiples: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor repeated along each axis as often as multiples says.

    Args:
      input: of any shape and type.
      multiples: int32 or int64, one number for each dimension, at least 0.
    Returns: a tensor whose sizes are those of input times multiples.
    Raises: InvalidArgumentError for another count of multiples, or a negative one.
    """
    made: Tensor = apply_op("Tile", input, multiples, name=name)
    return made
