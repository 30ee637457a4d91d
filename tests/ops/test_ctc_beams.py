"""A beam search that keeps every prefix finds the likeliest sequences of labels."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest

import tideflow.v1 as tf

LOGITS = np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32)


def likelihoods():
    """Add up all alignments of three classes, the last of them blank, by what they say."""
    scores = LOGITS - np.log(np.exp(LOGITS).sum(axis=1, keepdims=True))
    found = defaultdict(float)
    for path in itertools.product(range(3), repeat=len(LOGITS)):
        labels = tuple(label for label, _ in itertools.groupby(path) if label != 2)
        found[labels] += np.exp(sum(scores[at, label] for at, label in enumerate(path)))
    return sorted(found.items(), key=lambda item: -item[1])


def test_all_alignments_of_a_sequence_count():
    paths, likely = tf.nn.ctc_beam_search_decoder_v2(LOGITS[:, None], [4], 100, 3)
    with tf.Session() as session:
        found = [tuple(session.run(path.values).tolist()) for path in paths]
        chances = np.exp(session.run(likely)[0])
    wanted = likelihoods()[:3]
    assert found == [labels for labels, _ in wanted]
    np.testing.assert_allclose(chances, [chance for _, chance in wanted], rtol=1e-5)


def test_more_paths_than_prefixes_are_refused():
    _, likely = tf.nn.ctc_beam_search_decoder(LOGITS[:, None], [4], 2, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="beam width"), tf.Session() as session:
        session.run(likely)
