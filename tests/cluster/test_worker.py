"""A worker over real connections, driven as a master does it."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from cluster.driver import Driver, Registered, until_in_flight
from tideflow.compile.prune import Signature
from tideflow.graph.building import make_op
from tideflow.graph.graph import Graph
from tideflow.graph.op_def import get_op_def
from tideflow.ops.framework import constant
from tideflow.ops.framework.constants import placeholder
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.rendezvous_key import RendezvousKey
from tideflow.wire.status import is_derived, is_possibly_restarted
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor

PS = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:0"


@pytest.fixture
def addresses(make_cluster):
    cluster = make_cluster({"ps": 1, "worker": 1})
    return {
        WORKER: cluster.spec.task_address("worker", 0),
        PS: cluster.spec.task_address("ps", 0),
    }


def call(op: str, *inputs, name=None, **attrs):
    return make_op(get_op_def(op), inputs, attrs, name)


def across_graph() -> Graph:
    """x (fed, at the worker) doubled at the ps, and one added at the worker."""
    graph = Graph()
    with graph.as_default():
        x = placeholder(np.float32, [], name="x")
        with graph.device("/job:ps"):
            doubled = call("Mul", x, constant(np.float32(2)), name="doubled").outputs[0]
        with graph.device("/job:worker"):
            call("AddV2", doubled, constant(np.float32(1)), name="y")
    return graph


ACROSS = Signature(("x:0",), ("y:0",))


async def across(driver: Driver) -> Registered:
    return await driver.register(across_graph(), ACROSS)


def received(response: pb.RunGraphResponse) -> list:
    return [decode_tensor(named.tensor) for named in response.recv]


def ps_key(driver: Driver, name: str) -> str:
    """Return a key under which the ps would send something to the worker."""
    source, target = f"{PS}/device:CPU:0", f"{WORKER}/device:CPU:0"
    return RendezvousKey(source, driver.incarnations[source], target, name).format()


async def receive(driver: Driver, key: str, step_id: int, request_id: int = 0):
    return await driver.workers[PS].RecvTensor(
        pb.RecvTensorRequest(step_id=step_id, rendezvous_key=key, request_id=request_id)
    )


async def sending(driver: Driver, key: str) -> Registered:
    """Register at the ps a graph of nothing; values are given to its RunGraph."""
    response = await driver.workers[PS].RegisterGraph(
        pb.RegisterGraphRequest(session_handle=driver.handle, create_worker_session_called=True)
    )
    return Registered(driver, Signature(), {PS: response.graph_handle})


async def send(registered: Registered, step_id: int, key: str, *values: float) -> None:
    request = registered.request(PS, step_id)
    for value in values:
        request.send.add(name=key).tensor.CopyFrom(encode_tensor(np.float32(value)))
    # A mapping cannot hold a key twice, so each value comes by a run of its own.
    for named in request.send:
        one = registered.request(PS, step_id)
        one.send.append(named)
        await registered.driver.workers[PS].RunGraph(one)


# ---- steps


async def test_a_step_crosses_two_workers_again_and_again(addresses):
    async with Driver(addresses) as driver:
        step = await across(driver)
        assert set(step.handles) == {PS, WORKER}
        for x in (1.0, 2.0, 3.0):
            assert await step.run({"x:0": np.float32(x)}) == [2 * x + 1]


async def test_several_steps_of_one_graph_run_at_once(addresses):
    async with Driver(addresses) as driver:
        step = await across(driver)
        found = await asyncio.gather(*(step.run({"x:0": np.float32(x)}) for x in range(20)))
        assert found == [[2 * x + 1] for x in range(20)]


async def test_the_legacy_session_needs_no_creation(addresses):
    async with Driver(addresses, handle="") as driver:
        step = await across(driver)
        assert await step.run({"x:0": np.float32(5)}) == [11]


async def test_an_op_that_fails_names_itself_and_its_device_and_ends_both_parts(addresses):
    graph = Graph()
    with graph.as_default():
        x = placeholder(np.float32, None, name="x")
        with graph.device("/job:ps"):
            bad = call("MatMul", x, constant(np.ones([3, 3], np.float32)), name="bad").outputs[0]
        with graph.device("/job:worker"):
            call("Identity", bad, name="y")
    async with Driver(addresses) as driver:
        step = await driver.register(graph, ACROSS)
        feeds = {"x:0": np.ones([2, 2], np.float32)}
        found = await asyncio.gather(
            step.start(WORKER, 7, feeds, ["y:0"]), step.start(PS, 7), return_exceptions=True
        )
        assert [type(error) for error in found] == [errors.InvalidArgumentError] * 2
        at_worker, at_ps = found
        assert "'bad'" in at_ps.message
        assert PS in at_ps.message
        assert not is_derived(at_ps)
        assert is_derived(at_worker)
        await step.clean_up(7)
        with pytest.raises(errors.InvalidArgumentError):
            await step.run(feeds)
        (y,) = await step.run({"x:0": np.ones([1, 3], np.float32)})
        assert y.tolist() == [[3, 3, 3]]


async def test_an_error_goes_into_the_body_when_that_is_asked_for(addresses):
    async with Driver(addresses) as driver:
        step = await across(driver)
        step.handles[PS] = "beef"
        response = await step.start(PS, 7, store_errors_in_response_body=True)
        assert response.status_code == errors.ABORTED
        assert "'beef'" in response.status_error_message
        with pytest.raises(errors.AbortedError, match="'beef'"):
            await step.start(PS, 7)


async def test_an_unknown_session_may_be_one_from_before_a_restart(addresses):
    async with Driver(addresses) as driver:
        step = await across(driver)
        driver.handle = "elsewhere"
        with pytest.raises(errors.AbortedError, match="'elsewhere'") as caught:
            await step.start(PS, 7)
        assert is_possibly_restarted(caught.value)


async def test_a_repeated_request_is_refused(addresses):
    async with Driver(addresses) as driver:
        step = await sending(driver, ps_key(driver, "t"))
        await step.start(PS, 7, request_id=11)
        with pytest.raises(errors.AbortedError, match="11"):
            await step.start(PS, 7, request_id=11)
        await step.start(PS, 7)
        await step.start(PS, 7)


async def test_cancelling_a_run_cancels_its_step_at_once_and_leaves_the_worker_usable(addresses):
    async with Driver(addresses) as driver:
        step = await across(driver)
        run = asyncio.ensure_future(step.start(WORKER, 7, {}, ["y:0"]))  # x is never fed
        await until_in_flight(driver, WORKER, "RunGraph", 1)
        run.cancel()
        await until_in_flight(driver, WORKER, "RunGraph", 0)
        with pytest.raises(asyncio.CancelledError):
            await run
        await step.clean_up(7)
        assert await step.run({"x:0": np.float32(1)}) == [3]


async def test_a_waiting_receiver_learns_that_the_step_was_cancelled(addresses):
    async with Driver(addresses) as driver:
        step = await across(driver)
        run = asyncio.ensure_future(step.start(PS, 7))  # waits for x of the worker
        await until_in_flight(driver, WORKER, "RecvTensor", 1)
        wait = asyncio.ensure_future(receive(driver, ps_key(driver, "never"), 7))
        await until_in_flight(driver, PS, "RecvTensor", 1)
        run.cancel()
        with pytest.raises(errors.CancelledError) as caught:
            await wait
        assert is_derived(caught.value)
        await until_in_flight(driver, WORKER, "RecvTensor", 0)
        await asyncio.wait([run])


async def test_statistics_and_partition_graphs_come_when_asked_for(addresses):
    async with Driver(addresses) as driver:
        step = await across(driver)
        options = pb.ExecutorOpts(record_timeline=True, record_partition_graphs=True)
        responses = await asyncio.gather(
            step.start(WORKER, 7, {"x:0": np.float32(1)}, ["y:0"], exec_opts=options),
            step.start(PS, 7),
        )
        (devices,) = responses[0].step_stats.dev_stats
        assert devices.device == f"{WORKER}/device:CPU:0"
        assert "y" in {stats.node_name for stats in devices.node_stats}
        (graph_pb,) = responses[0].partition_graph
        assert {"y", "_recv_x_0", "_send_y_0"} <= {node.name for node in graph_pb.node}
        assert responses[0].HasField("cost_graph")
        assert not responses[1].HasField("step_stats")


# ---- keys of a run


async def test_a_value_can_only_be_sent_from_the_worker_itself(addresses):
    async with Driver(addresses) as driver:
        step = await sending(driver, "")
        elsewhere = driver.key("x:0")  # a key of the worker's
        with pytest.raises(errors.InvalidArgumentError, match="not a device of"):
            await send(step, 7, elsewhere, 1.0)
        with pytest.raises(errors.InvalidArgumentError, match="5: source device"):
            await send(step, 7, "a;b", 1.0)
        request = step.request(PS, 7, recv_key=["a;b"])
        with pytest.raises(errors.InternalError, match="recv_key"):
            await driver.workers[PS].RunGraph(request)


# ---- tensors


async def test_a_receiver_may_come_before_the_step(addresses):
    async with Driver(addresses) as driver:
        key = ps_key(driver, "t")
        wait = asyncio.ensure_future(receive(driver, key, 7))
        await until_in_flight(driver, PS, "RecvTensor", 1)
        step = await sending(driver, key)
        await send(step, 7, key, 4.0)
        response = await wait
        assert response.value == 4
        assert response.send_start_us > 0


async def test_one_value_answers_one_call_in_the_order_of_the_calls(addresses):
    async with Driver(addresses) as driver:
        key = ps_key(driver, "t")
        first = asyncio.ensure_future(receive(driver, key, 7))
        await until_in_flight(driver, PS, "RecvTensor", 1)
        second = asyncio.ensure_future(receive(driver, key, 7))
        await until_in_flight(driver, PS, "RecvTensor", 2)
        step = await sending(driver, key)
        await send(step, 7, key, 1.0)
        assert (await first).value == 1
        assert not second.done()
        await send(step, 7, key, 2.0)
        assert (await second).value == 2


async def test_a_cancelled_receiver_takes_nothing(addresses):
    async with Driver(addresses) as driver:
        key = ps_key(driver, "t")
        wait = asyncio.ensure_future(receive(driver, key, 7))
        await until_in_flight(driver, PS, "RecvTensor", 1)
        wait.cancel()
        await until_in_flight(driver, PS, "RecvTensor", 0)
        step = await sending(driver, key)
        await send(step, 7, key, 3.0)
        assert (await receive(driver, key, 7)).value == 3


async def test_after_clean_up_a_value_is_gone_and_the_number_is_new(addresses):
    async with Driver(addresses) as driver:
        key = ps_key(driver, "t")
        step = await sending(driver, key)
        await send(step, 7, key, 1.0)
        await step.clean_up(7)
        wait = asyncio.ensure_future(receive(driver, key, 7))
        await until_in_flight(driver, PS, "RecvTensor", 1)
        await step.clean_up(7)  # the step has not started since, so the wait goes on
        await send(step, 7, key, 2.0)
        assert (await wait).value == 2


async def test_clean_up_fails_what_still_runs_and_waits(addresses):
    async with Driver(addresses) as driver:
        step = await across(driver)
        run = asyncio.ensure_future(step.start(PS, 7))
        await until_in_flight(driver, WORKER, "RecvTensor", 1)
        wait = asyncio.ensure_future(receive(driver, ps_key(driver, "never"), 7))
        await until_in_flight(driver, PS, "RecvTensor", 1)
        await driver.workers[PS].CleanupGraph(pb.CleanupGraphRequest(step_id=7))
        with pytest.raises(errors.AbortedError):
            await run
        with pytest.raises(errors.AbortedError) as caught:
            await wait
        assert is_derived(caught.value)


async def test_keys_that_this_worker_cannot_serve_are_refused(addresses):
    async with Driver(addresses) as driver:
        key = RendezvousKey.parse(ps_key(driver, "t"))
        with pytest.raises(errors.InvalidArgumentError, match="semicolons"):
            await receive(driver, "nonsense", 7)
        gpu = key.format().replace("CPU:0", "GPU:0", 1)
        with pytest.raises(errors.InvalidArgumentError, match="no device '/device:GPU:0'"):
            await receive(driver, gpu, 7)
        other_life = RendezvousKey(key.src_device, key.src_incarnation ^ 1, key.dst_device, "t")
        with pytest.raises(errors.AbortedError, match="restarted") as caught:
            await receive(driver, other_life.format(), 7)
        assert is_possibly_restarted(caught.value)
        step = await sending(driver, "")
        await step.start(PS, 7)
        other_task = key.format().replace(PS, WORKER, 1)
        with pytest.raises(errors.InvalidArgumentError, match="made by /job:worker"):
            await receive(driver, other_task, 7)
        await send(step, 8, key.format(), 1.0)
        await receive(driver, key.format(), 8, request_id=5)
        with pytest.raises(errors.AbortedError, match="seen before"):
            await receive(driver, key.format(), 8, request_id=5)
