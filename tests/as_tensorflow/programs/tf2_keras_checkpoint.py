"""Models and optimizers of Keras in checkpoints: keys, kept ones, and variables made later."""

import os
import tempfile

import numpy as np
import tensorflow as tf

keras = tf.keras
keras.utils.set_random_seed(3)
x = np.random.RandomState(0).randn(12, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)


def keys(path):
    ending = "/.ATTRIBUTES/VARIABLE_VALUE"
    return [(n.removesuffix(ending), shape) for n, shape in tf.train.list_variables(path)]


class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.scale = self.add_weight(shape=(1,), initializer="ones", name="scale")
        self.parts = [keras.layers.Dense(3), keras.layers.Dense(2)]
        self.by_name = {"one": keras.layers.Dense(1)}

    def call(self, inputs):
        for part in self.parts:
            inputs = part(inputs)
        return self.by_name["one"](inputs) * self.scale


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = keras.layers.Dense(4, activation="tanh")
        self.block = Block()
        self.seen = tf.Variable(0)

    def call(self, inputs):
        return self.block(self.first(inputs))


def functional():
    inputs = keras.Input((4,))
    return keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(3)(inputs)))


def sequential():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2), keras.layers.Dense(1)])


def trained(model, optimizer):
    model.compile(optimizer=optimizer, loss="mse")
    model.fit(x, y, batch_size=6, epochs=1, verbose=0, shuffle=False)
    return model


with tempfile.TemporaryDirectory() as folder:
    for name, make in (("f", functional), ("s", sequential), ("n", Net)):
        model = trained(make(), keras.optimizers.Adam(0.01))
        checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
        path = checkpoint.save(os.path.join(folder, name))
        for each in keys(path):
            print(name, *each)
        wanted = model.predict(x, verbose=0)
        fresh = make()
        fresh(x)
        status = tf.train.Checkpoint(model=fresh).restore(path)
        status.assert_existing_objects_matched()
        status.expect_partial()
        print(name, np.allclose(fresh.predict(x, verbose=0), wanted), type(status).__name__)

    model = trained(sequential(), keras.optimizers.SGD(0.1, momentum=0.5))
    checkpoint = tf.train.Checkpoint(net=model, opt=model.optimizer, step=tf.Variable(0))
    manager = tf.train.CheckpointManager(checkpoint, os.path.join(folder, "kept"), max_to_keep=2)
    for _ in range(3):
        checkpoint.step.assign_add(1)
        model.fit(x, y, batch_size=6, epochs=1, verbose=0, shuffle=False)
        print(os.path.basename(manager.save(checkpoint_number=checkpoint.step)))
    print([os.path.basename(kept) for kept in manager.checkpoints])
    before = [v.numpy() for v in model.optimizer.variables]
    again = trained(sequential(), keras.optimizers.SGD(0.1, momentum=0.5))
    other = tf.train.Checkpoint(net=again, opt=again.optimizer, step=tf.Variable(0))
    status = other.restore(manager.latest_checkpoint)
    status.assert_consumed()
    print(int(other.step), int(again.optimizer.iterations))
    print(all(np.array_equal(a, b.numpy()) for a, b in zip(before, again.optimizer.variables)))
    losses = [
        [round(v, 4) for v in m.fit(x, y, batch_size=6, verbose=0, shuffle=False).history["loss"]]
        for m in (model, again)
    ]
    print(losses[0] == losses[1], np.round(losses[0], 2))

    module = tf.Module()
    module.layer = keras.layers.Dense(2)
    module.layer.build((None, 3))
    module.list = [keras.layers.Dense(1), {"k": tf.Variable(1.0)}]
    module.list[0].build((None, 2))
    for each in keys(tf.train.Checkpoint(module).write(os.path.join(folder, "m"))):
        print(*each)
    print(len(module.variables), len(module.trainable_variables))
