"""Gradient tapes and functions with gradients of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.behaviours.registry import error, program


@program
def a_variable_by_itself(tf: Any) -> Any:
    v = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = v.read_value()
    return [tape.gradient(v, v), tape.gradient(y, v), tape.gradient([v, y], [v])]


@program
def a_variable_never_read(tf: Any) -> Any:
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        tape.watch(v)
    return tape.gradient(v, v)


@program
def a_tensor_by_itself(tf: Any) -> Any:
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * 2.0
    return [
        tape.gradient(x, x),
        tape.gradient(y, y),
        tape.gradient([x, y], x),
        tape.gradient(y, [x, y]),
    ]


@program
def custom_gradients_with_variables(tf: Any) -> Any:
    v = tf.Variable(2.0)

    @tf.custom_gradient
    def f(x: Any) -> Any:
        def grad(dy: Any, variables: Any = None) -> Any:
            if variables is None:
                return dy * 10.0
            return dy * 10.0, [dy * 100.0 for _ in variables]

        return x * v, grad

    @tf.custom_gradient
    def g(x: Any) -> Any:
        def grad(dy: Any, variables: Any = None) -> Any:
            if variables is None:
                return dy * 7.0
            return dy, []

        return x * 3.0, grad

    @tf.custom_gradient
    def h(x: Any) -> Any:
        def grad(dy: Any) -> Any:
            return dy

        return x * v, grad

    x = tf.constant(3.0)
    found = []
    for function in (f, g, tf.function(f), tf.function(g)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        found.append(tape.gradient(y, [x, v]))

    def wrong() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = h(x)
        return tape.gradient(y, x)

    return [found, error(wrong, "variables")]


@program
def gradients_by_ints(tf: Any) -> Any:
    x = tf.constant(3)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x)


@program
def errors_of_tapes(tf: Any) -> Any:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)

    def watch_string() -> Any:
        with tf.GradientTape() as t:
            t.watch("a")

    return [
        error(lambda: tape.gradient(y, x), "non-persistent"),
        error(watch_string),
        error(lambda: tape.gradient(y, 3.0)),
    ]


@program
def unconnected(tf: Any) -> Any:
    x, z = tf.Variable([1.0, 2.0]), tf.Variable([3.0])
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
    return [
        tape.gradient(y, z),
        tape.gradient(y, z, unconnected_gradients="zero"),
        tape.gradient(y, {"x": x, "z": z}),
        tape.gradient(y, [x, z], unconnected_gradients=tf.UnconnectedGradients.ZERO),
    ]


@program
def indexed_slices(tf: Any) -> Any:
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    with tf.GradientTape() as tape:
        y = tf.gather(v, [0, 2, 0])
    g = tape.gradient(y, v)
    made = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), (3, 2))
    again = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), dense_shape=tf.constant([3, 2]))
    return [
        type(g).__name__,
        tf.convert_to_tensor(g),
        tf.convert_to_tensor(again),
        error(lambda: tf.convert_to_tensor(made)),
        error(lambda: str(made.shape)),
        str(again.shape),
        error(lambda: str(made.dense_shape)),
        tf.is_tensor(made),
    ]


@program
def gradients_through_functions(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v * x) ** 2
        return tape.gradient(loss, v), loss

    with tf.GradientTape() as outer:
        grad, loss = step(tf.constant([1.0, 3.0]))
    return [grad, loss, outer.gradient(grad, v)]


@program
def jacobians(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = x[:, None] * tf.ones([2, 2])
    return [tape.jacobian(y, x), tape.jacobian(z, x)]


@program
def stop_and_reset(tf: Any) -> Any:
    x = tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
        with tape.stop_recording():
            z = y * y
        w = tf.stop_gradient(y) * x
    return [
        tape.gradient(y, x),
        tape.gradient(z, x),
        tape.gradient(w, x),
        [v.name for v in tape.watched_variables()],
    ]


@program
def recompute_grad(tf: Any) -> Any:
    v = tf.Variable(2.0)
    f = tf.recompute_grad(lambda x: tf.sin(x) * v)
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, [x, v])


@program
def grad_pass_through_and_nones(tf: Any) -> Any:
    f = tf.grad_pass_through(tf.round)
    x = tf.Variable(1.3)
    with tf.GradientTape() as tape:
        y = f(x)
    return [y, tape.gradient(y, x), np.float32(1.0)]


@program
def jacobians_of_what_is_watched_itself(tf: Any) -> Any:
    x, v = tf.constant([[1.0], [2.0]]), tf.Variable([[3.0], [4.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        doubled = v * 2.0
    other = tf.ones([2, 3])
    return [
        tape.jacobian(v, v),
        tape.jacobian(x, [x, v]),
        tape.jacobian(doubled, {"v": v}),
        tape.jacobian(other, v),
        tape.batch_jacobian(x, x),
        tape.batch_jacobian(v, v),
        tape.batch_jacobian(other, v),
    ]


def _tangents(tf: Any, f: Any, primals: Any, tangents: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(primals, tangents) as acc:
        y = f(primals)
    return acc.jvp(y)


@program
def forward_derivatives_of_operations(tf: Any) -> Any:
    m = tf.reshape(tf.range(6.0), [2, 3]) + 1.0
    functions = (
        tf.sin,
        tf.nn.softmax,
        lambda m: tf.concat([m, m * 2.0], 0),
        lambda m: tf.matmul(m, m, transpose_a=True),
        lambda m: tf.nn.relu(m - 3.0),
        lambda m: tf.split(m, 3, 1)[1],
        lambda m: tf.reduce_max(m, 1),
        lambda m: m[:, 1:],
        lambda m: tf.math.top_k(m, 2).values,
        lambda m: tf.unstack(m),
        lambda m: tf.where(m > 3.0, m * m, m),
        lambda m: tf.gather(m, [0, 0, 1]),
        lambda m: tf.stop_gradient(m) * m,
        lambda m: tf.cast(m, tf.float64) * 2.0,
        lambda m: tf.cast(tf.cast(m, tf.int32), tf.float32),
        lambda m: tf.map_fn(lambda e: e * e, m),
        lambda m: tf.py_function(lambda v: v * v, [m], tf.float32),
    )
    return [_tangents(tf, f, m, m * 0.5) for f in functions]


@program
def forward_derivatives_of_variables_and_structures(tf: Any) -> Any:
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    a, b = tf.constant(2.0), tf.constant(3.0)
    with tf.autodiff.ForwardAccumulator({"v": v, "a": a}, {"v": tf.ones([2, 2]), "a": b}) as acc:
        v.assign_add([[a, a], [a, a]])
        y = tf.matmul(v, v) * a
        inside = acc.jvp(y)
    after = y * 2.0
    zero = tf.UnconnectedGradients.ZERO
    return [
        inside,
        acc.jvp({"y": y, "v": v, "of nothing": [b, after]}),
        acc.jvp([b, after], unconnected_gradients=zero),
    ]


@program
def forward_derivatives_of_derivatives(tf: Any) -> Any:
    x, t, one = tf.constant([1.0, 2.0, 3.0]), tf.constant([1.0, 0.0, 2.0]), tf.constant(1.0)
    forward = tf.autodiff.ForwardAccumulator

    def f(x: Any) -> Any:
        return tf.reduce_sum(x**3) * x[0]

    def over_a_tape(f: Any, x: Any, t: Any) -> Any:
        with forward(x, t) as acc:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            grad = tape.gradient(y, x)
        return grad, acc.jvp(grad)

    def under_a_tape(f: Any, x: Any, t: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            with forward(x, t) as acc:
                y = f(x)
            found = acc.jvp(y)
        return tape.gradient(found, x)

    p = tf.constant(2.0)
    with forward(p, one) as outer:
        with forward(p, one) as middle:
            with forward(p, one) as inner:
                y = p**4
            first = inner.jvp(y)
        second = middle.jvp(first)
    return [
        over_a_tape(f, x, t),
        over_a_tape(tf.function(f), x, t),
        tf.function(over_a_tape)(tf.function(f), x, t),
        under_a_tape(f, x, t),
        tf.function(under_a_tape)(f, x, t),
        [outer.jvp(one) for one in (y, first, second)],
    ]


@program
def forward_derivatives_of_control_flow(tf: Any) -> Any:
    x, t = tf.constant([1.0, 2.0, 3.0]), tf.constant([1.0, 0.0, 2.0])

    def loop(x: Any) -> Any:
        y = x
        for _ in tf.range(3):
            y = y * x
        return y

    def branch(x: Any) -> Any:
        return x * x if tf.reduce_sum(x) > 0.0 else x

    def scan(x: Any) -> Any:
        return tf.scan(lambda a, e: a * e, x)

    v = tf.Variable(3.0)
    found = []
    for f in (loop, branch, scan, lambda x: {"a": tf.exp(x) * v, "b": tf.constant(1.0)}):
        found.append(_tangents(tf, f, x, t))
        found.append(_tangents(tf, tf.function(f), x, t))
    inside = tf.function(lambda x, t: _tangents(tf, loop, x, t))
    return [*found, inside(x, t), _tangents(tf, lambda _: tf.function(loop)(x) * v, v, v * 2.0)]


@program
def forward_accumulators_that_are_used_wrongly(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    forward = tf.autodiff.ForwardAccumulator
    acc = forward(x, x)

    def enter() -> None:
        with acc:
            pass

    with acc:
        told = error(enter, "Accumulator is already recording")
    with acc:
        y = x * 2.0
    return [
        told,
        acc.jvp(y),
        error(lambda: acc.jvp(y, unconnected_gradients="some")),
        error(lambda: forward([x, x], [x, x]), "specified as a primal multiple times"),
        error(lambda: forward(x, tf.cast(x, tf.float64))),
        forward(tf.constant([1, 2]), tf.constant([1, 2])).jvp(x),
    ]


@program
def jacobians_by_a_loop(tf: Any) -> Any:
    def derive(kind: str, **options: Any) -> Any:
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        with tf.GradientTape(**options) as tape:
            tape.watch(x)
            y = x * x
        return getattr(tape, kind)(y, x, experimental_use_pfor=False)

    kinds = ("jacobian", "batch_jacobian")
    refused = [error(lambda kind=kind: derive(kind)) for kind in kinds]
    return [refused, [derive(kind, persistent=True) for kind in kinds]]


@program
def optionals(tf: Any) -> Any:
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        pair = tf.experimental.Optional.from_value((x * 3.0, x))
        y = pair.get_value()[0] * x
    return tape.gradient(y, x)
