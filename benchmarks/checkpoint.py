"""How fast variables are saved and restored, how large the files are, and what memory it takes.

Two processes, one of each runtime, hold the same variables and take turns with the same calls of
tf.train.Saver in the same directory.  Ours brings a checkpoint to the disk before it says that it
is saved; TensorFlow leaves that to the operating system, so the time until its files are on the
disk is told, too.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.figures import MIB
from benchmarks.memory import peak_bytes
from benchmarks.processes import Process
from benchmarks.report import PAGE, write_part

RUNTIMES = ("tideflow", "tensorflow")
# What is told of each runtime: key, words, unit.
ROWS = (
    ("save_s", "save", "s"),
    ("on_disk_s", "save, until it is on the disk", "s"),
    ("restore_s", "restore", "s"),
    ("again_s", "restore over the values of before", "s"),
    ("save_memory", "memory beside the variables, save", "%"),
    ("restore_memory", "memory beside the variables, restore", "%"),
    ("size", "size of the files", "MiB"),
)


def imported(runtime: str) -> Any:
    """Return a runtime's v1 module."""
    if runtime == "tideflow":
        import tideflow.v1 as tf  # noqa: PLC0415  (each process has one of the two)
    else:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow.compat.v1 as tf  # noqa: PLC0415
    return tf


def forget_peak() -> int:
    """Let the kernel count this process's peak of memory anew; return what it has now."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes(os.getpid(), "VmRSS")


def serve(runtime: str, directory: Path, variables: int, size_mib: int) -> None:
    """Answer "save" and "restore" with what they took, until the input ends."""
    tf = imported(runtime)
    elements = size_mib * MIB // 4
    with tf.Graph().as_default():
        rng = np.random.default_rng(0)
        given = tf.placeholder(tf.float32, [elements])
        made = [
            tf.get_variable(f"v{i}", initializer=tf.zeros([elements])) for i in range(variables)
        ]
        fill = [tf.assign(v, given).op for v in made]
        saver = tf.train.Saver(max_to_keep=1)
        with tf.Session() as session:
            for one in fill:
                session.run(one, {given: rng.random(elements, np.float32)})
            tf.get_default_graph().finalize()
            print("ready", flush=True)
            for line in sys.stdin:
                found = CALLS[line.strip()](tf, session, saver, directory)
                print(json.dumps(found), flush=True)


def save(tf: Any, session: Any, saver: Any, directory: Path) -> dict[str, float]:
    """Save, and tell how long it took, until the files are on the disk, too, and what memory."""
    os.sync()
    before = forget_peak()
    begin = time.perf_counter()
    path = saver.save(session, str(directory / "m"), write_meta_graph=False)
    saved = time.perf_counter() - begin
    peak = peak_bytes(os.getpid(), "VmHWM") - before
    for file in directory.iterdir():
        with open(file, "rb") as opened:
            os.fsync(opened.fileno())
    on_disk = time.perf_counter() - begin
    size = sum(file.stat().st_size for file in directory.iterdir())
    assert path == str(directory / "m")
    return {"save_s": saved, "on_disk_s": on_disk, "save_memory": peak, "size": size}


def restore(tf: Any, session: Any, saver: Any, directory: Path) -> dict[str, float]:
    """Restore into the variables of a new session, and once more over these values.

    Tell how long both took, and what memory the second one.
    """
    gc.collect()  # what the session before it held is free then
    with tf.Session(graph=session.graph) as other:
        begin = time.perf_counter()
        saver.restore(other, str(directory / "m"))
        restored = time.perf_counter() - begin
        before = forget_peak()
        begin = time.perf_counter()
        saver.restore(other, str(directory / "m"))
        again = time.perf_counter() - begin
        peak = peak_bytes(os.getpid(), "VmHWM") - before
    return {"restore_s": restored, "again_s": again, "restore_memory": peak}


CALLS = {"save": save, "restore": restore}


def measure(variables: int, size_mib: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the medians of what each runtime told, memory and size in bytes."""
    told: dict[str, dict[str, list[float]]] = {name: {} for name in RUNTIMES}
    with contextlib.ExitStack() as stack:
        at = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="checkpoint-")))
        children = {}
        for name in RUNTIMES:
            (at / name).mkdir()
            arguments = ["--serve", name, f"--at={at / name}"]
            sizes = [f"--variables={variables}", f"--size={size_mib}"]
            child = Process(*arguments, *sizes, module="benchmarks.checkpoint")
            children[name] = stack.enter_context(contextlib.closing(child))
        for child in children.values():
            child.answer("ready")
        for number in range(rounds + 1):
            for name, child in children.items():
                for call in CALLS:
                    child.tell(call)
                    found = json.loads(child.answer("{"))
                    if number:  # the first warms up
                        for key, value in found.items():
                            told[name].setdefault(key, []).append(value)
        shutil.rmtree(at, ignore_errors=True)
    return {
        name: {key: statistics.median(values) for key, values in found.items()}
        for name, found in told.items()
    }


def as_markdown(found: dict[str, dict[str, float]], held: int, rounds: int) -> str:
    """Return the table of a page."""
    lines = [
        f"`python -m benchmarks.checkpoint`: {held // MIB} MiB of variables, medians of {rounds} "
        "rounds in turns.",
        "",
        "| | tideflow | TensorFlow | ratio |",
        "|---|---:|---:|---:|",
    ]
    for key, words, unit in ROWS:
        ours, theirs = (found[name][key] for name in RUNTIMES)
        scale = {"s": 1.0, "%": held / 100, "MiB": float(MIB)}[unit]
        digits = 2 if unit == "s" else 1
        cells = [f"{value / scale:.{digits}f} {unit}" for value in (ours, theirs)]
        ratio = f"{ours / theirs:.2f}" if unit != "%" else ""
        lines.append(f"| {words} | {cells[0]} | {cells[1]} | {ratio} |")
    return "\n".join(lines)


def main() -> int:
    """Run the benchmark, or serve it as a child."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoint", description=__doc__)
    parser.add_argument("--variables", type=int, default=16, help="how many (16)")
    parser.add_argument("--size", type=int, default=64, metavar="MIB", help="of each (64)")
    parser.add_argument("--rounds", type=int, default=5, help="how often (5)")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    parser.add_argument("--serve", choices=RUNTIMES, help=argparse.SUPPRESS)
    parser.add_argument("--at", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.at, options.variables, options.size)
        return 0
    console = Console()
    with console.status("saving and restoring"):
        found = measure(options.variables, options.size, options.rounds)
    text = as_markdown(found, options.variables * options.size * MIB, options.rounds)
    console.print(text, markup=False)
    if options.write:
        write_part(PAGE, "checkpoint", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
