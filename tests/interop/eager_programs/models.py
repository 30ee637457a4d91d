"""Models of Keras on the tasks of a cluster, with its optimizers."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager_programs.registry import W0, W1, Cluster, program, values


def _data() -> tuple[Any, Any]:
    random = np.random.RandomState(5)
    x = random.randn(16, 6, 3).astype(np.float32)
    return x, x.sum(axis=(1, 2))[:, None] * np.float32(0.1)


def _keras() -> Any:
    import keras  # noqa: PLC0415  (the client's Keras loads its backend, which is slow)

    keras.utils.set_random_seed(3)
    return keras


@program(["tensorflow"])
def a_model_is_fitted_on_a_worker(tf: Any, at: Cluster) -> Any:
    keras = _keras()
    x, y = _data()
    with tf.device(W0):
        layers = keras.layers
        model = keras.Sequential(
            [
                keras.Input((6, 3)),
                layers.Conv1D(4, 3, activation="relu"),
                layers.BatchNormalization(),
                layers.LSTM(3),
                layers.Dense(1),
            ]
        )
        model.compile(keras.optimizers.Adam(0.05), "mse", metrics=["mae"], jit_compile=False)
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
        history = model.fit(data, epochs=2, verbose=0).history
        tested = model.evaluate(data, verbose=0)
        places = sorted({v.value.device.partition("/device")[0] for v in model.variables})
    found = [history[name] for name in sorted(history)]
    return [np.array(found), np.array(tested), places]


@program(["tensorflow"])
def steps_of_a_model_over_two_workers(tf: Any, at: Cluster) -> Any:
    keras = _keras()
    x, y = _data()
    with tf.device(W0):
        encode = keras.Sequential([keras.Input((6, 3)), keras.layers.GRU(4)])
    with tf.device(W1):
        decode = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    variables = encode.trainable_variables + decode.trainable_variables
    found = []
    for make in (
        lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        lambda: keras.optimizers.AdamW(0.02, weight_decay=0.01, clipnorm=1.0),
        lambda: keras.optimizers.RMSprop(0.01, centered=True, use_ema=True),
    ):
        with tf.device(W0):
            optimizer = make()
            optimizer.build(variables)

        @tf.function
        def step(optimizer: Any = optimizer) -> Any:
            with tf.GradientTape() as tape:
                with tf.device(W0):
                    hidden = encode(x, training=True)
                with tf.device(W1):
                    loss = tf.reduce_mean((decode(hidden) - y) ** 2)
            gradients = tape.gradient(loss, [v.value for v in variables])
            optimizer.apply(gradients, variables)
            return loss

        found += [step().numpy() for _ in range(3)]
    return [*found, *values(v.value for v in variables)]
