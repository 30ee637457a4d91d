"""Where nodes are placed."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf
from accelerator.looks import CPU0, GPU0, ROWS, SOFT, place_of, states
from tideflow.wire import messages as pb


def test_what_asks_for_nothing_goes_to_the_gpu(graph):
    x = tf.placeholder(tf.float32, [4, 3])
    doubled = tf.multiply(x, 2.0, name="doubled")
    with tf.Session() as session:
        assert place_of(session, doubled, {x: ROWS}) == GPU0


def test_strings_stay_on_the_cpu():
    word = tf.placeholder(tf.string, [])
    joined = tf.strings.join([word, "b"])
    with tf.Session() as session:
        assert place_of(session, joined, {word: "a"}) == CPU0
        assert session.run(joined, {word: "a"}) == b"ab"


@pytest.mark.parametrize("device", ["/CPU:0", "/GPU:1", "/device:GPU:0"])
def test_a_device_asked_for_is_used(device):
    with tf.device(device):
        x = tf.placeholder(tf.float32, [4, 3])
        made = x + 1.0
    with tf.Session() as session:
        assert place_of(session, made, {x: ROWS}).endswith(device[-5:])
        assert (session.run(made, {x: ROWS}) == ROWS + 1).all()


def test_an_op_without_a_compiled_form_names_itself_and_the_device():
    word = tf.placeholder(tf.string, [])
    with tf.device("/device:GPU:0"):
        joined = tf.strings.join([word, word], name="wrong")
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=r"Cannot assign.*wrong") as caught,
    ):
        session.run(joined, {word: "a"})
    assert "/device:GPU:0" in caught.value.message
    assert "CPU:0" in caught.value.message


def test_soft_placement_puts_it_on_the_cpu():
    with tf.device("/device:GPU:0"):
        word = tf.placeholder(tf.string, [])
        joined = tf.strings.join([word, "b"])
    with tf.Session(config=SOFT) as session:
        assert session.run(joined, {word: "a"}) == b"ab"
        assert place_of(session, joined, {word: "a"}) == CPU0


def test_a_gpu_that_is_not_there_is_an_error_or_softened():
    with tf.device("/device:GPU:9"):
        x = tf.placeholder(tf.float32, [4, 3])
        made = x + 1.0
    feeds = {x: ROWS}
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="GPU:9"):
        session.run(made, feeds)
    with tf.Session(config=SOFT) as session:
        assert place_of(session, made, feeds) == GPU0
    soft_cpu = pb.ConfigProto(device_count={"GPU": 0}, allow_soft_placement=True)
    with tf.Session(config=soft_cpu) as session:
        assert place_of(session, made, feeds) == CPU0


def test_a_variable_stays_where_it_was_placed_whatever_is_run(graph):
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=True)
    with tf.Session() as session:
        session.run(weights.initializer)
        looked_at = tf.py_func(lambda value: value.sum(), [weights], tf.float32)
        assert session.run(looked_at) == ROWS.sum()
        added = weights.assign_add(tf.ones([4, 3]))
        assert (session.run(added) == ROWS + 1).all()
        assert list(states(session)) == ["weights"]
        assert not states(session, "CPU:0")


def test_placement_is_told(capfd):
    with tf.Session(config=pb.ConfigProto(log_device_placement=True)) as session:
        session.run(tf.multiply(tf.placeholder_with_default(ROWS, [4, 3]), 2.0, name="doubled"))
    assert f"doubled: (Mul): {GPU0}" in capfd.readouterr().err
