"""tf.SparseTensor: tensors of which few elements are given, and what is done with them.

Source: tensorflow/python/framework/sparse_tensor.py, python/ops/sparse/ops.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tideflow.graph import roles
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.defaults import session_or_default
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import Dims, TensorShape, merge
from tideflow.graph.static_value import static_value
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.array import getitem
from tideflow.ops.export import export
from tideflow.ops.framework import nest, placeholder, placeholder_with_default, scoped
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType


@export("SparseTensorValue", "compat.v1.SparseTensorValue")
class SparseTensorValue(NamedTuple):
    """The value of a sparse tensor, as sessions give and take it."""

    indices: Any
    values: Any
    dense_shape: Any


@export("SparseTensor", "sparse.SparseTensor")
class SparseTensor:
    """Values at indices; all else is zero.

    Args:
      indices: int64 [n, rank], in row-major order for most operations; see tf.sparse.reorder.
      values: [n].
      dense_shape: int64 [rank].
    """

    def __init__(self, indices: TensorLike, values: TensorLike, dense_shape: TensorLike) -> None:
        graph = get_default_graph()
        with graph.name_scope("SparseTensor"):
            self.indices: Tensor = convert_to_tensor(indices, dtypes.int64, name="indices")
            self.values: Tensor = convert_to_tensor(values, name="values")
            self.dense_shape: Tensor = convert_to_tensor(
                dense_shape, dtypes.int64, name="dense_shape"
            )
        self._declared: Dims = None
        indices_shape = self.indices.shape.with_rank(2)
        indices_shape[:1].assert_is_compatible_with(self.values.shape.with_rank(1))
        indices_shape[1:].assert_is_compatible_with(self.dense_shape.shape.with_rank(1))
        if not graph.is_eager and self.dense_shape.op.op_def.role is roles.CONST:
            # A constant that says what is known of the shape must stay true.
            graph.prevent_feeding(self.dense_shape)

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """Return the sparse tensor of a SparseTensorValue (or of a sparse tensor itself)."""
        given = sparse_tensor_value
        return cls(given.indices, given.values, given.dense_shape)

    @property
    def op(self) -> Any:
        """The operation that makes the values."""
        return self.values.op

    @property
    def graph(self) -> Any:
        """The graph that it belongs to."""
        return self.values.graph

    def consumers(self) -> list[Any]:
        """Return the operations that take one of the parts."""
        found = {id(op): op for part in self.parts for op in part.consumers()}
        return list(found.values())

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Return the SparseTensorValue, run in the session given or the default one."""
        return session_or_default(session, self.graph).run(self, feed_dict)

    def set_shape(self, shape: ShapeLike) -> None:
        """Add what is known of the dense shape.  Raises: ValueError when it contradicts."""
        self._declared = merge(self.shape.sizes, TensorShape(shape).sizes)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        """The dense shape, as far as it is known."""
        known = static_value(*self.dense_shape.edge)
        if known is None:
            rank = (self.dense_shape.dims or (None,))[0]
            return TensorShape(merge(self._declared, None if rank is None else (None,) * rank))
        # Of a vector that is known in part, the unknown sizes are None or -1.
        sizes = (None if size is None or size < 0 else int(size) for size in known)
        return TensorShape(merge(self._declared, tuple(sizes)))

    def get_shape(self) -> TensorShape:
        """Return the dense shape, as far as it is known."""
        return self.shape

    def with_values(self, new_values: TensorLike) -> SparseTensor:
        """Return other values at the same indices."""
        return SparseTensor(self.indices, new_values, self.dense_shape)

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Indices, values and dense shape."""
        return self.indices, self.values, self.dense_shape

    def __mul__(self, other: Any) -> SparseTensor:
        return self._with_dense("SparseDenseCwiseMul", other, "mul")

    def __truediv__(self, other: Any) -> SparseTensor:
        return self._with_dense("SparseDenseCwiseDiv", other, "truediv")

    def __div__(self, other: Any) -> SparseTensor:
        return self._with_dense("SparseDenseCwiseDiv", other, "div")

    def _with_dense(self, op_name: str, other: Any, name: str) -> SparseTensor:
        with get_default_graph().name_scope(name) as scope:
            dense = convert_to_tensor(other, self.dtype.base_dtype, name="y")
            return self.with_values(apply_op(op_name, *self.parts, dense, name=scope))

    def __repr__(self) -> str:
        return (
            f"SparseTensor(indices={self.indices!s}, values={self.values!s}, "
            f"dense_shape={self.dense_shape!s})"
        )


def _told_shape(sparse: SparseTensor) -> Dims:
    """Return what a trace may take for granted of the dense shape: all of it, if it has a value."""
    return sparse.shape.sizes if sparse.dense_shape.graph.is_eager else sparse._declared


def _rebuilt(like: SparseTensor, parts: Sequence[Any]) -> SparseTensor:
    made = SparseTensor(*parts)
    is_eager = made.dense_shape.graph.is_eager
    made._declared = merge(made.shape.sizes, like._declared if is_eager else _told_shape(like))
    return made


nest.register_composite(
    SparseTensor,
    lambda sparse: list(sparse.parts),
    _rebuilt,
    lambda sparse: (SparseTensor, _told_shape(sparse)),
)


@export("sparse_placeholder", "sparse.placeholder")
def sparse_placeholder(
    dtype: DTypeLike, shape: ShapeLike | None = None, name: str | None = None
) -> SparseTensor:
    """Return a sparse tensor to be fed: a SparseTensorValue, or (indices, values, dense_shape).

    Args:
      shape: what is known of the dense shape; fed with the rest, unless indices and values are
        fed by themselves, which takes a shape that is known in full.
    """
    rank = None if shape is None else TensorShape(shape).rank
    names = {part: f"{name}/{part}" if name else None for part in ("shape", "values", "indices")}
    if rank is None:
        dense_shape = placeholder(dtypes.int64, [rank], names["shape"])
    else:
        sizes = [-1 if size is None else size for size in TensorShape(shape).as_list()]
        known = convert_to_tensor(
            np.array(sizes, np.int64), name=names["shape"] and f"{names['shape']}_default"
        )
        dense_shape = placeholder_with_default(known, [rank], names["shape"])
    values = placeholder(dtype, [None], names["values"])
    made = SparseTensor(
        placeholder(dtypes.int64, [None, rank], names["indices"]), values, dense_shape
    )
    if shape is not None:
        made.set_shape(shape)
    return made


@export("sparse_to_dense")
def sparse_to_dense(
    sparse_indices: TensorLike,
    output_shape: TensorLike,
    sparse_values: TensorLike,
    default_value: TensorLike = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """Return a dense tensor with values at indices, and a default elsewhere.

    Args:
      sparse_indices: a scalar, [n] or [n, rank].
      output_shape: [rank].
      sparse_values: [n], or a scalar for all.
    """
    made: Tensor = apply_op(
        "SparseToDense",
        sparse_indices,
        output_shape,
        sparse_values,
        default_value,
        validate_indices=validate_indices,
        name=name,
    )
    return made


@export("sparse.to_dense", "sparse_tensor_to_dense")
def to_dense(
    sp_input: SparseTensor,
    default_value: TensorLike | None = None,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """Return the tensor with all its elements.

    Args:
      sp_input: a SparseTensor of any type.
      default_value: what elements are that are not given; zero, or "", if None.
      validate_indices: whether to refuse indices out of order, given twice or outside.
    Returns: a tensor [*dense_shape].
    Raises: TypeError for what is not sparse; InvalidArgumentError for indices that are refused.
    Example:
      >>> tf.sparse.to_dense(tf.SparseTensor([[0, 1]], [5], [2, 2])).numpy().tolist()
      [[0, 5], [0, 0]]
    """
    indices, values, shape = sp_input.parts
    default = "" if values.dtype.base_dtype is dtypes.string else 0
    given = default if default_value is None else default_value
    filling = convert_to_tensor(
        given, values.dtype, name="zeros" if default_value is None else None
    )
    made: Tensor = apply_op(
        "SparseToDense",
        indices,
        shape,
        values,
        filling,
        validate_indices=validate_indices,
        name=name,
    )
    return made


@export("sparse.from_dense")
def from_dense(tensor: TensorLike, name: str | None = None) -> SparseTensor:
    """Return the elements that are not zero (or not empty strings)."""
    with get_default_graph().name_scope(name or "dense_to_sparse"):
        dense = convert_to_tensor(tensor)
        zero = convert_to_tensor("" if dense.dtype.base_dtype is dtypes.string else 0, dense.dtype)
        indices = apply_op("Where", apply_op("NotEqual", dense, zero))
        shape = apply_op("Shape", dense, out_type=dtypes.int64)
        return SparseTensor(indices, apply_op("GatherNd", dense, indices), shape)


@export("sparse.reorder", "sparse_reorder")
def reorder(sp_input: SparseTensor, name: str | None = None) -> SparseTensor:
    """Return the elements in row-major order.

    Args:
      sp_input: a SparseTensor of any type.
    Returns: a SparseTensor of the same shape.
    Raises: TypeError for what is not sparse.
    """
    indices, values = apply_op("SparseReorder", *sp_input.parts, name=name)
    if sp_input.shape.is_fully_defined():
        return SparseTensor(indices, values, sp_input.shape.as_list())
    made = SparseTensor(indices, values, apply_op("Identity", sp_input.dense_shape))
    made.set_shape(sp_input.shape)
    return made


@export("sparse.reshape", "sparse_reshape")
def reshape(sp_input: SparseTensor, shape: ShapeLike, name: str | None = None) -> SparseTensor:
    """Return the elements in another shape; one size may be -1.

    Raises: ValueError for a shape, known as that of the tensor is, of another size.
    """
    with get_default_graph().name_scope(name or "SparseReshape") as scope:
        wanted = convert_to_tensor(shape, dtypes.int64)
        indices, made = apply_op(
            "SparseReshape", sp_input.indices, sp_input.dense_shape, wanted, name=scope
        )
        sizes = static_value(*wanted.edge)
        if sizes is not None and None not in sizes and sp_input.shape.is_fully_defined():
            made = _settled(sp_input.shape.as_list(), [int(size) for size in sizes]) or made
        return SparseTensor(indices, apply_op("Identity", sp_input.values), made)


def _settled(before: Sequence[Any], wanted: list[int]) -> list[int] | None:
    """Return a shape with its -1 replaced; None where that depends on what is run.

    Raises: ValueError for a shape of another size.
    """
    if wanted.count(-1) > 1:
        raise ValueError(f"At most one dimension can be inferred (-1). Found: {wanted}")
    if -1 in wanted and 0 in wanted:
        return None
    size = math.prod(before)
    rest = math.prod(x for x in wanted if x != -1)
    found = [size // rest if x == -1 else x for x in wanted]
    if math.prod(found) != size:
        raise ValueError(
            f"Cannot reshape a tensor with {size} elements to shape {wanted} "
            f"({math.prod(found)} elements)."
        )
    return found


@export("sparse.transpose", "sparse_transpose")
def transpose(
    sp_input: SparseTensor, perm: TensorLike | None = None, name: str | None = None
) -> SparseTensor:
    """Return the tensor with its axes in another order; reversed by default."""
    with get_default_graph().name_scope(name or "SparseTranspose"):
        rank = sp_input.shape.rank
        order = list(range(rank or 0))[::-1] if perm is None else perm
        indices = apply_op("GatherV2", sp_input.indices, order, 1)
        shape = apply_op("GatherV2", sp_input.dense_shape, order, 0)
        known = static_value(*convert_to_tensor(order).edge)
        if known is not None and sp_input.shape.is_fully_defined():
            shape = [sp_input.shape[int(axis)] for axis in known]
        return reorder(SparseTensor(indices, sp_input.values, shape))


@export("sparse.concat", "sparse_concat")
def concat(
    axis: int,
    sp_inputs: Sequence[SparseTensor],
    name: str | None = None,
    expand_nonconcat_dims: bool = False,
) -> SparseTensor:
    """Return tensors joined along an axis.

    expand_nonconcat_dims: make other sizes that differ the greatest of them.
    Raises: InvalidArgumentError, when run, for other sizes that differ without it.
    """
    rank = sp_inputs[0].shape.rank or 0
    columns = [list(column) for column in zip(*(each.parts for each in sp_inputs))]
    if expand_nonconcat_dims:
        shapes = apply_op("Pack", columns[2])
        greatest = apply_op("Max", shapes, 0)
        is_axis = np.arange(rank) == axis % rank
        columns[2] = [apply_op("SelectV2", is_axis, shape, greatest) for shape in columns[2]]
    indices, values, made = apply_op("SparseConcat", *columns, concat_dim=axis % rank, name=name)
    sizes = _joined([each.shape for each in sp_inputs], axis, expand_nonconcat_dims)
    if sizes is not None and all(each.shape.is_fully_defined() for each in sp_inputs):
        return SparseTensor(indices, values, sizes)
    joined = SparseTensor(indices, values, made)
    joined.set_shape(TensorShape(sizes))
    return joined


def _joined(given: Sequence[TensorShape], axis: int, widest: bool) -> list[Any] | None:
    """Return what is known of the shape of tensors that are joined along an axis."""
    columns = [list(column) for column in zip(*(shape.sizes or () for shape in given))]
    if any(shape.rank is None for shape in given) or not columns:
        return None
    found = [
        max(column) if widest and None not in column else None if widest else column[0]
        for column in columns
    ]
    found[axis] = None if None in columns[axis] else sum(columns[axis])
    return found


@export("sparse.slice", "sparse_slice")
def slice_(
    sp_input: SparseTensor, start: TensorLike, size: TensorLike, name: str | None = None
) -> SparseTensor:
    """Return a part of a tensor.

    Args:
      sp_input: a SparseTensor of any type.
      start, size: int64 [rank]; what lies outside of the tensor is left out.
    Returns: a SparseTensor.
    Raises: TypeError for what is not sparse.
    """
    bounds = [convert_to_tensor(bound, dtypes.int64) for bound in (start, size)]
    return SparseTensor(*apply_op("SparseSlice", *sp_input.parts, *bounds, name=name))


@export("sparse.softmax", "sparse_softmax")
def softmax(sp_input: SparseTensor, name: str | None = None) -> SparseTensor:
    """Return the softmax over what is given of each row.

    Args:
      sp_input: a SparseTensor of floats, [..., rows, columns].
    Returns: a SparseTensor of the same shape; elements that are not given stay so.
    Raises: TypeError for what is not sparse.
    """
    return sp_input.with_values(apply_op("SparseSoftmax", *sp_input.parts, name=name))


@export("sparse.fill_empty_rows", "sparse_fill_empty_rows")
def fill_empty_rows(
    sp_input: SparseTensor, default_value: TensorLike, name: str | None = None
) -> tuple[SparseTensor, Tensor]:
    """Return the tensor with a value in each row that had none, and which rows these were."""
    indices, values, empty, _ = apply_op(
        "SparseFillEmptyRows", *sp_input.parts, default_value, name=name
    )
    return SparseTensor(indices, values, sp_input.dense_shape), empty


@export("sparse.sparse_dense_matmul", "sparse.matmul", "sparse_tensor_dense_matmul")
@scoped("SparseTensorDenseMatMul")
def sparse_dense_matmul(
    sp_a: Any,
    b: TensorLike,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the product of a sparse matrix and a dense one, in either order.

    Complex products of a dense matrix and a sparse one are conjugates, as with TensorFlow.

    Args:
      sp_a, b: matrices [n, k] and [k, m] of one type, a SparseTensor and a tensor.
      adjoint_a, adjoint_b: whether to take the adjoint of one.
    Returns: a tensor [n, m].
    Raises: InvalidArgumentError for sizes that do not fit.
    """
    if isinstance(b, SparseTensor) and not isinstance(sp_a, SparseTensor):
        # A B is B' A', where the sparse matrix comes first, on its side.
        turned = sparse_dense_matmul(b, sp_a, not adjoint_b, not adjoint_a)
        swapped: Tensor = apply_op("Transpose", turned, [1, 0], name=name)
        return swapped
    made: Tensor = apply_op(
        "SparseTensorDenseMatMul",
        *sp_a.parts,
        b,
        adjoint_a=adjoint_a,
        adjoint_b=adjoint_b,
        name=name,
    )
    return made


@export("sparse.retain", "sparse_retain")
def retain(sp_input: SparseTensor, to_retain: TensorLike) -> SparseTensor:
    """Return the elements for which a bool is true."""
    places = apply_op("Reshape", apply_op("Where", convert_to_tensor(to_retain)), [-1])
    indices, values = (apply_op("GatherV2", x, places, 0) for x in sp_input.parts[:2])
    return SparseTensor(indices, values, apply_op("Identity", sp_input.dense_shape))


@export("sparse.expand_dims")
@scoped("expand_dims")
def expand_dims(
    sp_input: SparseTensor, axis: int | None = None, name: str | None = None
) -> SparseTensor:
    """Return the tensor with an axis of size 1 more; the last one by default."""
    rank = sp_input.shape.rank or 0
    at = rank if axis is None else axis % (rank + 1)
    shape = sp_input.dense_shape
    one = convert_to_tensor([1], dtypes.int64, name="new_shape")
    shape = apply_op(
        "ConcatV2", [getitem(shape, slice(None, at)), one, getitem(shape, slice(at, None))], 0
    )
    columns = sp_input.indices
    before, after = (slice(None), slice(None, at)), (slice(None), slice(at, None))
    zero = apply_op("ZerosLike", getitem(columns, (slice(None), slice(None, 1))))
    columns = apply_op("ConcatV2", [getitem(columns, before), zero, getitem(columns, after)], 1)
    return SparseTensor(columns, sp_input.values, shape)


@export("sparse.map_values")
def map_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> SparseTensor:
    """Return what a function makes of the values of sparse tensors with the same indices.

    Raises: ValueError where no argument is sparse.
    """
    given = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, SparseTensor)]
    if not given:
        raise ValueError("map_values needs a SparseTensor among its arguments")

    def values(arg: TensorLike) -> Any:
        return arg.values if isinstance(arg, SparseTensor) else arg

    found = op(*map(values, args), **{key: values(arg) for key, arg in kwargs.items()})
    return given[0].with_values(found)


@export("sparse.eye")
@scoped("eye")
def eye(
    num_rows: int,
    num_columns: int | None = None,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> SparseTensor:
    """Return a matrix with ones on its diagonal.

    Args:
      num_rows, num_columns: numbers; as many columns as rows if None.
      dtype: the element type.
    Returns: a SparseTensor [num_rows, num_columns].
    """
    columns = num_rows if num_columns is None else num_columns
    count = min(num_rows, columns)
    one = convert_to_tensor(1, dtypes.as_dtype(dtype))
    values = apply_op("Fill", [count], one, name=name)
    return SparseTensor([[i, i] for i in range(count)], values, [num_rows, columns])
