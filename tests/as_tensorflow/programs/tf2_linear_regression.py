"""A line is fitted with a tape."""

import numpy as np
import tensorflow as tf

xs = np.linspace(-1.0, 1.0, 32, dtype=np.float32)
ys = 3.0 * xs + 1.0
w, b = tf.Variable(0.0, name="w"), tf.Variable(0.0, name="b")
for step in range(60):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(w * xs + b - ys))
    grads = tape.gradient(loss, [w, b])
    for variable, grad in zip([w, b], grads):
        variable.assign_sub(0.3 * grad)
    if step % 20 == 0:
        print(step, f"{loss.numpy():.5f}")
print(f"{w.numpy():.4f} {b.numpy():.4f}", w.name, b.dtype)
