"""Callbacks: what they write, when they stop, and what they restore."""

import os
import tempfile

import numpy as np
import tensorflow as tf

keras = tf.keras
keras.backend.clear_session()
callbacks = keras.callbacks
rng = np.random.RandomState(1)
x = rng.randn(32, 4).astype("float32")
y = x @ np.array([[1.0], [2.0], [-1.0], [0.5]], "float32")


def compiled(rate=0.05):
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(rate), "mse", metrics=["mae"])
    return model


def fit(model, *chosen, epochs=3, **options):
    return model.fit(
        x, y, batch_size=8, epochs=epochs, shuffle=False, verbose=0,
        validation_split=0.25, callbacks=list(chosen), **options,
    )  # fmt: skip


def events(folder):
    found = []
    for path in sorted(tf.io.gfile.glob(os.path.join(folder, "*events*"))):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                tensor = tf.make_ndarray(value.tensor) if value.HasField("tensor") else None
                kind = value.metadata.plugin_data.plugin_name
                shape = None if tensor is None or tensor.shape == () else len(tensor.shape)
                found.append((event.step, value.tag, kind, shape))
    return found


with tempfile.TemporaryDirectory() as folder:
    at = lambda *names: os.path.join(folder, *names)  # noqa: E731
    model = compiled()
    best = callbacks.ModelCheckpoint(at("best.keras"), monitor="val_loss", save_best_only=True)
    each = callbacks.ModelCheckpoint(at("w-{epoch:02d}.weights.h5"), save_weights_only=True)
    log = callbacks.CSVLogger(at("log.csv"))
    fit(model, best, each, log)
    print(sorted(os.listdir(folder)))
    with open(at("log.csv")) as file:
        rows = [line.strip().split(",") for line in file]
    print(rows[0], [[round(float(v), 2) for v in row] for row in rows[1:]])
    loaded = keras.models.load_model(at("best.keras"))
    print(round(loaded.evaluate(x, y, verbose=0)[0], 2), type(loaded.optimizer).__name__)
    other = compiled()
    other.load_weights(at("w-02.weights.h5"))
    print(round(other.evaluate(x, y, verbose=0)[0], 2))

    stop = callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True)
    history = fit(compiled(0.6), stop, epochs=8)
    print(len(history.history["loss"]) < 8, stop.stopped_epoch)
    slow = callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=10.0)
    model = compiled()
    history = fit(model, slow, epochs=4)
    print(np.round(history.history["learning_rate"], 4), float(model.optimizer.learning_rate))
    schedule = callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
    print(np.round(fit(compiled(), schedule).history["learning_rate"], 4))
    print(len(fit(compiled(1e20), callbacks.TerminateOnNaN(), epochs=5).history["loss"]))

    calls = []
    told = callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: calls.append(f"begin {epoch}"),
        on_train_batch_end=lambda batch, logs: calls.append(f"{batch} {sorted(logs)}"),
        on_train_end=lambda logs: calls.append("end"),
    )
    fit(compiled(), told, epochs=1)
    print(calls)

    class Stop(callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1 and self.params["epochs"] == 3:
                raise KeyboardInterrupt

    model = compiled()
    backup = callbacks.BackupAndRestore(at("backup"), delete_checkpoint=False)
    try:
        fit(model, backup, Stop())
    except KeyboardInterrupt:
        print("interrupted", int(model.optimizer.iterations), sorted(os.listdir(at("backup"))))
    again = compiled()
    history = fit(again, callbacks.BackupAndRestore(at("backup")), epochs=4)
    print(len(history.history["loss"]), int(again.optimizer.iterations))
    print(
        np.allclose(
            fit(compiled(), epochs=4).history["loss"][2:], history.history["loss"], atol=1e-5
        )
    )

    board = callbacks.TensorBoard(
        at("logs"), histogram_freq=1, write_graph=False, update_freq=2, write_images=True
    )
    fit(compiled(), board, epochs=2)
    print(sorted(os.listdir(at("logs"))))
    for part in ("train", "validation"):
        for event in events(at("logs", part)):
            print(part, *event)
    fit(compiled(), callbacks.TensorBoard(at("graph"), write_graph=True), epochs=1)
    kinds = {(tag, kind) for _, tag, kind, _ in events(at("graph", "train"))}
    print(sorted(kinds))
