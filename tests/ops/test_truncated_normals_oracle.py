"""Normal values between bounds: those that TensorFlow draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from ops.outcomes import Call, check_ends_alike
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

SEED = np.array([1, 2])
SEEDS = {"seed": 3, "seed2": 7}
FLOATS = [np.float16, np.float32, np.float64]
STATELESS = "StatelessParameterizedTruncatedNormal"
STATEFUL = "ParameterizedTruncatedNormal"
INFINITE = float("inf")

# By how candidates are drawn: evenly, normally, from an exponential distribution; each both ways.
BOUNDS = [
    (0.0, 1.0, -0.1, 0.2),
    (0.0, 1.0, 0.5, 0.9),
    (1.0, 2.0, -0.9, 0.5),
    (0.0, 1.0, -2.0, 2.0),
    (5.0, 3.0, -20.0, 6.0),
    (5.0, 3.0, 4.0, 60.0),
    (0.0, 1.0, 3.0, 5.0),
    (0.0, 1.0, -5.0, -3.0),
    (0.0, 1.0, 1.0, INFINITE),
    (0.0, 1.0, -INFINITE, -1.0),
    (0.0, 1.0, -INFINITE, 0.5),
    (7.0, 0.5, 8.5, 8.75),
]


def given(numbers: object, dtype: type = np.float32) -> list[np.ndarray]:
    return [np.array(number, dtype) for number in numbers]  # type: ignore[attr-defined]


def vectors(numbers: object, dtype: type = np.float32) -> list[np.ndarray]:
    return [value.reshape(-1) for value in given(numbers, dtype)]


EACH = [np.float32(column) for column in zip(*BOUNDS)]
TABLE = [np.float32([[0.0], [4.0]]), np.float32([1.0, 2.0, 3.0]), np.float32(-1), np.float32(9)]

CALLS = [
    *[
        Call(STATELESS, [[50], SEED, *given(bounds, t)], rtol=1e-3 if t is np.float16 else 1e-5)
        for bounds in BOUNDS
        for t in FLOATS
    ],
    Call(STATELESS, [[30, len(BOUNDS)], SEED, *EACH], id="each"),
    Call(STATELESS, [[5, 2, 3], SEED, *TABLE], id="table"),
    Call(STATELESS, [np.zeros(0, np.int32), SEED, *given(BOUNDS[0])], id="scalar"),
    Call(STATELESS, [[0], SEED, *given(BOUNDS[0])], id="none"),
    Call(STATELESS, [[-2], SEED, *given(BOUNDS[0])], id="negative"),
    Call(STATELESS, [[5, 4], SEED, *TABLE], id="other-shape"),
    Call(STATELESS, [[3], SEED, *given(([1, 2], [1, 2, 3], 0, 1))], id="parameters"),
    Call(STATELESS, [[3], SEED[:1], *given(BOUNDS[0])], id="seed"),
    *[
        Call(STATELESS, [[3], SEED, *given(wrong)], id=f"wrong-{i}")
        for i, wrong in enumerate(
            [
                (0, 1, 2, -2),
                (0, 0, -2, 2),
                (0, -1, -2, 2),
                (0, 1, 1, 1),
                (0, 1, -INFINITE, INFINITE),
                (float("nan"), 1, -2, 2),
            ]
        )
    ],
    *[
        Call(
            STATEFUL, [[7, 5], *as_given(bounds, t)], SEEDS, rtol=1e-3 if t is np.float16 else 1e-5
        )
        for bounds in BOUNDS
        for t in FLOATS
        for as_given in (given, vectors)
    ],
    Call(STATEFUL, [[len(BOUNDS), 6], *EACH], SEEDS, id="rows"),
    Call(STATEFUL, [[250], *given(BOUNDS[0])], SEEDS, id="batches"),
    Call(STATEFUL, [[2, 3], *vectors(([0, 4], 1, -2, 9))], SEEDS, id="some"),
    *[
        Call(
            STATEFUL,
            [[5, 2], *[v.reshape([-1] * k) for v, k in zip(given(BOUNDS[3]), which)]],
            SEEDS,
        )
        for which in itertools.product([0, 1], repeat=4)
    ],
    Call(STATEFUL, [[0, 3], *given(BOUNDS[0])], SEEDS, id="no-rows"),
    Call(STATEFUL, [[3, 0], *given(BOUNDS[0])], SEEDS, id="no-columns"),
    Call(STATEFUL, [np.zeros(0, np.int32), *given(BOUNDS[0])], SEEDS, id="no-shape"),
    Call(STATEFUL, [[2, -3], *given(BOUNDS[0])], SEEDS, id="negative-columns"),
    Call(STATEFUL, [[2, 3], *vectors(([0, 4, 5], 1, -2, 9))], SEEDS, id="too-many"),
    Call(STATEFUL, [[2, 3], *given(([[0, 4]], 1, -2, 9))], SEEDS, id="matrix"),
    Call(STATEFUL, [[2, 3], *given((0, 1, 2, -2))], SEEDS, id="wrong-bounds"),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_draws_are_tensorflows(call: Call) -> None:
    check_ends_alike(tensorflow, call)


def test_draws_go_on() -> None:
    """Each run takes so many numbers of the sequence as TensorFlow reserves."""

    def build() -> list[Run]:
        drawn = [
            apply_op(STATEFUL, [9, 4], *as_given(BOUNDS[3]), **SEEDS)
            for as_given in (given, vectors)
        ]
        return [Run(drawn)] * 3

    found = check_both_run(build, [STATEFUL])
    assert (found[0][0] != found[1][0]).any()


def test_the_function_is_tensorflows() -> None:
    def build() -> list[Run]:
        draw = tf.random.stateless_parameterized_truncated_normal
        return [Run([draw([9], SEED), draw([4, 3], SEED, [0.0, 1.0, 2.0], maxvals=3.0)])]

    check_both_run(build, [STATELESS])
