"""fit, evaluate and predict on arrays, datasets, generators and batches, in several ways."""

import numpy as np
import tensorflow as tf

keras = tf.keras
rng = np.random.RandomState(0)
x = rng.randn(40, 6).astype("float32")
y = (x[:, 0] + x[:, 1] > 0).astype("float32")


def compiled(**options):
    keras.utils.set_random_seed(5)
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)]
    )
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    metrics = [keras.metrics.BinaryAccuracy(threshold=0.0, name="acc")]
    model.compile(keras.optimizers.SGD(0.5), loss, metrics=metrics, **options)
    return model


def shown(history):
    return {name: np.round(found, 3).tolist() for name, found in sorted(history.history.items())}


def batches():
    for start in range(0, 40, 8):
        yield x[start : start + 8], y[start : start + 8]


class Sequence(keras.utils.PyDataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return x[index * 8 : index * 8 + 8], y[index * 8 : index * 8 + 8]


dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
print(shown(compiled().fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)))
print(shown(compiled().fit(dataset, epochs=2, verbose=0, validation_data=(x[:8], y[:8]))))
print(shown(compiled().fit(batches(), steps_per_epoch=2, epochs=2, verbose=0)))
print(shown(compiled().fit(Sequence(), epochs=1, shuffle=False, verbose=0)))
print(shown(compiled().fit(dataset.repeat(), steps_per_epoch=3, epochs=2, verbose=0)))
print(shown(compiled(steps_per_execution=2).fit(dataset, epochs=2, verbose=0)))
print(shown(compiled(jit_compile=True).fit(dataset, epochs=2, verbose=0)))
print(shown(compiled(run_eagerly=True).fit(dataset, epochs=1, verbose=0)))
weights = {0: 1.0, 1: 3.0}
print(shown(compiled().fit(x, y, batch_size=8, class_weight=weights, shuffle=False, verbose=0)))
sample = np.linspace(0.0, 2.0, 40).astype("float32")
model = compiled(weighted_metrics=["mse"])
print(shown(model.fit(x, y, batch_size=8, sample_weight=sample, shuffle=False, verbose=0)))
fraction = model.fit(x, y, batch_size=8, validation_split=0.2, shuffle=False, verbose=0)
print(shown(fraction))
print(np.round(model.evaluate(dataset, verbose=0), 3).tolist())
print(sorted(model.evaluate(x, y, verbose=0, return_dict=True)), model.metrics_names)
predicted = model.predict(x, batch_size=16, verbose=0)
print(predicted.shape, np.allclose(predicted, model.predict(dataset, verbose=0), atol=1e-5))
print(model.predict(tf.data.Dataset.from_tensor_slices(x).batch(7), steps=2, verbose=0).shape)
print(np.allclose(model(x[:4]), predicted[:4], atol=1e-5), model.predict_on_batch(x[:3]).shape)
print(np.round(model.train_on_batch(x[:8], y[:8]), 3).tolist())
print(sorted(model.test_on_batch(x[:8], y[:8], return_dict=True)))
print([int(model.optimizer.iterations), float(model.optimizer.learning_rate)])
model.compile(
    keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)), "mse"
)
print(shown(model.fit(dataset, verbose=0)), round(float(model.optimizer.learning_rate), 4))
for name in ("RMSprop", "Adagrad", "Adadelta", "AdamW", "Adamax", "Nadam", "Ftrl", "Lion"):
    model = compiled()
    model.compile(getattr(keras.optimizers, name)(0.05), "mse")
    print(name, shown(model.fit(dataset, epochs=2, verbose=0)))
model = compiled()
clipped = keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, global_clipnorm=0.1, use_ema=True)
model.compile(clipped, "mse")
print(shown(model.fit(dataset, epochs=2, verbose=0)))
model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2, weight_decay=0.01), "mse")
print(shown(model.fit(dataset, epochs=2, verbose=0)))
