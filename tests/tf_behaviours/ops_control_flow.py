"""Loops and branches of the TF2 shape, and gradients of graphs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from shown_values import value
from tf_behaviours.registry import behaviour, error

loops = functools.partial(behaviour, "python/kernel_tests/control_flow/while_v2_test.py")
branches = functools.partial(behaviour, "python/kernel_tests/control_flow/cond_v2_test.py")
gradients = functools.partial(behaviour, "python/ops/gradients_test.py")


def _derivatives(tf: Any, f: Any, x: Any, times: int = 2) -> Any:
    """Return f(x) and its derivatives, from a function around."""

    @tf.function
    def run(x: Any) -> Any:
        def derivative(x: Any, n: int) -> Any:
            if n == 0:
                return f(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = derivative(x, n - 1)
            return tape.gradient(y, x)

        return [derivative(x, n) for n in range(times + 1)]

    return value(run(tf.constant(x)))


@loops("A loop's derivatives of first and second order are those of its unrolled form.")
def derivatives_of_loops(tf: Any) -> Any:
    def power(x: Any) -> Any:
        return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, x])[1]

    def doubled(x: Any) -> Any:
        return tf.while_loop(lambda a: a < 50.0, lambda a: [a * a], [x])[0]

    return [_derivatives(tf, power, 2.0), _derivatives(tf, doubled, 3.0)]


@loops("Nested loops and branches in loops are differentiated.")
def nested_loops(tf: Any) -> Any:
    def nested(x: Any) -> Any:
        def outer(i: Any, a: Any) -> Any:
            b = tf.while_loop(lambda j, b: j < 2, lambda j, b: (j + 1, b * x), [0, a])[1]
            return i + 1, tf.cond(b > 20.0, lambda: b + x, lambda: b * 2.0)

        return tf.while_loop(lambda i, a: i < 2, outer, [0, x])[1]

    return _derivatives(tf, nested, 1.5, 1)


@loops("A loop without variables of its own shape keeps structures; a list of one stays a list.")
def structures_of_loops(tf: Any) -> Any:
    def run(f: Any) -> Any:
        return value(tf.function(f)())

    return [
        run(lambda: tf.while_loop(lambda i: i < 3, lambda i: [i + 1], [0])),
        run(lambda: tf.while_loop(lambda i: i < 3, lambda i: i + 1, (0,))),
        run(
            lambda: tf.while_loop(
                lambda i, d: i < 3, lambda i, d: (i + 1, {"a": d["a"] * 2}), (0, {"a": 1.5})
            )
        ),
        run(lambda: tf.while_loop(lambda i: False, lambda i: [i + 1], [7])),
    ]


@loops("A loop ends at its maximum of iterations.")
def maximum_iterations(tf: Any) -> Any:
    def run(most: Any) -> Any:
        f = tf.function(
            lambda: tf.while_loop(lambda i: i < 9, lambda i: [i + 1], [0], maximum_iterations=most)
        )
        return value(f())

    def power(x: Any) -> Any:
        return tf.while_loop(lambda a: True, lambda a: [a * x], [x], maximum_iterations=2)[0]

    return [run(4), run(20), run(0), run(tf.constant(3)), _derivatives(tf, power, 2.0, 1)]


@loops("A shape that changes needs an invariant that allows it.")
def shape_invariants(tf: Any) -> Any:
    def grown(**given: Any) -> Any:
        def run() -> Any:
            return tf.while_loop(
                lambda i, a: i < 3,
                lambda i, a: (i + 1, tf.concat([a, a], 0)),
                [0, tf.ones([1, 2])],
                **given,
            )[1]

        return value(tf.function(run)())

    free = [tf.TensorShape([]), tf.TensorShape([None, 2])]
    return [
        error(lambda: grown()),
        grown(shape_invariants=free),
        error(lambda: grown(shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 3])])),
        error(lambda: grown(shape_invariants=[tf.TensorShape([])])),
    ]


@loops("A condition must give one bool, and a body what it was given.")
def refused_loops(tf: Any) -> Any:
    def run(cond: Any, body: Any) -> Any:
        return value(tf.function(lambda: tf.while_loop(cond, body, [tf.constant(0)]))())

    return [
        error(lambda: run(lambda i: i, lambda i: [i + 1])),
        error(lambda: run(lambda i: tf.stack([i < 1, i < 2]), lambda i: [i + 1])),
        error(lambda: run(lambda i: i < 2, lambda i: [i + 1, i])),
        error(lambda: run(lambda i: i < 2, lambda i: [tf.cast(i, tf.float32)])),
        error(lambda: run(3, lambda i: i)),
    ]


@loops("Loops capture tensors and variables, assign in order, and fill TensorArrays.")
def state_in_loops(tf: Any) -> Any:
    v = tf.Variable(1.0)

    @tf.function
    def run(x: Any) -> Any:
        array = tf.TensorArray(tf.float32, 0, dynamic_size=True)

        def body(i: Any, array: Any) -> Any:
            v.assign_add(x)
            return i + 1, array.write(i, v * x)

        _, array = tf.while_loop(lambda i, a: i < 3, body, [0, array])
        return array.stack(), v.read_value()

    return [value(run(tf.constant(2.0))), value(v)]


@loops("Gradients go through TensorArrays and variables that a loop reads.")
def gradients_of_arrays(tf: Any) -> Any:
    v = tf.Variable(3.0)

    @tf.function
    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            array = tf.TensorArray(tf.float32, 3).unstack(x)
            total = tf.while_loop(
                lambda i, t: i < 3, lambda i, t: (i + 1, t + array.read(i) * v), [0, 0.0]
            )[1]
        return tape.gradient(total, [x, v])

    return value(run(tf.constant([1.0, 2.0, 3.0])))


@loops("map_fn, scan and foldl are differentiated.")
def gradients_of_maps(tf: Any) -> Any:
    def with_tape(f: Any) -> Any:
        x = tf.constant([1.0, 2.0, 3.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return value([y, tape.gradient(y, x)])

    forms = [
        lambda x: tf.map_fn(lambda e: e * e, x),
        lambda x: tf.scan(lambda a, e: a * e, x),
        lambda x: tf.foldl(lambda a, e: a + e * e, x, 0.0),
        lambda x: tf.foldr(lambda a, e: a * e, x),
        lambda x: tf.vectorized_map(lambda e: e**3, x),
    ]
    return [with_tape(f) for f in forms] + [with_tape(tf.function(f)) for f in forms[:3]]


@loops("A parallel loop and one that swaps memory give the same.")
def options_of_loops(tf: Any) -> Any:
    f = tf.function(
        lambda: tf.while_loop(
            lambda i: i < 5,
            lambda i: [i * 2],
            [1],
            parallel_iterations=1,
            swap_memory=True,
            name="w",
        )
    )
    return value(f())


@branches("A branch's derivatives are those of the branch that ran, to second order.")
def derivatives_of_branches(tf: Any) -> Any:
    def chosen(x: Any) -> Any:
        return tf.cond(x > 2.0, lambda: x**3, lambda: tf.sin(x) * x)

    def nested(x: Any) -> Any:
        return tf.cond(x > 0.0, lambda: tf.cond(x > 2.0, lambda: x * x, lambda: x), lambda: -x)

    return [_derivatives(tf, f, x) for f in (chosen, nested) for x in (1.0, 3.0)]


@branches("Branches must give alike structures and types; None is what a branch of effects gives.")
def results_of_branches(tf: Any) -> Any:
    def run(one: Any, two: Any) -> Any:
        return value(tf.function(lambda p: tf.cond(p, one, two))(tf.constant(True)))

    t = tf.constant
    return [
        run(lambda: {"a": [1, 2.0]}, lambda: {"a": [3, 4.0]}),
        run(lambda: None, lambda: None),
        error(lambda: run(lambda: 1, lambda: 2.0)),
        error(lambda: run(lambda: (1, 2), lambda: 1)),
        error(lambda: run(lambda: [1], lambda: (1,))),
        error(lambda: run(lambda: None, lambda: 1)),
        run(lambda: t([1]), lambda: t([1, 2])),
        run(lambda: (), lambda: ()),
        error(lambda: run(1, lambda: 1)),
        error(lambda: run(lambda: {"a": 1}, lambda: {"b": 1})),
    ]


@branches("The branch that is not taken has no effects.")
def effects_of_branches(tf: Any) -> Any:
    v = tf.Variable(0)

    @tf.function
    def run(p: Any) -> Any:
        tf.cond(p, lambda: v.assign_add(1), lambda: v.assign_add(10))
        return tf.switch_case(
            tf.cast(p, tf.int32), [lambda: v.assign_add(100), lambda: v.assign_sub(5)]
        )

    return [value(run(tf.constant(True))), value(run(tf.constant(False))), value(v)]


@branches("An index out of the branches takes the last; a default is taken where there is one.")
def cases(tf: Any) -> Any:
    def run(i: Any, **given: Any) -> Any:
        forms = [lambda: 10, lambda: 20]
        return value(tf.function(lambda i: tf.switch_case(i, forms, **given))(tf.constant(i)))

    return [
        run(0),
        run(1),
        run(5),
        run(-1),
        run(7, default=lambda: 30),
        error(lambda: tf.switch_case(tf.constant(0), [])),
        error(lambda: tf.switch_case(tf.constant(0.0), [lambda: 1])),
        value(tf.switch_case(tf.constant(1), {1: lambda: 1, 0: lambda: 3})),
        error(lambda: tf.switch_case(tf.constant(1), [(0, lambda: 1), (2, lambda: 3)])),
        value(tf.case([(tf.constant(False), lambda: 1), (tf.constant(True), lambda: 2)])),
        error(
            lambda: tf.case(
                [(tf.constant(True), lambda: 1), (tf.constant(True), lambda: 2)], exclusive=True
            )
        ),
        error(lambda: tf.case([(tf.constant(False), lambda: 1)])),
    ]


@branches("A branch differentiates variables, gathered rows and TensorArrays.")
def gradients_of_branches(tf: Any) -> Any:
    v = tf.Variable([[1.0], [2.0]])

    @tf.function
    def run(p: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.cond(
                p, lambda: tf.reduce_sum(tf.gather(v, [1, 1])), lambda: tf.reduce_sum(v * v)
            )
        return tf.convert_to_tensor(tape.gradient(y, v))

    return [value(run(tf.constant(p))) for p in (True, False)]


@branches("A predicate may be a Python value, and must be one bool where it is a tensor.")
def predicates(tf: Any) -> Any:
    f = tf.function(lambda p: tf.cond(p, lambda: 1, lambda: 2))
    return [
        error(lambda: f(True)),
        value(f(tf.constant(False))),
        error(lambda: f(tf.constant([True, False]))),
        error(lambda: tf.cond(None, lambda: 1, lambda: 2)),
        value(tf.cond(tf.constant(2) > 1, lambda: 1, lambda: 2)),
        error(lambda: f(tf.constant([True]))),
        error(lambda: value(f(tf.constant(3)))),
        error(lambda: value(f(tf.constant("a")))),
    ]


@gradients("Gradients of sums of targets, of weighted ones and of unconnected sources.")
def gradients_of_graphs(tf: Any) -> Any:
    @tf.function
    def run(x: Any, y: Any) -> Any:
        a, b = x * y, x + y
        return [
            *tf.gradients([a, b], [x, y]),
            *tf.gradients(a, [x], grad_ys=[tf.constant(10.0)]),
            *tf.gradients(a, [y], stop_gradients=[x]),
            tf.gradients(x, y)[0],
            *tf.gradients(x, [y], unconnected_gradients="zero"),
            *tf.gradients(a, a),
        ]

    return [
        value(run(tf.constant(2.0), tf.constant(3.0))),
        error(lambda: tf.gradients(tf.constant(1.0), tf.constant(1.0))),
    ]


@gradients("Stopped gradients cut the way through what is named.")
def stopped_gradients(tf: Any) -> Any:
    @tf.function
    def run(x: Any) -> Any:
        a = x * x
        b = a * x
        return [tf.gradients(b, x), tf.gradients(b, x, stop_gradients=[a]), tf.gradients(b, [a, x])]

    return value(run(tf.constant(3.0)))


@gradients("Hessians are square in the source's axes.")
def hessians(tf: Any) -> Any:
    @tf.function
    def run(x: Any) -> Any:
        return tf.hessians(tf.reduce_prod(x) + tf.reduce_sum(x**3), x)

    @tf.function
    def of_matrix(m: Any) -> Any:
        return tf.hessians(tf.reduce_sum(m[0] * m[1] ** 2), m)

    return [
        error(lambda: value(run(tf.constant([1.0, 2.0])))),
        error(lambda: value(of_matrix(tf.constant([[1.0, 2.0], [3.0, 4.0]])))),
    ]


@gradients("Gradients are gathered in the order and way that is asked for.")
def aggregation_methods(tf: Any) -> Any:
    @tf.function
    def run(x: Any) -> Any:
        y = x * 2 + x * 3 + x * x
        return [
            tf.gradients(y, x, aggregation_method=m)[0]
            for m in (tf.AggregationMethod.ADD_N, tf.AggregationMethod.EXPERIMENTAL_TREE)
        ]

    return [
        value(run(tf.constant(3.0))),
        error(lambda: tf.function(lambda x: tf.gradients(x * x, x, aggregation_method=9))(1.0)),
    ]


@gradients("Norms of gradients are clipped together; None stays None.")
def clipping(tf: Any) -> Any:
    slices = tf.IndexedSlices(tf.constant([[3.0]]), tf.constant([1]), tf.constant([2, 1]))
    found, norm = tf.clip_by_global_norm([tf.constant([3.0, 4.0]), None, tf.constant([0.0])], 2.5)
    sliced, _ = tf.clip_by_global_norm([slices], 1.0)
    return [
        value(found),
        value(norm),
        value(tf.linalg.global_norm([slices, None])),
        value(sliced[0].values),
        value(tf.clip_by_norm(tf.constant([3.0, 4.0]), 1.0)),
        value(tf.clip_by_value(slices, 0.0, 1.0).values),
        error(lambda: tf.clip_by_global_norm(3.0, 1.0)),
        [
            np.isnan(x).tolist()
            for x in value(tf.clip_by_global_norm([tf.constant([np.inf])], 1.0)[0])
        ],
    ]


@gradients("Custom gradients of functions with keyword arguments and nests of results.")
def custom_gradients_in_graphs(tf: Any) -> Any:
    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        return {"a": x * 2, "b": (x * 3,)}, lambda a, b: 100 * a + 1000 * b

    @tf.function
    def run(x: Any) -> Any:
        y = scaled(x)
        return tf.gradients(y["a"] + 2 * y["b"][0], x)

    return error(lambda: value(run(tf.constant(1.0))))
