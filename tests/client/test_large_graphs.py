"""How work grows with the graph: counted in calls of functions, which no busy machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster
from tideflow.runtime.loop import run_sync


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


class Calls:
    """Counts the Python functions called in this thread and on the event loop."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Calls:
        run_sync(self._watch(self._note))
        sys.setprofile(self._note)
        return self

    def __exit__(self, *args: Any) -> None:
        sys.setprofile(None)
        run_sync(self._watch(None))

    def _note(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            self.count += 1

    async def _watch(self, profile: Any) -> None:
        sys.setprofile(profile)


def step_of_a_small_part(nodes: int, target: str) -> tuple[Callable[[], Any], tf.Session]:
    """Return a step that needs ten nodes of a graph of so many."""
    x = tf.placeholder(tf.float32, [])
    needed = x
    for _ in range(4):
        needed = tf.tanh(needed) * x
    with tf.device("/cpu:0"):
        for _ in range(nodes // 10):
            other = x
            for _ in range(10):
                other = tf.negative(other)
    session = tf.Session(target)
    return lambda: session.run(needed, {x: 0.5}), session


def calls_of_a_step(nodes: int, target: str) -> int:
    with tf.Graph().as_default():
        step, session = step_of_a_small_part(nodes, target)
        with session:
            for _ in range(10):
                step()
            counts = []
            for _ in range(9):
                with Calls() as calls:
                    step()
                counts.append(calls.count)
            return min(counts)


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_step_costs_the_same_however_large_the_graph_around_it_is(
    make_cluster: Callable[..., LocalCluster], is_remote: bool
) -> None:
    target = make_cluster({"worker": 1}).target("worker", 0) if is_remote else ""
    small, large = (calls_of_a_step(nodes, target) for nodes in (10, 20_000))
    # What happens on the loop by the way may differ a little.
    assert large <= 1.1 * small + 20


def calls_of_gradients(ops: int) -> int:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        z = x
        for _ in range(ops // 2):
            z = tf.tanh(z) * x
        with Calls() as calls:
            tf.gradients(z, [x])
        return calls.count


def test_gradients_of_a_chain_are_linear_in_its_length() -> None:
    calls_of_gradients(10)
    short, long = calls_of_gradients(200), calls_of_gradients(1600)
    assert long < 8.5 * short


def test_a_graph_that_grows_by_a_node_sends_a_node(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    target = make_cluster({"worker": 1}).target("worker", 0)
    with tf.Session(target) as session:
        wide = [tf.negative(tf.constant(float(i))) for i in range(2000)]
        session.run(wide[0])
        with Calls() as calls:
            session.run(wide[1])
        known = calls.count
        more = tf.negative(wide[2])
        with Calls() as calls:
            session.run(more)
    assert calls.count < known + 500
