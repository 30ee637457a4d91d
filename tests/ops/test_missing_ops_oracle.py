"""Which ops with a kernel for CPUs, and a public name, are not defined yet: missing_ops.txt.

The list gets shorter only: an op that is defined goes from it, and one that TensorFlow's registry
has and that is not in it has to be defined.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

HERE = Path(__file__)
TOOL = HERE.parents[2] / "tools" / "missing_ops.py"
LISTED = HERE.with_name("missing_ops.txt").read_text().split()


def test_the_list_of_missing_ops_is_true() -> None:
    spec = importlib.util.spec_from_file_location("missing_ops", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.missing_ops(tf) == LISTED
