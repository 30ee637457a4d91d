"""The tool that runs the tests of libraries on tideflow and on TensorFlow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]

_VALUES = """
import os
import sys

import pytest


def on_tideflow():
    return "tideflow" in sys.modules


def test_same():
    assert 1 + 1 == 2


@pytest.mark.parametrize("n", [17, 18])
def test_only_on_tensorflow(n):
    if on_tideflow() and not os.path.exists("mended"):
        raise ValueError(f"no op of size {n}")


def test_nowhere():
    raise RuntimeError("neither")


@pytest.mark.skip
def test_skipped():
    pass
"""
_ENDING = """
import os
import sys


def test_before():
    pass


def test_ends_the_process():
    if "tideflow" in sys.modules:
        os._exit(3)


def test_after():
    pass
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    for path, text in (("some/values_test.py", _VALUES), ("other/ending_test.py", _ENDING)):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(text)
    return folder


def run(checkout: Path, *options: str) -> subprocess.CompletedProcess[str]:
    results = checkout.parent / "results.json"
    command = [sys.executable, "-m", "tools.libraries", f"small={checkout}", *options]
    done = subprocess.run(
        [*command, "--results", str(results)],
        cwd=_ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def rows(printed: str) -> list[list[str]]:
    """Return the table's rows, below its head."""
    lines = [line.split() for line in printed.splitlines()]
    at = lines.index(["folder", "files", "TensorFlow", "tideflow", "per", "cent"])
    return lines[at + 1 : lines.index([], at)]


def test_what_passes_on_tensorflow_alone_is_listed_until_it_is_mended(checkout: Path) -> None:
    options = ("--tensorflow", "failing", "--only", "some/*")
    first = run(checkout, *options)
    assert rows(first.stdout) == [["some", "1", "3", "1", "33.33"], ["all", "1", "3", "1", "33.33"]]
    assert "2 x ValueError: no op of size 17\n    some/values_test.py::test_only" in first.stdout
    assert "neither" not in first.stdout
    # All is known now: only what differs is run again, where that is asked for.
    second = run(checkout, *options)
    assert (second.stdout, "passed" in second.stderr) == (first.stdout, False)
    (checkout / "mended").touch()
    third = run(checkout, *options, "--again")
    assert "on tideflow: 2 passed, 0 did not" in third.stderr
    assert rows(third.stdout)[0] == ["some", "1", "3", "3", "100.00"]
    kept = json.loads((checkout.parent / "results.json").read_text())
    assert len(kept["small"]["some/values_test.py"]["tideflow"]["tests"]) == 5


def test_a_process_that_ends_leaves_what_it_had(checkout: Path) -> None:
    printed = run(checkout, "--tensorflow", "none", "--together", "--only", "other/*").stdout
    assert "1 x was running" in printed
    assert rows(printed)[0] == ["other", "1", "1", "1", "100.00"]
    assert "other/ending_test.py on tideflow: exit code 3" in printed
