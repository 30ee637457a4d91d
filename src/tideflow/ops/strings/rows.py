"""Strings cut into several, and several made one: split, bytes_split, ngrams, segment joins.

Source: tensorflow/core/kernels/string_ngrams_op.cc, unsorted_segment_join_op.cc;
python/ops/ragged/ragged_string_ops.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Rows
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.array import getitem
from tideflow.ops.export import export, export_v2
from tideflow.ops.ragged import RaggedTensor, from_tensor, from_value_rowids, partition, rows_of
from tideflow.ops.sparse import SparseTensor
from tideflow.ops.strings.strings import encoded
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError, OutOfRangeError

# ---- split


def _split(given: Tensor, sep: object, maxsplit: int) -> Any:
    """Return the parts of strings: a vector for a scalar, ragged rows otherwise."""
    dims = given.dims
    if dims is None:
        raise ValueError("split needs strings of known rank")
    if len(dims) > 1:
        nested = from_tensor(given, ragged_rank=len(dims) - 1)
        return nested.with_flat_values(_split(nested.flat_values, sep, maxsplit))
    vector = given if dims else apply_op("Reshape", given, [1])
    indices, values, shape = apply_op("StringSplitV2", vector, sep, maxsplit=maxsplit)
    if not dims:
        return values
    ids, rows = getitem(indices, (slice(None), 0)), getitem(shape, 0)
    return from_value_rowids(values, ids, rows, validate=False)


@export_v2("strings.split")
def split(
    input: object, sep: str | None = None, maxsplit: int = -1, name: str | None = None
) -> Any:
    """Return the parts of strings between separators: a vector for one, ragged rows for several.

    sep: None or "" for white space, of any length.
    """
    with get_default_graph().name_scope(name or "StringSplit"):
        between = convert_to_tensor("" if sep is None else sep, dtypes.string)
        if isinstance(input, RaggedTensor):
            return input.with_flat_values(_split(input.flat_values, between, maxsplit))
        return _split(convert_to_tensor(input, dtypes.string), between, maxsplit)


@export("strings.split")
def split_v1(
    input: TensorLike | None = None,
    sep: str | None = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: TensorLike | None = None,
    name: str | None = None,
) -> Any:
    """Return the parts of strings between separators, sparse or ragged.

    Raises: ValueError for another result_type.
    """
    given = input if input is not None else source
    if result_type == "RaggedTensor":
        return split(given, sep, maxsplit, name)
    if result_type != "SparseTensor":
        raise ValueError(f"result_type is SparseTensor or RaggedTensor; found {result_type!r}")
    vector = convert_to_tensor(given, dtypes.string)
    if vector.dims == ():
        vector = apply_op("Reshape", vector, [1])
    with get_default_graph().name_scope(name or "StringSplit"):
        parts = apply_op("StringSplitV2", vector, "" if sep is None else sep, maxsplit=maxsplit)
    return SparseTensor(*parts)


@export("string_split")
def string_split(
    source: TensorLike,
    sep: str | None = None,
    skip_empty: bool = True,
    delimiter: str | None = None,
    result_type: str = "SparseTensor",
    name: str | None = None,
) -> Any:
    """Return the parts of strings between any of the characters of a delimiter, " " by default.

    Args:
      source: a string vector.
      sep, delimiter: a string; "" to give each byte.
      skip_empty: leave out parts without characters.
      result_type: "SparseTensor" or "RaggedTensor".
    Raises: ValueError for both sep and delimiter, or a delimiter that is no scalar.
    """
    if sep is not None and delimiter is not None:
        raise ValueError("give string_split one of sep and delimiter")
    given = delimiter if delimiter is not None else sep
    with get_default_graph().name_scope(name or "StringSplit"):
        between = convert_to_tensor(" " if given is None else given, dtypes.string)
        if between.dims is not None and between.dims != ():
            raise ValueError(f"Shape must be rank 0 but is rank {len(between.dims)}: the delimiter")
        vector = convert_to_tensor(source, dtypes.string)
        parts = apply_op("StringSplit", vector, between, skip_empty=skip_empty)
    sparse = SparseTensor(*parts)
    if result_type == "RaggedTensor":
        rows = apply_op("Unpack", sparse.indices, num=2, axis=1)[0]
        count = apply_op("Size", vector, out_type=dtypes.int64)
        return from_value_rowids(sparse.values, rows, count)
    if result_type != "SparseTensor":
        raise ValueError(f"result_type is SparseTensor or RaggedTensor; found {result_type!r}")
    return sparse


@export("strings.bytes_split")
@export_v2("strings.bytes_split")
def bytes_split(input: TensorLike, name: str | None = None) -> Any:
    """Return the bytes of strings, each as a string: a vector for one, ragged rows for several."""
    with get_default_graph().name_scope(name or "StringsByteSplit"):
        if isinstance(input, RaggedTensor):
            return input.with_flat_values(bytes_split(input.flat_values))
        given = convert_to_tensor(input, dtypes.string)
        if given.dims is None:
            raise ValueError("bytes_split needs strings of known rank")
        if len(given.dims) > 1:
            rows = from_tensor(given, ragged_rank=len(given.dims) - 1)
            return rows.with_flat_values(bytes_split(rows.flat_values))
        vector = given if given.dims else apply_op("Reshape", given, [1])
        lengths = apply_op("Cast", apply_op("StringLength", vector), DstT=dtypes.int64)
        splits = partition.splits_of_lengths(lengths)
        ids = partition.ids_of(splits)
        count = partition.count_of(ids, dtypes.int64)
        within = apply_op("Sub", partition.up_to(count), apply_op("GatherV2", splits, ids, 0))
        found = apply_op(
            "Substr", apply_op("GatherV2", vector, ids, 0), within, apply_op("OnesLike", within)
        )
        return rows_of(found, splits) if given.dims else found


# ---- ngrams


@op(
    """
    StringNGrams(data: string, data_splits: Tsplits) -> ngrams: string, ngrams_splits: Tsplits
    separator: string
    ngram_widths: list(int) >= 0
    left_pad: string
    right_pad: string
    pad_width: int
    preserve_short_sequences: bool
    Tsplits: type in indices = int64
    """,
    shape=lambda c: [(None,), c.inputs[1]],
)
def string_ngrams_kernel(
    ctx: KernelContext,
    data: Array,
    splits: Any,
    *,
    separator: str,
    ngram_widths: list[int],
    left_pad: str,
    right_pad: str,
    pad_width: int,
    preserve_short_sequences: bool,
) -> Any:
    """Return for each row all runs of its strings, of each width, with pads around the row."""
    if min(ngram_widths, default=1) < 1:
        raise InvalidArgumentError(f"ngram_widths must be positive; found {ngram_widths}")
    if not splits.size and not data.size:
        return np.empty(0, object), splits
    shape, splits, data = splits.shape, splits.reshape(-1), data.reshape(-1)
    if not len(splits) or splits[0] != 0 or splits[-1] != len(data) or (np.diff(splits) < 0).any():
        raise InvalidArgumentError(f"row splits must rise from 0 to {len(data)}; found {splits}")
    between, left, right = (encoded(text) for text in (separator, left_pad, right_pad))
    made: list[bytes] = []
    ends = [0]
    items = data.tolist()
    for begin, end in itertools.pairwise(splits):
        row, before = items[begin:end], len(made)
        for width in ngram_widths:
            # Pads never stand alone.
            pads = max(0, width - 1 if pad_width < 0 else min(pad_width, width - 1))
            whole = [left] * pads + row + [right] * pads
            made += [between.join(whole[i : i + width]) for i in range(len(whole) - width + 1)]
        if preserve_short_sequences and len(made) == before and row:
            pads = max(pad_width, 0)
            made.append(between.join([left] * pads + row + [right] * pads))
        ends.append(len(made))
    found = np.empty(len(made), object)
    found[:] = made
    return found, np.array(ends, splits.dtype).reshape(shape)


@export("strings.ngrams")
def ngrams(
    data: TensorLike,
    ngram_width: int | Sequence[int],
    separator: str = " ",
    pad_values: TensorLike | None = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Any:
    """Return all runs of strings along the last axis, joined.

    Args:
      data: strings, dense or ragged; the result is ragged where they are.
      ngram_width: how many are joined, or several such numbers.
      pad_values: what stands before and after rows: one string, or two.
      padding_width: how many pads at most; as many as fit, by default.
      preserve_short_sequences: give rows that are too short as a whole.
    Raises: ValueError, TypeError for numbers and pads that make no sense.
    """
    widths = [ngram_width] if isinstance(ngram_width, int) else list(ngram_width)
    if not widths or not all(isinstance(width, int) for width in widths):
        raise TypeError(f"ngram_width is one or several numbers; found {ngram_width!r}")
    if min(widths) < 1:
        raise ValueError(f"ngram_width must be positive; found {ngram_width!r}")
    if padding_width is not None and padding_width < 0:
        raise ValueError(f"padding_width must not be negative; found {padding_width}")
    if padding_width is not None and pad_values is None:
        raise ValueError("padding_width needs pad_values")
    pads = pad_values if isinstance(pad_values, (list, tuple)) else [pad_values or ""] * 2
    if len(pads) != 2 or not all(isinstance(pad, (str, bytes)) for pad in pads):
        raise TypeError(f"pad_values is one or two strings; found {pad_values!r}")
    width = 0 if pad_values is None else -1 if padding_width is None else padding_width
    attrs = {
        "separator": separator,
        "ngram_widths": widths,
        "left_pad": pads[0],
        "right_pad": pads[1],
        "pad_width": width,
        "preserve_short_sequences": preserve_short_sequences,
    }
    with get_default_graph().name_scope(name or "StringNGrams"):
        return _ngrams(data, attrs)


def _ngrams(data: TensorLike, attrs: dict[str, Any]) -> Any:
    if isinstance(data, RaggedTensor):
        if isinstance(data.values, RaggedTensor):
            return data.with_values(_ngrams(data.values, attrs))
        found, splits = apply_op("StringNGrams", data.values, data.row_splits, **attrs)
        return rows_of(found, splits)
    given = convert_to_tensor(data, dtypes.string)
    if not given.dims:
        raise ValueError(f"ngrams needs strings of rank 1 at least; found {given.shape}")
    if len(given.dims) == 1:
        end = apply_op("ExpandDims", partition.count_of(given, dtypes.int64), 0)
        splits = apply_op("ConcatV2", [convert_to_tensor([0], dtypes.int64), end], 0)
        return apply_op("StringNGrams", given, splits, **attrs)[0]
    rows = from_tensor(given, ragged_rank=len(given.dims) - 1)
    return _ngrams(rows, attrs).to_tensor(default_value="")


# ---- joins by segments


def _segments_shape(c: ShapeContext) -> list[Dims]:
    inputs, ids = c.inputs[0], c.inputs[1]
    if inputs is None or ids is None:
        return [None]
    count = c.value(2)
    return [(None if count is None else int(count), *inputs[len(ids) :])]


@op(
    """
    UnsortedSegmentJoin(inputs: string, segment_ids: Tindices, num_segments: Tnumsegments)
    -> output: string
    separator: string = ""
    Tindices: type in indices
    Tnumsegments: type in indices = int32
    """,
    shape=_segments_shape,
    rows=Rows.SEGMENTS,
)
def unsorted_segment_join_kernel(
    ctx: KernelContext, inputs: Array | bytes, ids: Array, num_segments: Array, *, separator: str
) -> Any:
    """Return [num_segments, ...], the strings of each segment joined in their order."""
    rank, count = np.ndim(ids), int(num_segments)
    if count < 0:
        raise InvalidArgumentError(f"num_segments must not be negative; found {count}")
    if rank > np.ndim(inputs):
        raise OutOfRangeError(
            f"segment_ids {list(np.shape(ids))} have more dimensions than the inputs, "
            f"{list(np.shape(inputs))}"
        )
    if not rank or np.shape(inputs)[:rank] != np.shape(ids):
        raise InvalidArgumentError(
            f"segment_ids {list(np.shape(ids))} must have the first sizes of the inputs, "
            f"{list(np.shape(inputs))}"
        )
    flat = np.asarray(ids).reshape(-1)
    if ((flat < 0) | (flat >= count)).any():
        raise InvalidArgumentError(f"segment_ids must be in [0, {count}); found {flat.tolist()}")
    inner = np.shape(inputs)[rank:]
    width = int(np.prod(inner, dtype=np.int64))
    rows = np.asarray(inputs, object).reshape(len(flat), width)
    parts: list[list[list[bytes]]] = [[[] for _ in range(width)] for _ in range(count)]
    for segment, row in zip(flat.tolist(), rows):
        for column, item in zip(parts[segment], row):
            column.append(item)
    made = np.empty((count, width), object)
    for at, columns in enumerate(parts):
        made[at] = [encoded(separator).join(column) for column in columns]
    return made.reshape(count, *inner)


not_differentiable("StringNGrams", "UnsortedSegmentJoin")


@export("strings.unsorted_segment_join")
def unsorted_segment_join(
    inputs: TensorLike,
    segment_ids: TensorLike,
    num_segments: TensorLike,
    separator: str = "",
    name: str | None = None,
) -> Tensor:
    """Return the strings of each segment joined; "" for segments without any.

    Args:
      inputs: [...]; segment_ids: its first dimensions, which segment each is in.
    Raises: InvalidArgumentError for an id that is not in [0, num_segments).
    """
    made: Tensor = apply_op(
        "UnsortedSegmentJoin", inputs, segment_ids, num_segments, separator=separator, name=name
    )
    return made
