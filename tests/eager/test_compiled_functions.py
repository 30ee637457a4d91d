"""Functions with branches and loops give compiled what they give as straight code."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tideflow as tf


@pytest.fixture(autouse=True)
def all_compiles(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What is asked for is compiled as a whole; nothing of it is left to NumPy."""
    with caplog.at_level(logging.DEBUG, "tideflow.runtime.jit_program"):
        yield
    assert [one for one in caplog.messages if "left to NumPy" in one] == []


def same_in_both(body: Callable[..., Any], *args: Any) -> None:
    """Assert that a function gives the same compiled and as straight code."""
    found = []
    for level in ("never", "always"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TIDEFLOW_JIT", level)
            function = tf.function(body)
            values = [function(*(tf.constant(one) for one in args)) for _ in range(2)]
            found.append([leaf.numpy() for one in values for leaf in tf.nest.flatten(one)])
    for mine, expected in zip(*found, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=2e-5, atol=1e-6)


X = np.random.default_rng(5).normal(size=(6, 2, 3)).astype(np.float32)
W = np.random.default_rng(6).normal(size=(3, 3)).astype(np.float32)


def test_a_function_with_a_loop_over_a_range_and_its_gradient():
    def body(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            made = tf.TensorArray(tf.float32, 6)
            h = tf.zeros([2, 3])
            for t in tf.range(6):
                h = tf.tanh(tf.matmul(h, w) + x[t])
                made = made.write(t, h)
            loss = tf.reduce_sum(made.stack() ** 2)
        return [loss, *tape.gradient(loss, [x, w])]

    same_in_both(body, X, W)


def test_a_function_with_branches_and_cases():
    def body(x: Any, at: Any) -> Any:
        y = tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x - 1.0)
        return tf.switch_case(at, [lambda: y, lambda: -y, lambda: y * y])

    for at in (0, 1, 2, 7, -1):
        same_in_both(body, X, np.int32(at))


def test_a_function_that_breaks_out_of_a_loop():
    def body(x: Any) -> Any:
        total = tf.zeros([])
        for row in x:
            total += tf.reduce_sum(tf.abs(row))
            if total > 6.0:
                break
        return total

    same_in_both(body, X)


def test_a_function_that_trains_in_a_loop():
    def body(x: Any, w: Any) -> Any:
        loss = tf.zeros([])
        for t in tf.range(5):
            with tf.GradientTape() as tape:
                tape.watch(w)
                loss = tf.reduce_mean((tf.matmul(x[t], w) - 1.0) ** 2)
            w -= 0.1 * tape.gradient(loss, w)
        return [w, loss]

    same_in_both(body, X, W)


def test_a_function_that_reads_and_assigns_variables_in_a_loop():
    made = tf.Variable(W)

    def body(x: Any) -> Any:
        made.assign(W)
        for t in tf.range(4):
            made.assign_sub(0.1 * tf.matmul(made, made) + tf.reduce_mean(x[t]))
        return made.read_value()

    same_in_both(body, X)


def test_a_function_draws_anew_after_a_global_seed():
    def body(x: Any) -> Any:
        return tf.nn.dropout(tf.exp(x), rate=0.5, seed=2)

    found = []
    for level in ("never", "always", "always"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TIDEFLOW_JIT", level)
            tf.random.set_seed(3)
            function = tf.function(body)
            found.append([function(tf.constant(X)).numpy() for _ in range(2)])
            tf.random.set_seed(3)
            found.append([function(tf.constant(X)).numpy() for _ in range(2)])
    assert (found[0][0] != found[0][1]).any()
    for one in found:
        np.testing.assert_allclose(one, found[0], rtol=1e-6)
