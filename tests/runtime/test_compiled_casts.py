"""Floats that become integers within compiled regions, in range and out of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.wire import messages as pb


def found(level: int, values: list[float], source: Any, target: Any) -> tuple[Any, int]:
    """Return the integers, and how many regions are compiled, at a level of compiling."""
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = level
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        x = tf.placeholder(source, [None])
        y = tf.cast(tf.abs(x) * tf.sign(x), target) * 1
        made = session.run(y, {x: values})
        return made, sum(one.compiled_regions for one in session.backend.runners.values())


@pytest.mark.parametrize("target", [tf.int32, tf.int64, tf.uint8, tf.int8], ids=lambda t: t.name)
@pytest.mark.parametrize("source", [tf.float32, tf.float64, tf.float16], ids=lambda t: t.name)
@pytest.mark.parametrize(
    "values",
    [[0.0, 1.9, 99.5], [-1.0, -0.5], [300.0, -300.0], [1e30, 2.0**31, -(2.0**63)], [np.nan]],
)
def test_integers_are_those_of_straight_code(
    values: list[float], source: Any, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEFLOW_JIT", raising=False)
    with np.errstate(all="ignore"):
        plain, none = found(pb.OptimizerOptions.OFF, values, source, target)
        compiled, regions = found(pb.OptimizerOptions.ON_2, values, source, target)
    assert (none, regions) == (0, 1)
    assert compiled.dtype == plain.dtype
    assert compiled.tolist() == plain.tolist()
