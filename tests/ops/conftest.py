"""At the end of a run, what was compared with TensorFlow is written down (see compared.py)."""

from __future__ import annotations

from ops import compared


def pytest_sessionfinish() -> None:
    compared.write()
