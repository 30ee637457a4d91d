"""GraphDefs read into a Graph: what cannot be read is refused by name."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf
from tideflow.wire import messages as pb

FLOAT = 1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def graph_def(*nodes):
    """Return a GraphDef of (name, op, inputs, attrs), attrs as AttrValue fields."""
    made = tf.GraphDef()
    for name, op, inputs, attrs in nodes:
        node = made.node.add(name=name, op=op, input=inputs)
        for key, fields in attrs.items():
            node.attr[key].CopyFrom(tf.AttrValue(**fields))
    return made


def identity(name, source):
    return name, "Identity", [source], {"T": {"type": FLOAT}}


def placeholder(name):
    return name, "Placeholder", [], {"dtype": {"type": FLOAT}}


def test_a_cycle_is_named_node_by_node():
    with pytest.raises(ValueError, match=r"a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c"):
        tf.import_graph_def(graph_def(identity("a", "c"), identity("b", "a"), identity("c", "b")))


def test_a_cycle_through_control_inputs_is_one_too():
    first = ("a", "NoOp", ["^b"], {})
    with pytest.raises(ValueError, match=r"cycle: .*a -> b"):
        tf.import_graph_def(graph_def(first, ("b", "NoOp", ["^a"], {})))


def test_a_mapped_input_opens_a_cycle(graph):
    source = tf.placeholder(tf.float32, name="source")
    both = graph_def(identity("a", "b"), identity("b", "a"))
    tf.import_graph_def(both, input_map={"b:0": source}, name="in")
    assert source.consumers() == [graph.get_operation_by_name("in/a")]


def test_two_nodes_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two nodes named 'x'"):
        tf.import_graph_def(graph_def(placeholder("x"), placeholder("x")))


@pytest.mark.parametrize(
    ("op", "attrs", "expected"),
    [
        ("Placeholder", {"dtype": {"i": 1}}, "'dtype' of node 'n' .*must be a type.*'i'"),
        ("Placeholder", {}, "'n' lacks attr 'dtype'"),
        (
            "FIFOQueueV2",
            {"component_types": {"list": {"i": [1]}}},
            "'component_types' of node 'n' .*list",
        ),
    ],
)
def test_an_attr_that_is_missing_or_of_the_wrong_kind_is_refused(op, attrs, expected):
    with pytest.raises(ValueError, match=expected):
        tf.import_graph_def(graph_def(("n", op, [], attrs)))


def test_an_unknown_op_is_named_with_its_node():
    with pytest.raises(tf.errors.NotFoundError, match="'Frobnicate' of node 'n'"):
        tf.import_graph_def(graph_def(("n", "Frobnicate", [], {})))


def shape(*sizes):
    return pb.TensorShapeProto(dim=[pb.TensorShapeProto.Dim(size=size) for size in sizes])


def test_a_note_of_tensorflows_optimizer_may_have_symbols_for_sizes(graph):
    name, op, inputs, attrs = placeholder("a")
    attrs |= {"_a": {"shape": shape(-21, 3)}, "_b": {"list": {"shape": [shape(-2, -2)]}}}
    tf.import_graph_def(graph_def((name, op, inputs, attrs)), name="")
    [found] = graph.as_graph_def().node
    assert found.attr["_a"].shape == shape(-1, 3)
    assert found.attr["_b"].list.shape[0] == shape(-1, -1)


def test_a_size_below_minus_one_is_refused_where_the_op_reads_it():
    name, op, inputs, attrs = placeholder("a")
    attrs["shape"] = {"shape": shape(-2)}
    with pytest.raises(ValueError, match=r"attr 'shape' of node 'a'.* has size -2 on axis 0"):
        tf.import_graph_def(graph_def((name, op, inputs, attrs)))
