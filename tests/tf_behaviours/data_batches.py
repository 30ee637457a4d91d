"""Elements put together: batches, padded batches, windows, groups."""

# ruff: noqa: B023, C416, E501, RUF005, RUF015, RUF021, RUF100, SIM108, SLF001 - as users write them

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from shown_values import elements, value, walked
from tf_behaviours.registry import behaviour, error

_TESTS = "python/data/kernel_tests"
batch = functools.partial(behaviour, f"{_TESTS}/batch_test.py")
padded = functools.partial(behaviour, f"{_TESTS}/padded_batch_test.py")
rebatch = functools.partial(behaviour, f"{_TESTS}/rebatch_test.py")
unbatch = functools.partial(behaviour, f"{_TESTS}/unbatch_test.py")
window = functools.partial(behaviour, f"{_TESTS}/window_test.py")
groups = functools.partial(behaviour, f"{_TESTS}/group_by_window_test.py")
buckets = functools.partial(behaviour, f"{_TESTS}/bucket_by_sequence_length_test.py")
ragged = functools.partial(behaviour, f"{_TESTS}/ragged_batch_test.py")
sparse = functools.partial(behaviour, f"{_TESTS}/sparse_batch_test.py")


def _one_number(tf: Any, i: Any) -> Any:
    return tf.SparseTensor([[0]], tf.reshape(i, [1]), [1])


def _first_numbers(tf: Any, i: Any) -> Any:
    return tf.SparseTensor(tf.expand_dims(tf.range(i), 1), tf.fill([tf.cast(i, tf.int32)], i), [i])


def _filled(tf: Any, lengths: list[int]) -> Any:
    return tf.data.Dataset.from_tensor_slices(lengths).map(lambda n: tf.fill([n], n))


@batch("The last batch is short unless remainders are dropped, also with parallel calls.")
def remainders(tf: Any) -> Any:
    data = tf.data.Dataset.range(7)
    return [
        elements(data.batch(3, drop_remainder=drop, num_parallel_calls=calls))
        for drop in (False, True)
        for calls in (None, 1, 3)
    ]


@batch("The size of a batch is known in the shape only where remainders are dropped.")
def shapes_of_batches(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices((np.zeros([4, 3]), np.zeros([4])))
    return [
        str(data.batch(2).element_spec),
        str(data.batch(2, drop_remainder=True).element_spec),
        str(data.batch(tf.constant(2, tf.int64), drop_remainder=True).element_spec),
    ]


@batch("An empty dataset has no batch.")
def no_elements(tf: Any) -> Any:
    return [elements(tf.data.Dataset.range(0).batch(4, drop_remainder=d)) for d in (True, False)]


@batch("A batch of nothing is refused.")
def batches_of_nothing(tf: Any) -> Any:
    return [error(lambda: elements(tf.data.Dataset.range(4).batch(n))) for n in (0, -1)]


@batch("Datasets are batched as elements and unbatched again.")
def batches_of_datasets(tf: Any) -> Any:
    data = tf.data.Dataset.range(6).map(tf.data.Dataset.from_tensors).batch(4)
    return elements(data.map(lambda x: x).unbatch().flat_map(lambda x: x))


@batch("Sparse elements become a sparse tensor of one rank more, as large as the largest.")
def sparse_batches(tf: Any) -> Any:
    data = tf.data.Dataset.range(6)
    same = data.map(functools.partial(_one_number, tf)).batch(3)
    other = data.map(functools.partial(_first_numbers, tf)).batch(3)
    return [elements(same), elements(other), elements(same.batch(2))]


@batch("Elements of different shapes are refused, and the text says which.")
def different_shapes(tf: Any) -> Any:
    lengths = tf.data.Dataset.from_tensor_slices([2, 2, 5, 2]).map(tf.range)
    return [
        error(lambda: elements(lengths.batch(4)), "component 0", "[2]", "element 2", "[5]"),
        error(lambda: elements(lengths.batch(4, num_parallel_calls=2))),
        walked(lengths.batch(3)),
    ]


@batch("Ragged elements become a ragged batch, and batches of batches too.")
def ragged_batches(tf: Any) -> Any:
    data = tf.data.Dataset.range(4).map(lambda i: tf.RaggedTensor.from_tensor([[i]]))
    ranges = tf.data.Dataset.range(5).map(lambda i: tf.ragged.range(i))
    return [
        elements(data.batch(2)),
        elements(ranges.batch(3)),
        elements(data.batch(2).batch(2)),
        str(ranges.batch(3).element_spec),
    ]


@batch("A None stays beside batched components.")
def none_components(tf: Any) -> Any:
    data = tf.data.Dataset.range(4).map(lambda x: (x, None)).batch(4)
    return [elements(data), elements(data.map(lambda x, y: x)), str(data.element_spec)]


@batch("A batch may have a name, and parallel batches that need no order the same elements.")
def names_and_order(tf: Any) -> Any:
    data = tf.data.Dataset.range(8)
    loose = data.batch(2, num_parallel_calls=2, deterministic=False)
    return [
        elements(data.batch(8, name="eight")),
        sorted(int(x) for b in elements(loose) for x in b),
    ]


@padded("Each element is padded to the longest of its batch, or to the size that was asked for.")
def lengths_of_padding(tf: Any) -> Any:
    data = _filled(tf, [1, 3, 0, 2, 4])
    return [
        elements(data.padded_batch(2)),
        elements(data.padded_batch(2, padded_shapes=[None])),
        elements(data.padded_batch(2, padded_shapes=[-1], drop_remainder=True)),
        elements(data.padded_batch(3, padded_shapes=[6])),
        str(data.padded_batch(3, padded_shapes=[6], drop_remainder=True).element_spec),
    ]


@padded("An element longer than its padding is lost data.")
def too_long_for_the_padding(tf: Any) -> Any:
    return walked(_filled(tf, [5, 3, 2]).padded_batch(2, padded_shapes=[4]))


@padded("Empty elements make an empty batch.")
def empty_elements(tf: Any) -> Any:
    return [x.shape for x in elements(_filled(tf, [0, 0]).padded_batch(2, padded_shapes=[-1]))]


@padded("Padding values follow the structure; one value stands for all, None for zero or ''.")
def padding_values(tf: Any) -> Any:
    data = _filled(tf, [1, 3]).map(lambda x: (x, {"s": tf.strings.as_string(x)}))
    twice = tf.data.Dataset.zip((_filled(tf, [1, 2]), _filled(tf, [2, 1])))
    return [
        elements(data.padded_batch(2, padding_values=(-1, {"s": "<end>"}))),
        elements(data.padded_batch(2, padding_values=(-1, None))),
        elements(data.padded_batch(2, padded_shapes=([-1], {"s": [4]}))),
        elements(twice.padded_batch(2, padding_values=-7)),
    ]


@padded("Padded shapes may be lists, TensorShapes or tensors.")
def forms_of_padded_shapes(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensors(([1, 2], [[1.0]]))
    forms = [
        ([None], [None, None]),
        (tf.TensorShape([None]), tf.TensorShape([2, None])),
        (tf.constant([-1], tf.int64), tf.constant([3, -1], tf.int64)),
    ]
    found = [data.padded_batch(2, padded_shapes=form) for form in forms]
    return [[str(x.element_spec), elements(x)] for x in found]


@padded("Padded shapes that do not fit the elements are refused when they are given.")
def padded_shapes_that_do_not_fit(tf: Any) -> Any:
    data = tf.data.Dataset
    unknown = data.from_generator(lambda: iter([1]), output_types=tf.int32)
    return [
        error(lambda: data.range(4).padded_batch(2, padded_shapes=[1]), "not compatible"),
        error(lambda: data.from_tensors([1, 2, 3]).padded_batch(2, padded_shapes=[1])),
        error(lambda: data.from_tensors([1, 2]).padded_batch(2, padded_shapes=[[1, 1], [1, 1]])),
        error(
            lambda: data.from_tensors([1, 2]).padded_batch(2, padded_shapes=tf.constant([1.5, 2.0]))
        ),
        error(
            lambda: data.range(4).padded_batch(2, padded_shapes=tf.constant([1], dtype=tf.int64))
        ),
        error(lambda: unknown.padded_batch(2), "unknown rank"),
        error(lambda: data.range(4).padded_batch(2, padding_values="x")),
    ]


@padded("Sparse and ragged elements cannot be padded.")
def what_cannot_be_padded(tf: Any) -> Any:
    thin = tf.data.Dataset.from_tensors(tf.SparseTensor([[0, 0]], [4], [1, 1]))
    uneven = tf.data.Dataset.from_tensors(tf.ragged.constant([[1], [2, 3]]))
    return [error(lambda: data.padded_batch(2)) for data in (thin, uneven)]


@padded("Elements of bfloat16 and of unicode text are padded as others.")
def padding_of_other_types(tf: Any) -> Any:
    halves = tf.data.Dataset.range(3).map(lambda x: tf.cast([x], tf.bfloat16))
    words = tf.data.Dataset.from_generator(
        lambda: iter([["ø", "é"], ["ü"]]), output_types=tf.string, output_shapes=[None]
    )
    return [
        [tf.cast(x, tf.float32).numpy() for x in halves.padded_batch(3)],
        elements(words.padded_batch(2, padding_values="…")),
    ]


@rebatch("Batches of one size become batches of another, with what is left at the end.")
def other_sizes(tf: Any) -> Any:
    data = tf.data.Dataset.range(10).batch(4)
    return [
        elements(data.rebatch(3)),
        elements(data.rebatch(3, drop_remainder=True)),
        elements(data.rebatch([6])),
        elements(data.rebatch(4)),
    ]


@rebatch("A list of sizes is gone through again and again, and zeros give empty batches.")
def lists_of_sizes(tf: Any) -> Any:
    data = tf.data.Dataset.range(4).batch(4, drop_remainder=True)
    found = [[2, 1, 1], [1, 2], [0, 1], [1, 0], [1, 1, 1, 0]]
    return [elements(data.rebatch(sizes)) for sizes in found]


@rebatch("The size of new batches is known where all are equal and none is left.")
def shapes_of_new_batches(tf: Any) -> Any:
    data = tf.data.Dataset.range(8)
    known, unknown = data.batch(4, drop_remainder=True), data.batch(4)
    return [
        str(known.rebatch([2, 1, 1]).element_spec),
        str(known.rebatch([2, 2]).element_spec),
        str(known.rebatch([2, 2], drop_remainder=True).element_spec),
        str(unknown.rebatch([2, 2]).element_spec),
        str(unknown.rebatch([2, 2], drop_remainder=True).element_spec),
        str(known.rebatch(2).element_spec),
        str(data.batch(5, drop_remainder=True).rebatch([2, 2]).element_spec),
    ]


@rebatch("Components, nested batches, ragged and None components are batched anew.")
def components_of_batches(tf: Any) -> Any:
    data = tf.data.Dataset.range(4)
    nested = data.map(lambda x: {"a": x, "b": {"c": x + 1}}).batch(4)
    lengths = tf.data.Dataset.from_tensor_slices(
        tf.RaggedTensor.from_row_lengths([1, 2, 3, 4, 5, 6], [1, 2, 0, 3])
    )
    return [
        elements(nested.rebatch(2)),
        elements(data.batch(2).batch(2).rebatch(1)),
        elements(lengths.batch(4).map(lambda x: x).rebatch(2)),
        error(lambda: str(data.map(lambda x: (x, None)).batch(4).rebatch(2).element_spec)),
        [x.shape for x in data.map(lambda x: tf.zeros([3, 0])).batch(2).rebatch(4)],
    ]


@unbatch("The first axis of each component is taken apart.")
def axes_taken_apart(tf: Any) -> Any:
    data = tf.data.Dataset
    several = data.from_tensor_slices(
        (np.arange(4), np.arange(8).reshape(4, 2), ["a", "b", "c", "d"])
    )
    return [
        elements(data.range(5).batch(2).unbatch()),
        elements(several.batch(3).unbatch()),
        str(several.batch(3).unbatch().element_spec),
        elements(data.from_tensors(tf.zeros([0, 2])).unbatch()),
    ]


@unbatch("Components of different first sizes are refused; scalars when they are given.")
def what_cannot_be_taken_apart(tf: Any) -> Any:
    data = tf.data.Dataset
    uneven = data.from_tensors(([1, 2], [1, 2, 3]))
    unknown = data.from_tensors(1).map(
        lambda x: (
            tf.py_function(lambda: [1, 2], [], tf.int32),
            tf.py_function(lambda: [1], [], tf.int32),
        )
    )
    return [
        error(lambda: elements(uneven.unbatch())),
        error(lambda: elements(unknown.unbatch())),
        error(lambda: data.range(3).unbatch()),
    ]


@unbatch("Sparse and ragged batches are taken apart.")
def sparse_and_ragged_parts(tf: Any) -> Any:
    thin = tf.data.Dataset.range(3).map(functools.partial(_one_number, tf))
    uneven = tf.data.Dataset.from_tensors(tf.ragged.constant([[1, 2], [], [3]]))
    return [
        elements(thin.batch(2).unbatch()),
        elements(uneven.unbatch()),
        str(uneven.unbatch().element_spec),
    ]


@unbatch("The cardinality is known where the batch's size is.")
def cardinality_of_parts(tf: Any) -> Any:
    data = tf.data.Dataset.range(6)
    return [
        int(data.batch(2, drop_remainder=True).unbatch().cardinality()),
        int(data.batch(2).unbatch().cardinality()),
    ]


@window("Windows have size, shift and stride, and may leave out short ones.")
def sizes_shifts_and_strides(tf: Any) -> Any:
    data = tf.data.Dataset.range(7)
    found = []
    for size, shift, stride in [(3, 1, 1), (3, 2, 2), (2, 3, 1), (4, None, 1), (10, 4, 1)]:
        for drop in (False, True):
            windows = data.window(size, shift=shift, stride=stride, drop_remainder=drop)
            found.append(elements(windows.flat_map(lambda w: w.batch(10))))
    return found


@window("Sizes, shifts and strides of nothing are refused.")
def windows_of_nothing(tf: Any) -> Any:
    data = tf.data.Dataset.range(4)
    return [
        error(lambda: elements(data.window(size, shift=shift, stride=stride)))
        for size, shift, stride in [(0, 1, 1), (1, 0, 1), (1, 1, 0)]
    ]


@window("Each component has a window of its own, in the structure of the elements.")
def windows_of_structures(tf: Any) -> Any:
    data = tf.data.Dataset
    return [
        elements(data.from_tensor_slices(([1, 2, 3], [4, 5, 6])).window(2)),
        elements(data.from_tensor_slices({"a": [1, 2]}).window(2)),
        str(data.from_tensor_slices({"a": [1, 2]}).window(2).element_spec),
    ]


@window("Windows hold sparse elements, and errors of single elements leave them out.")
def windows_of_other_elements(tf: Any) -> Any:
    thin = tf.data.Dataset.range(5).map(functools.partial(_one_number, tf))
    numbers = tf.data.Dataset.from_tensor_slices([1.0, float("nan"), 2.0, 3.0])
    checked = numbers.map(lambda x: tf.debugging.check_numerics(x, "not a number"))
    return [
        elements(thin.window(3, shift=2, drop_remainder=True).flat_map(lambda w: w.batch(3))),
        walked(checked.window(2).flat_map(lambda w: w.batch(2))),
    ]


@window("A batch of windows that were batched has three axes; a name is taken.")
def batches_of_windows(tf: Any) -> Any:
    data = tf.data.Dataset.range(9).window(3, drop_remainder=True, name="w")
    return elements(data.flat_map(lambda w: w.batch(3)).batch(2))


@groups("Elements of a key are collected until the window is full; the rest comes in key order.")
def full_windows_first(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices(np.array([0, 1, 0, 1, 1, 2, 0, 1, 0, 2]))
    return elements(data.group_by_window(lambda x: x, lambda k, w: w.batch(3), window_size=3))


@groups("The window's size may depend on the key.")
def sizes_by_key(tf: Any) -> Any:
    data = tf.data.Dataset.range(12)
    return elements(
        data.group_by_window(
            lambda x: x % 2,
            lambda k, w: w.batch(10),
            window_size_func=lambda k: tf.constant([2, 4], tf.int64)[k],
        )
    )


@groups("What reduces a window is given its key and may read the window twice.")
def windows_read_twice(tf: Any) -> Any:
    data = tf.data.Dataset.range(6).map(lambda x: tf.fill([tf.cast(x, tf.int32)], x))

    def reduced(key: Any, group: Any) -> Any:
        return tf.data.Dataset.zip(
            (
                tf.data.Dataset.from_tensors(key),
                group.padded_batch(3, padded_shapes=[None]),
                group.padded_batch(3, padded_shapes=tf.reshape(10 * (key + 1), [1])),
            )
        )

    return elements(
        data.group_by_window(lambda x: tf.cast(tf.size(x) // 3, tf.int64), reduced, window_size=3)
    )


@groups("An endless dataset gives each window as soon as it is full.")
def endless_groups(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices(np.array([0, 0, 1, 1, 2, 2, 0, 0])).repeat()
    grouped = data.group_by_window(lambda x: x, lambda k, w: w.batch(2), window_size=2)
    return elements(grouped.take(9))


@groups("Sizes of zero, both sizes and keys of another type are refused.")
def refused_groups(tf: Any) -> Any:
    data = tf.data.Dataset.range(4)

    def grouped(**given: Any) -> Any:
        given = {"key_func": lambda x: x, "reduce_func": lambda k, w: w, **given}
        return elements(data.group_by_window(**given))

    return [
        error(lambda: grouped(window_size=0)),
        error(lambda: grouped()),
        error(lambda: grouped(window_size=1, window_size_func=lambda k: k + 1)),
        error(lambda: grouped(window_size=1, key_func=lambda x: tf.cast(x, tf.float32))),
        error(lambda: grouped(window_size=1, key_func=lambda x: tf.stack([x, x]))),
        error(lambda: grouped(window_size=1, reduce_func=lambda k, w: k)),
        error(lambda: grouped(window_size=1, key_func=lambda x: 0)),
    ]


@buckets("Each bucket has its own size, and elements are padded to the longest of a batch.")
def sizes_of_buckets(tf: Any) -> Any:
    data = _filled(tf, [1, 5, 2, 7, 3, 1, 8, 2])
    given = {"element_length_func": lambda x: tf.shape(x)[0], "bucket_boundaries": [3, 6]}
    return [
        elements(data.bucket_by_sequence_length(**given, bucket_batch_sizes=[2, 2, 2])),
        elements(
            data.bucket_by_sequence_length(
                **given, bucket_batch_sizes=[2, 2, 2], drop_remainder=True, padding_values=-1
            )
        ),
    ]


@buckets("Padding to the boundary fills each batch up, and longer elements are refused.")
def padding_to_boundaries(tf: Any) -> Any:
    given = {
        "element_length_func": lambda x: tf.shape(x)[0],
        "bucket_boundaries": [3, 6],
        "bucket_batch_sizes": [2, 2, 2],
        "pad_to_bucket_boundary": True,
    }
    return [
        elements(_filled(tf, [1, 2, 4, 5]).bucket_by_sequence_length(**given)),
        walked(_filled(tf, [1, 2, 4, 9]).bucket_by_sequence_length(**given), 3),
        error(
            lambda: _filled(tf, [1]).bucket_by_sequence_length(
                lambda x: 1, bucket_boundaries=[3], bucket_batch_sizes=[2]
            )
        ),
    ]


@buckets("Without padding, elements of a batch have the lengths they have.")
def buckets_without_padding(tf: Any) -> Any:
    data = _filled(tf, [2, 2, 5, 5])
    given = {"element_length_func": lambda x: tf.shape(x)[0], "bucket_boundaries": [3]}
    return elements(
        data.bucket_by_sequence_length(**given, bucket_batch_sizes=[2, 2], no_padding=True)
    )


@ragged("Elements of different lengths make a ragged batch.")
def ragged_batch_of_tensors(tf: Any) -> Any:
    data = _filled(tf, [1, 3, 0, 2])
    return [
        elements(data.ragged_batch(3)),
        elements(data.ragged_batch(3, drop_remainder=True)),
        elements(data.ragged_batch(2, row_splits_dtype=tf.int32)),
        str(data.ragged_batch(2, row_splits_dtype=tf.int32).element_spec),
        str(tf.data.Dataset.range(3).ragged_batch(2).element_spec),
        elements(tf.data.Dataset.range(3).ragged_batch(2)),
        elements(data.map(lambda x: {"a": x, "b": tf.size(x)}).ragged_batch(2)),
    ]


@sparse("Elements of different lengths make a sparse batch of the shape that was given.")
def sparse_batch_of_tensors(tf: Any) -> Any:
    data = _filled(tf, [1, 3, 0, 2])
    return [
        elements(data.sparse_batch(2, [4])),
        error(lambda: elements(data.sparse_batch(2, [2]))),
        error(lambda: elements(data.sparse_batch(2, [2, 2]))),
    ]


@batch("Elements of a dataset can be asked for by their index.")
def elements_by_index(tf: Any) -> Any:
    data = tf.data.Dataset.range(5).batch(2)
    at = tf.data.experimental.at
    return [
        [value(at(data, i)) for i in range(3)],
        error(lambda: at(data, 3)),
        error(lambda: at(data, -1)),
    ]
