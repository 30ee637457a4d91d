"""Public functions and classes take TensorFlow's arguments, by TensorFlow's names and in its order.

Those of signature_differences.txt differ on purpose; a line there whose difference is gone must go.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import tideflow as ours
from tideflow.ops.export import exports, exports_v2
from tideflow.ops.later import load_all

theirs = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

_LINES = Path(__file__).with_name("signature_differences.txt").read_text().splitlines()
DIFFERENCES = {line.split(maxsplit=1)[0]: line for line in _LINES}


def find(root: Any, name: str) -> Any:
    """Return what a dotted name stands for, or None."""
    for part in name.split("."):
        root = getattr(root, part, None)
        if root is None:
            return None
    return root


def arguments(function: Any) -> list[str] | None:
    """Return the names of the arguments, in order; None where Python does not know them."""
    if not callable(function):
        return None
    if inspect.isclass(function):
        if function.__init__ is object.__init__:
            return []
        function = function.__init__
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [stars.get(p.kind, "") + p.name for p in parameters if p.name != "self"]


def differing() -> dict[str, str]:
    """Return how the arguments differ, for each public name and method of both, where they do."""
    found = {}
    assert ours.executing_eagerly(), "opens the front door, behind which more names are given"
    load_all()
    for name in sorted({*exports(), *exports_v2()}):
        mine, other = find(ours, name), find(theirs, name)
        pairs = {name: (mine, other)}
        if inspect.isclass(mine) and inspect.isclass(other):
            methods = [method for method in dir(mine) if not method.startswith("_")]
            pairs |= {f"{name}.{m}": (getattr(mine, m), getattr(other, m, None)) for m in methods}
        for path, (ours_is, theirs_is) in pairs.items():
            taken, expected = arguments(ours_is), arguments(theirs_is)
            if taken is not None and expected is not None and taken != expected:
                found[path] = f"{path}: ({', '.join(taken)}), TensorFlow: ({', '.join(expected)})"
    return found


def test_public_names_take_the_arguments_of_tensorflow() -> None:
    found = differing()
    assert [text for name, text in found.items() if name not in DIFFERENCES] == []
    assert [line for name, line in DIFFERENCES.items() if name not in found] == []
    assert all(len(line.split(maxsplit=1)) == 2 for line in _LINES), "each line says why"
