"""Pooling kernels beside TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.ops.framework.constants
import tideflow.ops.nn.pools  # noqa: F401 - registers ops
from ops.harness import Case, check_against_tensorflow, run
from ops.outcomes import Call, check_ends_alike

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(13)


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def attrs(ksize, strides, padding):
    return {"ksize": [1, *ksize, 1], "strides": [1, *strides, 1], "padding": padding}


GEOMETRIES = [
    attrs((2, 2), (2, 2), "SAME"),
    attrs((3, 2), (1, 2), "SAME"),
    attrs((3, 3), (2, 1), "VALID"),
    attrs((2, 2), (3, 3), "VALID"),
    attrs((1, 1), (1, 1), "VALID"),
]


def pools(i, geometry, dtype=np.float32):
    # Few distinct values: ties show who takes the gradient.
    x = RNG.integers(-2, 3, size=(2, 7, 6, 3)).astype(dtype)
    made = [Case("MaxPool", [x], geometry, id=f"max-{i}")]
    y = run(made[0])[0]
    dy = normal(*y.shape, dtype=dtype)
    return [
        *made,
        Case("MaxPoolGrad", [x, y, dy], geometry, id=f"max-grad-{i}"),
        Case("MaxPoolGradGrad", [x, y, normal(*x.shape, dtype=dtype)], geometry, id=f"max-gg-{i}"),
        Case("AvgPool", [x], geometry, id=f"avg-{i}"),
        Case("AvgPoolGrad", [np.array(x.shape, np.int32), dy], geometry, id=f"avg-grad-{i}"),
    ]


EXPLICIT = {**attrs((3, 3), (2, 2), "EXPLICIT"), "explicit_paddings": [0, 0, 1, 0, 0, 2, 0, 0]}

PLACES = {**GEOMETRIES[1], "include_batch_in_index": True}


def placed(geometry=GEOMETRIES[0], dtype=np.float32):
    """Return gradients that go where the greatest elements were."""
    x = RNG.integers(-2, 3, size=(2, 7, 6, 3)).astype(dtype)
    y, at = run(Case("MaxPoolWithArgmax", [x], geometry))
    return Case("MaxPoolGradWithArgmax", [x, normal(*y.shape, dtype=dtype), at], geometry)


CASES = [
    *[case for i, geometry in enumerate(GEOMETRIES) for case in pools(i, geometry)],
    *[c for c in pools("double", GEOMETRIES[0], np.float64) if c.op != "MaxPoolGradGrad"],
    Case("MaxPool", [normal(1, 6, 6, 2)], EXPLICIT, id="max-explicit"),
    Case("AvgPool", [normal(1, 4, 4, 2, dtype=np.float16)], GEOMETRIES[0], id="avg-half"),
    Case("MaxPool", [np.arange(32, dtype=np.int32).reshape(1, 4, 4, 2)], GEOMETRIES[0]),
    *[placed(geometry) for geometry in (*GEOMETRIES, PLACES)],
    *[placed(dtype=dtype) for dtype in (np.float64, np.float16, np.int32, np.uint8)],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_tensorflow(case):
    check_against_tensorflow(case)


X = normal(2, 4, 4, 1)
G = normal(2, 2, 2, 1)
AT = np.arange(8).reshape(2, 2, 2, 1)


@pytest.mark.parametrize(
    ("x", "grad", "at"),
    [
        (X[0], G, AT),
        (X, G[:1], AT),
        (X, G, AT[:1]),
        (X[:1], G, AT),
        (X, G[..., 0], AT),
        (X, G[..., 0], AT[..., 0]),
        (X[:0], G[:0], AT[:0]),
        (X[:0], G, AT),
        (X[:, :0], G, AT),
        (X, G[:, :0], AT[:, :0]),
    ],
    ids=str,
)
@pytest.mark.parametrize("counted_on", [False, True])
def test_gradients_of_places_end_alike(x, grad, at, counted_on):
    attrs = {**GEOMETRIES[0], "include_batch_in_index": counted_on}
    check_ends_alike(tensorflow, Call("MaxPoolGradWithArgmax", [x, grad, at], attrs))
