"""What a person gets to read for wrong programs on a cluster of real processes, which goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from cluster.servers import ServerProcess, make_spec
from tideflow.wire import errors

pytestmark = pytest.mark.processes

PS = "/job:ps/replica:0/task:0"
OTHER = "/job:worker/replica:0/task:1"


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """The master of worker 0 in a cluster of one ps and two workers."""
    spec = make_spec({"ps": 1, "worker": 2})
    tasks = [("ps", 0), ("worker", 0), ("worker", 1)]
    with ThreadPoolExecutor() as threads:
        started = list(threads.map(lambda task: ServerProcess(spec, *task), tasks))
    yield started[1].target
    for process in started:
        process.close()


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def run_unknown(session: tf.Session) -> None:
    session.run("nothing:0")


def feed_a_wrong_shape(session: tf.Session) -> None:
    session.run("sum:0", {"x:0": np.zeros([3, 3])})


def feed_a_wrong_type(session: tf.Session) -> None:
    session.run("sum:0", {"x:0": [["a", "b"]]})


def leave_a_placeholder_unfed(session: tf.Session) -> None:
    session.run("sum:0")


def read_an_uninitialised_variable(session: tf.Session) -> None:
    with tf.device("/job:ps"):
        weights = tf.Variable(np.zeros(2, np.float32), name="weights")
    with tf.device("/job:worker/task:1"):
        doubled = weights.read_value() * 2.0
    session.run(doubled)


def multiply_what_does_not_fit(session: tf.Session) -> None:
    left, right = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    with tf.device("/job:worker/task:1"):
        product = tf.matmul(left, right, name="product")
    session.run(product, {left: np.zeros([2, 3]), right: np.zeros([4, 5])})


def ask_for_a_missing_device(session: tf.Session) -> None:
    with tf.device("/job:worker/task:7"):
        misplaced = tf.negative(session.graph.get_tensor_by_name("x:0"), name="misplaced")
    session.run(misplaced)


def import_graph(session: tf.Session, *nodes: tf.NodeDef) -> None:
    tf.import_graph_def(tf.GraphDef(node=nodes), name="")
    session.run(tf.constant(1.0))


def import_an_unknown_op(session: tf.Session) -> None:
    import_graph(session, tf.NodeDef(name="strange", op="Wobble"))


def import_a_cycle(session: tf.Session) -> None:
    nodes = [tf.NodeDef(name=name, op="Neg", input=[source]) for name, source in ["pq", "qp"]]
    for node_pb in nodes:
        node_pb.attr["T"].type = tf.float32.as_datatype_enum
    import_graph(session, *nodes)


@pytest.mark.parametrize(
    ("mistake", "kind", "words"),
    [
        (run_unknown, ValueError, ["'nothing"]),
        (feed_a_wrong_shape, ValueError, ["x:0", "(2, 2)", "(3, 3)"]),
        (feed_a_wrong_type, ValueError, ["x:0", "float32"]),
        (leave_a_placeholder_unfed, errors.InvalidArgumentError, ["'x'", PS, "feed_dict"]),
        (
            read_an_uninitialised_variable,
            errors.FailedPreconditionError,
            ["'weights'", PS, "initializer"],
        ),
        (
            multiply_what_does_not_fit,
            errors.InvalidArgumentError,
            ["'product'", OTHER, "[2, 3]", "[4, 5]", "Made at", __file__],
        ),
        (
            ask_for_a_missing_device,
            errors.InvalidArgumentError,
            ["'misplaced'", "/job:worker/task:7", PS, OTHER],
        ),
        (import_an_unknown_op, (errors.OpError, ValueError), ["'Wobble'", "'strange'"]),
        (import_a_cycle, (errors.OpError, ValueError), ["cycle", "p", "q"]),
    ],
)
def test_a_mistake_is_explained_and_the_cluster_goes_on(
    target: str, mistake: Callable[[tf.Session], None], kind: Any, words: list[str]
) -> None:
    with tf.device("/job:ps"):
        x = tf.placeholder(tf.float32, [2, 2], name="x")
    with tf.device("/job:worker/task:1"):
        total = tf.reduce_sum(x, name="sum")
    with tf.Session(target) as session:
        assert session.run(total, {x: np.ones([2, 2])}) == 4.0
        with pytest.raises(kind) as caught:
            mistake(session)
        missing = [word for word in words if word not in str(caught.value)]
        assert not missing, str(caught.value)
        if mistake is not ask_for_a_missing_device:  # its node is in the session's graph for good
            assert session.run(total, {x: np.ones([2, 2])}) == 4.0
    with tf.Graph().as_default(), tf.Session(target) as another:
        with tf.device("/job:ps"):
            assert another.run(tf.constant(2.0) + 1.0) == 3.0
