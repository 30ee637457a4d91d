"""TensorArrays and stacks: what a step may do with them."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.graph.building import apply_op


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def run(fetches, feeds=None):
    with tf.Session() as session:
        return session.run(fetches, feeds)


def array(size=3, **options):
    return tf.TensorArray(tf.float32, size, **options)


def test_what_is_unstacked_can_be_stacked():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = array().unstack(x).stack()
    assert found.shape.as_list() == [3, 2]
    np.testing.assert_array_equal(run(found), x)


def test_shapes_are_known_as_far_as_the_number_of_elements_is():
    rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    fed = array(tf.placeholder(tf.int32, [])).unstack(rows)
    grows = array(0, dynamic_size=True).unstack(rows)
    assert [a.stack().shape.as_list() for a in (fed, grows)] == [[None, 2], [None, 2]]
    assert array(2).unstack(rows).concat().shape.as_list() == [4]
    assert fed.concat().shape.as_list() == [None]


@pytest.mark.parametrize("version", [1, 2])
def test_a_loop_tells_the_shape_of_what_it_fills(version):
    turn = tf.enable_control_flow_v2 if version == 2 else tf.disable_control_flow_v2
    try:
        turn()
        mapped = tf.map_fn(lambda row: row[:2] * 2.0, tf.ones([4, 3]))
        open_ = tf.map_fn(lambda row: row[:2], tf.placeholder(tf.float32, [None, 3]))
    finally:
        tf.disable_control_flow_v2()
    assert mapped.shape.as_list() == [4, 2]
    assert open_.shape.as_list() == [None, 2]


def test_rows_can_be_scattered_and_gathered():
    found = array(4).scatter([3, 1], [30.0, 10.0]).gather([1, 3])
    np.testing.assert_array_equal(run(found), [10, 30])


def test_parts_can_be_split_and_joined():
    parts = array(2, infer_shape=False).split([1.0, 2.0, 3.0], [1, 2])
    found = run([parts.read(1), parts.size()])
    np.testing.assert_array_equal(found[0], [2, 3])
    joined = array(2, infer_shape=False).split([1.0, 2.0, 3.0], [1, 2]).concat()
    np.testing.assert_array_equal(run(joined), [1, 2, 3])


def test_an_array_of_dynamic_size_grows():
    grown = array(1, dynamic_size=True).write(4, 1.0)
    assert run(grown.size()) == 5


def test_strings_are_elements_too():
    found = tf.TensorArray(tf.string, 2).unstack([b"a", b"bc"]).stack()
    assert run(found).tolist() == [b"a", b"bc"]


def test_an_element_never_written_is_zeros_where_its_shape_is_known():
    np.testing.assert_array_equal(run(array(element_shape=[2]).stack()), np.zeros((3, 2)))


def test_each_step_has_an_array_of_its_own():
    p = tf.placeholder(tf.float32, [])
    found = array(1).write(0, p).read(0)
    with tf.Session() as session:
        assert session.run(found, {p: 1.0}) == 1.0
        assert session.run(found, {p: 2.0}) == 2.0


def read_twice(**options):
    made = array(1, **options).write(0, 1.0)
    with tf.control_dependencies([made.read(0)]):
        return made.read(0)


def test_an_element_is_cleared_when_read():
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot read index 0 again"):
        run(read_twice())
    assert run(read_twice(clear_after_read=False)) == 1.0


def any_shape(value):
    return tf.placeholder_with_default(np.float32(value), None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: array().write(5, 1.0).flow, "cannot write to index 5"),
        (lambda: array(dynamic_size=True).write(-1, 1.0).flow, "cannot write to index -1"),
        (lambda: array().read(7), "cannot read index 7"),
        (lambda: array().read(0), "never written"),
        (lambda: array().write(0, 1.0).write(0, 2.0).flow, "has been written already"),
        (lambda: array(element_shape=[2]).write(0, any_shape([1.0])).flow, r"\[1\].*\[2\]"),
        (lambda: array().split([1.0, 2.0, 3.0], [1, 1]).flow, "add up to 2"),
        (lambda: array().split([1.0, 2.0], [1, 1]).flow, "2 lengths for 3 elements"),
        (lambda: array().gather([9]), "cannot read index 9"),
        (lambda: array(-1).flow, "at least 0"),
        (
            lambda: array(2, infer_shape=False).write(0, [1.0]).write(1, [1.0, 2.0]).stack(),
            "different shapes",
        ),
        (lambda: array(2, infer_shape=False).unstack([1.0, 2.0]).concat(), "can be joined where"),
    ],
)
def test_misuse_is_an_invalid_argument(make, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(make())


def test_nothing_of_unknown_shape_cannot_be_stacked():
    with pytest.raises(tf.errors.UnimplementedError, match="nothing to stack"):
        run(array(0).stack())
    assert run(array(0, element_shape=[2]).stack()).shape == (0, 2)


def test_elements_of_different_shapes_are_refused_when_built():
    with pytest.raises(ValueError, match=r"\[3\].*\[2\]"):
        array().write(0, [1.0, 2.0]).write(1, [1.0, 2.0, 3.0])


def test_another_type_is_refused_when_it_is_written():
    made = array().write(0, tf.constant(1))
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="int32"):
        session.run(made.flow)


def test_a_size_or_a_handle_but_not_both():
    with pytest.raises(ValueError, match="either a size or the handle"):
        tf.TensorArray(tf.float32)
    with pytest.raises(ValueError, match="its flow"):
        tf.TensorArray(tf.float32, handle=array().handle)


def test_a_closed_array_is_gone():
    made = array(1).write(0, 1.0)
    with tf.control_dependencies([made.flow, made.close()]):
        late = made.read(0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="already been closed"):
        run(late)


def test_gradients_of_an_element_read_twice_are_added():
    x = tf.constant([2.0, 3.0])
    made = array(2, clear_after_read=False).unstack(x)
    y = made.read(0) * 10.0 + made.read(0) * made.read(1)
    np.testing.assert_array_equal(run(tf.gradients(y, [x])[0]), [13, 2])


def test_calls_of_gradients_do_not_mix_their_arrays():
    x = tf.constant([2.0, 3.0])
    made = array(2, clear_after_read=False).unstack(x)
    one = tf.gradients(made.read(0) * 10.0, [x])[0]
    two = tf.gradients(made.read(0) * 5.0, [x])[0]
    first, second = run([one, two])
    np.testing.assert_array_equal(first, [10, 0])
    np.testing.assert_array_equal(second, [5, 0])


# ---- stacks


def stack(max_size=-1):
    return apply_op("StackV2", max_size, elem_type=tf.float32)


def push(handle, value):
    return apply_op("StackPushV2", handle, tf.constant(value))


def pop(handle):
    return apply_op("StackPopV2", handle, elem_type=tf.float32)


def test_the_last_value_pushed_is_popped_first():
    handle = stack()
    with tf.control_dependencies([push(handle, 1.0)]):
        second = push(handle, 2.0)
    with tf.control_dependencies([second]):
        top = pop(handle)
    with tf.control_dependencies([top]):
        below = pop(handle)
    assert run([top, below]) == [2.0, 1.0]


def test_an_empty_stack_gives_nothing():
    with pytest.raises(tf.errors.InvalidArgumentError, match="is empty"):
        run(pop(stack()))


def test_a_full_stack_takes_nothing():
    handle = stack(1)
    with tf.control_dependencies([push(handle, 1.0)]):
        late = push(handle, 2.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="its max_size"):
        run(late)


def test_a_value_of_another_type_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="int32 cannot be pushed"):
        run(apply_op("StackPushV2", stack(), tf.constant(1)))
