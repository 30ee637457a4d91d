"""Quantised numbers by scales and zero points, beside TensorFlow's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, check_ends_alike

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F = np.float32
RNG = np.random.default_rng(8)
FLOATS = RNG.uniform(-9, 9, (4, 3, 2)).astype(F)
LIMITS = {
    "qint8": {"quantization_min_val": -128, "quantization_max_val": 127},
    "quint8": {"quantization_min_val": 0, "quantization_max_val": 255},
    "qint32": {"quantization_min_val": -(2**31), "quantization_max_val": 2**31 - 1},
}
KINDS = {"qint8": "i1", "quint8": "u1", "qint32": "i4"}
SCALES, ZEROS = F([0.1, 0.25, 3]), np.int32([3, 0, -7])


def quantized(x=FLOATS, scales=0.07, zeros=3, kind="qint8", **attrs):
    inputs = [x, F(scales), np.int32(zeros)]
    return Call("UniformQuantize", inputs, {"Tout": kind, **LIMITS[kind], **attrs})


def dequantized(scales=0.07, zeros=3, kind="qint8", **attrs):
    field = np.dtype([(kind, KINDS[kind])])
    x = RNG.integers(0, 120, (4, 3, 2)).astype(KINDS[kind]).astype(field)
    inputs = [x, F(scales), np.int32(zeros)]
    return Call("UniformDequantize", inputs, {"Tout": "float32", **LIMITS[kind], **attrs})


CALLS = [
    *(make(kind=kind) for make in (quantized, dequantized) for kind in KINDS),
    *(
        make(scales=SCALES, zeros=ZEROS, kind=kind, quantization_axis=1)
        for make in (quantized, dequantized)
        for kind in KINDS
    ),
    quantized(quantization_min_val=-127),
    quantized(quantization_min_val=-20, quantization_max_val=20),
    *(make(scales=-1.0) for make in (quantized, dequantized)),
    *(make(scales=SCALES) for make in (quantized, dequantized)),
    *(make(scales=SCALES, zeros=ZEROS) for make in (quantized, dequantized)),
    *(
        make(scales=SCALES, zeros=ZEROS, quantization_axis=axis)
        for make in (quantized, dequantized)
        for axis in (0, 2, 3, -2)
    ),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)
