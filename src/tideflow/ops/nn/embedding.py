"""Embedding lookups: rows of a table, which may be split over several variables."""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.wire import dtypes


@export("nn.embedding_lookup")
def embedding_lookup(
    params: object,
    ids: TensorLike,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> Tensor:
    """Return the rows of a table that ids name.

    Args:
      params: a tensor or variable [rows, ...], a partitioned variable, or a list of parts.
      ids: int32 or int64 [...].
      partition_strategy: which part holds a row: "mod" deals rows out one by one, "div" gives
        each part a run of neighbours (the first parts have one row more where it does not divide).
      validate_indices: accepted; ids are always checked.
      max_norm: rows with a greater 2-norm are scaled down to it.
    Returns: [ids..., row...], of the type of params.
    Raises: ValueError for another strategy or no params; InvalidArgumentError, when run, for ids
      outside the table.
    Example:
      >>> even, odd = tf.constant([[0.0], [2.0]]), tf.constant([[1.0], [3.0]])
      >>> rows = tf.nn.embedding_lookup([even, odd], [3, 0], partition_strategy="mod")
      >>> tf.Session().run(rows).tolist()
      [[3.0], [0.0]]
    """
    parts = _parts(params)
    if not parts:
        raise ValueError("embedding_lookup needs at least one table")
    if partition_strategy not in ("mod", "div"):
        raise ValueError(f"partition_strategy must be 'mod' or 'div'; found {partition_strategy!r}")
    with get_default_graph().name_scope(name or "embedding_lookup") as scope:
        ids = convert_to_tensor(ids, name="ids")
        parts = [p if hasattr(p, "sparse_read") else convert_to_tensor(p) for p in parts]
        if len(parts) == 1:
            found = _clipped(_rows(parts[0], ids, scope), ids, max_norm)
            made: Tensor = apply_op("Identity", found)
            return made
        return _lookup_in_parts(parts, ids, partition_strategy, max_norm, scope)


@export_v2("nn.embedding_lookup")
def embedding_lookup_v2(
    params: TensorLike, ids: TensorLike, max_norm: float | None = None, name: str | None = None
) -> Tensor:
    """Return the rows of a table that ids name.

    Args:
      params: a tensor or variable [rows, ...], or a list of parts, each of which holds a run of
        neighbouring rows.
      ids: int32 or int64 [...].
      max_norm: rows with a greater 2-norm are scaled down to it.
    Returns: [ids..., row...], of the type of params.
    Raises: ValueError for no params; InvalidArgumentError for ids outside the table.
    Example:
      >>> table = tf.constant([[0.0, 1.0], [3.0, 4.0]])
      >>> tf.nn.embedding_lookup(table, [1, 0]).numpy().tolist()
      [[3.0, 4.0], [0.0, 1.0]]
      >>> print(tf.nn.embedding_lookup(table, [1], max_norm=1.0).numpy().round(4))
      [[0.6 0.8]]
    """
    return embedding_lookup(params, ids, "div", name, max_norm=max_norm)


def _parts(params: object) -> list[Any]:
    if isinstance(params, (list, tuple)):
        return list(params)
    # A partitioned variable is a sequence of variables with a name of its own.
    if hasattr(params, "_get_variable_list"):
        return list(params._get_variable_list())
    return [params] if params is not None else []


def _rows(part: TensorLike, ids: Tensor, name: str | None = None) -> Tensor:
    read = getattr(part, "sparse_read", None)
    if read is not None:
        rows: Tensor = read(ids, name=name)
        return rows
    made: Tensor = apply_op("GatherV2", part, ids, 0, name=name)
    return made


def _lookup_in_parts(
    parts: list[Any], ids: Tensor, strategy: str, max_norm: float | None, name: str
) -> Tensor:
    count = len(parts)
    flat = apply_op("Reshape", ids, [-1])
    places = apply_op("Range", 0, apply_op("Size", flat), 1)
    if strategy == "mod":
        owner = apply_op("FloorMod", flat, count)
        local = apply_op("FloorDiv", flat, count)
    else:
        owner, local = _by_runs(parts, flat)
    owner = apply_op("Cast", owner, DstT="int32")
    wanted = apply_op("DynamicPartition", local, owner, num_partitions=count)
    origins = apply_op("DynamicPartition", places, owner, num_partitions=count)
    graph = get_default_graph()
    rows = []
    for part, own_ids in zip(parts, wanted):
        with graph.colocate_with(part if hasattr(part, "op") else None):
            rows.append(_clipped(_rows(part, own_ids), own_ids, max_norm))
    merged = apply_op("ParallelDynamicStitch", origins, rows, name=name)
    row_shape = rows[0].shape[1:]
    found: Tensor = apply_op("Reshape", merged, _result_sizes(ids, parts[0], row_shape))
    found.set_shape(ids.shape.concatenate(row_shape))
    return found


def _result_sizes(ids: Tensor, part: Tensor, row_shape: TensorShape) -> Tensor:
    """Return the shape of ids followed by that of a row, at run time."""
    if row_shape.is_fully_defined():
        tail = convert_to_tensor(row_shape.as_list(), dtypes.int32)
    else:
        tail = apply_op("StridedSlice", apply_op("Shape", part), [1], [0], [1], end_mask=1)
    made: Tensor = apply_op("ConcatV2", [apply_op("Shape", ids), tail], 0)
    return made


def _by_runs(parts: list[Any], flat: Tensor) -> tuple[Tensor, Tensor]:
    """Return part and row in it, where each part holds a run of neighbouring rows."""
    count = len(parts)
    total = _total_rows(parts, flat)
    per_part = apply_op("FloorDiv", total, count)
    extras = apply_op("FloorMod", total, count)
    larger = apply_op("AddV2", per_part, 1)
    # The first `extras` parts hold one row more.
    owner = apply_op(
        "Maximum",
        apply_op("FloorDiv", flat, larger),
        apply_op("FloorDiv", apply_op("Sub", flat, extras), per_part),
    )
    is_early = apply_op("Less", owner, extras)
    early = apply_op("FloorMod", flat, larger)
    late = apply_op("FloorMod", apply_op("Sub", flat, extras), per_part)
    return owner, apply_op("SelectV2", is_early, early, late)


def _total_rows(parts: list[Any], flat: Tensor) -> Tensor:
    static = [part.shape[0] if part.shape.rank else None for part in parts]
    if None not in static:
        return convert_to_tensor(sum(static), flat.dtype)
    sizes = [
        apply_op("GatherV2", apply_op("Shape", part, out_type=flat.dtype), 0, 0) for part in parts
    ]
    made: Tensor = apply_op("AddN", sizes)
    return made


def _clipped(rows: Tensor, ids: Tensor, max_norm: float | None) -> Tensor:
    """Scale rows whose 2-norm exceeds max_norm down to it."""
    if max_norm is None:
        return rows
    rank = apply_op("Rank", ids)
    axes = apply_op("Range", rank, apply_op("Rank", rows), 1)
    squares = apply_op("Sum", apply_op("Square", rows), axes, keep_dims=True)
    norm = apply_op("Sqrt", squares)
    limit = convert_to_tensor(max_norm, rows.dtype)
    made: Tensor = apply_op(
        "RealDiv", apply_op("Mul", rows, limit), apply_op("Maximum", norm, limit)
    )
    return made
