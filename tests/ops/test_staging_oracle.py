"""Staging areas and barriers beside TensorFlow's, run by run."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from ops.outcomes import Call, check_ends_alike
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

TYPES = [tf.float32, tf.int32]


def flat(made):
    """Return the tensors that an op with lists of outputs gives."""
    return tf.nest.flatten(made)


def test_tuples_come_in_the_order_in_which_they_were_staged():
    def build():
        number = tf.placeholder(tf.float32, None)
        at = tf.placeholder(tf.int32, None)
        area = {"dtypes": TYPES, "shared_name": "area"}
        stage = apply_op("Stage", [number, [1, 2]], capacity=3, **area)
        sizes = [apply_op("StageSize", **area)]
        peek = apply_op("StagePeek", at, **area)
        fewer = apply_op("StagePeek", at, dtypes=TYPES[:1], shared_name="area")
        takes = apply_op("Unstage", **area)
        clear = apply_op("StageClear", **area)
        full = apply_op("Stage", [np.zeros(9, np.float32), 1], memory_limit=9, dtypes=TYPES)
        runs = [Run([stage], {number: i}) for i in range(3)]
        runs += [Run(sizes), Run(flat(peek), {at: 1}), Run(flat(fewer), {at: 0})]
        runs += [Run(flat(peek), {at: [0]}), Run(flat(takes)), Run(flat(takes)), Run(sizes)]
        return [*runs, Run([clear]), Run(sizes), Run([full])]

    check_both_run(build, ["Stage", "StageSize", "StagePeek", "Unstage", "StageClear"])


@pytest.mark.parametrize("kind", ["Map", "OrderedMap"])
def test_tuples_are_staged_and_taken_by_keys(kind):
    def build():
        key, where = tf.placeholder(tf.int64, None), tf.placeholder(tf.int32, None)
        area = {"shared_name": "area"}
        both = {"dtypes": TYPES, **area}

        def named(part, *args, **attrs):
            return apply_op(kind + part, *args, **(both | attrs))

        whole = named("Stage", key, where, [np.float32(3), [1, 2]])
        first = named("Stage", key, where, [np.float32(4)])
        second = named("Stage", key, where, [[3, 4]])
        sizes = [named("Size"), named("IncompleteSize")]
        peek, take = named("Peek", key, where), named("Unstage", key, where)
        part = named("Unstage", key, where, dtypes=TYPES[:1])
        any_of = named("UnstageNoKey", where)
        clear = named("Clear")
        full = apply_op(
            kind + "Stage", 1, [0], [np.zeros(9, np.float32)], memory_limit=9, dtypes=TYPES[:1]
        )

        def run(fetches, number, *indices):
            return Run(flat(fetches), {key: number, where: np.int32(indices)})

        return [
            run([whole], 7, 0, 1),
            run([whole], 7, 0, 1),
            run([whole], 8, 1, 0),
            run([first], 5, 0),
            run([first], 5, 0),
            Run(sizes),
            run([second], 5, 1),
            Run(sizes),
            run(peek, 7, 0, 1),
            run(peek, 7, 1, 0),
            run(part, 7, 2),
            run(part, 7, 0),
            run(part, 7, 0),
            run(peek, 7, 0, 1),
            run(take, 5, 0, 1),
            Run(sizes),
            run([whole], 3, 0, 1),
            run([first], 9, 0),
            Run([clear]),
            Run(sizes),
            run([whole], 4, 0, 1),
            Run(flat(any_of), {where: [0, 1]}),
            Run(sizes),
            Run([full]),
        ]

    parts = ("Stage", "Size", "IncompleteSize", "Peek", "Unstage", "UnstageNoKey", "Clear")
    check_both_run(build, [kind + part for part in parts])


def test_a_barrier_gives_tuples_when_they_are_complete():
    def build():
        held = apply_op("Barrier", component_types=TYPES, shapes=[[], [2]], shared_name="b")
        keys, n = tf.placeholder(tf.string, None), tf.placeholder(tf.int32, None)
        values = [tf.placeholder(tf.float32, None), tf.placeholder(tf.int32, None)]
        puts = [
            apply_op("BarrierInsertMany", held, keys, one, component_index=i)
            for i, one in enumerate(values)
        ]
        wrong = [
            apply_op("BarrierInsertMany", held, keys, values[0], component_index=i) for i in (1, 2)
        ]
        takes = partial(apply_op, "BarrierTakeMany", held, n, component_types=TYPES)
        take, small, timed = takes(), takes(allow_small_batch=True), takes(timeout_ms=5)
        close = apply_op("BarrierClose", held)
        cancel = apply_op("BarrierClose", held, cancel_pending_enqueues=True)
        sizes = [apply_op(f"Barrier{kind}Size", held) for kind in ("Ready", "Incomplete")]

        def put(i, names, given, op=None):
            return Run([op or puts[i]], {keys: names, values[i]: given})

        return [
            put(0, ["a", "b", "c"], [1, 2, 3]),
            Run(sizes),
            put(0, ["a"], [1]),
            put(1, ["c", "a"], [[1, 2], [3, 4]]),
            Run(sizes),
            put(0, ["b"], [1], wrong[0]),
            put(0, ["b"], [1], wrong[1]),
            Run(flat(take), {n: 1}),
            Run(flat(take), {n: 0}),
            Run(flat(take), {n: [1]}),
            Run(flat(timed), {n: 1}),
            put(0, ["d"], [5]),
            Run([close]),
            Run([close]),
            put(0, ["e"], [5]),
            put(1, ["b", "d"], [[1, 2], [3, 4]]),
            Run(sizes),
            Run(flat(small), {n: 9}),
            Run(flat(small), {n: 1}),
            Run(flat(take), {n: 1}),
            Run([cancel]),
            Run([cancel]),
        ]

    parts = ("InsertMany", "TakeMany", "Close", "ReadySize", "IncompleteSize")
    check_both_run(build, ["Barrier", *[f"Barrier{part}" for part in parts]])


@pytest.mark.parametrize(
    "attrs",
    [{}, {"shapes": [[2], [None]]}, {"shapes": [[]]}, {"shapes": [[], []], "capacity": 3}],
    ids=str,
)
def test_a_barrier_that_cannot_be(attrs):
    def build():
        held = apply_op("Barrier", component_types=TYPES, **attrs)
        return [Run([apply_op("BarrierReadySize", held)])]

    check_both_run(build, ["Barrier"])


@pytest.mark.parametrize(
    "call",
    [
        Call("Stage", [[np.float32([1, 2]), np.int32([1])]], {"memory_limit": 100}),
        Call(
            "MapStage",
            [np.int64(1), np.int32([0, 1]), [np.float32([1, 2]), np.int32([1])]],
            {"dtypes": ["float32", "int32"]},
        ),
        Call(
            "OrderedMapStage",
            [np.int64(1), np.int32([0, 1]), [np.float32([1, 2]), np.int32([1])]],
            {"dtypes": ["float32", "int32"]},
        ),
    ],
    ids=str,
)
def test_staging_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tensorflow, call)
