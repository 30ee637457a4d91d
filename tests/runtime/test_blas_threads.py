"""How many threads NumPy's products use."""

from __future__ import annotations

import numpy as np

from tideflow.runtime.blas_threads import give_back, take_one


def test_what_was_taken_is_given_back():
    found = take_one()
    try:
        assert take_one() == 1
        np.testing.assert_array_equal(np.ones([80, 80]) @ np.ones([80, 80]), np.full([80, 80], 80))
    finally:
        give_back(found)
    assert take_one() == found
    give_back(found)
