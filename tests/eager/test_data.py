"""Datasets that a program walks over itself."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as tf


def values(dataset) -> list:
    return [x.tolist() for x in dataset.as_numpy_iterator()]


def test_a_chain_of_transformations() -> None:
    dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3]).map(lambda x: x + 1).batch(2)
    assert values(dataset) == [[2, 3], [4]]
    assert values(dataset) == [[2, 3], [4]]
    assert len(dataset) == 2
    assert dataset.element_spec == tf.TensorSpec([None], tf.int32)


def test_shuffled_repeated_filtered_zipped() -> None:
    numbers = tf.data.Dataset.range(5)
    assert sorted(values(numbers.shuffle(3, seed=1).repeat(2).prefetch(1))) == sorted(
        [0, 1, 2, 3, 4] * 2
    )
    assert values(numbers.filter(lambda x: x > 2).take(1)) == [3]
    assert values(numbers.take_while(lambda x: x < 2)) == [0, 1]
    pairs = tf.data.Dataset.zip((numbers, numbers.map(lambda x: x * x)))
    assert [(int(a), int(b)) for a, b in pairs][-1] == (4, 16)
    assert values(numbers.shard(2, 1)) == [1, 3]


def test_a_generator_begins_anew_for_each_walk() -> None:
    started = []

    def generate(stop):
        started.append(int(stop))
        for i in range(stop):
            yield i, [float(i)] * i

    signature = (tf.TensorSpec([], tf.int32), tf.TensorSpec([None], tf.float32))
    dataset = tf.data.Dataset.from_generator(generate, args=(3,), output_signature=signature)
    first = [(int(i), x.numpy().tolist()) for i, x in dataset]
    assert first == [(0, []), (1, [1.0]), (2, [2.0, 2.0])]
    padded = [x.numpy().tolist() for _, x in dataset.padded_batch(3)]
    assert padded == [[[0, 0], [1, 0], [2, 2]]]
    assert started == [3, 3]


def test_functions_use_variables() -> None:
    offset = tf.Variable(5, dtype=tf.int64)
    dataset = tf.data.Dataset.range(2).map(lambda x: x + offset)
    assert values(dataset) == [5, 6]
    offset.assign(7)
    assert values(dataset) == [7, 8]


def test_an_endless_dataset_has_no_length_and_an_error_is_told() -> None:
    with pytest.raises(TypeError, match="infinite"):
        len(tf.data.Dataset.range(2).repeat())
    broken = tf.data.Dataset.from_generator(
        lambda: iter([np.zeros([2])]), output_signature=tf.TensorSpec([], tf.int32)
    )
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnknownError)):
        values(broken)


def test_elements_train_a_model() -> None:
    x = np.linspace(0, 1, 32, dtype=np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((x, 3 * x + 1)).shuffle(32, seed=3).batch(8)
    slope, offset = tf.Variable(0.0), tf.Variable(0.0)
    optimizer = tf.optimizers.SGD(0.3)
    for _ in range(60):
        for inputs, targets in dataset:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((slope * inputs + offset - targets) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, [slope, offset]), [slope, offset]))
    np.testing.assert_allclose([slope.numpy(), offset.numpy()], [3, 1], atol=0.05)


def test_a_walk_whose_functions_need_the_loop_or_are_slow() -> None:
    dataset = tf.data.Dataset.range(4).map(lambda x: tf.numpy_function(_doubled, [x], tf.int64))
    assert values(dataset.batch(2).repeat(2)) == [[0, 2], [4, 6], [0, 2], [4, 6]]

    def fail(x: np.ndarray) -> np.ndarray:
        raise ValueError("no")

    broken = tf.data.Dataset.range(2).map(lambda x: tf.numpy_function(fail, [x], tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError, match="no"):
        values(broken)


def _doubled(x: np.ndarray) -> np.ndarray:
    return x * 2


def test_an_end_stays_the_end_and_a_random_walk_repeats_with_its_seed() -> None:
    iterator = iter(tf.data.Dataset.range(1))
    assert int(next(iterator)) == 0
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)
        with pytest.raises(tf.errors.OutOfRangeError):
            iterator.get_next()
    shuffled = tf.data.Dataset.range(20).shuffle(20, seed=1, reshuffle_each_iteration=False)
    assert values(shuffled) == values(shuffled) != list(range(20))
