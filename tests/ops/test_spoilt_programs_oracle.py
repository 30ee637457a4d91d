"""Ops that go by handles, in graphs whose inputs are fed spoilt: both must end alike."""

from __future__ import annotations

import pytest

from ops.bad_calls import Ask, program_differences
from ops.spoilt_builds import BUILDS
from ops.spoilt_calls import first_calls
from ops.spoilt_differences import OURS, THEIRS, reason
from ops.spoilt_further_calls import further_calls
from ops.spoilt_programs import programs

pytest.importorskip("tensorflow")

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.parametrize("name", sorted(BUILDS))
def test_spoilt_programs_end_alike(on_tensorflow: Ask, name: str) -> None:
    op = name.split()[0]
    made = [one for one in programs(op, BUILDS[name]) if reason(op, one[0]) is None]
    assert not program_differences(made, on_tensorflow([program for _, program in made]))


def test_known_differences_are_of_ops_that_are_compared() -> None:
    compared = {*BUILDS, *first_calls(), *further_calls()}
    for _, ops, _ in (*THEIRS, *OURS):
        assert set(ops.split()) <= compared
