"""Mixed precision: types of variables and outputs, scaled losses, policies of layers."""

import numpy as np
import tensorflow as tf

keras = tf.keras
rng = np.random.RandomState(0)
x = rng.randn(16, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)

for policy in ("mixed_float16", "mixed_bfloat16"):
    keras.utils.set_random_seed(1)
    keras.mixed_precision.set_global_policy(policy)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(1),
            keras.layers.Activation("linear", dtype="float32"),
        ]
    )
    model.compile("sgd", "mse")
    losses = model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0).history["loss"]
    print(policy, np.round(losses, 1).tolist(), type(model.optimizer).__name__)
    print([layer.compute_dtype for layer in model.layers], {v.dtype for v in model.variables})
    hidden = model.layers[0](x[:2])
    print(hidden.dtype, model(x[:2]).dtype, model.predict(x, verbose=0).dtype)
keras.mixed_precision.set_global_policy("float32")

scaled = keras.mixed_precision.LossScaleOptimizer(
    keras.optimizers.SGD(1.0), initial_scale=8.0, dynamic_growth_steps=2
)
v = keras.Variable([1.0, 2.0])
scaled.build([v])
print(float(scaled.scale_loss(tf.constant(2.0))))
for grads in ([8.0, 16.0], [float("inf"), 1.0], [4.0, 4.0], [4.0, 4.0], [4.0, 4.0]):
    scaled.apply([tf.constant(grads)], [v])
    print(v.numpy().tolist(), float(scaled.dynamic_scale), int(scaled.iterations))
layer = keras.layers.Dense(2, dtype="float64")
print(layer(np.ones((1, 3))).dtype, layer.kernel.dtype, layer.dtype_policy.name)
