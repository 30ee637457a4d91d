"""A module is saved, and restored into another one that gets its variables later."""

import os
import tempfile

import tensorflow as tf


class Dense(tf.Module):
    def __init__(self, units, name=None):
        super().__init__(name=name)
        self.units = units
        self.built = False

    @tf.Module.with_name_scope
    def __call__(self, x):
        if not self.built:
            self.w = tf.Variable(tf.ones([x.shape[-1], self.units]) * 0.5, name="w")
            self.b = tf.Variable(tf.zeros([self.units]), name="b")
            self.built = True
        return tf.nn.relu(x @ self.w + self.b)


class Net(tf.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Dense(3), Dense(2, name="last")]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


x = tf.constant([[1.0, 2.0]])
net = Net()
print(net(x).numpy().tolist(), [v.name for v in net.trainable_variables])
net.layers[0].w.assign_add(tf.ones([2, 3]))
with tempfile.TemporaryDirectory() as folder:
    path = tf.train.Checkpoint(net=net).save(os.path.join(folder, "ckpt"))
    print(sorted(name for name, _ in tf.train.list_variables(path)))
    other = Net()
    status = tf.train.Checkpoint(net=other).restore(path)
    print(other(x).numpy().tolist())
    status.assert_existing_objects_matched()
