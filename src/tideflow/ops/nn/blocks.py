"""Rearrangements: bits, grids, and blocks of space, depth and batch.

Source: tensorflow/core/ops/array_ops.cc; core/kernels/bitcast_op.cc, spacetobatch_op.cc,
depthtospace_op.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims, format_dims
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.nn.conv_geometry import from_nhwc, to_nhwc
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError

# ---- bits


def _bitcast_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    before, after = c.attrs["T"].size, c.attrs["type"].size
    if given is None or before == after:
        return [given]
    if before > after:
        return [(*given, before // after)]
    if not given or given[-1] not in (None, after // before):
        raise ValueError(
            f"the last size of {format_dims(given)} must be {after // before} to give one "
            f"{c.attrs['type'].name}"
        )
    return [given[:-1]]


@op(
    """
    Bitcast(input: T) -> output: type
    T: type in numbers
    type: type in numbers
    """,
    shape=_bitcast_shape,
)
def bitcast_kernel(xp: ArrayNamespace, x: Array, *, T: DType, type: DType) -> Any:
    """Return the same bytes read as another type; a last dimension makes up for the size."""
    before, after = T.size, type.size
    sizes = np.shape(x)
    if after > before and (not sizes or sizes[-1] != after // before):
        raise InvalidArgumentError(
            f"Bitcast from {T.name} to {type.name}: the last size of {list(sizes)} must be "
            f"{after // before}"
        )
    numpy_type = type.as_numpy_dtype
    if before == after:
        return x.view(numpy_type)
    if after > before:
        joined = np.ascontiguousarray(x) if xp is np else x
        return joined.view(numpy_type).reshape(sizes[:-1])
    spread = x.reshape((*sizes, 1))
    return (np.ascontiguousarray(spread) if xp is np else spread).view(numpy_type)


not_differentiable("Bitcast")


# ---- grids


# ---- blocks


def _space_rank(block: Any, pairs: Any, rank: int, what: str) -> tuple[list[int], list[list[int]]]:
    sizes, edges = block.reshape(-1).tolist(), pairs.tolist()
    if (
        block.ndim != 1
        or pairs.shape != (len(sizes), 2)
        or rank < len(sizes) + 1
        or any(n < 1 for n in sizes)
    ):
        raise InvalidArgumentError(
            f"{what}: a block of shape {list(block.shape)}, {sizes}, and {edges} do not go with "
            f"rank {rank}"
        )
    if pairs.size and pairs.min() < 0:
        raise InvalidArgumentError(f"{what}: {edges} must not be negative")
    return sizes, edges


def _space_to_batch_shape(c: ShapeContext) -> list[Dims]:
    return [_blocked(c, 1)]


def _batch_to_space_shape(c: ShapeContext) -> list[Dims]:
    return [_blocked(c, -1)]


def _blocked(c: ShapeContext, sign: int) -> Dims:
    given, block, pairs = c.inputs[0], c.value(1), c.value(2)
    if given is None or block is None or pairs is None:
        return None if given is None else (None,) * len(given)
    sizes, edges = _space_rank(block, pairs, len(given), c.node.op)
    count = int(np.prod(sizes, dtype=np.int64))
    found = list(given)
    if found[0] is not None:
        found[0] = found[0] * count if sign > 0 else found[0] // count
    for axis, (n, edge) in enumerate(zip(sizes, edges), 1):
        size = found[axis]
        if size is not None:
            found[axis] = (size + sum(edge)) // n if sign > 0 else size * n - sum(edge)
    return tuple(found)


@op(
    """
    SpaceToBatchND(input: T, block_shape: Tblock_shape, paddings: Tpaddings) -> output: T
    T: type
    Tblock_shape: type in indices = int32
    Tpaddings: type in indices = int32
    """,
    shape=_space_to_batch_shape,
    static=("block_shape", "paddings"),
)
def space_to_batch_nd_kernel(xp: ArrayNamespace, x: Array, block: Array, paddings: Array) -> Any:
    """Pad x and move each place within a block to the batch dimension.

    Raises: InvalidArgumentError where padded sizes are no multiples of the block's.
    """
    sizes, edges = _space_rank(block, paddings, x.ndim, "SpaceToBatchND")
    count = len(sizes)
    padded = xp.pad(x, [(0, 0), *edges, *[(0, 0)] * (x.ndim - count - 1)])
    if any(n % b for n, b in zip(padded.shape[1:], sizes)):
        raise InvalidArgumentError(
            f"SpaceToBatchND: padded shape {list(padded.shape)} does not divide into {sizes}"
        )
    tail = padded.shape[count + 1 :]
    split = [n for pair in zip(padded.shape[1:], sizes) for n in (pair[0] // pair[1], pair[1])]
    parts = padded.reshape([padded.shape[0], *split, *tail])
    blocks = [2 + 2 * i for i in range(count)]
    order = [*blocks, 0, *[1 + 2 * i for i in range(count)], *range(1 + 2 * count, parts.ndim)]
    outer = [padded.shape[0] * int(np.prod(sizes, dtype=np.int64)), *split[::2], *tail]
    return xp.transpose(parts, order).reshape(outer)


@op(
    """
    BatchToSpaceND(input: T, block_shape: Tblock_shape, crops: Tcrops) -> output: T
    T: type
    Tblock_shape: type in indices = int32
    Tcrops: type in indices = int32
    """,
    shape=_batch_to_space_shape,
    static=("block_shape", "crops"),
)
def batch_to_space_nd_kernel(xp: ArrayNamespace, x: Array, block: Array, crops: Array) -> Any:
    """Undo SpaceToBatchND: move places from the batch dimension into blocks, and crop."""
    sizes, edges = _space_rank(block, crops, x.ndim, "BatchToSpaceND")
    count, factor = len(sizes), int(np.prod(sizes, dtype=np.int64))
    if x.shape[0] % factor:
        raise InvalidArgumentError(
            f"BatchToSpaceND: batch {x.shape[0]} does not divide by the block {sizes}"
        )
    space, tail = x.shape[1 : count + 1], x.shape[count + 1 :]
    parts = x.reshape([*sizes, x.shape[0] // factor, *space, *tail])
    order = [count]
    for i in range(count):
        order += [count + 1 + i, i]
    order += range(2 * count + 1, parts.ndim)
    wide = [n * b for n, b in zip(space, sizes)]
    if any(a + b > n for (a, b), n in zip(edges, wide)):
        raise InvalidArgumentError(f"BatchToSpaceND: crops {edges} leave nothing of {wide}")
    joined = xp.transpose(parts, order).reshape([x.shape[0] // factor, *wide, *tail])
    cut = tuple(slice(a, n - b) for (a, b), n in zip(edges, wide))
    return joined[(slice(None), *cut)]


@gradient("SpaceToBatchND")
def space_to_batch_nd_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Undo the move."""
    return [apply_op("BatchToSpaceND", grad, *op.inputs[1:]), None, None]


@gradient("BatchToSpaceND")
def batch_to_space_nd_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Undo the move."""
    return [apply_op("SpaceToBatchND", grad, *op.inputs[1:]), None, None]


def _of_images(c: ShapeContext, sign: int) -> list[Dims]:
    given = with_rank(c.inputs[0], 4, "input")
    with_rank(c.inputs[1], 2, "the pairs of sizes")
    pairs, n = c.value(1), c.attrs["block_size"]
    found: list[int | None] = [None, None, None, given[3]]
    if given[0] is not None:
        found[0] = given[0] * n * n if sign > 0 else given[0] // (n * n)
    if pairs is not None:
        _, edges = _space_rank(np.array([n, n]), pairs, 4, c.node.op)
        for axis, (size, edge) in enumerate(zip(given[1:3], edges), 1):
            if size is not None:
                found[axis] = (size + sum(edge)) // n if sign > 0 else size * n - sum(edge)
    return [tuple(found)]


def _check_images(x: Array, what: str) -> None:
    if x.ndim != 4:
        raise InvalidArgumentError(f"{what}: input must have rank 4; found {list(x.shape)}")


@op(
    """
    SpaceToBatch(input: T, paddings: Tpaddings) -> output: T
    T: type
    Tpaddings: type in indices = int32
    block_size: int >= 2
    """,
    shape=lambda c: _of_images(c, 1),
    static=("paddings",),
)
def space_to_batch_kernel(xp: ArrayNamespace, x: Array, paddings: Array, *, block_size: int) -> Any:
    """Pad images and move each place within square blocks to the batch dimension."""
    _check_images(x, "SpaceToBatch")
    return space_to_batch_nd_kernel(xp, x, np.array([block_size] * 2), paddings)


@op(
    """
    BatchToSpace(input: T, crops: Tidx) -> output: T
    T: type
    block_size: int >= 2
    Tidx: type in indices = int32
    """,
    shape=lambda c: _of_images(c, -1),
    static=("crops",),
)
def batch_to_space_kernel(xp: ArrayNamespace, x: Array, crops: Array, *, block_size: int) -> Any:
    """Undo SpaceToBatch: move places from the batch dimension into square blocks, and crop."""
    _check_images(x, "BatchToSpace")
    return batch_to_space_nd_kernel(xp, x, np.array([block_size] * 2), crops)


@gradient("SpaceToBatch")
def space_to_batch_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Undo the move."""
    n = op.attrs["block_size"]
    return [apply_op("BatchToSpace", grad, op.inputs[1], block_size=n), None]


@gradient("BatchToSpace")
def batch_to_space_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Undo the move."""
    n = op.attrs["block_size"]
    return [apply_op("SpaceToBatch", grad, op.inputs[1], block_size=n), None]


def _depth_shape(c: ShapeContext) -> list[Dims]:
    given, n = c.inputs[0], c.attrs["block_size"]
    if given is None:
        return [(None,) * 4]
    if len(given) != 4:
        raise ValueError(f"input must have rank 4; its shape is {format_dims(given)}")
    nhwc = c.attrs["data_format"] == "NHWC"
    spread = c.node.op == "DepthToSpace"
    batch, *rest = given
    depth = rest.pop(-1 if nhwc else 0)
    if spread:
        rest = [None if s is None else s * n for s in rest]
        depth = None if depth is None else depth // (n * n)
    else:
        rest = [None if s is None else s // n for s in rest]
        depth = None if depth is None else depth * n * n
    return [(batch, *rest, depth) if nhwc else (batch, depth, *rest)]


_DEPTH_ATTRS = """
    T: type
    block_size: int >= 2
    data_format: string in {NHWC, NCHW, NCHW_VECT_C} = 'NHWC'
    """


@op(
    "DepthToSpace(input: T) -> output: T" + _DEPTH_ATTRS,
    shape=_depth_shape,
    compiles=Compiles.ALWAYS,
)
def depth_to_space_kernel(
    xp: ArrayNamespace, x: Array, *, block_size: int, data_format: str
) -> Any:
    """Move depth into blocks of space."""
    n = block_size
    last = to_nhwc(x, data_format)
    batch, height, width, depth = last.shape
    if depth % (n * n):
        raise InvalidArgumentError(f"DepthToSpace: depth {depth} does not divide by {n * n}")
    parts = last.reshape(batch, height, width, n, n, depth // (n * n))
    spread = xp.transpose(parts, (0, 1, 3, 2, 4, 5))
    spread = spread.reshape(batch, height * n, width * n, depth // (n * n))
    return from_nhwc(spread, data_format)


@op(
    "SpaceToDepth(input: T) -> output: T" + _DEPTH_ATTRS,
    shape=_depth_shape,
    compiles=Compiles.ALWAYS,
)
def space_to_depth_kernel(
    xp: ArrayNamespace, x: Array, *, block_size: int, data_format: str
) -> Any:
    """Move blocks of space into depth."""
    n = block_size
    last = to_nhwc(x, data_format)
    batch, height, width, depth = last.shape
    if height % n or width % n:
        raise InvalidArgumentError(f"SpaceToDepth: {[height, width]} does not divide by {n}")
    parts = last.reshape(batch, height // n, n, width // n, n, depth)
    joined = xp.transpose(parts, (0, 1, 3, 2, 4, 5))
    joined = joined.reshape(batch, height // n, width // n, depth * n * n)
    return from_nhwc(joined, data_format)


@gradient("DepthToSpace")
def depth_to_space_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Undo the move."""
    attrs = {name: op.attrs[name] for name in ("block_size", "data_format")}
    return [apply_op("SpaceToDepth", grad, **attrs)]


@gradient("SpaceToDepth")
def space_to_depth_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Undo the move."""
    attrs = {name: op.attrs[name] for name in ("block_size", "data_format")}
    return [apply_op("DepthToSpace", grad, **attrs)]
