"""Ragged and sparse tensors, slices of indices, strings and tables."""

import tensorflow as tf

ragged = tf.ragged.constant([[1, 2, 3], [], [4, 5]])
print(ragged.to_list(), ragged.row_lengths().numpy().tolist(), ragged.shape.as_list())
print(tf.reduce_sum(ragged, axis=1).numpy().tolist(), (ragged * 2).to_list())
words = tf.strings.split(["the quick fox", "", "lazy dog"])
print(words.to_list(), tf.strings.length(words).to_list())
sparse = tf.sparse.from_dense([[0, 7, 0], [5, 0, 6]])
print(sparse.indices.numpy().tolist(), sparse.values.numpy().tolist())
print(tf.sparse.to_dense(tf.sparse.reorder(sparse)).numpy().tolist())
print(tf.sparse.sparse_dense_matmul(tf.cast(sparse, tf.float32), tf.ones([3, 1])).numpy().tolist())
with tf.GradientTape() as tape:
    table = tf.Variable(tf.ones([4, 2]))
    loss = tf.reduce_sum(tf.gather(table, [1, 3, 1]))
slices = tape.gradient(loss, table)
print(type(slices).__name__, isinstance(slices, tf.IndexedSlices), slices.indices.numpy().tolist())
keys, values = tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64)
lookup = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)
print(lookup.lookup(tf.constant(["b", "z"])).numpy().tolist(), int(lookup.size()))
print(
    tf.strings.regex_replace(["a1b22"], r"\d+", "#").numpy(),
    tf.strings.as_string([1.5, 2.0]).numpy(),
)
