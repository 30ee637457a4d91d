"""Strategies on devices of one process: replicas, reductions, variables, datasets."""

# ruff: noqa: RUF015 - programs are written as users write them

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np

from shown_values import value
from tf_behaviours.registry import behaviour, error

_FOLDER = "python/distribute"
mirrored = functools.partial(behaviour, f"{_FOLDER}/mirrored_strategy_test.py")
common = functools.partial(behaviour, f"{_FOLDER}/strategy_common_test.py")
values = functools.partial(behaviour, f"{_FOLDER}/values_test.py")
inputs = functools.partial(behaviour, f"{_FOLDER}/input_lib_test.py")
collective = functools.partial(behaviour, f"{_FOLDER}/collective_all_reduce_strategy_test.py")


def _two(tf: Any) -> Any:
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def _local(strategy: Any, found: Any) -> Any:
    return [value(x) for x in strategy.experimental_local_results(found)]


@mirrored("Each replica runs the function, and knows its number.")
def replicas(tf: Any) -> Any:
    strategy = _two(tf)

    def body(x: Any) -> Any:
        context = tf.distribute.get_replica_context()
        return tf.cast(context.replica_id_in_sync_group, tf.int32) + x, context.num_replicas_in_sync

    found = strategy.run(body, args=(10,))
    return [
        _local(strategy, found[0]),
        found[1],
        strategy.num_replicas_in_sync,
        _local(strategy, tf.function(lambda: strategy.run(body, args=(10,))[0])()),
        list(strategy.extended.worker_devices),
        strategy.extended.parameter_devices == strategy.extended.worker_devices,
    ]


@mirrored("A function that replicas run is traced once for each of them.")
def traces_of_replicas(tf: Any) -> Any:
    strategy = _two(tf)
    traces = []

    @tf.function
    def body() -> Any:
        traces.append(1)
        return tf.distribute.get_replica_context().replica_id_in_sync_group

    found = [_local(strategy, strategy.run(body)) for _ in range(3)]
    return [found, len(traces)]


@mirrored("A merge call joins replicas, but not within a function or a loop of theirs.")
def merge_calls(tf: Any) -> Any:
    strategy = _two(tf)

    def merge(strategy: Any, x: Any) -> Any:
        return strategy.reduce("SUM", x, axis=None)

    def body() -> Any:
        return tf.distribute.get_replica_context().merge_call(merge, args=(tf.constant(2),))

    nested = tf.function(body)
    return [
        error(lambda: _local(strategy, strategy.run(body))),
        error(lambda: _local(strategy, tf.function(lambda: strategy.run(body))())),
        error(lambda: strategy.run(lambda: nested())),
    ]


@mirrored("Contexts: replica, cross-replica and default.")
def contexts(tf: Any) -> Any:
    strategy = _two(tf)
    d = tf.distribute
    found = [d.in_cross_replica_context(), d.has_strategy(), d.get_replica_context() is not None]
    with strategy.scope():
        found += [
            d.in_cross_replica_context(),
            d.has_strategy(),
            d.get_replica_context() is None,
            d.get_strategy() is strategy,
        ]
    inner = []
    strategy.run(
        lambda: inner.append(
            (d.in_cross_replica_context(), d.get_replica_context().strategy is strategy)
        )
    )
    return [*found, inner, error(lambda: strategy.run(lambda: strategy.run(lambda: 1)))]


@mirrored("Variables are mirrored; an assignment in replicas needs an aggregation.")
def variables(tf: Any) -> Any:
    strategy = _two(tf)
    with strategy.scope():
        plain = tf.Variable(1.0)
        mean = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)
        total = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
        first = tf.Variable(1.0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

    def add(v: Any) -> Any:
        n = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        v.assign_add(n + 1.0)

    for v in (mean, total, first):
        strategy.run(add, args=(v,))
    return [
        error(lambda: strategy.run(add, args=(plain,))),
        value(mean),
        value(total),
        value(first),
        [_local(strategy, v) for v in (mean, total)],
        plain.name,
        str(mean.aggregation),
    ]


@mirrored("Variables that are read are kept for each replica, and joined where they are read.")
def variables_joined_on_reading(tf: Any) -> Any:
    strategy = _two(tf)
    kinds = tf.VariableAggregation
    with strategy.scope():
        made = {
            k.name: tf.Variable(
                0.0,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=k,
                trainable=False,
            )
            for k in (kinds.SUM, kinds.MEAN, kinds.ONLY_FIRST_REPLICA)
        }

    def add() -> Any:
        n = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        return [v.assign_add(n + 1.0) for v in made.values()][0] * 1.0

    found = _local(strategy, strategy.run(add))
    read = {k: value(v.read_value()) for k, v in made.items()}
    made["MEAN"].assign(8.0)
    return [found, read, value(made["MEAN"]), _local(strategy, made["SUM"])]


@mirrored("Gradients of replicas are averaged or summed by all_reduce.")
def reduced_gradients(tf: Any) -> Any:
    strategy = _two(tf)
    with strategy.scope():
        v = tf.Variable(2.0)

    def body(op: str) -> Any:
        context = tf.distribute.get_replica_context()
        with tf.GradientTape() as tape:
            y = v * v * (1.0 + tf.cast(context.replica_id_in_sync_group, tf.float32))
        return context.all_reduce(op, tape.gradient(y, v))

    return [
        _local(strategy, tf.function(lambda op=op: strategy.run(body, args=(op,)))())
        for op in ("SUM", "MEAN")
    ]


@common("Reductions of values of replicas: sums, means, along an axis; of one value too.")
def reductions(tf: Any) -> Any:
    strategy = _two(tf)

    def body() -> Any:
        n = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        return tf.stack([n, n + 1.0])

    uneven = strategy.experimental_distribute_values_from_function(
        lambda c: tf.fill([c.replica_id_in_sync_group + 1], float(c.replica_id_in_sync_group))
    )
    x = strategy.run(body)
    r = strategy.reduce
    return [
        value(r("SUM", x, axis=None)),
        value(r("MEAN", x, axis=None)),
        value(r("SUM", x, axis=0)),
        value(r(tf.distribute.ReduceOp.MEAN, x, axis=0)),
        value(r("SUM", uneven, axis=0)),
        value(r("MEAN", uneven, axis=0)),
        value(tf.function(lambda: r("SUM", x, axis=0))()),
        error(lambda: value(r("MEAN", tf.constant(3.0), axis=None))),
        error(lambda: r("MAX", x, axis=None)),
        error(lambda: r("SUM", x)),
    ]


@common("Values of replicas are gathered along an axis, of uneven sizes too.")
def gathering(tf: Any) -> Any:
    strategy = _two(tf)
    uneven = strategy.experimental_distribute_values_from_function(
        lambda c: tf.fill([c.replica_id_in_sync_group + 1, 2], c.replica_id_in_sync_group)
    )
    return [
        value(strategy.gather(uneven, axis=0)),
        error(lambda: value(strategy.gather(uneven, axis=1))),
        error(lambda: value(strategy.gather(tf.constant([1]), axis=0))),
        error(lambda: value(strategy.gather(uneven, axis=5))),
    ]


@common("all_reduce and all_gather of replicas, of structures and IndexedSlices.")
def collectives_of_replicas(tf: Any) -> Any:
    strategy = _two(tf)

    def nested() -> Any:
        c = tf.distribute.get_replica_context()
        n = tf.cast(c.replica_id_in_sync_group, tf.float32)
        return c.all_reduce("SUM", {"a": n, "b": (n + 1.0,)})

    def gathered() -> Any:
        c = tf.distribute.get_replica_context()
        return c.all_gather(tf.fill([1], c.replica_id_in_sync_group), axis=0)

    def slices() -> Any:
        c = tf.distribute.get_replica_context()
        return c.all_reduce(
            "SUM", tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), tf.constant([3, 2]))
        )

    run = strategy.run
    return [
        error(lambda: _local(strategy, tf.function(lambda: run(nested))()["a"])),
        error(lambda: _local(strategy, tf.function(lambda: run(gathered))())),
        error(
            lambda: [
                value(tf.convert_to_tensor(x))
                for x in strategy.experimental_local_results(tf.function(lambda: run(slices))())
            ]
        ),
    ]


@values("Values are made for each replica by a function, of any structure.")
def values_from_functions(tf: Any) -> Any:
    strategy = _two(tf)
    made = strategy.experimental_distribute_values_from_function
    two = made(lambda c: (c.replica_id_in_sync_group, [1.0 * c.num_replicas_in_sync]))
    one = made(lambda c: tf.constant(c.replica_id_in_sync_group))
    return [
        _local(strategy, two[0]),
        _local(strategy, two[1][0]),
        _local(strategy, strategy.run(lambda x: x * x, args=(one,))),
        type(one).__name__,
        [x.device for x in one.values],
        error(lambda: one + 1),
    ]


@values("A mirrored variable is a variable: copied, compared, computed with, sliced, reported.")
def mirrored_variables(tf: Any) -> Any:
    strategy = _two(tf)
    with strategy.scope():
        v = tf.Variable([1.0, 2.0], name="v")
        copied = copy.deepcopy(v)
    v.assign([3.0, 4.0])
    return [
        isinstance(v, tf.Variable),
        value(v + 1.0),
        value(v[0]),
        value(copied),
        v.shape == (2,),
        v.dtype.name,
        [x.name for x in v.values],
        v.trainable,
        str(v.synchronization),
        v.handle is not None,
        value(tf.reduce_sum(v)),
        v.distribute_strategy is strategy,
        [x.device for x in v.values],
        tf.is_tensor(v),
        type(v).__name__,
        error(lambda: bool(v)),
        value(v.assign_sub([1.0, 1.0])),
    ]


@values("Mirrored variables are saved once and restored on every device.")
def saved_variables(tf: Any, folder: str) -> Any:
    strategy = _two(tf)
    with strategy.scope():
        v = tf.Variable([1.0, 2.0])
        r = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    r.assign(6.0)
    checkpoint = tf.train.Checkpoint(v=v, r=r)
    path = checkpoint.save(f"{folder}/c")
    v.assign([0.0, 0.0])
    r.assign(0.0)
    checkpoint.restore(path).assert_consumed()
    plain = tf.train.Checkpoint(v=tf.Variable([0.0, 0.0]), r=tf.Variable(0.0))
    plain.restore(path)
    return [
        sorted(n for n, _ in tf.train.list_variables(path)),
        _local(strategy, v),
        value(r),
        _local(strategy, r),
        value(plain.v),
        value(plain.r),
    ]


@values("Scatter and sparse reads of a mirrored variable, and its use in functions.")
def scattered_variables(tf: Any) -> Any:
    strategy = _two(tf)
    with strategy.scope():
        v = tf.Variable([1.0, 2.0, 3.0], aggregation=tf.VariableAggregation.SUM)
    found = [error(lambda: v.sparse_read([0, 2])), value(tf.gather(v, [1]))]
    strategy.run(lambda: v.scatter_add(tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]))))
    f = tf.function(lambda: v * 2.0)
    return [*found, _local(strategy, v), value(f())]


@values("Initial values are made once, and creators see the variables of a strategy.")
def initial_values(tf: Any) -> Any:
    strategy = _two(tf)
    made = []

    def creator(make: Any, **given: Any) -> Any:
        made.append(given["name"])
        return make(**given)

    with strategy.scope(), tf.variable_creator_scope(creator):
        v = tf.Variable(lambda: tf.random.uniform([2]), name="v")
    one, two = _local(strategy, v)
    return [made, bool(np.all(one == two))]


@inputs("A batch of a dataset is divided among replicas, and a last one may be uneven.")
def divided_batches(tf: Any) -> Any:
    strategy = _two(tf)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(6).batch(4))
    found = [_local(strategy, x) for x in data]

    @tf.function
    def step(it: Any) -> Any:
        return strategy.run(lambda x: tf.reduce_sum(x), args=(next(it),))

    it = iter(data)
    return [
        found,
        [_local(strategy, step(it)) for _ in range(2)],
        error(lambda: step(it)),
        str(data.element_spec),
        error(lambda: next(it)),
        type(next(iter(data))).__name__,
    ]


@inputs("A dataset function is given its pipeline's place and the size of batches.")
def dataset_functions(tf: Any) -> Any:
    strategy = _two(tf)
    seen = []

    def made(context: Any) -> Any:
        seen.append(
            (
                context.num_input_pipelines,
                context.input_pipeline_id,
                context.num_replicas_in_sync,
                context.get_per_replica_batch_size(8),
            )
        )
        return tf.data.Dataset.range(4).batch(1)

    data = strategy.distribute_datasets_from_function(made)
    return [[_local(strategy, x) for x in data], seen]


@inputs("Elements are structures; unbatched datasets give replicas one element each.")
def structures_of_elements(tf: Any) -> Any:
    strategy = _two(tf)
    data = tf.data.Dataset.range(4).map(lambda x: {"a": x, "b": (x * 2,)}).batch(2)
    found = [
        [_local(strategy, x["a"]), _local(strategy, x["b"][0])]
        for x in strategy.experimental_distribute_dataset(data)
    ]
    return [found, error(lambda: strategy.experimental_distribute_dataset([1]))]


@inputs("A distributed dataset is walked over again and again, also in functions.")
def walks(tf: Any) -> Any:
    strategy = _two(tf)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2))

    @tf.function
    def total() -> Any:
        found = tf.constant(0, tf.int64)
        for x in data:
            found += strategy.reduce(
                "SUM", strategy.run(lambda y: tf.reduce_sum(y), args=(x,)), axis=None
            )
        return found

    return [value(total()), value(total()), len([1 for _ in data])]


@inputs("Optionals of a distributed iterator say where there is nothing more.")
def optionals(tf: Any) -> Any:
    strategy = _two(tf)
    it = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(2).batch(2)))
    one, two = it.get_next_as_optional(), it.get_next_as_optional()
    return [value(one.has_value()), _local(strategy, one.get_value()), value(two.has_value())]


@collective("A multi-worker strategy without other workers has one replica, and reduces to itself.")
def one_worker(tf: Any) -> Any:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        v = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)

    def body() -> Any:
        v.assign_add(2.0)
        return tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(3.0))

    found = strategy.run(tf.function(body))
    return [
        strategy.num_replicas_in_sync,
        _local(strategy, found),
        value(v),
        value(strategy.reduce("MEAN", found, axis=None)),
    ]


@collective("Options say how collectives are made; unknown ones are refused.")
def options(tf: Any) -> Any:
    made_of = tf.distribute.experimental.CommunicationOptions
    made = made_of(bytes_per_pack=100, timeout_seconds=5.0)
    return [
        made.bytes_per_pack,
        made.timeout_seconds,
        str(made.implementation),
        error(lambda: made_of(bytes_per_pack=-1)),
        error(lambda: made_of(implementation="x")),
    ]


@common("One device and the default strategy run functions in place.")
def other_strategies(tf: Any) -> Any:
    one = tf.distribute.OneDeviceStrategy("CPU:1")
    default = tf.distribute.get_strategy()
    with one.scope():
        v = tf.Variable(1.0)
    return [
        v.device,
        value(one.run(lambda: v + 1.0)),
        value(default.run(lambda x: x + 1, args=(tf.constant(1),))),
        default.num_replicas_in_sync,
        value(one.reduce("SUM", tf.constant(2.0), axis=None)),
        value(default.reduce("MEAN", tf.constant([2.0, 4.0]), axis=0)),
        one.run(lambda: None) is None,
        [value(x) for x in one.experimental_distribute_dataset(tf.data.Dataset.range(2))],
    ]
