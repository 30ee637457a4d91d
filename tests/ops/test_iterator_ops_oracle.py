"""Ops of iterators that no client of TensorFlow 1 makes any more, one by one, beside TensorFlow."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import END, INVALID, int64, numbers, plain
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op
from tideflow.graph.shapes import TensorShape

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

KIND = {"output_types": [tf.int64], "output_shapes": [TensorShape([])]}
MISSING = "FailedPreconditionError"


def check(build, about):
    """Return what the runs of a graph gave, which is the same in both."""
    return [plain(one) for one in check_both_run(build, about)]


def named(name="", op="IteratorV2", **kind):
    return apply_op(op, shared_name=name, container="", **(kind or KIND))


def started(handle, count=3):
    return apply_op("MakeIterator", numbers(count).variant, handle)


def following(handle, op="IteratorGetNext"):
    return apply_op(op, handle, **KIND)[0]


# ---- handles


@pytest.mark.parametrize("name", ["", "shared"])
def test_the_first_kind_of_iterator(name):
    def build():
        handle = named(name, "Iterator")
        element = following(handle)
        return [
            Run([element]),
            Run([started(handle)]),
            *[Run([element])] * 4,
            Run([started(handle, 1)]),
        ]

    assert check(build, ["Iterator"]) == [MISSING, (), 0, 1, 2, END, ()]


def test_two_nodes_of_one_name():
    def build():
        first, second = named("one_name", "Iterator"), named("one_name")
        steps = [following(first), following(second)]
        return [Run([started(first)]), Run([steps[0]]), Run([steps[1]]), Run([steps[0]])]

    assert check(build, ["Iterator", "IteratorV2"]) == [(), 0, 1, 2]


def test_one_name_for_two_kinds():
    def build():
        other = {"output_types": [tf.string], "output_shapes": [TensorShape([])]}
        texts = apply_op("IteratorV2", shared_name="kinds", container="", **other)
        return [Run([started(named("kinds"))]), Run([apply_op("IteratorToStringHandle", texts)])]

    assert check(build, ["IteratorV2"]) == [(), INVALID]


def test_elements_by_the_op_that_waits():
    def build():
        handle = named()
        element = following(handle, "IteratorGetNextSync")
        return [
            Run([element]), Run([started(handle, 2)]), *[Run([element])] * 3,
            Run([started(handle, 1)]), Run([element]),
        ]  # fmt: skip

    found = check(build, ["IteratorGetNextSync"])
    assert found == [MISSING, (), 0, 1, END, (), 0]


@pytest.mark.parametrize("op", ["AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3"])
def test_an_iterator_of_one_step(op):
    """It is made, started and asked in one step, and the next step has another one."""

    def build():
        made = apply_op(op, **KIND)
        handle = made[0] if isinstance(made, list) else made
        with tf.control_dependencies([started(handle)]):
            first = following(handle)
        with tf.control_dependencies([first]):
            second = following(handle)
        return [Run([first, second])] * 2

    assert check(build, [op]) == [(0, 1), (0, 1)]


@pytest.mark.parametrize("op", ["AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3"])
def test_an_iterator_of_one_step_that_was_not_begun(op):
    def build():
        made = apply_op(op, **KIND)
        return [Run([following(made[0] if isinstance(made, list) else made)])]

    assert check(build, [op]) == [MISSING]


def test_deleting_an_iterator():
    ops = ["AnonymousIteratorV2", "DeleteIterator"]

    def build():
        handle, deleter = apply_op(ops[0], **KIND)
        with tf.control_dependencies([started(handle)]):
            element = following(handle)
        with tf.control_dependencies([element]):
            deleted = apply_op("DeleteIterator", handle, deleter)
        return [Run([element, deleted])]

    assert check(build, ops) == [0]


@pytest.mark.parametrize("ignore", [False, True])
def test_destroying_an_iterator(ignore):
    def build():
        handle = named("destroyed")
        gone = apply_op("DestroyResourceOp", handle, ignore_lookup_error=ignore)
        element = following(handle)
        return [Run([started(handle)]), Run([element]), Run([gone]), Run([element]), Run([gone])]

    assert check(build, ["DestroyResourceOp"]) == [
        (),
        0,
        (),
        "NotFoundError",
        () if ignore else "NotFoundError",
    ]


def test_destroying_a_variable():
    def build():
        handle = apply_op("VarHandleOp", dtype=tf.int64, shape=[], shared_name="v")
        value = apply_op("ReadVariableOp", handle, dtype=tf.int64)
        gone = apply_op("DestroyResourceOp", handle)
        begin = apply_op("AssignVariableOp", handle, int64(3))
        return [Run([begin]), Run([value]), Run([gone]), Run([value]), Run([gone])]

    assert check(build, ["DestroyResourceOp"]) == [(), 3, (), MISSING, ()]


# ---- names and devices


@pytest.mark.parametrize("op", ["IteratorGetDevice", "ExperimentalIteratorGetDevice"])
def test_the_device_of_an_iterator(op):
    def build():
        handle = named()
        return [Run([started(handle)]), Run([apply_op(op, handle)])]

    assert check(build, [op])[1] == b"/job:localhost/replica:0/task:0/device:CPU:0"


def strings(op, **kind):
    handle = named("by_string")
    name = apply_op("IteratorToStringHandle", handle)
    return handle, apply_op(op, name, **kind)


@pytest.mark.parametrize("op", ["IteratorFromStringHandle", "IteratorFromStringHandleV2"])
@pytest.mark.parametrize("kind", [{}, KIND])
def test_an_iterator_by_a_string(op, kind):
    def build():
        handle, again = strings(op, **kind)
        return [Run([started(handle)]), *[Run([following(again)])] * 2]

    assert check(build, [op]) == [(), 0, 1]


@pytest.mark.parametrize("op", ["IteratorFromStringHandle", "IteratorFromStringHandleV2"])
def test_an_iterator_of_another_kind_by_a_string(op):
    def build():
        kind = {"output_types": [tf.string], "output_shapes": [TensorShape([])]}
        handle, again = strings(op, **kind)
        return [Run([started(handle)]), Run([following(again)])]

    assert check(build, [op]) == [(), INVALID]


@pytest.mark.parametrize("text", ["nonsense", ["a", "b"]])
def test_strings_that_are_no_iterator(text):
    def build():
        given = tf.placeholder_with_default(tf.constant(text), None)
        return [Run([following(apply_op("IteratorFromStringHandle", given, **KIND))])]

    assert check(build, ["IteratorFromStringHandle"]) == [INVALID]


# ---- several devices

CPUS = ["/cpu:0", "/cpu:0"]


def shared_out(name=""):
    return apply_op("MultiDeviceIterator", devices=CPUS, shared_name=name, container="", **KIND)


def shared_out_begun(handle, count=5, most=2):
    return apply_op("MultiDeviceIteratorInit", numbers(count).variant, handle, int64(most))


def shard(handle, number, incarnation):
    which = tf.constant(number, tf.int32)
    return apply_op("MultiDeviceIteratorGetNextFromShard", handle, which, incarnation, **KIND)[0]


MULTI = ["MultiDeviceIterator", "MultiDeviceIteratorInit", "MultiDeviceIteratorGetNextFromShard"]


@pytest.mark.parametrize("name", ["", "shards"])
def test_sharing_out(name):
    def build():
        handle = shared_out(name)
        incarnation = tf.placeholder(tf.int64, [])
        first, second = (shard(handle, i, incarnation) for i in range(2))
        begin = shared_out_begun(handle)
        feeds = {incarnation: 1}
        turns = [first, second, second, first, first, second, first]
        return [Run([begin]), *(Run([one], feeds) for one in turns), Run([begin])]

    assert check(build, MULTI) == [1, 0, 1, 3, 2, 4, END, END, 2]


def test_sharing_out_anew():
    def build():
        handle = shared_out()
        incarnation = tf.placeholder(tf.int64, [])
        element = shard(handle, 1, incarnation)
        begin = shared_out_begun(handle)
        return [
            Run([begin]), Run([element], {incarnation: 1}), Run([begin]),
            Run([element], {incarnation: 1}), Run([element], {incarnation: 2}),
        ]  # fmt: skip

    assert check(build, MULTI) == [1, 1, 2, INVALID, 1]


def test_sharing_out_elements_of_another_kind():
    def build():
        texts = tf.data.experimental.to_variant(tf.data.Dataset.from_tensors("a"))
        begin = apply_op("MultiDeviceIteratorInit", texts, shared_out(), int64(1))
        return [Run([begin])]

    assert check(build, MULTI[1:2]) == [INVALID]


@pytest.mark.parametrize("kind", [{}, KIND])
def test_sharing_out_by_a_string(kind):
    ops = ["MultiDeviceIteratorToStringHandle", "MultiDeviceIteratorFromStringHandle"]

    def build():
        handle = shared_out("shards_by_string")
        again = apply_op(ops[1], apply_op(ops[0], handle), **kind)
        return [Run([shared_out_begun(handle)]), Run([shard(again, 1, int64(1))])]

    assert check(build, ops) == [1, 1]


@pytest.mark.parametrize("text", ["nonsense"])
def test_strings_that_share_nothing_out(text):
    def build():
        again = apply_op("MultiDeviceIteratorFromStringHandle", tf.constant(text), **KIND)
        return [Run([shard(again, 1, int64(1))])]

    assert check(build, ["MultiDeviceIteratorFromStringHandle"]) == [INVALID]


def test_strings_of_another_kind_of_what_is_shared_out():
    ops = ["MultiDeviceIteratorToStringHandle", "MultiDeviceIteratorFromStringHandle"]

    def build():
        handle = shared_out("shards_of_another_kind")
        kind = {"output_types": [tf.string], "output_shapes": [TensorShape([])]}
        again = apply_op(ops[1], apply_op(ops[0], handle), **kind)
        return [Run([shared_out_begun(handle)]), Run([shard(again, 1, int64(1))])]

    assert check(build, ops) == [1, INVALID]


@pytest.mark.parametrize("op", ["AnonymousMultiDeviceIterator", "AnonymousMultiDeviceIteratorV3"])
def test_sharing_out_in_one_step(op):
    def build():
        made = apply_op(op, devices=CPUS, **KIND)
        handle = made[0] if isinstance(made, list) else made
        incarnation = shared_out_begun(handle)
        elements = [shard(handle, i, incarnation) for i in range(2)]
        return [Run([incarnation, *elements])] * 2

    assert check(build, [op]) == [(1, 0, 1), (1, 0, 1)]


def test_deleting_what_shares_out():
    ops = ["AnonymousMultiDeviceIterator", "DeleteMultiDeviceIterator"]

    def build():
        handle, deleter = apply_op(ops[0], devices=CPUS, **KIND)
        element = shard(handle, 0, shared_out_begun(handle))
        with tf.control_dependencies([element]):
            deleted = apply_op(ops[1], handle, [], deleter)
        return [Run([element, deleted])]

    assert check(build, ops) == [0]


def test_a_place_is_taken_over_by_another_iterator():
    def build():
        first, second = named("first"), named("second")
        place = apply_op("SerializeIterator", first)
        taken_over = apply_op("DeserializeIterator", second, place)
        ones, others = following(first), following(second)
        return [
            Run([taken_over]),
            Run([started(first, 4)]),
            Run([taken_over]),
            Run([started(second, 4)]),
            *[Run([ones])] * 2,
            Run([taken_over]),
            *[Run([others])] * 3,
        ]

    found = check(build, ["SerializeIterator", "DeserializeIterator"])
    assert found == [MISSING, (), MISSING, (), 0, 1, (), 2, 3, END]
