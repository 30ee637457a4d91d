"""LSTM and GRU cells in one op, and their gradients, beside TensorFlow's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ops.gradients_alike import check_gradients_alike
from ops.outcomes import Call, check_ends_alike

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(8)
TIME, BATCH, INPUTS, UNITS = 4, 2, 3, 2


def numbers(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def weights(dtype=np.float32):
    return [
        numbers(BATCH, UNITS, dtype=dtype),
        numbers(BATCH, UNITS, dtype=dtype),
        numbers(INPUTS + UNITS, 4 * UNITS, dtype=dtype),
        *[numbers(UNITS, dtype=dtype) for _ in range(3)],
        numbers(4 * UNITS, dtype=dtype),
    ]


X, W = numbers(TIME, BATCH, INPUTS), weights()
HALF = [numbers(BATCH, INPUTS, dtype=np.float16), *weights(np.float16)]
LENGTH = np.int64(TIME)
GRU = [
    numbers(BATCH, INPUTS),
    numbers(BATCH, UNITS),
    numbers(INPUTS + UNITS, 2 * UNITS),
    numbers(INPUTS + UNITS, UNITS),
    numbers(2 * UNITS),
    numbers(UNITS),
]
# What a step or sequence made need not fit its inputs for its gradient to be the same.
MADE = [np.abs(numbers(BATCH, UNITS)) for _ in range(8)]
LONG = [np.abs(numbers(TIME, BATCH, UNITS)) for _ in range(9)]
PEEPS = [{"use_peephole": one} for one in (False, True)]

CALLS = [
    *(Call("LSTMBlockCell", [X[0], *W], {**peep, "cell_clip": 0.5}) for peep in PEEPS),
    Call("LSTMBlockCell", HALF, {"forget_bias": 0.0, "cell_clip": -1.0}, atol=1e-2),
    *(Call("LSTMBlockCellGrad", [X[0], *W, *MADE], peep) for peep in PEEPS),
    *(
        Call(op, [LENGTH, X, *W], {**peep, "cell_clip": 0.4})
        for op in ("BlockLSTM", "BlockLSTMV2")
        for peep in PEEPS
    ),
    Call("GRUBlockCell", GRU),
    Call("GRUBlockCellGrad", [*GRU, *MADE[:4]]),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)


@pytest.mark.parametrize("peep", PEEPS, ids=str)
def test_gradients_agree(peep) -> None:
    at = tuple(range(1, 9)) if peep["use_peephole"] else (1, 2, 3, 4, 8)
    outputs = Call("BlockLSTM", [LENGTH, X, *W], peep)
    check_gradients_alike(tf, outputs, at)


# No test mutates these calls: TensorFlow's kernels read beyond the ends of what does not fit.
@pytest.mark.parametrize("op", ["BlockLSTMGrad", "BlockLSTMGradV2"])
@pytest.mark.parametrize("peep", PEEPS, ids=str)
@pytest.mark.parametrize("length", [TIME, 2])
def test_gradients_of_sequences_agree(op: str, peep: dict[str, bool], length: int) -> None:
    check_ends_alike(tf, Call(op, [np.int64(length), X, *W, *LONG], peep))
