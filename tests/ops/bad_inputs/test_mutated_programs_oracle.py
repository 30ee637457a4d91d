"""Ops that go by handles, in graphs whose inputs are fed mutated: both must end alike."""

from __future__ import annotations

import pytest

from ops.bad_inputs.comparison import Ask, check_ends_alike
from ops.bad_inputs.known_differences import names_with_differences
from ops.bad_inputs.program_builds import BUILDS
from ops.bad_inputs.programs import programs
from ops.bad_inputs.test_mutated_calls_oracle import CALLS, OTHERS

pytest.importorskip("tensorflow")

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.parametrize("name", sorted(BUILDS))
def test_mutated_programs_end_alike(on_tensorflow: Ask, name: str) -> None:
    check_ends_alike(on_tensorflow, name, programs(name.split()[0], BUILDS[name]))


def test_known_differences_are_of_calls_that_are_made() -> None:
    assert not names_with_differences() - {*CALLS, *OTHERS, *BUILDS}
