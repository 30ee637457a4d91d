"""Nothing is lost while tasks are stopped, and starved of processors: seeded runs."""

from __future__ import annotations

import pytest

from chaos.faults import TASKS
from chaos.slow import SHORT, Kind, plan, run_seed

_SEEDS = range(6)


@pytest.mark.processes
@pytest.mark.parametrize("seed", _SEEDS)
def test_training_goes_on_in_its_sessions(seed: int) -> None:
    result = run_seed(seed, SHORT)
    assert not result.problem, "\n".join([result.line(), *result.said])
    assert result.waited


def test_the_seeds_stop_each_task_and_starve_all() -> None:
    spells = [spell for seed in _SEEDS for spell in plan(seed, SHORT)]
    assert {task for spell in spells for task in spell.tasks} == set(TASKS)
    assert {spell.kind for spell in spells} == set(Kind)
