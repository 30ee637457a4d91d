"""The programs that are measured.

Each takes the API module (tideflow.v1 or tensorflow.compat.v1), the target of the session ("" for
a local one) and its sizes; it returns a function that runs one step.  Nothing in here knows which
runtime it is on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[[], Any]


def local_add(tf: Any, target: str) -> Step:
    """Add 1 to a fed scalar."""
    x = tf.placeholder(tf.float32, [])
    y = x + 1.0
    session = tf.Session(target)
    return lambda: session.run(y, {x: 3.0})


def remote_add(tf: Any, target: str) -> Step:
    """Add 1 to a fed scalar on a worker in another process."""
    with tf.device("/job:worker/task:0"):
        return local_add(tf, target)


def chain(tf: Any, target: str, ops: int) -> Step:
    """Scalar ops in a row, of two kinds, so that no optimiser merges them."""
    x = tf.placeholder(tf.float32, [])
    y = tf.placeholder(tf.float32, [])
    z = x
    for _ in range(ops // 2):
        z = z * y + x
    session = tf.Session(target)
    return lambda: session.run(z, {x: 0.5, y: 0.25})


def _mlp(tf: Any, sizes: list[int], batch: int) -> tuple[Any, dict[Any, Any]]:
    """Return the train op of a multi-layer perceptron, and a batch to feed."""
    rng = np.random.default_rng(0)
    images = tf.placeholder(tf.float32, [None, sizes[0]])
    labels = tf.placeholder(tf.int32, [None])
    layer = images
    for i, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        # The sizes are in the names, so that programs that share servers do not share variables.
        name = f"{i}_{fan_in}x{fan_out}"
        start = rng.normal(0, fan_in**-0.5, (fan_in, fan_out)).astype(np.float32)
        weights = tf.get_variable(f"w{name}", initializer=tf.constant(start), use_resource=True)
        bias = tf.get_variable(f"b{name}", initializer=tf.zeros([fan_out]), use_resource=True)
        layer = tf.nn.bias_add(tf.matmul(layer, weights), bias)
        if i < len(sizes) - 2:
            layer = tf.nn.relu(layer)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=layer)
    )
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    feeds = {
        images: rng.normal(size=(batch, sizes[0])).astype(np.float32),
        labels: rng.integers(0, sizes[-1], batch).astype(np.int32),
    }
    return train, feeds


def mlp(tf: Any, target: str, sizes: list[int], batch: int) -> Step:
    """One gradient step of a multi-layer perceptron."""
    train, feeds = _mlp(tf, sizes, batch)
    session = tf.Session(target)
    session.run(tf.global_variables_initializer())
    return lambda: session.run(train, feeds)


def ps_mlp(tf: Any, target: str, sizes: list[int], batch: int, task: int = 0) -> Step:
    """One gradient step of a perceptron on a worker, its variables on a parameter server."""
    worker = f"/job:worker/task:{task}"
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=worker)):
        return mlp(tf, target, sizes, batch)


def _variable(tf: Any, device: str, count: int) -> Any:
    """Return a variable of so many floats, by device and size."""
    name = f"v{count}_{device.replace('/', '_').replace(':', '_').strip('_')}"
    with tf.device(device):
        return tf.get_variable(name, initializer=tf.zeros([count]), use_resource=True)


def to_worker(tf: Any, target: str, count: int) -> Step:
    """Carry floats from a parameter server to a worker, and leave them there."""
    variable = _variable(tf, "/job:ps/task:0", count)
    with tf.device("/job:ps/task:0"):
        value = variable.read_value()
    with tf.device("/job:worker/task:0"):
        arrived = tf.identity(value).op
    session = tf.Session(target)
    session.run(tf.global_variables_initializer())
    return lambda: session.run(arrived)


def to_client(tf: Any, target: str, count: int) -> Step:
    """Fetch floats from a parameter server; the client's master is a worker."""
    variable = _variable(tf, "/job:ps/task:0", count)
    with tf.device("/job:ps/task:0"):
        value = variable.read_value()
    session = tf.Session(target)
    session.run(tf.global_variables_initializer())
    return lambda: session.run(value)


def fan_in(tf: Any, target: str, workers: int) -> Step:
    """Add up 4 floats of each of so many workers on a parameter server, and leave them there."""
    values = []
    for task in range(workers):
        device = f"/job:worker/task:{task}"
        variable = _variable(tf, device, 4)
        with tf.device(device):
            values.append(variable.read_value())
    with tf.device("/job:ps/task:0"):
        total = tf.add_n(values).op
    session = tf.Session(target)
    session.run(tf.global_variables_initializer())
    return lambda: session.run(total)


def all_reduce(tf: Any, target: str, workers: int, count: int) -> Step:
    """Add up as many floats of each worker, for all of them, and leave them there.

    One session asks all workers, so that a step of theirs begins at the same time.
    """
    variables = [_variable(tf, f"/job:worker/task:{task}", count) for task in range(workers)]
    graph_def = tf.GraphDef()
    inputs = {}
    for task, variable in enumerate(variables):
        device = f"/job:worker/task:{task}"
        with tf.device(device):
            inputs[f"x{task}"] = variable.read_value()
        node = graph_def.node.add(
            name=f"sum{task}", op="CollectiveReduce", input=[f"x{task}"], device=device
        )
        node.attr["T"].type = 1  # DT_FLOAT
        node.attr["group_size"].i = node.attr["group_key"].i = workers
        node.attr["instance_key"].i = count
        node.attr["merge_op"].s = b"Add"
        node.attr["final_op"].s = b"Id"
        node.attr["subdiv_offsets"].list.i.append(0)
    names = [f"sum{task}" for task in range(workers)]
    sums = tf.import_graph_def(graph_def, input_map=inputs, return_elements=names)
    session = tf.Session(target)
    session.run(tf.global_variables_initializer())
    return lambda: session.run(sums)


def wide_graph(tf: Any, nodes: int, distinct: bool = False) -> tuple[Any, Any]:
    """Return (fetch, feed placeholder) of a graph of so many nodes over a ps and a worker.

    Chains of 100 ops; ten of them, in pairs, are on the other task.  The chains are equal, so that
    an optimiser may make them one, unless they are to be distinct.
    """
    with tf.device("/job:worker/task:0"):
        x = tf.placeholder(tf.float32, [])
        ends = []
        for chain_number in range(max(1, nodes // 100)):
            z = x + chain_number / nodes if distinct else x
            for i in range(50):
                device = "/job:ps/task:0" if i % 10 == 9 else "/job:worker/task:0"
                with tf.device(device):
                    z = tf.tanh(z)
                    z = z * x
            ends.append(z)
        return tf.add_n(ends), x


def wide(tf: Any, target: str, nodes: int, distinct: bool = False) -> Step:
    """One step of a graph of so many nodes over two tasks."""
    fetch, x = wide_graph(tf, nodes, distinct)
    session = tf.Session(target)
    return lambda: session.run(fetch, {x: 0.5})


PROGRAMS: dict[str, Callable[..., Step]] = {
    one.__name__: one
    for one in (
        local_add,
        remote_add,
        chain,
        mlp,
        ps_mlp,
        to_worker,
        to_client,
        fan_in,
        all_reduce,
        wide,
    )
}
