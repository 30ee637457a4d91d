"""Peers in processes of their own, and what happens when one is killed."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from cluster.driver import Driver, until_in_flight
from cluster.servers import make_spec
from cluster.test_peer import PS, WORKER, until_pushing
from cluster.test_worker import across_graph, call
from real_time import within
from tideflow.compile.prune import Signature
from tideflow.graph.graph import Graph
from tideflow.ops.framework.constants import placeholder
from tideflow.wire import errors

ACROSS = Signature(("x:0",), ("y:0",))


@pytest.fixture
def peers(monkeypatch, start_process):
    monkeypatch.setenv("TIDEFLOW_PEER", "on")
    spec = make_spec({"ps": 1, "worker": 1})
    processes = {PS: start_process(spec, "ps"), WORKER: start_process(spec, "worker")}
    return processes, {WORKER: spec["worker"][0], PS: spec["ps"][0]}


def waiting_graph() -> Graph:
    """The worker waits for what the ps takes from a queue that stays empty."""
    graph = Graph()
    with graph.as_default():
        x = placeholder(np.float32, [], name="x")
        with graph.device("/job:ps"):
            queue = call(
                "FIFOQueueV2", component_types=[np.float32], shared_name="never", name="queue"
            ).outputs[0]
            taken = call(
                "QueueDequeueV2", queue, component_types=[np.float32], name="taken"
            ).outputs[0]
        with graph.device("/job:worker"):
            call("AddV2", taken, x, name="y")
    return graph


@pytest.mark.real_time
async def test_a_killed_producer_fails_the_waiting_step_within_a_second(peers):
    processes, addresses = peers
    async with Driver(addresses) as driver:
        await until_pushing(driver, await driver.register(across_graph(), ACROSS))
        registered = await driver.register(waiting_graph(), ACROSS)
        waiting = asyncio.ensure_future(
            registered.start(WORKER, 7, {"x:0": np.float32(1)}, ["y:0"])
        )
        await until_in_flight(driver, WORKER, "RunGraph", 1)
        processes[PS].kill()
        with within(3), pytest.raises(errors.UnavailableError, match="/job:ps"):
            await waiting


async def test_a_killed_consumer_leaves_its_producer_usable(peers, start_process):
    processes, addresses = peers
    async with Driver(addresses) as driver:
        await until_pushing(driver, await driver.register(across_graph(), ACROSS))
        processes[WORKER].kill()
    spec = {"ps": [addresses[PS]], "worker": [addresses[WORKER]]}
    await asyncio.to_thread(start_process, spec, "worker")
    async with Driver(addresses, handle="after") as driver:
        registered = await driver.register(across_graph(), ACROSS)
        for x in range(10):
            assert await registered.run({"x:0": np.float32(x)}) == [2 * x + 1]
        await until_pushing(driver, registered)
