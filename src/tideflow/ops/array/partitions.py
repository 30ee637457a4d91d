"""Splitting a tensor by a vector of partitions, and putting such parts together again.

Source: tensorflow/core/ops/data_flow_ops.cc, kernels/dynamic_partition_op.cc and
dynamic_stitch_op.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, format_dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError


def _partition_shape(c: ShapeContext) -> list[Dims]:
    data, partitions = c.inputs
    count = len(c.node.output_types)
    if data is None or partitions is None:
        return [None] * count
    prefix = data[: len(partitions)]
    if not shapes.compatible(prefix, partitions):
        raise ValueError(
            f"partitions of shape {format_dims(partitions)} must be a prefix of data's shape "
            f"{format_dims(data)}"
        )
    return [(None, *data[len(partitions) :])] * count


@op(
    """
    DynamicPartition(data: T, partitions: int32) -> outputs: num_partitions * T
    num_partitions: int >= 1
    T: type
    """,
    shape=_partition_shape,
)
def dynamic_partition_kernel(
    ctx: KernelContext, data: Array, partitions: Array, *, num_partitions: int
) -> Any:
    """Return for each partition the slices of data that belong to it, in order."""
    data, partitions = np.asarray(data), np.asarray(partitions)
    if data.shape[: partitions.ndim] != partitions.shape:
        raise InvalidArgumentError(
            "data.shape must start with partitions.shape, got data.shape = "
            f"{format_dims(data.shape)}, partitions.shape = {format_dims(partitions.shape)}"
        )
    flat = partitions.reshape(-1)
    if flat.size and not (flat.min() >= 0 and flat.max() < num_partitions):
        at = int(np.argmax((flat < 0) | (flat >= num_partitions)))
        raise InvalidArgumentError(
            f"partitions{list(map(int, np.unravel_index(at, partitions.shape)))} = {flat[at]} is "
            f"not in [0, {num_partitions})"
        )
    rows = data.reshape(flat.size, *data.shape[partitions.ndim :])
    return [rows[flat == part] for part in range(num_partitions)]


@gradient("DynamicPartition")
def _dynamic_partition_grad(op: Operation, *grads: Tensor) -> list[Any]:
    """Put the gradients of the parts where their slices came from."""
    data, partitions = op.inputs
    count = op.attrs["num_partitions"]
    sizes = apply_op("Shape", partitions)
    numbers = apply_op("Reshape", apply_op("Range", 0, apply_op("Size", partitions), 1), sizes)
    origins = apply_op("DynamicPartition", numbers, partitions, num_partitions=count)
    rows = apply_op("ParallelDynamicStitch", origins, [convert_to_tensor(g) for g in grads])
    return [apply_op("Reshape", rows, apply_op("Shape", data)), None]


def _stitch_shape(c: ShapeContext) -> list[Dims]:
    count = c.attrs["N"]
    known = [c.value(i) for i in range(count)]
    rest: Dims = None
    for indices, data in zip(c.inputs[:count], c.inputs[count:]):
        if indices is None or data is None:
            continue
        if not shapes.compatible(data[: len(indices)], indices):
            raise ValueError(
                f"data of shape {format_dims(data)} must start with the shape of its indices, "
                f"{format_dims(indices)}"
            )
        rest = shapes.merge(rest, data[len(indices) :])
    if rest is None:
        return [None]
    if any(value is None for value in known):
        return [(None, *rest)]
    return [(_stitched_size(known), *rest)]


def _stitched_size(indices: list[Any]) -> int:
    return 1 + max((int(part.max()) for part in indices if part.size), default=-1)


def _stitch(xp: ArrayNamespace, indices: list[Any], data: list[Any]) -> Any:
    """Return rows of data at their indices; the last to name an index wins, gaps are zeros."""
    parts = []
    for i, (at, values) in enumerate(zip(indices, data)):
        if values.shape[: at.ndim] != at.shape:
            raise InvalidArgumentError(
                f"data[{i}].shape must start with indices[{i}].shape, got data[{i}].shape = "
                f"{format_dims(values.shape)}, indices[{i}].shape = {format_dims(at.shape)}"
            )
        parts.append(xp.reshape(values, (at.size, *values.shape[at.ndim :])))
    rows = {part.shape[1:] for part in parts}
    if len(rows) > 1:
        raise InvalidArgumentError(
            "the slices of all data must have one shape; found "
            + ", ".join(format_dims(row) for row in sorted(rows))
        )
    flat = np.concatenate([np.reshape(at, -1) for at in indices])
    if flat.size and flat.min() < 0:
        raise InvalidArgumentError(f"indices must be at least 0; found {flat.min()}")
    joined = parts[0] if len(parts) == 1 else xp.concatenate(parts)
    size = _stitched_size([flat])
    source = np.full(size, -1)
    source[flat] = np.arange(flat.size)
    if not size or (source >= 0).all():
        return joined[source]
    found = joined[np.maximum(source, 0)]
    if found.dtype == object:
        found[source < 0] = b""
        return found
    filled = np.reshape(source >= 0, (size,) + (1,) * (found.ndim - 1))
    return xp.where(filled, found, xp.zeros((), found.dtype))


@op(
    """
    DynamicStitch(indices: N * int32, data: N * T) -> merged: T
    N: int >= 1
    T: type
    """,
    shape=_stitch_shape,
    static=("indices",),
    compiles=Compiles.KNOWN_INPUTS,
    host_types={"T": (dtypes.int32,)},
)
def dynamic_stitch_kernel(xp: ArrayNamespace, indices: list[Any], data: list[Any]) -> Any:
    """Interleave slices by their indices."""
    return _stitch(xp, indices, data)


@op(
    """
    ParallelDynamicStitch(indices: N * int32, data: N * T) -> merged: T
    N: int >= 1
    T: type
    """,
    shape=_stitch_shape,
    static=("indices",),
    compiles=Compiles.NEVER,
    host_types={"T": (dtypes.int32,)},
)
def parallel_dynamic_stitch_kernel(xp: ArrayNamespace, indices: list[Any], data: list[Any]) -> Any:
    """Interleave slices by their indices; which of several for one index wins is open."""
    return _stitch(xp, indices, data)


@gradient("DynamicStitch", "ParallelDynamicStitch")
def _dynamic_stitch_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Give each part the rows of the gradient that it became."""
    count = op.attrs["N"]
    dense = convert_to_tensor(grad)
    indices = op.inputs[:count]
    return [None] * count + [apply_op("GatherV2", dense, at, 0) for at in indices]


@export("dynamic_partition")
def dynamic_partition(
    data: TensorLike, partitions: TensorLike, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """Split data into num_partitions tensors: slice i goes to number partitions[i].

    Shapes: data [*p, ...], partitions [*p] int32; each output [n, ...] in the order of data.
    Raises: InvalidArgumentError for a partition outside [0, num_partitions), when run.
    """
    found: list[Tensor] = apply_op(
        "DynamicPartition", data, partitions, num_partitions=num_partitions, name=name
    )
    return found


@export("dynamic_stitch")
def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Tensor:
    """Interleave tensors: `merged[indices[m][i, ...]] = data[m][i, ...]`, later ones winning.

    Shapes: indices[m] [*p] int32; data[m] [*p, ...]; merged [1 + largest index, ...].
    """
    merged: Tensor = apply_op("DynamicStitch", list(indices), list(data), name=name)
    return merged


@export("parallel_dynamic_stitch")
def parallel_dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Tensor:
    """Interleave tensors (see dynamic_stitch); no index should come twice."""
    merged: Tensor = apply_op("ParallelDynamicStitch", list(indices), list(data), name=name)
    return merged
