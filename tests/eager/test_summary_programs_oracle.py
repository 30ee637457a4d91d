"""A program with tf.summary of the TF2 shape writes what it writes under TensorFlow."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

import tideflow as ours

theirs = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def program(tf: Any, directory: Path) -> list[Any]:
    """Write summaries of each kind; return what the calls gave."""
    writer = tf.summary.create_file_writer(str(directory), max_queue=5)
    given = [tf.summary.scalar("none", 1.0, 0), tf.summary.should_record_summaries()]
    with writer.as_default():
        given.append(tf.summary.scalar("loss", 0.5, step=1, description="what"))
        with tf.name_scope("scope"):
            tf.summary.scalar("x y", 3, step=2)
            tf.summary.histogram("h", [1.0, 2.0, 2.5, 7.0], step=2, buckets=4)
        tf.summary.histogram("one", [3.0, 3.0], step=2, buckets=3)
        tf.summary.histogram("none", tf.zeros([0]), step=2, buckets=2)
        tf.summary.histogram("no buckets", [1.0], step=2, buckets=0)
        tf.summary.histogram("h", tf.range(100), step=2)
        tf.summary.text("t", ["a", "b"], step=3)
        tf.summary.image("i", tf.reshape(tf.range(48.0) / 48, [4, 2, 2, 3]), 3, max_outputs=2)
        tf.summary.image("i8", tf.cast(tf.reshape(tf.range(16), [1, 4, 4, 1]), tf.uint8), 3)
        tf.summary.audio("u", tf.reshape(tf.range(8.0) / 8, [2, 4, 1]), 8000, step=3)
        with tf.summary.record_if(False):
            given += [tf.summary.scalar("not", 1.0, step=1), tf.summary.should_record_summaries()]
        step = tf.Variable(0, dtype=tf.int64)

        @tf.function
        def called(x: Any) -> Any:
            step.assign_add(1)
            with tf.summary.record_if(lambda: tf.equal(step % 2, 0)):
                tf.summary.scalar("f", x, step=step)
            with tf.name_scope("inner"):
                tf.summary.write("raw", lambda: [x, x], step=step)
            return x

        for i in range(3):
            called(tf.constant(float(i)))
        tf.summary.experimental.set_step(9)
        tf.summary.scalar("nine", 1.0)
        tf.summary.experimental.set_step(None)
        tf.summary.experimental.write_raw_pb(
            ours.compat.v1.Summary(value=[{"tag": "q", "simple_value": 3}]).SerializeToString(), 4
        )
    with writer.as_default(step=11):
        tf.summary.scalar("eleven", 1.0)
    writer.close()
    return [bool(one) for one in given]


def events_in(directory: Path) -> list[str]:
    """Return the events of a directory as text: without times, pictures as their pixels."""
    found = []
    (path,) = directory.iterdir()
    for event_pb in ours.compat.v1.train.summary_iterator(path):
        event_pb.wall_time = 0
        event_pb.ClearField("source_metadata")
        for value_pb in event_pb.summary.value:
            strings = value_pb.tensor.string_val
            for i, string in enumerate(strings):
                if string.startswith(b"\x89PNG"):
                    strings[i] = hashlib.sha256(ours.io.decode_png(string).numpy()).digest()
        found.append(str(event_pb))
    return found


def test_a_program_writes_the_same_summaries(tmp_path: Path) -> None:
    made = []
    for tf, name in ((ours, "ours"), (theirs, "theirs")):
        directory = tmp_path / name
        made.append((program(tf, directory), events_in(directory)))
    assert len(made[0][1]) > 15
    assert made[0] == made[1]
