"""Variables of the v1 API, run by a local session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import get_gradient
from tideflow.graph.graph import Graph


@pytest.fixture
def graph():
    with Graph().as_default() as made:
        yield made


@pytest.fixture(params=[True, False], ids=["resource", "reference"])
def use_resource(request: Any) -> bool:
    return bool(request.param)


def initialized(*fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches))


# ---- one variable


def test_a_variable_has_its_initial_value_once_initialized(graph: Graph, use_resource: bool):
    v = tf.Variable([1.0, 2.0], name="v", use_resource=use_resource)
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="'v'"):
            session.run(v)
        assert session.run(v.initialized_value()).tolist() == [1, 2]
        assert not session.run(tf.is_variable_initialized(v))
        session.run(v.initializer)
        assert session.run(v).tolist() == [1, 2]
        assert v.eval().tolist() == [1, 2]
        v.load([5.0, 6.0])
        assert session.run(v.initialized_value()).tolist() == [5, 6]


def test_a_variable_is_used_like_a_tensor(graph: Graph, use_resource: bool):
    v = tf.Variable([1.0, 2.0], use_resource=use_resource)
    found = initialized(
        v + 1.0, 1.0 - v, 2.0 * v, v / 2.0, -v, v[1], v > 1.5, np.float32([1, 1]) + v, v**2.0
    )
    expected = [[2, 3], [0, -1], [2, 4], [0.5, 1], [-1, -2], 2, [False, True], [2, 3], [1, 4]]
    assert [np.asarray(f).tolist() for f in found] == expected


def test_changing_a_variable(graph: Graph, use_resource: bool):
    v = tf.Variable([1.0, 2.0, 3.0], use_resource=use_resource)
    slices = tf.IndexedSlices(tf.constant([10.0, 20.0]), tf.constant([0, 0]))
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(v.assign([4.0, 5.0, 6.0])).tolist() == [4, 5, 6]
        assert session.run(v.assign_add([1.0, 1.0, 1.0])).tolist() == [5, 6, 7]
        assert session.run(tf.assign_sub(v, [1.0, 1.0, 1.0])).tolist() == [4, 5, 6]
        assert session.run(v.scatter_add(slices)).tolist() == [34, 5, 6]
        assert session.run(tf.scatter_update(v, [1], [0.0])).tolist() == [34, 0, 6]
        assert session.run(tf.scatter_nd_sub(v, [[2]], [1.0])).tolist() == [34, 0, 5]
        assert session.run(v.sparse_read([2, 0])).tolist() == [5, 34]
        assert session.run(v.assign([1.0, 1.0, 1.0], read_value=False)) is None
        assert session.run(tf.assign(v, [2.0, 2.0, 2.0])).tolist() == [2, 2, 2]


def test_part_of_a_variable_can_be_assigned(graph: Graph, use_resource: bool):
    v = tf.Variable(np.zeros((3, 2), np.float32), use_resource=use_resource)
    row = v[1].assign([1.0, 2.0])
    column = v[..., -1].assign([7.0, 8.0, 9.0])
    wrong = v[0].assign(tf.placeholder_with_default(np.float32([1, 2, 3]), None))
    broadcast = v[0].assign(tf.placeholder_with_default(np.float32([5]), None))
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(row).tolist() == [[0, 0], [1, 2], [0, 0]]
        assert session.run(column).tolist() == [[0, 7], [1, 8], [0, 9]]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \[2\]"):
            session.run(wrong)
        assert session.run(v[1]).tolist() == [1, 8]
        assert session.run(broadcast).tolist() == [[5, 5], [1, 8], [0, 9]]


def test_a_read_follows_the_control_dependencies_in_force(graph: Graph):
    v = tf.Variable(1.0)
    add = v.assign_add(1.0)
    with graph.control_dependencies([add]):
        after = v.read_value()
    with tf.Session() as session:
        session.run(v.initializer)
        for expected in (2.0, 3.0):
            assert session.run(after) == expected


def test_an_assigned_variable_reads_and_changes_after_the_assignment(graph: Graph):
    v = tf.Variable(1.0)
    twice = v.assign(10.0).assign_add(1.0)
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(twice + 0.5) == 11.5


def test_an_assignment_can_be_fetched_in_a_finalized_graph(graph: Graph):
    v = tf.Variable(1.0)
    add = v.assign_add(1.0)
    init = tf.global_variables_initializer()
    graph.finalize()
    with tf.Session() as session:
        session.run(init)
        assert session.run(add) == 2.0


def test_callers_arrays_and_variables_do_not_share_memory(graph: Graph):
    v = tf.Variable(np.zeros(3, np.float32))
    with tf.Session() as session:
        session.run(v.initializer)
        found = session.run(v)
        found += 1
        given = np.ones(3, np.float32)
        v.load(given)
        given += 1
        assert session.run(v).tolist() == [1, 1, 1]
        session.run(v.initializer)
        assert session.run(v).tolist() == [0, 0, 0]


def test_counting(graph: Graph, use_resource: bool):
    v = tf.Variable(0, use_resource=use_resource, trainable=False)
    count = tf.count_up_to(v, 2)
    with tf.Session() as session:
        session.run(v.initializer)
        assert [session.run(count), session.run(count)] == [0, 1]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(count)


def test_what_counts_is_a_scalar(graph: Graph, use_resource: bool):
    v = tf.Variable([0, 0], use_resource=use_resource, trainable=False)
    with pytest.raises(ValueError, match="Shape must be rank 0 but is rank 1"):
        tf.count_up_to(v, 2)


def test_what_cannot_be_a_variable_is_refused(graph: Graph):
    with pytest.raises(ValueError, match="initial_value"):
        tf.Variable()
    with pytest.raises(ValueError, match="validate_shape"):
        tf.Variable(tf.placeholder(tf.float32))
    v = tf.Variable([1.0, 2.0])
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        v.assign([1.0])
    with pytest.raises(TypeError):
        iter(v)


def test_a_variable_of_any_shape(graph: Graph, use_resource: bool):
    given = tf.placeholder_with_default(np.float32([1]), None)
    v = tf.Variable(given, validate_shape=False, use_resource=use_resource)
    assert v.shape.rank is None
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(tf.assign(v, [[1.0, 2.0]], validate_shape=False)).shape == (1, 2)


# ---- as nodes, messages and members of collections


def test_nodes_have_tensorflows_names(graph: Graph):
    tf.Variable(3.0, name="v")
    tf.Variable(lambda: tf.zeros([2]), name="w", use_resource=False)
    assert [(op.name, op.type) for op in graph.get_operations()] == [
        ("v/Initializer/initial_value", "Const"),
        ("v", "VarHandleOp"),
        ("v/IsInitialized/VarIsInitializedOp", "VarIsInitializedOp"),
        ("v/Assign", "AssignVariableOp"),
        ("v/Read/ReadVariableOp", "ReadVariableOp"),
        ("w/Initializer/zeros", "Const"),
        ("w", "VariableV2"),
        ("w/Assign", "Assign"),
        ("w/read", "Identity"),
    ]
    handle = graph.get_operation_by_name("v")
    assert handle.attrs["shared_name"] == "v"
    assert handle.attrs["_class"] == ["loc:@v"]


def test_a_variable_survives_its_message(graph: Graph, use_resource: bool):
    v = tf.Variable([1.0], name="v", use_resource=use_resource, trainable=False)
    again = tf.Variable.from_proto(v.to_proto())
    assert type(again) is type(v)
    assert (again.name, again.dtype, again.trainable) == (v.name, v.dtype, False)
    assert again.initializer is v.initializer
    assert initialized(again)[0].tolist() == [1]
    assert v.to_proto("other") is None


def test_collections(graph: Graph):
    a = tf.Variable(1.0)
    b = tf.Variable(1.0, trainable=False)
    c = tf.Variable(1.0, collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False)
    assert tf.global_variables() == [a, b]
    assert tf.trainable_variables() == [a]
    assert tf.local_variables() == [c]
    with tf.Session() as session:
        report = tf.report_uninitialized_variables()
        assert session.run(report).tolist() == [b"Variable", b"Variable_1", b"Variable_2"]
        session.run(tf.global_variables_initializer())
        assert session.run(report).tolist() == [b"Variable_2"]
        session.run(tf.local_variables_initializer())
        assert session.run(report).tolist() == []
        session.run(tf.assert_variables_initialized())


def test_a_variable_made_inside_a_loop_or_control_scope_stands_outside(graph: Graph):
    gate = tf.constant(1.0)
    with graph.control_dependencies([gate]):
        v = tf.Variable(lambda: tf.ones([2]), name="v")
    assert v.initializer.control_inputs == []
    assert v.initial_value.op.control_inputs == []


def test_creators_see_and_change_what_is_made(graph: Graph):
    seen = []

    def creator(next_creator: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["name"])
        return next_creator(**{**kwargs, "use_resource": False})

    with tf.variable_creator_scope(creator):
        v = tf.Variable(1.0, name="v")
        w = tf.get_variable("w", [2])
    assert seen == ["v", "w"]
    assert v.dtype.is_ref_dtype
    assert w.dtype.is_ref_dtype


# ---- gradients


def test_gathering_rows_gives_sparse_gradients(graph: Graph):
    v = tf.Variable(np.arange(6, dtype=np.float32).reshape(3, 2))
    rows = v.sparse_read([2, 0, 2])
    (grad,) = tf.gradients(rows * rows, [v])
    assert isinstance(grad, tf.IndexedSlices)
    dense = tf.convert_to_tensor(grad)
    assert initialized(dense)[0].tolist() == [[0, 2], [0, 0], [16, 20]]


def test_gathering_in_batches_and_by_tuple_have_gradients(graph: Graph):
    v = tf.Variable(np.arange(6, dtype=np.float32).reshape(2, 3))
    handle = v.handle
    batched = tf.gather(v, [[0, 0], [2, 1]], batch_dims=1)
    direct = apply_op("ResourceGather", handle, [[0, 0], [2, 1]], dtype="float32", batch_dims=1)
    ones = tf.ones([2, 2])
    given = get_gradient("ResourceGather")(direct.op, ones)[0]
    (expected,) = tf.gradients(batched, [v])
    tuples = v.gather_nd([[0, 1], [0, 1], [1, 2]])
    (by_tuple,) = tf.gradients(tuples, [v])
    a, b, c = initialized(given, expected, by_tuple)
    assert a.tolist() == b.tolist() == [[2, 0, 0], [0, 1, 1]]
    assert c.tolist() == [[0, 2, 0], [0, 0, 1]]


def test_a_gather_of_a_changed_variable_reads_it_without_the_change(graph: Graph):
    # As TensorFlow's does; a read of the whole, or of a slice, makes the change.
    rows, picked, whole = (
        tf.Variable([1.0, 2.0], use_resource=True).assign_add([1.0, 1.0]) for _ in range(3)
    )
    found = initialized(tf.gather(rows, [0]), picked.gather_nd([[0]]), whole[0])
    assert [np.ravel(value).tolist() for value in found] == [[1], [1], [2]]
