"""Runs that a peer asked for on a stream, and joins in another way when the stream has ended."""

from __future__ import annotations

import asyncio

import pytest

from tideflow.cluster.graph_run import GraphResult, GraphRun
from tideflow.cluster.joinable_steps import JoinableSteps
from tideflow.cluster.rpc_log import RpcLog
from tideflow.cluster.worker.peer_server import WorkerHost
from tideflow.cluster.worker.step_table import StepTable
from tideflow.transport import MethodStatistics
from tideflow.wire import errors

STEP = 7


class Kept:
    """A host, and the steps that its runs are kept among."""

    def __init__(self) -> None:
        self.steps = JoinableSteps(100)
        self.table = StepTable(RpcLog())
        self.host = WorkerHost(self.table, _run, self.steps.keep, MethodStatistics())

    def begin(
        self, error: errors.OpError | None = None
    ) -> tuple[asyncio.Event, asyncio.Task[None]]:
        """Begin a run as a stream does; it ends when the event is set."""
        may_end = asyncio.Event()

        async def work() -> None:
            await may_end.wait()
            if error is not None:
                raise error

        task = asyncio.ensure_future(work())
        self.host.run_began(STEP, task)
        task.add_done_callback(lambda done: self.host.run_ended(STEP, done))
        return may_end, task


async def _run(run: GraphRun) -> GraphResult:
    return GraphResult([])


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("has_ended", [False, True], ids=["still running", "ended since"])
async def test_a_request_under_the_number_of_the_step_joins_its_run(has_ended: bool) -> None:
    kept = Kept()
    may_end, _ = kept.begin()
    if has_ended:
        may_end.set()
        await turns()
    assert kept.host.keep_run(STEP)
    joined = kept.steps.joined(STEP, "RunGraph")
    assert joined is not None
    may_end.set()
    assert await joined is None
    # It was answered, and is not run once more: not even where the worker still knows its end.
    assert kept.host.keep_run(STEP)
    with pytest.raises(errors.AbortedError, match="was seen before"):
        kept.steps.joined(STEP, "RunGraph")
    kept.steps.close()


async def test_who_joins_is_given_the_error() -> None:
    kept = Kept()
    may_end, _ = kept.begin(errors.OutOfRangeError("no more"))
    may_end.set()
    await turns()
    assert kept.host.keep_run(STEP)
    joined = kept.steps.joined(STEP, "RunGraph")
    assert joined is not None
    with pytest.raises(errors.OutOfRangeError, match="no more"):
        await joined
    kept.steps.close()


async def test_a_run_that_nobody_asked_for_is_new() -> None:
    kept = Kept()
    assert not kept.host.keep_run(STEP)
    assert kept.steps.joined(STEP, "RunGraph") is None


async def test_a_run_that_nobody_joins_is_cancelled_at_the_end() -> None:
    kept = Kept()
    _, task = kept.begin()
    assert kept.host.keep_run(STEP)
    kept.steps.close()
    await turns()
    assert task.cancelled()


async def test_a_value_of_a_forgotten_step_can_be_asked_for() -> None:
    kept = Kept()
    kept.table.clean_up(STEP)
    assert not kept.table.accept(STEP, "key", 1.0, False)
    kept.host.take_back(STEP, "key", 2.0, False)
    assert (await kept.table.receive(STEP, "key")).value == 2.0
    kept.table.validate()
    kept.table.clean_up(STEP)
    kept.table.validate()
    assert len(kept.table) == 0
