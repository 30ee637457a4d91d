"""Functions are traced once for each kind of arguments, and Python's statements become graphs."""

import tensorflow as tf

traces = []


@tf.function
def collatz(n):
    traces.append(n.dtype.name)
    steps = tf.constant(0, n.dtype)
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n *= 3
            n += 1
        steps += 1
    return steps


print([int(collatz(tf.constant(n))) for n in (1, 6, 27)], traces)
print(int(collatz(tf.constant(7, tf.int64))), traces)


@tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
def running(values):
    total = 0.0
    found = tf.TensorArray(tf.float32, size=tf.shape(values)[0])
    for i in tf.range(tf.shape(values)[0]):
        total += values[i]
        found = found.write(i, total)
    return found.stack()


print(running(tf.constant([1.0, 2.0, 4.0])).numpy().tolist())
concrete = running.get_concrete_function()
print(concrete.structured_outputs.shape.as_list(), concrete.inputs[0].dtype)


@tf.custom_gradient
def doubled_gradient(x):
    return tf.identity(x), lambda dy: 2.0 * dy


with tf.GradientTape(persistent=True) as tape:
    x = tf.constant(3.0)
    tape.watch(x)
    with tf.GradientTape() as inner:
        inner.watch(x)
        y = x**3
    first = inner.gradient(y, x)
    z = doubled_gradient(x * x)
print(float(tape.gradient(first, x)), float(tape.gradient(z, x)))
