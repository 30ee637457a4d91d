"""At the end of a run, what was compared with TensorFlow is written down (see compared.py).

Tests that call operations eagerly ask for the fixture `eager`; all others make graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tideflow.v2 as tideflow_v2  # noqa: F401
from ops import compared, dataset_harness
from ops.bad_inputs.comparison import Ask, asking_tensorflow
from tideflow.eager.eager_graph import disable_eager_execution, enable_eager_execution

# Importing the front door has made operations eager.
disable_eager_execution()


@pytest.fixture
def eager() -> Iterator[None]:
    """Call operations at once in the test."""
    enable_eager_execution()
    yield
    disable_eager_execution()


@pytest.fixture(scope="module", autouse=True)
def _no_server_stays() -> Iterator[None]:
    """End the server on which a module ran datasets."""
    yield
    dataset_harness.stop_server()


@pytest.fixture(scope="session")
def on_tensorflow() -> Iterator[Ask]:
    """Give a function that tells how calls end on TensorFlow, in a process of its own."""
    with asking_tensorflow() as ask:
        yield ask


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
