"""Functions: bodies to messages and back, calls, branches and loops over them, gradients."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import text_format

import tideflow.v1 as tf
from tideflow.graph.functions import FunctionDefinition, add_to_library, library_lookup
from tideflow.ops.control_flow import while_op
from tideflow.ops.control_flow.functional import case_op, defun, if_op
from tideflow.wire import messages as pb


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def run(fetches, feeds=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def test_a_call_gives_what_the_python_function_gives():
    c = tf.constant([10.0, 20.0])
    f = defun(lambda a, b: {"sum": a + b + c, "product": a * b}, [tf.float32, tf.float32])
    found = run(f(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])))
    np.testing.assert_array_equal(found["sum"], [14, 26])
    np.testing.assert_array_equal(found["product"], [3, 8])


def test_a_call_without_effects_is_stateless_and_one_with_is_not():
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    pure, impure = defun(lambda a: a * 2.0, [tf.float32]), defun(lambda a: a * v, [tf.float32])
    assert pure(tf.constant(1.0)).op.type == "PartitionedCall"
    assert impure(tf.constant(1.0)).op.type == "StatefulPartitionedCall"


def test_a_call_with_the_wrong_number_of_arguments_is_refused():
    f = defun(lambda a: a, [tf.float32])
    with pytest.raises(TypeError, match="takes 1 arguments, not 2"):
        f(tf.constant(1.0), tf.constant(2.0))


def test_a_function_survives_its_message():
    f = defun(lambda a: tf.split(a * a, 2), [tf.constant([1.0, 2.0])])
    message = pb.FunctionDef.FromString(f.definition.to_proto().SerializeToString())
    nodes = FunctionDefinition(message).instantiate({})
    assert sorted(n.op for n in nodes if n.op.startswith("_")) == ["_Arg", "_Retval", "_Retval"]
    ports = [n.edges[0][1] for n in nodes if n.op == "_Retval"]
    assert ports == [0, 1]


def test_each_instance_has_its_own_nodes():
    f = defun(lambda a: a * a, [tf.float32])
    one, two = f.definition.instantiate({}), f.definition.instantiate({})
    assert {id(n) for n in one}.isdisjoint(id(n) for n in two)


GENERIC = """
signature {
  name: "Twice"
  input_arg { name: "x" type_attr: "T" }
  output_arg { name: "y" type_attr: "T" }
  attr { name: "T" type: "type" }
}
node_def {
  name: "sum" op: "AddV2" input: "x" input: "x"
  attr { key: "T" value { placeholder: "T" } }
}
ret { key: "y" value: "sum:z:0" }
"""


def _twice():
    return text_format.Parse(GENERIC, pb.FunctionDef())


def test_placeholder_attrs_are_filled_in():
    nodes = FunctionDefinition(_twice()).instantiate({"T": tf.int64})
    assert {n.attrs["T"] for n in nodes} == {tf.int64}


def test_a_missing_attr_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"needs attrs \['T'\]"):
        FunctionDefinition(_twice()).instantiate({})


def test_a_function_is_called_as_an_op_of_its_name(graph):
    add_to_library(graph.functions, pb.FunctionDefLibrary(function=[_twice()]))
    op_def = library_lookup(graph.functions)("Twice")
    x = tf.constant([1.0, 2.0])
    called = graph.create_op(op_def, [x], {"T": tf.float32}, "called")
    np.testing.assert_array_equal(run(called.outputs[0]), [2, 4])


def test_another_body_under_a_known_name_is_refused(graph):
    add_to_library(graph.functions, pb.FunctionDefLibrary(function=[_twice()]))
    add_to_library(graph.functions, pb.FunctionDefLibrary(function=[_twice()]))
    other = _twice()
    other.node_def[0].op = "Mul"
    with pytest.raises(tf.errors.InvalidArgumentError, match="'Twice' already"):
        add_to_library(graph.functions, pb.FunctionDefLibrary(function=[other]))


def test_an_unknown_input_in_a_body_is_refused():
    broken = _twice()
    broken.node_def[0].input[0] = "nothing:z:0"
    with pytest.raises(tf.errors.InvalidArgumentError, match="'nothing:z:0'"):
        FunctionDefinition(broken).instantiate({"T": tf.float32})


def test_a_graph_with_functions_can_be_exported_and_imported(graph):
    f = defun(lambda a: a * a + 1.0, [tf.float32])
    tf.identity(f(tf.constant(3.0)), name="answer")
    message = graph.as_graph_def()
    with tf.Graph().as_default():
        (answer,) = tf.import_graph_def(message, return_elements=["answer:0"])
        assert run(answer) == 10.0


@pytest.mark.parametrize(("value", "expected"), [(True, 6.0), (False, 4.0)])
def test_if_runs_one_branch(value, expected):
    x, p = tf.constant(3.0), tf.placeholder(tf.bool, [])
    found = if_op(p, lambda: x * 2.0, lambda: x + 1.0)
    assert found.op.type == "StatelessIf"
    assert run(found, {p: value}) == expected


@pytest.mark.parametrize(("index", "expected"), [(0, 1.0), (1, 2.0), (7, 3.0), (-1, 3.0)])
def test_case_runs_the_branch_at_an_index_or_the_last(index, expected):
    branches = [lambda v=v: tf.constant(v) for v in (1.0, 2.0, 3.0)]
    assert run(case_op(tf.constant(index), branches)) == expected


def test_branches_of_different_types_are_refused():
    with pytest.raises(TypeError, match="float32 and int32"):
        if_op(tf.constant(True), lambda: tf.constant(1.0), lambda: tf.constant(1))


def test_while_repeats_its_body():
    step = tf.constant([1.0, 2.0])
    _, total = while_op(
        lambda i, _: i < 300, lambda i, a: (i + 1, a + step), [tf.constant(0), tf.zeros([2])]
    )
    np.testing.assert_array_equal(run(total), [300, 600])


def test_a_while_body_of_another_type_is_refused():
    with pytest.raises(TypeError, match="the body gives"):
        while_op(lambda i: i < 3, lambda i: tf.cast(i, tf.float32), [tf.constant(0)])


def test_a_call_has_the_gradients_of_its_body():
    x, w = tf.constant([1.0, 2.0]), tf.constant([3.0, 5.0])
    v = tf.get_variable("v", initializer=np.float32([2.0, 4.0]), use_resource=True)

    def body(a):
        return tf.sin(a * w) * a * v

    called, plain = defun(body, [x])(x), body(x)
    first, expected = tf.gradients(called, [x, w, v]), tf.gradients(plain, [x, w, v])
    second = [tf.gradients(first[0], [x])[0], tf.gradients(expected[0], [x])[0]]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for one, other in zip(*session.run([first, expected]), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        np.testing.assert_allclose(*session.run(second), rtol=1e-4)


@pytest.mark.parametrize("value", [True, False])
def test_if_has_the_gradients_of_the_branch_taken(value):
    x, w, p = tf.constant([1.0, 2.0]), tf.constant([3.0, 5.0]), tf.placeholder(tf.bool, [])
    found = if_op(p, lambda: tf.sin(x * w), lambda: x * x * x)
    plain = tf.sin(x * w) if value else x * x * x + 0.0 * w
    pairs = tf.gradients(found, [x, w]), tf.gradients(plain, [x, w])
    for one, other in zip(*run(pairs, {p: value}), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
