"""CTC, dilation, pools that say where, and special functions beside TensorFlow's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, check_ends_alike

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

_random = np.random.default_rng(5)
LOGITS = _random.normal(size=(7, 3, 5)).astype(np.float32)
INDICES = np.int64([[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [2, 1]])
LABELS = np.int32([0, 0, 1, 3, 2, 2])
IMAGES = _random.normal(size=(2, 5, 6, 3)).astype(np.float32)


def loss(logits=LOGITS, indices=INDICES, labels=LABELS, lengths=(7, 5, 4), **attrs):
    return Call(
        "CTCLoss",
        [logits, np.int64(indices), np.int32(labels), np.int32(lengths)],
        attrs,
        rtol=1e-4,
        atol=1e-5,
    )


def decoder(logits=LOGITS, lengths=(7, 5, 0), **attrs):
    return Call("CTCGreedyDecoder", [logits, np.int32(lengths)], attrs)


def pool(x=IMAGES, ksize=(1, 2, 3, 1), strides=(1, 2, 2, 1), padding="SAME", **attrs):
    given = {"ksize": list(ksize), "strides": list(strides), "padding": padding, **attrs}
    return Call("MaxPoolWithArgmax", [x], given)


KERNEL = _random.normal(size=(2, 3, 3)).astype(np.float32)


def dilation(*further, x=IMAGES, name="", strides=(1, 2, 1, 1), rates=(1, 1, 2, 1), padding="SAME"):
    attrs = {"strides": list(strides), "rates": list(rates), "padding": padding}
    return Call(f"Dilation2D{name}", [x, KERNEL.astype(x.dtype), *further], attrs)


SLOPES = _random.normal(size=(2, 3, 6, 3)).astype(np.float32)


def special(name, low):
    x = np.linspace(low, 6, 17)
    return [
        Call(name, [x.astype(dtype)], rtol=2e-4, atol=1e-5) for dtype in (np.float32, np.float64)
    ]


CALLS = [
    loss(),
    loss(LOGITS.astype(np.float64)),
    loss(preprocess_collapse_repeated=True),
    loss(ctc_merge_repeated=False),
    loss(lengths=(2, 5, 4), ignore_longer_outputs_than_inputs=True),
    loss(lengths=(2, 5, 4)),
    loss(lengths=(3, 5, 4)),
    loss(lengths=(8, 5, 4)),
    loss(lengths=(7, 5)),
    loss(labels=[0, 0, 4, 3, 2, 2]),
    loss(labels=[0, 0, -1, 3, 2, 2]),
    loss(labels=[0, 4, 0, 3, 2, 2]),
    loss(LOGITS[0]),
    decoder(),
    decoder(merge_repeated=True),
    decoder(blank_index=1),
    decoder(blank_index=-3),
    decoder(LOGITS.astype(np.float64)),
    decoder(lengths=(7, 5, 9)),
    decoder(lengths=(7, 5)),
    decoder(LOGITS[0]),
    pool(),
    pool(include_batch_in_index=True),
    pool(padding="VALID", Targmax="int32"),
    pool(IMAGES.astype(np.float64), (1, 3, 3, 1), (1, 1, 1, 1)),
    pool(np.zeros_like(IMAGES)),
    dilation(),
    dilation(x=(IMAGES * 9).astype(np.int32), padding="VALID"),
    dilation(x=IMAGES[..., :2]),
    dilation(strides=(2, 1, 1, 1)),
    dilation(SLOPES, name="BackpropInput"),
    dilation(SLOPES, name="BackpropFilter"),
    dilation(SLOPES[:, 1:], name="BackpropFilter"),
    *(
        call
        for name, low in (
            ("BesselJ0", -6), ("BesselJ1", -6), ("BesselY0", 0.1), ("BesselY1", 0.1),
            ("BesselK0", 0.1), ("BesselK0e", 0.1), ("BesselK1", 0.1), ("BesselK1e", 0.1),
            ("Dawsn", -6), ("Expint", 0.1), ("FresnelCos", -6), ("FresnelSin", -6), ("Spence", 0),
        )
        for call in special(name, low)
    ),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tensorflow, call)
