"""Loops that wait for what others do keep nobody from doing it, however many they are."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster
from tideflow.blocking import DATA, KERNELS

Make = Callable[..., LocalCluster]
IN_TIME = tf.RunOptions(timeout_in_ms=60_000)


def straight(go: Any) -> Any:
    return tf.while_loop(lambda i: tf.equal(go, 0), lambda i: i + 1, [0])


def with_a_branch_that_waits(go: Any) -> Any:
    queue = tf.FIFOQueue(1, tf.int32, [])

    def body(i: Any) -> Any:
        return tf.cond(i < 0, queue.dequeue, lambda: i + 1)

    return tf.while_loop(lambda i: tf.equal(go, 0), body, [0])


def in_a_dataset(go: Any) -> Any:
    rows = tf.data.Dataset.from_tensors(0).map(lambda _: straight(go))
    return rows.reduce(0, lambda total, x: total + x)


@pytest.mark.parametrize("loop", [straight, with_a_branch_that_waits, in_a_dataset])
def test_more_loops_that_poll_than_threads(make_cluster: Make, loop: Callable[[Any], Any]) -> None:
    count = max(KERNELS.size, DATA.size) + 6
    cluster = make_cluster({"worker": 1})
    with tf.Graph().as_default(), tf.Session(cluster.target("worker")) as session:
        go = tf.get_variable("go", initializer=0, use_resource=True)
        begun = tf.get_variable("begun", initializer=0, use_resource=True)
        with tf.control_dependencies([begun.assign_add(1)]):
            polls = loop(go)
        reading, starting = begun.read_value(), go.assign(1)
        session.run(tf.global_variables_initializer())
        with concurrent.futures.ThreadPoolExecutor(count) as users:
            runs = [users.submit(session.run, polls) for _ in range(count)]
            try:
                while session.run(reading, options=IN_TIME) < count:
                    pass
            finally:
                session.run(starting.op, options=IN_TIME)
            assert len([run.result() for run in runs]) == count
