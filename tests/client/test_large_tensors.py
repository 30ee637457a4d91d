"""Tensors between tasks, of sizes on both sides of what is pushed, in step after step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster

MIB = 1 << 20


@pytest.mark.parametrize("size", [4, 64 << 10, 4 * MIB, 4 * MIB + 4, 9 * MIB])
def test_a_tensor_of_any_size_reaches_the_worker(
    make_cluster: Callable[..., LocalCluster], size: int
) -> None:
    target = make_cluster({"ps": 1, "worker": 1}).target("worker", 0)
    config = tf.ConfigProto(operation_timeout_in_ms=20_000)
    with tf.Graph().as_default(), tf.Session(target, config=config) as session:
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable("v", initializer=tf.ones([size // 4]))
        with tf.device("/job:worker/task:0"):
            total = tf.reduce_sum(v)
        session.run(tf.global_variables_initializer())
        # The first steps come before the two know each other.
        assert {session.run(total) for _ in range(5)} == {size // 4}
