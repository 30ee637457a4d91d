"""Callbacks under strategies: summaries, backups that are restored, and checkpoints.

As a task of a cluster (test_keras_in_clusters.py) it uses the strategy of that kind of cluster.
"""

import json
import os
import tempfile

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
keras = tf.keras
callbacks = keras.callbacks
rng = np.random.RandomState(13)
x = rng.randn(32, 4).astype("float32")
y = x @ np.array([[1.0], [2.0], [-1.0], [0.5]], "float32")


def events(folder):
    for path in sorted(tf.io.gfile.glob(os.path.join(folder, "*events*"))):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                yield event.step, value.tag, value.metadata.plugin_data.plugin_name


class Stop(callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt


def compiled(strategy):
    keras.backend.clear_session()
    keras.utils.set_random_seed(2)
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.05), "mse", metrics=["mae"])
    return model


def strategies():
    jobs = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if "ps" not in jobs:
        if not jobs:
            yield tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
            yield tf.distribute.OneDeviceStrategy("/cpu:1")
        yield tf.distribute.MultiWorkerMirroredStrategy()
    elif resolver.task_type == "chief":
        yield tf.distribute.ParameterServerStrategy(resolver)
    else:
        place = resolver.task_type, resolver.task_id
        tf.distribute.Server(resolver.cluster_spec(), *place).join()


for strategy in strategies():
    print(type(strategy).__name__, strategy.num_replicas_in_sync)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    with tempfile.TemporaryDirectory() as folder:
        at = lambda *names: os.path.join(folder, *names)  # noqa: E731
        board = callbacks.TensorBoard(
            at("logs"), histogram_freq=1, update_freq=2, write_graph=False
        )
        best = callbacks.ModelCheckpoint(at("best.keras"), save_best_only=True)
        rate = callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
        history = compiled(strategy).fit(
            data, epochs=2, verbose=0, validation_data=data, callbacks=[board, best, rate]
        )
        for name, values in sorted(history.history.items()):
            print(name, np.round(values, 3).tolist())
        for part in ("train", "validation"):
            print(part, sorted(set(events(at("logs", part)))))
        loaded = keras.models.load_model(at("best.keras"))
        print(np.round(loaded.evaluate(data, verbose=0), 3).tolist())

        whole = compiled(strategy).fit(data, epochs=4, verbose=0).history["loss"]
        model = compiled(strategy)
        try:
            backup = callbacks.BackupAndRestore(at("backup"), delete_checkpoint=False)
            model.fit(data, epochs=4, verbose=0, callbacks=[backup, Stop()])
        except KeyboardInterrupt:
            print(
                "interrupted",
                int(model.optimizer.iterations.numpy()),
                sorted(os.listdir(at("backup"))),
            )
        again = compiled(strategy)
        restored = again.fit(
            data, epochs=4, verbose=0, callbacks=[callbacks.BackupAndRestore(at("backup"))]
        )
        print(len(restored.history["loss"]), int(again.optimizer.iterations.numpy()))
        print(
            np.allclose(
                restored.history["loss"], whole[-len(restored.history["loss"]) :], atol=1e-4
            )
        )
        print(os.path.exists(at("backup", "latest.weights.h5")))
        stop = callbacks.EarlyStopping(
            "loss", patience=0, restore_best_weights=True, min_delta=100.0
        )
        print(
            len(compiled(strategy).fit(data, epochs=4, verbose=0, callbacks=[stop]).history["loss"])
        )
