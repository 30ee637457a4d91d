"""Programs with one dataset each that calls functions, whose inputs are fed (see
programs.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import tideflow.v1 as tf
from ops.bad_inputs.dataset_programs import first_elements
from ops.bad_inputs.programs import Build, Feeds
from ops.dataset_graphs import Made, function, numbers
from tideflow.graph.building import apply_op
from tideflow.graph.shapes import TensorShape

F = np.float32
I32 = np.int32
I64 = np.int64
TABLE = np.array([7, 5, 3, 1], I64)
UNKNOWN = {"types": [tf.int64], "shapes": [None]}
_VECTOR = (tf.int64, (None,))
_ANY = (tf.int64, None)
Runs = Sequence[Sequence[Any]]


def _looked_up(x: Any, table: Any) -> Any:
    return tf.gather(table, x)


# ---- one element by another


def _mapped(op: str, feed: Feeds) -> Runs:
    f = function(_looked_up, tf.int64, _ANY)
    kinds = {"ParallelMapDataset": I32, "ParallelMapDatasetV2": I64}
    calls = [feed(kinds[op](2))] if op in kinds else []
    return first_elements(numbers(5).to_other(op, [feed(TABLE)], *calls, f=f, **UNKNOWN))


def _mapped_and_batched(op: str, feed: Feeds) -> Runs:
    f = function(_looked_up, tf.int64, _ANY)
    rest = [feed(I64(2)), feed(I64(1)), feed(np.bool_(False))]
    return first_elements(numbers(4).to_other(op, [feed(TABLE)], *rest, f=f, **UNKNOWN))


def _chosen(op: str, feed: Feeds) -> Runs:
    predicate = function(lambda x, table: tf.greater(tf.gather(table, x), 2), tf.int64, _ANY)
    calls = [feed(I64(2))] if op == "ParallelFilterDataset" else []
    return first_elements(numbers(5).to(op, [feed(TABLE)], *calls, predicate=predicate))


def _scanned(op: str, feed: Feeds) -> Runs:
    f = function(lambda state, x, table: (state + tf.gather(table, x), state), _ANY, tf.int64, _ANY)
    made = numbers(5).to_other(op, [feed(I64(3))], [feed(TABLE)], f=f, **UNKNOWN)
    return first_elements(made)


def _reduced(op: str, feed: Feeds) -> Runs:
    f = function(lambda state, x, table: state + tf.gather(table, x), _ANY, tf.int64, _ANY)
    kinds = {"output_types": [tf.int64], "output_shapes": [TensorShape(None)]}
    made = apply_op(op, numbers(4).variant, [feed(I64(3))], [feed(TABLE)], f=f, **kinds)
    return [made if isinstance(made, list) else [made]]


# ---- groups


def _windows(op: str, feed: Feeds, keys: Any = (0, 1, 0, 1)) -> Runs:
    key = function(_looked_up, tf.int64, _ANY)
    vectors = {"output_types": [tf.int64], "output_shapes": [TensorShape([None])]}

    def joined(_: Any, window: Any, size: Any) -> Any:
        return apply_op("BatchDataset", window, size, **vectors)

    made = numbers(4).to_other(
        op,
        [feed(np.array(keys))],
        [feed(I64(2))],
        [feed(I64(2))],
        key_func=key,
        reduce_func=function(joined, tf.int64, tf.variant, _ANY),
        window_size_func=function(lambda key, size: size, tf.int64, _ANY),
        types=[tf.int64],
        shapes=[(None,)],
    )
    return first_elements(made)


def _keys_reduced(op: str, feed: Feeds, keys: Any = (0, 1, 0, 1)) -> Runs:
    parts = {
        "key_func": function(_looked_up, tf.int64, _ANY),
        "init_func": function(lambda key, first: key + first, tf.int64, _ANY),
        "reduce_func": function(
            lambda total, x, table: total + tf.gather(table, x), _ANY, tf.int64, _ANY
        ),
        "finalize_func": function(lambda total, by: tf.floordiv(total, by), _ANY, _ANY),
    }
    given = [np.array(keys), I64(100), TABLE, I64(3)]
    inputs = [[feed(value)] for value in given]
    return first_elements(numbers(4).to_other(op, *inputs, **parts, **UNKNOWN))


# ---- datasets of datasets


def _repeats(x: Any, times: Any) -> Any:
    """Return a dataset of x, so many times as a table says."""
    attrs = {"output_shapes": [TensorShape([])]}
    one = apply_op("TensorDataset", [x], **attrs)
    return apply_op("RepeatDataset", one, tf.gather(times, x), output_types=[tf.int64], **attrs)


_COUNTS = np.array([2, 0, 1, 3])


def _flat(op: str, feed: Feeds) -> Runs:
    f = function(_repeats, tf.int64, _ANY)
    return first_elements(numbers(5).to(op, [feed(_COUNTS)], f=f))


# Sizes after cycle_length and block_length.
_BUFFERED = {"LegacyParallelInterleaveDatasetV2", "ParallelInterleaveDatasetV4"}


def _interleaved(op: str, feed: Feeds) -> Runs:
    sizes: list[Any] = [feed(I64(2)), feed(I64(2))]
    attrs = {}
    if op in ("ParallelInterleaveDataset", "ExperimentalParallelInterleaveDataset"):
        sizes += [feed(np.bool_(False), most=0), feed(I64(2)), feed(I64(1))]
    elif op in _BUFFERED:
        sizes += [feed(I64(2)), feed(I64(1))]
    if op.startswith("ParallelInterleaveDatasetV"):
        sizes.append(feed(I64(2)))
    if op in (*_BUFFERED, "ParallelInterleaveDatasetV3"):
        attrs["deterministic"] = "true"
    f = function(_repeats, tf.int64, _ANY)
    return first_elements(numbers(4).to(op, [feed(_COUNTS)], *sizes, f=f, **attrs))


def _generated(op: str, feed: Feeds) -> Runs:
    def counter() -> Any:
        return apply_op("VarHandleOp", dtype=tf.int64, shape=[], shared_name="counter")

    def begin(first: Any) -> Any:
        with tf.control_dependencies([apply_op("AssignVariableOp", counter(), I64(0))]):
            return tf.identity(first)

    def following(first: Any, by: Any) -> Any:
        return apply_op("ResourceCountUpTo", counter(), limit=3, T=tf.int64) * by + first

    def end(first: Any, last: Any) -> Any:
        with tf.control_dependencies([apply_op("AssignVariableOp", counter(), last)]):
            return tf.identity(first)

    bodies = dict(zip(("init_func", "next_func", "finalize_func"), (begin, following, end)))
    kinds = {"init_func": [_ANY], "next_func": [_ANY, _ANY], "finalize_func": [_ANY, _ANY]}
    made = Made(None, [tf.int64], [None])
    made.variant = apply_op(
        op,
        [feed(I64(40))],
        [feed(I64(2))],
        [feed(I64(8))],
        **{name: function(body, *kinds[name]) for name, body in bodies.items()},
        **made.structure,
    )
    return first_elements(made)


_BUILDERS: list[tuple[Callable[[str, Feeds], Runs], str]] = [
    (_mapped, "MapDataset ParallelMapDataset ParallelMapDatasetV2"),
    (_mapped_and_batched, "MapAndBatchDataset ExperimentalMapAndBatchDataset"),
    (
        _chosen,
        "FilterDataset ParallelFilterDataset TakeWhileDataset ExperimentalTakeWhileDataset",
    ),
    (_scanned, "ScanDataset ExperimentalScanDataset"),
    (_reduced, "ReduceDataset"),
    (_windows, "GroupByWindowDataset ExperimentalGroupByWindowDataset"),
    (_keys_reduced, "GroupByReducerDataset ExperimentalGroupByReducerDataset"),
    (_flat, "FlatMapDataset"),
    (
        _interleaved,
        "InterleaveDataset ParallelInterleaveDataset ExperimentalParallelInterleaveDataset "
        "LegacyParallelInterleaveDatasetV2 ParallelInterleaveDatasetV2 "
        "ParallelInterleaveDatasetV3 ParallelInterleaveDatasetV4",
    ),
    (_generated, "GeneratorDataset"),
]


def dataset_function_programs() -> dict[str, Build]:
    """Return how the program of each op is built."""
    found = {op: partial(builder, op) for builder, ops in _BUILDERS for op in ops.split()}
    vectors = [[0], [1], [0], [1]]
    return found | {
        "GroupByWindowDataset by_vectors": partial(_windows, "GroupByWindowDataset", keys=vectors),
        "GroupByReducerDataset by_vectors": partial(
            _keys_reduced, "GroupByReducerDataset", keys=vectors
        ),
    }
