"""Operations that are called at once, and the tensors that they give."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import tideflow as tf


def test_an_operation_gives_its_value_at_once() -> None:
    found = tf.constant([1, 2]) + 1
    assert tf.executing_eagerly()
    assert found.numpy().tolist() == [2, 3]
    assert found.shape == (2,)
    assert found.dtype == tf.int32
    assert repr(found) == ("<tf.Tensor: shape=(2,), dtype=int32, numpy=array([2, 3], dtype=int32)>")


def test_a_constant_does_not_change_with_the_array_it_was_made_of() -> None:
    array = np.ones(3, np.float32)
    made = tf.constant(array)
    array[0] = 7
    assert made.numpy().tolist() == [1, 1, 1]


def test_what_numpy_gives_belongs_to_the_caller_and_a_view_is_read_only() -> None:
    made = tf.ones([2])
    made.numpy()[0] = 5
    assert made.numpy().tolist() == [1, 1]
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(made)[0] = 5


def test_scalars_are_numbers_of_python() -> None:
    assert int(tf.constant(3)) == 3
    assert float(tf.constant(2.5)) == 2.5
    assert bool(tf.constant(True))
    assert [10, 20, 30][tf.constant(1)] == 20
    assert f"{tf.constant(0.25):.3f}" == "0.250"
    with pytest.raises(ValueError, match="shape \\[2\\]"):
        bool(tf.constant([True, False]))


def test_tensors_compare_elementwise_and_have_no_hash() -> None:
    x = tf.constant([1, 2, 3])
    assert (x == 2).numpy().tolist() == [False, True, False]
    assert (x != tf.constant([1, 0, 3])).numpy().tolist() == [False, True, False]
    assert (x == None) is False  # noqa: E711
    with pytest.raises(TypeError, match=r"ref\(\)"):
        hash(x)
    assert {x.ref(): 1}[x.ref()] == 1


def test_tensors_are_copied_pickled_iterated_and_sliced() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    assert copy.deepcopy(x) is x
    assert pickle.loads(pickle.dumps(x)).numpy().tolist() == [[1, 2], [3, 4]]
    assert [row.numpy().tolist() for row in x] == [[1, 2], [3, 4]]
    assert x[:, 1].numpy().tolist() == [2, 4]
    assert np.from_dlpack(x).tolist() == [[1, 2], [3, 4]]


def test_types_are_not_mixed() -> None:
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError), match=r"int32|float"):
        tf.constant(1) + 1.5
    with pytest.raises((TypeError, ValueError, tf.errors.InvalidArgumentError), match="float"):
        tf.constant(1) + tf.constant(1.0)


def test_an_error_of_a_kernel_names_the_operation() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="MatMul"):
        tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))


def test_strings_and_operations_with_several_results() -> None:
    assert tf.strings.join(["a", tf.constant("b")]).numpy() == b"ab"
    first, second = tf.split(tf.constant([1, 2, 3, 4]), 2)
    assert (first.numpy().tolist(), second.numpy().tolist()) == ([1, 2], [3, 4])


def test_seeds_repeat_and_give_the_numbers_of_tensorflow() -> None:
    tf.random.set_seed(7)
    first = [tf.random.normal([2]).numpy(), tf.random.uniform([2]).numpy()]
    tf.random.set_seed(7)
    again = [tf.random.normal([2]).numpy(), tf.random.uniform([2]).numpy()]
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first[0], [0.5983449, 0.06276207], rtol=1e-6)
    np.testing.assert_allclose(first[1], [0.01905346, 0.6496551], rtol=1e-6)


def test_each_thread_calls_at_once_and_a_graph_still_builds() -> None:
    found: list[object] = []

    def work() -> None:
        found.append((tf.constant(1) + 1).numpy())
        with tf.Graph().as_default():
            found.append(tf.executing_eagerly())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [2, False]


def test_tensors_are_kept_by_sessions_alone() -> None:
    with pytest.raises(tf.errors.FailedPreconditionError, match="called on null session state"):
        tf.raw_ops.GetSessionHandle(value=tf.constant(3))
