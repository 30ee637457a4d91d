"""Datasets of sessions: experimental sources, saved iterators, batches of sparse tensors."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error

_EXPERIMENTAL = "python/data/experimental/kernel_tests"
saveables = functools.partial(behaviour, f"{_EXPERIMENTAL}/make_saveable_from_iterator_test.py")
csv_batches = functools.partial(behaviour, f"{_EXPERIMENTAL}/make_csv_dataset_test.py")
sources = functools.partial(behaviour, f"{_EXPERIMENTAL}/from_list_test.py")
slices = functools.partial(behaviour, "python/data/kernel_tests/from_sparse_tensor_slices_test.py")
legacy = functools.partial(behaviour, "python/data/kernel_tests/map_test.py")
structures = functools.partial(behaviour, "python/data/util/structure_test.py")
singles = functools.partial(behaviour, "python/data/kernel_tests/get_single_element_test.py")
resamples = functools.partial(behaviour, "python/data/kernel_tests/rejection_resample_test.py")
writers = functools.partial(behaviour, f"{_EXPERIMENTAL}/tf_record_writer_test.py")
inputs = functools.partial(behaviour, "python/training/input_test.py")


def _elements(tf: Any, dataset: Any, most: int = 20) -> Any:
    """Return what an iterator of a session gives until it ends."""
    iterator = tf.data.make_initializable_iterator(dataset)
    following = iterator.get_next()
    found: list[Any] = []
    with tf.Session() as session:
        session.run(iterator.initializer)
        try:
            while len(found) < most:
                found.append(session.run(following))
        except tf.errors.OutOfRangeError:
            found.append("end")
    return found


# ---- names of tf.data.experimental


@csv_batches("In sessions files of rows give the same, by datasets that make iterators.")
def rows_in_sessions(tf: Any, folder: str) -> Any:
    path = str(Path(folder, "rows.csv"))
    Path(path).write_text("a,b\n1,x\n2,\n3,z\n")
    data = tf.data.experimental
    rows = data.CsvDataset(path, [tf.int32, "-"], header=True)
    batches = data.make_csv_dataset(path, 2, num_epochs=1, shuffle=False)
    return [
        _elements(tf, rows),
        _elements(tf, batches),
        [str(rows.output_types), str(rows.output_shapes)],
        isinstance(rows, tf.data.Dataset),
        isinstance(batches, tf.data.Dataset),
        error(lambda: batches.make_one_shot_iterator().get_next() and None),
        error(lambda: data.CsvDataset(path, [tf.int32, "-"], exclude_cols=[1])),
    ]


@sources("Lists, random numbers, reducers and paddings are sources of sessions too.")
def sources_in_sessions(tf: Any) -> Any:
    data = tf.data.experimental
    rows = tf.data.Dataset.from_tensor_slices({"a": [1, 2]})
    total = data.Reducer(lambda key: np.int64(0), lambda x, y: x + y, lambda x: x)
    return [
        _elements(tf, data.from_list([(1, "a"), (2, "b")])),
        _elements(tf, data.RandomDataset(seed=3).take(2)),
        _elements(
            tf, tf.data.Dataset.range(5).apply(data.group_by_reducer(lambda x: x % 2, total))
        ),
        _elements(tf, rows.apply(data.pad_to_cardinality(3))),
        _elements(
            tf,
            tf.data.Dataset.range(4).apply(
                data.map_and_batch_with_legacy_function(lambda x: x * 2, 2)
            ),
        ),
        error(data.enable_debug_mode),
        error(lambda: data.get_model_proto(tf.data.make_one_shot_iterator(data.Counter(3)))),
        _elements(tf, data.Counter(3, 2).take(2)),
    ]


@resamples("In sessions classes have the shares that are wanted.")
def resampled_in_sessions(tf: Any) -> Any:
    rows = tf.data.Dataset.from_tensor_slices(np.int32([0, 1, 1, 0]))
    known = rows.rejection_resample(lambda x: x, [0.0, 1.0], [0.5, 0.5])
    estimated = rows.repeat(100).rejection_resample(lambda x: x, [0.5, 0.5], seed=3)
    classes = [int(one[0]) for one in _elements(tf, estimated, 300) if one != "end"]
    return [_elements(tf, known), round(sum(classes) / len(classes), 1)]


@singles("In sessions the only element is a tensor of the graph.")
def single_elements_in_sessions(tf: Any) -> Any:
    x = tf.placeholder(tf.int64, [])
    one = tf.data.Dataset.range(x).map(lambda n: (n, n * 2)).get_single_element()
    same = tf.data.experimental.get_single_element(tf.data.Dataset.from_tensors(x))
    with tf.Session() as session:
        return [
            session.run(one, {x: 1}),
            session.run(same, {x: 5}),
            error(lambda: session.run(one, {x: 0}), "Dataset was empty."),
            error(lambda: session.run(one, {x: 2}), "more than one element"),
        ]


@writers("In sessions an operation writes the file.")
def written_in_sessions(tf: Any, folder: str) -> Any:
    path = str(Path(folder, "words"))
    words = tf.data.Dataset.from_tensor_slices(["one", "two"])
    write = tf.data.experimental.TFRecordWriter(path).write(words)
    before = Path(path).exists()
    with tf.Session() as session:
        found = session.run(write)
    return [before, found, _elements(tf, tf.data.TFRecordDataset(path))]


@slices("The rows of a sparse tensor are triples.")
def rows_of_sparse_tensors(tf: Any) -> Any:
    thin = tf.SparseTensor([[0, 1], [2, 0], [2, 3]], ["a", "b", "c"], [4, 5])
    rows = tf.data.Dataset.from_sparse_tensor_slices(thin)
    kind = tf.sparse_placeholder(tf.float32)
    return [
        _elements(tf, rows),
        str(rows.output_shapes),
        str(rows.output_types),
        str(tf.data.Dataset.from_sparse_tensor_slices(kind).output_shapes),
        error(lambda: tf.data.Dataset.from_sparse_tensor_slices([1])),
    ]


@legacy("Methods of legacy functions do what the others do.")
def legacy_functions(tf: Any) -> Any:
    numbers = tf.data.Dataset.range(5)
    return [
        _elements(tf, numbers.map_with_legacy_function(lambda x: x * 2)),
        _elements(tf, numbers.map_with_legacy_function(lambda x: (x, x), 2)),
        _elements(tf, numbers.filter_with_legacy_function(lambda x: x > 2)),
    ]


@legacy("Where graphs are built no dataset is walked over.")
def not_walked_over(tf: Any) -> Any:
    numbers = tf.data.Dataset.range(3)
    return [
        error(lambda: iter(numbers), "only supports Python-style iteration in eager mode"),
        error(numbers.as_numpy_iterator, "is only supported in eager mode"),
        error(lambda: tf.data.NumpyIterator(numbers)),
        error(lambda: len(numbers), "only supports `len` in eager mode"),
        bool(numbers),
        str(numbers),
    ]


@structures("Structures are specs.")
def names_of_structures(tf: Any) -> Any:
    data = tf.data.experimental
    return [
        str(data.TensorStructure(tf.int32, [2])),
        str(data.SparseTensorStructure(tf.int32, [2, 3])),
        str(data.RaggedTensorStructure(tf.int32, [2, None], 1)),
        str(data.TensorArrayStructure(tf.int32, [2], False, True)),
        data.Structure is tf.TypeSpec,
        str(data.DatasetStructure(tf.TensorSpec([], tf.int64))),
        str(data.OptionalStructure(tf.TensorSpec([], tf.int64))),
    ]


# ---- iterators that are saved


def _iterator(tf: Any, dataset: Any, policy: Any = None) -> Any:
    iterator = tf.data.make_initializable_iterator(dataset)
    saveable = tf.data.experimental.make_saveable_from_iterator(iterator, policy)
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, saveable)
    return iterator, iterator.get_next(), saveable


@saveables("A saver keeps an iterator's place, also for another session.")
def places_are_saved(tf: Any, folder: str) -> Any:
    path = f"{folder}/place"
    data = tf.data.Dataset.range(20).shuffle(5, seed=3).batch(2)
    iterator, following, saveable = _iterator(tf, data)
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(iterator.initializer)
        first = [session.run(following) for _ in range(2)]
        saver.save(session, path)
        then = [session.run(following).tolist() for _ in range(3)]
        saver.restore(session, path)
        again = [session.run(following).tolist() for _ in range(3)]
    with tf.Session() as session:
        session.run(iterator.initializer)
        saver.restore(session, path)
        anew = [session.run(following).tolist() for _ in range(3)]
    return [
        len(first),
        then == again == anew,
        [spec.name for spec in saveable.specs],
        saveable.name,
        saveable.specs[0].dtype.name,
        [name for name, _ in tf.train.list_variables(path)],
    ]


@saveables("With variables; a place at the end stays there.")
def places_beside_variables(tf: Any, folder: str) -> Any:
    path = f"{folder}/place"
    iterator, following, _ = _iterator(tf, tf.data.Dataset.range(3))
    v = tf.Variable(1)
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run([iterator.initializer, v.initializer])
        for _ in range(3):
            session.run(following)
        session.run(v.assign(7))
        saver.save(session, path)
        session.run([iterator.initializer, v.initializer])
        saver.restore(session, path)
        return [session.run(v), error(lambda: session.run(following))]


@saveables("Functions with state are refused, unless the policy says otherwise.")
def states_that_are_not_saved(tf: Any, folder: str) -> Any:
    found = []
    for policy in (None, "fail", "warn", "ignore"):
        with tf.Graph().as_default():
            data = tf.data.Dataset.range(3).map(lambda x: tf.random_uniform([]))
            iterator, _, _ = _iterator(tf, data, policy)
            saver = tf.train.Saver()
            with tf.Session() as session:
                session.run(iterator.initializer)
                found.append(error(lambda: saver.save(session, f"{folder}/p") and None))  # noqa: B023
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(3))
    make = tf.data.experimental.make_saveable_from_iterator
    return [*found, error(lambda: make(iterator, "other"))]


# ---- batches of sparse tensors


def _drained(tf: Any, fetches: Any) -> Any:
    found = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            while len(found) < 20:
                found.append(session.run(fetches))
        except tf.errors.OutOfRangeError:
            found.append("end")
        finally:
            coordinator.request_stop()
            coordinator.join(threads)
    return found


def _row(tf: Any, x: Any) -> Any:
    """Return a sparse vector with x at place x, of x + 1 elements."""
    place = tf.cast(tf.reshape(x, [1, 1]), tf.int64)
    return tf.SparseTensor(place, [x], tf.cast([x + 1], tf.int64))


@inputs("Sparse tensors are batched as rows of one, beside others.")
def sparse_batches(tf: Any) -> Any:
    found = []
    for make in (
        lambda x: tf.train.batch([x, _row(tf, x)], 2),
        lambda x: tf.train.batch([_row(tf, x)], 2),
        lambda x: tf.train.batch({"a": x, "s": _row(tf, x)}, 3, allow_smaller_final_batch=True),
        lambda x: tf.train.batch([[x], _row(tf, x)], 2, dynamic_pad=True),
        lambda x: tf.train.batch([x, _row(tf, x)], 2, shapes=[[], [1]]),
        lambda x: tf.train.batch_join([[x, _row(tf, x)]], 2),
        lambda x: tf.train.maybe_batch([x, _row(tf, x)], tf.equal(x % 2, 0), 2),
    ):
        with tf.Graph().as_default():
            x = tf.train.range_input_producer(4, 1, shuffle=False).dequeue()
            found.append(_drained(tf, make(x)))
    return found


@inputs("Rows of a sparse tensor are examples, all or some of them.")
def rows_of_sparse_batches(tf: Any) -> Any:
    def rows(x: Any) -> Any:
        places = [[0, 1], [2, 0], [2, 3]]
        return tf.SparseTensor(places, tf.stack([x, x + 10, x + 20]), [3, 4])

    found = []
    for make in (
        lambda x: tf.train.batch([rows(x)], 3, enqueue_many=True),
        lambda x: tf.train.batch([rows(x), [x, x, x]], 2, enqueue_many=True),
        lambda x: tf.train.maybe_batch([rows(x)], [True, False, True], 2, enqueue_many=True),
        lambda x: tf.train.maybe_batch([rows(x)], tf.equal(x, 1), 3, enqueue_many=True),
    ):
        with tf.Graph().as_default():
            x = tf.train.range_input_producer(2, 1, shuffle=False).dequeue()
            found.append(_drained(tf, make(x)))
    return found


@inputs("Shuffled and joined batches have each sparse row once.")
def shuffled_sparse_batches(tf: Any) -> Any:
    found = []
    for make in (
        lambda x: tf.train.shuffle_batch([_row(tf, x)], 2, 8, 4),
        lambda x: tf.train.shuffle_batch_join([[_row(tf, x)], [_row(tf, x)]], 2, 8, 4),
        lambda x: tf.train.batch_join([[_row(tf, x)], [_row(tf, x)]], 2),
    ):
        with tf.Graph().as_default():
            x = tf.train.range_input_producer(8, 1, shuffle=False).dequeue()
            parts = _drained(tf, make(x))
            found.append(
                [sorted(v for part in parts[:-1] for v in part.values.tolist()), len(parts)]
            )
    return found


@inputs("What is known of a sparse batch is its rank; lists of other tensors are refused.")
def shapes_of_sparse_batches(tf: Any) -> Any:
    x = tf.constant(1)
    one = tf.train.batch([_row(tf, x)], 2)
    many = tf.train.batch([_row(tf, x)], 2, enqueue_many=True)
    unknown = tf.train.batch([tf.sparse_placeholder(tf.string)], 2)
    return [
        [made.indices.shape.as_list() for made in (one, many)],
        [made.dense_shape.shape.as_list() for made in (one, many)],
        str(unknown.dense_shape.shape),
        unknown.dtype.name,
        error(lambda: tf.train.batch_join([[_row(tf, x)], [x]], 2)),
        error(lambda: tf.train.batch_join([[x], [_row(tf, x)]], 2)),
    ]
