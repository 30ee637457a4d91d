"""Older versions of ops, and handles by reference, beside TensorFlow's kernels."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from ops.outcomes import Call, as_array, check_ends_alike
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F = np.float32
VECTORS = F([[1, 2, 3], [4, 5, 6]])
MATRICES = np.arange(24, dtype=F).reshape(2, 3, 4)
BAND = np.int32([-1, 1])
BANDS = np.arange(1, 19, dtype=F).reshape(2, 3, 3)
ONE = np.int32(-1)
IMAGES = np.random.default_rng(1).random((2, 3, 3, 4), F)
EMPTY = np.zeros(0, F)
CHANNELS = [F([1, 2, 3, 4]), F([0, 1, 0, 1]), F([0.5, 0.4, 0.3, 0.2]), F([1, 2, 1, 2])]

CALLS = [
    *(
        call
        for kind in (np.float32, np.int64, np.bool_, np.complex64)
        for call in (
            Call("MatrixDiag", [VECTORS.astype(kind)]),
            Call("MatrixDiagPart", [MATRICES.astype(kind)]),
            Call("MatrixSetDiag", [MATRICES.astype(kind), VECTORS.astype(kind)]),
        )
    ),
    Call("MatrixDiagV2", [BANDS, BAND, ONE, ONE, F(9)]),
    Call("MatrixDiagV2", [VECTORS, np.int32(1), np.int32(4), ONE, F(9)]),
    Call("MatrixDiagPartV2", [MATRICES, BAND, F(9)]),
    Call("MatrixDiagPartV2", [MATRICES, np.int32([-2, -1]), F(9)]),
    Call("MatrixSetDiagV2", [MATRICES, BANDS, BAND]),
    *(
        Call("ConjugateTranspose", [MATRICES.astype(kind) * factor, np.int32([2, 0, 1])])
        for kind, factor in ((np.complex64, 1 + 2j), (np.float32, 1), (np.int64, 1))
    ),
    *(
        Call(op, [IMAGES, *CHANNELS[:2], EMPTY, EMPTY], atol=1e-5)
        for op in ("FusedBatchNorm", "FusedBatchNormV2")
    ),
    *(
        Call(op, [IMAGES, *CHANNELS], {"is_training": training}, atol=1e-5)
        for op in ("FusedBatchNorm", "FusedBatchNormV2")
        for training in (False, True)
    ),
    Call("FusedBatchNormV2", [IMAGES.astype(np.float16), *CHANNELS], {"is_training": True}),
    Call("MatrixSetDiagV2", [MATRICES, VECTORS, np.int32(1)]),
    *(
        Call("ShardedFilespec", [as_array(name), np.int32(shards)], id=f"filespec-{name}-{shards}")
        for name, shards in [("/a/b", 3), ("", 123456), ("a", -3), (["a"], 3), ("a", [3])]
    ),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tensorflow, call)


QUEUES = {
    "FIFOQueue": {},
    "PaddingFIFOQueue": {},
    "RandomShuffleQueue": {"seed": 1, "seed2": 2},
    "PriorityQueue": {},
}


@pytest.mark.parametrize("kind", QUEUES)
def test_a_queue_by_reference(kind):
    def build():
        types = [tf.int64, tf.float32]
        declared = {"component_types": types, "shapes": [[], [2]]}
        if kind == "PriorityQueue":
            declared = {"component_types": types[1:], "shapes": [[2]]}
        queue = apply_op(kind, capacity=9, **declared, **QUEUES[kind])
        n = tf.placeholder(tf.int32, None)
        key = tf.placeholder(tf.int64, None)
        put = apply_op("QueueEnqueue", queue, [key, F([1, 2])])
        rows = [np.int64([5, 5]), F([[1, 2], [1, 2]])]
        put_many = apply_op("QueueEnqueueMany", queue, rows)
        take = tf.nest.flatten(apply_op("QueueDequeue", queue, component_types=types))
        many = apply_op("QueueDequeueMany", queue, n, component_types=types)
        up_to = tf.nest.flatten(apply_op("QueueDequeueUpTo", queue, n, component_types=types))
        size = [apply_op("QueueSize", queue), apply_op("QueueIsClosed", queue)]
        close = apply_op("QueueClose", queue)
        return [
            Run([put], {key: 5}),
            Run([put_many]),
            Run(size),
            Run(take),
            Run(tf.nest.flatten(many), {n: 1}),
            Run([close]),
            Run(size),
            # A PriorityQueue of TensorFlow's loses what is left when more is asked for.
            Run(up_to, {n: 1 if kind == "PriorityQueue" else 5}),
            Run(take),
            Run([put], {key: 5}),
        ]

    parts = ("Enqueue", "EnqueueMany", "Dequeue", "DequeueMany", "DequeueUpTo", "Size", "IsClosed")
    check_both_run(build, [kind, "QueueClose", *[f"Queue{part}" for part in parts]])


TYPES = {"key_dtype": "string", "value_dtype": "int64"}


@pytest.mark.parametrize("kind", ["HashTable", "MutableHashTable"])
def test_a_table_by_reference(kind):
    def build():
        table = apply_op(kind, shared_name="t", **TYPES)
        keys, values = tf.placeholder(tf.string, None), tf.placeholder(tf.int64, None)
        find = [apply_op("LookupTableFind", table, keys, np.int64(-1))]
        size = [apply_op("LookupTableSize", table)]
        export = apply_op("LookupTableExport", table, Tkeys="string", Tvalues="int64")
        changes = [
            [apply_op(op, table, keys, values)]
            for op in ("LookupTableInsert", "LookupTableImport", "InitializeTable")
        ]
        one = {keys: as_array(["a"]), values: np.int64([7])}
        steps = changes[:2] if kind == "MutableHashTable" else changes
        return [
            *(Run(step, one) for step in steps),
            Run(size),
            Run(find, {keys: as_array(["a", "b"])}),
            Run(list(export)),
        ]

    parts = ("LookupTableFind", "LookupTableSize", "LookupTableExport", "LookupTableInsert")
    check_both_run(build, [kind, "LookupTableImport", "InitializeTable", *parts])


@pytest.mark.parametrize("kind", ["AnonymousHashTable", "AnonymousMutableHashTable"])
def test_a_table_without_a_name(kind):
    def build():
        table = apply_op(kind, **TYPES)
        with tf.control_dependencies(
            [apply_op("LookupTableImportV2", table, as_array(["a"]), np.int64([7]))]
        ):
            found = apply_op("LookupTableFindV2", table, as_array(["a", "b"]), np.int64(-1))
        return [Run([found]), Run([apply_op("LookupTableSizeV2", table)])]

    check_both_run(build, [kind])


LINES = b"a\t3\nb\t4\nc\t5\n"


@pytest.mark.parametrize("by_reference", [True, False])
@pytest.mark.parametrize(
    ("text", "types", "attrs"),
    [
        (LINES, ("string", "int64"), {"key_index": 0, "value_index": 1}),
        (LINES, ("string", "int64"), {"key_index": -2, "value_index": -1, "offset": 5}),
        (LINES, ("int64", "string"), {"key_index": -1, "value_index": 0, "vocab_size": 2}),
        (LINES, ("string", "int64"), {"key_index": 0, "value_index": -1, "vocab_size": 9}),
        (LINES, ("string", "int64"), {"key_index": 0, "value_index": 2}),
        (LINES, ("string", "int64"), {"key_index": 0, "value_index": 0}),
        (LINES, ("string", "string"), {"key_index": 0, "value_index": -1}),
        (LINES, ("string", "int64"), {"key_index": 0, "value_index": 1, "delimiter": "no"}),
        (b"", ("string", "int64"), {"key_index": 0, "value_index": 1}),
        (
            b"a,1.5\nb,x",
            ("string", "float32"),
            {"key_index": 0, "value_index": 1, "delimiter": ","},
        ),
        (
            b"a,1.5\nb,2",
            ("string", "float32"),
            {"key_index": 0, "value_index": 1, "delimiter": ","},
        ),
        (b"a,1.5", ("string", "float32"), {"key_index": 0, "value_index": 1, "delimiter": ","}),
        (b"a\na\n", ("string", "int64"), {"key_index": -2, "value_index": -1}),
    ],
)
def test_a_table_from_a_file(by_reference, text, types, attrs, tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(text)
    version = "" if by_reference else "V2"

    def build():
        key, value = types
        table = apply_op(f"HashTable{version}", key_dtype=key, value_dtype=value)
        name = tf.placeholder(tf.string, None)
        fill = apply_op(f"InitializeTableFromTextFile{version}", table, name, **attrs)
        export = apply_op(f"LookupTableExport{version}", table, Tkeys=key, Tvalues=value)
        size = apply_op(f"LookupTableSize{version}", table)
        runs = [Run([fill], {name: str(one)}) for one in (tmp_path / "none", path, path)]
        one_line = len(text.splitlines()) == 1
        return [*runs, Run([size]), *([Run(list(export))] if one_line else [])]

    check_both_run(build, [f"InitializeTableFromTextFile{version}"])


def test_a_table_is_filled_once():
    def build():
        table = apply_op("HashTableV2", **TYPES)
        keys, values = tf.placeholder(tf.string, None), tf.placeholder(tf.int64, None)
        fill = [apply_op("InitializeTableV2", table, keys, values)]
        given = [(["a"], [[1]]), (["a", "a"], [1, 2]), (["a", "b"], [1, 2]), (["a"], [1])]
        runs = [Run(fill, {keys: as_array(k), values: np.int64(v)}) for k, v in given]
        return [*runs, Run([apply_op("LookupTableSizeV2", table)])]

    check_both_run(build, ["InitializeTableV2"])


def test_a_reader_by_reference(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"text")

    def build():
        queue = apply_op("FIFOQueue", component_types=[tf.string], shapes=[[]], capacity=9)
        reader = apply_op("WholeFileReader")
        name = tf.placeholder(tf.string, None)
        put = apply_op("QueueEnqueue", queue, [name])
        read = list(apply_op("ReaderRead", reader, queue))
        several = list(apply_op("ReaderReadUpTo", reader, queue, np.int64(2)))
        counts = [
            apply_op(f"Reader{what}", reader)
            for what in ("NumRecordsProduced", "NumWorkUnitsCompleted")
        ]
        state = apply_op("ReaderSerializeState", reader)
        restore = apply_op("ReaderRestoreState", reader, b"no state")
        reset = apply_op("ReaderReset", reader)
        fill = Run([put], {name: str(path)})
        return [
            *(fill, fill, fill, Run(read), Run(counts), Run(several), Run(counts)),
            *(Run([state]), Run([restore]), Run([reset]), Run(counts)),
        ]

    parts = ("Read", "ReadUpTo", "NumRecordsProduced", "NumWorkUnitsCompleted", "SerializeState")
    check_both_run(
        build,
        ["WholeFileReader", "ReaderRestoreState", "ReaderReset", *[f"Reader{p}" for p in parts]],
    )
