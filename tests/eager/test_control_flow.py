"""tf.cond, loops, folds and TensorArrays: called at once, and in traced functions alike."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as tf


def both(function, *args):
    """Return what a function gives eagerly; a traced one must give the same."""
    eager, traced = function(*args), tf.function(function)(*args)
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6), eager, traced
    )
    return tf.nest.map_structure(lambda t: t.numpy().tolist(), eager)


def test_cond_and_case() -> None:
    def choose(x):
        one = tf.cond(x > 2, lambda: (x, [x + 1]), lambda: (-x, [x]))
        two = tf.case([(x > 9, lambda: x * 100), (x > 1, lambda: x * 10)], default=lambda: x)
        three = tf.switch_case(x, {0: lambda: 5 * x, 1: lambda: 7 * x}, default=lambda: -x)
        return one, two, three

    assert both(choose, tf.constant(3)) == ((3, [4]), 30, -3)
    assert both(choose, tf.constant(1)) == ((-1, [1]), 1, 7)


def test_while_loops_keep_their_structure() -> None:
    def powers(x):
        return tf.while_loop(
            lambda i, v: i < 100,
            lambda i, v: (i + 1, {"x": v["x"] * x}),
            (0, {"x": tf.constant(1.0)}),
            maximum_iterations=3,
        )

    assert both(powers, tf.constant(2.0)) == (3, {"x": 8})
    single = both(lambda x: tf.while_loop(lambda i: i < 5, lambda i: [i + x], [x]), tf.constant(2))
    assert single == [6]


def test_shapes_that_change_need_invariants() -> None:
    def doubled(x, **kwargs):
        return tf.while_loop(
            lambda i, v: i < 2, lambda i, v: (i + 1, tf.concat([v, v], 0)), (0, x), **kwargs
        )

    x = tf.constant([1.0])
    free = both(lambda x: doubled(x, shape_invariants=(tf.TensorShape([]), [None])), x)
    assert free[1] == [1, 1, 1, 1]
    with pytest.raises(ValueError, match=r"enters the loop with shape \[1\].*has shape \[2\]"):
        tf.function(doubled)(x)


def test_folds_maps_and_scans() -> None:
    def folds(x):
        return (
            tf.foldl(lambda a, r: a * 2 + r, x),
            tf.foldr(lambda a, r: a * 2 + r, x, initializer=tf.constant(1.0)),
            tf.scan(lambda a, r: a * r, x),
            tf.map_fn(lambda r: r * r if r > 1 else -r, x),
            tf.map_fn(lambda p: (p[0] > p[1], p[0]), (x, x[::-1]), (tf.bool, tf.float32)),
            tf.vectorized_map(lambda r: {"i": tf.cast(r, tf.int32), "r": r + 1}, x),
        )

    found = both(folds, tf.constant([1.0, 2.0, 3.0]))
    assert found[:4] == (11, 25, [1, 2, 6], [-1, 4, 9])
    assert found[4] == ([False, False, True], [1, 2, 3])
    assert found[5] == {"i": [1, 2, 3], "r": [2, 3, 4]}


def test_tensor_arrays_are_values() -> None:
    def arrays(x):
        a = tf.TensorArray(tf.float32, size=0, dynamic_size=True).write(0, x).write(2, x * 3)
        b = a.write(0, x * 9)
        split = tf.TensorArray(tf.float32, size=2, infer_shape=False).split(
            tf.stack([x, x, x]), [1, 2]
        )
        return (
            (a.stack(), b.read(0), b.size(), a.gather([2, 0])),
            tf.TensorArray(tf.float32, size=2).unstack([x, x * 2]).scatter([1], [x]).stack(),
            (split.read(1), split.concat()),
        )

    found = both(arrays, tf.constant(2.0))
    assert found == (([2, 0, 6], 18, 3, [6, 2]), [2, 2], ([2, 2], [2, 2, 2]))


def roll(x, w):
    array = tf.TensorArray(tf.float32, size=tf.shape(x)[0])
    h = tf.zeros([2])
    for i in tf.range(tf.shape(x)[0]):
        h = tf.tanh(tf.linalg.matvec(w, h) + x[i])
        if tf.reduce_sum(h) > 1.5:
            h = h * 0.5
        array = array.write(i, h)
    return tf.reduce_sum(array.stack() ** 2)


def roll_in_branches(x, w):
    array = tf.TensorArray(tf.float32, size=tf.shape(x)[0])
    h = tf.zeros([2])
    for i in tf.range(tf.shape(x)[0]):
        h = tf.tanh(tf.linalg.matvec(w, h) + x[i])
        if tf.reduce_sum(h) > 1.0:  # noqa: SIM108 - AutoGraph is to make a branch of it
            array = array.write(i, h * h)
        else:
            array = array.write(i, h)
        if h[0] > h[1]:
            array = array.write(0, h)
    return tf.reduce_sum(array.stack() ** 3)


def scanned(x, w):
    rows = tf.scan(lambda h, r: tf.tanh(tf.linalg.matvec(w, h) + r), x, initializer=tf.ones([2]))
    return tf.reduce_sum(rows**2)


def read_first(x, w):
    array = tf.TensorArray(tf.float32, size=3)
    for i in tf.range(3):
        array = array.write(i, tf.linalg.matvec(w, x[i]))
    return tf.reduce_sum(array.read(0) ** 2)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["inline", "called"])
@pytest.mark.parametrize("program", [roll, roll_in_branches, scanned, read_first])
def test_gradients_through_loops_and_arrays_to_second_order(program, wrap) -> None:
    x = tf.constant([[1.0, 0.2], [0.3, 0.4], [0.0, 1.0]], tf.float32)
    w = tf.constant([[1.0, 2.0], [0.3, 0.4]])
    wrapped = wrap(program)

    def first(x, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = wrapped(x, w)
        return tape.gradient(y, w)

    def second(x, w):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            of_w = tf.reduce_sum(first(x, w))
        return of_w, *tape.gradient(of_w, [x, w])

    eager, traced = second(x, w), tf.function(second)(x, w)
    for one, other in zip(eager, traced, strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-4, atol=1e-5)
    step = 1e-2
    moved = np.zeros([2, 2], np.float32)
    moved[0, 1] = step
    ends = [float(tf.reduce_sum(first(x, w + sign * moved))) for sign in (1, -1)]
    np.testing.assert_allclose(traced[2][0, 1], (ends[0] - ends[1]) / (2 * step), rtol=1e-2)


def test_elements_that_are_read_several_times_have_the_sum_of_the_gradients() -> None:
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            array = tf.TensorArray(tf.float32, size=3).unstack(x)
            y = tf.reduce_sum(array.gather([2, 0, 2]) * [1.0, 10.0, 100.0])
        return tape.gradient(y, x)

    assert both(slope, tf.constant([1.0, 2.0, 3.0])) == [10, 0, 101]


def test_second_order_gradients_of_a_loop_are_those_of_its_operations() -> None:
    w = tf.Variable(2.0)

    def second(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                h = tf.constant(1.0)
                for _ in tf.range(3):
                    h = tf.tanh(h * w + x)
            first = tape.gradient(h, w)
        return first, outer.gradient(first, x)

    def slope(x, step=1e-4):
        """The derivative by w of what the loop gives, by differences."""

        def loop(w):
            h = 1.0
            for _ in range(3):
                h = np.tanh(h * w + x)
            return h

        return (loop(2.0 + step) - loop(2.0 - step)) / (2 * step)

    first, by_x = both(second, tf.constant(0.3))
    assert first == pytest.approx(slope(0.3), rel=1e-3)
    assert by_x == pytest.approx((slope(0.301) - slope(0.299)) / 0.002, rel=1e-2)


def test_branches_change_variables_in_order() -> None:
    v = tf.Variable(1.0)
    log = []

    @tf.function
    def change(flag):
        log.append("traced")
        v.assign_add(1.0)
        if flag:
            v.assign(v * 10.0)
        else:
            v.assign_sub(0.5)
        while v < 100.0:
            v.assign(v * 2.0)
        return v.read_value()

    assert change(tf.constant(True)).numpy() == 160
    v.assign(1.0)
    assert change(tf.constant(False)).numpy() == 192
    assert log == ["traced"]


def test_gradients_of_variables_read_in_a_branch() -> None:
    v = tf.Variable(3.0)

    @tf.function
    def step(flag):
        with tf.GradientTape() as tape:
            y = tf.cond(flag, lambda: v * v, lambda: v * 5.0)
        return tape.gradient(y, v)

    assert [float(step(tf.constant(f))) for f in (True, False)] == [6, 5]


def looped(x):
    return tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, y * y), [0, x])[1]


def chosen(x):
    return tf.cond(tf.reduce_sum(x) > 1.0, lambda: x**4, lambda: x)


@pytest.mark.parametrize("program", [lambda x: x**4, looped, chosen, tf.function(chosen)])
def test_second_and_third_derivatives_where_the_size_is_not_known(program) -> None:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def derivatives(x):
        (second,) = tf.hessians(tf.reduce_sum(program(x)), x)
        return [second, *tf.gradients(second, x)]

    second, third = derivatives(tf.constant([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(second, np.diag([12.0, 48.0, 108.0]))
    np.testing.assert_allclose(third, [24.0, 48.0, 72.0])


def test_gradients_in_a_branch_reach_what_the_functions_around_it_hold() -> None:
    @tf.function
    def slopes(x):
        y = x**3

        def inner():
            z = y * y[0]  # of captured values
            return tf.gradients(z, [x, y]), tf.gradients(z, x, stop_gradients=y)[0] is None

        def outer():
            found, is_stopped = inner()
            assert is_stopped
            return found

        return tf.cond(x[0] > 0, lambda: tf.cond(x[1] > 0, outer, lambda: [x, x]), lambda: [x, x])

    by_x, by_y = slopes(tf.constant([1.0, 2.0]))
    np.testing.assert_allclose(by_x, [30.0, 12.0])
    np.testing.assert_allclose(by_y, [10.0, 1.0])
