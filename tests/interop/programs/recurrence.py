"""Values that are kept by index: tensor arrays, lists, and the recurrences built on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs.control import in_both_versions
from programs.registry import Cluster, program


@in_both_versions
def tensor_array_in_a_loop(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        found = tf.map_fn(lambda x: x * x + 1, tf.constant([1.0, 2.0, 3.0]))
    with at.session() as session:
        return session.run(found)


@in_both_versions
def every_call_of_a_tensor_array(tf: Any, at: Cluster) -> Any:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    with tf.device("/job:ps"):
        x = tf.identity(tf.constant(rows))
        a = tf.TensorArray(tf.float32, 4, dynamic_size=True, clear_after_read=False)
        a = a.unstack(x)
        a = a.write(5, a.read(1) + a.read(2))
        a = a.write(4, [7.0, 8.0, 9.0])
        found = [a.size(), a.stack(), a.gather([0, 5]), a.read(4)]
        b = tf.TensorArray(tf.float32, 3, infer_shape=False)
        b = b.split(tf.reshape(x, [12]), [5, 0, 7])
        found += [b.read(0), b.read(1)]
        c = tf.TensorArray(tf.float32, 3, element_shape=[2], clear_after_read=False)
        c = c.scatter([2, 0, 1], tf.ones([3, 2]) * [[1.0], [2.0], [3.0]])
        found += [c.concat(), c.stack()]
        d = tf.TensorArray(tf.float32, 4, clear_after_read=False).unstack(x)
        loss = tf.reduce_sum(d.gather([1, 3, 3]) ** 2) + tf.reduce_sum(d.read(2)) ** 2
        found += tf.gradients(loss, [x])
    with at.session() as session:
        return session.run(found)


@in_both_versions
def scans_and_folds(tf: Any, at: Cluster) -> Any:
    x = tf.placeholder(tf.float32, [None, 2])
    with tf.device("/job:worker/task:1"):
        sums = tf.scan(lambda total, row: total * 0.5 + row, x)
        folded = tf.foldl(lambda total, row: total * row, x + 1)
        back = tf.foldr(lambda total, row: total - row, x)
        both = tf.map_fn(lambda p: p[0] * p[1], (sums, x), dtype=tf.float32)
    (gradient,) = tf.gradients([sums, both], [x])
    with at.session() as session:
        feeds = {x: [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}
        return session.run([sums, folded, back, both, gradient], feeds)


@in_both_versions
def a_dynamic_recurrence(tf: Any, at: Cluster) -> Any:
    """A loop over time with sequences of several lengths, and its gradient."""
    x = np.random.RandomState(2).rand(3, 5, 4).astype(np.float32)
    with tf.device("/job:ps/task:0"):
        first = np.random.RandomState(3).rand(6, 2).astype(np.float32)
        w = tf.get_variable(f"{at.name}/w", initializer=first, use_resource=True)
    lengths = tf.constant([5, 2, 3])
    with tf.device("/job:worker/task:1"):
        weights = tf.identity(w)

        def body(time: Any, state: Any, outputs: Any) -> Any:
            row = tf.reshape(inputs.read(time), [3, 4])
            new = tf.tanh(tf.matmul(tf.concat([row, state], 1), weights))
            state = tf.where(lengths > time, new, state)
            return time + 1, state, outputs.write(time, state)

        inputs = tf.TensorArray(tf.float32, 5).unstack(tf.constant(x.transpose(1, 0, 2)))
        outputs = tf.TensorArray(tf.float32, 5)
        start = (tf.constant(0), tf.zeros([3, 2]), outputs)
        _, state, outputs = tf.while_loop(lambda time, *_: time < 5, body, start)
        loss = tf.reduce_sum(outputs.stack() ** 2) + tf.reduce_sum(state)
        (gradient,) = tf.gradients(loss, [w])
    with at.session() as session:
        session.run(w.initializer)
        return session.run([loss, state, gradient])


class _Cell:
    """A gated unit whose weights are given: what dynamic_rnn takes for a cell."""

    output_size = state_size = 3

    def __init__(self, tf: Any, weights: Any) -> None:
        self._tf = tf
        self._weights = weights

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return self._tf.zeros([batch_size, self.state_size], dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        tf = self._tf
        joined = tf.matmul(tf.concat([inputs, state], 1), self._weights)
        gate, new = tf.split(joined, 2, 1)
        kept = tf.sigmoid(gate)
        state = kept * state + (1 - kept) * tf.tanh(new)
        return state, state


def _dynamic_rnn(tf: Any, at: Cluster) -> Any:
    random = np.random.RandomState(5)
    x = tf.placeholder(tf.float32, [2, None, 4])
    with tf.device("/job:ps/task:0"):
        w = tf.get_variable(f"{at.name}/w", initializer=random.rand(7, 6).astype(np.float32))
    with tf.device("/job:worker/task:1"):
        cell = _Cell(tf, tf.identity(w))
        outputs, state = tf.nn.dynamic_rnn(
            cell, x, sequence_length=[6, 3], dtype=tf.float32, swap_memory=True
        )
        (forth, back), _ = tf.nn.bidirectional_dynamic_rnn(
            cell, cell, x, sequence_length=[6, 3], dtype=tf.float32
        )
        loss = tf.reduce_sum(outputs**2) + tf.reduce_sum(state) + tf.reduce_sum(forth * back)
    train = tf.train.AdamOptimizer(0.05).minimize(loss)
    feeds = {x: random.rand(2, 6, 4).astype(np.float32)}
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run([loss, outputs, back, train], feeds)[:3] for _ in range(3)]


in_both_versions(_dynamic_rnn, "trains_a_dynamic_rnn", ("tensorflow",))


@program(["tensorflow"])
def lists_cross_tasks(tf: Any, at: Cluster) -> Any:
    """Lists are variant tensors: pushed to on one task, sent, and read on another."""
    raw = tf.raw_ops
    x = tf.placeholder(tf.float32, [2])
    with tf.device("/job:ps"):
        made = raw.EmptyTensorList(
            element_shape=tf.constant([2]), max_num_elements=-1, element_dtype=tf.float32
        )
        for row in (x, x * 2, x * 3):
            made = raw.TensorListPushBack(input_handle=made, tensor=row)
    with tf.device("/job:worker/task:1"):
        length = raw.TensorListLength(input_handle=made)
        stacked = raw.TensorListStack(
            input_handle=made, element_shape=tf.constant([2]), element_dtype=tf.float32
        )
        less, last = raw.TensorListPopBack(
            input_handle=made, element_shape=tf.constant([2]), element_dtype=tf.float32
        )
    with tf.device("/job:worker/task:0"):
        rest = raw.TensorListStack(
            input_handle=less, element_shape=tf.constant([2]), element_dtype=tf.float32
        )
    with at.session() as session:
        return session.run([length, stacked, last, rest], {x: [1.0, -1.0]})
