"""Layers that prepare data, in datasets and in models."""

import os
import tempfile

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
keras.utils.set_random_seed(1)

numbers = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 60.0]], "float32")
norm = layers.Normalization()
norm.adapt(numbers)
print(np.round(norm(numbers), 3).tolist(), np.round(norm.mean, 2).tolist())
dataset = tf.data.Dataset.from_tensor_slices(numbers).batch(2)
norm = layers.Normalization(axis=-1)
norm.adapt(dataset)
print([np.round(batch, 2).tolist() for batch in dataset.map(norm).as_numpy_iterator()])
print(np.round(layers.Normalization(mean=2.0, variance=4.0)(numbers), 2).tolist())
undone = layers.Normalization(invert=True, mean=[1.0, 2.0], variance=[4.0, 9.0])
print(undone(numbers).numpy().tolist())

words = tf.constant(["a b a", "c, b!", "A d"])
text = layers.TextVectorization(max_tokens=5, output_sequence_length=4)
text.adapt(words)
print(text.get_vocabulary(), text(words).numpy().tolist(), text.vocabulary_size())
print(next(iter(tf.data.Dataset.from_tensor_slices(words).map(text))).numpy().tolist())
for mode in ("multi_hot", "count", "tf_idf"):
    other = layers.TextVectorization(output_mode=mode)
    other.adapt(tf.data.Dataset.from_tensor_slices(words).batch(2))
    print(mode, np.round(other(words), 2).tolist())
print(
    layers.TextVectorization(vocabulary=["x", "y"], split="character")([["xyz"]]).numpy().tolist()
)
ragged = layers.TextVectorization(vocabulary=["a", "b"], ragged=True)
print(ragged(words).to_list())
pairs = layers.TextVectorization(ngrams=2, standardize=None)
pairs.adapt(words)
print(pairs.get_vocabulary())

strings = layers.StringLookup(vocabulary=["x", "y", "z"])
print(strings([["x", "q"], ["z", "y"]]).numpy().tolist(), strings.get_vocabulary())
back = layers.StringLookup(vocabulary=strings.get_vocabulary(), invert=True)
print(back([[1, 0, 3]]).numpy().tolist())
hot = layers.StringLookup(vocabulary=["x", "y"], output_mode="one_hot", num_oov_indices=2)
print(hot(["x", "q", "y"]).numpy().tolist())
learned = layers.StringLookup(mask_token="", max_tokens=4)
learned.adapt(np.array(["m", "n", "m", "o", "", "p", "m", "n"]))
print(learned.get_vocabulary(), learned(["", "n", "zz"]).numpy().tolist())
integers = layers.IntegerLookup(vocabulary=[10, 20], num_oov_indices=1, output_mode="count")
print(integers([[10, 20, 10], [3, 3, 20]]).numpy().tolist())
known = tf.ragged.constant([["x"], ["y", "z"]])
print(strings(known).to_list())
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "words.txt")
    with open(path, "w") as file:
        file.write("u\nv\n")
    print(layers.StringLookup(vocabulary=path)(["v", "u", "w"]).numpy().tolist())

print(
    layers.Discretization(bin_boundaries=[0.0, 1.0, 2.0])([[-1.0, 0.5, 1.0, 9.0]]).numpy().tolist()
)
bins = layers.Discretization(num_bins=3)
bins.adapt(np.arange(9.0).reshape(9, 1))
print(np.round(bins.bin_boundaries, 2).tolist(), bins(np.array([[0.5], [8.0]])).numpy().tolist())
print(layers.Hashing(num_bins=7)([["a"], ["b"], ["c"]]).numpy().tolist())
print(layers.Hashing(num_bins=7, salt=[3, 4])(tf.constant([[1], [2]])).numpy().tolist())
print(layers.Hashing(num_bins=5, mask_value="")([["a"], [""]]).numpy().tolist())
encode = layers.CategoryEncoding(num_tokens=4, output_mode="count")
print(encode([[0, 1, 1], [3, 3, 3]], count_weights=np.ones((2, 3))).numpy().tolist())
print(layers.CategoryEncoding(num_tokens=3, output_mode="one_hot")([2, 0]).numpy().tolist())
print(layers.CategoryEncoding(num_tokens=3, sparse=True)([[0, 2]]).dense_shape.numpy().tolist())
crossed = layers.HashedCrossing(num_bins=6)
print(crossed((tf.constant(["a", "b"]), tf.constant([1, 2]))).numpy().tolist())

images = (np.arange(2 * 4 * 4 * 3) % 7).astype("float32").reshape(2, 4, 4, 3)
print(float(tf.reduce_sum(layers.Rescaling(0.5, offset=1.0)(images))))
print(
    layers.Resizing(2, 3)(images).shape,
    np.round(layers.Resizing(2, 2)(images)[0, 0, 0], 2).tolist(),
)
print(layers.CenterCrop(2, 2)(images)[0, :, :, 0].numpy().tolist())
for layer in (
    layers.RandomFlip(seed=1), layers.RandomRotation(0.2, seed=2), layers.RandomZoom(0.3, seed=3),
    layers.RandomTranslation(0.2, 0.2, seed=4), layers.RandomContrast(0.4, seed=5),
    layers.RandomBrightness(0.3, seed=6), layers.RandomCrop(2, 3, seed=7),
):  # fmt: skip
    out = layer(images, training=True)
    same = np.allclose(layer(images, training=False), images) if out.shape == images.shape else None
    print(type(layer).__name__, out.shape, np.round(np.mean(out), 3), same)
augment = keras.Sequential([layers.RandomFlip("horizontal", seed=1), layers.Rescaling(1 / 7)])
mapped = (
    tf.data.Dataset.from_tensor_slices(images).batch(2).map(lambda one: augment(one, training=True))
)
print([batch.shape for batch in mapped.as_numpy_iterator()])

inputs = keras.Input((1,), dtype="string")
hidden = layers.Embedding(6, 3)(text(inputs))
model = keras.Model(inputs, layers.Dense(1)(layers.GlobalAveragePooling1D()(hidden)))
model.compile("sgd", "mse")
history = model.fit(tf.constant([["a b"], ["c d"]]), np.ones((2, 1)), epochs=2, verbose=0)
print(np.round(history.history["loss"], 3).tolist())
space = keras.utils.FeatureSpace(
    {"n": "float_normalized", "s": "string_categorical", "i": "integer_categorical"},
    crosses=[("s", "i")], crossing_dim=4, output_mode="concat",
)  # fmt: skip
table = {"n": [1.0, 2.0, 3.0], "s": ["a", "b", "a"], "i": [1, 2, 2]}
rows = tf.data.Dataset.from_tensor_slices({name: np.array(one) for name, one in table.items()})
space.adapt(rows)
for row in rows.batch(3).map(space):
    print(row.shape, np.round(row, 2).tolist())
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "text.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
    print(np.allclose(loaded(tf.constant([["a b"]])), model(tf.constant([["a b"]]))))
