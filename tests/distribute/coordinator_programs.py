"""Programs with a ClusterCoordinator, for TensorFlow and for us.

    python coordinator_programs.py tensorflow|tideflow CLUSTER PIDS

prints, as JSON, what each program returns or raises.  CLUSTER names two tasks of jobs "ps" and
"worker" each, and a "chief"; PIDS are the processes to kill in the last programs: worker 1, ps 1.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from distribute.strategy_programs import plain

PROGRAMS: dict[str, Callable[[Bench], Any]] = {}


class Bench:
    """What programs use: the library, a coordinator, and what can be killed."""

    def __init__(self, tf: Any, cluster: dict[str, list[str]], pids: list[int]) -> None:
        self.tf = tf
        self.pids = pids
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc"
        )
        in_two = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)

        def partitioner(shape: Any, dtype: Any) -> Any:
            # The table; Keras takes no variable in parts.
            return in_two(shape, dtype) if shape[0] == 5 else [1] * len(shape)

        self.strategy = tf.distribute.ParameterServerStrategy(resolver, partitioner)
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)

    def variable(self, *args: Any, **kwargs: Any) -> Any:
        with self.strategy.scope():
            return self.tf.Variable(*args, **kwargs)

    def schedule(self, function: Any, *args: Any, times: int = 1) -> list[Any]:
        found = [self.coordinator.schedule(function, args=args) for _ in range(times)]
        self.coordinator.join()
        return found


def program(function: Callable[[Bench], Any]) -> Callable[[Bench], Any]:
    PROGRAMS[function.__name__] = function
    return function


@program
def counts_on_parameter_servers(bench: Bench) -> Any:
    tf = bench.tf
    total, rows = bench.variable(0), bench.variable(0.0)

    @tf.function
    def step(x: Any) -> None:
        total.assign_add(1)
        rows.assign_add(x)

    bench.schedule(step, tf.constant(0.5), times=20)
    placed = {v.device.split("/task:")[1][:1] for v in (total, rows)}
    return [total.numpy(), rows.numpy(), sorted(placed)]


@program
def fetches_structures(bench: Bench) -> Any:
    tf = bench.tf

    @tf.function
    def step(x: Any) -> Any:
        return {"a": x * 2.0, "b": [x + 1.0, tf.constant(["text"])]}

    found = bench.schedule(step, tf.constant([1.0, 2.0]), times=2)
    fetched = bench.coordinator.fetch({"all": found})
    return [plain(one) for one in fetched["all"]]


@program
def partitioned_variables(bench: Bench) -> Any:
    tf = bench.tf
    table = bench.variable(tf.reshape(tf.range(10.0), [5, 2]), name="table")

    @tf.function
    def step(ids: Any) -> Any:
        for part in table.variables:
            part.assign_add(tf.ones_like(part))
        return tf.nn.embedding_lookup(table, ids)

    found = bench.schedule(step, tf.constant([0, 1, 4], tf.int64))
    return [
        [v.name for v in table.variables],
        [v.shape.as_list() for v in table.variables],
        sorted(v.device.split("/task:")[1][:1] for v in table.variables),
        plain(found[0].fetch()),
        tf.convert_to_tensor(table).numpy().tolist(),
    ]


@program
def datasets_of_workers(bench: Bench) -> Any:
    tf = bench.tf

    def make() -> Any:
        return tf.data.Dataset.range(100).map(lambda x: x * 3 + 1).batch(2)

    elements = iter(bench.coordinator.create_per_worker_dataset(make))
    step = tf.function(lambda iterator: tf.reduce_sum(next(iterator)))
    found = sorted(int(value.fetch()) for value in bench.schedule(step, elements, times=9))
    # Which worker takes how many is chance; each begins at the start and leaves nothing out.
    expected = [5 + 12 * i for i in range(9)]
    counts = [found.count(one) for one in expected]
    return [sum(counts), counts == sorted(counts, reverse=True), counts[0] in (1, 2)]


@program
def a_dataset_that_the_coordinator_has_made(bench: Bench) -> Any:
    tf = bench.tf
    offset = tf.constant(1, tf.int64)
    rows = tf.data.Dataset.from_tensor_slices(tf.range(40, dtype=tf.int64))
    batches = rows.map(lambda x: x + offset).batch(4)
    elements = iter(bench.coordinator.create_per_worker_dataset(batches))
    step = tf.function(lambda iterator: tf.reduce_sum(next(iterator)))
    found = sorted(int(value.fetch()) for value in bench.schedule(step, elements, times=7))
    expected = [10 + 16 * i for i in range(7)]
    counts = [found.count(one) for one in expected]
    return [sum(counts), counts == sorted(counts, reverse=True), counts[0] in (1, 2)]


@program
def a_closure_that_fails(bench: Bench) -> Any:
    tf = bench.tf

    @tf.function
    def fail(x: Any) -> Any:
        tf.debugging.assert_equal(x, 1, message="as it must")
        return x

    raised = []
    value = bench.coordinator.schedule(fail, args=(tf.constant(2),))
    for ask in (bench.coordinator.join, value.fetch):
        try:
            ask()
        except tf.errors.OpError as error:
            raised.append([type(error).__name__, "as it must" in str(error)])
    [after] = bench.schedule(fail, tf.constant(1))
    return [raised, after.fetch().tolist(), bench.coordinator.done()]


@program
def gradients_of_workers(bench: Bench) -> Any:
    tf = bench.tf
    weight = bench.variable(2.0)

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = (weight * x - 1.0) ** 2
        return loss, tape.gradient(loss, weight)

    losses = []
    for _ in range(4):
        found = bench.coordinator.fetch(bench.schedule(step, tf.constant(0.5), times=2))
        weight.assign_sub(0.1 * sum(gradient for _, gradient in found))
        losses.append(round(float(found[0][0]), 6))
    return losses


@program
def trains_a_model_of_keras(bench: Bench) -> Any:
    tf = bench.tf
    if tf.__name__ == "tideflow":
        as_tensorflow = importlib.import_module("tideflow.as_tensorflow")
        as_tensorflow.install()
    try:
        keras = importlib.import_module("keras")
    except ModuleNotFoundError:
        return None
    keras.utils.set_random_seed(4)
    x = np.random.RandomState(4).randn(8, 3).astype(np.float32)
    y = x.sum(axis=1, keepdims=True)
    with bench.strategy.scope():
        layers = [keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((3,)), *layers])
        optimizer = keras.optimizers.Adam(0.05)
        optimizer.build(model.trainable_variables)
        metric = keras.metrics.MeanAbsoluteError()

    @tf.function
    def step(inputs: Any, labels: Any) -> Any:
        def replica_step(inputs: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                outputs = model(inputs, training=True)
                loss = tf.reduce_mean((outputs - labels) ** 2)
            gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
            optimizer.apply(gradients, model.trainable_variables)
            metric.update_state(labels, outputs)
            return loss

        return bench.strategy.run(replica_step, args=(inputs, labels))

    found = []
    for _ in range(4):
        [loss] = bench.schedule(step, tf.constant(x), tf.constant(y))
        found.append(float(loss.fetch()))
    found.append(float(metric.result()))
    return np.round(found, 4).tolist()


@program
def closures_of_a_lost_worker_are_run_by_the_other(bench: Bench) -> Any:
    tf = bench.tf
    count = bench.variable(0)

    @tf.function
    def step() -> Any:
        count.assign_add(1)
        return tf.constant(7)

    bench.schedule(step, times=6)
    os.kill(bench.pids[0], signal.SIGKILL)
    found = bench.schedule(step, times=10)
    return [plain(bench.coordinator.fetch(found)), bool(count.numpy() >= 16)]


@program
def a_lost_parameter_server_is_told_of(bench: Bench) -> Any:
    tf = bench.tf
    kept = [bench.variable(float(i)) for i in range(2)]
    step = tf.function(lambda: kept[0] + kept[1])
    [before] = bench.schedule(step)
    os.kill(bench.pids[1], signal.SIGKILL)
    try:
        bench.schedule(step, times=3)
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        return [float(before.fetch()), "/job:ps" in str(error)]
    return None


def main() -> None:
    tf = importlib.import_module(sys.argv[1])
    bench = Bench(tf, json.loads(sys.argv[2]), json.loads(sys.argv[3]))
    found: dict[str, Any] = {}
    for name, one in PROGRAMS.items():
        try:
            found[name] = ["returned", plain(one(bench))]
        except Exception as error:
            found[name] = ["raised", type(error).__name__, str(error)]
    print("found", json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
