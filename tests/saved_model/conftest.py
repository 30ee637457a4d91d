"""Operations are eager in these tests alone, though all tests may share a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tideflow.v2 as tideflow_v2  # noqa: F401
from tideflow.eager.eager_graph import disable_eager_execution, enable_eager_execution

# Importing the front door has made operations eager.
disable_eager_execution()


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    enable_eager_execution()
    yield
    disable_eager_execution()
