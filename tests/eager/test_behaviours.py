"""Small programs of the TF2 shape give what TensorFlow gave: values, text and classes of errors.

`behaviours/recorded` holds what TensorFlow gives; `behaviours/differences` the places in it that
differ here, and why.  A line there that has come to agree must go.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

from eager.behaviours.registry import COLLECTION

COLLECTION.load()


@functools.cache
def found() -> dict[str, Any]:
    return COLLECTION.in_process("tideflow")


@pytest.mark.parametrize("name", COLLECTION.programs)
def test_a_program_gives_what_tensorflow_gave(name: str) -> None:
    assert COLLECTION.surprises(found(), [name]) == {}


def test_each_difference_is_of_a_program_and_says_why() -> None:
    names = {at.partition(" ")[0] for at in COLLECTION.differences()}
    assert names <= set(COLLECTION.programs)
    assert all(COLLECTION.differences().values())
