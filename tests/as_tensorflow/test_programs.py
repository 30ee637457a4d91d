"""Whole programs print on tideflow, under TensorFlow's name, what they print on TensorFlow."""

from __future__ import annotations

import json

import pytest

from as_tensorflow.run_programs import RECORDED, in_processes, names

# All programs are run once, for all tests of an engine.
pytestmark = pytest.mark.timeout(400)

EXPECTED: dict[str, list[str]] = json.loads(RECORDED.read_text())


@pytest.fixture(scope="module")
def printed() -> dict[str, list[str]]:
    return in_processes("tideflow", names())


@pytest.mark.parametrize("name", names())
def test_a_program_prints_what_it_prints_on_tensorflow(
    printed: dict[str, list[str]], name: str
) -> None:
    assert printed[name] == EXPECTED[name]


@pytest.mark.tensorflow
def test_the_programs_print_on_tensorflow_what_is_recorded() -> None:
    assert in_processes("tensorflow", names()) == EXPECTED
