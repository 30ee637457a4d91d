"""How fast replicas run: mirrored over two CPU devices, and by a coordinator's two workers.

    python -m benchmarks.strategies [--write]

Both runtimes take turns, each in a process of its own, with servers of its own for the coordinator.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import statistics
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console

from benchmarks.processes import Cluster, Process
from benchmarks.report import PAGE, markdown_table, show, write_part
from benchmarks.runtimes import hot, warm

RUNTIMES = ("tensorflow", "tideflow")
_FLOATS = 1 << 20
_JOBS = (("ps", 1), ("worker", 2))
# Steps that a coordinator is given before it waits for them.
_SCHEDULED = 200
COORDINATED = "a step of a coordinator with two workers"
# The names of the figures, and the ratios that are aimed at.
TARGETS = {
    "an empty mirrored step, traced": 0.4,
    "all-reduce and update of 4 MiB, traced": 0.5,
    "an eager strategy.run": 0.3,
    COORDINATED: 0.33,
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


def coordinated(tf: Any, addresses: dict[str, list[str]]) -> Callable[[], Any]:
    """Return what has a coordinator's workers do _SCHEDULED steps."""
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(addresses), rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([64, 10]))
    given = tf.ones([10, 64])

    @tf.function
    def step() -> None:
        gradient = tf.matmul(given, tf.matmul(given, weights) - 1.0, transpose_a=True)
        weights.assign_sub(gradient * 1e-4)

    def run() -> None:
        for _ in range(_SCHEDULED):
            coordinator.schedule(step)
        coordinator.join()

    return run


def measure_here(runtime: str, addresses: str) -> dict[str, float]:
    """Return the median seconds of each step of a runtime, in this process."""
    tf = importlib.import_module(runtime)
    found = {}
    for name, step in steps_of(tf).items():
        warm(step, 100)
        found[name] = statistics.median(hot(step, 300))
    run = coordinated(tf, json.loads(addresses))
    warm(run, 3)
    found[COORDINATED] = statistics.median(hot(run, 10)) / _SCHEDULED
    return found


def measure(runtime: str) -> dict[str, float]:
    """Return the median seconds of each step, in a process of its own with servers of its own."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(contextlib.closing(Cluster(runtime, _JOBS)))
        child = Process(runtime, json.dumps(cluster.addresses), module="benchmarks.strategies")
        stack.enter_context(contextlib.closing(child))
        found: dict[str, float] = json.loads(child.answer("{"))
        return found


def as_markdown(found: dict[str, list[dict[str, float]]]) -> str:
    """Return the table of a page, of what the rounds of each runtime have given."""
    rows = []
    for name, target in TARGETS.items():
        theirs, ours = (statistics.median(one[name] for one in found[r]) for r in RUNTIMES)
        rows.append([name, show(theirs), show(ours), f"{ours / theirs:.2f}", f"{target:.2f}"])
    command = f"`python -m benchmarks.strategies`: medians of {len(found[RUNTIMES[0]])} rounds."
    heads = ["", "TensorFlow", "tideflow", "ratio", "aimed at"]
    return f"{command}\n\n{markdown_table(heads, rows)}"


def main() -> int:
    """Compare both runtimes, or measure one as a child."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strategies", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often (3)")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    parser.add_argument("runtime", nargs="?", choices=RUNTIMES, help=argparse.SUPPRESS)
    parser.add_argument("addresses", nargs="?", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.runtime:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        print(json.dumps(measure_here(options.runtime, options.addresses)), flush=True)
        os._exit(0)  # threads of the runtime may not end
    console = Console()
    found: dict[str, list[dict[str, float]]] = {runtime: [] for runtime in RUNTIMES}
    with console.status("running replicas"):
        for _ in range(options.rounds):
            for runtime in RUNTIMES:
                found[runtime].append(measure(runtime))
    text = as_markdown(found)
    console.print(text, markup=False)
    if options.write:
        write_part(PAGE, "strategies", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
