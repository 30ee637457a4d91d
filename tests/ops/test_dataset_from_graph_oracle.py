"""Datasets as graphs, beside TensorFlow: those that it writes are read by both."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import END, INVALID, Made, plain, steps
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op
from tideflow.wire import messages as pb

theirs = pytest.importorskip("tensorflow")

pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore")]


def _range():
    return theirs.data.Dataset.range(7)


def _mapped():
    offset = theirs.constant(3, theirs.int64)
    square = theirs.function(lambda x: x * x)
    return _range().map(lambda x: square(x) + offset).filter(lambda x: x % 2 == 1)


def _nested():
    rows = theirs.data.Dataset.from_tensor_slices(theirs.constant([[1, 2], [3, 4]], theirs.int64))
    return rows.flat_map(theirs.data.Dataset.from_tensor_slices).concatenate(_range().skip(4))


def _written(dataset) -> bytes:
    graph = theirs.raw_ops.DatasetToGraphV2(input_dataset=dataset._variant_tensor)
    return graph.numpy()


def _runs(given: bytes, count: int) -> list[Run]:
    # Fed: of a constant, TensorFlow's optimizer would make a constant dataset.
    graph = tf.placeholder(tf.string, [])
    runs = steps(Made(apply_op("DatasetFromGraph", graph)), count)
    return [Run(run.fetches, {graph: given}) for run in runs]


@pytest.mark.parametrize("make", [_range, _mapped, _nested])
def test_both_read_what_tensorflow_writes(make):
    with theirs.init_scope():
        given = _written(make())
        expected = list(make().as_numpy_iterator())
    found = check_both_run(lambda: _runs(given, len(expected) + 1), ["DatasetFromGraph"])
    assert [plain(one) for one in found[1 : len(expected) + 2]] == [*expected, END]
    assert plain(found[-1]) == expected[0]


def _without_result() -> bytes:
    graph_pb = pb.GraphDef()
    graph_pb.node.add(name="a", op="NoOp")
    return graph_pb.SerializeToString()


@pytest.mark.parametrize(
    ("given", "error"), [(b"\xff\xff", INVALID), (_without_result(), "NotFoundError")]
)
def test_what_is_no_graph_of_a_dataset(given, error):
    assert check_both_run(lambda: _runs(given, 0)[:1], ["DatasetFromGraph"]) == [error]
