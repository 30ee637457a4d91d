"""Functions that are traced."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import tideflow as tf


def test_a_function_is_traced_once_for_each_kind_of_arguments() -> None:
    traces = []

    @tf.function
    def double(x):
        traces.append(x)
        return x + x

    assert double(tf.constant(2)).numpy() == 4
    assert double(tf.constant(3)).numpy() == 6
    assert double(np.array([1, 2], np.int32)).numpy().tolist() == [2, 4]
    assert len(traces) == 2
    assert double("a").numpy() == b"aa"
    assert double.experimental_get_tracing_count() == 3


def test_effects_keep_their_order_and_all_run() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def change():
        before = v.value()
        v.assign_add(1.0)
        between = v.value()
        v.assign(between * 10.0)
        return before, between

    before, between = change()
    assert (before.numpy(), between.numpy(), v.numpy()) == (1, 2, 20)


def test_a_function_trains_as_its_operations_do_one_by_one() -> None:
    x = tf.constant(np.random.RandomState(0).rand(16, 4).astype(np.float32))
    y = tf.reduce_sum(x, 1, keepdims=True)

    def make():
        w = tf.Variable(tf.zeros([4, 1]))

        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((tf.matmul(x, w) - y) ** 2)
            w.assign_sub(0.5 * tape.gradient(loss, w))
            return loss

        return step

    plain, traced = make(), tf.function(make())
    losses = [[float(step()) for _ in range(60)] for step in (plain, traced)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert losses[1][-1] < 0.01 * losses[1][0]


def test_a_tape_around_a_call_differentiates_it_also_twice() -> None:
    w = tf.Variable(2.0)

    @tf.function
    def cube(x):
        return w * x * x * x

    x = tf.constant(3.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape(persistent=True) as inner:
            inner.watch(x)
            y = cube(x)
        first = inner.gradient(y, x)
    assert first.numpy() == 54
    assert inner.gradient(y, w).numpy() == 27
    assert outer.gradient(first, x).numpy() == 36


def test_variables_are_made_in_the_first_call_alone() -> None:
    class Model:
        v = None

        @tf.function
        def __call__(self, x):
            if self.v is None:
                self.v = tf.Variable(tf.ones([2]) * 3.0)
            return self.v * x

    assert Model()(tf.constant(2.0)).numpy().tolist() == [6, 6]

    @tf.function
    def wrong():
        return tf.Variable(1.0) + 1.0

    with pytest.raises(ValueError, match="singleton"):
        wrong()


def test_a_method_does_not_keep_its_object() -> None:
    class Model:
        @tf.function
        def __call__(self, x):
            return x + 1

    model = Model()
    assert model(tf.constant(1)).numpy() == 2
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_input_signatures_cast_and_refuse() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def total(x):
        return tf.reduce_sum(x)

    assert total([1, 2]).numpy() == 3
    assert total(tf.ones([5])).numpy() == 5
    assert total.experimental_get_tracing_count() == 1
    with pytest.raises(TypeError, match="Can not cast"):
        total(tf.constant([1, 2]))


def test_open_sizes_on_request() -> None:
    @tf.function(reduce_retracing=True)
    def total(x):
        return tf.reduce_sum(x)

    assert [float(total(tf.ones([n]))) for n in (1, 2, 3, 4)] == [1, 2, 3, 4]
    assert total.experimental_get_tracing_count() == 2


def test_a_tensor_that_leaks_is_refused_by_name() -> None:
    leaked = []

    @tf.function
    def leaky(x):
        leaked.append(x * 2)
        return x

    leaky(tf.constant(1))
    with pytest.raises(TypeError, match=r"(?s)out of scope.*leaky.*test_function.py:\d+"):
        leaked[0] + 1


def test_functions_call_functions() -> None:
    v = tf.Variable(2.0)

    @tf.function
    def inner(x):
        return x * v

    @tf.function
    def outer(x):
        return inner(x) + inner(x + 1.0)

    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = outer(x)
    assert y.numpy() == 14
    assert [g.numpy() for g in tape.gradient(y, [x, v])] == [4, 7]


def test_concrete_functions_take_tensors_by_name() -> None:
    function = tf.function(lambda x, a: x * 10.0 + a)
    scalar = tf.TensorSpec([], tf.float32)
    concrete = function.get_concrete_function(scalar, scalar)
    one, two = tf.constant(1.0), tf.constant(2.0)
    assert [float(concrete(x=one, a=two)), float(concrete(one, a=two))] == [12, 12]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        concrete(x=one, z=two)
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        concrete(one, x=two)


def test_a_function_that_another_ones_trace_called_first_is_called_from_anywhere() -> None:
    held = tf.Variable(2.0)

    @tf.function
    def inner(x):
        return held * x

    @tf.function
    def first(x):
        return held + inner(x)

    @tf.function
    def second(x):
        return held - inner(x)

    assert float(first(tf.constant(3.0))) == 8.0
    assert float(second(tf.constant(3.0))) == -4.0
    assert float(inner(tf.constant(3.0))) == 6.0


def test_recursion_over_tensors_is_refused() -> None:
    @tf.function
    def down(x):
        return down(x - 1.0)

    @tf.function
    def factorial(n):
        return tf.constant(1) if n == 0 else n * factorial(n - 1)

    with pytest.raises(RecursionError, match="'down' calls itself with arguments of the same"):
        down(tf.constant(3.0))
    assert int(factorial(3)) == 6


def test_first_calls_from_several_threads_trace_once() -> None:
    traced, results = [], []
    start = threading.Barrier(4)

    @tf.function
    def doubled(x):
        traced.append(1)
        return x * 2.0

    def call():
        start.wait(10)
        results.append(float(doubled(tf.constant(3.0))))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (traced, results) == ([1], [6.0] * 4)


def test_a_large_argument_of_compiled_code_moves_once_to_where_that_takes_it(
    set_settings: Callable[..., None],
) -> None:
    set_settings(jit="always")
    added = tf.function(lambda x, y: 2.0 * x + y)
    held = [tf.fill([1 << 20], float(i)) for i in range(4)]
    views = [np.asarray(x) for x in held]
    added(held[0], held[1])  # compiles it
    for x, y in itertools.pairwise(held):
        expected = 2.0 * np.asarray(x) + np.asarray(y)
        np.testing.assert_array_equal(added(x, y), expected)
    places = [np.asarray(x).ctypes.data for x in held]
    assert not any(place % 64 for place in places)
    added(held[0], held[1])
    assert [np.asarray(x).ctypes.data for x in held] == places
    assert [view[-1] for view in views] == [0, 1, 2, 3]  # who looked at the old place still may


def test_a_tensor_of_a_large_array_does_not_see_it_change() -> None:
    array = np.arange(1 << 20, dtype=np.float32).reshape(1 << 10, -1).T
    tensor = tf.constant(array)
    expected = array.copy()
    array += 1.0
    np.testing.assert_array_equal(tensor, expected)
