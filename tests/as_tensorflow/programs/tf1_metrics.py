"""A network with moving averages, measured by streaming metrics while it is trained."""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.training import moving_averages

tf.disable_v2_behavior()
rng = np.random.RandomState(12)
images = rng.rand(12, 8, 8, 1).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype("int64")


def shown(value):
    return np.round(np.asarray(value, "float64"), 3).tolist()


def block(inputs, training):
    start = tf.constant_initializer(0.1)
    with tf.variable_scope("block", initializer=start):
        x = tf.nn.conv2d(inputs, tf.get_variable("conv", [3, 3, 1, 4]), padding="SAME")
        scale, offset = tf.get_variable("scale", [4]), tf.get_variable("offset", [4])
        moving = [
            tf.get_variable(name, [4], trainable=False, initializer=tf.zeros_initializer())
            for name in ("mean", "variance")
        ]
        normal, mean, variance = tf.nn.fused_batch_norm(x, scale, offset)
        for variable, value in zip(moving, (mean, variance)):
            update = moving_averages.assign_moving_average(variable, value, 0.9)
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        kept = tf.nn.batch_normalization(x, *moving, offset, scale, 1e-3)
        x = tf.nn.max_pool2d(
            tf.nn.relu(tf.cond(training, lambda: normal, lambda: kept)), 2, 2, "VALID"
        )
        depth, point = (
            tf.get_variable("depth", [3, 3, 4, 1]),
            tf.get_variable("point", [1, 1, 4, 3]),
        )
        x = tf.nn.separable_conv2d(x, depth, point, [1, 1, 1, 1], "VALID")
        x = tf.nn.dropout(tf.reshape(x, [-1, 12]), rate=tf.where(training, 0.0, 0.0))
        regularizer = lambda w: 0.01 * tf.reduce_sum(w * w)  # noqa: E731
        w = tf.get_variable("scores", [12, 2], regularizer=regularizer)
        return x @ w + tf.get_variable("bias", [2], initializer=tf.constant_initializer([0.0, 0.1]))


with tf.Graph().as_default():
    training = tf.placeholder_with_default(False, [])
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(4).repeat()
    iterator = tf.data.make_initializable_iterator(data)
    x, y = iterator.get_next()
    scores = block(x, training)
    tf.losses.sparse_softmax_cross_entropy(y, scores)
    loss = tf.losses.get_total_loss()
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.2, step, 2, 0.5, staircase=True)
    averages = tf.train.ExponentialMovingAverage(0.5, step)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.MomentumOptimizer(rate, 0.9).minimize(loss, step)
    with tf.control_dependencies([train]):
        train = averages.apply(tf.trainable_variables())
    found = tf.argmax(scores, 1)
    probability = tf.nn.softmax(scores)[:, 1]
    measured = {
        "accuracy": tf.metrics.accuracy(y, found),
        "auc": tf.metrics.auc(y, probability, num_thresholds=20),
        "precision": tf.metrics.precision(y, found),
        "recall": tf.metrics.recall(y, found),
        "mean": tf.metrics.mean(scores, weights=[[1.0, 0.0]]),
        "mse": tf.metrics.mean_squared_error(tf.cast(y, tf.float32), probability),
        "per class": tf.metrics.mean_per_class_accuracy(y, found, 2),
        "iou": tf.metrics.mean_iou(y, found, 2),
        "top": tf.metrics.recall_at_k(y, scores, 2),
        "share": tf.metrics.percentage_below(probability, 0.5),
        "at": tf.metrics.sensitivity_at_specificity(y, probability, 0.5, num_thresholds=20),
    }
    print([v.op.name for v in tf.trainable_variables()])
    print(
        len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)), len(tf.get_collection("metric_variables"))
    )
    print(sorted(averages.variables_to_restore())[:3])
    reset = tf.variables_initializer(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES))
    updates = [update for _, update in measured.values()]
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(iterator.initializer)
        for _ in range(4):
            print(shown(session.run([loss, rate, train], {training: True})[:2]))
        session.run([iterator.initializer, reset])
        for _ in range(3):
            session.run(updates)
        print({name: shown(session.run(value)) for name, (value, _) in measured.items()})
        norm = [v for v in tf.global_variables() if v.op.name == "block/mean"]
        print(shown(session.run(norm[0])), shown(session.run(averages.average(
            tf.trainable_variables()[1]))))  # fmt: skip
        session.run(reset)
        print(shown(session.run(measured["mean"][0])))
