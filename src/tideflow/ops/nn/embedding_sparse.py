"""Embeddings of sets of ids: the rows that each row of a sparse tensor names, combined into one.

Source: tensorflow/python/ops/embedding_ops.py.
"""

from __future__ import annotations

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.nn.embedding import embedding_lookup
from tideflow.ops.sparse import (
    SparseTensor,
    fill_empty_rows,
    reshape,
    retain,
    sparse_segment_mean,
    sparse_segment_sqrt_n,
    sparse_segment_sum,
)
from tideflow.wire import dtypes

_COMBINERS = {
    "sum": sparse_segment_sum,
    "mean": sparse_segment_mean,
    "sqrtn": sparse_segment_sqrt_n,
}


@export("nn.embedding_lookup_sparse")
def embedding_lookup_sparse(
    params: TensorLike,
    sp_ids: SparseTensor,
    sp_weights: SparseTensor | None,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: float | None = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Return for each row of ids the embeddings that it names, combined.

    Args:
      params, partition_strategy, max_norm: as for embedding_lookup.
      sp_ids: int32 or int64 [rows, columns], in row-major order, no row empty before the last.
      sp_weights: a floating weight for each id, or None for ones.
      combiner: "sum", "mean" (default: the sum over that of the weights) or "sqrtn" (over the root
        of the sum of their squares).
      allow_fast_lookup: accepted; it changes nothing.
    Returns: [rows, embedding...].
    Raises: TypeError for ids or weights that are not sparse; ValueError for another combiner.
    Example:
      >>> table = tf.constant([[1.0], [2.0], [4.0]])
      >>> ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [0, 2, 1], [2, 2])
      >>> sums = tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum")
      >>> tf.Session().run(sums).tolist()
      [[5.0], [2.0]]
    """
    chosen = "mean" if combiner is None else combiner
    if chosen not in _COMBINERS:
        raise ValueError(f"combiner must be one of {sorted(_COMBINERS)}; found {chosen!r}")
    for given, what in ((sp_ids, "sp_ids"), (sp_weights, "sp_weights")):
        if not isinstance(given, SparseTensor) and (given is not None or what == "sp_ids"):
            raise TypeError(f"{what} must be a SparseTensor; found {type(given).__name__}")
    with get_default_graph().name_scope(name or "embedding_lookup_sparse"):
        rows = apply_op("Cast", _rows_of(sp_ids), DstT=dtypes.int32)
        ids, places = apply_op("Unique", sp_ids.values)
        found = embedding_lookup(params, ids, partition_strategy, max_norm=max_norm)
        if sp_weights is None:
            made: Tensor = _COMBINERS[chosen](found, places, rows)
            return made
        return _weighted(found, places, rows, sp_weights.values, chosen)


@export_v2("nn.embedding_lookup_sparse")
def embedding_lookup_sparse_v2(
    params: TensorLike,
    sp_ids: SparseTensor,
    sp_weights: SparseTensor | None,
    combiner: str | None = None,
    max_norm: float | None = None,
    name: str | None = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Return for each row of ids the embeddings that it names, combined.

    Args:
      params: a table [n, embedding...], or a list of parts, each of which holds a run of
        neighbouring rows.
      sp_ids: int32 or int64 [rows, columns], in row-major order, no row empty before the last.
      sp_weights: a floating weight for each id, or None for ones.
      combiner: "sum", "mean" (default: the sum over that of the weights) or "sqrtn" (over the root
        of the sum of their squares).
      max_norm: embeddings with a greater 2-norm are scaled down to it.
      allow_fast_lookup: accepted; it changes nothing.
    Returns: [rows, embedding...].
    Raises: TypeError for ids or weights that are not sparse; ValueError for another combiner.
    Example:
      >>> table = tf.constant([[1.0], [2.0], [4.0]])
      >>> ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [0, 2, 1], [2, 2])
      >>> tf.nn.embedding_lookup_sparse(table, ids, None).numpy().tolist()
      [[2.5], [2.0]]
    """
    return embedding_lookup_sparse(
        params, sp_ids, sp_weights, "div", name, combiner, max_norm, allow_fast_lookup
    )


def _rows_of(sparse: SparseTensor) -> Tensor:
    made: Tensor = apply_op(
        "StridedSlice", sparse.indices, [0, 0], [0, 1], [1, 1], end_mask=1, shrink_axis_mask=2
    )
    return made


def _weighted(table: Tensor, places: Tensor, rows: Tensor, weights: Tensor, how: str) -> Tensor:
    found = apply_op("GatherV2", table, places, 0)
    if weights.dtype != found.dtype:
        weights = apply_op("Cast", weights, DstT=found.dtype)
    tall = _column(weights, found)
    total: Tensor = apply_op("SegmentSum", found * tall, rows)
    if how == "sum":
        return total
    if how == "mean":
        divisor = apply_op("SegmentSum", tall, rows)
    else:
        divisor = apply_op("Sqrt", apply_op("SegmentSum", apply_op("Square", tall), rows))
    made: Tensor = apply_op("DivNoNan", total, divisor)
    return made


def _column(x: Tensor, like: Tensor) -> Tensor:
    """Return a vector with a value for each row of `like` in a shape that broadcasts with it."""
    further = apply_op("Reshape", apply_op("Rank", like) - 1, [1])
    sizes = apply_op("ConcatV2", [[-1], apply_op("Fill", further, 1)], 0)
    made: Tensor = apply_op("Reshape", x, sizes)
    return made


@export("nn.safe_embedding_lookup_sparse")
def safe_embedding_lookup_sparse(
    embedding_weights: TensorLike,
    sparse_ids: SparseTensor,
    sparse_weights: SparseTensor | None = None,
    combiner: str | None = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: float | None = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Return embedding_lookup_sparse of ids that may be negative, and rows that may be empty.

    Args:
      embedding_weights: a table [n, embedding...], or a list of parts.
      sparse_ids: int64 [..., columns].  Negative ids are left out, and, but for "sum", those with
        a weight that is not positive.
      sparse_weights: a floating weight for each id, or None for ones.
      combiner: "sum", "mean" or "sqrtn"; see embedding_lookup_sparse.
      default_id: stands in rows without an id; without it such a row gives zeros.
      partition_strategy, max_norm: as for embedding_lookup.
      allow_fast_lookup: accepted; it changes nothing.
    Returns: [..., embedding...].
    Raises: ValueError without a table.
    Example:
      >>> table = tf.constant([[1.0], [2.0], [4.0]])
      >>> ids = tf.SparseTensor([[0, 0], [2, 0]], tf.constant([1, -1], tf.int64), [3, 1])
      >>> rows = tf.nn.safe_embedding_lookup_sparse(table, ids, default_id=2)
      >>> tf.Session().run(rows).tolist()
      [[2.0], [4.0], [4.0]]
    """
    if embedding_weights is None or (
        isinstance(embedding_weights, (list, tuple)) and not embedding_weights
    ):
        raise ValueError("embedding_weights must hold at least one table")
    with get_default_graph().name_scope(name or "embedding_lookup"):
        outer = apply_op("StridedSlice", sparse_ids.dense_shape, [0], [-1], [1], begin_mask=1)
        last = apply_op("StridedSlice", sparse_ids.dense_shape, [-1], [0], [1], end_mask=1)
        flat = apply_op("ConcatV2", [apply_op("Prod", outer, [0], keep_dims=True), last], 0)
        ids = reshape(sparse_ids, flat)
        is_valid = apply_op("GreaterEqual", ids.values, 0)
        weights = None
        if sparse_weights is not None:
            weights = SparseTensor(ids.indices, sparse_weights.values, ids.dense_shape)
            if combiner != "sum":
                is_valid = apply_op("LogicalAnd", is_valid, apply_op("Greater", weights.values, 0))
            weights, _ = fill_empty_rows(retain(weights, is_valid), 1.0)
        ids, is_empty = fill_empty_rows(retain(ids, is_valid), default_id or 0)
        found = embedding_lookup_sparse(
            embedding_weights, ids, weights, partition_strategy, None, combiner, max_norm
        )
        if default_id is None:
            zeros = apply_op("ZerosLike", found)
            found = apply_op("SelectV2", _column(is_empty, found), zeros, found)
        width = apply_op("StridedSlice", apply_op("Shape", found), [1], [0], [1], end_mask=1)
        sizes = apply_op("ConcatV2", [apply_op("Cast", outer, DstT=dtypes.int32), width], 0)
        made: Tensor = apply_op("Reshape", found, sizes)
        return made


@export_v2("nn.safe_embedding_lookup_sparse")
def safe_embedding_lookup_sparse_v2(
    embedding_weights: TensorLike,
    sparse_ids: SparseTensor,
    sparse_weights: SparseTensor | None = None,
    combiner: str | None = "mean",
    default_id: int | None = None,
    max_norm: float | None = None,
    name: str | None = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Return embedding_lookup_sparse of ids that may be negative, and rows that may be empty.

    Args:
      embedding_weights: a table [n, embedding...], or a list of parts, each of which holds a run of
        neighbouring rows.
      sparse_ids: int64 [..., columns].  Negative ids are left out, and, but for "sum", those with
        a weight that is not positive.
      sparse_weights: a floating weight for each id, or None for ones.
      combiner: "sum", "mean" or "sqrtn"; see embedding_lookup_sparse.
      default_id: stands in rows without an id; without it such a row gives zeros.
      max_norm: embeddings with a greater 2-norm are scaled down to it.
      allow_fast_lookup: accepted; it changes nothing.
    Returns: [..., embedding...].
    Raises: ValueError without a table.
    Example:
      >>> table = tf.constant([[1.0], [2.0], [4.0]])
      >>> ids = tf.SparseTensor([[0, 0], [2, 0]], tf.constant([1, -1], tf.int64), [3, 1])
      >>> tf.nn.safe_embedding_lookup_sparse(table, ids).numpy().tolist()
      [[2.0], [0.0], [0.0]]
    """
    return safe_embedding_lookup_sparse(
        embedding_weights, sparse_ids, sparse_weights, combiner, default_id, name, "div", max_norm
    )
