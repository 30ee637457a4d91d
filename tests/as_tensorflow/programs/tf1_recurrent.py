"""Recurrent cells of every kind over sequences: stacked, both ways, and trained."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
try:
    cells = tf.nn.rnn_cell
    cells.GRUCell  # noqa: B018 - TensorFlow shows them with Keras 2 alone
except AttributeError:
    from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells
rng = np.random.RandomState(11)
x = rng.randn(3, 5, 2).astype("float32")
lengths = [5, 2, 3]


def shown(value):
    return np.round(np.asarray(value), 3).tolist()


ones = tf.constant_initializer(0.3)
for make in (
    lambda: cells.BasicRNNCell(2),
    lambda: cells.GRUCell(2),
    lambda: cells.BasicLSTMCell(2),
    lambda: cells.LSTMCell(3, use_peepholes=True, num_proj=2, cell_clip=0.5),
    lambda: cells.MultiRNNCell([cells.GRUCell(2), cells.BasicRNNCell(3)]),
    lambda: cells.ResidualWrapper(cells.BasicRNNCell(2)),
    lambda: cells.DropoutWrapper(cells.GRUCell(2), output_keep_prob=1.0),
):
    with tf.Graph().as_default(), tf.variable_scope("net", initializer=ones):
        cell = make()
        outputs, state = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found, last = session.run([outputs, state])
        print(type(cell).__name__, cell.output_size, shown(found[1]), type(last).__name__)
        print([shown(part[0]) for part in tf.nest.flatten(last)])
        print([(v.op.name, v.shape.as_list()) for v in tf.trainable_variables()])

with tf.Graph().as_default():
    tf.set_random_seed(2)
    tokens = tf.placeholder(tf.int32, [None, None])
    sizes = tf.placeholder(tf.int32, [None])
    labels = tf.placeholder(tf.int32, [None])
    table = tf.get_variable("table", [7, 4], initializer=tf.constant_initializer(
        np.linspace(-1, 1, 28).reshape(7, 4)))  # fmt: skip
    with tf.variable_scope("both", initializer=ones):
        (ahead, back), states = tf.nn.bidirectional_dynamic_rnn(
            cells.LSTMCell(3, name="ahead"), cells.LSTMCell(3, name="back"),
            tf.nn.embedding_lookup(table, tokens), sizes, dtype=tf.float32,
        )  # fmt: skip
    ends = tf.concat([state.h for state in states], 1)
    scores = tf.reduce_sum(tf.reshape(ends, [-1, 2, 3]), 2) + tf.get_variable(
        "bias", [2], initializer=ones
    )
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
    )
    optimizer = tf.train.AdamOptimizer(0.05)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    clipped, norm = tf.clip_by_global_norm(gradients, 0.5)
    train = optimizer.apply_gradients(zip(clipped, variables))
    feeds = {
        tokens: rng.randint(0, 7, (4, 6)), sizes: [6, 1, 3, 4], labels: [0, 1, 1, 0],
    }  # fmt: skip
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(4):
            print(shown(session.run([loss, norm, train], feeds)[:2]))
        print(
            shown(session.run(back, feeds)[1, :2]),
            [isinstance(one, tf.IndexedSlices) for one in gradients][:2],
        )

# ---- loops of one's own

with tf.Graph().as_default(), tf.variable_scope("raw", initializer=ones):
    cell = cells.GRUCell(2)
    inputs = tf.TensorArray(tf.float32, 5).unstack(np.transpose(x, [1, 0, 2]))

    def loop(time, output, state, _):
        emitted = output
        state = cell.zero_state(3, tf.float32) if output is None else state
        finished = time >= lengths
        done = tf.reduce_all(finished)
        following = tf.cond(done, lambda: tf.zeros([3, 2]), lambda: inputs.read(time))
        return finished, following, state, emitted, None

    emitted, last, _ = tf.nn.raw_rnn(cell, loop)
    steps = tf.unstack(tf.constant(x), axis=1)
    outputs, end = tf.nn.static_rnn(cell, steps, dtype=tf.float32)
    with tf.variable_scope("two"):
        sides, _, _ = tf.nn.static_bidirectional_rnn(
            cells.BasicRNNCell(1), cells.BasicRNNCell(1), steps, dtype=tf.float32
        )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        print(shown(session.run(emitted.stack())[:, 1]), shown(session.run(last)))
        print(shown(session.run(outputs[-1])), np.allclose(*session.run([outputs[-1], end])))
        print(shown(session.run(sides[0])), len(sides))
    try:
        tf.nn.dynamic_rnn(cell, tf.zeros([2, 3]), dtype=tf.float32)
    except ValueError as error:
        print(type(error).__name__)
