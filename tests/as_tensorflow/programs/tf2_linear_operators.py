"""Regression with covariances that have a form, by operators: solved, differentiated, passed on."""

import numpy as np
import tensorflow as tf


def shown(value):
    return (np.round(np.asarray(value, np.float64), 3) + 0.0).tolist()


grid = tf.linspace(0.0, 1.0, 4)
scale, noise = tf.Variable(0.5), tf.Variable([0.3, 0.3, 0.4, 0.3])
data = tf.sin(5.0 * grid)


def covariance():
    kernel = tf.exp(-tf.square(grid[:, None] - grid[None, :]) / scale)
    smooth = tf.linalg.LinearOperatorFullMatrix(kernel, is_self_adjoint=True)
    noisy = tf.linalg.LinearOperatorDiag(noise, is_positive_definite=True)
    factor = tf.linalg.cholesky(smooth.to_dense() + 1e-3 * tf.eye(4))
    return tf.linalg.LinearOperatorLowRankUpdate(noisy, factor)


for step in range(3):
    with tf.GradientTape() as tape:
        operator = covariance()
        fit = tf.tensordot(data, operator.solvevec(data), 1)
        loss = fit + operator.log_abs_determinant()
    gradients = tape.gradient(loss, [scale, noise])
    print(step, shown(loss), [shown(gradient) for gradient in gradients])
    scale.assign_sub(0.02 * gradients[0])
    noise.assign_sub(0.02 * gradients[1])
print(operator.name, operator.shape, operator.is_positive_definite, operator.is_self_adjoint)

traces = []


@tf.function
def mean(operator, x):
    traces.append(type(operator).__name__)
    return operator.inverse(), operator.matvec(x)


rows = tf.linalg.LinearOperatorDiag([1.0, 2.0], is_non_singular=True)
columns = tf.linalg.LinearOperatorToeplitz([4.0, 1.0, 0.0], [4.0, 1.0, 0.0])
both = tf.linalg.LinearOperatorKronecker([rows, columns])
for operator in (rows, tf.linalg.LinearOperatorDiag([3.0, 4.0], is_non_singular=True), both):
    inverse, product = mean(operator, tf.ones([operator.shape[-1]]))
    print(type(inverse).__name__, shown(inverse.to_dense()), shown(product))
print(traces)
print(type(rows @ rows).__name__, type(both.H).__name__, type((both @ both).inverse()).__name__)

blocks = tf.linalg.LinearOperatorBlockLowerTriangular([[rows], [rows, rows]])
print(shown(blocks.to_dense()), [shown(part) for part in blocks.matmul([tf.eye(2), tf.eye(2)])])
print(shown(blocks.inverse().to_dense()), shown(blocks.inverse() @ blocks.to_dense()))
batch = tf.linalg.LinearOperatorCirculant([[3.0, 1.0], [4.0, 2.0]], input_output_dtype=tf.float32)
print(batch.shape, shown(batch.to_dense()), shown(batch[1].to_dense()), shown(batch.cond()))

model = tf.Module()
model.operator = tf.linalg.LinearOperatorDiag(noise)
print(len(model.trainable_variables), [type(m).__name__ for m in model.submodules])
for attempt in (
    lambda: rows.matvec(tf.ones([3])),
    lambda: rows.matmul(tf.ones([2, 2], tf.float64)),
    lambda: tf.linalg.LinearOperatorZeros(2).solve(tf.eye(2)),
    lambda: columns.cholesky(),
    lambda: tf.linalg.LinearOperatorDiag([1.0, 0.0]).assert_non_singular(),
):
    try:
        attempt()
    except (ValueError, TypeError, NotImplementedError, tf.errors.InvalidArgumentError) as error:
        print(type(error).__name__)
solution = tf.linalg.experimental.conjugate_gradient(
    tf.linalg.LinearOperatorFullMatrix(
        [[4.0, 1.0], [1.0, 3.0]], is_self_adjoint=True, is_positive_definite=True
    ),
    tf.constant([1.0, 2.0]),
)
print(int(solution.i), shown(solution.x), type(solution).__name__)
