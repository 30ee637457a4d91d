"""Our strategies give the losses that TensorFlow's give, also where both kinds train together."""

from __future__ import annotations

import importlib.util

import pytest

from distribute.programs_in_processes import (
    train_alone,
    train_by_coordinator,
    train_on_remote_devices,
    train_on_workers,
)

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.processes,
    pytest.mark.timeout(200),
    pytest.mark.xdist_group("rings"),
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="needs a real TensorFlow"
    ),
]

STEPS = 12


@pytest.fixture(scope="module")
def ours() -> list[float]:
    return train_alone("tideflow", "one", STEPS)


def test_mirrored_training_is_tensorflows(ours: list[float]) -> None:
    assert train_alone("tensorflow", "mirrored", STEPS) == pytest.approx(ours, abs=1e-4)


@pytest.mark.parametrize(
    "kinds",
    [("tensorflow", "tensorflow"), ("tensorflow", "tideflow"), ("tideflow", "tensorflow")],
    ids=" and ".join,
)
def test_workers_of_both_kinds_train_in_step(ours: list[float], kinds: tuple[str, ...]) -> None:
    for losses in train_on_workers(list(kinds), STEPS):
        assert losses == pytest.approx(ours, abs=1e-4)


@pytest.mark.parametrize(
    ("chief", "ps", "workers"),
    [
        ("tensorflow", "tideflow", ("tideflow", "tideflow")),
        ("tideflow", "tensorflow", ("tensorflow", "tensorflow")),
        ("tensorflow", "tideflow", ("tideflow", "tensorflow")),
        ("tideflow", "tensorflow", ("tideflow", "tensorflow")),
    ],
)
def test_coordinators_of_both_kinds_train_on_tasks_of_both(
    ours: list[float], chief: str, ps: str, workers: tuple[str, ...]
) -> None:
    losses = train_by_coordinator(chief, ps, workers, STEPS)
    assert losses == pytest.approx(ours, abs=1e-4)


@pytest.mark.parametrize(
    "workers", [("tensorflow", "tensorflow"), ("tideflow", "tensorflow")], ids=" and ".join
)
def test_training_is_mirrored_on_devices_of_tensorflows_workers(
    ours: list[float], workers: tuple[str, ...]
) -> None:
    assert train_on_remote_devices("tideflow", workers, STEPS) == pytest.approx(ours, abs=1e-4)
