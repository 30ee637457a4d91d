"""Datasets that are distributed over replicas in one process."""

from __future__ import annotations

import functools
from typing import Any

from shown_values import value
from tf_behaviours.registry import behaviour, error

_FOLDER = "python/distribute"
inputs = functools.partial(behaviour, f"{_FOLDER}/input_lib_test.py")
specs = functools.partial(behaviour, f"{_FOLDER}/input_lib_type_spec_test.py")


def _two(tf: Any) -> Any:
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def _local(strategy: Any, found: Any) -> Any:
    return [value(x) for x in strategy.experimental_local_results(found)]


def _number(tf: Any) -> Any:
    return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)


def _total(tf: Any, strategy: Any, x: Any) -> Any:
    return strategy.reduce("SUM", strategy.run(tf.reduce_sum, args=(x,)), axis=None)


# ---- datasets


@inputs("A batch that does not divide gives the first replicas more, the last perhaps nothing.")
def uneven_batches(tf: Any) -> Any:
    strategy = _two(tf)
    found = []
    for size in (1, 2, 3, 5):
        data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(5).batch(size))
        found.append([_local(strategy, x) for x in data])
    return found


@inputs("Elements without rows cannot be parted.")
def elements_without_rows(tf: Any) -> Any:
    strategy = _two(tf)
    data = tf.data.Dataset.range(2)
    return error(lambda: list(iter(strategy.experimental_distribute_dataset(data))))[0]


@inputs("The last elements of a dataset function may be for the first replicas alone.")
def uneven_dataset_functions(tf: Any) -> Any:
    strategy = _two(tf)
    make = strategy.distribute_datasets_from_function
    data = make(lambda c: tf.data.Dataset.range(5).batch(1))
    it = iter(data)
    return [
        [_local(strategy, x) for x in data],
        [_local(strategy, it.get_next()) for _ in range(3)],
        error(lambda: it.get_next()),
        error(lambda: next(it)),
    ]


@inputs("A distributed dataset that is empty gives nothing, in a function too.")
def empty_datasets(tf: Any) -> Any:
    strategy = _two(tf)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(0).batch(2))

    @tf.function
    def count() -> Any:
        n = tf.constant(0)
        for _ in data:
            n += 1
        return n

    return [
        len([1 for _ in data]),
        value(count()),
        value(iter(data).get_next_as_optional().has_value()),
    ]


@inputs("A loop over a distributed dataset in a function may end early and go on with breaks.")
def loops_with_breaks(tf: Any) -> Any:
    strategy = _two(tf)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(12).batch(4))

    @tf.function
    def some() -> Any:
        total = tf.constant(0, tf.int64)
        for x in data:
            if total > 5:
                break
            total += _total(tf, strategy, x)
        return total

    return value(some())


@inputs("Structures of elements are parted leaf by leaf, within functions as well.")
def parted_structures(tf: Any) -> Any:
    strategy = _two(tf)
    data = tf.data.Dataset.range(4).map(lambda x: {"a": x, "b": (x * 2, tf.cast(x, tf.float32))})
    parted = strategy.experimental_distribute_dataset(data.batch(4))

    @tf.function
    def total(it: Any) -> Any:
        x = next(it)
        return strategy.reduce(
            "SUM",
            strategy.run(
                lambda y: (
                    tf.cast(tf.reduce_sum(y["a"] + y["b"][0]), tf.float32)
                    + tf.reduce_sum(y["b"][1])
                ),
                args=(x,),
            ),
            axis=None,
        )

    return [value(total(iter(parted))), [_local(strategy, x["b"][1]) for x in parted]]


@inputs("Optionals of an iterator walk over it in a loop of a function.")
def optionals_in_functions(tf: Any) -> Any:
    strategy = _two(tf)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(7).batch(3))

    @tf.function
    def walk(it: Any) -> Any:
        total, count = tf.constant(0, tf.int64), tf.constant(0)
        found = it.get_next_as_optional()
        while found.has_value():
            total += _total(tf, strategy, found.get_value())
            count += 1
            found = it.get_next_as_optional()
        return total, count

    it = iter(data)
    return [value(walk(it)), error(lambda: it.get_next_as_optional().get_value())]


@specs("The specs of a distributed dataset's elements are those of each replica's part.")
def specs_of_elements(tf: Any) -> Any:
    strategy, one = _two(tf), tf.distribute.OneDeviceStrategy("CPU:0")
    data = tf.data.Dataset

    def spec(dataset: Any, by: Any = strategy) -> str:
        return str(by.experimental_distribute_dataset(dataset).element_spec)

    made = strategy.distribute_datasets_from_function
    return [
        spec(data.range(6).batch(4)),
        spec(data.range(6).batch(4, drop_remainder=True)),
        spec(data.range(6).batch(5, drop_remainder=True)),
        spec(data.from_tensor_slices({"a": [1.0, 2.0], "b": [[1], [2]]}).batch(2)),
        spec(data.from_tensor_slices(([1.0, 2.0], [1, 2])).batch(2, drop_remainder=True)),
        spec(data.range(6).batch(4), one),
        str(made(lambda c: data.range(4).batch(2, drop_remainder=True)).element_spec),
        error(lambda: spec(data.range(6))),
        str(iter(strategy.experimental_distribute_dataset(data.range(2).batch(2))).element_spec),
    ]


@specs("The specs of elements are a signature that all elements fit: one trace.")
def specs_as_signatures(tf: Any) -> Any:
    strategy = _two(tf)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(7).batch(4))
    traces = []

    @tf.function(input_signature=[data.element_spec])
    def step(x: Any) -> Any:
        traces.append(1)
        return _total(tf, strategy, x)

    found = [value(step(x)) for x in data]
    it = iter(data)
    found += [value(step(next(it))), value(step(it.get_next()))]
    return [found, len(traces), error(lambda: step(tf.constant([1], tf.int64)))]


@specs("Datasets and iterators of one kind share a trace of a function that takes them.")
def traces_for_datasets(tf: Any) -> Any:
    strategy = _two(tf)
    traces = []

    def made(n: int) -> Any:
        return strategy.experimental_distribute_dataset(tf.data.Dataset.range(n).batch(4))

    @tf.function
    def whole(data: Any) -> Any:
        traces.append("data")
        total = tf.constant(0, tf.int64)
        for x in data:
            total += _total(tf, strategy, x)
        return total

    @tf.function
    def first(it: Any) -> Any:
        traces.append("iterator")
        return _total(tf, strategy, next(it))

    return [
        [value(whole(made(n))) for n in (5, 6)],
        [value(first(iter(made(n)))) for n in (2, 6)],
        traces,
    ]


@specs("A value for each replica has a spec of its own.")
def specs_of_values(tf: Any) -> Any:
    strategy = _two(tf)
    x = strategy.run(lambda: _number(tf))
    return [str(tf.type_spec_from_value(x)), type(tf.type_spec_from_value(x)).__name__]


@inputs("What is no dataset cannot be distributed, and is not walked over.")
def refused_datasets(tf: Any) -> Any:
    strategy = _two(tf)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(2).batch(2))
    return [
        error(lambda: strategy.experimental_distribute_dataset([1, 2])),
        error(lambda: len(data)),
        isinstance(data, tf.distribute.DistributedDataset),
        isinstance(iter(data), tf.distribute.DistributedIterator),
    ]


@inputs("An input context tells shares of batches, where they divide.")
def input_contexts(tf: Any) -> Any:
    made = tf.distribute.InputContext(
        num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=6
    )
    return [
        made.get_per_replica_batch_size(12),
        error(lambda: made.get_per_replica_batch_size(13), "divisible"),
        str(made),
        str(tf.distribute.InputContext()),
    ]
