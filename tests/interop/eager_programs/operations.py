"""Operations one at a time, on a worker and between workers."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager_programs.registry import W0, W1, Cluster, program, values


@program()
def devices_are_those_of_the_cluster(tf: Any, at: Cluster) -> Any:
    return sorted(d.name for d in tf.config.list_logical_devices("CPU") if "job:worker" in d.name)


@program()
def arithmetic_on_a_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        x = tf.constant([1.0, -2.0, 3.0])
        made = [x + 1.0, x * x, tf.exp(x), tf.reduce_sum(x), tf.maximum(x, 0.0), tf.argmax(x)]
    return [made[0].device, *values(made)]


@program()
def matrices_on_a_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W1):
        a = tf.reshape(tf.range(6.0), [2, 3])
        b = tf.matmul(a, a, transpose_b=True)
        made = [b, tf.transpose(a), tf.nn.softmax(a), tf.nn.relu(b - 10.0), tf.concat([a, a], 1)]
    return values(made)


@program()
def element_types_cross_the_wire(tf: Any, at: Cluster) -> Any:
    given = {
        "float64": np.array([0.1, -0.2]),
        "int8": np.array([-3, 4], np.int8),
        "uint16": np.array([7], np.uint16),
        "int64": np.array([[2**40]]),
        "bool": np.array([True, False]),
        "complex64": np.array([1 + 2j], np.complex64),
        "empty": np.zeros([0, 3], np.float32),
        "scalar": np.float32(2.5),
    }
    found = {}
    for name, value in given.items():
        with tf.device(W0):
            first = tf.identity(tf.constant(value))
        with tf.device(W1):
            found[name] = tf.stack([first, first]).numpy()
    return found


@program()
def strings_on_a_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        joined = tf.strings.join([tf.constant(["a", "b"]), tf.constant(["\0x", "é" * 200])])
        made = [joined, tf.strings.length(joined), tf.strings.as_string([1.5, 2.0])]
    with tf.device(W1):
        made.append(tf.reshape(joined, [2, 1]))
    return values(made)


@program()
def operations_with_many_outputs(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        x = tf.constant([[3.0, 1.0], [2.0, 3.0]])
        made = [*tf.split(x, 2), *tf.unstack(x, axis=1), *tf.nn.top_k(x, 2)]
        y, places = tf.unique(tf.reshape(x, [-1]))
    with tf.device(W1):
        moved = [tf.identity(places), y * 2.0]
    return values([*made, y, *moved])


@program()
def a_tensor_moves_between_workers(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        a = tf.constant([1.0, 2.0]) + 0.0
    with tf.device(W1):
        b = a + 10.0
    with tf.device(W0):
        c = a * b
    with tf.device(W1):
        d = c - b
        same = tf.identity(a)
    return [b.device, c.device, same.device, *values([b, c, d, same, a])]


@program()
def a_large_tensor_moves_between_workers(tf: Any, at: Cluster) -> Any:
    given = np.random.default_rng(1).normal(size=[512, 700]).astype(np.float32)
    with tf.device(W0):
        a = tf.constant(given) * 2.0
    with tf.device(W1):
        b = tf.transpose(a)
    return [b.shape.as_list(), b.numpy()]


@program()
def a_tensor_of_the_client_goes_to_each(tf: Any, at: Cluster) -> Any:
    local = tf.constant([[1, 2], [3, 4]])
    made = []
    for device in (W0, W1):
        with tf.device(device):
            made.append(tf.reduce_sum(local, axis=0))
    back = made[0] + made[1]
    return ["localhost" in back.device, *values([*made, back])]


@program()
def a_local_operation_takes_remote_inputs(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        a = tf.constant(3.0) * 1.0
    with tf.device(W1):
        b = tf.constant(4.0) * 1.0
    with tf.device("/job:localhost/device:CPU:0"):
        c = tf.sqrt(a * a + b * b)
    return [c.numpy(), float(a), int(b), bool(c > 4.0)]


@program()
def shapes_are_known_without_values(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        x = tf.zeros([3, 4])
        picked = tf.boolean_mask(tf.range(5), [True, False, True, True, False])
        cut = x[1:, ::2]
    return [x.shape.as_list(), picked.shape.as_list(), cut.shape.as_list(), x.dtype.name, len(x)]


@program()
def a_long_queue_of_operations(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        x = tf.constant(0.0)
        for _ in range(300):
            x = x + 1.0
    with tf.device(W1):
        for _ in range(100):
            x = x * 1.0 + 1.0
    return x.numpy()


@program()
def random_numbers_without_state(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        a = tf.random.stateless_uniform([4], [3, 5])
    with tf.device(W1):
        b = tf.random.stateless_normal([2, 2], [1, 2])
    return values([a, b])


@program()
def operations_that_change_their_types(tf: Any, at: Cluster) -> Any:
    with tf.device(W1):
        x = tf.constant([1.7, -1.7, 300.0])
        made = [tf.cast(x, t) for t in (tf.int32, tf.float64, tf.bool, tf.float16)]
        made.append(tf.one_hot([0, 2], 3))
        made.append(tf.where(x > 0.0, x, tf.zeros_like(x)))
        made.append(tf.gather(x, [2, 0]))
    return values(made)
