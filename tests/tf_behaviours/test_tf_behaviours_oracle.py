"""What the behaviours are expected to give is what TensorFlow gives."""

from __future__ import annotations

import pytest

from recorded_programs import differing
from tf_behaviours.registry import COLLECTION

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(500)]


def test_tensorflow_gives_what_is_recorded() -> None:
    COLLECTION.load()
    found = COLLECTION.in_process("tensorflow")
    expected = COLLECTION.expected()
    assert [at for name in found for at in differing(expected[name], found[name], name)] == []
