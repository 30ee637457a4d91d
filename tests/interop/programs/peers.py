"""Programs that lose a task in the middle of their work; the test restarts its process."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from typing import Any

from programs.registry import Cluster, add_program

_kept: dict[str, Any] = {}


def _loses_a_task_in_mid_step(tf: Any, at: Cluster) -> Any:
    """Block a step on the ps, end the ps, and keep the session for the program below."""
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name="never")
        blocked = queue.dequeue()
        v = tf.get_variable("v", initializer=1.0, use_resource=True)
    with tf.device("/job:worker/task:1"):
        ready = tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name="ready")
        put, wait = ready.enqueue(1.0), ready.dequeue()
        with tf.control_dependencies([put]):
            follows = blocked + 1
        alone = tf.constant(1.0) + 1
    session = at.session()
    session.run(v.initializer)
    found: list[Any] = [session.run(v)]
    thread = threading.Thread(
        target=lambda: found.append(at.attempt(lambda: session.run(follows))["error"])
    )
    with at.session("worker:1") as other:
        thread.start()
        other.run(wait)
        os.kill(int(at.targets["pid of ps:0"]), signal.SIGKILL)
        thread.join(20)
        found.append(at.attempt(lambda: session.run(v))["error"])
        # The session above is failed a second after one of its tasks has gone (docs/recovery.md).
        found.append(other.run(alone))
    _kept.update(session=session, v=v, graph=tf.get_default_graph())
    return found


def _meets_a_restarted_task(tf: Any, at: Cluster) -> Any:
    """Go on with the session kept above, and then with a new one."""
    session, v = _kept["session"], _kept["v"]
    found = [at.attempt(lambda: session.run(v))["error"]]
    session.close()
    with _kept["graph"].as_default(), at.session() as session:
        found.append(at.attempt(lambda: session.run(v))["error"])
        session.run(v.initializer)
        return [*found, session.run(v)]


def _trains_over_a_restart(tf: Any, at: Cluster) -> Any:
    """End the ps between steps; the monitored session goes on from its checkpoint."""
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", initializer=[4.0, -2.0], use_resource=True)
    loss = tf.reduce_sum(tf.square(w))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as directory:
        with tf.train.MonitoredTrainingSession(
            master=at.targets["worker:0"],
            checkpoint_dir=directory,
            save_checkpoint_steps=1,
            save_summaries_steps=None,
            save_summaries_secs=None,
            log_step_count_steps=None,
            hooks=[tf.train.StopAtStepHook(last_step=6)],
            config=tf.ConfigProto(operation_timeout_in_ms=10_000),
        ) as session:
            while not session.should_stop():
                found.append(session.run([train, loss])[1])
                if len(found) == 3:
                    os.kill(int(at.targets["pid of ps:0"]), signal.SIGKILL)
    return found


add_program("loses_a_task_in_mid_step", _loses_a_task_in_mid_step, ())
add_program("meets_a_restarted_task", _meets_a_restarted_task, ())
add_program("trains_over_a_restart", _trains_over_a_restart, ())
