"""The benchmark of single ops runs beside TensorFlow, for a few of its ops."""

from __future__ import annotations

import pytest

from benchmarks import kernels

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def test_some_ops_are_measured_on_all_three() -> None:
    found = dict(kernels.measure(1, "addition")) | dict(kernels.measure(1, "layer norm"))
    assert len(found) == 2
    for name, seconds in found.items():
        assert len(seconds) == 3, name
        assert min(seconds) > 0, name
