"""Families of TensorFlow 1 whose graphs cross tasks: recurrent cells and feature columns."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from programs.registry import Cluster, program


def _cells_of(tf: Any) -> Any:
    """Return the recurrent cells, which TensorFlow shows beside Keras 2 alone."""
    if not tf.__name__.startswith("tensorflow"):
        return tf.nn.rnn_cell
    return importlib.import_module("tensorflow.python.keras.layers.legacy_rnn.rnn_cell_impl")


@program()
def trains_recurrent_cells(tf: Any, at: Cluster) -> Any:
    """A stack of cells of three kinds over sequences of several lengths."""
    cells = _cells_of(tf)
    random = np.random.RandomState(7)
    x = tf.placeholder(tf.float32, [3, None, 2])
    lengths = tf.constant([4, 1, 3])
    on_server = tf.train.replica_device_setter(1, worker_device="/job:worker/task:1")
    with tf.device(on_server), tf.variable_scope(
        at.name, initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=3)
    ):  # fmt: skip
        stack = cells.MultiRNNCell(
            [
                cells.LSTMCell(3, use_peepholes=True, num_proj=2),
                cells.ResidualWrapper(cells.GRUCell(2)),
                cells.DropoutWrapper(cells.BasicLSTMCell(4), output_keep_prob=1.0),
            ]
        )
        outputs, states = tf.nn.dynamic_rnn(stack, x, lengths, dtype=tf.float32)
    loss = tf.reduce_mean((tf.reduce_sum(outputs, 2) - tf.reduce_sum(x, 2)) ** 2)
    variables = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope=at.name)
    gradients = tf.gradients(loss, variables)
    clipped, norm = tf.clip_by_global_norm(gradients, 0.5)
    train = tf.train.AdamOptimizer(0.05).apply_gradients(zip(clipped, variables))
    feeds = {x: random.rand(3, 4, 2).astype(np.float32)}
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, norm, train], feeds)[:2] for _ in range(3)]
        return [losses, session.run([outputs, states[0].h, states[1]], feeds)]


@program()
def trains_on_feature_columns(tf: Any, at: Cluster) -> Any:
    """A linear and a deep model of columns, with tables and embeddings on the parameter server."""
    columns = tf.feature_column
    height = columns.numeric_column("height")
    kind = columns.categorical_column_with_vocabulary_list(
        "kind", ["fern", "moss", "oak"], num_oov_buckets=1
    )
    place = columns.categorical_column_with_hash_bucket("place", 5)
    buckets = columns.bucketized_column(height, [2.0, 5.0])
    crossed = columns.crossed_column([buckets, "kind"], 7)
    start = tf.constant_initializer(np.linspace(-1.0, 1.0, 10).reshape(5, 2))
    deep = [
        height,
        columns.indicator_column(kind),
        columns.embedding_column(place, 2, initializer=start),
    ]
    features = {
        "height": tf.placeholder(tf.float32, [None, 1]),
        "kind": tf.placeholder(tf.string, [None, None]),
        "place": tf.placeholder(tf.string, [None, 1]),
    }
    labels = np.array([[1.0], [0.0], [1.0]], np.float32)
    on_server = tf.train.replica_device_setter(1, worker_device="/job:worker/task:1")
    with tf.device(on_server), tf.variable_scope(at.name):
        wide = columns.linear_model(features, [buckets, kind, crossed], sparse_combiner="sum")
        inputs = columns.input_layer(features, deep)
        weights = tf.get_variable("weights", initializer=np.full([7, 1], 0.1, np.float32))
        loss = tf.losses.sigmoid_cross_entropy(labels, wide + tf.matmul(inputs, weights))
        train = tf.train.FtrlOptimizer(0.3, l1_regularization_strength=0.01).minimize(loss)
    feeds = {
        features["height"]: [[1.0], [3.5], [8.0]],
        features["kind"]: [["oak", ""], ["moss", "fern"], ["cactus", "oak"]],
        features["place"]: [["pond"], ["sun"], ["shade"]],
    }
    with at.session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return [
            session.run(inputs, feeds),
            [session.run([loss, train], feeds)[0] for _ in range(3)],
        ]
