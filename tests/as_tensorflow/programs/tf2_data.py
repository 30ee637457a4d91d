"""Records are written, read, parsed, batched and padded."""

import os
import tempfile

import tensorflow as tf


def example(i):
    features = {
        "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
        "word": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"w" * i])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features))


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "data.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(7):
            writer.write(example(i).SerializeToString())
    spec = {
        "number": tf.io.FixedLenFeature([], tf.int64),
        "word": tf.io.FixedLenFeature([], tf.string),
    }
    dataset = tf.data.TFRecordDataset(path).map(lambda x: tf.io.parse_single_example(x, spec))
    print(dataset.element_spec["number"], sorted(dataset.element_spec))
    batches = dataset.filter(lambda e: e["number"] % 3 != 0).batch(2, drop_remainder=False)
    for batch in batches.prefetch(tf.data.AUTOTUNE):
        print(batch["number"].numpy().tolist(), batch["word"].numpy().tolist())

ranges = (
    tf.data.Dataset.range(1, 5)
    .map(tf.range)
    .padded_batch(3, padding_values=tf.constant(-1, tf.int64))
)
print([rows.tolist() for rows in ranges.as_numpy_iterator()])
pairs = tf.data.Dataset.zip(
    (tf.data.Dataset.range(3), tf.data.Dataset.from_tensor_slices(["a", "b", "c"]))
)
print([(int(n), s.numpy()) for n, s in pairs.repeat(2).skip(1).take(3)])
windows = tf.data.Dataset.range(6).window(3, shift=2, drop_remainder=True)
print([[int(x) for x in w] for w in windows])
print(int(tf.data.Dataset.range(10).reduce(tf.constant(0, tf.int64), lambda a, b: a + b)))
print(isinstance(ranges, tf.data.Dataset), isinstance(iter(ranges), tf.data.Iterator))
