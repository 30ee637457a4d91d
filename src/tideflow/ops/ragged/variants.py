"""Ragged tensors as variants, by which they travel as one tensor: in datasets, lists and loops.

Source: tensorflow/core/kernels/ragged_tensor_{to,from}_variant_op.cc, ragged_tensor_variant.h;
python/ops/ragged/ragged_conversion_ops.py for gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, format_dims
from tideflow.graph.types import Array
from tideflow.wire import errors
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import Variant, register_variant
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor, tensor_dtype

TYPE_NAME = "RaggedTensorVariant"


def _invalid(what: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(what)


class RaggedValue:
    """A ragged tensor as the element of a variant tensor.

    Attributes:
      splits: the row splits of its ragged dimensions, outermost first.
      values: the innermost values; of any rank where there are no splits.
      dtype: of the values.
    """

    __slots__ = ("dtype", "splits", "values")

    def __init__(self, splits: Sequence[Any], values: Array, dtype: DType) -> None:
        self.splits = tuple(splits)
        self.values = values
        self.dtype = dtype

    def zeros_like(self) -> RaggedValue:
        """Return zeros in the same rows."""
        return RaggedValue(self.splits, np.zeros_like(self.values), self.dtype)

    def __add__(self, other: RaggedValue) -> RaggedValue:
        """Return the sum of both.  Raises: InvalidArgumentError for other types and rows."""
        if not isinstance(other, RaggedValue):
            return NotImplemented
        alike = len(self.splits) == len(other.splits) and self.dtype is other.dtype
        if not alike or not all(map(np.array_equal, self.splits, other.splits)):
            raise _invalid("only ragged tensors of one type and the same rows add up")
        return RaggedValue(self.splits, self.values + other.values, self.dtype)

    def to_variant(self) -> Variant:
        """Return the form in which it travels."""
        parts = [encode_tensor(splits) for splits in self.splits]
        return Variant(TYPE_NAME, b"", (*parts, encode_tensor(self.values, self.dtype)))

    @classmethod
    def from_variant(cls, variant: Variant) -> RaggedValue:
        """Return the ragged tensor that arrived.

        Raises: InvalidArgumentError for one without values, or with splits of another type.
        """
        if not variant.tensors:
            raise _invalid(f"a variant of type {TYPE_NAME} holds one tensor at least")
        *splits, values = map(decode_tensor, variant.tensors)
        for one in splits:
            if np.ndim(one) != 1 or np.asarray(one).dtype.kind != "i":
                raise _invalid(f"a variant of type {TYPE_NAME} has row splits that are no vector")
        return cls(splits, values, tensor_dtype(variant.tensors[-1]))


register_variant(TYPE_NAME, RaggedValue.from_variant)


def _check_splits(splits: Array, count: int) -> None:
    if np.ndim(splits) != 1:
        raise _invalid(
            f"Invalid ragged splits: ragged splits must be rank 1 but is rank {np.ndim(splits)}"
        )
    if not len(splits):
        raise _invalid(
            "Invalid ragged splits: ragged splits must have at least one splits, but is empty"
        )
    if splits[0] != 0:
        raise _invalid(
            f"Invalid ragged splits: first element of ragged splits  must be 0 but is {splits[0]}"
        )
    for i in np.flatnonzero(np.diff(splits) < 0)[:1] + 1:
        raise _invalid(
            "Invalid ragged splits: ragged splits must be monotonically increasing, but "
            f"ragged_splits[{i}]={splits[i]} is smaller than row_splits[{i - 1}]={splits[i - 1]}"
        )
    if splits[-1] != count:
        raise _invalid(
            "Invalid ragged splits: last element of ragged splits must be the number of ragged "
            f"values({count}) but is {splits[-1]}"
        )


def _rows(value: RaggedValue) -> Any:
    """Return the rows of a ragged tensor, each as an element of a vector."""
    outer, *inner = value.splits
    made = np.empty(len(outer) - 1, object)
    for at, (start, end) in enumerate(itertools.pairwise(outer)):
        splits = []
        for level in inner:
            part = level[start : end + 1]
            splits.append(part - part[0])
            start, end = level[start], level[end]
        made[at] = RaggedValue(splits, value.values[start:end], value.dtype)
    return made


def _variant_shape(c: ShapeContext) -> list[Dims]:
    splits = c.inputs[0] if len(c.inputs) > 1 else None
    if c.inputs[-1] == ():
        raise ValueError("Shape must be at least rank 1 but is rank 0")
    if not c.attrs["batched_input"]:
        return [()]
    if len(c.inputs) > 1:
        rows = splits[0] if splits else None
        return [(None if rows is None else rows - 1,)]
    values = c.inputs[-1]
    return [None if values is None else values[:1]]


@op(
    """
    RaggedTensorToVariant(rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: Tvalues)
      -> encoded_ragged: variant
    RAGGED_RANK: int >= 0
    Tvalues: type
    Tsplits: type in {int32, int64} = int64
    batched_input: bool
    """,
    shape=_variant_shape,
)
def ragged_tensor_to_variant_kernel(
    ctx: KernelContext, splits: list[Any], values: Array, *, Tvalues: DType, batched_input: bool
) -> Any:
    """Return a ragged tensor as one variant, or each of its rows as an element of a vector."""
    values = np.asarray(values, Tvalues.as_numpy_dtype)
    if splits and not values.ndim:
        raise _invalid(
            "Requires flat_values to have rank>=1 when nested_row_splits is not empty, but is 0."
        )
    counts = [len(inner) - 1 if np.ndim(inner) else 0 for inner in splits[1:]]
    for one, count in zip(splits, [*counts, len(values) if values.ndim else 0]):
        _check_splits(one, count)
    made = RaggedValue(splits, values, Tvalues)
    if not batched_input:
        return made
    if splits:
        return _rows(made)
    if not values.ndim:
        raise _invalid("batched_input=True requires rt_dense_values of rank 1 at least")
    rows = np.empty(len(values), object)
    for at, row in enumerate(values):
        rows[at] = RaggedValue((), np.asarray(row, Tvalues.as_numpy_dtype), Tvalues)
    return rows


# ---- back


def _components(encoded: Any, rank: int, dtype: DType | None) -> list[RaggedValue]:
    found = np.asarray(encoded, object).reshape(-1).tolist()
    for at, value in enumerate(found):
        if not isinstance(value, RaggedValue):
            raise _invalid(
                f"Input Variant element at index {at} doesn't hold a RaggedTensorVariant: {value!r}"
            )
        if rank >= 0 and len(value.splits) != rank:
            raise _invalid(
                f"Encoded input RaggedTensorVariant has ragged_rank={len(value.splits)}.  "
                f"Expected ragged_rank={rank}."
            )
        if dtype is not None and value.dtype is not dtype:
            raise _invalid(f"Expected values Tensor dtype: {dtype.name}, found: {value.dtype.name}")
    return found


def _stacked(parts: list[RaggedValue], outer: Sequence[int], rank: int, dtype: DType) -> Any:
    """Return the splits and values of ragged tensors that are the elements of an outer shape."""
    splits: list[Any] = []
    for level in range(len(outer) - 1):
        count = int(np.prod(outer[: level + 1]))
        splits.append(np.arange(count + 1) * outer[level + 1])
    lengths = [len(p.splits[0]) - 1 if p.splits else len(p.values) for p in parts]
    splits.append(np.cumsum([0, *lengths]))
    for level in range(rank):
        column = [np.diff(part.splits[level]) for part in parts]
        splits.append(np.cumsum(np.concatenate([[0], *column]).astype(np.int64)))
    if not parts:
        return splits, np.zeros([0], dtype.as_numpy_dtype)
    return splits, np.concatenate([np.asarray(part.values) for part in parts])


def _check_values(parts: list[RaggedValue], output_rank: int) -> None:
    shapes = [np.shape(part.values) for part in parts]
    for at, shape in enumerate(shapes):
        if output_rank and not shape:
            raise _invalid(
                f"Ragged values must have rank >= 1; encoded scalar element at index {at} has "
                f"values Tensor: {parts[at].values}"
            )
        if len(shape) != len(shapes[0]):
            raise _invalid(
                "Rank of values must match for all components; values shape at index 0: "
                f"{format_dims(shapes[0])}, values shape at index {at}: {format_dims(shape)}"
            )
        skipped = 1 if output_rank else 0
        if shape[skipped:] != shapes[0][skipped:]:
            raise _invalid(
                "All flat_values must have compatible shapes.  Shape at index 0: "
                f"{format_dims(shapes[0])}.  Shape at index {at}: {format_dims(shape)}"
            )


def _ragged_shape(c: ShapeContext) -> list[Dims]:
    return [*[(None,)] * c.attrs["output_ragged_rank"], None]


@op(
    """
    RaggedTensorFromVariant(encoded_ragged: variant)
      -> output_nested_splits: output_ragged_rank * Tsplits, output_dense_values: Tvalues
    input_ragged_rank: int >= -1
    output_ragged_rank: int >= 0
    Tvalues: type
    Tsplits: type in {int32, int64} = int64
    """,
    shape=_ragged_shape,
)
def ragged_tensor_from_variant_kernel(
    ctx: KernelContext,
    encoded: Any,
    *,
    input_ragged_rank: int,
    output_ragged_rank: int,
    Tvalues: DType,
    Tsplits: DType,
) -> Any:
    """Return the ragged tensor that variants hold; their axes become its outermost ones."""
    outer = np.shape(np.asarray(encoded, object))
    rank = input_ragged_rank
    if rank == -1:
        rank = output_ragged_rank - len(outer)
        # With no ragged dimension, an axis may be a dense one.
        if rank < 0 and not (rank == -1 and not output_ragged_rank):
            raise _invalid(
                "Inferred input_ragged_rank (output_ragged_rank - encoded_variant.dims()) must be "
                f">= 0, found output_ragged_rank: {output_ragged_rank}, encoded_variant.dims(): "
                f"{len(outer)}, inferred input_ragged_rank: {rank}"
            )
    elif output_ragged_rank != rank + len(outer):
        raise _invalid(
            "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); "
            f"output_ragged_rank: {output_ragged_rank}, input_ragged_rank: {rank}, "
            f"encoded_variant.dims(): {len(outer)}."
        )
    parts = _components(encoded, max(rank, 0), Tvalues)
    kind = Tsplits.as_numpy_dtype
    if not outer:
        [part] = parts
        return [np.asarray(splits, kind) for splits in part.splits], part.values
    _check_values(parts, output_ragged_rank)
    if not output_ragged_rank:
        values = [np.asarray(part.values) for part in parts]
        return [], np.stack(values) if values else np.zeros([0], Tvalues.as_numpy_dtype)
    splits, values = _stacked(parts, outer, rank, Tvalues)
    return [one.astype(kind) for one in splits], values


@op(
    """
    RaggedTensorToVariantGradient(
      encoded_ragged_grad: variant, row_splits: Tsplits, dense_values_shape: int32
    ) -> dense_values_grad: Tvalues
    Tvalues: type
    Tsplits: type in {int32, int64} = int64
    """,
    shape=lambda c: [c.value_as_shape("dense_values_shape")],
)
def ragged_tensor_to_variant_gradient_kernel(
    ctx: KernelContext,
    encoded: Any,
    row_splits: Array,
    dense_values_shape: Array,
    *,
    Tvalues: DType,
) -> Any:
    """Return the values of gradients of rows, one after the other; zeros where there are none."""
    sizes = np.asarray(dense_values_shape).reshape(-1).tolist()
    if min(sizes, default=0) < 0:
        raise _invalid(f"dense_values_shape must not be negative; it is {sizes}")
    made = np.zeros(sizes, Tvalues.as_numpy_dtype)
    parts = [np.asarray(part.values).reshape(-1) for part in _components(encoded, -1, Tvalues)]
    found = np.concatenate(parts)[: made.size] if parts else made.reshape(-1)
    made.reshape(-1)[: len(found)] = found
    return made


# ---- gradients


@gradient("RaggedTensorFromVariant")
def _from_variant_gradient(op: Operation, *grads: Tensor) -> list[Any]:
    rank = op.inputs[0].dims
    if rank is not None and len(rank) > 1:
        raise ValueError(
            "Unable to compute gradient: RaggedTensorToVariant can currently only generate 0D or "
            "1D output."
        )
    batched = op.attrs["output_ragged_rank"] > 0 if rank is None else len(rank) == 1
    return [to_variant(op.outputs[:-1], grads[-1], batched)]


@gradient("RaggedTensorToVariant")
def _to_variant_gradient(op: Operation, grad: Tensor) -> list[Any]:
    *splits, values = op.inputs
    made = apply_op(
        "RaggedTensorToVariantGradient",
        grad,
        splits[0] if splits else np.int64(0),
        apply_op("Shape", values),
        Tvalues=values.dtype,
    )
    return [*[None] * len(splits), made]


def to_variant(splits: Sequence[Tensor], values: Tensor, batched: bool) -> Tensor:
    """Return a ragged tensor as a variant scalar, or the vector of its rows where it is batched."""
    made: Tensor = apply_op("RaggedTensorToVariant", list(splits), values, batched_input=batched)
    return made
