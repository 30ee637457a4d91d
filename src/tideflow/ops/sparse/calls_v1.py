"""Sparse tensors as strings, ids as columns of a sparse tensor, products at given places.

Source: tensorflow/python/ops/sparse_ops.py and math_ops.py for names and rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array.gathering import gather
from tideflow.ops.array.transposing import matrix_transpose
from tideflow.ops.export import export, export_v2
from tideflow.ops.sparse import SparseTensor, SparseTensorValue
from tideflow.ops.sparse.calls import split
from tideflow.ops.sparse.tensor import reorder
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype


def _sparse(value: TensorLike) -> SparseTensor:
    """Return a value as a SparseTensor.  Raises: TypeError for what is none."""
    if isinstance(value, SparseTensorValue):
        return SparseTensor(*value)
    if not isinstance(value, SparseTensor):
        raise TypeError("Input must be a SparseTensor.")
    return value


@export("convert_to_tensor_or_sparse_tensor")
def convert_to_tensor_or_sparse_tensor(
    value: TensorLike, dtype: DTypeLike | None = None, name: str | None = None
) -> Any:
    """Return a sparse tensor as it is, anything else as a tensor.

    Raises: RuntimeError for a sparse tensor of another type than asked for.
    """
    if isinstance(value, SparseTensorValue):
        value = SparseTensor(*value)
    if not isinstance(value, SparseTensor):
        return convert_to_tensor(value, dtype, name=name)
    if dtype is not None and not as_dtype(dtype).is_compatible_with(value.dtype):
        raise RuntimeError(
            f"Sparse dtype mismatch. Requested: {as_dtype(dtype).name},  Actual: {value.dtype.name}"
        )
    return value


# ---- as strings


@export("io.serialize_sparse", "serialize_sparse")
def serialize_sparse(
    sp_input: Any, name: str | None = None, out_type: DTypeLike = dtypes.string
) -> Tensor:
    """Return a sparse tensor as three strings: its indices, values and shape.

    Args:
      out_type: string, or variant for three variants.
    Raises: TypeError for what is not sparse.
    """
    given = _sparse(sp_input)
    made: Tensor = apply_op("SerializeSparse", *given.parts, out_type=as_dtype(out_type), name=name)
    return made


@export_v2("io.serialize_sparse")
def serialize_sparse_v2(
    sp_input: Any, out_type: DTypeLike = dtypes.string, name: str | None = None
) -> Tensor:
    """Return a sparse tensor as three strings or variants (see the TF1 form)."""
    return serialize_sparse(sp_input, name, out_type)


@export("io.serialize_many_sparse", "serialize_many_sparse")
def serialize_many_sparse(
    sp_input: Any, name: str | None = None, out_type: DTypeLike = dtypes.string
) -> Tensor:
    """Return each row of a sparse tensor as three strings: [rows, 3].

    Args:
      sp_input: of rank 2 or more.
      out_type: string, or variant.
    Raises: TypeError for what is not sparse.
    """
    given = _sparse(sp_input)
    made: Tensor = apply_op(
        "SerializeManySparse", *given.parts, out_type=as_dtype(out_type), name=name
    )
    return made


@export_v2("io.serialize_many_sparse")
def serialize_many_sparse_v2(
    sp_input: Any, out_type: DTypeLike = dtypes.string, name: str | None = None
) -> Tensor:
    """Return each row of a sparse tensor as three strings or variants (see the TF1 form)."""
    return serialize_many_sparse(sp_input, name, out_type)


@export("io.deserialize_many_sparse", "deserialize_many_sparse")
def deserialize_many_sparse(
    serialized_sparse: TensorLike,
    dtype: DTypeLike,
    rank: int | None = None,
    name: str | None = None,
) -> SparseTensor:
    """Return the sparse tensor of which each row is given as three strings.

    Args:
      serialized_sparse: strings [rows, 3], from serialize_sparse or serialize_many_sparse.
      dtype: of the values.
      rank: of the result, where it is known.
    """
    indices, values, shape = apply_op(
        "DeserializeManySparse", serialized_sparse, dtype=as_dtype(dtype), name=name
    )
    if not indices.graph.is_eager:
        indices.set_shape([None, rank])
        shape.set_shape([rank])
    return SparseTensor(indices, values, shape)


# ---- parts and ids


class KeywordRequired:
    """Stands where arguments must be given by name."""


@export("sparse.split", "sparse_split")
def sparse_split(
    keyword_required: Any = KeywordRequired(),  # noqa: B008 - it only marks the place
    sp_input: SparseTensor | None = None,
    num_split: int | None = None,
    axis: int | None = None,
    name: str | None = None,
    split_dim: int | None = None,
) -> list[SparseTensor]:
    """Return parts of a sparse tensor along an axis; arguments are given by name.

    Args:
      split_dim: the old name of axis.
    Raises: ValueError for an argument without a name, and for one that lacks.
    """
    if not isinstance(keyword_required, KeywordRequired):
        raise ValueError("Keyword arguments are required for this function.")
    if axis is not None and split_dim is not None:
        raise ValueError("Cannot specify both 'axis' and 'split_dim'")
    axis = split_dim if axis is None else axis
    for what, given in (("sp_input", sp_input), ("num_split", num_split), ("axis", axis)):
        if given is None:
            raise ValueError(f"{what} is required")
    assert sp_input is not None
    assert num_split is not None
    assert axis is not None
    return split(sp_input, num_split, axis, name)


@export("sparse.merge", "sparse_merge")
def sparse_merge(
    sp_ids: Any,
    sp_values: Any,
    vocab_size: Any,
    name: str | None = None,
    already_sorted: bool = False,
) -> SparseTensor:
    """Return values with ids as their last indices, in place of the order within a row.

    Args:
      sp_ids: integers, sparse, or a list of such, in the places of sp_values.
      sp_values: the values.
      vocab_size: how many ids there are; a list for a list.
      already_sorted: whether the result is in order as it is.
    Raises: TypeError for a list of ids without one of sizes, ValueError for lists of two lengths.
    """
    ids, sizes = _id_lists(sp_ids, vocab_size)
    values = _sparse(sp_values)
    kept = apply_op(
        "StridedSlice", ids[0].indices, [0, 0], [0, -1], [1, 1], begin_mask=3, end_mask=1
    )
    columns = [
        apply_op("ExpandDims", apply_op("Cast", one.values, DstT=dtypes.int64), 1) for one in ids
    ]
    front = apply_op("StridedSlice", ids[0].dense_shape, [0], [-1], [1], begin_mask=1)
    counts = apply_op(
        "Pack", [apply_op("Cast", convert_to_tensor(size), DstT=dtypes.int64) for size in sizes]
    )
    made = SparseTensor(
        apply_op("ConcatV2", [kept, *columns], 1),
        values.values,
        apply_op("ConcatV2", [front, counts], 0, name=name),
    )
    return made if already_sorted else reorder(made)


def _id_lists(sp_ids: Any, vocab_size: Any) -> tuple[list[SparseTensor], Sequence[Any]]:
    if isinstance(sp_ids, (SparseTensor, SparseTensorValue)):
        if isinstance(vocab_size, (list, tuple)):
            raise TypeError(f"vocab_size has to be a Tensor or Python int. Found {vocab_size}")
        return [_sparse(sp_ids)], [vocab_size]
    if not isinstance(sp_ids, (list, tuple)):
        raise TypeError(f"sp_ids has to be a SparseTensor or list thereof. Found {type(sp_ids)}")
    if not isinstance(vocab_size, (list, tuple)):
        raise TypeError(
            f"vocab_size has to be a list of Tensors or Python ints. Found {vocab_size}"
        )
    if len(sp_ids) != len(vocab_size):
        raise ValueError("sp_ids and vocab_size have to have equal lengths.")
    return [_sparse(one) for one in sp_ids], vocab_size


# ---- products


@export_v2("sparse.sampled_addmm")
def sampled_addmm(
    indices: TensorLike,
    values: TensorLike,
    dense_shape: TensorLike,
    mat1: TensorLike,
    mat2: TensorLike,
    beta: float = 1.0,
    alpha: float = 1.0,
    output_type: DTypeLike = dtypes.float32,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return alpha * (mat1 @ mat2) + beta * values, at the places of a sparse matrix alone.

    Args:
      indices: rows and columns, int [..., n, 2].
      values: [..., n].
      mat1, mat2: matrices [..., rows, k] and [..., k, columns].
      output_type: of the result.
    Returns: indices, the new values, dense_shape.
    """
    places = convert_to_tensor(indices)
    batch = len(places.dims or (0, 0)) - 2
    row, column = apply_op("Unpack", places, num=2, axis=-1)
    left = gather(convert_to_tensor(mat1), row, axis=batch, batch_dims=batch)
    right = gather(matrix_transpose(convert_to_tensor(mat2)), column, axis=batch, batch_dims=batch)
    dots = apply_op("Sum", apply_op("Mul", left, right), [-1])
    found = alpha * dots + beta * apply_op("Cast", convert_to_tensor(values), DstT=dots.dtype)
    result = apply_op("Cast", found, DstT=as_dtype(output_type))
    return places, result, convert_to_tensor(dense_shape)
