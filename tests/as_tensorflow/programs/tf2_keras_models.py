"""How models are made, described, copied, saved and loaded; what training changes in them."""

import io
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

keras = tf.keras
keras.backend.clear_session()
layers = keras.layers
keras.utils.set_random_seed(9)
x = np.random.RandomState(0).randn(8, 6).astype("float32")

a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
shared = layers.Dense(
    4, activation="relu", kernel_regularizer=keras.regularizers.L2(0.1), name="shared"
)
joined = layers.Concatenate(name="joined")([shared(a), shared(b), layers.Add()([a, b])])
normal = layers.BatchNormalization(name="normal")(joined)
one = layers.Dense(1, activity_regularizer="l1", name="one")(
    layers.Dropout(0.3, name="drop")(normal)
)
two = layers.Dense(3, activation="softmax", kernel_constraint="non_neg", name="two")(normal)
model = keras.Model({"a": a, "b": b}, {"one": one, "two": two}, name="both")
text = io.StringIO()
model.summary(print_fn=lambda line: text.write(line + "\n"))
print(text.getvalue())
model.compile(
    keras.optimizers.Adam(0.01),
    loss={"one": "mse", "two": "sparse_categorical_crossentropy"},
    loss_weights={"one": 0.5, "two": 1.0},
    metrics={
        "one": ["mae"],
        "two": ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top")],
    },
)
wanted = {"one": x[:, :1], "two": np.arange(8) % 3}
history = model.fit({"a": x, "b": -x}, wanted, batch_size=4, epochs=2, shuffle=False, verbose=0)
print(sorted(history.history), len(model.losses))
print([v.path for v in model.non_trainable_variables])
normal = model.get_layer("normal")
print(
    np.allclose(
        normal(np.ones((2, 14), "float32"), training=False)[0],
        normal.beta
        + normal.gamma
        * (1 - normal.moving_mean)
        / tf.sqrt(normal.moving_variance + normal.epsilon),
        atol=1e-5,
    )
)
before = normal.moving_mean.numpy()
normal(np.ones((2, 14), "float32"), training=True)
print(np.allclose(normal.moving_mean, before * 0.99 + 0.01, atol=1e-6))
normal.trainable = False
before = normal.moving_mean.numpy()
normal(np.ones((2, 14), "float32"), training=True)
print(np.array_equal(normal.moving_mean, before), len(model.trainable_variables))
print(bool(np.all(model.get_layer("two").kernel.numpy() >= 0)), model.count_params())

copied = keras.models.clone_model(model)
print([layer.name for layer in copied.layers] == [layer.name for layer in model.layers])
copied.set_weights(model.get_weights())
given = {"a": x, "b": x}
same = lambda m: all(  # noqa: E731
    np.allclose(p, q, atol=1e-6)
    for p, q in zip(m.predict(given, verbose=0).values(), model.predict(given, verbose=0).values())
)
print(same(copied), same(keras.Model.from_config(model.get_config())))
config = json.loads(model.to_json())
print(config["class_name"], [layer["class_name"] for layer in config["config"]["layers"]])
features = keras.Model(model.input, model.get_layer("joined").output)
print(features.predict(given, verbose=0).shape)


@keras.utils.register_keras_serializable("mine")
class Twice(layers.Layer):
    def __init__(self, times=2, **kwargs):
        super().__init__(**kwargs)
        self.times = times

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1],), initializer="random_normal", name="w")

    def call(self, inputs):
        return inputs * self.w * self.times

    def get_config(self):
        return {**super().get_config(), "times": self.times}


@keras.utils.register_keras_serializable("mine")
class Net(keras.Model):
    def __init__(self, units=3, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.stack = [layers.Dense(units), Twice(3)]
        self.head = layers.Dense(1)

    def call(self, inputs, training=None):
        for layer in self.stack:
            inputs = layer(inputs, training=training) if isinstance(layer, Net) else layer(inputs)
        return self.head(inputs)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


with tempfile.TemporaryDirectory() as folder:
    at = lambda name: os.path.join(folder, name)  # noqa: E731
    model.save(at("m.keras"))
    loaded = keras.models.load_model(at("m.keras"))
    print(same(loaded), int(loaded.optimizer.iterations), loaded.name)
    model.save_weights(at("m.weights.h5"))
    copied = keras.models.clone_model(model)
    copied.load_weights(at("m.weights.h5"))
    print(same(copied))
    net = Net(4)
    net.compile("adam", "mse")
    net.fit(x, x[:, :1], verbose=0)
    net.save(at("n.keras"))
    again = keras.models.load_model(at("n.keras"))
    print(np.allclose(again(x), net(x)), again.units, type(again).__name__)
    print([v.path for v in again.trainable_variables])
    sequential = keras.Sequential([keras.Input((6,)), layers.Dense(2), Twice(), layers.Dense(1)])
    # Keras 3 finds no losses by their short names in files of this kind.
    sequential.compile("rmsprop", keras.losses.MeanSquaredError())
    sequential.fit(x, x[:, :1], verbose=0)
    sequential.save(at("s.h5"))
    old = keras.models.load_model(at("s.h5"))
    print(
        np.allclose(old(x), sequential(x)),
        type(old.optimizer).__name__,
        [layer.name for layer in old.layers] == [layer.name for layer in sequential.layers],
    )
    sequential.pop()
    sequential.add(layers.Dense(3))
    sequential.load_weights(at("s.h5"), skip_mismatch=True)
    print(sequential(x).shape, len(sequential.layers))
    net.summary(print_fn=lambda line: None)
unknown = keras.Sequential([layers.Dense(2), layers.Dense(1)])
print(unknown.built, unknown(x).shape, unknown.built, [w.shape for w in unknown.weights])
try:
    unknown(np.ones((2, 5)))
except ValueError as error:
    print(type(error).__name__, "incompatible" in str(error))
images = np.random.RandomState(1).rand(2, 8, 8, 3).astype("float32")
small = keras.Sequential(
    [
        keras.Input((8, 8, 3)),
        layers.SeparableConv2D(4, 3, padding="same", activation="relu"),
        layers.DepthwiseConv2D(2),
        layers.Conv2DTranspose(3, 2, strides=2),
        layers.UpSampling2D(),
        layers.AveragePooling2D(2),
        layers.GroupNormalization(3),
        layers.GlobalMaxPooling2D(),
        layers.Reshape((1, 3)),
        layers.Flatten(),
        layers.PReLU(),
        layers.GaussianNoise(0.1),
        layers.UnitNormalization(),
    ]
)
small.compile("sgd", "mse")
print(np.round(small.predict(images, verbose=0), 2).tolist())
print(np.round(small.evaluate(images, np.zeros((2, 3)), verbose=0), 3), small.count_params())
