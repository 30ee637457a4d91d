"""Rows of checkpoints in another order, and records of many files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf

MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3)


def remapped(path: str, rows: list[int], cols: list[int], given: list[float]) -> Any:
    return tf.raw_ops.LoadAndRemapMatrix(
        ckpt_path=path,
        old_tensor_name="m",
        row_remapping=np.array(rows, np.int64),
        col_remapping=np.array(cols, np.int64),
        initializing_values=np.array(given, np.float32),
        num_rows=len(rows),
        num_cols=len(cols) or 3,
    )


@pytest.mark.parametrize("version", ["first", "second"])
def test_a_stored_matrix_is_read_in_another_order(tmp_path: Path, version: str) -> None:
    path = str(tmp_path / "saved")
    with tf.Graph().as_default(), tf.Session() as session:
        if version == "first":
            save = tf.raw_ops.Save(filename=path, tensor_names=["m"], data=[MATRIX])
        else:
            save = tf.raw_ops.SaveV2(
                prefix=path, tensor_names=["m"], shape_and_slices=[""], tensors=[MATRIX]
            )
        session.run(save)
        found = session.run(remapped(path, [3, -1], [2, -1, 0], [1, 2, 3, 4]))
        assert found.tolist() == [[11, 1, 9], [2, 3, 4]]
        assert session.run(remapped(path, [1], [], [])).tolist() == [[3, 4, 5]]
        for wrong, error in (
            (([4], [], []), tf.errors.InternalError),
            (([0], [5], []), tf.errors.InvalidArgumentError),
            (([1, 1], [], []), tf.errors.UnimplementedError),
            (([-1], [], [1.0]), tf.errors.InvalidArgumentError),
        ):
            with pytest.raises(error):
                session.run(remapped(path, *wrong))


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records_come_in_random_order_without_end(tmp_path: Path, compression: str) -> None:
    for i in range(4):
        with tf.io.TFRecordWriter(str(tmp_path / f"file{i}"), compression) as writer:
            for j in range(10):
                writer.write(b"%d-%d" % (i, j))
    with tf.Graph().as_default():
        pattern = str(tmp_path / "file*")
        attrs = {"batch_size": 16, "compression_type": compression}
        records = tf.raw_ops.RecordInput(file_pattern=pattern, **attrs)
        other = tf.raw_ops.RecordInput(file_pattern=pattern, file_random_seed=5, **attrs)
        drawn = []
        for fetched in (records, records, other):
            with tf.Session() as session:
                runs = [session.run(fetched).tolist() for _ in range(5)]
            drawn.append([name for run in runs for name in run])
        with tf.Session() as session:
            for wrong in ({"batch_size": 0}, {"file_buffer_size": 0}, {"compression_type": "X"}):
                with pytest.raises(tf.errors.InvalidArgumentError):
                    session.run(tf.raw_ops.RecordInput(file_pattern=pattern, **wrong))
            with pytest.raises(tf.errors.NotFoundError, match="Found no files"):
                session.run(tf.raw_ops.RecordInput(file_pattern=pattern + "none"))
    assert drawn[0] == drawn[1] != drawn[2]
    for names in drawn:
        assert len(set(names[:40])) == len(set(names[40:])) == 40
        assert names[:40] != names[40:]
