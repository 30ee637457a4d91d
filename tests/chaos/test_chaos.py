"""Training goes on while tasks are killed and stopped and their connections cut: seeded runs."""

from __future__ import annotations

import pytest

from chaos.faults import TASKS, Kind, plan
from chaos.run import STEPS, TARGET_LOSS, recovery_table, run_seed

_SEEDS = range(20)


@pytest.mark.processes
@pytest.mark.parametrize("seed", _SEEDS)
def test_training_goes_on(seed: int) -> None:
    result = run_seed(seed)
    print(result.line())
    print(recovery_table([result]))
    assert not result.problem, result.line()
    assert result.loss < TARGET_LOSS
    assert [one.fault for one in result.recoveries] == plan(seed, STEPS)


def test_the_seeds_try_each_fault_at_each_task() -> None:
    tried = {(fault.kind, task) for s in _SEEDS for fault in plan(s, STEPS) for task in fault.tasks}
    brief = [Kind.KILL, Kind.STOP, Kind.CUT, Kind.SILENCE]
    assert tried >= {(kind, task) for kind in brief for task in TASKS}
    assert {kind for kind, _ in tried} == set(Kind)


def test_a_seed_says_all() -> None:
    assert [plan(7, STEPS), plan(8, STEPS)] == [plan(7, STEPS), plan(8, STEPS)]
    assert plan(7, STEPS) != plan(19, STEPS)
