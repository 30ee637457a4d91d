"""Models that are saved, loaded, used, trained, and saved once more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tideflow as tf
from saved_model.programs import PROGRAMS, results, train_step


def same(one: Any, other: Any) -> None:
    if isinstance(one, (list, dict)):
        assert isinstance(other, type(one))
        assert len(one) == len(other)
        for key in one if isinstance(one, dict) else range(len(one)):
            same(one[key], other[key])
    elif np.asarray(one).dtype.kind in "fc":
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loaded_model_gives_what_the_original_gives(name: str, tmp_path: Path) -> None:
    saved = PROGRAMS[name](tf, str(tmp_path))
    tf.saved_model.save(saved.model, str(tmp_path / "one"), saved.signatures)
    expected = results(saved.use(saved.model))
    loaded = tf.saved_model.load(str(tmp_path / "one"))
    tf.saved_model.save(loaded, str(tmp_path / "two"), dict(loaded.signatures))
    same(results(saved.use(loaded)), expected)
    again = tf.saved_model.load(str(tmp_path / "two"))
    same(results(saved.use(again)), expected)
    if saved.loss is not None:
        trained = train_step(tf, saved.model, saved.loss)
        same(train_step(tf, loaded, saved.loss), trained)
        same(train_step(tf, again, saved.loss), trained)
