"""The process in which one model is trained, and that tells what each step took.

    python -m benchmarks.models.client train RUNTIME JSON

It says "loaded", is told its target, trains, and answers with a line of JSON.  It ends with the
process that started it.  Servers are those of `benchmarks.runtimes`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.memory import peak_bytes
from benchmarks.models.networks import NETWORKS
from benchmarks.models.training import SHAPES
from benchmarks.runtimes import end_with_parent, load

_TF2 = ("function", "eager")


def _load(runtime: str, shape: str) -> Any:
    if shape not in _TF2:
        return load(runtime)
    if runtime == "tensorflow":
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
        import tensorflow as tf  # noqa: PLC0415 - only one of the two is loaded
    else:
        import tideflow as tf  # noqa: PLC0415 - only one of the two is loaded
    return tf


def _cpu_s(pids: list[int]) -> float:
    """Return the processor time of some processes, of threads that have ended, too."""
    ticks = 0
    for pid in pids:
        # The name of the program, in brackets, may hold blanks.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def train(
    tf: Any,
    shape: str,
    model: str,
    steps: int,
    target: str,
    servers: list[int],
    warm_s: float = 10.0,
    hot_s: float = 6.0,
) -> dict[str, Any]:
    """Train for so many steps from a cold start, then hot; return what was measured.

    servers: the ids of the processes whose time and memory count as well.
    warm_s, hot_s: for how long steps go on until they count as hot, and are measured then.
    """
    pids = [os.getpid(), *servers]
    network = NETWORKS[model]()
    batches = network.batches()
    held = [peak_bytes(pid, "VmRSS") for pid in pids]
    step = SHAPES[shape](tf, network, target, next(network.batches()))
    times: list[float] = []
    losses: list[float] = []
    used_s = _cpu_s(pids)
    cpu_100_s = 0.0
    for number in range(steps):
        began = time.perf_counter()
        losses.append(step(next(batches)))
        times.append(time.perf_counter() - began)
        if number == min(99, steps - 1):
            cpu_100_s = _cpu_s(pids) - used_s
    _until(step, batches, warm_s)
    hot = _until(step, batches, hot_s)
    peaks = [peak_bytes(pid, "VmHWM") for pid in pids]
    return {
        "steps": times,
        "losses": losses,
        "hot": hot,
        "cpu_100": cpu_100_s,
        "memory": sum(peak - before for peak, before in zip(peaks, held)),
    }


def _until(step: Any, batches: Any, seconds: float) -> list[float]:
    ends = time.perf_counter() + seconds
    times: list[float] = []
    while len(times) < 10 or (time.perf_counter() < ends and len(times) < 2000):
        began = time.perf_counter()
        step(next(batches))
        times.append(time.perf_counter() - began)
    return times


def main(arguments: list[str]) -> None:
    """Do what the command line says (see the module's text)."""
    end_with_parent()
    _, runtime, told = arguments
    options = json.loads(told)
    tf = _load(runtime, options["shape"])
    print("loaded", flush=True)
    target, *pids = sys.stdin.readline().rstrip("\n").split(" ")
    found = train(tf, target=target, servers=list(map(int, pids)), **options)
    print(json.dumps(found), flush=True)
    os._exit(0)  # tearing down sessions is no part of what is measured


if __name__ == "__main__":
    main(sys.argv[1:])
