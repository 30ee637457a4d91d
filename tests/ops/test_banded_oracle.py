"""Matrices of few diagonals, and the gradient of a Cholesky factor, beside TensorFlow's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ops.gradients_alike import check_gradients_alike
from ops.outcomes import Call, check_ends_alike

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(4)


def numbers(*shape, dtype=np.float32):
    made = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * RNG.normal(size=shape)
    return made.astype(dtype)


def bands(lower, *stack, dtype=np.float32):
    made = numbers(*stack, 3, 4, dtype=dtype)
    made[..., 0 if lower else 2, :] += 3
    return made


def diagonals(dtype):
    return [numbers(2, 1, 4, dtype=dtype) for _ in range(3)]


FACTOR = np.tril(numbers(2, 3, 3)) + 2 * np.eye(3, dtype=np.float32)
LOOSE = {"rtol": 1e-4, "atol": 1e-4}
CALLS = [
    *(
        Call("TridiagonalMatMul", [*diagonals(kind), numbers(2, 4, 3, dtype=kind)], **LOOSE)
        for kind in (np.float32, np.float64, np.complex64)
    ),
    *(
        Call(
            "BandedTriangularSolve",
            [bands(lower, 2, dtype=kind), numbers(2, 4, 3, dtype=kind)],
            {"lower": lower, "adjoint": adjoint},
            **LOOSE,
        )
        for kind in (np.float32, np.complex128)
        for lower in (True, False)
        for adjoint in (True, False)
    ),
    Call("BandedTriangularSolve", [bands(True), numbers(2, 4, 3)], **LOOSE),
    Call("BandedTriangularSolve", [bands(True)[:1], numbers(4, 1)], **LOOSE),
    Call("CholeskyGrad", [FACTOR, numbers(2, 3, 3)], **LOOSE),
    Call("CholeskyGrad", [FACTOR.astype(np.float64), numbers(2, 3, 3, dtype=np.float64)]),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)


@pytest.mark.parametrize(
    ("call", "at"),
    [
        (Call("TridiagonalMatMul", [*diagonals(np.float64), numbers(2, 4, 3, dtype=np.float64)]),
         (0, 1, 2, 3)),
        *(
            (
                Call(
                    "BandedTriangularSolve",
                    [bands(lower, 2), numbers(2, 4, 3)],
                    {"lower": lower, "adjoint": adjoint},
                ),
                (0, 1),
            )
            for lower in (True, False)
            for adjoint in (True, False)
        ),
        (Call("BandedTriangularSolve", [bands(True), numbers(2, 4, 3)]), (0, 1)),
    ],
    ids=str,
)  # fmt: skip
def test_gradients_agree(call: Call, at: tuple[int, ...]) -> None:
    check_gradients_alike(tf, call, at)
