"""Consumers that read a job in rounds, and trainers that share its elements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tideflow as tf
from real_time import eventually
from tideflow.data_service.task_elements import RoundRobin, SharedByTrainers
from tideflow.wire import messages as pb

service = tf.data.experimental.service


class Servers:
    """A dispatcher and its workers."""

    def __init__(self) -> None:
        self.dispatcher = service.DispatchServer()
        self.workers: list[Any] = []

    def add_worker(self) -> Any:
        address = self.dispatcher.target.removeprefix("grpc://")
        config = service.WorkerConfig(address, heartbeat_interval_ms=50)
        self.workers.append(service.WorkerServer(config))
        return self.workers[-1]


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers()
    made.add_worker()
    yield made
    for server in (*made.workers, made.dispatcher):
        server.stop()


class Consumers:
    """Two consumers of a job, which step at the same time."""

    def __init__(self, servers: Servers) -> None:
        def walk(index: int) -> Any:
            moved = tf.data.Dataset.range(10**9).repeat()
            return iter(
                moved.apply(
                    service.distribute(
                        "parallel_epochs",
                        servers.dispatcher.target,
                        "rounds",
                        consumer_index=index,
                        num_consumers=2,
                    )
                )
            )

        self._walks = [walk(0), walk(1)]
        self._pool = ThreadPoolExecutor(2)

    def step(self) -> int:
        """Return what the first consumer gets; the other one gets what follows."""
        one, other = (int(x) for x in self._pool.map(next, self._walks))
        assert other == one + 1
        return one

    def stop(self) -> None:
        self._walks.clear()
        # One that waits for the other ends with the servers.
        self._pool.shutdown(wait=False)


@pytest.fixture
def consumers(servers) -> Iterator[Consumers]:
    made = Consumers(servers)
    yield made
    made.stop()


def test_consumers_get_what_follows_on_each_other(consumers):
    assert [consumers.step() for _ in range(5)] == [0, 2, 4, 6, 8]


def test_a_worker_that_comes_later_joins_in_one_round(servers, consumers):
    assert [consumers.step() for _ in range(2)] == [0, 2]
    servers.add_worker()
    # It begins at the first element.
    eventually(lambda: consumers.step() == 0, "an element of the new worker")


def test_a_worker_that_goes_leaves_in_one_round(servers, consumers):
    servers.add_worker()
    eventually(lambda: consumers.step() == 0)
    eventually(lambda: consumers.step() == 0)
    servers.workers.pop().stop()
    last = consumers.step()

    def follows() -> bool:
        nonlocal last
        before, last = last, consumers.step()
        return last == before + 2

    eventually(lambda: all(follows() for _ in range(5)), "steps of one worker alone")


# ---- who gets what, without servers


def made_of(count: int) -> Any:
    """Return what gives the numbers below count as elements."""
    numbers = iter(range(count))

    async def make() -> Any:
        found = next(numbers, None)
        return None if found is None else (np.int64(found),)

    return make


def asks(consumer: int, index: int, **more: Any) -> pb.GetElementRequest:
    return pb.GetElementRequest(consumer_index=consumer, round_index=index, **more)


async def both(elements: RoundRobin, *requests: pb.GetElementRequest) -> list[int]:
    found = await asyncio.gather(*[elements.answer(one) for one in requests])
    return [int(one[0]) for one in found if one is not None]


async def test_a_first_round_that_others_had_elsewhere_is_given_to_the_rest():
    elements = RoundRobin(made_of(10), 2, -1)
    ahead = asyncio.ensure_future(elements.answer(asks(0, 6)))
    assert await both(elements, asks(1, 5)) == [1]
    assert await both(elements, asks(1, 6)) == [3]
    assert await ahead == (2,)


async def test_who_asks_again_for_a_round_that_has_passed_is_refused():
    elements = RoundRobin(made_of(10), 1, -2)
    assert await both(elements, asks(0, 0)) == [0]
    assert await both(elements, asks(0, 0)) == [0], "the answer may have been lost"
    assert await both(elements, asks(0, 1)) == [1]
    with pytest.raises(tf.errors.FailedPreconditionError, match="has already reached 1"):
        await elements.answer(asks(0, 0))


@pytest.mark.parametrize("request_pb", [pb.GetElementRequest(), asks(2, 0)])
async def test_who_is_no_consumer_is_refused(request_pb):
    with pytest.raises(tf.errors.FailedPreconditionError, match="consumer index"):
        await RoundRobin(made_of(10), 2, -1).answer(request_pb)


async def test_all_consumers_hear_of_the_end():
    elements = RoundRobin(made_of(1), 2, -2)
    found = await asyncio.gather(
        *[elements.answer(asks(i, 0)) for i in range(2)], return_exceptions=True
    )
    assert [type(one).__name__ for one in found] == ["FailedPreconditionError"] * 2


def of(trainer: str) -> pb.GetElementRequest:
    return pb.GetElementRequest(trainer_id=trainer)


async def test_trainers_get_the_same_elements_while_they_are_kept():
    shared = SharedByTrainers(made_of(10), limit_bytes=3 * 8)
    assert [await shared.answer(of("a")) for _ in range(2)] == [(0,), (1,)]
    assert [await shared.answer(of("b")) for _ in range(5)] == [(0,), (1,), (2,), (3,), (4,)]
    assert await shared.answer(of("a")) == (2,)
    assert await shared.answer(of("late")) == (2,), "the oldest have gone"


async def test_an_element_larger_than_all_that_may_be_kept_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="larger than cache size"):
        await SharedByTrainers(made_of(3), limit_bytes=4).answer(of("a"))


async def test_a_trainer_needs_a_name():
    with pytest.raises(tf.errors.InvalidArgumentError, match="non-empty trainer ID"):
        await SharedByTrainers(made_of(3)).answer(of(""))
