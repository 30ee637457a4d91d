"""Selections of boxes by class, and the first versions for one class, beside TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, check_ends_alike

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F, I32 = np.float32, np.int32
RNG = np.random.default_rng(5)
CORNERS = np.sort(RNG.uniform(-0.1, 1.1, size=(2, 12, 3, 2, 2)), axis=-2).reshape(2, 12, 3, 4)
BOXES = CORNERS.astype(F)
SCORES = RNG.permutation(72).reshape(2, 12, 3).astype(F) / 72
LIMITS = [I32(4), I32(7), F(0.3), F(0.1)]
ONE = [BOXES[0, :, 0], SCORES[0, :, 0], I32(5)]

CALLS = [
    Call("CombinedNonMaxSuppression", [BOXES, SCORES, *LIMITS]),
    Call("CombinedNonMaxSuppression", [BOXES, SCORES, *LIMITS], fixed=True),
    Call("CombinedNonMaxSuppression", [BOXES[:, :, :1], SCORES, *LIMITS], {"clip_boxes": False}),
    Call(
        "CombinedNonMaxSuppression",
        [BOXES, SCORES, I32(2), I32(9), F(0.3), F(0.5)],
        {"pad_per_class": True},
        fixed=True,
    ),
    Call("CombinedNonMaxSuppression", [BOXES, SCORES, I32(3), I32(99), F(1), F(-1)]),
    Call("CombinedNonMaxSuppression", [BOXES[:, :, :2], SCORES, *LIMITS]),
    Call("CombinedNonMaxSuppression", [BOXES, SCORES, I32(0), *LIMITS[1:]]),
    Call("NonMaxSuppression", ONE),
    Call("NonMaxSuppression", ONE, {"iou_threshold": 0.1}),
    Call("NonMaxSuppressionV2", [*ONE, F(0.2)]),
    Call("NonMaxSuppressionV2", [BOXES[0, :, 0].astype(np.float16),
                                 SCORES[0, :, 0].astype(np.float16), I32(5), F(0.2)]),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)
