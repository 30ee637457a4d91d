"""What is written down for tutorials is what TensorFlow gives, here and on a cluster of ours."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
from scenarios import Process, differences
from test_v1_tutorials import expected, play, target
from v1_tutorials import TUTORIALS

__all__ = ["expected", "target"]  # fixtures

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.processes,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("interop"),
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="needs a real TensorFlow"
    ),
]


@pytest.fixture(scope="module")
def tensorflow() -> Iterator[Process]:
    process = Process("play_tutorials.py", "tensorflow")
    yield process
    process.close()


@pytest.mark.parametrize("name", TUTORIALS)
def test_tensorflow_gives_what_is_written_down(
    tensorflow: Process, expected: dict[str, Any], name: str
) -> None:
    assert not list(differences(expected[name], play(tensorflow, name)))


@pytest.mark.parametrize("name", TUTORIALS)
def test_tensorflows_client_gives_the_same_on_our_cluster(
    tensorflow: Process, target: str, expected: dict[str, Any], name: str
) -> None:
    assert not list(differences(expected[name], play(tensorflow, name, target)))
