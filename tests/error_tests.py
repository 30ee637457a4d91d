"""Tests of errors of steps alone: `--errors-only`.

`make test` runs them once more with everything compiled (TIDEFLOW_JIT=always): a check that fails
in compiled code must raise what the straight code raises.

A plugin of pytest.
"""

from __future__ import annotations

import inspect
import re

import pytest

_RAISES = re.compile(r"raises\(\s*\(?(?:\w+\.)*errors\.\w+")


def add_option(parser: pytest.Parser) -> None:
    """Add `--errors-only`."""
    parser.addoption(
        "--errors-only",
        action="store_true",
        help="run only tests that expect errors of TensorFlow's classes",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--errors-only"):
        config.hook.pytest_deselected(items=[item for item in items if not expects_error(item)])
        items[:] = filter(expects_error, items)


def expects_error(item: pytest.Item) -> bool:
    """Whether a test's function says that an error of TensorFlow's classes is raised."""
    function = getattr(item, "function", None)
    return function is not None and _RAISES.search(inspect.getsource(function)) is not None
