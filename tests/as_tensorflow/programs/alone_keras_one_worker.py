"""A model of Keras under the strategies of several workers, with one worker, and on one device."""

import numpy as np
import tensorflow as tf

keras = tf.keras
strategy = tf.distribute.MultiWorkerMirroredStrategy()
print(strategy.num_replicas_in_sync)
x = np.random.RandomState(0).randn(16, 3).astype("float32")
y = x.sum(axis=1, keepdims=True)


def fit(strategy):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    history = model.fit(data, epochs=2, verbose=0)
    print({name: np.round(found, 3).tolist() for name, found in sorted(history.history.items())})
    print(np.round(model.evaluate(data, verbose=0), 3).tolist(), model.predict(x, verbose=0).shape)


for each in (strategy, tf.distribute.OneDeviceStrategy("/cpu:0"), tf.distribute.get_strategy()):
    fit(each)
