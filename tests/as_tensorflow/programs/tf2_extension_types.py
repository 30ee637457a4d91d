"""A class of values with a mask: operators, dispatch, a function, a dataset and a training step."""

import tensorflow as tf


class MaskedTensor(tf.experimental.BatchableExtensionType):
    """Values, and which of them count."""

    values: tf.Tensor
    mask: tf.Tensor

    class Spec:
        @property
        def shape(self):
            return self.values.shape

        @property
        def dtype(self):
            return self.values.dtype

    @property
    def shape(self):
        return self.values.shape

    def __validate__(self):
        self.values.shape.assert_is_compatible_with(self.mask.shape)

    def with_default(self, default):
        return tf.where(self.mask, self.values, default)

    __add__ = tf.add
    __mul__ = tf.multiply


@tf.experimental.dispatch_for_unary_elementwise_apis(MaskedTensor)
def masked_unary(api_func, x):
    return MaskedTensor(api_func(x.values), x.mask)


@tf.experimental.dispatch_for_binary_elementwise_apis(MaskedTensor, MaskedTensor)
def masked_binary(api_func, x, y):
    return MaskedTensor(api_func(x.values, y.values), x.mask & y.mask)


@tf.experimental.dispatch_for_api(tf.reduce_sum, {"input_tensor": MaskedTensor})
def masked_sum(input_tensor, axis=None, keepdims=False):
    return tf.reduce_sum(input_tensor.with_default(0.0), axis, keepdims)


@tf.experimental.dispatch_for_api(tf.matmul)
def masked_matmul(a: MaskedTensor, b, transpose_a=False, transpose_b=False, adjoint_a=False,
                  adjoint_b=False, a_is_sparse=False, b_is_sparse=False, output_type=None,
                  grad_a=False, grad_b=False):  # fmt: skip
    return tf.matmul(a.with_default(0.0), b, transpose_a, transpose_b)


x = MaskedTensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[True, False], [True, True], [False, True]])
print(x.shape, x._type_spec.shape, x._type_spec.dtype)
print(tf.abs(x + x * x).values.numpy().tolist(), (x + x).mask.numpy().tolist())
print(tf.reduce_sum(x).numpy(), tf.reduce_sum(x, axis=1).numpy().tolist())
try:
    MaskedTensor([1.0], [True, False])
except ValueError as error:
    print("refused", type(error).__name__)
weights = tf.Variable([[1.0], [2.0]])


@tf.function(
    input_signature=[MaskedTensor.Spec(tf.TensorSpec([None, 2]), tf.TensorSpec([None, 2], tf.bool))]
)
def step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.matmul(batch, weights) ** 2.0)
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss


for batch in tf.data.Dataset.from_tensor_slices(x).batch(2).repeat(2):
    print(batch._type_spec.shape, round(float(step(batch)), 4))
print(weights.numpy().round(4).tolist())
