"""Steps that were cancelled change nothing afterwards, and a graph's lock outlives its threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster
from real_time import eventually
from tideflow.graph.building import apply_op
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import same_as
from tideflow.runtime.loop import run_sync
from tideflow.wire import errors
from tideflow.wire import messages as pb

Make = Callable[..., LocalCluster]


class _Hold:
    """Lets kernels of the op begin and end when the test wants it."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.may_end = threading.Event()


_hold = _Hold()


@op("TestHold(x: float) -> y: float", shape=same_as(0), stateful=True)
def _hold_kernel(ctx: Any, x: Any) -> Any:
    """Take its time, as a large product does, and wait until the test lets it go."""
    sum(range(300_000))  # some milliseconds: it never counts as short
    _hold.started.set()
    _hold.may_end.wait()
    return x


@pytest.fixture(autouse=True)
def hold() -> Iterator[_Hold]:
    global _hold
    _hold = _Hold()
    yield _hold
    _hold.may_end.set()


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as made:
        yield made


def held(x: Any) -> Any:
    return apply_op("TestHold", x)


def by_function(x: Any) -> Any:
    return tf.py_func(lambda value: _hold_kernel(None, value), [x], tf.float32)


def in_loop(x: Any) -> Any:
    return tf.while_loop(lambda i, _: i < 1, lambda i, y: (i + 1, held(y)), [0, x])[1]


def in_branch(x: Any) -> Any:
    return tf.cond(x < 5.0, lambda: held(x), lambda: x)


@pytest.mark.parametrize("slow", [held, by_function, in_loop, in_branch])
@pytest.mark.parametrize("runs_before", [0, 5])
def test_a_step_whose_session_was_closed_changes_no_variable(
    make_cluster: Make, hold: _Hold, slow: Callable[[Any], Any], runs_before: int
) -> None:
    cluster = make_cluster({"worker": 1})
    x = tf.placeholder(tf.float32, [])
    v = tf.Variable(0.0, name="v", use_resource=True)
    step = v.assign_add(slow(x), read_value=False)
    session = tf.Session(cluster.target("worker"))
    session.run(v.initializer)
    hold.may_end.set()
    for _ in range(runs_before):
        session.run(step, {x: 1.0})
    hold.started.clear()
    hold.may_end.clear()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            session.run(step, {x: 1.0})
        except errors.OpError as error:
            failures.append(error)

    running = threading.Thread(target=run)
    running.start()
    assert hold.started.wait(30)
    closing = threading.Thread(target=session.close)
    closing.start()
    eventually(lambda: not cluster.server("worker").master.sessions)
    for _ in range(20):  # the cancellation goes from task to task
        run_sync(asyncio.sleep(0))
    hold.may_end.set()
    closing.join(30)
    running.join(30)
    assert isinstance(failures[0], errors.CancelledError), failures
    with tf.Session(cluster.target("worker")) as another:
        assert another.run(v) == runs_before


def large_graph(prefix: str, count: int = 4000) -> pb.GraphDef:
    with tf.Graph().as_default() as graph:
        x = tf.constant(1.0, name=f"{prefix}_0")
        for i in range(1, count):
            x = tf.identity(x, name=f"{prefix}_{i}")
        return graph.as_graph_def()


@pytest.mark.parametrize("turns", [1, 20])
async def test_an_extension_that_was_given_up_can_be_made_again(turns: int) -> None:
    cluster = await asyncio.to_thread(LocalCluster, {"worker": 1})
    try:
        master: Any = cluster.server("worker").master
        created = await master.CreateSession(pb.CreateSessionRequest(graph_def=large_graph("a", 2)))
        handle = created.session_handle
        request = pb.ExtendSessionRequest(
            # So large that it is not made within the turns, in which a thread may hold the lock of
            # the interpreter for 5 ms each.
            session_handle=handle,
            graph_def=large_graph("b", 20_000),
            current_graph_version=0,
        )
        for _ in range(3):
            extending = asyncio.ensure_future(master.ExtendSession(request))
            for _ in range(turns):
                await asyncio.sleep(0)
            extending.cancel()
            # A step of the same session waits for the graph meanwhile.
            step = pb.RunStepRequest(session_handle=handle, fetch=["a_1:0"])
            await master.RunStep(step)
            with pytest.raises(asyncio.CancelledError):
                await extending
        response = await master.ExtendSession(request)
        assert response.new_graph_version == 1
        step = pb.RunStepRequest(session_handle=handle, fetch=["b_19999:0"])
        assert (await master.RunStep(step)).tensor[0].name == "b_19999:0"
        await master.CloseSession(pb.CloseSessionRequest(session_handle=handle))
    finally:
        await asyncio.to_thread(cluster.stop)
