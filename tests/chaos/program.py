"""What each task of a chaos run does: it serves variables, or trains until it has made its steps.

TF_CONFIG says which task it is; CHAOS says where this task is and through which relays it reaches
the others, and the rest.  Workers tell of each step, and of each session, in a line of JSON.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import numpy as np

import tideflow.v1 as tf

SIZE, BATCH = 8, 16
TRUTH = np.linspace(-1.0, 1.0, SIZE, dtype=np.float32)
COUNTER, BULK = "counter", "bulk"
# Large enough to pass through shared memory.
BULK_SIZE = 100_000
# What a step of a larger model would take.
_STEP_S = 0.004


def tell(**facts: Any) -> None:
    """Tell the run something; t is the same clock in all processes."""
    # In one piece: what other threads log goes to the same pipe.
    os.write(1, f"{json.dumps({'t': time.monotonic(), **facts})}\n".encode())


class TellSessions(tf.train.SessionRunHook):
    """Tells of each session that is made, and in which step it begins."""

    def __init__(self, step: Any) -> None:
        self._step = step

    def after_create_session(self, session: Any, coord: Any) -> None:
        tell(begins_at=int(session.run(self._step)))


class StopWhenAllowed(tf.train.SessionRunHook):
    """Stops after a step, once a file is there: not before all has gone wrong that is to."""

    def __init__(self, step: Any, last_step: int, may_end: str) -> None:
        self._step = step
        self._last_step = last_step
        self._may_end = may_end

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results >= self._last_step and os.path.exists(self._may_end):
            run_context.request_stop()


def train(server: Any, index: int, chaos: dict[str, Any]) -> None:
    own = f"/job:worker/task:{index}"
    with tf.device(tf.train.replica_device_setter(worker_device=own, cluster=server.cluster_spec)):
        step = tf.train.get_or_create_global_step()
        counter = tf.get_variable(COUNTER, initializer=np.int64(0), trainable=False, dtype=tf.int64)
        weights = tf.get_variable("weights", initializer=np.zeros([SIZE, 1], np.float32))
        x = tf.placeholder(tf.float32, [BATCH, SIZE])
        y = tf.placeholder(tf.float32, [BATCH, 1])
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - y))
        updates = [tf.train.GradientDescentOptimizer(0.05).minimize(loss)]
        if chaos["has_bulk"]:
            bulk = tf.get_variable(
                BULK, initializer=np.zeros([BULK_SIZE], np.float32), trainable=False
            )
            updates.append(tf.assign_add(bulk, tf.fill([BULK_SIZE], tf.sign(tf.reduce_sum(x * x)))))
            loss = loss + 0.0 * tf.reduce_mean(bulk)
        with tf.control_dependencies(updates):
            counted = tf.group(tf.assign_add(step, 1), tf.assign_add(counter, 1))
    with tf.train.MonitoredTrainingSession(
        server.target,
        is_chief=index == 0,
        checkpoint_dir=chaos["checkpoints"],
        hooks=[StopWhenAllowed(step, chaos["steps"], chaos["may_end"]), TellSessions(step)],
        config=tf.ConfigProto(device_filters=["/job:ps", own]),
        save_checkpoint_steps=20,
        save_summaries_steps=None,
        log_step_count_steps=None,
        stop_grace_period_secs=5,
        max_wait_secs=60,
    ) as session:
        order = np.random.RandomState(os.getpid())
        while not session.should_stop():
            batch = order.standard_normal([BATCH, SIZE]).astype(np.float32)
            feeds = {x: batch, y: batch @ TRUTH[:, None]}
            _, found, at = session.run([counted, loss, step], feeds)
            tell(step=int(at), loss=float(found))
            time.sleep(_STEP_S)


def main() -> None:
    place = json.loads(os.environ["TF_CONFIG"])
    chaos = json.loads(os.environ["CHAOS"])
    job, index = place["task"]["type"], int(place["task"]["index"])
    server = tf.train.Server(chaos["clusters"][f"{job}:{index}"], job, index)
    if job == "ps":
        server.join()
    else:
        train(server, index, chaos)


if __name__ == "__main__":
    main()
