"""Branches and loops of v1 graphs run as one op each: what they give, in which order, how often,
and how they fail is what their nodes say."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.ops.control_flow import primitives
from tideflow.ops.control_flow.functional import defun


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def session(graph):
    with tf.Session() as made:
        yield made


def traced(session: Any, fetches: Any, feeds: Any = None) -> Counter[tuple[str, str]]:
    """Run a step; return how often each node ran, by name and op."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(fetches, feeds, options=options, run_metadata=metadata)
    found: Counter[tuple[str, str]] = Counter()
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            found[node.node_name, node.timeline_label.split(" = ")[-1].partition("(")[0]] += 1
    return found


def counter(name: str) -> Any:
    return tf.get_variable(name, initializer=0, use_resource=True)


def counted(variable: Any, value: Any) -> Any:
    with tf.control_dependencies([variable.assign_add(1, read_value=False)]):
        return tf.identity(value)


def test_a_loop_is_one_op_whose_nodes_are_still_seen_in_each_turn(session):
    x = tf.placeholder(tf.float32, [])
    _, y = tf.while_loop(
        lambda i, a: i < 3,
        lambda i, a: (i + 1, tf.multiply(a, x, name="product")),
        [0, tf.constant(1.0)],
    )
    z = tf.exp(y, name="after")
    found = traced(session, z, {x: 2.0})
    assert {op for _, op in found} & {"Enter", "Merge", "Switch", "Exit"} == set()
    assert [count for (_, op), count in found.items() if op == "While"] == [1]
    assert found["while/product", "Mul"] == 3
    assert found["while/Less", "Less"] == 4
    assert found["after", "Exp"] == 1


def test_effects_happen_once_in_each_turn_and_once_more_in_the_condition(session):
    asked, turned = counter("asked"), counter("turned")
    n = tf.placeholder(tf.int32, [])
    end = tf.while_loop(lambda i: counted(asked, i < n), lambda i: counted(turned, i + 1), [0])
    session.run(tf.global_variables_initializer())
    for turns in (0, 3):
        before = session.run([asked, turned])
        assert session.run(end, {n: turns}) == turns
        after = session.run([asked, turned])
        assert [b - a for a, b in zip(before, after)] == [turns + 1, turns]


def test_the_body_takes_what_the_condition_computed(session):
    taken = []

    def cond(i, a):
        taken.append(tf.square(a))
        return taken[0] < 100.0

    _, y = tf.while_loop(cond, lambda i, a: (i + 1, taken[0] + 1.0), [0, tf.constant(1.5)])
    a = 1.5
    while a * a < 100.0:
        a = a * a + 1.0
    np.testing.assert_allclose(session.run(y), a)


def test_what_the_condition_reads_is_read_once_in_each_turn(session):
    asked = counter("asked")
    seen = []

    def cond(i, a):
        with tf.control_dependencies([asked.assign_add(1, read_value=False)]):
            seen.append(asked.read_value())
        return seen[0] < 4

    _, total = tf.while_loop(cond, lambda i, a: (i + 1, a + seen[0]), [0, 0])
    session.run(tf.global_variables_initializer())
    assert session.run(total) == 1 + 2 + 3
    assert session.run(asked) == 4


def test_effects_of_a_turn_keep_their_order(session):
    v = tf.get_variable("v", initializer=1.0, use_resource=True)

    def body(i, a):
        with tf.control_dependencies([v.assign_add(1.0, read_value=False)]):
            doubled = v.assign(v.read_value() * 2.0, read_value=False)
        with tf.control_dependencies([doubled]):
            return i + 1, a + v.read_value()

    _, total = tf.while_loop(lambda i, a: i < 3, body, [0, tf.constant(0.0)])
    session.run(tf.global_variables_initializer())
    assert session.run(total) == 4.0 + 10.0 + 22.0


def test_a_loop_waits_for_what_it_was_made_under_and_is_waited_for(session):
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    with tf.control_dependencies([v.assign(5.0, read_value=False)]):
        y = tf.while_loop(lambda a: a < 50.0, lambda a: a + v, [tf.constant(0.0)])
    with tf.control_dependencies([y]):
        after = v.assign_add(100.0)
    session.run(tf.global_variables_initializer())
    assert session.run([y, after]) == [50.0, 105.0]


def test_random_sequences_in_a_loop_go_on_from_step_to_step():
    tf.set_random_seed(3)
    drawn = tf.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a + tf.random_uniform([], seed=5)), [0, 0.0]
    )[1]
    steps = []
    for _ in range(2):
        with tf.Session() as session:
            steps.append([float(session.run(drawn)) for _ in range(3)])
    assert steps[0] == steps[1]
    assert len(set(steps[0])) == 3


def test_a_failure_in_a_body_names_its_node(session):
    x = tf.placeholder(tf.float32, [None])
    y = tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, tf.reshape(a, [2], "two")), [0, x])
    with pytest.raises(tf.errors.InvalidArgumentError, match="while/two") as caught:
        session.run(y, {x: [1.0, 2.0, 3.0]})
    assert caught.value.op.name == "while/two"


def test_a_condition_that_is_no_scalar_is_refused(session):
    x = tf.placeholder(tf.float32)
    y = tf.while_loop(lambda a: a < 2.0, lambda a: a + 1.0, [x], shape_invariants=[None])
    assert session.run(y, {x: 0.5}) == 2.5
    with pytest.raises(tf.errors.InvalidArgumentError, match="while/Switch"):
        session.run(y, {x: [0.5, 1.5]})


def test_a_loop_in_a_branch_that_is_not_taken_does_nothing(session):
    turned = counter("turned")
    p, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [])

    def looped():
        return tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, counted(turned, a * x)), [0, x]
        )[1]

    y = tf.cond(p, looped, lambda: -x)
    (grad,) = tf.gradients(y, [x])
    session.run(tf.global_variables_initializer())
    assert session.run([y, grad], {p: False, x: 2.0}) == [-2.0, -1.0]
    assert session.run(turned) == 0
    assert session.run([y, grad], {p: True, x: 2.0}) == [16.0, 32.0]
    assert session.run(turned) == 3


def test_ctrl_c_ends_a_loop_that_never_ends(session):
    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        return np.int64(0)

    with tf.control_dependencies([tf.py_func(interrupt, [], tf.int64)]):
        endless = tf.while_loop(lambda i: i >= 0, lambda i: tf.maximum(i, 1), [tf.constant(0)])
    with pytest.raises(KeyboardInterrupt):
        session.run(endless)
    assert session.run(tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])) == 3


def test_one_loop_of_many_waits_and_the_others_do_not(session):
    queue = tf.FIFOQueue(10, tf.float32, shapes=[[]])
    fill = queue.enqueue_many([[1.0, 2.0, 3.0]])
    first = tf.while_loop(lambda a: a < 5.0, lambda a: a + 1.0, [tf.constant(0.0)])
    _, total = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + queue.dequeue()),
                             [0, first])  # fmt: skip
    last = tf.while_loop(lambda a: a < 20.0, lambda a: a * 2.0, [total])
    session.run(fill)
    assert session.run(last) == 22.0


def test_a_loop_of_three_levels(session):
    n = tf.placeholder(tf.int32, [])

    def sum_of(limit, term):
        return tf.while_loop(lambda i, a: i < limit, lambda i, a: (i + 1, a + term(i)), [0, 0])[1]

    y = sum_of(n, lambda i: sum_of(i, lambda j: sum_of(j, lambda k: i * j + k)))
    wanted = sum(i * j + k for i in range(6) for j in range(i) for k in range(j))
    assert session.run(y, {n: 6}) == wanted
    assert session.run(y, {n: 0}) == 0


def test_a_recurrent_net_trains_as_its_unrolled_form_does(session):
    steps, batch, size = 4, 3, 2
    rng = np.random.default_rng(1)
    xs = tf.constant(rng.normal(size=(steps, batch, size)).astype(np.float32))
    first = rng.normal(size=(size, size)).astype(np.float32)
    losses = []
    for name, looped in (("looped", True), ("unrolled", False)):
        w = tf.get_variable(name, initializer=first, use_resource=True)
        state = tf.zeros([batch, size])
        if looped:
            inputs = tf.TensorArray(tf.float32, steps).unstack(xs)
            outputs = tf.TensorArray(tf.float32, steps)

            def body(i, state, outputs, inputs=inputs, w=w):
                state = tf.tanh(inputs.read(i) + tf.matmul(state, w))
                return i + 1, state, outputs.write(i, state)

            loop = tf.while_loop(lambda i, *_: i < steps, body, [0, state, outputs])
            found = loop[2].stack()
        else:
            states = []
            for i in range(steps):
                state = tf.tanh(xs[i] + tf.matmul(state, w))
                states.append(state)
            found = tf.stack(states)
        loss = tf.reduce_sum(tf.square(found - 0.5))
        (grad,) = tf.gradients(loss, [w])
        with tf.control_dependencies([grad]):
            update = w.assign_sub(0.05 * grad, read_value=False)
        losses.append((loss, update))
    session.run(tf.global_variables_initializer())
    for _ in range(5):
        looped, unrolled = session.run([losses[0], losses[1]])
        np.testing.assert_allclose(looped[0], unrolled[0], rtol=1e-5)


def test_a_function_of_the_graph_is_called_in_a_loop(session):
    double_and_one = defun(lambda x: x * 2.0 + 1.0, [tf.constant(1.0)], "double_and_one")
    y = tf.while_loop(lambda a: a < 20.0, double_and_one, [tf.constant(1.0)])
    assert session.run(y) == 31.0


def test_a_loop_made_by_hand_may_use_a_switch_and_an_exit_many_times(session):
    start = tf.constant(1.0)
    entered = primitives.enter(start, "by_hand")
    merged, _ = primitives.merge([entered, entered])
    going = primitives.loop_cond(merged < primitives.enter(tf.constant(9.0), "by_hand", True))
    off, on = primitives.switch(merged, going)
    again, also = primitives.switch(merged, going)
    merged.op.update_input(1, primitives.next_iteration(on + also))
    exits = [primitives.exit_loop(value) for value in (off, off, again)]
    assert session.run([*exits, exits[0] + exits[2]]) == [16.0, 16.0, 16.0, 32.0]


def test_a_value_that_leaves_a_loop_and_comes_back_into_it(session):
    """No client builds such a loop; it must not keep a graph from running."""
    count = primitives.enter(tf.constant(0), "odd")
    merged, _ = primitives.merge([count, count])
    going = primitives.loop_cond(merged < primitives.enter(tf.constant(3), "odd", True))
    off, on = primitives.switch(merged, going)
    one = primitives.enter(tf.constant(1), "odd", True)
    merged.op.update_input(1, primitives.next_iteration(on + one))
    left = primitives.exit_loop(off)
    primitives.enter(left * 2, "odd", True)
    assert session.run(left) == 3


# ---- branches


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_is_one_op_of_which_one_side_runs(session, taken):
    p, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [])
    y = tf.cond(p, lambda: tf.exp(x, name="on"), lambda: tf.sin(x, name="off"))
    found = traced(session, y, {p: taken, x: 2.0})
    assert {op for _, op in found} & {"Switch", "Merge"} == set()
    assert [count for (_, op), count in found.items() if op == "If"] == [1]
    assert (found["cond/on", "Exp"], found["cond/off", "Sin"]) == (int(taken), int(not taken))


def test_a_layer_that_differs_while_training_learns_as_without_branches(session):
    training, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [None])
    w = tf.get_variable("w", initializer=2.0, use_resource=True)
    mean = tf.get_variable("mean", initializer=1.0, use_resource=True, trainable=False)

    def of_batch():
        found = tf.reduce_mean(x * w)
        with tf.control_dependencies([mean.assign(0.5 * mean + 0.5 * found, read_value=False)]):
            return tf.identity(found)

    centred = x * w - tf.cond(training, of_batch, lambda: mean.read_value())
    scaled = tf.cond(training, lambda: tf.square(centred) * w, lambda: centred)
    loss = tf.reduce_sum(scaled)
    (grad,) = tf.gradients(loss, [w])
    session.run(tf.global_variables_initializer())
    data = np.float32([1.0, 2.0, 6.0])
    found = session.run([loss, grad], {training: True, x: data})
    # With c = x - mean(x): the loss is sum of c * c * w ** 3.
    squares = np.sum((data - 3.0) ** 2)
    np.testing.assert_allclose(found, [8.0 * squares, 12.0 * squares], rtol=1e-5)
    assert session.run(mean) == 3.5
    found = session.run([loss, grad], {training: False, x: data})
    np.testing.assert_allclose(found, [18.0 - 3 * 3.5, 9.0], rtol=1e-5)
    assert session.run(mean) == 3.5


def test_a_gradient_of_a_branch_in_a_loop_takes_what_its_turn_computed(session):
    x = tf.placeholder(tf.float32, [])

    def body(i, a):
        return i + 1, tf.cond(a < 2.0, lambda: a * a * x, lambda: a * 0.5)

    y = tf.while_loop(lambda i, a: i < 5, body, [0, x])[1]
    (grad,) = tf.gradients(y, [x])

    def run(value):
        a = value
        for _ in range(5):
            a = a * a * value if a < 2.0 else a * 0.5
        return a

    slope = (run(1.3 + 1e-6) - run(1.3 - 1e-6)) / 2e-6
    np.testing.assert_allclose(session.run([y, grad], {x: 1.3}), [run(1.3), slope], rtol=1e-4)


def test_a_predicate_that_is_no_scalar_is_refused(session):
    p, x = tf.placeholder(tf.bool), tf.constant(1.0)
    y = tf.cond(p, lambda: x * 2.0, lambda: x)
    assert session.run(y, {p: True}) == 2.0
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run(y, {p: [True, True]})


def test_a_side_that_waits_does_so_and_the_other_does_not(session):
    queue = tf.FIFOQueue(1, tf.float32, shapes=[[]])
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, queue.dequeue, lambda: tf.constant(7.0))
    assert session.run(y, {p: False}) == 7.0
    session.run(queue.enqueue(3.0))
    assert session.run(y, {p: True}) == 3.0
