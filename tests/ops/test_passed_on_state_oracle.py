"""Rows changed in copies, maps, stacks by reference, and ops about processes, beside TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from ops.outcomes import Call, check_ends_alike
from tideflow.graph.building import apply_op
from tideflow.wire import dtypes

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F = np.float32
I32 = np.int32
X = np.arange(6, dtype=F).reshape(3, 2)
NUMBERS = "float32 float64 int32 int64 int8 uint8 int16 uint16 uint32 uint64 bfloat16 float16"
ALL = f"{NUMBERS} complex64 complex128 bool"


def of(dtype: str, values: Any) -> Any:
    return np.array(values).astype(dtypes.as_dtype(dtype).as_numpy_dtype)


# TensorFlow's kernels change what they are fed, so some inputs are constants.
CALLS = [
    *(
        Call(f"Inplace{way}", [X, I32([0, -1, 5]), X + 1], fixed=True)
        for way in ("Add", "Sub", "Update")
    ),
    *(
        Call(f"Inplace{way}", [of(dtype, X), I32([0, 2]), of(dtype, X[:2])], fixed=True)
        for way in ("Add", "Sub")
        for dtype in NUMBERS.split()
    ),
    *(
        Call("InplaceUpdate", [of(dtype, X), I32([0, 2]), of(dtype, X[:2])], fixed=True)
        for dtype in ALL.split()
    ),
    *(
        Call(
            "TensorStridedSliceUpdate",
            [of(dtype, X), I32([0, 0]), I32([3, 2]), I32([2, 1]), of(dtype, X[:2])],
        )
        for dtype in ALL.split()
    ),
    Call(
        "TensorStridedSliceUpdate",
        [X, np.int64([1]), np.int64([2]), np.int64([1]), F([7, 8])],
        {"shrink_axis_mask": 1},
    ),
    *(
        Call("ScatterNdNonAliasingAdd", [of(dtype, X), I32([[0], [2]]), of(dtype, X[:2])])
        for dtype in ALL.split()
    ),
    *(Call(op, [of(dtype, X)]) for op in ("Copy", "CopyHost") for dtype in ("float32", "int32")),
    Call("Copy", [np.array([b"a"], object)], {"tensor_name": "x"}),
    Call("DeepCopy", [X]),
    Call("DeepCopy", [np.array([b"a"], object)]),
    Call("CheckPinned", [X]),
    Call("Fact", []),
    *(Call("DeviceIndex", [], {"device_names": x}) for x in (["CPU"], ["GPU", "CPU"], ["GPU"], [])),
    Call("SyncDevice", []),
    Call("FileSystemSetConfiguration", ["", "key", "value"]),
    Call("FileSystemSetConfiguration", ["file", "key", "value"]),
    Call("TensorArrayConcatV2", [["a", "b"], F(0)], {"dtype": "float32"}),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_calls_end_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tensorflow, call)


@pytest.mark.parametrize("dtype", ALL.split())
def test_rows_are_joined_and_tensors_made(dtype: str) -> None:
    def build() -> list[Run]:
        rows = [of(dtype, X[:1]), of(dtype, X[1:2])]
        made = apply_op("ParallelConcat", rows, shape=[2, 2])
        wrong = apply_op("ParallelConcat", rows, shape=[3, 2])
        size = tf.placeholder(tf.int32, None)
        empty = apply_op("Shape", apply_op("Empty", [2, 3], dtype=dtype))
        zeros = apply_op("Empty", size, dtype=dtype, init=True)
        sizes = [Run([zeros], {size: one}) for one in ([2, 3], [], [0, 2], [[2]], [-1])]
        return [Run([made]), Run([empty]), *sizes, *([Run([wrong])] if dtype == "string" else [])]

    check_both_run(build, ["ParallelConcat", "Empty"])


def test_a_stack_by_reference() -> None:
    def build() -> list[Run]:
        value = tf.placeholder(tf.float32, None)
        made = apply_op("Stack", elem_type=tf.float32)
        first = apply_op("StackPush", made, value)
        with tf.control_dependencies([first]):
            second = apply_op("StackPush", made, value + 1)
        with tf.control_dependencies([second]):
            popped = apply_op("StackPop", made, elem_type=tf.float32)
        with tf.control_dependencies([popped]):
            again = apply_op("StackPop", made, elem_type=tf.float32)
        with tf.control_dependencies([again]):
            closed = apply_op("StackClose", made)
            empty = apply_op("StackPop", made, elem_type=tf.float32)
        feed = {value: F([1, 2])}
        return [Run([popped, again, closed], feed), Run([empty], feed)]

    check_both_run(build, ["Stack", "StackPush", "StackPop", "StackClose"])


def test_a_queue_behind_a_resource_is_used_by_reference() -> None:
    def build() -> list[Run]:
        queue = tf.FIFOQueue(3, [tf.float32], shapes=[[]])
        made = apply_op("FakeQueue", queue.queue_ref)
        size = apply_op("QueueSize", made)
        put = apply_op("QueueEnqueue", made, [F(5)])
        return [Run([size]), Run([put]), Run([size]), Run([queue.dequeue()])]

    check_both_run(build, ["FakeQueue"])


def test_constants_lie_in_files(tmp_path: Path) -> None:
    path = tmp_path / "region"
    path.write_bytes(F([1, 2, 3]).tobytes())

    def build() -> list[Run]:
        def constant(dtype: str, shape: list[int], where: Path) -> Run:
            attrs = {"dtype": dtype, "shape": shape, "memory_region_name": str(where)}
            return Run([apply_op("ImmutableConst", **attrs)])

        return [
            constant("float32", [3], path),
            constant("int32", [1, 2], path),
            constant("float32", [4], path),
            constant("float32", [3], tmp_path / "nothing"),
            constant("string", [1], path),
        ]

    check_both_run(build, ["ImmutableConst"])


def test_maps_from_tensors_to_tensors() -> None:
    def build() -> list[Run]:
        key, wanted = tf.placeholder(tf.int32, None), tf.placeholder(tf.int32, None)
        empty = apply_op("EmptyTensorMap")
        made = apply_op("TensorMapInsert", empty, key, X)
        more = apply_op("TensorMapInsert", made, key + 1, F([9]))
        other = apply_op("TensorMapInsert", made, key, F(7))
        look = [
            apply_op("TensorMapLookup", one, wanted, value_dtype=dtype)
            for one, dtype in ((more, F), (other, F), (empty, F))
        ]
        less = apply_op("TensorMapErase", more, wanted, value_dtype=F)
        sizes = [apply_op("TensorMapSize", one) for one in (empty, made, more, other)]
        has = [apply_op("TensorMapHasKey", one, wanted) for one in (empty, made, more)]
        has.append(apply_op("TensorMapHasKey", more, tf.cast(wanted, tf.int64)))
        keys = [
            apply_op("TensorMapStackKeys", one, key_dtype=dtype)
            for one, dtype in ((made, I32), (made, F), (empty, I32))
        ]
        runs = [Run(sizes, {key: 1}), *(Run([one], {key: [1, 2]}) for one in keys)]
        for asked in (1, 2, 3, [1]):
            feed = {key: 1, wanted: asked}
            runs += [Run(has, feed), Run([apply_op("TensorMapSize", less)], feed)]
            runs += [Run([one], feed) for one in look]
        return runs

    parts = ("Insert", "Lookup", "Erase", "Size", "HasKey", "StackKeys")
    check_both_run(build, ["EmptyTensorMap", *(f"TensorMap{part}" for part in parts)])


def test_gradients_of_maps() -> None:
    def build() -> list[Run]:
        x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        made = apply_op("TensorMapInsert", apply_op("EmptyTensorMap"), 1, x)
        more = apply_op("TensorMapInsert", made, 2, y)
        less = apply_op("TensorMapErase", more, 2, value_dtype=F)
        first = apply_op("TensorMapLookup", more, 1, value_dtype=F)
        last = apply_op("TensorMapLookup", less, 1, value_dtype=F)
        found = [*tf.gradients(first * x, [x, y]), *tf.gradients(last * last, [x])]
        return [Run(found, {x: 3.0, y: 4.0})]

    assert [float(x) for x in check_both_run(build, ["TensorMapLookup"])[0]] == [6, 0, 6]


def test_a_critical_section_is_run_by_one_step_after_the_other() -> None:
    def build() -> list[Run]:
        total = tf.get_variable("total", initializer=F(1), use_resource=True)
        x = tf.placeholder(tf.float32, [])
        section = tf.CriticalSection(name="section", shared_name="shared")
        first = section.execute(lambda: total.assign_add(6 / tf.check_numerics(x, "x")).op)
        second = section.execute(lambda: total.read_value() + 1)
        feed = {x: 2.0}
        wrong = {x: np.nan}
        runs = [Run([first], feed), Run([second]), Run([first], wrong), Run([second])]
        return [Run([total.initializer]), *runs]

    found = check_both_run(build, ["MutexV2", "MutexLock", "ConsumeMutexLock"])
    assert [found[2], found[4]] == [[5], [5]]
