"""The bounds of what is pushed, on both sides."""

from __future__ import annotations

import asyncio
import types

import numpy as np

from tideflow.cluster import peer_link
from tideflow.cluster.peer_link import Outbox, PeerLinks, ProducerLink
from tideflow.cluster.peer_service import PeerService
from tideflow.cluster.rpc_log import RpcLog
from tideflow.cluster.step_table import StepTable
from tideflow.runtime.rendezvous import Rendezvous
from tideflow.wire import errors
from tideflow.wire import messages as pb


class Consumer(PeerService):
    """Holds its answers until it may go on; then it answers with what it was given."""

    def __init__(self, error: errors.OpError | None = None, pushes: bool = True) -> None:
        self.may_go_on = asyncio.Event()
        self.received: list[pb.PushedTensor] = []
        self.error = error
        self.pushes = pushes
        self.refused: list[int] = []

    async def Hello(self, request: pb.HelloRequest) -> pb.HelloResponse:
        return pb.HelloResponse(pushes=self.pushes)

    async def PushTensors(self, request: pb.PushTensorsRequest) -> pb.PushTensorsResponse:
        self.received.extend(request.tensor)
        await self.may_go_on.wait()
        if self.error is not None:
            raise self.error
        return pb.PushTensorsResponse(refused=self.refused)


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_is_offered_in_one_turn_goes_in_one_message_in_its_order():
    consumer, local = Consumer(), Rendezvous()
    outbox = Outbox(consumer, 1)
    for i in range(5):
        outbox.put(7, local, f"key{i}", np.float32(i), False)
    await turns()
    assert [entry.rendezvous_key for entry in consumer.received] == [f"key{i}" for i in range(5)]
    consumer.may_go_on.set()


async def test_more_than_may_be_under_way_stays_to_be_asked_for():
    consumer, local = Consumer(), Rendezvous()
    outbox = Outbox(consumer, 1)
    value = np.zeros(peer_link.MOST_PUSHED_BYTES, np.uint8)
    for i in range(64):
        outbox.put(7, local, f"key{i}", value, False)
    await turns()
    stayed = [entry.rendezvous_key for entry in consumer.received if entry.ask]
    assert 0 < len(stayed) < 64
    assert all(local.take_nowait(key) is not None for key in stayed)
    consumer.may_go_on.set()
    await turns()
    outbox.put(7, local, "later", value, False)
    await turns()
    assert not consumer.received[-1].ask


async def test_what_is_refused_or_lost_stays_to_be_asked_for():
    consumer, local = Consumer(), Rendezvous()
    consumer.may_go_on.set()
    consumer.refused = [1]
    outbox = Outbox(consumer, 1)
    outbox.put(7, local, "taken", np.float32(1), False)
    outbox.put(7, local, "refused", np.float32(2), False)
    await turns()
    assert local.take_nowait("taken") is None
    assert local.take_nowait("refused") == (2, False)
    consumer.error = errors.UnavailableError("gone")
    outbox.put(7, local, "lost", np.float32(3), True)
    await turns()
    assert local.take_nowait("lost") == (3, True)
    assert not outbox.is_open


async def test_a_value_goes_to_whoever_asks_already():
    consumer, local = Consumer(), Rendezvous()
    asking = asyncio.ensure_future(local.take("key"))
    await turns()
    Outbox(consumer, 1).put(7, local, "key", np.float32(1), False)
    assert await asking == (1, False)
    await turns()
    assert consumer.received == []


async def test_who_waits_for_long_asks():
    link = ProducerLink(Consumer(), "/job:worker/replica:0/task:0", "", 1)
    link.greet()
    await turns()
    assert link.pushes
    wait = link.wait()
    async with asyncio.timeout(5):
        assert await wait.future is None


async def test_a_peer_that_does_not_push_is_asked_from_the_beginning():
    link = ProducerLink(Consumer(pushes=False), "/job:worker/replica:0/task:0", "", 1)
    link.greet()
    await turns()
    assert not link.pushes


async def test_values_of_steps_that_have_not_started_are_bounded():
    steps = StepTable(RpcLog())
    value = np.zeros(1 << 24, np.uint8)
    taken = [steps.accept(step_id, "key", value, False) for step_id in range(8)]
    assert taken == [True] * 3 + [False] * 5
    assert len(steps) == 3
    for step_id in range(8):
        steps.clean_up(step_id)
    assert len(steps) == 0
    assert steps.accept(100, "key", value, False)


class Silent:
    """A producer that has pushed what it made, and so never answers who asks."""

    async def RecvTensor(self, request: pb.RecvTensorRequest) -> None:
        await asyncio.get_running_loop().create_future()


async def test_a_value_that_comes_just_when_the_wait_ends_is_not_asked_for():
    ps, worker = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"
    links = PeerLinks(lambda task: Consumer(), worker, "", 1)
    links.producer(ps).greet()
    await turns()
    workers = types.SimpleNamespace(links=links, own_task=worker, get=lambda task: Silent())
    steps, device = StepTable(RpcLog()), f"{ps}/device:CPU:0"
    key = f"{device};1;{worker}/device:CPU:0;x;0:0"
    record = steps.start(7, types.SimpleNamespace(workers=workers))
    taking = asyncio.ensure_future(record.rendezvous.take(key, device))
    await turns()
    # A loop that was held up finds the end of the wait and the value in one turn.
    steps.advise_asking(7, key)
    steps.accept(7, key, np.float32(3), False)
    async with asyncio.timeout(5):
        assert await taking == (3, False)
    links.close()
