"""Work in threads beside the loop: who is cancelled leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tideflow.blocking import Parts, Pool, StopFlag, Stopped, held_place, run_blocking
from tideflow.blocking.pools import HangingPool
from tideflow.wire import errors


class Work:
    """Work that begins, and ends when it is let go."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.may_end = threading.Event()
        self.has_ended = False
        self.flag: StopFlag | None = None

    def __call__(self, flag: StopFlag) -> str:
        self.flag = flag
        self.started.set()
        self.may_end.wait()
        self.has_ended = True
        return "done"


async def started(work: Work) -> None:
    while not work.started.is_set():
        await asyncio.sleep(0)


async def some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_work_gives_and_raises() -> None:
    pool = Pool("test", 1)
    assert await run_blocking(pool, lambda flag: 3) == 3
    with pytest.raises(ZeroDivisionError):
        await run_blocking(pool, lambda flag: 1 // 0)


async def test_who_is_cancelled_stops_the_work_and_waits_for_its_end() -> None:
    work = Work()
    task = asyncio.ensure_future(run_blocking(Pool("test", 1), work))
    await started(work)
    task.cancel()
    await some_turns()
    assert work.flag is not None
    assert work.flag.is_stopped
    assert not task.done()
    task.cancel()  # it does not help
    await some_turns()
    assert not task.done()
    work.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.has_ended


async def test_work_whose_caller_was_cancelled_first_is_never_begun() -> None:
    pool = Pool("test", 1)
    first, second = Work(), Work()
    running = asyncio.ensure_future(run_blocking(pool, first))
    waiting = asyncio.ensure_future(run_blocking(pool, second))
    await started(first)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    first.may_end.set()
    assert await running == "done"
    assert await run_blocking(pool, lambda flag: second.started.is_set()) is False


@pytest.mark.parametrize("size", [1, 3])
async def test_work_that_offers_its_place_waits_for_what_has_none(size: int) -> None:
    pool = Pool("test", size)
    order = [threading.Event() for _ in range(size + 4)]

    def last_first(index: int) -> bool:
        place = held_place()
        assert place is not None
        while index + 1 < len(order) and not order[index + 1].is_set():
            place.offer()
        order[index].set()
        return held_place() is place

    tasks = [run_blocking(pool, lambda _, i=i: last_first(i)) for i in range(len(order))]
    assert all(await asyncio.gather(*tasks))
    assert held_place() is None
    assert await run_blocking(pool, lambda flag: "again") == "again"


async def test_nobody_gives_up_a_place_that_nobody_wants() -> None:
    def work(flag: StopFlag) -> tuple[int, int]:
        before = threading.active_count()
        place = held_place()
        assert place is not None
        while not place.is_over():
            place.offer()
        place.offer()
        return before, threading.active_count()

    before, after = await run_blocking(Pool("test", 1), work)
    assert after <= before


@pytest.mark.parametrize("size", [1, 3])
async def test_work_that_hangs_is_given_up_and_its_thread_does_not_count(size: int) -> None:
    pool = HangingPool("test", size, grace_s=0.0)
    hanging = [Work() for _ in range(size)]
    tasks = [asyncio.ensure_future(run_blocking(pool, work)) for work in hanging]
    for work in hanging:
        await started(work)
    queued = asyncio.ensure_future(run_blocking(pool, lambda flag: "in time"))
    await some_turns()
    assert not queued.done()
    for task in tasks:
        task.cancel()
    for task in tasks:
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await queued == "in time"
    for work in hanging:
        work.may_end.set()
    assert await run_blocking(pool, lambda flag: "again") == "again"


async def test_patient_pools_wait_for_work_that_may_hang() -> None:
    work = Work()
    task = asyncio.ensure_future(run_blocking(HangingPool("test", 1, grace_s=None), work))
    await started(work)
    task.cancel()
    await some_turns()
    assert not task.done()
    work.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_parts_end_with_the_work_that_they_are_of() -> None:
    parts_pool, part = HangingPool("parts", 1, grace_s=0.0), Work()
    never = Work()

    def work(flag: StopFlag) -> None:
        with Parts(parts_pool, flag) as parts:
            parts.start(lambda: never(flag))
            finish = parts.start(lambda: part(flag))
            finish()

    task = asyncio.ensure_future(run_blocking(Pool("test", 1), work))
    await started(never)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # The first hangs and was given up, the second had not started.
    assert await run_blocking(parts_pool, lambda flag: part.started.is_set()) is False
    never.may_end.set()


async def test_parts_that_fail_fail_the_work() -> None:
    pool = HangingPool("parts", 2, grace_s=0.0)

    def fail() -> None:
        raise errors.DataLossError("bad")

    def work(flag: StopFlag) -> int:
        with Parts(pool, flag) as parts:
            good, bad = parts.start(lambda: 1), parts.start(fail)
            return good() + bad()

    with pytest.raises(errors.DataLossError, match="bad"):
        await run_blocking(Pool("test", 1), work)


def test_a_flag_says_stopped_once_it_is_set() -> None:
    flag = StopFlag()
    flag.check()
    flag.stop()
    with pytest.raises(Stopped):
        flag.check()
