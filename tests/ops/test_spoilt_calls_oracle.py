"""Every op that has a call of its own beside TensorFlow, with what it is given spoilt in many ways.

Values that are not finite, sizes of zero and one, other ranks, indices out of range, and attrs of
other values: both must end alike, with the same outputs or the same error.
"""

from __future__ import annotations

import pytest

from ops.bad_calls import Ask, differences
from ops.spoilt_calls import first_calls, spoilt
from ops.spoilt_differences import reason

pytest.importorskip("tensorflow")

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore"),
]

FIRST = first_calls()


@pytest.mark.parametrize("op", sorted(FIRST))
def test_spoilt_calls_end_alike(on_tensorflow: Ask, op: str) -> None:
    made = [(what, call) for what, call in spoilt(FIRST[op]) if reason(op, what) is None]
    calls = [call for _, call in made]
    assert not differences([what for what, _ in made], calls, on_tensorflow(calls))
