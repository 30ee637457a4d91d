"""Functions in graphs: called, branched to, looped over, differentiated, on any task."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from programs.registry import Cluster, program


@program(["tensorflow"])
def functions_run_where_they_are_placed(tf: Any, at: Cluster) -> Any:
    tensorflow = importlib.import_module("tensorflow")

    @tensorflow.function
    def scaled(x: Any, by: Any) -> Any:
        return tf.nn.relu(x * by) + 1

    @tensorflow.function
    def collatz(n: Any) -> Any:
        steps = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    x = tf.placeholder(tf.float32, [2])
    with tf.device("/job:ps"):
        y = scaled(x, 3.0)
        count = collatz(tf.constant(27))
    with tf.device("/job:worker/task:1"):
        z = scaled(y, -1.0)
    (gradient,) = tf.gradients(y, [x])
    with at.session() as session:
        return session.run([y, z, count, gradient], {x: [1.0, -2.0]})


@program(["tensorflow"])
def a_function_changes_a_variable(tf: Any, at: Cluster) -> Any:
    tensorflow = importlib.import_module("tensorflow")

    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=1.0, use_resource=True)

        @tensorflow.function
        def grow(by: Any) -> Any:
            v.assign_add(by)
            return v * 10

        grown = grow(2.0)
    with at.session() as session:
        session.run(v.initializer)
        return [session.run(grown), session.run(grown), session.run(v)]


@program(["tensorflow"])
def a_defun_is_called(tf: Any, at: Cluster) -> Any:
    @_defun()(tf.float32, tf.float32)
    def weigh(x: Any, y: Any) -> Any:
        return x * y + 1, x - y

    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:ps"):
        a, b = weigh(x, 3.0)
    with at.session() as session:
        return session.run([a, b], {x: 5.0})


@program()
def a_custom_gradient(tf: Any, at: Cluster) -> Any:
    @tf.custom_gradient
    def strange(x: Any) -> Any:
        return x * x, lambda dy: dy * np.float32(100)

    x = tf.placeholder(tf.float32, [])
    (gradient,) = tf.gradients(strange(x), [x])
    with at.session() as session:
        return session.run(gradient, {x: 5.0})


def _defun() -> Any:
    """Return the decorator that makes functions of a graph, as old programs do."""
    return importlib.import_module("tensorflow.python.framework.function").Defun


def _functional() -> Any:
    return importlib.import_module("tensorflow.python.ops.functional_ops")


@program(["tensorflow"])
def the_gradient_of_a_defun_is_symbolic(tf: Any, at: Cluster) -> Any:
    """TensorFlow's client leaves the gradient of such a function to the server."""

    @_defun()(tf.float32, tf.float32)
    def weigh(x: Any, y: Any) -> Any:
        return tf.nn.softmax(tf.matmul(x, y)), tf.reduce_sum(tf.tanh(x) * 2)

    x = tf.placeholder(tf.float32, [2, 3])
    with tf.device("/job:ps"):
        y = tf.constant(np.arange(6, dtype=np.float32).reshape(3, 2) / 7)
        a, b = weigh(x, y)
        gradients = tf.gradients(tf.reduce_sum(a[:, 0]) + b, [x, y])
    kinds = {operation.type for operation in tf.get_default_graph().get_operations()}
    with at.session() as session:
        feeds = {x: [[0.5, -1.0, 2.0], [1.0, 0.0, 0.25]]}
        return ["SymbolicGradient" in kinds, session.run([a, b, gradients], feeds)]


@program(["tensorflow"])
def a_function_is_called_where_a_tensor_says(tf: Any, at: Cluster) -> Any:
    """RemoteCall names its device when the step runs."""

    @_defun()(tf.float32)
    def twice(x: Any) -> Any:
        return x * 2

    x = tf.placeholder(tf.float32, [2])
    target = tf.placeholder(tf.string, [])
    with tf.device("/job:ps"):
        (y,) = tf.raw_ops.RemoteCall(target=target, args=[x], Tout=[tf.float32], f=twice)
    here = "/job:ps/replica:0/task:0/device:CPU:0"
    with at.session() as session:
        return session.run(y + 1, {x: [1.0, 2.0], target: here})


@program(["tensorflow"])
def functions_with_parts_elsewhere(tf: Any, at: Cluster) -> Any:
    """The nodes of a function may name the task, a device, or another task than the call."""
    tensorflow = importlib.import_module("tensorflow")
    x = tf.placeholder(tf.float32, [2])

    def build(device: str) -> Any:
        @tensorflow.function
        def spread(x: Any) -> Any:
            with tf.device(device):
                return tf.sin(x) * 2

        with tf.device("/job:worker/task:0"):
            return spread(x)

    found = []
    for device in ("/job:worker/task:0", "/device:CPU:0", "/job:ps"):
        y = build(device)
        with at.session() as session:
            found.append(at.attempt(lambda y=y, session=session: session.run(y, {x: [1, 2]})))
    return found


@program(["tensorflow"])
def functions_call_functions(tf: Any, at: Cluster) -> Any:
    tensorflow = importlib.import_module("tensorflow")

    @tensorflow.function
    def inner(x: Any, n: Any) -> Any:
        return tf.cond(n > 1, lambda: x * x, lambda: x - 1)

    @tensorflow.function
    def outer(x: Any, n: Any) -> Any:
        for i in tf.range(n):
            x = inner(x, i)
        return x, tf.gradients(x, [x])[0]

    x = tf.placeholder(tf.float32, [2])
    n = tf.placeholder(tf.int32, [])
    with tf.device("/job:ps"):
        y = outer(x, n)[0]
    (gradient,) = tf.gradients(y, [x])
    with at.session() as session:
        return [session.run([y, gradient], {x: [1.5, -0.5], n: count}) for count in (0, 3, 4)]


@program(["tensorflow"])
def branches_and_loops_by_their_ops(tf: Any, at: Cluster) -> Any:
    """If, Case, While and For, with and without state, as nodes that name their functions."""
    defun, functional = _defun(), _functional()

    @defun(tf.float32)
    def grow(x: Any) -> Any:
        return x * 3 + 1

    @defun(tf.float32)
    def shrink(x: Any) -> Any:
        return x / 2

    @defun(tf.float32)
    def is_small(x: Any) -> Any:
        return x < 100

    @defun(tf.int32, tf.float32)
    def step(i: Any, x: Any) -> Any:
        return x + tf.cast(i, tf.float32)

    x, choice = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])
    raw = tf.raw_ops
    found = []
    with tf.device("/job:ps"):
        for branch in (raw.If, raw.StatelessIf):
            found += branch(
                cond=choice > 0, input=[x], Tout=[tf.float32], then_branch=grow, else_branch=shrink
            )
        for case in (raw.Case, raw.StatelessCase):
            found += case(
                branch_index=choice, input=[x], Tout=[tf.float32], branches=[grow, shrink]
            )
    with tf.device("/job:worker/task:1"):
        for loop in (raw.While, raw.StatelessWhile):
            found += loop(input=[x], cond=is_small, body=grow)
        found += functional.For(0, 5, 2, [x], step)
    with at.session() as session:
        return [session.run(found, {x: 4.0, choice: c}) for c in (0, 1, 5, -1)]


@program(["tensorflow"])
def any_value_decides_a_branch(tf: Any, at: Cluster) -> Any:
    """If takes numbers, strings and shapes for its condition."""

    @_defun()(tf.float32)
    def grow(x: Any) -> Any:
        return x * 3

    @_defun()(tf.float32)
    def shrink(x: Any) -> Any:
        return x / 2

    found = []
    with at.session() as session:
        for value in (0, 2, 0.0, "", "no", [], [0], True):
            dtype = tf.string if isinstance(value, str) else None
            with tf.device("/job:ps"):
                condition = tf.identity(tf.constant(value, dtype))
                (y,) = tf.raw_ops.If(
                    cond=condition, input=[tf.constant(4.0)], Tout=[tf.float32],
                    then_branch=grow, else_branch=shrink,
                )  # fmt: skip
            found.append(session.run(y))
    return found


@program(["tensorflow"])
def a_function_fails_by_name(tf: Any, at: Cluster) -> Any:
    tensorflow = importlib.import_module("tensorflow")

    @tensorflow.function
    def checked(x: Any) -> Any:
        return tf.check_numerics(x, "bad", name="inside")

    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:ps"):
        y = checked(x)
    with at.session() as session:
        return [at.attempt(lambda: session.run(y, {x: np.inf}))["error"], session.run(y, {x: 2.0})]


@program(["tensorflow"])
def functions_keep_apart_what_they_change(tf: Any, at: Cluster) -> Any:
    """Reads and writes inside a function keep their order; queues and tables may be in it."""
    tensorflow = importlib.import_module("tensorflow")

    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=[1.0, 2.0], use_resource=True)
        queue = tf.FIFOQueue(9, [tf.float32], shapes=[[2]], shared_name=f"{at.name}/queue")

        @tensorflow.function
        def turn(x: Any) -> Any:
            before = v.read_value()
            v.assign(before * x)
            queue.enqueue(v.read_value())
            v.scatter_add(tensorflow.IndexedSlices(tf.constant([10.0]), tf.constant([1])))
            return before, v.read_value(), queue.size()

        turned = turn(2.0)
    with at.session() as session:
        session.run(v.initializer)
        return [session.run(turned), session.run(turned), session.run(queue.dequeue_many(2))]


@program(["tensorflow"])
def a_defun_brings_its_gradient(tf: Any, at: Cluster) -> Any:
    """What is named as the gradient of a function stands before what would be worked out."""

    @_defun()(tf.float32, tf.float32)
    def strange(x: Any, dy: Any) -> Any:
        return x * 100 * dy

    @_defun()(tf.float32, grad_func=strange)
    def square(x: Any) -> Any:
        return x * x

    x = tf.placeholder(tf.float32, [2])
    with tf.device("/job:ps"):
        y = square(x)
        (gradient,) = tf.gradients(y, [x])
    with at.session() as session:
        return session.run([y, gradient], {x: [3.0, -1.0]})
