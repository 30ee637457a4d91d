"""Programs with a MirroredStrategy return and raise what they do with TensorFlow."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from distribute.programs_in_processes import start_program
from distribute.strategy_programs import PROGRAMS

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.processes,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="needs a real TensorFlow"
    ),
]

_FILE = str(Path(__file__).with_name("strategy_programs.py"))


def results(library: str) -> dict[str, Any]:
    process = start_program(_FILE, library)
    output, said = process.communicate(timeout=100)
    lines = [line for line in output.splitlines() if line.startswith("found ")]
    assert lines, said[-3000:]
    found: dict[str, Any] = json.loads(lines[0].removeprefix("found "))
    return found


@pytest.fixture(scope="module")
def both() -> tuple[dict[str, Any], dict[str, Any]]:
    return results("tensorflow"), results("tideflow")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_tensorflow_gives(
    both: tuple[dict[str, Any], dict[str, Any]], name: str
) -> None:
    expected, found = both[0][name], both[1][name]
    if expected[0] == "raised":
        # Our texts say more; the class, and that it raises at all, is what programs rely on.
        assert found[:2] == expected[:2]
    else:
        assert found == expected
