"""tf.data in sessions, as tutorials of TensorFlow 1 write it."""

from __future__ import annotations

import collections
import os

import numpy as np

from tutorials.recording import attempt, drain, program


def sizes(tf, shapes):
    """Return a structure of shapes as lists, None for one of unknown rank."""
    return tf.nest.map_structure(
        lambda shape: None if shape.ndims is None else shape.as_list(), shapes
    )


@program
def one_shot_function(tf, folder):
    element = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
    with tf.Session() as session:
        return drain(session, element), element.dtype.name, element.shape.as_list()


@program
def one_shot_method(tf, folder):
    dataset = tf.data.Dataset.from_tensor_slices({"a": [1.0, 2.0], "b": ["x", "y"]})
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        return drain(session, element)


@program
def one_shot_with_a_capture(tf, folder):
    offset = tf.constant(5, tf.int64)
    dataset = tf.data.Dataset.range(3).map(lambda x: x + offset)
    found = attempt(lambda: dataset.make_one_shot_iterator() and None)
    limit = tf.placeholder(tf.int64, [])
    fed = tf.data.Dataset.range(limit)
    return found, attempt(lambda: fed.make_one_shot_iterator() and None)


@program
def one_shot_with_a_variable(tf, folder):
    v = tf.get_variable("v", initializer=2.0, use_resource=True)
    dataset = tf.data.Dataset.from_tensors(1.0).map(lambda x: x + v)
    return attempt(lambda: dataset.make_one_shot_iterator() and None)


@program
def initializable_with_feeds(tf, folder):
    limit = tf.placeholder(tf.int64, [])
    dataset = tf.data.Dataset.range(limit).map(lambda x: (x, x * x))
    iterator = dataset.make_initializable_iterator()
    first, second = iterator.get_next()
    with tf.Session() as session:
        found = [attempt(lambda: session.run(first))]
        for most in (2, 3):
            session.run(iterator.initializer, {limit: most})
            found.append(drain(session, (first, second)))
        return found


@program
def initializable_function_and_shared_name(tf, folder):
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(4), shared_name="mine")
    other = tf.data.make_initializable_iterator(tf.data.Dataset.range(9), shared_name="mine")
    with tf.Session() as session:
        session.run(iterator.initializer)
        found = [session.run(iterator.get_next()), session.run(other.get_next())]
        return found, iterator.initializer.type


@program
def from_structure(tf, folder):
    train = tf.data.Dataset.range(3).map(lambda x: (x, tf.cast(x, tf.float32)))
    test = tf.data.Dataset.range(10, 12).map(lambda x: (x, tf.cast(x, tf.float32)))
    iterator = tf.data.Iterator.from_structure(
        tf.data.get_output_types(train), tf.data.get_output_shapes(train)
    )
    element = iterator.get_next()
    to_train, to_test = iterator.make_initializer(train), iterator.make_initializer(test)
    with tf.Session() as session:
        found = [attempt(lambda: session.run(element))]
        for begin in (to_train, to_test, to_train):
            session.run(begin)
            found.append(drain(session, element))
        return found


@program
def from_structure_without_shapes(tf, folder):
    iterator = tf.data.Iterator.from_structure(tf.float32)
    element = iterator.get_next()
    small = tf.data.Dataset.from_tensors([1.0, 2.0])
    large = tf.data.Dataset.from_tensors([[1.0], [2.0]])
    begin = [iterator.make_initializer(small), iterator.make_initializer(large)]
    with tf.Session() as session:
        found = []
        for op in begin:
            session.run(op)
            found.append(drain(session, element))
        return found, element.shape.ndims, attempt(lambda: iterator.initializer)


@program
def from_structure_refuses_other_types(tf, folder):
    iterator = tf.data.Iterator.from_structure(tf.float32, tf.TensorShape([2]))
    ints = tf.data.Dataset.from_tensors([1, 2])
    longer = tf.data.Dataset.from_tensors([1.0, 2.0, 3.0])
    pair = tf.data.Dataset.from_tensors(([1.0, 2.0], [1.0, 2.0]))
    return [attempt(lambda one=one: iterator.make_initializer(one)) for one in (ints, longer, pair)]


@program
def from_string_handle(tf, folder):
    train = tf.data.Dataset.range(5).repeat()
    test = tf.data.Dataset.range(100, 103)
    handle = tf.placeholder(tf.string, shape=[])
    iterator = tf.data.Iterator.from_string_handle(handle, train.output_types, train.output_shapes)
    element = iterator.get_next()
    train_iterator = train.make_one_shot_iterator()
    test_iterator = test.make_initializable_iterator()
    with tf.Session() as session:
        train_handle = session.run(train_iterator.string_handle())
        test_handle = session.run(test_iterator.string_handle())
        found = []
        for _ in range(2):
            found += [session.run(element, {handle: train_handle}) for _ in range(3)]
            session.run(test_iterator.initializer)
            found += [session.run(element, {handle: test_handle}) for _ in range(3)]
            found.append(attempt(lambda: session.run(element, {handle: test_handle})))
        return found, attempt(lambda: session.run(element, {handle: b"nonsense"}))


@program
def generator(tf, folder):
    def numbers():
        for i in range(3):
            yield i, [1.0] * i

    dataset = tf.data.Dataset.from_generator(
        numbers, (tf.int64, tf.float32), (tf.TensorShape([]), tf.TensorShape([None]))
    )
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        return drain(session, element), [one.shape.ndims for one in element]


@program
def generator_with_arguments_twice(tf, folder):
    def numbers(stop, word):
        for i in range(stop):
            yield word + str(i).encode()

    dataset = tf.data.Dataset.from_generator(numbers, tf.string, args=(2, b"n")).repeat(2)
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        return drain(session, element), sizes(tf, dataset.output_shapes)


@program
def generator_of_wrong_things(tf, folder):
    found = []
    for bad in ([1, "x"], [[1, 2], [3]], [1.5]):
        dataset = tf.data.Dataset.from_generator(lambda bad=bad: iter(bad), tf.int32, [])
        element = dataset.make_one_shot_iterator().get_next()
        with tf.Session() as session:
            found.append(drain(session, element))
    found.append(attempt(lambda: tf.data.Dataset.from_generator(3, tf.int32)))
    return found


@program
def padded_batches(tf, folder):
    dataset = tf.data.Dataset.range(1, 6).map(lambda n: tf.fill([n], n))
    a = dataset.padded_batch(2, padded_shapes=[None])
    b = dataset.padded_batch(2, padded_shapes=[6], padding_values=tf.constant(-1, tf.int64))
    c = dataset.padded_batch(2, padded_shapes=[None], drop_remainder=True)
    with tf.Session() as session:
        return [
            (drain(session, d.make_one_shot_iterator().get_next()), sizes(tf, d.output_shapes))
            for d in (a, b, c)
        ]


@program
def padded_batches_of_a_dict(tf, folder):
    dataset = tf.data.Dataset.range(1, 4).map(
        lambda n: {"x": tf.fill([n], "w"), "n": n, "y": tf.ones([n, 2])}
    )
    shapes = {"x": [None], "n": [], "y": [None, 2]}
    values = {"x": "<pad>", "n": np.int64(0), "y": 7.0}
    padded = dataset.padded_batch(3, shapes, values)
    small = dataset.padded_batch(3, {"x": [2], "n": [], "y": [None, 2]})
    with tf.Session() as session:
        return [drain(session, d.make_one_shot_iterator().get_next()) for d in (padded, small)]


@program
def apply_transformations(tf, folder):
    dataset = tf.data.Dataset.range(10)
    dataset = dataset.apply(tf.data.experimental.ignore_errors())
    dataset = dataset.apply(lambda d: d.filter(lambda x: x < 7))
    dataset = dataset.apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 3))
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        return drain(session, element), attempt(lambda: dataset.apply(lambda d: 3))


@program
def shuffle_and_repeat_by_apply(tf, folder):
    dataset = tf.data.Dataset.range(4)
    dataset = dataset.apply(tf.data.experimental.shuffle_and_repeat(4, 2, seed=7))
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        found = drain(session, element)
        return sorted(int(x) for x in found[:-1]), found[-1]


@program
def group_by_window_and_bucket(tf, folder):
    dataset = tf.data.Dataset.range(10).apply(
        tf.data.experimental.group_by_window(
            lambda x: x % 2, lambda key, window: window.batch(3), window_size=3
        )
    )
    lengths = tf.data.Dataset.range(1, 7).map(lambda n: tf.fill([n], n))
    buckets = lengths.apply(
        tf.data.experimental.bucket_by_sequence_length(
            lambda x: tf.shape(x)[0], bucket_boundaries=[3, 5], bucket_batch_sizes=[2, 2, 2]
        )
    )
    with tf.Session() as session:
        return [drain(session, d.make_one_shot_iterator().get_next()) for d in (dataset, buckets)]


@program
def windows(tf, folder):
    dataset = tf.data.Dataset.range(7).window(3, shift=2, drop_remainder=True)
    flat = dataset.flat_map(lambda window: window.batch(3))
    pairs = tf.data.Dataset.from_tensor_slices((np.arange(4), np.arange(4.0))).window(2)
    zipped = pairs.flat_map(lambda a, b: tf.data.Dataset.zip((a.batch(2), b.batch(2))))
    with tf.Session() as session:
        return [drain(session, d.make_one_shot_iterator().get_next()) for d in (flat, zipped)]


@program
def interleave_with_captures(tf, folder):
    count = tf.placeholder(tf.int64, [])
    dataset = tf.data.Dataset.range(1, 4).interleave(
        lambda x: tf.data.Dataset.from_tensors(x * count).repeat(count),
        cycle_length=2,
        block_length=1,
    )
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer, {count: 2})
        return drain(session, element)


@program
def parallel_interleave_by_apply(tf, folder):
    dataset = tf.data.Dataset.range(3).apply(
        tf.data.experimental.parallel_interleave(
            lambda x: tf.data.Dataset.from_tensors(x).repeat(2), cycle_length=2
        )
    )
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        return drain(session, element)


@program
def files(tf, folder):
    for name in ("b.txt", "a.txt", "c.csv"):
        with open(os.path.join(folder, name), "w") as file:
            file.write(f"{name} 1\n{name} 2\n")
    names = tf.data.Dataset.list_files(os.path.join(folder, "*.txt"), shuffle=False)
    several = tf.data.Dataset.list_files(
        [os.path.join(folder, "a*"), os.path.join(folder, "c*")], shuffle=False
    )
    shuffled = tf.data.Dataset.list_files(os.path.join(folder, "*.*"), seed=3)
    lines = names.interleave(tf.data.TextLineDataset, cycle_length=2)
    with tf.Session() as session:
        found = [drain(session, d.make_initializable_iterator().get_next()) for d in (names,)]
        for d in (names, several, lines):
            iterator = d.make_initializable_iterator()
            session.run(iterator.initializer)
            found.append(drain(session, iterator.get_next()))
        iterator = shuffled.make_initializable_iterator()
        session.run(iterator.initializer)
        found.append(sorted(str(one) for one in drain(session, iterator.get_next())))
        return found


@program
def files_that_match_nothing(tf, folder):
    found = []
    for shuffle in (None, False):
        names = tf.data.Dataset.list_files(os.path.join(folder, "*.none"), shuffle=shuffle)
        iterator = names.make_initializable_iterator()
        with tf.Session() as session:
            for fetch in (iterator.initializer, iterator.get_next()):
                found.append(attempt(lambda fetch=fetch, run=session.run: run(fetch)))
    return found


@program
def files_that_match_nothing_say_so(tf, folder):
    pattern = os.path.join(folder, "*.none")
    iterator = tf.data.Dataset.list_files(pattern).make_initializable_iterator()
    with tf.Session() as session:
        try:
            session.run(iterator.initializer)
        except tf.errors.InvalidArgumentError as error:
            return "No files matched pattern: " in str(error), pattern in str(error)


@program
def options(tf, folder):
    made = tf.data.Options()
    made.experimental_deterministic = False
    made.experimental_optimization.map_parallelization = True
    made.experimental_threading.private_threadpool_size = 2
    dataset = tf.data.Dataset.range(3).with_options(made)
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        return (
            drain(session, element),
            attempt(lambda: dataset.options().experimental_optimization.map_parallelization),
            attempt(lambda: setattr(made, "no_such_option", 1)),
            attempt(lambda: tf.data.Dataset.range(3).with_options(3) and None),
        )


@program
def types_shapes_and_classes(tf, folder):
    point = collections.namedtuple("point", ["x", "y"])
    datasets = [
        tf.data.Dataset.range(3),
        tf.data.Dataset.from_tensor_slices({"a": [1.0], "b": [["x", "y"]]}),
        tf.data.Dataset.from_tensors((1, (2.0, "s"))),
        tf.data.Dataset.from_tensors(point(1, [2.0])),
        tf.data.Dataset.range(3).batch(2),
        tf.data.Dataset.range(4).batch(2, drop_remainder=True),
    ]
    found = []
    for dataset in datasets:
        found.append(
            [
                tf.nest.map_structure(lambda one: one.name, dataset.output_types),
                sizes(tf, dataset.output_shapes),
                tf.nest.map_structure(lambda kind: kind.__name__, dataset.output_classes),
            ]
        )
        assert tf.data.get_output_types(dataset) == dataset.output_types
        assert sizes(tf, tf.data.get_output_shapes(dataset)) == sizes(tf, dataset.output_shapes)
        assert tf.data.get_output_classes(dataset) == dataset.output_classes
        iterator = dataset.make_one_shot_iterator()
        found.append(
            [str(iterator.output_types == dataset.output_types), sizes(tf, iterator.output_shapes)]
        )
    return found


@program
def an_element_spec(tf, folder):
    dataset = tf.data.Dataset.from_tensor_slices(([1.0, 2.0], ["a", "b"])).batch(2)
    iterator = dataset.make_one_shot_iterator()
    return [
        [(spec.dtype.name, spec.shape.as_list()) for spec in one.element_spec]
        for one in (dataset, iterator)
    ]


@program
def next_as_an_optional(tf, folder):
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(2))
    optional = tf.data.experimental.get_next_as_optional(iterator)
    has_value, value = optional.has_value(), optional.get_value()
    found = []
    with tf.Session() as session:
        session.run(iterator.initializer)
        for _ in range(2):
            found.append(session.run([has_value, value]))
        found.append(session.run(has_value))
        found.append(attempt(lambda: session.run(value)))
    return found


@program
def parse_examples_in_a_map(tf, folder):
    path = os.path.join(folder, "data.tfrecord")
    with tf.python_io.TFRecordWriter(path) as writer:
        for i in range(3):
            example = tf.train.Example(
                features=tf.train.Features(
                    feature={
                        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
                        "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"n%d" % i])),
                        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[i, i + 0.5])),
                        "many": tf.train.Feature(
                            int64_list=tf.train.Int64List(value=list(range(i)))
                        ),
                    }
                )
            )
            writer.write(example.SerializeToString())

    features = {
        "label": tf.FixedLenFeature([], tf.int64),
        "name": tf.FixedLenFeature([], tf.string),
        "x": tf.FixedLenFeature([2], tf.float32),
        "missing": tf.FixedLenFeature([], tf.string, default_value="none"),
        "many": tf.VarLenFeature(tf.int64),
        "sequence": tf.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
    }

    def parse(record):
        found = tf.parse_single_example(record, features)
        return {**found, "many": tf.sparse_tensor_to_dense(found["many"])}

    dataset = tf.data.TFRecordDataset(path).map(parse)
    iterator = dataset.make_one_shot_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        return drain(session, element), sizes(tf, dataset.output_shapes)


@program
def parse_a_single_example_outside(tf, folder):
    example = tf.train.Example(
        features=tf.train.Features(
            feature={
                "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"word"])),
                "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[4])),
            }
        )
    ).SerializeToString()
    serialized = tf.placeholder(tf.string, [])
    found = tf.parse_single_example(
        serialized,
        {"s": tf.FixedLenFeature([], tf.string), "n": tf.FixedLenFeature((), tf.int64, 0)},
    )
    lacking = tf.parse_single_example(serialized, {"t": tf.FixedLenFeature([], tf.string)})
    batch = tf.parse_example([example, example], {"s": tf.FixedLenFeature([], tf.string)})
    with tf.Session() as session:
        return (
            session.run(found, {serialized: example}),
            {name: tensor.shape.as_list() for name, tensor in found.items()},
            attempt(lambda: session.run(lacking, {serialized: example})),
            session.run(batch),
        )


@program
def datasets_of_arrays_by_batches(tf, folder):
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    y = np.arange(6, dtype=np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(6, seed=1).repeat(2).batch(4)
    dataset = dataset.prefetch(1)
    xs, ys = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        found = drain(session, (xs, ys))
        return sorted(int(i) for pair in found[:-1] for i in pair[1]), found[-1], xs.shape.as_list()


@program
def arrays_fed_into_a_dataset(tf, folder):
    x = tf.placeholder(tf.float32, [None, 2])
    dataset = tf.data.Dataset.from_tensor_slices(x).batch(2)
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer, {x: np.ones((3, 2), np.float32)})
        return drain(session, element), element.shape.as_list()


@program
def reduce_enumerate_and_take_while(tf, folder):
    dataset = tf.data.Dataset.range(5)
    total = dataset.reduce(np.int64(0), lambda state, x: state + x)
    numbered = dataset.enumerate(start=3).take(2)
    early = dataset.apply(tf.data.experimental.take_while(lambda x: x < 2))
    scanned = dataset.apply(
        tf.data.experimental.scan(np.int64(0), lambda state, x: (state + x, state + x))
    )
    unique = dataset.map(lambda x: x // 2).apply(tf.data.experimental.unique())
    with tf.Session() as session:
        return session.run(total), [
            drain(session, tf.data.make_one_shot_iterator(d).get_next())
            for d in (numbered, early, scanned, unique)
        ]


@program
def errors_of_maps(tf, folder):
    dataset = tf.data.Dataset.from_tensor_slices([1.0, 0.0, 2.0]).map(
        lambda x: tf.check_numerics(1.0 / x, "bad")
    )
    forgiving = dataset.apply(tf.data.experimental.ignore_errors())
    with tf.Session() as session:
        element = dataset.make_one_shot_iterator().get_next()
        found = [attempt(lambda: session.run(element)) for _ in range(4)]
        return found, drain(session, forgiving.make_one_shot_iterator().get_next())


@program
def py_func_in_a_map(tf, folder):
    def double(x):
        return (x * 2).astype(np.float32), b"w%d" % x

    dataset = tf.data.Dataset.range(3).map(
        lambda x: tuple(tf.py_func(double, [x], [tf.float32, tf.string]))
    )
    iterator = dataset.make_initializable_iterator()
    with tf.Session() as session:
        session.run(iterator.initializer)
        return drain(session, iterator.get_next())


@program
def csv_and_zip(tf, folder):
    path = os.path.join(folder, "a.csv")
    with open(path, "w") as file:
        file.write("x,y\n1,a\n2,b\n")
    lines = tf.data.TextLineDataset([path]).skip(1)
    rows = lines.map(lambda line: tf.decode_csv(line, [[0], [""]]))
    both = tf.data.Dataset.zip((rows, tf.data.Dataset.range(9)))
    sampled = tf.data.experimental.sample_from_datasets([tf.data.Dataset.range(2)], seed=1)
    chosen = tf.data.experimental.choose_from_datasets(
        [tf.data.Dataset.range(2), tf.data.Dataset.range(10, 12)],
        tf.data.Dataset.from_tensor_slices(np.array([1, 0, 1, 0], np.int64)),
    )
    with tf.Session() as session:
        return [
            drain(session, d.make_one_shot_iterator().get_next()) for d in (both, sampled, chosen)
        ]


@program
def iterators_in_collections_of_names(tf, folder):
    iterator = tf.data.Dataset.range(2).make_initializable_iterator()
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    element = iterator.get_next(name="following")
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        return drain(session, element), element.op.name, element.op.type


@program
def a_monitored_session_reads_a_dataset(tf, folder):
    step = tf.train.get_or_create_global_step()
    x = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0]).make_one_shot_iterator().get_next()
    total = tf.get_variable("total", initializer=0.0)
    train = tf.group(tf.assign_add(total, x), tf.assign_add(step, 1))
    found = []
    with tf.train.MonitoredTrainingSession() as session:
        while not session.should_stop():
            session.run(train)
            found.append(1)
    return len(found)
