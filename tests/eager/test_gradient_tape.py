"""Gradients of what was called, and variables."""

from __future__ import annotations

import pytest

import tideflow as tf


def test_the_gradient_of_a_variable() -> None:
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(v * v)
    assert tape.gradient(loss, v).numpy().tolist() == [2, 4]
    assert [w is v for w in tape.watched_variables()] == [True]


def test_a_tensor_must_be_watched() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
        tape.watch(x)
        z = x * x
    assert tape.gradient(y, x) is None
    assert tape.gradient(z, x).numpy() == 6
    zero = tape.gradient(y, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert zero.numpy() == 0


def test_gradients_of_gradients() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
        first = inner.gradient(y, x)
    assert first.numpy() == 27
    assert outer.gradient(first, x).numpy() == 18


def test_a_persistent_tape_differentiates_its_own_gradients() -> None:
    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
        first = tape.gradient(y, x)
    assert tape.gradient(first, x).numpy() == 12


def test_sources_keep_their_structure_and_given_gradients_count() -> None:
    a, b = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = a * b
    found = tape.gradient(y, {"a": a, "b": [b]}, output_gradients=tf.constant(10.0))
    assert found["a"].numpy() == 30
    assert found["b"][0].numpy() == 20


def test_a_gather_gives_slices() -> None:
    table = tf.Variable(tf.ones([5, 2]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 3]))
    found = tape.gradient(loss, table)
    assert isinstance(found, tf.IndexedSlices)
    assert found.indices.numpy().tolist() == [1, 3]


def test_nothing_is_recorded_while_recording_is_stopped() -> None:
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = v * v
        with tape.stop_recording():
            z = v * v
    assert tape.gradient([y, z], v).numpy() == 4


def test_misuse_says_what_would_be_right() -> None:
    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = v * v
    tape.gradient(y, v)
    with pytest.raises(RuntimeError, match="persistent=True"):
        tape.gradient(y, v)
    with pytest.raises(ValueError, match="watches tensors"):
        tf.GradientTape().watch(3.0)


def test_variables_change_in_place() -> None:
    v = tf.Variable([1.0, 2.0], name="v")
    assert v.name == "v:0"
    before = v.value()
    assert v.assign_add([1.0, 1.0]) is v
    assert v.numpy().tolist() == [2, 3]
    assert before.numpy().tolist() == [1, 2]
    v.assign([5.0, 6.0])
    assert (v + 1).numpy().tolist() == [6, 7]
    with pytest.raises(ValueError, match="shape"):
        v.assign([1.0])


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_jacobians(wrap) -> None:
    @wrap
    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        whole = tape.jacobian(y, x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.stack([x[:, 0] * x[:, 1], x[:, 1] ** 2, x[:, 0]], axis=1)
        return whole, tape.batch_jacobian(y, x)

    whole, by_row = both(tf.constant([[1.0, 2.0], [3.0, 4.0]]))
    assert whole.shape == (2, 2, 2, 2)
    assert whole.numpy().reshape(4, 4).tolist() == [
        [2, 0, 0, 0],
        [0, 4, 0, 0],
        [0, 0, 6, 0],
        [0, 0, 0, 8],
    ]
    assert by_row.numpy().tolist() == [[[2, 1], [0, 4], [1, 0]], [[4, 3], [0, 8], [1, 0]]]
