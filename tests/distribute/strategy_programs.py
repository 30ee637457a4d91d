"""Programs with a MirroredStrategy over two devices, for TensorFlow and for us.

    python strategy_programs.py tensorflow|tideflow [WORKERS]

prints, as JSON, what each program returns or raises.  The devices are this process's own, or where
WORKERS (a JSON list of addresses) are given, theirs in turn: CPU:0 of the first, CPU:1 of the last.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any, Any], Any]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def plain(value: Any) -> Any:
    """Return a value as JSON has it; distributed values with their kind."""
    if isinstance(value, dict):
        return {str(key): plain(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    if type(value).__name__ == "PerReplica":
        return ["PerReplica", *map(plain, value.values)]
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def numbers(tf: Any, strategy: Any) -> Any:
    """Return 1.0 in the first replica, 2.0 in the second."""
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(1.0 + context.replica_id_in_sync_group)
    )


@program
def results_are_joined(tf: Any, strategy: Any) -> Any:
    shared = object()
    found = strategy.run(
        lambda x: {"a": x, "b": [x + 1.0, (x,)], "c": 3, "d": shared, "e": None, "f": "s"},
        (numbers(tf, strategy),),
    )
    found["d"] = found["d"] is shared
    return found


@program
def different_python_values(tf: Any, strategy: Any) -> Any:
    return strategy.run(lambda: tf.distribute.get_replica_context().replica_id_in_sync_group)


@program
def local_results(tf: Any, strategy: Any) -> Any:
    values = numbers(tf, strategy)
    return [strategy.experimental_local_results(one) for one in (values, tf.constant(3), 4)]


@program
def nests_of_values(tf: Any, strategy: Any) -> Any:
    return strategy.experimental_distribute_values_from_function(
        lambda context: {
            "x": tf.constant(context.replica_id_in_sync_group),
            "n": context.num_replicas_in_sync,
        }
    )


@program
def reductions(tf: Any, strategy: Any) -> Any:
    values = numbers(tf, strategy)
    rows = strategy.run(lambda x: tf.stack([x, x * 10.0]), (values,))
    return [
        strategy.reduce("SUM", values, axis=None),
        strategy.reduce("mean", values, axis=None),
        strategy.reduce(tf.distribute.ReduceOp.SUM, rows, axis=0),
        strategy.reduce(tf.distribute.ReduceOp.MEAN, rows, axis=0),
        strategy.reduce("MEAN", 2.0, axis=None),
    ]


@program
def sum_of_one_value(tf: Any, strategy: Any) -> Any:
    return strategy.reduce("SUM", 2.0, axis=None)


@program
def reduction_of_another_kind(tf: Any, strategy: Any) -> Any:
    return strategy.reduce("MAX", numbers(tf, strategy), axis=None)


@program
def gathering(tf: Any, strategy: Any) -> Any:
    values = strategy.run(lambda x: tf.reshape(tf.stack([x, -x]), [1, 2]), (numbers(tf, strategy),))
    return [strategy.gather(values, axis=0), strategy.gather(values, axis=1)]


@program
def all_reduce_of_nests(tf: Any, strategy: Any) -> Any:
    def replica(x: Any) -> Any:
        context = tf.distribute.get_replica_context()
        found = context.all_reduce("SUM", {"a": x, "b": [x * 2.0, tf.stack([x, x])]})
        return found, context.all_reduce(tf.distribute.ReduceOp.MEAN, x)

    return strategy.run(replica, (numbers(tf, strategy),))


@program
def all_gather_of_nests(tf: Any, strategy: Any) -> Any:
    def replica(x: Any) -> Any:
        context = tf.distribute.get_replica_context()
        return context.all_gather([tf.reshape(x, [1]), tf.reshape(x, [1, 1])], axis=0)

    return tf.function(lambda: strategy.run(replica, (numbers(tf, strategy),)))()


@program
def gradients_through_all_reduce(tf: Any, strategy: Any) -> Any:
    def replica(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.distribute.get_replica_context().all_reduce("SUM", x * x)
        return tape.gradient(y, x)

    return strategy.run(replica, (numbers(tf, strategy),))


@program
def merging(tf: Any, strategy: Any) -> Any:
    def merge(found: Any, x: Any, factor: float) -> Any:
        return [found is strategy, found.reduce("SUM", x, axis=None) * factor]

    def replica(x: Any) -> Any:
        return tf.distribute.get_replica_context().merge_call(merge, (x,), {"factor": 2.0})

    return strategy.run(replica, (numbers(tf, strategy),))


@program
def names_and_devices_of_variables(tf: Any, strategy: Any) -> Any:
    with strategy.scope():
        v = tf.Variable([1.0, 2.0], name="v")
    return [
        v.name,
        [copy.name for copy in v.values],
        [copy.device[-5:] for copy in v.values],
        v.shape.as_list(),
        v.dtype.name,
        v.trainable,
        type(v).__name__,
        isinstance(v, tf.Variable),
    ]


def with_aggregation(tf: Any, strategy: Any, kind: str) -> Any:
    with strategy.scope():
        v = tf.Variable(1.0, aggregation=getattr(tf.VariableAggregation, kind))
    strategy.run(lambda x: v.assign_add(x), (numbers(tf, strategy),))
    after_run = [copy.numpy() for copy in v.values]
    v.assign(5.0)
    return [after_run, [copy.numpy() for copy in v.values], v.aggregation.name]


@program
def updates_of_sums(tf: Any, strategy: Any) -> Any:
    return with_aggregation(tf, strategy, "SUM")


@program
def updates_of_means(tf: Any, strategy: Any) -> Any:
    return with_aggregation(tf, strategy, "MEAN")


@program
def updates_of_the_first(tf: Any, strategy: Any) -> Any:
    return with_aggregation(tf, strategy, "ONLY_FIRST_REPLICA")


@program
def updates_without_aggregation(tf: Any, strategy: Any) -> Any:
    return with_aggregation(tf, strategy, "NONE")


def on_read(tf: Any, strategy: Any, kind: str) -> Any:
    with strategy.scope():
        return tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=getattr(tf.VariableAggregation, kind),
        )


@program
def read_together(tf: Any, strategy: Any) -> Any:
    found = []
    for kind in ("SUM", "MEAN", "ONLY_FIRST_REPLICA"):
        v = on_read(tf, strategy, kind)
        strategy.run(lambda x, v=v: v.assign_add(x), (numbers(tf, strategy),))
        read = float(v.read_value())
        v.assign(8.0)
        found.append([read, [c.numpy() for c in v.values], v.trainable, type(v).__name__])
    return found


@program
def read_without_aggregation(tf: Any, strategy: Any) -> Any:
    return on_read(tf, strategy, "NONE").read_value()


@program
def add_to_what_is_summed_on_read(tf: Any, strategy: Any) -> Any:
    return on_read(tf, strategy, "SUM").assign_add(1.0)


@program
def no_synchronization(tf: Any, strategy: Any) -> Any:
    with strategy.scope():
        return tf.Variable(1.0, synchronization=tf.VariableSynchronization.NONE)


@program
def updates_of_copies(tf: Any, strategy: Any) -> Any:
    with strategy.scope():
        v = tf.Variable(1.0)
        strategy.extended.update(v, lambda copy, x: copy.assign_add(x), (numbers(tf, strategy),))
        found = [copy.numpy() for copy in v.values]
        strategy.extended.update(v, lambda copy: copy.assign(9.0))
    return [found, [copy.numpy() for copy in v.values]]


@program
def reduce_to_a_variable(tf: Any, strategy: Any) -> Any:
    with strategy.scope():
        v = tf.Variable(1.0)
        total = strategy.extended.reduce_to("SUM", numbers(tf, strategy), v)
        several = strategy.extended.batch_reduce_to("MEAN", [(numbers(tf, strategy), v)] * 2)
        return [
            float(strategy.experimental_local_results(total)[0]),
            [float(strategy.experimental_local_results(x)[0]) for x in several],
        ]


@program
def contexts(tf: Any, strategy: Any) -> Any:
    distribute = tf.distribute

    def where() -> list[Any]:
        context = distribute.get_replica_context()
        return [
            distribute.has_strategy(),
            distribute.in_cross_replica_context(),
            context is None,
            distribute.get_strategy() is strategy,
            distribute.get_strategy().num_replicas_in_sync,
        ]

    found = [where()]
    with strategy.scope():
        found.append(where())
        with strategy.scope():
            found.append(where())
    return [*found, strategy.run(where)]


@program
def another_scope(tf: Any, strategy: Any) -> Any:
    with strategy.scope(), tf.distribute.OneDeviceStrategy("CPU:0").scope():
        return None


@program
def run_in_a_replica(tf: Any, strategy: Any) -> Any:
    return strategy.run(lambda: strategy.run(lambda: 1))


@program
def reduce_in_a_replica(tf: Any, strategy: Any) -> Any:
    return strategy.run(lambda: strategy.reduce("SUM", tf.constant(1.0), axis=None))


@program
def merge_calls_that_differ(tf: Any, strategy: Any) -> Any:
    def replica() -> None:
        context = tf.distribute.get_replica_context()
        if context.replica_id_in_sync_group.numpy() == 0:
            context.merge_call(lambda s: None)

    return strategy.run(replica)


@program
def merge_call_in_a_function(tf: Any, strategy: Any) -> Any:
    @tf.function
    def replica() -> Any:
        return tf.distribute.get_replica_context().merge_call(lambda s: tf.constant(1.0))

    return tf.function(lambda: strategy.run(lambda: replica()))()


@program
def merge_call_in_a_branch(tf: Any, strategy: Any) -> Any:
    def replica(x: Any) -> Any:
        def reduced() -> Any:
            return tf.distribute.get_replica_context().all_reduce("SUM", x)

        return tf.cond(x > 0.0, reduced, lambda: x)

    return tf.function(lambda x: strategy.run(replica, (x,)))(numbers(tf, strategy))


@program
def variables_made_in_replicas(tf: Any, strategy: Any) -> Any:
    made: list[Any] = []

    def replica() -> Any:
        if not made:
            made.append(tf.Variable(2.0, name="inside"))
        return made[0] * 2.0

    return strategy.run(replica)


@program
def an_error_in_a_replica(tf: Any, strategy: Any) -> Any:
    def replica(x: Any) -> Any:
        if float(x) == 2.0:
            raise KeyError("second")
        return x

    return strategy.run(replica, (numbers(tf, strategy),))


@program
def batches_are_parted(tf: Any, strategy: Any) -> Any:
    data = tf.data.Dataset.range(7).batch(4)
    return [
        [part.numpy().tolist() for part in strategy.experimental_local_results(element)]
        for element in strategy.experimental_distribute_dataset(data)
    ]


@program
def parted_batches_of_structures(tf: Any, strategy: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices({"x": np.arange(4), "y": np.ones((4, 2))}).batch(4)
    return [
        plain(strategy.run(lambda e: e["x"] + tf.cast(e["y"][:, 0], tf.int64), (element,)))
        for element in strategy.experimental_distribute_dataset(data)
    ]


@program
def datasets_from_a_function(tf: Any, strategy: Any) -> Any:
    seen: list[Any] = []

    def make(context: Any) -> Any:
        seen.append(
            [
                context.num_input_pipelines,
                context.input_pipeline_id,
                context.num_replicas_in_sync,
                context.get_per_replica_batch_size(6),
            ]
        )
        return tf.data.Dataset.range(5).batch(2)

    elements = strategy.distribute_datasets_from_function(make)
    found = [
        [part.numpy().tolist() for part in strategy.experimental_local_results(element)]
        for element in elements
    ]
    return [seen, found]


@program
def input_that_cannot_be_parted(tf: Any, strategy: Any) -> Any:
    return tf.distribute.InputContext(2, 0, 4).get_per_replica_batch_size(6)


@program
def distributed_iterators_in_functions(tf: Any, strategy: Any) -> Any:
    take = tf.function(lambda elements: strategy.experimental_local_results(next(elements)))
    data = tf.data.Dataset.range(10).batch(4)
    parted = iter(strategy.experimental_distribute_dataset(data))
    whole = iter(strategy.distribute_datasets_from_function(lambda c: data.repeat()))
    plain = iter(data)
    next_plain = tf.function(lambda: next(plain))
    return [
        [[part.numpy().tolist() for part in take(elements)] for _ in range(2)]
        for elements in (parted, whole)
    ] + [next_plain().numpy().tolist() for _ in range(2)]


@program
def the_end_of_data(tf: Any, strategy: Any) -> Any:
    elements = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(2).batch(2)))
    elements.get_next()
    return elements.get_next()


@program
def the_default_strategy(tf: Any, strategy: Any) -> Any:
    default = tf.distribute.get_strategy()
    return [
        default.num_replicas_in_sync,
        default.run(lambda x: x + 1.0, (tf.constant(1.0),)),
        default.reduce("SUM", tf.constant(2.0), axis=None),
        default.reduce("MEAN", tf.constant([2.0, 4.0]), axis=0),
        tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(3.0)),
        tf.distribute.get_replica_context().merge_call(lambda s, x: x, (1,)),
        default.experimental_local_results(tf.constant(1)),
    ]


@program
def one_device(tf: Any, strategy: Any) -> Any:
    one = tf.distribute.OneDeviceStrategy("CPU:1")
    with one.scope():
        v = tf.Variable(1.0, name="w")
    found = one.run(lambda x: x + v, (tf.constant(2.0),))
    return [found, v.name, v.device[-5:], one.num_replicas_in_sync, one.reduce("MEAN", found, None)]


@program
def a_function_is_traced_once(tf: Any, strategy: Any) -> Any:
    traces: list[int] = []

    @tf.function
    def step(x: Any) -> Any:
        traces.append(1)
        return strategy.run(lambda y: y * 2.0, (x,))

    found = [plain(step(numbers(tf, strategy))) for _ in range(3)]
    return [len(traces), found]


def main() -> None:
    library = sys.argv[1]
    tf = importlib.import_module(library)
    cpu = tf.config.list_physical_devices("CPU")[0]
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    devices = ["CPU:0", "CPU:1"]
    if len(sys.argv) > 2:
        workers = json.loads(sys.argv[2])
        tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({"worker": workers}))
        tasks = [0, len(workers) - 1]
        devices = [f"/job:worker/task:{tasks[i]}/device:CPU:{i}" for i in range(2)]
    strategy = tf.distribute.MirroredStrategy(devices)
    found: dict[str, Any] = {}
    for name, one in PROGRAMS.items():
        try:
            found[name] = ["returned", plain(one(tf, strategy))]
        except Exception as error:
            found[name] = ["raised", type(error).__name__, str(error)]
    print("found", json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
