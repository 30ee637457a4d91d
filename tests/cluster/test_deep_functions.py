"""Functions that call each other more deeply than Python's calls may be nested."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tideflow as tf2
import tideflow.v1 as tf
from cluster.servers import LocalCluster
from tideflow.eager.eager_graph import disable_eager_execution, enable_eager_execution

Make = Callable[..., LocalCluster]
LEVELS = 300
COUNT = 120
LIMIT = sys.getrecursionlimit()

# Importing the front door has made operations eager.
disable_eager_execution()


def attr(node: Any, name: str, **fields: Any) -> None:
    node.attr[name].CopyFrom(tf.AttrValue(**fields))


def floats(node: Any, *names: str) -> None:
    for name in names:
        attr(node, name, type=1)


def calling(node: Any, following: str) -> None:
    """Have a node run a function or, where its first input is False, hand on the second."""
    floats(node)
    attr(node, "Tcond", type=10)
    for name in ("Tin", "Tout"):
        node.attr[name].list.type.append(1)
    node.attr["then_branch"].func.name = following
    node.attr["else_branch"].func.name = "same"


def add_function(graph_pb: Any, name: str) -> Any:
    made = graph_pb.library.function.add()
    made.signature.name = name
    made.signature.input_arg.add(name="x", type=1)
    made.signature.output_arg.add(name="y", type=1)
    return made


def nested_branches(levels: int) -> Any:
    """Return a graph with `out`, in which each branch adds 1 to `x` and has a branch in it."""
    graph_pb = tf.GraphDef()
    graph_pb.versions.producer = 1000
    same = add_function(graph_pb, "same")
    node = same.node_def.add(name="i", op="Identity", input=["x"])
    floats(node, "T")
    same.ret["y"] = "i:output:0"
    for level in range(levels):
        made = add_function(graph_pb, f"f{level}")
        for name, value in (("limit", level), ("one", 1)):
            node = made.node_def.add(name=name, op="Const")
            floats(node, "dtype")
            node.attr["value"].tensor.dtype = 1
            node.attr["value"].tensor.float_val.append(value)
            node.attr["value"].tensor.tensor_shape.SetInParent()
        floats(made.node_def.add(name="more", op="Greater", input=["x", "limit:output:0"]), "T")
        floats(made.node_def.add(name="sum", op="AddV2", input=["x", "one:output:0"]), "T")
        node = made.node_def.add(name="r", op="If", input=["more:z:0", "sum:z:0"])
        calling(node, f"f{level + 1}" if level + 1 < levels else "same")
        made.ret["y"] = "r:output:0"
    floats(graph_pb.node.add(name="x", op="Placeholder"), "dtype")
    node = graph_pb.node.add(name="yes", op="Placeholder")
    attr(node, "dtype", type=10)
    calling(graph_pb.node.add(name="out", op="If", input=["yes", "x"]), "f0")
    return graph_pb


@pytest.mark.parametrize("is_remote", [False, True])
def test_branches_within_branches(make_cluster: Make, is_remote: bool) -> None:
    target = make_cluster({"worker": 1}).target("worker") if is_remote else ""
    with tf.Graph().as_default():
        tf.import_graph_def(nested_branches(LEVELS), name="")
        with tf.Session(target) as session:
            run = [session.run("out:0", {"x:0": x, "yes:0": True}) for x in (2, -5, 2)]
    assert run == [LEVELS + 2, -4, LEVELS + 2]


def nested(x: Any, y: Any, level: int = 0) -> Any:
    if level == 30:
        return y
    return tf2.cond(x > level, lambda: nested(x, y + 1.0, level + 1), lambda: y)


@pytest.fixture
def eager() -> Iterator[None]:
    enable_eager_execution()
    yield
    disable_eager_execution()


@pytest.mark.usefixtures("eager")
def test_functions_that_are_traced_within_functions() -> None:
    cases = [functools.partial(tf2.constant, float(i)) for i in range(COUNT)]

    @tf2.function(autograph=False)
    def chosen(x: Any) -> Any:
        pairs = [(tf2.equal(x, i), case) for i, case in enumerate(cases)]
        return tf2.case(pairs, default=lambda: tf2.constant(-1.0))

    @tf2.function(autograph=False)
    def slope(x: Any, y: Any) -> Any:
        with tf2.GradientTape() as tape:
            tape.watch(y)
            found = nested(x, y * y)
        return tape.gradient(found, y)

    assert [float(chosen(tf2.constant(i))) for i in (0, COUNT - 1, COUNT)] == [0, COUNT - 1, -1]
    assert float(slope(tf2.constant(200), tf2.constant(3.0))) == 6
    assert sys.getrecursionlimit() == LIMIT
