"""Programs with one dataset each whose counts are fed (see programs.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ops.bad_inputs.programs import Build, Feeds
from ops.dataset_graphs import Made, as_written, numbers
from tideflow.graph.building import apply_op
from tideflow.wire import dtypes

_STEPS = 4
I64 = np.int64


def first_elements(made: Made) -> Sequence[Sequence[Any]]:
    """Return the runs that make an iterator and take a few elements."""
    iterator = apply_op("IteratorV2", shared_name="", container="", **made.structure)
    begin = apply_op("MakeIterator", as_written(made).variant, iterator)
    taken = apply_op("IteratorGetNext", iterator, **made.structure)
    fetched = list(taken) if isinstance(taken, (list, tuple)) else [taken]
    return [[begin], *[fetched] * _STEPS]


def _counted(op: str, feed: Feeds) -> Any:
    return first_elements(numbers(5).to(op, feed(I64(2))))


def _range(op: str, feed: Feeds) -> Any:
    made = Made(None)
    limits = (feed(I64(1)), feed(I64(9)), feed(I64(3)))
    made.variant = apply_op(op, *limits, **made.structure)
    return first_elements(made)


def _batched(op: str, feed: Feeds) -> Any:
    args = [feed(I64(2)), feed(np.bool_(True))]
    return first_elements(numbers(5).to_other(op, *args, types=[dtypes.int64], shapes=[(None,)]))


def _rebatched(op: str, feed: Feeds) -> Any:
    batches = numbers(6).to_other(
        "BatchDatasetV2", I64(3), False, types=[dtypes.int64], shapes=[(None,)]
    )
    return first_elements(batches.to(op, feed(np.array([2, 1])), feed(np.bool_(False))))


def _shuffled(op: str, feed: Feeds) -> Any:
    return first_elements(numbers(1).to(op, feed(I64(3)), feed(I64(1)), feed(I64(2))))


def _sharded(op: str, feed: Feeds) -> Any:
    return first_elements(numbers(6).to(op, feed(I64(3)), feed(I64(1))))


def _padded(op: str, feed: Feeds) -> Any:
    made = Made(None, [dtypes.int64], [None])
    args = [feed(I64(2)), [feed(np.zeros(0, I64))], [feed(I64(0))], feed(np.bool_(False))]
    shapes = made.structure["output_shapes"]
    made.variant = apply_op(op, numbers(3).variant, *args, output_shapes=shapes)
    return first_elements(made)


def _sliced(op: str, feed: Feeds) -> Any:
    made = Made(None, [dtypes.int64, dtypes.float32], [None, None])
    parts = [feed(np.arange(3)), feed(np.ones((3, 2), np.float32))]
    made.variant = apply_op(op, parts, output_shapes=made.structure["output_shapes"])
    return first_elements(made)


def _sampled(op: str, feed: Feeds) -> Any:
    return first_elements(numbers(5).to(op, feed(np.float32(1)), feed(I64(2)), feed(I64(3))))


def _slid(op: str, feed: Feeds) -> Any:
    args = [feed(I64(2)), feed(I64(1)), feed(I64(1))]
    return first_elements(numbers(6).to_other(op, *args, types=[dtypes.int64], shapes=[(None,)]))


def _split(op: str, feed: Feeds) -> Any:
    batches = numbers(6).to_other(
        "BatchDatasetV2", I64(3), False, types=[dtypes.int64], shapes=[(None,)]
    )
    return first_elements(batches.to(op, feed(I64(2))))


def _made_sparse(op: str, feed: Feeds) -> Any:
    """Make batches, of which the size of the last one tells that they were made."""
    args = [feed(I64(2)), feed(I64([3]))]
    vectors = numbers(4).to_other(
        "BatchDatasetV2", I64(2), False, types=[dtypes.int64], shapes=[(None,)]
    )
    made = vectors.to_other(op, *args, types=[dtypes.variant], shapes=[None])
    return [[apply_op("DatasetCardinality", made.variant)]]


def _listed(op: str, feed: Feeds) -> Any:
    made = Made(None, [dtypes.int64, dtypes.float32], [None, None])
    values = [feed(I64(1)), feed(np.float32(2)), feed(I64(3)), feed(np.float32(4))]
    made.variant = apply_op(op, values, **made.structure)
    return first_elements(made)


def _sliced_sparse(op: str, feed: Feeds) -> Any:
    made = Made(None, [dtypes.int64, dtypes.float32, dtypes.int64], [None, None, None])
    parts = [feed(I64([[0, 1], [2, 0]])), feed(np.float32([1, 2])), feed(I64([3, 2]))]
    made.variant = apply_op(op, *parts)
    return first_elements(made)


def _at(op: str, feed: Feeds) -> Any:
    return [[apply_op(op, numbers(5).variant, feed(I64(2)), **numbers(1).structure)[0]]]


def _cardinality(op: str, feed: Feeds) -> Any:
    return [[apply_op(op, numbers(5).to("TakeDataset", feed(I64(2))).variant)]]


def dataset_programs() -> dict[str, Build]:
    """Return how the program of each op is built."""
    counted = "RepeatDataset TakeDataset SkipDataset PrefetchDataset"
    others = {
        "RangeDataset": _range,
        "BatchDatasetV2": _batched,
        "RebatchDatasetV2": _rebatched,
        "ShuffleDataset": _shuffled,
        "ShardDataset": _sharded,
        "PaddedBatchDatasetV2": _padded,
        "TensorSliceDataset": _sliced,
        "DatasetCardinality": _cardinality,
        "SamplingDataset": _sampled,
        "SlidingWindowDataset": _slid,
        "ExperimentalSlidingWindowDataset": _slid,
        "RebatchDataset": _split,
        "DenseToSparseBatchDataset": _made_sparse,
        "ListDataset": _listed,
        "SparseTensorSliceDataset": _sliced_sparse,
        "GetElementAtIndex": _at,
    }
    found = {op: partial(_counted, op) for op in counted.split()}
    return found | {op: partial(build, op) for op, build in others.items()}
