"""What the manuals of the passes (manuals.py) do not tell: refusals, and passes in a row."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf
from tideflow.compile.feeds import PartialRun, through_rendezvous
from tideflow.compile.fold import fold_constants
from tideflow.compile.merge import merge_equal
from tideflow.compile.partition import partition
from tideflow.compile.place import place
from tideflow.compile.prune import Signature, prune
from tideflow.compile.rewrite import Rewrites
from tideflow.graph.node import topological_order
from tideflow.wire.device_name import full_name, task_name
from tideflow.wire.rendezvous_key import RendezvousKey

WORKER0 = full_name("worker", 0)
WORKER1 = full_name("worker", 1)
PS = full_name("ps", 0)


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def pruned(graph, feeds=(), fetches=(), targets=()):
    return prune(graph.operations_by_name, Signature(tuple(feeds), tuple(fetches), tuple(targets)))


def split(nodes, incarnation=lambda device: 7):
    return partition(nodes, lambda node: task_name(node.device), incarnation)


def names(nodes):
    return [node.name for node in nodes]


# ---- prune


def test_who_waits_for_a_fed_placeholder_waits_for_its_feed(graph):
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.exp(x, name="y")
    with tf.control_dependencies([x, y]):
        tf.no_op(name="after")
    found = pruned(graph, ["x:0"], targets=["after"])
    assert names(found.nodes) == ["_arg_x_0", "y", "after"]
    assert names(found.targets[0].controls) == ["_arg_x_0", "y"]
    # Of a node that is no placeholder only the tensor is fed; who waits for it waits for it.
    found = pruned(graph, ["x:0", "y:0"], targets=["after"])
    assert names(found.targets[0].controls) == ["_arg_x_0", "y"]


def test_feeding_in_the_middle_prunes_what_is_before(graph):
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.exp(x, name="y")
    tf.exp(y, name="z")
    found = pruned(graph, ["x:0", "y:0"], ["z:0"])
    assert names(found.nodes) == ["_arg_y_0", "z", "_retval_z_0_0"]
    assert found.args[0] is None


def test_the_graph_itself_is_left_as_it_was(graph):
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.exp(x, name="y")
    before = graph.as_graph_def()
    found = pruned(graph, ["x:0"], ["y:0"])
    fold_constants(found.nodes)
    place(found.nodes, [WORKER0], False)
    assert graph.as_graph_def() == before
    assert y.op.device == ""


@pytest.mark.parametrize(
    ("signature", "error", "text"),
    [
        (Signature((), ("no:0",), ()), tf.errors.NotFoundError, "no node 'no'"),
        (Signature((), (), ("no",)), tf.errors.NotFoundError, "target 'no'"),
        (Signature(("no:0",), ("x:0",), ()), tf.errors.NotFoundError, "feed 'no:0'"),
        (Signature((), ("x:3",), ()), tf.errors.InvalidArgumentError, "has 1 outputs"),
        (Signature((), (), ()), tf.errors.InvalidArgumentError, "fetches nothing"),
        (Signature(("x:0", "x:0"), ("x:0",), ()), tf.errors.InvalidArgumentError, "more than once"),
        (Signature(("x:0",), ("x:0",), ()), tf.errors.InvalidArgumentError, "both fed and fetched"),
    ],
)
def test_a_signature_that_cannot_be_is_refused(graph, signature, error, text):
    tf.placeholder(tf.float32, [], name="x")
    with pytest.raises(error, match=text):
        prune(graph.operations_by_name, signature)


def test_a_cycle_is_refused_and_shown(graph):
    a = tf.exp(tf.constant(1.0), name="a")
    b = tf.exp(a, name="b")
    a.op.update_input(0, b)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"cycle: (a -> b -> a|b -> a -> b)"):
        topological_order(graph.get_operations())


def test_a_partial_run_knows_which_feeds_a_fetch_needs(graph):
    a = tf.placeholder(tf.float32, [], name="a")
    b = tf.placeholder(tf.float32, [], name="b")
    first = tf.exp(a, name="first")
    tf.add(first, b, name="second")
    run = PartialRun.of(pruned(graph, ["a:0", "b:0"], ["first:0", "second:0"]))
    assert run.needs == {"first:0": {"a:0"}, "second:0": {"a:0", "b:0"}}
    with pytest.raises(tf.errors.InvalidArgumentError, match="b:0"):
        run.check(["a:0"], ["second:0"])
    run.advance(["a:0"], ["first:0"])
    assert not run.is_finished
    run.advance(["b:0"], ["second:0"])
    assert run.is_finished


# ---- fold


def test_a_folded_constant_waits_for_what_its_node_and_inputs_waited_for(graph):
    first, second = tf.no_op(name="first"), tf.no_op(name="second")
    with tf.control_dependencies([first]):
        x = tf.constant(2.0, name="x")
    with tf.control_dependencies([second]):
        y = tf.exp(x, name="y")
    tf.exp(y, name="z")
    (folded,) = [n for n in fold_constants(pruned(graph, [], ["z:0"]).nodes) if n.name == "z"]
    assert folded.op == "Const"
    waits = {node.name for node in folded.controls}
    assert waits == {"first", "second"}


# ---- merge


def test_a_fetched_duplicate_answers_with_the_first_ones_value(graph):
    x = tf.placeholder(tf.float32, [], name="x")
    tf.exp(x, name="first")
    tf.exp(x, name="second")
    found = pruned(graph, ["x:0"], ["first:0", "second:0"])
    found.nodes = merge_equal(found.nodes)
    assert [node.edges[0][0].name for node in found.retvals] == ["first", "first"]
    assert all(retval in found.nodes for retval in found.retvals)


@pytest.mark.parametrize(
    "two",
    [
        lambda x: [tf.cast(x, tf.int32), tf.cast(x, tf.int64)],
        lambda x: [tf.constant(0.0), tf.constant(-0.0)],
        lambda x: [tf.constant([1.0]), tf.constant([[1.0]])],
        lambda x: [tf.random_uniform([], seed=1), tf.random_uniform([], seed=1)],
        lambda x: [tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])],
        lambda x: [tf.subtract(x, 1.0), tf.subtract(1.0, x)],
    ],
    ids=["attrs", "zeros", "shapes", "random", "fed", "order"],
)
def test_what_may_differ_stays_apart(graph, two):
    first, second = two(tf.placeholder(tf.float32, [], name="x"))
    found = merge_equal(pruned(graph, [], [first.name, second.name]).nodes)
    assert {first.op.name, second.op.name} <= set(names(found))


def test_equal_nodes_of_a_loop_become_one_and_the_loop_stays(graph):
    def body(i):
        return tf.identity(i) + tf.abs(i) * tf.abs(i)

    tf.identity(tf.while_loop(lambda i: i < 10, body, [tf.constant(1)]), name="y")
    before = pruned(graph, [], ["y:0"]).nodes
    found = merge_equal(pruned(graph, [], ["y:0"]).nodes)
    of_loop = {"Enter", "Merge", "Switch", "NextIteration", "Exit", "LoopCond"}
    assert [n.op for n in found if n.op in of_loop] == [n.op for n in before if n.op in of_loop]
    assert [n.op for n in found].count("Abs") == 1
    assert topological_order(found)


@pytest.mark.parametrize(
    ("asked", "rewrites"),
    [
        ({}, Rewrites(True, True)),
        ({"optimizer_options": {"opt_level": -1}}, Rewrites(False, False)),
        (
            {"optimizer_options": {"opt_level": -1, "do_common_subexpression_elimination": True}},
            Rewrites(True, False),
        ),
        ({"rewrite_options": {"disable_meta_optimizer": True}}, Rewrites(True, True)),
        ({"rewrite_options": {"common_subgraph_elimination": 2}}, Rewrites(False, True)),
        ({"rewrite_options": {"constant_folding": 2}}, Rewrites(True, False)),
    ],
)
def test_a_session_says_which_rewrites_it_wants(asked, rewrites):
    assert Rewrites.asked(tf.GraphOptions(**asked)) == rewrites


def test_a_merged_graph_gives_what_the_graph_gives():
    off = tf.ConfigProto()
    off.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3])
        ends = [tf.reduce_sum(tf.tanh(x) * tf.constant([1.0, 2.0, 3.0])) for _ in range(3)]
        total = tf.add_n(ends)
        results = []
        for config in (None, off):
            with tf.Session(config=config) as session:
                results.append(session.run([total, *ends], {x: [0.1, 0.2, 0.3]}))
    assert results[0] == results[1]


# ---- place


def test_the_client_device_is_the_default(graph):
    tf.exp(tf.placeholder(tf.float32, [], name="x"), name="y")
    place(graph.get_operations(), [WORKER1, WORKER0, PS], False)
    assert {op.device for op in graph.get_operations()} == {WORKER1}


def test_nodes_that_come_later_go_where_their_variable_is_and_move_nothing(graph):
    with tf.device("/job:ps"):
        variable = tf.Variable(1.0, use_resource=True, name="v")
    first = graph.get_operations()
    place(first, [WORKER0, PS], False)
    before = {node.name: node.device for node in first}
    with tf.device("/job:worker"):
        read = variable.value()
    with tf.colocate_with(graph.get_operation_by_name("v")):
        beside = tf.constant(2.0)
    later = graph.get_operations()[len(first) :]
    place(later, [WORKER0, PS], False, {node.name: node for node in first})
    assert {read.op, beside.op} <= set(later)
    assert (read.op.device, beside.op.device) == (PS, PS)
    assert {node.name: node.device for node in first} == before


def test_nodes_that_come_later_cannot_ask_for_another_device_than_the_placed_one(graph):
    with tf.device("/job:ps"):
        placed = tf.Variable(1.0, use_resource=True, name="v").op
    first = graph.get_operations()
    place(first, [WORKER0, PS], False)
    with tf.device("/job:worker"):
        later = tf.constant(2.0, name="later").op
    later.attrs["_class"] = ["loc:@v"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be on one device"):
        place([later], [WORKER0, PS], False, {node.name: node for node in first})
    assert placed.device == PS


# ---- partition


def two_tasks(graph):
    with tf.device("/job:ps/task:0"):
        x = tf.exp(tf.placeholder_with_default(1.0, [], name="x"), name="a")
    with tf.device("/job:worker/task:0"):
        b, c = tf.exp(x, name="b"), tf.sqrt(x, name="c")
        with tf.control_dependencies([x]):
            d = tf.no_op(name="d")
    return x, b, c, d


def test_one_pair_of_send_and_receive_serves_all_consumers(graph):
    two_tasks(graph)
    found = pruned(graph, [], ["b:0", "c:0"])
    place(found.nodes, [WORKER0, PS], False)
    parts = split(found.nodes)
    sends = [node for node in parts["/job:ps/replica:0/task:0"] if node.op == "_Send"]
    receives = [node for node in parts["/job:worker/replica:0/task:0"] if node.op == "_Recv"]
    assert len(sends) == len(receives) == 1
    for name in ("tensor_name", "send_device", "send_device_incarnation", "recv_device"):
        assert sends[0].attrs[name] == receives[0].attrs[name]
    assert sends[0].attrs["send_device"] == PS
    assert receives[0].attrs["recv_device"] == WORKER0
    by_name = {node.name: node for node in parts["/job:worker/replica:0/task:0"]}
    assert by_name["b"].edges == by_name["c"].edges == [(receives[0], 0)]


def test_feeds_and_fetches_pass_through_the_client_device(graph):
    x = tf.placeholder(tf.float32, [], name="x")
    tf.exp(x, name="y")
    found = pruned(graph, ["x:0"], ["y:0"])
    through_rendezvous(found, WORKER0, 2**63 + 5)
    by_name = {node.name: node for node in found.nodes}
    feed = by_name["_recv_x_0"]
    assert feed.op == "_Recv"
    assert feed.attrs["tensor_name"] == "x:0"
    assert feed.attrs["send_device"] == feed.attrs["recv_device"] == feed.device == WORKER0
    assert feed.attrs["send_device_incarnation"] == -(2**63) + 5
    assert feed.attrs["client_terminated"] is True
    assert by_name["_send_y_0"].edges == [(by_name["y"], 0)]


def test_a_key_is_what_peers_expect():
    key = RendezvousKey.parse(f"{PS};00000000000000ff;{WORKER0};edge_1_a;0:0")
    assert key.src_incarnation == 255
