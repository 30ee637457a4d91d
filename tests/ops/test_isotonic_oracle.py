"""The closest falling sequences, and gradients through them, as TensorFlow has them."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, check_ends_alike

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(3)
CALLS = [
    Call("IsotonicRegression", [np.float32([[3, 1, 2, 0], [1, 2, 3, 9]])]),
    Call("IsotonicRegression", [RNG.normal(size=(2, 3, 20))], {"output_dtype": "double"}),
    Call("IsotonicRegression", [RNG.integers(-5, 5, (4, 9))], {"output_dtype": "double"}),
    Call("IsotonicRegression", [RNG.integers(-5, 5, 9, np.int8)], {"output_dtype": "float"}),
    Call("IsotonicRegression", [np.float32(3)], id="scalar"),
    Call("IsotonicRegression", [np.float32([2, 2, 2])], id="equal"),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_sequences_are_those_of_tensorflow(call: Call) -> None:
    check_ends_alike(tensorflow, call)
