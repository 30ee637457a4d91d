"""What the real client builds around training: checkpoints, monitored sessions, summaries."""

from __future__ import annotations

import glob
import os
import tempfile
import threading
from typing import Any

import numpy as np

from programs.registry import Cluster, program


def _variable(tf: Any, at: Cluster, name: str, value: Any, use_resource: bool = True) -> Any:
    with tf.device("/job:ps/task:0"):
        return tf.get_variable(f"{at.name}/{name}", initializer=value, use_resource=use_resource)


@program(clients=["tensorflow"])
def saves_and_restores(tf: Any, at: Cluster) -> Any:
    """The task that owns a variable writes it; the client and other sessions read the files."""
    w = _variable(tf, at, "w", np.arange(6, dtype=np.float32).reshape(2, 3))
    old = _variable(tf, at, "old", np.float64([1, 2]), use_resource=False)
    with tf.device("/job:worker/task:1"):
        words = tf.get_variable(f"{at.name}/words", initializer=tf.constant(["a", "bcd"]))
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as directory:
        for sharded in (False, True):
            saver = tf.train.Saver([w, old, words], sharded=sharded, max_to_keep=2)
            with at.session() as session:
                session.run(tf.global_variables_initializer())
                session.run([w.assign_add(tf.ones([2, 3])), tf.assign(old, [3.0, 4.0])])
                path = saver.save(session, os.path.join(directory, f"model{sharded}"), 7)
                files = sorted(os.path.basename(one) for one in glob.glob(f"{path}.*"))
                found.append(files)
                session.run(tf.global_variables_initializer())
                saver.restore(session, path)
                found.append(session.run([w, old, words]))
            reader = tf.train.load_checkpoint(path)
            shapes = reader.get_variable_to_shape_map()
            found.append([shapes, [reader.get_tensor(name) for name in sorted(shapes)]])
        found.append(os.path.basename(tf.train.latest_checkpoint(directory)))
        missing = tf.train.Saver({"nobody": w})
        with at.session() as session:
            found.append(at.attempt(lambda: missing.restore(session, path))["error"])
    # Names of variables begin with the program's, which differs from run to run.
    return _renamed(found, at.name)


def _renamed(found: Any, name: str) -> Any:
    if isinstance(found, dict):
        return {_renamed(key, name): _renamed(value, name) for key, value in found.items()}
    if isinstance(found, list):
        return [_renamed(one, name) for one in found]
    return found.replace(name, "NAME") if isinstance(found, str) else found


@program(clients=["tensorflow"])
def a_monitored_session_goes_on_from_its_checkpoint(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
    w = _variable(tf, at, "w", np.float32([4, -2]))
    loss = tf.reduce_sum(tf.square(w))
    tf.summary.scalar("loss", loss)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    found = []
    with tempfile.TemporaryDirectory() as directory:
        for last in (3, 5):
            hooks = [tf.train.StopAtStepHook(last_step=last)]
            with tf.train.MonitoredTrainingSession(
                master=at.targets["worker:0"],
                is_chief=True,
                checkpoint_dir=directory,
                hooks=hooks,
                save_summaries_steps=1,
                log_step_count_steps=None,
            ) as session:
                while not session.should_stop():
                    found.append(session.run([train, loss])[1])
            found.append(os.path.basename(tf.train.latest_checkpoint(directory)))
        events = glob.glob(os.path.join(directory, "events.out.tfevents.*"))
        values = [
            value.simple_value
            for path in sorted(events)
            for event in tf.train.summary_iterator(path)
            for value in event.summary.value
            if value.tag == "loss"
        ]
        found.append(sorted(values))
    return found


@program(clients=["tensorflow"])
def synchronous_replicas(tf: Any, at: Cluster) -> Any:
    """Accumulators and a queue of tokens on the ps: two gradients make one step of the model."""
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
    v = _variable(tf, at, "v", np.float32([4, -2]))
    w = _variable(tf, at, "w", np.ones([3, 2], np.float32))
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(0.1), replicas_to_aggregate=2, total_num_replicas=2
    )
    with tf.device("/job:worker/task:1"):
        scale = tf.placeholder(tf.float32, [])
        dense, sparse = tf.square(v), tf.nn.embedding_lookup(w, [0, 2, 2])
        loss = scale * (tf.reduce_sum(dense) + tf.reduce_sum(sparse))
    train = optimizer.minimize(loss, global_step=step)
    make_step = optimizer.get_chief_queue_runner().enqueue_ops[0]
    found = []
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        session.run(optimizer.chief_init_op)
        for _ in range(3):
            # Each waits for its token, of which the step of the model gives two.
            calls = [(make_step, None), (train, {scale: 1}), (train, {scale: 3})]
            threads = [threading.Thread(target=session.run, args=call) for call in calls]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            found.append(session.run([v, w, step]))
    return found


@program(clients=["tensorflow"])
def summaries_of_each_sort(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:worker/task:1"):
        x = tf.constant(np.linspace(-2, 3, 12, dtype=np.float32))
        tf.summary.scalar("mean", tf.reduce_mean(x))
        tf.summary.histogram("values", x)
        merged = tf.summary.merge_all()
    with at.session() as session:
        summary = tf.Summary.FromString(session.run(merged))
    return [
        [one.tag, one.simple_value, list(one.histo.bucket), list(one.histo.bucket_limit)]
        for one in summary.value
    ]


@program(clients=["tensorflow"])
def checkpoints_pass_between_runtimes(tf: Any, at: Cluster) -> Any:
    """TensorFlow in the client's process reads what the cluster wrote, and the other way round;
    the parts of a variable are written as slices of one."""
    big = np.random.RandomState(1).rand(300, 40).astype(np.float32)

    def build(devices: Any) -> Any:
        with tf.device(devices[0]):
            dense = tf.get_variable(f"{at.name}/dense", initializer=big, use_resource=True)
            words = tf.get_variable(f"{at.name}/words", initializer=["", "a" * 300, "b"])
        with tf.device(devices[1]):
            parts = tf.get_variable(
                f"{at.name}/parts", shape=[7, 2], initializer=tf.ones_initializer(),
                partitioner=tf.fixed_size_partitioner(3), use_resource=True,
            )  # fmt: skip
            half = tf.get_variable(f"{at.name}/half", initializer=np.float16([1, 2]))
        change = [tf.assign_add(dense, big), tf.assign(half, half * 2)]
        change += [tf.assign_add(part, part * 3) for part in parts]
        values = [tf.reduce_sum(dense), dense[7], words, tf.convert_to_tensor(parts), half]
        saver = tf.train.Saver(sharded=True)
        return saver, tf.global_variables_initializer(), change, values

    found = []
    with tempfile.TemporaryDirectory() as directory:
        for writer in ("cluster", "local"):
            with tf.Graph().as_default():
                here = build(["/cpu:0", "/cpu:0"])
                with tf.Session() as local:
                    if writer == "local":
                        local.run(here[1])
                        local.run(here[2])
                        here[0].save(local, os.path.join(directory, "local"))
            with tf.Graph().as_default():
                there = build(["/job:ps", "/job:worker/task:1"])
                with at.session() as session:
                    session.run(there[1])
                    if writer == "cluster":
                        session.run(there[2])
                        there[0].save(session, os.path.join(directory, "cluster"))
                    else:
                        there[0].restore(session, os.path.join(directory, "local"))
                    found.append(session.run(there[3]))
            if writer == "cluster":
                with tf.Graph().as_default():
                    here = build(["/cpu:0", "/cpu:0"])
                    with tf.Session() as local:
                        here[0].restore(local, os.path.join(directory, "cluster"))
                        found.append(local.run(here[3]))
    return found


@program(clients=["tensorflow"])
def a_supervisor_trains(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
    w = _variable(tf, at, "w", np.float32([4, -2]))
    loss = tf.reduce_sum(tf.square(w))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    found = []
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(2):
            supervisor = tf.train.Supervisor(
                logdir=directory, global_step=step, summary_op=None, save_model_secs=0
            )
            with supervisor.managed_session(at.targets["worker:0"]) as session:
                for _ in range(2):
                    session.run(train)
                    found.append(session.run([loss, step]))
                supervisor.saver.save(session, supervisor.save_path, global_step=step)
            found.append(os.path.basename(tf.train.latest_checkpoint(directory)))
    return found


@program(clients=["tensorflow"])
def monitored_replicas_in_step(tf: Any, at: Cluster) -> Any:
    """A chief and a worker, each with its own graph and monitored session, train synchronously."""
    found: dict[int, list[Any]] = {0: [], 1: []}
    ready, together = threading.Event(), threading.Barrier(2, timeout=30)

    def replica(task: int) -> None:
        device = tf.train.replica_device_setter(1, worker_device=f"/job:worker/task:{task}")
        with tf.Graph().as_default(), tf.device(device):
            step = tf.train.get_or_create_global_step()
            w = tf.get_variable(f"{at.name}/w", initializer=np.float32([4, -2]))
            loss = tf.reduce_sum(tf.square(w)) * (task + 1)
            optimizer = tf.train.SyncReplicasOptimizer(
                tf.train.GradientDescentOptimizer(0.1), 2, total_num_replicas=2
            )
            train = optimizer.minimize(loss, global_step=step)
            config = tf.ConfigProto(
                device_filters=["/job:ps", f"/job:worker/task:{task}"],
                operation_timeout_in_ms=15_000,
            )
            if task:
                # Later a worker looks again only after half a minute.
                ready.wait(30)
            with tf.train.MonitoredTrainingSession(
                master=at.targets[f"worker:{task}"],
                is_chief=task == 0,
                hooks=[optimizer.make_session_run_hook(task == 0, num_tokens=0)],
                config=config,
                stop_grace_period_secs=0.3,
            ) as session:
                ready.set()
                for _ in range(3):
                    session.run(train)
                    # Each takes one of the two tokens of a step, so that none is short of any.
                    together.wait()
                    found[task].append(session.run([w, step]))
                    together.wait()

    threads = [threading.Thread(target=replica, args=[task]) for task in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


@program(clients=["tensorflow"])
def summaries_of_tensors(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        tensor = tf.summary.tensor_summary("tensor", tf.constant([[1.5, 2.5]]))
        text = tf.summary.text("text", tf.constant(["a", "b"]))
    with at.session() as session:
        found = [tf.Summary.FromString(one) for one in session.run([tensor, text])]
    return [[one.value[0].tag, tf.make_ndarray(one.value[0].tensor).tolist()] for one in found]
