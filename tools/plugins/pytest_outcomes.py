"""A plugin of pytest that writes down how each test ends.

    pytest -p pytest_outcomes --outcomes FILE [--every N]

Each line of the file is a JSON list: the test's id, how it is ("running", "passed", "failed" or
"skipped"), the first line of its error, and where that was raised.  It is written at once: a test
whose last line says "running" was running when the process ended.  A file that cannot be imported
is one failed test.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--outcomes", type=Path, help="the file to which outcomes are appended")
    parser.addoption("--every", type=int, default=1, help="run only each so many-th test")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to write, where a file was named."""
    file: Path | None = config.getoption("--outcomes")
    if file is not None:
        config.pluginmanager.register(_Writer(file))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests where not all were asked for."""
    items[:] = items[:: config.getoption("--every")]


class _Writer:
    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(nodeid, "running")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self._write_report(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self._write_report(report)

    def _write_report(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        error, where = _error(report) if report.failed else ("", "")
        self._write(report.nodeid, report.outcome, error, where)

    def _write(self, test: str, outcome: str, error: str = "", where: str = "") -> None:
        with self._file.open("a") as out:
            out.write(json.dumps([test, outcome, error, where]) + "\n")


def _error(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str]:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return _first_line(crash.message), f"{crash.path}:{crash.lineno}"
    lines = report.longreprtext.splitlines()
    errors = [line.removeprefix("E ").strip() for line in lines if line.startswith("E ")]
    return (errors or lines or [""])[-1], ""


def _first_line(message: str) -> str:
    """Return the first line of a message that says something; NumPy's begin with an empty one."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return " ".join(lines[: 2 if lines and lines[0].endswith("Error:") else 1])
