"""Distances between sequences, and fingerprints, as TensorFlow has them."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, as_array, check_ends_alike

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

AT = np.array([[0, 0], [0, 1], [1, 0], [2, 0]])
OTHER = np.array([[0, 0], [0, 1], [0, 2], [2, 0], [3, 0]])
WORDS = as_array(["a", "b", "c", "d"])
TRUTH = as_array(["a", "c", "b", "d", "e"])
FARM = as_array("farmhash64")


def distance(*parts, **attrs):
    shapes = [np.array([3, 2]), np.array([4, 3])]
    return Call("EditDistance", [*parts[:2], shapes[0], *parts[2:], shapes[1]], attrs)


CALLS = [
    distance(AT, WORDS, OTHER, TRUTH),
    distance(AT, WORDS, OTHER, TRUTH, normalize=False),
    distance(AT, np.arange(4), OTHER, np.arange(5)),
    distance(AT[:0], WORDS[:0], OTHER, TRUTH),
    distance(AT, WORDS, OTHER[:0], TRUTH[:0]),
    distance(AT, WORDS[:3], OTHER, TRUTH),
    distance(AT, WORDS, OTHER[:, :1], TRUTH),
    Call("EditDistance", [AT, WORDS, np.array([3, 2]), OTHER, TRUTH, np.array([4, 3, 1])]),
    Call("Fingerprint", [WORDS, FARM], id="strings"),
    Call("Fingerprint", [WORDS.reshape(2, 2), FARM], id="rows-of-strings"),
    Call("Fingerprint", [WORDS.reshape(4, 1), FARM], id="rows-of-a-string"),
    Call("Fingerprint", [np.arange(6), FARM], id="numbers"),
    Call("Fingerprint", [np.float32([[1, 2], [3, 4]]), FARM], id="floats"),
    Call("Fingerprint", [np.zeros((2, 3, 2), bool), FARM], id="booleans"),
    Call("Fingerprint", [np.int32(1), FARM], id="scalar"),
    Call("Fingerprint", [WORDS, as_array("md5")], id="method"),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_they_are_those_of_tensorflow(call: Call) -> None:
    check_ends_alike(tensorflow, call)
