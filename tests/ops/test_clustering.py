"""Points of the Sobol sequence, first centers of clusters, and samplers that learn."""

from __future__ import annotations

import numpy as np

import tideflow.v1 as tf
from tideflow.graph.building import apply_op

POINTS = np.float32([[0, 0], [0, 1], [9, 9], [9, 8]])


def run(fetches):
    with tf.Session() as session:
        return session.run(fetches)


def test_sobol_points_fill_the_square():
    found = run(tf.math.sobol_sample(2, 3))
    assert found.tolist() == [[0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]
    assert run(tf.math.sobol_sample(2, 2, skip=1)).tolist() == found[1:].tolist()


def test_first_centers_are_far_from_each_other():
    args = (np.int64(2), np.int64(3), np.int64(5))
    chosen = run(apply_op("KmeansPlusPlusInitialization", POINTS, *args))
    assert sorted((chosen.sum(axis=1) > 9).tolist()) == [False, True]


def test_nearest_centers_come_first():
    indices, distances = run(
        list(apply_op("NearestNeighbors", POINTS[1:], POINTS[:1], np.int64(1)))
    )
    assert indices.tolist() == [[0], [0], [0]]
    assert distances.tolist() == [[1.0], [162.0], [145.0]]


def test_a_sampler_learns_true_classes():
    drawn = tf.nn.learned_unigram_candidate_sampler([[2]], 1, 1, False, 3, seed=1)
    with tf.Session() as session:
        first = float(session.run(drawn[1])[0, 0])
        later = [float(session.run(drawn[1])[0, 0]) for _ in range(5)]
    assert np.isclose(first, 1 / 3)
    assert later == sorted(later)
    assert later[0] == 0.5


def test_igamma_has_a_gradient_to_its_shape():
    a = tf.constant(2.0, tf.float64)
    slope = run(tf.gradients(tf.math.igamma(a, 1.5), a)[0])
    step = 1e-6
    low, high = (run(tf.math.igamma(np.float64(2 + d), np.float64(1.5))) for d in (-step, step))
    assert np.isclose(slope, (high - low) / (2 * step), rtol=1e-4)
