"""Files that graphs reach where Settings.file_roots names folders, through all that opens files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tideflow.v1 as tf
from tideflow.platform.settings import Settings
from tideflow.wire import errors


def value_of(made: Any) -> Any:
    with tf.Session() as session:
        return session.run(made)


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.fixture
def inside(tmp_path: Path, set_settings: Callable[..., None]) -> Path:
    """A folder that graphs may reach, beside one that they may not."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "kept").write_bytes(b"here")
    (tmp_path / "secret").write_bytes(b"there")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"there")
    set_settings(file_roots=str(root))
    return root


def test_what_is_beneath_is_read_and_written(inside: Path) -> None:
    assert value_of(tf.io.read_file(str(inside / "kept"))) == b"here"
    value_of(tf.io.write_file(str(inside / "deep" / "new"), "x"))
    assert (inside / "deep" / "new").read_bytes() == b"x"
    (inside / "link").symlink_to("kept")
    assert value_of(tf.io.read_file(str(inside / "link"))) == b"here"
    found = value_of(tf.io.matching_files(str(inside / "*")))
    assert [os.path.basename(name) for name in found] == [b"deep", b"kept", b"link"]


def ways_out(root: Path) -> Iterator[str]:
    outside = root.parent
    yield str(outside / "secret")
    yield str(root / ".." / "secret")
    (root / "to_file").symlink_to(outside / "secret")
    yield str(root / "to_file")
    (root / "to_folder").symlink_to(outside / "outside")
    yield str(root / "to_folder" / "file")
    yield "/dev/zero"
    yield str(outside / "root2")


def test_nothing_leads_out(inside: Path) -> None:
    for path in ways_out(inside):
        for made in (tf.io.read_file(path), tf.io.write_file(path, "x")):
            with pytest.raises(errors.PermissionDeniedError, match="--file-root"):
                value_of(made)
    assert (inside.parent / "secret").read_bytes() == b"there"
    with pytest.raises(errors.PermissionDeniedError):
        value_of(tf.io.matching_files(str(inside.parent / "*")))
    found = value_of(tf.io.matching_files(str(inside / "*" / "*")))
    assert found.tolist() == []


def test_no_pipe_and_no_device_is_opened(inside: Path) -> None:
    os.mkfifo(inside / "pipe")
    for made in (
        tf.io.read_file(str(inside / "pipe")),
        tf.print("x", output_stream=f"file://{inside / 'pipe'}"),
    ):
        with pytest.raises(errors.OpError, match=r"it is no file|cannot|No such device"):
            value_of(made)


def openers(path: str) -> Iterator[tuple[str, object]]:
    data = tf.data
    raw = tf.raw_ops
    yield (
        "RestoreV2",
        raw.RestoreV2(prefix=path, tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.float32]),
    )
    yield (
        "SaveV2",
        raw.SaveV2(
            prefix=path, tensor_names=["a"], shape_and_slices=[""], tensors=[tf.constant(1.0)]
        ),
    )
    yield "Save", raw.Save(filename=path, tensor_names=["a"], data=[tf.constant(1.0)])
    yield "print", tf.print("x", output_stream=f"file://{path}")
    for name, dataset in (
        ("lines", data.TextLineDataset(path)),
        ("records", data.TFRecordDataset(path)),
        ("cache", data.Dataset.range(2).cache(path)),
        ("files", data.Dataset.list_files(path + "*", shuffle=False)),
        ("snapshot", data.Dataset.range(2).snapshot(path)),
    ):
        yield name, data.make_one_shot_iterator(dataset).get_next()
    reader = tf.WholeFileReader()
    queue = tf.FIFOQueue(1, tf.string, [[]])
    with tf.control_dependencies([queue.enqueue(path)]):
        yield "reader", reader.read(queue)
    yield "constant", raw.ImmutableConst(dtype=tf.uint8, shape=[1], memory_region_name=path)


def test_all_that_opens_files_asks(inside: Path) -> None:
    outside = inside.parent / "outside" / "file"
    for name, made in openers(str(outside)):
        with pytest.raises(errors.OpError, match="graphs may not reach") as caught:
            value_of(made)
        assert isinstance(caught.value, errors.PermissionDeniedError), name
    assert sorted(os.listdir(inside.parent / "outside")) == ["file"]
    assert outside.read_bytes() == b"there"


def test_none_and_settings_without_sense(set_settings: Callable[..., None], tmp_path: Path) -> None:
    set_settings(file_roots="none")
    with pytest.raises(errors.PermissionDeniedError, match="may reach none"):
        value_of(tf.io.read_file(str(tmp_path / "file")))
    for text in ("relative", "/a:b"):
        with pytest.raises(errors.InvalidArgumentError, match="folders as /data:/logs"):
            Settings(file_roots=text)
