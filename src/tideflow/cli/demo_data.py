"""The data of `tideflow demo`: handwritten digits, read by one process for all tasks.

Run as a program with a path, it writes them there: scikit-learn takes seconds to import, which a
task that is started again should not have to wait for.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def save_data(path: Path) -> None:
    """Write the digits of scikit-learn: 1437 images for training, 360 for the test, split in the
    same way each time."""
    digits = load_digits()
    images = (digits.data / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int64)
    split = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    names = ("train_images", "test_images", "train_labels", "test_labels")
    np.savez(path, **dict(zip(names, split)))


if __name__ == "__main__":
    save_data(Path(sys.argv[1]))
