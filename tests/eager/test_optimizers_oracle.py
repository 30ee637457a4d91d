"""Optimizers of the TF2 shape beside Keras's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tideflow as ours

theirs = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"clipnorm": 1.0}),
    ("Adam", {"global_clipnorm": 1.0}),
    ("Adam", {"clipvalue": 0.5}),
    ("AdamW", {}),
    ("Adagrad", {}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.5, "centered": True}),
    ("Adadelta", {"rho": 0.9}),
    ("Adamax", {}),
    ("Lion", {}),
    ("Nadam", {}),
    ("Nadam", {"weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "use_ema": True, "ema_momentum": 0.8}),
    ("Adam", {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 3}),
    ("Adagrad", {"use_ema": True}),
    ("Ftrl", {"l1_regularization_strength": 0.01, "l2_regularization_strength": 0.02}),
]


def run(tf: Any, optimizer: Any) -> np.ndarray:
    v = tf.Variable([1.0, 2.0])
    for _ in range(7):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v * v)
        optimizer.apply_gradients([(tape.gradient(loss, v), v)])
    trained = v.numpy()
    optimizer.finalize_variable_values([v])
    return np.stack([trained, v.numpy()])


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_the_same_steps(kind: str, options: dict[str, Any]) -> None:
    found = run(ours, getattr(ours.optimizers, kind)(0.1, **options))
    expected = run(theirs, getattr(theirs.keras.optimizers, kind)(0.1, **options))
    np.testing.assert_allclose(found, expected, rtol=2e-5)


@pytest.mark.parametrize("wrong", [{"ema_momentum": 2.0}, {"ema_overwrite_frequency": 1.5}])
def test_averages_without_sense_are_refused(wrong: dict[str, Any]) -> None:
    for tf in (ours, theirs):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            tf.optimizers.SGD(0.1, use_ema=True, **wrong)
