"""Small programs that mean the same with TensorFlow and with us; how they are kept and run.

    python registry.py tensorflow|tideflow [NAME...]

prints, as JSON, what each program gives, and `python registry.py record` writes what TensorFlow
gives to `expected.json`.  To add a program, write it in the module that fits, and record.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Program = Callable[[Any], Any]
PROGRAMS: dict[str, Program] = {}
_HERE = Path(__file__).parent
MODULES = sorted(path.stem for path in _HERE.glob("*.py") if path.stem != "registry")


def program(function: Program) -> Program:
    """Keep a program: a function of the API that returns what is compared."""
    PROGRAMS[f"{function.__module__.rpartition('.')[2]}.{function.__name__}"] = function
    return function


def plain(value: Any) -> Any:
    """Return a value as JSON has it; tensors with their type and shape."""
    if isinstance(value, dict):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        items = [plain(item) for item in value]
        return [type(value).__name__, *items] if type(value) is not list else items
    if hasattr(value, "numpy") and hasattr(value, "dtype"):
        value = value.numpy()
    if isinstance(value, bytes):
        return repr(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return [value.dtype.name, plain(rounded(value))]
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, (int, bool, type(None))):
        return value
    return re.sub(r"0x[0-9a-f]+", "0x", str(value))


def rounded(value: Any) -> Any:
    """Return floats without what differs by the order of additions."""
    array = np.asarray(value)
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        return np.vectorize(lambda x: float(f"{x:.4g}"), otypes=[object])(
            array.astype(np.float64)
        ).tolist()
    return array.tolist()


def error(call: Callable[[], Any], *phrases: str) -> Any:
    """Return the class of what a call raises, and which of some phrases its text holds."""
    try:
        found = call()
    except Exception as raised:
        return [type(raised).__name__, [phrase for phrase in phrases if phrase in str(raised)]]
    return ["nothing was raised", plain(found)]


def outcome(function: Program, tf: Any) -> Any:
    """Return what a program gives or raises."""
    try:
        return plain(function(tf))
    except Exception as raised:
        print(function.__name__, repr(raised)[:300], file=sys.stderr)
        return {"raised": type(raised).__name__}


def in_process(library: str) -> dict[str, Any]:
    """Return what all programs give in a process of their own."""
    command = [sys.executable, str(Path(__file__)), library]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    assert len(lines) == len(PROGRAMS), done.stderr[-3000:]
    return dict(json.loads(line.removeprefix("found ")) for line in lines)


@functools.cache
def expected() -> dict[str, Any]:
    """Return what TensorFlow gives."""
    found: dict[str, Any] = json.loads((_HERE / "expected.json").read_text())
    return found


@functools.cache
def differences() -> dict[str, str]:
    """Return why each known difference is there, by the program and the place in its outcome."""
    lines = (_HERE / "differences.txt").read_text().splitlines()
    return {at: why for at, _, why in (line.partition("  # ") for line in lines)}


def differing(theirs: Any, ours: Any, at: str) -> list[str]:
    """Return the places in which two outcomes differ: the program's name, then indices."""
    if theirs == ours:
        return []
    kinds = {type(theirs), type(ours)}
    if kinds == {list} and len(theirs) == len(ours) and not _is_leaf(theirs):
        pairs: Any = zip(range(len(theirs)), theirs, ours)
    elif kinds == {dict} and theirs.keys() == ours.keys():
        pairs = ((key, theirs[key], ours[key]) for key in theirs)
    else:
        return [at]
    return [place for key, a, b in pairs for place in differing(a, b, f"{at} {key}")]


def _is_leaf(outcome: list[Any]) -> bool:
    """Whether an outcome is of an error, or is an array, and so is compared as a whole."""
    return len(outcome) == 2 and isinstance(outcome[0], str)


def record() -> None:
    """Write what TensorFlow gives to expected.json."""
    load()
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in in_process("tensorflow").items()]
    (_HERE / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def load() -> None:
    """Have all programs registered."""
    for module in MODULES:
        importlib.import_module(f"eager.behaviours.{module}")


def main(library: str, *names: str) -> None:
    """Run programs and print what they give."""
    if library == "record":
        record()
        return
    load()
    tf = importlib.import_module(library)
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    for name in names or PROGRAMS:
        print("found", json.dumps([name, outcome(PROGRAMS[name], tf)]), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    sys.path.insert(0, str(_HERE.parents[1]))
    # The module that the programs register with is the one of the package.
    importlib.import_module("eager.behaviours.registry").main(*sys.argv[1:])
