"""Random numbers that compiled regions draw are those of straight code, step by step."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from runtime.jit_levels import ALWAYS, NEVER


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("TIDEFLOW_JIT", raising=False)


def compiled_regions(session):
    """Return how many regions of a session's graphs are in compiled form."""
    return sum(runner.compiled_regions for runner in session.backend.runners.values())


def runs(build, feeds, level):
    """Return what each step gives, an error by its class; and how many regions there are."""
    with tf.Graph().as_default():
        fetches, placeholders = build()
        found = []
        with tf.Session(config=level) as session:
            session.run(tf.global_variables_initializer())
            for values in feeds:
                try:
                    found.append(session.run(fetches, dict(zip(placeholders, values))))
                except tf.errors.OpError as error:
                    found.append(type(error))
            return found, compiled_regions(session)


def assert_same_in_both_tiers(build, feeds):
    plain, none = runs(build, feeds, NEVER)
    compiled, regions = runs(build, feeds, ALWAYS)
    assert none == 0
    for mine, expected in zip(compiled, plain, strict=True):
        if isinstance(expected, type):
            assert mine is expected
            continue
        for one, wanted in zip(mine, expected, strict=True):
            assert one.dtype == wanted.dtype
            np.testing.assert_allclose(
                one.astype(np.float64), wanted.astype(np.float64), rtol=1e-5, atol=1e-5
            )
    return plain, regions


def rows(*counts):
    return [(np.ones((count, 8), np.float32),) for count in counts]


def test_dropout_of_a_batch_of_any_size_is_within_one_region():
    def build():
        tf.set_random_seed(7)
        x = tf.placeholder(tf.float32, [None, 8])
        w = tf.get_variable("w", initializer=np.eye(8, dtype=np.float32), use_resource=True)
        h = tf.nn.dropout(tf.matmul(x, w), rate=0.5)
        h = tf.nn.dropout(tf.matmul(h, w), rate=0.25, seed=3)
        loss = tf.reduce_sum(h * h)
        step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        with tf.control_dependencies([step]):
            return [tf.identity(h), tf.identity(loss)], [x]

    found, regions = assert_same_in_both_tiers(build, rows(6, 6, 9, 6))
    assert regions == 1 + 1  # that of the initializers
    assert (found[0][0] != found[1][0]).any()


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_every_distribution(dtype):
    def build():
        x = tf.placeholder(tf.float32, [None, 8])
        size = tf.shape(tf.exp(x))
        kind = tf.as_dtype(dtype)
        return [
            tf.random_uniform(size, seed=1, dtype=kind),
            tf.random_uniform(size, 2.0, 5.0, kind, seed=2),
            tf.random_normal(size, seed=3, dtype=kind),
            tf.truncated_normal(size, seed=4, dtype=kind),
            tf.random_uniform(size, -5, 50, tf.int32, seed=5),
            tf.random_uniform(size, 0, 2**40, tf.int64, seed=6),
            tf.exp(x),
        ], [x]

    _, regions = assert_same_in_both_tiers(build, rows(3, 0, 3))
    assert regions


def test_a_step_whose_checks_fail_draws_no_more_than_straight_code():
    def build():
        at = tf.placeholder(tf.int32, [])
        drawn = tf.random_uniform([4], seed=1) + 0.0
        v = tf.get_variable("v", initializer=np.zeros(4, np.float32), use_resource=True)
        with tf.control_dependencies([drawn]):
            chosen = tf.gather(tf.identity(drawn), at)
        step = v.assign_add(drawn * chosen, read_value=False)
        with tf.control_dependencies([step]):
            return [tf.identity(drawn), v.read_value()], [at]

    found, _ = assert_same_in_both_tiers(build, [(1,), (4,), (0,), (-1,), (-1,), (3,)])
    refused = tf.errors.InvalidArgumentError
    assert [one is refused for one in found] == [False, True, False, True, True, False]


def test_regions_that_differ_in_their_seeds_alone_draw_their_own():
    def build(seed):
        x = tf.placeholder(tf.float32, [3])
        return [tf.exp(x) * tf.random_uniform([3], seed=seed)], [x]

    given = [(np.zeros(3, np.float32),)] * 3
    first, _ = assert_same_in_both_tiers(lambda: build(1), given)
    second, _ = assert_same_in_both_tiers(lambda: build(2), given)
    assert (first[0][0] != second[0][0]).all()


def test_numbers_without_a_seed_differ_from_step_to_step():
    def build():
        x = tf.placeholder(tf.float32, [1000])
        return [tf.exp(x) * tf.random_uniform([1000])], [x]

    found, regions = runs(build, [(np.zeros(1000, np.float32),)] * 2, ALWAYS)
    assert regions
    assert (found[0][0] != found[1][0]).mean() > 0.9
    assert all(0 <= one[0].min() < 0.1 and 0.9 < one[0].max() < 1 for one in found)


def test_draws_within_loops():
    def build():
        x = tf.placeholder(tf.float32, [None, 8])
        return tf.while_loop(
            lambda i, h: i < 4,
            lambda i, h: (i + 1, h + tf.random_uniform(tf.shape(h), seed=5)),
            [tf.constant(0), tf.exp(x)],
        ), [x]

    assert_same_in_both_tiers(build, rows(2, 2))
