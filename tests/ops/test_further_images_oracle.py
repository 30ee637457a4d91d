"""Boxes drawn, windows taken and audio kept as files, beside TensorFlow's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, check_ends_alike
from tideflow.formats import wav

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F = np.float32
RNG = np.random.default_rng(5)
IMAGES = RNG.random((2, 6, 7, 3), F)
BOXES = F([[[0.1, 0.2, 0.6, 0.7], [-0.5, -0.5, 0.4, 0.5]], [[0.9, 0.1, 0.1, 0.9], [0, 0, 1, 1]]])
COLORS = F([[1, 2, 3, 4], [5, 6, 7, 8]])
OFFSETS = F([[0.4, 0.3], [-0.4, -0.3]])
AUDIO = F([[0, 0.5], [1, -1], [2, -2], [1 / 32768, 0.7]])
FILE = np.array(wav.encode_wav(AUDIO, 8000), object)
NOISELESS = {"uniform_noise": False, "noise": "zero"}
VOLUMES = RNG.random((2, 3, 5, 4, 2), F)

CALLS = [
    Call("DrawBoundingBoxesV2", [IMAGES, BOXES, COLORS]),
    *(
        Call("DrawBoundingBoxes", [IMAGES[..., :1].repeat(depth, 3), BOXES], id=f"boxes-{depth}")
        for depth in (4, 3, 2, 1)
    ),
    Call("DrawBoundingBoxes", [np.zeros((1, 30, 30, 4), F), F([[[i / 9] * 4 for i in range(9)]])]),
    Call("DrawBoundingBoxes", [IMAGES.astype(np.float16), BOXES]),
    Call("DrawBoundingBoxesV2", [IMAGES[..., :1], BOXES, COLORS]),
    Call("DrawBoundingBoxesV2", [IMAGES, BOXES, COLORS[:, :2]]),
    Call("DrawBoundingBoxesV2", [IMAGES, BOXES, np.zeros((0, 0), F)]),
    *(
        Call(
            op,
            [IMAGES, np.int32([3, 4]), OFFSETS * far],
            {"centered": centered, "normalized": normalized, **NOISELESS},
            id=f"{op}-{centered}-{normalized}-{far}",
        )
        for op in ("ExtractGlimpse", "ExtractGlimpseV2")
        for centered in (True, False)
        for normalized in (True, False)
        for far in (1, 5)
    ),
    Call("ExtractGlimpse", [IMAGES, np.int32([3, 4]), OFFSETS * 0], {"noise": "no such"}),
    *(
        Call(
            "ExtractVolumePatches",
            [VOLUMES.astype(kind)],
            {"ksizes": [1, 2, 3, 2, 1], "strides": [1, 1, 2, 2, 1], "padding": padding},
            id=f"volumes-{padding}-{kind.__name__}",
        )
        for padding in ("SAME", "VALID")
        for kind in (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64)
    ),
    Call("EncodeWav", [AUDIO, np.int32(8000)]),
    Call("EncodeWav", [AUDIO[:, :0], np.int32(8000)]),
    *(
        Call("DecodeWav", [FILE], {"desired_channels": channels, "desired_samples": samples})
        for channels in (-1, 1, 3)
        for samples in (-1, 0, 2, 9)
    ),
    *(
        Call("DecodeWav", [np.array(given, object)], id=f"wav-{i}")
        for i, given in enumerate(
            [
                FILE.item()[:20],
                FILE.item()[:-3],
                FILE.item() + b"LIST\x04\x00\x00\x00abcd",
                FILE.item().replace(b"data", b"LIST"),
                FILE.item().replace(b"\x10\x00data", b"\x08\x00data"),
            ]
        )
    ),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)
