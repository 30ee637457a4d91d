"""Training with strategies goes on when a worker is killed: seeded runs."""

from __future__ import annotations

import numpy as np
import pytest

from chaos.strategies import (
    COORDINATED_STEPS,
    STEPS,
    TARGET_LOSS,
    expected_losses,
    run_coordinated,
    run_in_step,
    run_without_ps,
)

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

_SEEDS = range(10)
# `make chaos` holds to less; here a busy machine may take its time.
_TOLD_WITHIN_S = 10.0


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_coordinator_takes_up_a_worker_that_was_killed(seed: int) -> None:
    end = run_coordinated(seed)
    assert end["scheduled"] >= COORDINATED_STEPS
    assert end["applied"] >= end["scheduled"]
    assert end["loss"] < TARGET_LOSS


@pytest.mark.real_time
def test_a_coordinator_is_told_of_a_lost_parameter_server() -> None:
    told = run_without_ps()
    assert told["failed"] in ("UnavailableError", "AbortedError")
    assert "/job:ps" in told["text"]
    assert told["told_s"] < _TOLD_WITHIN_S


@pytest.mark.real_time
def test_a_worker_in_step_is_told_of_a_lost_one() -> None:
    assert run_in_step(seed=0)["told_s"] < _TOLD_WITHIN_S


@pytest.mark.parametrize("seed", _SEEDS)
def test_workers_in_step_end_as_without_faults(seed: int) -> None:
    end = run_in_step(seed)
    assert end["applied"] == STEPS
    found = [end["losses"][step] for step in range(STEPS)]
    np.testing.assert_allclose(found, expected_losses(), atol=1e-5)
    assert found[-1] < TARGET_LOSS
