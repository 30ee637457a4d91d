"""JPEG XL files, with the library that reads them and without it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.jxl_files import DEEP, GRAY, PIXELS, RGB, RGBA


def decoded(data: bytes, **attrs: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(tf.image.decode_jxl(data, **attrs))


def test_pixels_are_those_of_the_file() -> None:
    pytest.importorskip("imagecodecs")
    rgba = np.concatenate([PIXELS, PIXELS[..., :1]], -1)
    expected = {RGB: PIXELS, GRAY: PIXELS[..., :1], RGBA: rgba, DEEP: PIXELS}
    for data, pixels in expected.items():
        found = decoded(data)
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, pixels)
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.image.decode_image(RGB)).tolist() == PIXELS.tolist()
    for wrong, match in ((RGB[:-5], "Failed to decode JXL"), (GRAY, "channels requested")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            decoded(wrong, channels=3)


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    with pytest.raises(tf.errors.UnimplementedError, match=r"install tideflow\[jxl\]"):
        decoded(RGB)


def test_other_files_are_refused() -> None:
    for data, match in ((b"", "empty"), (b"abc", "JPEG XL"), (b"BM" + bytes(60), "BMP")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            decoded(data)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be 0, 1, 3 or 4"):
        decoded(RGB, channels=2)
