"""Sparse and ragged elements reach sessions as they do from TensorFlow's iterators."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.composite_programs import PROGRAMS

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_sessions_are_given_the_same(program):
    found = []
    for tf in (ours, tensorflow.compat.v1):
        with tf.Graph().as_default(), tf.Session() as session:
            found.append(program(tf, session))
    one, other = found
    assert len(one) == len(other)
    for mine, theirs in zip(one, other, strict=True):
        if isinstance(mine, str):
            assert mine == theirs
            continue
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
            assert np.asarray(a).dtype == np.asarray(b).dtype
