"""Beam searches find the sequences of labels that TensorFlow's find."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, check_ends_alike

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RANDOM = np.random.default_rng(3)
SMALL = RANDOM.normal(size=(4, 2, 3)).astype(np.float32) * 2
LARGE = RANDOM.normal(size=(12, 3, 6)).astype(np.float32) * 2


def call(inputs=SMALL, lengths=(4, 2), width=3, paths=1, **attrs):
    given = [inputs, np.int32(lengths)]
    attrs = {"beam_width": width, "top_paths": paths, **attrs}
    shape = "x".join(map(str, np.shape(inputs)))
    ident = f"{shape}-{lengths}-{'-'.join(map(str, attrs.values()))}-{np.asarray(inputs).dtype}"
    return Call("CTCBeamSearchDecoder", given, attrs, id=ident)


CALLS = [
    *(
        call(given, lengths, width, paths, merge_repeated=merge)
        for given, lengths in [
            (SMALL, (4, 2)),
            (SMALL.astype(np.float64), (4, 4)),
            (LARGE, (12, 7, 10)),
        ]
        for width, paths in [(1, 1), (3, 1), (4, 3), (100, 2)]
        for merge in (True, False)
    ),
    call(LARGE, (12, 12, 12), 20, 20, merge_repeated=False),
    call(width=2, paths=3),
    call(width=100, paths=40),
    call(lengths=(5, 2)),
    call(lengths=(4,)),
    call(lengths=(0, -1)),
    call(lengths=((4, 2),)),
    call(SMALL[0]),
    call(SMALL[:, :, :1]),
    call(SMALL[:0], (0, 0)),
]


@pytest.mark.parametrize("each", CALLS, ids=str)
def test_a_search_ends_as_on_tensorflow(each: Call) -> None:
    check_ends_alike(tensorflow, each)
