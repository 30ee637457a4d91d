"""Behaviours that TensorFlow's own tests name are ours, but for the differences that are listed.

`recorded` holds what TensorFlow gives; `differences` the places in it that differ here, and why.
A line there that has come to agree must go.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
from tools.tensorflow_tests import PAGE, page

from tf_behaviours.registry import BEHAVIOURS, COLLECTION

pytestmark = pytest.mark.timeout(300)

COLLECTION.load()


@functools.cache
def found() -> dict[str, Any]:
    return COLLECTION.in_process("tideflow")


@pytest.mark.parametrize("module", COLLECTION.modules)
def test_programs_give_what_tensorflow_gave(module: str) -> None:
    names = [name for name in COLLECTION.programs if name.startswith(f"{module}.")]
    assert COLLECTION.surprises(found(), names) == {}


def test_each_difference_is_of_a_program_and_says_why() -> None:
    names = {at.partition(" ")[0] for at in COLLECTION.differences()}
    assert names <= set(COLLECTION.programs)
    assert all(COLLECTION.differences().values())


def test_each_program_says_which_test_it_is_of() -> None:
    assert set(BEHAVIOURS) == set(COLLECTION.programs)


def test_the_page_of_the_docs_is_fresh() -> None:
    assert PAGE.read_text() == page(), "run: python -m tools.tensorflow_tests"
