"""A worker ends, and another one takes its place: two programs that one process runs in turn."""

from __future__ import annotations

import os
import signal
from typing import Any

from eager_programs.registry import W0, W1, Cluster, program

_kept: dict[str, Any] = {}


@program(is_alone=True)
def loses_a_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        _kept["v"] = tf.Variable(1.0)
    with tf.device(W1):
        _kept["w"] = tf.Variable(2.0)

    @tf.function
    def f(x: Any) -> Any:
        with tf.device(W0):
            y = x * 2.0
        with tf.device(W1):
            return y + 1.0

    _kept["f"] = f
    found = [_kept["v"].numpy(), _kept["w"].numpy(), f(tf.constant(1.0)).numpy()]
    os.kill(at.pids["worker:1"], signal.SIGKILL)

    def use() -> Any:
        with tf.device(W1):
            return (tf.constant(1.0) + 1.0).numpy()

    lost = [at.attempt(use), at.attempt(_kept["w"].numpy), at.attempt(lambda: f(tf.constant(1.0)))]
    return [*found, [isinstance(one, dict) and one["error"] for one in lost], _kept["v"].numpy()]


@program(is_alone=True)
def meets_another_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W1):
        new = tf.Variable(5.0)
        found = [(tf.constant(1.0) + 1.0).numpy(), new.numpy()]
    old = at.attempt(_kept["w"].numpy)
    _kept["v"].assign_add(1.0)
    # Not from here: TensorFlow's client has told the workers of a port that it never opens.
    with tf.device(W0):
        called = _kept["f"](tf.constant(3.0)).numpy()
    return [*found, old["error"], _kept["v"].numpy(), called]
