"""The eager context: devices, execution, settings."""

from __future__ import annotations

import functools
from typing import Any

from shown_values import value
from tf_behaviours.registry import behaviour, error

contexts = functools.partial(behaviour, "python/eager/context_test.py")
ops = functools.partial(behaviour, "python/eager/ops_test.py")
tensors = functools.partial(behaviour, "python/eager/tensor_test.py")


@contexts("Device scopes nest, and an empty one goes back to placing freely.")
def device_scopes(tf: Any) -> Any:
    found = []
    with tf.device("CPU:1"):
        found.append(tf.constant(1).device)
        with tf.device("CPU:0"):
            found.append(tf.constant(1).device)
        with tf.device(None):
            found.append((tf.constant(1) + 1).device)
    return [*found, error(lambda: tf.device("nonsense:x").__enter__())]


@contexts("Logical devices are listed, and cannot be set once they are there.")
def logical_devices(tf: Any) -> Any:
    physical = tf.config.list_physical_devices("CPU")
    return [
        [d.name for d in tf.config.list_logical_devices("CPU")],
        [d.name for d in physical],
        tf.config.list_physical_devices("GPU"),
        error(lambda: tf.config.set_logical_device_configuration(physical[0], [])),
        len(tf.config.get_logical_device_configuration(physical[0])),
        [d.name for d in tf.config.get_visible_devices("CPU")],
    ]


@contexts("A program executes eagerly unless a graph or a function is built.")
def executing_eagerly(tf: Any) -> Any:
    found = [tf.executing_eagerly()]
    with tf.Graph().as_default():
        found.append(tf.executing_eagerly())
        with tf.init_scope():
            found.append(tf.executing_eagerly())
    tf.function(lambda: found.append(tf.executing_eagerly()))()
    return [*found, tf.compat.v1.executing_eagerly_outside_functions()]


@contexts("Numbers of threads and placement are settings that can be read back.")
def settings(tf: Any) -> Any:
    return [
        tf.config.get_soft_device_placement(),
        tf.config.threading.get_inter_op_parallelism_threads(),
        tf.config.threading.get_intra_op_parallelism_threads(),
        error(lambda: tf.config.threading.set_inter_op_parallelism_threads(3)),
        tf.config.optimizer.get_jit(),
        tf.config.experimental.get_synchronous_execution(),
    ]


@ops("Operations raise the class of their error at once, and name the operation.")
def errors_of_operations(tf: Any) -> Any:
    return [
        error(lambda: tf.matmul(tf.ones([2, 3]), tf.ones([2, 3])), "MatMul"),
        error(lambda: tf.reshape(tf.ones([4]), [3]), "Reshape"),
        error(lambda: tf.constant(1) + tf.constant(1.0)),
        error(lambda: tf.gather([1, 2], 5)),
        error(lambda: tf.constant([1, 2]) + tf.ones([3], tf.int32)),
        error(lambda: tf.raw_ops.Add(x=1, y="a")),
        error(lambda: tf.raw_ops.Add(1, 2)),
        error(lambda: tf.concat([[1], [[2]]], 0)),
        error(lambda: tf.split(tf.ones([5]), 2)),
        error(lambda: tf.one_hot(1, -1)),
        error(lambda: tf.strings.to_number("x")),
    ]


@ops("Python numbers take the type of the tensor beside them where they can.")
def python_numbers(tf: Any) -> Any:
    return [
        value(tf.constant(1.0) + 1),
        value(2 * tf.constant(3)),
        value(tf.constant(1, tf.int8) + 1),
        error(lambda: tf.constant(1) + 1.5),
        value(tf.add(1, 2)),
        error(lambda: tf.add(1, 2.5)),
        value(tf.constant(5) / 2),
        value(tf.constant(5) // 2),
        value(-7 % tf.constant(3)),
        error(lambda: tf.add([1, 2], tf.constant([1.0]))),
        value(tf.constant(2) ** 3),
    ]


@ops("execute with lists and attrs: split, stack, unstack and meshgrid give lists or tensors.")
def lists_of_results(tf: Any) -> Any:
    return [
        type(tf.split(tf.range(4), 2)).__name__,
        type(tf.unstack(tf.range(2))).__name__,
        value(tf.split(tf.range(5), [2, 3])),
        value(tf.meshgrid([1, 2], [3, 4])),
        type(tf.meshgrid([1], [2])).__name__,
        type(tf.unique([1, 1])).__name__,
        type(tf.nn.top_k([1.0, 2.0])).__name__,
        tf.nn.top_k([1.0, 2.0], 1)._fields,
        type(tf.nn.moments(tf.ones([2]), 0)).__name__,
    ]


@tensors("Tensors compare elementwise, and cannot be keys.")
def comparisons(tf: Any) -> Any:
    a = tf.constant([1, 2])
    return [
        value(a == [1, 3]),
        value(a != [1, 3]),
        error(lambda: {a: 1}),
        error(lambda: bool(a == a)),
        a.ref() == a.ref(),
        value(tf.constant(1) == tf.constant(1)),
        error(lambda: a == tf.ones([3], tf.int32)),
        error(lambda: hash(tf.constant(1))),
        a is a,
        value(tf.constant("a") == "a"),
    ]


@tensors("A tensor is as long as its first axis, and is walked along it; a scalar is not.")
def lengths(tf: Any) -> Any:
    return [
        len(tf.zeros([3, 2])),
        error(lambda: len(tf.constant(1))),
        error(lambda: list(tf.constant(1))),
        value(list(tf.constant([[1, 2], [3, 4]]))),
        error(lambda: tf.constant([1, 2])[5]),
        value(tf.constant([1, 2, 3])[-1]),
        value(tf.constant([[1, 2], [3, 4]])[:, 0]),
    ]


@tensors("Tensors convert to numbers and arrays where they have one element, and of which type.")
def conversions(tf: Any) -> Any:
    return [
        int(tf.constant(3)),
        float(tf.constant(2.5)),
        int(tf.constant(2.7)),
        bool(tf.constant(0)),
        error(lambda: int(tf.constant([1, 2]))),
        error(lambda: int(tf.constant("3"))),
        [10, 20, 30][tf.constant(1)],
        error(lambda: [1, 2][tf.constant(1.0)]),
        f"{tf.constant(3.0):.2f}",
        error(lambda: bool(tf.constant([]))),
        complex(tf.constant(1 + 2j)) == 1 + 2j,
        error(lambda: bool(tf.constant("a"))),
    ]
