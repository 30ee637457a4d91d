"""The timers and waits around what membership decides."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tideflow.cluster.coordination.tasks import CoordinatedTasks
from tideflow.wire import errors
from tideflow.wire import messages as pb


def task_pb(number: int) -> pb.CoordinatedTask:
    return pb.CoordinatedTask(job_name="worker", task_id=number)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def tasks(told: list[str]) -> Iterator[CoordinatedTasks]:
    config = pb.CoordinationServiceConfig(heartbeat_timeout_in_ms=40)
    config.coordinated_job_list.add(name="worker", num_tasks=2)
    made = CoordinatedTasks(config, lambda other, record, error: told.append(record.name))
    yield made
    made.validate()


async def test_a_task_that_says_nothing_is_lost_in_time(tasks, told):
    tasks.register(task_pb(0), 7)
    tasks.register(task_pb(1), 7)
    polling = asyncio.ensure_future(tasks.wait_for_error())
    meeting = asyncio.ensure_future(tasks.barrier("meet", 0, tasks.find(task_pb(0)), ()))
    async with asyncio.timeout(10):
        while not polling.done():
            if tasks.find(task_pb(0)).is_connected:
                tasks.heartbeat(task_pb(0), 7)
            await asyncio.sleep(0.001)
    for one in (polling, meeting):
        with pytest.raises(errors.UnavailableError, match="stopped sending heartbeats"):
            await one
    assert "/job:worker/replica:0/task:1" in told
    tasks.close()


async def test_a_barrier_is_late_though_no_task_is_known(tasks):
    with pytest.raises(errors.DeadlineExceededError, match="has never registered"):
        await tasks.barrier("meet", 0, tasks.find(task_pb(0)), (), timeout_s=0.01)
    tasks.close()


async def test_the_end_of_the_service_ends_all_that_waits(tasks):
    meeting = asyncio.ensure_future(tasks.barrier("meet", 0, tasks.find(task_pb(0)), ()))
    polling = asyncio.ensure_future(tasks.wait_for_error())
    await asyncio.sleep(0)
    tasks.close()
    for one in (meeting, polling):
        with pytest.raises(errors.CancelledError):
            await one
