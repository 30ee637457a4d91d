"""Derivatives of every kind: forwards, second ones, matrices, recomputed, passed through."""

import numpy as np
import tensorflow as tf


def shown(value):
    return np.round(np.asarray(value), 3).tolist()


rng = np.random.RandomState(3)
x = tf.constant(rng.randn(4, 3).astype("float32"))
w = tf.Variable(rng.randn(3, 2).astype("float32"))
b = tf.Variable([0.1, -0.2])


def net(x):
    return tf.tanh(x @ w + b)


def loss_of(x):
    return tf.reduce_sum(net(x) ** 2)


# ---- forwards

direction = [tf.ones_like(w), tf.constant([1.0, 0.0])]
with tf.autodiff.ForwardAccumulator([w, b], direction) as forwards:
    loss = loss_of(x)
with tf.GradientTape() as tape:
    again = loss_of(x)
backwards = tape.gradient(again, [w, b])
product = sum(tf.reduce_sum(d * g) for d, g in zip(direction, backwards))
print(shown(forwards.jvp(loss)), np.allclose(forwards.jvp(loss), product, atol=1e-4))
with (
    tf.autodiff.ForwardAccumulator([w, b], direction) as forwards,
    tf.GradientTape() as tape,
):
    loss = loss_of(x)
    gradients = tape.gradient(loss, [w, b])
curvature = [forwards.jvp(gradient) for gradient in gradients]
print([shown(one) for one in curvature])
with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as outer:
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as inner:
        y = net(x)
    first = inner.jvp(y)
print(shown(outer.jvp(first)), forwards.jvp(tf.constant(1.0)))
print(shown(forwards.jvp(tf.constant(1.0), unconnected_gradients=tf.UnconnectedGradients.ZERO)))


@tf.function
def newton(z):
    with tf.autodiff.ForwardAccumulator(z, tf.ones_like(z)) as slope:
        value = z**3 - 2.0 * z - 5.0
    return z - value / slope.jvp(value)


z = tf.constant([2.0, 3.0])
for _ in range(4):
    z = newton(z)
print(shown(z))

# ---- matrices

with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = net(x)
    total = tf.reduce_sum(y, axis=0)
print(tape.jacobian(total, w).shape, shown(tape.jacobian(total, b)))
print(shown(tape.batch_jacobian(y, x)))
print(shown(tape.batch_jacobian(y, x, experimental_use_pfor=False)[0]))
with tf.GradientTape() as outer, tf.GradientTape() as inner:
    value = loss_of(x)
    slope = inner.gradient(value, b)
print(shown(outer.jacobian(slope, b)))

# ---- recomputed, and one's own

calls = []


def layer(x):
    calls.append(x.shape)
    return tf.nn.softplus(x @ w + b)


kept = tf.recompute_grad(layer)
with tf.GradientTape() as tape:
    tape.watch(x)
    out = tf.reduce_sum(kept(x) ** 2)
before = len(calls)
found = tape.gradient(out, [x, w, b])
with tf.GradientTape() as tape:
    tape.watch(x)
    out = tf.reduce_sum(layer(x) ** 2)
print(
    before, all(np.allclose(*two, atol=1e-5) for two in zip(found, tape.gradient(out, [x, w, b])))
)


@tf.custom_gradient
def clipped(x, scale):
    def grad(upstream):
        return tf.clip_by_norm(upstream, 1.0) * scale, None

    return x * scale, grad


@tf.custom_gradient
def squared(x):
    def grad(upstream, variables=None):
        return upstream * 2.0 * w, [upstream[0] for _ in variables]

    return x * w, grad


rounded = tf.grad_pass_through(tf.round)
with tf.GradientTape(persistent=True) as tape:
    v = tf.constant([0.4, 1.6])
    tape.watch(v)
    through = rounded(v) * v
    scaled = clipped(v * v, tf.constant(3.0))
    stopped = tf.stop_gradient(v) * v
    with tape.stop_recording():
        hidden = v * v
print(shown(tape.gradient(through, v)), shown(tape.gradient(scaled, v)))
print(shown(tape.gradient(stopped, v)), tape.gradient(hidden, v))
print(shown(tape.gradient(through, v, output_gradients=tf.constant([2.0, 0.0]))))
print(shown(tape.gradient(hidden, {"v": v}, unconnected_gradients="zero")["v"]))
print([one.name.split(":")[0] for one in tape.watched_variables()])
try:
    tf.grad_pass_through(tf.round)(v)
    tf.GradientTape().gradient(through, v)
    tape.gradient(v, "v")
except (TypeError, ValueError, AttributeError, RuntimeError) as error:
    print("refused", isinstance(error, Exception))

theoretical, numeric = tf.test.compute_gradient(lambda v: tf.reduce_sum(tf.sin(v) * v), [v])
print(np.allclose(theoretical[0], numeric[0], atol=1e-2))
