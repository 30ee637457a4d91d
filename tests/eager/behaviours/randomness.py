"""Where random numbers come from, and what starts them anew."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.behaviours.registry import error, program


@program
def op_seeds_go_on(tf: Any) -> Any:
    tf.random.set_seed(1)
    return [tf.random.uniform([2], seed=3) for _ in range(3)]


@program
def op_seeds_without_a_global_one(tf: Any) -> Any:
    a = [tf.random.uniform([], seed=7).numpy() for _ in range(3)]
    return [a[0] != a[1], a[1] != a[2]]


@program
def global_seed_restarts(tf: Any) -> Any:
    tf.random.set_seed(5)
    a = [tf.random.normal([2]) for _ in range(2)]
    tf.random.set_seed(5)
    b = [tf.random.normal([2]) for _ in range(2)]
    return [a, b]


@program
def functions_draw(tf: Any) -> Any:
    @tf.function
    def draw() -> Any:
        return tf.random.uniform([2]), tf.random.uniform([2])

    tf.random.set_seed(9)
    return [draw(), draw()]


@program
def functions_draw_by_op_seed(tf: Any) -> Any:
    @tf.function
    def draw() -> Any:
        return tf.random.uniform([2], seed=1), tf.random.normal([2], seed=1)

    tf.random.set_seed(9)
    return [draw(), draw()]


@program
def a_global_seed_restarts_functions(tf: Any) -> Any:
    @tf.function
    def draw() -> Any:
        return tf.random.uniform([2])

    found = []
    tf.random.set_seed(4)
    found.append(draw())
    found.append(draw())
    tf.random.set_seed(4)
    found.append(draw())
    found.append(draw())
    return [
        bool(np.all(a == b))
        for a, b in [(found[0], found[2]), (found[1], found[3]), (found[0], found[1])]
    ]


@program
def two_functions_of_equal_seeds(tf: Any) -> Any:
    @tf.function
    def f() -> Any:
        return tf.random.uniform([2], seed=1)

    @tf.function
    def g() -> Any:
        return tf.random.uniform([2], seed=1)

    tf.random.set_seed(4)
    return [f(), g(), f(), g()]


@program
def two_functions_of_other_seeds(tf: Any) -> Any:
    @tf.function
    def f() -> Any:
        return tf.random.uniform([2], seed=1)

    @tf.function
    def g() -> Any:
        return tf.random.uniform([2], seed=2)

    tf.random.set_seed(4)
    return [f(), g(), f(), g()]


@program
def unseeded_functions_differ(tf: Any) -> Any:
    @tf.function
    def f() -> Any:
        return tf.random.uniform([], seed=1)

    a, b = f(), f()
    return bool(a != b)


@program
def functions_in_functions(tf: Any) -> Any:
    @tf.function
    def inner() -> Any:
        return tf.random.uniform([])

    @tf.function
    def outer() -> Any:
        return inner(), inner(), tf.random.uniform([])

    tf.random.set_seed(4)
    return [outer(), outer(), inner()]


@program
def two_shapes_of_one_function(tf: Any) -> Any:
    @tf.function
    def f(x: Any) -> Any:
        return x + tf.random.uniform([], seed=3)

    tf.random.set_seed(4)
    return [f(tf.zeros([1])), f(tf.zeros([2])), f(tf.zeros([1]))]


@program
def mixed_eager_and_function(tf: Any) -> Any:
    @tf.function
    def f() -> Any:
        return tf.random.uniform([])

    tf.random.set_seed(4)
    a = tf.random.uniform([])
    b = f()
    c = tf.random.uniform([])
    return [a, b, c]


@program
def draws_in_a_loop(tf: Any) -> Any:
    @tf.function
    def f() -> Any:
        total = tf.TensorArray(tf.float32, 3)
        for i in tf.range(3):
            total = total.write(i, tf.random.uniform([]))
        return total.stack()

    tf.random.set_seed(4)
    return [f(), f()]


@program
def shuffles_and_dropouts(tf: Any) -> Any:
    tf.random.set_seed(2)
    return [
        tf.random.shuffle(tf.range(6)),
        tf.random.shuffle(tf.range(6), seed=1),
        tf.nn.dropout(tf.ones([6]), 0.5),
        tf.random.categorical([[0.1, 0.2, 0.3]], 4),
        tf.random.truncated_normal([2]),
        tf.random.gamma([2], 1.0),
    ]


@program
def datasets_shuffle_by_the_global_seed(tf: Any) -> Any:
    tf.random.set_seed(2)
    data = tf.data.Dataset.range(6).shuffle(6)
    return [list(data.as_numpy_iterator()), list(data.as_numpy_iterator())]


@program
def a_generator_in_a_function(tf: Any) -> Any:
    g = tf.random.Generator.from_seed(1)

    @tf.function
    def f() -> Any:
        return g.normal([2])

    return [f(), f(), g.normal([2]), g.state]


@program
def a_generator_in_a_strategy(tf: Any) -> Any:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        g = tf.random.Generator.from_seed(1)
    found = strategy.experimental_local_results(strategy.run(lambda: g.normal([2])))
    again = strategy.experimental_local_results(strategy.run(tf.function(lambda: g.normal([2]))))
    return [list(found), list(again)]


@program
def a_generator_from_outside_in_a_strategy(tf: Any) -> Any:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    g = tf.random.Generator.from_seed(1)
    return error(
        lambda: list(strategy.experimental_local_results(strategy.run(lambda: g.normal([1]))))
    )


@program
def generators_split(tf: Any) -> Any:
    g = tf.random.Generator.from_seed(1, alg="philox")
    parts = g.split(2)
    tf.random.set_seed(3)
    tf.random.set_global_generator(tf.random.Generator.from_seed(3))
    return [p.normal([1]) for p in parts] + [tf.random.get_global_generator().normal([1])]


@program
def replicas_of_a_strategy_draw(tf: Any) -> Any:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    tf.random.set_seed(3)
    found = strategy.experimental_local_results(
        strategy.run(tf.function(lambda: tf.random.uniform([])))
    )
    return bool(found[0] != found[1])
