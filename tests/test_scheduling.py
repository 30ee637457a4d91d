"""Modules stay whole when workers share tests, what may take long begins first, and a worker that
crashes ends nothing but its test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


_CRASHING = """
import os

def test_before():
    pass

def test_that_crashes():
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.kill(os.getpid(), 9)

def test_after():
    pass
"""


def run(folder: Path, modules: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run test modules in two workers."""
    for name, text in modules.items():
        (folder / f"test_{name}.py").write_text(text)
    (folder / "conftest.py").write_text(_CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 60\nmarkers =\n    xdist_group(x)\n")
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder"),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("place", ["between", "last"])
def test_a_worker_that_crashes_fails_its_test_and_ends_no_other(tmp_path: Path, place: str) -> None:
    names = [f"m{number}" for number in range(6)]
    at = {"between": 3, "last": len(names)}[place]
    names.insert(at, "m")
    modules = {
        f"{number}_{name}": _CRASHING if name == "m" else _MANY for number, name in enumerate(names)
    }
    done = run(tmp_path, modules)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 56 passed" in done.stdout
    assert f"crashed while running 'test_{at}_m.py::test_that_crashes'" in done.stdout
    ran = [json.loads(line) for line in (tmp_path / "ran").read_text().splitlines()]
    assert len({(module, test) for _, module, test in ran}) == 6 + 2
    assert len(ran) == 6 * 9 + 2


def test_modules_and_groups_stay_whole_and_long_tests_begin_first(tmp_path: Path) -> None:
    modules = {"a": _MANY, "b": _GROUPED, "c": _MANY, "d": _GROUPED, "e": _LONG}
    done = run(tmp_path, modules)
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
