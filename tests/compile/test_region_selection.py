"""Regions: which nodes they take, and in which order they and the others run."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.compile.region_selection import may_compile, number_nodes, sized_by_values
from tideflow.graph.node import topological_order


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def numbers(*targets):
    """Return the number of each op that the targets need, by name."""
    needed = {}
    left = [t.op if isinstance(t, tf.Tensor) else t for t in targets]
    while left:
        node = left.pop()
        if id(node) not in needed:
            needed[id(node)] = node
            left += [*(source for source, _ in node.edges), *node.controls]
    graph = tf.get_default_graph()
    nodes = topological_order(n for n in graph.get_operations() if id(n) in needed)
    found = number_nodes(nodes)
    return {node.name: found[id(node)] for node in nodes}


def test_a_node_between_two_compiled_ones_that_cannot_be_compiled_parts_them(graph):
    x = tf.placeholder(tf.float32, [2])
    a = tf.exp(x, name="a")
    host = tf.py_func(lambda v: v, [a], tf.float32, name="host")
    found = numbers(tf.add(tf.exp(a, name="beside"), host, name="after"))
    assert found["a"] == found["beside"] == 1
    assert found["host"] == 2
    assert found["after"] == 3


def test_control_edges_part_regions_through_ops_that_do_nothing(graph):
    x = tf.placeholder(tf.float32, [2])
    a = tf.exp(x, name="a")
    with tf.control_dependencies([a]):
        host = tf.py_func(lambda: 1.0, [], tf.float32, name="host")
    with tf.control_dependencies([tf.group(host)]):
        b = tf.exp(x, name="b")
    found = numbers(b)
    assert (found["a"], found["host"], found["b"]) == (1, 2, 3)


def test_uses_of_a_variable_keep_their_order_across_tiers(graph):
    v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
    read = v.read_value()
    first = tf.exp(read, name="first")
    with tf.control_dependencies([read]):
        added = v.assign_add([1.0, 1.0], read_value=False)
    with tf.control_dependencies([added]):
        gathered = v.gather_nd([[0]])
    last = tf.exp(gathered, name="last")
    found = numbers(first, last)
    order = [found[name] for name in ("first", added.name, gathered.op.name, "last")]
    assert order == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x, i: tf.exp(x), True),
        (lambda x, i: tf.gather(x, i), True),
        (lambda x, i: tf.as_string(x), False),
        (lambda x, i: tf.check_numerics(x, ""), False),
        (lambda x, i: tf.cast(i, tf.float32), True),
        (lambda x, i: tf.cast(x, tf.int32), True),
        (lambda x, i: tf.where(tf.greater(x, 0)), False),
        (lambda x, i: tf.random.uniform([2]), False),
    ],
)
def test_only_what_cannot_fail_or_is_checked_before_may_compile(graph, make, expected):
    x = tf.placeholder(tf.float32, [2])
    i = tf.placeholder(tf.int32, [2])
    made = make(x, i)
    assert may_compile(made.op) is expected


def test_a_variable_that_is_only_handed_on_is_not_read_by_a_region(graph):
    v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
    handed_on = tf.py_func(lambda value: value, [v.read_value()], tf.float32)
    found = numbers(handed_on)
    reads = [op.name for op in graph.get_operations() if op.type == "ReadVariableOp"]
    assert [found[name] for name in reads if name in found] == [0]


def test_excluded_nodes_are_left_out(graph):
    x = tf.placeholder(tf.float32, [2])
    tf.exp(tf.exp(x, name="a"), name="b")
    nodes = topological_order(graph.get_operations())
    by_name = {node.name: node for node in nodes}
    found = number_nodes(nodes, [id(by_name["a"])])
    assert found[id(by_name["a"])] % 2 == 0
    assert found[id(by_name["b"])] % 2 == 1


def test_what_has_a_row_for_each_distinct_index_is_told(graph):
    ids = tf.placeholder(tf.int32, [None])
    distinct, at = tf.unique(ids, name="distinct")
    rows = tf.unsorted_segment_sum(
        tf.ones([4, 2]), at, tf.size(distinct, name="count"), name="rows"
    )
    tf.multiply(rows, 2.0, name="scaled")
    tf.identity(at, name="numbers")
    tf.exp(tf.cast(ids, tf.float32), name="beside")
    nodes = topological_order(tf.get_default_graph().get_operations())
    found = {node.name for node in nodes if id(node) in sized_by_values(nodes)}
    assert {"count", "rows", "scaled"} <= found
    assert "distinct" in found, "nobody updates its rows"
    assert not found & {"numbers", "beside"}


def test_what_follows_sums_over_rows_of_distinct_indices_stays_in_regions(graph):
    ids = tf.placeholder(tf.int32, [None])
    distinct, at = tf.unique(ids)
    table = tf.get_variable("table", initializer=np.ones((9, 4), np.float32), use_resource=True)
    rows = tf.gather(table, distinct, name="rows")
    summed = tf.sparse_segment_sum(rows, at, tf.placeholder(tf.int32, [None]), name="summed")
    tf.matmul(summed, np.ones((4, 2), np.float32), name="product")
    nodes = topological_order(tf.get_default_graph().get_operations())
    found = {node.name for node in nodes if id(node) in sized_by_values(nodes)}
    assert "summed" in found
    assert "product" not in found


def test_distinct_rows_that_are_updated_may_be_compiled(graph):
    table = tf.get_variable("table", initializer=np.zeros((4, 2), np.float32), use_resource=True)
    ids = tf.placeholder(tf.int32, [None])
    distinct, at = tf.unique(ids)
    count = tf.size(distinct)
    rows = tf.unsorted_segment_sum(tf.gather(table, ids), at, count)
    update = table.scatter_add(tf.IndexedSlices(2.0 * rows, distinct)).op
    nodes = topological_order([*graph.get_operations(), update])
    assert not sized_by_values(nodes)
    assert may_compile(update)
    assert {"ResourceGather", "Unique"} <= {n.op for n in nodes if may_compile(n)}
    found = sized_by_values(nodes, [id(distinct.op)])
    assert {id(one.op) for one in (distinct, count, rows)} | {id(update)} <= found
