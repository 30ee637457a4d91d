"""tf.sets: the rows of two tensors as sets, joined, intersected and subtracted.

The last dimension of a tensor holds the elements of a set; results are sparse.
Source: tensorflow/core/kernels/set_kernels.cc, python/ops/sets_impl.py.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.sparse.tensor import SparseTensor
from tideflow.wire import errors

_TYPES = "{int8, int16, int32, int64, uint8, uint16, string}"
Sets = dict[tuple[int, ...], set[Any]]


def _invalid(what: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(what)


def _of_dense(given: Array) -> tuple[Sets, tuple[int, ...]]:
    """Return the set of each row, and the shape of the rows."""
    if np.ndim(given) < 2:
        raise _invalid(f"sets have rank 2 at least; found shape {list(np.shape(given))}")
    outer = np.shape(given)[:-1]
    return {at: set(given[at].tolist()) for at in np.ndindex(*outer)}, outer


def _of_sparse(
    indices: Array, values: Array, shape: Array, validate: bool
) -> tuple[Sets, tuple[int, ...]]:
    if np.ndim(shape) != 1 or len(shape) < 2:
        raise _invalid(f"sets have rank 2 at least; found shape {np.asarray(shape).tolist()}")
    if np.ndim(indices) != 2 or indices.shape != (len(values), len(shape)):
        raise _invalid(f"there must be an index of {len(shape)} numbers for each value")
    rows = indices.tolist()
    rises = all(a < b for a, b in itertools.pairwise(rows))
    if validate and (not rises or ((indices < 0) | (indices >= shape)).any()):
        raise _invalid("indices must be within the shape, and rise")
    found: Sets = {}
    for at, value in zip(rows, values.tolist()):
        found.setdefault(tuple(at[:-1]), set()).add(value)
    return found, tuple(int(size) for size in shape[:-1])


_OPERATIONS = {
    "a-b": lambda a, b: a - b,
    "b-a": lambda a, b: b - a,
    "intersection": lambda a, b: a & b,
    "union": lambda a, b: a | b,
}


def _combined(
    one: tuple[Sets, tuple[int, ...]],
    other: tuple[Sets, tuple[int, ...]],
    operation: str,
    dtype: Any,
) -> tuple[Any, Any, Any]:
    """Return indices, values and shape of the sets that an operation makes, row by row."""
    combine = _OPERATIONS.get(operation.lower())
    if combine is None:
        raise _invalid(f"set_operation {operation!r} is none of {sorted(_OPERATIONS)}")
    if one[1] != other[1]:
        raise _invalid(f"mismatched shapes {list(one[1])} vs. {list(other[1])}")
    indices: list[tuple[int, ...]] = []
    values: list[Any] = []
    longest = 0
    for at in sorted({*one[0], *other[0]}):
        found = sorted(combine(one[0].get(at, set()), other[0].get(at, set())))
        indices += [(*at, column) for column in range(len(found))]
        values += found
        longest = max(longest, len(found))
    made = np.empty(len(values), dtype)
    made[:] = values
    shape = np.array([*one[1], longest], np.int64)
    return np.array(indices, np.int64).reshape(-1, len(shape)), made, shape


def _sets_shape(c: ShapeContext) -> list[Dims]:
    # A dense first input says the rank; of a sparse one the last of three does.
    first = c.inputs[0]
    rank = None
    if len(c.inputs) == 6:
        shape = c.inputs[2]
        rank = None if shape is None else shape[0]
    elif first is not None:
        rank = len(first)
    return [(None, rank), (None,), (rank,)]


_RESULT = "-> result_indices: int64, result_values: T, result_shape: int64"
_ATTRS = f"""
    set_operation: string
    validate_indices: bool = true
    T: type in {_TYPES}
"""


@op(f"DenseToDenseSetOperation(set1: T, set2: T) {_RESULT}{_ATTRS}", shape=_sets_shape)
def dense_to_dense_set_operation_kernel(
    ctx: KernelContext, set1: Array, set2: Array, *, set_operation: str, validate_indices: bool
) -> Any:
    return _combined(_of_dense(set1), _of_dense(set2), set_operation, set1.dtype)


@op(
    f"""
    DenseToSparseSetOperation(set1: T, set2_indices: int64, set2_values: T, set2_shape: int64)
    {_RESULT}{_ATTRS}""",
    shape=_sets_shape,
)
def dense_to_sparse_set_operation_kernel(
    ctx: KernelContext,
    set1: Array,
    indices: Array,
    values: Array,
    shape: Array,
    *,
    set_operation: str,
    validate_indices: bool,
) -> Any:
    other = _of_sparse(indices, values, shape, validate_indices)
    return _combined(_of_dense(set1), other, set_operation, set1.dtype)


@op(
    f"""
    SparseToSparseSetOperation(set1_indices: int64, set1_values: T, set1_shape: int64,
      set2_indices: int64, set2_values: T, set2_shape: int64)
    {_RESULT}{_ATTRS}""",
    shape=_sets_shape,
)
def sparse_to_sparse_set_operation_kernel(
    ctx: KernelContext,
    indices1: Array,
    values1: Array,
    shape1: Array,
    indices2: Array,
    values2: Array,
    shape2: Array,
    *,
    set_operation: str,
    validate_indices: bool,
) -> Any:
    one = _of_sparse(indices1, values1, shape1, validate_indices)
    other = _of_sparse(indices2, values2, shape2, validate_indices)
    return _combined(one, other, set_operation, values1.dtype)


not_differentiable(
    "DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation"
)

_INVERSE = {"a-b": "b-a", "b-a": "a-b"}
_KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "string")


def _set_operation(a: TensorLike, b: TensorLike, operation: str, validate: bool) -> SparseTensor:
    one, other = (x if isinstance(x, SparseTensor) else convert_to_tensor(x) for x in (a, b))
    if one.dtype.name not in _KINDS:
        raise TypeError(f"sets are of {', '.join(_KINDS)}; found {one.dtype.name}")
    if one.dtype != other.dtype:
        raise TypeError(f"sets of {one.dtype.name} and {other.dtype.name} do not go together")
    if isinstance(one, SparseTensor) and not isinstance(other, SparseTensor):
        one, other, operation = other, one, _INVERSE.get(operation, operation)
    parts: list[Any] = []
    for given in (one, other):
        parts += given.parts if isinstance(given, SparseTensor) else [given]
    kinds = ["Sparse" if isinstance(x, SparseTensor) else "Dense" for x in (one, other)]
    made = apply_op(
        f"{kinds[0]}To{kinds[1]}SetOperation",
        *parts,
        set_operation=operation,
        validate_indices=validate,
    )
    return SparseTensor(*made)


@export("sets.size", "sets.set_size")
def size(a: SparseTensor, validate_indices: bool = True) -> Tensor:
    """Return how many different elements each set has.  Raises: TypeError unless it is sparse."""
    if not isinstance(a, SparseTensor):
        raise TypeError(f"a SparseTensor is wanted; found {type(a).__name__}")
    made: Tensor = apply_op("SetSize", *a.parts, validate_indices=validate_indices)
    return made


@export("sets.intersection", "sets.set_intersection")
def intersection(a: TensorLike, b: TensorLike, validate_indices: bool = True) -> SparseTensor:
    """Return the elements that sets of both tensors have, row by row.

    Raises: TypeError for other element types; InvalidArgumentError for rows of other shapes.
    """
    return _set_operation(a, b, "intersection", validate_indices)


@export("sets.union", "sets.set_union")
def union(a: TensorLike, b: TensorLike, validate_indices: bool = True) -> SparseTensor:
    """Return the elements that sets of either tensor have, row by row (see intersection)."""
    return _set_operation(a, b, "union", validate_indices)


@export("sets.difference", "sets.set_difference")
def difference(
    a: TensorLike, b: TensorLike, aminusb: bool = True, validate_indices: bool = True
) -> SparseTensor:
    """Return the elements of a that b has not; of b that a has not, unless aminusb."""
    return _set_operation(a, b, "a-b" if aminusb else "b-a", validate_indices)
