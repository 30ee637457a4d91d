"""Two ends of a stream, and the bounds of what is pushed on it."""

from __future__ import annotations

import asyncio
import functools
import itertools
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from interleaving import run_preempted
from tideflow.cluster.graph_run import ComponentRun, GraphResult, GraphRun
from tideflow.cluster.peers import VERSION, PeerStream, PeerTable
from tideflow.cluster.peers import stream as peer_stream_module
from tideflow.cluster.peers.peer_state import ASK_AFTER_S
from tideflow.cluster.peers.stream_state import MOST_PUSHED_BYTES
from tideflow.cluster.rpc_log import RpcLog
from tideflow.cluster.worker import StepTable
from tideflow.runtime.rendezvous import Rendezvous
from tideflow.transport import MessageStream
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.peer_frame import PeerFrame

PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"


class Wire(MessageStream):
    """Keeps what is sent, and passes it to the other end as bytes, if there is one."""

    def __init__(self) -> None:
        self.frames: list[PeerFrame] = []
        self.near: PeerStream | None = None
        self.far: Wire | None = None
        self.has_ended = False
        self.most_bytes: int | None = None

    def send(self, message: PeerFrame) -> bool:
        if self.has_ended:
            return False
        data = message.SerializeToString()
        if self.most_bytes is not None and len(data) > self.most_bytes:
            raise errors.ResourceExhaustedError(f"{len(data)} bytes, at most {self.most_bytes}")
        self.frames.append(PeerFrame.FromString(data))
        if self.far is not None and self.far.near is not None:
            self.far.near.received(self.frames[-1])
        return True

    def close(self, error: errors.OpError | None = None) -> None:
        if not self.has_ended:
            self.has_ended = True
            self.near.ended(error)
            if self.far is not None:
                self.far.close(error)

    @property
    def pending_bytes(self) -> int:
        return 0

    @property
    def tensors(self) -> list[pb.PeerTensor]:
        return [entry for frame in self.frames for entry in frame.message.tensor]


class Host:
    """Takes all that it is given but what it is told to refuse; runs for as long as it is told."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, str, Any, bool]] = []
        self.refuses: set[str] = set()
        self.advised: list[str] = []
        self.cleaned: list[int] = []
        self.may_go_on = asyncio.Event()
        self.error: errors.OpError | None = None
        self.runs = 0
        self.is_over = True
        self.running: dict[int, asyncio.Task[None]] = {}
        self.kept: list[int] = []

    def accept(self, step_id: int, key: str, value: Any, is_dead: bool) -> bool:
        if key in self.refuses:
            return False
        self.taken.append((step_id, key, value, is_dead))
        return True

    def advise_asking(self, step_id: int, key: str) -> None:
        self.advised.append(key)

    async def run_graph(self, run: GraphRun) -> GraphResult:
        self.runs += 1
        try:
            await self.may_go_on.wait()
            if self.error is not None:
                raise self.error
            return GraphResult([])
        finally:
            self.runs -= 1

    def run_began(self, step_id: int, task: asyncio.Task[None]) -> None:
        self.running[step_id] = task

    def run_ended(self, step_id: int, task: asyncio.Task[None]) -> None:
        del self.running[step_id]

    def keep_run(self, step_id: int) -> bool:
        self.kept.append(step_id)
        return step_id in self.running

    def end_step(self, step_id: int) -> bool:
        return self.is_over

    def clean_up(self, step_id: int) -> None:
        self.cleaned.append(step_id)


# Lines and peers that the current test has made; all are checked when it ends.
_made: list[PeerStream | PeerTable] = []


@pytest.fixture(autouse=True)
def valid_streams() -> Iterator[None]:
    _made.clear()
    yield
    for one in _made:
        one.validate()


def end_of_stream(host: Host) -> tuple[PeerStream, Wire]:
    wire = Wire()
    wire.near = PeerStream(host, lambda stream, hello: None, lambda stream, error: None)
    wire.near.messages = wire
    _made.append(wire.near)
    return wire.near, wire


def joined(ps: Host, worker: Host) -> tuple[PeerStream, PeerStream]:
    """Return the ends of a stream, at the ps and at the worker."""
    (one, near), (two, far) = end_of_stream(ps), end_of_stream(worker)
    near.far, far.far = far, near
    one.say_hello(pb.PeerHello(version=VERSION))
    two.say_hello(pb.PeerHello(version=VERSION))
    return one, two


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_is_offered_in_one_turn_goes_in_one_frame_in_its_order():
    stream, wire = end_of_stream(Host())
    for i in range(5):
        stream.put(7, Rendezvous(), f"key{i}", np.float32(i), False)
    await turns()
    (frame,) = wire.frames
    assert [entry.rendezvous_key for entry in frame.message.tensor] == [f"key{i}" for i in range(5)]


async def test_what_threads_offer_goes_as_well():
    host = Host()
    stream, _ = joined(Host(), host)

    def offer() -> None:
        for i in range(5):
            stream.put(7, Rendezvous(), f"key{i}", np.float32(i), False)

    await asyncio.to_thread(offer)
    await turns()
    assert [int(value) for _, _, value, _ in host.taken] == [0, 1, 2, 3, 4]


async def test_no_order_of_two_threads_keeps_what_they_offer():
    for at in itertools.count(1):
        host = Host()
        stream, _ = joined(Host(), host)
        local = Rendezvous()
        offers = [
            functools.partial(stream.put, 7, local, key, np.float32(1), False) for key in ("a", "b")
        ]
        was_reached = await asyncio.to_thread(run_preempted, peer_stream_module, at, *offers)
        await turns()
        if not was_reached:
            break
        assert sorted(key for _, key, _, _ in host.taken) == ["a", "b"], f"at stream {at}"
    assert at > 5


async def test_values_arrive_as_they_are():
    host = Host()
    stream, _ = joined(Host(), host)
    values = [
        np.arange(100_000, dtype=np.float32).reshape(100, 1000),
        np.float64(2.5),
        np.array([], np.int32),
        np.array([b"a", b"", b"bcd"], object),
        np.array([[True], [False]]),
    ]
    for i, value in enumerate(values):
        stream.put(7, Rendezvous(), str(i), value, False)
    stream.put(7, Rendezvous(), "dead", None, True)
    await turns()
    assert [key for _, key, _, _ in host.taken] == ["0", "1", "2", "3", "4", "dead"]
    for value, (step_id, _, found, is_dead) in zip(values, host.taken):
        np.testing.assert_array_equal(found, value)
        assert (found.dtype, step_id, is_dead) == (value.dtype, 7, False)
    assert host.taken[-1][3]


async def test_more_than_may_be_under_way_stays_to_be_asked_for():
    stream, wire = end_of_stream(Host())
    local = Rendezvous()
    value = np.zeros(MOST_PUSHED_BYTES, np.uint8)
    for i in range(16):
        stream.put(7, local, f"key{i}", value, False)
    await turns()
    stayed = [entry.rendezvous_key for entry in wire.tensors if entry.ask]
    assert 0 < len(stayed) < 16
    assert all(local.take_nowait(key) is not None for key in stayed)
    stream.received(PeerFrame(pb.PeerFrame(hello=pb.PeerHello(), seen_count=16)))
    stream.put(7, local, "later", value, False)
    await turns()
    assert not wire.tensors[-1].ask


async def test_what_is_larger_than_is_pushed_stays_to_be_asked_for():
    host, local = Host(), Rendezvous()
    stream, _ = joined(Host(), host)
    stream.put(7, local, "key", np.zeros(MOST_PUSHED_BYTES + 1, np.uint8), False)
    await turns()
    assert host.advised == ["key"]
    assert local.take_nowait("key") is not None


async def test_what_is_refused_stays_to_be_asked_for():
    host, local = Host(), Rendezvous()
    host.refuses = {"refused"}
    stream, _ = joined(Host(), host)
    stream.put(7, local, "taken", np.float32(1), False)
    stream.put(7, local, "refused", np.float32(2), False)
    await turns()
    assert local.take_nowait("taken") is None
    assert local.take_nowait("refused") == (2, False)


async def test_what_a_lost_stream_may_not_have_carried_stays_to_be_asked_for():
    stream, wire = end_of_stream(Host())
    local = Rendezvous()
    stream.put(7, local, "lost", np.float32(3), True)
    await turns()
    stream.put(7, local, "late", np.float32(4), False)
    wire.close()
    stream.put(7, local, "after", np.float32(5), False)
    await turns()
    for key, expected in (("lost", (3, True)), ("late", (4, False)), ("after", (5, False))):
        assert local.take_nowait(key) == expected


async def test_a_value_goes_to_whoever_asks_already():
    stream, wire = end_of_stream(Host())
    local = Rendezvous()
    asking = asyncio.ensure_future(local.take("key"))
    await turns()
    stream.put(7, local, "key", np.float32(1), False)
    assert await asking == (1, False)
    await turns()
    assert wire.tensors == []


async def test_what_fits_arrives_beside_what_does_not():
    host, local = Host(), Rendezvous()
    stream, _ = joined(Host(), host)
    stream.messages.most_bytes = 1000
    for i, size in enumerate((100, 3000, 300, 300, 300)):
        stream.put(7, local, f"key{i}", np.zeros(size, np.uint8), False)
    await turns()
    assert [key for _, key, _, _ in host.taken] == ["key0", "key2", "key3", "key4"]
    assert host.advised == ["key1"]
    assert local.take_nowait("key1") is not None


async def test_a_stream_that_cannot_say_hello_ends_and_nobody_waits_on_it():
    stream, wire = end_of_stream(Host())
    local = Rendezvous()
    wire.most_bytes = 10
    stream.say_hello(pb.PeerHello(task=20 * "x"))
    assert wire.has_ended
    stream.put(7, local, "key", np.float32(1), False)
    assert local.take_nowait("key") == (1, False)
    with pytest.raises(errors.UnavailableError):
        await stream.ask_run(GraphRun("session", "graph", 7))


# ---- runs


async def test_a_run_that_cannot_be_asked_for_fails_and_its_stream_goes_on():
    ps = Host()
    ps.may_go_on.set()
    _, at_worker = joined(ps, Host())
    at_worker.messages.most_bytes = 1000
    with pytest.raises(errors.ResourceExhaustedError, match="at most 1000"):
        await at_worker.ask_run(GraphRun("session", 2000 * "x", 7))
    assert (await at_worker.ask_run(GraphRun("session", "graph", 8))).values == []


@pytest.mark.parametrize("text", ["bad: " + 2000 * "x", "bad: caf\udce9"])
async def test_a_run_ends_whose_error_cannot_be_told(text):
    ps = Host()
    ps.error = errors.NotFoundError(text)
    ps.may_go_on.set()
    at_ps, at_worker = joined(ps, Host())
    at_ps.messages.most_bytes = 1000
    with pytest.raises((errors.ResourceExhaustedError, errors.NotFoundError), match="bad"):
        await at_worker.ask_run(GraphRun("session", "graph", 7))


async def test_a_run_and_its_values_come_back_in_one_frame():
    ps = Host()
    at_ps, at_worker = joined(ps, Host())
    run = at_worker.ask_run(GraphRun("session", "graph", 7))
    await turns()
    sent = at_ps.sent_count
    ps.may_go_on.set()
    at_ps.put(7, Rendezvous(), "key", np.float32(1), False)
    assert (await run).values == []
    assert at_ps.sent_count - sent <= 2
    at_worker.clean_up(7)
    await turns()
    assert ps.cleaned == []  # it was over by itself


async def test_a_step_that_has_left_something_is_cleaned_up():
    ps = Host()
    ps.is_over = False
    ps.may_go_on.set()
    _, at_worker = joined(ps, Host())
    await at_worker.ask_run(GraphRun("session", "graph", 7))
    at_worker.clean_up(7)
    async with asyncio.timeout(5):
        while not ps.cleaned:
            await asyncio.sleep(0.001)
    assert ps.cleaned == [7]


async def test_a_step_whose_values_are_on_another_stream_is_cleaned_up_by_word():
    ps = Host()
    ps.may_go_on.set()
    at_ps, at_worker = joined(ps, Host())
    other, _ = end_of_stream(ps)
    at_ps.has_unseen_elsewhere = lambda stream, step_id: other.has_unseen(step_id)
    other.put(7, Rendezvous(), "key", np.float32(1), False)
    await turns()
    for step_id in (7, 8):
        await at_worker.ask_run(GraphRun("session", "graph", step_id))
        at_worker.clean_up(step_id)
    async with asyncio.timeout(5):
        while not ps.cleaned:
            await asyncio.sleep(0.001)
    assert ps.cleaned == [7]


async def test_the_error_of_a_run_comes_with_its_payloads():
    ps = Host()
    ps.error = errors.NotFoundError("no such thing", payloads={"type/x": b"1"})
    ps.may_go_on.set()
    _, at_worker = joined(ps, Host())
    with pytest.raises(errors.NotFoundError, match="no such thing") as raised:
        await at_worker.ask_run(GraphRun("session", "graph", 7))
    assert raised.value.payloads == {"type/x": b"1"}


async def test_a_cancelled_run_ends_there():
    ps = Host()
    _, at_worker = joined(ps, Host())
    run = at_worker.ask_run(GraphRun("session", "graph", 7))
    await turns()
    assert ps.runs == 1
    run.cancel()
    await turns()
    assert ps.runs == 0


async def test_a_lost_stream_ends_the_wait_for_a_run_which_is_left_to_be_joined():
    ps = Host()
    at_ps, at_worker = joined(ps, Host())
    run = at_worker.ask_run(GraphRun("session", "graph", 7))
    await turns()
    at_ps.close(errors.UnavailableError("gone"))
    with pytest.raises(errors.UnavailableError, match="gone"):
        await run
    await turns()
    assert ps.kept == [7]
    assert ps.runs == 1
    ps.running[7].cancel()
    await turns()
    assert ps.runs == 0
    with pytest.raises(errors.UnavailableError):
        await at_worker.ask_run(GraphRun("session", "graph", 8))


async def test_a_run_whose_stream_was_lost_is_asked_for_in_another_way():
    ps = Host()
    at_ps, at_worker = joined(ps, Host())
    may_answer = asyncio.Event()
    lost: list[errors.OpError] = []

    async def again(error: errors.OpError) -> GraphResult:
        lost.append(error)
        await may_answer.wait()
        return GraphResult([])

    runs = [at_worker.ask_run(GraphRun("session", "graph", n), again) for n in (7, 8)]
    await turns()
    at_ps.close(errors.UnavailableError("gone"))
    await turns()
    assert [error.message.split(" (")[0] for error in lost] == ["gone", "gone"]
    runs[1].cancel()
    may_answer.set()
    assert (await runs[0]).values == []
    assert runs[1].cancelled()
    ps.may_go_on.set()
    await turns()


async def test_a_component_function_ends_with_its_stream():
    class Components(Host):
        async def run_component(self, run: ComponentRun) -> None:
            await self.run_graph(GraphRun("", "", run.step_id))

    ps = Components()
    at_ps, at_worker = joined(ps, Host())
    run = at_worker.ask_component(ComponentRun(b"request", 7, 1))
    await turns()
    assert ps.runs == 1
    at_ps.close(errors.UnavailableError("gone"))
    with pytest.raises(errors.UnavailableError, match="gone"):
        await run
    await turns()
    assert ps.runs == 0


# ---- peers


def peers_of(task: str, host: Host) -> PeerTable:
    def channel(name: str) -> Any:
        raise errors.UnavailableError(f"{name} is not there")

    peers = PeerTable(channel, task, frozenset([PS, WORKER]), "", host)
    _made.append(peers)
    return peers


async def pushing_link(host: Host | None = None) -> tuple[PeerTable, PeerStream]:
    """Return a worker's peers with one to the ps that has settled."""
    peers = peers_of(WORKER, host or Host())
    stream, _ = end_of_stream(host or Host())
    peers.accept(stream, pb.PeerHello(version=VERSION, task=PS))
    async with asyncio.timeout(5):
        while not peers.peer(PS).pushes:
            await asyncio.sleep(0.005)
    return peers, stream


async def test_who_waits_for_long_asks():
    peers, _ = await pushing_link()
    async with asyncio.timeout(5):
        assert await peers.peer(PS).wait().future is None


@pytest.mark.real_time
async def test_who_hears_of_the_producer_meanwhile_waits_longer():
    peers, stream = await pushing_link()
    wait = peers.peer(PS).wait()
    for _ in range(8):
        frame = PeerFrame()
        frame.message.hello.version = VERSION
        stream.received(frame)
        await asyncio.sleep(ASK_AFTER_S / 4)
    assert not wait.future.done()
    async with asyncio.timeout(5):
        assert await wait.future is None


async def test_who_waits_on_a_lost_stream_asks_at_once():
    peers, stream = await pushing_link()
    wait = peers.peer(PS).wait()
    peers.peer(PS).detach(stream)
    assert wait.future.done()
    assert not peers.peer(PS).pushes
    assert peers.stream(PS) is None


async def test_a_newer_stream_takes_the_place_of_an_older_one():
    peers, stream = await pushing_link()
    newer, _ = end_of_stream(Host())
    peers.accept(newer, pb.PeerHello(version=VERSION, task=PS))
    assert stream.has_ended
    peers.peer(PS).detach(stream)
    assert peers.stream(PS) is newer


async def test_of_two_streams_opened_at_once_one_stays():
    first, second = peers_of(PS, Host()), peers_of(WORKER, Host())
    stream, _ = end_of_stream(Host())
    first.peer(WORKER).greet()
    second.peer(PS).greet()
    with pytest.raises(errors.AbortedError, match="itself"):
        first.accept(stream, pb.PeerHello(version=VERSION, task=WORKER))
    second.accept(stream, pb.PeerHello(version=VERSION, task=PS))
    assert second.stream(PS) is stream


async def test_closed_links_open_no_stream():
    peers, stream = await pushing_link()
    peers.close()
    assert stream.has_ended
    peers.peer(PS).greet()
    assert not peers.peer(PS).is_opening


# ---- steps


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
    peers, _ = await pushing_link()
    workers = types.SimpleNamespace(peers=peers, own_task=WORKER, get=lambda task: Silent())
    steps, device = StepTable(RpcLog()), f"{PS}/device:CPU:0"
    key = f"{device};1;{WORKER}/device:CPU:0;x;0:0"
    record = steps.start(7, types.SimpleNamespace(workers=workers))
    taking = asyncio.ensure_future(record.rendezvous.take(key, device))
    await turns()
    # A loop that was held up finds the end of the wait and the value in one turn.
    steps.advise_asking(7, key)
    steps.accept(7, key, np.float32(3), False)
    async with asyncio.timeout(5):
        assert await taking == (3, False)
    peers.close()
