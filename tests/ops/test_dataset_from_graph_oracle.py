"""Datasets as graphs, beside TensorFlow: those that it writes are read by both."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import (
    END,
    INVALID,
    Made,
    as_written,
    function,
    int64,
    numbers,
    plain,
    steps,
)
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


# ---- datasets that are written as graphs


def _counted():
    add = function(lambda x, y: x * x + y, tf.int64, tf.int64)
    kind = {"types": [tf.int64], "shapes": [()]}
    return numbers(5).to_other("MapDataset", [int64(3)], f=add, **kind)


def _batches():
    kind = {"types": [tf.int64], "shapes": [(None,)]}
    return _counted().to_other("BatchDatasetV2", int64(2), tf.constant(False), **kind)


def _drawn():
    draw = function(lambda x: x + tf.random_uniform([], maxval=9, dtype=tf.int64) * 0, tf.int64)
    return numbers(3).to_other("MapDataset", [], f=draw, types=[tf.int64], shapes=[()])


_WRITERS = [
    ("DatasetToGraph", {"strip_device_assignment": True}),
    ("DatasetToGraphV2", {}),
    ("DatasetToGraphV2", {"external_state_policy": 2, "strip_device_assignment": True}),
]


@pytest.mark.parametrize("make", [_counted, _batches])
@pytest.mark.parametrize(("op", "attrs"), _WRITERS)
def test_each_reads_what_it_writes(make, op, attrs):
    def build():
        made = make()
        graph = apply_op(op, as_written(made).variant, **attrs)
        return steps(Made(apply_op("DatasetFromGraph", graph), made.types, made.shapes), 6)

    found = check_both_run(build, [op])
    assert plain(found[1]) in (3, [3, 4])


@pytest.mark.parametrize("make", [_counted, _batches, _drawn])
def test_both_read_what_we_write(make):
    with tf.Graph().as_default(), tf.Session() as session:
        made = make()
        given = session.run(apply_op("DatasetToGraphV2", made.variant))
    expected = {_counted: 3, _batches: [3, 4], _drawn: 0}[make]

    def build():
        graph = tf.placeholder(tf.string, [])
        read = Made(apply_op("DatasetFromGraph", graph), made.types, made.shapes)
        return [Run(run.fetches, {graph: given}) for run in steps(read, 6)]

    found = check_both_run(build, ["DatasetFromGraph"])
    assert plain(found[1]) == expected


@pytest.mark.parametrize(
    ("op", "attrs", "refused"),
    [
        ("DatasetToGraph", {}, True),
        ("DatasetToGraph", {"allow_stateful": True}, False),
        ("DatasetToGraphV2", {"external_state_policy": 0}, False),
        ("DatasetToGraphV2", {"external_state_policy": 1}, False),
        ("DatasetToGraphV2", {"external_state_policy": 2}, True),
    ],
)
def test_functions_with_state(op, attrs, refused):
    def build():
        graph = apply_op(op, _drawn().variant, **attrs)
        return [Run([tf.greater(tf.strings.length(graph), 0)])]

    [found] = check_both_run(build, [op])
    assert plain(found) == ("FailedPreconditionError" if refused else True)


def test_fingerprints():
    def fingerprint(dataset):
        return apply_op("DatasetFingerprint", dataset.variant)

    def mapped(body):
        f = function(body, tf.int64)
        return numbers(4).to_other("MapDataset", [], f=f, types=[tf.int64], shapes=[()])

    def build():
        inner = [function(lambda x: x * 2, tf.int64) for _ in range(2)]
        equal = [
            (numbers(4), numbers(4)),
            (mapped(lambda x: x + 1), mapped(lambda y: y + 1)),
            (_batches(), _batches()),
            tuple(
                mapped(lambda x, f=f: apply_op("PartitionedCall", [x], Tout=[tf.int64], f=f)[0])
                for f in inner
            ),
        ]
        other = [
            (numbers(4), numbers(5)),
            (mapped(lambda x: x + 1), mapped(lambda x: x + 2)),
            (mapped(lambda x: x - 1), mapped(lambda x: 1 - x)),
            (_counted(), _batches()),
        ]
        pairs = [*equal, *other]
        return [Run([tf.equal(fingerprint(a), fingerprint(b)) for a, b in pairs])]

    [found] = check_both_run(build, ["DatasetFingerprint"])
    assert plain(found) == (*[True] * 4, *[False] * 4)
