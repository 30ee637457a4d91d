"""What the types of kernels promise, against the libraries that keep it."""

from __future__ import annotations

from types import ModuleType

import jax.numpy
import numpy as np
import pytest

from tideflow.graph.types import ArrayNamespace


@pytest.mark.parametrize("xp", [np, jax.numpy], ids=["numpy", "jax"])
def test_each_library_has_what_pure_kernels_may_use(xp: ModuleType) -> None:
    names = [name for name in vars(ArrayNamespace) if not name.startswith("_")]
    assert len(names) > 100
    assert [name for name in names if not hasattr(xp, name)] == []
