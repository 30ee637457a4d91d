"""Scalar strings, from wherever they come, to whoever takes them."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from programs.registry import Cluster, program

PS, NEXT = "/job:ps", "/job:worker/task:1"
WORD = b"Ab\x00c\x00"


@program(["tensorflow"], local=True)
def lines_of_one_file(tf: Any, at: Cluster) -> Any:
    """Datasets whose files are named by one scalar."""
    with tempfile.TemporaryDirectory() as directory:
        text, records = os.path.join(directory, "text"), os.path.join(directory, "records")
        with open(text, "w") as file:
            file.write("one\n\nthree")
        with tf.io.TFRecordWriter(records) as writer:
            writer.write(WORD)
        found = []
        with at.device(PS), at.session() as session:
            for dataset in (
                tf.data.TextLineDataset(text),
                tf.data.TextLineDataset(text).map(tf.strings.length),
                tf.data.TFRecordDataset(records).repeat(2).batch(2),
                tf.data.Dataset.from_tensors(tf.io.read_file(text)),
                tf.data.Dataset.list_files(os.path.join(directory, "t*")).map(tf.io.read_file),
            ):
                element = tf.data.make_one_shot_iterator(dataset).get_next()
                found.append([at.attempt(lambda: session.run(element)) for _ in range(4)])  # noqa: B023
    return [[one["error"] if isinstance(one, dict) else one for one in row] for row in found]


@program(local=True)
def scalar_strings_cross_tasks(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        v = tf.get_variable(f"{at.name}/v", initializer=WORD, use_resource=True)
        w = tf.placeholder(tf.string, [])
        joined = tf.strings.join([v.read_value(), w])
    with at.device(NEXT):
        there = tf.reshape(joined, [1, 1])
        both = tf.stack([joined, tf.identity(w)])
        lengths = tf.strings.length(joined)
    with at.device(PS):
        back = tf.concat([tf.reshape(both, [-1]), there[0]], 0)
        change = v.assign(tf.strings.substr(joined, 1, 3)).op
    with at.session() as session:
        session.run(v.initializer)
        found = [session.run([joined, there, both, lengths, back], {w: b"\x00"})]
        session.run(change, {w: "x"})
        return [*found, session.run([v.read_value(), back, lengths], {w: ""})]


@program(local=True)
def scalar_strings_in_queues_and_arrays(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        queue = tf.FIFOQueue(5, [tf.string], [[]], shared_name=f"{at.name}/queue")
        w = tf.placeholder(tf.string, [])
        put = queue.enqueue(w)
        taken = queue.dequeue()
    with at.device(NEXT):
        found = [tf.expand_dims(taken, 0), tf.strings.length(taken), tf.fill([2], taken)]
        array = tf.TensorArray(tf.string, 2, element_shape=[]).write(0, w).write(1, "z")
        stacked = array.stack()
    with at.session() as session:
        session.run(put, {w: WORD})
        return [session.run(found), session.run(stacked, {w: WORD})]


@program(local=True)
def scalar_strings_in_loops_and_branches(tf: Any, at: Cluster) -> Any:
    w = tf.placeholder(tf.string, [])
    with at.device(PS):
        loop = tf.while_loop(
            lambda i, _: i < 3,
            lambda i, s: (i + 1, tf.strings.join([s, w])),
            [tf.constant(0), tf.constant("")],
        )
    with at.device(NEXT):
        chosen = tf.cond(
            tf.equal(w, "a"), lambda: tf.reshape(loop[1], [1]), lambda: tf.reshape(w, [1])
        )
    with at.session() as session:
        return [session.run([loop, chosen], {w: one}) for one in (b"a", WORD, b"")]


@program(local=True)
def scalar_strings_in_datasets(tf: Any, at: Cluster) -> Any:
    Dataset = tf.data.Dataset
    w = tf.placeholder(tf.string, [])
    found = []
    with at.session() as session:
        for build in (
            lambda: Dataset.from_tensors(w).repeat(3).batch(2),
            lambda: Dataset.from_tensors(w).map(lambda x: tf.reshape(x, [1, 1])),
            lambda: Dataset.from_tensor_slices([b"x", b""]).map(lambda x: tf.stack([x, x])),
            lambda: Dataset.zip((Dataset.from_tensors(w), Dataset.range(2))),
            lambda: Dataset.from_tensors(w).filter(lambda x: tf.not_equal(x, "z")).repeat(2),
        ):
            with at.device(NEXT):
                iterator = tf.data.make_initializable_iterator(build())
                element = iterator.get_next()
            with at.device(PS):
                first = tf.reshape(element[0] if isinstance(element, tuple) else element, [-1])
            session.run(iterator.initializer, {w: WORD})
            found.append([at.attempt(lambda: session.run(first)) for _ in range(3)])  # noqa: B023
    return [[one["error"] if isinstance(one, dict) else one for one in row] for row in found]
