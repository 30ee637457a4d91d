"""A classifier is trained with placeholders and feeds."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.reset_default_graph()
tf.set_random_seed(3)
rng = np.random.RandomState(0)
points = rng.randn(90, 2).astype(np.float32) + np.repeat([[0, 3], [3, 0], [-3, -3]], 30, axis=0)
labels = np.repeat([0, 1, 2], 30)

x = tf.placeholder(tf.float32, [None, 2], name="x")
y = tf.placeholder(tf.int64, [None], name="y")
with tf.variable_scope("softmax"):
    w = tf.get_variable("w", [2, 3], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [3], initializer=tf.zeros_initializer())
logits = tf.matmul(x, w) + b
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
step = tf.train.get_or_create_global_step()
train = tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
print([v.name for v in tf.trainable_variables()], x.shape.as_list(), x.shape[0].value)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(50):
        _, value = session.run([train, loss], {x: points, y: labels})
    print(f"{value:.3f}", session.run([accuracy, step], {x: points, "y:0": labels}))
