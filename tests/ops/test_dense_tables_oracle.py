"""Dense lookup tables, tables of vectors, and tables that datasets fill, beside TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F = np.float32


class Table:
    """A table of the graph that is built, and runs on it."""

    def __init__(self, kind: str, keys: Any, values: Any, *marks: Any, **attrs: Any) -> None:
        self.types = {"key_dtype": keys, "value_dtype": values}
        self.handle = apply_op(kind, *marks, **self.types, **attrs)
        self.keys = np.dtype(keys) if keys != "string" else np.dtype(object)

    def do(self, name: str, *args: Any, **attrs: Any) -> Run:
        feeds = {}
        for arg in args:
            array = np.asarray(arg)
            feeds[tf.placeholder("string" if array.dtype == object else array.dtype, None)] = array
        made = apply_op(f"LookupTable{name}V2", self.handle, *feeds, **attrs)
        return Run(list(made) if isinstance(made, (list, tuple)) else [made], feeds)

    def export(self) -> Run:
        return self.do("Export", Tkeys=self.types["key_dtype"], Tvalues=self.types["value_dtype"])

    def of(self, *keys: Any) -> Any:
        return np.array(keys, self.keys)


def dense(keys: Any, values: Any, empty: Any, deleted: Any, **attrs: Any) -> Table:
    dtype = object if keys == "string" else keys
    marks = [np.array(mark, dtype) for mark in (empty, deleted)]
    return Table("MutableDenseHashTableV2", keys, values, *marks, shared_name="t", **attrs)


def numbers() -> Iterator[Run]:
    t = dense("int64", "float32", -1, -2, initial_num_buckets=4)
    yield t.export()
    yield t.do("Insert", t.of(5, 9, 1), F([1, 2, 3]))
    yield t.export()
    yield t.do("Find", t.of(5, 7, 1), F(-1))
    yield t.do("Find", t.of(5, 7), F([8, 9]))
    yield t.do("Find", t.of(5, 7), F([8, 9, 10]))
    yield t.do("Find", np.int64(5), F(-1))
    yield t.do("Find", t.of([5, 7]), F(-1))
    yield t.do("Find", t.of([5], [7]), F(-1))
    for mark in (-1, -2):
        for call in (["Find", F(-1)], ["Insert", F([4])], ["Remove"]):
            yield t.do(call[0], t.of(mark), *call[1:])
    yield t.export()
    yield t.do("Remove", t.of(9, 77, 9))
    yield t.do("Size")
    yield t.export()
    yield t.do("Insert", t.of(13, 17, 25, 33), F([4, 5, 6, 7]))
    yield t.export()
    yield t.do("Insert", t.of(*range(40)), np.arange(40, dtype=F))
    yield t.export()
    yield t.do("Insert", t.of(1, 2), F([1]))
    yield t.do("Insert", t.of([1, 2]), F([[1, 2]]))
    yield t.do("Insert", np.int64(1), F(6))
    yield t.do("Find", t.of(1), F(-1))


def buckets() -> Iterator[Run]:
    """What is imported are buckets as they are."""
    t = dense("int64", "float32", -1, -2, initial_num_buckets=4)
    yield t.do("Import", t.of([5], [6], [-1], [-2]), F([[1], [2], [3], [4]]))
    yield t.do("Size")
    yield t.export()
    yield t.do("Find", t.of(5, 6, 7), F(-1))
    yield t.do("Import", t.of([5], [6]), F([1, 2]))
    yield t.do("Import", t.of(5, 6), F([1, 2]))
    yield t.do("Import", t.of([-1], [5], [-1], [-1]), F([[1], [2], [3], [4]]))
    yield t.do("Find", t.of(5, 6, 7), F(-1))
    yield t.do("Insert", t.of(6), F([7]))
    yield t.export()


def texts() -> Iterator[Run]:
    t = dense("string", "int64", "", "gone", initial_num_buckets=8)
    words = t.of("a", "b", "c", "a longer word", "another one")
    yield t.do("Insert", words, np.arange(5))
    yield t.export()
    yield t.do("Remove", t.of("b"))
    yield t.do("Insert", t.of("x", "y", "z"), np.arange(3))
    yield t.export()
    yield t.do("Find", t.of("x", "b", "a"), np.int64(-1))
    yield t.do("Find", t.of("gone"), np.int64(-1))


def vectors() -> Iterator[Run]:
    t = dense("int64", "float32", -1, -2, initial_num_buckets=4, value_shape=[2])
    yield t.do("Insert", t.of(5, 9), F([[1, 2], [3, 4]]))
    yield t.export()
    yield t.do("Find", t.of(5, 7), F([0, 1]))
    yield t.do("Find", t.of([5], [9]), F([0, 1]))
    yield t.do("Find", t.of(6, 7), F([[1, 2], [3, 4]]))
    yield t.do("Find", t.of(5, 7), F(0))
    yield t.do("Insert", t.of(5, 9), F([1, 2]))


def keys_of_two() -> Iterator[Run]:
    t = dense("int64", "float32", [-1, -1], [-2, -2], initial_num_buckets=8)
    yield t.do("Insert", t.of([5, 9], [1, 2], [-1, 2]), F([1, 2, 3]))
    yield t.export()
    yield t.do("Find", t.of([5, 9], [1, 3]), F(-1))
    yield t.do("Find", t.of(5, 9), F(-1))
    yield t.do("Find", t.of(5), F(-1))
    yield t.do("Find", t.of([5, 9, 3]), F(-1))
    yield t.do("Find", t.of([[5, 9]]), F(-1))
    yield t.do("Find", t.of([[5, 9], [1, 2]]), F(-1))
    yield t.do("Find", t.of([-1, -1]), F(-1))
    yield t.do("Remove", t.of([5, 9]))
    yield t.export()


def of_tensors() -> Iterator[Run]:
    t = Table("MutableHashTableOfTensorsV2", "int64", "float32", value_shape=[2], shared_name="t")
    yield t.do("Insert", t.of(5), F([[1, 2]]))
    yield t.export()
    yield t.do("Insert", t.of(9, 5), F([[3, 4], [5, 6]]))
    yield t.do("Find", t.of(5, 7), F([0, 1]))
    yield t.do("Find", t.of(8, 5, 7), F([[0, 1], [2, 3], [4, 5]]))
    yield t.do("Find", t.of([5], [9]), F([0, 1]))
    yield t.do("Find", t.of(5, 7), F(0))
    yield t.do("Find", t.of(5, 7), F([[1, 2]]))
    yield t.do("Find", np.int64(5), F([0, 1]))
    yield t.do("Insert", t.of(5, 9), F([1, 2]))
    yield t.do("Remove", t.of(5, 6))
    yield t.do("Size")
    yield t.export()
    yield t.do("Import", t.of(7), F([[3, 4]]))
    yield t.export()


def by_reference() -> Iterator[Run]:
    made = apply_op(
        "MutableHashTableOfTensors",
        key_dtype="int64",
        value_dtype="float32",
        value_shape=[2],
        shared_name="t",
    )
    yield Run([apply_op("LookupTableInsert", made, np.int64([1]), F([[1, 2]]))])
    yield Run([apply_op("LookupTableFind", made, np.int64([1, 2]), F([3, 4]))])
    old = apply_op("MutableDenseHashTable", np.int64(-1), key_dtype="int64", value_dtype="float32")
    yield Run([apply_op("LookupTableSize", old)])


PROGRAMS = {
    numbers: ["MutableDenseHashTableV2"],
    buckets: ["MutableDenseHashTableV2"],
    texts: ["MutableDenseHashTableV2"],
    vectors: ["MutableDenseHashTableV2"],
    keys_of_two: ["MutableDenseHashTableV2"],
    of_tensors: ["MutableHashTableOfTensorsV2"],
    by_reference: ["MutableHashTableOfTensors", "MutableDenseHashTable"],
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_with_tables_end_alike(program: Any) -> None:
    check_both_run(lambda: list(program()), PROGRAMS[program])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("string", value) for value in ("int64", "int32", "float32", "float64", "bool")],
        *[("int64", value) for value in ("int64", "int32", "float32", "float64", "bool")],
        *[("int32", value) for value in ("int32", "float32", "float64")],
    ],
)
def test_dense_tables_of_every_type(key: str, value: str) -> None:
    def build() -> list[Run]:
        empty, gone, first, other = [
            np.array(x, object if key == "string" else key)
            for x in (
                ("", "-", ["a", "b"], ["c", "a"]) if key == "string" else (0, 1, [2, 3], [4, 2])
            )
        ]
        made = dense(key, value, empty, gone, initial_num_buckets=4)
        return [
            made.do("Insert", first, np.array([0, 1], value)),
            made.do("Find", other, np.array(1, value)),
            made.export(),
        ]

    check_both_run(build, ["MutableDenseHashTableV2"])


@pytest.mark.parametrize(
    ("empty", "deleted", "attrs"),
    [
        (-1, -1, {}),
        ([1], 2, {}),
        ([], [], {}),
        *[(1, 2, {"initial_num_buckets": n}) for n in (2, 6, 0, -4)],
        *[(1, 2, {"max_load_factor": x}) for x in (1.0, 0.0, -0.5)],
        (1, 2, {"value_shape": [2, 3]}),
        (1, 2, {"value_shape": None}),
    ],
    ids=str,
)
def test_a_dense_table_that_cannot_be(empty: Any, deleted: Any, attrs: Any) -> None:
    def build() -> list[Run]:
        made = dense("int64", "float32", empty, deleted, **attrs)
        again = apply_op(
            "AnonymousMutableDenseHashTable",
            np.int64(empty),
            np.int64(deleted),
            key_dtype="int64",
            value_dtype="float32",
            **attrs,
        )
        return [made.do("Size"), Run([apply_op("LookupTableSizeV2", again)])]

    check_both_run(build, ["MutableDenseHashTableV2", "AnonymousMutableDenseHashTable"])


@pytest.mark.parametrize("shape", [[2, 3], [], None, [2]], ids=str)
def test_a_table_of_tensors_that_cannot_be(shape: Any) -> None:
    def build() -> list[Run]:
        types = {"key_dtype": "int64", "value_dtype": "float32", "value_shape": shape}
        made = Table("MutableHashTableOfTensorsV2", "int64", "float32", value_shape=shape)
        again = apply_op("AnonymousMutableHashTableOfTensors", **types)
        return [made.do("Size"), Run([apply_op("LookupTableSizeV2", again)])]

    names = ["MutableHashTableOfTensorsV2", "AnonymousMutableHashTableOfTensors"]
    check_both_run(build, names)


@pytest.mark.parametrize("taken", [2, 0], ids=["filled", "empty"])
@pytest.mark.parametrize("kind", ["HashTableV2", "MutableHashTableV2"])
@pytest.mark.parametrize("values", [[1, 2], [1, 1]], ids=str)
@pytest.mark.parametrize("keys", [["a", "b"], ["a", "a"]], ids=str)
def test_a_dataset_fills_a_table(kind: str, keys: Any, values: Any, taken: int) -> None:
    def build() -> list[Run]:
        dataset = tf.data.Dataset.from_tensor_slices((keys, np.int64(values))).take(taken)
        made = Table(kind, "string", "int64", shared_name="t")
        fill = apply_op(
            "InitializeTableFromDataset", made.handle, tf.data.experimental.to_variant(dataset)
        )
        find = made.do("Find", made.of("a", "b", "c"), np.int64(-1))
        return [Run([fill]), made.do("Size"), find, Run([fill]), find]

    check_both_run(build, ["InitializeTableFromDataset"])
