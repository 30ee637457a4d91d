"""TopK and InTopK.

Source: tensorflow/core/kernels/topk_op.cc, in_topk_op.h.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import check_scalar, lax, scoped
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType


def _top_k_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    if "k" in c.attrs:
        k: int | None = c.attrs["k"]
    else:
        value = c.value(1)
        k = None if value is None else int(value)
    if given is None:
        return [None, None]
    if not given:
        raise ValueError("input must have at least one dimension; it is a scalar")
    if k is not None and given[-1] is not None and given[-1] < k:
        raise ValueError(f"input has {given[-1]} columns, fewer than k = {k}")
    return [(*given[:-1], k)] * 2


def _approximate_shape(c: ShapeContext) -> list[Dims]:
    given, at = c.inputs[0], c.attrs["reduction_dimension"]
    if given is None:
        return [None, None]
    if not given:
        raise ValueError("input must have at least one dimension; it is a scalar")
    sizes = list(given)
    if -len(sizes) <= at < len(sizes):
        sizes[at] = c.attrs["k"]
    return [tuple(sizes)] * 2


def _top_k(xp: ArrayNamespace, x: Array, k: int) -> tuple[Any, Any]:
    """Return the k greatest of each row and their columns; of equal ones the first comes first.

    Raises: InvalidArgumentError.
    """
    if not x.ndim or k < 0 or x.shape[-1] < k:
        raise errors.InvalidArgumentError(
            f"k = {k} must lie between 0 and the size of the last dimension of {list(x.shape)}"
        )
    if xp is not np:
        values, columns = lax().top_k(x, k)
        return values, columns
    # A stable sort of the mirrored row, read backwards, keeps equal elements in order.
    order = x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")
    columns = order[..., ::-1][..., :k]
    return np.take_along_axis(x, columns, axis=-1), columns


@op(
    """
    TopKV2(input: T, k: Tk) -> values: T, indices: index_type
    sorted: bool = true
    T: type in reals
    Tk: type in {int16, int32, int64} = int32
    index_type: type in {int16, int32, int64} = int32
    """,
    shape=_top_k_shape,
    static=("k",),
)
def top_k_kernel(xp: ArrayNamespace, input: Array, k: Array, *, index_type: DType) -> Any:
    values, columns = _top_k(xp, input, int(k))
    return values, columns.astype(index_type.as_numpy_dtype)


@op(
    """
    TopK(input: T) -> values: T, indices: int32
    k: int >= 0
    sorted: bool = true
    T: type in reals
    """,
    shape=_top_k_shape,
)
def top_k_v1_kernel(xp: ArrayNamespace, input: Array, *, k: int) -> Any:
    values, columns = _top_k(xp, input, k)
    return values, columns.astype(xp.int32)


@op(
    """
    ApproxTopK(input: T) -> values: T, indices: int32
    k: int >= 0
    reduction_dimension: int = -1
    recall_target: float = 0.95
    is_max_k: bool = true
    reduction_input_size_override: int = -1
    aggregate_to_topk: bool = true
    T: type in {half, bfloat16, float}
    """,
    shape=_approximate_shape,
)
def approx_top_k_kernel(
    xp: ArrayNamespace,
    input: Array,
    *,
    k: int,
    reduction_dimension: int,
    recall_target: float,
    is_max_k: bool,
) -> Any:
    """Return the k greatest of each row: as TensorFlow's kernel for CPUs, it misses none.

    Raises: InvalidArgumentError for what that kernel does not offer: the least, and other
    dimensions; and for a recall of nothing.
    """
    if recall_target <= 0:
        raise errors.InvalidArgumentError(f"recall_target must be positive; found {recall_target}")
    if reduction_dimension != -1 or not is_max_k:
        raise errors.InvalidArgumentError(
            "ApproxTopK on CPUs finds the greatest along the last dimension (-1) only; found "
            f"reduction_dimension {reduction_dimension}, is_max_k {is_max_k}"
        )
    values, columns = _top_k(xp, input, k)
    return values, columns.astype(xp.int32)


@gradient("TopK", "TopKV2", "ApproxTopK")
def top_k_gradient(op: Operation, grad: Tensor, _: Tensor) -> list[Any]:
    """Put each gradient where its element came from; columns become places in the flat input."""
    given, columns = op.inputs[0], apply_op("Cast", op.outputs[1], DstT="int32")
    sizes = apply_op("Shape", given)
    width = _last(given)
    by_row = apply_op("Reshape", columns, apply_op("Pack", [-1, _last(columns)]))
    rows = apply_op("GatherV2", apply_op("Shape", by_row), 0, 0)
    starts = apply_op("Mul", apply_op("Range", 0, rows, 1), width)
    places = apply_op("AddV2", by_row, apply_op("ExpandDims", starts, -1))
    flat = apply_op(
        "ScatterNd",
        apply_op("Reshape", places, [-1, 1]),
        apply_op("Reshape", grad, [-1]),
        apply_op("Reshape", apply_op("Prod", sizes, 0), [1]),
    )
    back = apply_op("Reshape", flat, sizes)
    return [back] if len(op.inputs) == 1 else [back, None]


def _last(x: Tensor) -> Tensor:
    """Return the last size of x, at run time."""
    sizes = apply_op("Shape", x)
    made: Tensor = apply_op("StridedSlice", sizes, [-1], [0], [1], shrink_axis_mask=1)
    return made


class TopKV2(NamedTuple):
    """What top_k returns."""

    values: Tensor
    indices: Tensor


@export("nn.top_k", "math.top_k")
def top_k(
    input: TensorLike,
    k: TensorLike = 1,
    sorted: bool = True,
    index_type: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> TopKV2:
    """Return the greatest elements of each row, and their places in it.

    Args:
      input: real numbers [..., n].
      k: how many, an integer scalar, at most n.
      sorted: whether the greatest comes first (it always does here).
      index_type: the type of the places, int32 or int64.
    Returns: values and indices, each [..., k]; of equal elements the first comes first.
    Raises: ValueError, or InvalidArgumentError when run, for k above n.
    Example:
      >>> values, indices = tf.nn.top_k([1.0, 3.0, 2.0], k=2)
      >>> print(values.numpy(), indices.numpy())
      [3. 2.] [1 2]
    """
    values, indices = apply_op(
        "TopKV2", input, k, sorted=sorted, index_type=index_type, name=name or "TopKV2"
    )
    return TopKV2(values, indices)


def _export_approximate(name: str, is_max: bool) -> None:
    def approximate(
        operand: TensorLike,
        k: int,
        reduction_dimension: int = -1,
        recall_target: float = 0.95,
        reduction_input_size_override: int = -1,
        aggregate_to_topk: bool = True,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        del recall_target, reduction_input_size_override, aggregate_to_topk  # all are found
        return _along(operand, k, reduction_dimension, is_max, name)

    approximate.__name__ = approximate.__qualname__ = name
    which, values, places = (
        ("greatest", "[3. 2.]", "[1 2]") if is_max else ("least", "[1. 2.]", "[0 2]")
    )
    approximate.__doc__ = f"""Return the k {which} elements along a dimension, and their places.

    Args:
      operand: floating numbers [..., n, ...].
      k: how many, a Python integer.
      reduction_dimension: the dimension along which they are found.
      recall_target, reduction_input_size_override, aggregate_to_topk: accepted for programs that
        give them; where TensorFlow may miss some elements, the result is exact here.
    Returns: values and int32 indices, of size k along the dimension.
    Example:
      >>> values, indices = tf.math.{name}([1.0, 3.0, 2.0], k=2)
      >>> print(values.numpy(), indices.numpy())
      {values} {places}
    """
    export(f"math.{name}", f"nn.{name}")(approximate)


def _along(
    x: TensorLike, k: int, axis: int, is_max: bool, name: str | None
) -> tuple[Tensor, Tensor]:
    given = convert_to_tensor(x)
    rank = given.shape.rank
    if rank is None or not -rank <= axis < rank:
        raise ValueError(f"dimension {axis} lies outside a tensor of shape {given.shape}")
    order = [*(i for i in range(rank) if i != axis % rank), axis % rank]
    back = [order.index(i) for i in range(rank)]
    rows = apply_op("Transpose", given, order)
    values, places = top_k(rows if is_max else apply_op("Neg", rows), k, name=name)
    turned = values if is_max else apply_op("Neg", values)
    return apply_op("Transpose", turned, back), apply_op("Transpose", places, back)


_export_approximate("approx_max_k", True)
_export_approximate("approx_min_k", False)


@export("approx_top_k")
def approx_top_k(
    input: TensorLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    is_max_k: bool = True,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the k greatest (or least) elements along a dimension, and their places in it.

    Args:
      input: floating numbers [..., n, ...].
      k: how many, a Python integer.
      is_max_k: whether the greatest are found, or the least.
      reduction_dimension: the dimension along which they are found.
      recall_target, reduction_input_size_override, aggregate_to_topk: accepted for programs that
        give
        them; where TensorFlow may miss some elements, the result is exact here.
    Returns: values and int32 indices, of size k along the dimension.
    Example:
      >>> values, indices = tf.approx_top_k([1.0, 3.0, 2.0], k=2)
      >>> tf.Session().run([values, indices])
      [array([3., 2.], dtype=float32), array([1, 2], dtype=int32)]
    """
    del recall_target, reduction_input_size_override, aggregate_to_topk
    return _along(input, k, reduction_dimension, is_max_k, name)


def _in_top_k_shape(c: ShapeContext) -> list[Dims]:
    rows = with_rank(c.inputs[0], 2, "predictions")[:1]
    return [shapes.merge(rows, with_rank(c.inputs[1], 1, "targets"))]


def _in_top_k(xp: ArrayNamespace, predictions: Array, targets: Array, k: object) -> Any:
    if predictions.ndim != 2 or targets.shape != predictions.shape[:1]:
        raise errors.InvalidArgumentError(
            f"predictions must be [batch, classes] and targets [batch]; found "
            f"{list(predictions.shape)} and {list(targets.shape)}"
        )
    classes = predictions.shape[1]
    if not classes:
        return xp.zeros(targets.shape, bool)
    is_class = (targets >= 0) & (targets < classes)
    at = xp.where(is_class, targets, 0)[:, None]
    mine = xp.take_along_axis(predictions, at, axis=1)
    better = xp.sum(predictions > mine, axis=1)
    return is_class & xp.all(xp.isfinite(predictions), axis=1) & (better < k)


@op(
    """
    InTopKV2(predictions: float, targets: T, k: T) -> precision: bool
    T: type in indices = int32
    """,
    shape=_in_top_k_shape,
    compiles=Compiles.NEVER,
)
def in_top_k_kernel(xp: ArrayNamespace, predictions: Array, targets: Array, k: Array) -> Any:
    check_scalar(k, "k")
    return _in_top_k(xp, predictions, targets, k)


@op(
    """
    InTopK(predictions: float, targets: T) -> precision: bool
    k: int
    T: type in indices = int32
    """,
    shape=_in_top_k_shape,
    compiles=Compiles.NEVER,
)
def in_top_k_v1_kernel(xp: ArrayNamespace, predictions: Array, targets: Array, *, k: int) -> Any:
    return _in_top_k(xp, predictions, targets, k)


not_differentiable("InTopK", "InTopKV2")


@export("nn.in_top_k", "math.in_top_k")
@scoped("in_top_k")
def in_top_k(
    predictions: TensorLike, targets: TensorLike, k: TensorLike, name: str | None = None
) -> Tensor:
    """Return for each row whether its target is among the k greatest predictions.

    Args:
      predictions: float32 [batch, classes].
      targets: int32 or int64 [batch]; one out of range, or a row that is not finite, gives False.
      k: how many predictions count, an integer scalar.
    Returns: bool [batch]; True where fewer than k predictions exceed that of the target.
    Example:
      >>> found = tf.nn.in_top_k([[0.1, 0.7, 0.2]], [2], 1)
      >>> tf.Session().run(found).tolist()
      [False]
    """
    made: Tensor = apply_op("InTopKV2", predictions, targets, k)
    return made


@export_v2("nn.in_top_k", "math.in_top_k")
def in_top_k_v2(
    targets: TensorLike, predictions: TensorLike, k: TensorLike, name: str | None = None
) -> Tensor:
    """Return for each row whether its target is among the k greatest predictions.

    Args:
      targets: int32 or int64 [batch]; one out of range, or a row that is not finite, gives False.
      predictions: float32 [batch, classes].
      k: how many predictions count, an integer scalar.
    Returns: bool [batch]; True where fewer than k predictions exceed that of the target.
    Example:
      >>> print(tf.nn.in_top_k([2], [[0.1, 0.7, 0.2]], 1).numpy())
      [False]
    """
    return in_top_k(predictions, targets, k, name)


# ---- the n-th of a row


def _nth_shape(c: ShapeContext) -> list[Dims]:
    given, n = c.inputs[0], c.value("n")
    if given is None:
        return [None]
    if not given:
        raise ValueError("input must have at least one dimension; it is a scalar")
    if n is not None and (n < 0 or (given[-1] is not None and given[-1] <= n)):
        raise ValueError(f"n = {n} must lie in rows of {given[-1]}")
    return [given[:-1]]


@op(
    """
    NthElement(input: T, n: int32) -> values: T
    reverse: bool = false
    T: type in reals
    """,
    shape=_nth_shape,
    static=("n",),
)
def nth_element_kernel(xp: ArrayNamespace, x: Array, n: Array, *, reverse: bool) -> Any:
    """Return the n-th of each row in rising order, from 0; in falling order if reverse."""
    check_scalar(n, "n")
    if n < 0 or not x.ndim or x.shape[-1] <= n:
        raise errors.InvalidArgumentError(f"n = {n} must lie in rows of shape {list(x.shape)}")
    at = x.shape[-1] - 1 - int(n) if reverse else int(n)
    return xp.sort(x, axis=-1)[..., at]


@gradient("NthElement")
def nth_element_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Share the gradient among the elements that are equal to the n-th."""
    x = op.inputs[0]
    column = apply_op("ExpandDims", op.outputs[0], -1)
    is_nth = apply_op("Cast", apply_op("Equal", column, x), DstT=grad.dtype)
    count = apply_op("ExpandDims", apply_op("Sum", is_nth, [-1]), -1)
    return [apply_op("RealDiv", is_nth, count) * apply_op("ExpandDims", grad, -1), None]
