"""gradients() beside TensorFlow's, by the same program under both."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours

theirs = pytest.importorskip("tensorflow").compat.v1
pytestmark = pytest.mark.tensorflow


def small_network(tf):
    x = tf.constant(np.linspace(-1, 1, 12).reshape(4, 3).astype(np.float32))
    w = tf.Variable(np.linspace(0, 1, 6).reshape(3, 2).astype(np.float32))
    b = tf.Variable([0.1, -0.1])
    logits = tf.nn.relu(tf.matmul(x, w) + b)
    labels = tf.constant([0, 1, 1, 0])
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.gradients(tf.reduce_mean(loss), [w, b, x])


def stopped_and_unconnected(tf):
    x, y = tf.constant([1.0, 2.0]), tf.constant([3.0])
    z = x * 2.0
    w = z * x + tf.stop_gradient(x) * 5.0
    zeros = tf.UnconnectedGradients.ZERO
    return [
        tf.gradients(w, [x, z], stop_gradients=[z])[0],
        *tf.gradients(w, [x, y], unconnected_gradients=zeros),
        *tf.gradients([w, z], [x], grad_ys=[tf.constant([1.0, 10.0]), None]),
    ]


def sparse_and_dense_rows(tf):
    v = tf.Variable(np.ones((4, 2), np.float32))
    rows = tf.nn.embedding_lookup(v, [1, 3, 1]) * [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    (slices,) = tf.gradients(rows, [v])
    (mixed,) = tf.gradients([rows, v * 2.0], [v])
    return [slices.values, slices.indices, tf.convert_to_tensor(mixed)]


def partition_and_stitch(tf):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    a, b = tf.dynamic_partition(x, [1, 0, 1], 2)
    y = tf.dynamic_stitch([[2], [0, 1]], [a * a, b * 3.0])
    return tf.gradients(y * y, [x, a])


def broadcasting_of_unknown_shapes(tf):
    x = tf.placeholder_with_default(np.ones((3, 1), np.float32), None)
    y = tf.placeholder_with_default(np.ones((2, 1, 4), np.float32), None)
    return tf.gradients(x * y + x / y, [x, y])


def second_order(tf):
    x = tf.constant([1.0, 2.0, 3.0])
    y = tf.reduce_sum(x * x * x)
    (first,) = tf.gradients(y, [x])
    return [*tf.gradients(first, [x]), *tf.hessians(y, [x])]


def second_order_of_unknown_sizes(tf):
    tf.enable_control_flow_v2()
    x = tf.placeholder_with_default(np.array([1.0, 2.0, 3.0], np.float32), [None])
    looped = tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, y * y), [0, x])[1]
    branch = tf.cond(x[0] > 0, lambda: tf.gradients(looped * x, x)[0], lambda: x)
    found = [branch, *tf.hessians(x**3, [x]), *tf.hessians(looped, [x])]
    tf.disable_control_flow_v2()
    return found


def override(tf):
    @tf.RegisterGradient(f"OverrideOf{tf.__name__}")
    def tripled(op, grad):
        return grad * 3.0

    x = tf.constant(2.0)
    names = {"Identity": f"OverrideOf{tf.__name__}"}
    with tf.get_default_graph().gradient_override_map(names):
        y = tf.identity(x)
    return tf.gradients(y * y, [x])


PROGRAMS = [
    small_network,
    stopped_and_unconnected,
    sparse_and_dense_rows,
    partition_and_stitch,
    broadcasting_of_unknown_shapes,
    second_order,
    second_order_of_unknown_sizes,
    override,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_gradients_agree(program):
    found = []
    for tf in (ours, theirs):
        with tf.Graph().as_default(), tf.Session() as session:
            fetches = program(tf)
            session.run(tf.global_variables_initializer())
            found.append(session.run(fetches))
    for mine, expected in zip(*found, strict=True):
        assert mine.shape == expected.shape
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-6)
