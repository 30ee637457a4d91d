"""Index tuples for rows that are assigned batch by batch.

Source: tensorflow/python/ops/state_ops.py (batch_scatter_update).
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike


def in_batches(indices: TensorLike) -> Any:
    """Return the places that indices [b..., n] have in tensors [b..., size, ...]: [b..., n, rank].

    Raises: ValueError for indices whose shape is not known.
    """
    given = convert_to_tensor(indices)
    depth = given.shape.rank
    if depth is None or not given.shape.is_fully_defined():
        raise ValueError(f"batch_scatter_update needs indices of a full shape, not {given.shape}")
    return apply_op("Pack", [*_positions(given), given], axis=depth)


def _positions(indices: Tensor) -> list[Tensor]:
    """Return for each batch dimension of indices a tensor of the positions along it."""
    sizes = [int(size or 0) for size in indices.shape.as_list()]
    found = []
    for axis in range(len(sizes) - 1):
        line = [1] * len(sizes)
        line[axis] = sizes[axis]
        counted = apply_op("Range", 0, sizes[axis], 1)
        shaped = apply_op("Reshape", apply_op("Cast", counted, DstT=indices.dtype), line)
        found.append(apply_op("BroadcastTo", shaped, sizes))
    return found
