"""Functions, branches and loops as single ops, and the small ops around them."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op
from tideflow.graph.node import FunctionRef
from tideflow.ops.control_flow.functional import defun

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def function(body, *types):
    """Return a reference to a function of the default graph, made from a Python function."""
    return FunctionRef(defun(body, types).name)


def numbers(dtype, *values):
    return tf.constant(np.array(values, dtype))


# ---- calls


@pytest.mark.parametrize("name", ["PartitionedCall", "StatefulPartitionedCall"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.complex64])
def test_a_call(name, dtype):
    def build():
        f = function(lambda x, y: [x + y, x * y, tf.shape(x)], dtype, dtype)
        made = apply_op(
            name, [numbers(dtype, 1, 2), numbers(dtype, 3, 4)], Tout=[dtype, dtype, np.int32], f=f
        )
        return [Run(made)]

    check_both_run(build, [name])


@pytest.mark.parametrize("name", ["PartitionedCall", "StatefulPartitionedCall"])
def test_a_call_that_fails(name):
    def build():
        f = function(lambda x: tf.gather(x, [5]), np.float32)
        return [Run(apply_op(name, [numbers(np.float32, 1, 2)], Tout=[np.float32], f=f))]

    check_both_run(build, [name])


def test_a_call_for_its_effect():
    def build():
        v = apply_op("VarHandleOp", dtype=np.float32, shape=[], shared_name="v")
        begin = apply_op("AssignVariableOp", v, tf.constant(1.0))

        def add(handle):
            with tf.control_dependencies([apply_op("AssignAddVariableOp", handle, 2.0)]):
                return tf.constant(7.0)

        call = apply_op(
            "StatefulPartitionedCall", [v], Tout=[np.float32], f=function(add, tf.resource)
        )
        read = apply_op("ReadVariableOp", v, dtype=np.float32)
        return [Run([begin]), Run(call), Run(call), Run([read])]

    check_both_run(build, ["StatefulPartitionedCall"])


TASK = "/job:localhost/replica:0/task:0"
TWO = tf.ConfigProto(device_count={"CPU": 2})


@pytest.mark.parametrize("placed", [0, 1])
@pytest.mark.parametrize(
    "target", [f"{TASK}/device:CPU:0", f"{TASK}/device:CPU:1", "/cpu:0", "/device:CPU:1", ""]
)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_call_on_a_device(target, placed, dtype):
    def build():
        f = function(lambda x: x * x, dtype)
        device = tf.placeholder(tf.string, [])
        with tf.device(f"/CPU:{placed}"):
            made = apply_op("RemoteCall", device, [numbers(dtype, 1, 2)], Tout=[dtype], f=f)
        return [Run(made, {device: target})] * 2

    check_both_run(build, ["RemoteCall"], config=TWO)


@pytest.mark.parametrize("target", ["nowhere", f"{TASK}/device:CPU:7", "/device:CPU:2"])
def test_a_call_on_what_is_no_device(target):
    def build():
        f = function(lambda x: x * x, np.float32)
        device = tf.placeholder(tf.string, [])
        made = apply_op("RemoteCall", device, [tf.constant(1.0)], Tout=[np.float32], f=f)
        return [Run(made, {device: target})]

    check_both_run(build, ["RemoteCall"], config=TWO)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_of_a_function(dtype):
    def build():
        f = function(lambda x, y: [tf.sin(x) * y, tf.exp(y)], dtype, dtype)
        given = [numbers(dtype, *row) for row in ([0.5, 2], [3, -1], [1, 2], [0.5, 0.25])]
        return [Run(apply_op("SymbolicGradient", given, Tout=[dtype, dtype], f=f))]

    check_both_run(build, ["SymbolicGradient"])


def test_gradients_of_what_has_none():
    def build():
        f = function(lambda x: apply_op("HSVToRGB", x), np.float32)
        given = [tf.ones([2, 3]), tf.ones([2, 3])]
        return [Run(apply_op("SymbolicGradient", given, Tout=[np.float32], f=f))]

    check_both_run(build, ["SymbolicGradient"])


# ---- branches


@pytest.mark.parametrize("name", ["If", "StatelessIf"])
@pytest.mark.parametrize(
    "cond",
    [
        np.bool_(True),
        np.bool_(False),
        np.int32(3),
        np.int64(0),
        np.float32(0.5),
        np.float64(0),
        np.uint8(0),
        np.int8(1),
        np.int16(0),
        np.array(b"a", object),
        np.array(b"", object),
        np.zeros(2, np.float32),
        np.zeros(0, np.bool_),
    ],
    ids=repr,
)
def test_a_branch(name, cond):
    def build():
        chosen = tf.placeholder(tf.as_dtype(np.asarray(cond).dtype), None)
        made = apply_op(
            name,
            chosen,
            [tf.constant([1.0, 2.0])],
            Tout=[np.float32],
            then_branch=function(lambda x: x + 1, np.float32),
            else_branch=function(lambda x: tf.reduce_sum(x), np.float32),
        )
        return [Run(made, {chosen: cond})]

    check_both_run(build, [name])


@pytest.mark.parametrize("name", ["If", "StatelessIf"])
def test_a_branch_that_fails(name):
    def build():
        made = apply_op(
            name,
            tf.constant(True),
            [tf.constant([1.0, 2.0])],
            Tout=[np.float32],
            then_branch=function(lambda x: tf.gather(x, [2]), np.float32),
            else_branch=function(lambda x: x, np.float32),
        )
        return [Run(made)]

    check_both_run(build, [name])


@pytest.mark.parametrize("name", ["Case", "StatelessCase"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex128])
def test_a_choice_of_many(name, dtype):
    def build():
        index = tf.placeholder(tf.int32, [])
        bodies = [lambda x: x + x, lambda x: x * x, lambda x: x - x]
        made = apply_op(
            name,
            index,
            [numbers(dtype, 1, 2)],
            Tout=[dtype],
            branches=[function(body, dtype) for body in bodies],
        )
        return [Run(made, {index: i}) for i in (0, 1, 2, 3, -1)]

    check_both_run(build, [name])


@pytest.mark.parametrize("name", ["Case", "StatelessCase"])
def test_a_choice_that_is_no_scalar(name):
    def build():
        index = tf.placeholder(tf.int32, None)
        made = apply_op(
            name,
            index,
            [tf.constant(1.0)],
            Tout=[np.float32],
            branches=[function(lambda x: x, np.float32)],
        )
        return [Run(made, {index: [0, 1]})]

    check_both_run(build, [name])


def test_a_result_that_only_one_branch_has():
    def build():
        def fake(x):
            return [x, apply_op("FakeParam", dtype=np.float32, shape=[2])]

        chosen = tf.placeholder(tf.bool, [])
        made = apply_op(
            "StatelessIf",
            chosen,
            [tf.constant([1.0, 2.0])],
            Tout=[np.float32, np.float32],
            then_branch=function(lambda x: [x, x * 3], np.float32),
            else_branch=function(fake, np.float32),
        )
        return [Run(made, {chosen: True}), Run(made[:1], {chosen: False})]

    check_both_run(build, ["FakeParam"])


@pytest.mark.parametrize("shape", [[2, 3], [], [0]], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
def test_the_form_of_what_is_not_there(shape, dtype):
    def build():
        fake = apply_op("FakeParam", dtype=dtype, shape=shape)
        return [Run([tf.shape(fake), tf.size(fake)])]

    check_both_run(build, ["FakeParam"])


@pytest.mark.parametrize(
    "value",
    [
        *(kind(number) for number in (0, 1) for kind in (np.float32, np.int64, np.uint8, np.bool_)),
        np.float64(np.nan),
        np.array(b"", object),
        np.array(b"0", object),
        np.zeros((2, 0), np.float32),
        np.zeros(1, np.int32),
        np.array([b"", b""], object),
    ],
    ids=repr,
)
def test_what_a_value_means_as_a_condition(value):
    def build():
        given = tf.placeholder(tf.as_dtype(np.asarray(value).dtype), None)
        return [Run([apply_op("ToBool", given)], {given: value})]

    check_both_run(build, ["ToBool"])


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_one_of_many_outputs(dtype):
    def build():
        index = tf.placeholder(tf.int32, [])
        outputs = apply_op("_SwitchN", numbers(dtype, 1, 2), index, num_outs=3, name="switched")
        changed = [x * numbers(dtype, factor) for factor, x in enumerate(outputs)]
        merged = apply_op("Merge", changed)
        return [Run(merged, {index: i}) for i in (0, 1, 2, 3, -1)]

    check_both_run(build, ["_SwitchN"])


def test_a_trigger_behind_a_branch_not_taken():
    def build():
        v = apply_op("VarHandleOp", dtype=np.float32, shape=[], shared_name="v")
        begin = apply_op("AssignVariableOp", v, tf.constant(1.0))
        chosen = tf.placeholder(tf.bool, [])
        _, when_true = apply_op("Switch", tf.constant(1.0), chosen)
        with tf.control_dependencies([when_true]):
            trigger = apply_op("ControlTrigger")
        with tf.control_dependencies([trigger]):
            added = apply_op("AssignAddVariableOp", v, tf.constant(1.0))
        read = apply_op("ReadVariableOp", v, dtype=np.float32)
        return [
            Run([begin]),
            Run([added], {chosen: False}),
            Run([added], {chosen: True}),
            Run([read]),
        ]

    check_both_run(build, ["ControlTrigger"])


# ---- loops


@pytest.mark.parametrize("name", ["While", "StatelessWhile"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_a_loop(name, dtype):
    def build():
        made = apply_op(
            name,
            [tf.constant(0), numbers(dtype, 1, 2)],
            cond=function(lambda i, x: i < 5, np.int32, dtype),
            body=function(lambda i, x: [i + 1, x + x], np.int32, dtype),
        )
        return [Run(made)]

    check_both_run(build, [name])


def test_a_loop_on_the_truth_of_a_number():
    def build():
        made = apply_op(
            "While",
            [tf.constant(5), tf.constant([1.0])],
            cond=function(lambda i, x: tf.identity(i), np.int32, np.float32),
            body=function(lambda i, x: [i - 1, tf.concat([x, x], 0)], np.int32, np.float32),
        )
        return [Run(made)]

    check_both_run(build, ["While"])


@pytest.mark.parametrize("name", ["While", "StatelessWhile"])
def test_a_loop_whose_body_fails(name):
    def build():
        made = apply_op(
            name,
            [tf.constant([1, 2])],
            cond=function(lambda x: tf.constant(True), np.int32),
            body=function(lambda x: tf.gather(x, x), np.int32),
        )
        return [Run(made)]

    check_both_run(build, [name])


@pytest.mark.parametrize("bounds", [(0, 5, 1), (5, 0, -2), (3, 3, 1)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_loop_of_counted_turns(bounds, dtype):
    def build():
        made = apply_op(
            "For",
            *map(tf.constant, bounds),
            [numbers(dtype, 1, 2)],
            body=function(lambda i, x: x * 2 + tf.cast(i, dtype), np.int32, dtype),
        )
        return [Run(made)]

    check_both_run(build, ["For"])


@pytest.mark.parametrize(
    "bounds", [(0, 5, 0), (3, 0, 1), (0, 3, -1), ([0], 5, 1), (0, [5, 6], 1), (0, 5, [1])], ids=str
)
def test_a_loop_of_turns_that_cannot_be_counted(bounds):
    def build():
        given = [tf.placeholder(tf.int32, None) for _ in bounds]
        made = apply_op(
            "For", *given, [tf.constant(1.0)], body=function(lambda i, x: x, np.int32, np.float32)
        )
        return [Run(made, dict(zip(given, bounds)))]

    check_both_run(build, ["For"])
