"""What is measured while datasets are walked over, beside TensorFlow in one graph."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import numbers, plain, rows, steps
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

PREFIXES = ["", "Experimental"]


def summary_of(dataset, prefix="", tag="all", handle=None):
    handle = handle or f"{prefix}StatsAggregatorHandle"
    aggregator = apply_op(handle, shared_name=f"a{prefix}")
    measured = dataset.to(f"{prefix}BytesProducedStatsDataset", "bytes")
    made = measured.to(f"{prefix}SetStatsAggregatorDataset", aggregator, tag, "counters")
    found = apply_op(f"{prefix}StatsAggregatorSummary", aggregator)
    return [*steps(made, 4)[:5], Run([found])]


@pytest.mark.parametrize("tag", ["all", ""])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_bytes_of_elements(prefix, tag):
    ops = [f"{prefix}{op}" for op in ("StatsAggregatorHandle", "SetStatsAggregatorDataset")]
    ops.append(f"{prefix}StatsAggregatorSummary")
    found = check_both_run(lambda: summary_of(numbers(3), prefix, tag), ops)
    [value] = tf.Summary.FromString(found[-1][0].item()).value
    assert value.histo.num == 3


@pytest.mark.parametrize(
    "values",
    [
        np.float32([[1, 2], [3, 4]]),
        np.array([b"a", b"b" * 40, b""], object),
        np.array([[b"a", b"b"], [b"c", b"d" * 9]], object),
        np.bool_([True, False]),
    ],
    ids=["floats", "strings", "vectors of strings", "truths"],
)
def test_bytes_of_elements_of_other_types(values):
    check_both_run(lambda: summary_of(rows(values)), ["SetStatsAggregatorDataset"])


def test_the_second_version_keeps_nothing():
    found = check_both_run(
        lambda: summary_of(numbers(3), handle="StatsAggregatorHandleV2"),
        ["StatsAggregatorHandleV2"],
    )
    assert plain(found[-1]) == b""


@pytest.mark.parametrize("handle", ["StatsAggregatorHandle", "StatsAggregatorHandleV2"])
def test_statistics_that_are_written(handle, tmp_path):
    def build():
        writer = apply_op("SummaryWriter", shared_name="w")
        inputs = (str(tmp_path), tf.constant(10), tf.constant(1), "")
        begin = apply_op("CreateSummaryFileWriter", writer, *inputs)
        aggregator = apply_op(handle, shared_name="s")
        told = apply_op("StatsAggregatorSetSummaryWriter", aggregator, writer)
        measured = numbers(3).to("BytesProducedStatsDataset", "bytes")
        made = measured.to("SetStatsAggregatorDataset", aggregator, "all", "")
        end = apply_op("CloseSummaryWriter", writer)
        return [Run([begin]), Run([told]), *steps(made, 3)[:4], Run([end])]

    check_both_run(build, ["StatsAggregatorSetSummaryWriter", handle])
    files = [
        [event.summary.SerializeToString() for event in tf.train.summary_iterator(str(path))]
        for path in tmp_path.iterdir()
    ]
    written = [[one for one in file if one] for file in files]
    assert len(written) in (1, 2)
    assert all(one == written[0] for one in written)
    assert len(written[0]) == (3 if handle.endswith("V2") else 0)
