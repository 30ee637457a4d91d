"""Compiled branches, loops and ops that may fail give what straight code gives, errors too."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from runtime.jit_levels import ALWAYS, NEVER
from tideflow.runtime.jit_thread import wait_until_compiled


@pytest.fixture(autouse=True)
def all_compiles(monkeypatch, caplog):
    """What is asked for is compiled as a whole; nothing of it is left to NumPy."""
    monkeypatch.delenv("TIDEFLOW_JIT", raising=False)
    with caplog.at_level(logging.DEBUG, "tideflow.runtime.jit_program"):
        yield
    assert [one for one in caplog.messages if "left to NumPy" in one] == []


Feeds = dict[str, Any]
Build = Callable[[], Any]


def ran(build: Build, feeds: list[Feeds], session_config: Any) -> tuple[list[Any], int]:
    """Return what a program gives for each of some feeds, errors as text, and its regions."""
    with tf.Graph().as_default():
        fetches = build()
        with tf.Session(config=session_config) as session:
            session.run(tf.global_variables_initializer())
            found = []
            for feed in feeds:
                try:
                    found.append(session.run(fetches, feed))
                except tf.errors.OpError as error:
                    # Arrays of a step are numbered in the order in which they are made.
                    text = re.sub(r"TensorArray/_\d+", "TensorArray", error.message)
                    found.append((type(error).__name__, text))
                wait_until_compiled()  # a part that turns out not to compile is left out then
                found.append(session.run(tf.global_variables()))
            regions = [one.compiled_regions for one in session.backend.runners.values()]
    return found, sum(regions)


def check(build: Build, *feeds: Feeds) -> list[Any]:
    """Assert that compiled code gives what straight code gives; return that."""
    given = list(feeds) or [{}]
    plain, none = ran(build, given, NEVER)
    compiled, some = ran(build, given, ALWAYS)
    assert none == 0
    assert some > 0
    for mine, expected in zip(compiled, plain, strict=True):
        if isinstance(expected, tuple):
            assert mine == expected
        else:
            for one, other in zip(flat(mine), flat(expected), strict=True):
                if np.asarray(other).dtype.kind in "iu":
                    np.testing.assert_array_equal(one, other)
                np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
    return plain


def flat(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [leaf for one in value for leaf in flat(one)]
    return [value]


def placeholder(name: str, dtype: Any, shape: Any) -> Any:
    return tf.placeholder(dtype, shape, name=name)


# ---- loops


def count_to(limit: Any) -> Any:
    return tf.while_loop(lambda i, x: i < limit, lambda i, x: (i + 1, x * 1.5 + 1.0), [0, 1.0])


def test_a_loop_of_known_turns():
    found = check(lambda: list(count_to(12)))
    assert found[0][0] == 12


def test_a_loop_of_fed_turns_goes_round_as_often_as_it_is_told():
    def build():
        return list(count_to(placeholder("n", tf.int32, [])))

    found = check(build, {"n:0": 3}, {"n:0": 0}, {"n:0": 40}, {"n:0": 70}, {"n:0": 20})
    assert [int(one[0]) for one in found[::2]] == [3, 0, 40, 70, 20]


def test_a_loop_beyond_every_bound_is_run_as_straight_code():
    def build():
        return list(count_to(placeholder("n", tf.int32, [])))[:1]

    found = check(build, {"n:0": 1}, {"n:0": 5000}, {"n:0": 5001})
    assert [int(one[0]) for one in found[::2]] == [1, 5000, 5001]


def test_nested_loops():
    def build():
        def outer(i, total):
            _, found = tf.while_loop(
                lambda j, x: j < i, lambda j, x: (j + 1, x + tf.cast(i * j, tf.float32)), [0, total]
            )
            return i + 1, found * 1.1

        return list(tf.while_loop(lambda i, total: i < 6, outer, [0, 1.0]))

    check(build)


def test_a_branch_in_a_loop():
    def build():
        limit = placeholder("limit", tf.float32, [])

        def body(i, x):
            return i + 1, tf.cond(x > limit, lambda: x - limit, lambda: x * 2.0)

        return list(tf.while_loop(lambda i, x: i < 9, body, [0, 1.0]))

    check(build, {"limit:0": 3.0}, {"limit:0": 100.0})


def recurrent(steps: int) -> tuple[Any, Any]:
    x = placeholder("x", tf.float32, [steps, 3, 4])
    w = tf.get_variable("w", initializer=np.linspace(-0.5, 0.5, 16).reshape(4, 4).astype("f"))
    inputs = tf.TensorArray(tf.float32, steps).unstack(x)
    outputs = tf.TensorArray(tf.float32, steps)

    def body(t, h, made):
        h = tf.tanh(tf.matmul(h, w) + inputs.read(t))
        return t + 1, h, made.write(t, h)

    _, _, made = tf.while_loop(lambda t, h, made: t < steps, body, [0, tf.zeros([3, 4]), outputs])
    return w, made.stack()


def batch(steps: int, seed: int) -> Feeds:
    drawn = np.random.default_rng(seed).normal(size=(steps, 3, 4))
    return {"x:0": drawn.astype(np.float32)}


def test_a_recurrent_network_and_its_gradient():
    def build():
        w, outputs = recurrent(7)
        loss = tf.reduce_sum(outputs * outputs)
        step = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
        return [loss, *tf.gradients(loss, [w]), step]

    def fetched():
        loss, gradient, step = build()
        with tf.control_dependencies([step]):
            return [tf.identity(loss), tf.identity(gradient)]

    check(fetched, batch(7, 1), batch(7, 2), batch(7, 3))


def test_a_gradient_through_a_loop_of_fed_turns():
    def build():
        n, x = placeholder("n", tf.int32, []), placeholder("x", tf.float32, [3])
        _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * tf.sin(y)), [0, x])
        return [y, *tf.gradients(y, [x])]

    x = np.array([0.5, 1.0, 2.0], np.float32)
    check(build, *({"n:0": n, "x:0": x} for n in (2, 5, 0, 90)))


def test_a_variable_that_a_loop_assigns():
    def build():
        v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)

        def body(i):
            with tf.control_dependencies([v.assign_add(v * 0.5, read_value=False)]):
                return i + 1

        end = tf.while_loop(lambda i: i < 4, body, [0])
        with tf.control_dependencies([end]):
            return [tf.identity(end), v.read_value()]

    found = check(build, {}, {})
    np.testing.assert_allclose(found[2][1], [1.5**8, 2 * 1.5**8], rtol=1e-5)


def test_an_endless_loop_ends_with_its_deadline():
    with tf.Graph().as_default(), tf.Session(config=ALWAYS) as session:
        end = tf.while_loop(lambda i: tf.constant(True), lambda i: i + 1, [0])
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(end, options=tf.RunOptions(timeout_in_ms=1500))


# ---- what straight code refuses


def counted(value: Any) -> list[Any]:
    """Return a value; a variable counts how often it was computed without an error."""
    v = tf.get_variable("count", initializer=0.0, use_resource=True)
    with tf.control_dependencies([value]):
        update = v.assign_add(1.0, read_value=False)
    with tf.control_dependencies([update]):
        return [tf.identity(value)]


def test_an_index_outside_is_refused_and_changes_nothing():
    def build():
        rows = placeholder("rows", tf.float32, [4, 2])
        at = placeholder("at", tf.int32, [3])
        return counted(tf.gather(rows * 2.0, at) + 1.0)

    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    feeds = [{"rows:0": rows, "at:0": at} for at in ([0, 3, 1], [0, 4, 1], [0, -1, 2], [2, 2, 2])]
    found = check(build, *feeds)
    assert [float(one[0]) for one in found[1::2]] == [1, 1, 1, 2]
    assert found[2][0] == "InvalidArgumentError"


def test_a_division_by_zero_is_refused_and_changes_nothing():
    def build():
        x, y = placeholder("x", tf.int32, [3]), placeholder("y", tf.int32, [3])
        return counted((x + 1) // y + x % y)

    feeds = [{"x:0": [7, -7, 9], "y:0": y} for y in ([2, 2, -4], [2, 0, 1], [1, 2, 3])]
    found = check(build, *feeds)
    assert [float(one[0]) for one in found[1::2]] == [1, 1, 2]


def test_a_row_by_a_computed_index():
    def build():
        x, at = placeholder("x", tf.float32, [4, 3]), placeholder("at", tf.int32, [])
        row = (x + 1.0)[at]
        return [row, x[:, at - 1] * 2.0, *tf.gradients(row, [x])]

    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    found = check(build, *({"x:0": x, "at:0": at} for at in (0, 2, -1, 7, -9)))
    assert found[6][0] == found[8][0] == "InvalidArgumentError"


def test_an_element_that_was_read_for_good_is_refused():
    def build():
        twice = placeholder("twice", tf.int32, [])
        made = tf.TensorArray(tf.float32, 4).unstack([1.0, 2.0, 3.0, 4.0])
        first = made.read(1)
        with tf.control_dependencies([first]):
            return [first + made.read(twice)]

    found = check(build, {"twice:0": 0}, {"twice:0": 1}, {"twice:0": 9}, {"twice:0": 3})
    assert [isinstance(one, tuple) for one in found[::2]] == [False, True, True, False]


# ---- lists


def list_of(value: Any) -> Any:
    return tf.raw_ops.TensorListFromTensor(tensor=value, element_shape=[])


def push(items: Any, element: Any) -> Any:
    return tf.raw_ops.TensorListPushBack(input_handle=items, tensor=element)


def pop(items: Any) -> Any:
    return tf.raw_ops.TensorListPopBack(
        input_handle=items, element_shape=[], element_dtype=tf.float32
    )


def stacked(items: Any) -> Any:
    return tf.raw_ops.TensorListStack(
        input_handle=items, element_shape=[], element_dtype=tf.float32
    )


def test_a_turn_that_adds_two_elements_and_takes_one_away():
    def build():
        x = placeholder("x", tf.float32, [1])

        def body(i, items):
            items = push(push(items, tf.cast(i, tf.float32)), -x[0])
            return i + 1, pop(items)[0]

        _, items = tf.while_loop(lambda i, items: i < 6, body, [0, list_of(x)])
        return [stacked(items)]

    found = check(build, {"x:0": [9.0]})
    assert found[0][0].tolist() == [9, 0, 1, 2, 3, 4, 5]


def test_elements_added_after_a_loop_that_went_round_as_often_as_it_may():
    def build():
        n, x = placeholder("n", tf.int32, []), placeholder("x", tf.float32, [1])
        _, items = tf.while_loop(
            lambda i, items: i < n,
            lambda i, items: (i + 1, push(items, tf.cast(i, tf.float32))),
            [0, list_of(x)],
        )
        items, last = pop(push(items, -x[0]))
        return [last, pop(items)[1]]

    found = check(build, *({"n:0": n, "x:0": [9.0]} for n in (3, 63, 64)))
    assert [one[1] for one in found[::2]] == [2, 62, 63]


def test_taking_more_elements_than_there_are_is_refused():
    def build():
        n, x = placeholder("n", tf.int32, []), placeholder("x", tf.float32, [3])

        def body(i, items, total):
            items, last = pop(items)
            return i + 1, items, total + last

        return [tf.while_loop(lambda i, *_: i < n, body, [0, list_of(x), 0.0])[2]]

    found = check(build, *({"n:0": n, "x:0": [1.0, 2.0, 3.0]} for n in (3, 5, 1)))
    assert [isinstance(one, tuple) for one in found[::2]] == [False, True, False]


def test_zeros_like_a_list_of_what_is_no_number():
    def build():
        return [stacked(tf.zeros_like(list_of(placeholder("x", tf.float32, [3]))))]

    found = check(build, {"x:0": [1.0, np.nan, np.inf]})
    assert found[0][0].tolist() == [0, 0, 0]


def test_integers_divide_as_exactly_as_in_straight_code():
    def build():
        return [tf.realdiv(placeholder("x", tf.int32, [2]), placeholder("y", tf.int32, [2]))]

    found = check(build, {"x:0": [2**24 + 1, 2**31 - 1], "y:0": [1, 1]})
    assert found[0][0].tolist() == [2**24 + 1, 2**31 - 1]


# ---- assertions, labels, seeds


def test_an_assertion_that_fails_says_what_straight_code_says():
    def build() -> Any:
        x = placeholder("x", tf.float32, [None])
        v = tf.get_variable("v", initializer=tf.zeros([]), use_resource=True)
        is_small = tf.reduce_all(tf.exp(x) < 3.0)
        with tf.control_dependencies([tf.Assert(is_small, ["too large:", x], name="small")]):
            return [v.assign_add(tf.reduce_sum(tf.exp(x))), tf.exp(x)]

    found = check(build, {"x:0": [0, 1]}, {"x:0": [0, 1, 2]}, {"x:0": [0, 1]})
    kind, text = found[2]
    assert kind == "InvalidArgumentError"
    assert "assertion failed: [too large:] [0 1 2]" in text


def test_an_assertion_within_a_loop():
    def build() -> Any:
        most = placeholder("most", tf.float32, [])

        def body(i: Any, x: Any) -> Any:
            with tf.control_dependencies([tf.Assert(x < most, ["beyond", x, i])]):
                return i + 1, x * 2.0

        return tf.while_loop(lambda i, x: i < 5, body, [tf.constant(0), tf.exp(most * 0.0)])

    found = check(build, {"most:0": 40}, {"most:0": 7})
    assert "[beyond] [8] [3]" in found[2][1]


@pytest.mark.parametrize("wrong", [np.nan, -np.inf])
def test_numbers_that_are_not_finite_are_told(wrong: float):
    def build() -> Any:
        x = placeholder("x", tf.float32, [3])
        y = tf.check_numerics(tf.sqrt(x) * 2.0, "of y")
        v = tf.get_variable("v", initializer=tf.zeros([3]), use_resource=True)
        return [v.assign_add(y), tf.gradients(y * y, x)[0]]

    found = check(build, {"x:0": [1, 2, 3]}, {"x:0": [1, wrong, 3]}, {"x:0": [3, 2, 1]})
    assert "of y" in found[2][1]


def test_labels_that_are_computed_are_checked():
    def build() -> Any:
        tokens = placeholder("tokens", tf.int64, [None, 4])
        w = tf.get_variable("w", initializer=np.eye(4, dtype=np.float32), use_resource=True)
        labels = tf.cast(tf.reshape(tokens[:, 1:], [-1]), tf.int32)
        logits = tf.matmul(tf.one_hot(tf.reshape(tokens[:, :-1], [-1]), 4), w)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(each))
        with tf.control_dependencies([step]):
            return [tf.identity(each)]

    good, bad = [[0, 1, 2, 3], [3, 2, 1, 0]], [[0, 1, 4, 2], [0, -1, 1, 1]]
    found = check(build, {"tokens:0": good}, {"tokens:0": bad}, {"tokens:0": good})
    assert "outside the valid range" in found[2][1]


def test_numbers_that_follow_from_a_seed():
    def build() -> Any:
        seed = placeholder("seed", tf.int32, [2])
        x = placeholder("x", tf.float32, [None, 3])
        size = tf.shape(tf.exp(x))
        return [
            tf.random.stateless_uniform(size, seed),
            tf.random.stateless_uniform(size, seed, 2.0, 3.0, tf.float64),
            tf.random.stateless_normal(size, seed + 1),
            tf.random.stateless_uniform(size, seed, None, None, tf.int32),
        ]

    x = np.zeros((5, 3))
    check(build, {"seed:0": [1, 2], "x:0": x}, {"seed:0": [-3, 2], "x:0": x[:0]})
