"""Eager clients that share a cluster leave one another in peace."""

from __future__ import annotations

import contextlib

import pytest
from eager_scenarios import run_eagerly
from scenarios import CLUSTERS, Process, RunningCluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]


def test_a_client_that_leaves_ends_no_collective_of_another() -> None:
    with contextlib.ExitStack() as stack:

        def closing(made):
            stack.callback(made.close)
            return made

        runtimes = CLUSTERS["tideflow"].runtimes
        shared, another = (closing(RunningCluster(runtimes, None)) for _ in range(2))
        first, second = (closing(Process("eager_client.py", "tideflow")) for _ in range(2))
        # Both use the same keys, and so the same group.
        expected = run_eagerly(first, "two_workers_add", shared.spec)
        assert len(run_eagerly(second, "two_workers_add", shared.spec)) == len(expected)
        # Who joins another cluster leaves the one before.
        run_eagerly(first, "two_workers_add", another.spec)
        found = run_eagerly(second, "two_workers_add", shared.spec)
        for one, other in zip(found, expected, strict=True):
            assert one.tolist() == other.tolist()
