"""Rows of checkpoints in another order, and records of many files, beside TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    prefix = str(tmp_path_factory.mktemp("checkpoint") / "saved")
    values = [MATRIX, MATRIX[0], MATRIX.astype(np.float64), np.float32(3)]
    with tf.Graph().as_default(), tf.Session() as session:
        saved = apply_op("SaveV2", prefix, ["m", "vector", "double", "scalar"], [""] * 4, values)
        session.run(saved)
    return prefix


CASES = [
    ([0, 1, 2, 3], [], []),
    ([3, 0], [], []),
    ([3, -1, 0], [], [7, 8, 9]),
    ([3, 0], [2, -1, 0, -1], [1, 2, 3, 4]),
    ([3, -1], [2, -1], [1, 2, 3]),
    ([-1, 0], [], [[1, 2, 3]]),
    ([-2, -2], [-7, -1], [1, 2, 3, 4]),
    ([3, -1], [2, -1], [1, 2]),
    ([3, -1], [2, -1], [1, 2, 3, 4]),
    ([3, 3], [], []),
    ([3, 2], [1, 1, 0], []),
    ([4], [], []),
    ([], [], []),
    ([], [], [1]),
]


def remapped(path: Any, name: Any, rows: Any, cols: Any, given: Any, **attrs: int) -> Any:
    sizes = {"num_rows": len(rows), "num_cols": len(cols) or 3, **attrs}
    # Of unknown shapes, so that the kernels look at them.
    inputs = [
        tf.placeholder_with_default(value, None)
        for value in (
            np.array(path, object),
            np.array(name, object),
            np.array(rows, np.int64),
            np.array(cols, np.int64),
            np.array(given, np.float32),
        )
    ]
    return apply_op("LoadAndRemapMatrix", *inputs, **sizes)


def test_matrices_are_read_in_another_order(checkpoint: str) -> None:
    def build() -> list[Run]:
        return [
            *[Run([remapped(checkpoint, "m", *case)]) for case in CASES],
            *[Run([remapped(checkpoint, name, [0], [], [])]) for name in ("vector", "scalar")],
            *[Run([remapped(checkpoint, name, [0], [], [])]) for name in ("double", "none")],
            Run([remapped(checkpoint + "-none", "m", [-1], [], [1, 2, 3])]),
            Run([remapped([checkpoint], ["m"], [1], [], [])]),
            Run([remapped([checkpoint] * 2, "m", [1], [], [])]),
            Run([remapped(checkpoint, "m", [[0, 1]], [], [])]),
            Run([remapped(checkpoint, "m", [0, 1], [], [], num_rows=3)]),
            Run([remapped(checkpoint, "m", [0, 1], [], [], num_cols=2)]),
            Run([remapped(checkpoint, "m", [0, 1], [1, 2], [], num_cols=3)]),
            Run([remapped(checkpoint, "m", [3, -1], [], [1, 2, 3], max_rows_in_memory=1)]),
        ]

    check_both_run(build, ["LoadAndRemapMatrix"])


def test_records_of_files_come_once_in_an_epoch(tmp_path: Path) -> None:
    for i in range(3):
        with tf.io.TFRecordWriter(str(tmp_path / f"file{i}")) as writer:
            for j in range(5):
                writer.write(b"%d-%d" % (i, j))
    found = []
    for one in (tf, tensorflow.compat.v1):
        with one.Graph().as_default(), one.Session() as session:
            attrs = {"batch_size": 5, "file_buffer_size": 4, "file_shuffle_shift_ratio": 0.5}
            records = one.raw_ops.RecordInput(file_pattern=str(tmp_path / "file*"), **attrs)
            missing = one.raw_ops.RecordInput(file_pattern=str(tmp_path / "none*"))
            assert records.shape.rank is None
            runs = [session.run(records) for _ in range(6)]
            assert {run.shape for run in runs} == {(5,)}
            found.append([sorted(np.concatenate(part).tolist()) for part in (runs[:3], runs[3:])])
            with pytest.raises(one.errors.NotFoundError, match="Found no files at"):
                session.run(missing)
    assert found[0] == found[1]
