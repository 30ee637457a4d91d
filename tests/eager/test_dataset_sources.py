"""Datasets of databases and of parts of files, functions of rows, compressed elements."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

import tideflow as tf
import tideflow.v1 as v1
from ops.dataset_graphs import function, numbers
from tideflow.graph.building import apply_op

Data = tf.data.Dataset
INT64 = {"output_types": [tf.int64], "output_shapes": [None]}


@pytest.fixture
def database(tmp_path):
    path = str(tmp_path / "a.db")
    made = sqlite3.connect(path)
    made.execute("create table t(number integer, text text)")
    made.executemany("insert into t values(?, ?)", [(1, "a"), (300, None), (None, "7")])
    made.commit()
    made.close()
    return path


def test_rows_of_a_database(database):
    types = {"number": tf.uint8, "text": tf.string}
    columns = tf.data.experimental.SqlDataset("sqlite", database, "select text, number from t", (
        tf.string, types["number"]
    ))  # fmt: skip
    assert [(text.numpy(), int(number)) for text, number in columns] == [
        (b"a", 1), (b"", 44), (b"7", 0)
    ]  # fmt: skip
    named = tf.data.experimental.SqlDataset("sqlite", database, "select * from t", types)
    assert int(next(iter(named))["number"]) == 1


def test_a_text_column_as_a_number(database):
    rows = tf.data.experimental.SqlDataset("sqlite", database, "select text from t", tf.int32)
    assert [int(x) for x in rows] == [0, 0, 7]


def test_databases_that_are_refused(database):
    with pytest.raises(tf.errors.InvalidArgumentError, match="not supported by SqlDataset"):
        tf.data.experimental.SqlDataset("mysql", database, "select 1", tf.int32)
    for query, error in (
        ("select 1, 2", tf.errors.InvalidArgumentError),
        ("selec 1", tf.errors.UnknownError),
    ):
        walk = iter(tf.data.experimental.SqlDataset("sqlite", database, query, tf.int32))
        for _ in range(2):
            with pytest.raises(error):
                next(walk)


def test_records_from_within_a_file(tmp_path):
    path = str(tmp_path / "a")
    with tf.io.TFRecordWriter(path) as writer:
        for record in (b"one", b"two", b"three"):
            writer.write(record)
    made = tf.raw_ops.TFRecordDatasetV2(
        filenames=[path], compression_type="", buffer_size=0, byte_offsets=[19]
    )
    found = tf.data.experimental.from_variant(made, tf.TensorSpec([], tf.string))
    assert [x.numpy() for x in found] == [b"two", b"three"]


def test_a_function_of_rows():
    with v1.Graph().as_default(), v1.Session() as session:
        times = function(lambda x, by: x * by, v1.int64, v1.int64)
        kind = {"output_types": [v1.int64], "output_shapes": [v1.TensorShape([])]}
        given = [v1.constant(np.arange(100))]
        made = apply_op("MapDefun", given, [v1.constant(3, v1.int64)], f=times, **kind)
        [found] = session.run(made)
    assert found.tolist() == list(range(0, 300, 3))


def test_compressed_elements():
    packed = tf.raw_ops.CompressElement(components=[np.arange(1000)])
    [found] = tf.raw_ops.UncompressElement(compressed=packed, **INT64)
    assert found.numpy().tolist() == list(range(1000))
    with pytest.raises(tf.errors.InvalidArgumentError):
        variant = tf.data.experimental.to_variant(Data.range(2))
        tf.raw_ops.UncompressElement(compressed=variant, **INT64)


def test_the_model_of_an_iterator():
    iterator = iter(Data.range(2))
    with pytest.raises(tf.errors.NotFoundError, match="analytical model"):
        tf.raw_ops.IteratorGetModelProto(iterator=iterator.argument_handle)


def record(**features):
    made = tf.train.Example()
    for key, values in features.items():
        made.features.feature[key].int64_list.value.extend(values)
    return made.SerializeToString()


def test_features_of_batches_of_records():
    features = {
        "a": tf.io.FixedLenFeature([2], tf.int64),
        "some": tf.io.VarLenFeature(tf.int64),
        "rows": tf.io.RaggedFeature(tf.int64, "others"),
    }
    records = np.array(
        [record(a=[1, 2], some=[3], others=[3]), record(a=[4, 5]), b"nonsense"], object
    )
    data = Data.from_tensor_slices(records).batch(2)
    found = iter(data.apply(tf.data.experimental.parse_example_dataset(features)))
    element = next(found)
    assert element["a"].numpy().tolist() == [[1, 2], [4, 5]]
    assert tf.sparse.to_dense(element["some"]).numpy().tolist() == [[3], [0]]
    assert element["rows"].to_list() == [[3], []]
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(found)


def shuffled(dataset):
    made = tf.raw_ops.GlobalShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(dataset), seed=3, seed2=4,
        seed_generator=tf.raw_ops.DummySeedGenerator(), reshuffle_each_iteration=True,
        output_types=[tf.int64], output_shapes=[[]],
    )  # fmt: skip
    return tf.data.experimental.from_variant(made, tf.TensorSpec([], tf.int64))


def test_a_dataset_shuffled_as_a_whole():
    data = shuffled(Data.range(10))
    first, second = ([int(x) for x in data] for _ in range(2))
    assert first == [2, 1, 3, 0, 6, 7, 5, 4, 9, 8]
    assert second != first
    assert sorted(second) == list(range(10))
    with pytest.raises(tf.errors.FailedPreconditionError, match="random access"):
        shuffled(Data.range(10).filter(lambda x: x > 1))


def test_the_place_in_a_dataset_that_is_shuffled_as_a_whole(tmp_path):
    walk = iter(shuffled(Data.range(10)))
    taken = [int(next(walk)) for _ in range(4)]
    saved = tf.train.Checkpoint(walk=walk).save(str(tmp_path / "place"))
    rest = [int(x) for x in walk]
    again = iter(shuffled(Data.range(10)))
    tf.train.Checkpoint(walk=again).restore(saved)
    assert [int(x) for x in again] == rest
    assert sorted(taken + rest) == list(range(10))


@pytest.mark.parametrize(
    ("counts", "weights", "expected"),
    [
        ((5, 10), (2, 1), [0, 1, 2, 3, 4, 0, 1]),
        ((10, 10), (0.3, 0.7), [0, 1, 2, 3, *range(9)]),
        ((100, 7), (0.2, 0.3), [0, 1, 2, 3, *range(7)]),
    ],
)
def test_parts_of_datasets_by_their_weights(counts, weights, expected):
    made = tf.raw_ops.WeightedFlatMapDataset(
        input_datasets=[tf.data.experimental.to_variant(Data.range(n)) for n in counts],
        weights=[np.float64(x) for x in weights], output_types=[tf.int64], output_shapes=[[]],
    )  # fmt: skip
    found = tf.data.experimental.from_variant(made, tf.TensorSpec([], tf.int64))
    assert [int(x) for x in found] == expected


def test_a_flat_map_by_index():
    with v1.Graph().as_default(), v1.Session() as session:
        parts = function(lambda x: v1.fill([2], x), v1.int64)
        places = function(lambda i: (i // 2, i % 2), v1.int64)
        made = numbers(3).to(
            "IndexFlatMapDataset", [], [], v1.constant(6, v1.int64), map_func=parts,
            index_map_func=places,
        )  # fmt: skip
        spec = tf.TensorSpec([], tf.int64)
        rows = v1.data.experimental.from_variant(made.variant, spec)
        iterator = v1.data.make_initializable_iterator(rows)
        element = iterator.get_next()
        session.run(iterator.initializer)
        assert [session.run(element) for _ in range(6)] == [0, 0, 1, 1, 2, 2]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(element)


def test_statistics_of_a_dataset():
    def spec(variant):
        return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.int64))

    kind = {"output_types": [tf.int64], "output_shapes": [[]]}
    aggregator = tf.raw_ops.StatsAggregatorHandle(shared_name="statistics")
    data = tf.data.experimental.to_variant(Data.range(5))
    for op in ("BytesProducedStatsDataset", "LatencyStatsDataset"):
        data = getattr(tf.raw_ops, op)(input_dataset=data, tag=op, **kind)
    measured = tf.raw_ops.SetStatsAggregatorDataset(
        input_dataset=data, stats_aggregator=aggregator, tag="all", counter_prefix="", **kind
    )
    # Only what is walked over through the dataset that names the aggregator counts.
    assert len(list(spec(data))) == 5
    assert [int(x) for x in spec(measured).take(3)] == [0, 1, 2]
    summary = tf.raw_ops.StatsAggregatorSummary(iterator=aggregator).numpy()
    found = {one.tag: one.histo for one in v1.Summary.FromString(summary).value}
    assert sorted(found) == ["all::BytesProducedStatsDataset", "all::LatencyStatsDataset"]
    bytes_of = found["all::BytesProducedStatsDataset"]
    assert (bytes_of.num, bytes_of.min, bytes_of.max, bytes_of.sum) == (3, 8, 8, 24)
    assert found["all::LatencyStatsDataset"].num == 3


def test_parts_of_a_saved_dataset(tmp_path):
    Data.range(6).save(str(tmp_path), shard_func=lambda x: x % 2)
    (shard,) = tmp_path.glob("*/00000001.shard")
    kind = {"output_types": [tf.int64], "output_shapes": [[]]}
    shown = tf.raw_ops.SnapshotDatasetReader(shard_dir=str(shard), start_index=1, version=2, **kind)
    spec = tf.TensorSpec([], tf.int64)
    assert [int(x) for x in tf.data.experimental.from_variant(shown, spec)] == [3, 5]
    with pytest.raises(tf.errors.NotFoundError):
        tf.raw_ops.SnapshotChunkDataset(chunk_file=str(tmp_path / "none"), **kind)


def test_a_dataset_as_a_graph_and_its_fingerprint():
    made = Data.range(4).map(lambda x: x * 3).batch(2)
    graph = tf.raw_ops.DatasetToGraphV2(input_dataset=tf.data.experimental.to_variant(made))
    again = tf.raw_ops.DatasetFromGraph(graph_def=graph)
    read = tf.data.experimental.from_variant(again, made.element_spec)
    assert [x.numpy().tolist() for x in read] == [[0, 3], [6, 9]]
    other = Data.range(4).map(lambda y: y * 3).batch(2)
    assert int(made.fingerprint()) == int(other.fingerprint()) == int(read.fingerprint())
    assert int(made.fingerprint()) != int(Data.range(4).map(lambda x: x * 4).fingerprint())
    drawn = (
        Data.range(4).shuffle(3).map(lambda x: x + tf.random.uniform([], maxval=2, dtype="int64"))
    )
    variant = tf.data.experimental.to_variant(drawn)
    with pytest.raises(tf.errors.FailedPreconditionError, match="stateful"):
        tf.raw_ops.DatasetToGraph(input_dataset=variant)
    assert tf.raw_ops.DatasetToGraph(input_dataset=variant, allow_stateful=True).numpy()
    variable = tf.Variable(1, dtype=tf.int64)
    adding = Data.range(3).map(lambda x: x + variable)
    before = int(adding.fingerprint())
    assert int(adding.fingerprint()) == before
    assert int(adding.fingerprint()) != int(Data.range(3).map(lambda x: x + 1).fingerprint())
    variable.assign(2)
    assert int(adding.fingerprint()) == before
    queue = tf.queue.FIFOQueue(1, tf.int64)
    with pytest.raises(tf.errors.UnimplementedError, match="resource"):
        Data.range(3).map(lambda x: queue.dequeue()).fingerprint()


@pytest.mark.parametrize("compression", ["AUTO", "GZIP", None])
def test_snapshots(tmp_path, compression):
    calls = []

    def note(x):
        calls.append(int(x))
        return x

    def made():
        mapped = Data.range(5).map(lambda x: tf.numpy_function(note, [x], tf.int64))
        return mapped.snapshot(str(tmp_path), compression)

    walk = iter(made())
    next(walk)
    del walk
    dataset = made()
    for _ in range(2):
        assert [int(x) for x in dataset] == list(range(5))
    assert calls == [0, *range(5)]


def test_shards_and_readers_of_snapshots(tmp_path):
    kept = Data.range(6).apply(
        tf.data.experimental.snapshot(
            str(tmp_path),
            shard_func=lambda x: x % 3,
            reader_func=lambda shards: shards.flat_map(lambda shard: shard),
        )
    )
    assert [int(x) for x in kept] == list(range(6))
    assert [int(x) for x in kept] == [0, 3, 1, 4, 2, 5]
    assert len(list(tmp_path.glob("*/*/*.shard"))) == 3
    with pytest.raises(TypeError, match="reader_func"):
        Data.range(3).snapshot(str(tmp_path), reader_func=lambda shards: 1)


def test_a_snapshot_that_lost_an_element(tmp_path):
    broken = Data.range(4).map(lambda x: 6 // (x - 2)).snapshot(str(tmp_path)).ignore_errors()
    for _ in range(2):
        assert [int(x) for x in broken] == [-3, -6, 6]
    assert not list(tmp_path.glob("*/snapshot.metadata"))


@pytest.mark.parametrize("compression", ["", "GZIP", "SNAPPY"])
def test_the_first_version_of_snapshots(tmp_path, compression):
    def made(count):
        given = Data.range(count).map(lambda x: (x, tf.fill([x], tf.as_string(x))))
        variant = tf.raw_ops.SnapshotDataset(
            input_dataset=tf.data.experimental.to_variant(given),
            path=str(tmp_path),
            output_types=[tf.int64, tf.string],
            output_shapes=[[], [None]],
            compression=compression,
            snapshot_name="a",
            shard_size_bytes=64,
        )
        return tf.data.experimental.from_variant(variant, given.element_spec)

    for count in (9, 2):
        found = [(int(x), texts.numpy().tolist()) for x, texts in made(count)]
        assert found == [(x, [str(x).encode()] * x) for x in range(9)]
    assert len(list(tmp_path.glob("custom-a/*/*.snapshot"))) > 1
