"""Copies of small constants for the places that use them."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.compile.prune import Signature, prune
from tideflow.compile.spread import MAX_COPIED_BYTES, spread_constants
from tideflow.wire.device_name import full_name, task_name

WORKER = full_name("worker", 0)
PS = full_name("ps", 0)


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def spread(graph, fetches):
    found = prune(graph.operations_by_name, Signature(("x:0",), tuple(fetches), ()))
    for node in found.nodes:
        node.device = node.device or WORKER
    nodes = spread_constants(found.nodes, lambda node: task_name(node.device))
    return {node.name: node for node in nodes}


def test_each_place_gets_one_copy_and_the_original_goes(graph):
    with tf.device(WORKER):
        rate = tf.constant(0.5, name="rate")
        x = tf.placeholder(tf.float32, [], name="x")
    with tf.device(PS):
        y = tf.multiply(x, rate, name="y")
        tf.add(y, rate, name="z")
    found = spread(graph, ["z:0"])
    copies = [node for node in found.values() if node.op == "Const"]
    assert len(copies) == 1
    assert copies[0].device == PS
    assert copies[0].name != "rate"
    assert found["y"].edges[1] == found["z"].edges[1] == (copies[0], 0)


def test_the_original_stays_where_it_is_used(graph):
    with tf.device(WORKER):
        rate = tf.constant(0.5, name="rate")
        x = tf.placeholder(tf.float32, [], name="x")
        here = tf.multiply(x, rate, name="here")
    with tf.device(PS):
        tf.multiply(here, rate, name="there")
    found = spread(graph, ["there:0"])
    assert found["here"].edges[1][0] is found["rate"]
    assert found["there"].edges[1][0].device == PS


def test_large_constants_and_those_that_wait_are_left(graph):
    with tf.device(WORKER):
        x = tf.placeholder(tf.float32, [], name="x")
        large = tf.constant(np.zeros(MAX_COPIED_BYTES, np.float32), name="large")
        with tf.control_dependencies([x]):
            late = tf.constant(1.0, name="late")
    with tf.device(PS):
        tf.add(large, late, name="sum")
    found = spread(graph, ["sum:0"])
    assert [source.name for source, _ in found["sum"].edges] == ["large", "late"]


def test_nodes_of_one_place_are_left(graph):
    with tf.device(WORKER):
        x = tf.placeholder(tf.float32, [], name="x")
        tf.add(x, tf.constant(1.0, name="one"), name="y")
    assert list(spread(graph, ["y:0"])) == ["_arg_x_0", "one", "y", "_retval_y_0_0"]
