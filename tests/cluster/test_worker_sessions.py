"""What a worker keeps for its sessions: state, devices under other names, partial runs, records."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cluster.driver import Driver, Registered, until_in_flight
from cluster.servers import make_spec
from real_time import within
from tideflow.cluster import ClusterSpec
from tideflow.cluster.graph_run import GraphRun
from tideflow.cluster.worker import Worker
from tideflow.compile.prune import Signature
from tideflow.graph.building import make_op
from tideflow.graph.graph import Graph
from tideflow.graph.op_def import get_op_def
from tideflow.ops.control_flow.functional import defun
from tideflow.ops.framework import constant
from tideflow.ops.framework.constants import placeholder
from tideflow.runtime.device import DeviceManager, make_cpu_devices
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.rendezvous_key import RendezvousKey
from tideflow.wire.tensor_codec import decode_tensor

PS = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:0"


@pytest.fixture
def cluster(make_cluster):
    return make_cluster({"ps": 1, "worker": 1})


@pytest.fixture
def ps(cluster):
    return {PS: cluster.spec.task_address("ps", 0)}


@pytest.fixture
def both(cluster):
    return {
        WORKER: cluster.spec.task_address("worker", 0),
        PS: cluster.spec.task_address("ps", 0),
    }


def call(op: str, *inputs, name=None, **attrs):
    return make_op(get_op_def(op), inputs, attrs, name)


def variable_graph(where: str = "/job:ps") -> Graph:
    graph = Graph()
    with graph.as_default(), graph.device(where):
        handle = call("VarHandleOp", dtype=np.float32, shape=[], shared_name="v", name="v").outputs[
            0
        ]
        call("AssignVariableOp", handle, constant(np.float32(5)), name="set")
        call("ReadVariableOp", handle, dtype=np.float32, name="get")
    return graph


SET = Signature((), (), ("set",))
GET = Signature((), ("get:0",))


async def create(driver: Driver, task: str, **fields) -> None:
    request = pb.CreateWorkerSessionRequest(session_handle=driver.handle, **fields)
    await driver.workers[task].CreateWorkerSession(request)


# ---- named state


async def test_sessions_share_the_state_of_devices(ps):
    async with Driver(ps, "one") as one, Driver(ps, "two") as two:
        await (await one.register(variable_graph(), SET)).run()
        assert await (await two.register(variable_graph(), GET)).run() == [5]
        await one.workers[PS].DeleteWorkerSession(
            pb.DeleteWorkerSessionRequest(session_handle="one")
        )
        assert await (await two.register(variable_graph(), GET)).run() == [5]


async def test_an_isolated_session_has_state_of_its_own(ps):
    async with Driver(ps, "shared") as shared, Driver(ps, "") as alone:
        alone.handle = "alone"
        await create(alone, PS, isolate_session_state=True)
        await (await shared.register(variable_graph(), SET)).run()
        get = await alone.register(variable_graph(), GET)
        with pytest.raises(errors.FailedPreconditionError, match="v"):
            await get.run()
        await (await alone.register(variable_graph(), SET)).run()
        assert await get.run() == [5]


async def test_clean_up_all_drops_the_default_container_or_those_named(ps):
    async with Driver(ps) as driver:
        set_v, get_v = [await driver.register(variable_graph(), s) for s in (SET, GET)]
        await set_v.run()
        await driver.workers[PS].CleanupAll(pb.CleanupAllRequest(container=["other"]))
        assert await get_v.run() == [5]
        await driver.workers[PS].CleanupAll(pb.CleanupAllRequest())
        with pytest.raises(errors.FailedPreconditionError):
            await get_v.run()


# ---- sessions and graphs


async def test_a_session_needs_a_handle_and_takes_the_first_of_two(ps):
    async with Driver(ps) as driver:
        with pytest.raises(errors.InvalidArgumentError, match="session_handle"):
            await driver.workers[PS].CreateWorkerSession(pb.CreateWorkerSessionRequest())
        step = await driver.register(variable_graph(), SET)
        await create(driver, PS, isolate_session_state=True)
        await step.run()


async def test_deleting_a_session_ends_its_steps_and_forgets_its_graphs(both):
    async with Driver(both) as driver:
        graph = Graph()
        with graph.as_default(), graph.device("/job:ps"):
            call("Identity", placeholder(np.float32, [], name="x"), name="y")
        step = await driver.register(graph, Signature(("x:0",), ("y:0",)))
        run = asyncio.ensure_future(step.start(PS, 7))
        await until_in_flight(driver, WORKER, "RecvTensor", 1)
        for _ in range(2):
            await driver.workers[PS].DeleteWorkerSession(
                pb.DeleteWorkerSessionRequest(session_handle=driver.handle)
            )
        with pytest.raises(errors.AbortedError, match="dropped session"):
            await run
        with pytest.raises(errors.AbortedError, match="does not know session"):
            await step.start(PS, 8)


async def test_a_master_that_comes_back_ends_what_its_former_life_left(ps):
    async with Driver(ps, "") as driver:
        for handle, life in (("old", 1), ("new", 2)):
            driver.handle = handle
            await create(driver, PS, master_task=WORKER, master_incarnation=life)
        driver.handle = "another"
        await create(driver, PS, master_task="/job:x/replica:0/task:0", master_incarnation=9)
        for handle, there in (("old", False), ("new", True), ("another", True)):
            driver.handle = handle
            if there:
                await driver.register(variable_graph(), SET)
            else:
                with pytest.raises(errors.AbortedError):
                    await driver.register(variable_graph(), SET)


async def test_a_session_with_a_cluster_of_its_own_names_the_devices_anew(ps):
    async with Driver(ps, "") as driver:
        driver.handle = "renamed"
        server_def = pb.ServerDef(
            cluster=ClusterSpec({"store": {3: ps[PS]}}).as_cluster_def(),
            job_name="store",
            task_index=3,
        )
        await create(driver, PS, server_def=server_def)
        renamed = "/job:store/replica:0/task:3"
        (incarnation,) = driver.incarnations.values()
        driver.incarnations = {f"{renamed}/device:CPU:0": incarnation}
        driver.workers[renamed] = driver.workers.pop(PS)
        driver.channels[renamed] = driver.channels.pop(PS)
        await (await driver.register(variable_graph("/job:store"), SET)).run()
        assert await (await driver.register(variable_graph("/job:store"), GET)).run() == [5]


async def test_a_cluster_that_lacks_the_task_is_refused(ps):
    async with Driver(ps) as driver:
        driver.handle = "other"
        cluster = ClusterSpec({"store": ["h:1"]}).as_cluster_def()
        server_def = pb.ServerDef(cluster=cluster, job_name="ps", task_index=0)
        with pytest.raises(errors.InvalidArgumentError, match="no job 'ps'"):
            await create(driver, PS, server_def=server_def)


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("", "'n' of the graph has no device"),
        ("/job:ps/replica:0/task:0/device:GPU:0", "'n' is placed on .*GPU:0"),
        ("/job:ps/replica:0/task:1/device:CPU:0", "'n' is placed on .*task:1"),
    ],
)
async def test_a_node_on_a_device_elsewhere_is_refused_by_name(ps, device, said):
    async with Driver(ps) as driver:
        graph_pb = pb.GraphDef(node=[pb.NodeDef(name="n", op="NoOp", device=device)])
        request = pb.RegisterGraphRequest(graph_def=graph_pb)
        with pytest.raises(errors.InvalidArgumentError, match=said):
            await driver.workers[PS].RegisterGraph(request)


async def test_an_unknown_op_is_named_with_its_node(ps):
    async with Driver(ps) as driver:
        node_pb = pb.NodeDef(name="n", op="Frobnicate", device="/device:CPU:0")
        request = pb.RegisterGraphRequest(graph_def=pb.GraphDef(node=[node_pb]))
        with pytest.raises(errors.NotFoundError, match=r"'Frobnicate' of node 'n'"):
            await driver.workers[PS].RegisterGraph(request)


async def test_a_graph_can_be_dropped_once(ps):
    async with Driver(ps) as driver:
        step = await driver.register(variable_graph(), SET)
        request = pb.DeregisterGraphRequest(
            graph_handle=step.handles[PS],
            session_handle=driver.handle,
            create_worker_session_called=True,
        )
        await driver.workers[PS].DeregisterGraph(request)
        with pytest.raises(errors.AbortedError):
            await driver.workers[PS].DeregisterGraph(request)
        with pytest.raises(errors.AbortedError):
            await step.run()


async def test_a_graph_brings_its_functions(ps):
    async with Driver(ps) as driver:
        graph = Graph()
        with graph.as_default():
            double = defun(lambda x: call("AddV2", x, x).outputs[0], [np.float32])
            call("Identity", double(placeholder(np.float32, [], name="x")), name="y")
        step = await driver.register(graph, Signature(("x:0",), ("y:0",)))
        assert await step.run({"x:0": np.float32(4)}) == [8]


@pytest.fixture
def ps_of_three_devices(make_cluster):
    cluster = make_cluster({"ps": 1}, pb.ConfigProto(device_count={"CPU": 3}))
    return {PS: cluster.spec.task_address("ps", 0)}


async def test_a_graph_may_use_several_devices_of_a_worker(ps_of_three_devices):
    async with Driver(ps_of_three_devices) as driver:
        graph = Graph()
        with graph.as_default():
            x = placeholder(np.float32, [], name="x")
            for number in (2, 1, 0):
                with graph.device(f"/device:CPU:{number}"):
                    x = call("AddV2", x, constant(np.float32(1)), name=f"y{number}").outputs[0]
        step = await driver.register(graph, Signature(("x:0",), ("y0:0",)))
        assert await step.run({"x:0": np.float32(4)}) == [7]


# ---- partial runs

TWICE = Signature(("a:0", "b:0"), ("da:0", "db:0"))


async def twice(driver: Driver) -> Registered:
    graph = Graph()
    with graph.as_default():
        for name in ("a", "b"):
            x = placeholder(np.float32, [], name=name)
            call("AddV2", x, x, name=f"d{name}")
    return await driver.register(graph, TWICE)


def values(response: pb.RunGraphResponse) -> list:
    return [decode_tensor(named.tensor) for named in response.recv]


async def test_a_partial_run_goes_on_from_call_to_call(ps):
    async with Driver(ps) as driver:
        step = await twice(driver)
        first = await step.start(PS, 7, {"a:0": np.float32(1)}, ["da:0"], is_partial=True)
        assert values(first) == [2]
        assert not first.HasField("cost_graph")
        last = await step.start(
            PS, 7, {"b:0": np.float32(2)}, ["db:0"], is_partial=True, is_last_partial_run=True
        )
        assert values(last) == [4]


async def test_a_partial_run_can_be_given_up(ps):
    async with Driver(ps) as driver:
        step = await twice(driver)
        await step.start(PS, 7, {"a:0": np.float32(1)}, ["da:0"], is_partial=True)
        wait = asyncio.ensure_future(step.start(PS, 7, {}, ["db:0"], is_partial=True))
        await until_in_flight(driver, PS, "RunGraph", 1)
        await step.clean_up(7)
        with pytest.raises(errors.AbortedError):
            await wait
        again = await step.start(PS, 7, {"b:0": np.float32(3)}, ["db:0"], is_partial=True)
        assert values(again) == [6]
        await step.clean_up(7)


async def test_a_partial_run_of_an_unknown_graph_is_refused(ps):
    async with Driver(ps) as driver:
        step = await twice(driver)
        step.handles[PS] = "beef"
        with pytest.raises(errors.InternalError, match="beef"):
            await step.start(PS, 7, {}, ["da:0"], is_partial=True)
        with pytest.raises(errors.AbortedError, match="beef"):
            await step.start(PS, 7, {}, [], is_partial=True, is_last_partial_run=True)


# ---- records


async def test_transfers_are_recorded_while_that_is_on(both):
    async with Driver(both) as driver:
        graph = Graph()
        with graph.as_default():
            with graph.device("/job:ps"):
                x = constant(np.float32([1, 2]), name="x")
            with graph.device("/job:worker"):
                call("Neg", x, name="y")
        step = await driver.register(graph, Signature((), ("y:0",)))
        worker = driver.workers[WORKER]
        await worker.Logging(pb.LoggingRequest(enable_rpc_logging=True))
        await step.run()
        fetch = pb.LoggingRequest(fetch_step_id=[1000, 1], disable_rpc_logging=True)
        (found,) = (await worker.Logging(fetch)).step
        assert found.step_id == 1000
        (devices,) = found.step_stats.dev_stats
        assert devices.device == f"{WORKER}/device:CPU:0"
        (transfer,) = devices.node_stats
        assert transfer.node_name == "RecvTensor"
        assert transfer.timeline_label.startswith("[8B] edge_")
        await step.run()
        assert not (await worker.Logging(pb.LoggingRequest(fetch_step_id=[1001]))).step


async def test_what_is_not_offered_says_so(ps):
    async with Driver(ps) as driver:
        worker = driver.workers[PS]
        with pytest.raises(errors.UnimplementedError):
            await worker.Tracing(pb.TracingRequest())
        await worker.MarkRecvFinished(pb.MarkRecvFinishedRequest(request_id=1))


# ---- odd tensors


async def test_a_dead_value_travels_and_cannot_be_fetched(both):
    graph = Graph()
    with graph.as_default():
        with graph.device("/job:ps"):
            taken = call("Switch", constant(np.float32(1)), constant(np.bool_(True)), name="sw")
        with graph.device("/job:worker"):
            call("Identity", taken.outputs[0], name="dead")
            call("Identity", taken.outputs[1], name="live")
    async with Driver(both) as driver:
        assert await (await driver.register(graph, Signature((), ("live:0",)))).run() == [1]
        with pytest.raises(errors.InternalError, match="dead"):
            await (await driver.register(graph, Signature((), ("dead:0",)))).run()


async def test_a_tensor_that_no_message_can_hold_is_refused():
    devices = DeviceManager(make_cpu_devices("ps", 0))
    worker = Worker(PS, devices, ClusterSpec({"ps": ["localhost:0"]}))
    device = devices.client_device
    huge = np.broadcast_to(np.float32(0), (2**29,))
    key = RendezvousKey(device.name, device.incarnation, device.name, "huge").format()
    handle = (await worker.RegisterGraph(pb.RegisterGraphRequest())).graph_handle
    # Within the process it passes; only a message is too small for it.
    result = await worker.run_graph(GraphRun("", handle, 6, {key: huge}, [key]))
    assert result.values[0] is huge
    await worker.run_graph(GraphRun("", handle, 7, {key: huge}))
    with pytest.raises(errors.ResourceExhaustedError, match="2147483648 bytes"):
        await worker.RecvTensor(pb.RecvTensorRequest(step_id=7, rendezvous_key=key))
    await worker.close()


# ---- peers


def relay_graph() -> Graph:
    graph = Graph()
    with graph.as_default():
        with graph.device("/job:ps"):
            x = call("Identity", placeholder(np.float32, [], name="x"), name="at_ps").outputs[0]
        with graph.device("/job:worker"):
            call("Neg", x, name="y")
    return graph


RELAY = Signature(("x:0",), ("y:0",))


@pytest.fixture
def processes(start_process):
    """A ps and a worker as processes: their cluster, and the process of the ps."""
    spec = make_spec({"ps": 1, "worker": 1})
    with ThreadPoolExecutor() as threads:
        started = threads.map(lambda job: start_process(spec, job), ["ps", "worker"])
    return spec, next(started)


@pytest.mark.processes
@pytest.mark.real_time
async def test_a_peer_that_dies_in_mid_step_is_named_within_a_second(processes, start_process):
    spec, doomed = processes
    addresses = {WORKER: spec["worker"][0], PS: spec["ps"][0]}
    async with Driver(addresses) as driver:
        step = await driver.register(relay_graph(), RELAY)
        assert await step.run({"x:0": np.float32(3)}) == [-3]
        run = asyncio.ensure_future(step.start(WORKER, 7, {}, ["y:0"]))
        await until_in_flight(driver, PS, "RecvTensor", 1, run)
        doomed.kill()
        with within(3), pytest.raises(errors.UnavailableError) as caught:
            await run
        assert PS in caught.value.message
        assert spec["ps"][0] in caught.value.message

        await asyncio.to_thread(start_process, spec, "ps")
        with pytest.raises(errors.AbortedError, match="restarted"):
            await step.start(WORKER, 8, {}, ["y:0"])
        async with Driver(addresses, "anew") as anew:
            step = await anew.register(relay_graph(), RELAY)
            assert await step.run({"x:0": np.float32(4)}) == [-4]
