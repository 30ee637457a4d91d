"""Windows drawn by chance, and spectra of audio, without TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf

BOX = [[[0.25, 0.25, 0.75, 0.75]]]


def test_a_window_lies_in_the_image_and_holds_enough_of_the_box():
    begin, size, box = tf.image.sample_distorted_bounding_box(
        [40, 60, 3], BOX, seed=3, min_object_covered=0.5, area_range=[0.2, 0.9]
    )
    with tf.Session() as session:
        for _ in range(20):
            (top, left, _), (height, width, depth), where = session.run([begin, size, box])
            assert depth == -1
            assert 0 <= top <= top + height <= 40
            assert 0 <= left <= left + width <= 60
            covered = max(0, min(top + height, 30) - max(top, 10))
            covered *= max(0, min(left + width, 45) - max(left, 15))
            whole = height * width == 40 * 60
            assert whole or covered >= 0.5 * 20 * 30
            np.testing.assert_allclose(where[0, 0, :2], [top / 40, left / 60], rtol=1e-6)


def test_a_window_without_a_seed_is_another_each_time():
    begin, size, _ = tf.image.sample_distorted_bounding_box([400, 600, 3], BOX, seed=0, seed2=0)
    with tf.Session() as session:
        found = {tuple(map(int, np.concatenate(session.run([begin, size])))) for _ in range(5)}
    assert len(found) > 1


def test_no_box_is_refused_unless_the_image_may_stand_for_it():
    def window(**attrs):
        nothing = np.zeros((1, 0, 4), np.float32)
        return tf.image.sample_distorted_bounding_box([9, 9, 3], nothing, seed=1, **attrs).size

    with tf.Session() as session:
        assert session.run(window(use_image_if_no_bounding_boxes=True)).shape == (3,)
        with pytest.raises(tf.errors.InvalidArgumentError, match="No bounding boxes"):
            session.run(window())


def test_a_tone_is_seen_at_its_frequency_and_has_cepstral_coefficients():
    tone = np.sin(2 * np.pi * 1000 * np.arange(800) / 8000).astype(np.float32)[:, None]
    spectrum = tf.raw_ops.AudioSpectrogram(
        input=tone, window_size=256, stride=128, magnitude_squared=True
    )
    cepstra = tf.raw_ops.Mfcc(spectrogram=spectrum, sample_rate=8000, dct_coefficient_count=5)
    assert spectrum.shape == [1, 5, 129]
    with tf.Session() as session:
        found, coefficients = session.run([spectrum, cepstra])
    assert (found[0].argmax(axis=1) == 1000 * 256 // 8000).all()
    assert coefficients.shape == (1, 5, 5)
    assert np.isfinite(coefficients).all()
