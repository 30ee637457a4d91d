"""Plans that run: errors that name their node, waits that end, loops and branches."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.graph.node import Node
from tideflow.graph.op_def import get_op_def
from tideflow.runtime.binding import Binder
from tideflow.runtime.context import KernelState, Step
from tideflow.runtime.eager_start import Resumed, cancel_rest
from tideflow.runtime.executor import Executor
from tideflow.runtime.rendezvous import Rendezvous
from tideflow.runtime.resources import ResourceManager
from tideflow.wire import dtypes, errors


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("runs", [1, 5])
def test_a_failure_names_its_node_before_and_after_code_is_generated(graph, runs):
    x = tf.placeholder(tf.float32, [None], name="x")
    y = tf.reshape(tf.exp(x), [2], name="two")
    z = tf.sqrt(y)
    with tf.Session() as session:
        for _ in range(runs):
            session.run(z, {x: [1, 2]})
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(z, {x: [1, 2, 3]})
    assert caught.value.node == "two"


def test_results_are_the_same_before_and_after_code_is_generated(graph):
    x = tf.placeholder(tf.float32, [3])
    parts = tf.split(tf.cumsum(x) * 2.0, 3)
    y = tf.concat([parts[2], parts[0]], 0) + tf.reduce_sum(parts[1])
    with tf.Session() as session:
        found = [session.run(y, {x: [1, 2, 3]}).tolist() for _ in range(8)]
    assert found == [[18.0, 8.0]] * 8


def test_what_does_not_wait_runs_before_what_does(graph):
    queue = tf.FIFOQueue(1, tf.float32)
    v = tf.get_variable("v", initializer=0.0)
    before = v.assign(7.0, read_value=False)
    taken = queue.dequeue()
    put = queue.enqueue(1.0)
    with tf.Session() as session:
        session.run(v.initializer)
        found = []
        step = threading.Thread(target=lambda: found.append(session.run([taken, before])))
        step.start()
        while session.run(v) != 7.0:
            threading.Event().wait(0.001)
        assert step.is_alive()
        session.run(put)
        step.join(5)
    assert found == [[1.0, None]]


def test_the_first_failure_ends_the_waits_of_its_step(graph):
    queue = tf.FIFOQueue(1, tf.float32)
    taken = queue.dequeue()
    x = tf.placeholder(tf.float32, [None])
    bad = tf.reshape(x, [7], name="bad")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
            session.run([taken, bad], {x: [1.0]})
        session.run(queue.enqueue(3.0))
        assert session.run(taken) == 3.0


def test_a_dead_fetch_is_refused(graph):
    pred = tf.placeholder(tf.bool, [])
    inside = []

    def branch():
        inside.append(tf.identity(tf.constant(1.0) + 1.0, name="inside"))
        return inside[0]

    y = tf.cond(pred, branch, lambda: tf.constant(0.0))
    with tf.Session() as session:
        assert session.run(y, {pred: True}) == 2.0
        assert session.run(inside[0], {pred: True}) == 2.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="dead"):
            session.run(inside[0], {pred: False})
        # A dead target is no error.
        session.run(inside[0].op, {pred: False})


def test_nested_loops_and_branches_agree_with_python(graph):
    n = tf.placeholder(tf.int32, [])

    def outer(i, total):
        def inner(j, part):
            odd = tf.equal(j % 2, 1)
            return j + 1, part + tf.cond(odd, lambda: i * j, lambda: j)

        _, part = tf.while_loop(lambda j, part: j < i, inner, [0, 0])
        return i + 1, total + part

    _, total = tf.while_loop(lambda i, total: i < n, outer, [0, 0])

    def expected(count):
        return sum((i * j if j % 2 else j) for i in range(count) for j in range(i))

    with tf.Session() as session:
        assert [int(session.run(total, {n: k})) for k in (0, 1, 5, 12)] == [
            expected(k) for k in (0, 1, 5, 12)
        ]


@pytest.mark.parametrize("parallel", [1, 3, 32])
def test_a_loop_gives_the_same_whatever_runs_in_parallel(graph, parallel):
    end = tf.while_loop(
        lambda i, a, b: i < 20,
        lambda i, a, b: (i + 1, a + tf.cast(i, tf.float32), b * 2.0 - a),
        [0, 0.0, 1.0],
        parallel_iterations=parallel,
    )
    with tf.Session() as session:
        found = session.run(end)
    a, b = 0.0, 1.0
    for i in range(20):
        a, b = a + i, b * 2.0 - a
    assert int(found[0]) == 20
    np.testing.assert_allclose([found[1], found[2]], [a, b], rtol=1e-6)


@pytest.mark.parametrize("pred", [True, False])
def test_a_loop_in_an_untaken_branch_ends(graph, pred):
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(
        p,
        lambda: tf.while_loop(lambda i: i < 5, lambda i: i + 1, [0]),
        lambda: tf.constant(-1),
    )
    with tf.Session() as session:
        assert int(session.run(y, {p: pred})) == (5 if pred else -1)


def test_a_loop_across_devices_agrees_with_one_device(graph):
    def body(i, a):
        with tf.device("/cpu:1"):
            b = a * 2.0
        with tf.device("/cpu:0"):
            return i + 1, b + 1.0

    end = tf.while_loop(lambda i, a: i < 10, body, [0, 1.0])
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        assert float(session.run(end)[1]) == 2047.0


async def test_a_coroutine_that_was_begun_by_hand_goes_on():
    future = asyncio.get_running_loop().create_future()

    async def work():
        first = await future
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return first + 1

    coro = work()
    waits_for = coro.send(None)

    async def rest():
        return await Resumed(coro, waits_for)

    task = asyncio.ensure_future(rest())
    await asyncio.sleep(0)
    future.set_result(41)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    assert await task == 42


async def test_a_begun_coroutine_whose_task_never_ran_cleans_up():
    cleaned = []
    waited_for = asyncio.get_running_loop().create_future()

    async def work():
        try:
            await waited_for
        except asyncio.CancelledError:
            cleaned.append(True)
            raise

    coro = work()
    cancel_rest(coro, coro.send(None))
    assert cleaned == [True]
    assert waited_for.cancelled()


RECEIVED = {
    "tensor_type": dtypes.float32,
    "send_device": "/device:CPU:1",
    "send_device_incarnation": 1,
    "recv_device": "/device:CPU:0",
    "client_terminated": False,
}


def meeting_key(name: str) -> str:
    return f"/device:CPU:1;0000000000000001;/device:CPU:0;{name};0:0"


def tanh_of_received(names: list[str]) -> Executor:
    """Return an executor that receives values, and fetches the tanh of each."""
    nodes = []
    for index, name in enumerate(names):
        received = Node(name, get_op_def("_Recv"), [], [], {**RECEIVED, "tensor_name": name})
        tanh = Node(f"tanh_{name}", get_op_def("Tanh"), [(received, 0)], [], {"T": dtypes.float32})
        sent = {key: value for key, value in RECEIVED.items() if key != "tensor_type"}
        sent |= {"T": dtypes.float32, "tensor_name": f"answer_{name}"}
        answer = Node(f"send_{name}", get_op_def("_Send"), [(tanh, 0)], [], sent)
        attrs = {"T": dtypes.float32, "index": index}
        nodes += [received, tanh, answer]
        nodes.append(Node(f"result_{name}", get_op_def("_Retval"), [(tanh, 0)], [], attrs))
    binder = Binder("/device:CPU:0", ResourceManager("/device:CPU:0", "localhost"), KernelState())
    return Executor(nodes, binder)


async def test_what_waits_for_a_value_runs_in_the_turn_that_brings_it():
    executor = tanh_of_received(["a", "b"])
    for _ in range(5):  # it is known to be short then
        before = Rendezvous()
        for name in ("a", "b"):
            before.put(meeting_key(name), np.float32(0.5))
        await executor.run_async(Step(1, before), [])
    meeting = Rendezvous()
    step = asyncio.ensure_future(executor.run_async(Step(1, meeting), []))
    await until(lambda: len(meeting.waiting) == 2)
    meeting.put(meeting_key("a"), np.float32(0.5))
    answer = meeting.take_nowait(meeting_key("answer_a"))
    assert answer is not None
    assert answer.value == np.tanh(np.float32(0.5))
    assert not step.done()
    meeting.put(meeting_key("b"), np.array(1.0, np.float32))
    assert await step == [np.tanh(np.float32(0.5)), np.tanh(np.float32(1.0))]


async def test_a_failure_in_the_turn_that_brings_a_value_is_the_runs_not_the_senders():
    meeting = Rendezvous()
    executor = tanh_of_received(["a", "b"])
    step = asyncio.ensure_future(executor.run_async(Step(1, meeting), []))
    await until(lambda: len(meeting.waiting) == 2)
    meeting.put(meeting_key("a"), "no number")
    with pytest.raises(errors.OpError, match="tanh_a"):
        await step
    # The other receive waits no more: what comes for it stays.
    meeting.put(meeting_key("b"), 2.0)
    assert meeting.take_nowait(meeting_key("b")) == (2.0, False)


async def test_an_aborted_step_ends_the_receives_of_a_run():
    meeting = Rendezvous()
    executor = tanh_of_received(["a", "b"])
    step = asyncio.ensure_future(executor.run_async(Step(1, meeting), []))
    await until(lambda: len(meeting.waiting) == 2)
    meeting.abort(errors.AbortedError("over"))
    with pytest.raises(errors.AbortedError, match="over"):
        await step


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)
