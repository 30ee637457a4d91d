"""Programs with mistakes; what counts is the class of the error and the op that it names."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from programs.registry import Cluster, program


@program()
def shapes_that_do_not_fit(tf: Any, at: Cluster) -> Any:
    a, b = tf.placeholder(tf.float32, None), tf.placeholder(tf.float32, None)
    with tf.device("/job:ps"):
        product = tf.matmul(a, b, name="product")
        total = tf.add(a, b, name="total")
        joined = tf.concat([a, b], 0, name="joined")
        reshaped = tf.reshape(a, [7], name="reshaped")
    feeds = {a: np.ones([2, 3], "f4"), b: np.ones([2, 4], "f4")}
    with at.session() as session:
        found = [
            at.attempt(lambda op=op: session.run(op, feeds))
            for op in (product, total, joined, reshaped)
        ]
        return [*found, session.run(total, {a: [1.0], b: [2.0]})]


@program()
def values_that_are_refused(tf: Any, at: Cluster) -> Any:
    x = tf.placeholder(tf.int32, None)
    f = tf.placeholder(tf.float32, None)
    with tf.device("/job:worker/task:1"):
        ops = {
            "gathered": (tf.gather(tf.constant([1, 2]), x, name="gathered"), {x: [5]}),
            "divided": (tf.floordiv(tf.constant(1), x, name="divided"), {x: 0}),
            "sliced": (tf.slice(tf.constant([1, 2]), [0], x, name="sliced"), {x: [3]}),
            "checked": (tf.check_numerics(f, "bad", name="checked"), {f: np.inf}),
            "split": (tf.split(f, [1, 1], name="split")[0], {f: [1.0, 2.0, 3.0]}),
            "filled": (tf.fill(x, 1.0, name="filled"), {x: [-1]}),
            "number": (tf.string_to_number(tf.as_string(x) + "x", name="number"), {x: 1}),
        }
        asserted = tf.Assert(f > 0, [f], name="asserted")
    with at.session() as session:
        found = {
            name: at.attempt(lambda op=op, feeds=feeds: session.run(op, feeds))
            for name, (op, feeds) in ops.items()
        }
        found["asserted"] = at.attempt(lambda: session.run(asserted, {f: -1.0}))["error"]
        return found


@program()
def state_that_is_not_there(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        ref = tf.get_variable(f"{at.name}/ref", initializer=1.0, use_resource=False)
        resource = tf.get_variable(f"{at.name}/resource", initializer=1.0, use_resource=True)
        queue = tf.FIFOQueue(2, [tf.float32], shapes=[[]], shared_name=f"{at.name}/queue")
        grown = [ref.assign_add(1.0), resource.assign_add(1.0)]
    with at.session() as session:
        # TensorFlow's client does not tell which op read the first one.
        found = [at.attempt(lambda: session.run(ref))["error"]]
        found += [at.attempt(lambda v=v: session.run(v)) for v in (resource, *grown)]
        session.run(queue.close())
        found.append(at.attempt(lambda: session.run(queue.dequeue(name="taken"))))
        found.append(at.attempt(lambda: session.run(queue.enqueue(1.0, name="put"))))
        return found


@program()
def devices_that_do_not_exist(tf: Any, at: Cluster) -> Any:
    found = []
    for device in ("/job:nobody", "/job:worker/task:7", "/job:ps/device:GPU:0", "/device:CPU:9"):
        with tf.Graph().as_default(), tf.device(device):
            x = tf.constant(1.0, name="lost") + 1
            with at.session() as session:
                found.append(at.attempt(lambda s=session, x=x: s.run(x))["error"])
            with at.session(allow_soft_placement=True) as session:
                soft = at.attempt(lambda s=session, x=x: s.run(x))
                found.append(soft["error"] if isinstance(soft, dict) else soft)
    return found


@program()
def feeds_that_are_missing_or_wrong(tf: Any, at: Cluster) -> Any:
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.device("/job:ps"):
        y = tf.identity(x + 1, name="y")
    with at.session() as session:
        found = [at.attempt(lambda: session.run(y))]
        for feeds in ({x: [1.0, 2.0, 3.0]}, {x: ["a", "b"]}):
            try:
                session.run(y, feeds)
            except ValueError as error:
                found.append(type(error).__name__)
        return [*found, session.run(y, {x: [1.0, 2.0]})]


@program(["tensorflow"])
def variables_that_disagree(tf: Any, at: Cluster) -> Any:
    name = f"{at.name}/v"
    found = []
    with at.session() as session:
        with tf.device("/job:ps"):
            v = tf.get_variable(name, initializer=np.ones(3, "f4"), use_resource=True)
            value = tf.placeholder(tf.float32, None)
            set_ref = tf.get_variable(f"{name}_ref", initializer=np.ones(3, "f4"))
            assign = tf.assign(set_ref, value, name="set")
            grow = tf.raw_ops.AssignAddVariableOp(resource=v.handle, value=value, name="grow")
        session.run(tf.global_variables_initializer())
        found.append(at.attempt(lambda: session.run(assign, {value: np.ones(4, "f4")})))
        found.append(at.attempt(lambda: session.run(grow, {value: np.ones(4, "f4")})))
        return [*found, session.run([v, set_ref])]


@program(["tensorflow"])
def queues_that_disagree(tf: Any, at: Cluster) -> Any:
    found = []
    name = f"{at.name}/queue"
    with tf.device("/job:ps"):
        one = tf.FIFOQueue(2, [tf.float32], shapes=[[]], shared_name=name)
        other = tf.FIFOQueue(3, [tf.float32], shapes=[[]], shared_name=name, name="other")
        value = tf.placeholder(tf.float32, None)
        untyped = tf.FIFOQueue(2, [tf.float32], shared_name=f"{name}_any")
    with at.session() as session:
        session.run(one.size())
        found.append(at.attempt(lambda: session.run(other.size())))
        put = tf.raw_ops.QueueEnqueueV2(handle=one.queue_ref, components=[value], name="put")
        found.append(at.attempt(lambda: session.run(put, {value: [1.0, 2.0]})))
        take = tf.raw_ops.QueueDequeueManyV2(
            handle=untyped.queue_ref, n=1, component_types=[tf.float32], name="take"
        )
        found.append(at.attempt(lambda: session.run(take)))
    return found


@program(["tensorflow"])
def graphs_that_cannot_be_read(tf: Any, at: Cluster) -> Any:
    found = []

    def run_raw(change: Any) -> Any:
        graph = tf.Graph()
        with graph.as_default():
            x = tf.placeholder(tf.float32, [], name="x")
            y = tf.identity(x, name="y")
            z = tf.add(y, y, name="z")
            with at.session() as session:
                change(z)
                return at.attempt(lambda: session.run(z, {x: 1.0}))

    def unknown_device(z: Any) -> None:
        z._set_device_from_string("/job:ps/task:5")

    def unknown_colocation(z: Any) -> None:
        z._set_attr("_class", tf.AttrValue(list=tf.AttrValue.ListValue(s=[b"loc:@nobody"])))

    for change in (unknown_device, unknown_colocation):
        outcome = run_raw(lambda z, change=change: change(z.op))
        found.append(outcome["error"] if isinstance(outcome, dict) else outcome)
    return found


@program()
def a_failing_step_leaves_the_others_whole(tf: Any, at: Cluster) -> Any:
    x = tf.placeholder(tf.float32, None)
    with tf.device("/job:ps"):
        bad = tf.check_numerics(x, "bad", name="bad")
    with tf.device("/job:worker/task:1"):
        good = tf.reduce_sum(x, name="good")
        follows = bad + 1
    found = []
    with at.session() as session:

        def steps(value: float) -> None:
            for _ in range(5):
                found.append(
                    at.attempt(lambda: [*map(float, session.run([good, follows], {x: value}))])
                )

        threads = [threading.Thread(target=steps, args=[v]) for v in (1.0, np.inf)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    return sorted(found, key=str)


@program()
def limits_of_memory_and_of_types(tf: Any, at: Cluster) -> Any:
    size = tf.placeholder(tf.int64, [None])
    x = tf.placeholder(tf.float32, None)
    with tf.device("/job:ps"):
        huge = tf.fill(size, 1.0, name="huge")
        bits = tf.decode_raw(tf.placeholder_with_default(b"abc", []), tf.float32, name="bits")
        index = tf.gather_nd(x, [[5]], name="index")
        parts = tf.dynamic_partition(x, [0, 9], 2, name="parts")
        top = tf.nn.top_k(x, 9, name="top")[0]
        solved = tf.matrix_inverse(tf.reshape(x, [2, 2]), name="solved")
        read = tf.read_file("/nowhere/at/all", name="read")
    with at.session() as session:
        found = [at.attempt(lambda: session.run(huge, {size: [1 << 41]}))]
        found.append(at.attempt(lambda: session.run(bits)))
        for op in (index, parts, top):
            found.append(at.attempt(lambda op=op: session.run(op, {x: [1.0, 2.0]})))
        found.append(at.attempt(lambda: session.run(solved, {x: [1.0, 2.0, 2.0, 4.0]})))
        found.append(at.attempt(lambda: session.run(read)))
        return [*found, session.run(solved, {x: [1.0, 0.0, 0.0, 4.0]})]


@program()
def the_first_error_of_a_step_is_told(tf: Any, at: Cluster) -> Any:
    """The other parts are cancelled, which is no error of its own."""
    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name=f"{at.name}/queue")
        waits = queue.dequeue() + 1
    with tf.device("/job:worker/task:1"):
        fails = tf.check_numerics(x, "bad", name="fails")
    with tf.device("/job:worker/task:0"):
        both = fails + waits
    with at.session() as session:
        found = [at.attempt(lambda: session.run(both, {x: np.inf}))]
        session.run(queue.enqueue(3.0))
        # The step that failed has taken nothing.
        return [*found, session.run([both, queue.size()], {x: 1.0})[0]]


@program()
def errors_tell_where(tf: Any, at: Cluster) -> Any:
    """The message of an error names the node, and the task on which it failed."""
    x = tf.placeholder(tf.float32, [])
    found = []
    with at.session() as session:
        for device in ("/job:ps/task:0", "/job:worker/task:1", "/job:worker/task:0"):
            with tf.device(device):
                bad = tf.check_numerics(x, "bad", name="culprit")
            y = tf.identity(bad)
            try:
                session.run(y, {x: np.nan})
            except tf.errors.InvalidArgumentError as error:
                job, task = device.split("/")[1:]
                where = f"/{job}/replica:0/{task}"
                found.append([bad.op.name in error.message, where in error.message])
    return found


@program([])
def uses_an_op_that_only_tensorflow_has(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        # Ops of TensorFlow's debugger are no part of tideflow.
        found = tf.raw_ops.DebugNanCount(input=tf.constant([1.0]), name="odd_one")
    with at.session() as session:
        return session.run(found)
