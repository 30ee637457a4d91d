"""The steps of a worker: what stays, what goes, and what a cancellation means."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Iterator

import pytest

from tideflow.cluster.recent_requests import RecentRequests
from tideflow.cluster.rpc_log import RpcLog
from tideflow.cluster.worker import StepTable
from tideflow.wire import errors
from tideflow.wire.status import is_derived


class Owner:
    """Stands for a worker session whose steps need no peers."""

    workers = types.SimpleNamespace(peers=None)


@pytest.fixture
def table() -> Iterator[StepTable]:
    made = StepTable(RpcLog())
    yield made
    made.validate()


async def run(table: StepTable, step_id: int, until: asyncio.Event) -> str:
    record = table.start(step_id, Owner())
    async with table.running(record):
        await until.wait()
    return "ended"


async def begin(table: StepTable, step_id: int = 1) -> tuple[asyncio.Task, asyncio.Event]:
    until = asyncio.Event()
    task = asyncio.ensure_future(run(table, step_id, until))
    await asyncio.sleep(0)
    assert table.running_count == 1
    return task, until


async def test_a_step_that_nobody_started_goes_with_its_last_receiver(table):
    waits = [asyncio.ensure_future(table.receive(1, "key")) for _ in range(2)]
    await asyncio.sleep(0)
    assert len(table) == 1
    for left, wait in ((1, waits[0]), (0, waits[1])):
        wait.cancel()
        await asyncio.wait([wait])
        assert len(table) == left


async def test_a_started_step_stays_until_it_is_cleaned_up(table):
    task, until = await begin(table)
    until.set()
    assert await task == "ended"
    assert (len(table), table.running_count) == (1, 0)
    table.clean_up(1)
    table.clean_up(1)
    assert len(table) == 0


async def test_clean_up_interrupts_what_runs_without_cancelling_its_task(table):
    task, _ = await begin(table)
    table.clean_up(1)
    with pytest.raises(errors.AbortedError) as caught:
        await task
    assert is_derived(caught.value)
    assert task.cancelling() == 0


async def test_clean_up_just_as_the_step_ends_leaves_no_cancellation_behind(table):
    task, until = await begin(table)
    until.set()
    table.clean_up(1)
    with pytest.raises(errors.AbortedError):
        await task
    assert task.cancelling() == 0


async def test_a_cancellation_from_outside_remains_one_and_fails_the_step(table):
    task, _ = await begin(table)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(errors.CancelledError) as caught:
        await table.receive(1, "key")
    assert is_derived(caught.value)


async def test_a_cancellation_from_outside_wins_over_clean_up(table):
    task, _ = await begin(table)
    task.cancel()
    table.clean_up(1)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_first_error_stays(table):
    record = table.start(1, Owner())
    with pytest.raises(errors.DataLossError):
        async with table.running(record):
            raise errors.DataLossError("first")
    record.fail(errors.InternalError("second"))
    with pytest.raises(errors.DataLossError, match="first") as caught:
        await table.receive(1, "key")
    assert is_derived(caught.value)


async def test_one_failure_ends_all_that_runs_in_the_step(table):
    first, _ = await begin(table)
    record = table.start(1, Owner())
    with pytest.raises(errors.DataLossError):
        async with table.running(record):
            raise errors.DataLossError("lost")
    with pytest.raises(errors.DataLossError):
        await first


async def test_steps_that_nobody_cleans_up_are_bounded():
    table = StepTable(RpcLog(), most_ended=3)
    blocked, until = await begin(table, 100)
    for step_id in range(10):
        async with table.running(table.start(step_id, Owner())):
            pass
    assert len(table) == 4
    assert table.find(9) is not None
    assert table.find(6) is None
    until.set()
    assert await blocked == "ended"


def test_requests_are_remembered_for_a_while():
    recent = RecentRequests(2)
    recent.check(0, "Run")
    recent.check(0, "Run")
    for request_id in (1, 2, 3):
        recent.check(request_id, "Run")
    with pytest.raises(errors.AbortedError, match="Run request 2 was seen before"):
        recent.check(2, "Run")
    recent.check(1, "Run")
