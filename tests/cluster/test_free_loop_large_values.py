"""Large values leave the loop to others, whatever is done with them; the monitor of all tests
watches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster

Make = Callable[..., LocalCluster]
_IMAGE = [512, 512, 3]  # 3 MiB
_IMAGES = 32
_ROWS = 120_000


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def session(make_cluster: Make) -> Iterator[tf.Session]:
    cluster = make_cluster({"worker": 1})
    with tf.Session(cluster.target("worker")) as made:
        yield made


def _images() -> Any:
    return tf.data.Dataset.from_tensors(np.ones(_IMAGE, np.float32)).repeat(_IMAGES)


def _shape_of_first(dataset: Any) -> Any:
    return tf.shape(tf.data.make_one_shot_iterator(dataset).get_next())


# ---- datasets


def test_a_large_batch(session: tf.Session) -> None:
    found = _shape_of_first(_images().batch(_IMAGES))
    assert session.run(found).tolist() == [_IMAGES, *_IMAGE]


def test_a_batch_of_many_strings(session: tf.Session) -> None:
    found = _shape_of_first(tf.data.Dataset.from_tensors(b"word").repeat(_ROWS).batch(_ROWS))
    assert session.run(found).tolist() == [_ROWS]


def test_a_large_padded_batch(session: tf.Session) -> None:
    found = _shape_of_first(_images().padded_batch(_IMAGES, [None, 512, 3]))
    assert session.run(found).tolist() == [_IMAGES, *_IMAGE]


def test_a_padded_batch_of_many_elements(session: tf.Session) -> None:
    source = tf.data.Dataset.from_tensors(np.ones([1], np.float32)).repeat(_ROWS)
    found = _shape_of_first(source.padded_batch(_ROWS, [None]))
    assert session.run(found).tolist() == [_ROWS, 1]


def test_a_large_batch_of_smaller_ones(session: tf.Session) -> None:
    found = _shape_of_first(_images().batch(_IMAGES // 4).rebatch(_IMAGES))
    assert session.run(found).tolist() == [_IMAGES, *_IMAGE]


def test_a_batch_of_many_smaller_ones(session: tf.Session) -> None:
    source = tf.data.Dataset.from_tensors(np.ones([1], np.float32)).repeat(_ROWS // 4)
    found = _shape_of_first(source.rebatch(_ROWS // 4))
    assert session.run(found).tolist() == [_ROWS // 4]


# ---- graphs


def test_a_large_constant_in_the_records_of_a_step(session: tf.Session) -> None:
    large = tf.constant(np.arange(8 << 20, dtype=np.int32))
    index = tf.placeholder(tf.int32, [])
    found = tf.gather(large, index)
    records = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    assert session.run(found, {index: 5}, options=options, run_metadata=records) == 5
    assert records.partition_graphs[0].ByteSize() > 32 << 20


# ---- queues


def test_a_large_batch_of_a_queue(session: tf.Session) -> None:
    queue = tf.FIFOQueue(_IMAGES, [tf.float32], [_IMAGE])
    enqueue = queue.enqueue(tf.ones(_IMAGE))
    largest = tf.reduce_max(queue.dequeue_many(_IMAGES))
    for _ in range(_IMAGES):
        session.run(enqueue)
    assert session.run(largest) == 1.0


def test_a_large_padded_batch_of_a_queue(session: tf.Session) -> None:
    queue = tf.PaddingFIFOQueue(_IMAGES, [tf.float32], [[None, 512, 3]])
    enqueue = queue.enqueue(tf.ones(_IMAGE))
    largest = tf.reduce_max(queue.dequeue_many(_IMAGES))
    for _ in range(_IMAGES):
        session.run(enqueue)
    assert session.run(largest) == 1.0


@pytest.mark.parametrize("kind", ["FIFOQueue", "PaddingFIFOQueue"])
def test_a_queue_of_many_elements(session: tf.Session, kind: str) -> None:
    queue = getattr(tf, kind)(2 * _ROWS, [tf.float32], [[]])
    enqueue = queue.enqueue_many([tf.range(float(2 * _ROWS))])
    everything = queue.dequeue_up_to(3 * _ROWS)
    session.run(enqueue)
    session.run(queue.close())
    assert session.run(everything).tolist() == list(range(2 * _ROWS))


def test_a_priority_queue_of_many_elements(session: tf.Session) -> None:
    queue = tf.PriorityQueue(_ROWS, [tf.int64], [[]])
    numbers = tf.range(_ROWS, dtype=tf.int64)
    session.run(queue.enqueue_many([-numbers, numbers]))
    assert session.run(queue.dequeue_many(_ROWS))[1].tolist() == list(reversed(range(_ROWS)))


def test_a_large_batch_of_a_barrier(session: tf.Session) -> None:
    barrier: Any = tf.raw_ops.Barrier(component_types=[tf.float32], shapes=[_IMAGE])
    put = tf.raw_ops.BarrierInsertMany(
        handle=barrier,
        keys=[b"%d" % i for i in range(_IMAGES)],
        values=tf.ones([_IMAGES, *_IMAGE]),
        component_index=0,
    )
    taken = tf.raw_ops.BarrierTakeMany(
        handle=barrier, num_elements=_IMAGES, component_types=[tf.float32]
    )
    session.run(put)
    assert session.run(tf.reduce_max(taken.values[0])) == 1.0


# ---- tables


def test_a_table_of_many_lines(session: tf.Session, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("\n".join(f"w{i}" for i in range(_ROWS)))
    table = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(
            str(tmp_path / "words"),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        ),
        -1,
    )
    session.run(tf.tables_initializer())
    assert session.run(table.lookup(tf.constant(["w0", f"w{_ROWS - 1}"]))).tolist() == [
        0,
        _ROWS - 1,
    ]


def test_a_table_of_a_large_dataset(session: tf.Session) -> None:
    numbers = tf.data.Dataset.range(_ROWS)
    pairs = tf.data.Dataset.zip((numbers, numbers))
    table = tf.data.experimental.table_from_dataset(pairs, key_dtype=tf.int64)
    session.run(tf.tables_initializer())
    assert session.run(table.size()) == _ROWS


# ---- messages


@pytest.fixture
def far_session(make_cluster: Make) -> Iterator[tf.Session]:
    """A session whose master is another task than the parameter server, where the devices of the
    test's graph are."""
    cluster = make_cluster({"ps": 1, "worker": 1})
    with tf.Session(cluster.target("worker")) as made, tf.device("/job:ps/task:0"):
        yield made


@pytest.mark.parametrize("count", [2 * _ROWS, _ROWS // 3], ids=["asked for", "fits a frame"])
def test_strings_between_tasks(far_session: tf.Session, count: int) -> None:
    words = tf.as_string(tf.range(tf.placeholder_with_default(count, [])))
    with tf.device("/job:worker/task:0"):
        longest = tf.reduce_max(tf.strings.length(words))
    for _ in range(2):
        assert far_session.run(longest) == len(str(count - 1))


def test_one_large_string_between_tasks(far_session: tf.Session) -> None:
    word = tf.strings.join([tf.placeholder_with_default(b"x" * 1_000_000, [])] * 100)
    with tf.device("/job:worker/task:0"):
        length = tf.strings.length(word)
    assert far_session.run(length) == 100_000_000


def test_strings_that_are_fed_and_fetched(far_session: tf.Session) -> None:
    x = tf.placeholder(tf.string, [None])
    fed = np.full([2 * _ROWS], b"word", object)
    assert far_session.run(tf.identity(x), {x: fed}).shape == fed.shape


def test_truths_between_tasks(far_session: tf.Session) -> None:
    truths = tf.fill([tf.placeholder_with_default(100_000_000, [])], True)
    with tf.device("/job:worker/task:0"):
        found = tf.size(truths)
    assert far_session.run(found) == 100_000_000
