"""The digits of the demo and the examples come with the package."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from tideflow.digits import load_digits


def test_there_are_as_many_of_each_digit_in_both_parts():
    train_images, test_images, train_labels, test_labels = load_digits()
    assert (train_images.shape, test_images.shape) == ((1437, 64), (360, 64))
    for images, labels in ((train_images, train_labels), (test_images, test_labels)):
        assert (images.dtype, labels.dtype) == (np.float32, np.int64)
        assert (images.min(), images.max()) == (0.0, 1.0)
        assert len(images) == len(labels)
        share = np.bincount(labels, minlength=10) / len(labels)
        assert np.abs(share - 0.1).max() < 0.005


def test_they_need_no_other_library():
    program = "import sys; from tideflow.digits import load_digits; load_digits(); "
    subprocess.run(
        [sys.executable, "-c", program + "assert 'sklearn' not in sys.modules"], check=True
    )


def test_they_are_digits():
    train_images, test_images, train_labels, test_labels = load_digits()
    # Each is most like one of its own kind: nearest neighbours know 98 % of them.
    distances = ((test_images[:, None, :] - train_images[None, :, :]) ** 2).sum(-1)
    assert np.mean(train_labels[distances.argmin(1)] == test_labels) > 0.97
