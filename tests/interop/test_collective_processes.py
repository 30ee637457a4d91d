"""Collectives between tideflow workers in processes of their own, and what becomes of them when one
dies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ring_member import make_input
from rings import Ring, summary

from real_time import within

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

ADD: dict[str, Any] = {"merge_op": "Add", "final_op": "Id"}


@pytest.mark.parametrize("tasks", [2, 4])
def test_processes_of_one_host_add_tensors_of_any_size(tasks: int) -> None:
    with Ring(["tideflow"] * tasks) as ring:
        for key, count in ((100, 1), (101, 1024), (102, 1 << 20), (103, (1 << 22) + 1)):
            inputs = [make_input(rank, count, "float32") for rank in range(tasks)]
            expected = summary(np.sum(inputs, axis=0, dtype="float32"))
            found = ring.run("CollectiveReduceV2", count, instance_key=key, **ADD)
            assert found == [expected] * tasks


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.real_time
def test_a_member_that_is_killed_ends_the_call_of_the_others_who_then_go_on(victim: int) -> None:
    with Ring(["tideflow"] * 3) as ring:
        expected = ring.run("CollectiveReduceV2", 40, instance_key=100, **ADD)
        survivors = [member for task, member in enumerate(ring.members) if task != victim]
        for member in survivors:
            member.ask([["CollectiveReduceV2", 40, "float32", {"instance_key": 100, **ADD}]])
        ring.members[victim].close()
        with within(4):
            answers = [member.answer() for member in survivors]
        for code, text in answers:
            assert code in ("UnavailableError", "AbortedError")
            assert f"/task:{victim}" in text or "127.0.0.1" in text
        # A restarted job has its members again; the leader may be the one that is new.
        restarted = ring.start("tideflow", victim)
        ring.members[victim] = restarted
        restarted.wait_ready()
        assert ring.run("CollectiveReduceV2", 40, instance_key=300, **ADD) == expected
