"""The core programs give the same in every tier on every transport (see `ways.py`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from programs import PROGRAMS
from scenarios import differences
from ways import REFERENCE, TIERS, TRANSPORTS, WAYS, Runner, Way

from tideflow.runtime.jit_mode import JitMode

PROGRAMS_OF_OURS = [name for name, one in PROGRAMS.items() if "tideflow" in one.clients]

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def reference() -> Iterator[Runner]:
    made = Runner(REFERENCE)
    yield made
    made.close()


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, id=str(way), marks=pytest.mark.xdist_group(str(way)))
        for way in WAYS
        if way != REFERENCE
    ],
)
def test_all_programs_give_the_same_on_every_way(reference: Runner, way: Way) -> None:
    runner = Runner(way)
    try:
        found = {
            name: list(differences(reference.run(name), runner.run(name)))
            for name in PROGRAMS_OF_OURS
        }
    finally:
        runner.close()
    assert not {name: one for name, one in found.items() if one}


def test_no_tier_is_left_out() -> None:
    assert set(TIERS) == {mode.value for mode in JitMode}
    assert {way.tier for way in WAYS} == set(TIERS)
    assert {way.transport for way in WAYS} == set(TRANSPORTS)
    assert REFERENCE in WAYS
