"""What the small programs are expected to give is what TensorFlow gives."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from eager.behaviours.registry import COLLECTION
from recorded_programs import differing

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

COLLECTION.load()


@functools.cache
def found() -> dict[str, Any]:
    return COLLECTION.in_process("tensorflow")


@pytest.mark.parametrize("name", COLLECTION.programs)
def test_tensorflow_gives_what_is_expected(name: str) -> None:
    assert differing(COLLECTION.expected()[name], found()[name], name) == []
