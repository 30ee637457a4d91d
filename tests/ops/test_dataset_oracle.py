"""Datasets that TensorFlow's client builds give the same on a server of ours as on TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from ops.dataset_harness import check

tensorflow = pytest.importorskip("tensorflow")
tf = tensorflow.compat.v1
pytestmark = pytest.mark.tensorflow

D = tf.data.Dataset


def numbers(*args):
    return D.range(*args)


def adds_captured():
    captured = tf.constant(5, tf.int64) * 2
    return numbers(3).map(lambda x: x + captured)


DATASETS = {
    "range": lambda: numbers(5),
    "range down": lambda: numbers(9, -3, -4),
    "range of int32": lambda: D.range(3, output_type=tf.int32),
    "range with step 0": lambda: D.range(1, 5, tf.placeholder_with_default(np.int64(0), [])),
    "empty range": lambda: numbers(3, 3),
    "tensors": lambda: D.from_tensors((np.float32([1, 2]), "a")),
    "slices": lambda: D.from_tensor_slices({"x": np.arange(6).reshape(3, 2), "s": ["a", "b", "c"]}),
    "take": lambda: numbers(5).take(2),
    "take all": lambda: numbers(3).take(-1),
    "take too many": lambda: numbers(3).take(9),
    "skip": lambda: numbers(5).skip(3),
    "skip all": lambda: numbers(5).skip(-1),
    "skip too many": lambda: numbers(3).skip(9),
    "repeat": lambda: numbers(2).repeat(3),
    "repeat forever": lambda: numbers(2).repeat().take(5),
    "repeat nothing forever": lambda: numbers(0).repeat(),
    "repeat never": lambda: numbers(2).repeat(0),
    "concatenate": lambda: numbers(2).concatenate(numbers(7, 9)),
    "concatenate shapes": lambda: D.from_tensors([1]).concatenate(D.from_tensors([1, 2])),
    "zip": lambda: D.zip((numbers(3), numbers(10, 20))),
    "zip nested": lambda: D.zip({"a": numbers(3), "b": (numbers(2), numbers(1, 4))}),
    "shard": lambda: numbers(10).shard(3, 1),
    "shard out of range": lambda: numbers(9).shard(3, tf.placeholder_with_default(np.int64(3), [])),
    "prefetch": lambda: numbers(5).prefetch(2),
    "prefetch automatically": lambda: numbers(5).prefetch(-1),
    "unique": lambda: D.from_tensor_slices([1, 2, 1, 3, 2]).unique(),
    "unique strings": lambda: D.from_tensor_slices(["a", "b", "a"]).unique(),
    "enumerate": lambda: D.from_tensor_slices(["a", "b"]).enumerate(start=3),
    "choose": lambda: D.choose_from_datasets(
        [D.from_tensors("a").repeat(), D.from_tensors("b").repeat(2), numbers(3).map(tf.as_string)],
        D.from_tensor_slices(np.int64([0, 1, 2, 1, 1, 0, 2])),
        stop_on_empty_dataset=False,
    ),
    "choose until one is empty": lambda: D.choose_from_datasets(
        [numbers(2), numbers(10, 20)], D.from_tensor_slices(np.int64([0, 0, 1, 0, 1])),
    ),
    "choose what is not there": lambda: D.choose_from_datasets(
        [numbers(2), numbers(10, 20)], D.from_tensor_slices(np.int64([0, 7, 1])),
    ),
    "assert cardinality": lambda: numbers(3).apply(tf.data.experimental.assert_cardinality(3)),
    "too few": lambda: numbers(3).apply(tf.data.experimental.assert_cardinality(4)),
    "too many": lambda: numbers(3).apply(tf.data.experimental.assert_cardinality(2)),
    "map": lambda: numbers(4).map(lambda x: (x * 2, tf.as_string(x))),
    "map captures": lambda: adds_captured(),
    "map that fails": lambda: numbers(5).map(lambda x: tf.debugging.check_numerics(
        1 / tf.cast(x - 1, tf.float32), "inf")),
    "map with a loop": lambda: numbers(4).map(
        lambda x: tf.while_loop(lambda i: i < 10, lambda i: i + x + 1, [x])),
    "map in parallel": lambda: numbers(9).map(lambda x: x * x, num_parallel_calls=3),
    "map in parallel with a loop": lambda: numbers(9).map(
        lambda x: tf.while_loop(lambda i: i < 10, lambda i: i + 9 - x, [x]), num_parallel_calls=3),
    "map in parallel that fails": lambda: numbers(5).map(lambda x: tf.debugging.check_numerics(
        1 / tf.cast(x - 1, tf.float32), "inf"), num_parallel_calls=2),
    "map and batch": lambda: numbers(7).apply(
        tf.data.experimental.map_and_batch(lambda x: (x, x * 2), 3, num_parallel_calls=2)),
    "map and batch whole": lambda: numbers(7).apply(
        tf.data.experimental.map_and_batch(lambda x: x, 3, drop_remainder=True)),
    "filter": lambda: numbers(9).filter(lambda x: tf.equal(x % 3, 1)),
    "filter all": lambda: numbers(9).filter(lambda x: x < 0),
    "flat map": lambda: numbers(4).flat_map(lambda x: D.range(x).repeat(2)),
    "flat map nested": lambda: numbers(3).flat_map(
        lambda x: D.range(x + 1).flat_map(lambda y: D.from_tensors(x * 10 + y))),
    "interleave": lambda: numbers(5).interleave(
        lambda x: D.from_tensors(x).repeat(x), cycle_length=2, block_length=2),
    "scan": lambda: numbers(5).apply(
        tf.data.experimental.scan(np.int64(3), lambda s, x: (s + x, (s, x)))),
    "take while": lambda: numbers(9).apply(tf.data.experimental.take_while(lambda x: x < 4)),
    "batch": lambda: numbers(7).batch(3),
    "batch whole": lambda: numbers(7).batch(3, drop_remainder=True),
    "batch in parallel": lambda: numbers(7).batch(3, num_parallel_calls=2),
    "batch strings": lambda: D.from_tensor_slices([["a", "b"], ["c", "d"], ["e", "f"]]).batch(2),
    "batch ragged": lambda: numbers(4).map(lambda x: tf.range(x // 3)).batch(2).batch(1),
    "batch of shapes that differ": lambda: numbers(4).map(lambda x: tf.range(x)).batch(2),
    "batch of 0": lambda: numbers(4).batch(tf.placeholder_with_default(np.int64(0), [])),
    "batch of what fails": lambda: numbers(5).map(lambda x: tf.debugging.check_numerics(
        1 / tf.cast(x - 1, tf.float32), "inf")).batch(2),
    "padded batch": lambda: numbers(1, 6).map(lambda x: tf.fill([x], x)).padded_batch(2, [None]),
    "padded batch with values": lambda: numbers(1, 4).map(
        lambda x: (tf.fill([x, 2], tf.as_string(x)), x)
    ).padded_batch(2, ([4, -1], []), ("-", np.int64(7))),
    "padded batch too small": lambda: numbers(1, 5).map(
        lambda x: tf.fill([x], x)).padded_batch(2, [2]),
    "padded batch of scalars": lambda: numbers(5).padded_batch(2, [], drop_remainder=True),
    "unbatch": lambda: numbers(7).batch(3).map(lambda x: (x, -x)).apply(
        tf.data.experimental.unbatch()),
    "unbatch that does not fit": lambda: numbers(4).map(
        lambda x: (tf.range(x), tf.range(2))).apply(tf.data.experimental.unbatch()),
    "rebatch": lambda: numbers(11).batch(4).rebatch(3),
    "rebatch by turns": lambda: numbers(11).batch(4).rebatch([3, 1]),
    "rebatch whole": lambda: numbers(11).batch(4).rebatch(3, drop_remainder=True),
    "rebatch with zeros": lambda: numbers(5).batch(2).rebatch([2, 0, 1]),
    "window": lambda: numbers(7).window(3).flat_map(lambda w: w.batch(5)),
    "window shifted": lambda: numbers(9).window(3, shift=1, stride=2).flat_map(
        lambda w: w.batch(5)),
    "window whole": lambda: numbers(9).window(3, shift=4, drop_remainder=True).flat_map(
        lambda w: w.batch(5)),
    "window of pairs": lambda: D.zip((numbers(5), numbers(5, 10))).window(2).flat_map(
        lambda a, b: D.zip((a.batch(2), b.batch(2)))),
    "window with gaps": lambda: numbers(12).window(2, shift=5).flat_map(lambda w: w.batch(5)),
    "group by window": lambda: numbers(12).apply(tf.data.experimental.group_by_window(
        lambda x: x % 3, lambda key, w: w.batch(3), window_size=3)),
    "group by window of sizes": lambda: numbers(11).apply(tf.data.experimental.group_by_window(
        lambda x: x % 2, lambda key, w: w.map(lambda x: x * 10 + key).batch(4),
        window_size_func=lambda key: key + 2)),
    "group by reducer": lambda: numbers(10).apply(tf.data.experimental.group_by_reducer(
        lambda x: x % 3, tf.data.experimental.Reducer(
            lambda key: key * 100, lambda s, x: s + x, lambda s: (s, -s)))),
    "bucket by length": lambda: numbers(1, 9).map(lambda x: tf.fill([x % 4], x)).apply(
        tf.data.experimental.bucket_by_sequence_length(
            lambda x: tf.shape(x)[0], [2, 4], [2, 2, 2])),
    "shuffle": lambda: numbers(10).shuffle(4, seed=3),
    "shuffle all": lambda: numbers(10).shuffle(100, seed=5),
    "shuffle again": lambda: numbers(6).shuffle(4, seed=3).repeat(3),
    "shuffle alike": lambda: numbers(6).shuffle(
        4, seed=3, reshuffle_each_iteration=False).repeat(3),
    "shuffle after repeat": lambda: numbers(4).repeat(3).shuffle(5, seed=1),
    "shuffle by the graph's seed": lambda: numbers(20).shuffle(20),
    "shuffle and repeat": lambda: numbers(5).apply(
        tf.data.experimental.shuffle_and_repeat(7, 3, seed=4)),
    "shuffle and repeat forever": lambda: numbers(5).apply(
        tf.data.experimental.shuffle_and_repeat(12, seed=4)).take(43),
    "shuffle nothing forever": lambda: numbers(0).apply(
        tf.data.experimental.shuffle_and_repeat(12, seed=4)),
    "shuffle much": lambda: numbers(500).shuffle(300, seed=9).batch(50),
    "shuffle with a buffer of 0": lambda: numbers(4).shuffle(
        tf.placeholder_with_default(np.int64(0), []), seed=1),
    "random": lambda: tf.data.experimental.RandomDataset(seed=3).take(9),
    "sample": lambda: D.sample_from_datasets(
        [numbers(5), numbers(10, 15)], weights=[0.5, 0.5], seed=4).take(0),
    "cache": lambda: numbers(4).cache().repeat(2),
    "cache a shuffle": lambda: numbers(6).shuffle(6, seed=2).cache().repeat(2),
    "ignore errors": lambda: numbers(5).map(lambda x: tf.debugging.check_numerics(
        1 / tf.cast(x - 1, tf.float32), "inf")).apply(tf.data.experimental.ignore_errors()),
    "options": lambda: numbers(3).with_options(tf.data.Options()),
    "out of range in a map": lambda: numbers(5).map(
        lambda x: tf.data.experimental.get_single_element(D.range(x))),
}  # fmt: skip


def ragged(parallel, **options):
    """Interleave datasets of different lengths."""
    return lambda: D.from_tensor_slices(np.int64([3, 0, 1, 5, 2, 0, 4, 1])).enumerate().interleave(
        lambda i, n: D.from_tensors(i).repeat(n), num_parallel_calls=parallel, **options
    )  # fmt: skip


DATASETS |= {
    f"interleave {cycle} by {block}{' in parallel' if parallel else ''}": ragged(
        parallel, cycle_length=cycle, block_length=block
    )
    for cycle in (1, 2, 3, 5)
    for block in (1, 2)
    for parallel in (None, 2)
}
DATASETS |= {
    f"legacy interleave {cycle} by {block}": lambda cycle=cycle, block=block: (
        D.from_tensor_slices(np.int64([3, 0, 1, 5, 2, 0, 4, 1]))
        .enumerate()
        .apply(
            tf.data.experimental.parallel_interleave(
                lambda i, n: D.from_tensors(i).repeat(n), cycle_length=cycle, block_length=block
            )
        )
    )
    for cycle in (1, 2, 3)
    for block in (1, 2)
}


@pytest.mark.parametrize("name", DATASETS)
def test_elements_are_those_of_tensorflow(name):
    check(tf, DATASETS[name])
