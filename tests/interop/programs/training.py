"""Training steps on variables of the parameter server, with every optimizer."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from programs.registry import Cluster, add_program, program

# By the name of the program: the class, and its arguments.
_OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gradientdescent": ("GradientDescentOptimizer", {"learning_rate": 0.1}),
    "momentum": ("MomentumOptimizer", {"learning_rate": 0.1, "momentum": 0.9}),
    "nesterov": (
        "MomentumOptimizer",
        {"learning_rate": 0.1, "momentum": 0.9, "use_nesterov": True},
    ),
    "adagrad": ("AdagradOptimizer", {"learning_rate": 0.1}),
    "adagradda": (
        "AdagradDAOptimizer",
        {
            "learning_rate": 0.1,
            "l1_regularization_strength": 0.001,
            "l2_regularization_strength": 0.01,
        },
    ),
    "adadelta": ("AdadeltaOptimizer", {"learning_rate": 1.0}),
    "adam": ("AdamOptimizer", {"learning_rate": 0.05}),
    "rmsprop": ("RMSPropOptimizer", {"learning_rate": 0.05, "momentum": 0.5}),
    "centered_rmsprop": ("RMSPropOptimizer", {"learning_rate": 0.05, "centered": True}),
    "ftrl": ("FtrlOptimizer", {"learning_rate": 0.1, "l1_regularization_strength": 0.001}),
    "shrinking_ftrl": (
        "FtrlOptimizer",
        {"learning_rate": 0.1, "l2_shrinkage_regularization_strength": 0.01},
    ),
    "proximalgradientdescent": ("ProximalGradientDescentOptimizer", {"learning_rate": 0.1}),
    "proximaladagrad": ("ProximalAdagradOptimizer", {"learning_rate": 0.1}),
}
_STEPS = 4


def _data() -> tuple[Any, Any]:
    rng = np.random.RandomState(3)
    return rng.rand(12, 5).astype(np.float32), rng.randint(0, 3, 12).astype(np.int32)


def _train(tf: Any, at: Cluster, optimizer: str, use_resource: bool) -> Any:
    """Dense variables, and a table of which each step changes some rows."""
    inputs, labels = _data()
    rng = np.random.RandomState(4)
    device = tf.train.replica_device_setter(
        ps_tasks=1, worker_device="/job:worker/task:1", ps_device="/job:ps"
    )

    def variable(name: str, shape: Any) -> Any:
        value = rng.rand(*shape).astype(np.float32)
        return tf.get_variable(f"{at.name}/{name}", initializer=value, use_resource=use_resource)

    with tf.device(device):
        w, b = variable("w", [5, 3]), variable("b", [3])
        x = tf.constant(inputs)
        table = variable("table", [7, 3])
        logits = tf.matmul(x, w) + b + tf.nn.embedding_lookup(table, np.arange(12) % 4)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
        step = tf.train.get_or_create_global_step()
        kind, arguments = _OPTIMIZERS[optimizer]
        if kind == "AdagradDAOptimizer":
            arguments = {**arguments, "global_step": step}
        train = getattr(tf.train, kind)(**arguments).minimize(loss, global_step=step)
    found = []
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(_STEPS):
            session.run(train)
            found.append(session.run(loss))
        return [*found, session.run([w, b, table, step])]


for _name in _OPTIMIZERS:
    for _resource in (False, True):
        add_program(
            f"trains_with_{_name}_on_{'resources' if _resource else 'refs'}",
            functools.partial(_train, optimizer=_name, use_resource=_resource),
            ("tensorflow", "tideflow"),
        )


@program()
def trains_a_deep_network(tf: Any, at: Cluster) -> Any:
    inputs, labels = _data()
    rng = np.random.RandomState(5)
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
        x = tf.placeholder(tf.float32, [None, 5])
        y = tf.placeholder(tf.int32, [None])
        hidden, size = x, 5
        for i, units in enumerate((8, 6, 3)):
            with tf.variable_scope(f"{at.name}/layer{i}"):
                w = tf.get_variable("w", initializer=rng.randn(size, units).astype(np.float32))
                b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
            hidden = tf.matmul(hidden, w) + b
            hidden = tf.nn.tanh(hidden) if i < 2 else hidden
            size = units
        loss = tf.losses.sparse_softmax_cross_entropy(y, hidden)
        optimizer = tf.train.AdamOptimizer(0.01)
        pairs = optimizer.compute_gradients(loss)
        clipped, norm = tf.clip_by_global_norm([g for g, _ in pairs], 1.0)
        train = optimizer.apply_gradients(list(zip(clipped, [v for _, v in pairs])))
    feeds = {x: inputs, y: labels}
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run([loss, norm, train], feeds)[:2] for _ in range(6)]


def _moving_averages(tf: Any, at: Cluster, use_resource: bool) -> Any:
    with tf.device("/job:ps"):
        v = tf.get_variable(
            f"{at.name}/v", initializer=np.float32([4, -2]), use_resource=use_resource
        )
        step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.1, step, 2, 0.5, staircase=True)
    with tf.device("/job:worker/task:1"):
        loss = tf.reduce_sum(tf.square(v))
    train = tf.train.GradientDescentOptimizer(rate).minimize(loss, global_step=step)
    averages = tf.train.ExponentialMovingAverage(0.9)
    keep = averages.apply([v])
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        found = []
        for _ in range(5):
            session.run(train)
            session.run(keep)
            found.append(session.run([loss, rate, averages.average(v), step]))
    return found


for _resource in (False, True):
    add_program(
        f"trains_with_moving_averages_of_{'resources' if _resource else 'refs'}",
        functools.partial(_moving_averages, use_resource=_resource),
        ("tensorflow", "tideflow"),
    )


@program()
def trains_a_small_convolution(tf: Any, at: Cluster) -> Any:
    rng = np.random.RandomState(6)
    images = rng.rand(2, 8, 8, 1).astype(np.float32)
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:1")):
        kernel = tf.get_variable(f"{at.name}/k", initializer=rng.randn(3, 3, 1, 2).astype("f4"))
        bias = tf.get_variable(f"{at.name}/b", initializer=np.zeros(2, "f4"))
        x = tf.nn.conv2d(tf.constant(images), kernel, strides=[1, 1, 1, 1], padding="SAME")
        x = tf.nn.relu(tf.nn.bias_add(x, bias))
        x = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
        loss = tf.reduce_mean(tf.square(x - 1.0))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run([loss, train])[0] for _ in range(4)]


@program()
def two_workers_train_one_model(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=np.float32([4, -2]))
        step = tf.train.get_or_create_global_step()
    trains = []
    for task in (0, 1):
        with tf.device(f"/job:worker/task:{task}"):
            loss = tf.reduce_sum(tf.square(v - task))
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        trains.append(optimizer.minimize(loss, global_step=step))
    with at.session("worker:0") as first, at.session("worker:1") as second:
        first.run(tf.global_variables_initializer())
        for _ in range(3):
            first.run(trains[0])
            second.run(trains[1])
        return second.run([v, step])


@program()
def replicas_in_one_graph(tf: Any, at: Cluster) -> Any:
    """One client drives both workers; their gradients are averaged where the variables are."""
    inputs, labels = _data()
    optimizer = tf.train.MomentumOptimizer(0.2, 0.9)
    with tf.device("/job:ps"):
        random = np.random.RandomState(8)
        w = tf.get_variable(f"{at.name}/w", initializer=random.rand(5, 3).astype(np.float32))
        table = tf.get_variable(f"{at.name}/t", initializer=random.rand(6, 3).astype(np.float32))
    towers, losses = [], []
    for task in (0, 1):
        with tf.device(f"/job:worker/task:{task}"), tf.name_scope(f"tower{task}"):
            logits = tf.matmul(inputs[task::2], w) + tf.gather(table, labels[task::2])
            losses.append(
                tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(
                        labels=labels[task::2], logits=logits
                    )
                )
            )
            towers.append(tf.gradients(losses[-1], [w, table]))
    with tf.device("/job:ps"):
        averaged = [tf.add_n([tf.convert_to_tensor(g) for g in pair]) / 2 for pair in zip(*towers)]
        train = optimizer.apply_gradients(list(zip(averaged, [w, table])))
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run([*losses, w, train])[:3] for _ in range(4)]


@program()
def replicas_in_graphs_of_their_own(tf: Any, at: Cluster) -> Any:
    """Between-graph replication: the chief initialises, the other waits for that, both train."""

    def build(task: int) -> Any:
        device = tf.train.replica_device_setter(
            ps_tasks=1, worker_device=f"/job:worker/task:{task}"
        )
        with tf.Graph().as_default() as graph, tf.device(device):
            w = tf.get_variable(f"{at.name}/w", initializer=np.ones([3], np.float32))
            step = tf.train.get_or_create_global_step()
            x = tf.placeholder(tf.float32, [3])
            loss = tf.reduce_sum(tf.square(w - x))
            train = tf.train.GradientDescentOptimizer(0.25).minimize(loss, global_step=step)
            waiting = tf.report_uninitialized_variables()
            return graph, x, train, [w, step], tf.global_variables_initializer(), waiting

    def open_session(replica: Any, task: int) -> Any:
        with replica[0].as_default():
            return at.session(f"worker:{task}", device_filters=_own_devices(task))

    chief, other = build(0), build(1)
    with open_session(chief, 0) as first, open_session(other, 1) as second:
        # Another program may have left a global step.
        found = [len(second.run(other[5]))]
        first.run(chief[4])
        found.append(len(second.run(other[5])))
        for round_ in range(3):
            first.run(chief[2], {chief[1]: [round_, 0.0, 1.0]})
            second.run(other[2], {other[1]: [0.0, round_, 2.0]})
            found.append(second.run(other[3]))
        return found[1:]


def _own_devices(task: int) -> list[str]:
    return ["/job:ps", f"/job:worker/task:{task}"]


@program()
def an_embedding_in_parts(tf: Any, at: Cluster) -> Any:
    first = np.random.RandomState(9).rand(10, 4).astype(np.float32)
    with tf.device("/job:ps"):
        table = tf.get_variable(
            f"{at.name}/table", shape=[10, 4], initializer=tf.zeros_initializer(),
            partitioner=tf.fixed_size_partitioner(3), use_resource=True,
        )  # fmt: skip
        start = [tf.assign(part, rows) for part, rows in zip(table, np.split(first, [4, 7]))]
    with tf.device("/job:worker/task:1"):
        rows = tf.nn.embedding_lookup(table, [0, 9, 4, 4], partition_strategy="div")
        spread = tf.nn.embedding_lookup(list(table), [0, 8, 4], partition_strategy="mod")
        loss = tf.reduce_sum(tf.square(rows)) + tf.reduce_sum(spread)
    train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        session.run(start)
        found = [session.run([rows, spread, loss, train])[:3] for _ in range(3)]
        return [*found, session.run(tf.convert_to_tensor(table))]
