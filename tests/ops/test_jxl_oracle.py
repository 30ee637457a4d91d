"""JPEG XL files, beside TensorFlow."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.jxl_files import DEEP, GRAY, RGB, RGBA
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
# Not skipped while it is imported: others mutate the cases of all modules like this one.
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(find_spec("imagecodecs") is None, reason="needs the extra jxl"),
]


def test_pixels_are_tensorflows() -> None:
    def build() -> list[Run]:
        files = (RGB, GRAY, RGBA, DEEP, RGB[:-5], RGB[:3], b"", b"abc")
        calls = [("DecodeJxl", data, {"channels": n}) for data in files for n in range(5)]
        calls += [
            (op, RGB, {})
            for op in ("DecodeJpeg", "DecodePng", "DecodeGif", "DecodeBmp", "DecodeImage")
        ]
        calls += [("DecodeImage", RGB, {"dtype": tf.float32}), ("DecodePng", RGB, {"channels": 1})]
        return [
            Run([apply_op(op, tf.constant(np.array(data, object)), **attrs)])
            for op, data, attrs in calls
        ]

    check_both_run(build, ["DecodeJxl"])
