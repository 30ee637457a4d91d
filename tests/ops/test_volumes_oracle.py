"""Ops on volumes beside TensorFlow's kernels."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tideflow.v1 as ours
from ops.harness import Case, check_against_tensorflow, run

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow

_random = np.random.default_rng(5)


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return _random.normal(size=shape).astype(dtype)


def sizes(*values: int) -> Any:
    return np.int32(values)


X = numbers(2, 4, 5, 6, 3)
W = numbers(2, 3, 2, 3, 4)
SAME = {"strides": [1, 2, 1, 2, 1], "padding": "SAME"}
VALID = {"strides": [1, 1, 2, 1, 1], "padding": "VALID"}
POOL = {"ksize": [1, 2, 3, 2, 1], "strides": [1, 2, 1, 2, 1], "padding": "SAME"}
TIGHT = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 1, 2, 1, 1], "padding": "VALID"}


def output_of(case: Case) -> Any:
    return run(case)[0]


def cases() -> list[Case]:
    found = []
    loose = {"rtol": 1e-4, "atol": 1e-4}
    for attrs in (SAME, VALID):
        forward = Case("Conv3D", [X, W], attrs, **loose)
        dy = numbers(*output_of(forward).shape)
        found += [
            forward,
            Case("Conv3DBackpropInputV2", [sizes(*X.shape), W, dy], attrs, **loose),
            Case("Conv3DBackpropFilterV2", [X, sizes(*W.shape), dy], attrs, **loose),
        ]
    for attrs in (POOL, TIGHT):
        for op in ("MaxPool3D", "AvgPool3D"):
            found.append(Case(op, [X], attrs))
        y = output_of(Case("MaxPool3D", [X], attrs))
        dy = numbers(*y.shape)
        found += [
            Case("MaxPool3DGrad", [X, y, dy], attrs),
            Case("MaxPool3DGradGrad", [X, y, numbers(*X.shape)], attrs),
            Case("AvgPool3DGrad", [sizes(*X.shape), dy], attrs),
        ]
    # Each of several greatest elements takes the gradient.
    flat = np.ones_like(X)
    y = output_of(Case("MaxPool3D", [flat], POOL))
    found.append(Case("MaxPool3DGrad", [flat, y, numbers(*y.shape)], POOL))
    for dtype in (np.float64, np.float16, ml_dtypes.bfloat16):
        found.append(Case("Conv3D", [X.astype(dtype), W.astype(dtype)], SAME, rtol=0.1, atol=0.1))
    return found


@pytest.mark.parametrize("case", cases(), ids=str)
def test_agrees_with_tensorflow(case: Case) -> None:
    check_against_tensorflow(case)


@pytest.mark.parametrize(
    ("op", "attrs"), [("conv3d", VALID), ("max_pool3d", POOL), ("avg_pool3d", TIGHT)]
)
def test_second_gradients_agree(op: str, attrs: dict[str, Any]) -> None:
    def gradients(v1: Any) -> list[Any]:
        with v1.Graph().as_default():
            x = v1.constant(X.astype(np.float32))
            given = [x, v1.constant(W)] if op == "conv3d" else [x]
            y = getattr(v1.nn, op)(*given, **attrs)
            first = v1.gradients(v1.reduce_sum(y * y), given)
            second = v1.gradients([v1.reduce_sum(one * one) for one in first], given)
            with v1.Session() as session:
                return list(session.run([*first, *second]))

    for mine, theirs in zip(gradients(ours), gradients(tf.compat.v1), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())
