"""v1 loops on a worker with weights on a parameter server give what they give in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster

_STEPS, _ROWS, _WIDTH = 5, 3, 4
_INPUTS = np.random.default_rng(0).normal(size=(_STEPS, _ROWS, _WIDTH)).astype(np.float32)


@pytest.fixture
def target(make_cluster: Callable[..., LocalCluster]) -> Iterator[str]:
    with tf.Graph().as_default():
        yield make_cluster({"ps": 1, "worker": 1}).target("worker")


def _weights(name: str) -> Any:
    found = np.random.default_rng(len(name)).normal(size=(_WIDTH, _WIDTH)).astype(np.float32)
    return tf.get_variable(name, initializer=tf.constant(found), use_resource=True)


def _recurrence(inputs: Any) -> Any:
    """Return the last state of a recurrence whose weights are used in each turn."""
    into, again = _weights("into"), _weights("again") + 0.0

    def body(t: Any, state: Any) -> tuple[Any, Any]:
        return t + 1, tf.tanh(tf.matmul(inputs[t], into) + tf.matmul(state, again))

    zeros = tf.zeros([_ROWS, _WIDTH])
    return tf.while_loop(lambda t, _: t < _STEPS, body, [tf.constant(0), zeros])[1]


def _trained(target: str, device: Any) -> list[Any]:
    with tf.Graph().as_default(), tf.device(device):
        inputs = tf.placeholder(tf.float32, _INPUTS.shape)
        loss = tf.reduce_mean(tf.square(tf.matmul(_recurrence(inputs), _weights("out")) - 1.0))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, train], {inputs: _INPUTS})[0] for _ in range(12)]
            return [*losses, *session.run(tf.trainable_variables())]


def test_a_recurrence_learns_weights_of_a_parameter_server(target: str) -> None:
    setter = tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")
    found, expected = _trained(target, setter), _trained("", None)
    assert found[0] > found[11]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("is_chosen", [True, False])
def test_a_loop_in_a_branch_takes_weights_that_no_branch_decides(
    target: str, is_chosen: bool
) -> None:
    choose = tf.placeholder(tf.bool, [])
    with tf.device("/job:ps/task:0"):
        weights = _weights("weights") + 0.0
    with tf.device("/job:worker/task:0"):
        state = tf.ones([_ROWS, _WIDTH])

        def turns() -> Any:
            return tf.while_loop(
                lambda t, _: t < 3, lambda t, s: (t + 1, tf.matmul(s, weights)), [0, state]
            )[1]

        found = tf.cond(choose, turns, lambda: state + weights[0])
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        got, held = session.run([found, weights], {choose: is_chosen})
    expected = np.ones([_ROWS, _WIDTH]) @ held @ held @ held if is_chosen else 1.0 + held[:1]
    np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), rtol=1e-4)


@pytest.mark.parametrize("is_chosen", [True, False])
def test_a_loop_in_a_branch_takes_what_the_branch_computes_elsewhere(
    target: str, is_chosen: bool
) -> None:
    choose = tf.placeholder(tf.bool, [])
    x = tf.placeholder(tf.float32, [])

    def turns() -> Any:
        with tf.device("/job:ps/task:0"):
            more = tf.exp(x)
        with tf.device("/job:worker/task:0"):
            return tf.while_loop(lambda t, _: t < 3, lambda t, s: (t + 1, s + more), [0, x])[1]

    with tf.device("/job:worker/task:0"):
        found = tf.cond(choose, turns, lambda: -x)
    with tf.Session(target) as session:
        got = session.run(found, {choose: is_chosen, x: 1.0})
    assert got == pytest.approx(1.0 + 3 * np.e if is_chosen else -1.0)


@pytest.fixture
def weight(target: str) -> Any:
    with tf.device("/job:ps/task:0"):
        return tf.get_variable("weight", initializer=tf.constant(3.0))


def _on_ps(body: Callable[[Any, Any], Any], turns: int) -> Any:
    """Return what a loop on the parameter server gives, plus one by the worker."""
    with tf.device("/job:ps/task:0"):
        state = tf.while_loop(lambda i, _: i < turns, body, [tf.constant(0), tf.constant(0.0)])[1]
    with tf.device("/job:worker/task:0"):
        return state + 1.0


def test_a_loop_waits_for_what_only_its_body_takes(target: str, weight: Any) -> None:
    with tf.device("/job:worker/task:0"):
        twice = weight * 2.0
    found = _on_ps(lambda i, x: (i + 1, x + twice), 3)
    with tf.Session(target) as session:
        session.run(weight.initializer)
        assert session.run(found) == 19.0


def test_a_loop_waits_for_a_queue_that_another_task_fills(target: str, weight: Any) -> None:
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    with tf.device("/job:worker/task:0"):
        put = queue.enqueue(weight * 2.0)
    found = _on_ps(lambda i, x: (i + 1, x + queue.dequeue()), 1)
    with tf.Session(target) as session:
        session.run(weight.initializer)
        assert session.run([found, put])[0] == 7.0
