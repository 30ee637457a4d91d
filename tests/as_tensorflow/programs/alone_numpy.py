"""NumPy's functions on tensors: a network of them, its derivatives, and how types are promoted."""

import numpy as np
import tensorflow as tf
import tensorflow.experimental.numpy as tnp

tnp.experimental_enable_numpy_behavior()


def shown(value):
    value = np.asarray(value)
    return np.round(value, 3).tolist() if value.dtype.kind in "fc" else value.tolist()


rng = np.random.RandomState(9)
x = tnp.asarray(rng.randn(8, 3), tnp.float32)
y = (tnp.sum(x, axis=1) > 0).astype(tnp.float32)
print(isinstance(x, tnp.ndarray), isinstance(x, tf.Tensor), x.shape, x.T.shape, x.size, x.ndim)
print(shown(x[1:3, ::2]), shown(x[y > 0][:, 0]), shown(tnp.squeeze(x[..., tnp.newaxis])[0]))
print(shown(x.reshape(-1, 6)[0]), x.ravel().shape, shown(tnp.mean(x)), shown(tnp.max(x, axis=0)))


class Net(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(rng.randn(3, 4).astype("float32"))
        self.v = tf.Variable(rng.randn(4).astype("float32"))

    def __call__(self, x):
        hidden = tnp.maximum(tnp.dot(x, self.w), 0.1 * tnp.dot(x, self.w))
        return 1 / (1 + tnp.exp(-tnp.matmul(hidden, self.v)))


net = Net()


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        p = tnp.clip(net(x), 1e-6, 1 - 1e-6)
        loss = -tnp.mean(y * tnp.log(p) + (1 - y) * tnp.log1p(-p))
    for variable, gradient in zip(
        net.trainable_variables, tape.gradient(loss, net.trainable_variables)
    ):
        variable.assign_sub(0.5 * gradient)
    return loss


print([shown(step(x, y)) for _ in range(4)], shown(tnp.mean((net(x) > 0.5) == (y > 0.5))))

# ---- types

values = {
    "bool": tnp.array(True), "int8": tnp.int8(3), "int32": tnp.int32(4), "int64": tnp.int64(5),
    "float16": tnp.float16(1.5), "float32": tnp.float32(2.5), "float64": tnp.float64(3.5),
    "complex64": tnp.complex64(1j), "python int": 2, "python float": 2.0,
}  # fmt: skip
for name, value in values.items():
    print(name, [tf.as_dtype(tnp.result_type(value, other)).name for other in values.values()])
for a, b in (
    (values["int32"], values["float32"]),
    (values["int8"], values["int64"]),
    (values["float16"], 2),
    (values["int64"], 0.5),
):
    print((a + b).dtype.name, (a * b).dtype.name, tnp.power(a, b).dtype.name, (a == b).dtype.name)
print(
    (values["int32"] / 2).dtype.name,
    (values["int32"] // 3).dtype.name,
    (values["int8"] << 1).dtype.name,
)
print(tnp.arange(5).dtype.name, tnp.zeros(2).dtype.name, tnp.asarray([1.0, 2]).dtype.name)
print(tnp.sum(tnp.asarray([True, True])).dtype.name, tnp.mean(tnp.asarray([1, 2])).dtype.name)

# ---- functions

a, b = tnp.arange(12).reshape(3, 4), tnp.linspace(0, 1, 4)
for made in (
    tnp.concatenate([a, a[:1]]),
    tnp.stack([b, b], axis=1),
    tnp.vstack([b, b]),
    tnp.split(a, 2, axis=1)[1],
    tnp.where(a % 2 == 0, a, -a),
    tnp.cumsum(a, axis=1),
    tnp.einsum("ij,j->i", a.astype(tnp.float64), b),
    tnp.tensordot(b, b, 1),
    tnp.outer(b, b)[1],
    tnp.tile(b[:2], 2),
    tnp.repeat(a[0], 2),
    tnp.roll(a, 1, 0),
    tnp.take_along_axis(a, tnp.argsort(-a, axis=1), 1),
    tnp.nonzero(a > 8)[0],
    tnp.var(b),
    tnp.std(a, axis=0),
    tnp.diff(b),
    tnp.meshgrid(b[:2], b[2:])[0],
    tnp.pad(b, ((1, 2),), "constant"),
    tnp.isclose(b, b + 1e-9),
    tnp.tri(3),
    tnp.diag(b)[1],
    tnp.swapaxes(a, 0, 1)[0],
    tnp.prod(b[1:]),
    tnp.any(a > 10),
    tnp.sort(-b),
    tnp.vander(b[1:])[0],
    tnp.nansum(tnp.asarray([1.0, np.nan])),
    tnp.full_like(b, 7),
    tnp.eye(2, 3, 1),
    tnp.logspace(0, 2, 3),
):
    print(shown(made), made.dtype.name)
print(shown(np.sin(b)), shown(np.add(a, 1)[0]), type(a.numpy()).__name__, shown(a.tolist()[0]))
print(
    shown(tf.reduce_sum(b)),
    shown(tf.add(b, 1)),
    next(shown(row) for row in a),
    len(a),
    bool(a[0, 1]),
)
for wrong in (
    lambda: tnp.reshape(a, (5, 5)),
    lambda: tnp.dot(a, b[:3]),
    lambda: tnp.concatenate([a, b]),
    lambda: a[7],
):
    try:
        wrong()
        print("made")
    except (ValueError, IndexError, TypeError, tf.errors.InvalidArgumentError) as error:
        print("refused", isinstance(error, Exception))
tnp.random.seed(3)
print(
    tnp.random.randn(2, 3).shape,
    tnp.random.uniform(size=(2,)).dtype.name,
    tnp.random.randint(0, 3, 4).shape,
)
