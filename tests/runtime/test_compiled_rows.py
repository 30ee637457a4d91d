"""Rows of variables within compiled regions: taken, summed up and updated as straight code does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.runtime.jit_thread import wait_until_compiled
from tideflow.wire import messages as pb

ROWS, WIDTH = 12, 3
# Indices that come twice, in batches of one size, with other numbers of distinct ones.
BATCHES = ([3, 1, 3, 7, 3, 0], [11, 10, 9, 8, 7, 6], [5, 5, 5, 5, 5, 5])


@pytest.fixture(autouse=True)
def graph(monkeypatch: pytest.MonkeyPatch) -> Iterator[tf.Graph]:
    monkeypatch.delenv("TIDEFLOW_JIT", raising=False)
    with tf.Graph().as_default() as made:
        yield made


def config(level: int) -> Any:
    made = tf.ConfigProto()
    made.graph_options.optimizer_options.global_jit_level = level
    return made


NEVER = config(pb.OptimizerOptions.OFF)
ALWAYS = config(pb.OptimizerOptions.ON_2)


def compiled_regions(session: Any) -> int:
    return sum(runner.compiled_regions for runner in session.backend.runners.values())


def embedding(rows: int = ROWS, resource: bool = True) -> tuple[Any, Any, Any]:
    """Return indices to feed, the table, and a loss of its rows."""
    at = tf.placeholder(tf.int32, [None], name="at")
    start = np.random.default_rng(1).normal(size=(rows, WIDTH)).astype(np.float32)
    table = tf.get_variable("table", initializer=start, use_resource=resource)
    taken = tf.nn.embedding_lookup(table, at)
    return at, table, tf.reduce_mean(tf.square(tf.tanh(taken) - 0.5))


def trained(optimizer: Callable[[], Any], resource: bool, how: Any) -> tuple[list[Any], int]:
    """Return the losses and the table after some steps, and how many regions there are."""
    with tf.Graph().as_default():
        at, table, loss = embedding(resource=resource)
        step = optimizer().minimize(loss)
        with tf.Session(config=how) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, step], {at: batch})[0] for batch in BATCHES * 2]
            return [losses, session.run(table)], compiled_regions(session)


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf.train.GradientDescentOptimizer(0.5),
        lambda: tf.train.MomentumOptimizer(0.1, 0.9),
        lambda: tf.train.AdagradOptimizer(0.1),
        lambda: tf.train.AdamOptimizer(0.1),
        lambda: tf.train.FtrlOptimizer(0.1),
    ],
    ids=["sgd", "momentum", "adagrad", "adam", "ftrl"],
)
def test_tables_are_trained_alike_in_every_tier(
    optimizer: Callable[[], Any], resource: bool
) -> None:
    plain, none = trained(optimizer, resource, NEVER)
    compiled, regions = trained(optimizer, resource, ALWAYS)
    assert none == 0
    assert regions > 0
    for mine, expected in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-6)


def test_a_step_that_trains_a_table_is_one_region() -> None:
    at, _, loss = embedding()
    step = tf.train.AdamOptimizer(0.1).minimize(loss)
    with tf.Session(config=ALWAYS) as session:
        session.run(tf.global_variables_initializer())
        before = compiled_regions(session)
        for batch in BATCHES:
            session.run(step, {at: batch})
        assert compiled_regions(session) - before == 1


@pytest.mark.parametrize("outside", [ROWS, -1])
def test_an_index_outside_is_the_error_of_straight_code(outside: int) -> None:
    at, table, loss = embedding()
    step = tf.train.AdagradOptimizer(0.1).minimize(loss)
    with tf.Session(config=ALWAYS) as session:
        session.run(tf.global_variables_initializer())
        session.run(step, {at: BATCHES[0]})
        before = session.run(table)
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{outside} is not in \[0, 12\)"):
            session.run(step, {at: [1, outside, 2, 1, 2, 3]})
        assert (session.run(table) == before).all()
        session.run(step, {at: BATCHES[1]})
        assert (session.run(table) != before).any()


def test_rows_of_large_variables_are_left_to_straight_code(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "tideflow.runtime.jit_program")
    at, table, loss = embedding(rows=400_000)
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.Session(config=ALWAYS) as session:
        session.run(tf.global_variables_initializer())
        before = session.run(tf.gather(table, BATCHES[0]))
        for _ in range(3):
            session.run([loss, step], {at: BATCHES[0]})
            wait_until_compiled()
        assert (session.run(tf.gather(table, BATCHES[0])) != before).all()
    assert "their variables are large" in caplog.text


def test_segments_drop_what_is_negative_and_refuse_what_is_too_large() -> None:
    ids = tf.placeholder(tf.int32, [None])
    data = tf.placeholder(tf.float32, [None, 2])
    summed = tf.exp(tf.math.unsorted_segment_sum(tf.exp(data), ids, 3))
    zeros = np.zeros((4, 2), np.float32)
    with tf.Session(config=ALWAYS) as session:
        found = session.run(summed, {ids: [2, -1, 2, 0], data: zeros})
        np.testing.assert_allclose(np.log(found), [[1, 1], [0, 0], [2, 2]], rtol=1e-5)
        assert compiled_regions(session) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="segment_ids has 3"):
            session.run(summed, {ids: [2, -1, 3, 0], data: zeros})
