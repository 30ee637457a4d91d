"""What goes wrong on a worker, and that the next operations do not mind."""

from __future__ import annotations

from typing import Any

from eager_programs.registry import W0, W1, Cluster, program


@program()
def an_operation_fails_on_a_worker(tf: Any, at: Cluster) -> Any:
    def fail() -> Any:
        with tf.device(W0):
            return tf.gather(tf.constant([1.0, 2.0]), tf.constant(5)).numpy()

    def work() -> Any:
        with tf.device(W0):
            return (tf.constant(1.0) + 1.0).numpy()

    return [at.attempt(fail, "5 is not in [0, 2)"), work(), at.attempt(fail), work()]


@program()
def classes_of_errors(tf: Any, at: Cluster) -> Any:
    def at_w0(call: Any, *words: str) -> Any:
        with tf.device(W0):
            return at.attempt(lambda: call().numpy(), *words)

    return [
        at_w0(lambda: tf.linalg.inv(tf.ones([2, 3]))),
        at_w0(lambda: tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))),
        at_w0(lambda: tf.constant(1) // tf.constant(0)),
        at_w0(lambda: tf.reshape(tf.ones([4]), [3])),
        at_w0(lambda: tf.debugging.check_numerics(tf.constant([1.0]) / 0.0, "so it is"), "so it"),
        at_w0(lambda: tf.strings.to_number(tf.constant("x")), "x"),
        at_w0(lambda: tf.concat([tf.ones([2, 2]), tf.ones([3, 3])], 0)),
    ]


@program()
def what_depends_on_a_failed_operation_fails(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        good = tf.constant([1.0]) + 1.0
    good.numpy()

    def fail() -> Any:
        with tf.device(W0):
            bad = tf.gather(tf.constant([1.0]), tf.constant(9))
            after = bad + 1.0
        with tf.device(W1):
            return (after * 2.0).numpy()

    return [at.attempt(fail)["error"] != "", good.numpy()]


@program()
def a_function_fails_on_a_worker(tf: Any, at: Cluster) -> Any:
    @tf.function
    def f(x: Any, i: Any) -> Any:
        with tf.device(W0):
            y = x * 2.0
        with tf.device(W1):
            return tf.gather(y, i)

    x = tf.constant([1.0, 2.0])
    return [
        f(x, tf.constant(1)).numpy(),
        at.attempt(lambda: f(x, tf.constant(7)), "is not in [0, 2)"),
        f(x, tf.constant(0)).numpy(),
    ]


@program()
def an_assertion_fails_in_a_function(tf: Any, at: Cluster) -> Any:
    @tf.function
    def f(x: Any) -> Any:
        tf.debugging.Assert(x > 0, ["x must be positive:", x])
        return x * 2

    with tf.device(W0):
        return [
            at.attempt(lambda: f(tf.constant(3))),
            at.attempt(lambda: f(tf.constant(-3)), "x must be positive:", "-3"),
            at.attempt(lambda: f(tf.constant(4))),
        ]


@program(["tensorflow"])
def a_variable_refuses_other_shapes(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        v = tf.Variable([1.0, 2.0])

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def grow(x: Any) -> Any:
        tf.raw_ops.AssignAddVariableOp(resource=v.handle, value=x)
        return v.read_value()

    return [at.attempt(lambda: grow(tf.ones([3]))), grow(tf.ones([2])).numpy()]


@program()
def nothing_is_lost_in_asynchronous_execution(tf: Any, at: Cluster) -> Any:
    tf.config.experimental.set_synchronous_execution(False)
    try:
        with tf.device(W0):
            x = tf.constant(1.0) + 1.0
            for _ in range(20):
                x = x + 1.0
            v = tf.Variable(5.0)
            v.assign_add(x)
        return [x.numpy(), v.numpy(), tf.config.experimental.get_synchronous_execution()]
    finally:
        tf.config.experimental.set_synchronous_execution(True)


@program()
def an_error_comes_out_of_an_asynchronous_scope(tf: Any, at: Cluster) -> Any:
    found = []
    try:
        with tf.experimental.async_scope(), tf.device(W0):
            tf.gather(tf.constant([1.0]), tf.constant(9))
    except tf.errors.OpError as error:
        found.append(type(error).__name__)
    tf.experimental.async_clear_error()
    with tf.device(W0):
        return [*found, (tf.constant(2.0) * 3.0).numpy()]
