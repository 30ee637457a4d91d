"""Convolutions of any rank, and such that pad or resize first, beside TensorFlow's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, check_ends_alike

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F = np.float32
RNG = np.random.default_rng(6)
IMAGES = RNG.random((2, 5, 6, 2)).astype(F)
FILTER = RNG.random((2, 3, 2, 3)).astype(F)
VOLUMES = RNG.random((2, 3, 5, 6, 2)).astype(F)
BLOCK = RNG.random((2, 2, 3, 2, 3)).astype(F)
AROUND = np.int32([[0, 0], [1, 1], [2, 1], [0, 0]])
SINGLE = {"strides": [1, 1, 1, 1], "padding": "VALID"}
KINDS = (np.float32, np.float64, np.float16)


def conv(x=IMAGES, w=FILTER, **attrs):
    return Call("Conv", [x, w], {"strides": [1] * (w.ndim), "padding": "VALID", **attrs}, rtol=1e-4)


# Of float32 TensorFlow fills the windows of all images from the first one of a batch.
def padded(x=IMAGES[:1], around=AROUND, w=FILTER, **attrs):
    return Call(
        "FusedPadConv2D", [x, around, w], {"mode": "REFLECT", **SINGLE, **attrs}, True, 1e-4
    )


def resized(x=IMAGES[:1], size=(7, 9), around=AROUND, w=FILTER, **attrs):
    inputs = [x, np.int32(size), around, w]
    attrs = {"mode": "REFLECT", **SINGLE, **attrs}
    return Call("FusedResizeAndPadConv2D", inputs, attrs, True, 1e-4)


CALLS = [
    *(conv(IMAGES.astype(k), FILTER.astype(k)) for k in (*KINDS, np.int32)),
    *(conv(VOLUMES.astype(k), BLOCK.astype(k)) for k in (*KINDS, np.int32)),
    conv(padding="SAME", strides=[1, 2, 3, 1]),
    conv(padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0]),
    conv(dilations=[1, 2, 1, 1]),
    conv(VOLUMES, BLOCK, padding="SAME", strides=[1, 2, 1, 2, 1]),
    conv(VOLUMES, BLOCK, dilations=[1, 2, 1, 1, 1]),
    conv(VOLUMES, batch_dims=2),
    conv(VOLUMES),
    conv(batch_dims=2),
    conv(IMAGES[0]),
    conv(IMAGES[..., :1]),
    conv(groups=2),
    conv(strides=[1, 1]),
    conv(strides=[2, 1, 1, 1]),
    *(padded(IMAGES[:1].astype(k), w=FILTER.astype(k)) for k in KINDS),
    *(padded(mode="SYMMETRIC", padding=p) for p in ("SAME", "VALID")),
    padded(strides=[1, 2, 2, 1]),
    padded(strides=[1, 2, 1, 1]),
    padded(around=AROUND[:, :1]),
    padded(around=AROUND + 1),
    padded(w=FILTER[:, :, :1]),
    padded(IMAGES[0]),
    *(resized(IMAGES[:1].astype(k), w=FILTER.astype(k)) for k in KINDS),
    resized(size=(3, 4), mode="SYMMETRIC", padding="SAME"),
    resized(resize_align_corners=True, strides=[1, 2, 2, 1]),
    resized(size=(7, 9, 1)),
    resized(size=(0, 9)),
    resized(around=AROUND[:3]),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)
