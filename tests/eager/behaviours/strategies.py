"""Strategies over two devices of one process."""

# ruff: noqa: E731 - programs are written as users write them

from __future__ import annotations

from typing import Any

import numpy as np

from eager.behaviours.registry import error, program


def mirrored(tf: Any) -> Any:
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def local(strategy: Any, value: Any) -> list[Any]:
    return list(strategy.experimental_local_results(value))


@program
def all_reduce_in_a_function_of_a_replica(tf: Any) -> Any:
    strategy = mirrored(tf)

    @tf.function
    def reduced(x: Any) -> Any:
        context = tf.distribute.get_replica_context()
        return context.all_reduce("SUM", x)

    values = strategy.experimental_distribute_values_from_function(
        lambda c: tf.constant(1.0 + c.replica_id_in_sync_group)
    )
    return [
        error(lambda: local(strategy, strategy.run(reduced, (values,)))),
        error(lambda: local(strategy, strategy.run(reduced, (values,)))),
    ]


@program
def all_reduce_in_a_function_around(tf: Any) -> Any:
    strategy = mirrored(tf)

    @tf.function
    def step() -> Any:
        def replica() -> Any:
            context = tf.distribute.get_replica_context()
            return context.all_reduce("SUM", tf.ones([2]))

        return strategy.run(replica)

    return local(strategy, step())


@program
def synchronization_of_mirrored_variables(tf: Any) -> Any:
    strategy = mirrored(tf)
    with strategy.scope():
        v = tf.Variable(1.0, name="v", aggregation=tf.VariableAggregation.MEAN)
        w = tf.Variable(
            1.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    return [
        str(v.synchronization),
        str(v.aggregation),
        str(w.synchronization),
        type(v).__name__,
        type(w).__name__,
        v.name,
        str(v.shape),
        v.trainable,
        w.trainable,
        [x.name for x in v.values],
        [x.device for x in v.values],
        isinstance(v, tf.Variable),
        repr(v).partition(" object")[0],
        str(v),
        v.numpy(),
        error(lambda: v.value()),
        error(lambda: v + 1.0),
        v.dtype,
    ]


@program
def a_distributed_dataset_in_a_function(tf: Any) -> Any:
    strategy = mirrored(tf)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(7).batch(4))

    @tf.function
    def total(data: Any) -> Any:
        found = tf.constant(0, tf.int64)
        for x in data:
            per = strategy.run(lambda y: tf.reduce_sum(y), (x,))
            found += strategy.reduce("SUM", per, axis=None)
        return found

    @tf.function
    def steps(it: Any) -> Any:
        found = tf.constant(0, tf.int64)
        for _ in tf.range(2):
            per = strategy.run(lambda y: tf.reduce_sum(y), (next(it),))
            found += strategy.reduce("SUM", per, axis=None)
        return found

    return [total(data), total(data), steps(iter(data))]


@program
def a_distributed_dataset_walked_over(tf: Any) -> Any:
    strategy = mirrored(tf)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(7).batch(4))
    found = [local(strategy, x) for x in data]
    it = iter(data)
    found.append(local(strategy, next(it)))
    found.append(local(strategy, it.get_next()))
    found.append(error(lambda: next(it)))
    found.append(error(lambda: it.get_next()))
    o = iter(data).get_next_as_optional()
    found.append(bool(o.has_value()) if hasattr(o, "has_value") else None)
    return [
        *found,
        error(lambda: repr(data.element_spec)),
        error(lambda: len(data)),
        type(data).__name__,
        type(it).__name__,
    ]


@program
def datasets_from_functions(tf: Any) -> Any:
    strategy = mirrored(tf)

    def make(context: Any) -> Any:
        return (
            tf.data.Dataset.range(8)
            .batch(context.get_per_replica_batch_size(4))
            .shard(context.num_input_pipelines, context.input_pipeline_id)
        )

    data = strategy.distribute_datasets_from_function(make)
    return [local(strategy, x) for x in data]


@program
def training_by_keras_like_loop(tf: Any) -> Any:
    strategy = mirrored(tf)
    with strategy.scope():
        v = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)

    @tf.function
    def step(x: Any) -> Any:
        def replica(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = (v * tf.reduce_sum(x)) ** 2
            grad = tape.gradient(loss, v)
            v.assign_sub(0.01 * grad)
            return loss

        per = strategy.run(replica, (x,))
        return strategy.reduce("MEAN", per, axis=None)

    data = strategy.experimental_distribute_dataset(
        tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0, 4.0]).batch(2)
    )
    return [[step(x) for x in data], v]


@program
def contexts(tf: Any) -> Any:
    strategy = mirrored(tf)
    found = [
        tf.distribute.in_cross_replica_context(),
        tf.distribute.get_replica_context() is not None,
    ]
    with strategy.scope():
        found += [
            tf.distribute.in_cross_replica_context(),
            tf.distribute.get_replica_context() is None,
            tf.distribute.has_strategy(),
            tf.distribute.get_strategy() is strategy,
        ]

    def replica() -> Any:
        c = tf.distribute.get_replica_context()
        return tf.constant([float(c.num_replicas_in_sync), float(c.replica_id_in_sync_group)])

    found += local(strategy, strategy.run(replica))
    found.append(
        error(
            lambda: strategy.run(
                lambda: tf.distribute.get_replica_context().merge_call(
                    lambda s, x: s.reduce("SUM", x, axis=None), (tf.constant(2.0),)
                )
            )
        )
    )
    found.append(
        error(lambda: strategy.reduce("SUM", strategy.run(lambda: tf.constant([1.0, 2.0])), axis=0))
    )
    found.append(
        error(
            lambda: strategy.reduce("MEAN", strategy.run(lambda: tf.constant([1.0, 2.0])), axis=0)
        )
    )
    found.append(
        error(lambda: strategy.gather(strategy.run(lambda: tf.constant([1.0, 2.0])), axis=0))
    )
    found.append(error(lambda: strategy.reduce("NONSENSE", tf.constant(1.0), axis=None)))
    found.append(error(lambda: strategy.run(3)))
    found.append(repr(strategy.run(lambda: tf.constant(1.0))))
    found.append(str(strategy.run(lambda: tf.constant(1.0))))
    return found


@program
def variables_made_in_run(tf: Any) -> Any:
    strategy = mirrored(tf)
    made: list[Any] = []

    def replica() -> Any:
        if not made:
            pass
        v = tf.Variable(1.0)
        made.append(v)
        return v + 1.0

    return [
        error(lambda: local(strategy, strategy.run(replica))),
        len(made),
        type(made[0]).__name__ if made else None,
    ]


@program
def assigning_mirrored_variables(tf: Any) -> Any:
    strategy = mirrored(tf)
    with strategy.scope():
        none = tf.Variable(1.0)
        total = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
        first = tf.Variable(1.0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
    replica = lambda: tf.cast(
        tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32
    )
    return [
        error(lambda: local(strategy, strategy.run(lambda: none.assign(replica())))),
        error(lambda: local(strategy, strategy.run(lambda: none.assign(5.0)))),
        error(lambda: local(strategy, strategy.run(lambda: total.assign(replica() + 1.0)))),
        error(lambda: local(strategy, strategy.run(lambda: first.assign_add(replica() + 1.0)))),
        none,
        total,
        first,
        error(lambda: total.assign(9.0)),
        total,
    ]


@program
def a_change_by_what_all_replicas_share_has_no_sum(tf: Any) -> Any:
    strategy = mirrored(tf)
    found = []
    for aggregation in ("SUM", "MEAN"):
        with strategy.scope():
            v = tf.Variable(1.0, aggregation=getattr(tf.VariableAggregation, aggregation))
        phrase = "A non-DistributedValues value"
        for change in (
            lambda x, v=v: v.assign_add(x),
            lambda x, v=v: v.assign_sub(2.0),
            lambda x, v=v: v.assign(x),
            lambda x, v=v: v.assign_add(x * 1.0),
        ):
            for replica in (change, tf.function(change)):
                told = error(lambda r=replica: strategy.run(r, (tf.constant(1.0),)), phrase)
                found.append(told[:2] if told[0] == "ValueError" else "changed")
                found.append(v.numpy())
    return found


@program
def elements_of_replicas_by_their_specs(tf: Any) -> Any:
    strategy = mirrored(tf)
    numbers = tf.data.Dataset.from_tensor_slices((np.arange(8.0), np.arange(8))).batch(4)
    data = strategy.experimental_distribute_dataset(numbers)

    def product(x: Any, y: Any) -> Any:
        return tf.reduce_sum(x) * tf.cast(tf.reduce_sum(y), tf.float64)

    def total(x: Any, y: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(product, (x, y)), axis=None)

    traced: list[Any] = []

    @tf.function(input_signature=[data.element_spec])
    def by_signature(element: Any) -> Any:
        traced.append(1)
        return total(*element)

    concrete = tf.function(total).get_concrete_function(*data.element_spec)
    return [
        str(data.element_spec),
        [by_signature(element) for element in data],
        len(traced),
        [concrete(*element) for element in data],
        str(concrete.structured_input_signature),
        error(lambda: by_signature((tf.ones([2], tf.float64), tf.ones([2], tf.int64)))),
    ]


@program
def ragged_and_sparse_batches_of_replicas(tf: Any) -> Any:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    rows = tf.ragged.constant([[1, 2], [3], [4, 5, 6], [], [7]])
    both = tf.data.Dataset.from_tensor_slices({"rows": rows, "x": tf.range(5)}).batch(2)
    sparse = tf.data.Dataset.from_tensor_slices(tf.sparse.from_dense([[1, 0], [0, 2]])).batch(2)
    parted = strategy.experimental_distribute_dataset(both)
    whole = strategy.distribute_datasets_from_function(lambda _: both)

    def local(element: Any) -> Any:
        return [str(one.to_list()) for one in strategy.experimental_local_results(element["rows"])]

    def add(element: Any) -> Any:
        return tf.reduce_sum(element["rows"]) + tf.reduce_sum(element["x"])

    @tf.function
    def step(iterator: Any) -> Any:
        return strategy.run(add, (next(iterator),))

    @tf.function
    def total(elements: Any) -> Any:
        found = 0
        for element in elements:
            for one in strategy.experimental_local_results(element["rows"]):
                found += tf.reduce_sum(one)
        return found

    return [
        [local(element) for element in parted],
        [local(element) for element in whole],
        [strategy.experimental_local_results(step(it)) for it in [iter(parted)] for _ in range(3)],
        [strategy.experimental_local_results(step(it)) for it in [iter(whole)] for _ in range(2)],
        [total(parted), total(whole)],
        str(parted.element_spec),
        [
            tf.sparse.to_dense(one)
            for element in strategy.experimental_distribute_dataset(sparse)
            for one in strategy.experimental_local_results(element)
        ],
    ]


@program
def a_tensor_that_all_replicas_share_counts_once_in_a_batch(tf: Any) -> Any:
    strategy = mirrored(tf)
    shared = tf.constant([1.0, 2.0])

    def reduced() -> Any:
        return tf.distribute.get_replica_context().all_reduce("SUM", shared)

    return [
        local(strategy, strategy.run(reduced)),
        local(strategy, tf.function(lambda: strategy.run(reduced))()),
    ]
