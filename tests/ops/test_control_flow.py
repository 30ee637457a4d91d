"""Branches and loops: the graphs they make, what runs, and what is refused."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.ops.control_flow import primitives as control_flow_ops


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def run(fetches, feeds=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def count_to(limit, **options):
    return tf.while_loop(lambda i: i < limit, lambda i: i + 1, [tf.constant(0)], **options)


# ---- the primitives


def test_merge_takes_the_live_side_of_a_switch():
    p = tf.placeholder(tf.bool, [])
    off, on = control_flow_ops.switch(tf.constant(3.0), p)
    merged = control_flow_ops.merge([off * 10.0, on * 100.0])
    assert run(merged, {p: True}) == (300.0, 1)
    assert run(merged, {p: False}) == (30.0, 0)


def test_merge_knows_of_a_shape_what_all_inputs_have():
    one, two = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [2, 5])
    assert control_flow_ops.merge([one, two])[0].shape.as_list() == [2, None]


def test_a_switch_needs_a_scalar_predicate():
    with pytest.raises(ValueError, match="pred must be a scalar"):
        control_flow_ops.switch(tf.constant(1.0), tf.constant([True]))


def test_the_gradient_passes_a_switch_and_merge_made_by_hand():
    x, p = tf.constant(3.0), tf.placeholder(tf.bool, [])
    off, on = control_flow_ops.switch(x, p)
    y = control_flow_ops.merge([off * off, on * 5.0])[0]
    (grad,) = tf.gradients(y, [x])
    assert run(grad, {p: True}) == 5.0
    assert run(grad, {p: False}) == 6.0


# ---- cond


def test_cond_makes_the_ops_that_tensorflow_makes(graph):
    x = tf.constant(1.0)
    tf.cond(tf.constant(True), lambda: tf.identity(x), lambda: tf.constant(2.0))
    kinds = {op.name: op.type for op in graph.get_operations() if op.name.startswith("cond/")}
    assert kinds == {
        "cond/Switch": "Switch",
        "cond/switch_t": "Identity",
        "cond/switch_f": "Identity",
        "cond/pred_id": "Identity",
        "cond/Identity/Switch": "Switch",
        "cond/Identity": "Identity",
        "cond/Const": "Const",
        "cond/Merge": "Merge",
    }


def test_the_branch_not_taken_has_no_effects():
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    p = tf.placeholder(tf.bool, [])
    chosen = tf.cond(p, lambda: tf.assign_add(v, 10.0), lambda: tf.identity(v))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(chosen, {p: False}) == 1.0
        assert session.run(chosen, {p: True}) == 11.0
        assert session.run(chosen, {p: False}) == 11.0


def test_an_operation_as_a_result_runs():
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    done = tf.cond(tf.constant(True), lambda: tf.group(tf.assign(v, 5.0)), lambda: tf.no_op())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(done)
        assert session.run(v) == 5.0


Pair = namedtuple("Pair", ["first", "second"])


def test_results_keep_their_structure():
    x = tf.constant(1.0)
    found = tf.cond(
        tf.constant(False),
        lambda: {"pair": Pair(x, [x, x]), "none": None},
        lambda: {"pair": Pair(x * 2.0, [x * 3.0, x * 4.0]), "none": None},
    )
    assert found["none"] is None
    assert isinstance(found["pair"], Pair)
    assert run([found["pair"].first, *found["pair"].second]) == [2.0, 3.0, 4.0]


def test_a_list_of_one_is_unpacked_unless_strict():
    x, p = tf.constant(1.0), tf.constant(True)
    assert isinstance(tf.cond(p, lambda: [x], lambda: [x]), tf.Tensor)
    assert isinstance(tf.cond(p, lambda: [x], lambda: [x], strict=True), list)


@pytest.mark.parametrize(
    ("true_fn", "false_fn", "error", "message"),
    [
        (lambda: tf.constant(1), lambda: tf.constant(1.0), ValueError, "int32.*float32"),
        (lambda: [1, 2], lambda: [1, 2, 3], ValueError, "2 and 3 members"),
        (lambda: [1, 2], lambda: [1], ValueError, "different structures"),
        (lambda: None, lambda: None, ValueError, "gives None"),
        (lambda: [None], lambda: [1], TypeError, "None in one branch only"),
        (lambda: 1, None, TypeError, "cond needs false_fn"),
    ],
)
def test_cond_refuses(true_fn, false_fn, error, message):
    with pytest.raises(error, match=message):
        tf.cond(tf.constant(True), true_fn, false_fn)


def test_cond_refuses_a_python_bool():
    with pytest.raises(TypeError, match="Python bool"):
        tf.cond(True, lambda: 1, lambda: 2)


def test_an_exception_in_a_branch_leaves_the_graph_outside(graph):
    with pytest.raises(ZeroDivisionError):
        tf.cond(tf.constant(True), lambda: 1 // 0, lambda: 1)
    assert graph.in_force.control_flow is None
    assert graph.get_name_scope() == ""


# ---- while_loop


def test_while_loop_makes_the_ops_that_tensorflow_makes(graph):
    limit = tf.constant(3)
    tf.while_loop(lambda i: i < limit, lambda i: i + 1, [tf.constant(0)])
    made = {op.name: op.type for op in graph.get_operations() if op.name.startswith("while/")}
    expected = ("Enter", "Merge", "LoopCond", "Switch", "Identity", "NextIteration", "Exit")
    assert {f"while/{kind}": kind for kind in expected}.items() <= made.items()
    (captured,) = [op for op in graph.get_operations() if op.attrs.get("is_constant")]
    assert captured.inputs == [limit]
    frame = graph.get_operation_by_name("while/Enter").attrs["frame_name"]
    assert captured.attrs["frame_name"] == frame == "while/while_context"


def test_a_single_variable_comes_back_bare_unless_asked():
    assert run(count_to(5)) == 5
    assert run(count_to(5, return_same_structure=True)) == [5]


def test_variables_keep_their_structure():
    first = (tf.constant(0), {"a": tf.constant(1.0), "b": [tf.constant(2.0)]})
    found = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, d: (i + 1, {"a": d["a"] * 2.0, "b": [d["b"][0] + d["a"]]}),
        first,
    )
    assert run([found[0], found[1]["a"], found[1]["b"][0]]) == [3, 8.0, 9.0]


def test_loops_in_one_graph_do_not_mix():
    assert run([count_to(3), count_to(7)]) == [3, 7]


def test_a_constant_made_in_the_body_is_there_in_each_iteration():
    found = tf.while_loop(
        lambda i, a: i < 20,
        lambda i, a: (i + 1, a + tf.reduce_sum(tf.constant([1.0, 2.0]))),
        [tf.constant(0), tf.constant(0.0)],
    )
    assert run(found) == (20, 60.0)


def test_a_body_that_gives_an_outer_tensor_gives_it_each_time():
    outer = tf.constant(7.0)
    found = tf.while_loop(
        lambda i, a: i < 2, lambda i, a: (i + 1, outer), [tf.constant(0), tf.constant(1.0)]
    )
    assert run(found) == (2, 7.0)


def test_effects_in_the_body_happen_once_for_each_iteration():
    v = tf.get_variable("v", initializer=0, use_resource=True)

    def body(i):
        with tf.control_dependencies([tf.assign_add(v, 1)]):
            return i + 1

    done = tf.while_loop(lambda i: i < 6, body, [tf.constant(0)], parallel_iterations=1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(done)
        assert session.run(v) == 6


def test_maximum_iterations_end_a_loop():
    assert run(count_to(1000, maximum_iterations=4)) == 4


def test_a_limit_asks_no_more_of_the_structure():
    body = lambda i, a: (i + 1, a * 2.0)  # noqa: E731 - a tuple for a list
    first = [tf.constant(0), tf.constant(1.0)]
    found = tf.while_loop(lambda i, a: i < 5, body, first, maximum_iterations=3)
    assert run(list(found)) == [3, 8.0]


def test_a_growing_shape_needs_an_invariant():
    first = [tf.constant(0), tf.ones([1, 2])]

    def grow(i, a):
        return i + 1, tf.concat([a, a], 0)

    with pytest.raises(ValueError, match=r"\(1, 2\).*\(2, 2\)|\[1,2\].*\[2,2\]"):
        tf.while_loop(lambda i, _: i < 3, grow, first)
    invariants = [tf.TensorShape([]), tf.TensorShape([None, 2])]
    found = tf.while_loop(lambda i, _: i < 3, grow, first, shape_invariants=invariants)[1]
    assert found.shape.as_list() == [None, 2]
    assert run(found).shape == (8, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tf.while_loop(lambda: True, list, []), ValueError, "at least one"),
        (lambda: tf.while_loop(3, lambda i: i, [0]), TypeError, "must be callable"),
        (lambda: tf.while_loop(lambda i: i, lambda i: i, [0]), TypeError, "int32, not bool"),
        (lambda: count_to(3, parallel_iterations=0), ValueError, "parallel_iterations"),
        (
            lambda: tf.while_loop(lambda i: i < 3, lambda i: tf.cast(i, tf.float32), [0]),
            TypeError,
            "is int32, but the body gives float32",
        ),
        (
            lambda: tf.while_loop(lambda i, j: i < 3, lambda i, j: [i], [0, 0]),
            ValueError,
            "as many things",
        ),
    ],
)
def test_while_loop_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_tensor_of_a_body_cannot_be_used_outside():
    leaked = []

    def body(i):
        leaked.append(i * 2)
        return i + 1

    tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    with pytest.raises(ValueError, match="inside the loop"):
        tf.while_loop(lambda i: i < 3, lambda i: i + leaked[0], [tf.constant(0)])


def test_a_loop_without_back_prop_has_no_gradient():
    x = tf.constant(2.0)
    y = tf.while_loop(lambda a: a < 100.0, lambda a: a * x, [x], back_prop=False)
    assert tf.gradients(y, [x]) == [None]


def test_second_derivatives_of_a_loop_are_refused():
    x = tf.constant(2.0)
    y = tf.while_loop(lambda a: a < 100.0, lambda a: a * x, [x])
    first = tf.gradients(y, [x])
    with pytest.raises(TypeError, match="second derivatives"):
        tf.gradients(first, [x])


def test_a_gradient_can_be_run_again_and_again():
    x, n = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])
    y = tf.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, a * x), [tf.constant(0), x])[1]
    (grad,) = tf.gradients(y, [x])
    with tf.Session() as session:
        for count in (3, 0, 12, 1):
            found = session.run(grad, {x: 1.5, n: count})
            np.testing.assert_allclose(found, (count + 1) * 1.5**count, rtol=1e-5)


def test_gradients_of_a_loop_can_be_taken_twice_over():
    x = tf.constant(1.5)
    y = tf.while_loop(lambda a: a < 10.0, lambda a: a * a * x, [x])
    one, two = tf.gradients(y, [x])[0], tf.gradients(y * 2.0, [x])[0]
    found = run([one, two])
    np.testing.assert_allclose(found[0] * 2, found[1], rtol=1e-6)


# ---- case, group, tuple


def test_a_case_may_have_more_conditions_than_functions_may_call_each_other():
    x = tf.placeholder(tf.float32, [])
    pairs = [(tf.equal(x, float(i)), lambda i=i: x + i) for i in range(120)]
    chosen = tf.case(pairs, default=lambda: -x)
    with tf.Session() as session:
        assert [session.run(chosen, {x: at}) for at in (0, 100, 119, 200)] == [0, 200, 238, -200]


def test_case_without_a_match_fails_when_run():
    found = tf.case([(tf.constant(False), lambda: tf.constant(1)),
                     (tf.constant(False), lambda: tf.constant(2))])  # fmt: skip
    with pytest.raises(tf.errors.InvalidArgumentError, match="none of the 2 predicates"):
        run(found)


def test_an_exclusive_case_with_two_matches_fails_when_run():
    yes = tf.constant(True)
    found = tf.case([(yes, lambda: 1), (yes, lambda: 2)], default=lambda: 3, exclusive=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than one predicate"):
        run(found)


def test_switch_case_refuses_an_index_given_twice():
    with pytest.raises(ValueError, match="an index twice"):
        tf.switch_case(tf.constant(0), [(1, lambda: 1), (1, lambda: 2)])


def test_a_group_gathers_on_each_device_first(graph):
    ops = []
    for device in ("/CPU:0", "/CPU:1", "/CPU:1"):
        with tf.device(device):
            ops.append(tf.constant(1.0).op)
    grouped = tf.group(*ops, name="all")
    assert [op.device for op in grouped.control_inputs] == ["/device:CPU:0", "/device:CPU:1"]
    assert grouped.name == "all"


def test_an_empty_group_is_a_no_op():
    assert tf.group().type == "NoOp"


def test_a_tuple_waits_for_all_its_members():
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    x = tf.constant(3.0)
    same, nothing = tf.tuple([x, None], control_inputs=[tf.assign(v, 9.0).op])
    assert nothing is None
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(same) == 3.0
        assert session.run(v) == 9.0


# ---- structures


def test_dicts_are_walked_in_the_order_of_their_keys():
    structure = {"b": [1, (2,)], "a": 0}
    assert tf.nest.flatten(structure) == [0, 1, 2]
    assert tf.nest.pack_sequence_as(structure, [10, 11, 12]) == {"a": 10, "b": [11, (12,)]}


def test_map_structure_wants_structures_alike():
    assert tf.nest.map_structure(lambda a, b: a + b, [1, 2], [10, 20]) == [11, 22]
    with pytest.raises(ValueError, match="members"):
        tf.nest.map_structure(lambda a, b: a, [1, 2], [1])


def test_a_branch_may_give_one_value_in_a_list_or_not():
    x, p = tf.constant(1.0), tf.placeholder(tf.bool, [])
    assert run(tf.cond(p, lambda: x, lambda: [x + 1.0]), {p: False}) == 2.0
    for one, other in [({"a": x}, [x]), ([x, x], [x])]:
        with pytest.raises(ValueError, match="different structures"):
            tf.cond(p, lambda one=one: one, lambda other=other: other)
    with pytest.raises(ValueError, match="different structures"):
        tf.cond(p, lambda: x, lambda: [x], strict=True)
