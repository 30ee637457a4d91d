"""Models, as tutorials build and train them."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

from v1_tutorials.registry import Place, tutorial

_RNG = np.random.RandomState
IMAGES = _RNG(0).rand(40, 12).astype(np.float32)
LABELS = np.eye(3, dtype=np.float32)[_RNG(1).randint(0, 3, 40)]


@tutorial
def linear_regression(tf: Any, at: Place) -> Any:
    xs = np.linspace(-1, 1, 20)
    X = tf.placeholder("float")
    Y = tf.placeholder("float")
    W = tf.Variable(0.5, name="weight")
    b = tf.Variable(-0.3, name="bias")
    pred = tf.add(tf.multiply(X, W), b)
    cost = tf.reduce_sum(tf.pow(pred - Y, 2)) / (2 * len(xs))
    optimizer = tf.train.GradientDescentOptimizer(0.1).minimize(cost)
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for x, y in zip(xs, 3 * xs + 1):
                sess.run(optimizer, feed_dict={X: x, Y: y})
        found = sess.run([cost, W, b], feed_dict={X: xs, Y: 3 * xs + 1})
        return [found, sess.run(W), str(W.dtype), str(pred), repr(W), str(cost), optimizer.name]


def dense(tf: Any, x: Any, size: int, name: str, activation: Any = None) -> Any:
    with tf.variable_scope(name):
        n_in = x.get_shape()[1].value
        w = tf.get_variable(
            "w", [n_in, size], initializer=tf.constant_initializer(0.1), dtype=tf.float32
        )
        b = tf.get_variable("b", [size], initializer=tf.zeros_initializer())
        y = tf.nn.xw_plus_b(x, w, b)
        return activation(y) if activation else y


@tutorial
def softmax_layers_with_dimensions(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [None, 12], name="x")
    y = tf.placeholder(tf.float32, shape=(None, 3), name="y")
    hidden = dense(tf, x, 8, "hidden", tf.nn.relu)
    logits = dense(tf, hidden, y.get_shape()[1], "out")
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = tf.train.AdamOptimizer(0.05).minimize(loss)
    right = tf.equal(tf.argmax(logits, 1), tf.argmax(y, 1))
    accuracy = tf.reduce_mean(tf.cast(right, "float"))
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(4):
            sess.run(train, {x: IMAGES[step * 10 :][:10], y: LABELS[step * 10 :][:10]})
        return [
            sess.run([loss, accuracy], {x: IMAGES, y: LABELS}),
            accuracy.eval({x: IMAGES, y: LABELS}),
            [str(v) for v in tf.trainable_variables()],
            [v.name for v in tf.global_variables()],
            str(logits.get_shape()),
            repr(logits.get_shape()),
        ]


@tutorial
def convolutional_network(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [None, 64])
    image = tf.reshape(x, [-1, 8, 8, 1])
    w = tf.Variable(tf.truncated_normal([3, 3, 1, 4], stddev=0.1, seed=1), name="w1")
    conv = tf.nn.relu(tf.nn.conv2d(image, w, strides=[1, 1, 1, 1], padding="SAME"))
    pool = tf.nn.max_pool(conv, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    shape = pool.get_shape()
    dim = shape[1].value * shape[2].value * shape[3].value
    flat = tf.reshape(pool, [-1, dim])
    again = tf.reshape(pool, [-1, int(np.prod(pool.get_shape()[1:]))])
    third = tf.reshape(pool, [-1, shape[1:4].num_elements()])
    fourth = tf.reshape(pool, [-1, shape[1] * shape[2] * shape[3]])
    keep = tf.placeholder(tf.float32)
    out = tf.nn.dropout(flat, keep_prob=keep)
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        found = sess.run(out, {x: np.ones((2, 64)), keep: 1.0})
        return [
            float(found.sum()) > 0,
            list(found.shape),
            [str(t) for t in (conv, pool, flat, again, third, fourth, out)],
        ]


@tutorial
def lstm_cell_by_hand(tf: Any, at: Place) -> Any:
    batch, steps, size = 2, 3, 4
    inputs = tf.placeholder(tf.float32, [batch, steps, size])
    with tf.variable_scope("lstm", initializer=tf.constant_initializer(0.2)):
        h = c = tf.zeros([batch, size])
        outputs = []
        for time in range(steps):
            if time > 0:
                tf.get_variable_scope().reuse_variables()
            xh = tf.concat([inputs[:, time, :], h], 1)
            w = tf.get_variable("kernel", [xh.get_shape()[-1], 4 * size])
            bias = tf.get_variable("bias", [4 * size])
            i, j, f, o = tf.split(tf.matmul(xh, w) + bias, 4, axis=1)
            c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
            h = tf.tanh(c) * tf.sigmoid(o)
            outputs.append(h)
    stacked = tf.stack(outputs, 1)
    loss = tf.reduce_mean(tf.square(stacked))
    grads, norm = tf.clip_by_global_norm(tf.gradients(loss, tf.trainable_variables()), 0.01)
    apply = tf.train.GradientDescentOptimizer(1.0).apply_gradients(
        zip(grads, tf.trainable_variables())
    )
    values = np.arange(24).reshape(2, 3, 4) / 10
    with at.session() as sess:
        sess.run(tf.initialize_all_variables())
        before = sess.run([stacked, loss, norm], {inputs: values})
        sess.run(apply, {inputs: values})
        operations = tf.get_default_graph().get_operations()
        names = [op.name for op in operations if op.name.startswith("lstm/split")]
        return [before, sess.run(loss, {inputs: values}), names, str(h), str(xh.shape)]


@tutorial
def autoencoder_with_dicts_of_variables(tf: Any, at: Place) -> Any:
    weights = {
        "encoder": tf.Variable(tf.random_normal([12, 5], seed=3)),
        "decoder": tf.Variable(tf.random_normal([5, 12], seed=4)),
    }
    biases = {"encoder": tf.Variable(tf.zeros([5])), "decoder": tf.Variable(tf.zeros([12]))}
    x = tf.placeholder("float", [None, 12])
    code = tf.nn.sigmoid(tf.add(tf.matmul(x, weights["encoder"]), biases["encoder"]))
    back = tf.nn.sigmoid(tf.add(tf.matmul(code, weights["decoder"]), biases["decoder"]))
    cost = tf.reduce_mean(tf.pow(x - back, 2))
    train = tf.train.RMSPropOptimizer(0.01).minimize(cost)
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        costs = [sess.run([train, cost], feed_dict={x: IMAGES})[1] for _ in range(3)]
        return [
            costs,
            sess.run(weights)["encoder"][0],
            sorted(v.name for v in tf.global_variables()),
        ]


@tutorial
def word_vectors(tf: Any, at: Place) -> Any:
    words = tf.placeholder(tf.int32, shape=[4])
    labels = tf.placeholder(tf.int32, shape=[4, 1])
    with tf.device("/cpu:0"):
        embeddings = tf.Variable(tf.random_uniform([10, 3], -1.0, 1.0, seed=1), name="emb")
        embed = tf.nn.embedding_lookup(embeddings, words)
    nce = tf.Variable(tf.truncated_normal([10, 3], stddev=0.5, seed=2), name="nce")
    logits = tf.matmul(embed, nce, transpose_b=True)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.reshape(labels, [-1]), logits=logits
        )
    )
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keep_dims=True))
    similar = tf.matmul(
        tf.nn.embedding_lookup(embeddings / norm, [0, 1]), embeddings / norm, transpose_b=True
    )
    feed = {words: [1, 2, 3, 1], labels: [[2], [3], [4], [0]]}
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        losses = [sess.run([train, loss], feed)[1] for _ in range(3)]
        return [losses, sess.run(similar), embeddings.device, embed.device, str(embed), str(norm)]


@tutorial
def batch_norm_with_moving_averages(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [None, 4])
    training = tf.placeholder(tf.bool, name="training")
    with tf.variable_scope("bn"):
        size = x.get_shape()[-1:]
        beta = tf.get_variable("beta", size, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", size, initializer=tf.ones_initializer())
        mean, var = tf.nn.moments(x, [0], name="moments")
        ema = tf.train.ExponentialMovingAverage(decay=0.5)

        def update() -> Any:
            with tf.control_dependencies([ema.apply([mean, var])]):
                return tf.identity(mean), tf.identity(var)

        m, v = tf.cond(training, update, lambda: (ema.average(mean), ema.average(var)))
        y = tf.nn.batch_normalization(x, m, v, beta, gamma, 1e-3)
    values = np.arange(12.0).reshape(3, 4)
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        found = [sess.run(y, {x: values, training: t}) for t in (True, True, False)]
        return [found, len(tf.global_variables()), str(y), beta.shape.as_list()]


@tutorial
def generator_and_discriminator(tf: Any, at: Place) -> Any:
    def net(x: Any, name: str, reuse: Any = False) -> Any:
        with tf.variable_scope(name, reuse=reuse):
            w = tf.get_variable("w", [x.shape[1], 2], initializer=tf.ones_initializer())
            return tf.reduce_sum(tf.matmul(x, w), 1, keepdims=True)

    z = tf.placeholder(tf.float32, [None, 3])
    real = tf.placeholder(tf.float32, [None, 1])
    fake = net(z, "gen")
    d_real, d_fake = net(real, "disc"), net(fake, "disc", reuse=True)
    d_loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(logits=d_real, labels=tf.ones_like(d_real))
    )
    g_loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(logits=d_fake, labels=tf.zeros_like(d_fake))
    )
    d_vars = [v for v in tf.trainable_variables() if v.name.startswith("disc")]
    g_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="gen")
    steps = [
        tf.train.AdamOptimizer(0.1, beta1=0.5).minimize(loss, var_list=found)
        for loss, found in ((d_loss, d_vars), (g_loss, g_vars))
    ]
    feed = {z: np.ones((2, 3)), real: [[1.0], [2.0]]}
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(steps, feed)
        names = [v.name for v in tf.global_variables()]
        return [sess.run([d_loss, g_loss], feed), names, sess.run(g_vars)]


@tutorial
def learning_rate_that_decays(tf: Any, at: Place) -> Any:
    step = tf.Variable(0, trainable=False, name="global_step")
    rate = tf.train.exponential_decay(0.5, step, 2, 0.5, staircase=True)
    x = tf.Variable([4.0, -2.0], name="x")
    loss = tf.reduce_sum(x**2)
    optimizer = tf.train.MomentumOptimizer(rate, 0.9)
    pairs = optimizer.compute_gradients(loss)
    clipped = [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in pairs]
    train = optimizer.apply_gradients(clipped, global_step=step)
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        rows = []
        for _ in range(4):
            _, _, r = sess.run([train, step, rate])
            rows.append([r, sess.run(x)])
        return [
            rows,
            sess.run(step),
            tf.train.global_step(sess, step),
            train.name,
            str(train.type),
            optimizer.get_slot(x, "momentum").name,
            [str(g) for g, _ in pairs],
        ]


@tutorial
def q_table(tf: Any, at: Place) -> Any:
    state = tf.placeholder(tf.float32, [1, 4])
    w = tf.Variable(tf.random_uniform([4, 2], 0, 0.01, seed=5))
    q = tf.matmul(state, w)
    best = tf.argmax(q, 1)
    target = tf.placeholder(shape=[1, 2], dtype=tf.float32)
    loss = tf.reduce_sum(tf.square(target - q))
    update = tf.train.GradientDescentOptimizer(learning_rate=0.1).minimize(loss)
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        rows = []
        for s in range(4):
            action, values = sess.run([best, q], {state: np.identity(4)[s : s + 1]})
            values = values.copy()
            values[0, action[0]] += 1.0
            sess.run([update, w], {state: np.identity(4)[s : s + 1], target: values})
            rows.append(action)
        return [rows, sess.run(w)]


@tutorial
def nearest_neighbours_and_clusters(tf: Any, at: Place) -> Any:
    points = tf.constant([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0], [6.0, 5.0]])
    centres = tf.Variable(tf.slice(points, [1, 0], [2, 2]))
    distance = tf.reduce_sum(tf.square(tf.expand_dims(points, 0) - tf.expand_dims(centres, 1)), 2)
    nearest = tf.argmin(distance, 0)
    means = tf.stack(
        [
            tf.reduce_mean(tf.gather(points, tf.reshape(tf.where(tf.equal(nearest, c)), [-1])), 0)
            for c in range(2)
        ]
    )
    update = tf.assign(centres, means)
    top = tf.nn.top_k(-distance, k=2)
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        return [sess.run(nearest), sess.run(update), sess.run(top), str(top), sess.run(centres)]


@tutorial
def heat_equation_interactively(tf: Any, at: Place) -> Any:
    sess = at.interactive()
    try:
        u_init = np.zeros([6, 6], dtype=np.float32)
        u_init[2, 3] = 1.0
        kernel = tf.constant([[0.5, 1.0, 0.5], [1.0, -6.0, 1.0], [0.5, 1.0, 0.5]])
        eps = tf.placeholder(tf.float32, shape=())
        U = tf.Variable(u_init)
        Ut = tf.Variable(np.zeros([6, 6], dtype=np.float32))
        wide = tf.expand_dims(tf.expand_dims(U, 0), -1)
        laplace = tf.nn.depthwise_conv2d(
            wide, tf.reshape(kernel, [3, 3, 1, 1]), [1, 1, 1, 1], "SAME"
        )
        U_ = U.assign(U + eps * Ut)
        Ut_ = Ut.assign(Ut + eps * laplace[0, :, :, 0])
        step = tf.group(U_, Ut_)
        tf.global_variables_initializer().run()
        for _ in range(3):
            U_.eval({eps: 0.03})
            Ut_.eval({eps: 0.03})
        return [U.eval(), str(U), step.name, str(laplace), tf.get_default_session() is sess]
    finally:
        sess.close()


@tutorial
def trained_saved_and_restored(tf: Any, at: Place) -> Any:
    v1 = tf.get_variable("v1", shape=[3], initializer=tf.zeros_initializer())
    v2 = tf.get_variable("v2", shape=[2], initializer=tf.ones_initializer())
    step = tf.train.get_or_create_global_step()
    change = [v1.assign(v1 + 1), v2.assign(v2 - 1), tf.assign_add(step, 7)]
    saver = tf.train.Saver({"v1": v1, "other": v2, "global_step": step}, max_to_keep=2)
    with tempfile.TemporaryDirectory() as folder, at.session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(change)
        path = saver.save(sess, os.path.join(folder, "model.ckpt"), global_step=step)
        sess.run(tf.global_variables_initializer())
        before = sess.run(v1)
        saver.restore(sess, tf.train.latest_checkpoint(folder))
        listed = tf.train.list_variables(path)
        return [
            os.path.basename(path),
            before,
            sess.run([v1, v2, step]),
            listed,
            sorted(os.listdir(folder)),
            [op.name for op in tf.get_default_graph().get_operations() if "save" in op.name][:6],
            str(step),
        ]


@tutorial
def summaries_that_are_merged(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [3], name="x")
    with tf.name_scope("stats"):
        tf.summary.scalar("mean", tf.reduce_mean(x))
        tf.summary.histogram("values", x)
    merged = tf.summary.merge_all()
    with tempfile.TemporaryDirectory() as folder, at.session() as sess:
        writer = tf.summary.FileWriter(folder, sess.graph)
        text = sess.run(merged, {x: [1.0, 2.0, 3.0]})
        writer.add_summary(text, 1)
        writer.close()
        found = tf.Summary.FromString(text)
        (name,) = os.listdir(folder)
        events = list(tf.train.summary_iterator(os.path.join(folder, name)))
        return [
            type(text).__name__,
            [v.tag for v in found.value],
            found.value[0].simple_value,
            found.value[1].histo.max,
            [event.WhichOneof("what") for event in events],
            str(merged),
            [t.name for t in tf.get_collection(tf.GraphKeys.SUMMARIES)],
        ]


@tutorial
def monitored_training(tf: Any, at: Place) -> Any:
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", initializer=2.0)
    loss = tf.square(w)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    rows = []
    hooks = [tf.train.StopAtStepHook(last_step=3)]
    with tf.train.MonitoredTrainingSession(at.target, hooks=hooks, config=at.config()) as sess:
        while not sess.should_stop():
            rows.append(sess.run(train))
    return [rows, train.name, str(step)]
