"""The core programs give the same in every tier on every transport (see `ways.py`)."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import PROGRAMS
from scenarios import SOURCE, differences
from ways import REFERENCE, SWITCHES, TIERS, TRANSPORTS, WAYS, Runner, run_on_two_hosts

from tideflow.runtime.jit_mode import JitMode
from tideflow.transport.registry import DEFAULT_SCHEME, schemes
from two_hosts import NotPossible, two_hosts

PROGRAMS_OF_OURS = [name for name, one in PROGRAMS.items() if "tideflow" in one.clients]
# Those that are no way of running anything here: what is kept for the next time, devices that few
# machines have, and how long is waited for others.
OTHER_SWITCHES = {
    "TIDEFLOW_ACCELERATORS",
    "TIDEFLOW_FILE_ROOTS",
    "TIDEFLOW_INSECURE",
    "TIDEFLOW_INSECURE_PEERS",
    "TIDEFLOW_JIT_CACHE",
    "TIDEFLOW_LOCAL_USERS",
    "TIDEFLOW_MEMORY",
    "TIDEFLOW_SILENCE_S",
    "TIDEFLOW_TLS",
    "TIDEFLOW_TOKEN",
    "TIDEFLOW_TOKEN_FILE",
    "TIDEFLOW_WAIT_S",
}

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder for compiled code, the same for all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    return str(base / "executables")


@pytest.fixture(scope="module")
def expected(cache: str) -> Iterator[dict[str, Any]]:
    """What the programs return on the way that the others are compared with."""
    runner = Runner(REFERENCE.transport, cache)
    yield runner.run(REFERENCE, PROGRAMS_OF_OURS)
    runner.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_all_programs_give_the_same_in_every_tier(
    transport: str, expected: dict[str, Any], cache: str
) -> None:
    runner = Runner(transport, cache)
    found = {}
    try:
        for way in WAYS:
            if way.transport == transport and way != REFERENCE:
                returned = runner.run(way, PROGRAMS_OF_OURS)
                found[str(way)] = list(differences(expected, returned))
    finally:
        runner.close()
    assert found
    assert not {way: one for way, one in found.items() if one}


def test_all_programs_give_the_same_between_two_hosts(expected: dict[str, Any]) -> None:
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(two_hosts())
        except NotPossible as error:
            pytest.skip(f"no network namespaces here: {error}")
        returned = run_on_two_hosts(hosts, PROGRAMS_OF_OURS)
    assert not list(differences(expected, returned))


def test_no_tier_and_no_transport_is_left_out() -> None:
    assert set(TIERS) == {mode.value for mode in JitMode}
    # The default is another name for one of the others.
    assert set(SWITCHES["TIDEFLOW_GRPC"]) == set(schemes()) - {DEFAULT_SCHEME}
    assert {(way.tier, way.transport) for way in WAYS} == {
        (tier, transport) for tier in TIERS for transport in TRANSPORTS
    }


@pytest.mark.parametrize("switch", SWITCHES)
def test_each_state_of_a_switch_has_its_way(switch: str) -> None:
    assert {way.environment[switch] for way in WAYS} == set(SWITCHES[switch])


def test_each_switch_of_the_source_is_known_here() -> None:
    found = set()
    for file in Path(SOURCE).rglob("*.py"):
        found.update(re.findall(r"\bTIDEFLOW_[A-Z_]*[A-Z]\b", file.read_text()))
    assert found - OTHER_SWITCHES == SWITCHES.keys(), (
        "name a new switch in ways.SWITCHES, and let a transport of ways.TRANSPORTS set it; or, if"
        " it is no way of running anything, in OTHER_SWITCHES"
    )
