"""Families of values and functions that are made of plain operations, on workers."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager_programs.registry import W0, W1, Cluster, program, values


@program()
def values_of_a_users_class_go_through_functions(tf: Any, at: Cluster) -> Any:
    class Masked(tf.experimental.BatchableExtensionType):  # type: ignore[misc]  # of any API
        __annotations__ = {"values": tf.Tensor, "mask": tf.Tensor}
        __name__ = f"Masked.{at.name}"

    @tf.function
    def total(masked: Any) -> Any:
        grown = Masked(masked.values * 2.0, masked.mask)
        return grown, tf.reduce_sum(tf.where(grown.mask, grown.values, 0.0), axis=1)

    found = []
    for device in (W0, W1):
        with tf.device(device):
            grown, sums = total(Masked([[1.0, 2.0], [3.0, 4.0]], [[True, False], [True, True]]))
            found += values([grown.values, grown.mask, sums])
    return found


@program()
def numpys_functions_on_a_worker(tf: Any, at: Cluster) -> Any:
    numpy = tf.experimental.numpy

    @tf.function
    def normalised(x: Any) -> Any:
        centred = x - numpy.mean(x, axis=0)
        return numpy.where(centred > 0, centred / numpy.std(x, axis=0), numpy.float32(0))

    with tf.device(W0):
        x = numpy.reshape(numpy.arange(12, dtype=np.float32), (4, 3))
        ranks = numpy.argsort(-x, axis=0)
        product = numpy.einsum("ij,ik->jk", x, x)
    with tf.device(W1):
        return values([normalised(x), ranks, product, numpy.cumsum(x, axis=1)])


@program()
def operators_solve_on_a_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W1):
        scale = tf.Variable([2.0, 3.0])

    @tf.function
    def fit(data: Any) -> Any:
        diagonal = tf.linalg.LinearOperatorDiag(scale, is_positive_definite=True)
        update = tf.linalg.LinearOperatorLowRankUpdate(diagonal, tf.ones([2, 1]))
        both = tf.linalg.LinearOperatorKronecker([diagonal, tf.linalg.LinearOperatorIdentity(2)])
        return update.solvevec(data), update.log_abs_determinant(), both.to_dense()

    with tf.device(W0):
        near = fit(tf.constant([1.0, -1.0]))
    with tf.GradientTape() as tape, tf.device(W1):
        solved, determinant, _ = fit(tf.constant([0.5, 2.0]))
        loss = tf.reduce_sum(solved) + determinant
    return values([*near, loss, tape.gradient(loss, scale)])


@program()
def ragged_rows_on_a_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        table = tf.Variable(np.arange(12, dtype=np.float32).reshape(6, 2))

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int64)])
    def pooled(rows: Any) -> Any:
        found = tf.nn.embedding_lookup(table, rows)
        return tf.reduce_sum(found, axis=1), tf.concat([rows, rows[:, :1]], axis=1).to_tensor(-1)

    rows = tf.ragged.constant([[3, 1], [], [5, 5, 0]], tf.int64)
    found = []
    for device in (W0, W1):
        with tf.device(device), tf.GradientTape() as tape:
            sums, grown = pooled(rows)
            loss = tf.reduce_sum(sums * sums)
        slices = tape.gradient(loss, table)
        found += [*values([sums, grown]), tf.convert_to_tensor(slices).numpy()]
    with tf.device(W1):
        words = tf.strings.split(["a b", "c"])
        return [*found, tf.strings.ngrams(words, 2).to_list(), words.row_lengths().numpy()]


@program()
def a_layer_is_computed_again_on_a_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W1):
        w = tf.Variable([[0.5, -1.0], [2.0, 0.25]])
        x = tf.constant([[1.0, 2.0]])
        kept = tf.recompute_grad(lambda v: tf.sigmoid(tf.matmul(v, w)))
        through = tf.grad_pass_through(tf.round)
        with tf.GradientTape() as tape:
            tape.watch(x)
            out = tf.reduce_sum(through(kept(x) * 3.0) * x)
        return values([out, *tape.gradient(out, [x, w])])
