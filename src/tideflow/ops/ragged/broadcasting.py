"""Shapes, and tensors, ragged or not, broadcast to each other.

Axis by axis, from the outside: for each slice of the target the place is computed of the slice of
the source that comes to stand there.  An axis of the source is stretched where all of its rows were
said to have one value; others must have rows of the lengths that the target's have.
Source: tensorflow/python/ops/ragged/dynamic_ragged_shape.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.ops.ragged import partition
from tideflow.ops.ragged.dynamic_shape import DynamicRaggedShape
from tideflow.ops.ragged.row_partition import RowPartition, known
from tideflow.ops.ragged.tensor import RaggedTensor
from tideflow.wire import dtypes

_FAILED = "Cannot broadcast"


def _is_one(size: Tensor) -> Tensor:
    found: Tensor = apply_op("Equal", size, partition.number(1, size.dtype))
    return found


def _either(*conditions: Tensor) -> Tensor:
    first, *rest = conditions
    for other in rest:
        first = apply_op("LogicalOr", first, other)
    return first


def _stretched(places: Tensor, own: Tensor) -> Tensor:
    """Return places, all of them 0 where there is one slice only."""
    kept = apply_op("Cast", apply_op("LogicalNot", _is_one(own)), DstT=places.dtype)
    found: Tensor = apply_op("Mul", places, kept)
    return found


def _chosen(values: Tensor, places: Tensor) -> Tensor:
    found: Tensor = apply_op("GatherV2", values, places, 0)
    return found


# ---- places


def _outer_places(own: Tensor, wanted: Tensor) -> Tensor:
    """Return the places of the first axis.  own, wanted: sizes of source and target."""
    fits = _either(_is_one(own), apply_op("Equal", own, wanted))
    return partition.require(_stretched(partition.up_to(wanted), own), (fits, _FAILED))


def _inner_places(places: Tensor, own: RowPartition, wanted: RowPartition) -> Tensor:
    """Return the places of the values of rows whose places are given."""
    rows = _chosen(places, wanted.value_rowids())
    offsets = wanted.offsets_in_rows()
    alike = apply_op("Equal", _chosen(own.row_lengths(), places), wanted.row_lengths())
    length = own.uniform_row_length()
    if length is not None:
        offsets, alike = _stretched(offsets, length), _either(_is_one(length), alike)
    at = apply_op("AddV2", _chosen(own.row_starts(), rows), offsets)
    return partition.require(at, (alike, _FAILED))


def _rows_of_rank(shape: DynamicRaggedShape, rank: int) -> tuple[Tensor, list[RowPartition]]:
    """Return the first size and all row partitions of a shape, with axes of size 1 before it."""
    own = shape.rank or 0
    first = partition.number(shape[0], shape.dtype)
    rows = list(shape.with_partitions(own - 1).row_partitions)
    if own == rank:
        return first, rows
    size = known(first)
    row_length = first if size is None else int(size)
    one = [
        RowPartition.from_uniform_row_length(1, nrows=1, dtype=shape.dtype)
        for _ in range(rank - own - 1)
    ]
    outer = RowPartition.from_uniform_row_length(row_length, nrows=1, dtype=shape.dtype)
    return partition.number(1, shape.dtype), [*one, outer, *rows]


# ---- shapes


def broadcast_shapes(x: DynamicRaggedShape, y: DynamicRaggedShape) -> DynamicRaggedShape:
    """Return the least shape to which both can be broadcast.

    Raises: ValueError for unknown ranks, or two shapes with row partitions of different types;
    InvalidArgumentError where sizes do not go together.
    """
    if x.row_partitions and y.row_partitions:
        if x.dtype != y.dtype:
            raise ValueError("Dtypes don't match")
    elif x.dtype != y.dtype:
        partitioned = [shape for shape in (x, y) if shape.row_partitions]
        kind = partitioned[0].dtype if partitioned else dtypes.int64
        x, y = x.with_dtype(kind), y.with_dtype(kind)
    if x.rank is None or y.rank is None:
        raise ValueError("Unable to broadcast: unknown rank")
    if 0 in (x.rank, y.rank):
        return y if x.rank == 0 else x
    rank = max(x.rank, y.rank)
    (one, rows_x), (other, rows_y) = _rows_of_rank(x, rank), _rows_of_rank(y, rank)
    first = _larger(one, other)
    if rank == 1:
        return DynamicRaggedShape([], [first], dtype=x.dtype)
    at_x, at_y = _outer_places(one, first), _outer_places(other, first)
    merged = []
    for rows in zip(rows_x, rows_y):
        wanted = _merged(first, (at_x, at_y), rows)
        at_x, at_y = (_inner_places(at, own, wanted) for at, own in zip((at_x, at_y), rows))
        first = wanted.nvals()
        merged.append(wanted)
    counts = [s.num_row_partitions + rank - (s.rank or 0) for s in (x, y) if s.row_partitions]
    return DynamicRaggedShape.from_row_partitions(merged).with_partitions(max(counts, default=0))


def _larger(one: Tensor, other: Tensor) -> Tensor:
    """Return the size to which two sizes are broadcast.  Raises: InvalidArgumentError for none."""
    sizes = [known(size) for size in (one, other)]
    if sizes[0] is not None and (int(sizes[0]) == 1 or sizes[0] == sizes[1]):
        return other
    if sizes[1] is not None and int(sizes[1]) == 1:
        return one
    found = apply_op("SelectV2", _is_one(one), other, one)
    fits = _either(_is_one(one), _is_one(other), apply_op("Equal", one, other))
    return partition.require(found, (fits, _FAILED))


def _merged(
    count: Tensor, places: tuple[Tensor, Tensor], rows: tuple[RowPartition, RowPartition]
) -> RowPartition:
    """Return the rows to which two partitions are broadcast.

    Args:
      count: how many rows that are.
      places: for each of these rows, which one of either partition comes to stand there.
    """
    sizes = [each.uniform_row_length() for each in rows]
    one, other = sizes
    if one is not None and other is not None:
        length = _larger(one, other)
        return RowPartition.from_uniform_row_length(
            length, nrows=count, dtype=rows[0].dtype, validate=False
        )
    lengths = [_chosen(each.row_lengths(), at) for each, at in zip(rows, places)]
    alike = apply_op("Equal", *lengths)
    stretched = [size for size in sizes if size is not None]
    fits = _either(*map(_is_one, stretched), alike)
    kept = lengths[0] if one is None else lengths[1]
    return RowPartition.from_row_lengths(
        partition.require(kept, (fits, _FAILED)), dtype=rows[0].dtype, validate=False
    )


# ---- tensors


def broadcast_to(value: Any, shape: DynamicRaggedShape) -> Any:
    """Return a tensor, ragged or not, repeated so that it has a shape.

    Raises: TypeError for another kind of shape; ValueError for one of a lower rank, or of another
    type than the row splits; InvalidArgumentError where sizes do not go together.
    """
    if not isinstance(shape, DynamicRaggedShape):
        raise TypeError("shape must be a DynamicRaggedShape")
    given = value if isinstance(value, RaggedTensor) else convert_to_tensor(value)
    if isinstance(given, RaggedTensor):
        if not shape.row_partitions:
            shape = shape.with_dtype(given.row_splits.dtype)
        elif given.row_splits.dtype != shape.dtype:
            raise ValueError("Cannot coerce row_splits.dtype")
        flat = given.flat_values
    else:
        shape = shape if shape.row_partitions else shape.with_dtype(dtypes.int64)
        flat = given
    source = DynamicRaggedShape.from_tensor(given, shape.dtype)
    if source.rank is None or shape.rank is None or shape.inner_rank is None:
        raise ValueError("Rank of source and target must be statically known")
    if source.rank > shape.rank:
        raise ValueError("Cannot broadcast to a shape with smaller rank")
    if shape.rank == 0:
        return flat
    kept = max(source.rank - shape.inner_rank, 0)
    if source.num_row_partitions != kept:
        flat = apply_op("Reshape", flat, source.with_partitions(kept).inner_shape)
    if source.rank >= shape.inner_rank:
        flat = _chosen(flat, _places(source, shape))
    return shape.add_rows(apply_op("BroadcastTo", flat, shape.inner_shape))


def _places(source: DynamicRaggedShape, shape: DynamicRaggedShape) -> Tensor:
    """Return for each innermost value of a shape which one of the source comes to stand there."""
    rank = shape.rank or 0
    own, rows = _rows_of_rank(source, rank)
    wanted, partitions = _rows_of_rank(shape, rank)
    at = _outer_places(own, wanted)
    for one, other in list(zip(rows, partitions))[: shape.num_row_partitions]:
        at = _inner_places(at, one, other)
    return at
