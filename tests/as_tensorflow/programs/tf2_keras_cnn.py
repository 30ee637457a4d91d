"""A convolutional network of Keras, from a dataset, with a loop of its own."""

import numpy as np
import tensorflow as tf

keras = tf.keras
keras.utils.set_random_seed(1)
inputs = keras.Input((8, 8, 1))
h = keras.layers.Conv2D(4, 3, activation="relu", padding="same")(inputs)
h = keras.layers.BatchNormalization()(h)
h = keras.layers.MaxPooling2D()(h)
h = keras.layers.Flatten()(h)
model = keras.Model(inputs, keras.layers.Dense(3)(h))
images = np.random.RandomState(2).rand(24, 8, 8, 1).astype("float32")
labels = np.arange(24) % 3
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(8)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.SGD(0.1, momentum=0.9)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for _ in range(2):
    print([f"{float(step(x, y)):.3f}" for x, y in dataset])
model.compile(optimizer="rmsprop", loss=loss_fn)
print([round(v, 2) for v in model.fit(dataset, epochs=2, verbose=0).history["loss"]])
