"""Ragged tensors in functions and on tapes, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as tf


def rows():
    return tf.ragged.constant([[1.0, 2.0], [], [3.0]])


def test_a_function_takes_and_gives_ragged_tensors():
    traces = []

    @tf.function
    def doubled(ragged):
        traces.append(ragged)
        return {"all": ragged * 2, "longest": tf.reduce_max(ragged.row_lengths())}

    found = doubled(rows())
    assert found["all"].to_list() == [[2.0, 4.0], [], [6.0]]
    assert int(found["longest"]) == 2
    assert doubled(tf.ragged.constant([[5.0], [6.0], [7.0, 8.0]]))["all"].to_list()[2] == [14, 16]
    # The second tensor has as many rows, but more values.
    assert len(traces) == 2
    assert "tf.RaggedTensor(values=" in repr(traces[0])


def test_a_function_makes_ragged_tensors_of_lengths_known_when_it_runs():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def counted(lengths):
        return tf.ragged.range(lengths)

    assert counted([2, 0, 3]).to_list() == [[0, 1], [], [0, 1, 2]]


def test_gradients_flow_through_rows():
    x = tf.constant([1.0, 2.0, 3.0])
    weights = tf.constant([10.0, 20.0, 30.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        ragged = tf.RaggedTensor.from_row_lengths(x, [2, 0, 1])
        sums = tf.reduce_sum(ragged * ragged, axis=1)
        y = tf.reduce_sum(sums * weights) + tf.reduce_sum(ragged.to_tensor())
    np.testing.assert_allclose(tape.gradient(y, x), [21.0, 41.0, 181.0])


def test_gradients_flow_through_chosen_and_joined_rows():
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        ragged = tf.RaggedTensor.from_row_splits(x, [0, 2, 3])
        joined = tf.concat([tf.gather(ragged, [1, 1]), ragged[:, :1]], axis=1)
        y = tf.reduce_sum(joined * joined)
    np.testing.assert_allclose(tape.gradient(y, x), [2.0, 0.0, 18.0])


def test_a_mask_of_rows_keeps_their_number():
    ragged = rows()
    assert ragged[ragged > 1.0].to_list() == [[2.0], [], [3.0]]


def test_what_is_wrong_with_rows_is_found_when_a_function_runs():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def cut(splits):
        return tf.RaggedTensor.from_row_splits(tf.constant([1, 2, 3]), splits)

    assert cut([0, 1, 3]).to_list() == [[1], [2, 3]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="splits"):
        cut([0, 2])


def test_several_ragged_operands_need_the_same_rows():
    with pytest.raises(tf.errors.InvalidArgumentError, match="same rows"):
        tf.add(rows(), tf.ragged.constant([[1.0], [2.0], [3.0]]))


def test_what_takes_dense_tensors_only_says_so():
    with pytest.raises(ValueError, match="to_tensor"):
        tf.linalg.trace(rows())


def test_split_strings_in_a_function():
    @tf.function
    def words(lines):
        return tf.strings.length(tf.strings.split(lines))

    assert words(tf.constant(["a bc", "", "def"])).to_list() == [[1, 2], [], [3]]


def test_a_spec_says_what_a_function_takes():
    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.float32)])
    def longest(ragged):
        return tf.reduce_max(ragged.row_lengths()), ragged + 1

    count, more = longest(rows())
    assert int(count) == 2
    assert more.to_list() == [[2.0, 3.0], [], [4.0]]
    with pytest.raises(TypeError):
        longest(tf.constant([1.0]))
    with pytest.raises(TypeError):
        longest(tf.ragged.constant([[[1.0]]]))


def test_map_fn_goes_over_rows_and_gives_rows():
    sums = tf.map_fn(tf.reduce_sum, rows(), fn_output_signature=tf.float32)
    assert sums.numpy().tolist() == [3.0, 0.0, 3.0]
    assert tf.map_fn(lambda row: row[:1] * 2, rows()).to_list() == [[2.0], [], [6.0]]
    spec = tf.RaggedTensorSpec([None], tf.int32)
    counted = tf.map_fn(tf.range, tf.constant([2, 0, 1]), fn_output_signature=spec)
    assert counted.to_list() == [[0, 1], [], [0]]


def test_variants_of_rows_carry_gradients():
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        ragged = tf.RaggedTensor.from_row_lengths(x, [2, 1])
        y = tf.map_fn(lambda row: tf.reduce_sum(row * row), ragged, fn_output_signature=tf.float32)
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0, 6.0]


def test_matrices_of_several_sizes_multiply():
    r = tf.ragged.constant([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]], ragged_rank=1)
    assert tf.matmul(r, tf.ones([2, 2, 1])).to_list() == [[[3.0]], [[7.0], [11.0]]]
    with pytest.raises(ValueError, match="rank"):
        tf.matmul(r, tf.ones([3, 1]))


def test_crosses_segments_counts_and_empty_rows():
    text = tf.ragged.constant([["a"], ["b", "c"]])
    assert tf.ragged.cross([text, [["x"], ["y"]]]).to_list() == [[b"a_X_x"], [b"b_X_y", b"c_X_y"]]
    summed = tf.math.unsorted_segment_sum(rows(), [1, 0, 1], 2)
    assert summed.to_list() == [[], [4.0, 2.0]]
    numbers = tf.ragged.constant([[1, 2, 2], []])
    assert tf.math.bincount(numbers, axis=-1).numpy().tolist() == [[0, 1, 2], [0, 0, 0]]
    ids, values, empty, back = tf.ragged_fill_empty_rows([0, 2], [5, 6], 3, 9)
    assert ids.numpy().tolist() == [0, 1, 2]
    assert values.numpy().tolist() == [5, 9, 6]
    assert empty.numpy().tolist() == [False, True, False]
    assert back.numpy().tolist() == [0, 2]


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_rows_of_one_length_are_known_where_they_are_few_and_computed_where_they_are_many(dtype):
    @tf.function
    def splits(rows):
        count = tf.constant(rows, dtype)
        made = tf.experimental.RowPartition.from_uniform_row_length(
            3, 3 * count, count, dtype=dtype
        )
        return made.row_splits()

    for rows in (4, 100_000):
        np.testing.assert_array_equal(splits(rows), np.arange(rows + 1) * 3)
        graph_def = splits.get_concrete_function(rows).graph.as_graph_def()
        assert graph_def.ByteSize() < 10_000
