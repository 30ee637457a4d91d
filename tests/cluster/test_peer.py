"""Values that are pushed from worker to worker, over real connections."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from cluster.driver import Driver, until
from cluster.test_worker import across_graph
from tideflow.cluster.peers import VERSION
from tideflow.cluster.peers.service import exchange_method
from tideflow.cluster.server import Server
from tideflow.cluster.status import StatusService
from tideflow.compile.prune import Signature
from tideflow.graph.graph import Graph
from tideflow.ops.control_flow import merge, switch, while_loop
from tideflow.ops.framework import constant
from tideflow.ops.framework.constants import placeholder
from tideflow.ops.math.comparison import greater
from tideflow.transport import MessageStream, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.peer_frame import PeerFrame
from tideflow.wire.status import WORKER_POSSIBLY_RESTARTED

PS = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:0"
ACROSS = Signature(("x:0",), ("y:0",))


def addresses_of(cluster) -> dict[str, str]:
    return {
        WORKER: cluster.spec.task_address("worker", 0),
        PS: cluster.spec.task_address("ps", 0),
    }


@pytest.fixture(params=["on", "off"])
def addresses(request, set_settings, make_cluster):
    set_settings(peer=request.param == "on")
    return addresses_of(make_cluster({"ps": 1, "worker": 1}))


@pytest.fixture
def cluster(set_settings, make_cluster):
    set_settings(peer=True)
    return make_cluster({"ps": 1, "worker": 1})


def steps_of(cluster, job: str):
    return cluster.server(job).worker.steps


async def calls(driver: Driver, task: str) -> dict[str, int]:
    """Return how often each method was called of a task."""
    page = stub(StatusService, driver.channels[task])
    response = await page.GetServerStatus(pb.ServerStatusRequest())
    return {
        row.path.rpartition("/")[2]: row.calls for row in response.method if not row.peer
    }  # fmt: skip


async def until_pushing(driver: Driver, registered) -> None:
    """Run steps until all values of one are pushed."""

    async def pushed() -> bool:
        before = await asyncio.gather(calls(driver, PS), calls(driver, WORKER))
        assert await registered.run({"x:0": np.float32(1)}) == [3]
        after = await asyncio.gather(calls(driver, PS), calls(driver, WORKER))
        asked = [b.get("RecvTensor", 0) - a.get("RecvTensor", 0) for a, b in zip(before, after)]
        return asked == [0, 0]

    async with asyncio.timeout(20):
        await until(pushed)


async def test_a_step_gives_the_same_with_and_without_extensions(addresses):
    async with Driver(addresses) as driver:
        registered = await driver.register(across_graph(), ACROSS)
        for x in range(20):
            assert await registered.run({"x:0": np.float32(x)}) == [2 * x + 1]


async def test_values_come_without_being_asked_for(cluster):
    async with Driver(addresses_of(cluster)) as driver:
        registered = await driver.register(across_graph(), ACROSS)
        await until_pushing(driver, registered)
        values = await asyncio.gather(
            *(registered.run({"x:0": np.float32(x)}) for x in range(20))
        )  # fmt: skip
        assert values == [[2 * x + 1] for x in range(20)]


async def test_nothing_is_left_after_many_steps(cluster):
    async with Driver(addresses_of(cluster)) as driver:
        registered = await driver.register(across_graph(), ACROSS)
        await until_pushing(driver, registered)
        for x in range(50):
            await registered.run({"x:0": np.float32(x)})
        for job in ("ps", "worker"):
            assert len(steps_of(cluster, job)) == 0


@pytest.fixture
def plain_cluster(set_settings, make_cluster):
    set_settings(peer=False)
    return make_cluster({"ps": 1, "worker": 1})


@pytest.fixture(params=["ps", "worker"])
def mixed_cluster(request, cluster, set_settings):
    cluster.server(request.param).stop()
    set_settings(peer=False)
    cluster.start(request.param, 0)
    return cluster


async def test_servers_without_extensions_say_so(plain_cluster):
    async with Driver(addresses_of(plain_cluster)) as driver:
        far = await opened(driver, PS, hello(task=WORKER))
        async with asyncio.timeout(10):
            assert isinstance(await far.end, errors.UnimplementedError)


async def test_a_peer_and_a_plain_server_work_together(mixed_cluster):
    async with Driver(addresses_of(mixed_cluster)) as driver:
        registered = await driver.register(across_graph(), ACROSS)
        for x in range(20):
            assert await registered.run({"x:0": np.float32(x)}) == [2 * x + 1]


class Far:
    """The other end of a stream, in the test's hands."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[PeerFrame] = asyncio.Queue()
        self.end: asyncio.Future[errors.OpError | None] = asyncio.Future()
        self.messages: MessageStream | None = None

    def received(self, message: PeerFrame) -> None:
        self.frames.put_nowait(message)

    def ended(self, error: errors.OpError | None) -> None:
        self.end.set_result(error)

    async def next(self) -> pb.PeerFrame:
        async with asyncio.timeout(10):
            return (await self.frames.get()).message


async def opened(driver: Driver, task: str, hello: pb.PeerHello | None) -> Far:
    """Open a stream to a worker as one that says `hello`."""
    far = Far()
    far.messages = await driver.channels[task].open_message_stream(exchange_method(), far)
    far.messages.send(PeerFrame(pb.PeerFrame(hello=hello)))
    return far


def hello(**fields) -> pb.PeerHello:
    return pb.PeerHello(**{"version": VERSION, "task": PS, **fields})


async def test_a_line_begins_with_hello_both_ways(cluster):
    async with Driver(addresses_of(cluster)) as driver:
        far = await opened(driver, WORKER, hello())
        found = await far.next()
        assert (found.hello.task, found.hello.version) == (WORKER, VERSION)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (None, errors.InvalidArgumentError),
        (hello(version=VERSION + 1), errors.UnimplementedError),
        (hello(session_handle="nobody's"), errors.FailedPreconditionError),
        (hello(task="/job:ps/replica:0/task:7"), errors.InvalidArgumentError),
        (hello(task=WORKER), errors.InvalidArgumentError),
    ],
)
async def test_who_is_no_peer_is_told_so(cluster, said, error):
    async with Driver(addresses_of(cluster)) as driver:
        far = await opened(driver, WORKER, said)
        async with asyncio.timeout(10):
            assert type(await far.end) is error


async def test_what_comes_for_an_ended_step_is_refused(cluster):
    frame = PeerFrame()
    for step_id in (5, 6):
        frame.add(step_id, f"{PS}/x;1;{WORKER}/y;t;0:0", np.float32(1), is_dead=False)
    async with Driver(addresses_of(cluster)) as driver:
        await driver.workers[WORKER].CleanupGraph(pb.CleanupGraphRequest(step_id=5))
        far = await opened(driver, WORKER, hello())
        await far.next()
        far.messages.send(frame)
        found = await far.next()
        assert (list(found.refused), found.seen_count) == ([0], 2)
        assert len(steps_of(cluster, "worker")) == 1
        far.messages.send(PeerFrame(pb.PeerFrame(over_step=[6])))

        async def over() -> bool:
            return len(steps_of(cluster, "worker")) == 0

        async with asyncio.timeout(10):
            await until(over)


async def test_a_run_that_is_given_up_ends_there(cluster):
    async with Driver(addresses_of(cluster)) as driver:
        registered = await driver.register(across_graph(), ACROSS)
        far = await opened(driver, WORKER, hello())
        await far.next()
        request = registered.request(WORKER, 77)
        run = pb.PeerRun(
            step_id=77, session_handle=request.session_handle, graph_handle=request.graph_handle
        )
        steps = steps_of(cluster, "worker")

        async def running(count: int) -> None:
            async with asyncio.timeout(10):
                while steps.running_count != count:
                    await asyncio.sleep(0.001)

        # Nobody feeds it.
        far.messages.send(PeerFrame(pb.PeerFrame(run=[run])))
        await running(1)
        far.messages.send(PeerFrame(pb.PeerFrame(given_up_step=[77])))
        await running(0)
        # Given up before it has started, it is answered as little: the next run is, at once.
        far.messages.send(PeerFrame(pb.PeerFrame(run=[run], given_up_step=[77])))
        far.messages.send(PeerFrame(pb.PeerFrame(over_step=[77])))
        nobodys = pb.PeerRun(step_id=78, session_handle="nobody's", graph_handle="none")
        far.messages.send(PeerFrame(pb.PeerFrame(run=[nobodys])))
        (end,) = (await far.next()).run_end
        assert (end.step_id, end.code) == (78, errors.ABORTED)
        assert steps.running_count == 0


async def test_the_error_of_a_run_comes_back(cluster):
    async with Driver(addresses_of(cluster)) as driver:
        far = await opened(driver, WORKER, hello())
        await far.next()
        run = pb.PeerRun(step_id=78, session_handle="nobody's", graph_handle="none")
        far.messages.send(PeerFrame(pb.PeerFrame(run=[run])))
        (end,) = (await far.next()).run_end
        assert end.code == errors.ABORTED
        assert WORKER_POSSIBLY_RESTARTED in end.payloads


async def test_the_largest_values_are_asked_for(cluster):
    async with Driver(addresses_of(cluster)) as driver:
        registered = await driver.register(across_graph(), ACROSS)
        await until_pushing(driver, registered)
        before = await calls(driver, PS)
        for count, asked in ((1 << 18, 0), (1 << 21, 1)):
            x = np.arange(count, dtype=np.float32)
            (y,) = await registered.run({"x:0": x})
            np.testing.assert_array_equal(y, 2 * x + 1)
            after = await calls(driver, PS)
            assert (after["RecvTensor"] > before["RecvTensor"]) == bool(asked)


def test_a_server_may_be_told_to_go_without():
    server = Server({"local": ["127.0.0.1:0"]}, start=False, peer_extensions=False)
    assert server.worker.peer() is None


def control_flow_graph() -> Graph:
    """A loop at the worker whose body is at the ps; what one side of a branch there gives."""
    graph = Graph()
    with graph.as_default(), graph.device("/job:worker"):
        x = placeholder(np.float32, [], name="x")

        def body(i, y):
            with graph.device("/job:ps"):
                return i + 1, y * 2.0

        _, looped = while_loop(lambda i, y: i < 5, body, [constant(0), x])
        with graph.device("/job:ps"):
            no, yes = switch(looped, greater(looped, constant(np.float32(100))))
        with graph.device("/job:worker"):
            merge([no + 1.0, yes + 2.0], name="z")
    return graph


async def test_loops_and_branches_cross_peers(cluster):
    signature = Signature(("x:0",), ("z:0",))
    async with Driver(addresses_of(cluster)) as driver:
        await until_pushing(driver, await driver.register(across_graph(), ACROSS))
        registered = await driver.register(control_flow_graph(), signature)
        for x in (1.0, 10.0):
            looped = x * 32
            expected = looped + (2 if looped > 100 else 1)
            assert await registered.run({"x:0": np.float32(x)}) == [expected]


async def test_streams_end_with_their_worker(cluster):
    async with Driver(addresses_of(cluster)) as driver:
        far = await opened(driver, WORKER, hello())
        await far.next()
        peers = cluster.server("worker").worker.workers.peers
        assert peers.stream(PS) is not None
        await asyncio.to_thread(cluster.server("worker").stop)
        async with asyncio.timeout(10):
            assert isinstance(await far.end, errors.UnavailableError)
        assert peers.stream(PS) is None
