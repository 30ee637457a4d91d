"""Models of Keras on two devices: fitted, in a loop of one's own, saved and restored."""

import os
import tempfile

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
keras = tf.keras
layers = keras.layers
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
print(strategy.num_replicas_in_sync)
rng = np.random.RandomState(0)
x = rng.randn(32, 4).astype("float32")
y = (x.sum(axis=1, keepdims=True) > 0).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)


def make(optimizer=lambda: keras.optimizers.SGD(0.2, momentum=0.5), **options):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((4,)),
                layers.Dense(6, activation="tanh"),
                layers.BatchNormalization(),
                layers.Dense(1),
            ]
        )
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        metrics = [
            keras.metrics.BinaryAccuracy(threshold=0.0, name="acc"),
            keras.metrics.AUC(name="auc"),
        ]
        model.compile(optimizer(), loss, metrics=metrics, **options)
    return model


def shown(history):
    return {name: np.round(found, 3).tolist() for name, found in sorted(history.history.items())}


model = make()
kernel = model.layers[0].kernel
print(isinstance(kernel.value, tf.distribute.DistributedValues), type(kernel.value).__name__)
print(shown(model.fit(dataset, epochs=2, verbose=0, validation_data=dataset)))
print([np.allclose(*[copy.numpy() for copy in strategy.experimental_local_results(kernel.value)])])
print(
    np.round(model.evaluate(dataset, verbose=0), 3).tolist(),
    model.predict(x, batch_size=8, verbose=0).shape,
)
print(np.allclose(model.predict(x, batch_size=8, verbose=0), model(x), atol=1e-5))
print(int(model.optimizer.iterations.numpy()), [v.path for v in model.optimizer.variables][:3])
print(shown(make().fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)))
print(shown(make(lambda: keras.optimizers.Adam(0.05)).fit(dataset, epochs=1, verbose=0)))
options = {"weight_decay": 0.1, "global_clipnorm": 1.0, "use_ema": True}
print(
    shown(make(lambda: keras.optimizers.AdamW(0.05, **options)).fit(dataset, epochs=1, verbose=0))
)

with tempfile.TemporaryDirectory() as folder:
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(
        os.path.join(folder, "c")
    )
    names = [
        name.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE")
        for name, _ in tf.train.list_variables(path)
    ]
    print(names[:6])
    other = make()
    tf.train.Checkpoint(model=other).restore(path).expect_partial()
    print(np.allclose(other(x), model(x), atol=1e-6))
    model.save(os.path.join(folder, "m.keras"))
    plain = keras.models.load_model(os.path.join(folder, "m.keras"))
    print(np.allclose(plain(x), model(x), atol=1e-6))
    with strategy.scope():
        mirrored = keras.models.load_model(os.path.join(folder, "m.keras"))
    print(
        shown(mirrored.fit(dataset, epochs=1, verbose=0))
        == shown(model.fit(dataset, epochs=1, verbose=0))
    )
    model.save_weights(os.path.join(folder, "m.weights.h5"))
    other.load_weights(os.path.join(folder, "m.weights.h5"))
    print(np.allclose(other(x), model(x), atol=1e-6))

# ---- a loop

with strategy.scope():
    keras.utils.set_random_seed(2)
    net = keras.Sequential([keras.Input((4,)), layers.Dense(3, activation="relu"), layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.05)
    optimizer.build(net.trainable_variables)
    losses = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")
    mean = keras.metrics.Mean()


def replica(inputs, wanted):
    with tf.GradientTape() as tape:
        each = losses(wanted, net(inputs, training=True))
        loss = tf.nn.compute_average_loss(each, global_batch_size=8)
    grads = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(grads, net.trainable_variables))
    mean.update_state(each)
    return loss


@tf.function
def step(batch):
    found = strategy.run(replica, args=batch)
    return strategy.reduce(tf.distribute.ReduceOp.SUM, found, axis=None)


for batch in strategy.experimental_distribute_dataset(dataset):
    print(round(float(step(batch)), 3))
print(round(float(mean.result()), 3), int(optimizer.iterations.numpy()))
