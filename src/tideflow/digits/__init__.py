"""Handwritten digits, for `tideflow demo` and the examples: 1797 images of 8 by 8 pixels.

The images are the test part of "Optical Recognition of Handwritten Digits" of the UCI Machine
Learning Repository, by E. Alpaydin and C. Kaynak (1998), https://doi.org/10.24432/C50P49, under the
Creative Commons Attribution 4.0 International licence (CC BY 4.0).  They were put into another
format and order: digits.npz holds `images`, uint8 [1797, 64] with 0 for paper to 16 for ink, row by
row, and `labels`, uint8 [1797].  The first 1437 are for training, the others for the test, with as
many of each digit in proportion.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FILE = Path(__file__).with_name("digits.npz")
_TRAINING = 1437
_INK = 16.0


def load_digits() -> tuple[
    NDArray[np.float32], NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]
]:
    """Return images for training and for the test, then the labels of both.

    Shapes: images float32 [1437, 64] and [360, 64], from 0.0 (paper) to 1.0 (ink); labels int64
    [1437] and [360], from 0 to 9.

        train_images, test_images, train_labels, test_labels = load_digits()
    """
    with np.load(_FILE) as found:
        images: Any = (found["images"] / _INK).astype(np.float32)
        labels: Any = found["labels"].astype(np.int64)
    return images[:_TRAINING], images[_TRAINING:], labels[:_TRAINING], labels[_TRAINING:]
