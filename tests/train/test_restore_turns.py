"""Much is restored in turns: how they are divided, and that they give what was saved."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.train.checkpoints import restore_turns

MIB = 1 << 20


def most_waiting(sizes):
    """Return the most bytes that may be read and not yet assigned."""
    turns = restore_turns(sizes)
    held = [sum(sizes[turn.items]) for turn in turns]
    most = 0
    for number, turn in enumerate(turns):
        first = 0 if turn.after is None else turn.after + 1
        most = max(most, sum(held[first : number + 1]))
    return most


@pytest.mark.parametrize(
    "sizes",
    [[MIB] * 1024, [64 * MIB] * 16, [40 * MIB] * 100, [MIB, 70 * MIB, 3 * MIB] * 20, [7] * 10**5],
    ids=str,
)
def test_what_waits_is_a_small_part(sizes):
    turns = restore_turns(sizes)
    assert [i for turn in turns for i in range(len(sizes))[turn.items]] == [*range(len(sizes))]
    assert most_waiting(sizes) <= max(16 * MIB, 0.08 * sum(sizes), *sizes)


@pytest.mark.parametrize("sizes", [[], [0], [0, 0, 5], [MIB] * 16])
def test_little_is_restored_in_one_go(sizes):
    (turn,) = restore_turns(sizes)
    assert turn == type(turn)(slice(0, len(sizes)), None)


def test_two_turns_are_under_way_where_they_fit():
    turns = restore_turns([MIB] * 1024)
    assert [turn.after for turn in turns[:4]] == [None, None, 0, 1]


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("sharded", [True, False])
def test_a_graph_restores_in_turns_and_into_the_right_variables(tmp_path, use_resource, sharded):
    with tf.Graph().as_default() as graph:
        made = [
            tf.get_variable(f"v{i}", initializer=tf.fill([MIB], 1.0 * i), use_resource=use_resource)
            for i in range(8)
        ]
        saver = tf.train.Saver(sharded=sharded)
        reads = [op for op in graph.get_operations() if op.type == "RestoreV2"]
        assert len(reads) > 1
        assert any(tensor.op.control_inputs for tensor in reads[-1].inputs)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            path = saver.save(session, str(tmp_path / "m"), write_meta_graph=False)
            session.run([tf.assign(v, tf.zeros_like(v)).op for v in made])
            saver.restore(session, path)
            for i, value in enumerate(session.run(made)):
                np.testing.assert_array_equal(value, np.full(MIB, i, np.float32))
        with tf.Session() as session:
            saver.restore(session, path)
            assert session.run([v[0] for v in made]) == [*range(8)]
