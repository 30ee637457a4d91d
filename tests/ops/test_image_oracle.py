"""Ops on images beside TensorFlow's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tideflow
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
    found += [*resampled(), *cropped()]
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


CURVES = [
    "lanczos1",
    "lanczos3",
    "lanczos5",
    "gaussian",
    "box",
    "triangle",
    "keyscubic",
    "mitchellcubic",
]
BOXES = np.float32([[0.1, 0.2, 0.9, 0.7], [-0.3, 0.5, 1.4, 0.1], [0.5, 0.5, 0.5, 0.5]])
BOX_IMAGES = np.int32([0, 1, 1])
OVERLAPPING = np.float32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [1, 0.9, 0, -0.1], [0, 10, 1, 11]])
SCORES = np.float32([0.9, 0.75, 0.6, 0.95])


def resampled() -> list[Case]:
    found = []
    near = {"rtol": 1e-4, "atol": 1e-5}
    for size in SIZES:
        given, grads = np.int32(size), _random.normal(size=(2, *size, 3)).astype(np.float32)
        found += [Case("ResizeArea", [X, given], {"align_corners": a}, **near) for a in (0, 1)]
        for align, half in WAYS:
            attrs = {"align_corners": align, "half_pixel_centers": half}
            found += [
                Case("ResizeBicubic", [X, given], attrs, **near),
                Case("ResizeBicubicGrad", [grads, X], attrs, **near),
            ]
        for curve in CURVES:
            attrs = {"kernel_type": curve, "antialias": size[0] != 3}
            by = np.float32([size[0] / 5, size[1] / 7 + 0.2])
            moved = np.float32([0.3, -0.7])
            found += [
                Case("ScaleAndTranslate", [X, given, by, moved], attrs, **near),
                Case("ScaleAndTranslateGrad", [grads, X, by, moved], attrs, **near),
            ]
    for dtype in ("uint8", "int64", "float64", "float16"):
        x = (X * 9 + 50).astype(dtype)
        found += [
            Case("ResizeArea", [x, np.int32([4, 9])], rtol=1e-4),
            Case("ResizeBicubic", [x, np.int32([4, 9])], rtol=1e-4),
        ]
    return found


def cropped() -> list[Case]:
    found = []
    for size in ((3, 4), (1, 1), (7, 1)):
        grads = _random.normal(size=(3, *size, 3)).astype(np.float32)
        given = np.int32(size)
        for method in ("bilinear", "nearest"):
            attrs = {"method": method}
            outside = {**attrs, "extrapolation_value": 5.0}
            found += [
                Case("CropAndResize", [X, BOXES, BOX_IMAGES, given], outside, rtol=1e-4),
                Case(
                    "CropAndResizeGradImage",
                    [grads, BOXES, BOX_IMAGES, np.int32(X.shape)],
                    {**attrs, "T": "float32"},
                    rtol=1e-4,
                    atol=1e-5,
                ),
            ]
        found.append(
            Case("CropAndResizeGradBoxes", [grads, X, BOXES, BOX_IMAGES], rtol=1e-3, atol=1e-4)
        )
    limits = [np.float32(0.5), np.float32(0.3)]
    most = np.int32(3)
    found += [
        Case("NonMaxSuppressionV3", [OVERLAPPING, SCORES, most, *limits]),
        Case("NonMaxSuppressionV4", [OVERLAPPING, SCORES, most, *limits]),
        Case(
            "NonMaxSuppressionV4",
            [OVERLAPPING, SCORES, most, *limits],
            {"pad_to_max_output_size": True},
        ),
        Case("NonMaxSuppressionV5", [OVERLAPPING, SCORES, most, *limits, np.float32(0.5)]),
        Case(
            "NonMaxSuppressionV5",
            [OVERLAPPING, SCORES, most, *limits, np.float32(0)],
            {"pad_to_max_output_size": True},
        ),
        Case(
            "NonMaxSuppressionWithOverlaps",
            [np.float32([[1, 0.8], [0.8, 1]]), SCORES[:2], most, *limits],
        ),
    ]
    for padding in ("SAME", "VALID"):
        attrs = {"ksizes": [1, 3, 2, 1], "strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1]}
        found += [
            Case("ExtractImagePatches", [x], {**attrs, "padding": padding})
            for x in (X, COLORS.astype(np.uint8))
        ]
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
    Call("ResizeArea", [X, np.int32([0, 3])]),
    Call("ResizeArea", [X[0], np.int32([3, 3])]),
    Call("ResizeBicubic", [X, np.int32([3, 3])], BOTH),
    Call("ScaleAndTranslate", [X, np.int32([3, 3]), np.float32([1]), np.float32([0, 0])]),
    Call("ScaleAndTranslate", [X, np.int32([3, 3]), np.float32([0, 1]), np.float32([0, 0])]),
    Call(
        "ScaleAndTranslate",
        [X, np.int32([3, 3]), np.float32([1, 1]), np.float32([0, 0])],
        {"kernel_type": "wide"},
    ),
    Call("CropAndResize", [X, BOXES[:, :3], BOX_IMAGES, np.int32([2, 2])]),
    Call("CropAndResize", [X, BOXES, BOX_IMAGES[:2], np.int32([2, 2])]),
    Call("CropAndResize", [X, BOXES, BOX_IMAGES + 1, np.int32([2, 2])]),
    Call("CropAndResize", [X, BOXES, BOX_IMAGES, np.int32([2, 0])]),
    *(
        Call("NonMaxSuppressionV3", [boxes, scores, most, np.float32(t), np.float32(0)])
        for boxes, scores, most, t in (
            (OVERLAPPING[:, :3], SCORES, np.int32(3), 0.5),
            (OVERLAPPING, SCORES[:3], np.int32(3), 0.5),
            (OVERLAPPING, SCORES, np.int32([3]), 0.5),
            (OVERLAPPING, SCORES, np.int32(3), 1.5),
            (OVERLAPPING, SCORES, np.int32(-1), 0.5),
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


@pytest.mark.usefixtures("eager")
def test_gradients_of_crops_and_curves_agree() -> None:
    def gradients(library: Any) -> list[Any]:
        x, boxes = library.constant(X), library.constant(BOXES)
        with library.GradientTape(persistent=True) as tape:
            tape.watch([x, boxes])
            crops = library.image.crop_and_resize(x, boxes, BOX_IMAGES, [3, 4])
            curved = library.image.resize(x, [3, 4], "lanczos3", antialias=True)
            cubic = library.image.resize(x, [8, 4], "bicubic")
            patches = library.image.extract_patches(
                x, [1, 3, 2, 1], [1, 2, 1, 1], [1, 1, 2, 1], "SAME"
            )
            results = [library.reduce_sum(y * y) for y in (crops, curved, cubic, patches)]
        return [
            *tape.gradient(results[0], [x, boxes]),
            *[tape.gradient(y, x) for y in results[1:]],
        ]

    for one, other in zip(gradients(tideflow), gradients(tf), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-3, atol=1e-3)
