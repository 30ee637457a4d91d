"""Ops that go by handles, in graphs whose inputs are fed spoilt: both must end alike."""

from __future__ import annotations

import pytest

from ops.bad_calls import Ask, program_differences
from ops.spoilt_calls import first_calls
from ops.spoilt_dataset_programs import dataset_programs
from ops.spoilt_differences import OURS, THEIRS, reason
from ops.spoilt_programs import programs
from ops.spoilt_state_programs import state_programs

pytest.importorskip("tensorflow")

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore"),
]

BUILDS = state_programs() | dataset_programs()


@pytest.mark.parametrize("op", sorted(BUILDS))
def test_spoilt_programs_end_alike(on_tensorflow: Ask, op: str) -> None:
    made = [one for one in programs(op, BUILDS[op]) if reason(op, one[0]) is None]
    assert not program_differences(made, on_tensorflow([program for _, program in made]))


def test_known_differences_are_of_ops_that_are_compared() -> None:
    compared = {*BUILDS, *first_calls()}
    for _, ops, _ in (*THEIRS, *OURS):
        assert set(ops.split()) <= compared
