"""The contract, on every way to call a service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideflow.transport.registry import DEFAULT_SCHEME, schemes
from transport.contract import CallContract, Pair, TransportContract, run_pair
from transport.ways import WAYS

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
