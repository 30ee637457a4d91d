"""At the end of a run, what was compared with TensorFlow is written down (see compared.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ops import compared


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Note what ran in a test that compares with TensorFlow, if it passes."""
    if not compared.is_wanted() or item.get_closest_marker("tensorflow") is None:
        return (yield)
    with compared.Programs() as programs:
        found: Any = yield
    programs.keep()
    return found


def pytest_sessionfinish() -> None:
    compared.write()
