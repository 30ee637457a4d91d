"""Programs with one dataset each that calls no function, whose inputs are fed: what passes on,
draws, batches, caches and joins (see programs.py)."""

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

I32 = np.int32
I64 = np.int64
YES = np.bool_(True)
NUMBERS = {"types": [tf.int64], "shapes": [None]}
Runs = Sequence[Sequence[Any]]


def _counted(feed: Feeds, value: int = 3) -> Made:
    """Return a dataset of the first numbers, up to a limit that is fed."""
    made = Made(None)
    made.variant = apply_op("RangeDataset", I64(0), feed(I64(value)), I64(1), **made.structure)
    return made


def _sliced(feed: Feeds, value: Any, **kind: Any) -> Made:
    """Return a dataset of the rows of what is fed."""
    made = Made(None, **(kind or NUMBERS))
    made.variant = apply_op(
        "TensorSliceDataset", [feed(value)], output_shapes=made.structure["output_shapes"]
    )
    return made


# ---- passing on

_HINTS: dict[str, Any] = {
    "AssertCardinalityDataset": I64(5),
    "AssertNextDataset": ["Take"],
    "ExperimentalAssertNextDataset": ["Take"],
    "AssertPrevDataset": ['name: "RangeDataset"'],
    "BytesProducedStatsDataset": "tag",
    "ExperimentalBytesProducedStatsDataset": "tag",
    "LatencyStatsDataset": "tag",
    "ExperimentalLatencyStatsDataset": "tag",
    "MaxIntraOpParallelismDataset": I64(1),
    "ExperimentalMaxIntraOpParallelismDataset": I64(1),
    "PrivateThreadPoolDataset": I64(2),
    "ExperimentalPrivateThreadPoolDataset": I64(2),
    "OptimizeDataset": ["noop_elimination"],
    "RewriteDataset": "noop_elimination",
    "SleepDataset": I64(10),
    "ExperimentalSleepDataset": I64(10),
}


def _hinted(op: str, feed: Feeds) -> Runs:
    made = numbers(5).to(op, feed(_HINTS[op]))
    return first_elements(made.to("TakeDataset", I64(9)))


def _passed_on(op: str, feed: Feeds) -> Runs:
    return first_elements(_counted(feed).to(op))


def _optimized(op: str, feed: Feeds) -> Runs:
    names = [feed(np.array([name], object)) for name in (b"noop_elimination", b"x", b"y")]
    return first_elements(numbers(3).to(op, *names))


def _for_a_worker(op: str, feed: Feeds) -> Runs:
    made = numbers(7).to(op, feed(I64(3)), feed(I64(1)), auto_shard_policy=2)
    return first_elements(made)


def _with_options(op: str, feed: Feeds) -> Runs:
    made = _counted(feed).to("OptionsDataset", serialized_options=b"\x08\x01")
    if op == "OptionsDataset":
        return first_elements(made)
    return [[apply_op(op, made.to("TakeDataset", feed(I64(2))).variant)]]


def _on_threads(op: str, feed: Feeds) -> Runs:
    prefix = "Experimental" if op.startswith("Experimental") else ""
    pool = apply_op(f"{prefix}ThreadPoolHandle", num_threads=2, display_name="few")
    return first_elements(_counted(feed).to(f"{prefix}ThreadPoolDataset", pool))


def _wrapped(op: str, feed: Feeds) -> Runs:
    wrapped = apply_op("WrapDatasetVariant", _counted(feed).variant)
    return first_elements(Made(apply_op("UnwrapDatasetVariant", wrapped)))


# ---- batches


def _batched(op: str, feed: Feeds) -> Runs:
    rest = [feed(I64(2)), feed(YES)] if op == "ParallelBatchDataset" else []
    made = numbers(5).to_other(op, feed(I64(2)), *rest, **NUMBERS)
    return first_elements(made)


def _padded(op: str, feed: Feeds) -> Runs:
    rows = _sliced(feed, np.arange(6).reshape(3, 2))
    made = Made(None, [tf.int64], [None])
    args = [feed(I64(2)), [feed(np.array([3]))], [feed(I64(7))]]
    made.variant = apply_op(
        op, rows.variant, *args, output_shapes=made.structure["output_shapes"],
    )  # fmt: skip
    return first_elements(made)


def _unbatched(op: str, feed: Feeds) -> Runs:
    return first_elements(_sliced(feed, np.arange(6).reshape(2, 3)).to_other(op, **NUMBERS))


def _windowed(op: str, feed: Feeds) -> Runs:
    sizes = [feed(I64(2)), feed(I64(2)), feed(I64(1)), feed(YES)]
    windows = numbers(6).to_other(op, *sizes, types=[tf.variant], shapes=[()])

    def batched(window: Any) -> Any:
        kinds = {"output_types": [tf.int64], "output_shapes": [TensorShape(None)]}
        return apply_op("BatchDataset", window, I64(9), **kinds)

    f = function(batched, tf.variant)
    return first_elements(windows.to_other("FlatMapDataset", [], f=f, **NUMBERS))


def _batch_size(op: str, feed: Feeds) -> Runs:
    sizes = (feed(I64(2)), feed(YES))
    return [[apply_op(op, numbers(5).to_other("BatchDatasetV2", *sizes, **NUMBERS).variant)]]


# ---- one or several


def _one(op: str, feed: Feeds) -> Runs:
    made = Made(None, [tf.int64, tf.string], [None, None])
    parts = [feed(np.arange(3)), feed("text")]
    shapes = made.structure["output_shapes"]
    made.variant = apply_op("TensorDataset", parts, output_shapes=shapes)
    if op == "TensorDataset":
        return first_elements(made)
    several = made.to("RepeatDataset", feed(I64(1)))
    return [apply_op(op, several.variant, **made.structure)]


def _joined(op: str, feed: Feeds) -> Runs:
    first, second = _counted(feed), _counted(feed, 2)
    if op == "ConcatenateDataset":
        return first_elements(first.to(op, second.variant))
    made = Made(None, [tf.int64, tf.int64], [(), ()])
    made.variant = apply_op(op, [first.variant, second.variant], **made.structure)
    return first_elements(made)


def _directed(op: str, feed: Feeds) -> Runs:
    selector = _sliced(feed, np.array([1, 0, 1]))
    datasets = [numbers(2).variant, numbers(10, 19).variant]
    return first_elements(selector.to_other(op, datasets, types=[tf.int64], shapes=[()]))


def _unique(op: str, feed: Feeds) -> Runs:
    return first_elements(_sliced(feed, np.array([3, 1, 3, 2])).to(op))


def _without_errors(op: str, feed: Feeds) -> Runs:
    f = function(lambda x, table: tf.gather(table, x), tf.int64, (tf.int64, None))
    mapped = numbers(5).to_other("MapDataset", [feed(np.array([5, 4, 3]))], f=f, **NUMBERS)
    return first_elements(mapped.to(op))


def _from_graph(op: str, feed: Feeds) -> Runs:
    return first_elements(Made(apply_op(op, feed(b""))))


# ---- random order and numbers: of one element, since the order is each framework's own


def _shuffled(op: str, feed: Feeds) -> Runs:
    inputs = [feed(I64(2))]
    if op != "ShuffleDatasetV2":
        inputs += [feed(I64(3)), feed(I64(4))]
    if op.startswith("ShuffleAndRepeat"):
        inputs.append(feed(I64(2)))
    if op[-2:] in ("V2", "V3"):
        inputs.append(apply_op("AnonymousSeedGenerator", I64(3), I64(4), True)[0])
    return first_elements(numbers(1).to(op, *inputs))


def _seeded(op: str, feed: Feeds) -> Runs:
    seeds = apply_op(op, feed(I64(3)), feed(I64(4)), feed(YES))[0]
    return first_elements(numbers(1).to("ShuffleDatasetV2", feed(I64(2)), seeds))


def _drawn(op: str, feed: Feeds) -> Runs:
    """Draw numbers, of which only the form is looked at."""
    made = Made(None)
    more = [apply_op("DummySeedGenerator")] if op == "RandomDatasetV2" else []
    made.variant = apply_op(op, feed(I64(3)), feed(I64(4)), *more, **made.structure)
    f = function(lambda x: tf.shape(x, out_type=tf.int64), tf.int64)
    return first_elements(made.to_other("MapDataset", [], f=f, **NUMBERS))


# ---- caches


def _cached(op: str, feed: Feeds) -> Runs:
    """Keep elements in memory: where a file is named, each writes a format of its own."""
    source, file = _counted(feed), tf.constant("")
    if op == "CacheDataset":
        return first_elements(source.to(op, file))
    return first_elements(source.to("CacheDatasetV2", file, apply_op("AnonymousMemoryCache")[0]))


_BUILDERS: list[tuple[Callable[[str, Feeds], Runs], str]] = [
    (_hinted, " ".join(_HINTS)),
    (
        _passed_on,
        "ModelDataset FinalizeDataset NonSerializableDataset ExperimentalNonSerializableDataset",
    ),
    (_optimized, "OptimizeDatasetV2"),
    (_for_a_worker, "AutoShardDataset ExperimentalAutoShardDataset"),
    (_with_options, "OptionsDataset GetOptions"),
    (
        _on_threads,
        "ThreadPoolDataset ThreadPoolHandle ExperimentalThreadPoolDataset "
        "ExperimentalThreadPoolHandle",
    ),
    (_wrapped, "WrapDatasetVariant UnwrapDatasetVariant"),
    (_batched, "BatchDataset ParallelBatchDataset"),
    (_padded, "PaddedBatchDataset"),
    (_unbatched, "UnbatchDataset ExperimentalUnbatchDataset"),
    (_windowed, "WindowDataset"),
    (_batch_size, "ComputeBatchSize"),
    (_one, "TensorDataset DatasetToSingleElement"),
    (_joined, "ConcatenateDataset ZipDataset"),
    (_directed, "DirectedInterleaveDataset ExperimentalDirectedInterleaveDataset"),
    (_unique, "UniqueDataset ExperimentalUniqueDataset"),
    (_without_errors, "IgnoreErrorsDataset ExperimentalIgnoreErrorsDataset"),
    (_from_graph, "DatasetFromGraph"),
    (
        _shuffled,
        "ShuffleAndRepeatDataset ShuffleAndRepeatDatasetV2 ShuffleDatasetV2 ShuffleDatasetV3",
    ),
    (_seeded, "AnonymousSeedGenerator"),
    (_drawn, "RandomDataset RandomDatasetV2 ExperimentalRandomDataset"),
    (_cached, "CacheDataset CacheDatasetV2 AnonymousMemoryCache"),
]


def dataset_part_programs() -> dict[str, Build]:
    """Return how the program of each op is built."""
    return {op: partial(builder, op) for builder, ops in _BUILDERS for op in ops.split()}
