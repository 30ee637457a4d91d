"""Python control flow on tensors, in traced functions."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as tf


def test_both_branches_of_an_if_are_in_one_trace() -> None:
    @tf.function
    def magnitude(x):
        y = 0.0
        if x > 0:
            y += x * x
        else:
            y -= x
        return y

    assert magnitude(tf.constant(3.0)).numpy() == 9
    assert magnitude(tf.constant(-3.0)).numpy() == 3
    assert magnitude.experimental_get_tracing_count() == 1


def test_a_while_runs_until_its_tensor_is_false() -> None:
    @tf.function
    def collatz(n):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    assert collatz(tf.constant(27)).numpy() == 111


def test_break_and_continue_in_a_loop_over_a_range_and_its_gradient() -> None:
    @tf.function
    def total(x, n):
        s = 0.0
        for i in tf.range(n):
            if i == 2:
                continue
            if s > 10.0:
                break
            s += x * tf.cast(i, tf.float32)
        return s

    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = total(x, tf.constant(10))
    assert (y.numpy(), tape.gradient(y, x).numpy()) == (16, 8)


def test_a_return_in_a_loop_ends_the_function() -> None:
    @tf.function
    def first_negative(x):
        for row in x:
            if row < 0 and row > -5:
                return row * 3.0
        return tf.constant(7.0)

    assert first_negative(tf.constant([1.0, -9.0, -4.0])).numpy() == -12
    assert first_negative(tf.constant([1.0])).numpy() == 7

    @tf.function  # noqa: RET503
    def maybe(x):
        for row in x:
            if row < 0:
                return row

    assert maybe(tf.constant([1.0, -4.0])).numpy() == -4
    with pytest.raises(tf.errors.InvalidArgumentError, match="returned in no iteration"):
        maybe(tf.constant([1.0]))


def test_a_python_loop_goes_on_as_a_loop_of_the_graph() -> None:
    @tf.function
    def double_up(x):
        while True:
            x = x * 2
            if x > 100:
                break
        return x

    assert double_up(tf.constant(3)).numpy() == 192

    @tf.function
    def in_python(x):
        for i in range(5):
            if x > 10:
                break
            x = x + i
        return x

    assert [int(in_python(tf.constant(n))) for n in (0, 6)] == [10, 12]


def test_functions_that_are_called_are_converted_and_libraries_are_not() -> None:
    def sign(x):
        if tf.reduce_sum(x) > 0:
            return 1
        return -1

    class Scaled:
        def __init__(self, by):
            self.by = by

        def __call__(self, x):
            while x < 100:
                x = x * self.by
            return x

    @tf.function
    def both(x):
        return Scaled(3)(x) * sign(-x), np.maximum(2, 3)

    scaled, plain = both(tf.constant(2))
    assert (scaled.numpy(), plain.numpy()) == (-162, 3)


def test_attributes_change_in_branches_and_loops() -> None:
    class Counter:
        def __init__(self):
            self.count = tf.constant(0)

        def run(self, n):
            for _ in tf.range(n):
                self.count += 2
            if n > 2:
                self.count += 100

    @tf.function
    def counted(n):
        counter = Counter()
        counter.run(n)
        return counter.count

    assert [int(counted(tf.constant(n))) for n in (1, 3)] == [2, 106]


def test_a_loop_over_a_dataset() -> None:
    dataset = tf.data.Dataset.range(6)
    seen = tf.Variable(tf.constant(0, tf.int64))

    @tf.function
    def total():
        s = tf.constant(0, tf.int64)
        for value in dataset:
            if value == 5:
                break
            s += value
            seen.assign_add(1)
        return s

    assert (total().numpy(), seen.numpy()) == (10, 5)
    assert total().numpy() == 10
    odd = dataset.map(lambda v: v if v % 2 == 1 else -v)
    assert [int(v) for v in odd] == [0, 1, -2, 3, -4, 5]


def test_values_that_first_appear_in_a_loop() -> None:
    @tf.function
    def last(n):
        found = None
        for i in tf.range(n):
            found = i * 10
            extra = i
        return found, extra

    assert [int(v) for v in last(tf.constant(3))] == [20, 2]


def test_shapes_that_change_in_a_loop_are_declared() -> None:
    @tf.function
    def grown(x, n):
        for _ in tf.range(n):
            tf.autograph.experimental.set_loop_options(shape_invariants=[(x, [None])])
            x = tf.concat([x, x], 0)
        return x

    assert grown(tf.constant([1]), tf.constant(3)).shape == [8]


def test_lists_and_dicts_go_round_as_structures() -> None:
    @tf.function
    def fibonacci(n):
        pair = (tf.constant(0), {"next": tf.constant(1)})
        for _ in tf.range(n):
            pair = (pair[1]["next"], {"next": pair[0] + pair[1]["next"]})
        return pair[0]

    assert fibonacci(tf.constant(10)).numpy() == 55


def test_built_in_functions_of_tensors() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def about(x):
        n = len(x)
        s = 0
        for i in range(n):
            s += int(x[i])
        return n, s, float(n)

    assert [v.numpy() for v in about(tf.constant([1.5, 2.5]))] == [2, 3, 2.0]


def test_asserts_of_tensors_are_refused_as_in_tensorflow() -> None:
    @tf.function
    def root(x):
        assert x >= 0, "no roots below 0"
        return x**0.5

    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        root(tf.constant(4.0))


def y_in_one_branch(x):
    if x > 0:
        y = 1
    return y


def return_in_one_branch(x):  # noqa: RET503
    if x > 0:
        return 1


def two_types(x):
    if x > 0:
        y = 1
    else:
        y = 2.0
        y += 1
    return y


def none_in_one_branch(x):
    if x > 0:
        y = None
    else:
        y = x
        y += 1
    return y


def shape_that_changes(x):
    x = tf.reshape(x, [1])
    for _ in tf.range(3):
        x = tf.concat([x, x], 0)
    return x


def type_that_changes(x):
    s = 0
    for _ in tf.range(3):
        s = 1.5
    return s


def condition_of_two(x):
    if tf.stack([x, x]) > 0:
        return x
    return x


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (y_in_one_branch, ValueError, "'y' must also be initialized in the else branch"),
        (return_in_one_branch, ValueError, "the else branch must also have a return statement"),
        (
            two_types,
            TypeError,
            "'y' has dtype int32 in the main branch, but dtype float32 in the else branch",
        ),
        (none_in_one_branch, ValueError, "'y' is None at the end of the main branch"),
        (
            shape_that_changes,
            ValueError,
            r"'x' has shape \(1,\) before the loop, but shape \(2,\) after one iteration",
        ),
        (
            type_that_changes,
            TypeError,
            "'s' has dtype int32 before the loop, but dtype float32 after one iteration",
        ),
        (condition_of_two, ValueError, "expected to be `tf.bool` scalar"),
    ],
)
def test_mistakes_are_told_with_the_line_of_the_user(function, error, message) -> None:
    with pytest.raises(error, match=message) as raised:
        tf.function(function)(tf.constant(1))
    assert __file__ in raised.value.__notes__[-1]
    assert function.__name__ in raised.value.__notes__[-1]


def test_operations_of_converted_code_know_the_lines_of_the_user() -> None:
    made = []

    @tf.function
    def f(x):
        if x > 0:
            made.append(x + 1)
            return x
        return -x

    f(tf.constant(1))
    assert made[0].op.made_at[0] == __file__


def test_what_is_not_converted() -> None:
    def branch(x):
        return 1 if x > 0 else 2

    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match=r"tf\.cond"):
        tf.function(branch, autograph=False)(tf.constant(1))
    plain = tf.autograph.experimental.do_not_convert(branch)
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError, match=r"tf\.cond"):
        tf.function(lambda x: plain(x))(tf.constant(1))
    assert tf.autograph.experimental.do_not_convert(branch)(5) == 1


def test_source_that_cannot_be_read_is_told_once(caplog) -> None:
    names: dict = {}
    exec("def hidden(x):\n    return x + 1", names)
    double = tf.function(names["hidden"])
    with caplog.at_level("WARNING"):
        assert double(tf.constant(1)).numpy() == 2
        assert double(tf.constant(1.0)).numpy() == 2
    told = [r.getMessage() for r in caplog.records if "hidden" in r.getMessage()]
    assert len(told) == 1
    assert "its source cannot be read" in told[0]


def test_conversions_can_be_seen() -> None:
    def f(x):
        if x > 0:
            x = -x
        return x

    assert "ag__.if_stmt" in tf.autograph.to_code(f)
    assert tf.autograph.to_graph(f)(tf.constant(3)).numpy() == -3
