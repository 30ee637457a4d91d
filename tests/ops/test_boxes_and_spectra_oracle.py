"""Windows of images drawn by chance, and spectra of audio, beside TensorFlow's kernels."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.outcomes import Call, check_ends_alike

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F = np.float32
RNG = np.random.default_rng(4)
BOXES = F([[[0.1, 0.2, 0.6, 0.7], [0.5, 0.5, 0.9, 1.0]], [[0, 0, 0.3, 0.2], [0.2, 0.2, 0.2, 0.2]]])
NO_BOXES = np.zeros((1, 0, 4), F)
STATELESS = "StatelessSampleDistortedBoundingBox"
V1, V2 = "SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2"


def sizes(*of, kind=np.int32):
    return np.array(of, kind)


def window(size=(48, 64, 3), covered=0.3, boxes=BOXES, seed=(3, 4), kind=np.int32, **attrs):
    return Call(STATELESS, [sizes(*size, kind=kind), boxes, F(covered), np.array(seed)], attrs)


CALLS = [
    *(window(seed=(seed, seed + 1)) for seed in range(12)),
    *(window(size, seed=(7, 8)) for size in ((480, 640, 3), (9, 200, 1), (300, 7, 1), (0, 5, 3))),
    *(window((40, 50, 3), kind=k) for k in (np.uint8, np.int8, np.int16, np.int64)),
    *(window(covered=c, seed=(c1, 5)) for c in (0, 0.99, 1.5, -1) for c1 in (1, 2)),
    *(
        window(aspect_ratio_range=r)
        for r in ([0.1, 9.0], [2.0, 2.0], [3.0, 1.0], [0.0, 1.0], [1.0])
    ),
    *(window(area_range=r) for r in ([0.9, 1.0], [0.5, 0.1], [0.01, 0.02], [0.5, 1.5], [0.0, 1.0])),
    window(max_attempts=1),
    window(max_attempts=0),
    window(boxes=NO_BOXES),
    window(boxes=NO_BOXES, use_image_if_no_bounding_boxes=True),
    window(boxes=BOXES + 1),
    window(boxes=BOXES[0]),
    window((5, -1, 3)),
    window((5, 5)),
    *(
        Call(V1, [sizes(48, 64, 3, kind=kind), BOXES], {"seed": 5, "seed2": 9})
        for kind in (np.uint8, np.int8, np.int16, np.int32, np.int64)
    ),
    Call(V1, [sizes(48, 64, 3), BOXES], {"seed": 5, "min_object_covered": 0.9}),
    Call(V1, [sizes(48, 64, 3), BOXES], {"seed": 5, "min_object_covered": -0.5}),
    Call(V2, [sizes(48, 64, 3), BOXES, F(0.4)], {"seed": 1, "seed2": 2}),
    Call(V2, [sizes(48, 64, 3), BOXES, F([0.4])], {"seed": 1, "seed2": 2}),
    *(
        Call(
            "AudioSpectrogram",
            [RNG.standard_normal((samples, 2)).astype(F)],
            {"window_size": window_size, "stride": stride, "magnitude_squared": squared},
            rtol=1e-4,
            atol=1e-4,
        )
        for samples in (50, 16, 3, 0)
        for window_size, stride in ((16, 5), (12, 12), (7, 9), (2, 1), (1, 1), (16, 0))
        for squared in (True, False)
    ),
    Call("AudioSpectrogram", [F([1, 2, 3])], {"window_size": 2, "stride": 1}),
    *(
        Call(
            "Mfcc",
            [RNG.random((2, 3, bins)).astype(F) * 9, np.int32(rate)],
            attrs,
            rtol=1e-4,
            atol=1e-4,
        )
        for bins, rate in ((257, 16000), (129, 8000), (65, 44100), (257, 0), (1, 16000))
        for attrs in (
            {},
            {"upper_frequency_limit": 3000.0, "lower_frequency_limit": 100.0},
            {"filterbank_channel_count": 10, "dct_coefficient_count": 10},
            {"filterbank_channel_count": 10, "dct_coefficient_count": 11},
            {"lower_frequency_limit": -1.0},
            {"lower_frequency_limit": 5000.0},
        )
    ),
    Call("Mfcc", [np.zeros((1, 2, 129), F), np.int32(8000)]),
    Call("Mfcc", [np.zeros((2, 129), F), np.int32(8000)]),
    Call("Mfcc", [np.zeros((1, 2, 129), F), np.int32([8000, 1])]),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)


def three_windows(engine):
    """Return what three steps of a session draw, and a session after that."""
    v1 = engine if engine is ours else tf.compat.v1
    with v1.Graph().as_default():
        v1.set_random_seed(2)
        made = v1.image.sample_distorted_bounding_box(
            [90, 70, 3], BOXES, seed=4, seed2=8, min_object_covered=0.2
        )
        found = []
        for count in (3, 1):
            with v1.Session() as session:
                found += [session.run(list(made)) for _ in range(count)]
    return [[x.tolist() for x in one] for one in found]


def test_a_session_draws_the_same_windows_one_after_another() -> None:
    found = three_windows(ours)
    assert found == three_windows(tf)
    assert found[0] != found[1]
    assert found[0] == found[3]
