"""The place of an iterator is saved in checkpoints, and restored."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tideflow as tf

Data = tf.data.Dataset


def numbers(found) -> list[int]:
    return [int(x) for x in found]


DATASETS = {
    "mapped": lambda: Data.range(6).map(lambda x: x * x).batch(2).unbatch(),
    "filtered": lambda: Data.range(12).filter(lambda x: x % 2 == 0),
    "shuffled": lambda: Data.range(6).shuffle(3, seed=1),
    "shuffled by chance": lambda: Data.range(6).shuffle(6),
    "shuffled again": lambda: Data.range(3).shuffle(3, seed=7).repeat(2),
    "random": lambda: Data.random(seed=3).take(6),
    "interleaved": lambda: Data.range(3).interleave(lambda x: Data.from_tensors(x).repeat(2), 2),
    "ahead": lambda: Data.range(6).map(lambda x: x + 1, num_parallel_calls=2).prefetch(2),
    "scanned": lambda: Data.range(6).scan(tf.constant(0, tf.int64), lambda s, x: (s + x, s)),
}


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("taken", [0, 2, 6])
def test_an_iterator_goes_on_where_it_was_saved(tmp_path, name, taken):
    data = DATASETS[name]()
    iterator = iter(data)
    for _ in range(taken):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "c"))
    rest = numbers(iterator)
    assert len(rest) == 6 - taken
    tf.train.Checkpoint(iterator=iterator).restore(path).assert_consumed()
    assert numbers(iterator) == rest
    other = iter(data)
    tf.train.Checkpoint(iterator=other).restore(path)
    assert numbers(other) == rest


_AGAIN = """
import sys
import tideflow as tf
data = tf.data.Dataset.range(20).shuffle(20).repeat(2)
iterator = iter(data)
checkpoint = tf.train.Checkpoint(iterator=iterator)
if sys.argv[1] == "save":
    for _ in range(7):
        next(iterator)
    checkpoint.write(sys.argv[2])
else:
    checkpoint.read(sys.argv[2])
print([int(x) for x in iterator])
"""


@pytest.mark.processes
def test_another_process_goes_on_with_the_same_order(tmp_path):
    found = [
        subprocess.run(
            [sys.executable, "-c", _AGAIN, what, str(tmp_path / "c")],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for what in ("save", "restore")
    ]
    assert found[0] == found[1]


def test_an_element_that_failed_counts(tmp_path):
    iterator = iter(Data.from_tensor_slices([1, 0, 2, 4]).map(lambda x: 8 // x))
    next(iterator)
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(iterator)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.save(str(tmp_path / "c"))
    next(iterator)
    checkpoint.restore(path)
    assert numbers(iterator) == [4, 2]


def test_functions_with_state_are_refused(tmp_path):
    v = tf.Variable(0, dtype=tf.int64)
    for function in (lambda x: v.assign_add(x), lambda x: tf.random.uniform([])):
        iterator = iter(Data.range(3).map(function))
        with pytest.raises(tf.errors.FailedPreconditionError, match="is stateful"):
            tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "c"))


def test_tables_and_messages_are_no_state(tmp_path):
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([0], [5]), -1)

    def found(x):
        tf.debugging.assert_less(x, tf.constant(9, tf.int64))
        return table.lookup(tf.cast(x, tf.int32))

    iterator = iter(Data.range(2).map(found))
    assert int(next(iterator)) == 5
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    checkpoint.restore(checkpoint.save(str(tmp_path / "c")))
    assert numbers(iterator) == [-1]


def test_ops_refuse_what_is_no_place():
    raw = tf.raw_ops
    kind = {"output_types": [tf.int64], "output_shapes": [[]]}
    handle = raw.AnonymousIteratorV3(**kind)
    with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
        raw.SerializeIterator(resource_handle=handle)
    raw.MakeIterator(dataset=tf.data.experimental.to_variant(Data.range(5)), iterator=handle)
    raw.IteratorGetNext(iterator=handle, **kind)
    place = raw.SerializeIterator(resource_handle=handle)
    raw.MakeIterator(dataset=tf.data.experimental.to_variant(Data.range(9)), iterator=handle)
    raw.DeserializeIterator(resource_handle=handle, serialized=place)
    assert numbers(raw.IteratorGetNext(iterator=handle, **kind)) == [1]
    wrong = tf.stack([tf.data.experimental.to_variant(Data.range(1))])
    with pytest.raises(tf.errors.InternalError):
        raw.DeserializeIterator(resource_handle=handle, serialized=wrong)
