"""tf.data.experimental: files of rows, lists, groups, samples, paddings and single elements."""

from __future__ import annotations

import functools
import gzip
from pathlib import Path
from typing import Any

import numpy as np

from shown_values import elements, value, walked
from tf_behaviours.registry import behaviour, error

_TESTS = "python/data/experimental/kernel_tests"
rows_of_files = functools.partial(behaviour, f"{_TESTS}/csv_dataset_test.py")
csv_batches = functools.partial(behaviour, f"{_TESTS}/make_csv_dataset_test.py")
lists = functools.partial(behaviour, f"{_TESTS}/from_list_test.py")
reducers = functools.partial(behaviour, f"{_TESTS}/group_by_reducer_test.py")
paddings = functools.partial(behaviour, f"{_TESTS}/pad_to_cardinality_test.py")
writers = functools.partial(behaviour, f"{_TESTS}/tf_record_writer_test.py")
models = functools.partial(behaviour, f"{_TESTS}/iterator_model_ops_test.py")
singles = functools.partial(behaviour, "python/data/kernel_tests/get_single_element_test.py")
resamples = functools.partial(behaviour, "python/data/kernel_tests/rejection_resample_test.py")
samples = functools.partial(behaviour, "python/data/kernel_tests/sample_from_datasets_test.py")
randoms = functools.partial(behaviour, "python/data/kernel_tests/random_test.py")
arrays = functools.partial(behaviour, "python/data/kernel_tests/as_numpy_iterator_test.py")

_TABLE = "a,b,c,d\n1,2.5,x,30000000000\n,3,,4\n5,-1e39,z,-7\n"


def _written(folder: str, text: str = _TABLE, name: str = "rows.csv") -> str:
    path = Path(folder, name)
    path.write_text(text)
    return str(path)


# ---- rows


@rows_of_files("Columns have types, or defaults for what is missing; some may be chosen.")
def rows_and_defaults(tf: Any, folder: str) -> Any:
    rows = tf.data.experimental.CsvDataset
    path = _written(folder, "1,2.5,x\n,3,\n4,,NA\n")
    defaults = [[0], tf.constant([9.0]), "none"]
    return [
        elements(rows(path, defaults)),
        walked(rows([path, path], [tf.int32, tf.float32, tf.string])),
        walked(rows(path, defaults, na_value="NA", header=True)),
        walked(rows(path, [tf.float32, "?"], select_cols=[1, 2])),
        walked(rows(path, [tf.float32, "?"], exclude_cols=[0])),
        str(rows(path, defaults).element_spec),
        int(rows(path, defaults).cardinality()),
    ]


@rows_of_files("Delimiters and quotes are the program's, and files may be compressed.")
def rows_in_other_forms(tf: Any, folder: str) -> Any:
    rows = tf.data.experimental.CsvDataset
    path = _written(folder, '1|"a|b"\n2|c\n')
    packed = Path(folder, "rows.gz")
    packed.write_bytes(gzip.compress(b"7,g\n"))
    kinds = [tf.int64, tf.string]
    return [
        elements(rows(path, kinds, field_delim="|")),
        walked(rows(path, kinds, field_delim="|", use_quote_delim=False)),
        elements(rows(str(packed), kinds, "GZIP")),
        error(lambda: elements(rows(path, kinds, field_delim="||"))),
        error(lambda: elements(rows(path, kinds, select_cols=[1, 0]))),
        error(lambda: elements(rows(path, kinds, select_cols=[0], exclude_cols=[1]))),
        error(lambda: rows(path, [tf.bool])),
        error(lambda: elements(rows(str(Path(folder, "none")), kinds))),
    ]


def _batches(tf: Any, path: Any, size: int = 2, **options: Any) -> Any:
    given = {"num_epochs": 1, "shuffle": False, **options}
    return tf.data.experimental.make_csv_dataset(path, size, **given)


@csv_batches("Names and types of columns are those of the files' first rows.")
def names_and_types_of_columns(tf: Any, folder: str) -> Any:
    path = _written(folder)
    made = _batches(tf, path)
    return [
        elements(made),
        str(made.element_spec),
        str(_batches(tf, path, num_rows_for_inference=1).element_spec),
        str(_batches(tf, path, num_rows_for_inference=0).element_spec),
        str(_batches(tf, path, num_epochs=None).element_spec),
        type(next(iter(made))).__name__,
    ]


@csv_batches("Each value of a column takes the least general type that all take.")
def types_by_values(tf: Any, folder: str) -> Any:
    found = []
    for values in (
        ["1", "2"], ["1", "2147483648"], ["1", "1.5"], ["1.5", "1"], ["1", "x", "2"], ["", "3"],
        ["1e39", "1"], ["nan"], ["inf"], ["-inf", "0"], ["1_000"], [" 7 "], ["True"], ["0x10"],
        ["9223372036854775808"], ["", ""], ["1e400", "1"], ["3000000000", "1.0"],
    ):  # fmt: skip
        path = _written(folder, "\n".join(["a,b", *(f"{one},-" for one in values), ""]))
        found.append(str(_batches(tf, path).element_spec["a"]))
    return found


@csv_batches("Columns are chosen by name or number, and one may be the label.")
def chosen_columns(tf: Any, folder: str) -> Any:
    path = _written(folder)
    return [
        elements(_batches(tf, path, select_columns=["c", "a"])),
        elements(_batches(tf, path, select_columns=[3, "a"], label_name="d")),
        elements(_batches(tf, path, 9, label_name="c", column_names=["a", "p", "c", "q"])),
        str(_batches(tf, path, label_name="a").element_spec),
        elements(
            _batches(
                tf, path, 9, select_columns=["a", "b"], column_defaults=[[8], tf.constant([0.5])]
            )
        ),
        elements(_batches(tf, path, 9, na_value="z", select_columns=["c"])),
        walked(_batches(tf, path, 1, select_columns=["a"], column_defaults=[tf.int32])),
        walked(
            _batches(
                tf, path, 1, select_columns=["a"], column_defaults=[tf.int32], ignore_errors=True
            )
        ),
    ]


@csv_batches("Files take turns, are repeated and shuffled, and may lack a header.")
def several_files(tf: Any, folder: str) -> Any:
    one = _written(folder, "a,b\n1,x\n2,y\n3,z\n", "one.csv")
    two = _written(folder, "a,b\n11,p\n12,q\n", "two.csv")
    three = _written(folder, "7;8\n", "three.txt")
    pattern = str(Path(folder, "*.csv"))
    shuffled = _batches(tf, pattern, 5, shuffle=True, shuffle_seed=3)
    return [
        elements(_batches(tf, [two, one], 3)),
        elements(_batches(tf, pattern, 3, num_epochs=2)),
        elements(_batches(tf, pattern, 2, num_parallel_reads=2)),
        sorted(value(next(iter(_batches(tf, pattern, 9, num_parallel_reads=-1)))["a"]).tolist()),
        [sorted(value(next(iter(shuffled))["a"]).tolist())],
        elements(_batches(tf, pattern, 2, num_epochs=None, prefetch_buffer_size=0).take(3)),
        elements(_batches(tf, three, header=False, field_delim=";", column_names=["x", "y"])),
    ]


@csv_batches("What does not fit is refused where the dataset is made.")
def refused_files(tf: Any, folder: str) -> Any:
    path = _written(folder)
    other = _written(folder, "p,q\n1,2\n", "other.csv")
    double = _written(folder, "a,a\n1,2\n", "double.txt")
    uneven = _written(folder, "a,b\n1,2\n3\n", "uneven.txt")
    empty = _written(folder, "", "empty.txt")
    kinds = [tf.int32] * 4
    return [
        error(lambda: _batches(tf, str(Path(folder, "*.none"))), "No files match"),
        error(lambda: _batches(tf, [])),
        error(lambda: _batches(tf, [path, other]), "same column names"),
        error(lambda: _batches(tf, double), "duplicate column names"),
        error(lambda: _batches(tf, uneven), "CSV row 3 has 1 number of fields"),
        error(lambda: _batches(tf, empty), "Is it an empty file?"),
        error(lambda: _batches(tf, path, header=False), "Neither is provided"),
        error(lambda: _batches(tf, path, label_name="z"), "must be one of the columns"),
        error(lambda: _batches(tf, path, select_columns=["z"]), "must be of one of the columns"),
        error(lambda: _batches(tf, path, select_columns=[4])),
        error(lambda: _batches(tf, path, select_columns=["a", 0]), "duplicate columns"),
        error(lambda: _batches(tf, path, select_columns=["a"], column_defaults=kinds)),
        error(lambda: _batches(tf, path, compression_type="ZLIB"), "not supported for probing"),
        error(lambda: _batches(tf, path, compression_type="other"), "unknown `compression_type`"),
    ]


@csv_batches("Compressed files are read, and other encodings of their names.")
def packed_and_encoded_files(tf: Any, folder: str) -> Any:
    packed = Path(folder, "rows.gz")
    packed.write_bytes(gzip.compress(_TABLE.encode()))
    latin = Path(folder, "latin.csv")
    latin.write_bytes("\u00e9,b\n1,2\n".encode("latin-1"))
    return [
        elements(_batches(tf, str(packed), 9, compression_type="GZIP")),
        elements(_batches(tf, str(latin), encoding="latin-1")),
    ]


# ---- lists


@lists("Elements of a list are those of the dataset, of any shapes.")
def elements_of_lists(tf: Any) -> Any:
    made = tf.data.experimental.from_list
    return [
        elements(made([1, 2, 3])),
        elements(made([(1, "a"), (2, "b")])),
        elements(made([{"x": [1]}, {"x": [2, 3]}])),
        str(made([{"x": [1]}, {"x": [2, 3]}]).element_spec),
        str(made([[1], [[2]]]).element_spec),
        elements(made([tf.data.Dataset.range(2), tf.data.Dataset.range(3)]).flat_map(lambda d: d)),
        int(made([1, 2, 3]).cardinality()),
        len(made([(1, 2)])),
        elements(made(list(range(10))).shard(3, 1)),
        error(lambda: made([])),
        error(lambda: made((1, 2))),
        error(lambda: made([(1, 2), 3])),
        error(lambda: made([1, "a"]))[0] != "nothing was raised",
    ]


# ---- groups


@reducers("The elements of each key become one, in the order of the keys.")
def groups_become_one(tf: Any) -> Any:
    data = tf.data.experimental
    total = data.Reducer(lambda key: np.int64(0), lambda x, y: x + y, lambda x: x)
    mean = data.Reducer(
        lambda key: (0.0, 0), lambda s, x: (s[0] + x["v"], s[1] + 1), lambda s, n: s
    )
    names = data.Reducer(
        lambda key: tf.strings.as_string(key), lambda s, x: tf.strings.join([s, x]), lambda s: s
    )
    rows = tf.data.Dataset.from_tensor_slices({"v": [1.0, 2.0, 4.0]})
    growing = data.Reducer(
        lambda key: tf.constant([], tf.int64),
        lambda s, x: tf.concat([s, [x]], 0),
        lambda s: {"all": s},
    )
    return [
        elements(tf.data.Dataset.range(10).apply(data.group_by_reducer(lambda x: x % 3, total))),
        elements(tf.data.Dataset.range(0).apply(data.group_by_reducer(lambda x: x % 3, total))),
        elements(rows.apply(data.group_by_reducer(lambda x: np.int64(0), mean))),
        elements(
            tf.data.Dataset.from_tensor_slices(["a", "b", "c"]).apply(
                data.group_by_reducer(lambda x: tf.cast(x == "b", tf.int64), names)
            )
        ),
        elements(tf.data.Dataset.range(5).apply(data.group_by_reducer(lambda x: x % 2, growing))),
        str(
            tf.data.Dataset.range(5)
            .apply(data.group_by_reducer(lambda x: x % 2, growing))
            .element_spec
        ),
    ]


@reducers("Keys are int64 scalars, and states keep their types.")
def refused_reducers(tf: Any) -> Any:
    data = tf.data.experimental
    numbers = tf.data.Dataset.range(3)
    total = data.Reducer(lambda key: np.int64(0), lambda x, y: x + y, lambda x: x)
    changing = data.Reducer(
        lambda key: np.int64(0), lambda x, y: tf.cast(x, tf.float32), lambda x: x
    )
    return [
        error(lambda: numbers.apply(data.group_by_reducer(lambda x: 1.0, total))),
        error(lambda: numbers.apply(data.group_by_reducer(lambda x: (x, x), total))),
        error(lambda: numbers.apply(data.group_by_reducer(lambda x: [x], total))),
        error(lambda: numbers.apply(data.group_by_reducer(lambda x: x, changing))),
        [total.init_func(0), total.reduce_func(1, 2), total.finalize_func(3)],
    ]


# ---- paddings


@paddings("Dicts are followed by elements of zeros, told apart by a mask.")
def padded_to_a_number(tf: Any) -> Any:
    pad = tf.data.experimental.pad_to_cardinality
    rows = tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [["x"], ["y"]]})
    nested = rows.map(lambda row: {"inner": (row["a"], [1.5, 2.5])})
    return [
        elements(rows.apply(pad(4))),
        elements(rows.apply(pad(2, "own"))),
        elements(nested.apply(pad(3))),
        str(rows.apply(pad(4)).element_spec),
        int(rows.apply(pad(4)).cardinality()),
        elements(rows.apply(pad(4)).batch(2, drop_remainder=True)),
        error(lambda: rows.apply(pad(1))),
        error(lambda: rows.repeat().apply(pad(3))),
        error(lambda: rows.filter(lambda row: True).apply(pad(3))),
        error(lambda: tf.data.Dataset.range(2).apply(pad(3))),
    ]


# ---- one element


@singles("The only element is given, in functions too; none or several are refused.")
def single_elements(tf: Any) -> Any:
    data = tf.data.Dataset
    get = tf.data.experimental.get_single_element

    @tf.function
    def within(x: Any) -> Any:
        return data.from_tensors(x).map(lambda y: (y, y * 2)).get_single_element()

    return [
        value(get(data.from_tensors((1, {"a": "b"})))),
        value(data.range(5).batch(5).get_single_element(name="one")),
        value(data.from_tensors(tf.SparseTensor([[0]], [1], [2])).get_single_element()),
        value(within(tf.constant(4))),
        error(lambda: data.range(0).get_single_element(), "Dataset was empty."),
        error(lambda: data.range(2).get_single_element(), "more than one element"),
        error(lambda: get([1])),
    ]


# ---- samples


def _share(made: Any) -> list[float]:
    classes = [int(found) for found, _ in made]
    return [round(classes.count(one) / len(classes), 1) for one in (0, 1)]


@resamples("Classes have the shares that are wanted, whatever they were before.")
def resampled_shares(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices(np.int32([0, 0, 0, 0, 1] * 400))
    wanted = [0.5, 0.5]
    by = tf.data.experimental.rejection_resample
    return [
        _share(data.rejection_resample(lambda x: x, wanted, [0.8, 0.2], seed=7)),
        _share(data.rejection_resample(lambda x: x, wanted, seed=7)),
        _share(data.apply(by(lambda x: x, wanted, [0.8, 0.2], 7))),
        _share(data.rejection_resample(lambda x: x, [0.8, 0.2], [0.8, 0.2])),
        _share(data.rejection_resample(lambda x: x, [0.0, 1.0], [0.8, 0.2])),
        len(list(data.rejection_resample(lambda x: x, [0.8, 0.2], [0.8, 0.2]))),
    ]


@resamples("Elements may be of any structure; they come after their class.")
def resampled_structures(tf: Any) -> Any:
    pairs = tf.data.Dataset.from_tensor_slices((np.int32([0, 1, 1]), ["a", "b", "c"]))
    made = pairs.rejection_resample(lambda x, _: x, [0.0, 1.0], [1 / 3, 2 / 3])
    rows = tf.data.Dataset.from_tensor_slices({"c": np.int32([0, 1, 0])})
    named = rows.rejection_resample(lambda row: row["c"], [1.0, 0.0], [0.5, 0.5])
    same = rows.rejection_resample(lambda row: row["c"], [0.5, 0.5], [0.5, 0.5])
    return [
        elements(made),
        str(made.element_spec),
        elements(named),
        elements(same),
        str(same.element_spec),
        str(pairs.rejection_resample(lambda x, _: x, [0.5, 0.5]).element_spec),
    ]


@resamples("With seeds the same elements are chosen in each walk and each run.")
def resampled_with_seeds(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices(np.int32([0, 0, 0, 1] * 50))
    made = data.rejection_resample(lambda x: x, [0.5, 0.5], [0.75, 0.25], seed=3)
    return [
        [int(found) for found, _ in made][:40],
        [int(found) for found, _ in made] == [int(found) for found, _ in made],
    ]


@samples("Weights are numbers, tensors, or a dataset of them; zeros are never drawn.")
def weights_of_samples(tf: Any) -> Any:
    data = tf.data.Dataset
    sample = data.sample_from_datasets
    both = [data.from_tensors(0).repeat(), data.from_tensors(1).repeat()]
    changing = data.from_tensor_slices([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]).repeat()
    pairs = data.from_tensor_slices(([1.0, 0.0], [0.0, 1.0])).map(lambda a, b: [(a, b)]).repeat()
    return [
        elements(sample(both, [0.3, 0.7], seed=2).take(20)),
        elements(sample(both, tf.constant([0.3, 0.7], tf.float64), seed=2).take(20)),
        elements(sample(both, np.float64([0.3, 0.7]), seed=2).take(20)),
        elements(sample(both, changing, seed=2).take(6)),
        elements(sample(both, pairs).take(4)),
        elements(sample([data.range(3), data.range(9).repeat()], [1.0, 0.0])),
        elements(sample([data.range(3)] * 2, [0.0, 0.0])),
        elements(sample([data.range(3)], [0.5])),
        error(lambda: sample(both, [1, 2])),
        error(lambda: sample(both, tf.constant([1, 2]))),
        error(lambda: sample(both, [0.5])),
        error(lambda: sample(both, tf.constant([0.5]))),
        error(lambda: sample([])),
    ]


@samples("Each walk draws anew where that is asked for.")
def samples_of_each_walk(tf: Any) -> Any:
    data = tf.data.Dataset
    both = [data.from_tensors(0).repeat(), data.from_tensors(1).repeat()]
    made = data.sample_from_datasets(both, seed=4, rerandomize_each_iteration=True).take(40)
    kept = data.sample_from_datasets(both, seed=4).take(40)
    return [elements(made) == elements(made), elements(kept) == elements(kept), elements(kept)]


@randoms("RandomDataset gives what Dataset.random does.")
def random_numbers(tf: Any) -> Any:
    made = tf.data.experimental.RandomDataset(seed=4)
    return [
        elements(made.take(3)),
        elements(made.take(3)) == elements(tf.data.Dataset.random(seed=4).take(3)),
        str(made.element_spec),
    ]


# ---- files


@writers("A dataset of strings is written to a file of records, in functions of datasets too.")
def written_records(tf: Any, folder: str) -> Any:
    writer = tf.data.experimental.TFRecordWriter
    data = tf.data.Dataset
    words = data.from_tensor_slices(["one", "two", "three"])
    plain, packed = (str(Path(folder, name)) for name in ("plain", "packed"))
    found = [writer(plain).write(words), writer(packed, "GZIP").write(words)]

    def shard(key: Any, group: Any) -> Any:
        name = tf.strings.join([folder, "/shard", tf.strings.as_string(key)])
        writer(name).write(group.map(lambda _, word: word))
        return data.from_tensors(name)

    sharded = words.enumerate().group_by_window(lambda i, _: i % 2, shard, np.iinfo(np.int64).max)
    names = sorted(Path(value(name).decode()).name for name in sharded)
    return [
        *found,
        elements(tf.data.TFRecordDataset(plain)),
        elements(tf.data.TFRecordDataset(packed, "GZIP")),
        names,
        [elements(tf.data.TFRecordDataset(str(Path(folder, name)))) for name in names],
        error(lambda: writer(plain).write(data.range(3))),
        error(lambda: writer(plain).write(data.from_tensors(["a"]))),
        error(lambda: writer(plain).write("a")),
    ]


@behaviour("python/data/kernel_tests/io_test.py", "The functions save and load do what methods do.")
def functions_that_save(tf: Any, folder: str) -> Any:
    path = str(Path(folder, "data"))
    data = tf.data.experimental
    data.save(tf.data.Dataset.range(4), path, compression="GZIP")
    return [
        elements(data.load(path, compression="GZIP")),
        elements(data.load(path, tf.TensorSpec([], tf.int64), "GZIP", lambda d: d.flat_map(_same))),
    ]


def _same(dataset: Any) -> Any:
    return dataset


# ---- arrays


@arrays("Elements are arrays, one by one.")
def walks_of_arrays(tf: Any) -> Any:
    walk = tf.data.Dataset.from_tensor_slices({"a": [1, 2]}).as_numpy_iterator()
    nothing = tf.data.Dataset.from_tensors((1, None)).as_numpy_iterator()
    return [
        isinstance(walk, tf.data.NumpyIterator),
        iter(walk) is walk,
        value(next(walk)),
        value(walk.next()),
        error(lambda: next(walk)),
        value(next(nothing)),
        value(list(tf.data.NumpyIterator(tf.data.Dataset.range(2)))),
    ]


@models("Iterators that are not tuned have no model.")
def models_of_iterators(tf: Any) -> Any:
    options = tf.data.Options()
    options.autotune.enabled = False
    made = tf.data.Dataset.range(3).with_options(options)
    get = tf.data.experimental.get_model_proto

    def model_of(walk: Any) -> Any:
        next(walk)
        return get(walk)

    return [
        error(lambda: model_of(iter(made))),
        error(lambda: model_of(made.as_numpy_iterator())),
        error(lambda: get(made)),
    ]


@behaviour(
    "python/data/kernel_tests/iterator_test.py",
    "Eager programs walk over datasets of the v1 shape, too, and give them to functions.",
)
def walks_over_the_v1_shape(tf: Any) -> Any:
    data = tf.compat.v1.data
    numbers = data.Dataset.range(3)

    @tf.function
    def total(dataset: Any) -> Any:
        found = tf.constant(0, tf.int64)
        for x in dataset:
            found += x
        return found

    following = numbers.make_one_shot_iterator()
    return [
        elements(numbers.map(lambda x: x * 2)),
        value(list(numbers.as_numpy_iterator())),
        len(numbers),
        str(numbers),
        [value(following.get_next()), value(next(following)), value(list(following))],
        value(list(data.make_one_shot_iterator(tf.data.Dataset.range(2)))),
        error(numbers.make_initializable_iterator),
        error(lambda: data.make_initializable_iterator(numbers)),
        value(total(numbers)),
        value(numbers.batch(3).get_single_element()),
        [name for name in ("autotune", "deterministic") if name in dir(tf.data.Options())],
    ]
