"""Names that calls take from a graph: what is made later is named after what was made before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from v1_tutorials.registry import Place, tutorial


def taken(tf: Any, *calls: Callable[[], Any]) -> list[Any]:
    """Return for each call what comes first in the names that it takes of a graph."""
    found = []
    for call in calls:
        with tf.Graph().as_default() as graph:
            call()
            names = {op.name.split("/")[0] for op in graph.get_operations()}
            found.append([*sorted(names), tf.constant(0).name])
    return found


@tutorial
def names_of_datasets(tf: Any, at: Place) -> Any:
    made = tf.data.Dataset

    def rows() -> Any:
        return made.from_tensor_slices([1.0, 2.0, 3.0])

    def widened() -> Any:
        return rows().map(lambda x: x[None], num_parallel_calls=2)

    return taken(
        tf,
        lambda: made.from_tensor_slices(({"b": [1, 2], "a": [1.0, 2.0]}, [1, 2])),
        lambda: made.from_tensors((1, {"a": 2.0})),
        lambda: made.range(1, 5, 2).repeat(3).shuffle(10, seed=3),
        lambda: rows().take(2).skip(2).shard(2, 0).prefetch(1).cache().shuffle(10),
        lambda: rows().batch(2, num_parallel_calls=2).batch(3, drop_remainder=True),
        lambda: made.zip((rows().concatenate(rows()), rows().window(2, 1, 1, True))),
        lambda: rows().interleave(lambda x: made.from_tensors(x), cycle_length=2),
        lambda: rows().interleave(lambda x: made.from_tensors(x), 2, num_parallel_calls=2),
        lambda: widened().padded_batch(2, [None], 5.0, drop_remainder=True),
        lambda: rows().reduce(0.0, lambda a, b: a + b),
        lambda: rows().apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 2)),
        lambda: made.random(seed=3),
        lambda: tf.data.make_one_shot_iterator(rows()).get_next(),
        lambda: tf.data.make_initializable_iterator(rows()).get_next(),
        lambda: tf.data.Iterator.from_structure(tf.float32, []).make_initializer(rows()),
    )


@tutorial
def names_of_input_queues(tf: Any, at: Place) -> Any:
    train, numbers = tf.train, [tf.int32]

    def one() -> Any:
        return tf.placeholder(tf.int32, [], name="one")

    def queue() -> Any:
        return tf.FIFOQueue(3, numbers, shapes=[[]])

    def join() -> Any:
        return tf.QueueBase.from_list(0, [queue(), queue()]).dequeue()

    return taken(
        tf,
        lambda: train.input_producer([1.0, 2.0], num_epochs=2, shuffle=False).dequeue(),
        lambda: train.input_producer([1.0, 2.0], name="n", summary_name="s").dequeue_many(2),
        lambda: train.string_input_producer(["a"], num_epochs=1).dequeue(),
        lambda: train.range_input_producer(5, shuffle=False, capacity=3).dequeue(),
        lambda: train.slice_input_producer([[1, 2], [3, 4]]),
        lambda: train.batch([one()], 2, allow_smaller_final_batch=True),
        lambda: train.batch({"a": [one()]}, 2, enqueue_many=True, name="n"),
        lambda: train.maybe_batch([one()], tf.constant(True, name="keep"), 2),
        lambda: train.batch_join([[one()], [one()]], 2),
        lambda: train.shuffle_batch([one()], 2, 10, 5, seed=3),
        lambda: train.maybe_shuffle_batch_join([[one()]], 2, 10, 5, True),
        lambda: queue().enqueue_many([[1]]),
        join,
    )


@tutorial
def what_embeddings_are_called(tf: Any, at: Place) -> Any:
    rows = [tf.get_variable(f"rows_{i}", [2, 2]) for i in range(2)]
    parts = tf.get_variable(
        "parts", [4, 2], partitioner=tf.fixed_size_partitioner(2), use_resource=True
    )
    one = tf.get_variable("one", [4, 2], use_resource=True)
    found = [tf.nn.embedding_lookup(table, [0, 3]) for table in (rows, parts, one, rows[0])]
    return [[tensor.name, tensor.op.type] for tensor in found]
