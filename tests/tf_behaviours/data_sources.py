"""Where elements come from: tensors, generators, ranges, random numbers, files."""

from __future__ import annotations

import collections
import functools
import gzip
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from shown_values import elements, value, walked
from tf_behaviours.registry import behaviour, error

_TESTS = "python/data/kernel_tests"
tensors = functools.partial(behaviour, f"{_TESTS}/from_tensors_test.py")
slices = functools.partial(behaviour, f"{_TESTS}/from_tensor_slices_test.py")
generators = functools.partial(behaviour, f"{_TESTS}/from_generator_test.py")
ranges = functools.partial(behaviour, f"{_TESTS}/range_test.py")
randoms = functools.partial(behaviour, f"{_TESTS}/random_test.py")
counters = functools.partial(behaviour, f"{_TESTS}/counter_test.py")
file_lists = functools.partial(behaviour, f"{_TESTS}/list_files_test.py")
text_lines = functools.partial(behaviour, f"{_TESTS}/text_line_dataset_test.py")
fixed_lengths = functools.partial(behaviour, f"{_TESTS}/fixed_length_record_dataset_test.py")
records = functools.partial(behaviour, f"{_TESTS}/tf_record_dataset_test.py")
saving = functools.partial(behaviour, f"{_TESTS}/io_test.py")
snapshots = functools.partial(behaviour, f"{_TESTS}/snapshot_test.py")

Point = collections.namedtuple("Point", ["x", "y"])


@tensors("A structure of tensors is one element; lists are tensors.")
def one_element(tf: Any) -> Any:
    data = tf.data.Dataset
    made = data.from_tensors((np.array([1, 2]), {"a": "x", "b": [0.5]}))
    return [
        elements(made),
        str(made.element_spec),
        elements(data.from_tensors([1, 2, 3])),
        elements(data.from_tensors(Point(1, [2]))),
        str(data.from_tensors([[1, 2], [3, 4]]).element_spec),
    ]


@tensors("Sparse and ragged tensors, and datasets, are elements.")
def composite_elements(tf: Any) -> Any:
    data = tf.data.Dataset
    thin = tf.SparseTensor([[0, 1]], [5], [2, 2])
    uneven = tf.ragged.constant([[1, 2], [3]])
    return [
        elements(data.from_tensors(thin)),
        elements(data.from_tensors((thin, {"r": uneven}))),
        str(data.from_tensors((thin, uneven)).element_spec),
        elements(data.from_tensors(data.range(3))),
        elements(data.from_tensors(data.range(3)).flat_map(lambda d: d)),
        elements(data.from_tensors((42, None))),
    ]


@tensors("Elements go through a function's filter and zip in mixed structures.")
def mixed_structures(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensors((tf.SparseTensor([[0]], [1], [1]), np.arange(3)))
    return [
        elements(data.map(lambda s, d: (d, s))),
        elements(data.repeat(2).take(1).skip(0).shuffle(2)),
        error(lambda: tf.data.Dataset.from_tensors(object())),
    ]


@slices("Components are cut along the first axis, which all must share.")
def cut_along_the_first_axis(tf: Any) -> Any:
    data = tf.data.Dataset
    return [
        elements(data.from_tensor_slices((np.arange(4).reshape(2, 2), ["a", "b"]))),
        elements(data.from_tensor_slices({"a": [1, 2], "b": [[1.0], [2.0]]})),
        str(data.from_tensor_slices({"a": [1, 2], "b": [[1.0], [2.0]]}).element_spec),
        elements(data.from_tensor_slices([])),
        str(data.from_tensor_slices([]).element_spec),
        error(lambda: data.from_tensor_slices(([1, 2], [1, 2, 3]))),
        error(lambda: data.from_tensor_slices(5)),
        error(lambda: data.from_tensor_slices(())),
        elements(data.from_tensor_slices(Point([1, 2], [3, 4]))),
    ]


@slices("Rows of sparse and ragged tensors are elements.")
def rows_of_composites(tf: Any) -> Any:
    data = tf.data.Dataset
    thin = tf.SparseTensor([[0, 0], [1, 1], [2, 0]], [1, 2, 3], [3, 2])
    uneven = tf.ragged.constant([[1, 2], [], [3]])
    deep = tf.ragged.constant([[[1], [2, 3]], [[4]]])
    return [
        elements(data.from_tensor_slices(thin)),
        elements(data.from_tensor_slices((thin, [7, 8, 9]))),
        elements(data.from_tensor_slices(uneven)),
        elements(data.from_tensor_slices(deep)),
        str(data.from_tensor_slices((thin, uneven)).element_spec),
        str(data.from_tensor_slices(deep).element_spec),
    ]


@slices("A list of datasets is a dataset of datasets.")
def lists_of_datasets(tf: Any) -> Any:
    data = tf.data.Dataset
    made = data.from_tensor_slices([data.range(2), data.range(5, 7)])
    return [elements(made), elements(made.flat_map(lambda d: d)), str(made.element_spec)]


@slices("Unsigned and small types, and a name, are kept.")
def small_types(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices(
        tuple(np.array([1, 2], t) for t in (np.uint8, np.int16, np.float16, np.bool_)), name="n"
    )
    return [elements(data), str(data.element_spec)]


@generators("A generator is called again for each walk and each repetition.")
def generators_called_again(tf: Any) -> Any:
    calls = []

    def numbers() -> Any:
        calls.append(len(calls))
        yield from (1, 2)

    data = tf.data.Dataset.from_generator(numbers, output_types=tf.int64)
    found = [elements(data.repeat(2)), elements(data)]
    return [found, len(calls), str(data.element_spec)]


@generators("Lists, arrays and generator expressions may be what is walked over.")
def iterables(tf: Any) -> Any:
    made = tf.data.Dataset.from_generator
    return [
        elements(made(lambda: [[1, 2], [3]], tf.int32)),
        elements(made(lambda: np.arange(3), tf.int64)),
        elements(made(lambda: (i * i for i in range(3)), tf.int64)),
        error(lambda: made([1, 2], tf.int32)),
        error(lambda: elements(made(lambda: 5, tf.int32))),
    ]


@generators("Values are converted to the type that was given, as text too.")
def converted_values(tf: Any) -> Any:
    made = tf.data.Dataset.from_generator
    return [
        elements(made(lambda: iter([[1], [2]]), kind, [1])) for kind in (tf.int8, tf.float32)
    ] + [elements(made(lambda: iter(["a", b"b", "ü"]), tf.string, []))]


@generators("A value of another type, shape or structure fails alone, and the walk goes on.")
def values_that_fail(tf: Any) -> Any:
    made = tf.data.Dataset.from_generator
    return [
        walked(made(lambda: iter([[1, 2], "x", [3, 4]]), tf.int64, [2])),
        walked(made(lambda: iter([[1, 2], [1, 2, 3], [3, 4]]), tf.int64, [2])),
        walked(made(lambda: iter([(1, 2), 5, (1, 2, 3), (3, 4)]), (tf.int64, tf.int64))),
        walked(made(lambda: iter([1, [2, 3]]), tf.int64)),
    ]


@generators("An exception of the generator is the walk's error, and ends it.")
def exceptions_of_generators(tf: Any) -> Any:
    def fails() -> Any:
        yield 1
        raise ValueError("no more")

    return walked(tf.data.Dataset.from_generator(fails, tf.int64), 4)


@generators("A generator is closed where the walk ends early.")
def generators_are_closed(tf: Any) -> Any:
    closed = []

    class Numbers:
        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            return 42

        def __del__(self) -> None:
            closed.append(1)

    data = tf.data.Dataset.from_generator(Numbers, tf.int64).take(2)
    return [elements(data), len(closed)]


@generators("Arguments are tensors, which come as arrays, of an outer element too.")
def arguments_of_generators(tf: Any) -> Any:
    def repeated(n: Any, word: Any) -> Any:
        for i in range(n):
            yield i, word

    def inner(n: Any) -> Any:
        return tf.data.Dataset.from_generator(
            repeated, (tf.int64, tf.string), ([], []), args=(n, "w")
        )

    kinds = []

    def kind(x: Any) -> Any:
        kinds.append(type(x).__name__)
        yield 1

    elements(tf.data.Dataset.from_generator(kind, tf.int32, args=(3,)))
    return [elements(tf.data.Dataset.range(3).flat_map(inner)), kinds]


@generators("A signature may have structures, sparse and ragged elements.")
def signatures(tf: Any) -> Any:
    made = tf.data.Dataset.from_generator
    word = {"a": tf.TensorSpec([], tf.int32), "b": tf.TensorSpec([None], tf.string)}
    uneven = tf.ragged.constant([[1], [2, 3]])
    thin = tf.SparseTensor([[0]], [1], [2])
    return [
        elements(made(lambda: iter([{"a": 1, "b": ["x"]}]), output_signature=word)),
        error(
            lambda: elements(
                made(
                    lambda: iter([uneven]),
                    output_signature=tf.RaggedTensorSpec([None, None], tf.int32),
                )
            )
        ),
        error(
            lambda: elements(
                made(lambda: iter([thin]), output_signature=tf.SparseTensorSpec([None], tf.int32))
            )
        ),
        error(lambda: made(lambda: iter([1]))),
        error(
            lambda: made(lambda: iter([1]), tf.int32, output_signature=tf.TensorSpec([], tf.int32))
        ),
    ]


@ranges("A range has start, stop and step, as Python's.")
def starts_stops_and_steps(tf: Any) -> Any:
    data = tf.data.Dataset.range
    return [
        [int(x) for x in data(*args)]
        for args in [(4,), (0,), (-2,), (2, 5), (5, 2), (2, 9, 3), (9, 2, -3), (2, 9, -1)]
    ]


@ranges("A step of zero is refused; other types may be asked for.")
def steps_and_types(tf: Any) -> Any:
    data = tf.data.Dataset.range
    return [
        error(lambda: elements(data(2, 5, 0))),
        elements(data(3, output_type=tf.float32)),
        elements(data(3, output_type=tf.uint8)),
        error(lambda: elements(data(3, output_type=tf.string))),
        error(lambda: data()),
        error(lambda: data(1, 2, 3, 4)),
        str(data(3, output_type=tf.int32).element_spec),
        int(data(3, 10, 2).cardinality()),
    ]


@randoms("A random dataset with a seed gives the same numbers in each walk, as TensorFlow's.")
def seeded_random_datasets(tf: Any) -> Any:
    data = tf.data.Dataset.random(seed=4).take(3)
    return [elements(data), elements(data), str(data.element_spec)]


@randoms("One that begins anew for each walk gives other numbers.")
def random_datasets_that_begin_anew(tf: Any) -> Any:
    data = tf.data.Dataset.random(seed=4, rerandomize_each_iteration=True).take(3)
    one, two = elements(data), elements(data)
    return [one == two, int(tf.data.Dataset.random().cardinality())]


@counters("A counter has start and step and no end.")
def counters_without_end(tf: Any) -> Any:
    data = tf.data.Dataset.counter
    return [
        elements(data().take(3)),
        elements(data(start=5, step=-2).take(3)),
        elements(data(start=2, dtype=tf.int32).take(2)),
        elements(tf.data.experimental.Counter(3, 2).take(2)),
    ]


def _write(folder: str, **files: bytes) -> list[str]:
    for name, content in files.items():
        Path(folder, name).write_bytes(content)
    return [str(Path(folder, name)) for name in files]


@file_lists("Files that match patterns are listed, in order unless they are shuffled.")
def files_that_match(tf: Any, folder: str) -> Any:
    _write(folder, a_txt=b"", b_txt=b"", c_py=b"")

    def names(pattern: Any, **given: Any) -> Any:
        found = tf.data.Dataset.list_files(pattern, **given)
        return [os.path.basename(x.decode()) for x in found.as_numpy_iterator()]

    return [
        names(f"{folder}/*", shuffle=False),
        names(f"{folder}/*_txt", shuffle=False),
        names([f"{folder}/c*", f"{folder}/a*"], shuffle=False),
        sorted(names(f"{folder}/*")),
        names(f"{folder}/*", seed=3) == names(f"{folder}/*", seed=3),
        sorted(set(names(f"{folder}/*", shuffle=True))),
        error(lambda: names(f"{folder}/none*"), "No files matched"),
        names([f"{folder}/none*", f"{folder}/a*"], shuffle=False),
    ]


@text_lines("Lines come without their ends, from one file after the other, also compressed.")
def lines_of_files(tf: Any, folder: str) -> Any:
    one, two, empty = _write(folder, one=b"a\nb\r\nc", two=b"\nd\n", empty=b"")
    packed, deflated = _write(folder, g=gzip.compress(b"x\ny"), z=zlib.compress(b"z\n"))
    data = tf.data.TextLineDataset
    return [
        elements(data([one, two, empty])),
        elements(data(one, buffer_size=1)),
        elements(data(packed, "GZIP")),
        elements(data(deflated, compression_type="ZLIB")),
        elements(data(tf.data.Dataset.from_tensor_slices([two, one]))),
        sorted(x.numpy() for x in data([one, two], num_parallel_reads=2)),
        error(lambda: elements(data(str(Path(folder, "none"))))),
        error(lambda: elements(data(one, compression_type="LZ"))),
        error(lambda: data(1)),
    ]


@fixed_lengths("Records of fixed length lie between header and footer.")
def records_of_fixed_length(tf: Any, folder: str) -> Any:
    one, two = _write(folder, one=b"HHaabbccF", two=b"HHddF")
    (packed,) = _write(folder, g=gzip.compress(b"HHaabbF"))
    data = tf.data.FixedLengthRecordDataset
    given = {"record_bytes": 2, "header_bytes": 2, "footer_bytes": 1}
    return [
        elements(data([one, two], **given)),
        elements(data(one, **given, buffer_size=3)),
        elements(data(packed, **given, compression_type="GZIP")),
        error(lambda: elements(data(one, record_bytes=4, header_bytes=2, footer_bytes=1))),
        error(lambda: elements(data(one, record_bytes=0))),
        sorted(x.numpy() for x in data([one, two], **given, num_parallel_reads=2)),
    ]


@records("Records come from one file after the other, also compressed or read in parallel.")
def records_of_files(tf: Any, folder: str) -> Any:
    names = []
    for i, kind in enumerate(["", "", "GZIP", "ZLIB"]):
        names.append(str(Path(folder, str(i))))
        with tf.io.TFRecordWriter(names[-1], kind) as writer:
            for j in range(2):
                writer.write(f"{i}{j}".encode())
    data = tf.data.TFRecordDataset
    cut = Path(folder, "cut")
    cut.write_bytes(Path(names[0]).read_bytes()[:-3])
    return [
        elements(data(names[:2])),
        elements(data(names[2], "GZIP")),
        elements(data(names[3], "ZLIB", buffer_size=2)),
        elements(data(names[:2], num_parallel_reads=2)),
        elements(data(tf.data.Dataset.from_tensor_slices(names[:2]))),
        walked(data(str(cut)), 4),
        error(lambda: elements(data(str(Path(folder, "none"))))),
        error(lambda: data([1])),
        error(lambda: data(tf.data.Dataset.range(2))),
        str(data(names[0]).element_spec),
    ]


@saving("A dataset is saved and loaded, with its structure, in its order.")
def saved_and_loaded(tf: Any, folder: str) -> Any:
    data = tf.data.Dataset.range(5).map(lambda x: {"a": x, "b": tf.fill([2], 0.5)})
    path = str(Path(folder, "data"))
    data.save(path)
    loaded = tf.data.Dataset.load(path)
    return [
        elements(loaded),
        [(name, str(spec)) for name, spec in sorted(loaded.element_spec.items())],
        elements(tf.data.Dataset.load(path, element_spec=data.element_spec).take(1)),
        int(loaded.cardinality()),
        error(lambda: elements(tf.data.Dataset.load(str(Path(folder, "none"))))),
    ]


@saving("Elements are divided among shards, and a reader function puts the shards together.")
def shards_of_saved_datasets(tf: Any, folder: str) -> Any:
    path = str(Path(folder, "data"))
    tf.data.Dataset.range(6).save(path, shard_func=lambda x: x % 2, compression="GZIP")
    joined = tf.data.Dataset.load(
        path, compression="GZIP", reader_func=lambda shards: shards.flat_map(lambda d: d)
    )
    return [
        sorted(int(x) for x in tf.data.Dataset.load(path, compression="GZIP")),
        elements(joined),
    ]


@saving("Sparse and ragged elements are saved and loaded.")
def saved_composites(tf: Any, folder: str) -> Any:
    path = str(Path(folder, "data"))
    data = tf.data.Dataset.from_tensors(
        (tf.SparseTensor([[0]], [1], [2]), tf.ragged.constant([[1], [2, 3]]))
    )
    data.save(path)
    return elements(tf.data.Dataset.load(path))


@snapshots("A snapshot is written in the first walk and read in later ones.")
def snapshots_are_read_later(tf: Any, folder: str) -> Any:
    path = str(Path(folder, "snapshot"))
    v = tf.Variable(0)

    def made() -> Any:
        data = tf.data.Dataset.range(4).map(lambda x: (x, v.assign_add(1)))
        return data.snapshot(path)

    return [elements(made()), elements(made()), value(v), bool(os.listdir(path))]
