"""Gradient tapes: what they record, and what they give."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from shown_values import value
from tf_behaviours.registry import behaviour, error

tapes = functools.partial(behaviour, "python/eager/backprop_test.py")


@tapes("A tape gives gradients once; a persistent one as often as wanted.")
def once_or_often(tf: Any) -> Any:
    x = tf.constant(3.0)
    with tf.GradientTape() as once:
        once.watch(x)
        y = x * x
    with tf.GradientTape(persistent=True) as often:
        often.watch(x)
        y2 = x * x
        z = y2 * y2
    return [
        value(once.gradient(y, x)),
        error(lambda: once.gradient(y, x), "only be called once"),
        [value(often.gradient(z, x)), value(often.gradient(y2, x)), value(often.gradient(z, y2))],
    ]


@tapes("Gradients of a persistent tape are differentiated where they were computed in it.")
def higher_orders(tf: Any) -> Any:
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**4
        first = tape.gradient(y, x)
        second = tape.gradient(first, x)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            s = tf.sin(x)
        c = inner.gradient(s, x)
    return value([first, second, tape.gradient(second, x), outer.gradient(c, x)])


@tapes("Sources that nothing leads to give None, or zeros where zeros are asked for.")
def unconnected_sources(tf: Any) -> Any:
    x, v = tf.ones([2, 2]), tf.Variable(tf.ones([3]))
    y = tf.constant(3.0)

    def given(source: Any, unconnected: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = y * 2
        return value(tape.gradient(z, source, unconnected_gradients=unconnected))

    zero, none = tf.UnconnectedGradients.ZERO, tf.UnconnectedGradients.NONE
    return [
        given(x, none),
        given(x, zero),
        given([x, y, v], "zero"),
        given(v, "none"),
        error(lambda: given(x, "nonsense"), "Unknown value"),
    ]


@tapes("Variables are watched as they are read, in the order of reading, unless told otherwise.")
def watched_variables(tf: Any) -> Any:
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")
    c = tf.Variable(3.0, trainable=False, name="c")
    with tf.GradientTape() as tape:
        y = b * a * c
    with tf.GradientTape(watch_accessed_variables=False) as chosen:
        chosen.watch(b)
        z = a * b
    return [
        [v.name for v in tape.watched_variables()],
        value(tape.gradient(y, [a, b, c])),
        [v.name for v in chosen.watched_variables()],
        value(chosen.gradient(z, [a, b])),
    ]


@tapes("A tape records nothing while it is stopped, and forgets where it is reset.")
def stopped_and_reset(tf: Any) -> Any:
    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            z = y * y
            inside = value(tape.gradient(y, x))
        w = y * x
    with tf.GradientTape() as fresh:
        fresh.watch(x)
        gone = x * x
        fresh.reset()
        fresh.watch(x)
        kept = 3.0 * x
    return [
        inside,
        value(tape.gradient(z, x)),
        value(tape.gradient(w, x)),
        value(fresh.gradient([gone, kept], x)),
        error(lambda: tf.GradientTape().stop_recording().__enter__()),
        error(lambda: tf.GradientTape().reset()),
    ]


@tapes("Integers are watched without effect, and have no gradient.")
def integers(tf: Any) -> Any:
    n, x = tf.constant(3), tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([n, x])
        y = tf.cast(n, tf.float32) * x
        m = n * n
    return [
        value(tape.gradient(y, [n, x])),
        error(lambda: tape.gradient(m, n)),
        error(lambda: tape.watch("a")),
    ]


@tapes("Sources and targets may be structures; output gradients weigh the targets.")
def structures(tf: Any) -> Any:
    x, y = tf.constant([1.0, 2.0]), tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch({"x": x, "y": [y]})
        a, b = x * y, y * y
    return [
        value(tape.gradient({"a": a, "b": b}, {"x": x, "y": (y,)})),
        value(
            tape.gradient([a, b], y, output_gradients=[tf.constant([1.0, 10.0]), tf.constant(2.0)])
        ),
        value(tape.gradient(a, [x, x])),
        value(tape.gradient([a, a], x)),
        error(lambda: tape.gradient(a, x, output_gradients=[tf.ones([3])])),
        value(tape.gradient(y, y)),
        value(tape.gradient(x, y)),
    ]


@tapes("Gathered rows give IndexedSlices, which add up with others and with dense gradients.")
def indexed_slices(tf: Any) -> Any:
    v = tf.Variable([[1.0], [2.0], [3.0]])
    with tf.GradientTape(persistent=True) as tape:
        y = tf.gather(v, [0, 2, 0])
        z = y * y
        both = tf.reduce_sum(tf.gather(v, 1)) + tf.reduce_sum(tf.gather(v, 2))
        mixed = tf.reduce_sum(z) + tf.reduce_sum(v)
    found = [tape.gradient(t, v) for t in (z, both, mixed)]
    return [
        [type(g).__name__ for g in found],
        [value(tf.convert_to_tensor(g)) for g in found],
        value(found[0].indices),
        value(found[0].values),
    ]


@tapes("A jacobian has the axes of the target, then those of the source.")
def jacobians(tf: Any) -> Any:
    x, w = tf.constant([1.0, 2.0]), tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, w])
        y = tf.stack([x[0] * x[1], x[0], x[1] ** 2])
        z = tf.linalg.matvec(w, x)
    found = [
        tape.jacobian(y, x),
        tape.jacobian(y, x, experimental_use_pfor=False),
        tape.jacobian(z, [x, w]),
        tape.jacobian(z, tf.constant(1.0)),
    ]
    return value(found)


@tapes("A batch jacobian keeps the batch's axis once, and needs the same batch.")
def batch_jacobians(tf: Any) -> Any:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.concat([x**2, x[:, :1] * x[:, 1:]], 1)
        flat = tf.reshape(x * x, [4])
    return [
        value(tape.batch_jacobian(y, x)),
        value(tape.batch_jacobian(y, x, experimental_use_pfor=False)),
        error(lambda: tape.batch_jacobian(flat, x)),
        error(lambda: tape.batch_jacobian(tf.constant([[1.0]]), x)),
        error(lambda: tape.batch_jacobian(y, tf.constant(1.0))),
    ]


@tapes("A custom gradient stands for that of the function, in functions and loops too.")
def custom_gradients(tf: Any) -> Any:
    @tf.custom_gradient
    def doubled(x: Any) -> Any:
        return tf.identity(x), lambda dy: 2 * dy

    @tf.custom_gradient
    def product(x: Any, y: Any) -> Any:
        return [x * y, x + y], lambda d1, d2: (d1 * y + d2, 7 * d1 * x)

    x, y = tf.constant(3.0), tf.constant(5.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        one = doubled(x * x)
        two = product(x, y)
        three = tf.function(lambda a: doubled(doubled(a)))(x)
    return [
        value(tape.gradient(one, x)),
        value(tape.gradient(two, [x, y])),
        value(tape.gradient(three, x)),
        type(two).__name__,
    ]


@tapes("A custom gradient is given the variables that its function reads.")
def custom_gradients_with_variables(tf: Any) -> Any:
    v = tf.Variable(4.0)

    @tf.custom_gradient
    def times(x: Any) -> Any:
        def grad(dy: Any, variables: Any = None) -> Any:
            return dy * 10, [dy * 100 * len(variables)]

        return x * v, grad

    @tf.custom_gradient
    def without(x: Any) -> Any:
        return x * v, lambda dy: dy

    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = times(x)
    return [value(tape.gradient(y, [x, v])), error(lambda: without(x))]


@tapes("stop_gradient cuts the way back, and a gradient through if and while follows the run.")
def ways_back(tf: Any) -> Any:
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        cut = tf.stop_gradient(x) * x
        chosen = tf.cond(x > 2.0, lambda: x * x, lambda: x)
        looped = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, x])[1]
        cased = tf.switch_case(tf.constant(1), [lambda: x, lambda: x**3])
    return value([tape.gradient(t, x) for t in (cut, chosen, looped, cased)])


@tapes("Operators without a gradient raise LookupError where they are differentiated.")
def operators_without_a_gradient(tf: Any) -> Any:
    x = tf.constant([3.0, 1.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        floored, signs = tf.floor(x), tf.sign(x)
        best = tf.argmax(x)
        nearest = tf.raw_ops.NextAfter(x1=tf.cast(x, tf.float64), x2=tf.cast(x, tf.float64))
    return [
        value(tape.gradient(floored, x)),
        value(tape.gradient(signs, x)),
        error(lambda: tape.gradient(best, x)),
        error(lambda: value(tape.gradient(nearest, x))),
    ]


@tapes("Complex numbers have gradients, conjugated as the convention is.")
def complex_numbers(tf: Any) -> Any:
    z = tf.constant(1 + 2j, tf.complex64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(z)
        square = z * z
        size = tf.abs(z)
        conj = tf.math.conj(z) * z
    return [[g.real, g.imag] for g in (tape.gradient(t, z).numpy() for t in (square, size, conj))]


@tapes("Assignments are no steps back: the value that was read counts.")
def assignments(tf: Any) -> Any:
    v = tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        y = v * v
        v.assign(10.0)
        z = v * v
        added = v.assign_add(1.0) * 3.0
    return [value(tape.gradient(t, v)) for t in (y, z, added)]


@tapes("An exception in the tape's block leaves no tape behind.")
def exceptions_in_the_block(tf: Any) -> Any:
    x = tf.constant(2.0)
    try:
        with tf.GradientTape() as tape:
            tape.watch(x)
            raise ValueError
    except ValueError:
        pass
    with tf.GradientTape() as other:
        other.watch(x)
        y = x * x
    return value(other.gradient(y, x))


@tapes("A tape is entered again, and not twice at once.")
def tapes_entered_again(tf: Any) -> Any:
    x = tf.constant(2.0)
    tape = tf.GradientTape(persistent=True)
    with tape:
        tape.watch(x)
        y = x * x
    with tape:
        z = y * 3.0

        def enter() -> Any:
            with tape:
                pass

        twice = error(enter, "already")
    return [twice, value(tape.gradient(z, x)), value(tape.gradient(y, x))]


@tapes("A tape is used after its block of a function, and within it.")
def tapes_in_functions(tf: Any) -> Any:
    v = tf.Variable(3.0)

    @tf.function
    def inside(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x * v
        return tape.gradient(y, [x, v])

    @tf.function
    def body(x: Any) -> Any:
        return x * v, x + v

    with tf.GradientTape(persistent=True) as tape:
        a, b = body(tf.constant(2.0))
    return [
        value(inside(tf.constant(2.0))),
        value(tape.gradient(a, v)),
        value(tape.gradient([a, b], v)),
    ]


@tapes("Forward accumulators give products of the jacobian with a tangent.")
def forward_accumulators(tf: Any) -> Any:
    x = tf.constant([2.0, 3.0])
    with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 0.0])) as forward:
        y = tf.reduce_prod(x) * x
    with tf.autodiff.ForwardAccumulator(x, tf.ones([2])) as outer:
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = tf.reduce_sum(x**3)
        g = tape.gradient(z, x)
    return [value(forward.jvp(y)), value(outer.jvp(g)), value(forward.jvp(tf.constant(1.0)))]


@tapes("recompute_grad and grad_pass_through change how, or what, gradients are.")
def recomputed_and_passed_through(tf: Any) -> Any:
    v = tf.Variable(2.0)
    calls = []

    @tf.recompute_grad
    def again(x: Any) -> Any:
        calls.append(1)
        return x * v * v

    passed = tf.grad_pass_through(lambda x: tf.round(x) * 5.0)
    x = tf.constant(1.4)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = again(x), passed(x)
    return [value(tape.gradient(y, [x, v])), len(calls), value(z), value(tape.gradient(z, x))]


@tapes("Types of half precision keep their type in gradients; casts give back the source's.")
def types_of_gradients(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0], tf.float16)
    d = tf.constant(3.0, tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, d])
        y = tf.cast(x, tf.float64) * d
        z = x * x
    return value([tape.gradient(y, [x, d]), tape.gradient(z, x)])


@tapes("A loss that is no tensor, and a source that is a Python number, are refused.")
def refused_sources(tf: Any) -> Any:
    x = tf.constant(1.0)

    def with_tape(target: Any, source: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * 2
        return value(
            tape.gradient(y if target is None else target, x if source is None else source)
        )

    return [
        error(lambda: with_tape(None, 1.0)),
        error(lambda: with_tape(2.0, None)),
        error(lambda: with_tape("a", None)),
        error(lambda: with_tape(None, np.float32(1))),
        error(lambda: with_tape(None, [])),
        error(lambda: with_tape([], None)),
    ]


@tapes("A gradient of a batch norm in a tape, of a convolution and of a pool is as the op's.")
def gradients_of_layers(tf: Any) -> Any:
    x = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
    k = tf.ones([2, 2, 1, 1])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, k])
        c = tf.nn.conv2d(x, k, 1, "SAME")
        p = tf.nn.max_pool2d(x, 2, 2, "VALID")
        a = tf.nn.avg_pool2d(x, 2, 2, "VALID")
    return value([tape.gradient(c, [x, k]), tape.gradient(p, x), tape.gradient(a, x)])
