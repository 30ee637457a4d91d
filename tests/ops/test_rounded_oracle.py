"""Fake quantisation by channel and versions of quantize-and-dequantize, beside TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from ops.gradients_alike import check_gradients_alike
from ops.outcomes import Call, check_ends_alike

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F, I32 = np.float32, np.int32
RNG = np.random.default_rng(6)
X = RNG.normal(size=(3, 4)).astype(F) * 3
DY = RNG.normal(size=(3, 4)).astype(F)
LOW, HIGH = F([-1, -2, 0, -0.3]), F([1, 3, 0, 2.1])
RANGE = [F(-1.5), F(2)]

CALLS = [
    *(
        Call(op, [*before, X, LOW, HIGH], attrs)
        for attrs in ({}, {"num_bits": 4, "narrow_range": True})
        for op, before in [
            ("FakeQuantWithMinMaxVarsPerChannel", []),
            ("FakeQuantWithMinMaxVarsPerChannelGradient", [DY]),
        ]
    ),
    Call("FakeQuantWithMinMaxVarsPerChannel", [X[0], LOW, HIGH], fixed=True),
    Call("QuantizeAndDequantizeV2", [X, *RANGE]),
    *(
        Call("QuantizeAndDequantizeV2", [X, *RANGE], attrs)
        for attrs in [
            {"range_given": True},
            {"range_given": True, "round_mode": "HALF_UP", "num_bits": 3},
            {"signed_input": False},
            {"narrow_range": True, "range_given": True},
        ]
    ),
    Call("QuantizeAndDequantizeV3", [X, *RANGE, I32(5)]),
    Call("QuantizeAndDequantizeV3", [X, *RANGE, I32(5)], {"range_given": False}),
    Call("QuantizeAndDequantizeV3", [X.astype(np.float64), *map(np.float64, RANGE), I32(8)]),
    Call("QuantizeAndDequantizeV3", [X, LOW, HIGH, I32(8)], {"axis": 1}),
    Call("QuantizeAndDequantizeV4Grad", [DY, X, *RANGE]),
    Call("QuantizeAndDequantizeV4Grad", [DY, X, LOW, HIGH], {"axis": 1}),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)


@pytest.mark.parametrize(
    ("call", "at"),
    [
        (Call("FakeQuantWithMinMaxVarsPerChannel", [X, LOW, HIGH]), (0, 1, 2)),
        (Call("QuantizeAndDequantizeV2", [X, *RANGE], {"range_given": True}), (0, 1, 2)),
        (Call("QuantizeAndDequantizeV3", [X, *RANGE, I32(5)]), (0, 1, 2)),
        (Call("QuantizeAndDequantizeV4", [X, *RANGE], {"range_given": True}), (0, 1, 2)),
    ],
    ids=str,
)
def test_gradients_agree(call: Call, at: tuple[int, ...]) -> None:
    check_gradients_alike(tf, call, at)
