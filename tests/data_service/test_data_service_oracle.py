"""Clients of each kind on dispatchers and workers of each kind get the same elements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tideflow as tf
from data_service.datasets import EXPECTED, REFUSED, SAVED, found_by, loaded_by, saved_by
from data_service.helper import Helper, helper
from real_time import eventually

pytest.importorskip("tensorflow")

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.processes,
    pytest.mark.timeout(200),
    pytest.mark.xdist_group("data service"),
]


@pytest.fixture(scope="module")
def theirs() -> Iterator[Helper]:
    with helper("tensorflow") as made:
        yield made


@pytest.fixture(scope="module")
def their_service(theirs) -> str:
    address = theirs.ask("dispatcher")
    for _ in range(2):
        theirs.ask("worker", address)
    return address


def test_what_is_expected_is_what_tensorflow_gives(theirs, their_service):
    assert theirs.ask("client", their_service) == EXPECTED


def test_our_client_gets_it_from_tensorflow_s_servers(their_service):
    assert found_by(tf, f"grpc://{their_service}") == EXPECTED


def test_tensorflow_s_client_gets_it_from_our_servers(theirs):
    with helper("tideflow") as ours:
        address = ours.ask("dispatcher")
        for _ in range(2):
            ours.ask("worker", address)
        assert theirs.ask("client", address) == EXPECTED


def test_workers_of_both_kinds_serve_one_dispatcher(theirs):
    with helper("tideflow") as ours:
        address = ours.ask("dispatcher")
        theirs.ask("worker", address)
        ours.ask("worker", address)
        assert found_by(tf, f"grpc://{address}") == EXPECTED
    theirs_first = theirs.ask("dispatcher")
    with helper("tideflow") as ours:
        ours.ask("worker", theirs_first)
        theirs.ask("worker", theirs_first)
        assert found_by(tf, f"grpc://{theirs_first}") == EXPECTED


# ---- snapshots


def wait_for(folder: Path) -> None:
    """Wait until all snapshots below a directory have ended."""
    for name in SAVED:
        place = folder / name
        eventually(lambda p=place: (p / "DONE").exists() or (p / "ERROR").exists(), name)


def test_our_workers_write_snapshots_of_a_tensorflow_dispatcher(theirs, tmp_path):
    address = theirs.ask("dispatcher", str(tmp_path / "work"))
    with helper("tideflow") as ours:
        ours.ask("worker", address)
        assert theirs.ask("save", address, str(tmp_path)) == REFUSED
        wait_for(tmp_path)
    assert theirs.ask("load", str(tmp_path)) == SAVED
    assert loaded_by(tf, str(tmp_path)) == SAVED


def test_tensorflow_s_workers_write_snapshots_of_our_dispatcher(theirs, tmp_path):
    with helper("tideflow") as ours:
        address = ours.ask("dispatcher", str(tmp_path / "work"))
        theirs.ask("worker", address)
        assert saved_by(tf, address, str(tmp_path)) == REFUSED
        wait_for(tmp_path)
    assert theirs.ask("load", str(tmp_path)) == SAVED
    assert loaded_by(tf, str(tmp_path)) == SAVED
