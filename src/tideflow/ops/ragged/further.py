"""Functions of other families that take ragged tensors, too: tf.split, tf.one_hot, embeddings...

Source: tensorflow/python/ops/ragged/ragged_array_ops.py, ragged_math_ops.py,
ragged_embedding_ops.py, ragged_image_ops.py, ragged_string_ops.py, ragged_batch_gather_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.static_value import static_value
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.array import getitem as dense_getitem
from tideflow.ops.control_flow import mapping as flow_mapping
from tideflow.ops.export import arguments_of, overload_each
from tideflow.ops.ragged import partition
from tideflow.ops.ragged.dynamic_shape import DynamicRaggedShape
from tideflow.ops.ragged.makers import from_tensor
from tideflow.ops.ragged.mapping import map_rows
from tideflow.ops.ragged.rows import boolean_mask, gather, getitem
from tideflow.ops.ragged.shaped import stack_dynamic_partitions
from tideflow.ops.ragged.tensor import RaggedTensor, rows_of
from tideflow.wire import dtypes

# ---- arrays


def _one_hot(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = arguments_of(function, args, kwargs)
    indices, axis = given.pop("indices"), given.get("axis")
    if not isinstance(indices, RaggedTensor):
        return function(*args, **kwargs)
    if isinstance(axis, int) and axis >= 0:
        if axis <= indices.ragged_rank:
            raise ValueError(
                f"axis ({axis}) must be greater than indices.ragged_rank ({indices.ragged_rank})."
            )
        given["axis"] = axis - indices.ragged_rank
    return indices.with_flat_values(function(indices.flat_values, **given))


def _bitcast(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = arguments_of(function, args, kwargs)
    rows = given.pop("input")
    found = function(rows.flat_values, **given)
    if found.dtype.size > rows.dtype.size and len(rows.flat_values.dims or (0, 0)) < 2:
        raise ValueError(
            "`input.flat_values` is required to have rank >= 2 when input.dtype.size < type.size."
        )
    return rows.with_flat_values(found)


def _batch_gather(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = arguments_of(function, args, kwargs)
    params, indices = (
        x if isinstance(x, RaggedTensor) else convert_to_tensor(x)
        for x in (given["params"], given["indices"])
    )
    rank = indices.shape.rank
    if rank is None:
        raise ValueError("batch_gather needs indices of a known rank")
    if rank == 0:
        raise ValueError("indices.rank must be at least 1.")
    return gather(params, indices, axis=rank - 1, batch_dims=rank - 1)


def _split(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return tf.split along an axis that is not ragged."""
    given = arguments_of(function, args, kwargs)
    value, parts, axis = given["value"], given["num_or_size_splits"], given.get("axis", 0)
    if not isinstance(value, RaggedTensor):
        return function(*args, **kwargs)
    if isinstance(parts, int) and parts == 1:
        return [value]
    rank = value.shape.rank
    if axis < 0 and rank is not None:
        axis += rank
    shape = DynamicRaggedShape.from_tensor(value)
    if not shape.is_uniform(axis):
        raise ValueError(f"Cannot split a ragged dimension: axis {axis} of {shape!r}")
    sizes, count = _sizes_of_parts(shape[axis], parts, given.get("num"))
    splits = partition.splits_of_lengths(sizes)
    size = partition.number(shape[axis], splits.dtype)
    whole = apply_op("Equal", size, dense_getitem(splits, -1))
    splits = partition.require(
        splits,
        (whole, "Cannot exactly split the `axis` dimension of `value`"),
        (
            apply_op("GreaterEqual", sizes, partition.number(0, sizes.dtype)),
            "`num_or_size_splits` must be non-negative.",
        ),
    )
    ends = [dense_getitem(splits, at) for at in range(count + 1)]
    before = [slice(None)] * axis
    return [getitem(value, [*before, slice(*ends[at : at + 2])]) for at in range(count)]


def _sizes_of_parts(size: Any, parts: Any, num: int | None) -> tuple[Tensor, int]:
    """Return the sizes of parts of an axis, and how many there are.  Raises: ValueError."""
    if isinstance(parts, int):
        if parts < 1:
            raise ValueError(f"`num_or_size_splits` must be >=1 if it is an `int`; found {parts}.")
        each = apply_op("FloorDiv", size, partition.number(parts, size.dtype))
        return apply_op("Fill", [parts], each), parts
    sizes = convert_to_tensor(parts)
    if not sizes.dtype.is_integer or (sizes.dims is not None and len(sizes.dims) != 1):
        raise TypeError(
            f"`num_or_size_splits` must be an `int` or 1-D list or `Tensor`; found {parts!r}."
        )
    count = (sizes.dims or (None,))[0]
    if count is None and num is None:
        raise ValueError("`num` must be given where the number of sizes is not known.")
    if None not in (count, num) and count != num:
        raise ValueError(f"`num` is {num}, and {count} sizes are given.")
    return sizes, int(num if count is None else count)  # type: ignore[arg-type]


def _dynamic_partition(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = arguments_of(function, args, kwargs)
    count = given["num_partitions"]
    if not isinstance(count, int) or count < 0:
        raise TypeError("num_partitions must be a non-negative integer")
    rows = stack_dynamic_partitions(given["data"], given["partitions"], count)
    return [getitem(rows, at) for at in range(count)]


overload_each("one_hot", _one_hot)
overload_each("bitcast", _bitcast)
overload_each("batch_gather", _batch_gather)
overload_each("split", _split)
overload_each("dynamic_partition", _dynamic_partition)


# ---- sums


def _summed_up(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return tf.cumsum of rows: filled up with zeros, which add nothing, and cut again."""
    given = arguments_of(function, args, kwargs)
    rows, axis = given.pop("x"), given.pop("axis", 0)
    rank = rows.shape.rank
    at = axis if axis >= 0 else axis + rank
    if not 0 <= at < rank:
        raise ValueError(f"axis={axis} out of bounds: expected {-rank}<=axis<{rank}")
    if at > rows.ragged_rank:
        return rows.with_flat_values(function(rows.flat_values, at - rows.ragged_rank, **given))
    found = function(rows.to_tensor(), at, **given)
    lengths = rows.nested_row_lengths()
    cut = from_tensor(found, lengths[0] if len(lengths) == 1 else list(lengths))
    return rows.with_flat_values(cut.flat_values)


overload_each("math.cumsum", _summed_up)


# ---- embeddings


def _looked_up(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = arguments_of(function, args, kwargs)
    ids = given.pop("ids")
    if not isinstance(ids, RaggedTensor):
        return function(*args, **kwargs)
    if ids.dtype not in (dtypes.int32, dtypes.int64):
        raise ValueError(f"ids of embeddings are of int32 or int64; found {ids.dtype.name}")
    with get_default_graph().name_scope(given.pop("name", None) or "embedding_lookup_ragged"):
        return ids.with_flat_values(function(ids=ids.flat_values, **given))


def _combined(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return rows of ids and weights looked up and combined as those of sparse tensors."""
    given = arguments_of(function, args, kwargs)
    sparse = {k: x.to_sparse() for k, x in given.items() if isinstance(x, RaggedTensor)}
    return function(**{**given, **sparse})


overload_each("nn.embedding_lookup", _looked_up)
for _name in ("nn.embedding_lookup_sparse", "nn.safe_embedding_lookup_sparse"):
    overload_each(_name, _combined)


# ---- images


def _resized(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return images of different sizes in one size: a dense batch of float32."""
    given = arguments_of(function, args, kwargs)
    images, size = given.pop("images"), convert_to_tensor(given.pop("size"), dtypes.int32)
    if images.shape.rank != 4:
        raise ValueError("tf.image.resize: images.shape.rank must be 4 if images is ragged.")
    known = static_value(*size.edge)
    sizes = [None, None] if known is None else [int(each) for each in known]
    spec = TensorSpec([*sizes, images.shape.as_list()[-1]], dtypes.float32)

    def resized(image: Any) -> Any:
        dense = image.to_tensor() if isinstance(image, RaggedTensor) else image
        return function(dense, size, **given)

    return map_rows(flow_mapping.map_fn, (resized, images), {"fn_output_signature": spec})


overload_each("image.resize", _resized)


# ---- text


def _formatted(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = arguments_of(function, args, kwargs)
    template, inputs, mark = given["template"], given["inputs"], given.get("placeholder", "{}")
    many = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    texts = template.split(mark)
    if len(many) != len(texts) - 1:
        raise ValueError(
            "num placeholders in template and num inputs must match: "
            f"{len(texts) - 1} vs {len(many)}"
        )
    summarize = given.get("summarize", 3)
    with get_default_graph().name_scope(given.get("name") or "StringFormat"):
        pieces = [convert_to_tensor(texts[0])]
        for text, value in zip(texts[1:], many):
            is_ragged = isinstance(value, RaggedTensor)
            pieces.append(
                _shown(value, summarize)
                if is_ragged
                else function("{}", [value], summarize=summarize)
            )
            pieces.append(convert_to_tensor(text))
        return apply_op("StringJoin", pieces)


def _shown(value: RaggedTensor, summarize: int | None) -> Tensor:
    """Return rows in brackets, of which the first and last elements are shown.

    summarize: how many of either; None or -1 for all.
    Raises: ValueError for another number.
    """
    if summarize not in (None, -1) and not (isinstance(summarize, int) and summarize > 0):
        raise ValueError(f"Expected summarize to be -1 or a positive int, got {summarize!r}")
    flat = value.flat_values
    if value.dtype == dtypes.string:
        escaped = apply_op("RegexReplace", flat, r"(['\\])", r"\\\1")
        texts = apply_op("StringJoin", ["'", escaped, "'"])
    else:
        texts = apply_op("AsString", flat)
    rank = len(texts.dims or (None,))
    inner: Any = texts if rank == 1 else from_tensor(texts, ragged_rank=rank - 1)
    rows: Any = value.with_flat_values(inner)
    most = -1 if summarize is None else summarize
    count = partition.number(rows.nrows(), dtypes.int64)
    ends = apply_op("Pack", [partition.number(0, count.dtype), count])
    whole = rows_of(_in_brackets(rows, most), ends)
    return dense_getitem(_in_brackets(whole, most), 0)


def _in_brackets(rows: RaggedTensor, most: int) -> Tensor:
    """Return the text of each row."""
    values = rows.values
    if isinstance(values, RaggedTensor):
        rows = rows.with_values(_in_brackets(values, most))
    if most >= 0:
        rows = _shortened(rows, most)
    ids = rows.value_rowids()
    joined = apply_op("UnsortedSegmentJoin", rows.values, ids, rows.nrows(), separator=", ")
    found: Tensor = apply_op("StringJoin", ["[", joined, "]"])
    return found


def _shortened(rows: RaggedTensor, most: int) -> RaggedTensor:
    """Return texts in rows with "..." in place of those that are far from both ends."""
    kind = rows.row_splits.dtype
    ids, lengths = rows.value_rowids(), rows.row_lengths()
    at = apply_op(
        "Sub",
        partition.up_to(partition.count_of(rows.values, kind)),
        apply_op("GatherV2", rows.row_starts(), ids, 0),
    )
    length = apply_op("GatherV2", lengths, ids, 0)
    limit = partition.number(most, kind)
    is_long = apply_op("Greater", length, partition.number(2 * most, kind))
    is_mark = apply_op("LogicalAnd", is_long, apply_op("Equal", at, limit))
    is_early = apply_op("LessEqual", at, limit)
    is_late = apply_op("GreaterEqual", at, apply_op("Sub", length, limit))
    is_shown = apply_op("LogicalOr", is_early, is_late)
    is_kept = apply_op("LogicalOr", apply_op("LogicalNot", is_long), is_shown)
    marked = rows.with_values(apply_op("SelectV2", is_mark, "...", rows.values))
    found: RaggedTensor = boolean_mask(marked, rows.with_values(is_kept))
    return found


overload_each("strings.format", _formatted)


# ---- assertions


def _of_type(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = arguments_of(function, args, kwargs)
    tensor = given.pop("tensor")
    return function(tensor.flat_values, **given)


overload_each("debugging.assert_type", _of_type)
