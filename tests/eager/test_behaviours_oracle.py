"""What the small programs are expected to give is what TensorFlow gives."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from eager.behaviours import registry

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

registry.load()


@functools.cache
def found() -> dict[str, Any]:
    return registry.in_process("tensorflow")


@pytest.mark.parametrize("name", registry.PROGRAMS)
def test_tensorflow_gives_what_is_expected(name: str) -> None:
    assert registry.differing(registry.expected()[name], found()[name], name) == []
