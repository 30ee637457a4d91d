"""Data that is kept in files and shared out: saved, loaded, snapshots, caches, shards, options."""

import os
import tempfile

import numpy as np
import tensorflow as tf

reads = []


def noted(i):
    reads.append(int(i))
    return np.int64(i) * 2


def shown(data):
    return [
        [np.asarray(part).tolist() for part in tf.nest.flatten(element, expand_composites=True)]
        for element in data
    ]


with tempfile.TemporaryDirectory() as folder:
    at = lambda name: os.path.join(folder, name)  # noqa: E731
    source = tf.data.Dataset.range(6).map(
        lambda i: {"n": tf.ensure_shape(tf.numpy_function(noted, [i], tf.int64), []),
                   "text": tf.strings.as_string(i),
                   "rows": tf.RaggedTensor.from_row_lengths(tf.range(i), [i])}
    )  # fmt: skip
    source.save(at("saved"))
    print(len(reads), sorted(os.listdir(at("saved")))[-1])
    loaded = tf.data.Dataset.load(at("saved"))
    print(
        loaded.element_spec == source.element_spec, int(loaded.cardinality()), shown(loaded.take(2))
    )
    source.save(at("shards"), shard_func=lambda element: element["n"] % 3)
    backwards = tf.data.Dataset.load(
        at("shards"),
        reader_func=lambda shards: shards.interleave(lambda shard: shard, cycle_length=3),
    )
    print(sorted(row[0] for row in shown(backwards)))
    try:
        tf.data.Dataset.load(at("nothing"))
    except tf.errors.NotFoundError as error:
        print(type(error).__name__)

    reads.clear()
    kept = source.map(lambda one: one["n"]).snapshot(at("snapshot"), compression="SNAPPY")
    print(shown(kept), len(reads), shown(kept), len(reads))
    reads.clear()
    cached = source.map(lambda one: one["n"]).cache(at("cache"))
    print(
        shown(cached) == shown(cached),
        len(reads),
        any("cache" in one for one in os.listdir(folder)),
    )
    reads.clear()
    partial = source.map(lambda one: one["n"]).cache()
    print(shown(partial.take(2)), shown(partial)[-1], len(reads) > 7)

    # ---- shared out

    tf.io.gfile.makedirs(at("parts"))
    for part in range(3):
        with tf.io.TFRecordWriter(at(f"parts/{part}.tfrecord")) as writer:
            for i in range(4):
                writer.write(f"{part}{i}".encode())
    files = tf.data.Dataset.list_files(at("parts/*.tfrecord"), shuffle=False)
    for index in range(2):
        print(shown(files.shard(2, index).flat_map(tf.data.TFRecordDataset)))
    woven = files.interleave(
        lambda path: tf.data.TFRecordDataset(path).map(tf.strings.to_number),
        cycle_length=2, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True,
    )  # fmt: skip
    print(shown(woven))
    print(shown(tf.data.TFRecordDataset([at("parts/0.tfrecord"), at("parts/2.tfrecord")]).skip(3)))

# ---- what is known of them

options = tf.data.Options()
options.deterministic = False
options.autotune.enabled = False
options.experimental_optimization.map_parallelization = True
options.threading.private_threadpool_size = 2
data = tf.data.Dataset.range(10).with_options(options)
print(data.options().deterministic, data.options().threading.private_threadpool_size)
print(data.map(lambda x: x).batch(3).options().autotune.enabled, options == tf.data.Options())
for one in (
    data,
    data.batch(3),
    data.batch(3, drop_remainder=True),
    data.repeat(),
    data.filter(lambda x: x > 2),
    data.window(3),
    data.batch(4).rebatch([2, 1]),
    data.take(3).concatenate(data),
    data.apply(tf.data.experimental.assert_cardinality(10)),
    data.enumerate(start=3),
    data.batch(2).unbatch(),
):
    print(int(one.cardinality()), one.element_spec)
print(shown(data.batch(4).rebatch(3)), shown(data.batch(5).rebatch([1, 4])))
print(shown(data.enumerate().skip(8)), shown(tf.data.Dataset.counter(5, 2).take(2)))
print(shown(data.take_while(lambda x: x < 3)), int(data.reduce(np.int64(1), lambda a, b: a + b)))
print(shown(data.scan(np.int64(1), lambda a, b: (a + b, a * b)).take(4)))
print(
    shown(data.map(lambda x: x % 4).unique()), shown(data.batch(4).map(lambda x: (x, -x)).skip(2))
)
print(int(data.skip(9).get_single_element()))
print(
    shown(data.group_by_window(lambda x: x % 2, lambda key, group: group.batch(3), window_size=3))
)
print(
    shown(data.padded_batch(4, padded_shapes=[]))[-1], shown(tf.data.Dataset.from_tensors([1, 2]))
)
spec = tf.data.DatasetSpec(tf.TensorSpec([], tf.int64))


@tf.function(input_signature=[spec])
def total(data):
    found = tf.constant(0, tf.int64)
    for x in data:
        if x > 7:
            break
        found += x
    return found, data.reduce(tf.constant(0, tf.int64), lambda a, b: a + b)


print([int(one) for one in total(data)], tf.data.DatasetSpec.from_value(data) == spec)
nested = tf.data.Dataset.from_tensors(data.take(3))
print(nested.element_spec, shown(nested.flat_map(lambda inner: inner)))
strict = tf.data.Dataset.range(2).apply(tf.data.experimental.assert_cardinality(3))
try:
    list(strict)
except tf.errors.FailedPreconditionError as error:
    print(type(error).__name__)
checked = tf.data.Dataset.from_tensor_slices([1.0, 0.0, 2.0]).map(
    lambda x: tf.debugging.check_numerics(1 / x, "x")
)
print(shown(checked.ignore_errors()))
