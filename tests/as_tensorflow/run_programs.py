"""Run the programs of this folder, on TensorFlow or on tideflow under its name.

    python tests/as_tensorflow/run_programs.py tensorflow|tideflow [PROGRAM...]
    python tests/as_tensorflow/run_programs.py record [PROGRAM...]

The first prints what each program prints, as JSON; the second writes down what TensorFlow's do.
Those of the TF1 shape come last, since it stays in force for the process.  Those whose names begin
with "alone" set up the devices or the operators of their process, and have one each.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent / "programs"
RECORDED = Path(__file__).parent / "recorded.json"


def names() -> list[str]:
    """Return the names of the programs that can run, in the order in which they do."""
    has_keras = importlib.util.find_spec("keras") is not None
    found = (path.stem for path in FOLDER.glob("*.py"))
    can_run = (name for name in found if has_keras or "keras" not in name)
    return sorted(can_run, key=lambda name: (name.startswith("tf1"), name))


def run(name: str) -> list[str]:
    """Return the lines that a program prints; at the end, the error that ends it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        except Exception:
            print(traceback.format_exc())
    return printed.getvalue().splitlines()


def in_processes(engine: str, chosen: Sequence[str]) -> dict[str, list[str]]:
    """Return what programs print, run in other processes."""
    together = [name for name in chosen if not name.startswith("alone")]
    found = _in_process(engine, together) if together else {}
    for name in chosen:
        if name not in together:
            found.update(_in_process(engine, [name]))
    return found


def _in_process(engine: str, chosen: Sequence[str]) -> dict[str, list[str]]:
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, __file__, engine, *chosen],
        capture_output=True, text=True, timeout=300, check=False, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _begins_error(line: str) -> bool:
    return line.startswith("Traceback (most recent call last)")


def main(arguments: list[str]) -> None:
    """Run programs, or record them."""
    engine, *chosen = arguments
    if engine == "record":
        before = json.loads(RECORDED.read_text()) if chosen else {}
        made = in_processes("tensorflow", chosen or names())
        failed = [name for name, lines in made.items() if any(map(_begins_error, lines))]
        if failed:
            raise SystemExit(f"these fail on TensorFlow, and are not recorded: {failed}")
        found = {**before, **made}
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
        return
    if engine == "tideflow":
        from tideflow.as_tensorflow import install  # noqa: PLC0415  (the other engine does without)

        install()
    print(json.dumps({name: run(name) for name in chosen or names()}))


if __name__ == "__main__":
    main(sys.argv[1:])
