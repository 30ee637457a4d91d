"""Tutorials of the v1 API give what TensorFlow gives, in sessions here and on a cluster."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scenarios import Process, RunningCluster, Unexpected, differences
from v1_tutorials import TUTORIALS

EXPECTED = Path(__file__).parent / "v1_tutorials" / "expected.txt"

pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("v1-tutorials"),
]


def play(process: Process, name: str, target: str = "") -> Any:
    """Return what a tutorial shows in a process of play_tutorials.py.  Raises: Unexpected."""
    done, found = ast.literal_eval(process.ask([name, target]).decode())
    if not done:
        raise Unexpected(found)
    return found


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found: dict[str, Any] = ast.literal_eval(EXPECTED.read_text())
    return found


@pytest.fixture(scope="module")
def player() -> Iterator[Process]:
    process = Process("play_tutorials.py", "tideflow")
    yield process
    process.close()


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    cluster = RunningCluster(("tideflow",) * 3, Process("serve.py", "tideflow"))
    yield cluster.targets["worker:0"]
    cluster.close()


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_gives_what_tensorflow_gives(
    player: Process, expected: dict[str, Any], name: str
) -> None:
    assert not list(differences(expected[name], play(player, name)))


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_gives_the_same_on_a_cluster(
    player: Process, target: str, expected: dict[str, Any], name: str
) -> None:
    assert not list(differences(expected[name], play(player, name, target)))
