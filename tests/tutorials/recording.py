"""Small programs as tutorials have them, and what they give, as values that can be compared.

A program takes the API of either library and an empty folder.  What TensorFlow gives is in
recorded/*.json: `python tests/tutorials/recording.py tensorflow --record` writes it anew.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Program = Callable[[Any, str], Any]
MODULES = tuple(
    sorted(
        path.stem.removeprefix("programs_")
        for path in pathlib.Path(__file__).parent.glob("programs_*.py")
    )
)
# The significant digits that must agree.
_DIGITS = 5
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded")


def programs_of(module: str) -> dict[str, Program]:
    """Return the programs of a module by name."""
    found = vars(importlib.import_module(f"tutorials.programs_{module}"))
    return {
        name: thing
        for name, thing in found.items()
        if callable(thing) and getattr(thing, "is_program", False)
    }


def program(function: Program) -> Program:
    """Mark a function as a program."""
    function.is_program = True  # type: ignore[attr-defined]
    return function


def attempt(call: Callable[[], Any]) -> Any:
    """Return what a call gives, or the class of its error."""
    try:
        return call()
    except Exception as error:
        return {"error": type(error).__name__}


def v1_of(tf: Any) -> Any:
    """Return the API of TensorFlow 1 that belongs to one of the TF2 shape."""
    own = "tideflow.v1" if tf.__name__.startswith("tideflow") else "tensorflow.compat.v1"
    return importlib.import_module(own)


def drain(session: Any, element: Any, most: int = 20) -> list[Any]:
    """Return the elements that are left, and how they end."""
    found: list[Any] = []
    while len(found) < most:
        found.append(attempt(lambda: session.run(element)))
        if isinstance(found[-1], dict) and "error" in found[-1]:
            break
    return found


def plain(value: Any) -> Any:
    """Return a result as JSON has it: arrays with type and shape, floats to some digits."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in sorted(value.items(), key=str)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return "b:" + value.decode("latin-1")
    if isinstance(value, (np.ndarray, np.generic)):
        kind = value.dtype.name
        return {"dtype": kind, "shape": list(np.shape(value)), "value": plain(value.tolist())}
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "numpy"):
        return plain(value.numpy())
    raise TypeError(f"{type(value).__name__} cannot be compared: {value!r}")


def result_of(tf: Any, function: Program) -> Any:
    """Run a program in an empty folder, and in a graph of its own unless it is eager."""
    with tempfile.TemporaryDirectory() as folder:
        is_eager = function.__module__.endswith("eager")
        try:
            if is_eager:
                found = function(tf, folder)
            else:
                with tf.Graph().as_default():
                    found = function(tf, folder)
            return json.loads(json.dumps(plain(found)).replace(folder, "FOLDER"))
        except Exception as error:
            return {"raised": f"{type(error).__name__}: {str(error)[:200]}"}


def library(name: str, module: str) -> Any:
    """Return the API of a library that the programs of a module are for."""
    if module == "eager":
        return importlib.import_module(name)
    if name == "tideflow":
        return importlib.import_module("tideflow.v1")
    return importlib.import_module("tensorflow.compat.v1")


def results(name: str) -> Iterator[tuple[str, str, Any]]:
    """Yield module, program and result for all programs: the eager ones first."""
    for module in sorted(MODULES, key=lambda module: module != "eager"):
        tf = library(name, module)
        if module != "eager":
            tf.disable_v2_behavior()
        for title, function in programs_of(module).items():
            yield module, title, result_of(tf, function)


def difference(wanted: Any, found: Any, where: str = "") -> str | None:
    """Return where two results differ, and how; None where they agree."""
    if isinstance(wanted, dict) and isinstance(found, dict) and wanted.keys() == found.keys():
        pairs = [(f"{where}.{key}", wanted[key], found[key]) for key in wanted]
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = [(f"{where}[{i}]", *pair) for i, pair in enumerate(zip(wanted, found))]
    else:
        numbers = all(type(one) in (int, float) for one in (wanted, found))
        if wanted == found or (numbers and abs(wanted - found) <= 1e-4 * max(1, abs(wanted))):
            return None
        return f"at {where or 'the top'}: expected {str(wanted)[:300]}, found {str(found)[:300]}"
    each = (difference(one, other, place) for place, one, other in pairs)
    return next((found for found in each if found), None)


def recorded(module: str) -> dict[str, Any]:
    """Return what TensorFlow gave for the programs of a module."""
    with open(os.path.join(FOLDER, f"{module}.json")) as file:
        found: dict[str, Any] = json.load(file)
        return found


def main() -> None:
    """Print the results of a library, or write them down with --record."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    found: dict[str, dict[str, Any]] = {}
    for module, title, result in results(sys.argv[1]):
        found.setdefault(module, {})[title] = result
    if sys.argv[2:] != ["--record"]:
        print(json.dumps(found))
        return
    for module, programs in found.items():
        lines = [f"{json.dumps(title)}: {json.dumps(programs[title])}" for title in programs]
        with open(os.path.join(FOLDER, f"{module}.json"), "w") as file:
            file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # One module, whichever way it was loaded.
    importlib.import_module("tutorials.recording").main()
