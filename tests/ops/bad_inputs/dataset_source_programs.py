"""Programs with one dataset each that reads what others do not: databases, records from within
files, what one of several functions makes; and with functions of rows (see programs.py)."""

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

I64 = np.int64
UNKNOWN = {"types": [tf.int64], "shapes": [None]}
Runs = Sequence[Sequence[Any]]


def _queried(op: str, feed: Feeds) -> Runs:
    made = Made(None, [tf.int64, tf.string], [(), ()])
    inputs = [feed("sqlite"), feed.path("a.db"), feed("select 1, 'a' union select 2, 'b'")]
    made.variant = apply_op(op, *inputs, **made.structure)
    return first_elements(made)


def _from_within(op: str, feed: Feeds) -> Runs:
    written = numbers(3).to_other(
        "MapDataset", [], f=function(tf.as_string, tf.int64), types=[tf.string], shapes=[()]
    )
    path = feed.path(np.array([b"a"], object))
    saved = apply_op("DatasetToTFRecord", written.variant, tf.reshape(path, []), "")
    made = Made(None, [tf.string])
    made.variant = apply_op(op, path, feed(""), feed(I64(0)), feed(np.array([17])))
    return [[saved], *first_elements(made)]


def _rows(op: str, feed: Feeds) -> Runs:
    f = function(lambda x, by: x * by, (tf.int64, None), (tf.int64, None))
    shapes = [TensorShape([2])]
    given = [feed(np.arange(6).reshape(3, 2))]
    return [apply_op(op, given, [feed(I64(3))], f=f, output_types=[tf.int64], output_shapes=shapes)]


def _branched(op: str, feed: Feeds) -> Runs:
    def batched(dataset: Any, size: Any) -> Any:
        kind = {"output_types": [tf.int64], "output_shapes": [TensorShape(None)]}
        return apply_op("BatchDataset", dataset, size, **kind)

    f = function(batched, tf.variant, (tf.int64, None))
    made = numbers(8).to_other(
        op, I64(2), I64(1), [feed(I64(2)), feed(I64(2))], branches=[f, f],
        other_arguments_lengths=[1, 1], num_elements_per_branch=4, **UNKNOWN,
    )  # fmt: skip
    return first_elements(made)


def _compressed(op: str, feed: Feeds) -> Runs:
    parts = [feed(np.arange(6).reshape(3, 2)), feed("text"), feed(np.float32(1.5))]
    packed = apply_op("CompressElement", parts)
    shapes = [TensorShape(None)] * 3
    types = [part.dtype for part in parts]
    return [apply_op("UncompressElement", packed, output_types=types, output_shapes=shapes)]


def _shuffled(op: str, feed: Feeds) -> Runs:
    made = Made(None)
    made.variant = apply_op("RangeDataset", I64(0), feed(I64(5)), feed(I64(1)), **made.structure)
    seeds = [feed(I64(3)), feed(I64(4)), apply_op("DummySeedGenerator")]
    return first_elements(made.to(op, *seeds))


def _flat_by_index(op: str, feed: Feeds) -> Runs:
    any_number = (tf.int64, None)
    parts = function(lambda x, table: tf.fill([tf.gather(table, x)], x), tf.int64, any_number)
    places = function(lambda i, by: (i // by, i % by), tf.int64, any_number)
    captured = [feed(np.array([2, 2, 2, 2]))], [feed(I64(2))]
    made = numbers(3).to_other(
        op, *captured, feed(I64(6)), map_func=parts, index_map_func=places, **UNKNOWN
    )
    return first_elements(made)


def _by_weights(op: str, feed: Feeds) -> Runs:
    made = Made(None)
    weights = [np.float64(1), np.float64(1)]
    limits = [feed(I64(3)), feed(I64(4))]
    sources = [apply_op("RangeDataset", I64(0), x, I64(1), **made.structure) for x in limits]
    made.variant = apply_op(op, sources, weights, **made.structure)
    return first_elements(made)


def _parsed(op: str, feed: Feeds) -> Runs:
    record = tf.train.Example()
    record.features.feature["a"].int64_list.value.extend([1, 2])
    records = Made(None, [tf.string], [(None,)])
    records.variant = apply_op(
        "TensorSliceDataset", [tf.constant([[record.SerializeToString()]])],
        output_shapes=records.structure["output_shapes"],
    )  # fmt: skip
    made = Made(None, [tf.int64], [None])
    made.variant = apply_op(
        op, records.variant, feed(I64(1)), [feed(np.array([3, 4]))], sparse_keys=[],
        sparse_types=[], dense_keys=["a"], dense_shapes=[TensorShape([2])], **made.structure,
    )  # fmt: skip
    return first_elements(made)


def _measured(op: str, feed: Feeds) -> Runs:
    aggregator = apply_op("StatsAggregatorHandle")
    measured = numbers(3).to("BytesProducedStatsDataset", "bytes")
    made = first_elements(measured.to(op, aggregator, feed("all"), feed("")))
    return [*made, [apply_op("StatsAggregatorSummary", aggregator)]]


_BUILDERS: list[tuple[Callable[[str, Feeds], Runs], str]] = [
    (_queried, "SqlDataset ExperimentalSqlDataset"),
    (_from_within, "TFRecordDatasetV2"),
    (_rows, "MapDefun"),
    (_compressed, "CompressElement UncompressElement"),
    (_shuffled, "GlobalShuffleDataset"),
    (_flat_by_index, "IndexFlatMapDataset"),
    (_by_weights, "WeightedFlatMapDataset"),
    (_parsed, "ParseExampleDataset ParseExampleDatasetV2 ExperimentalParseExampleDataset"),
    (_measured, "SetStatsAggregatorDataset ExperimentalSetStatsAggregatorDataset"),
    (_branched, "ChooseFastestBranchDataset"),
]


def dataset_source_programs() -> dict[str, Build]:
    """Return how the program of each op is built."""
    return {op: partial(builder, op) for builder, ops in _BUILDERS for op in ops.split()}
