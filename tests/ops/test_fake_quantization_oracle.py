"""Rounding as if quantized, compared with TensorFlow's kernels on NumPy and on JAX."""

from __future__ import annotations

import numpy as np
import pytest

from ops.harness import Case, check_against_tensorflow
from ops.outcomes import Call, check_ends_alike

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

X = np.float32([[-7.5, -6, -0.02, 0], [0.02, 0.51, 5.99, 8]])
G = np.arange(8, dtype=np.float32).reshape(2, 4)
ATTRS = [{}, {"num_bits": 4}, {"narrow_range": True}, {"num_bits": 16}]
RANGES = [(-6.0, 6.0), (0.1, 2.5), (-3.0, -1.0), (-0.5, 7.0)]

CASES = [
    case
    for attrs in ATTRS
    for low, high in RANGES
    for case in (
        Case("FakeQuantWithMinMaxArgs", [X], {"min": low, "max": high, **attrs}),
        Case("FakeQuantWithMinMaxArgsGradient", [G, X], {"min": low, "max": high, **attrs}),
        Case("FakeQuantWithMinMaxVars", [X, np.float32(low), np.float32(high)], attrs),
        Case("FakeQuantWithMinMaxVarsGradient", [G, X, np.float32(low), np.float32(high)], attrs),
    )
]

WAYS = [
    {},
    {"num_bits": 4},
    {"narrow_range": True},
    {"signed_input": False},
    {"round_mode": "HALF_UP"},
    {"signed_input": False, "round_mode": "HALF_UP", "narrow_range": True, "num_bits": 5},
]


def stepped(x, low, high, **attrs):
    limits = [np.asarray(limit, x.dtype) for limit in (low, high)]
    return Case("QuantizeAndDequantizeV4", [x, *limits], attrs)


CASES += [
    *[
        stepped(X.astype(kind), low, high, range_given=given, **attrs)
        for attrs in WAYS
        for given in (False, True)
        for kind in (np.float32, np.float64)
        for low, high in RANGES
        if given or low == RANGES[0][0]
    ],
    *[
        # A range for each slice cannot be given to TensorFlow, which asks for a vector when the
        # graph is built and for a scalar when it runs.
        stepped(X, -2, 3, axis=axis, **attrs)
        for axis in (0, 1)
        for attrs in WAYS
    ],
    stepped(np.float32([[-3, 1.25], [np.inf, 2]]), -4, 4, range_given=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.op}-{sorted(c.attrs.items())}")
def test_it_rounds_alike(case):
    check_against_tensorflow(case)


def rounded(x=X, low=-1.0, high=1.0, **attrs):
    return Call("QuantizeAndDequantizeV4", [x, np.float32(low), np.float32(high)], attrs)


@pytest.mark.parametrize(
    "call",
    [
        Call("FakeQuantWithMinMaxArgs", [X], {"num_bits": 1}),
        Call("FakeQuantWithMinMaxArgs", [X], {"min": 2.0, "max": 1.0}),
        Call("FakeQuantWithMinMaxVars", [X, np.float32([1]), np.float32(2)]),
        Call("FakeQuantWithMinMaxVars", [X, np.float32(0), np.float32(0)]),
        Call("FakeQuantWithMinMaxVarsGradient", [G, X, np.float32(0), np.float32(0)]),
        Call("FakeQuantWithMinMaxVarsGradient", [G[:1], X, np.float32(0), np.float32(1)]),
        rounded(num_bits=0),
        rounded(num_bits=63),
        rounded(num_bits=1),
        rounded(num_bits=1, signed_input=False),
        rounded(low=2),
        rounded(low=2, range_given=True),
        rounded(low=[-1.0], range_given=True),
        rounded(axis=1, range_given=True),
        rounded(low=[-1.0] * 3, high=[1.0] * 3, axis=1, range_given=True),
        rounded(axis=2),
        rounded(axis=-2),
        rounded(X[:0]),
        rounded(X[:0], range_given=True),
    ],
    ids=str,
)
def test_a_call_ends_alike(call):
    check_ends_alike(tensorflow, call)
