"""Linear algebra where TensorFlow leaves open what comes out."""

from __future__ import annotations

import numpy as np

import tideflow.v1 as tf


def test_a_matrix_without_a_cholesky_factor_gives_nan_and_leaves_the_others() -> None:
    good = np.array([[4.0, 2.0], [2.0, 5.0]])
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(tf.linalg.cholesky(tf.constant(np.stack([good, -good]))))
    np.testing.assert_allclose(found[0], np.linalg.cholesky(good))
    assert np.isnan(found[1][np.tril_indices(2)]).all()
