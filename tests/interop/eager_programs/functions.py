"""Functions that run on a worker, or over several."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager_programs.registry import W0, W1, Cluster, program, values


@program()
def a_function_runs_on_a_worker(tf: Any, at: Cluster) -> Any:
    @tf.function
    def f(x: Any, y: Any) -> Any:
        return tf.reduce_sum(x * y), {"more": x - y}

    x, y = tf.constant([1.0, 2.0]), tf.constant([3.0, 5.0])
    found = []
    for device in (W0, W1):
        with tf.device(device):
            a, b = f(x, y)
            found += [a.numpy(), b["more"].numpy()]
    a, b = f(x, y)
    return [*found, a.numpy(), b["more"].numpy()]


@program()
def a_function_on_a_worker_changes_a_variable_of_the_client(tf: Any, at: Cluster) -> Any:
    v = tf.Variable(2)

    @tf.function
    def f(x: Any) -> Any:
        v.assign_add(3)
        return x + v

    with tf.device(W1):
        found = f(tf.constant([1, 2])).numpy()
    return [found, v.numpy()]


@program()
def a_function_over_two_workers(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        v = tf.Variable([1.0, 2.0])
    with tf.device(W1):
        w = tf.Variable([3.0, 4.0])

    @tf.function
    def f(x: Any) -> Any:
        with tf.device(W0):
            y = x * v
        with tf.device(W1):
            z = y + w
        w.assign_add([1.0, 1.0])
        return z, tf.reduce_sum(z)

    found = [*values(f(tf.constant([1.0, 1.0]))), w.numpy()]
    with tf.device(W0):
        found += [*values(f(tf.constant([2.0, 1.0]))), w.numpy()]
    with tf.device(W1):
        remote = tf.constant([0.5, 0.5]) * 2.0
        found += [*values(f(remote)), w.numpy()]
    return found


@program()
def arguments_from_both_workers(tf: Any, at: Cluster) -> Any:
    @tf.function
    def f(a: Any, b: Any) -> Any:
        with tf.device(W1):
            c = a - b
        with tf.device(W0):
            d = a * c
        return c, d

    with tf.device(W0):
        a = tf.constant([4.0, 5.0]) * 1.0
    with tf.device(W1):
        b = tf.constant([1.0, 2.0]) * 1.0
    return [*values(f(a, b)), *values(f(b, a)), *values(f(a, tf.constant([0.0, 1.0])))]


@program()
def functions_call_functions_elsewhere(tf: Any, at: Cluster) -> Any:
    @tf.function
    def inner(x: Any) -> Any:
        return tf.nn.relu(x) + 1.0

    @tf.function
    def outer(x: Any) -> Any:
        with tf.device(W0):
            a = inner(x)
        with tf.device(W1):
            return inner(a - 3.0) * a

    return [outer(tf.constant([1.0, -1.0, 5.0])).numpy(), outer(tf.constant([2.0])).numpy()]


@program()
def gradients_through_a_function_over_two_workers(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        v = tf.Variable([1.0, 2.0])
    with tf.device(W1):
        w = tf.Variable([3.0, 4.0])

    @tf.function
    def f(x: Any) -> Any:
        with tf.device(W0):
            y = tf.square(x * v)
        with tf.device(W1):
            return tf.reduce_sum(y * w)

    with tf.GradientTape() as tape:
        loss = f(tf.constant([1.5, -1.0]))
    return values([loss, *tape.gradient(loss, [v, w])])


@program()
def a_whole_step_in_a_function(tf: Any, at: Cluster) -> Any:
    rng = np.random.default_rng(3)
    x = tf.constant(rng.normal(size=[16, 4]).astype(np.float32))
    y = tf.constant(rng.normal(size=[16, 2]).astype(np.float32))
    with tf.device(W0):
        v = tf.Variable(rng.normal(size=[4, 6]).astype(np.float32))
        b = tf.Variable(np.zeros(6, np.float32))
    with tf.device(W1):
        w = tf.Variable(rng.normal(size=[6, 2]).astype(np.float32))

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            with tf.device(W0):
                hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, v), b))
            with tf.device(W1):
                loss = tf.reduce_mean(tf.square(tf.matmul(hidden, w) - y))
        for one, gradient in zip([v, b, w], tape.gradient(loss, [v, b, w])):
            one.assign_sub(0.1 * gradient)
        return loss

    return [*(step().numpy() for _ in range(6)), *values([v, b, w])]


@program()
def a_fused_layer_on_a_worker(tf: Any, at: Cluster) -> Any:
    rng = np.random.default_rng(4)
    x, w = (rng.normal(size=s).astype(np.float32) for s in ([5, 6], [6, 7]))
    image, kernel = (rng.normal(size=s).astype(np.float32) for s in ([1, 5, 5, 2], [3, 3, 2, 4]))

    @tf.function
    def f(x: Any, w: Any) -> Any:
        with tf.device(W0):
            layer = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), tf.ones([7])))
            convolved = tf.nn.relu(
                tf.nn.bias_add(
                    tf.nn.conv2d(image, kernel, strides=[1, 1, 1, 1], padding="SAME"), tf.ones([4])
                )
            )
        with tf.device(W1):
            soft = tf.nn.softmax(tf.tanh(layer) * tf.sigmoid(layer))
        return layer, convolved, soft

    return values(f(x, w))


@program()
def branches_and_loops_on_a_worker(tf: Any, at: Cluster) -> Any:
    @tf.function
    def f(n: Any) -> Any:
        total, _ = tf.while_loop(
            lambda t, i: i < n, lambda t, i: (t + i * i, i + 1), [tf.constant(0), tf.constant(0)]
        )
        return tf.cond(total > 20, lambda: total - 20, lambda: -total)

    found = []
    for device in (W0, W1):
        with tf.device(device):
            found += [f(tf.constant(n)).numpy() for n in (3, 6)]
    return found


@program()
def branches_and_loops_over_two_workers(tf: Any, at: Cluster) -> Any:
    with tf.device(W1):
        v = tf.Variable(2.0)

    @tf.function
    def f(n: Any) -> Any:
        def body(total: Any, i: Any) -> Any:
            with tf.device(W0):
                total = total + tf.cast(i, tf.float32)
            with tf.device(W1):
                return total * v, i + 1

        total, _ = tf.while_loop(lambda t, i: i < n, body, [tf.constant(1.0), tf.constant(0)])
        with tf.device(W0):
            return tf.cond(total > 10.0, lambda: total * 2.0, lambda: total - 100.0)

    return [f(tf.constant(n)).numpy() for n in (1, 4)]


@program()
def python_control_flow_is_traced(tf: Any, at: Cluster) -> Any:
    @tf.function
    def collatz(n: Any) -> Any:
        steps = 0
        while n > 1:
            if n % 2 == 0:  # noqa: SIM108  (branches are what is traced)
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        return steps

    with tf.device(W0):
        return collatz(tf.constant(27)).numpy()


@program()
def effects_of_a_function_are_in_order(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        v = tf.Variable(1.0)

    @tf.function
    def f() -> Any:
        v.assign_add(1.0)
        first = v.read_value()
        v.assign(v * 10.0)
        second = v.read_value()
        v.assign_sub(3.0)
        return first, second

    return [*values(f()), v.numpy(), *values(f()), v.numpy()]


@program()
def a_function_without_results(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        v = tf.Variable([0])
    with tf.device(W1):
        w = tf.Variable([0])

    @tf.function
    def f(x: Any) -> None:
        v.assign_add(x)
        with tf.device(W1):
            w.assign_add(x * 2)

    f(tf.constant([3]))
    f(tf.constant([4]))
    return values([v, w])


@program()
def one_function_for_many_shapes(tf: Any, at: Cluster) -> Any:
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def f(x: Any) -> Any:
        with tf.device(W1):
            y = tf.reduce_sum(x, axis=0)
        with tf.device(W0):
            return y * 2.0, tf.shape(x)

    return [v for n in (1, 3, 0) for v in values(f(tf.ones([n, 2])))]


@program()
def strings_in_a_function_over_two_workers(tf: Any, at: Cluster) -> Any:
    @tf.function
    def f(x: Any) -> Any:
        with tf.device(W0):
            y = tf.strings.join([x, tf.strings.as_string(tf.range(2))], "-")
        with tf.device(W1):
            return tf.strings.length(y), tf.concat([y, x], 0)

    return values(f(tf.constant(["ab", "c"])))


@program()
def a_tensor_array_in_a_function(tf: Any, at: Cluster) -> Any:
    @tf.function
    def f(x: Any) -> Any:
        array = tf.TensorArray(tf.float32, size=3)
        for i in range(3):
            array = array.write(i, x * float(i))
        return array.stack()

    with tf.device(W0):
        return f(tf.constant([1.0, 2.0])).numpy()


@program()
def many_calls_of_a_function(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        v = tf.Variable(0.0)

    @tf.function
    def f(x: Any) -> Any:
        with tf.device(W1):
            y = x * 2.0
        v.assign_add(y)
        return v.read_value()

    x = tf.constant(1.0)
    for _ in range(40):
        x = tf.minimum(f(x), 5.0)
    return values([x, v])


@program()
def layers_of_a_function_that_are_rewritten(tf: Any, at: Cluster) -> Any:
    """What TensorFlow's client makes other ops of, which name more than one here, or leave out what
    is their default."""
    draw = np.random.default_rng(0)
    image, rows = draw.normal(size=[2, 6, 6, 4]), draw.normal(size=[4, 8])
    filters, bias = draw.normal(size=[3, 3, 4, 4]), draw.normal(size=[4])

    @tf.function
    def f(image: Any, rows: Any, filters: Any, bias: Any) -> Any:
        with tf.device(W1):
            padded = tf.pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]])
            products = tf.matmul(image, image, transpose_b=True)
            found = [
                tf.nn.softmax(rows),
                products * tf.constant(0.5) + tf.ones([2, 1, 6, 6]),
                tf.nn.conv2d(padded, filters, 1, "VALID"),
                tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(padded, filters, 1, "VALID"), bias)),
                tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(image, filters, 1, "SAME"), bias)),
                rows * tf.tanh(tf.nn.softplus(rows)),
                tf.nn.silu(rows),
                tf.nn.max_pool2d(image, 2, 2, "SAME"),
                tf.transpose(image, [0, 3, 1, 2]),
                tf.nn.relu(tf.nn.bias_add(tf.matmul(rows, rows, transpose_b=True), bias)),
            ]
        return [tf.identity(one) for one in found]

    given = [tf.constant(one.astype(np.float32)) for one in (image, rows, filters, bias)]
    return values(f(*given))


@program()
def specs_say_what_a_function_takes(tf: Any, at: Cluster) -> Any:
    """Ragged and sparse arguments and results, and optionals, on a worker."""

    @tf.function(
        input_signature=[
            tf.RaggedTensorSpec([None, None], tf.float32),
            tf.SparseTensorSpec([None, 3], tf.float32),
        ]
    )
    def f(rows: Any, weights: Any) -> Any:
        sums = tf.reduce_sum(rows, axis=1)
        return rows * 2.0, tf.sparse.sparse_dense_matmul(weights, tf.ones([3, 1])), sums

    found = []
    for device, lengths in ((W0, [2, 0, 1]), (W1, [1, 3])):
        with tf.device(device):
            rows = tf.RaggedTensor.from_row_lengths(tf.range(float(sum(lengths))), lengths)
            weights = tf.sparse.from_dense(tf.reshape(tf.range(6.0), [2, 3]))
            doubled, product, sums = f(rows, weights)
            found += values([doubled.flat_values, doubled.row_splits, product, sums])

    @tf.function
    def g(iterator: Any) -> Any:
        element = iterator.get_next_as_optional()
        return element.has_value(), element

    with tf.device(W0):
        iterator = iter(tf.data.Dataset.range(5, 6))
        has_value, element = g(iterator)
        found += values([has_value, element.get_value(), g(iterator)[0]])
    return found
