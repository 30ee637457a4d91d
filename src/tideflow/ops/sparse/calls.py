"""What is done with sparse tensors, further: sums, maxima, parts, masks, counts and crosses.

Source: tensorflow/python/ops/sparse/ops.py, bincount_ops.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.static_value import static_value
from tideflow.graph.types import TensorLike
from tideflow.ops.array import getitem
from tideflow.ops.control_flow import with_dependencies
from tideflow.ops.export import export, export_v2, export_value
from tideflow.ops.framework import Assert, IndexedSlices
from tideflow.ops.sparse.tensor import SparseTensor, to_dense
from tideflow.wire import dtypes


def _sparse(value: TensorLike) -> SparseTensor:
    if not isinstance(value, SparseTensor):
        raise TypeError(f"a SparseTensor is wanted; found {type(value).__name__}")
    return value


# ---- element by element


@export("sparse.add", "sparse_add")
def add_v1(
    a: TensorLike,
    b: TensorLike,
    threshold: TensorLike | None = None,
    thresh: TensorLike | None = None,
) -> Any:
    """Return a + b: sparse where both are, else dense (see the TF2 form); thresh is threshold."""
    limit = threshold if threshold is not None else thresh
    return add(a, b, 0 if limit is None else limit)


@export_v2("sparse.add")
def add(a: TensorLike, b: TensorLike, threshold: TensorLike = 0) -> Any:
    """Return a + b: sparse where both are, else dense.

    threshold: sums whose size is below it are left out of a sparse result.
    Raises: TypeError where neither is sparse.
    Shapes: the same, or such that a sparse and a dense one fit.  Types: numbers, both of one type.
    """
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        limit = dtypes.as_dtype(a.dtype).real_dtype if a.dtype.is_complex else a.dtype
        least = convert_to_tensor(threshold, limit, name="threshold")
        indices, values, shape = apply_op("SparseAdd", *a.parts, *b.parts, least)
        a.shape.assert_is_compatible_with(b.shape)
        both = a.shape.merge_with(b.shape)
        return SparseTensor(indices, values, both.as_list() if both.is_fully_defined() else shape)
    sparse, dense = (a, b) if isinstance(a, SparseTensor) else (b, a)
    return apply_op("SparseTensorDenseAdd", *_sparse(sparse).parts, dense)


def _extreme(op_name: str, a: TensorLike, b: TensorLike, name: str | None) -> SparseTensor:
    one, other = _sparse(a), _sparse(b)
    indices, values = apply_op(op_name, *one.parts, *other.parts, name=name)
    return SparseTensor(indices, values, one.dense_shape)


@export("sparse.maximum", "sparse_maximum")
def maximum(sp_a: SparseTensor, sp_b: SparseTensor, name: str | None = None) -> SparseTensor:
    """Return the larger of the elements of two tensors of one shape; a missing one is 0."""
    return _extreme("SparseSparseMaximum", sp_a, sp_b, name)


@export("sparse.minimum", "sparse_minimum")
def minimum(sp_a: SparseTensor, sp_b: SparseTensor, name: str | None = None) -> SparseTensor:
    """Return the smaller of the elements of two tensors of one shape; a missing one is 0."""
    return _extreme("SparseSparseMinimum", sp_a, sp_b, name)


# ---- reductions


def _reduced(
    what: str, given: SparseTensor, axis: object, keepdims: bool | None, is_sparse: bool, name: Any
) -> Any:
    rank = given.shape.rank
    axes = list(range(rank or 0)) if axis is None else axis
    if axis is None and rank is None:
        axes = apply_op("Range", 0, apply_op("Size", given.dense_shape), 1)
    wanted = convert_to_tensor(axes, dtypes.int32)
    op_name = f"SparseReduce{what}{'Sparse' if is_sparse else ''}"
    found = apply_op(op_name, *given.parts, wanted, keep_dims=bool(keepdims), name=name)
    return SparseTensor(*found) if is_sparse else found


def _reduced_v1(what: str, is_sparse: bool, called: str) -> Any:
    def reduce(
        sp_input: SparseTensor,
        axis: TensorLike | None = None,
        keepdims: bool | None = None,
        reduction_axes: TensorLike | None = None,
        keep_dims: bool | None = None,
    ) -> Any:
        axes = axis if axis is not None else reduction_axes
        keep = keepdims if keepdims is not None else keep_dims
        return _reduced(what, _sparse(sp_input), axes, keep, is_sparse, None)

    reduce.__name__ = reduce.__qualname__ = called
    reduce.__doc__ = (
        f"Return the {'sum' if what == 'Sum' else 'greatest'} along axes, all of them by default, "
        f"as a {'sparse' if is_sparse else 'dense'} tensor."
    )
    return reduce


for _what, _sparse_too in (("Sum", False), ("Sum", True), ("Max", False), ("Max", True)):
    _called = f"reduce_{_what.lower()}{'_sparse' if _sparse_too else ''}"
    export_value(f"sparse_{_called}", _reduced_v1(_what, _sparse_too, f"sparse_{_called}"))
    export_value(f"sparse.{_called}", _reduced_v1(_what, _sparse_too, _called))


@export_v2("sparse.reduce_sum")
def reduce_sum(
    sp_input: SparseTensor,
    axis: TensorLike | None = None,
    keepdims: bool | None = None,
    output_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Return the sum along axes, all of them by default, as a dense or a sparse tensor."""
    return _reduced("Sum", _sparse(sp_input), axis, keepdims, output_is_sparse, name)


@export_v2("sparse.reduce_max")
def reduce_max(
    sp_input: SparseTensor,
    axis: TensorLike | None = None,
    keepdims: bool | None = None,
    output_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Return the greatest of the elements that are given along axes, dense or sparse."""
    return _reduced("Max", _sparse(sp_input), axis, keepdims, output_is_sparse, name)


# ---- parts and forms


@export_v2("sparse.split")
def split(
    sp_input: SparseTensor, num_split: int, axis: int, name: str | None = None
) -> list[SparseTensor]:
    """Return parts along an axis; the first are larger by one where they cannot be the same."""
    given = _sparse(sp_input)
    at = convert_to_tensor(axis, dtypes.int64)
    columns = apply_op("SparseSplit", at, *given.parts, num_split=num_split, name=name)
    return [SparseTensor(*parts) for parts in zip(*columns)]


@export("sparse.to_indicator", "sparse_to_indicator")
def to_indicator(sp_input: SparseTensor, vocab_size: TensorLike, name: str | None = None) -> Tensor:
    """Return bools [..., vocab_size]: whether a row of integers has each number.

    Raises: TypeError for another type than int32 or int64.
    """
    given = _sparse(sp_input)
    if given.dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"values are int32 or int64; found {given.dtype.name}")
    with get_default_graph().name_scope(name or "SparseToIndicator"):
        numbers = apply_op("Cast", given.values, DstT=dtypes.int64)
        outer = getitem(given.indices, (slice(None), slice(None, -1)))
        places = apply_op("ConcatV2", [outer, apply_op("ExpandDims", numbers, 1)], 1)
        size = apply_op("Cast", apply_op("Reshape", vocab_size, [1]), DstT=dtypes.int64)
        shape = apply_op("ConcatV2", [getitem(given.dense_shape, slice(None, -1)), size], 0)
        trues = apply_op("Fill", apply_op("Shape", numbers), convert_to_tensor(True))
        return to_dense(SparseTensor(places, trues, shape), False, validate_indices=False)


@export("sparse.reset_shape", "sparse_reset_shape")
def reset_shape(sp_input: SparseTensor, new_shape: TensorLike | None = None) -> SparseTensor:
    """Return the tensor with the smallest shape that holds its elements, or with another one.

    Raises: InvalidArgumentError for a smaller shape; ValueError for one of another rank.
    """
    given = _sparse(sp_input)
    if new_shape is None:
        high = apply_op("Max", given.indices, [0])
        one = convert_to_tensor(1, dtypes.int64)
        zero = convert_to_tensor(0, dtypes.int64)
        shape = apply_op("Maximum", apply_op("AddV2", high, one), zero)
        return SparseTensor(given.indices, given.values, shape)
    wanted = convert_to_tensor(new_shape, dtypes.int64)
    rank = given.shape.rank
    if None not in (rank, (wanted.dims or (None,))[0]) and wanted.dims != (rank,):
        raise ValueError(f"new_shape must have {rank} sizes; found {wanted.shape}")
    known = given.shape.as_list() if rank is not None else [None]
    asked = static_value(*wanted.edge)
    if asked is not None and None not in known and (np.array(known) > asked).any():
        raise ValueError(f"new_shape {asked.tolist()} is smaller than the shape {known}")
    fits = apply_op("All", apply_op("LessEqual", given.dense_shape, wanted), [0])
    check = Assert(fits, ["new_shape must not be smaller", given.dense_shape, wanted])
    return SparseTensor(
        given.indices, given.values, with_dependencies([check] if check is not None else [], wanted)
    )


@export("sparse.mask", "sparse_mask")
def mask(a: IndexedSlices, mask_indices: TensorLike, name: str | None = None) -> IndexedSlices:
    """Return slices without those of some indices.

    Args:
      a: IndexedSlices.
      mask_indices: a vector of the type of their indices.
    Returns: IndexedSlices.
    """
    with get_default_graph().name_scope(name or "sparse_mask"):
        wanted = convert_to_tensor(mask_indices, a.indices.dtype)
        indices, places = apply_op("ListDiff", a.indices, wanted)
        return IndexedSlices(apply_op("GatherV2", a.values, places, 0), indices, a.dense_shape)


# ---- counts


@export("sparse.bincount")
def bincount(
    values: TensorLike,
    weights: TensorLike | None = None,
    axis: int | None = 0,
    minlength: int | None = None,
    maxlength: int | None = None,
    binary_output: bool = False,
    name: str | None = None,
) -> SparseTensor:
    """Return how often each number is there, as a sparse tensor: of all, or row by row.

    Args:
      values: integers, dense or sparse.
      weights: what each counts.
      axis: 0 or None for all values, -1 for each row.
      minlength, maxlength: least and most size of the result; numbers beyond are not counted.
      binary_output: count 1 for each number that is there.
    """
    with get_default_graph().name_scope(name or "count"):
        if axis == -1 and _rank_of(values) == 1:
            axis = None
        numbers, rows, count = _flat_numbers(values, axis)
        wide = apply_op("Cast", numbers, DstT=dtypes.int64)
        weight: Any = None
        if weights is not None:
            given = weights.values if isinstance(weights, SparseTensor) else weights
            weight = apply_op("Reshape", convert_to_tensor(given), [-1])
        if maxlength is not None:
            limit = convert_to_tensor(maxlength, dtypes.int64)
            kept = apply_op("Where", apply_op("Less", wide, limit))
            kept = apply_op("Squeeze", kept, squeeze_dims=[1])
            wide, rows = (apply_op("GatherV2", x, kept, 0) for x in (wide, rows))
            weight = weight if weight is None else apply_op("GatherV2", weight, kept, 0)
        return _counted(wide, rows, count, weight, (minlength, maxlength), axis, binary_output)


def _rank_of(values: TensorLike) -> int | None:
    """Return the rank of a sparse tensor, or of what becomes a dense one."""
    shape: TensorShape = (
        values if isinstance(values, SparseTensor) else convert_to_tensor(values)
    ).shape
    return shape.rank


def _flat_numbers(values: object, axis: int | None) -> tuple[Any, Any, Any]:
    """Return numbers, the row that each is in, and how many rows there are."""
    if isinstance(values, SparseTensor):
        numbers = values.values
        ids, count = getitem(values.indices, (slice(None), 0)), getitem(values.dense_shape, 0)
    else:
        given = convert_to_tensor(values)
        numbers = apply_op("Reshape", given, [-1])
        shape = apply_op("Shape", given, out_type=dtypes.int64)
        is_matrix = given.dims is not None and len(given.dims) == 2
        count = getitem(shape, 0) if is_matrix else convert_to_tensor(1, dtypes.int64)
        width = getitem(shape, -1) if is_matrix else apply_op("Size", given, out_type=dtypes.int64)
        total = apply_op("Size", given, out_type=dtypes.int64)
        zero, one = (convert_to_tensor(n, dtypes.int64) for n in (0, 1))
        at = apply_op("Range", zero, total, one)
        ids = apply_op("FloorDiv", at, apply_op("Maximum", width, one))
    if axis in (0, None):
        ids, count = apply_op("ZerosLike", ids), convert_to_tensor(1, dtypes.int64)
    elif axis != -1:
        raise ValueError(f"axis is None, 0 or -1; found {axis}")
    return numbers, ids, count


def _counted(
    numbers: Tensor,
    rows: Tensor,
    count: Tensor,
    weight: Tensor,
    lengths: tuple[int | None, int | None],
    axis: int | None,
    binary: bool,
) -> SparseTensor:
    one = convert_to_tensor(1, dtypes.int64)
    least = convert_to_tensor([-1], dtypes.int64)
    size = apply_op("AddV2", apply_op("Max", apply_op("ConcatV2", [numbers, least], 0), [0]), one)
    if lengths[0] is not None:
        size = apply_op("Maximum", size, convert_to_tensor(lengths[0], dtypes.int64))
    if lengths[1] is not None:
        size = apply_op("Minimum", size, convert_to_tensor(lengths[1], dtypes.int64))
    key = apply_op("AddV2", apply_op("Mul", rows, apply_op("Maximum", size, one)), numbers)
    order = apply_op("Cast", _sorted_order(key), DstT=dtypes.int64)
    found, back = apply_op("Unique", apply_op("GatherV2", key, order, 0))
    total = apply_op("Size", found)
    if weight is None or binary:
        kind = dtypes.int32 if weight is None else weight.dtype
        weight = apply_op("Cast", apply_op("OnesLike", key), DstT=kind)
    summed = apply_op("UnsortedSegmentSum", apply_op("GatherV2", weight, order, 0), back, total)
    values = apply_op("OnesLike", summed) if binary else summed
    divisor = apply_op("Maximum", size, one)
    columns = apply_op("FloorMod", found, divisor)
    if axis in (0, None):
        indices, shape = apply_op("ExpandDims", columns, 1), apply_op("Reshape", size, [1])
    else:
        indices = apply_op("Pack", [apply_op("FloorDiv", found, divisor), columns], axis=1)
        shape = apply_op("Pack", [count, size])
    return SparseTensor(indices, values, shape)


def _sorted_order(key: Tensor) -> Any:
    """Return where the keys lie in rising order."""
    _, order = apply_op("TopKV2", apply_op("Neg", key), apply_op("Size", key))
    return order


# ---- crosses


def _crossed(inputs: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Return indices, values and shapes of the sparse inputs, and the dense ones."""
    if not isinstance(inputs, (list, tuple)):
        raise TypeError("inputs must be a list of tensors")
    sparse = [each for each in inputs if isinstance(each, SparseTensor)]
    dense = [convert_to_tensor(each) for each in inputs if not isinstance(each, SparseTensor)]

    def plain(value: Tensor) -> Tensor:
        is_text = value.dtype is dtypes.string
        found: Tensor = value if is_text else apply_op("Cast", value, DstT=dtypes.int64)
        return found

    return (
        [each.indices for each in sparse],
        [plain(each.values) for each in sparse],
        [each.dense_shape for each in sparse],
        [plain(each) for each in dense],
    )


@export("sparse.cross")
def cross(
    inputs: Sequence[Any], name: str | None = None, separator: str | None = None
) -> SparseTensor:
    """Return for each row all combinations of one value of each input, joined as strings.

    inputs: matrices of strings or integers, dense or sparse.
    """
    parts = _crossed(inputs)
    between = convert_to_tensor("_X_" if separator is None else separator, dtypes.string)
    return SparseTensor(*apply_op("SparseCrossV2", *parts, between, name=name))


@export("sparse.cross_hashed")
def cross_hashed(
    inputs: Sequence[Any],
    num_buckets: int = 0,
    hash_key: int | None = None,
    name: str | None = None,
) -> SparseTensor:
    """Return for each row the hashes of all combinations of one value of each input.

    num_buckets: how many different hashes there are; 0 for no limit.
    """
    made = apply_op(
        "SparseCross",
        *_crossed(inputs),
        hashed_output=True,
        num_buckets=num_buckets,
        hash_key=0xDECAFCAFFE if hash_key is None else hash_key,
        out_type=dtypes.int64,
        internal_type=dtypes.int64,
        name=name,
    )
    return SparseTensor(*made)
