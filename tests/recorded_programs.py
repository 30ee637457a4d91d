"""Small programs that mean the same with TensorFlow and with us; how they are kept and run.

A `Collection` is a package of modules of programs.  What TensorFlow gives for each is in the
package's `recorded/MODULE.json`; the places in it that differ here are in
`differences/MODULE.txt`, each line with its reason after `  # `.

    python tests/recorded_programs.py PACKAGE tensorflow|tideflow [NAME...]

prints, as JSON, what programs give, and `python tests/recorded_programs.py PACKAGE record
[MODULE...]` writes down what TensorFlow gives.  PACKAGE is `eager.behaviours` or `tf_behaviours`;
NAME is of a program, `MODULE.function`.
"""

from __future__ import annotations

import faulthandler
import importlib
import inspect
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Program = Callable[..., Any]

# A program that takes longer has hung.
_HUNG_S = 100
_V1_MODULES = {"tensorflow": "tensorflow.compat.v1", "tideflow": "tideflow.v1"}


class Collection:
    """The programs of a package.

    A program is a function of the API, and of an empty folder if it has a second parameter.

    Args:
      package: the name of the package, relative to the folder of the tests.
      v1: what the names of modules begin with whose programs are of the v1 shape: each is given
        the v1 API, in a graph of its own, after `disable_v2_behavior()`.
      apart: what the names of modules begin with that have a process each, such as those that join
        a cluster.
    """

    def __init__(self, package: str, v1: tuple[str, ...] = (), apart: tuple[str, ...] = ()) -> None:
        self.package = package
        self.programs: dict[str, Program] = {}
        self.folder = Path(__file__).parent.joinpath(*package.split("."))
        self._v1 = v1
        self._apart = apart

    @property
    def modules(self) -> list[str]:
        """The modules: those of the v1 shape last, since its behaviour is turned on for good."""
        names = sorted(path.stem for path in self.folder.glob("*.py"))
        programs = (n for n in names if n != "registry" and not n.startswith("test_"))
        return sorted(programs, key=self._is_v1)

    def _is_v1(self, name: str) -> bool:
        return bool(self._v1) and name.startswith(self._v1)

    def add(self, function: Program) -> Program:
        """Keep a program."""
        self.programs[f"{function.__module__.rpartition('.')[2]}.{function.__name__}"] = function
        return function

    def load(self) -> None:
        """Have all programs registered."""
        for module in self.modules:
            importlib.import_module(f"{self.package}.{module}")

    def expected(self) -> dict[str, Any]:
        """Return what TensorFlow gives."""
        found: dict[str, Any] = {}
        for module in self.modules:
            path = self.folder / "recorded" / f"{module}.json"
            found |= json.loads(path.read_text()) if path.exists() else {}
        return found

    def differences(self) -> dict[str, str]:
        """Return why each known difference is there, by program and place in its outcome."""
        paths = sorted((self.folder / "differences").glob("*.txt"))
        lines = [line for path in paths for line in path.read_text().splitlines()]
        return {at: why for at, _, why in (line.partition("  # ") for line in lines)}

    def surprises(self, found: dict[str, Any], names: Iterable[str] = ()) -> dict[str, Any]:
        """Return, by program, the places that differ and are not listed, or no longer differ."""
        expected, differences = self.expected(), self.differences()
        surprising = {}
        for name in names or self.programs:
            places = set(differing(expected.get(name, "not recorded"), found[name], name))
            listed = {at for at in differences if at.partition(" ")[0] == name}
            if places != listed:
                surprising[name] = {
                    "differ": sorted(places - listed),
                    "agree now": sorted(listed - places),
                }
        return surprising

    def in_process(self, library: str, names: Iterable[str] = ()) -> dict[str, Any]:
        """Return what programs, or all of them, give in processes of their own."""
        groups: dict[str, list[str]] = {}
        for name in names or self.programs:
            module = name.partition(".")[0]
            alone = bool(self._apart) and module.startswith(self._apart)
            groups.setdefault(module if alone else "", []).append(name)
        found: dict[str, Any] = {}
        for group in groups.values():
            found |= self._in_one_process(library, group)
        return found

    def _in_one_process(self, library: str, names: Sequence[str]) -> dict[str, Any]:
        command = [sys.executable, __file__, self.package, library, *names]
        done = subprocess.run(command, capture_output=True, text=True, timeout=480, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("found ")]
        found = dict(json.loads(line.removeprefix("found ")) for line in lines)
        missing = set(names) - set(found)
        assert not missing, (missing, done.stderr[-3000:])
        return found

    def run(self, library: str, names: Iterable[str] = ()) -> Iterator[tuple[str, Any]]:
        """Yield programs and what they give; a program that hangs ends the process."""
        eager, v1 = importlib.import_module(library), None
        eager.config.set_logical_device_configuration(
            eager.config.list_physical_devices("CPU")[0],
            [eager.config.LogicalDeviceConfiguration()] * 2,
        )
        for name in names or self.programs:
            faulthandler.dump_traceback_later(_HUNG_S, exit=True)
            if not self._is_v1(name):
                yield name, _outcome(self.programs[name], eager)
                continue
            if v1 is None:
                v1 = importlib.import_module(_V1_MODULES[library])
                v1.disable_v2_behavior()
            with v1.Graph().as_default():
                yield name, _outcome(self.programs[name], v1)
        faulthandler.cancel_dump_traceback_later()

    def record(self, modules: Iterable[str] = ()) -> None:
        """Write down what TensorFlow gives for modules, or for all."""
        for module in modules or self.modules:
            names = [name for name in self.programs if name.startswith(f"{module}.")]
            found = self.in_process("tensorflow", names)
            lines = [f"{json.dumps(name)}: {json.dumps(found[name])}" for name in names]
            path = self.folder / "recorded" / f"{module}.json"
            path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _outcome(function: Program, tf: Any) -> Any:
    """Return what a program gives or raises."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        needs_folder = len(inspect.signature(function).parameters) > 1
        try:
            found = json.dumps(plain(function(tf, folder) if needs_folder else function(tf)))
            return json.loads(found.replace(folder, "FOLDER"))
        except Exception as raised:
            print(function.__name__, repr(raised)[:300], file=sys.stderr)
            return {"raised": type(raised).__name__}


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


def differing(theirs: Any, ours: Any, at: str) -> list[str]:
    """Return the places in which two outcomes differ: the program's name, then indices."""
    if _agree(theirs, ours):
        return []
    kinds = {type(theirs), type(ours)}
    if kinds == {list} and len(theirs) == len(ours) and not _is_leaf(theirs):
        pairs: Any = zip(range(len(theirs)), theirs, ours)
    elif kinds == {dict} and theirs.keys() == ours.keys():
        pairs = ((key, theirs[key], ours[key]) for key in theirs)
    else:
        return [at]
    return [place for key, a, b in pairs for place in differing(a, b, f"{at} {key}")]


def _agree(theirs: Any, ours: Any) -> bool:
    """Whether two outcomes are equal, but for the last digit that rounding left of floats."""
    if type(theirs) is float and type(ours) is float:
        both_nan = math.isnan(theirs) and math.isnan(ours)
        return both_nan or math.isclose(theirs, ours, rel_tol=1.1e-3, abs_tol=1e-12)
    if type(theirs) is list and type(ours) is list and len(theirs) == len(ours):
        return all(map(_agree, theirs, ours))
    return bool(type(theirs) is type(ours) and theirs == ours)


def _is_leaf(outcome: list[Any]) -> bool:
    """Whether an outcome is of an error, or is an array, and so is compared as a whole."""
    return len(outcome) == 2 and isinstance(outcome[0], str)


def main(package: str, what: str, *names: str) -> None:
    """Run programs and print what they give, or record them."""
    registry = importlib.import_module(f"{package}.registry")
    collection: Collection = registry.COLLECTION
    collection.load()
    if what == "record":
        collection.record(names)
        return
    for name, found in collection.run(what, names):
        print("found", json.dumps([name, found]), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    sys.path.insert(0, str(Path(__file__).parent))
    # One module, whichever way it was loaded.
    importlib.import_module("recorded_programs").main(*sys.argv[1:])
