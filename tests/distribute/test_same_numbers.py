"""One model, one loss curve, however its training is distributed."""

from __future__ import annotations

import pytest

from cluster.servers import ServerProcess
from distribute.programs_in_processes import (
    SAME_NUMBERS,
    losses_of,
    make_cluster,
    start_program,
    train_alone,
    train_on_remote_devices,
    train_on_workers,
)

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

STEPS = 30


def test_all_ways_of_distribution_give_one_curve() -> None:
    one = train_alone("tideflow", "one", STEPS)
    assert len(one) == STEPS
    assert one[-1] < 0.9 * one[0]
    assert train_alone("tideflow", "mirrored", STEPS) == pytest.approx(one, abs=1e-5)
    for worker in train_on_workers(["tideflow"] * 2, STEPS):
        assert worker == pytest.approx(one, abs=1e-5)
    assert train_on_remote_devices("tideflow", ["tideflow"] * 2, STEPS) == pytest.approx(
        one, abs=1e-5
    )
    cluster = make_cluster(ps=1, worker=2, chief=1)
    places = [("ps", 0), ("worker", 0), ("worker", 1)]
    servers = [ServerProcess(cluster, job, task) for job, task in places]
    try:
        arguments = (str(SAME_NUMBERS), "tideflow", "servers", str(STEPS))
        chief = start_program(*arguments, cluster=cluster, job="chief")
        assert losses_of([chief])[0] == pytest.approx(one, abs=1e-5)
    finally:
        for server in servers:
            server.close()
