"""Functions over elements: maps, filters, scans, nested datasets that take turns."""

# ruff: noqa: B023, C416, E501, RUF005, RUF015, RUF021, RUF100, SIM108, SLF001 - as users write them

from __future__ import annotations

import collections
import functools
import threading
from typing import Any

import numpy as np

from shown_values import elements, value, walked
from tf_behaviours.registry import behaviour, error

_TESTS = "python/data/kernel_tests"
maps = functools.partial(behaviour, f"{_TESTS}/map_test.py")
flat_maps = functools.partial(behaviour, f"{_TESTS}/flat_map_test.py")
interleaves = functools.partial(behaviour, f"{_TESTS}/interleave_test.py")
filters = functools.partial(behaviour, f"{_TESTS}/filter_test.py")
scans = functools.partial(behaviour, f"{_TESTS}/scan_test.py")
reduces = functools.partial(behaviour, f"{_TESTS}/reduce_test.py")
take_while = functools.partial(behaviour, f"{_TESTS}/take_while_test.py")

Point = collections.namedtuple("Point", ["x", "y"])


@maps("A walk goes on after an element that failed, with and without parallel calls or prefetch.")
def walks_go_on_after_errors(tf: Any) -> Any:
    numbers = tf.data.Dataset.from_tensor_slices(np.float32([1, 2, np.nan, 4]))

    def checked(x: Any) -> Any:
        return tf.debugging.check_numerics(x, "not a number")

    return [
        walked(numbers.map(checked)),
        walked(numbers.map(checked, num_parallel_calls=2)),
        walked(numbers.map(checked).prefetch(2)),
        walked(numbers.map(checked, num_parallel_calls=2, deterministic=True).repeat(2)),
    ]


@maps("Iterators, tables and variables are captured by reference.")
def what_functions_capture(tf: Any) -> Any:
    other = iter(tf.data.Dataset.range(10, 14))
    words = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64)), -1
    )
    v = tf.Variable(0, dtype=tf.int64)
    data = tf.data.Dataset.range(4)
    letters = tf.data.Dataset.from_tensor_slices(["b", "?", "a"])
    return [
        elements(data.map(lambda x: x * other.get_next())),
        elements(letters.map(words.lookup)),
        elements(data.map(lambda x: v.assign_add(x))),
        value(v),
    ]


@maps("Random ops with a seed go on within a walk and begin anew with the next.")
def seeded_random_ops(tf: Any) -> Any:
    data = tf.data.Dataset.range(4).map(lambda x: tf.random.uniform([], seed=11))
    one, two = elements(data), elements(data)
    return [len({float(x) for x in one}), [float(x) for x in one] == [float(x) for x in two]]


@maps("Dicts, named tuples and lists come out as they were returned; a list is a tuple.")
def structures_of_results(tf: Any) -> Any:
    data = tf.data.Dataset.range(2)
    named = data.map(lambda x: Point(x, -x))
    return [
        elements(data.map(lambda x: {"b": x, "a": x + 1})),
        elements(named),
        type(next(iter(named))).__name__,
        type(named.element_spec).__name__,
        elements(data.map(lambda x: [x, tf.constant(0.5)])),
        type(next(iter(data.map(lambda x: [x, x])))).__name__,
        elements(data.map(lambda x: ([x, x], x))),
        elements(data.map(lambda x: (x,))),
    ]


@maps("A named tuple is given to a function as one argument.")
def named_tuples_as_arguments(tf: Any) -> Any:
    data = tf.data.Dataset.range(2).map(lambda x: Point(x, x + 5))
    return [
        error(lambda: elements(data.map(lambda p: p._replace(x=2 * p.y)))),
        error(lambda: elements(data.map(lambda p: p.x + p.y))),
        error(lambda: elements(data.map(lambda x, y: x + y))),
    ]


@maps("Python values and constants become tensors.")
def constants_as_results(tf: Any) -> Any:
    data = tf.data.Dataset.range(2)
    return [
        elements(data.map(lambda x: (x, "word", 3, 0.5, True, [1, 2]))),
        str(data.map(lambda x: (x, "word", 3, 0.5, True)).element_spec),
        elements(data.map(lambda x: np.float64(2))),
    ]


@maps("Sparse tensors go through functions as sparse tensors.")
def sparse_tensors_through_functions(tf: Any) -> Any:
    data = tf.data.Dataset.range(2).map(
        lambda i: tf.SparseTensor([[0, 0]], tf.reshape(i, [1]), [1, 2])
    )
    return [
        elements(data),
        elements(data.map(lambda s: tf.sparse.concat(0, [s, s]))),
        elements(data.map(tf.sparse.to_dense)),
        str(data.element_spec),
    ]


@maps("Ragged tensors go through functions as ragged tensors.")
def ragged_tensors_through_functions(tf: Any) -> Any:
    data = tf.data.Dataset.range(1, 3).map(lambda i: tf.ragged.range([i, 2 * i]))
    return [
        elements(data),
        elements(data.map(lambda r: tf.concat([r, r], 0))),
        elements(data.map(lambda r: r.row_lengths())),
        str(data.element_spec),
    ]


@maps("TensorArrays go through functions, and come out as tensors.")
def tensor_arrays_through_functions(tf: Any) -> Any:
    def made(i: Any) -> Any:
        array = tf.TensorArray(tf.int64, size=2, element_shape=[])
        return array.unstack(tf.stack([i, i + 1]))

    data = tf.data.Dataset.range(2).map(made)
    return [
        error(lambda: elements(data.map(lambda a: a.stack()))),
        error(lambda: [type(x).__name__ for x in data]),
    ]


@maps("A dataset is a result, and is walked over or flattened later.")
def datasets_as_results(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensors([1.0, 2.0, 3.0]).map(tf.data.Dataset.from_tensor_slices)
    return [elements(data), elements(data.map(lambda d: d.batch(2)).flat_map(lambda d: d))]


@maps("What cannot be a tensor is refused as a result.")
def refused_results(tf: Any) -> Any:
    data = tf.data.Dataset.range(1)
    return [
        error(lambda: data.map(lambda x: object())),
        error(lambda: data.map(lambda x: threading.Lock)),
        error(lambda: data.map(lambda x: [1, "a"])),
        error(lambda: elements(data.map(lambda x: None))),
    ]


@maps("cond, case and map_fn work in functions over elements.")
def control_flow_in_functions(tf: Any) -> Any:
    def chosen(x: Any) -> Any:
        return tf.case(
            [(x < 1, lambda: x - 10), (x < 3, lambda: tf.cond(x > 1, lambda: x * 7, lambda: x))],
            default=lambda: x * 100,
        )

    data = tf.data.Dataset.range(4)
    rows = tf.data.Dataset.from_tensors(np.arange(4))
    return [elements(data.map(chosen)), elements(rows.map(lambda r: tf.map_fn(chosen, r)))]


@maps("Python's ifs and loops over tensors are converted.")
def autograph_in_functions(tf: Any) -> Any:
    def total(n: Any) -> Any:
        found = tf.constant(0, tf.int64)
        for i in tf.range(n):
            if i % 2 == 0:
                found += i
        return found

    return elements(tf.data.Dataset.range(6).map(total))


@maps("A StopIteration in a function does not end the dataset.")
def stop_iteration_in_functions(tf: Any) -> Any:
    def stops(_: Any) -> Any:
        raise StopIteration

    data = tf.data.Dataset.range(2)
    return [
        walked(data.map(lambda x: tf.numpy_function(stops, [x], tf.int64), num_parallel_calls=n))
        for n in (None, 2)
    ]


@maps("Functions that only choose among their arguments keep names, types and shapes.")
def arguments_as_results(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices(([1, 2], ["a", "b"]))
    v = tf.Variable(42)
    return [
        elements(data.map(lambda x, y: (y, x))),
        elements(data.map(lambda x, y: x)),
        elements(data.map(lambda *parts: parts)),
        elements(data.map(lambda x, y: v)),
        elements(data.map(lambda x, y: (x, x), num_parallel_calls=3)),
    ]


@maps("A function that was decorated is called, and a constant that is not in the graph fails.")
def decorated_functions(tf: Any) -> Any:
    @tf.function
    def square(x: Any) -> Any:
        return x * x

    data = tf.data.Dataset.range(3)
    return [elements(data.map(square)), error(lambda: data.map(lambda x, y: x))]


@maps("The number of parallel calls must be positive or AUTOTUNE.")
def numbers_of_parallel_calls(tf: Any) -> Any:
    data = tf.data.Dataset.range(3)
    return [
        error(lambda: elements(data.map(lambda x: x + 1, num_parallel_calls=n)))
        for n in (-1, 0, -2, tf.constant(2))
    ]


@maps("Shapes of elements may be unknown and then differ.")
def shapes_that_differ(tf: Any) -> Any:
    data = tf.data.Dataset.range(3).map(lambda x: tf.zeros([x, 2]))
    grown = tf.data.Dataset.range(3).map(lambda x: tf.ensure_shape(tf.zeros([x, 2]), [None, 2]))
    return [[x.shape for x in elements(data)], str(data.element_spec), str(grown.element_spec)]


@flat_maps("The elements of each dataset come one after the other, in nested datasets too.")
def datasets_one_after_the_other(tf: Any) -> Any:
    data = tf.data.Dataset
    pairs = data.range(3).flat_map(lambda i: data.range(i).map(lambda j: (i, j)))
    deep = data.from_tensor_slices([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]).flat_map(
        lambda m: data.from_tensor_slices(m).flat_map(data.from_tensor_slices)
    )
    return [
        elements(pairs),
        elements(deep),
        elements(data.range(2).flat_map(lambda _: data.range(0))),
    ]


@flat_maps("The inner dataset keeps what it captures, and its errors do not end the walk.")
def captures_and_errors(tf: Any) -> Any:
    data = tf.data.Dataset

    def inner(x: Any) -> Any:
        return data.from_tensor_slices([x, -1]).map(
            lambda y: tf.debugging.check_numerics(1.0 / tf.cast(y + 1, tf.float32), "division")
        )

    return walked(data.range(2).flat_map(inner))


@flat_maps("A function that gives no dataset is refused.")
def functions_that_give_no_dataset(tf: Any) -> Any:
    data = tf.data.Dataset.range(2)
    return [
        error(lambda: data.flat_map(lambda x: x)),
        error(lambda: data.interleave(lambda x: x, cycle_length=2)),
        error(lambda: data.flat_map(lambda x: (tf.data.Dataset.range(2), x))),
    ]


@flat_maps("Sparse and ragged elements come out of inner datasets.")
def inner_sparse_elements(tf: Any) -> Any:
    rows = tf.SparseTensor([[0, 0], [1, 1], [2, 2]], [1, 2, 3], [3, 3])
    return [
        elements(
            tf.data.Dataset.from_tensors(0).flat_map(
                lambda _: tf.data.Dataset.from_tensor_slices(rows)
            )
        ),
        elements(
            tf.data.Dataset.range(1, 3).flat_map(
                lambda n: tf.data.Dataset.from_tensor_slices(tf.ragged.range([n, 2]))
            )
        ),
    ]


@interleaves("Datasets take turns in cycles and blocks; an exhausted one makes room for the next.")
def cycles_and_blocks(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices([4, 5, 6, 2])

    def repeated(x: Any) -> Any:
        return tf.data.Dataset.from_tensors(x).repeat(tf.cast(x, tf.int64))

    return [
        [int(x) for x in data.interleave(repeated, cycle, block, num_parallel_calls=calls)]
        for cycle, block in [(1, 1), (2, 1), (2, 3), (3, 2), (7, 2)]
        for calls in ((None,) if cycle == 1 else (None, min(cycle, 2)))
    ]


@interleaves("Empty datasets are passed over.")
def empty_datasets(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices([0, 2, 0, 3, 0])
    made = data.interleave(
        lambda x: tf.data.Dataset.from_tensors(x).repeat(tf.cast(x, tf.int64)), 2, 1
    )
    return [elements(made), elements(data.interleave(lambda x: tf.data.Dataset.range(0), 3))]


@interleaves("An error of one dataset comes in its turn, and the walk goes on.")
def errors_take_turns(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices(np.float32([1, np.nan, 2]))

    def checked(x: Any) -> Any:
        return (
            tf.data.Dataset.from_tensors(x)
            .map(lambda y: tf.debugging.check_numerics(y, "not a number"))
            .repeat(2)
        )

    return [walked(data.interleave(checked, 2, 1)), walked(data.interleave(checked, 2, 1, 2))]


@interleaves("Cycles, blocks and calls of nothing are refused.")
def cycles_of_nothing(tf: Any) -> Any:
    data = tf.data.Dataset.range(4)

    def made(*args: Any) -> Any:
        return elements(data.interleave(tf.data.Dataset.from_tensors, *args))

    return [
        error(lambda: made(0, 1)),
        error(lambda: made(1, 0)),
        error(lambda: made(2, 1, 0)),
        error(lambda: made(-1)),
        error(lambda: sorted(int(x) for x in made())),
        error(lambda: made(2, 1, 4)),
    ]


@filters("A predicate is given the parts of an element and keeps those for which it is true.")
def predicates(tf: Any) -> Any:
    data = tf.data.Dataset
    pairs = data.range(6).map(lambda x: {"a": x, "b": x * x})
    return [
        elements(data.range(6).filter(lambda x: x % 2 == 0)),
        elements(pairs.filter(lambda d: tf.equal(d["b"] % 3, 1))),
        elements(data.zip((data.range(4), data.range(4))).filter(lambda x, y: x + y > 3)),
        elements(data.range(3).filter(lambda x: True)),
        elements(data.range(3).filter(lambda x: False)),
    ]


@filters("A predicate must give one bool.")
def predicates_that_give_no_bool(tf: Any) -> Any:
    data = tf.data.Dataset.range(3)
    return [
        error(lambda: data.filter(lambda x: x * x)),
        error(lambda: data.filter(lambda x: (x > 1, x > 2))),
        error(lambda: data.filter(lambda x: tf.stack([x > 1, x > 2]))),
        error(lambda: elements(tf.data.Dataset.from_tensors([True]).filter(lambda x: x))),
    ]


@filters("Sparse elements are filtered, and errors of a predicate do not end the walk.")
def filters_of_other_elements(tf: Any) -> Any:
    data = tf.data.Dataset.range(3).map(
        lambda i: (tf.SparseTensor([[0]], tf.reshape(i, [1]), [1]), i)
    )
    numbers = tf.data.Dataset.from_tensor_slices(np.float32([1, np.nan, 3]))
    return [
        elements(data.filter(lambda s, i: tf.equal(i % 2, 0)).map(lambda s, i: s)),
        walked(numbers.filter(lambda x: tf.debugging.check_numerics(x, "") > 0)),
    ]


@filters("Parallel maps before a filter keep the order.")
def filters_after_parallel_maps(tf: Any) -> Any:
    data = tf.data.Dataset.range(10).map(lambda x: x * 3, num_parallel_calls=3)
    return elements(data.filter(lambda x: x % 2 == 0, name="even"))


@scans("The state is handed on, and the output may be another than the state.")
def states_handed_on(tf: Any) -> Any:
    data = tf.data.Dataset
    ones = data.from_tensors(1).repeat(6)
    return [
        elements(ones.scan([0, 1], lambda s, _: ([s[1], s[0] + s[1]], s[1]))),
        elements(data.range(4).scan((np.int64(10), 0.5), lambda s, x: ((s[0] + x, s[1] * 2), s))),
        elements(data.range(3).scan({"n": np.int64(0)}, lambda s, x: ({"n": s["n"] + x}, s["n"]))),
    ]


@scans("A state may change its shape where the spec becomes less known.")
def states_that_grow(tf: Any) -> Any:
    data = tf.data.Dataset.range(4).scan(
        ([0], 1.0), lambda s, x: ((tf.concat([s[0], s[0]], 0), s[1]), (s[0], x))
    )
    return [elements(data), str(data.element_spec)]


@scans("Another type of state and a result that is no pair are refused.")
def refused_states(tf: Any) -> Any:
    data = tf.data.Dataset.range(3)
    return [
        error(lambda: data.scan(1, lambda s, x: (tf.constant(1, tf.int64), s))),
        error(lambda: data.scan(1, lambda s, x: s)),
        error(lambda: elements(data.scan(1, lambda s, x: ((s, s), s)))),
    ]


@scans("A sparse tensor and a TensorArray may be the state.")
def composite_states(tf: Any) -> Any:
    def thin(i: Any) -> Any:
        return tf.SparseTensor([[0]], tf.reshape(i, [1]), [1])

    def written(array: Any, x: Any) -> Any:
        return array.write(array.size(), x), array.stack()

    array = tf.TensorArray(tf.int64, 0, dynamic_size=True, element_shape=[])
    data = tf.data.Dataset.range(3)
    return [
        error(
            lambda: elements(data.scan(thin(np.int64(5)), lambda s, x: (thin(s.values[0] + x), s)))
        ),
        error(lambda: elements(data.scan(array.write(0, -1), written))),
    ]


@reduces("A reduction gives the last state, in the state's structure.")
def last_states(tf: Any) -> Any:
    data = tf.data.Dataset.range(1, 5)
    return [
        value(data.reduce(np.int64(0), lambda s, x: s + x)),
        value(data.reduce((np.int64(1), 0), lambda s, x: (s[0] * x, s[1] + 1))),
        value(data.reduce({"n": 0}, lambda s, x: {"n": s["n"] + 1})),
        value(tf.data.Dataset.range(0).reduce(7, lambda s, x: s + 1)),
        value(data.map(lambda x: {"a": x}).reduce(np.int64(0), lambda s, x: s + x["a"])),
    ]


@reduces("Variables are captured, also where a function reduces, and a state may grow.")
def reductions_with_variables(tf: Any) -> Any:
    v = tf.Variable(0, dtype=tf.int64)
    data = tf.data.Dataset.range(4)

    @tf.function
    def total() -> Any:
        return data.reduce(np.int64(0), lambda s, x: s + x * v.assign_add(1))

    def grown(s: Any, x: Any) -> Any:
        return tf.concat([s, [x]], 0)

    return [value(total()), value(v), value(data.reduce(tf.zeros([0], tf.int64), grown))]


@reduces("A state of another type is refused, and an element's error is the reduction's.")
def refused_reductions(tf: Any) -> Any:
    data = tf.data.Dataset.range(3)
    numbers = tf.data.Dataset.from_tensor_slices([1.0, float("nan")])
    checked = numbers.map(lambda x: tf.debugging.check_numerics(x, ""))
    return [
        error(lambda: data.reduce(0, lambda s, x: s + 0.5)),
        error(lambda: data.reduce(0, lambda s, x: tf.cast(s, tf.int64) + x)),
        error(lambda: data.reduce(0, lambda s, x: (s, s))),
        error(lambda: checked.reduce(0.0, lambda s, x: s + x)),
    ]


@reduces("A dataset of pairs may have sparse parts, and Optionals may be the state.")
def reductions_of_sparse_elements(tf: Any) -> Any:
    data = tf.data.Dataset.range(4).map(
        lambda i: (tf.SparseTensor([[0]], tf.reshape(i, [1]), [1]), i)
    )
    return value(data.reduce(np.int64(0), lambda s, x: s + x[0].values[0] * x[1]))


@reduces("What a reduction of nothing with options gives is its first state.")
def reductions_with_options(tf: Any) -> Any:
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    data = tf.data.Dataset.range(5).with_options(options)
    return value(data.reduce(np.int64(0), lambda s, x: s + 1))


@take_while("Elements come until the predicate is false for one.")
def until_a_predicate_is_false(tf: Any) -> Any:
    data = tf.data.Dataset
    return [
        elements(data.range(10).take_while(lambda x: x < 3)),
        elements(data.range(3).take_while(lambda x: x < 0)),
        elements(data.range(3).repeat(2).take_while(lambda x: x < 5)),
        elements(data.range(3).take_while(lambda x: x < 2).repeat(2)),
        error(lambda: data.range(3).take_while(lambda x: x)),
        error(lambda: data.range(3).take_while(lambda x: tf.stack([x > 1]))),
    ]
