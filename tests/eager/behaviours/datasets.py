"""Datasets as training code walks over them."""

# ruff: noqa: B023 - programs are written as users write them

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from eager.behaviours.registry import error, program


@program
def parallel_maps(tf: Any) -> Any:
    data = tf.data.Dataset.range(6)
    v = tf.Variable(10, dtype=tf.int64)
    return [
        list(data.map(lambda x: x * 2, num_parallel_calls=2).as_numpy_iterator()),
        [x.numpy() for x in data.map(lambda x: x + v, num_parallel_calls=tf.data.AUTOTUNE)],
        list(
            data.map(
                lambda x: tf.numpy_function(lambda a: a + 1, [x], tf.int64), num_parallel_calls=2
            ).as_numpy_iterator()
        ),
        list(
            data.map(
                lambda x: tf.py_function(lambda a: a.numpy() + 1, [x], tf.int64),
                num_parallel_calls=2,
            ).as_numpy_iterator()
        ),
        sorted(
            data.map(lambda x: x * 2, num_parallel_calls=2, deterministic=False).as_numpy_iterator()
        ),
        list(
            data.interleave(
                lambda x: tf.data.Dataset.from_tensors(x).repeat(2),
                num_parallel_calls=2,
                cycle_length=2,
            ).as_numpy_iterator()
        ),
        list(
            data.map(lambda x: x, num_parallel_calls=2)
            .batch(2, num_parallel_calls=2)
            .prefetch(2)
            .as_numpy_iterator()
        ),
    ]


@program
def a_parallel_map_in_a_function(tf: Any) -> Any:
    data = tf.data.Dataset.range(6).map(lambda x: x * 2, num_parallel_calls=2)

    @tf.function
    def total() -> Any:
        found = tf.constant(0, tf.int64)
        for x in data:
            found += x
        return found

    return [total(), total()]


@program
def get_next_as_optional(tf: Any) -> Any:
    it = iter(tf.data.Dataset.range(1))
    one, two = it.get_next_as_optional(), it.get_next_as_optional()
    found = [
        one.has_value(),
        one.get_value(),
        two.has_value(),
        error(lambda: two.get_value()),
        repr(one.element_spec),
        type(one).__name__,
    ]

    @tf.function
    def f(it: Any) -> Any:
        o = it.get_next_as_optional()
        return tf.cond(o.has_value(), lambda: o.get_value(), lambda: tf.constant(-1, tf.int64))

    it = iter(tf.data.Dataset.range(1))
    found += [f(it), f(it)]
    made = tf.experimental.Optional.from_value(tf.constant([1.0, 2.0]))
    empty = tf.experimental.Optional.empty(tf.TensorSpec([], tf.int32))
    return [
        *found,
        made.get_value(),
        made.has_value(),
        empty.has_value(),
        error(lambda: repr(made)[:14]),
    ]


@program
def iterators(tf: Any) -> Any:
    it = iter(tf.data.Dataset.range(3).batch(2))
    return [
        next(it),
        it.get_next(),
        error(lambda: next(it)),
        error(lambda: it.get_next()),
        repr(it.element_spec),
        next(it, "end"),
        type(it).__name__,
    ]


@program
def elements_of_structures(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices(({"a": [1, 2], "b": ["x", "y"]}, [0.5, 1.5]))
    return [
        list(data.as_numpy_iterator()),
        [x for x, y in data],
        list(data.map(lambda x, y: (x["a"], y)).batch(2)),
        repr(data.element_spec),
        int(data.cardinality()),
        int(data.repeat().cardinality()),
        int(data.filter(lambda x, y: True).cardinality()),
        data.reduce(0.0, lambda s, e: s + e[1]),
    ]


@program
def walks_in_functions(tf: Any) -> Any:
    data = tf.data.Dataset.range(5).batch(2)
    v = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def train(data: Any) -> Any:
        for x in data:
            v.assign_add(tf.reduce_sum(x))
            if v > 4:
                break
        return v.read_value()

    @tf.function
    def steps(it: Any) -> Any:
        for _ in tf.range(2):
            v.assign_add(tf.reduce_sum(next(it)))
        return v.read_value()

    it = iter(data.repeat())
    return [train(data), steps(it), steps(it), v]


@program
def options_and_threads(tf: Any) -> Any:
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 2
    options.experimental_optimization.map_parallelization = True
    data = tf.data.Dataset.range(3).with_options(options)
    return [
        list(data.as_numpy_iterator()),
        data.options().deterministic,
        data.options().threading.private_threadpool_size,
        error(lambda: setattr(options, "foo", 1)),
        error(lambda: setattr(options, "deterministic", 3)),
    ]


@program
def py_functions(tf: Any) -> Any:
    class Mine(Exception):
        pass

    def fails(x: Any) -> Any:
        raise Mine("mine")

    def key(x: Any) -> Any:
        raise KeyError("k")

    def stops(x: Any) -> Any:
        raise StopIteration

    def value(x: Any) -> Any:
        raise ValueError("v")

    def kind(x: Any) -> Any:
        raise TypeError("v")

    def missing(x: Any) -> Any:
        raise NotImplementedError("v")

    found = []
    for body in (fails, key, stops, value, kind, missing):
        for wrap in (tf.numpy_function, tf.py_function):
            found.append(error(lambda: wrap(body, [1.0], tf.float32)))
            found.append(
                error(lambda: tf.function(lambda x: wrap(body, [x], tf.float32))(tf.constant(1.0)))
            )
            found.append(
                error(
                    lambda: list(
                        tf.data.Dataset.range(1).map(lambda x: wrap(body, [x], tf.float32))
                    )
                )
            )
    found.append(error(lambda: tf.numpy_function(lambda x: x, [1.0], tf.int32)))
    found.append(error(lambda: tf.numpy_function(lambda x: np.float32(x), [1.0], tf.float32)))
    found.append(error(lambda: tf.py_function(lambda x: "a", [1.0], tf.float32)))
    return found


@program
def snapshots_of_time(tf: Any) -> Any:
    data = tf.data.Dataset
    return [
        list(
            data.range(5)
            .window(2, drop_remainder=True)
            .flat_map(lambda w: w.batch(2))
            .as_numpy_iterator()
        ),
        list(data.range(4).padded_batch(2, padded_shapes=[]).as_numpy_iterator()),
        list(
            data.from_tensor_slices([1, 2, 3])
            .map(lambda x: tf.fill([x], x))
            .padded_batch(2)
            .as_numpy_iterator()
        ),
        list(
            data.from_tensor_slices([1, 2, 3]).scan(0, lambda s, x: (s + x, s)).as_numpy_iterator()
        ),
        list(data.range(5).take_while(lambda x: x < 2).as_numpy_iterator()),
        list(data.range(3).apply(lambda d: d.map(lambda x: x + 1)).as_numpy_iterator()),
        list(data.from_tensor_slices([1, 1, 2]).unique().as_numpy_iterator()),
        list(
            data.range(4)
            .group_by_window(lambda x: x % 2, lambda k, d: d.batch(2), 2)
            .as_numpy_iterator()
        ),
        list(
            data.range(3)
            .rejection_resample(lambda x: tf.cast(x % 2, tf.int32), [0.5, 0.5])
            .take(0)
            .as_numpy_iterator()
        ),
        list(data.range(4).batch(2).rebatch(3).as_numpy_iterator()),
        list(data.range(4).batch(2).unbatch().as_numpy_iterator()),
        list(data.sample_from_datasets([data.range(2)], [1.0]).as_numpy_iterator()),
        list(
            data.choose_from_datasets(
                [data.range(2), data.range(10, 12)], data.range(2).repeat(2)
            ).as_numpy_iterator()
        ),
        data.from_tensors(3).get_single_element(),
    ]


@program
def iterators_walked_over_in_functions(tf: Any) -> Any:
    kept = iter(tf.data.Dataset.range(6))
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    batches = tf.data.Dataset.range(8).batch(2)
    distributed = iter(strategy.experimental_distribute_dataset(batches))

    @tf.function
    def until(numbers: Any, limit: Any) -> Any:
        found = tf.constant(0, tf.int64)
        for x in numbers:
            found += x
            if found > limit:
                break
        return found

    @tf.function
    def rest() -> Any:
        found = tf.constant(0, tf.int64)
        for x in kept:
            found += x
        return found

    @tf.function
    def total(elements: Any) -> Any:
        found = tf.constant(0, tf.int64)
        for element in elements:
            for part in strategy.experimental_local_results(element):
                found += tf.reduce_sum(part)
        return found

    limit = tf.constant(4, tf.int64)
    numbers = iter(tf.data.Dataset.range(12))
    return [
        [until(numbers, limit), next(numbers), until(numbers, limit + 90), until(numbers, limit)],
        [next(kept), rest(), rest()],
        [
            strategy.experimental_local_results(next(distributed)),
            total(distributed),
            total(distributed),
        ],
    ]


@program
def batches_of_features_from_files(tf: Any, path: str) -> Any:
    folder = Path(path)
    rows = [([1], [b"a"], [b"x", b"y"]), ([], [b"b"], []), ([3], [b"c"], [b"z"])]
    for number in range(2):
        with tf.io.TFRecordWriter(str(folder / f"{number}.tfrecord")) as writer:
            for age, kind, words in rows:
                lists = {
                    "age": tf.train.Feature(
                        int64_list=tf.train.Int64List(value=[a + 10 * number for a in age])
                    ),
                    "kind": tf.train.Feature(bytes_list=tf.train.BytesList(value=kind)),
                    "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=words)),
                }
                if not age:
                    del lists["age"]
                one = tf.train.Example(features=tf.train.Features(feature=lists))
                writer.write(one.SerializeToString())
    features = {
        "age": tf.io.FixedLenFeature([], tf.int64, -1),
        "kind": tf.io.FixedLenFeature([], tf.string),
        "words": tf.io.VarLenFeature(tf.string),
    }
    pattern = str(folder / "*.tfrecord")
    make = tf.data.experimental.make_batched_features_dataset

    def ages(*args: Any, count: int = 5, **kwargs: Any) -> list[Any]:
        data = make(pattern, 2, features, *args, **kwargs)
        return [batch["age"].numpy().tolist() for batch in data.take(count)]

    whole = next(iter(make(pattern, 4, features, shuffle=False, num_epochs=1)))
    pair = next(iter(make(pattern, 3, features, label_key="kind", shuffle=False)))
    keyed = make(
        [pattern],
        3,
        features,
        reader=lambda name, *more: tf.data.TFRecordDataset(name).map(lambda x: (name, x)),
        reader_args=[1],
        shuffle=False,
        num_epochs=1,
    )
    return [
        ages(shuffle=False, num_epochs=1),
        ages(shuffle=False, num_epochs=2),
        ages(shuffle=False, num_epochs=1, reader_num_threads=2, parser_num_threads=1),
        ages(shuffle=False, count=7),
        ages(shuffle=False, num_epochs=1, prefetch_buffer_size=3),
        ages(shuffle_seed=3, num_epochs=2),
        ages(shuffle_seed=3, shuffle_buffer_size=2, num_epochs=1),
        sorted(age for batch in ages(num_epochs=1) for age in batch),
        sorted(whole),
        whole["kind"].numpy().tolist(),
        whole["words"].indices.numpy().tolist(),
        whole["words"].values.numpy().tolist(),
        sorted(pair[0]),
        pair[1].numpy().tolist(),
        [batch["age"].numpy().tolist() for batch in keyed],
        str(make(pattern, 2, features, num_epochs=1).element_spec["age"]),
        str(make(pattern, 2, features).element_spec["age"]),
        str(make(pattern, 2, features, num_epochs=1, drop_final_batch=True).element_spec["age"]),
        error(lambda: make(str(folder / "none*"), 2, features)),
        error(lambda: make([], 2, features)),
        error(lambda: make(pattern, 2, features, label_key="height")),
        error(lambda: make(pattern, 2, features, reader=tf.compat.v1.TFRecordReader)),
    ]
