"""Checkpoints of the first version: what one of us saves the other restores, and errors agree."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.outcomes import Call, outcome

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

VALUES = {
    "float": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.float64(2.5),
    "empty": np.zeros((0, 3), np.float32),
    "strings": np.array([[b"a", b"bc\0"], [b"", b"x" * 300]], object),
    "half": np.ones(5, np.float16),
    "bool": np.array([True, False]),
    "complex64": np.array([1 + 2j], np.complex64),
    **{
        name: np.array([-3 if name[0] == "i" else 3, 100]).astype(name)
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16")
    },
    "name/with:sl\0sh\u00ff": np.float32(1),
}
WHOLE = np.arange(24, dtype=np.float32).reshape(4, 6)
SPECS = ["4 6 0,2:-", "4 6 2,2:0,3", "4 6 2,2:3,3"]
PARTS = [WHOLE[:2], WHOLE[2:, :3], WHOLE[2:, 3:]]
BOTH = pytest.mark.parametrize(
    ("writer", "reader"),
    [(ours, tensorflow), (tensorflow, ours), (ours, ours)],
    ids=["TensorFlow reads", "TensorFlow writes", "alone"],
)


def text(given):
    return np.array([name.encode() for name in given], object)


def save(tf, path, values, names, specs=None):
    lists = [text(names)] if specs is None else [text(names), text(specs)]
    op = "Save" if specs is None else "SaveSlices"
    return outcome(tf, Call(op, [str(path), *lists, [np.asarray(value) for value in values]]))


def restore(tf, path, name, dtype, spec=None):
    given = [str(path), name] if spec is None else [str(path), name, spec]
    return outcome(tf, Call("Restore" if spec is None else "RestoreSlice", given, {"dt": dtype}))


@BOTH
def test_values_of_all_types(tmp_path, writer, reader):
    assert save(writer, tmp_path / "x", VALUES.values(), VALUES) == []
    for name, value in VALUES.items():
        value = np.asarray(value)
        dtype = "string" if value.dtype == object else value.dtype.name
        (found,) = restore(reader, tmp_path / "x", name.encode(), dtype)
        assert found.dtype == value.dtype, name
        np.testing.assert_array_equal(found, value, err_msg=name)


@BOTH
def test_slices_come_together_and_apart_again(tmp_path, writer, reader):
    assert save(writer, tmp_path / "x", PARTS, ["a"] * 3, SPECS) == []
    wanted = {"": WHOLE, "4 6 1,2:-": WHOLE[1:3], "4 6 -:2,3": WHOLE[:, 2:5]}
    for spec, value in wanted.items():
        (found,) = restore(reader, tmp_path / "x", "a", "float32", spec)
        np.testing.assert_array_equal(found, value)


@BOTH
def test_restores_of_the_second_version_read_them(tmp_path, writer, reader):
    assert save(writer, tmp_path / "x", [WHOLE, np.int64(7)], ["a", "b"]) == []
    call = Call(
        "RestoreV2",
        [str(tmp_path / "x"), text(["b", "a"]), text(["", "4 6 -:2,3"])],
        {"dtypes": ["int64", "float32"]},
    )
    number, part = outcome(reader, call)
    assert number == 7
    np.testing.assert_array_equal(part, WHOLE[:, 2:5])


@BOTH
def test_a_pattern_names_several_files(tmp_path, writer, reader):
    for shard in range(2):
        path = tmp_path / f"x-{shard:05}-of-00002"
        assert save(writer, path, PARTS[:1] if shard == 0 else PARTS[1:],
                    ["a"] * (shard + 1), SPECS[:1] if shard == 0 else SPECS[1:]) == []  # fmt: skip
    (found,) = restore(reader, tmp_path / "x-?????-of-00002", "a", "float32")
    np.testing.assert_array_equal(found, WHOLE)


@pytest.mark.parametrize(
    ("name", "dtype", "spec"),
    [
        ("b", "float32", None),
        ("a", "int32", None),
        ("a", "float32", None),  # a slice is missing
        ("a", "float32", "3 6 0,1:-"),
        ("a", "float32", "4 6 0,3:-"),
    ],
)
def test_bad_restores_end_alike(tmp_path, name, dtype, spec):
    save(tensorflow, tmp_path / "x", PARTS[:2], ["a"] * 2, SPECS[:2])
    found = [restore(tf, tmp_path / "x", name, dtype, spec) for tf in (ours, tensorflow)]
    assert isinstance(found[0], str)
    assert found[0] == found[1]


def test_a_file_that_is_not_there(tmp_path):
    found = [restore(tf, tmp_path / "x", "a", "float32") for tf in (ours, tensorflow)]
    assert found == ["NotFoundError"] * 2


@pytest.mark.parametrize(
    ("values", "names", "specs"),
    [
        ([np.float32(1), np.float32([1])], ["a", "a"], None),
        ([np.float32([1])], ["a"], ["4 0,2"]),
        ([np.uint32(1)], ["a"], None),
    ],
)
def test_bad_saves_end_alike(tmp_path, values, names, specs):
    found = [save(tf, tmp_path / "x", values, names, specs) for tf in (ours, tensorflow)]
    assert isinstance(found[0], str)
    assert found[0] == found[1]
