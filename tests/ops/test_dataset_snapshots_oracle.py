"""Snapshots of datasets: TensorFlow reads what we kept, and we what it kept."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import (
    INVALID,
    check_elements,
    check_refused,
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
pytestmark = pytest.mark.tensorflow

OP = "SnapshotDatasetV2"
KIND = {"types": [tf.int64, tf.string], "shapes": [(), (None,)]}
ELEMENTS = [(x, [str(x).encode()] * x) for x in range(6)]


def varied(count=6):
    """Return a dataset of numbers, and of vectors of strings that grow."""
    f = function(lambda x: (x, tf.fill([x], tf.as_string(x))), tf.int64)
    return numbers(count).to_other("MapDataset", [], f=f, **KIND)


def snapshot(path, dataset, compression="", shard=lambda x, *_: x % 2, **attrs):
    one = function(lambda given: given, tf.variant)
    structure = dataset.structure

    def read(shards):
        return apply_op("FlatMapDataset", shards, [], f=one, **structure)

    functions = {
        "reader_func": function(read, tf.variant),
        "shard_func": function(shard, *zip(dataset.types, dataset.shapes)),
    }
    attrs = {"hash_valid": True, "hash": 77, **attrs}
    where = path if isinstance(path, tf.Tensor) else str(path)
    return dataset.to(OP, where, [], [], compression=compression, **functions, **attrs)


def in_order(elements):
    return [*elements[::2], *elements[1::2]]


def walk(made, count):
    """Walk over a dataset here alone; return its elements."""
    begin, *others = steps(made, count)[:-2]
    found = []
    with tf.Session(graph=made.variant.graph) as session:
        session.run(begin.fetches)
        for run in others:
            try:
                found.append(session.run(run.fetches))
            except tf.errors.OutOfRangeError:
                break
    return found


@pytest.mark.parametrize("compression", ["", "AUTO", "SNAPPY", "GZIP", "ZLIB"])
def test_both_read_what_we_kept(tmp_path, compression):
    with tf.Graph().as_default():
        walk(snapshot(tmp_path, varied(), compression), 8)
    assert [one.name for one in tmp_path.iterdir()] == ["77"]
    # What is read is not the input, which is another now.
    found = check_elements(lambda: snapshot(tmp_path, varied(2), compression), [OP])
    assert found == in_order(ELEMENTS)


def kept_by_tensorflow(path, count, compression):
    """Have TensorFlow keep the elements of varied(count)."""
    number, variant = theirs.TensorSpec([], "int64"), theirs.TensorSpec([], "variant")
    text = theirs.TensorSpec([None], "string")
    shard = theirs.function(lambda x, _: x % 2, input_signature=[number, text])
    read = theirs.function(lambda shards: shards, input_signature=[variant])
    made = theirs.data.Dataset.range(count).map(
        lambda x: (x, theirs.fill([x], theirs.strings.as_string(x)))
    )
    variant = theirs.raw_ops.SnapshotDatasetV2(
        input_dataset=made._variant_tensor,
        path=str(path),
        reader_func_other_args=[],
        shard_func_other_args=[],
        output_types=["int64", "string"],
        output_shapes=[[], [None]],
        compression=compression,
        hash_valid=True,
        hash=77,
        reader_func=read.get_concrete_function(),
        shard_func=shard.get_concrete_function(),
    )
    return [int(x) for x, _ in theirs.data.experimental.from_variant(variant, (number, text))]


@pytest.mark.parametrize("compression", ["", "AUTO", "GZIP", "ZLIB"])
def test_both_read_what_tensorflow_kept(tmp_path, compression):
    assert kept_by_tensorflow(tmp_path, 6, compression) == list(range(6))
    found = check_elements(lambda: snapshot(tmp_path, varied(2), compression), [OP])
    assert found == in_order(ELEMENTS)


def test_many_blocks_of_tensorflow(tmp_path):
    assert kept_by_tensorflow(tmp_path, 400, "SNAPPY") == list(range(400))
    found = check_elements(lambda: snapshot(tmp_path, varied(2), "SNAPPY"), [OP], 402)
    assert found == in_order([(x, [str(x).encode()] * x) for x in range(400)])


def test_many_blocks_of_ours(tmp_path):
    with tf.Graph().as_default():
        walk(snapshot(tmp_path, varied(400), "SNAPPY"), 402)
    found = check_elements(lambda: snapshot(tmp_path, varied(2), "SNAPPY"), [OP], 402)
    assert found == in_order([(x, [str(x).encode()] * x) for x in range(400)])


def test_elements_are_given_while_they_are_kept(tmp_path):
    """We keep them; TensorFlow reads them."""
    build = lambda: snapshot(tmp_path, varied(), shard=lambda *_: int64(0))  # noqa: E731
    assert check_elements(build, [OP]) == ELEMENTS


def test_a_walk_that_stopped_before_the_end(tmp_path):
    with tf.Graph().as_default():
        walk(snapshot(tmp_path, varied()), 4)
    assert list(tmp_path.iterdir())
    build = lambda: snapshot(tmp_path, varied(3), shard=lambda *_: int64(0))  # noqa: E731
    assert check_elements(build, [OP]) == ELEMENTS[:3]


def test_a_walk_of_tensorflow_that_did_not_end(tmp_path):
    assert kept_by_tensorflow(tmp_path, 6, "") == list(range(6))
    (file,) = tmp_path.glob("77/snapshot.metadata")
    record = pb.SnapshotMetadataRecord.FromString(file.read_bytes())
    record.finalized = False
    file.write_bytes(record.SerializeToString())
    build = lambda: snapshot(tmp_path, varied(3), shard=lambda *_: int64(0))  # noqa: E731
    assert check_elements(build, [OP]) == ELEMENTS[:3]


@pytest.mark.parametrize("shard", [lambda x, _: tf.cast(x, tf.int32), lambda x, _: tf.fill([2], x)])
def test_shards_of_no_number(tmp_path, shard):
    check_refused(lambda: snapshot(tmp_path, varied(), shard=shard), [OP], INVALID, 1)


@pytest.mark.parametrize("paths", [["a", "b"], [["a"]]])
def test_paths_that_are_no_string(paths):
    def build():
        path = tf.placeholder_with_default(tf.constant(paths), None)
        return snapshot(path, numbers(3))

    check_refused(build, [OP])


def test_how_many_elements_there_are(tmp_path):
    def build():
        made = snapshot(tmp_path, numbers(6))
        return [Run([apply_op("DatasetCardinality", made.variant)])]

    assert plain(check_both_run(build, [OP])[0]) == 6


def test_the_name_of_a_directory(tmp_path):
    with tf.Graph().as_default():
        walk(snapshot(tmp_path, varied(), hash=-5), 8)
        walk(snapshot(tmp_path, varied(), hash_valid=False), 8)
        walk(snapshot(tmp_path, varied(), hash_valid=False), 8)
        walk(snapshot(tmp_path, varied(), "GZIP", hash_valid=False), 8)
    names = {one.name for one in tmp_path.iterdir()}
    assert str(2**64 - 5) in names
    assert len(names) == 3


# ---- the first version of the format


FIRST = "SnapshotDataset"


def first(path, dataset, **attrs):
    return dataset.to(FIRST, str(path), **{"snapshot_name": "a", **attrs})


def first_of_tensorflow(path, count, **attrs):
    """Have TensorFlow keep the elements of varied(count)."""
    number, text = theirs.TensorSpec([], "int64"), theirs.TensorSpec([None], "string")
    made = theirs.data.Dataset.range(count).map(
        lambda x: (x, theirs.fill([x], theirs.strings.as_string(x)))
    )
    variant = theirs.raw_ops.SnapshotDataset(
        input_dataset=made._variant_tensor,
        path=str(path),
        output_types=["int64", "string"],
        output_shapes=[[], [None]],
        snapshot_name="a",
        **attrs,
    )
    return [int(x) for x, _ in theirs.data.experimental.from_variant(variant, (number, text))]


def first_of_ours(path, count, **attrs):
    """Have ours keep the elements of varied(count)."""
    with tf.Graph().as_default():
        return [int(x) for x, _ in walk(first(path, varied(count), **attrs), count + 99)]


# TensorFlow's kernel ends the process after errors, and where an iterator is asked once more at its
# end, so that no graph is run by both.
@pytest.mark.parametrize("compression", ["", "GZIP", "SNAPPY"])
def test_each_reads_the_first_version_of_the_other(tmp_path, compression):
    attrs = {"compression": compression, "shard_size_bytes": 1024}
    ours, other = tmp_path / "ours", tmp_path / "theirs"
    assert first_of_ours(ours, 60, **attrs) == list(range(60))
    assert len(list(ours.glob("custom-a/*/*.snapshot"))) > 1
    assert first_of_tensorflow(ours, 2, **attrs) == list(range(60))
    assert first_of_tensorflow(other, 60, **attrs) == list(range(60))
    with tf.Graph().as_default():
        found = walk(first(other, varied(2), **attrs), 62)
    assert [(int(x), list(texts)) for x, texts in found] == [
        (x, [str(x).encode()] * x) for x in range(60)
    ]


@pytest.mark.parametrize("mode", ["auto", "write", "passthrough"])
def test_modes_that_read_the_input(tmp_path, mode):
    for one in (first_of_ours, first_of_tensorflow):
        path = tmp_path / one.__name__
        assert one(path, 6, mode=mode) == list(range(6))
        assert bool(list(path.glob("custom-a/snapshot.metadata"))) == (mode != "passthrough")


def test_files_of_the_first_version_that_are_not_there(tmp_path):
    with pytest.raises(tf.errors.NotFoundError):
        first_of_ours(tmp_path, 3, mode="read")


@pytest.mark.parametrize(
    "attrs", [{"mode": "other"}, {"compression": "ZLIB"}, {"pending_snapshot_expiry_seconds": 0}]
)
def test_what_the_first_version_refuses(tmp_path, attrs):
    with pytest.raises(tf.errors.InvalidArgumentError):
        first_of_ours(tmp_path, 3, **attrs)
    with pytest.raises(theirs.errors.InvalidArgumentError):
        first_of_tensorflow(tmp_path, 3, **attrs)


def test_a_first_walk_that_stopped_before_the_end(tmp_path):
    with tf.Graph().as_default():
        walk(first(tmp_path, varied()), 4)
    assert not list(tmp_path.glob("*/snapshot.metadata"))
    assert first_of_ours(tmp_path, 3) == [0, 1, 2]
