"""Pools over regions of drawn sizes, and images through projections, beside TensorFlow."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from ops.gradients_alike import check_gradients_alike
from ops.outcomes import Call, check_ends_alike

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F, I32 = np.float32, np.int32
RNG = np.random.default_rng(7)
X = RNG.permutation(2 * 10 * 9 * 2).reshape(2, 10, 9, 2).astype(F)
RATIO = [1.0, 1.44, 1.73, 1.0]


def seeded(seed, **others):
    return {"pooling_ratio": RATIO, "deterministic": True, "seed": seed, "seed2": 3, **others}


# The rows and columns of regions, and what they make of X.
ROWS, COLUMNS = np.array([0, 2, 4, 5, 7, 8, 10]), np.array([0, 2, 3, 5, 7, 9])
PARTS = [[X[:, a:b, c:d] for c, d in pairwise(COLUMNS)] for a, b in pairwise(ROWS)]
Y = np.stack([np.stack([one.max(axis=(1, 2)) for one in row], 1) for row in PARTS], 1)
DY = RNG.normal(size=Y.shape).astype(F)
SHAPE = np.array(X.shape)
EVEN = {"pooling_ratio": [1.0, 2.0, 3.0, 1.0], "deterministic": True, "seed": 1, "seed2": 1}

PICTURE = RNG.integers(0, 99, size=(2, 5, 6, 2)).astype(F)
MOVE = F([[1, 0.1, -1.3, 0.2, 0.9, 1.4, 0.01, -0.02], [1, 0, 2, 0, 1, -3, 0, 0]])
SIZE = I32([6, 7])

CALLS = [
    *(
        Call(op, [X.astype(kind)], seeded(seed, pseudo_random=smooth, overlapping=shared))
        for op in ("FractionalMaxPool", "FractionalAvgPool")
        for seed, smooth, shared, kind in [
            (1, False, False, F),
            (2, True, True, F),
            (5, True, False, np.float64),
            (9, False, True, np.int32),
        ]
    ),
    Call("FractionalMaxPool", [X], EVEN),
    Call("FractionalAvgPool", [X], {**EVEN, "pooling_ratio": [1.0, 1.0, 1.2, 1.0]}),
    *(
        Call("FractionalMaxPool", [X], {"pooling_ratio": ratio})
        for ratio in ([1.0, 2.0, 1.5, 2.0], [1.0, 0.5, 1.5, 1.0], [1.0, 99.0, 1.5, 1.0])
    ),
    Call("FractionalMaxPool", [X], {"pooling_ratio": RATIO, "seed": 4}),
    *(
        call
        for shared in (False, True)
        for call in (
            Call("FractionalAvgPoolGrad", [SHAPE, DY, ROWS, COLUMNS], {"overlapping": shared}),
        )
    ),
    Call("FractionalMaxPoolGrad", [X, Y, DY, ROWS, COLUMNS]),
    Call("FractionalMaxPoolGrad", [X, Y + 1, DY, ROWS, COLUMNS]),
    Call("FractionalMaxPoolGrad", [X, Y, DY, ROWS[:-1], COLUMNS]),
    Call("FractionalAvgPoolGrad", [SHAPE, DY, ROWS[::-1], COLUMNS]),
    *(
        Call(
            "ImageProjectiveTransformV3",
            [PICTURE.astype(kind), MOVE * 2, SIZE, F(7)],
            {"interpolation": how, "fill_mode": fill},
            rtol=1e-4,
            atol=1e-3,
        )
        for how in ("NEAREST", "BILINEAR")
        for fill, kind in [
            ("CONSTANT", F), ("REFLECT", F), ("WRAP", F), ("NEAREST", F), ("CONSTANT", np.uint8),
            ("WRAP", np.float64),
        ]
    ),
    Call("ImageProjectiveTransformV2", [PICTURE, MOVE, SIZE], {"interpolation": "BILINEAR"}),
    Call(
        "ImageProjectiveTransformV2", [PICTURE, MOVE[:1], SIZE], {"interpolation": "NEAREST"},
        fixed=True,
    ),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)


@pytest.mark.parametrize(
    "call",
    [
        Call("FractionalMaxPool", [X], seeded(1, overlapping=True)),
        Call("FractionalAvgPool", [X], seeded(1, overlapping=True)),
        *(
            Call(op, [PICTURE, MOVE, SIZE, *fill], {"interpolation": "BILINEAR"})
            for op, fill in [
                ("ImageProjectiveTransformV2", []), ("ImageProjectiveTransformV3", [F(3)]),
            ]
        ),
    ],
    ids=str,
)  # fmt: skip
def test_gradients_agree(call: Call) -> None:
    check_gradients_alike(tf, call, (0,))
