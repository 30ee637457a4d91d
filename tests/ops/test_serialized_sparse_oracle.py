"""Sparse tensors as strings, as variants and in maps of a device, beside TensorFlow's kernels."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from ops.outcomes import Call, as_array, check_ends_alike
from tideflow.graph.building import apply_op
from tideflow.wire.tensor_codec import encode_tensor

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

I64 = np.int64
INDICES, SHAPE = I64([[0, 0], [0, 2], [2, 1]]), I64([3, 4])
VALUES = np.float32([1, 2, 3])


def three(indices=INDICES, values=VALUES, shape=SHAPE):
    return [encode_tensor(one).SerializeToString() for one in (indices, values, shape)]


ONE, OTHER = three(), three(I64([[1, 5]]), np.float32([4]), I64([2, 6]))
F32 = {"dtype": "float32"}
CALLS = [
    *(
        Call(op, [INDICES, values, SHAPE])
        for op in ("SerializeSparse", "SerializeManySparse")
        for values in (VALUES, VALUES > 1, I64([1, 2, 3]), as_array(["a", "", "c"]))
    ),
    Call("SerializeManySparse", [INDICES[::-1], VALUES, SHAPE], id="descending"),
    Call("SerializeManySparse", [INDICES[:, :1], VALUES, SHAPE[:1]], id="rank 1"),
    Call("SerializeManySparse", [np.zeros((0, 3), I64), VALUES[:0], I64([2, 3, 4])], id="none"),
    *(Call(op, [as_array(ONE)], F32) for op in ("DeserializeSparse", "DeserializeManySparse")),
    *(
        Call(op, [as_array(given)], F32, id=f"{op}-{i}")
        for op in ("DeserializeSparse", "DeserializeManySparse")
        for i, given in enumerate(
            [
                [ONE, OTHER],
                [[ONE, OTHER]],
                [ONE, three(INDICES[:, :1], VALUES, SHAPE[:1])],
                [ONE[:2]],
                [[ONE[0], ONE[0], ONE[2]]],
                [ONE[1], ONE[1], ONE[2]],
                [*ONE[:2], b"\xff"],
            ]
        )
    ),
    Call("DeserializeSparse", [as_array(ONE)], {"dtype": "int32"}),
    Call("AddSparseToTensorsMap", [INDICES, VALUES, SHAPE]),
    Call("AddManySparseToTensorsMap", [INDICES, VALUES, SHAPE]),
    Call("TakeManySparseFromTensorsMap", [I64([0])], F32),
    Call("StringSplit", [as_array(["a b,,c", "", "d"]), as_array(" ,")], {"skip_empty": False}),
    *(
        Call("StringSplit", [as_array(["a b", "", "d", ",,"]), as_array(mark)], id=f"split-{mark}")
        for mark in ("", " ", "^]-,", "é")
    ),
    Call("UnicodeScript", [np.arange(-3, 0x110000 + 3, dtype=np.int32)]),
    Call("UnicodeScript", [np.int32([[65, 0x3B1], [2**31 - 1, -(2**31)]])]),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tensorflow, call)


@pytest.mark.parametrize("op", ["SerializeSparse", "SerializeManySparse"])
def test_variants_hold_what_strings_do(op):
    def build():
        made = apply_op(op, INDICES, VALUES, SHAPE, out_type="variant")
        back = apply_op("DeserializeSparse", made, dtype="float32")
        return [Run(list(back))]

    check_both_run(build, [op, "DeserializeSparse"])


@pytest.mark.parametrize("op", ["AddSparseToTensorsMap", "AddManySparseToTensorsMap"])
def test_a_map_gives_each_tensor_once(op):
    def build():
        handles = apply_op(op, INDICES, VALUES, SHAPE, shared_name="m", name="add")
        wanted = tf.placeholder(tf.int64, None)
        take = partial(apply_op, "TakeManySparseFromTensorsMap", shared_name="m")
        taken, wrong = take(wanted, dtype="float32"), take(wanted, dtype="int32")
        numbers = [[0, 1], [1], [5], 2, [], [2]]
        runs = [Run([handles]), Run([handles])]
        runs += [Run(list(taken), {wanted: np.array(one, np.int64)}) for one in numbers]
        return [*runs, Run([handles]), Run(list(wrong), {wanted: [3]})]

    check_both_run(build, [op, "TakeManySparseFromTensorsMap"])
