"""What Keras does to tensors, and takes from below the public API."""

import tensorflow as tf
from tensorflow.python.data.experimental.ops import distribute
from tensorflow.python.eager import context
from tensorflow.python.framework import config as framework_config
from tensorflow.python.ops.linalg.sparse import sparse_csr_matrix_ops

symbolic = []


@tf.function
def marked(x):
    y = tf.nn.softmax(x)
    y.logits = x
    symbolic.append(y.logits is x)
    return y


eager = tf.nn.relu(marked(tf.constant([1.0])))
eager.logits = 3
print(eager.logits, symbolic, hasattr(eager, "other"))

tf.config.experimental.enable_op_determinism()
print(framework_config.is_op_determinism_enabled(), tf.random.normal([2], seed=1).shape)
for draw in (lambda: tf.random.normal([2]), tf.random.Generator.from_non_deterministic_state):
    try:
        draw()
    except RuntimeError as error:
        print("determinism is enabled" in str(error))
framework_config.disable_op_determinism()
print(framework_config.is_op_determinism_enabled(), tf.random.normal([2]).shape)

one = tf.sparse.from_dense([[1.0, 0.0], [2.0, 3.0]])
matrix = sparse_csr_matrix_ops.sparse_tensor_to_csr_sparse_matrix(
    one.indices, one.values, one.dense_shape
)
product = sparse_csr_matrix_ops.sparse_matrix_sparse_mat_mul(matrix, matrix, tf.float32)
parts = sparse_csr_matrix_ops.csr_sparse_matrix_to_sparse_tensor(product, type=tf.float32)
print(parts.values.numpy().tolist(), parts.indices.numpy().tolist())
print(tf.compat.v1.SummaryMetadata(display_name="shown").display_name)

# Keras begins its loops with an optional whose value it learns about on the way.
unknown = tf.experimental.Optional.empty(None)


@tf.function
def last_of(numbers):
    def body(i, last):
        found = tf.experimental.Optional.from_value(numbers[i])
        unknown._element_spec = found.element_spec
        return i + 1, found

    _, found = tf.while_loop(lambda i, _: i < 3, body, [0, unknown])
    found._element_spec = unknown.element_spec
    return found


print(last_of(tf.constant([5, 6, 7])).get_value().numpy())

print(int(distribute.compute_batch_size(tf.data.Dataset.range(6).batch(3))))

context._reset_context()
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
print(len(tf.config.list_logical_devices("CPU")))
context._reset_context()
