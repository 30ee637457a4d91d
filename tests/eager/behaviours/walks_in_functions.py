"""Walks over datasets in functions: iterators that are made there, given or captured."""

from __future__ import annotations

from typing import Any

from eager.behaviours.registry import error, program


def _ints(values: Any) -> list[int]:
    return [int(value) for value in values]


@program
def iterators_that_are_made_inside(tf: Any) -> Any:
    captured = tf.data.Dataset.range(5)
    parts = tf.data.Dataset.from_tensor_slices({"a": [1, 2, 3], "b": [1.0, 2.0, 3.0]})

    @tf.function
    def of_captured() -> Any:
        walk = iter(captured)
        return next(walk) + next(walk)

    @tf.function
    def of_own(count: Any) -> Any:
        walk = iter(tf.data.Dataset.range(count).map(lambda x: x * 2))
        next(walk)
        return next(walk), walk.get_next()

    @tf.function
    def of_parts() -> Any:
        walk = iter(parts)
        one, two = next(walk), next(walk)
        return one["a"] + two["a"], one["b"] * two["b"]

    @tf.function(autograph=False)
    def without_autograph(dataset: Any) -> Any:
        walk = iter(dataset)
        next(walk)
        for x in dataset:
            return x + next(walk)
        return None

    return [
        _ints([of_captured(), of_captured()]),
        _ints(of_own(tf.constant(5, tf.int64))),
        [float(x) for x in of_parts()],
        int(without_autograph(captured)),
    ]


@program
def past_the_end(tf: Any) -> Any:
    @tf.function
    def ends() -> Any:
        walk = iter(tf.data.Dataset.range(1))
        next(walk)
        return next(walk)

    return error(ends)[:1]


@program
def optionals(tf: Any) -> Any:
    @tf.function
    def total(dataset: Any) -> Any:
        walk = iter(dataset)
        found = walk.get_next_as_optional()
        added = tf.constant(0, tf.int64)
        while found.has_value():
            added += found.get_value()
            found = walk.get_next_as_optional()
        return added

    @tf.function
    def first(dataset: Any) -> Any:
        found = tf.data.experimental.get_next_as_optional(iter(dataset))
        return tf.cond(
            found.has_value(), lambda: found.get_value(), lambda: tf.constant(-1, tf.int64)
        )

    return [
        int(total(tf.data.Dataset.range(6))),
        _ints(first(tf.data.Dataset.range(n)) for n in (2, 0)),
    ]


@program
def loops_that_are_left(tf: Any) -> Any:
    walk = iter(tf.data.Dataset.range(10))
    numbers = tf.data.Dataset.range(5)

    @tf.function
    def until_large() -> Any:
        found = tf.constant(0, tf.int64)
        for x in walk:
            found += x
            if found > 5:
                break
        return found

    @tf.function
    def odd(dataset: Any) -> Any:
        found = tf.constant(0, tf.int64)
        for i, x in enumerate(dataset):
            if x % 2 == 0:
                continue
            found += x * tf.cast(i, tf.int64)
        return found

    @tf.function
    def with_an_else(dataset: Any, at: Any) -> Any:
        for x in dataset:
            if x == at:
                break
        else:
            at = -at
        return at

    return [
        _ints([until_large(), until_large(), next(walk)]),
        int(odd(numbers)),
        error(lambda: with_an_else(numbers, tf.constant(3, tf.int64)))[:1],
    ]


@program
def loops_that_change_shapes(tf: Any) -> Any:
    @tf.function
    def last(dataset: Any) -> Any:
        found = tf.zeros([0], tf.int64)
        for x in dataset:
            found = x
        return found

    @tf.function
    def all_of(dataset: Any) -> Any:
        found, count = tf.zeros([0], tf.int64), 0
        for x in dataset:
            found = tf.concat([found, x], 0)
            count += 1
        return found, count

    batches = tf.data.Dataset.range(5).batch(2)
    found, count = all_of(batches)
    return [last(batches).numpy().tolist(), found.numpy().tolist(), int(count)]


@program
def walks_that_train(tf: Any) -> Any:
    numbers = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0]).repeat(2)
    v = tf.Variable(2.0)

    @tf.function
    def epoch() -> Any:
        walk = iter(numbers)
        for _ in tf.range(4):
            v.assign_add(next(walk))
        return v.read_value()

    @tf.function
    def slope() -> Any:
        walk = iter(numbers)
        with tf.GradientTape() as tape:
            loss = v * next(walk) * next(walk)
            for _ in tf.range(2):
                loss += v * next(walk)
        return tape.gradient(loss, v)

    @tf.function
    def slope_of_an_optional() -> Any:
        with tf.GradientTape() as tape:
            a, b = tf.experimental.Optional.from_value((v * 3.0, v * v)).get_value()
            loss = a * b
        return tape.gradient(loss, v)

    return [float(f()) for f in (epoch, epoch, slope, slope_of_an_optional)]


@program
def a_slope_through_a_loop(tf: Any) -> Any:
    numbers = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0])
    v = tf.Variable(2.0)

    @tf.function
    def slope(walk: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.constant(0.0)
            for x in walk:
                loss += v * x
        return tape.gradient(loss, v)

    return [str(slope(iter(numbers)).numpy()), str(slope(numbers))]


@program
def what_functions_return(tf: Any) -> Any:
    @tf.function
    def a_walk() -> Any:
        return iter(tf.data.Dataset.range(3))

    @tf.function
    def a_dataset(count: Any) -> Any:
        return {"data": tf.data.Dataset.range(count).map(lambda x: x + count), "count": count}

    @tf.function
    def an_optional(walk: Any) -> Any:
        return walk.get_next_as_optional()

    walk, made = a_walk(), a_dataset(tf.constant(3, tf.int64))
    given = iter(tf.data.Dataset.range(1))
    one, none = an_optional(given), an_optional(given)
    return [
        isinstance(walk, tf.data.Iterator),
        _ints([next(walk), next(walk)]),
        isinstance(made["data"], tf.data.Dataset),
        _ints(made["data"]),
        _ints(made["data"].map(lambda x: x * 2)),
        [bool(one.has_value()), int(one.get_value()), bool(none.has_value())],
    ]


@program
def one_shot_iterators(tf: Any) -> Any:
    @tf.function
    def second() -> Any:
        walk = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.range(3))
        walk.get_next()
        return walk.get_next()

    return [int(second()), error(second)[:1]]


@program
def walks_in_branches(tf: Any) -> Any:
    numbers = tf.data.Dataset.range(4)

    @tf.function
    def chosen(which: Any) -> Any:
        if which:
            walk = iter(numbers)
            found = next(walk) + next(walk)
        else:
            found = tf.constant(7, tf.int64)
        return found

    return _ints([chosen(tf.constant(True)), chosen(tf.constant(False))])


@program
def only_in_functions(tf: Any) -> Any:
    with tf.Graph().as_default():
        return error(lambda: iter(tf.data.Dataset.range(3)))[:1]


@program
def a_list_goes_round(tf: Any) -> Any:
    @tf.function
    def added(a: Any) -> Any:
        for e in tf.data.Dataset.range(3):
            a = a + tf.cast(e, a.dtype)
        return a

    @tf.function
    def of_two(a: Any, b: Any) -> Any:
        for e in tf.data.Dataset.range(3):
            a, b = b, a + tf.cast(e, tf.int32)
        return a, b

    return [error(lambda: added([0, 0]))[:1], _ints([added(1)]), _ints(of_two(1, 2))]
