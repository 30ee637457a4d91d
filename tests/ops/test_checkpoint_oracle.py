"""Checkpoints of ours are read by TensorFlow, and TensorFlow's by us; errors have the same code."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tideflow.v1 as ours
from ops.outcomes import Call, check_ends_alike, outcome
from tideflow.formats import BundleReader
from tideflow.wire import dtypes

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(0)
VALUES = {
    "float": RNG.normal(size=(3, 4)).astype(np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.float64(2.5),
    "strings": np.array([[b"a", b"bc"], [b"", b"x" * 300]], object),
    "no strings": np.zeros((0,), object),
    "bfloat16": np.ones(5, ml_dtypes.bfloat16),
    "half": np.ones(5, np.float16),
    "bool": np.array([True, False]),
    "complex64": np.array([1 + 2j], np.complex64),
    "complex128": np.array([1 + 2j], np.complex128),
    **{
        str(t): np.arange(7).astype(t)
        for t in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    "transposed": RNG.normal(size=(300, 700)).astype(np.float32).T,
    "name/with:sl\0sh\u00ff": np.float32(1),
}
WHOLE = np.arange(24, dtype=np.float32).reshape(4, 6)
SPECS = ["4 6 0,2:-", "4 6 2,2:0,3", "4 6 2,2:3,3"]
PARTS = [WHOLE[:2], WHOLE[2:, :3], WHOLE[2:, 3:]]


def names(given):
    return np.array([name.encode() for name in given], object)


def save(tf, prefix, values, specs=None, given=None):
    given = list(values) if given is None else given
    specs = names([""] * len(given) if specs is None else specs)
    values = list(values.values()) if isinstance(values, dict) else values
    values = [np.asarray(value) for value in values]
    return outcome(tf, Call("SaveV2", [str(prefix), names(given), specs, values]))


def restore(tf, prefix, given, types, specs=None):
    specs = names([""] * len(given) if specs is None else specs)
    return outcome(
        tf, Call("RestoreV2", [str(prefix), names(given), specs], {"dtypes": list(types)})
    )


@pytest.mark.parametrize("writer", [ours, tensorflow], ids=["ours", "theirs"])
@pytest.mark.parametrize("reader", [ours, tensorflow], ids=["ours", "theirs"])
def test_what_one_saves_the_other_restores(tmp_path, writer, reader):
    assert save(writer, tmp_path / "x", VALUES) == []
    types = [dtypes.dtype_of(np.asarray(value)).name for value in VALUES.values()]
    found = restore(reader, tmp_path / "x", list(VALUES), types)
    assert not isinstance(found, str), found
    for (name, value), read in zip(VALUES.items(), found, strict=True):
        assert read.dtype == np.asarray(value).dtype, name
        np.testing.assert_array_equal(read, value, err_msg=name)


@pytest.mark.parametrize("writer", [ours, tensorflow], ids=["ours", "theirs"])
@pytest.mark.parametrize("reader", [ours, tensorflow], ids=["ours", "theirs"])
def test_slices_come_together_and_apart_again(tmp_path, writer, reader):
    assert save(writer, tmp_path / "x", PARTS, SPECS, ["a\0\u00ff"] * 3) == []
    specs = ["", "4 6 1,2:-", "4 6 -:2,3", *SPECS]
    found = restore(reader, tmp_path / "x", ["a\0\u00ff"] * 6, ["float32"] * 6, specs)
    wanted = [WHOLE, WHOLE[1:3], WHOLE[:, 2:5], *PARTS]
    for read, value in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(read, value)


@pytest.mark.parametrize("writer", [ours, tensorflow], ids=["ours", "theirs"])
def test_slices_of_what_was_saved_whole(tmp_path, writer):
    save(writer, tmp_path / "x", {"a": WHOLE})
    specs = ["4 6 1,2:-", "4 6 -:2,3"]
    for reader in (ours, tensorflow):
        found = restore(reader, tmp_path / "x", ["a"] * 2, ["float32"] * 2, specs)
        np.testing.assert_array_equal(found[0], WHOLE[1:3])
        np.testing.assert_array_equal(found[1], WHOLE[:, 2:5])


@pytest.mark.parametrize("merger", [ours, tensorflow], ids=["ours", "theirs"])
@pytest.mark.parametrize("reader", [ours, tensorflow], ids=["ours", "theirs"])
def test_shards_are_merged(tmp_path, merger, reader):
    parts = [tmp_path / "temp" / f"part-0000{i}-of-00002" for i in range(2)]
    save(ours, parts[0], [PARTS[0], np.int32(3)], [SPECS[0], ""], ["a", "b"])
    save(tensorflow, parts[1], [*PARTS[1:], np.int64(4)], [*SPECS[1:], ""], ["a", "a", "c"])
    call = Call("MergeV2Checkpoints", [names(map(str, parts)), str(tmp_path / "all")])
    assert outcome(merger, call) == []
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "all.data-00000-of-00002",
        "all.data-00001-of-00002",
        "all.index",
    ]
    found = restore(reader, tmp_path / "all", ["a", "b", "c"], ["float32", "int32", "int64"])
    np.testing.assert_array_equal(found[0], WHOLE)
    assert [int(x) for x in found[1:]] == [3, 4]


def test_a_table_of_many_blocks_is_read(tmp_path):
    values = {f"some/long/name/of/a/tensor/{i:05d}": np.int32(i) for i in range(9000)}
    for i, tf in enumerate((ours, tensorflow)):
        save(tf, tmp_path / str(i), values)
        reader = tensorflow.train.load_checkpoint(str(tmp_path / str(i)))
        assert sorted(reader.get_variable_to_shape_map()) == list(values)
        assert reader.get_tensor("some/long/name/of/a/tensor/08999") == 8999
        with BundleReader(str(tmp_path / str(i))) as bundle:
            assert bundle.names() == list(values)
            assert bundle.read("some/long/name/of/a/tensor/07777") == 7777


PAIR = [np.float32(1), np.float32(2)]
BAD_SAVES = {
    "two names, one tensor": (PAIR[:1], ["", ""], ["a", "b"]),
    "name twice": (PAIR, ["", ""], ["a", "a"]),
    "slice of other shape": ([WHOLE], ["4 6 0,2:-"], ["a"]),
    "slice outside": ([WHOLE[:2]], ["4 6 3,2:-"], ["a"]),
    "slice of fewer axes": ([WHOLE[:2]], ["4 6 0,2"], ["a"]),
    "slice malformed": ([WHOLE[:2]], ["4 6 x"], ["a"]),
    "slice without sizes": ([WHOLE[:2]], ["0,2"], ["a"]),
    "length zero": ([WHOLE[:2]], ["4 6 0,0:-"], ["a"]),
}


@pytest.mark.parametrize("case", BAD_SAVES)
def test_bad_saves_end_alike(tmp_path, case):
    values, specs, given = BAD_SAVES[case]
    found = [
        save(tf, tmp_path / str(i), values, specs, given) for i, tf in enumerate((ours, tensorflow))
    ]
    assert found[0] == found[1]
    assert isinstance(found[0], str)
    assert not list(tmp_path.glob("0*"))


BAD_RESTORES = {
    "no such name": (["a", "nobody"], ["float32"] * 2, ["", ""]),
    "other type": (["a"], ["int32"], [""]),
    "other shape": (["a"], ["float32"], ["4 5 0,2:-"]),
    "slice outside": (["a"], ["float32"], ["4 6 3,2:-"]),
    "malformed": (["a"], ["float32"], ["x"]),
    "fewer names": (["a"], ["float32"] * 2, ["", ""]),
}


@pytest.mark.parametrize("case", BAD_RESTORES)
def test_bad_restores_end_alike(tmp_path, case):
    save(tensorflow, tmp_path / "x", {"a": WHOLE})
    given, types, specs = BAD_RESTORES[case]
    found = [restore(tf, tmp_path / "x", given, types, specs) for tf in (ours, tensorflow)]
    assert found[0] == found[1]
    assert isinstance(found[0], str)


def test_a_missing_checkpoint_ends_alike(tmp_path):
    found = [restore(tf, tmp_path / "x", ["a"], ["float32"]) for tf in (ours, tensorflow)]
    assert found == ["NotFoundError"] * 2


def test_a_missing_directory_ends_alike(tmp_path):
    found = [save(tf, tmp_path / "a" / "b" / "x", {"a": WHOLE}) for tf in (ours, tensorflow)]
    assert found == ["NotFoundError"] * 2


def _spoil(path, how):
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "flipped":
        path.write_bytes(bytes([data[0] ^ 0xFF]) + data[1:])
    else:
        path.unlink()


@pytest.mark.parametrize("file", ["x.index", "x.data-00000-of-00001"])
@pytest.mark.parametrize("how", ["cut", "flipped", "gone"])
@pytest.mark.parametrize("value", [WHOLE, VALUES["strings"]], ids=["numbers", "strings"])
def test_damage_ends_alike(tmp_path, file, how, value):
    save(tensorflow, tmp_path / "x", {"a": value})
    _spoil(tmp_path / file, how)
    types = [dtypes.dtype_of(value).name]
    found = [restore(tf, tmp_path / "x", ["a"], types) for tf in (ours, tensorflow)]
    # What is cut short is OUT_OF_RANGE there for strings, DATA_LOSS for numbers and for us.
    if isinstance(found[1], str) and found[1] == "OutOfRangeError":
        found[1] = "DataLossError"
    assert found[0] == found[1]
    assert isinstance(found[0], str)


@pytest.mark.parametrize(
    "inputs", [["a", 3, 12], ["", 100000, -1], [["a"], 1, 2]], ids=["usual", "wide", "vector"]
)
def test_names_of_shards(inputs):
    check_ends_alike(tensorflow, Call("ShardedFilename", inputs))


@pytest.mark.parametrize(
    "case",
    [
        ([b"{0}/a", b"{0}/b"], b"{0}/both", {}),
        ([b"{0}/a", b"{0}/a2"], b"{0}/both", {}),
        ([b"{0}/a", b"{0}/gone"], b"{0}/both", {}),
        ([b"{0}/a", b"{0}/gone"], b"{0}/both", {"allow_missing_files": True}),
        ([b"{0}/gone"], b"{0}/both", {"allow_missing_files": True}),
        ([b"{0}/a"], [b"{0}/a"], {}),
    ],
    ids=["disjoint", "twice", "gone", "gone allowed", "none", "bad destination"],
)
def test_merging_ends_alike(tmp_path, case):
    found = []
    for tf in (ours, tensorflow):
        home = tmp_path / tf.__name__
        home.mkdir()
        for name, key in (("a", "a"), ("a2", "a"), ("b", "b")):
            save(tensorflow, home / name, {key: WHOLE})
        at = str(home).encode()
        given, destination, attrs = case
        given = [one.replace(b"{0}", at) for one in given]
        if isinstance(destination, list):
            destination = [one.replace(b"{0}", at) for one in destination]
        else:
            destination = destination.replace(b"{0}", at)
        ended = outcome(tf, Call("MergeV2Checkpoints", [given, destination], attrs))
        found.append(ended)
        if ended == []:
            reader = tensorflow.train.load_checkpoint(
                str(home / ("a" if destination.endswith(b"/a") else "both"))
            )
            found[-1] = sorted(reader.get_variable_to_shape_map())
    assert found[0] == found[1]


@pytest.mark.parametrize("writer", [ours, tensorflow.compat.v1], ids=["ours", "theirs"])
@pytest.mark.parametrize("reader", [ours, tensorflow.compat.v1], ids=["ours", "theirs"])
def test_variants(writer, reader, tmp_path):
    prefix = str(tmp_path / "x")
    tf = writer
    with tf.Graph().as_default(), tf.Session() as session:
        held = tf.raw_ops.TensorListFromTensor(
            tensor=tf.constant([1, 2, 3]), element_shape=tf.constant([], tf.int32)
        )
        saved = tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=["a"], shape_and_slices=[""], tensors=[held]
        )
        session.run(saved)
    tf = reader
    with tf.Graph().as_default(), tf.Session() as session:
        [held] = tf.raw_ops.RestoreV2(
            prefix=prefix, tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.variant]
        )
        stacked = tf.raw_ops.TensorListStack(
            input_handle=held,
            element_shape=tf.constant([], tf.int32),
            element_dtype=tf.int32,
            num_elements=-1,
        )
        assert session.run(stacked).tolist() == [1, 2, 3]
