"""Variables, tables and queues that live on workers."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager_programs.registry import W0, W1, Cluster, program, values


@program()
def a_variable_lives_on_a_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        v = tf.Variable([1.0, 2.0])
    seen = [v.device, v.numpy()]
    v.assign_add([1.0, 1.0])
    seen.append(v.numpy())
    v.assign_sub([0.5, 0.0])
    seen.append((v * 2.0).numpy())
    v.assign([7.0, 8.0])
    return [*seen, v.read_value().numpy(), v.shape.as_list()]


@program()
def a_variable_is_used_from_another_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.device(W1):
        y = tf.matmul(v, v)
        v.assign_add(tf.ones([2, 2]))
        z = tf.reduce_sum(v)
    return values([y, z, v])


@program(["tensorflow"])
def rows_of_a_variable(tf: Any, at: Cluster) -> Any:
    with tf.device(W1):
        v = tf.Variable(np.arange(8.0, dtype=np.float32).reshape(4, 2))
        rows = tf.gather(v, [3, 1])
        tf.raw_ops.ResourceScatterUpdate(
            resource=v.handle, indices=[0, 2], updates=[[9.0, 9.0], [8.0, 8.0]]
        )
        tf.raw_ops.ResourceScatterAdd(resource=v.handle, indices=[0], updates=[[1.0, -1.0]])
    return values([rows, v])


@program()
def variables_come_and_go(tf: Any, at: Cluster) -> Any:
    found = []
    for i in range(30):
        with tf.device(W0 if i % 2 else W1):
            v = tf.Variable(tf.fill([100], float(i)))
            found.append(tf.reduce_mean(v).numpy())
    return found


@program()
def gradients_of_remote_variables(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        v = tf.Variable([1.0, 2.0])
    with tf.device(W1):
        w = tf.Variable([[0.5], [2.0]])
    with tf.GradientTape(persistent=True) as tape:
        with tf.device(W1):
            y = tf.matmul(tf.reshape(v * v, [1, 2]), w)
        z = tf.reduce_sum(tf.exp(y * 0.1))
    return values([z, *tape.gradient(z, [v, w]), tape.gradient(y, v)])


@program()
def second_derivatives_on_a_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        x = tf.constant(2.0) * 1.0
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = x * x * x
            first = inner.gradient(y, x)
        second = outer.gradient(first, x)
    return values([first, second])


@program()
def a_model_trains_on_a_worker(tf: Any, at: Cluster) -> Any:
    rng = np.random.default_rng(7)
    x = rng.normal(size=[32, 8]).astype(np.float32)
    labels = (x[:, 0] > 0).astype(np.int32) + (x[:, 1] > 0)
    with tf.device(W0):
        weights = tf.Variable(rng.normal(size=[8, 3]).astype(np.float32) * 0.1)
        bias = tf.Variable(np.zeros(3, np.float32))
    losses = []
    with tf.device(W1):
        for _ in range(8):
            with tf.GradientTape() as tape:
                logits = tf.matmul(x, weights) + bias
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
                )
            for v, g in zip([weights, bias], tape.gradient(loss, [weights, bias])):
                v.assign_sub(0.5 * g)
            losses.append(loss.numpy())
    return [*losses, *values([weights, bias])]


@program(["tensorflow"])
def an_optimizer_s_operation_changes_a_variable(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        v, m, s = (tf.Variable([1.0, 2.0]), tf.Variable([0.0, 0.0]), tf.Variable([0.0, 0.0]))
        for _ in range(3):
            tf.raw_ops.ResourceApplyAdam(
                var=v.handle, m=m.handle, v=s.handle, beta1_power=0.9, beta2_power=0.999, lr=0.1,
                beta1=0.9, beta2=0.999, epsilon=1e-7, grad=[0.5, -1.0],
            )  # fmt: skip
    return values([v, m, s])


@program()
def a_queue_on_a_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        queue = tf.queue.FIFOQueue(10, [tf.float32, tf.string], shapes=[[], []])
        for i in range(3):
            queue.enqueue([float(i), f"item {i}"])
        size = queue.size()
        first = queue.dequeue()
        rest = queue.dequeue_many(2)
    return [size.numpy(), *values(first), *values(rest)]


@program()
def many_variables_in_one_step(tf: Any, at: Cluster) -> Any:
    made = []
    for i in range(12):
        with tf.device((W0, W1)[i % 2]):
            made.append(tf.Variable(tf.fill([3], float(i))))

    @tf.function
    def step(by: Any) -> Any:
        for v in made:
            v.assign_add(tf.fill([3], by))
        return tf.add_n([tf.reduce_sum(v) for v in made])

    return [step(tf.constant(1.0)).numpy(), step(tf.constant(0.5)).numpy(), *values(made)]
