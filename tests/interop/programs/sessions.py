"""What sessions do beside plain steps: partial runs, callables, lists of devices, records."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import numpy as np

from programs.registry import Cluster, add_program, program


@program()
def a_graph_grows_between_steps(tf: Any, at: Cluster) -> Any:
    with at.session() as session:
        x = tf.constant(1.0)
        found = [session.run(x)]
        for task in ("ps", "worker"):
            with tf.device(f"/job:{task}"):
                x = x + 10
            found.append(session.run(x))
    return found


@program()
def partial_runs(tf: Any, at: Cluster) -> Any:
    a, b, c = (tf.placeholder(tf.float32, []) for _ in range(3))
    with tf.device("/job:ps"):
        first = a + 1
        second = first * b
    with tf.device("/job:worker/task:1"):
        third = second - c
    with at.session() as session:
        handle = session.partial_run_setup([first, second, third], [a, b, c])
        found = [session.partial_run(handle, first, {a: 2.0})]
        found.append(at.attempt(lambda: session.partial_run(handle, third)))
        found.append(session.run(first, {a: 7.0}))
        found.append(session.partial_run(handle, second, {b: 10.0}))
        found.append(session.partial_run(handle, third, {c: 5.0}))
        found.append(at.attempt(lambda: session.partial_run(handle, first)))
    return found


@program()
def callables(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        x = tf.placeholder(tf.float32, [2])
        y = x * 2
    with at.session() as session:
        call = session.make_callable([y, x], [x])
        return [call(np.float32([1, 2])), call(np.float32([3, 4]))]


def _callable_from_options(tf: Any, at: Cluster) -> Any:
    config_pb2 = importlib.import_module("tensorflow.core.protobuf.config_pb2")

    with tf.device("/job:ps"):
        x = tf.placeholder(tf.float32, [2])
        y = x * 2
    with tf.device("/job:worker/task:1"):
        z = y + 1
    options = config_pb2.CallableOptions()
    options.feed.append(x.name)
    options.fetch.extend([z.name, y.name])
    with at.session() as session:
        call = session._make_callable_from_options(options)
        found = [call(np.float32([1, 2])), call(np.float32([3, 4]))]
        metadata = tf.RunMetadata()
        found.append(call(np.float32([5, 6]), run_metadata=metadata))
        options.feed.append("nowhere:0")
        found.append(at.attempt(lambda: session._make_callable_from_options(options)))
    return found


add_program("callables_from_options", _callable_from_options)


def _device_names(session: Any) -> list[str]:
    return sorted(device.name for device in session.list_devices())


@program()
def devices_are_listed(tf: Any, at: Cluster) -> Any:
    with at.session() as session:
        found = session.list_devices()
        return sorted((d.name, d.device_type, bool(d.incarnation)) for d in found)


@program()
def filters_hide_devices(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:worker/task:1"):
        there = tf.constant(1) + 1
    with at.session(device_filters=["/job:ps", "/job:worker/task:0"]) as session:
        found = [_device_names(session)]
        # Which op it names depends on who placed it: TensorFlow names none.
        found.append(at.attempt(lambda: session.run(there))["error"])
    with at.session(device_filters=["/job:ps"]) as session:
        found.append(_device_names(session))
    return found


@program()
def a_full_trace(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        x = tf.random_uniform([4], name="noise") + 1
    with tf.device("/job:worker/task:1"):
        y = tf.reduce_sum(x, name="total")
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
    with at.session() as session:
        session.run(y, options=options, run_metadata=metadata)
    stats = {
        device.device: {node.node_name.partition(":")[0] for node in device.node_stats}
        for device in metadata.step_stats.dev_stats
    }
    ps, worker = (
        f"/job:{j}/replica:0/task:{t}/device:CPU:0" for j, t in (("ps", 0), ("worker", 1))
    )
    nodes = {(n.device, n.op) for graph in metadata.partition_graphs for n in graph.node}
    return {
        "noise": any("noise" in n for n in stats.get(ps, ())),
        "total": any("total" in n for n in stats.get(worker, ())),
        "partitions": sorted({device for device, _ in nodes if device} & {ps, worker}),
        "sent": (ps, "_Send") in nodes,
        "received": (worker, "_Recv") in nodes,
        "timed": all(
            node.all_start_micros > 0
            for device in metadata.step_stats.dev_stats
            for node in device.node_stats
        ),
    }


@program()
def a_step_times_out_and_leaves_the_session_whole(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name=f"{at.name}/queue")
    with tf.device("/job:worker/task:1"):
        taken = queue.dequeue() * 2
    put = queue.enqueue(21.0)
    options = tf.RunOptions(timeout_in_ms=300)
    with at.session() as session:
        session.run(tf.no_op())
        found = [at.attempt(lambda: session.run(taken, options=options))["error"]]
        session.run(put)
        return [*found, session.run(taken)]


@program()
def a_closed_session_cancels_its_steps(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(2, [tf.float32], shapes=[[]], shared_name=f"{at.name}/queue")
        ready = tf.FIFOQueue(2, [tf.float32], shapes=[[]], shared_name=f"{at.name}/ready")
    put, wait = ready.enqueue(1.0), ready.dequeue()
    with tf.control_dependencies([put]):
        blocked = queue.dequeue()
    found = []
    session, other = at.session(), at.session("worker:1")
    thread = threading.Thread(
        target=lambda: found.append(at.attempt(lambda: session.run(blocked))["error"])
    )
    thread.start()
    other.run(wait)
    session.close()
    thread.join(20)
    other.run(queue.enqueue(3.0))
    found.append(other.run(queue.size()))
    other.close()
    return found


@program()
def two_clients_step_at_once(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=0.0, use_resource=True)
    with tf.device("/job:worker/task:1"):
        grow = v.assign_add(tf.constant(1.0) * 1.0)
    with at.session("worker:0") as first, at.session("worker:1") as second:
        first.run(v.initializer)

        def steps(session: Any) -> None:
            for _ in range(10):
                session.run(grow)

        threads = [threading.Thread(target=steps, args=[s]) for s in (first, first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        return second.run(v)


def _propagated_cluster(tf: Any, at: Cluster) -> Any:
    cluster = tf.train.ClusterDef()
    for name, task in (("lead", "worker:0"), ("store", "ps:0")):
        job = cluster.job.add(name=name)
        job.tasks[0] = at.targets[task].removeprefix("grpc://")
    with tf.device("/job:store"):
        v = tf.get_variable(f"{at.name}/v", initializer=2.0, use_resource=True)
    with tf.device("/job:lead"):
        y = v * 3
    with at.session(cluster_def=cluster) as session:
        session.run(v.initializer)
        return [session.run(y), _device_names(session)]


add_program("a_cluster_comes_with_the_session", _propagated_cluster)


@program()
def partial_runs_that_are_misused(tf: Any, at: Cluster) -> Any:
    a, b = (tf.placeholder(tf.float32, []) for _ in range(2))
    with tf.device("/job:ps"):
        first, second = a + 1, a * b
    found = []

    def attempt(call: Any) -> None:
        # The client itself may refuse what is wrong, in whichever way it does.
        try:
            outcome = at.attempt(call)
        except (ValueError, RuntimeError) as error:
            outcome = {"error": type(error).__name__}
        found.append(outcome["error"] if isinstance(outcome, dict) else outcome)

    with at.session() as session:
        handle = session.partial_run_setup([first, second], [a, b])
        attempt(lambda: session.partial_run(handle, second, {a: 2.0}))
        attempt(lambda: session.partial_run("nobody", first, {a: 2.0}))
        other = session.partial_run_setup([first], [a])
        attempt(lambda: session.partial_run(other, second, {a: 2.0}))
        again = session.partial_run_setup([first, second], [a, b])
        attempt(lambda: session.partial_run(again, first, {a: 2.0}))
        attempt(lambda: session.partial_run(again, second, {a: 3.0, b: 1.0}))
        fresh = session.partial_run_setup([first, second], [a, b])
        attempt(lambda: session.partial_run(fresh, first, {a: 5.0}))
        attempt(lambda: session.partial_run(fresh, second, {b: 5.0}))
    return found


@program()
def a_partial_run_waits_for_a_queue(tf: Any, at: Cluster) -> Any:
    """Parts of one step meet state that other steps change in between."""
    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(3, [tf.float32], shapes=[[]], shared_name=f"{at.name}/queue")
        v = tf.get_variable(f"{at.name}/v", initializer=1.0, use_resource=True)
        grown = v.assign_add(x)
    with tf.device("/job:worker/task:1"), tf.control_dependencies([grown]):
        taken = queue.dequeue() + x
    with at.session() as session, at.session("worker:1") as other:
        session.run(v.initializer)
        handle = session.partial_run_setup([grown, taken], [x])
        found = [session.partial_run(handle, grown, {x: 5.0}), other.run(v)]
        other.run(queue.enqueue(100.0))
        return [*found, session.partial_run(handle, taken)]


@program(["tensorflow"])
def callables_with_targets_and_records(tf: Any, at: Cluster) -> Any:
    """Callables may run ops for what they do, be traced, time out, and tell errors."""
    config_pb2 = importlib.import_module("tensorflow.core.protobuf.config_pb2")
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=1.0, use_resource=True)
        grow = v.assign_add(2.0)
        queue = tf.FIFOQueue(3, [tf.float32], shapes=[[]], shared_name=f"{at.name}/queue")
        x = tf.placeholder(tf.float32, None)
        checked = tf.check_numerics(x, "bad", name="checked")
    blocked = queue.dequeue()

    def options(**fields: Any) -> Any:
        made = config_pb2.CallableOptions(**fields)
        made.run_options.trace_level = tf.RunOptions.FULL_TRACE
        return made

    with at.session() as session:
        session.run(v.initializer)
        grows = session._make_callable_from_options(
            config_pb2.CallableOptions(target=[grow.op.name])
        )
        found = [grows(), grows(), session.run(v)]
        traced = session._make_callable_from_options(options(fetch=[v.value().name]))
        metadata = tf.RunMetadata()
        found += [traced(run_metadata=metadata), bool(metadata.step_stats.dev_stats)]
        checks = session._make_callable_from_options(
            config_pb2.CallableOptions(feed=[x.name], fetch=[checked.name])
        )
        found.append(checks(np.float32([1.0])))
        found.append(at.attempt(lambda: checks(np.float32([np.nan]))))
    with at.session(operation_timeout_in_ms=700) as session:
        waits = session._make_callable_from_options(
            config_pb2.CallableOptions(fetch=[blocked.name])
        )
        return [*found, at.attempt(waits)["error"]]


@program()
def a_reset_ends_the_sessions_of_a_master(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=1.0, use_resource=True)
    session = at.session()
    session.run(v.initializer)
    found = [session.run(v)]
    tf.Session.reset(at.targets["worker:0"])
    found.append(at.attempt(lambda: session.run(v))["error"])
    with at.session() as fresh:
        return [*found, at.attempt(lambda: fresh.run(v))]


@program()
def a_session_that_is_closed_is_of_no_use(tf: Any, at: Cluster) -> Any:
    x = tf.constant(1.0)
    session = at.session()
    found = [session.run(x)]
    session.close()
    session.close()
    try:
        session.run(x)
    except RuntimeError as error:
        found.append(type(error).__name__)
    return found


@program([])
def keeps_tensors_in_the_session(tf: Any, at: Cluster) -> Any:
    """TensorFlow's servers keep none; its local sessions do."""
    found = []
    with at.device("/job:ps"):
        total = tf.constant([1, 2]) * 3
        keep = tf.get_session_handle(total)
    with at.session("worker:0") as session, at.session("worker:1") as other:
        kept = session.run(keep)
        with at.device("/job:worker/task:1"):
            far = tf.get_session_handle(total + 1)
        holder, read = tf.get_session_tensor(kept.handle, tf.int32)
        second = session.run(far)
        found += [kept.eval(), second.eval(), session.run(read * 2, {holder: kept.handle})]
        # What lies on another task is moved to where it is read.
        found.append(session.run(read * 2, {holder: second.handle}))
        found.append(at.attempt(lambda: other.run(read, {holder: kept.handle}))["error"])
        for _ in range(12):
            found.append(session.run(keep).eval())
        name = kept.handle
        kept.delete()
        found.append(at.attempt(lambda: session.run(read, {holder: name}))["error"])
    return found
