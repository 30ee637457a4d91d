"""Calls to mutate, of ops that no other test is parametrized with, and second ones of others.

What differs in kind from the first call of an op: other types, ranks or attrs.
"""

from __future__ import annotations

import numpy as np

from ops.outcomes import Call

F = np.float32
X = np.arange(6, dtype=F).reshape(3, 2)
I32 = np.int32
I64 = np.int64
# What starts a PNG file, and a file of one grey pixel.
_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c6360000000020001e221bc330000000049454e44ae426082"
)
_KEY = np.array([3], np.uint64)
_COUNTER = np.array([1, 2], np.uint64)
_SHAPE = np.array([2, 3], I32)


FURTHER: list[Call] = [
    Call("CheckNumerics", [X], {"message": "here"}),
    Call("CheckNumericsV2", [X], {"message": "here"}),
    Call("CollectiveAssignGroupV2", [np.array([[0, 1], [3, 2]], I32), I32(3), I32(10)]),
    Call("DecodePng", [_PNG], {"channels": 0}),
    Call(
        "FusedBatchNormGrad",
        [*[np.arange(24, dtype=F).reshape(2, 2, 3, 2)] * 2, *[F([2, 3])] * 3],
        {"is_training": False},
    ),
    Call("EnsureShape", [X], {"shape": [None, 2]}),
    Call("AudioSummaryV2", ["tag", np.zeros((2, 3), F), F(8000)], {"max_outputs": 1}),
    Call("PreventGradient", [X]),
    Call(
        "SparseSliceGrad",
        [F([1, 2]), I64([[0, 0], [1, 1], [2, 0]]), I64([1, 0]), I64([[0, 1], [1, 0]])],
    ),
    Call("Print", [X, [X]], {"summarize": 1}),
    Call("PrintV2", ["text"]),
    Call("Snapshot", [X]),
    Call("StopGradient", [X]),
    Call(
        "SparseAddGrad",
        [
            F([1, 2, 3]),
            np.array([[0, 0], [2, 1]]),
            np.array([[0, 0], [1, 1]]),
            np.array([[0, 0], [1, 1], [2, 1]]),
        ],
    ),
    Call("StatelessRandomGetKeyCounter", [np.array([3, 4])]),
    *(
        Call(op, [_SHAPE, _KEY, _COUNTER, I32(1)], {"dtype": "float32"})
        for op in (
            "StatelessRandomNormalV2",
            "StatelessRandomUniformV2",
            "StatelessTruncatedNormalV2",
        )
    ),
    Call("StatelessRandomUniformFullIntV2", [_SHAPE, _KEY, _COUNTER, I32(1)], {"dtype": "int32"}),
    Call("StatelessRandomUniformIntV2", [_SHAPE, _KEY, _COUNTER, I32(1), I32(-5), I32(9)]),
]


def further_calls() -> dict[str, Call]:
    """Return further calls by their op; a second one of an op has a number behind its name."""
    found: dict[str, Call] = {}
    for call in FURTHER:
        count = sum(name.split()[0] == call.op for name in found)
        found[f"{call.op} {count + 1}" if count else call.op] = call
    return found
