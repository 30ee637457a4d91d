"""Every op that has a call of its own beside TensorFlow, with what it is given spoilt in many ways.

Values that are not finite, sizes of zero and one, other ranks, indices out of range, and attrs of
other values: both must end alike, with the same outputs or the same error.
"""

from __future__ import annotations

import pytest

from ops.bad_calls import Ask, differences
from ops.spoilt_calls import FEWER, calls_of_other_kinds, first_calls, kinds_of, spoilt
from ops.spoilt_differences import reason
from ops.spoilt_further_calls import further_calls

pytest.importorskip("tensorflow")

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore"),
]

# NumPy's products of complex numbers that are not finite are NaN in both parts, C++'s are not.
NOT_FINITE = ("last nan", "last inf", "last -inf")

# By op; a second call of an op has more words in its name.
CALLS = first_calls() | further_calls()


@pytest.mark.parametrize("name", sorted(CALLS))
def test_spoilt_calls_end_alike(on_tensorflow: Ask, name: str) -> None:
    call = CALLS[name]
    made = [one for one in spoilt(call) if reason(call.op, one[0]) is None]
    calls = [call for _, call in made]
    assert not differences([what for what, _ in made], calls, on_tensorflow(calls))


OTHERS = calls_of_other_kinds()


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_spoilt_calls_of_other_kinds_end_alike(on_tensorflow: Ask, name: str) -> None:
    call = OTHERS[name]
    made = [one for one in spoilt(call, FEWER) if reason(call.op, one[0]) is None]
    if "c" in kinds_of(call):
        made = [one for one in made if not one[0].endswith(NOT_FINITE)]
    calls = [call for _, call in made]
    assert not differences([what for what, _ in made], calls, on_tensorflow(calls))
