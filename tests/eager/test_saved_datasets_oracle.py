"""Datasets that one saves the other loads, without being told what their elements are."""

from __future__ import annotations

import pytest

import tideflow as ours
from eager.test_saved_datasets import varied
from shown_values import elements

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def ordered(data):
    """Return the elements as text; TensorFlow gives the keys of a loaded dict in any order."""
    return [str(sorted(element.items())) for element in elements(data)]


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_each_loads_what_the_other_saved(tmp_path, compression):
    for name, one, other in (("a", ours, tensorflow), ("b", tensorflow, ours)):
        path = str(tmp_path / name)
        varied(one).save(path, compression=compression)
        loaded = other.data.Dataset.load(path, compression=compression)
        assert ordered(loaded) == ordered(varied(one))
        spec = varied(one).element_spec
        assert str(sorted(loaded.element_spec.items())) == str(sorted(spec.items()))
