"""Records of sequences become tensors, by the public functions."""

from __future__ import annotations

import pytest

import tideflow as tf
from ops.sequence_records import FIRST, NO_LISTS, SECOND

IO = tf.io
WHOLE = {"i": IO.FixedLenFeature([2], tf.int64), "s": IO.VarLenFeature(tf.string)}
STEPS = {
    "f": IO.FixedLenSequenceFeature([2], tf.float32, allow_missing=True),
    "v": IO.RaggedFeature(tf.int64),
}


def test_records_of_sequences_become_tensors():
    context, steps, lengths = IO.parse_sequence_example([FIRST, SECOND, NO_LISTS], WHOLE, STEPS)
    assert context["i"].numpy().tolist() == [[1, 2], [3, 4], [5, 6]]
    assert context["s"].dense_shape.numpy().tolist() == [3, 1]
    assert steps["v"].to_list() == [[[1], [], [2, 3]], [], []]
    assert steps["f"].shape == (3, 2, 2)
    assert lengths["f"].numpy().tolist() == [2, 1, 0]


def test_one_record_of_a_sequence_becomes_tensors():
    context, steps = IO.parse_single_sequence_example(FIRST, WHOLE, STEPS)
    assert context["i"].numpy().tolist() == [1, 2]
    assert context["s"].indices.numpy().tolist() == [[0]]
    assert steps["v"].to_list() == [[1], [], [2, 3]]
    assert steps["f"].numpy().tolist() == [[1, 2], [3, 4]]


def test_a_list_that_is_missing_is_refused_unless_it_may_miss():
    with pytest.raises(tf.errors.InvalidArgumentError, match="required"):
        IO.parse_sequence_example(
            [NO_LISTS], {}, {"f": IO.FixedLenSequenceFeature([2], tf.float32)}
        )


@pytest.mark.parametrize(
    ("whole", "steps"),
    [
        ({}, {}),
        ({"i": IO.FixedLenSequenceFeature([2], tf.int64)}, {}),
        ({}, {"i": IO.FixedLenFeature([2], tf.int64)}),
        ({}, {"i": IO.FixedLenSequenceFeature([2], tf.int64, default_value=3)}),
        ({"i": 3}, {}),
    ],
)
def test_features_that_cannot_be_are_refused(whole, steps):
    with pytest.raises(ValueError, match=r"None|Unsupported|no kind"):
        IO.parse_sequence_example([FIRST], whole, steps)
