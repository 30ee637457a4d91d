"""A perceptron of Keras: compiled, fitted, saved, and loaded again."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras.layers import Dense

keras.backend.clear_session()
keras.utils.set_random_seed(7)
rng = np.random.RandomState(0)
x = rng.randn(64, 8).astype("float32")
y = (x.sum(axis=1) > 0).astype("int64")
model = keras.Sequential([keras.Input((8,)), layers.Dense(16, activation="relu"), Dense(2)])
model.compile(
    optimizer=tf.optimizers.Adam(0.01),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(x, y, batch_size=16, epochs=4, shuffle=False, verbose=0, validation_split=0.25)
print({name: [round(v, 3) for v in values] for name, values in sorted(history.history.items())})
print([round(v, 3) for v in model.evaluate(x, y, verbose=0)], model.predict(x[:2], verbose=0).shape)
print(
    model.count_params(),
    [v.path for v in model.trainable_variables],
    tf.keras.layers.Dense is Dense,
)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "model.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
    print(np.allclose(loaded.predict(x, verbose=0), model.predict(x, verbose=0)))
