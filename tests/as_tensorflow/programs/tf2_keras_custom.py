"""Steps and loops of one's own: train_step, tapes, losses and metrics that models add."""

import numpy as np
import tensorflow as tf

keras = tf.keras
keras.backend.clear_session()
keras.utils.set_random_seed(11)
rng = np.random.RandomState(0)
x = rng.randn(24, 3).astype("float32")
y = (x @ np.ones((3, 1)) + 0.5).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(6)


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(5, activation="tanh")
        self.out = keras.layers.Dense(1)
        self.tracker = keras.metrics.Mean(name="my_loss")

    def call(self, inputs, training=False):
        hidden = self.hidden(inputs)
        self.add_loss(0.01 * tf.reduce_sum(tf.square(hidden)))
        return self.out(hidden)

    def train_step(self, data):
        inputs, wanted = data
        with tf.GradientTape() as tape:
            found = self(inputs, training=True)
            loss = tf.reduce_mean(tf.square(found - wanted)) + sum(self.losses)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.tracker.update_state(loss)
        return {"my_loss": self.tracker.result(), "norm": tf.linalg.global_norm(grads)}

    def test_step(self, data):
        inputs, wanted = data
        return {"my_loss": tf.reduce_mean(tf.abs(self(inputs) - wanted))}


model = Model()
model.compile(optimizer=keras.optimizers.Adam(0.05))
history = model.fit(dataset, epochs=3, verbose=0, validation_data=dataset)
print({name: np.round(found, 3).tolist() for name, found in sorted(history.history.items())})
print(len(model.losses), len(model.metrics), [m.name for m in model.metrics])


class GAN(keras.Model):
    def __init__(self):
        super().__init__()
        self.generator = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
        self.critic = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        self.seeds = keras.random.SeedGenerator(4)

    def compile(self, g, d):
        super().compile()
        self.g, self.d = g, d

    def train_step(self, real):
        noise = keras.random.normal((tf.shape(real)[0], 2), seed=self.seeds)
        with tf.GradientTape(persistent=True) as tape:
            fake = self.generator(noise)
            loss_d = tf.reduce_mean(self.critic(fake)) - tf.reduce_mean(self.critic(real))
            loss_g = -tf.reduce_mean(self.critic(fake))
        for optimizer, loss, part in (
            (self.d, loss_d, self.critic), (self.g, loss_g, self.generator),
        ):  # fmt: skip
            optimizer.apply(tape.gradient(loss, part.trainable_weights), part.trainable_weights)
        return {"d": loss_d, "g": loss_g}


gan = GAN()
gan.compile(keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.02))
history = gan.fit(tf.data.Dataset.from_tensor_slices(x).batch(6), epochs=2, verbose=0)
print({name: np.round(found, 3).tolist() for name, found in sorted(history.history.items())})

# ---- loops

net = keras.Sequential(
    [keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
)
optimizer = keras.optimizers.RMSprop(0.01)
loss_fn = keras.losses.Huber()
train_metric, seen = keras.metrics.MeanAbsoluteError(), keras.metrics.Sum()


@tf.function
def train(inputs, wanted):
    with tf.GradientTape() as tape:
        loss = loss_fn(wanted, net(inputs, training=True))
    grads = tape.gradient(loss, net.trainable_weights)
    optimizer.apply(grads, net.trainable_weights)
    train_metric.update_state(wanted, net(inputs, training=False))
    seen.update_state(tf.ones([tf.shape(inputs)[0]]))
    return loss


@tf.function(jit_compile=True)
def compiled(inputs, wanted):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(inputs) - wanted))
    return loss, tape.gradient(loss, net.trainable_weights)


@tf.function
def epoch(data):
    total = 0.0
    for inputs, wanted in data:
        total += train(inputs, wanted)
    return total


for _ in range(2):
    print(
        round(float(epoch(dataset)), 3),
        round(float(train_metric.result()), 3),
        float(seen.result()),
    )
    train_metric.reset_state()
loss, grads = compiled(x, y)
print(round(float(loss), 3), [g.shape.as_list() for g in grads])

with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
        value = tf.reduce_sum(net(x[:2]) ** 2)
    first = inner.gradient(value, net.trainable_weights[0].value)
    size = tf.reduce_sum(first**2)
print(np.round(outer.gradient(size, net.trainable_weights[0].value), 2).tolist())


class Scaled(keras.layers.Layer):
    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1],), initializer="ones", trainable=True)
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False, dtype="int32")

    def call(self, inputs):
        self.count.assign_add(1)
        return inputs * self.w


class Within(keras.metrics.Metric):
    def __init__(self, name="within"):
        super().__init__(name=name)
        self.hits = self.add_weight(name="hits", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        close = tf.abs(y_true - y_pred) < 0.5
        self.hits.assign_add(tf.reduce_sum(tf.cast(close, tf.float32)))

    def result(self):
        return self.hits


layer = Scaled()
net = keras.Sequential([keras.Input((3,)), layer, keras.layers.Dense(1)])
net.compile("sgd", lambda a, b: tf.reduce_mean(tf.abs(a - b), axis=-1), metrics=[Within()])
history = net.fit(dataset, epochs=2, verbose=0)
print({name: np.round(found, 3).tolist() for name, found in sorted(history.history.items())})
print(int(layer.count), [v.path for v in net.non_trainable_variables], len(net.trainable_weights))
net.layers[-1].trainable = False
print(len(net.trainable_weights), len(net.non_trainable_weights))
