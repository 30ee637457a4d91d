"""Parts of the TF2-shaped API that are classes, or that hold state."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as tf


def test_sparse_tensors_are_made_changed_and_multiplied() -> None:
    sparse = tf.sparse.from_dense([[0, 5], [6, 0]])
    assert sparse.indices.numpy().tolist() == [[0, 1], [1, 0]]
    assert sparse.shape == (2, 2)
    assert tf.sparse.to_dense(tf.sparse.transpose(sparse)).numpy().tolist() == [[0, 6], [5, 0]]
    product = tf.sparse.sparse_dense_matmul(sparse, tf.constant([[1], [2]]))
    assert product.numpy().tolist() == [[10], [6]]
    kept = tf.sparse.retain(sparse, [False, True])
    assert kept.values.numpy().tolist() == [6]
    assert tf.sparse.reshape(sparse, [4]).indices.numpy().tolist() == [[1], [2]]


def test_a_table_that_never_changes_and_one_that_does() -> None:
    made = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
    table = tf.lookup.StaticHashTable(made, -1)
    assert table.lookup(tf.constant(["b", "c"])).numpy().tolist() == [2, -1]
    looked_up = tf.function(table.lookup)
    assert looked_up(tf.constant(["a"])).numpy().tolist() == [1]
    changing = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)
    changing.insert(["x", "y"], [3, 4])
    changing.remove(["x"])
    assert changing[tf.constant(["x", "y"])].numpy().tolist() == [0, 4]
    assert int(changing.size()) == 1


def test_a_table_in_buckets_and_one_that_a_dataset_fills() -> None:
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, [0.0, -1.0], -1, -2, 4)
    table.insert_or_assign(tf.range(9, dtype=tf.int64), tf.ones([9, 2]))
    table.erase(tf.constant([3], tf.int64))
    looked_up = tf.function(table.lookup)
    assert looked_up(tf.constant([3, 4], tf.int64)).numpy().tolist() == [[0, -1], [1, 1]]
    assert (int(table.size()), table.export()[0].shape[0]) == (8, 16)
    with pytest.raises(tf.errors.InvalidArgumentError, match="empty_key"):
        table.lookup(tf.constant([-1], tf.int64))
    words = tf.data.Dataset.from_tensor_slices(["a", "b"])
    numbers = tf.data.experimental.index_table_from_dataset(words, num_oov_buckets=1)
    assert numbers.lookup(tf.constant(["b", "a", "c"])).numpy().tolist() == [1, 0, 2]
    pairs = words.enumerate().map(lambda number, word: (word, number))
    short = tf.data.experimental.table_from_dataset(pairs, vocab_size=1, default_value=-1)
    assert short.lookup(tf.constant(["a", "b"])).numpy().tolist() == [0, -1]


def test_images_are_resized_alone_and_in_batches() -> None:
    image = tf.reshape(tf.range(4.0), [2, 2, 1])
    assert tf.image.resize(image, [4, 4])[0, :, 0].numpy().tolist() == [0, 0.25, 0.75, 1]
    assert tf.image.resize(image[tf.newaxis], [4, 2], preserve_aspect_ratio=True).shape == (
        1,
        2,
        2,
        1,
    )
    nearest = tf.image.resize(tf.cast(image, tf.int32), [1, 1], method="nearest")
    assert nearest.dtype == tf.int32
    with pytest.raises(ValueError, match=r"is none of .*'gaussian'"):
        tf.image.resize(image, [4, 4], method="gauss")


def test_values_are_sorted_searched_and_repeated() -> None:
    assert tf.sort([3, 1, 2]).numpy().tolist() == [1, 2, 3]
    assert tf.sort([-(2**31), 5]).numpy().tolist() == [-(2**31), 5]
    assert tf.argsort([[3.0, 1.0], [0.0, 2.0]], axis=0).numpy().tolist() == [[1, 0], [0, 1]]
    assert tf.searchsorted([1, 3, 5], [0, 3, 6], side="right").numpy().tolist() == [0, 2, 3]
    assert tf.repeat([[1, 2], [3, 4]], [1, 2], axis=0).numpy().tolist() == [[1, 2], [3, 4], [3, 4]]
    traced = tf.function(lambda x: tf.repeat(x, 2), input_signature=[tf.TensorSpec([None])])
    assert traced(tf.constant([1.0, 2.0])).numpy().tolist() == [1, 1, 2, 2]


def test_a_rate_follows_a_schedule() -> None:
    schedule = tf.optimizers.schedules.PiecewiseConstantDecay([1], [1.0, 0.1])
    optimizer = tf.optimizers.SGD(schedule)
    v = tf.Variable(0.0)
    for _ in range(3):
        optimizer.apply_gradients([(tf.constant(1.0), v)])
    np.testing.assert_allclose(v.numpy(), -2.1, rtol=1e-6)
