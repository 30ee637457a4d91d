"""The contract, on every way to call a service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tideflow.transport
from tideflow.platform.settings import Settings
from tideflow.transport.registry import DEFAULT_SCHEME, schemes
from transport.contract import CallContract, Pair, TransportContract, run_pair
from transport.ways import WAYS, AtPort

WHOLE = {name: way for name, way in WAYS.items() if way.ends_with_its_task}
CALLS = {name: way for name, way in WAYS.items() if not way.ends_with_its_task}


class TestEveryWay(TransportContract):
    @pytest.fixture(params=WHOLE.values(), ids=WHOLE)
    def pair(self, request: pytest.FixtureRequest) -> Iterator[Pair]:
        yield from run_pair(request.param)


class TestCallsThatBlock(CallContract):
    @pytest.fixture(params=CALLS.values(), ids=CALLS)
    def pair(self, request: pytest.FixtureRequest) -> Iterator[Pair]:
        yield from run_pair(request.param)


def test_every_transport_of_the_registry_keeps_the_contract() -> None:
    kept = {getattr(way, "scheme", None) for way in WAYS.values()}
    # The default is another name for one of the others.
    assert set(schemes()) - {DEFAULT_SCHEME} <= kept, "a transport has no row in ways.WAYS"


# Each switch of the transports, with its states.
STATES = {
    "TIDEFLOW_GRPC": set(schemes()) - {DEFAULT_SCHEME},
    "TIDEFLOW_SHARED_MEMORY": {"on", "off"},
    "TIDEFLOW_SPIN": {"on", "off"},
}
# Those that say how long something takes change no promise.
DURATIONS = {"TIDEFLOW_SILENCE_S"}
# Those that say who may call change none for who may; test_admission.py and test_identities.py.
OF_CALLERS = {
    "TIDEFLOW_INSECURE",
    "TIDEFLOW_INSECURE_PEERS",
    "TIDEFLOW_LOCAL_USERS",
    "TIDEFLOW_TLS",
    "TIDEFLOW_TOKEN",
    "TIDEFLOW_TOKEN_FILE",
}
DEFAULTS = {"TIDEFLOW_SHARED_MEMORY": "on", "TIDEFLOW_SPIN": "on"}


@pytest.mark.parametrize("switch", STATES)
def test_every_state_of_a_switch_keeps_the_contract(switch: str) -> None:
    kept = set()
    for way in WAYS.values():
        if issubclass(way, AtPort):
            set_up = {"TIDEFLOW_GRPC": way.scheme, **DEFAULTS, **way.environment}
            kept.add(set_up[switch])
    assert kept == STATES[switch], f"a state of {switch} has no row in ways.WAYS"


def test_every_switch_of_the_transports_is_known_here() -> None:
    variables = {one.name: one.variable for one in Settings().described()}
    folder = Path(tideflow.transport.__file__).parent
    text = "".join(file.read_text() for file in folder.rglob("*.py"))
    used = {variables[name] for name in variables if f"settings.{name}" in text}
    assert used == STATES.keys() | DURATIONS | OF_CALLERS
