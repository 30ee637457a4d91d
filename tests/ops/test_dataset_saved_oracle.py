"""Saved datasets: TensorFlow reads what we save, and we what it saves."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import (
    INVALID,
    Made,
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

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

KIND = {"types": [tf.int64, tf.string, tf.float32], "shapes": [(), (), (None,)]}


def varied(count):
    """Return a dataset of numbers, strings and vectors that grow."""
    f = function(lambda x: (x, tf.as_string(x), tf.fill([x], 1.5)), tf.int64)
    return numbers(count).to_other("MapDataset", [], f=f, **KIND)


def by_turns(x, *_):
    return x % 2


def options(dataset, compression="", shard=None):
    to_shard = shard or (lambda *_: int64(0))
    shard_func = function(to_shard, *zip(dataset.types, dataset.shapes))
    return {
        "compression": compression, "shard_func": shard_func, "use_shard_func": shard is not None
    }  # fmt: skip


def save(path, dataset, **choices):
    return apply_op(
        "SaveDataset", dataset.variant, tf.constant(str(path)), [], **options(dataset, **choices)
    )


def load(path, compression="", structure=KIND):
    """Return the elements of a saved dataset, shard after shard."""
    made = Made(None, **structure)

    def read(shards):
        one = function(lambda shard: shard, tf.variant)
        return apply_op("FlatMapDataset", shards, [], f=one, **made.structure)

    reader = function(read, tf.variant)
    made.variant = apply_op(
        "LoadDataset", tf.constant(str(path)), [], compression=compression, reader_func=reader,
        **made.structure,
    )  # fmt: skip
    return made


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("shard", [None, by_turns])
@pytest.mark.parametrize("who", ["ours", "both"])
def test_each_reads_what_the_other_saved(tmp_path, who, shard, compression):
    """Of the two that save, TensorFlow is the second, whose files count."""

    def saved():
        return [Run([save(tmp_path, varied(7), shard=shard, compression=compression)])]

    if who == "both":
        assert check_both_run(saved, ["SaveDataset"]) == [[]]
    else:
        with tf.Graph().as_default(), tf.Session() as session:
            session.run(saved()[0].fetches)
    found = check_elements(lambda: load(tmp_path, compression), ["LoadDataset"])
    order = [0, 2, 4, 6, 1, 3, 5] if shard else list(range(7))
    assert found == [(x, str(x).encode(), [1.5] * x) for x in order]


def test_the_client_of_tensorflow_reads_what_we_saved(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(save(tmp_path, varied(200)))
    spec = (
        tensorflow.TensorSpec([], "int64"),
        tensorflow.TensorSpec([], "string"),
        tensorflow.TensorSpec([None], "float32"),
    )
    found = tensorflow.data.Dataset.load(str(tmp_path), element_spec=spec)
    assert sorted(int(x) for x, _, _ in found) == list(range(200))


@pytest.mark.parametrize("count", [0, 70])
def test_elements_are_saved_on_their_way(tmp_path, count):
    def build():
        given = varied(count)
        path = tf.constant(str(tmp_path))
        return steps(given.to("SaveDatasetV2", path, [], **options(given, shard=by_turns)), 75)[:76]

    found = [plain(one) for one in check_both_run(build, ["SaveDatasetV2"])]
    assert [x for x, *_ in found[1 : 1 + count]] == list(range(count))
    assert set(found[1 + count :]) == {"OutOfRangeError"}
    again = [
        plain(one) for one in check_both_run(lambda: steps(load(tmp_path), 75), ["LoadDataset"])
    ]
    assert sorted(x for x, *_ in again[1 : 1 + count]) == list(range(count))
    assert again[1 + count] == "OutOfRangeError"


def test_how_many_elements_were_saved(tmp_path):
    def build():
        with tf.control_dependencies([save(tmp_path, varied(9), shard=by_turns)]):
            return [Run([apply_op("DatasetCardinality", load(tmp_path).variant)])]

    assert plain(check_both_run(build, ["LoadDataset", "SaveDataset"])[0]) == 9


def test_a_part_of_a_dataset_is_not_loaded(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        path = tf.constant(str(tmp_path))
        given = varied(5)
        dataset = given.to("SaveDatasetV2", path, [], **options(given))
        for run in steps(dataset)[:4]:
            session.run(run.fetches)
    assert os.listdir(tmp_path)
    check_refused(lambda: load(tmp_path), ["LoadDataset"], "NotFoundError")


def test_what_was_not_saved(tmp_path):
    check_refused(lambda: load(tmp_path / "none"), ["LoadDataset"], "NotFoundError")


@pytest.mark.parametrize("shard", [lambda x: tf.cast(x, tf.int32), lambda x: tf.fill([2], x)])
def test_shards_of_no_number(tmp_path, shard):
    def build():
        return [Run([save(tmp_path, numbers(3), shard=shard)])]

    assert check_both_run(build, ["SaveDataset"]) == [INVALID]


def test_shards_of_negative_numbers(tmp_path):
    def build():
        return [Run([save(tmp_path, numbers(4), shard=lambda x: 1 - x)])]

    assert check_both_run(build, ["SaveDataset"]) == [[]]
    runs = [set(os.listdir(path)) for path in tmp_path.iterdir() if path.is_dir()]
    assert len(runs) == 2
    assert runs[0] == runs[1] != set()
    kind = {"types": [tf.int64], "shapes": [()]}
    found = check_elements(lambda: load(tmp_path, structure=kind), ["LoadDataset"])
    assert sorted(found) == [0, 1, 2, 3]


def test_a_path_that_is_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"")

    def build():
        return [Run([save(tmp_path / "file", numbers(3))])]

    check_both_run(build, ["SaveDataset"])


@pytest.mark.parametrize("paths", [["a", "b"], [["a"]]])
def test_paths_that_are_no_string(paths):
    def build():
        given = numbers(3)
        path = tf.placeholder_with_default(tf.constant(paths), None)
        return [Run([apply_op("SaveDataset", given.variant, path, [], **options(given))])]

    assert check_both_run(build, ["SaveDataset"]) == [INVALID]


def test_files_that_are_damaged(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(save(tmp_path, varied(3)))
    (file,) = tmp_path.glob("*/*/*.snapshot")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    check_refused(lambda: load(tmp_path), ["LoadDataset"], "DataLossError", 3)


@pytest.mark.parametrize("dtype", [np.float64, np.bool_, np.uint8, np.complex64, np.float16])
def test_values_of_other_types(tmp_path, dtype):
    value = np.arange(6).reshape(2, 3).astype(dtype)
    kind = {"types": [tf.as_dtype(dtype)], "shapes": [(2, 3)]}

    def saved():
        given = Made(None, **kind)
        given.variant = apply_op(
            "TensorDataset", [tf.constant(value)], output_shapes=given.structure["output_shapes"]
        )
        return [Run([save(tmp_path, given)])]

    assert check_both_run(saved, ["SaveDataset"]) == [[]]
    assert check_elements(lambda: load(tmp_path, structure=kind), ["LoadDataset"]) == [
        value.tolist()
    ]


# ---- parts of what was saved


def part(op, path, *inputs, **attrs):
    made = Made(None, **KIND)
    # TensorFlow folds the dataset of a constant, and cannot write what it then has.
    nothing = tf.strings.substr(tf.as_string(tf.random_uniform([])), 0, 0)
    given = tf.strings.join([path, nothing])
    made.variant = apply_op(op, given, *inputs, **attrs, **made.structure)
    return made


@pytest.mark.parametrize("compression", ["", "NONE", "GZIP"])
@pytest.mark.parametrize("start", [0, 1])
def test_shards_and_files_of_what_was_saved(tmp_path, compression, start):
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(save(tmp_path, varied(7), shard=by_turns, compression=compression))
    (shard,) = tmp_path.glob("*/00000001.shard")
    wanted = [(x, str(x).encode(), [1.5] * x) for x in (1, 3, 5)]
    attrs = {"compression": compression, "version": 2}
    found = check_elements(
        lambda: part("SnapshotDatasetReader", str(shard), int64(start), **attrs),
        ["SnapshotDatasetReader"],
    )
    assert found == wanted[start:]
    file = str(shard / "00000000.snapshot")
    found = check_elements(
        lambda: part("SnapshotChunkDataset", file, compression=compression),
        ["SnapshotChunkDataset"],
    )
    assert found == wanted


def test_shards_and_files_that_are_not_there(tmp_path):
    path = str(tmp_path / "none")
    check_refused(
        lambda: part("SnapshotDatasetReader", path, int64(0), version=2),
        ["SnapshotDatasetReader"],
        "NotFoundError",
    )
    check_refused(
        lambda: part("SnapshotDatasetReader", path, int64(0), version=3), ["SnapshotDatasetReader"]
    )
    check_refused(
        lambda: part("SnapshotChunkDataset", path), ["SnapshotChunkDataset"], "NotFoundError"
    )
