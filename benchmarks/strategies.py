"""Compare mirrored strategies over two CPU devices with TensorFlow's.

    python -m benchmarks.strategies

Prints medians and the ratio in which TensorFlow's time is 1, beside the ratio that is aimed at.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.processes import ENVIRONMENT, ROOT
from benchmarks.runtimes import hot, warm

_FLOATS = 1 << 20
# The names of the figures, and the ratios that are aimed at.
TARGETS = {
    "an empty mirrored step, traced": 0.4,
    "all-reduce and update of 4 MiB, traced": 0.5,
    "an eager strategy.run": 0.3,
}


def steps_of(tf: Any) -> dict[str, Callable[[], Any]]:
    """Return what is measured, by its name in TARGETS."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        weights = tf.Variable(tf.zeros([_FLOATS]))
    one = tf.constant(1.0)
    many = strategy.experimental_distribute_values_from_function(lambda _: tf.ones([_FLOATS]))

    def update(gradient: Any) -> None:
        total = tf.distribute.get_replica_context().all_reduce("SUM", gradient)
        weights.assign_sub(total * 1e-3)

    empty = tf.function(lambda x: strategy.run(lambda y: y, (x,)))
    updating = tf.function(lambda x: strategy.run(update, (x,)))
    runs = [
        lambda: empty(one),
        lambda: updating(many),
        lambda: strategy.run(lambda y: y, (one,)),
    ]
    return dict(zip(TARGETS, runs))


def measure(runtime: str) -> dict[str, float]:
    """Return the median seconds of each step in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.strategies", runtime],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**ENVIRONMENT, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"},
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: list[str]) -> None:
    """Measure one runtime, if it is named; else compare both."""
    if arguments:
        found = {}
        for name, step in steps_of(importlib.import_module(arguments[0])).items():
            warm(step, 100)
            times = sorted(hot(step, 300))
            found[name] = times[len(times) // 2]
        print(json.dumps(found), flush=True)
        os._exit(0)  # threads of the runtime may not end
    base, ours = measure("tensorflow"), measure("tideflow")
    print("| figure | TensorFlow | tideflow | ratio | target |\n| --- | --- | --- | --- | --- |")
    for name, target in TARGETS.items():
        ratio = ours[name] / base[name]
        print(
            f"| {name} | {base[name] * 1e6:.0f} us | {ours[name] * 1e6:.0f} us | {ratio:.3f} "
            f"| {target} |"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
