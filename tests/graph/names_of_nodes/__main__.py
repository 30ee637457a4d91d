"""Names that calls give to what they put into a graph, from one of both libraries.

    python -m graph.names_of_nodes tensorflow|tideflow

prints them as JSON, by shape ("1", "2") and expression: the names of the results, and the names at
the root.  `record` writes down what TensorFlow gives, with the calls that differ here; both are
looked at by test_names_of_nodes.py.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RECORDED = HERE / "recorded.json"
DIFFERENCES = HERE / "differences.txt"
# The calls of NumPy's names and of ragged rows are not compared: other operations compute them.
_FAMILIES = ("arrays", "images", "math", "neural", "others", "sparse", "strings", "tensors")


def calls() -> dict[str, list[str]]:
    """Return the expressions by shape: those of eager/api_calls, and our own for sessions."""
    folder = HERE.parents[1] / "eager" / "api_calls"
    paths = [folder / f"{family}.txt" for family in _FAMILIES]
    eager = [line for path in paths for line in path.read_text().splitlines()]
    return {"2": eager, "1": (HERE / "sessions.txt").read_text().splitlines()}


def names_given(library: str, wanted: dict[str, list[str]]) -> dict[str, Any]:
    """Return what a library gives, from a process of its own."""
    command = [sys.executable, "-m", "graph.names_of_nodes", library]
    done = subprocess.run(
        command, cwd=HERE.parents[1], input=json.dumps(wanted), capture_output=True, text=True,
        timeout=200, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def differing(theirs: dict[str, Any], ours: dict[str, Any]) -> set[str]:
    """Return the calls that differ, each behind its shape."""
    return {
        f"{shape} {call}"
        for shape, recorded in theirs.items()
        for call, names in recorded.items()
        if ours[shape][call] != names
    }


def _given_here(library: str, wanted: dict[str, list[str]]) -> dict[str, Any]:
    eager = importlib.import_module(library)
    v1 = importlib.import_module(
        {"tensorflow": "tensorflow.compat.v1"}.get(library, f"{library}.v1")
    )
    found: dict[str, Any] = {"2": {call: _names_in(call, eager, v1) for call in wanted["2"]}}
    v1.disable_v2_behavior()
    return found | {"1": {call: _names_in(call, v1, v1) for call in wanted["1"]}}


def _names_in(call: str, tf: Any, v1: Any) -> Any:
    """Return the names of a call's results and those at the root; None where it fails."""
    graph = v1.Graph()
    silent = io.StringIO()
    with graph.as_default(), contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        try:
            results = _names_of(eval(call, {"tf": tf, "np": np}))
        except Exception:
            return None
    root = sorted({op.name.partition("/")[0] for op in graph.get_operations()})
    return [results, root]


def _names_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    if isinstance(value, (list, tuple)):
        return [name for item in value for name in _names_of(item)]
    if hasattr(value, "dense_shape") and hasattr(value, "indices"):
        return _names_of([value.indices, value.values, value.dense_shape])
    return [value.name] if hasattr(value, "op") and hasattr(value, "dtype") else []


def _record() -> None:
    theirs = names_given("tensorflow", calls())
    known = {
        shape: {call: names for call, names in given.items() if names is not None}
        for shape, given in theirs.items()
    }
    ours = names_given("tideflow", {shape: list(given) for shape, given in known.items()})
    lines = []
    for line in sorted(differing(known, ours)):
        shape, _, call = line.partition(" ")
        mine, names = ours[shape][call], known[shape][call]
        if mine is None:
            why = "fails here in a graph"
        elif mine[0] != names[0]:
            why = "the result comes from an operation of another name"
        else:
            why = "other operations stand beside it"
        lines.append(f"{line}  # {why}\n")
    parts = [
        json.dumps(shape)
        + ": {\n"
        + ",\n".join(f"{json.dumps(c)}: {json.dumps(n)}" for c, n in given.items())
        + "\n}"
        for shape, given in known.items()
    ]
    RECORDED.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    DIFFERENCES.write_text("".join(lines))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if sys.argv[1] == "record":
        _record()
    else:
        print(json.dumps(_given_here(sys.argv[1], json.load(sys.stdin))))
