"""What runs in processes of its own: a server, or a client that is measured.

    python -m benchmarks.runtimes serve RUNTIME CLUSTER_JSON JOB TASK
    python -m benchmarks.runtimes measure RUNTIME LOAD_JSON

Both talk over their standard streams, a line at a time, and end when their input does, so none
outlives the benchmark.  A server says "ready".  A client says "loaded", is told its target, says
"warm", is told "go", and answers with what it measured, as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from typing import Any

from benchmarks.programs import PROGRAMS, Step

RUNTIMES = ("tensorflow", "tideflow")
# "before" is tideflow from another checkout.
MODULES = {
    "tensorflow": "tensorflow.compat.v1",
    "tideflow": "tideflow.v1",
    "before": "tideflow.v1",
}
# What is compiled in the background is to be ready when the steps are timed: the longest program of
# these, the chain, is hot after 0.2 s and compiled 1.2 s later.
_WARM_S = 3.0
_LIMIT_S = 4.0
_FEWEST = 5


def end_with_parent() -> None:
    """Have the kernel (Linux) kill this process when the one that started it ends, however."""
    if sys.platform == "linux":
        death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(death_signal, signal.SIGKILL)


def load(runtime: str) -> Any:
    """Return the v1 API module of a runtime."""
    if runtime != "tensorflow":
        import tideflow.v1 as tf  # noqa: PLC0415 - only one of the two is loaded

        return tf
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    import tensorflow.compat.v1 as tf  # noqa: PLC0415 - only one of the two is loaded

    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    return tf


def timed(step: Step) -> float:
    """Return the seconds that one step takes."""
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def warm(step: Step, steps: int) -> None:
    """Run a tenth of the steps, and for a while."""
    ends = time.perf_counter() + _WARM_S
    count = 0
    while count < max(_FEWEST, steps // 10) or time.perf_counter() < ends:
        step()
        count += 1


def hot(step: Step, steps: int) -> list[float]:
    """Return the seconds of each of so many steps; of fewer where they take long."""
    ends = time.perf_counter() + _LIMIT_S
    times: list[float] = []
    while len(times) < steps and (len(times) < _FEWEST or time.perf_counter() < ends):
        times.append(timed(step))
    return times


def _measure(tf: Any, program: str, arguments: dict[str, Any], steps: int) -> None:
    print("loaded", flush=True)
    target = sys.stdin.readline().strip()
    step = PROGRAMS[program](tf, target, **arguments)
    first = timed(step)
    if steps:
        warm(step, steps)
    print("warm", flush=True)
    if sys.stdin.readline():
        print(json.dumps({"first": first, "step": hot(step, steps)}), flush=True)


def _serve(tf: Any, cluster: str, job: str, task: int) -> None:
    config = tf.ConfigProto()
    # Without it TensorFlow's collectives do not leave a task.
    config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
    server = tf.train.Server(
        tf.train.ClusterSpec(json.loads(cluster)), job_name=job, task_index=task, config=config
    )
    threading.Thread(target=server.join, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


def main(arguments: list[str]) -> None:
    """Do what the command line says (see the module's text)."""
    end_with_parent()
    command, runtime, *rest = arguments
    tf = load(runtime)
    if command == "serve":
        _serve(tf, rest[0], rest[1], int(rest[2]))
    else:
        _measure(tf, **json.loads(rest[0]))
    # Tearing down sessions and servers is no part of what is measured.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
