"""What options of sessions and of steps change, what they leave alone, and what they record."""

from __future__ import annotations

import importlib
import json
import threading
from typing import Any

import numpy as np

from programs.registry import Cluster, program


def _work(tf: Any) -> tuple[Any, Any, Any]:
    """Return what to feed, and what is computed of it on two tasks, with some of it twice."""
    x = tf.placeholder(tf.float32, [3], name="x")
    with tf.device("/job:ps"):
        y = tf.nn.relu(x * 2 + 1) + tf.nn.relu(x * 2 + 1)
    with tf.device("/job:worker/task:1"):
        z = tf.reduce_sum(tf.tanh(y) + tf.constant(3.0) * tf.constant(4.0))
    return x, y, z


@program()
def options_leave_results_alone(tf: Any, at: Cluster) -> Any:
    """Optimisers, compilers, threads, logs: a session may ask for any, and computes the same."""
    x, y, z = _work(tf)
    optimizer, graph = tf.OptimizerOptions, tf.GraphOptions
    choices: list[dict[str, Any]] = [
        {},
        {"graph_options": graph(optimizer_options=optimizer(opt_level=optimizer.L0))},
        {"graph_options": graph(optimizer_options=optimizer(do_function_inlining=True))},
        {"graph_options": graph(place_pruned_graph=True)},
        {"graph_options": graph(infer_shapes=True)},
        {"graph_options": graph(enable_bfloat16_sendrecv=False)},
        {"graph_options": graph(optimizer_options=optimizer(global_jit_level=optimizer.OFF))},
        {"inter_op_parallelism_threads": 1, "intra_op_parallelism_threads": 1},
        {"device_count": {"CPU": 1, "GPU": 0}},
        {"log_device_placement": False, "placement_period": 3},
        {"share_cluster_devices_in_session": True},
        {"allow_soft_placement": True},
    ]
    found = []
    for options in choices:
        with at.session(**options) as session:
            found.append(session.run([y, z], {x: [1.0, -2.0, 0.5]}))
    return found


@program()
def bfloat16_may_be_what_is_sent(tf: Any, at: Cluster) -> Any:
    """Floats lose bits between tasks where a session asks for that."""
    x = tf.placeholder(tf.float32, [2])
    with tf.device("/job:ps"):
        y = x * 1
    with tf.device("/job:worker/task:1"):
        z = y * 1
    options = tf.GraphOptions(enable_bfloat16_sendrecv=True)
    with at.session(graph_options=options) as session:
        found = session.run(z, {x: [1.0, 1.003]})
    return np.abs(found - np.float32([1.0, 1.003])) < 0.01


@program()
def thread_pools_of_a_session_are_refused(tf: Any, at: Cluster) -> Any:
    x = tf.constant(1.0) + 1
    found = []
    for options in ({"use_per_session_threads": True}, {"operation_timeout_in_ms": 0}):

        def attempt(options: dict[str, Any] = options) -> Any:
            with at.session(**options) as session:
                return session.run(x)

        found.append(at.attempt(attempt))
    config = tf.ConfigProto()
    config.session_inter_op_thread_pool.add(num_threads=1)

    def with_pool() -> Any:
        with tf.Session(at.targets["worker:0"], config=config) as session:
            return session.run(x)

    return [*found, at.attempt(with_pool)]


@program()
def options_of_a_step(tf: Any, at: Cluster) -> Any:
    x, y, z = _work(tf)
    feeds = {x: [1.0, -2.0, 0.5]}
    choices: list[dict[str, Any]] = [
        {},
        {"timeout_in_ms": 15_000},
        {"timeout_in_ms": -1},
        {"inter_op_thread_pool": 0},
        {"inter_op_thread_pool": -1},
        {"report_tensor_allocations_upon_oom": True},
        {"trace_level": tf.RunOptions.SOFTWARE_TRACE},
        {"trace_level": tf.RunOptions.HARDWARE_TRACE},
    ]
    with at.session() as session:
        found = []
        for chosen in choices:
            options = tf.RunOptions(**chosen)
            found.append(
                at.attempt(lambda options=options: session.run([y, z], feeds, options=options))
            )
        return found


@program()
def the_timeout_of_a_session_holds_for_each_step(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name=f"{at.name}/queue")
    with tf.device("/job:worker/task:1"):
        taken = queue.dequeue() * 2
    with at.session(operation_timeout_in_ms=700) as session:
        found = [at.attempt(lambda: session.run(taken))["error"]]
        session.run(queue.enqueue(4.0))
        return [*found, session.run(taken)]


def _kinds(stats: Any) -> dict[str, list[str]]:
    """Return which of the ops of a program were timed on each device."""
    found: dict[str, set[str]] = {}
    for device in stats.dev_stats:
        for node in device.node_stats:
            name = node.node_name.partition(":")[0].rpartition("/")[2]
            if name in ("noise", "doubled", "total"):
                found.setdefault(device.device, set()).add(name)
    return {device: sorted(names) for device, names in found.items()}


@program()
def a_complete_record_of_a_step(tf: Any, at: Cluster) -> Any:
    """Step statistics, the graphs as they were split, and what each node costs."""
    with tf.device("/job:ps"):
        # Of unknown size, so that nobody computes it beforehand.
        size = tf.placeholder(tf.int32, [1])
        x = tf.random_uniform(size, name="noise")
    with tf.device("/job:worker/task:1"):
        y = tf.reduce_sum(tf.multiply(x, 2.0, name="doubled"), name="total")
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
    plain, full = tf.RunMetadata(), tf.RunMetadata()
    costs = tf.GraphOptions(build_cost_model=1)
    with at.session(graph_options=costs) as session:
        session.run(y, {size: [1000]}, run_metadata=plain)
        session.run(y, {size: [1000]}, options=options, run_metadata=full)
    nodes = [n for device in full.step_stats.dev_stats for n in device.node_stats]
    kinds = {node.op for graph in full.partition_graphs for node in graph.node}
    return {
        "untraced": [len(plain.step_stats.dev_stats), len(plain.partition_graphs)],
        "who": _kinds(full.step_stats),
        "sizes": sorted(
            {
                tuple(dim.size for dim in output.tensor_description.shape.dim)
                for node in nodes
                if node.node_name.endswith("doubled")
                for output in node.output
            }
        ),
        "in order": all(
            node.all_start_micros > 0
            and 0 <= node.op_start_rel_micros <= node.op_end_rel_micros <= node.all_end_rel_micros
            for node in nodes
            if node.node_name.endswith(("doubled", "total"))
        ),
        "graphs": sorted(kinds & {"_Send", "_Recv", "Mul", "RandomUniform"}),
        "costed": bool(full.cost_graph.node),
        "costs": sorted(
            {
                node.name.rpartition("/")[2]
                for node in full.cost_graph.node
                if node.name.endswith(("doubled", "total")) and node.compute_cost >= 0
            }
        ),
    }


@program(["tensorflow"])
def a_timeline_is_drawn_of_a_trace(tf: Any, at: Cluster) -> Any:
    """What TensorFlow's own tool draws of the statistics names each task, op and transfer."""
    timeline = importlib.import_module("tensorflow.python.client.timeline")
    with tf.device("/job:ps"):
        x = tf.placeholder(tf.float32, [64, 64], name="x")
        y = tf.matmul(x, x, name="product")
    with tf.device("/job:worker/task:1"):
        z = tf.reduce_sum(y, name="total")
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with at.session() as session:
        feeds = {x: np.ones([64, 64], np.float32)}
        session.run(z, feeds, options=options, run_metadata=metadata)
    drawn = json.loads(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())
    events = drawn["traceEvents"]
    processes = {one["args"]["name"] for one in events if one["name"] == "process_name"}
    ops = {one["name"] for one in events if one.get("cat") == "Op" and one["dur"] >= 0}
    tasks = ("ps/replica:0/task:0/device:CPU:0", "worker/replica:0/task:1/device:CPU:0")
    return [
        sorted(task for task in tasks if any(task in process for process in processes)),
        sorted(ops & {"MatMul", "Sum"}),
        "RecvTensor" in ops or any("RecvTensor" in one["name"] for one in events),
    ]


@program()
def steps_with_and_without_a_trace_at_once(tf: Any, at: Cluster) -> Any:
    """Only the step that asks for a record gets one."""
    x, _, z = _work(tf)
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    records = [tf.RunMetadata() for _ in range(4)]
    found: list[Any] = [None] * 4
    with at.session() as session:

        def step(i: int) -> None:
            traced = {"options": options} if i % 2 else {}
            found[i] = session.run(z, {x: [i, 0.0, 1.0]}, run_metadata=records[i], **traced)

        threads = [threading.Thread(target=step, args=[i]) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    return [found, [bool(record.step_stats.dev_stats) for record in records]]
