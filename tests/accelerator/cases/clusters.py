"""The devices of a cluster's tasks."""

from __future__ import annotations

import numpy as np

import tideflow.v1 as tf
from accelerator.looks import ROWS


def test_a_cluster_has_the_gpus_of_its_tasks(cluster):
    with tf.device("/job:ps/task:0/device:GPU:1"):
        weights = tf.get_variable("weights", initializer=ROWS, use_resource=True)
    with tf.device("/job:worker/task:0/device:GPU:0"):
        x = tf.placeholder(tf.float32, [4, 3])
        loss = tf.reduce_sum(tf.square(weights - x))
        train = tf.train.GradientDescentOptimizer(0.25).minimize(loss)
    with tf.device("/job:worker/task:0/device:CPU:0"):
        doubled = loss * 2.0
    with tf.Session(cluster.target("worker", 0)) as session:
        names = [d.name for d in session.list_devices()]
        assert names[:3] == [
            f"/job:worker/replica:0/task:0/device:{d}" for d in ("CPU:0", "GPU:0", "GPU:1")
        ]
        assert "/job:ps/replica:0/task:0/device:GPU:1" in names
        session.run(tf.global_variables_initializer())
        zeros = np.zeros((4, 3), np.float32)
        for i in range(3):
            found = session.run([loss, doubled, train], {x: zeros})
            np.testing.assert_allclose(found[0], (ROWS**2).sum() / 4**i, rtol=1e-5)
            np.testing.assert_allclose(found[1], 2 * found[0])
        np.testing.assert_allclose(session.run(weights), ROWS / 8)
