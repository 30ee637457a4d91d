"""Random ops: seeds, sequences, ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import tideflow.v1 as tf


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def draws(tensor: Any, count: int) -> list[Any]:
    with tf.Session() as session:
        return [session.run(tensor) for _ in range(count)]


def test_a_new_session_begins_the_sequence_anew() -> None:
    x = tf.random_normal([5], seed=7)
    first, second = draws(x, 3), draws(x, 3)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first[0], first[1])


def test_without_seeds_sessions_differ() -> None:
    x = tf.random_uniform([8])
    assert not np.array_equal(draws(x, 1), draws(x, 1))


def test_ops_under_a_graph_seed_are_numbered() -> None:
    tf.set_random_seed(5)
    made = [tf.random_uniform([2]), tf.random_normal([2]), tf.random_shuffle([1, 2])]
    samplers = [op for op in tf.get_default_graph().get_operations() if "seed2" in op.attrs]
    assert [(op.attrs["seed"], op.attrs["seed2"]) for op in samplers] == [(5, 0), (5, 1), (5, 2)]
    assert len(made) == len(samplers)


def test_seed_pairs() -> None:
    assert tf.get_seed(None) == (None, None)
    assert tf.get_seed(4) == (87654321, 4)
    tf.set_random_seed(0)
    assert tf.get_seed(0) == (0, 2**31 - 1)


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64])
def test_floats_stay_in_range(dtype: Any, seed: int | None) -> None:
    uniform = tf.random_uniform([4000], dtype=dtype, seed=seed)
    truncated = tf.truncated_normal([4000], dtype=dtype, seed=seed)
    normal = tf.random_normal([4000], dtype=dtype, seed=seed)
    with tf.Session() as session:
        u, t, n = session.run([uniform, truncated, normal])
    assert u.dtype == t.dtype == n.dtype == dtype.as_numpy_dtype
    wide = u.astype(np.float64)
    assert wide.min() >= 0
    assert wide.max() < 1
    assert abs(wide.mean() - 0.5) < 0.05
    assert np.abs(t.astype(np.float64)).max() <= 2
    assert abs(n.astype(np.float64).std() - 1) < 0.1


@pytest.mark.parametrize("seed", [None, 3])
def test_integers_stay_in_range(seed: int | None) -> None:
    found = draws(tf.random_uniform([2000], -3, 5, tf.int64, seed=seed), 1)[0]
    assert sorted(set(found.tolist())) == list(range(-3, 5))


@pytest.mark.parametrize("seed", [None, 3])
def test_shuffle_keeps_rows(seed: int | None) -> None:
    rows = np.arange(40).reshape(20, 2)
    found = draws(tf.random_shuffle(rows, seed=seed), 2)
    for one in found:
        np.testing.assert_array_equal(np.sort(one, axis=0), rows)
    assert not np.array_equal(found[0], found[1])


def test_scaling() -> None:
    found = draws(tf.random_uniform([1000], 10.0, 20.0, seed=1), 1)[0]
    assert 10 <= found.min() < 11
    assert 19 < found.max() < 20
    normal = draws(tf.random_normal([4000], 5.0, 0.5, seed=1), 1)[0]
    assert abs(normal.mean() - 5) < 0.05
    assert abs(normal.std() - 0.5) < 0.05


def test_multinomial_follows_the_logits() -> None:
    found = draws(tf.multinomial([[1.0, 1.0 + np.log(3), -np.inf]], 4000, seed=2), 1)[0]
    assert abs((found == 1).mean() - 0.75) < 0.03
    assert not (found == 2).any()


def test_stateless_values_follow_from_the_seed_alone() -> None:
    x = tf.random.stateless_uniform([3], [1, 2])
    y = tf.random.stateless_uniform([3], [1, 3])
    first, second = draws([x, y], 2)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first[0], first[1])
    assert x.shape.as_list() == [3]


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="maxval"):
        tf.random_uniform([2], dtype=tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="minval"):
        draws(tf.random_uniform([2], 5, 5, tf.int32), 1)
    with pytest.raises(ValueError, match="alg"):
        tf.random.stateless_uniform([2], [1, 2], alg="dice")


@pytest.mark.parametrize(
    ("mean", "deviation", "least", "most"),
    [(0, 1, -0.1, 0.2), (5, 3, -20, 6), (0, 1, 3, 5), (0, 1, -5, -3), (1, 2, 4, np.inf)],
)
def test_normal_values_between_bounds(
    mean: float, deviation: float, least: float, most: float
) -> None:
    parameters = [np.float64(one) for one in (mean, deviation, least, most)]
    stateless = tf.random.stateless_parameterized_truncated_normal([4000], [3, 4], *parameters)
    stateful = tf.raw_ops.ParameterizedTruncatedNormal(
        shape=[4000],
        **dict(zip(("means", "stdevs", "minvals", "maxvals"), parameters)),
        seed=5,
        seed2=6,
    )
    a, b = (least - mean) / deviation, (most - mean) / deviation
    expected = scipy.stats.truncnorm(a, b, mean, deviation)
    for values in (*draws(stateless, 1), *draws(stateful, 2)):
        assert ((values >= least) & (values <= most)).all()
        assert scipy.stats.kstest(values, expected.cdf).pvalue > 1e-4
    np.testing.assert_array_equal(*draws(stateless, 2))


def test_bounds_that_leave_nothing_are_refused() -> None:
    draw = tf.random.stateless_parameterized_truncated_normal
    for least, most in ((2.0, -2.0), (1.0, 1.0), (-np.inf, np.inf)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid parameters"):
            draws(draw([3], [1, 2], minvals=least, maxvals=most), 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must end with broadcasted shape"):
        draws(draw([5], [1, 2], [0.0, 1.0]), 1)
    with pytest.raises(tf.errors.InternalError, match="failed to accept a sample"):
        draws(draw([5], [1, 2], np.nan), 1)
