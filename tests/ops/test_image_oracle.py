"""Ops on images beside TensorFlow's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.harness import Case, check_against_tensorflow
from ops.outcomes import Call, check_ends_alike

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow

_random = np.random.default_rng(9)
X = _random.normal(size=(2, 5, 7, 3)).astype(np.float32)
COLORS = _random.random((2, 5, 7, 3)).astype(np.float32)
COLORS[0, 0, 0] = (0.5, 0.5, 0.5)
COLORS[0, 0, 1] = 0
SIZES = [(10, 14), (3, 4), (5, 7), (1, 1), (8, 3)]
WAYS = [(False, False), (True, False), (False, True)]


def cases() -> list[Case]:
    found = []
    for align, half in WAYS:
        attrs = {"align_corners": align, "half_pixel_centers": half}
        for size in SIZES:
            given = np.int32(size)
            grads = _random.normal(size=(2, *size, 3)).astype(np.float32)
            found += [
                Case("ResizeBilinear", [X, given], attrs, rtol=1e-4, atol=1e-5),
                Case("ResizeBilinearGrad", [grads, X], attrs, rtol=1e-4, atol=1e-5),
                Case("ResizeNearestNeighbor", [X, given], attrs),
                Case("ResizeNearestNeighborGrad", [grads, np.int32([5, 7])], attrs, atol=1e-5),
            ]
        for dtype in ("uint8", "int64", "float64", "float16"):
            found.append(
                Case("ResizeBilinear", [(X * 9 + 50).astype(dtype), np.int32([4, 9])], attrs)
            )
    factor = np.float32(0.7)
    for name, by in (
        ("AdjustContrastv2", factor),
        ("AdjustContrastv2", np.float32(2)),
        ("AdjustHue", np.float32(0.3)),
        ("AdjustHue", np.float32(-0.9)),
        ("AdjustSaturation", factor),
        ("AdjustSaturation", np.float32(3)),
    ):
        found.append(Case(name, [COLORS, by], rtol=1e-4, atol=1e-5))
        found.append(Case(name, [COLORS.astype(np.float16), by], rtol=5e-2, atol=1e-2))
    for dtype in ("float32", "float64"):
        found.append(Case("RGBToHSV", [COLORS.astype(dtype)], rtol=1e-4))
        found.append(Case("HSVToRGB", [COLORS.astype(dtype)], rtol=1e-4))
    return found


@pytest.mark.parametrize("case", cases(), ids=str)
def test_agrees_with_tensorflow(case: Case) -> None:
    check_against_tensorflow(case)


BOTH = {"align_corners": True, "half_pixel_centers": True}
BAD = [
    *(
        call
        for op in ("ResizeBilinear", "ResizeNearestNeighbor")
        for call in (
            Call(op, [X, np.int32([0, 3])]),
            Call(op, [X, np.int32([3])]),
            Call(op, [X[0], np.int32([3, 3])]),
            Call(op, [X[:, :0], np.int32([3, 3])]),
            Call(op, [X, np.int32([3, 3])], BOTH),
        )
    ),
    Call("AdjustHue", [COLORS[..., :2], np.float32(1)]),
    Call("AdjustHue", [COLORS, np.float32([1])]),
    Call("AdjustContrastv2", [COLORS[0, 0], np.float32(1)]),
    Call("AdjustSaturation", [COLORS[0, 0], np.float32(1)]),
    *(
        Call(op, [given])
        for op in ("RGBToHSV", "HSVToRGB")
        for given in (COLORS[..., :2], np.float32(1))
    ),
]


@pytest.mark.parametrize("call", BAD, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)


@pytest.mark.parametrize("name", ["resize_bilinear", "resize_nearest_neighbor"])
def test_gradients_agree(name: str) -> None:
    def gradient(v1: Any) -> Any:
        with v1.Graph().as_default(), v1.Session() as session:
            x = v1.constant(X)
            y = getattr(v1.image, name)(x, [8, 4])
            return session.run(v1.gradients(v1.reduce_sum(y * y), [x])[0])

    np.testing.assert_allclose(gradient(ours), gradient(tf.compat.v1), rtol=1e-4, atol=1e-5)
