"""Convolution kernels beside TensorFlow's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tideflow.ops.framework.constants
import tideflow.ops.nn.convolutions
import tideflow.ops.nn.depthwise  # noqa: F401 - registers ops
from ops.harness import Case, check_against_tensorflow

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(11)


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def geometry(stride=(1, 1), padding="SAME", dilation=(1, 1), explicit=()):
    return {
        "strides": [1, *stride, 1],
        "padding": padding,
        "dilations": [1, *dilation, 1],
        "explicit_paddings": list(explicit),
    }


GEOMETRIES = [
    (geometry(), (3, 3)),
    (geometry((2, 2)), (3, 2)),
    (geometry((2, 1), "VALID"), (2, 3)),
    (geometry((1, 1), "SAME", (2, 1)), (3, 3)),
    (geometry((1, 1), "VALID", (2, 2)), (2, 2)),
    (geometry((2, 2), "EXPLICIT", (1, 1), (0, 0, 1, 2, 0, 1, 0, 0)), (3, 3)),
    (geometry((3, 3), "SAME"), (1, 1)),
    (geometry((3, 3), "VALID"), (2, 2)),
]


def triple(prefix, attrs, kernel, depth, out, channels, tag, dtype=np.float32):
    """Return cases of a convolution and of both its transposes."""
    x = normal(2, 7, 6, channels, dtype=dtype)
    w = normal(*kernel, depth, out, dtype=dtype)
    forward = Case(prefix, [x, w], attrs, id=f"{prefix}-{tag}", atol=1e-4)
    from ops.harness import run  # noqa: PLC0415 - only the shape of the result is wanted

    dy = normal(*run(forward)[0].shape, dtype=dtype)
    shape = np.array(x.shape, np.int32)
    return [
        forward,
        Case(f"{prefix}BackpropInput", [shape, w, dy], attrs, id=f"{prefix}-dx-{tag}", atol=1e-4),
        Case(
            f"{prefix}BackpropFilter",
            [x, np.array(w.shape, np.int32), dy],
            attrs,
            id=f"{prefix}-dw-{tag}",
            atol=1e-4,
        ),
    ]


def depthwise_ok(attrs):
    """TensorFlow's depthwise kernel on CPU wants equal strides and no dilations."""
    return attrs["strides"][1] == attrs["strides"][2] and attrs["dilations"] == [1, 1, 1, 1]


CASES = [
    *[
        case
        for i, (attrs, kernel) in enumerate(GEOMETRIES)
        for case in triple("Conv2D", attrs, kernel, 3, 4, 3, i)
    ],
    # Gradients of filters of so many channels are oneDNN's in compiled code.
    *[case for i in (0, 1, 4) for case in triple("Conv2D", *GEOMETRIES[i], 5, 6, 5, f"deep-{i}")],
    *triple(
        "Conv2D",
        geometry((1, 1), "EXPLICIT", (1, 1), (0, 0, 3, 4, 5, 1, 0, 0)),
        (2, 3),
        5,
        6,
        5,
        "paddings beyond the filter",
    ),
    *triple("Conv2D", geometry(), (3, 3), 2, 4, 2, "double", np.float64),
    *[
        case
        for i, (attrs, kernel) in enumerate(GEOMETRIES)
        if depthwise_ok(attrs)
        for case in triple("DepthwiseConv2dNative", attrs, kernel, 3, 2, 3, i)
    ],
    Case("Conv2D", [normal(2, 5, 5, 4), normal(3, 3, 2, 6)], geometry(), id="grouped", atol=1e-4),
    Case(
        "Conv2D",
        [normal(1, 5, 5, 2, dtype=np.float16), normal(3, 3, 2, 4, dtype=np.float16)],
        geometry(),
        id="half",
        atol=5e-2,
    ),
    Case(
        "Conv2D",
        [
            normal(1, 5, 5, 2, dtype=ml_dtypes.bfloat16),
            normal(3, 3, 2, 4, dtype=ml_dtypes.bfloat16),
        ],
        geometry(),
        id="bfloat16",
        rtol=5e-2,
        atol=1e-1,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_tensorflow(case):
    check_against_tensorflow(case)
