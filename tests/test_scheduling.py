"""Modules stay whole when workers share tests, and what may take long begins first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent

_CONFTEST = """
import json, os
import scheduling

def pytest_configure(config):
    config.pluginmanager.register(scheduling)

def pytest_runtest_teardown(item):
    line = json.dumps([os.environ["PYTEST_XDIST_WORKER"], item.path.stem, item.originalname])
    with open("ran", "a") as file:
        file.write(line + "\\n")
"""
_MANY = """
import pytest

@pytest.mark.parametrize("number", range(9))
def test_one_of_many(number):
    pass
"""
_LONG = """
import pytest

pytestmark = pytest.mark.timeout(500)

def test_that_is_long():
    pass
"""
_GROUPED = """
import pytest

@pytest.mark.xdist_group("shared")
def test_of_a_group():
    pass

def test_of_no_group():
    pass
"""


def test_modules_and_groups_stay_whole_and_long_tests_begin_first(tmp_path: Path) -> None:
    modules = {"a": _MANY, "b": _GROUPED, "c": _MANY, "d": _GROUPED, "e": _LONG}
    for name, text in modules.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 60\nmarkers =\n    xdist_group(x)\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [json.loads(line) for line in (tmp_path / "ran").read_text().splitlines()]
    assert len(ran) == 9 + 2 + 9 + 2 + 1
    workers: dict[str, set[str]] = {}
    for worker, module, test in ran:
        unit = "shared" if test == "test_of_a_group" else module
        workers.setdefault(unit, set()).add(worker)
    assert set(map(len, workers.values())) == {1}
    first_of_its_worker = next(row for row in ran if row[0] == next(iter(workers["test_e"])))
    assert first_of_its_worker[2] == "test_that_is_long"
