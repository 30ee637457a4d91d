"""How fast eager programs are, here and on workers: operations, copies, functions.

    python -m benchmarks.eager [--write]

Each runtime has two workers and a client of its own, which take turns; the others' are held still.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from rich.console import Console

from benchmarks.processes import Cluster, Process
from benchmarks.report import PAGE, markdown_table, show, write_part

RUNTIMES = ("tensorflow", "tideflow")
_W0, _W1 = "/job:worker/task:0", "/job:worker/task:1"
# Operations of which only the last is read, as "streaming".
_STREAMED = 2000


def local_op(tf: Any) -> Callable[[], object]:
    """One of many operations in this process, of which the last is read."""
    start = tf.constant(1.0)

    def step() -> object:
        x = start
        for _ in range(_STREAMED):
            x = x + start
        return x.numpy()

    return step


def local_function(tf: Any) -> Callable[[], object]:
    """A training step of a small network as a function, in this process."""
    sizes = (64, 128, 10)
    weights = [
        tf.Variable(tf.random.stateless_normal(shape, [1, 2]) * 0.1) for shape in pairwise(sizes)
    ]
    images = tf.random.stateless_normal([64, sizes[0]], [3, 4])
    labels = tf.range(64) % sizes[-1]

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.matmul(images, weights[0]))
            logits = tf.matmul(hidden, weights[1])
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.01 * gradient)
        return loss

    return lambda: step().numpy()


def remote_op(tf: Any) -> Callable[[], object]:
    """An operation on a worker, read back."""
    with tf.device(_W0):
        x = tf.constant(1.0) + 1.0

    def step() -> object:
        with tf.device(_W0):
            return (x + x).numpy()

    return step


def streamed_op(tf: Any) -> Callable[[], object]:
    """One of many operations on a worker, of which the last is read back."""
    with tf.device(_W0):
        start = tf.constant(1.0) + 1.0

    def step() -> object:
        x = start
        with tf.device(_W0):
            for _ in range(_STREAMED):
                x = x + start
        return x.numpy()

    return step


def copy(tf: Any) -> Callable[[], object]:
    """A copy to another worker, read back from there."""
    with tf.device(_W0):
        x = tf.constant([1.0, 2.0]) + 1.0

    def step() -> object:
        with tf.device(_W1):
            return tf.identity(x).numpy()

    return step


def function(tf: Any) -> Callable[[], object]:
    """A function whose nodes and variables are on two workers."""
    with tf.device(_W0):
        v = tf.Variable([1.0, 2.0])
    with tf.device(_W1):
        w = tf.Variable([3.0, 4.0])

    @tf.function
    def called(x: Any) -> Any:
        with tf.device(_W0):
            y = x * v
        with tf.device(_W1):
            return y + w

    x = tf.constant([1.0, 1.0])
    return lambda: called(x).numpy()


# What is timed: the program, how often, how many operations a step has, what ratio is aimed at.
ROWS: dict[str, tuple[Callable[[Any], Callable[[], object]], int, int, float]] = {
    "local operation": (local_op, 20, _STREAMED, 1.0),
    "local function, training step of MLP 64-128-10": (local_function, 300, 1, 0.5),
    "operation on a worker, read back": (remote_op, 300, 1, 0.25),
    "operation on a worker, of many": (streamed_op, 4, _STREAMED, 0.2),
    "copy to another worker, read back": (copy, 200, 1, 0.25),
    "function over two workers": (function, 200, 1, 0.2),
}


def measure_here(runtime: str, addresses: str) -> None:
    """Join a cluster, and answer each "go" with the median seconds of each row as JSON."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf = importlib.import_module(runtime)
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(json.loads(addresses)))
    steps = {name: make(tf) for name, (make, _, _, _) in ROWS.items()}
    print("ready", flush=True)
    for _ in sys.stdin:
        found = {}
        for name, (_, count, operations, _) in ROWS.items():
            times = []
            for _ in range(count):
                started_s = time.perf_counter()
                steps[name]()
                times.append(time.perf_counter() - started_s)
            found[name] = statistics.median(times) / operations
        print(json.dumps(found), flush=True)


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Return the median seconds of each row by runtime."""
    told: dict[str, dict[str, list[float]]] = {
        runtime: {name: [] for name in ROWS} for runtime in RUNTIMES
    }
    with contextlib.ExitStack() as stack:
        clusters, clients = {}, {}
        for runtime in RUNTIMES:
            clusters[runtime] = stack.enter_context(
                contextlib.closing(Cluster(runtime, (("worker", 2),)))
            )
            arguments = ("--join", runtime, "--addresses", json.dumps(clusters[runtime].addresses))
            client = Process(*arguments, module="benchmarks.eager")
            clients[runtime] = stack.enter_context(contextlib.closing(client))
            client.answer("ready")
            clusters[runtime].hold(still=True)
        for number in range(rounds + 1):
            for runtime in RUNTIMES:
                clusters[runtime].hold(still=False)
                clients[runtime].tell("go")
                found = json.loads(clients[runtime].answer("{"))
                clusters[runtime].hold(still=True)
                if number:  # the first warms up
                    for name, seconds in found.items():
                        told[runtime][name].append(seconds)
    return {
        runtime: {name: statistics.median(times) for name, times in found.items()}
        for runtime, found in told.items()
    }


def as_markdown(found: dict[str, dict[str, float]], rounds: int) -> str:
    """Return the table of a page."""
    heads = ["", "TensorFlow", "tideflow", "ratio", "aimed at"]
    rows = []
    for name, (_, _, _, target) in ROWS.items():
        theirs, ours = (found[runtime][name] for runtime in RUNTIMES)
        rows.append([name, show(theirs), show(ours), f"{ours / theirs:.2f}", f"{target:.2f}"])
    command = f"`python -m benchmarks.eager`: medians of {rounds} rounds in turns."
    return f"{command}\n\n{markdown_table(heads, rows)}"


def main() -> int:
    """Run the benchmark, or be a client of it as a child."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.eager", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often (5)")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    parser.add_argument("--join", choices=RUNTIMES, help=argparse.SUPPRESS)
    parser.add_argument("--addresses", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.join:
        measure_here(options.join, options.addresses)
        return 0
    console = Console()
    with console.status("calling workers"):
        found = measure(options.rounds)
    text = as_markdown(found, options.rounds)
    console.print(text, markup=False)
    if options.write:
        write_part(PAGE, "eager", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
