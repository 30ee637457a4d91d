"""Functions and cells around others: batches that are filled up, and wrapped cells."""

from __future__ import annotations

from typing import Any

from eager.behaviours.registry import error, program


@program
def functions_of_batches(tf: Any) -> Any:
    seen = []

    @tf.nondifferentiable_batch_function(1, 4, 0, [2, 4])
    def f(x: Any, y: Any) -> Any:
        seen.append(len(x.shape))
        return x * 2, tf.cast(y, tf.float32) + x

    x, y = tf.constant([[1.0], [2.0], [3.0]]), tf.constant([[1], [2], [3]])
    return [
        f(x, y),
        f(x[:1], y[:1]),
        error(lambda: f(tf.concat([x, x], 0), tf.concat([y, y], 0))),
        tf.function(f)(x, y),
        seen[0],
    ]


class _Cell:
    """A cell as Keras has them."""

    state_size = 2
    output_size = 2

    def __init__(self, tf: Any) -> None:
        self._tf = tf

    def build(self, shape: Any) -> None:
        pass

    def __call__(self, inputs: Any, state: Any) -> Any:
        return self.call(inputs, state)

    def call(self, inputs: Any, state: Any) -> Any:
        made = self._tf.tanh(inputs + state)
        return made, made * 2

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return self._tf.zeros([batch_size, 2], dtype)

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
    ) -> Any:
        return self._tf.ones([batch_size, 2], dtype)


@program
def wrapped_cells(tf: Any) -> Any:
    x, state = tf.constant([[0.5, 1.0]]), tf.constant([[0.1, -0.2]])
    added = tf.nn.RNNCellResidualWrapper(_Cell(tf))
    chosen = tf.nn.RNNCellResidualWrapper(_Cell(tf), residual_fn=lambda i, o: i * o)
    placed = tf.nn.RNNCellDeviceWrapper(_Cell(tf), "/cpu:0")
    kept = tf.nn.RNNCellDropoutWrapper(_Cell(tf), output_keep_prob=1.0)
    gone = tf.nn.RNNCellDropoutWrapper(_Cell(tf), output_keep_prob=1e-9, seed=3)
    return [
        added(x, state),
        chosen(x, state),
        placed(x, state),
        kept(x, state),
        gone(x, state)[0] == 0.0,
        added.state_size,
        added.output_size,
        error(lambda: tf.nn.RNNCellDropoutWrapper(_Cell(tf), input_keep_prob=2.0)),
        error(lambda: added(tf.ones([1, 3]), state)),
    ]
