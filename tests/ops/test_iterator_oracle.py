"""Iterators that TensorFlow's client builds do the same on a server of ours as on TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from ops.dataset_harness import Failure, check, server

tensorflow = pytest.importorskip("tensorflow")
tf = tensorflow.compat.v1
pytestmark = pytest.mark.tensorflow

D = tf.data.Dataset


class Steps:
    """A session whose steps give values, or the classes of errors."""

    def __init__(self, target):
        config = tf.ConfigProto(operation_timeout_in_ms=20_000)
        self.session = tf.Session(target, config=config)

    def __call__(self, fetches, feeds=None):
        try:
            return self.session.run(fetches, feeds)
        except tf.errors.OpError as error:
            return Failure(error)


def both(program):
    """Return what a program of steps gives, which is the same on TensorFlow and on our server."""
    found = []
    for target in ("", server().target):
        with tf.Graph().as_default():
            tf.set_random_seed(3)
            steps = Steps(target)
            found.append(program(steps))
            steps.session.close()
    theirs, ours = (named(one) for one in found)
    assert str(ours) == str(theirs)
    return [plain(one) for one in ours]


def named(found):
    """Return the steps' results with the classes of errors as plain strings."""
    return [str(one) if isinstance(one, Failure) else one for one in found]


def plain(result):
    """Return a result with Python's numbers and lists in place of NumPy's."""
    if isinstance(result, (list, tuple)):
        return type(result)(plain(one) for one in result)
    return result.tolist() if isinstance(result, (np.ndarray, np.generic)) else result


END = "OutOfRangeError"


def test_one_shot():
    found = check(tf, lambda: D.range(4).map(lambda x: x + 1).batch(3), one_shot=True)
    assert [plain(one) for one in found] == [[1, 2, 3], [4], "the end"]


def test_the_end_stays_the_end():
    def program(run):
        iterator = tf.data.make_initializable_iterator(D.range(1))
        element = iterator.get_next()
        return [run(fetch) for fetch in (iterator.initializer, *[element] * 3)]

    assert both(program) == [None, 0, END, END]


def test_an_iterator_that_was_not_initialized():
    def program(run):
        element = tf.data.make_initializable_iterator(D.range(3)).get_next()
        return [run(element)]

    assert both(program) == ["FailedPreconditionError"]


def test_an_iterator_can_be_begun_again_with_what_is_fed():
    def program(run):
        rows = tf.placeholder(tf.float32, [None, 2])
        iterator = tf.data.make_initializable_iterator(D.from_tensor_slices(rows).repeat(2))
        element = iterator.get_next()
        found = []
        for count in (2, 0, 1):
            value = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
            found.append(run(iterator.initializer, {rows: value}))
            found += [run(element) for _ in range(2 * count + 1)]
        return found

    twice = [[0, 1], [2, 3]] * 2
    assert both(program) == [None, *twice, END, None, END, None, [0, 1], [0, 1], END]


def test_an_iterator_for_several_datasets():
    def program(run):
        first, second = D.range(3), D.range(10, 12).map(lambda x: -x)
        iterator = tf.data.Iterator.from_structure(tf.int64, [])
        begin = [iterator.make_initializer(dataset) for dataset in (first, second)]
        element = iterator.get_next()
        return [run(one) for one in (begin[0], element, begin[1], element, element, element,
                                     begin[0], element)]  # fmt: skip

    assert both(program) == [None, 0, None, -10, -11, END, None, 0]


def test_datasets_of_other_types_and_shapes_are_refused():
    def program(run):
        handle = tensorflow.raw_ops.IteratorV2(
            shared_name="", container="", output_types=[tf.int64], output_shapes=[[2]]
        )
        found = []
        for dataset in (D.range(3), D.from_tensors("a"), D.zip((D.range(1), D.range(2)))):
            begin = tensorflow.raw_ops.MakeIterator(
                dataset=dataset._variant_tensor, iterator=handle
            )
            found.append(run(begin))
        return found

    assert both(program) == ["InvalidArgumentError"] * 3


def test_get_next_of_other_types_is_refused():
    def program(run):
        iterator = tf.data.make_initializable_iterator(D.range(3))
        wrong = tensorflow.raw_ops.IteratorGetNext(
            iterator=iterator._iterator_resource, output_types=[tf.int32], output_shapes=[[]]
        )
        return [run(iterator.initializer), run(wrong), run(iterator.get_next())]

    # It takes its element all the same.
    assert both(program) == [None, "InvalidArgumentError", 1]


def test_an_iterator_chosen_by_its_handle():
    def program(run):
        first = tf.data.make_one_shot_iterator(D.range(3))
        second = tf.data.make_initializable_iterator(D.range(10, 12))
        handle = tf.placeholder(tf.string, [])
        element = tf.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
        names = [run(first.string_handle()), run(second.string_handle())]
        found = [run(second.initializer)]
        for index in (0, 1, 1, 0, 1):
            found.append(run(element, {handle: names[index]}))
        found.append(run(element, {handle: "nonsense"}))
        other = tf.data.Iterator.from_string_handle(handle, tf.string, []).get_next()
        found.append(run(other, {handle: names[0]}))
        return found

    assert both(program) == [None, 0, 10, 11, 1, END, *["InvalidArgumentError"] * 2]


def test_optionals():
    def program(run):
        iterator = tf.data.make_initializable_iterator(D.range(2))
        optional = tf.data.experimental.get_next_as_optional(iterator)
        has = optional.has_value()
        value = tf.cond(has, optional.get_value, lambda: np.int64(-1))
        made = tf.data.experimental.Optional.from_value((tf.constant(3), tf.constant(["a", "b"])))
        none = tf.data.experimental.Optional.empty(tf.TensorSpec([], tf.int32))
        found = [run(iterator.initializer)]
        found += [run([has, value]) for _ in range(3)]
        found += [run([made.has_value(), made.get_value()]), run(none.has_value())]
        return [*found, run(none.get_value())]

    assert both(program) == [
        None, [True, 0], [True, 1], [False, -1], [True, (3, [b"a", b"b"])], False,
        "InvalidArgumentError",
    ]  # fmt: skip


def test_sizes_and_single_elements():
    def program(run):
        size = tf.data.experimental.cardinality
        sizes = [
            D.range(7), D.range(7).take(3), D.range(7).skip(3), D.range(7).repeat(),
            D.range(7).repeat(2), D.range(7).batch(3), D.range(7).batch(3, drop_remainder=True),
            D.range(7).filter(lambda x: x > 2), D.range(7).map(lambda x: x), D.range(7).shard(3, 0),
            D.range(7).shuffle(3), D.range(7).prefetch(1), D.range(7).window(3, 2, 1, True),
            D.zip((D.range(7), D.range(3))), D.range(7).concatenate(D.range(2)),
            D.range(7).repeat().take(3), D.range(7).repeat(0), D.range(7).unique(),
            D.range(0).repeat(), D.range(7).batch(3).unbatch(), D.from_tensors(1),
            D.range(7).flat_map(lambda x: D.range(x)), D.range(7).cache(),
            D.range(7).padded_batch(2, []), D.range(7).take(-1), D.range(7).skip(-1),
            tf.data.experimental.RandomDataset(1), D.range(7).window(3, 2),
        ]  # fmt: skip
        found = [run(size(dataset)) for dataset in sizes]
        single = tf.data.experimental.get_single_element
        for dataset in (D.range(1), D.range(2), D.range(0), D.from_tensors((1, "a"))):
            found.append(run(single(dataset)))
        return found

    *sizes, one, too_many, too_few, pair = both(program)
    assert sizes == [
        7, 3, 4, -1, 14, 3, 2, -2, -2, 3, 7, 7, 3, 3, 9, 3, 0, -2, 0, -2, 1, -2, 7, 4, 7, 0, -1, 4,
    ]  # fmt: skip
    assert (one, pair) == (0, (1, b"a"))
    assert (too_many, too_few) == ("InvalidArgumentError", "InvalidArgumentError")


def test_reducing():
    def program(run):
        captured = tf.constant(2, tf.int64) * 5
        total = D.range(5).reduce((np.int64(0), ""), lambda s, x: (
            s[0] + x * captured, tf.strings.join([s[1], tf.as_string(x)])))  # fmt: skip
        empty = D.range(0).reduce(np.int64(7), lambda s, x: s + x)
        failing = D.range(3).map(lambda x: tf.debugging.check_numerics(
            1 / tf.cast(x - 1, tf.float32), "inf")).reduce(0.0, lambda s, x: s + x)  # fmt: skip
        return [run(total), run(empty), run(failing)]

    assert both(program) == [(100, b"01234"), 7, "InvalidArgumentError"]


def test_batch_sizes():
    def program(run):
        datasets = [
            D.range(7), D.range(7).batch(3), D.range(7).batch(3).prefetch(1).repeat(2),
            D.range(7).batch(3).map(lambda x: x), D.range(7).padded_batch(2, []).take(1),
            D.range(7).batch(3).shuffle(2).skip(1), D.range(7).batch(3).unbatch(),
            D.range(7).batch(3).filter(lambda x: True), D.range(8).batch(4).batch(2),
        ]  # fmt: skip
        return [
            run(tensorflow.raw_ops.ComputeBatchSize(input_dataset=dataset._variant_tensor))
            for dataset in datasets
        ]

    assert both(program) == [-1, 3, 3, -1, 2, 3, -1, 3, 2]


def test_two_iterators_over_one_cache_and_one_variable():
    def program(run):
        v = tf.get_variable("v", initializer=np.int64(3), use_resource=True)
        dataset = D.range(3).map(lambda x: x + v).cache()
        first, second = (tf.data.make_initializable_iterator(dataset) for _ in range(2))
        found = [run(v.initializer), run([first.initializer, second.initializer])]
        return found + [run([first.get_next(), second.get_next()]) for _ in range(4)]

    assert both(program) == [None, [None, None], [3, 3], [4, 4], [5, 5], END]


def test_a_random_op_in_a_map_begins_anew_with_each_iterator():
    def program(run):
        dataset = D.range(3).map(lambda x: tf.random.uniform([], seed=5))
        iterator = tf.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
        found = []
        for _ in range(2):
            found.append(run(iterator.initializer))
            found += [run(element) for _ in range(3)]
        return found

    found = both(program)
    first, second = found[:4], found[4:]
    assert first == second
    assert len(set(first)) == 4


def test_shared_names():
    def program(run):
        iterator = tf.data.make_initializable_iterator(D.range(5), shared_name="shared_by_test")
        element = iterator.get_next()
        return [run(iterator.initializer), run(element)]

    assert both(program) == [None, 0]
    with tf.Graph().as_default():
        iterator = tf.data.make_initializable_iterator(D.range(5), shared_name="shared_by_test")
        element = iterator.get_next()
        assert Steps(server().target)(element) == 1
