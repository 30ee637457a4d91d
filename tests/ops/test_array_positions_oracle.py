"""Coordinates and places in sorted rows, compared with TensorFlow's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, check_ends_alike

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

ROWS = np.array([[1, 3, 3, 9], [2, 2, 2, 2]])
VALUES = np.array([[0, 3, 10], [2, 1, 3]])
DIMS = np.int32([3, 4, 2])

CALLS = [
    *[
        Call("UnravelIndex", [np.asarray(at, kind), DIMS.astype(kind)], id=f"{at}-{kind}")
        for kind in ("int32", "int64")
        for at in (0, 23, [5, 17, 1], [], 24, -1, [3, 99], [[1]])
    ],
    Call("UnravelIndex", [np.int32(0), np.int32([2, 0])]),
    Call("UnravelIndex", [np.int32(0), np.int32([[2]])]),
    *[
        Call(
            op, [ROWS.astype(kind), VALUES.astype(kind)], {"out_type": out}, id=f"{op}-{kind}-{out}"
        )
        for op in ("LowerBound", "UpperBound")
        for kind in ("float32", "float64", "int32", "int64", "uint8", "int8", "int16")
        for out in ("int32", "int64")
    ],
    *[
        Call(op, inputs)
        for op in ("LowerBound", "UpperBound")
        for inputs in (
            [ROWS, VALUES[:1]],
            [ROWS[0], VALUES],
            [ROWS, VALUES[:, :0]],
            [ROWS[:, :0], VALUES],
        )
    ],
    Call("GuaranteeConst", [VALUES]),
    Call("GuaranteeConst", [np.float32(2)]),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_call_ends_alike(call):
    check_ends_alike(tensorflow, call)
