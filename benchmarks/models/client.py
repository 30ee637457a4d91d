"""The process in which one model is trained, and that tells what each step took.

    python -m benchmarks.models.client train RUNTIME JSON

It says "loaded", is told its target and its servers in a line of JSON, trains, and answers with
another one.  It ends with the process that started it.  Servers are those of `benchmarks.runtimes`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.memory import peak_bytes
from benchmarks.models.compiling import CompilingProcess, cpu_s
from benchmarks.models.networks import NETWORKS, Batch
from benchmarks.models.runs import Effort
from benchmarks.models.training import SHAPES, TrainStep
from benchmarks.runtimes import end_with_parent, load

_TF2 = ("function", "eager")
_FEWEST, _MOST = 10, 2000


def _load(runtime: str, shape: str) -> Any:
    if shape == "bare":
        from benchmarks.models import bare  # noqa: PLC0415 - others must not load jax

        return bare
    if shape not in _TF2:
        return load(runtime)
    if runtime == "tensorflow":
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
        import tensorflow as tf  # noqa: PLC0415 - only one of the two is loaded
    else:
        import tideflow as tf  # noqa: PLC0415 - only one of the two is loaded
    return tf


def _forget_peak(pid: int) -> None:
    """Let the kernel count the most memory of a process from now on."""
    # Some containers forbid it; then the peak of the import counts, too.
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def train(
    tf: Any,
    shape: str,
    model: str,
    effort: Effort,
    rate: float = 1.0,
    target: str = "",
    servers: list[int] | None = None,
    cluster: dict[str, list[str]] | None = None,
) -> dict[str, Any]:
    """Train from a cold start, then hot; return what `Run` takes.

    Args:
      rate: the learning rate, where the model's own is 1.
      servers: the ids of the processes whose time and memory count as well.
      cluster: the addresses of the cluster whose worker this process is to be.
    """
    pids = [os.getpid(), *(servers or [])]
    network = NETWORKS[model]()
    network = replace(network, rate=network.rate * rate)
    batches = network.batches()
    for pid in pids:
        _forget_peak(pid)
    held = sum(peak_bytes(pid, "VmRSS") for pid in pids)
    if cluster is not None:
        spec = tf.train.ClusterSpec(cluster)
        worker = tf.train.Server(spec, job_name="worker", task_index=0)
        target = worker.target
    cache = os.environ.get("TIDEFLOW_JIT_CACHE", "off")
    compiling = CompilingProcess(None if cache == "off" else cache)
    if shape == "bare":
        step: TrainStep = tf.train_step(network)
    else:
        step = SHAPES[shape](tf, network, target, next(network.batches()))
    times: list[float] = []
    cpu: list[float] = []
    losses: list[float] = []
    started = time.perf_counter()
    used = _taken_s(pids, compiling)
    while len(times) < effort.steps and time.perf_counter() - started < effort.limit_s:
        batch = next(batches)
        began = time.perf_counter()
        losses.append(step(batch))
        times.append(time.perf_counter() - began)
        before, used = used, _taken_s(pids, compiling)
        cpu.append(used - before)
    warm_s = min(effort.warm_s, effort.limit_s)
    while time.perf_counter() - started < warm_s:
        step(next(batches))
        compiling.cpu_s()  # its memory, which is gone once it has ended
    hot = _hot(step, batches, effort.hot_s)
    memory = sum(peak_bytes(pid, "VmHWM") for pid in pids)
    return {
        "steps": times,
        "cpu": cpu,
        "losses": losses,
        "hot": hot,
        "memory": memory + compiling.memory,
        "held": held,
    }


def _taken_s(pids: Iterable[int], compiling: CompilingProcess) -> float:
    """Return the processor time of all processes so far, in seconds."""
    return sum(map(cpu_s, pids)) + compiling.cpu_s()


def _hot(step: TrainStep, batches: Iterator[Batch], seconds: float) -> list[float]:
    ends = time.perf_counter() + seconds
    times: list[float] = []
    while len(times) < _FEWEST or (time.perf_counter() < ends and len(times) < _MOST):
        batch = next(batches)
        began = time.perf_counter()
        step(batch)
        times.append(time.perf_counter() - began)
    return times


def main(arguments: list[str]) -> None:
    """Do what the command line says (see the module's text)."""
    end_with_parent()
    _, runtime, asked = arguments
    options = json.loads(asked)
    options["effort"] = Effort(**options["effort"])
    tf = _load(runtime, options["shape"])
    print("loaded", flush=True)
    told = json.loads(sys.stdin.readline())
    print(json.dumps(train(tf, **options, **told)), flush=True)
    os._exit(0)  # tearing down sessions is no part of what is measured


if __name__ == "__main__":
    main(sys.argv[1:])
