"""Work that is long or blocks leaves the loop to others; the monitor of all tests watches it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster
from tideflow.ops.control_flow.functional import if_op
from tideflow.runtime.loop import run_sync
from tideflow.wire import errors
from tideflow.wire import messages as pb

Make = Callable[..., LocalCluster]
_MANY = 20_000_000


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def session(make_cluster: Make) -> Iterator[tf.Session]:
    cluster = make_cluster({"worker": 1})
    with tf.Session(cluster.target("worker")) as made:
        yield made


def test_the_first_run_of_a_large_op(session: tf.Session) -> None:
    assert session.run(tf.reduce_max(tf.random_uniform([_MANY]))) <= 1.0


def test_a_run_on_larger_inputs_than_before(session: tf.Session) -> None:
    size = tf.placeholder(tf.int32, [1])
    largest = tf.reduce_max(tf.random_uniform(size))
    for count in (1, 2, 3, 4, 5, _MANY):
        assert session.run(largest, {size: [count]}) <= 1.0


def test_a_run_that_a_larger_number_makes_larger(session: tf.Session) -> None:
    size = tf.placeholder(tf.float32, [])
    largest = tf.reduce_max(tf.fill([tf.cast(size, tf.int32)], 1.0))
    for count in (*range(1, 20), 2 * _MANY):
        assert session.run(largest, {size: count}) <= 1.0


@pytest.mark.parametrize("number", [np.nan, np.inf, -1e30, 2.0**60])
def test_a_number_that_is_no_size_makes_no_other_one_seem_small(
    session: tf.Session, number: float
) -> None:
    size = tf.placeholder(tf.float32, [])
    count = tf.cast(tf.where(tf.abs(size) < 1e8, size, tf.zeros_like(size)), tf.int32)
    largest = tf.reduce_max(tf.fill([count + 1], 1.0))
    for given in (*range(1, 20), number, 2 * _MANY):
        assert session.run(largest, {size: given}) == 1.0


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_run_that_a_variable_makes_larger(session: tf.Session, use_resource: bool) -> None:
    size = tf.get_variable("size", initializer=1, use_resource=use_resource)
    given = tf.placeholder(tf.int32, [])
    change = tf.assign(size, given).op
    drawn = tf.reduce_max(tf.random_uniform([size]))
    filled = tf.reduce_max(tf.fill([size + 1], 1.0))
    session.run(size.initializer)
    for count in (*range(1, 10), _MANY):
        session.run(change, {given: count})
        assert session.run([drawn, filled])[1] == 1.0


def test_a_branch_that_takes_long(session: tf.Session) -> None:
    x = tf.placeholder(tf.float32, [])

    def long() -> Any:
        made = tf.random_uniform([_MANY])
        return tf.reduce_max(tf.sqrt(made))

    found = if_op(x > 0.0, long, lambda: x)
    assert session.run(found, {x: 1.0}) <= 1.0


def test_a_v1_loop_that_takes_long(session: tf.Session) -> None:
    def body(i: Any, total: Any) -> Any:
        return i + 1, total + tf.reduce_max(tf.random_uniform([_MANY // 4]))

    total = tf.while_loop(lambda i, _: i < 4, body, [0, 0.0])[1]
    assert 0.0 < session.run(total) <= 4.0


def test_a_v1_loop_that_takes_what_another_task_sends(make_cluster: Make) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    with tf.device("/job:ps/task:0"):
        scale = tf.sqrt(tf.placeholder_with_default(4.0, []))

    def body(i: Any, total: Any) -> Any:
        return i + 1, total + scale * tf.reduce_max(tf.random_uniform([_MANY // 4]))

    with tf.device("/job:worker/task:0"):
        total = tf.while_loop(lambda i, _: i < 4, body, [0, 0.0])[1]
    with tf.Session(cluster.target("worker")) as session:
        assert 0.0 < session.run(total) <= 8.0


def test_a_tensor_that_a_message_fills_with_one_value(make_cluster: Make) -> None:
    cluster = make_cluster({"worker": 1})
    master: Any = cluster.server("worker").master
    x = tf.placeholder(tf.float32, [None], name="x")
    tf.size(x, name="size")
    graph_pb = tf.get_default_graph().as_graph_def()

    async def run() -> Any:
        created = await master.CreateSession(pb.CreateSessionRequest(graph_def=graph_pb))
        step = pb.RunStepRequest(session_handle=created.session_handle, fetch=["size:0"])
        feed = step.feed.add(name="x:0").tensor
        feed.dtype = 1
        feed.tensor_shape.dim.add(size=_MANY * 2)
        feed.float_val.append(1.0)
        for _ in range(3):
            found = await master.RunStep(step)
        await master.CloseSession(pb.CloseSessionRequest(session_handle=created.session_handle))
        return found

    assert run_sync(run()).tensor[0].tensor.int_val[:] in ([_MANY * 2], [])


@pytest.mark.parametrize(("op", "attr"), [("Unpack", "num"), ("Pack", "N")])
def test_a_node_that_says_it_has_milliards_of_tensors(
    make_cluster: Make, op: str, attr: str
) -> None:
    cluster = make_cluster({"worker": 1})
    graph_pb = tf.constant([1.0], name="c").graph.as_graph_def()
    node = graph_pb.node.add(name="n", op=op, input=["c"])
    node.attr["T"].type = 1
    node.attr[attr].i = 2**31 - 1
    node.attr["axis"].i = 0
    use = graph_pb.node.add(name="use", op="Identity", input=["n:5"])
    use.attr["T"].type = 1
    master: Any = cluster.server("worker").master
    with pytest.raises(errors.InvalidArgumentError):
        run_sync(master.CreateSession(pb.CreateSessionRequest(graph_def=graph_pb)))


def test_python_functions_that_wait_for_each_other(session: tf.Session) -> None:
    told = threading.Event()

    def wait() -> np.float32:
        assert told.wait(30)
        return np.float32(1.0)

    def tell() -> np.float32:
        told.set()
        return np.float32(2.0)

    waits = tf.py_func(wait, [], tf.float32)
    tells = tf.py_func(tell, [], tf.float32)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(session.run(waits)))
    waiting.start()
    assert session.run(tells) == 2.0
    waiting.join(30)
    assert found == [1.0]


def test_a_python_function_that_calls_what_needs_the_loop(session: tf.Session) -> None:
    async def answer() -> np.float32:
        await asyncio.sleep(0)
        return np.float32(3.0)

    x = tf.placeholder(tf.float32, [])
    called = tf.py_func(lambda value: value + run_sync(answer()), [x], tf.float32)
    for _ in range(5):
        assert session.run(called, {x: 1.0}) == 4.0
