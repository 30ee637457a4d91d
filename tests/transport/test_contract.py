"""The contract, on every way to call a service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideflow.transport.registry import DEFAULT_SCHEME, schemes
from transport.contract import Pair, TransportContract, run_pair
from transport.ways import WAYS


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    yield from run_pair(request.param)


class TestEveryWay(TransportContract):
    pass


def test_every_transport_of_the_registry_keeps_the_contract() -> None:
    kept = {getattr(way, "scheme", None) for way in WAYS.values()}
    # The default is another name for one of the others.
    assert set(schemes()) - {DEFAULT_SCHEME} <= kept, "a transport has no row in ways.WAYS"
