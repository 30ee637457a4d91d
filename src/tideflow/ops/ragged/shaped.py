"""Ragged tensors in other shapes: squeeze, reshape, gather_nd, and products of their matrices.

Source: tensorflow/python/ops/ragged/ragged_squeeze_op.py, ragged_gather_ops.py,
ragged_matmul_op.py, dynamic_ragged_shape.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.array import getitem as dense_getitem
from tideflow.ops.export import export, overload
from tideflow.ops.ragged import partition
from tideflow.ops.ragged.makers import from_row_lengths, from_tensor
from tideflow.ops.ragged.rows import gather
from tideflow.ops.ragged.tensor import RaggedTensor, rows_of


@overload("squeeze")
def squeeze(
    input: RaggedTensor,
    axis: Any = None,
    name: str | None = None,
    squeeze_dims: Any = None,
) -> Any:
    """Return a ragged tensor without some axes of size 1.

    Raises: ValueError without axes, or for one that is not there; InvalidArgumentError for one
    of another size.
    """
    given = axis if axis is not None else squeeze_dims
    if given is None:
        raise ValueError("Ragged.squeeze must have an axis argument.")
    rank = input.shape.rank or 0
    axes = {int(a) + (rank if int(a) < 0 else 0) for a in _listed(given)}
    if axes and not 0 <= min(axes) <= max(axes) < rank:
        raise ValueError(f"axis {given} is out of bounds for rank {rank}")
    found: Any = input
    for at in sorted(axes, reverse=True):
        found = _without(found, at)
    return found


def _listed(axis: Any) -> list[Any]:
    return list(axis) if isinstance(axis, (list, tuple)) else [axis]


def _without(value: Any, axis: int) -> Any:
    if not isinstance(value, RaggedTensor):
        return apply_op("Squeeze", value, squeeze_dims=[axis])
    if axis > 1:
        return value.with_values(_without(value.values, axis - 1))
    one = partition.number(1, value.row_splits.dtype)
    sizes = value.row_lengths() if axis else value.nrows()
    checked = partition.require(
        value.row_splits, (apply_op("Equal", sizes, one), f"axis {axis} has size 1")
    )
    values = rows_of(value.values, checked).values
    return values if axis == 0 else _after(values, checked)


def _after(value: Any, checked: Tensor) -> Any:
    """Return a value that is there only where checked splits are."""
    if isinstance(value, RaggedTensor):
        return rows_of(value.values, _after(value.row_splits, checked), value.uniform_row_length)
    zero = apply_op("Cast", apply_op("ZerosLike", dense_getitem(checked, 0)), DstT="int32")
    rows = apply_op("AddV2", apply_op("Shape", value), zero)
    return apply_op("Reshape", value, rows)


# ---- gather_nd


@overload("gather_nd")
def gather_nd(
    params: Any, indices: Any, batch_dims: int = 0, name: str | None = None, **_: Any
) -> Any:
    """Return the parts of a ragged tensor that indices [..., axes] name.

    Raises: ValueError for batch_dims, or indices whose last size is not known;
    InvalidArgumentError for what is not there.
    """
    if batch_dims:
        raise ValueError("gather_nd of ragged tensors takes no batch_dims")
    if isinstance(indices, RaggedTensor):
        return indices.with_flat_values(gather_nd(params, indices.flat_values))
    at = convert_to_tensor(indices)
    if not at.dims or at.dims[-1] is None:
        raise ValueError("gather_nd needs indices of rank 1 at least, and of a known last size")
    if not isinstance(params, RaggedTensor):
        return apply_op("GatherNd", params, at)
    if at.dims[-1] == 0:
        raise ValueError("gather_nd of a ragged tensor needs indices of at least one axis")
    first = dense_getitem(at, (Ellipsis, 0))
    if at.dims[-1] == 1:
        return gather(params, first)
    kind = params.row_splits.dtype
    row, column = (partition.number(x, kind) for x in (first, dense_getitem(at, (Ellipsis, 1))))
    starts, lengths = (
        apply_op("GatherV2", x, row, 0) for x in (params.row_starts(), params.row_lengths())
    )
    inside = apply_op(
        "LogicalAnd",
        apply_op("GreaterEqual", column, partition.number(0, kind)),
        apply_op("Less", column, lengths),
    )
    place = partition.require(apply_op("AddV2", starts, column), (inside, "inside its row"))
    rest = partition.number(dense_getitem(at, (Ellipsis, slice(2, None))), kind)
    whole = apply_op("ConcatV2", [apply_op("ExpandDims", place, -1), rest], -1)
    return gather_nd(params.values, whole)


# ---- matrices


class _Matrices:
    """A batch of matrices, filled up with zeros to one size.

    Attributes:
      dense: [batch, most rows, most columns].
      rows, columns: how many each matrix has [batch]; None where all have as many.
    """

    def __init__(self, value: Any, is_turned: bool, is_conjugate: bool) -> None:
        self.rows: Any = None
        self.columns: Any = None
        if isinstance(value, RaggedTensor):
            self.dense = value.to_tensor()
            self.rows = value.row_lengths()
            if isinstance(value.values, RaggedTensor):
                self.columns = _one_length(value)
        else:
            self.dense = convert_to_tensor(value)
        if is_turned:
            self.dense = apply_op("Transpose", self.dense, [0, 2, 1])
            self.rows, self.columns = self.columns, self.rows
        if is_conjugate:
            self.dense = apply_op("Conj", self.dense)


def _one_length(value: RaggedTensor) -> Any:
    """Return how long the rows of each matrix are.  Raises: InvalidArgumentError if they differ."""
    lengths, ids, count = value.values.row_lengths(), value.value_rowids(), value.nrows()
    most = apply_op("UnsortedSegmentMax", lengths, ids, count)
    zero = partition.number(0, lengths.dtype)
    alike = apply_op("Equal", lengths, apply_op("GatherV2", most, ids, 0))
    return partition.require(
        apply_op("Maximum", most, zero),
        (alike, "the matrices in `a` and `b` may not be ragged in their innermost dimension"),
    )


@overload("linalg.matmul")
def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    name: str | None = None,
    **_: Any,
) -> Any:
    """Return the products of matrices, of which either batch may be ragged.

    Shapes: [batch, (rows), (inner)] and [batch, (inner), (columns)] to [batch, (rows), (columns)].
    Raises: ValueError for other ranks, or matrices said to be both transposed and adjoint;
    InvalidArgumentError for sizes that do not fit.
    """
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise ValueError("Only one of transpose and adjoint may be True.")
    given = [x if isinstance(x, RaggedTensor) else convert_to_tensor(x) for x in (a, b)]
    ranks = [x.shape.rank for x in given]
    if ranks[0] != ranks[1]:
        raise ValueError("`a` and `b` must have the same rank.")
    if ranks[0] == 2:
        one, other = (_as_matrix(x) for x in given)
        return apply_op(
            "BatchMatMulV2",
            *(
                apply_op("Conj", x) if conj else x
                for x, conj in ((one, adjoint_a), (other, adjoint_b))
            ),
            adj_x=transpose_a or adjoint_a,
            adj_y=transpose_b or adjoint_b,
        )
    if ranks[0] is None or ranks[0] < 2:
        raise ValueError(f"matmul needs matrices; found ranks {ranks}")
    if ranks[0] > 3:
        return _of_batches(given, (transpose_a, transpose_b, adjoint_a, adjoint_b))
    one, other = (
        _Matrices(x, turned, conj)
        for x, turned, conj in (
            (given[0], transpose_a or adjoint_a, adjoint_a),
            (given[1], transpose_b or adjoint_b, adjoint_b),
        )
    )
    return _product(one, other)


def _as_matrix(value: Any) -> Any:
    if not isinstance(value, RaggedTensor):
        return value
    lengths = value.row_lengths()
    most = apply_op("Max", lengths, [0])
    alike = (
        apply_op("Equal", lengths, most),
        "the matrices in `a` and `b` may not be ragged in their innermost dimension",
    )
    checked = partition.require(value.row_splits, alike)
    return rows_of(value.values, checked).to_tensor()


def _of_batches(given: list[Any], flags: tuple[bool, bool, bool, bool]) -> Any:
    """Return the products of batches of batches, taken as one batch."""
    for value in given:
        if not isinstance(value, RaggedTensor) or not isinstance(value.values, RaggedTensor):
            raise ValueError("batches of batches of matrices must both be ragged")
    first = given[0]
    return first.with_values(matmul(first.values, given[1].values, *flags))


def _product(a: _Matrices, b: _Matrices) -> Any:
    inner_a = a.columns if a.columns is not None else _size(a.dense, 2)
    inner_b = b.rows if b.rows is not None else _size(b.dense, 1)
    fits = apply_op("Equal", *(partition.number(x, inner_a.dtype) for x in (inner_a, inner_b)))
    left = partition.require(a.dense, (fits, "the inner sizes of matrices agree"))
    # Zeros beyond a matrix add nothing; both sides may reach beyond it differently.
    size = apply_op("Maximum", _size(left, 2), _size(b.dense, 1))
    left, right = _padded(left, 2, size), _padded(b.dense, 1, size)
    made = apply_op("BatchMatMulV2", left, right)
    if a.rows is None and b.columns is None:
        return made
    outer = from_tensor(made, lengths=a.rows)
    if b.columns is None:
        return outer
    columns = apply_op("GatherV2", b.columns, outer.value_rowids(), 0)
    return outer.with_values(from_tensor(outer.values, lengths=columns))


def _size(value: Tensor, axis: int) -> Any:
    return dense_getitem(apply_op("Shape", value, out_type="int64"), axis)


def _padded(value: Tensor, axis: int, size: Tensor) -> Any:
    missing = apply_op("Sub", size, _size(value, axis))
    zero = partition.number(0, missing.dtype)
    pads = [[zero, missing if at == axis else zero] for at in range(3)]
    return apply_op("Pad", value, apply_op("Pack", [apply_op("Pack", pair) for pair in pads]))


# ---- partitions


@export("ragged.stack_dynamic_partitions")
def stack_dynamic_partitions(
    data: Any, partitions: TensorLike, num_partitions: TensorLike, name: str | None = None
) -> RaggedTensor:
    """Return for each partition the slices of the data that are in it.

    Args:
      data: a tensor, or a ragged one.
      partitions: of which partition each slice is; its shape begins that of the data.
      num_partitions: how many there are.
    Raises: ValueError for scalar data or partitions that do not fit.
    """
    of = partitions if isinstance(partitions, RaggedTensor) else convert_to_tensor(partitions)
    given = data if isinstance(data, RaggedTensor) else convert_to_tensor(data)
    if of.shape.rank is None:
        raise ValueError("partitions must have known rank")
    while (of.shape.rank or 0) > 1:
        if not isinstance(given, RaggedTensor):
            given = from_tensor(given)
        if not isinstance(of, RaggedTensor):
            of = from_tensor(of)
        given, of = given.values, of.values
    if of.shape.rank == 0:
        given, of = (apply_op("ExpandDims", x, 0) for x in (given, of))
    _, order = apply_op("TopKV2", apply_op("Neg", of), apply_op("Size", of))
    rows = partition.number(num_partitions, of.dtype)
    lengths = apply_op("UnsortedSegmentSum", apply_op("OnesLike", of), of, rows)
    return from_row_lengths(gather(given, order), partition.number(lengths, order.dtype))
