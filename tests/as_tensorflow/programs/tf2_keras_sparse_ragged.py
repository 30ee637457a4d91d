"""Sparse and ragged values as inputs of models and layers, and in losses."""

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
keras.utils.set_random_seed(3)
dense = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 3.0], [0.0, 1.0, 1.0]], "float32")
sparse = tf.sparse.from_dense(dense)
y = dense.sum(axis=1, keepdims=True)

inputs = keras.Input((3,), sparse=True)
model = keras.Model(inputs, layers.Dense(2)(inputs))
print(np.allclose(model(sparse), model(dense), atol=1e-6), model(sparse).shape)
model = keras.Sequential([keras.Input((3,), sparse=True), layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
print(
    np.round(
        model.fit(sparse, y, batch_size=2, epochs=2, shuffle=False, verbose=0).history["loss"], 3
    )
)
dataset = tf.data.Dataset.from_tensor_slices((sparse, y)).batch(2)
print(np.round(model.fit(dataset, epochs=1, verbose=0).history["loss"], 3))
print(np.round(model.predict(sparse, verbose=0), 2).tolist())

words = tf.ragged.constant([["a", "b"], ["c"], ["a", "a", "b"]])
lookup = layers.StringLookup(vocabulary=["a", "b", "c"])
ids = lookup(words)
print(ids.to_list(), type(ids).__name__)
hot = layers.StringLookup(vocabulary=["a", "b", "c"], output_mode="multi_hot", sparse=True)
found = hot(tf.constant([["a", "b"], ["c", "c"]]))
print(type(found).__name__, tf.sparse.to_dense(found).numpy().tolist())
embedding = layers.Embedding(5, 2)
print(embedding(ids.to_tensor()).shape)
batches = tf.data.Dataset.from_tensor_slices(ids).ragged_batch(2)
print([batch.to_list() for batch in batches])
padded = batches.map(lambda rows: rows.to_tensor(shape=[None, 3]))
model = keras.Sequential([layers.Embedding(5, 3, mask_zero=True), layers.GRU(2), layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse")
labels = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0]).batch(2)
pairs = tf.data.Dataset.zip((padded, labels))
print(np.round(model.fit(pairs, epochs=2, verbose=0).history["loss"], 2).tolist())

table = keras.Variable(np.ones((4, 2), "float32"))
optimizer = keras.optimizers.Adagrad(0.5)
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf.gather(table.value, [1, 1, 3]) ** 2)
grad = tape.gradient(loss, table.value)
print(type(grad).__name__)
optimizer.apply([grad], [table])
print(np.round(table.numpy(), 3).tolist())
print(
    keras.ops.add(sparse, sparse).dense_shape.numpy().tolist(),
    keras.ops.abs(sparse).values.numpy().tolist(),
)
print(keras.ops.convert_to_numpy(keras.ops.matmul(sparse, dense.T)).tolist())
