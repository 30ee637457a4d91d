"""Ops on references: variables of TensorFlow 1, and loops and branches that pass them on."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from ops.update_inputs import update_inputs
from tideflow.graph.building import apply_op
from tideflow.graph.op_def import get_op_def, registered_ops

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def reference(value, name="v"):
    """Return a reference to a variable, and what gives it its value."""
    array = np.asarray(value)
    made = apply_op("VariableV2", shape=array.shape, dtype=array.dtype, shared_name=name, name=name)
    return made, apply_op("Assign", made, tf.constant(array)).op


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.complex64])
@pytest.mark.parametrize("name", ["AssignAdd", "AssignSub"])
def test_adding_in_place(name, dtype):
    def build():
        v, begin = reference(np.arange(6).reshape(2, 3).astype(dtype))
        changed = apply_op(name, v, tf.constant(np.full((2, 3), 2, dtype)))
        return [Run([begin]), Run([changed]), Run([changed]), Run([v])]

    check_both_run(build, [name, "VariableV2", "Assign"])


def updates_of_references(part):
    """Return the ops that update variables by references and whose names have a part."""
    return [
        name
        for name in registered_ops()
        if part in name and get_op_def(name).update and get_op_def(name).inputs[0].is_ref
    ]


@pytest.mark.parametrize("name", updates_of_references("Apply"))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_optimizer_s_step(name, dtype):
    olds, others = update_inputs(name, dtype, 0.05, -0.5)

    def build():
        made = [reference(old, f"v{i}") for i, old in enumerate(olds)]
        variables = [variable for variable, _ in made]
        changed = apply_op(name, *variables, *map(tf.constant, others))
        return [Run([begin for _, begin in made]), Run([changed]), Run([changed]), Run(variables)]

    check_both_run(build, [name], rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", updates_of_references("Scatter"))
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_scattering(name, dtype):
    if "Nd" in name:
        indices, shape = np.array([[2, 1], [0, 0], [3, 2]], np.int32), (3,)
    else:
        indices, shape = np.array([[2, 0], [1, 3]], np.int64), (2, 2, 3)
    given = np.random.default_rng(3).integers(1, 5, shape).astype(dtype)

    def build():
        v, begin = reference(np.arange(12).reshape(4, 3).astype(dtype))
        changed = apply_op(name, v, tf.constant(indices), tf.constant(given))
        return [Run([begin]), Run([changed]), Run([changed]), Run([v])]

    check_both_run(build, [name])


@pytest.mark.parametrize("name", updates_of_references("Scatter"))
def test_scattering_beyond_the_end(name):
    indices = np.array([[4]] if "Nd" in name else [4], np.int32)

    def build():
        v, begin = reference(np.ones((4, 3), np.float32))
        changed = apply_op(name, v, tf.constant(indices), tf.fill([1, 3], 2.0))
        return [Run([begin]), Run([changed])]

    check_both_run(build, [name])


def test_assigning_to_a_slice():
    def build():
        v, begin = reference(np.arange(12, dtype=np.float32).reshape(4, 3))
        ends = [tf.constant(np.array(x, np.int32)) for x in ([1, 0], [4, 2], [2, 1])]
        changed = apply_op("StridedSliceAssign", v, *ends, tf.constant(np.full((2, 2), 9.0, "f")))
        return [Run([begin]), Run([changed]), Run([v])]

    check_both_run(build, ["StridedSliceAssign"])


def test_whether_there_is_a_value():
    def build():
        v, begin = reference(np.ones(2, np.float32))
        asked = apply_op("IsVariableInitialized", v)
        return [Run([asked]), Run([v]), Run([begin]), Run([asked, v])]

    check_both_run(build, ["IsVariableInitialized"])


def test_the_first_kind_of_variable():
    def build():
        v = apply_op("Variable", shape=(2,), dtype=np.float32, name="v")
        begin = apply_op("Assign", v, tf.constant([1.0, 2.0])).op
        return [Run([begin]), Run([apply_op("AssignAdd", v, tf.constant([1.0, 1.0]))]), Run([v])]

    check_both_run(build, ["Variable"])


def test_counting_up_to_a_limit():
    def build():
        v, begin = reference(np.int64(5))
        counted = apply_op("CountUpTo", v, limit=7)
        return [Run([begin]), Run([counted]), Run([counted]), Run([v]), Run([counted])]

    check_both_run(build, ["CountUpTo"])


def test_a_variable_of_one_step():
    def build():
        kept = apply_op("TemporaryVariable", shape=(2,), dtype=np.float32, var_name="t")
        first = apply_op("Assign", kept, tf.constant([1.0, 2.0]))
        second = apply_op("AssignAdd", first, tf.constant([10.0, 10.0]))
        return [Run([apply_op("DestroyTemporaryVariable", second, var_name="t")])] * 2

    check_both_run(build, ["TemporaryVariable", "DestroyTemporaryVariable"])


@pytest.mark.parametrize("chosen", [0, 1, 2, -1])
def test_references_are_given_on(chosen):
    def build():
        (v, begin), (w, begin_w) = reference(np.float32([1, 2])), reference(np.float32([5]), "w")
        passed = apply_op("RefIdentity", w)
        one = apply_op("RefSelect", tf.constant(chosen), [v, passed])
        added = apply_op("AssignAdd", one, tf.constant([1.0, 1.0]))
        return [Run([begin, begin_w]), Run([passed]), Run([added]), Run([v]), Run([w])]

    check_both_run(build, ["RefIdentity", "RefSelect"])


@pytest.mark.parametrize("l1", [0.0, 1.5, 30.0])
def test_weights_are_brought_nearer_to_zero(l1):
    def build():
        v, begin = reference(np.float32([1, -2, 0]))
        w, begin_w = reference(np.float32([[0.25, 7]]), "w")
        shrunk = apply_op("SdcaShrinkL1", [v, w], l1=l1, l2=2.0)
        return [Run([begin, begin_w]), Run([shrunk]), Run([v]), Run([w])]

    check_both_run(build, ["SdcaShrinkL1"])


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_on_a_reference(taken):
    def build():
        v, begin = reference(np.float32([1, 2]))
        chosen = tf.placeholder(tf.bool, [])
        when_false, when_true = apply_op("RefSwitch", v, chosen)
        added = apply_op("AssignAdd", when_true, tf.constant([1.0, 1.0]))
        taken_away = apply_op("AssignSub", when_false, tf.constant([1.0, 1.0]))
        merged, which = apply_op("RefMerge", [added, taken_away])
        return [Run([begin]), Run([merged, which], {chosen: taken}), Run([v])]

    check_both_run(build, ["RefSwitch", "RefMerge"])


def test_a_loop_that_counts_in_a_reference():
    def build():
        v, begin = reference(np.float32(0))
        entered = apply_op("RefEnter", v, frame_name="loop")
        limit = apply_op("Enter", tf.constant(3.0), frame_name="loop", is_constant=True)
        merged, _ = apply_op("RefMerge", [entered, entered])
        goes_on = apply_op("LoopCond", apply_op("Less", merged, limit))
        left, body = apply_op("RefSwitch", merged, goes_on)
        one = apply_op("Enter", tf.constant(1.0), frame_name="loop", is_constant=True)
        following = apply_op("RefNextIteration", apply_op("AssignAdd", body, one))
        merged.op.update_input(1, following)
        return [Run([begin]), Run([apply_op("RefExit", left)]), Run([v])]

    check_both_run(build, ["RefEnter", "RefExit", "RefNextIteration", "RefMerge", "RefSwitch"])
