"""Receives whose values come at about the same time are waited for in one go."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.compile.partition import partition
from tideflow.compile.place import place
from tideflow.compile.plan import RECEIVE_LEVEL, make_plan
from tideflow.compile.prune import Signature, prune
from tideflow.compile.receive_levels import mark_receive_levels
from tideflow.wire.device_name import full_name, task_name

WORKER = full_name("worker", 0)
PS = full_name("ps", 0)


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def split(graph, target):
    """Return the nodes by job, with the levels of their receives marked."""
    found = prune(graph.operations_by_name, Signature((), (), (target,)))
    place(found.nodes, [WORKER, PS], False)
    parts = partition(found.nodes, lambda node: task_name(node.device), lambda device: 7)
    mark_receive_levels(parts)
    return {task.split(":")[1].split("/")[0]: nodes for task, nodes in parts.items()}


def levels(nodes):
    return sorted(str(node.attrs.get(RECEIVE_LEVEL)) for node in nodes if node.op == "_Recv")


def weights(count=2):
    with tf.device("/job:ps/task:0"):
        return [tf.Variable(np.ones(3, np.float32), use_resource=True) for _ in range(count)]


def test_weights_are_one_level_and_gradients_the_next(graph):
    held = weights()
    with tf.device("/job:worker/task:0"):
        loss = tf.reduce_sum(held[0] * held[1])
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    parts = split(graph, train.name)
    assert levels(parts["worker"])[:2] == ["1", "1"]
    assert "2" in levels(parts["ps"])
    on_worker = make_plan(parts["worker"])
    with_products = [g for g in on_worker.groups if any(n.op == "Mul" for n in g.nodes)]
    assert len(with_products) == 1
    on_ps = make_plan(parts["ps"])
    updating = [
        group
        for group in on_ps.groups
        if any(n.op == "ResourceApplyGradientDescent" for n in group.nodes)
    ]
    assert len(updating) == 1


def test_what_comes_back_from_a_queue_keeps_nothing_else_waiting(graph):
    (held,) = weights(1)
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(1, tf.float32, [[3]])
        taken = tf.identity(queue.dequeue())
    with tf.device("/job:worker/task:0"):
        put = queue.enqueue(tf.exp(held))
        done = tf.group(put, tf.sqrt(taken))
    # What was taken, and that it was put: both come from ops that may wait.
    assert levels(split(graph, done.name)["worker"]) == ["1", "None", "None"]


def test_a_node_that_needs_only_the_first_level_does_not_wait_for_the_second(graph):
    held = weights()
    with tf.device("/job:worker/task:0"):
        first = tf.exp(held[0] + held[1], name="first")
    with tf.device("/job:ps/task:0"):
        back = tf.sqrt(first)
    with tf.device("/job:worker/task:0"):
        second = tf.sqrt(back, name="second")
    plan = make_plan(split(graph, second.op.name)["worker"])
    of = {node.name: i for i, group in enumerate(plan.groups) for node in group.nodes}
    assert of["first"] != of["second"]
    # The second level comes after the first one, so to wait for it is to wait for both.
    assert plan.groups[of["first"]].waits_for == 2
    assert plan.groups[of["second"]].waits_for == 3


def test_what_a_branch_may_leave_out_is_in_no_level(graph):
    held = weights()
    with tf.device("/job:worker/task:0"):
        chosen = tf.cond(
            tf.reduce_sum(held[0]) > 0.0, lambda: tf.exp(held[1]), lambda: tf.sqrt(held[1])
        )
        done = tf.identity(chosen)
    parts = split(graph, done.op.name)
    # The predicate's variable is read in any case; the branches take the other's by a Switch.
    assert levels(parts["worker"]) == ["1", "None", "None"]
